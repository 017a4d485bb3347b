"""k-means without coordinates: squared distances (n, n) and k enter, labels leave.

The squared distance of an item to the mean of a cluster is mean_j d2(i, j) - 1/2 mean_jj' d2(j, j') over its members
(the paper's footnote identity for one item and one cluster), so Lloyd's steps need no embedding.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scdp.paper.baselines.surface import Labels

Floats = NDArray[np.float64]


def implicit_k_means(
    squared: Floats, n_clusters: int, rng: np.random.Generator, n_starts: int = 10, n_steps: int = 100
) -> Labels:
    """The best of several starts by the sum of squared distances to the means."""
    if n_clusters >= len(squared):
        return np.arange(len(squared))
    best, lowest = np.zeros(len(squared), dtype=np.int64), np.inf
    for _ in range(n_starts):
        labels, inertia = _lloyd(squared, _seeds(squared, n_clusters, rng), n_steps)
        if inertia < lowest:
            best, lowest = labels, inertia
    return best


def to_means(squared: Floats, labels: Labels, n_clusters: int) -> Floats:
    """Squared distance (items, clusters) of every item to the mean of every cluster; none may be empty."""
    member = np.zeros((len(labels), n_clusters))
    member[np.arange(len(labels)), labels] = 1.0
    sizes = member.sum(axis=0)
    sums = squared @ member
    inside = np.einsum("ik,ik->k", member, sums)
    return sums / sizes - inside / (2 * sizes**2)


def _seeds(squared: Floats, n_clusters: int, rng: np.random.Generator) -> Labels:
    """k-means++: each next seed is drawn by its squared distance to the nearest one; then the nearest seed."""
    first = int(rng.integers(len(squared)))
    seeds, nearest = [first], squared[first].copy()
    while len(seeds) < n_clusters:
        nearest[seeds] = 0.0
        total = nearest.sum()
        rest = np.setdiff1d(np.arange(len(squared)), seeds)
        # Where all that is left lies on a seed, any item is as good as another.
        seed = int(rng.choice(len(squared), p=nearest / total)) if total > 0 else int(rng.choice(rest))
        seeds.append(seed)
        nearest = np.minimum(nearest, squared[seed])
    labels = np.argmin(squared[:, seeds], axis=1)
    labels[seeds] = np.arange(n_clusters)
    return labels


def _lloyd(squared: Floats, labels: Labels, n_steps: int) -> tuple[Labels, float]:
    n_clusters, rows = int(labels.max()) + 1, np.arange(len(labels))
    best, lowest = labels, np.inf
    for _ in range(n_steps):
        apart = to_means(squared, labels, n_clusters)
        inertia = float(apart[rows, labels].sum())
        # Distances that fit no Euclidean space can make a step uphill, so the best state is kept.
        if inertia < lowest:
            best, lowest = labels, inertia
        moved = _without_empty(np.argmin(apart, axis=1), apart, n_clusters)
        if np.array_equal(moved, labels):
            break
        labels = moved
    return best, lowest


def _without_empty(labels: Labels, apart: Floats, n_clusters: int) -> Labels:
    """Give each empty cluster the item that is farthest from the mean of its own."""
    sizes = np.bincount(labels, minlength=n_clusters)
    for empty in np.flatnonzero(sizes == 0):
        own = np.where(sizes[labels] > 1, apart[np.arange(len(labels)), labels], -np.inf)
        item = int(np.argmax(own))
        sizes[labels[item]] -= 1
        labels[item] = empty
        sizes[empty] += 1
    return labels
