"""A start for chains on distances: k-medoids, the nearest there is to k-means without coordinates."""

from __future__ import annotations

import numpy as np

from scdp.chains.distances.items import DistanceItems
from scdp.chains.vectors.items import Floats, Integers


def medoid_labels(
    rng: np.random.Generator, items: DistanceItems, members: Integers, k: int, n_steps: int = 10
) -> Integers:
    """A few steps of k-medoids from random members of one restaurant: a start needs no more."""
    far = mean_squares(items, members)
    medoids = rng.permutation(len(members))[:k]
    labels = far[:, medoids].argmin(axis=1)
    for _ in range(n_steps):
        for j in np.unique(labels):
            inside = np.flatnonzero(labels == j)
            medoids[j] = inside[far[np.ix_(inside, inside)].sum(axis=0).argmin()]
        labels = far[:, medoids].argmin(axis=1)
    return labels


def mean_squares(items: DistanceItems, members: Integers) -> Floats:
    """Squared distances averaged over the features both items have; pairs without any are at the mean distance."""
    places = items.place[members]
    observed = items.observed[members]
    far = np.empty((len(members), len(members)))
    for a, i in enumerate(members):
        far[a] = items.squared[items.row_start[i] + places].sum(axis=1, dtype=np.float64)
    shared = observed @ observed.T
    with np.errstate(invalid="ignore", divide="ignore"):
        far /= shared
    return np.where(shared > 0, far, far[shared > 0].mean() if (shared > 0).any() else 0.0)
