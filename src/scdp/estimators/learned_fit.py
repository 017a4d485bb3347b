"""What the flagship keeps of its training: the learned restaurant, and how new rows become the pairs it judges.

Training rows are kept only where new rows may join their clusters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from scdp.errors import InputError
from scdp.estimators.chains_fit import rows_from_parts, rows_to_parts
from scdp.estimators.fitted import Arrays, Words, array_part, part
from scdp.estimators.inputs import Compared, Points, Precomputed, Rows, codes
from scdp.estimators.learned_parts import (
    calibration_from_parts,
    calibration_to_parts,
    number,
    restaurant_from_parts,
    restaurant_to_parts,
    view_from_parts,
    view_to_parts,
)
from scdp.estimators.result import Calibration, Learned
from scdp.posterior import Posterior
from scdp.seating.learned import (
    Choices,
    LearnedRestaurant,
    Progress,
    Source,
    at_most,
    check_teachable,
    train,
)
from scdp.seating.neighbourhood import VectorView, units
from scdp.seating.pairs import Pairs
from scdp.seating.sources import PairSource, VectorSource, pairs_of

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

IMPORTANCE_PAIRS = 4000


@dataclass(frozen=True, eq=False)
class LearnedFit:
    """`view` is how vectors are looked at (None for records and distances); `importance` is by comparison."""

    restaurant: LearnedRestaurant
    view: VectorView | None
    features: tuple[str, ...]
    importance: Floats
    calibration: Calibration | None
    n_records: int
    n_clusters: int
    rows: Rows
    labels: Integers
    documents: NDArray[Any] | None
    seed: int

    independent_draws = True

    def with_labels(self, labels: Integers) -> Self:
        return replace(self, labels=labels)

    @classmethod
    def train(
        cls,
        rows: Rows,
        known: Integers,
        documents: NDArray[Any] | None,
        features: tuple[str, ...],
        choices: Choices,
        seed: int,
        n_jobs: int = 1,
        progress: Progress | None = None,
    ) -> Self:
        """Learn from the rows whose cluster is known; a cluster is one within a document."""
        labelled = np.flatnonzero(known >= 0)
        group = np.zeros(len(known), dtype=np.int64) if documents is None else codes(documents)
        cluster = np.unique([known[labelled], group[labelled]], axis=1, return_inverse=True)[1].ravel()
        check_teachable(cluster)
        view, source = _source(rows, labelled, cluster, None if documents is None else group)
        names = features if view is None else view.names
        sign = np.full(len(names), -1)
        restaurant, trial = train(source, cluster, group[labelled], sign, choices, seed, n_jobs, progress)
        rng = np.random.default_rng([seed, 2])
        some = source.pairs(at_most(np.arange(len(labelled)), cluster, rng))
        picked = rng.choice(len(some), min(IMPORTANCE_PAIRS, len(some)), replace=False)
        importance = np.abs(_lost_without(restaurant, some.features[picked])).mean(axis=0)
        return cls(
            restaurant,
            view,
            names,
            importance,
            Calibration.of(*trial) if len(trial.probability) else None,
            len(labelled),
            int(cluster.max()) + 1,
            rows,
            known,
            documents,
            seed,
        )

    def pairs(self, rows: Rows, documents: NDArray[Any] | None) -> Pairs:
        """All pairs of some rows that may be together."""
        if isinstance(rows, Points):
            assert self.view is not None
            return self.view.pairs(rows.values, None if documents is None else codes(documents))
        assert isinstance(rows, Compared | Precomputed)
        return pairs_of(rows.distances)

    def posterior(
        self,
        pairs: Pairs,
        known: Integers,
        shape: tuple[int, int],
        seed: int,
        shared: bool,
        n_jobs: int = 1,
        progress: Progress | None = None,
    ) -> Posterior:
        """Draws, `shape` being (chains, draws); those of one member are spread over all chains."""
        n_chains, n_draws = shape
        numbers = np.full(len(known), -1)
        numbers[known >= 0] = codes(known[known >= 0])
        drawn = self.restaurant.draw(pairs, numbers, n_chains * n_draws, seed, n_jobs, progress)
        draws = drawn.reshape(n_draws, n_chains, -1).transpose(1, 0, 2)
        return Posterior(draws, fixed=numbers, shared=shared)

    def contributions(self, distances: Floats) -> Floats:
        """By comparison, the log-odds that would be lost if it were missing."""
        if self.view is not None:
            raise InputError(
                "the flagship explains records and distances: of vectors it judges neighbourhoods, which belong to "
                "no single feature"
            )
        return _lost_without(self.restaurant, distances[None].astype(np.float32))[0]

    def learned(self) -> Learned:
        return Learned(
            "flagship",
            self.features,
            self.n_records,
            self.n_clusters,
            weights=self.importance[None],
            type_shares=np.ones(1),
            calibration=self.calibration,
        )

    def to_parts(self) -> tuple[Words, Arrays]:
        words, arrays = rows_to_parts(self.rows)
        more_words, more_arrays = restaurant_to_parts(self.restaurant)
        words |= more_words | {
            "model": "flagship",
            "seed": self.seed,
            "features": list(self.features),
            "n_records": self.n_records,
            "n_clusters": self.n_clusters,
        }
        arrays |= more_arrays | {"labels": self.labels, "importance": self.importance}
        arrays |= view_to_parts(self.view) | calibration_to_parts(self.calibration)
        if self.documents is not None:
            arrays["documents"] = self.documents
        return words, arrays

    @classmethod
    def from_parts(cls, words: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        features = tuple(map(str, part(words, "features")))
        restaurant = restaurant_from_parts(words, arrays, len(features))
        view = view_from_parts(arrays)
        if view is not None and view.names != features:
            raise InputError("'features' are not those of vectors of as many coordinates as 'view.mean' has")
        importance = array_part(arrays, "importance", (len(features),))
        labels = array_part(arrays, "labels", (None,), "i").astype(np.int64)
        documents = array_part(arrays, "documents", (None,), "iufU") if "documents" in arrays else None
        rows = rows_from_parts(words, arrays, documents, len(features if view is None else view.mean))
        if len(rows) not in (0, len(labels)) or labels.min(initial=0) < 0:
            raise InputError(f"there are {len(rows)} rows, and they do not have the {len(labels)} clusters")
        if isinstance(rows, Points) != (view is not None):
            raise InputError("'view.mean' belongs to vectors, and to nothing else")
        if documents is not None and len(documents) != len(rows):
            raise InputError(f"there are {len(rows)} rows, and documents for {len(documents)}")
        n_records, n_clusters, seed = (number(words, name) for name in ("n_records", "n_clusters", "seed"))
        learned = restaurant, view, features, importance, calibration_from_parts(arrays)
        return cls(*learned, n_records, n_clusters, rows, labels, documents, seed)


def _source(
    rows: Rows, labelled: Integers, cluster: Integers, documents: Integers | None
) -> tuple[VectorView | None, Source]:
    if not isinstance(rows, Points):
        assert isinstance(rows, Compared | Precomputed)
        every = pairs_of(rows.distances)
        return None, PairSource(every if len(labelled) == every.n_items else every.take(labelled))
    values = rows.values[labelled]
    group = None if documents is None else documents[labelled]
    view = VectorView.of(values, cluster, rows.mean, units(rows.scale))
    return view, VectorSource(values, group, view)


def _lost_without(restaurant: LearnedRestaurant, features: NDArray[np.float32]) -> Floats:
    """(pairs, features): how much higher each score is than with that feature missing."""
    whole = restaurant.mean_score(features)
    lost = np.zeros(features.shape)
    for f in range(features.shape[1]):
        without = features.copy()
        without[:, f] = np.nan
        lost[:, f] = np.where(np.isnan(features[:, f]), 0.0, whole - restaurant.mean_score(without))
    return lost
