"""What the flagship keeps of its training: the learned restaurant, and how new rows become the pairs it judges.

Training rows are kept only where new rows may join their clusters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Arrays
from scdp.errors import InputError
from scdp.estimators.chains_fit import rows_from_parts, rows_to_parts
from scdp.estimators.fitted import Words, array_part, part
from scdp.estimators.inputs import Compared, Points, Precomputed, Rows, codes
from scdp.estimators.result import Calibration, Learned
from scdp.linkage.learned import Choices, LearnedRestaurant, Progress, Source, at_most, check_teachable, train
from scdp.linkage.learned_parts import (
    calibration_from_parts,
    calibration_to_parts,
    number,
    restaurant_from_parts,
    restaurant_to_parts,
    view_from_parts,
    view_to_parts,
)
from scdp.linkage.neighbourhood import VectorView, units
from scdp.linkage.pairs import Features, Pairs
from scdp.linkage.shards import Blocked, Draws, Engine, everyone_alone
from scdp.linkage.sources import PairSource, VectorSource, pairs_of
from scdp.linkage.wide import Wide, learn_wide
from scdp.posterior import Posterior

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

IMPORTANCE_PAIRS = 1000
TOO_MANY = (
    "{:,} records are too many to compare all with each other, and the labelled ones teach no blocking: give at least "
    "20 labelled clusters, or groups"
)


@dataclass(frozen=True, eq=False)
class LearnedFit:
    """`view` is how vectors are looked at (None for records and distances); `importance` is by comparison.

    `restaurant` has learned from all pairs; it is None where candidates alone do better, or all were too many.
    """

    restaurant: LearnedRestaurant | None
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
    wide: Wide | None = None

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
        blocked = isinstance(rows, Compared) and rows.blocked
        lesson = learn_wide(_part(rows, labelled), cluster, choices, seed, n_jobs) if blocked else None
        too_many = isinstance(rows, Compared) and _part(rows, labelled).too_many
        if too_many and lesson is None:
            raise InputError(TOO_MANY.format(len(labelled)))
        restaurant, trial, taught = None, None, cluster
        if not too_many:
            view, source = _source(rows, labelled, cluster, None if documents is None else group)
            sign = np.full(len(features if view is None else view.names), -1)
            restaurant, trial = train(source, cluster, group[labelled], sign, choices, seed, n_jobs, progress)
        # Where candidates alone do better on clusters that neither has seen, all pairs are not worth comparing.
        if lesson is not None and (trial is None or lesson.trial.loss < trial.loss):
            view, source = None, PairSource(lesson.pairs)
            restaurant, trial, taught = None, lesson.trial, lesson.cluster
        assert trial is not None
        wide = None if lesson is None else lesson.wide
        names = features if view is None else view.names
        rng = np.random.default_rng([seed, 2])
        some = source.pairs(at_most(np.arange(len(taught)), taught, rng))
        picked = rng.choice(len(some), min(IMPORTANCE_PAIRS, len(some)), replace=False)
        importance = np.abs(_lost_without(_judge(restaurant, wide), some.features[picked])).mean(axis=0)
        return cls(
            restaurant,
            view,
            names,
            importance,
            Calibration.of(trial.probability, trial.together) if len(trial.probability) else None,
            len(labelled),
            int(cluster.max()) + 1,
            rows,
            known,
            documents,
            seed,
            wide,
        )

    def pairs(self, rows: Rows, documents: NDArray[Any] | None, items: Integers) -> Pairs | Blocked:
        """The pairs of some rows that may be together, by their places among these; or how to make them."""
        if isinstance(rows, Precomputed):
            every = pairs_of(rows.distances)
            return every if len(items) == every.n_items else every.take(items)
        if isinstance(rows, Points):
            assert self.view is not None
            own = None if documents is None else codes(documents[items])
            return self.view.pairs(rows.values[items], own)
        part = _part(rows, items)
        if self.restaurant is not None and not part.too_many:
            return pairs_of(part.distances)
        if self.wide is None:
            raise InputError(TOO_MANY.format(len(items)))
        return self.wide.blocked(part)

    def posterior(
        self,
        rows: Rows,
        documents: NDArray[Any] | None,
        items: Integers,
        known: Integers,
        shape: tuple[int, int],
        seed: int,
        shared: bool,
        engine: Engine,
        progress: Progress | None = None,
    ) -> Posterior:
        """Draws of all rows, `shape` being (chains, draws); only the given items may be together with others.

        Draws of one member are spread over all chains.
        """
        n_chains, n_draws = shape
        numbers = np.full(len(known), -1)
        numbers[known >= 0] = codes(known[known >= 0])
        total = n_chains * n_draws
        if len(items):
            seated = self._seated(rows, documents, items, numbers[items], total, seed, engine, progress)
        else:
            seated = np.zeros((total, 0), dtype=np.int32)
        drawn = seated if len(items) == len(known) else _among_all(seated, items, numbers)
        draws = drawn.reshape(n_draws, n_chains, -1).transpose(1, 0, 2)
        return Posterior(draws, fixed=numbers, shared=shared)

    def _seated(
        self,
        rows: Rows,
        documents: NDArray[Any] | None,
        items: Integers,
        known: Integers,
        n_draws: int,
        seed: int,
        engine: Engine,
        progress: Progress | None,
    ) -> Draws:
        pairs = self.pairs(rows, documents, items)
        if isinstance(pairs, Blocked):
            return engine.seat_blocked(pairs, known, n_draws, seed, progress)
        assert self.restaurant is not None
        return engine.seat(self.restaurant, pairs, known, n_draws, seed, progress)

    def contributions(self, distances: Floats) -> Floats:
        """By comparison, the log-odds that would be lost if it were missing."""
        if self.view is not None:
            raise InputError(
                "the resolver explains records and distances: of vectors it judges neighbourhoods, which belong to "
                "no single feature"
            )
        return _lost_without(_judge(self.restaurant, self.wide), distances[None].astype(np.float32))[0]

    def learned(self) -> Learned:
        return Learned(
            "resolver",
            self.features,
            self.n_records,
            self.n_clusters,
            weights=self.importance[None],
            type_shares=np.ones(1),
            calibration=self.calibration,
        )

    def to_parts(self) -> tuple[Words, Arrays]:
        words, arrays = rows_to_parts(self.rows)
        more_words, more_arrays = (
            ({}, {}) if self.restaurant is None else restaurant_to_parts(self.restaurant)
        )
        words |= more_words | {
            "model": "resolver",
            "seed": self.seed,
            "features": list(self.features),
            "n_records": self.n_records,
            "n_clusters": self.n_clusters,
            "narrow": self.restaurant is not None,
        }
        arrays |= more_arrays | {"labels": self.labels, "importance": self.importance}
        if self.wide is not None:
            wide_words, wide_arrays = self.wide.to_parts()
            words |= wide_words
            arrays |= wide_arrays
        arrays |= view_to_parts(self.view) | calibration_to_parts(self.calibration)
        if self.documents is not None:
            arrays["documents"] = self.documents
        return words, arrays

    @classmethod
    def from_parts(cls, words: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        features = tuple(map(str, part(words, "features")))
        wide = Wide.from_parts(words, arrays, len(features))
        narrow = bool(words.get("narrow", True)) or wide is None
        restaurant = restaurant_from_parts(words, arrays, len(features)) if narrow else None
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
        if wide is not None and isinstance(rows, Compared):
            rows = replace(rows, blocked=True)
        return cls(
            *learned,
            n_records,
            n_clusters,
            rows,
            labels,
            documents,
            seed,
            wide,
        )


def _among_all(seated: Draws, items: Integers, known: Integers) -> Draws:
    """Draws of all rows from those of some: the others are in their given clusters."""
    draws = everyone_alone(len(seated), known)
    draws[:, items] = items.astype(np.int32)[seated]
    return draws


def _part(rows: Rows, items: Integers) -> Compared:
    """Some of the records; all of them are taken as they are, with what is computed of them."""
    assert isinstance(rows, Compared)
    return rows if len(items) == len(rows) else rows.take(items)


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


def _judge(restaurant: LearnedRestaurant | None, wide: Wide | None) -> LearnedRestaurant | Wide:
    judge = restaurant or wide
    assert judge is not None
    return judge


def _lost_without(judge: LearnedRestaurant | Wide, features: Features) -> Floats:
    """(pairs, features): how much higher each score is than with that feature missing."""
    whole = judge.mean_score(features)
    lost = np.zeros(features.shape)
    for f in range(features.shape[1]):
        without = features.copy()
        without[:, f] = np.nan
        lost[:, f] = np.where(np.isnan(features[:, f]), 0.0, whole - judge.mean_score(without))
    return lost
