"""Where chains start: one cluster, all singletons, k-means (on distances: k-medoids), or a partition that is given."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Floats, Integers
from scdp.chains.distances.items import AnyItems, DistanceItems, Layout
from scdp.chains.state import PrecisionGrid, Priors, State


def medoid_labels(
    rng: np.random.Generator, items: DistanceItems, members: Integers, k: int, n_steps: int = 10
) -> Integers:
    """A few steps of k-medoids from random members of one group: a start needs no more."""
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


STARTS = ("kmeans", "singletons", "one")


def start_of_chain(init: str, chain: int) -> str:
    """`mixed` sends chains off from different places, so that agreement between them means something."""
    return STARTS[chain % len(STARTS)] if init == "mixed" else init


def initial_state(
    rng: np.random.Generator,
    layout: Layout,
    init: str | Integers,
    priors: Priors,
    *,
    cluster_concentration: float = 1.0,
    type_concentration: float = 1.0,
) -> State:
    """Clusters as asked for, one reference type with precision 1, and the concentrations given."""
    items = layout.items
    cluster = layout.known_slot.copy()
    for place in range(len(items.slot_start)):
        members = items.hidden[items.group[items.hidden] == place]
        if len(members):
            labels = init[members] if isinstance(init, np.ndarray) else part_labels(rng, items, members, init)
            # A given start opens clusters of its own: those after the known slots of the group.
            known = np.unique(cluster[(items.group == place) & (cluster >= 0)])
            _, position = np.unique(labels, return_inverse=True)
            cluster[members] = items.slot_start[place] + len(known) + position
    rows = precision_start(priors, items.n_features)
    return State(
        cluster=cluster,
        type=np.zeros(len(cluster), dtype=np.int64),
        precision=rows["precision"],
        cluster_concentration=cluster_concentration,
        type_concentration=type_concentration,
        mean_variance=priors.mean_variance,
        shape=rows["shape"],
        rate=rows["rate"],
        grid=rows["grid"],
        grid_log_weight=rows["grid_log_weight"],
    )


def precision_start(priors: Priors, n_features: int) -> dict[str, Floats]:
    prior = priors.precision
    if isinstance(prior, PrecisionGrid):
        fields = {"grid": prior.values, "grid_log_weight": np.log(prior.weights)}
        return fields | {
            "precision": prior.values[:1].copy(),
            "shape": np.ones(n_features),
            "rate": np.ones(n_features),
        }
    return {
        "precision": np.ones((1, n_features)),
        "shape": np.full(n_features, prior.shape),
        "rate": np.full(n_features, prior.rate),
        "grid": np.empty((0, n_features)),
        "grid_log_weight": np.empty(0),
    }


def part_labels(
    rng: np.random.Generator, items: AnyItems, members: NDArray[np.int64], init: str
) -> NDArray[np.int64]:
    """Starting labels for the hidden items of one group."""
    n = len(members)
    if init == "one":
        return np.zeros(n, dtype=np.int64)
    if init == "singletons":
        return np.arange(n)
    if init == "kmeans":
        k = max(1, round(np.sqrt(n / 2)))
        if isinstance(items, DistanceItems):
            return medoid_labels(rng, items, members, k)
        return kmeans_labels(rng, items.points[members], k)
    raise ValueError(f"init must be 'mixed', 'one', 'singletons', 'kmeans' or an array, not {init!r}")


def kmeans_labels(rng: np.random.Generator, points: Floats, k: int, n_steps: int = 10) -> NDArray[np.int64]:
    """A few steps of k-means from random points: a start needs no more."""
    centres = points[rng.permutation(len(points))[:k]].copy()
    labels = np.zeros(len(points), dtype=np.int64)
    for _ in range(n_steps):
        labels = ((centres**2).sum(axis=1) - 2 * points @ centres.T).argmin(axis=1)
        for j in np.unique(labels):
            centres[j] = points[labels == j].mean(axis=0)
    return labels
