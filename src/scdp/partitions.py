"""Partitions and components: ids of clusters, draws of them, or edges enter; labels and items by label leave.

Given the global parameters components are independent, so each can be clustered by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdp._compile import kernel
from scdp._typing import Booleans, Floats, Integers, SmallIntegers
from scdp.errors import InputError
from scdp.hashing import MIXER

Rows = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Components:
    """`labels[i]` is the smallest record connected to record i.

    Component c holds the records members[offsets[c]:offsets[c + 1]], ascending; components are in the order of
    their smallest record.

    Attributes
    ----------
    labels : array of int32 (record,)
        The smallest record of the component.
    offsets : array of int (component + 1,)
        Where each component begins among the members.
    members : array of int32 (record,)
        The records, by component.

    Example
    -------
    >>> found = connected_components(4, [([0], [2])])
    >>> [found[c].tolist() for c in range(len(found))]
    [[0, 2], [1], [3]]
    """

    labels: Rows
    offsets: NDArray[np.int64]
    members: Rows

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, component: int) -> Rows:
        """The records of one component."""
        if not 0 <= component < len(self):
            raise IndexError(f"component {component} of {len(self)}")
        return self.members[self.offsets[component] : self.offsets[component + 1]]

    @property
    def sizes(self) -> NDArray[np.int64]:
        return np.diff(self.offsets)

    @property
    def codes(self) -> Rows:
        """The number of each record's component."""
        codes = np.empty(len(self.labels), dtype=np.int32)
        codes[self.members] = np.repeat(np.arange(len(self), dtype=np.int32), self.sizes)
        return codes


def connected_components(n_records: int, edges: Iterable[tuple[ArrayLike, ArrayLike]]) -> Components:
    """The components of records 0 to n_records - 1 under edges that come in chunks of two arrays.

    Parameters
    ----------
    n_records : int
        How many records there are.
    edges : iterable of pairs of arrays
        The records at the two ends of edges, in chunks.

    Returns
    -------
    Components

    Example
    -------
    >>> connected_components(4, [([0], [2])]).labels.tolist()
    [0, 1, 0, 3]
    """
    parents = np.arange(n_records, dtype=np.int32)
    for ends in edges:
        left, right = (_check_rows(end, n_records) for end in ends)
        if len(left) != len(right):
            raise InputError(f"edges: {len(left)} left ends and {len(right)} right ones; give as many")
        unite(parents, left, right)
    flatten(parents)
    members = np.argsort(parents, kind="stable").astype(np.int32)
    ordered = parents[members]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    return Components(parents, np.append(starts, n_records).astype(np.int64), members)


def _check_rows(end: ArrayLike, n_records: int) -> Rows:
    rows = np.asarray(end)
    if rows.size and not (rows.min() >= 0 and rows.max() < n_records):
        raise InputError(f"edges: an end is not among the records 0 to {n_records - 1}; check the pairs")
    return np.ascontiguousarray(rows, dtype=np.int32)


class ComponentItems(NamedTuple):
    """Items ordered by component, each item's in ascending order, and where each component begins."""

    items: Integers
    bounds: Integers

    @property
    def sizes(self) -> Integers:
        return np.diff(self.bounds)

    def select(self, which: Booleans) -> ComponentItems:
        """Some of the components, in the same order."""
        items = self.items[np.repeat(which, self.sizes)]
        return ComponentItems(items, np.concatenate([[0], np.cumsum(self.sizes[which])]))

    def keep(self, kept: Booleans) -> ComponentItems:
        """The same components of some of their items only, each at its place in `items`."""
        return ComponentItems(self.items[kept], np.concatenate([[0], np.cumsum(kept)])[self.bounds])


def find_components(chunks: Iterable[SmallIntegers], n_items: int) -> ComponentItems:
    """Components of items (from 0) that any row of any chunk (draw, item) of labels puts together.

    A negative label is no label: its item is with no other.
    """
    parents = np.arange(n_items, dtype=np.int32)
    for draws in chunks:
        connect(draws, np.full(int(draws.max(initial=-1)) + 1, -1, np.int64), parents)
    flatten(parents)
    # A root is the first item of its component.
    number = np.cumsum(parents == np.arange(n_items, dtype=np.int32), dtype=np.int32) - np.int32(1)
    return ComponentItems(*group_items(number[parents]))


def group_items(labels: SmallIntegers) -> tuple[Integers, Integers]:
    """Items ordered by their canonical label, and where the items of each label begin."""
    bounds = np.zeros(int(labels.max(initial=-1)) + 2, np.int64)
    items = np.empty(len(labels), np.int64)
    sort_by_label(labels, bounds, items)
    return items, bounds


@kernel
def root_of(parents: Rows, row: int) -> int:
    """The root of a record; on the way each record gets its grandparent as parent, so that the next search is short."""
    while parents[row] != row:
        parents[row] = parents[parents[row]]
        row = parents[row]
    return row


