"""What all baselines share: items, labels and documents enter `fit` and `predict`, labels 0..K-1 leave.

A baseline says how it learns (`_learn`) and how it predicts; most need only say how they cluster the items of one
document (`_cluster`).
"""

from __future__ import annotations

import sys
import time
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from scdp._typing import Integers
from scdp.errors import InputError
from scdp.linkage.training.folds import canonical_labels as canonical_labels
from scdp.table.records import Records


class Steps:
    """Counts the steps of a long fit; tells nobody unless `verbose`."""

    def __init__(self, name: str, total: int, verbose: bool) -> None:
        self._name, self._total, self._verbose = name, total, verbose
        self._done = 0
        self._start = time.monotonic()

    def done(self, step: str) -> None:
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
        for document, rows in enumerate(by_group(documents, len(items))):
            found = self._cluster(take(items, rows))
            for row, label in zip(rows.tolist(), found, strict=True):
                clusters[row] = (document, label)
        return canonical_labels(clusters)

    @abstractmethod
    def _cluster(self, items: Items) -> Iterable[Hashable]:
        """A label of any kind for each item; all items are of one document."""


def by_group(groups: NDArray[Any] | None, n_items: int) -> Iterator[Rows]:
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


class Coarse(DocumentBaseline):
    """Everything is one cluster (one a document where groups are given)."""

    def _cluster(self, items: Items) -> list[Hashable]:
        return [0] * len(items)


class Fine(DocumentBaseline):
    """Every item is a cluster of its own."""

    def _cluster(self, items: Items) -> list[Hashable]:
        return list(range(len(items)))


class NameMatch(DocumentBaseline):
    """The same last name and the same first initial, whatever the case and accents.

    A record without a last name stays alone; records without a first name match each other.
    """

    def __init__(self, first: str = "first", last: str = "last") -> None:
        self.first = first
        self.last = last

    def _cluster(self, items: Items) -> list[Hashable]:
        records = _need_records(items, self)
        return [
            _alone(row) if last is None else (fold(last), fold(first or "")[:1])
            for row, (first, last) in enumerate(zip(records[self.first], records[self.last], strict=True))
        ]


class SameHead(DocumentBaseline):
    """The same last word of the column `text`, or the same cell of the column `head`, whatever the case.

    `head` is used instead of `text` where it is given; a mention without a head stays alone.
    """

    def __init__(self, text: str = "name", head: str | None = None) -> None:
        self.text = text
        self.head = head

    def _cluster(self, items: Items) -> list[Hashable]:
        records = _need_records(items, self)
        if self.head is None:
            heads = [_last_word(cell) for cell in records[self.text]]
        else:
            heads = list(records[self.head])
        return [_alone(row) if head is None else head.casefold() for row, head in enumerate(heads)]


def fold(text: str) -> str:
    """Without case, accents and outer blanks: "  Müller" is "muller"."""
    decomposed = unicodedata.normalize("NFKD", text.strip())
    return "".join(sign for sign in decomposed if not unicodedata.combining(sign)).casefold()


def _last_word(cell: str | None) -> str | None:
    words = (cell or "").split()
    return words[-1] if words else None


def _alone(row: int) -> Hashable:
    # A tuple with None equals no folded name, so such a record matches nothing.
    return (None, row)


def _need_records(items: Items, baseline: Baseline) -> Records:
    if not isinstance(items, Records):
        raise InputError(f"{type(baseline).__name__} compares text: give Records, not an array of numbers")
    return items
