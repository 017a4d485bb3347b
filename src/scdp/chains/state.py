"""The state of a chain: what the next step needs and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Floats, Integers


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


@dataclass(frozen=True)
class Plan:
    """Which scheme, what is learned, and how many split-merge moves are tried.

    `separation` (SCDP-2) and `type_coupling` (two readings of SCDP-3) let the prior of precisions follow the gaps
    between means, and clusters know nothing of it. With `conditioning` (SCDP-3) the means are part of the state. New
    clusters are then weighed by `n_auxiliary` means, drawn given the item (`informed`) or from the prior; with
    `paper_moves` new types are weighed by as many precisions from the prior, and means are chosen among `n_candidates`
    draws from the prior and the current one.
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
    informed: bool = True
    paper_moves: bool = False
    n_candidates: int = 8
    learn_separation_rate: bool = False


class Info(NamedTuple):
    """What a sweep reports for diagnostics; no later step reads it."""

    moved_clusters: int
    accepted_split_merges: int
    moved_types: int
    opened_clusters: int = 0
    improper_means: int = 0
    negative_norms: int = 0
