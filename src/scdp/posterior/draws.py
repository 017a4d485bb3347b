"""Stored draws: partitions of n items as packed codes of the hidden items; canonical labels leave on demand.

The code of a hidden item is its cluster's number among the clusters of hidden items or, where clusters may be
shared with known items, the known cluster's number first and the new clusters' numbers after those. Packed, a code
takes as many bits as tell the codes of its draw apart, lowest bit first, in words of 64 bits. Where no item is known,
and most are with no other in any draw, only the others are stored, component by component.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp._typing import Integers, SmallIntegers, Words
from scdp.partitions import ComponentItems, number_by_appearance
from scdp.posterior.linked import (
    LabelFile,
    Labels,
    LinkedDraws,
    count_clusters,
    count_pairs_by_draw,
    fill_rows,
    order_components,
    rewrite,
    split_components,
    split_rows,
)

if TYPE_CHECKING:
    from scdp.posterior.pairs import PairCounts

# Labels unpacked at a time: 16 MB, small beside the draws and large beside the cost of a call.
CHUNK_LABELS = 4_000_000


@kernel
def expand_codes(
    codes: SmallIntegers,
    offset: int,
    hidden: Integers,
    known: SmallIntegers,
    numbers: SmallIntegers,
    labels: SmallIntegers,
) -> None:
    """Canonical labels (draw, item) from the codes of hidden items and the codes of known ones."""
    full = known.copy()
    for draw in range(codes.shape[0]):
        for place in range(len(hidden)):
            full[hidden[place]] = codes[draw, place] + offset
        number_by_appearance(full, 0, numbers, labels[draw])


class StoredDraws(ABC):
    """Draws of `n_chains` chains of equal length.

    `known` holds the cluster number of each known item and -1 where the item is hidden; `n_codes` and
    `n_hidden_clusters` are (chain, draw). How codes are stored is left to `PackedDraws` and `ComponentDraws`.

    Example
    -------
    >>> from scdp.posterior import Posterior
    >>> stored = Posterior([[[0, 0, 1], [0, 1, 2]]]).stored
    >>> stored.n_chains, stored.n_draws, stored.n_items
    (1, 2, 3)
    """

    known: SmallIntegers
    shared: bool
    n_codes: SmallIntegers
    n_hidden_clusters: SmallIntegers

    @abstractmethod
    def codes(self, chain: int, start: int, stop: int) -> SmallIntegers:
        """Codes (draw, hidden item) of consecutive draws of a chain.

        Parameters
        ----------
        chain : int
            The number of the chain.
        start, stop : int
            The first draw, and the one after the last.

        Returns
        -------
        array of int (draw, hidden item)

        Example
        -------
        >>> from scdp.posterior import Posterior
        >>> stored = Posterior([[[0, 0, 1], [0, 1, 2]]]).stored
        >>> stored.codes(0, 0, 2).tolist()
        [[0, 0, 1], [0, 1, 2]]
        """

    @abstractmethod
    def item_codes(self, item: int) -> SmallIntegers:
        """Codes (chain, draw) of one item, equal for two items in the draws that put them together.

        Parameters
        ----------
        item : int
            The number of the item.

        Returns
        -------
        array of int (chain, draw)

        Example
        -------
        >>> from scdp.posterior import Posterior
        >>> stored = Posterior([[[0, 0, 1], [0, 1, 2]]]).stored
        >>> (stored.item_codes(0) == stored.item_codes(1)).tolist()
        [[True, False]]
        """

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Memory that the stored draws take."""

    @property
    def n_chains(self) -> int:
        return self.n_codes.shape[0]

    @property
    def n_draws(self) -> int:
        """Draws in each chain."""
        return self.n_codes.shape[1]

    @property
    def n_items(self) -> int:
        return len(self.known)

    @cached_property
    def hidden(self) -> Integers:
        """Indices of the items whose cluster was sampled."""
        return np.flatnonzero(self.known < 0)

    @cached_property
    def n_known_clusters(self) -> int:
        return int(self.known.max(initial=-1)) + 1

    @cached_property
    def n_clusters(self) -> Integers:
        """Number of clusters among all items (chain, draw)."""
        extra = 0 if self.shared else self.n_known_clusters
        return self.n_codes.astype(np.int64) + extra

    def labels(self, chain: int, start: int, stop: int) -> SmallIntegers:
        """Canonical labels (draw, item) of consecutive draws of a chain.

        Parameters
        ----------
        chain : int
            The number of the chain.
        start, stop : int
            The first draw, and the one after the last.

        Returns
        -------
        array of int (draw, item)

        Example
        -------
        >>> from scdp.posterior import Posterior
        >>> stored = Posterior([[[0, 0, 1], [0, 1, 2]]]).stored
        >>> stored.labels(0, 0, 2).tolist()
        [[0, 0, 1], [0, 1, 2]]
        """
        return self._expand(self.codes(chain, start, stop))

    def code_chunks(self) -> Iterator[tuple[slice, SmallIntegers]]:
        """All codes in pieces, each with the place of its draws in the chain-major order.

        Yields
        ------
        slice, array of int (draw, hidden item)

        Example
        -------
        >>> from scdp.posterior import Posterior
        >>> stored = Posterior([[[0, 0, 1], [0, 1, 2]]]).stored
        >>> [codes.tolist() for _, codes in stored.code_chunks()]
        [[[0, 0, 1], [0, 1, 2]]]
        """
        yield from self._chunks(self.codes, max(1, len(self.hidden)))

    def label_chunks(self) -> Iterator[tuple[slice, SmallIntegers]]:
        """All canonical labels in pieces, each with the place of its draws in the chain-major order.

        Yields
        ------
        slice, array of int (draw, item)

        Example
        -------
        >>> from scdp.posterior import Posterior
        >>> stored = Posterior([[[0, 0, 1], [0, 1, 2]]]).stored
        >>> [labels.tolist() for _, labels in stored.label_chunks()]
        [[[0, 0, 1], [0, 1, 2]]]
        """
        yield from self._chunks(self.labels, max(1, self.n_items))

    def codes_at(self, draws: Integers, places: Integers | None = None) -> SmallIntegers:
        """Codes of chosen draws, counted in the chain-major order; of the hidden items at some places, if given.

        Parameters
        ----------
        draws : array of int
            The numbers of draws, chain after chain.
        places : array of int, optional
            Places among the hidden items; all, unless given.

        Returns
        -------
        array of int (draw, place)

        Example
        -------
        >>> from scdp.posterior import Posterior
        >>> stored = Posterior([[[0, 0, 1], [0, 1, 2]]]).stored
        >>> stored.codes_at(np.array([1]), np.array([0, 2])).tolist()
        [[0, 2]]
        """
        out = np.empty((len(draws), len(self.hidden if places is None else places)), np.int32)
        for row, codes in enumerate(self._each(draws)):
            out[row] = codes if places is None else codes[places]
        return out

    def places_together(self, draws: Integers) -> Integers:
        """Places of the hidden items that are with another item, hidden or known, in one of the chosen draws.

        Parameters
        ----------
        draws : array of int
            The numbers of draws, chain after chain.

        Returns
        -------
        array of int

        Example
        -------
        >>> from scdp.posterior import Posterior
        >>> stored = Posterior([[[0, 0, 1], [0, 1, 2]]]).stored
        >>> stored.places_together(np.array([0])).tolist()
        [0, 1]
        """
        together = np.zeros(len(self.hidden), bool)
        known = self.n_known_clusters if self.shared else 0
        for codes in self._each(draws):
            sizes = np.bincount(codes, minlength=known)
            sizes[:known] += 1
            together |= sizes[codes] > 1
        return np.flatnonzero(together)

    def _each(self, draws: Integers) -> Iterator[SmallIntegers]:
        """The codes of chosen draws, one after another."""
        for chain, draw in zip(*divmod(draws, self.n_draws), strict=True):
            yield self.codes(chain, draw, draw + 1)[0]

    def labels_at(self, draws: Integers) -> SmallIntegers:
        """Canonical labels of chosen draws, counted in the chain-major order.

        Parameters
        ----------
        draws : array of int
            The numbers of draws, chain after chain.

        Returns
        -------
        array of int (draw, item)

        Example
        -------
        >>> from scdp.posterior import Posterior
        >>> stored = Posterior([[[0, 0, 1], [0, 1, 2]]]).stored
        >>> stored.labels_at(np.array([1])).tolist()
        [[0, 1, 2]]
        """
        return self._expand(self.codes_at(draws))

    def choose_draws(self, at_most: int) -> Integers:
        """At most so many draws, evenly over all chains, counted in the chain-major order.

        Parameters
        ----------
        at_most : int
            How many at most.

        Returns
        -------
        array of int

        Example
        -------
        >>> from scdp.posterior import Posterior
        >>> stored = Posterior([[[0, 0, 1], [0, 1, 2]]]).stored
        >>> stored.choose_draws(5).tolist()
        [0, 1]
        """
        total = self.n_chains * self.n_draws
        return np.unique(np.linspace(0, total - 1, min(total, max(1, at_most))).round().astype(np.int64))

    def _expand(self, codes: SmallIntegers) -> SmallIntegers:
        if self.n_known_clusters == 0:
            return codes  # numbered by appearance already, and of all items
        labels = np.empty((len(codes), self.n_items), np.int32)
        offset = 0 if self.shared else self.n_known_clusters
        numbers = np.full(int(self.n_clusters.max()), -1, np.int32)
        expand_codes(codes, offset, self.hidden, self.known, numbers, labels)
        return labels

    def _chunks(self, read: Any, row_length: int) -> Iterator[tuple[slice, SmallIntegers]]:
        step = max(1, CHUNK_LABELS // row_length)
        for chain in range(self.n_chains):
            for start in range(0, self.n_draws, step):
                stop = min(start + step, self.n_draws)
                first = chain * self.n_draws
                yield slice(first + start, first + stop), read(chain, start, stop)


@dataclass(frozen=True, eq=False)
class PackedDraws(StoredDraws):
    """`words` are one packed array a chain; a draw begins at its place in `starts` (chain, draw)."""

    known: SmallIntegers
    shared: bool
    words: tuple[Words, ...]
    starts: Integers
    n_codes: SmallIntegers
    n_hidden_clusters: SmallIntegers

    @cached_property
    def widths(self) -> NDArray[np.uint8]:
        """Bits a code takes in each draw (chain, draw)."""
        counts, places = np.unique(self.n_codes, return_inverse=True)
        bits = np.array([count_bits(count) for count in counts.tolist()], np.uint8)
        return bits[places].reshape(self.n_codes.shape)

    @property
    def nbytes(self) -> int:
        """Memory that the stored draws take."""
        tables = self.starts.nbytes + self.n_codes.nbytes + self.n_hidden_clusters.nbytes + self.known.nbytes
        return tables + sum(chain.nbytes for chain in self.words)

    def codes(self, chain: int, start: int, stop: int) -> SmallIntegers:
        """Codes (draw, hidden item) of consecutive draws of a chain."""
        out = np.empty((stop - start, len(self.hidden)), np.int32)
        starts, widths = self.starts[chain, start:stop], self.widths[chain, start:stop]
        unpack_draws(self.words[chain], starts, widths, out)
        return out

    def item_codes(self, item: int) -> SmallIntegers:
        """Codes (chain, draw) of one item, equal for two items in the draws that put them together."""
        out = np.empty(self.starts.shape, np.int32)
        if self.known[item] >= 0:
            # Without sharing, hidden codes start at 0 too; negative numbers keep known clusters apart.
            out[:] = self.known[item] if self.shared else -1 - self.known[item]
            return out
        place = int(np.searchsorted(self.hidden, item))
        for chain, words in enumerate(self.words):
            unpack_item(words, self.starts[chain], self.widths[chain], place, out[chain])
        return out

    def check(self) -> None:
        """Refuse with ValueError what kernels could not read safely, such as a damaged file."""
        shapes = {self.starts.shape, self.n_codes.shape, self.n_hidden_clusters.shape}
        if len(shapes) > 1 or self.starts.ndim != 2 or self.starts.size == 0 or self.known.ndim != 1:
            raise ValueError("tables of different shapes")
        if self.n_codes.min() < 0 or self.known.min(initial=0) < -1:
            raise ValueError("negative counts")
        if self.known.max(initial=-1) >= self.n_items or self.n_clusters.min() < self.n_known_clusters:
            raise ValueError("fewer clusters than the known items have")
        for words, starts, widths in zip(self.words, self.starts, self.widths, strict=True):
            ends = starts + (len(self.hidden) * widths.astype(np.int64) + 63) // 64
            if words.ndim != 1 or starts.min() < 0 or ends.max() > len(words):
                raise ValueError("draws beyond the end of the words")
        counts = self.n_codes.ravel()
        for place, codes in self.code_chunks():
            if (codes.max(axis=1, initial=0) >= np.maximum(1, counts[place])).any():
                raise ValueError("codes out of range")


@dataclass(frozen=True, eq=False)
class ComponentDraws(StoredDraws):
    """Draws of `n` items of which none is known; only `items`, those that a draw has with another, are stored.

    They stand as in `LinkedDraws`, but with the draws of `labels_within` (item, draw) in the chain-major order.
    """

    n: int
    shape: tuple[int, int]
    items: Integers
    bounds: Integers
    labels_within: Labels
    shared: bool = True
    n_codes: SmallIntegers = field(init=False)

    def __post_init__(self) -> None:
        counts = np.full(self.labels_within.shape[1], self.n - len(self.items))
        for first, last in self.blocks():
            counts += count_clusters(*self.block(first, last))
        object.__setattr__(self, "n_codes", counts.astype(np.int32).reshape(self.shape))

    @classmethod
    def of(cls, linked: LinkedDraws, n: int, shape: tuple[int, int], shared: bool = True) -> Self:
        """Of n items; draw d of chain c is column d * chains + c. The labels are taken over, and are not to be used."""
        n_chains, n_draws = shape
        labels = linked.labels
        if n_chains > 1:
            order = np.arange(n_chains * n_draws).reshape(n_draws, n_chains).T.ravel()
            if isinstance(labels, LabelFile):
                labels.order(order)
            else:
                for part in split_rows(len(labels)):
                    labels[part] = labels[part][:, order]
        return cls(n, shape, linked.items, linked.bounds, labels, shared)

    @cached_property
    def known(self) -> SmallIntegers:  # type: ignore[override]
        return np.full(self.n, -1, np.int32)

    @property
    def n_hidden_clusters(self) -> SmallIntegers:  # type: ignore[override]
        return self.n_codes

    @property
    def nbytes(self) -> int:
        return self.items.nbytes + self.bounds.nbytes + self.labels_within.nbytes + self.n_codes.nbytes

    def codes(self, chain: int, start: int, stop: int) -> SmallIntegers:
        out = np.empty((stop - start, self.n), np.int32)
        first = chain * self.n_draws + start
        fill_rows(LinkedDraws(self.items, self.bounds, self.labels_within), slice(first, first + len(out)), out)
        number_rows(out)
        return out

    def item_codes(self, item: int) -> SmallIntegers:
        found = np.flatnonzero(self.items == item)
        if not len(found):
            return np.full(self.shape, item, np.int32)
        first = self.bounds[np.searchsorted(self.bounds, found[0], side="right") - 1]
        codes = self.items[first + self.labels_within[found[0] : found[0] + 1][0]]
        return codes.astype(np.int32).reshape(self.shape)

    def take(self, items: Integers) -> SmallIntegers:
        """Labels (draw, item) of some items in all draws, each an item of its cluster."""
        place = np.full(self.n, -1)
        place[self.items] = np.arange(len(self.items))
        stored = np.flatnonzero(place[items] >= 0)
        out = np.tile(items.astype(np.int32), (self.n_codes.size, 1))
        out[:, stored] = self.items[self.columns.take(place[items[stored]])]
        return out

    @property
    def linked(self) -> ComponentItems:
        """The items that are stored, by component."""
        return ComponentItems(self.items, self.bounds)

    @property
    def columns(self) -> ComponentColumns:
        """Labels (draw, stored item), read when they are asked for."""
        return ComponentColumns(self)

    @cached_property
    def pair_counts(self) -> PairCounts:
        """Pairs of stored items, by their places, and in how many draws each is together."""
        from scdp.posterior.pairs import count_pairs_by_component

        return count_pairs_by_component(self.columns, self.bounds)

    def blocks(self) -> list[tuple[int, int]]:
        """First and last component (not included) of those that are one piece of work: always the same."""
        return split_components(self.bounds)

    def block(self, first: int, last: int) -> tuple[Integers, NDArray[Any]]:
        """Where components begin among the items of some that follow each other, and the labels of these items."""
        own = self.bounds[first : last + 1]
        return own - own[0], self.labels_within[int(own[0]) : int(own[-1])]

    def reorder(self, items: Integers) -> ComponentDraws:
        """The same draws of the same items, in another order: item k is what was items[k]."""
        number = np.empty(self.n, np.int64)
        number[items] = np.arange(self.n)
        moved, sizes = number[self.items], np.diff(self.bounds)
        component = np.repeat(np.arange(len(sizes)), sizes)
        order, bounds = order_components(moved, component, len(sizes))

        def write(part: slice, own: Integers) -> NDArray[Any]:
            labels = self.labels_within[order[part]]
            name_by_first_place(own, labels)
            return labels

        labels = rewrite(self.labels_within, write, bounds, self.labels_within.dtype)
        return ComponentDraws(self.n, self.shape, moved[order], bounds, labels, self.shared)


class ComponentColumns:
    """Labels (draw, stored item): the place among the stored items of the first one of the cluster."""

    def __init__(self, stored: ComponentDraws) -> None:
        self.stored, self.n_labels = stored, len(stored.items)
        self._starts = np.repeat(stored.bounds[:-1], np.diff(stored.bounds)).astype(np.int32)

    def __len__(self) -> int:
        return self.stored.n_codes.size

    def take(self, items: Integers) -> SmallIntegers:
        """Labels (draw, item) of some stored items, by their places."""
        out = np.empty((len(self), len(items)), np.int32)
        for part in split_rows(len(items)):
            out[:, part] = self.stored.labels_within[items[part]].T
            out[:, part] += self._starts[items[part]]
        return out

    def count_pairs(self) -> Integers:
        """By draw, the pairs that are together."""
        counts = np.zeros(len(self), np.int64)
        for block in self.stored.blocks():
            counts += count_pairs_by_draw(*self.stored.block(*block))
        return counts


@kernel
def number_rows(labels: SmallIntegers) -> None:
    """Replace the labels (draw, item) of each draw, which are items, by canonical ones."""
    numbers = np.full(labels.shape[1], -1, np.int32)
    for draw in range(labels.shape[0]):
        number_by_appearance(labels[draw].copy(), 0, numbers, labels[draw])


@kernel
def name_by_first_place(bounds: Integers, labels: NDArray[Any]) -> None:
    """Rename the clusters of each component by the places of their first items; labels are places already."""
    first_of = np.full(labels.shape[0] + 1, -1, np.int64)
    for component in range(len(bounds) - 1):
        start, stop = bounds[component], bounds[component + 1]
        for draw in range(labels.shape[1]):
            for place in range(start, stop):
                label = labels[place, draw]
                if first_of[label] < 0:
                    first_of[label] = place - start
                labels[place, draw] = first_of[label]
            first_of[: stop - start] = -1


def count_bits(n_codes: int) -> int:
    """Bits that tell `n_codes` codes apart: none for a single one."""
    return max(0, int(n_codes) - 1).bit_length()


def count_words(n_items: int, width: int) -> int:
    """How many words one draw of `n_items` takes."""
    return (n_items * width + 63) // 64


@kernel
def pack(codes: SmallIntegers, width: int, words: Words) -> None:
    """Write each code in `width` bits, lowest first; a code may straddle two words. Words enter as zero."""
    for item in range(len(codes)):
        bit = item * width
        word = bit >> 6
        shift = bit & 63
        code = np.uint64(codes[item])
        words[word] |= code << np.uint64(shift)
        if shift + width > 64:
            words[word + 1] |= code >> np.uint64(64 - shift)


@kernel
def read_code(words: Words, start: int, item: int, width: int) -> int:
    """The code of one item in the draw whose words begin at `start`."""
    if width == 0:
        return 0
    # Widths are stored in eight bits: without the compiler NumPy would multiply in eight bits too.
    bit = item * int(width)
    word = start + (bit >> 6)
    shift = bit & 63
    value = words[word] >> np.uint64(shift)
    if shift + width > 64:
        value |= words[word + 1] << np.uint64(64 - shift)
    mask = (np.uint64(1) << np.uint64(width)) - np.uint64(1)
    return np.int64(value & mask)  # type: ignore[return-value]


@kernel
def unpack_draws(words: Words, starts: Integers, widths: NDArray[Any], out: SmallIntegers) -> None:
    """Codes (draw, item) of the draws that begin at `starts`."""
    for draw in range(out.shape[0]):
        for item in range(out.shape[1]):
            out[draw, item] = read_code(words, starts[draw], item, widths[draw])


@kernel
def unpack_item(words: Words, starts: Integers, widths: NDArray[Any], item: int, out: SmallIntegers) -> None:
    """The code of one item in every draw, without unpacking the others."""
    for draw in range(len(out)):
        out[draw] = read_code(words, starts[draw], item, widths[draw])