@kernel
def unite(parents: Rows, left: Rows, right: Rows) -> None:
    """Join the trees of both ends of every edge; the smaller root stays root."""
    for edge in range(len(left)):
        a, b = root_of(parents, left[edge]), root_of(parents, right[edge])
        if a < b:
            parents[b] = a
        elif b < a:
            parents[a] = b


@kernel
def flatten(parents: Rows) -> None:
    """Make the root of every record its parent; a parent is never larger than its child."""
    for row in range(len(parents)):
        parents[row] = parents[parents[row]]


@kernel
def connect(draws: SmallIntegers, heads: Integers, parents: SmallIntegers) -> None:
    """Join the trees of items that a draw puts together; `heads` (by label) holds -1 on entry.

    A label's first item in a draw is kept as draw x items + item, so that nothing is to be cleared between draws.
    """
    n_items = draws.shape[1]
    for draw in range(draws.shape[0]):
        base = draw * n_items
        for item in range(n_items):
            label = draws[draw, item]
            if label < 0:
                continue
            if heads[label] < base:
                heads[label] = base + item
                continue
            head = heads[label] - base
            if parents[head] != parents[item]:
                first, second = root_of(parents, head), root_of(parents, item)
                parents[max(first, second)] = min(first, second)


@kernel
def sort_by_label(labels: SmallIntegers, bounds: Integers, items: Integers) -> None:
    """Counting sort; `bounds` enters as zeros, one more than there are labels."""
    for label in labels:
        bounds[label + 1] += 1
    for label in range(len(bounds) - 1):
        bounds[label + 1] += bounds[label]
    for item in range(len(labels)):
        items[bounds[labels[item]]] = item
        bounds[labels[item]] += 1
    for label in range(len(bounds) - 1, 0, -1):
        bounds[label] = bounds[label - 1]
    bounds[0] = 0


@kernel
def number_by_appearance(ids: NDArray[Any], first: int, numbers: SmallIntegers, out: SmallIntegers) -> int:
    """Write canonical labels of `ids` to `out` and return how many clusters there are.

    `numbers` is scratch indexed by id - first: it must hold -1 on entry and holds -1 again on return.
    """
    count = 0
    for item in range(len(ids)):
        slot = ids[item] - first
        if numbers[slot] < 0:
            numbers[slot] = count
            count += 1
        out[item] = numbers[slot]
    for item in range(len(ids)):
        numbers[ids[item] - first] = -1
    return count


def canonical_labels(ids: ArrayLike) -> SmallIntegers:
    """The partition given by any integer ids, with clusters numbered in order of first appearance.

    Parameters
    ----------
    ids : array of int (item,)
        The cluster of each item.

    Returns
    -------
    array of int (item,)

    Example
    -------
    >>> canonical_labels([7, 7, 3]).tolist()
    [0, 0, 1]
    """
    dense, first, span = compact_ids(check_ids(ids))
    out = np.empty(len(dense), np.int32)
    number_by_appearance(dense, first, np.full(span, -1, np.int32), out)
    return out


def check_ids(ids: ArrayLike) -> NDArray[Any]:
    """A contiguous vector of cluster ids, refused unless its numbers are whole."""
    array = np.asarray(ids)
    if array.ndim != 1:
        raise InputError(f"cluster labels must be one list of integers, not an array of shape {array.shape}")
    if array.dtype.kind not in "iub" and len(array):
        raise InputError(f"cluster labels must be integers, not {array.dtype}: number the clusters first")
    # Labels of 32 bits are taken as they are: a copy of each draw of a million items would be for nothing.
    return np.ascontiguousarray(array, dtype=np.int32 if array.dtype == np.int32 else np.int64)


def compact_ids(ids: NDArray[Any]) -> tuple[NDArray[Any], int, int]:
    """Ids, the smallest of them and their span; renumbered when the span is too wide for a scratch table."""
    if len(ids) == 0:
        return ids, 0, 0
    first, last = int(ids.min()), int(ids.max())
    if last - first >= 4 * len(ids) + 1024:
        _, ids = np.unique(ids, return_inverse=True)
        ids, first, last = ids.astype(np.int64), 0, int(ids.max())
    return ids, first, last - first + 1


class TakesColumns(Protocol):
    """Labels (draw, item) that are read for some items at a time; all are below `n_labels`."""

    n_labels: int

    def __len__(self) -> int:
        """The number of draws."""
        ...

    def take(self, items: Integers) -> SmallIntegers:
        """Labels (draw, item) of some items, by their numbers."""
        ...


class ChosenColumns:
    """Some of the items of columns that are read when they are asked for."""

    def __init__(self, columns: TakesColumns, places: Integers) -> None:
        self.columns, self.places, self.n_labels = columns, places, columns.n_labels

    def __len__(self) -> int:
        return len(self.columns)

    def take(self, items: Integers) -> SmallIntegers:
        return self.columns.take(self.places[items])


