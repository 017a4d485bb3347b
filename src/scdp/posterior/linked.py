"""Linked draws: labels of draws enter, whole or in parts; of the items that a draw has with another they leave again.

Items that are alone in all draws are nowhere. The others stand component by component, and their labels are small
numbers: in memory, or in a temporary file where there may be too many.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import IO, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp._parallel import count_workers, map_in_threads
from scdp._typing import Integers, SmallIntegers
from scdp.errors import InputError
from scdp.partitions import find_components

# Components of about so many items together are the work of one thread at a time.
ITEMS_AT_ONCE = 1 << 14
# So many draws are turned into labels of all items at a time.
DRAWS_AT_ONCE = 16
# A file of fewer bytes stays in memory.
BYTES_IN_MEMORY = 1 << 24


class LabelFile:
    """Labels (item, draw) in a temporary file that no folder shows; rows are read when they are asked for.

    Draws may stand there in another order than they are told in.
    """

    def __init__(self, file: IO[bytes], dtype: np.dtype[Any], shape: tuple[int, int]) -> None:
        self.dtype, self.shape, self._file = dtype, shape, file
        self._order: Integers | None = None
        self._lock = threading.Lock()

    @classmethod
    def of(cls, blocks: Iterable[NDArray[Any]], n_draws: int) -> Self:
        """From rows, block after block; a block with wider labels makes all wider."""
        file, dtype, n_items = _open_file(), np.dtype(np.uint16), 0
        for block in blocks:
            if block.dtype.itemsize > dtype.itemsize:
                narrow, file, dtype = cls(file, dtype, (n_items, n_draws)), _open_file(), block.dtype
                for rows in split_rows(n_items):
                    _write(file, narrow[rows].astype(dtype))
            _write(file, block.astype(dtype))
            n_items += len(block)
        return cls(file, dtype, (n_items, n_draws))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | Integers) -> NDArray[Any]:
        """Some rows as an array; of chosen ones, those that stand one after another are read at once."""
        if isinstance(rows, slice):
            first, last, _ = rows.indices(len(self))
            return self._read(first, max(first, last))
        wanted, place = np.unique(rows, return_inverse=True)
        starts = np.flatnonzero(np.diff(wanted, prepend=-2) != 1).tolist()
        runs = [self._read(int(run[0]), int(run[-1]) + 1) for run in np.split(wanted, starts[1:]) if len(run)]
        return np.concatenate(runs)[place] if runs else self._read(0, 0)

    def __reduce__(self) -> tuple[Any, ...]:
        # A file stays on its machine: elsewhere labels arrive in memory.
        return np.asarray, (self[:],)

    @property
    def nbytes(self) -> int:
        """Memory that is taken, but for what waits to be large enough for a file."""
        return 0

    def order(self, draws: Integers) -> None:
        """Put the draws into another order."""
        self._order = draws if self._order is None else self._order[draws]

    def _read(self, first: int, last: int) -> NDArray[Any]:
        out = np.empty((last - first, self.shape[1]), self.dtype)
        # Threads share the place in the file.
        with self._lock:
            self._file.seek(first * self.shape[1] * self.dtype.itemsize)
            content = self._file.read(out.nbytes)
        out[:] = np.frombuffer(content, self.dtype).reshape(out.shape)
        return out if self._order is None else out[:, self._order]


class _ClosedAtLast(tempfile.SpooledTemporaryFile[bytes]):
    """Is closed without a word when nobody has it any more."""

    def __del__(self) -> None:
        self.close()


def _open_file() -> Any:
    return _ClosedAtLast(max_size=BYTES_IN_MEMORY)


def _write(file: IO[bytes], labels: NDArray[Any]) -> None:
    try:
        file.write(labels.tobytes())
    except OSError as error:
        raise InputError(
            f"{tempfile.gettempdir()}: draws cannot be written there ({error.strerror}); free some room, or set TMPDIR "
            "to a folder that has it"
        ) from error


Labels = NDArray[Any] | LabelFile


class LinkedDraws(NamedTuple):
    """`items` that a draw has with another, component by component (which begin at `bounds`), each ascending.

    Components are in the order of their first items. `labels` (item, draw) are places within the component: that of the
    first item of the cluster.
    """

    items: Integers
    bounds: Integers
    labels: Labels

    @classmethod
    def of(cls, draws: SmallIntegers, numbers: Integers | None = None) -> Self:
        """From labels (draw, item), each the first item of its cluster; `numbers` of items, ascending, if not places.

        Example
        -------
        >>> linked = LinkedDraws.of(np.array([[0, 1, 2, 1], [0, 1, 1, 3]], np.int32))
        >>> linked.items.tolist(), linked.labels.tolist()
        ([1, 2, 3], [[0, 0], [1, 0], [0, 2]])
        """
        found = find_components([draws], draws.shape[1])
        found = found.select(found.sizes > 1)
        place = np.empty(draws.shape[1], np.int32)
        place[found.items] = np.arange(len(found.items)) - np.repeat(found.bounds[:-1], found.sizes)
        labels = np.empty((len(found.items), len(draws)), smallest_kind(found.sizes))

        def take(part: slice) -> None:
            take_labels(draws, found.items[part], place, labels[part])

        list(map_in_threads(take, split_rows(len(labels)), count_workers(-1)))
        return cls(found.items if numbers is None else numbers[found.items], found.bounds, labels)

    @property
    def n_draws(self) -> int:
        return self.labels.shape[1]

    @property
    def sizes(self) -> Integers:
        return np.diff(self.bounds)

    def rows(self, n: int) -> Iterator[SmallIntegers]:
        """Labels of all of n items, draw by draw: the first item of each cluster. A row holds until the next."""
        out = np.empty((DRAWS_AT_ONCE, n), np.int32)
        for first in range(0, self.n_draws, DRAWS_AT_ONCE):
            some = out[: min(DRAWS_AT_ONCE, self.n_draws - first)]
            fill_rows(self, slice(first, first + len(some)), some)
            yield from some

    def spread(self, kept: Integers, stays_with: Integers) -> LinkedDraws:
        """Draws of more rows: item k is row kept[k], and row r is in all draws with item stays_with[r].

        Of the rows that stay with an item, its own is the first.

        Example
        -------
        >>> linked = LinkedDraws.of(np.array([[0, 1, 2], [0, 1, 0]], np.int32))
        >>> spread = linked.spread(np.array([0, 1, 2]), np.array([0, 1, 2, 1, 2]))
        >>> spread.items.tolist(), spread.labels.tolist()
        ([0, 2, 4, 1, 3], [[0, 0], [1, 0], [1, 0], [0, 0], [0, 0]])
        """
        component = np.full(len(kept), -1)
        component[self.items] = np.repeat(np.arange(len(self.sizes)), self.sizes)
        # An item that only its copies are with is a component of its own.
        several = (component < 0) & (np.bincount(stays_with, minlength=len(kept)) > 1)
        component[several] = len(self.sizes) + np.arange(several.sum())
        rows = np.flatnonzero(component[stays_with] >= 0)
        owner = component[stays_with[rows]]
        order, bounds = order_components(rows, owner, len(self.sizes) + int(several.sum()))
        rows = rows[order]
        place = np.empty(len(stays_with), np.int64)
        place[rows] = np.arange(len(rows)) - np.repeat(bounds[:-1], np.diff(bounds))
        source = np.full(len(kept), -1)
        source[self.items] = np.arange(len(self.items))
        source = source[stays_with[rows]]
        starts = np.repeat(self.bounds[:-1], self.sizes)
        kind = smallest_kind(np.diff(bounds))

        def write(part: slice, _: Integers) -> NDArray[Any]:
            some = source[part]
            there = some >= 0
            out = np.zeros((len(some), self.n_draws), kind)
            firsts = self.items[starts[some[there], None] + self.labels[some[there]]]
            out[there] = place[kept[firsts]]
            return out

        return LinkedDraws(rows, bounds, rewrite(self.labels, write, bounds, kind))

    def check(self, n_draws: int, among: Integers) -> None:
        """Refuse with ValueError what kernels could not read safely, such as a damaged file; `among` are all items."""
        items, bounds, labels = np.asarray(self.items), np.asarray(self.bounds), np.asarray(self.labels)
        if any(array.dtype != np.int64 or array.ndim != 1 for array in (items, bounds)):
            raise ValueError("items of another kind")
        if labels.dtype not in (np.uint16, np.int32) or labels.shape != (len(items), n_draws):
            raise ValueError("labels of another shape")
        if not len(bounds) or bounds[0] != 0 or bounds[-1] != len(items) or (np.diff(bounds) < 2).any():
            raise ValueError("components of fewer than two items")
        if len(np.unique(items)) < len(items) or not np.isin(items, among).all():
            raise ValueError("items that are not there")
        within = np.diff(items) > 0
        within[bounds[1:-1] - 1] = True
        if not within.all() or not are_first_places(bounds, labels):
            raise ValueError("labels out of range")


def smallest_kind(sizes: Integers) -> type[Any]:
    """The kind of number that holds the places within components of these sizes."""
    return np.uint16 if sizes.max(initial=0) <= np.iinfo(np.uint16).max else np.int32


def split_rows(n_rows: int) -> Iterator[slice]:
    """Rows in parts, one after another."""
    return (slice(first, min(first + ITEMS_AT_ONCE, n_rows)) for first in range(0, n_rows, ITEMS_AT_ONCE))


Write = Callable[[slice, Integers], NDArray[Any]]


def rewrite(labels: Labels, write: Write, bounds: Integers, kind: type[Any] | np.dtype[Any]) -> Labels:
    """Labels that `write` makes of the rows of some components, which begin where it is told; kept as `labels` are."""
    blocks = [(slice(int(own[0]), int(own[-1])), own - own[0]) for own in component_blocks(bounds)]
    if isinstance(labels, LabelFile):
        return LabelFile.of((write(*block) for block in blocks), labels.shape[1])
    out = np.empty((int(bounds[-1]), labels.shape[1]), kind)
    for part, own in blocks:
        out[part] = write(part, own)
    return out


def order_components(items: Integers, component: Integers, n_components: int) -> tuple[Integers, Integers]:
    """Places of items by component, these by their first items; and where they begin."""
    first = np.full(n_components, np.iinfo(np.int64).max)
    np.minimum.at(first, component, items)
    order = np.lexsort((items, first[component]))
    sizes = np.bincount(component, minlength=n_components)[np.argsort(first, kind="stable")]
    return order, np.concatenate([[0], np.cumsum(sizes)])


def join_linked(parts: Iterable[LinkedDraws], n_draws: int) -> LinkedDraws:
    """Draws of all items from those of parts, which have whole components, in any order."""
    held: list[LinkedDraws | None] = [part for part in parts if len(part.items)]
    whole = [part for part in held if part is not None]
    if not whole:
        return LinkedDraws(np.zeros(0, np.int64), np.zeros(1, np.int64), np.zeros((0, n_draws), np.uint16))
    firsts = np.concatenate([part.items[part.bounds[:-1]] for part in whole])
    sizes = np.concatenate([part.sizes for part in whole])
    del whole
    by_first = np.argsort(firsts, kind="stable")
    bounds = np.concatenate([[0], np.cumsum(sizes[by_first])])
    starts = np.empty(len(sizes), np.int64)
    starts[by_first] = bounds[:-1]
    items, labels = np.empty(bounds[-1], np.int64), np.empty((bounds[-1], n_draws), smallest_kind(sizes))
    done = 0
    for number, part in enumerate(held):
        assert part is not None
        own = starts[done : done + len(part.sizes)]
        rows = np.arange(len(part.items)) + np.repeat(own - part.bounds[:-1], part.sizes)
        items[rows], labels[rows] = part.items, part.labels
        done += len(part.sizes)
        # So that what is joined is not held twice.
        held[number] = None
    return LinkedDraws(items, bounds, labels)


def split_components(bounds: Integers) -> list[tuple[int, int]]:
    """First and last component (not included) of those that are one piece of work: always the same."""
    starts = np.flatnonzero(np.diff(bounds[:-1] // ITEMS_AT_ONCE, prepend=-1)).tolist()
    return list(pairwise([*starts, len(bounds) - 1]))


def component_blocks(bounds: Integers) -> Iterator[Integers]:
    """Where the components of each piece of work begin, and where the last of them ends."""
    return (bounds[first : last + 1] for first, last in split_components(bounds))


def fill_rows(linked: LinkedDraws, columns: slice, out: SmallIntegers) -> None:
    """Labels (draw, item) of all items, each the first item of its cluster, of some draws."""
    out[:] = np.arange(out.shape[1], dtype=np.int32)
    for own in component_blocks(linked.bounds):
        part = slice(int(own[0]), int(own[-1]))
        name_by_item(linked.items[part], own - own[0], linked.labels[part][:, columns], out)


@kernel
def take_labels(draws: SmallIntegers, items: Integers, place: SmallIntegers, out: NDArray[Any]) -> None:
    """Labels (item, draw) of some items, each label replaced by its place."""
    for number in range(len(items)):
        for draw in range(draws.shape[0]):
            out[number, draw] = place[draws[draw, items[number]]]


@kernel
def name_by_item(items: Integers, bounds: Integers, labels: NDArray[Any], out: SmallIntegers) -> None:
    """Write the first item of each item's cluster to `out` (draw, item)."""
    for draw in range(out.shape[0]):
        for component in range(len(bounds) - 1):
            first = bounds[component]
            for place in range(first, bounds[component + 1]):
                out[draw, items[place]] = items[first + labels[place, draw]]


