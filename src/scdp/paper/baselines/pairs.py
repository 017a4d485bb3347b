"""Agglomerative clustering of groups: dissimilarities of pairs enter, a merge tree a group, and where to cut it.

The pairwise F of every cut of a tree is found in one pass over its merges, so thresholds are chosen exactly and
not on a grid."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Features, Floats, Integers
from scdp.compare.distances import Distances, PairLayout, compute_distances
from scdp.errors import InputError
from scdp.paper.baselines.surface import UNKNOWN, Baseline, Items, Rows, canonical_labels, check_groups, check_items
from scdp.table.records import Records
from scdp.table.spec import Spec

LINKS = {"min": "single", "max": "complete", "average": "average"}


def merge_trees(layout: PairLayout, dissimilarity: NDArray[np.floating], link: str) -> list[Floats | None]:
    """SciPy's merge table of each group (None for a single item); `link` is min, max or average."""
    from scipy.cluster.hierarchy import linkage

    trees: list[Floats | None] = []
    for group, size in enumerate(layout.sizes.tolist()):
        # A group's entries are the condensed form of its distance matrix, which is what SciPy wants.
        block = dissimilarity[layout.starts[group] : layout.starts[group + 1]].astype(np.float64)
        trees.append(linkage(block, LINKS[link]) if size > 1 else None)
    return trees


def cut(layout: PairLayout, trees: list[Floats | None], threshold: float) -> Integers:
    """Undo every merge above the threshold; labels are unique within a group only."""
    from scipy.cluster.hierarchy import fcluster

    labels = np.zeros(layout.n_records, dtype=np.int64)
    for group, tree in enumerate(trees):
        if tree is not None:
            # Decision values have either sign, and SciPy cuts at heights of zero and more only.
            shift = tree[:, 2].min()
            raised = np.column_stack([tree[:, :2], tree[:, 2] - shift, tree[:, 3]])
            labels[layout.members(group)] = fcluster(raised, threshold - shift, criterion="distance")
    return labels


@dataclass(frozen=True)
class CutScores:
    """Pairwise F of cutting at each merge height, heights ascending; `scores[0]` is that of merging nothing."""

    heights: Floats
    scores: Floats

    def at(self, thresholds: Floats) -> Floats:
        return self.scores[np.searchsorted(self.heights, thresholds, side="right")]


def score_cuts(layout: PairLayout, trees: list[Floats | None], labels: Integers) -> CutScores:
    """The F of every cut, all groups cut at the same height."""
    merges = [_merges(tree, labels[layout.members(group)]) for group, tree in enumerate(trees) if tree is not None]
    table = np.concatenate(merges) if merges else np.zeros((0, 3))
    table = table[np.argsort(table[:, 0], kind="stable")]
    joined = np.concatenate([np.zeros(1), np.cumsum(table[:, 1])])
    right = np.concatenate([np.zeros(1), np.cumsum(table[:, 2])])
    gold = _gold_pairs(layout, labels)
    precision = np.divide(right, joined, out=np.ones_like(right), where=joined > 0)
    recall = right / gold if gold else np.ones_like(right)
    total = precision + recall
    scores = np.divide(2 * precision * recall, total, out=np.zeros_like(total), where=total > 0)
    return CutScores(table[:, 0], scores)


def _merges(tree: Floats, labels: Integers) -> Floats:
    """For each merge its height, the pairs it joins, and those of them that belong together."""
    n_items = len(labels)
    members: list[Counter[int]] = [Counter([label]) for label in labels.tolist()]
    sizes = [1] * n_items
    out = np.empty((len(tree), 3))
    for step, (a, b, height, _) in enumerate(tree.tolist()):
        small, large = sorted((members[int(a)], members[int(b)]), key=len)
        right = sum(count * large[label] for label, count in small.items())
        out[step] = height, sizes[int(a)] * sizes[int(b)], right
        # The larger counter is reused: both were used up by this merge.
        large.update(small)
        members.append(large)
        sizes.append(sizes[int(a)] + sizes[int(b)])
    return out


