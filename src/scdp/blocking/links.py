"""Links: estimates of rules go in; those whose pairs are almost surely true come out, and what they add."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp.blocking.estimates import Estimate, Sample

LEAST_PRECISION = 0.9
LEAST_GAIN = 0.01
MOST_RULES = 8


def chosen_links(sample: Sample, estimates: Sequence[Estimate]) -> list[int]:
    """Rules of high precision that together keep as many pairs as they can, the fewest false ones first."""
    precise = [rule for rule, found in enumerate(estimates) if sample.precision(found) >= LEAST_PRECISION]
    missing = np.ones(len(sample.left), dtype=bool)
    chosen: list[int] = []
    while len(chosen) < MOST_RULES:
        gains = {rule: float((estimates[rule].kept & missing).mean()) for rule in precise}
        good = [rule for rule in precise if gains[rule] >= LEAST_GAIN]
        if not good:
            break
        # The sum keeps a small rule without false pairs from being chosen before a large one with a few.
        best = max(
            good,
            key=lambda rule: gains[rule] / (_false(sample, estimates[rule]) + 0.05 * sample.n_stands_for),
        )
        chosen.append(best)
        missing &= ~estimates[best].kept
    return chosen


def _false(sample: Sample, estimate: Estimate) -> float:
    return estimate.candidates * (1 - sample.precision(estimate))


@kernel
def kept_through_links(
    kept: NDArray[np.bool_], links: NDArray[np.bool_], cluster_sizes: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """The true pairs that a rule keeps, and those that are one link away from one of them.

    Pairs are those of whole clusters, by first and then second record. Links through records of another
    entity are not counted.
    """
    reached = kept.copy()
    start = 0
    for size in cluster_sizes:
        by_rule = np.zeros((size, size), dtype=np.bool_)
        by_link = np.zeros((size, size), dtype=np.bool_)
        pair = start
        for i in range(size):
            for j in range(i + 1, size):
                by_rule[i, j] = by_rule[j, i] = kept[pair]
                by_link[i, j] = by_link[j, i] = links[pair]
                pair += 1
        pair = start
        for i in range(size):
            for j in range(i + 1, size):
                for k in range(size):
                    if (by_rule[i, k] and by_link[k, j]) or (by_link[i, k] and by_rule[k, j]):
                        reached[pair] = True
                        break
                pair += 1
        start = pair
    return reached
