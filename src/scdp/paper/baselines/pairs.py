"""Items as pairs: vectors, distances or records with a spec enter, the features of every pair leave.

A pair's features are |x_i - x_j| of two vectors, or the distances of two records, NaN where one is missing. Only
pairs within a group exist, so with documents the work is the sum of their squares.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Integers
from scdp.compare.distances import Distances, PairLayout, compute_distances
from scdp.errors import InputError
from scdp.paper.baselines.surface import (
    UNKNOWN,
    Baseline,
    Items,
    Labels,
    Rows,
    canonical_labels,
    check_groups,
    check_items,
)
from scdp.table.records import Records
from scdp.table.spec import Spec

Features = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Vectors:
    """Coordinates (items, features) and the layout of their pairs."""

    values: NDArray[np.float64]
    layout: PairLayout

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: NDArray[Any]) -> Vectors:
        return Vectors(self.values[rows], PairLayout.of(len(self.values[rows]), self.layout.group[rows]))


Compared = Vectors | Distances


def compare_items(items: Items, groups: NDArray[Any] | None, spec: Spec | None, name: str) -> Compared:
    """What every system on pairs starts from; records need a spec, which says how to compare them."""
    if isinstance(items, Records):
        if spec is None:
            raise InputError(f"{name} was given records: say how to compare them, {name}(spec=Spec(...))")
        return compute_distances(items, spec, groups)
    if items.ndim == 3:
        return Distances.from_square(items, groups)
    return Vectors(items, PairLayout.of(len(items), groups))


def pair_features(items: Compared) -> Features:
    """The features (pairs, features) of all pairs, in the order of the layout."""
    if isinstance(items, Distances):
        return np.asarray(items.values, dtype=np.float32)
    values = items.values.astype(np.float32)
    out = np.empty((items.layout.n_pairs, values.shape[1]), dtype=np.float32)
    for row in range(len(items)):
        entries, others = items.layout.row(row)
        np.abs(values[others] - values[row], out=out[entries])
    return out


@dataclass(frozen=True, eq=False)
class PairTable:
    """Both items of every pair in the order of a layout, and whether they are of one cluster."""

    layout: PairLayout
    left: Integers
    right: Integers
    same: NDArray[np.bool_]

    @classmethod
    def of(cls, layout: PairLayout, labels: Labels) -> PairTable:
        left, right = pair_rows(layout)
        return cls(layout, left, right, labels[left] == labels[right])

    def need_both_kinds(self, name: str) -> None:
        if self.same.all() or not self.same.any():
            kind = "one cluster" if self.same.any() else "two clusters"
            raise InputError(
                f"{name} learns from pairs of one cluster and of two: y has only pairs of {kind}"
            )

    def within(self, rows: Rows) -> tuple[PairLayout, Integers]:
        """The layout of some items alone, and where each of its pairs stands in this table."""
        layout = PairLayout.of(len(rows), self.layout.group[rows])
        left, right = pair_rows(layout)
        return layout, self.layout.positions(rows[left], rows[right])

    def without(self, rows: Rows) -> Integers:
        """The pairs of which neither item is among the given ones."""
        kept = np.ones(self.layout.n_records, dtype=bool)
        kept[rows] = False
        return np.flatnonzero(kept[self.left] & kept[self.right])


def pair_rows(layout: PairLayout) -> tuple[Integers, Integers]:
    """The two items of each pair, in the order of the layout."""
    left = np.empty(layout.n_pairs, dtype=np.int64)
    right = np.empty(layout.n_pairs, dtype=np.int64)
    for row in range(layout.n_records):
        entries, others = layout.row(row)
        left[entries], right[entries] = row, others
    return left, right


def sample_pairs(
    pairs: Integers, same: NDArray[np.bool_], n_same: int, n_different: int, rng: np.random.Generator
) -> Integers:
    """At most so many of the given pairs of each kind, without replacement, in the order given."""
    parts = []
    for kind, most in ((True, n_same), (False, n_different)):
        found = pairs[same[pairs] == kind]
        parts.append(found if len(found) <= most else rng.choice(found, most, replace=False))
    return np.sort(np.concatenate(parts))


class PairBaseline(Baseline, ABC):
    """A baseline that learns from pairs of items whose clusters are known, and clusters each group by pairs."""

    needs_labels = True
    spec: Spec | None

    def _learn(self, items: Items, labels: Labels | None, groups: NDArray[Any] | None) -> None:
        assert labels is not None
        found = compare_items(items, groups, self.spec, type(self).__name__)
        self.spec_ = found.spec if isinstance(found, Distances) else None
        known = np.flatnonzero(labels != UNKNOWN)
        self._learn_pairs(found if len(known) == len(labels) else found.take(known), labels[known])

    def predict(self, X: Any, groups: Any = None) -> Labels:
        found = self._check(X, groups)
        return within_groups(found.layout, self._cluster_pairs(found))

    def _check(self, X: Any, groups: Any) -> Compared:
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
        items = check_items(X)
        self._check_same_features(items)
        return compare_items(items, check_groups(groups, len(items)), self.spec_, type(self).__name__)

    @abstractmethod
    def _learn_pairs(self, items: Compared, labels: Labels) -> None:
        """Learn from items whose clusters are all known."""

    def _cluster_pairs(self, items: Compared) -> Labels:
        """A label for each item; equal labels in different groups are different clusters."""
        raise NotImplementedError


def within_groups(layout: PairLayout, labels: Labels) -> Labels:
    """Labels 0..K-1 by first appearance, where no cluster reaches across two groups."""
    return canonical_labels(zip(layout.group.tolist(), labels.tolist(), strict=True))
