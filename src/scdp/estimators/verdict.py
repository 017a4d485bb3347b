"""The verdict on trust: what was labelled, the draws and the answer enter; a colour and its reasons leave.

It is judged on the records that were clustered. Green is never given because held-out pairs were easy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from scdp.estimators.result import Calibration, ClusterResult

Colour = Literal["green", "amber", "red"]

LEVEL = 0.9
# Labelled clusters of two records or more: fewer than the first number teach hardly anything, than the second little.
VERY_FEW, FEW = 5, 20
# Expected F of the answer below which it is not to be trusted, or with care.
POOR, FAIR = 0.7, 0.9
# The width of the interval of the number of clusters as a share of it.
VERY_WIDE, WIDE = 0.3, 0.08
# A cluster with this share of all records, and so many, holds records together by a chain of doubtful links.
HAIRBALL_SHARE, HAIRBALL_RECORDS = 0.25, 100
# A bin of fewer held-out pairs says little; one this far from what was predicted is off.
FEWEST_PAIRS, LARGEST_GAP = 20, 0.15
MOST_CHECKED = 200_000


@dataclass(frozen=True)
class Verdict:
    """How far a result can be trusted, and why."""

    colour: Colour
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return f"{WORDS[self.colour]} {' '.join(self.reasons)}"


WORDS = {
    "green": "Green: the answer and its interval can be trusted.",
    "amber": "Amber: take the answer with care.",
    "red": "Red: do not rely on this answer.",
}


def judge(result: ClusterResult) -> Verdict:
    """The verdict on a clustering of records."""
    found = [
        *_judge_labels(result),
        *_judge_interval(result),
        *_judge_expected(result),
        *_judge_sizes(result),
        *_judge_held_out(result.learned.calibration),
        *_judge_chains(result),
    ]
    if not found:
        low, high = result.posterior.n_clusters_interval(LEVEL)
        return Verdict("green", (f"The number of clusters lies between {low:,} and {high:,} (90 %).",))
    colour: Colour = "red" if any(grave for grave, _ in found) else "amber"
    ordered = [reason for grave, reason in found if grave] + [reason for grave, reason in found if not grave]
    return Verdict(colour, tuple(ordered))


Reason = tuple[bool, str]


def _judge_labels(result: ClusterResult) -> list[Reason]:
    n = result.learned.n_repeated
    if n is None or n >= FEW:
        return []
    wanted = max(FEW - n, 1)
    return [
        (
            n < VERY_FEW,
            f"Only {n} labelled clusters have two records or more; label about {wanted} more such clusters.",
        )
    ]


def _judge_interval(result: ClusterResult) -> list[Reason]:
    low, high = result.posterior.n_clusters_interval(LEVEL)
    n, reasons = result.n_clusters, []
    if not low <= n <= high:
        off = max(low - n, n - high) / max(n, 1)
        reasons.append(
            (
                off > WIDE,
                f"The answer has {n:,} clusters, outside its own 90 % interval of {low:,} to {high:,}.",
            )
        )
    width = (high - low) / max(n, 1)
    if width > WIDE and high - low > 2:
        reasons.append(
            (
                width > VERY_WIDE,
                f"The number of clusters is not well known: {low:,} to {high:,} (90 %). More labels make it narrower.",
            )
        )
    return reasons


def _judge_expected(result: ClusterResult) -> list[Reason]:
    expected = result.expected["f"]["mean"]
    if np.isnan(expected) or expected >= FAIR:
        return []
    return [
        (
            expected < POOR,
            f"The expected F of the answer is {expected:.2f}: many pairs could be the same or not.",
        )
    ]


def _judge_sizes(result: ClusterResult) -> list[Reason]:
    largest = int(result.sizes[0]) if len(result.sizes) else 0
    if largest < HAIRBALL_RECORDS or largest < HAIRBALL_SHARE * result.n_records:
        return []
    members = np.flatnonzero(result.labels == _most_common(result))
    if float(result.probabilities[members].mean()) > LEVEL:
        return []
    return [(True, f"One cluster holds {largest:,} of {result.n_records:,} records by doubtful links.")]


def _most_common(result: ClusterResult) -> object:
    names, counts = np.unique(result.labels.astype(str), return_counts=True)
    return names[int(np.argmax(counts))]


def _judge_held_out(calibration: Calibration | None) -> list[Reason]:
    if calibration is None:
        return []
    # Pairs that are as good as certain are easy: only those in doubt tell whether probabilities hold.
    inner = np.flatnonzero(calibration.count >= FEWEST_PAIRS)
    inner = inner[(calibration.edges[inner] >= 0.1) & (calibration.edges[inner + 1] <= 0.9)]
    if not len(inner):
        return []
    weight = calibration.count[inner]
    gap = float((weight * (calibration.predicted[inner] - calibration.observed[inner])).sum() / weight.sum())
    if abs(gap) <= LARGEST_GAP:
        return []
    side = "too high" if gap > 0 else "too low"
    return [(False, f"On held-out labelled clusters, probabilities in doubt were {side} by {abs(gap):.2f}.")]


def _judge_chains(result: ClusterResult) -> list[Reason]:
    if result.independent_draws:
        return []
    problem = result.posterior.convergence_warning()
    return [] if problem is None else [(False, problem)]