# Labels (draw, item) of all items at once, or of those that are asked for.
Columns = SmallIntegers | TakesColumns


def take_columns(draws: Columns, items: Integers) -> SmallIntegers:
    """Labels (draw, item) of some items; row by row, as a row fits into fast memory."""
    if not isinstance(draws, np.ndarray):
        return draws.take(items)
    out = np.empty((len(draws), len(items)), np.int32)
    for row, labels in enumerate(draws):
        np.take(labels, items, out=out[row], mode="clip")
    return out


def slice_columns(draws: Columns, begin: int, end: int) -> SmallIntegers:
    """Labels (draw, item) of items that follow each other; those in memory are not copied."""
    return draws[:, begin:end] if isinstance(draws, np.ndarray) else draws.take(np.arange(begin, end))


def count_labels(draws: Columns) -> int:
    """One more than the largest label."""
    return int(draws.max(initial=-1)) + 1 if isinstance(draws, np.ndarray) else draws.n_labels


def find_alike(draws: Sequence[SmallIntegers] | SmallIntegers) -> Integers:
    """For each item the first one that has the same label in every draw; there must be a draw."""
    keys = np.zeros(len(draws[0]), np.uint64)
    for labels in draws:
        keys = keys * MIXER + labels.astype(np.uint64)
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    found: Integers = first[place]
    same = all((labels == labels[found]).all() for labels in draws)
    # Two different ones with one key are never met, and only cost time.
    return found if same else np.arange(len(keys))


def number_within(counts: Integers) -> Integers:
    """0, 1, ... for each count, one after another."""
    return np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)


def name_by_first(labels: NDArray[Any]) -> NDArray[np.int32]:
    """The number of the first item of each item's cluster, from canonical labels.

    Example
    -------
    >>> name_by_first(np.array([0, 1, 0, 2])).tolist()
    [0, 1, 0, 3]
    """
    before = np.concatenate([[-1], np.maximum.accumulate(labels)[:-1]]) if len(labels) else labels
    firsts = np.flatnonzero(labels > before).astype(np.int32)
    return firsts[labels] if len(labels) else np.zeros(0, np.int32)


def number_first(names: NDArray[Any]) -> Integers:
    """Numbers for names, in the order in which they appear.

    Example
    -------
    >>> number_first(np.array(["b", "a", "b"])).tolist()
    [0, 1, 0]
    """
    number: dict[Any, int] = {}
    return np.array([number.setdefault(name, len(number)) for name in names.tolist()], np.int64)


@kernel
def count_pairs_in_draws(draws: SmallIntegers, counts: Integers) -> int:
    """The pairs that are together, over all draws; `counts` is zero before and after."""
    total = 0
    for draw in range(draws.shape[0]):
        for label in draws[draw]:
            total += counts[label]
            counts[label] += 1
        for label in draws[draw]:
            counts[label] = 0
    return total


@kernel
def compare_in_components(
    bounds: Integers,
    labels: NDArray[Any],
    order: Integers,
    answer: SmallIntegers,
    sizes: Integers,
    with_others: Integers,
    alone: Integers,
    out: Floats,
) -> None:
    """Right links, true pairs, B-cubed precision and recall of an answer by draw, added to `out` (draw, 4).

    `order` are the items by component, which begin at `bounds`, and cluster of the answer; labels (item, draw) are
    places within the component. By item: members of its cluster that it is with, draws in which it is alone.
    """
    largest = 0
    for component in range(len(bounds) - 1):
        largest = max(largest, bounds[component + 1] - bounds[component])
    counts, shared = np.zeros(largest, np.int64), np.zeros(largest, np.int64)
    for component in range(len(bounds) - 1):
        start, stop = bounds[component], bounds[component + 1]
        for draw in range(labels.shape[1]):
            true, right, precision, recall = 0, 0, 0.0, 0.0
            for item in range(start, stop):
                label = labels[item, draw]
                true += counts[label]
                counts[label] += 1
            first = start
            while first < stop:
                cluster = answer[order[first]]
                last = first
                while last < stop and answer[order[last]] == cluster:
                    label = labels[order[last], draw]
                    right += shared[label]
                    shared[label] += 1
                    last += 1
                for place in range(first, last):
                    item = order[place]
                    label = labels[item, draw]
                    with_others[item] += shared[label] - 1
                    alone[item] += counts[label] == 1
                    precision += shared[label] / sizes[cluster]
                    recall += shared[label] / counts[label]
                for place in range(first, last):
                    shared[labels[order[place], draw]] = 0
                first = last
            for item in range(start, stop):
                counts[labels[item, draw]] = 0
            out[draw, 0] += right
            out[draw, 1] += true
            out[draw, 2] += precision
            out[draw, 3] += recall
