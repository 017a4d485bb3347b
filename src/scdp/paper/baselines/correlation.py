"""Correlation clustering: scores (n, n), positive for "together", enter; a partition of high total score leaves.

The score of a partition is the sum over pairs that are together. Finding the best is NP-hard; we merge greedily the
two clusters with the highest total score between them while it is positive, then move single items while that helps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel

Floats = NDArray[np.float64]


@kernel
def merge_greedily(scores: Any) -> Any:
    """`scores` (n, n) is symmetric and is overwritten. Labels are numbers of some member."""
    n = scores.shape[0]
    labels = np.arange(n)
    alive = np.ones(n, dtype=np.bool_)
    partner = np.zeros(n, dtype=np.int64)
    for i in range(n):
        partner[i] = best_partner(scores, alive, i)
    while True:
        best, first = 0.0, -1
        for i in range(n):
            if alive[i] and partner[i] >= 0 and scores[i, partner[i]] > best:
                best, first = scores[i, partner[i]], i
        if first < 0:
            return labels
        second = partner[first]
        alive[second] = False
        for i in range(n):
            if labels[i] == second:
                labels[i] = first
            scores[first, i] += scores[second, i]
            scores[i, first] = scores[first, i]
        partner[first] = best_partner(scores, alive, first)
        for i in range(n):
            # Only the scores with the merged cluster changed.
            if alive[i] and i != first:
                if partner[i] == first or partner[i] == second:
                    partner[i] = best_partner(scores, alive, i)
                elif partner[i] < 0 or scores[i, first] > scores[i, partner[i]]:
                    partner[i] = first


@kernel
def best_partner(scores: Any, alive: Any, i: int) -> Any:
    """The living cluster other than i with the highest score, or -1 if there is none."""
    found = -1
    for j in range(scores.shape[0]):
        if alive[j] and j != i and (found < 0 or scores[i, j] > scores[i, found]):
            found = j
    return found


@kernel
def move_items(scores: Any, labels: Any, n_rounds: int) -> Any:
    """Move each item to the cluster (or a new one) where its total is highest, until nothing moves."""
    n = scores.shape[0]
    sizes = np.zeros(n, dtype=np.int64)
    for i in range(n):
        sizes[labels[i]] += 1
    totals = np.zeros(n)
    for _ in range(n_rounds):
        moved = False
        for i in range(n):
            totals[:] = 0.0
            for j in range(n):
                if j != i:
                    totals[labels[j]] += scores[i, j]
            sizes[labels[i]] -= 1
            best, where = totals[labels[i]] + 1e-9, labels[i]
            for label in range(n):
                # An empty label has total 0: the item alone.
                if totals[label] > best:
                    best, where = totals[label], label
            moved = moved or where != labels[i]
            labels[i] = where
            sizes[where] += 1
        if not moved:
            break
    return labels


def correlation_clustering(scores: Floats, n_rounds: int = 20) -> NDArray[np.int64]:
    """Greedy merges, then moves of single items; the diagonal is not looked at."""
    merged = merge_greedily(scores.copy())
    return np.asarray(move_items(scores, merged, n_rounds), dtype=np.int64)