@kernel
def are_first_places(bounds: Integers, labels: NDArray[Any]) -> bool:
    """Whether each label is the place, in its component, of an item that is the first of its cluster."""
    for component in range(len(bounds) - 1):
        first = bounds[component]
        for place in range(first, bounds[component + 1]):
            for draw in range(labels.shape[1]):
                label = labels[place, draw]
                if label < 0 or label > place - first or labels[first + label, draw] != label:
                    return False
    return True


@kernel
def count_pairs_by_draw(bounds: Integers, labels: NDArray[Any]) -> Integers:
    """By draw, the pairs of components that are together."""
    totals = np.zeros(labels.shape[1], np.int64)
    sizes = np.zeros(labels.shape[0], np.int64)
    for component in range(len(bounds) - 1):
        start, stop = bounds[component], bounds[component + 1]
        for draw in range(labels.shape[1]):
            for item in range(start, stop):
                totals[draw] += sizes[labels[item, draw]]
                sizes[labels[item, draw]] += 1
            sizes[: stop - start] = 0
    return totals


@kernel
def count_clusters(bounds: Integers, labels: NDArray[Any]) -> Integers:
    """By draw, the clusters of components: items that are the first of theirs."""
    counts = np.zeros(labels.shape[1], np.int64)
    for component in range(len(bounds) - 1):
        for item in range(bounds[component], bounds[component + 1]):
            for draw in range(labels.shape[1]):
                counts[draw] += labels[item, draw] == item - bounds[component]
    return counts
