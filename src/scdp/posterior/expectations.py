"""How good an answer is under the draws: a partition and draws enter, metrics with intervals leave.

Each draw is taken as the truth in turn. Pairs of two known items are given and not judged; nor are known items by
B-cubed, though they count among those that a hidden item is together with.
"""

from __future__ import annotations

import numpy as np

from scdp._compile import kernel
from scdp._parallel import count_workers, map_in_threads
from scdp._typing import Booleans, Floats, Integers, SmallIntegers
from scdp.posterior.canonical import Labels
from scdp.posterior.components import grouped
from scdp.posterior.draws import StoredDraws

ExpectedMetrics = dict[str, dict[str, float]]


def estimate_metrics(stored: StoredDraws, labels: Labels, level: float) -> ExpectedMetrics:
    """Mean and central interval of each metric of canonical labels over all draws."""
    tails = [(1.0 - level) / 2.0, (1.0 + level) / 2.0]
    values = {**measure_metrics(stored, labels), "n_clusters": stored.n_clusters.ravel().astype(np.float64)}
    found = {}
    for name, each in values.items():
        low, high = np.quantile(each, tails, method="inverted_cdf")
        found[name] = {"mean": float(each.mean()), "low": float(low), "high": float(high)}
    return found


def measure_metrics(stored: StoredDraws, labels: Labels) -> dict[str, Floats]:
    """The metrics of canonical labels against each draw, in the chain-major order."""
    order, bounds = grouped(labels)
    is_known = stored.known >= 0

    def measure(chunk: tuple[slice, SmallIntegers]) -> tuple[slice, Floats]:
        place, draws = chunk
        out = np.empty((len(draws), 4))
        compare_with_draws(draws, int(stored.n_clusters.max()), order, bounds, is_known, out)
        return place, out

    counts = np.empty((stored.n_chains * stored.n_draws, 4))
    for place, found in map_in_threads(measure, stored.label_chunks(), count_workers(-1)):
        counts[place] = found
    right, true, precision, recall = counts.T
    links = count_judged_pairs(
        bounds, np.add.reduceat(is_known[order], bounds[:-1]) if len(order) else bounds
    )
    harmonic = 2.0 * precision * recall / (precision + recall)
    return {
        "precision": divide(right, np.full_like(right, links)),
        "recall": divide(right, true),
        "f": divide(2.0 * right, true + links),
        "b_cubed_precision": precision,
        "b_cubed_recall": recall,
        "b_cubed": harmonic,
    }


def count_judged_pairs(bounds: Integers, n_known: Integers) -> float:
    """The pairs within clusters that begin at `bounds` and hold so many known items, but for pairs of known ones."""
    sizes, known = np.diff(bounds), n_known[: len(bounds) - 1].astype(np.int64)
    return float((sizes * (sizes - 1) // 2 - known * (known - 1) // 2).sum())


def divide(part: Floats, whole: Floats) -> Floats:
    """A share of nothing is 1: what was not linked was not linked wrongly."""
    return np.divide(part, whole, out=np.ones_like(part), where=whole > 0.0)


# What is counted of a draw's cluster: its items, the known among them; and those in a cluster of the partition.
SIZE, KNOWN, SHARED, SHARED_KNOWN = range(4)


@kernel
def compare_with_draws(
    draws: SmallIntegers, n_labels: int, order: Integers, bounds: Integers, is_known: Booleans, out: Floats
) -> None:
    """For each draw: right links, true pairs, B-cubed precision and recall of a partition (`order`, `bounds`)."""
    # Side by side in memory, as all that is counted of a cluster is asked for together.
    counts = np.zeros((n_labels, 4), np.int32)
    n_hidden = len(order) - is_known.sum()
    for draw in range(draws.shape[0]):
        row = draws[draw]
        true, right, precision, recall = 0, 0, 0.0, 0.0
        for item in range(len(row)):
            label = row[item]
            # Pairs with all before, but for those of a known item with known ones.
            true += counts[label, SIZE] - is_known[item] * counts[label, KNOWN]
            counts[label, SIZE] += 1
            counts[label, KNOWN] += is_known[item]
        for cluster in range(len(bounds) - 1):
            members = order[bounds[cluster] : bounds[cluster + 1]]
            for item in members:
                label = row[item]
                right += counts[label, SHARED] - is_known[item] * counts[label, SHARED_KNOWN]
                counts[label, SHARED] += 1
                counts[label, SHARED_KNOWN] += is_known[item]
            for item in members:
                label = row[item]
                judged = (counts[label, SHARED] - counts[label, SHARED_KNOWN]) * np.float64(
                    counts[label, SHARED]
                )
                precision += judged / len(members)
                recall += judged / counts[label, SIZE]
                counts[label, SHARED], counts[label, SHARED_KNOWN] = 0, 0
        counts[:] = 0
        out[draw, 0], out[draw, 1] = right, true
        out[draw, 2] = precision / n_hidden if n_hidden else 1.0
        out[draw, 3] = recall / n_hidden if n_hidden else 1.0
