"""What baselines share: items, labels and documents enter `fit` and `predict`, labels 0..K-1 leave.

A baseline says how it learns (`_learn`) and how it predicts; most need only say how they cluster the items of one
document (`_cluster`), or how they learn from pairs (`_learn_pairs`).

Agglomerative clustering of groups: dissimilarities of pairs enter, a merge tree a group, and where to cut it. The
pairwise F of every cut of a tree is found in one pass over its merges, so thresholds are chosen exactly and not on a
grid.
"""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from scdp._typing import Features, Floats, Integers
from scdp.compare.distances import Distances, PairLayout, compute_distances
from scdp.errors import InputError
from scdp.linkage.training.folds import canonical_labels as canonical_labels
from scdp.table import Records
from scdp.table.spec import Spec


class Steps:
    """Counts the steps of a long fit; tells nobody unless `verbose`."""

    def __init__(self, name: str, total: int, verbose: bool) -> None:
        self._name, self._total, self._verbose = name, total, verbose
        self._done = 0
        self._start = time.monotonic()

    def finish_step(self, step: str) -> None:
        """One more step is behind us; the time left is judged by the mean of those so far."""
        self._done += 1
        if not self._verbose:
            return
        elapsed = time.monotonic() - self._start
        left = elapsed / self._done * max(self._total - self._done, 0)
        print(
            f"{self._name}: {step} ({self._done} of {self._total}), {elapsed:.0f} s so far, about {left:.0f} s left",
            file=sys.stderr,
            flush=True,
        )


Rows = NDArray[np.int64]
# Records; floats (items, features) where NaN is missing; or distances (items, items, features).
Items = Records | NDArray[np.float64]

UNKNOWN = -1


class Baseline(BaseEstimator, ABC):
    """An opponent of the model. With `groups` (documents) no cluster reaches across two of them."""

    needs_labels = False

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        items = check_items(X)
        documents = check_groups(groups, len(items))
        if y is None and self.needs_labels:
            raise InputError(f"{type(self).__name__} learns from clusters: give y, the cluster of each row")
        labels = None if y is None else check_labels(y, len(items))
        self.n_features_in_ = n_features(items)
        self._learn(items, labels, documents)
        return self

    @abstractmethod
    def predict(self, X: Any, groups: Any = None) -> Integers:
        """The cluster of each item, numbered from 0."""

    def fit_predict(self, X: Any, y: Any = None, groups: Any = None) -> Integers:
        return self.fit(X, y, groups).predict(X, groups)

    def _learn(self, items: Items, labels: Integers | None, groups: NDArray[Any] | None) -> None:
        """Learn from checked input; `labels` are codes with -1 for unknown. Nothing to learn by default."""

    def _check_same_features(self, items: Items) -> None:
        given = n_features(items)
        if given != self.n_features_in_:
            raise InputError(
                f"{type(self).__name__}: predict was given {_describe(given)}, but fit "
                f"{_describe(self.n_features_in_)}; give both the same kind of items"
            )


class DocumentBaseline(Baseline):
    """A baseline that clusters one document after another."""

    def predict(self, X: Any, groups: Any = None) -> Integers:
        check_is_fitted(self)
        items = check_items(X)
        self._check_same_features(items)
        documents = check_groups(groups, len(items))
        clusters: list[Hashable] = [None] * len(items)
        for document, rows in enumerate(split_by_group(documents, len(items))):
            found = self._cluster(take(items, rows))
            for row, label in zip(rows.tolist(), found, strict=True):
                clusters[row] = (document, label)
        return canonical_labels(clusters)

    @abstractmethod
    def _cluster(self, items: Items) -> Iterable[Hashable]:
        """A label of any kind for each item; all items are of one document."""


def split_by_group(groups: NDArray[Any] | None, n_items: int) -> Iterator[Rows]:
    """The rows of each group, groups in order of first appearance; all rows where there are no groups."""
    if groups is None:
        yield np.arange(n_items)
        return
    codes = canonical_labels(groups.tolist())
    order = np.argsort(codes, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)


def take(items: Items, rows: Rows) -> Items:
    """The given items, with the distances between them where X holds distances."""
    if isinstance(items, Records):
        return items.take(rows)
    return items[np.ix_(rows, rows)] if items.ndim == 3 else items[rows]


def n_features(items: Items) -> int | None:
    """The number of features of an array; None for records."""
    return None if isinstance(items, Records) else int(items.shape[-1])


def check_items(X: Any) -> Items:
    """Records as they are, or a float array (items, features), or of distances (items, items, features)."""
    if isinstance(X, Records):
        items: Items = X
    else:
        items = _float_array(X)
    if len(items) == 0:
        raise InputError("X has no items; give at least one")
    return items


def _float_array(X: Any) -> NDArray[np.float64]:
    try:
        array = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("X holds something that is not a number; give a float array or Records") from None
    if array.ndim not in (2, 3):
        raise InputError(f"X has shape {array.shape}; use (items, features) or (items, items, features)")
    if array.ndim == 3 and array.shape[0] != array.shape[1]:
        raise InputError(f"X has shape {array.shape}; distances need as many rows as columns")
    if np.isinf(array).any():
        raise InputError("X holds an infinite value; use NaN where a value is missing")
    return array


def check_groups(groups: Any, n_items: int) -> NDArray[Any] | None:
    return None if groups is None else _one_a_row(groups, "groups", n_items)


def check_labels(y: Any, n_items: int) -> Integers:
    """Clusters of any kind as codes 0..K-1 in order of first appearance; unknown ones stay -1."""
    labels = _one_a_row(y, "y", n_items)
    if any(label is None or label != label for label in labels.tolist()):
        raise InputError("y holds a missing cluster; mark a row whose cluster is unknown by -1")
    # An array of texts turns -1 into "-1", which must not become one big cluster.
    known = np.array([label not in (UNKNOWN, str(UNKNOWN)) for label in labels.tolist()], dtype=bool)
    codes = np.full(n_items, UNKNOWN, dtype=np.int64)
    codes[known] = canonical_labels(labels[known].tolist())
    return codes


def _one_a_row(values: Any, name: str, n_items: int) -> NDArray[Any]:
    array = np.asarray(values, dtype=object) if isinstance(values, list | tuple) else np.asarray(values)
    if array.ndim != 1 or len(array) != n_items:
        raise InputError(f"{name} has shape {array.shape}, but X has {n_items} items; give one value an item")
    return array


def _describe(features: int | None) -> str:
    return "records" if features is None else f"an array with {features} features"


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

    def select_within(self, rows: Rows) -> tuple[PairLayout, Integers]:
        """The layout of some items alone, and where each of its pairs stands in this table."""
        layout = PairLayout.of(len(rows), self.layout.group[rows])
        left, right = pair_rows(layout)
        return layout, self.layout.positions(rows[left], rows[right])

    def find_pairs_without(self, rows: Rows) -> Integers:
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
        return number_within_groups(found.layout, self._cluster_pairs(found))

    @abstractmethod
    def _cluster_pairs(self, items: Compared) -> Integers:
        """A label for each item; equal labels in different groups are different clusters."""


def number_within_groups(layout: PairLayout, labels: Integers) -> Integers:
    """Integers 0..K-1 by first appearance, where no cluster reaches across two groups."""
    return canonical_labels(zip(layout.group.tolist(), labels.tolist(), strict=True))