def _gold_pairs(layout: PairLayout, labels: Integers) -> int:
    both = np.unique(np.column_stack([layout.group, labels]), axis=0, return_counts=True)[1]
    return int((both * (both - 1)).sum()) // 2


def best_threshold(folds: list[CutScores]) -> tuple[float, float]:
    """The middle of all cuts whose mean F over the folds is within a standard error of the best, and that best.

    The mean is flat over most of the range and jumps where one large cluster breaks in one fold; its highest point
    is an accident, and the middle of what cannot be told from it is not.
    """
    heights = np.unique(np.concatenate([fold.heights for fold in folds]))
    if not len(heights):
        return 0.0, float(np.mean([fold.scores[0] for fold in folds]))
    between = (heights[1:] + heights[:-1]) / 2
    candidates = np.concatenate([[heights[0] - 1e-9], between, [heights[-1] + 1e-9]])
    scores = np.array([fold.at(candidates) for fold in folds])
    mean = scores.mean(axis=0)
    best = int(np.argmax(mean))
    error = scores[:, best].std() / np.sqrt(len(folds))
    good = np.flatnonzero(mean >= mean[best] - error - 1e-12)
    return float((candidates[good[0]] + candidates[good[-1]]) / 2), float(mean[best])


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


def take_raw(distances: Distances) -> Distances:
    """Distances as they come: numbers and counts as plain differences, and a missing distance as 1."""
    units = 1 / distances.scales
    for place, field in enumerate(() if distances.spec is None else distances.spec.fields):
        if field.kind == "absolute":
            units[place] /= field.scale or 1.0
        elif field.kind == "count_difference":
            # Counts come as shares of the records that have a value.
            units[place] /= max(int(distances.observed[:, place].sum()), 1)
    plain = distances.rescaled(distances.scales * units)
    filled = np.where(np.isnan(plain.values), np.asarray(1.0, plain.values.dtype), plain.values)
    return replace(plain, values=filled, observed=np.ones_like(plain.observed))


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
    def of(cls, layout: PairLayout, labels: Integers) -> PairTable:
        left, right = pair_rows(layout)
        return cls(layout, left, right, labels[left] == labels[right])

    def need_both_kinds(self, name: str) -> None:
        if self.same.all() or not self.same.any():
            kind = "one cluster" if self.same.any() else "two clusters"
            raise InputError(f"{name} learns from pairs of one cluster and of two: y has only pairs of {kind}")

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


class PairBaseline(Baseline):
    """A baseline that learns from pairs of items whose clusters are known, and clusters each group by pairs."""

    needs_labels = True
    spec: Spec | None

    def _learn(self, items: Items, labels: Integers | None, groups: NDArray[Any] | None) -> None:
        assert labels is not None
        found = compare_items(items, groups, self.spec, type(self).__name__)
        self.spec_ = found.spec if isinstance(found, Distances) else None
        known = np.flatnonzero(labels != UNKNOWN)
        self._learn_pairs(found if len(known) == len(labels) else found.take(known), labels[known])

    def _check(self, X: Any, groups: Any) -> Compared:
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
        items = check_items(X)
        self._check_same_features(items)
        return compare_items(items, check_groups(groups, len(items)), self.spec_, type(self).__name__)

    @abstractmethod
    def _learn_pairs(self, items: Compared, labels: Integers) -> None:
        """Learn from items whose clusters are all known."""


class ScoredPairBaseline(PairBaseline):
    """A baseline of pairs that clusters all groups at once."""

    def predict(self, X: Any, groups: Any = None) -> Integers:
        found = self._check(X, groups)
        return within_groups(found.layout, self._cluster_pairs(found))

    @abstractmethod
    def _cluster_pairs(self, items: Compared) -> Integers:
        """A label for each item; equal labels in different groups are different clusters."""


def within_groups(layout: PairLayout, labels: Integers) -> Integers:
    """Integers 0..K-1 by first appearance, where no cluster reaches across two groups."""
    return canonical_labels(zip(layout.group.tolist(), labels.tolist(), strict=True))
