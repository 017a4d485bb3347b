"""What a clustering leaves for reports and files: records, their clusters, how sure each is, and what was learned."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Floats
from scdp.estimators.verdict import Verdict, judge
from scdp.posterior import Posterior
from scdp.table.records import Records
from scdp.table.spec import Spec


@dataclass(frozen=True)
class Calibration:
    """Pairs of held-out training records by predicted probability of being together, bin by bin.

    Bin b holds the pairs with `edges[b]` <= probability < `edges[b + 1]` (the last one includes 1): their number,
    the mean `predicted` probability and the `observed` share that is truly together (both NaN in an empty bin).
    """

    edges: Floats
    predicted: Floats
    observed: Floats
    count: NDArray[np.int64]

    @classmethod
    def of(cls, probabilities: Floats, together: NDArray[np.bool_], n_bins: int = 10) -> Self:
        """The table of pairs with their predicted probability, and whether they are truly together."""
        edges = np.linspace(0.0, 1.0, n_bins + 1)
        place = np.clip(np.searchsorted(edges, probabilities, side="right") - 1, 0, n_bins - 1)
        count = np.bincount(place, minlength=n_bins)
        with np.errstate(invalid="ignore"):
            predicted = np.bincount(place, probabilities, n_bins) / count
            observed = np.bincount(place, together.astype(np.float64), n_bins) / count
        return cls(edges, predicted, observed, count.astype(np.int64))


@dataclass(frozen=True)
class Learned:
    """What a fitted model has learned, for people. None where the model has no such thing.

    `weights` is (reference types, features): the precision of each type in each feature, in units in which half
    the mean squared distance of the training records is 1; `type_shares` is the share of records of each type,
    the most common first. `n_repeated` is how many labelled clusters have two records or more.
    """

    model: str
    features: tuple[str, ...]
    n_records: int
    n_clusters: int
    weights: Floats | None = None
    type_shares: Floats | None = None
    calibration: Calibration | None = None
    n_repeated: int | None = None


@dataclass(frozen=True)
class UncertainPair:
    """Two records, by row, whose probability of being together is far from both 0 and 1."""

    left: int
    right: int
    probability: float
    together: bool


@dataclass(frozen=True)
class ClusterResult:
    """One clustering of `records`: row by row its id, the name of its cluster and the probability of membership.

    The items of `posterior` are the rows of `records`, in order; its `hidden` ones are those whose cluster was
    asked for, the others were given. `independent_draws` tells that draws come from no Markov chain, so that
    traces and R-hat mean nothing. `uncertain` has the least certain pair first.
    """

    title: str
    records: Records
    ids: NDArray[Any]
    id_column: str | None
    labels: NDArray[Any]
    probabilities: Floats
    posterior: Posterior
    spec: Spec | None
    learned: Learned
    uncertain: tuple[UncertainPair, ...] = field(default=())
    independent_draws: bool = False

    @property
    def n_records(self) -> int:
        return len(self.ids)

    @property
    def n_clusters(self) -> int:
        return len(set(self.labels.tolist()))

    @cached_property
    def expected(self) -> dict[str, dict[str, float]]:
        """Precision, recall, F and more of the answer if each draw were the truth: mean and 90 % interval."""
        codes = np.unique(self.labels.astype(str), return_inverse=True)[1].astype(np.int64)
        return self.posterior.expected_metrics(codes)

    @cached_property
    def verdict(self) -> Verdict:
        """How far the result can be trusted, and why."""
        return judge(self)

    @property
    def n_known(self) -> int:
        """Records whose cluster was given, not found."""
        return self.n_records - len(self.posterior.hidden)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many records each cluster has, the largest first."""
        return np.sort(np.unique(self.labels, return_counts=True)[1])[::-1].astype(np.int64)
