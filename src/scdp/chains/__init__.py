"""Markov chains over clusters and reference types, for the model of Daumé and Marcu.

Here is the state of a chain: what the next step needs and nothing else; what it is learned under, and where it starts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Arrays, Floats, Integers
from scdp.chains.items import AnyItems, DistanceItems, ItemLayout


class State(NamedTuple):
    """Slots, not labels: `cluster[i]` and `type[i]` index cluster and type slots, of which some may be empty.

    `precision` has a row per type slot; `shape` and `rate` are the Gamma prior of its columns. `grid` holds
    the rows of a discrete precision prior with log weights `grid_log_weight`, none when the prior is Gamma.

    The rest is for SCDP-3, whose means are part of the state: a row per cluster slot, the separation rate, and
    a discrete mean prior (no row when it is Normal).

    `discount` is Pitman and Yor's, of the prior on clusters; 0 is the Dirichlet process. `pseudo_counts` are the
    parameters of a discrete likelihood, a row for each outcome; none where it is Gaussian.
    """

    cluster: Integers
    type: Integers
    precision: Floats
    cluster_concentration: float
    type_concentration: float
    mean_variance: float
    shape: Floats
    rate: Floats
    grid: Floats
    grid_log_weight: Floats
    means: Floats = np.empty((0, 0))
    separation_rate: float = 1.0
    mean_grid: Floats = np.empty((0, 0))
    mean_grid_log_weight: Floats = np.empty(0)
    discount: float = 0.0
    pseudo_counts: Floats = np.empty((0, 0))

    def to_parts(self) -> tuple[dict[str, float], Arrays]:
        """Its numbers and its arrays by name, for a file."""
        fields = self._asdict()
        arrays = {name: value for name, value in fields.items() if np.ndim(value)}
        return {name: float(value) for name, value in fields.items() if name not in arrays}, arrays


@dataclass(frozen=True)
class GammaPrior:
    """Gamma distribution by shape and rate (mean shape / rate)."""

    shape: float = 1.0
    rate: float = 1.0

    def __post_init__(self) -> None:
        if not (self.shape > 0 and self.rate > 0):
            raise ValueError(f"a Gamma prior needs shape and rate above 0, not {self.shape} and {self.rate}")

    def draw(self, rng: np.random.Generator) -> float:
        return float(rng.standard_gamma(self.shape) / self.rate)


@dataclass(frozen=True)
class PrecisionGrid:
    """A discrete prior on precision vectors: row g of `values` has probability `weights[g]`.

    It makes the joint posterior over clusters, types and precisions enumerable, which is what tests stand on.
    """

    values: NDArray[np.float64]
    weights: NDArray[np.float64]


@dataclass(frozen=True)
class Priors:
    """All priors of the model; a concentration that is not learned keeps the value it starts with."""

    mean_variance: float = 1.0
    precision: GammaPrior | PrecisionGrid = field(default_factory=GammaPrior)
    cluster_concentration: GammaPrior = field(default_factory=GammaPrior)
    type_concentration: GammaPrior = field(default_factory=GammaPrior)
    mean_precision: GammaPrior = field(default_factory=GammaPrior)
    separation_rate: GammaPrior = field(default_factory=GammaPrior)
    precision_rate: GammaPrior = field(default_factory=GammaPrior)

    @property
    def concentrations(self) -> Floats:
        """Shape and rate of the cluster concentration, then of the type concentration, as kernels take them."""
        one, other = self.cluster_concentration, self.type_concentration
        return np.array([one.shape, one.rate, other.shape, other.rate])


@dataclass(frozen=True)
class Plan:
    """Which scheme, what is learned, and how many split-merge moves are tried.

    `separation` (SCDP-2) and `type_coupling` (two variants of SCDP-3) let the prior of precisions follow the gaps
    between means, and clusters know nothing of it. With `conditioning` (SCDP-3) the means are part of the state. New
    clusters are then weighed by `n_auxiliary` means, drawn given the item. In the paper's scheme they are drawn from
    the prior, new types are weighed by as many precisions from the prior, and means are chosen among as many draws
    from the prior and the current one.
    """

    scheme: Literal["collapsed", "paper"] = "collapsed"
    learn_types: bool = True
    learn_concentrations: bool = True
    learn_mean_variance: bool = False
    learn_scale: bool = False
    separation: bool = False
    type_coupling: Literal["types", "density"] | None = None
    split_merge_attempts: int = 5
    conditioning: Literal["published", "normalized", "mean"] | None = None
    n_auxiliary: int = 8
    learn_separation_rate: bool = False


class Info(NamedTuple):
    """What a sweep reports for diagnostics; no later step reads it."""

    opened_clusters: int = 0
    improper_means: int = 0
    negative_norms: int = 0


STARTS = ("kmeans", "singletons", "one")
# Steps of k-means or k-medoids: a start needs no more.
START_STEPS = 10


def start_of_chain(init: str, chain: int) -> str:
    """`mixed` starts each chain at another place, so that their agreement means something."""
    return STARTS[chain % len(STARTS)] if init == "mixed" else init


def initial_state(rng: np.random.Generator, layout: ItemLayout[Any], init: str | Integers, priors: Priors) -> State:
    """Clusters as asked for, one reference type with precision 1, and concentrations of 1."""
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
    width, prior = items.n_features, priors.precision
    gamma = GammaPrior() if isinstance(prior, PrecisionGrid) else prior
    state = State(
        cluster=cluster,
        type=np.zeros(len(cluster), dtype=np.int64),
        precision=np.ones((1, width)),
        cluster_concentration=1.0,
        type_concentration=1.0,
        mean_variance=priors.mean_variance,
        shape=np.full(width, gamma.shape),
        rate=np.full(width, gamma.rate),
        grid=np.empty((0, width)),
        grid_log_weight=np.empty(0),
    )
    if isinstance(prior, PrecisionGrid):
        first = prior.values[:1].copy()
        return state._replace(precision=first, grid=prior.values, grid_log_weight=np.log(prior.weights))
    return state


def part_labels(rng: np.random.Generator, items: AnyItems, members: NDArray[np.int64], init: str) -> NDArray[np.int64]:
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


def kmeans_labels(rng: np.random.Generator, points: Floats, k: int) -> NDArray[np.int64]:
    """A few steps of k-means from random points: a start needs no more."""
    centres = points[rng.permutation(len(points))[:k]].copy()
    labels = np.zeros(len(points), dtype=np.int64)
    for _ in range(START_STEPS):
        labels = ((centres**2).sum(axis=1) - 2 * points @ centres.T).argmin(axis=1)
        for j in np.unique(labels):
            centres[j] = points[labels == j].mean(axis=0)
    return labels


def medoid_labels(rng: np.random.Generator, items: DistanceItems, members: Integers, k: int) -> Integers:
    """A few steps of k-medoids from random members of one group: a start needs no more."""
    far = mean_squares(items, members)
    medoids = rng.permutation(len(members))[:k]
    labels = far[:, medoids].argmin(axis=1)
    for _ in range(START_STEPS):
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
