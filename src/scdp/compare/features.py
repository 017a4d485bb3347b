"""Features of pairs of records: distances by comparison, and how rare what two records share is.

The features of a pair stand in this order: the distance of each comparison; by column, the nats of the value where both
records have the same; by comparison of tokens, the nats of the tokens that both have.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Features, Floats, Groups, Integers
from scdp.compare.comparison import Comparison
from scdp.compare.prepared import MISSING, Frequencies, Prepared, own_counts, prepare_all, value_key
from scdp.table import EncodedColumn, Records
from scdp.table.spec import Spec

# All pairs of up to so many (about 2,450 records) are compared; of more records only candidates are.
MOST_PAIRS = 3_000_000
# Rarity is compared within this many nats; a table of ten million records has 16.
MOST_NATS = 40.0
# How long a comparison takes is measured on about so many pairs; to look up the values of a pair takes this long.
TIMED_PAIRS, SHORTEST_TIME = 4_000, 1e-7


# Families of columns that tell the same thing in part: parts of an address, ways of writing a name, lines of one house
# (a hotel, an office), and what songs of one album, papers of one issue or products of one line share.
PLACES, NAMES, PHONES, RELEASES = range(4)
PLACE_KINDS = ("address", "geo")
NAME_KINDS = ("person_name", "email")
PHONE_KINDS = ("phone",)
PLACE_WORDS = {
    *("address", "addr", "street", "road", "house", "city", "town", "suburb", "district", "county", "region"),
    *("state", "province", "country", "postcode", "postal", "zip", "plz", "ort", "stadt", "strasse", "ville"),
    *("rue", "ciudad", "calle", "place", "location"),
}
RELEASE_KINDS = ("venue", "year")
RELEASE_WORDS = {
    *("album", "artist", "artists", "band", "singer", "performer", "interpret", "label", "release", "released", "year"),
    *("venue", "journal", "booktitle", "proceedings", "conference", "series", "volume", "issue", "publisher"),
    *("jahr", "annee", "ano", "artiste", "artista", "zeitschrift", "revue", "revista", "verlag"),
    *("brand", "manufacturer", "maker", "category", "categories", "description"),
}


def find_family(field: Comparison) -> int:
    """The family of a comparison's columns: places, names, phones, releases, or -1 for none."""
    words = {word for name in field.columns for word in re.split(r"[^a-z]+", name.lower())}
    if field.kind in RELEASE_KINDS or words & RELEASE_WORDS:
        return RELEASES
    if field.kind in NAME_KINDS:
        return NAMES
    if field.kind in PHONE_KINDS:
        return PHONES
    return PLACES if field.kind in PLACE_KINDS or words & PLACE_WORDS else -1


class Layout(NamedTuple):
    """Where the features of a pair are: the distances of all comparisons first.

    `share` is how much of its columns' evidence each comparison gives: comparisons of one column tell the same thing,
    and count as one together, also where one of them takes in other columns. Such comparisons are one `group`.
    Groups of a `family` (-1 = none) may depend on each other: parts of an address, ways of writing a name, phones.
    `rarity` is the feature that holds the nats of the common value of two records, -1 where there is none.
    """

    share: Floats
    rarity: Integers
    group: Integers
    family: Integers

    @property
    def n_comparisons(self) -> int:
        return len(self.share)

    @property
    def n_groups(self) -> int:
        return int(self.group.max(initial=-1)) + 1

    @classmethod
    def of(
        cls, columns: Sequence[Sequence[str] | None], rarity: Sequence[int], families: Sequence[int] | None = None
    ) -> Self:
        """From the columns of each comparison (None: no evidence), the places of nats, and the families."""
        n_comparisons = Counter(name for each in columns if each is not None for name in set(each))
        share = [0.0 if each is None else 1.0 / max(n_comparisons[name] for name in each) for each in columns]
        group = _group_by_columns(columns)
        family = np.full(group.max(initial=-1) + 1, -1)
        np.maximum.at(family, group, -1 if families is None else np.array(families, dtype=np.int64))
        return cls(np.array(share), np.array(rarity, dtype=np.int64), group, family)


def _group_by_columns(columns: Sequence[Sequence[str] | None]) -> Integers:
    """The number of the group of each comparison: those that share a column, also through others, are one group."""
    group = list(range(len(columns)))
    for one, first in enumerate(columns):
        for other, second in enumerate(columns[:one]):
            if first is not None and second is not None and set(first) & set(second):
                group = [group[other] if each == group[one] else each for each in group]
    return np.unique(group, return_inverse=True)[1].astype(np.int64)


class Neighbours(NamedTuple):
    """Of item i: the items `other[start[i]:start[i + 1]]`, and at the same places the numbers of their pairs."""

    start: Integers
    other: NDArray[np.int32]
    pair: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Candidate pairs of `n_items` items, each once; `features` is (pairs, features)."""

    n_items: int
    left: Integers
    right: Integers
    features: Features

    def __len__(self) -> int:
        return len(self.left)

    @property
    def n_features(self) -> int:
        return self.features.shape[1]

    @cached_property
    def neighbours(self) -> Neighbours:
        both = np.concatenate([self.left, self.right])
        # Stable, so that neighbours stand in the order of their pairs whatever the sorting does.
        order = np.argsort(both, kind="stable")
        start = np.zeros(self.n_items + 1, dtype=np.int64)
        np.cumsum(np.bincount(both, minlength=self.n_items), out=start[1:])
        other = np.concatenate([self.right, self.left])[order].astype(np.int32)
        return Neighbours(start, other, (order % max(len(self), 1)).astype(np.int32))

    def take(self, items: NDArray[Any]) -> Pairs:
        """The pairs among some items, which are numbered anew in the order given."""
        place = np.full(self.n_items, -1, dtype=np.int64)
        place[items] = np.arange(len(items))
        left, right = place[self.left], place[self.right]
        kept = (left >= 0) & (right >= 0)
        return Pairs(len(items), left[kept], right[kept], self.features[kept])

    def select(self, mask: NDArray[np.bool_]) -> Pairs:
        """The marked pairs; items keep their numbers."""
        return Pairs(self.n_items, self.left[mask], self.right[mask], self.features[mask])

    def within(self, mask: NDArray[np.bool_]) -> Pairs:
        """The pairs of which both items are marked; items keep their numbers."""
        kept = mask[self.left] & mask[self.right]
        return self if kept.all() else self.select(kept)

    def with_column(self, column: NDArray[Any]) -> Pairs:
        """The same pairs with one more feature."""
        features = np.column_stack([self.features, column.astype(np.float32)])
        return Pairs(self.n_items, self.left, self.right, features)


class Columns(NamedTuple):
    """Which features a spec gives: comparisons whose values have nats, and those whose tokens have.

    `shares` are the comparisons of how common values are.
    """

    fields: tuple[Comparison, ...]
    values: tuple[int, ...]
    tokens: tuple[int, ...]
    shares: tuple[int, ...]
    layout: Layout

    @classmethod
    def of(cls, fields: Sequence[Comparison]) -> Columns:
        keys: dict[Hashable, int] = {}
        values: list[int] = []
        rarity: list[int] = []
        for number, field in enumerate(fields):
            if field.kind_details.value == "share":
                rarity.append(-1)
                continue
            key = value_key(field)
            if key not in keys:
                keys[key] = len(fields) + len(values)
                values.append(number)
            rarity.append(keys[key])
        tokens = tuple(number for number, field in enumerate(fields) if field.kind_details.tokens is not None)
        shares = tuple(number for number, field in enumerate(fields) if field.kind_details.value == "share")
        columns = [None if number in shares else field.columns for number, field in enumerate(fields)]
        layout = Layout.of(columns, rarity, [find_family(field) for field in fields])
        return cls(tuple(fields), tuple(values), tokens, shares, layout)

    @property
    def n_features(self) -> int:
        return len(self.fields) + len(self.values) + len(self.tokens)

    @property
    def sign(self) -> Integers:
        """-1 for distances, +1 for nats."""
        n_nats = len(self.values) + len(self.tokens)
        return np.repeat([-1, 1], [len(self.fields), n_nats]).astype(np.int64)


class ValueCounts(NamedTuple):
    """How often values and tokens occur among all records, by comparison; to be handed to other machines.

    `shares` are those of the values of comparisons of how common values are.
    """

    values: tuple[Frequencies, ...]
    tokens: tuple[Frequencies, ...]
    shares: tuple[Frequencies, ...] = ()


@dataclass(frozen=True, eq=False)
class Comparer:
    """Records prepared for comparing: gives the features of any of their pairs."""

    columns: Columns
    prepared: tuple[Prepared, ...]
    nats: tuple[Floats, ...]

    @classmethod
    def of(cls, records: Records, fields: Sequence[Comparison], counts: ValueCounts | None = None) -> Comparer:
        """With `counts`, how rare a value is follows from these and not from the records."""
        columns = Columns.of(fields)
        prepared = list(prepare_all(fields, records))
        if counts is not None:
            supplied_to = zip((*columns.tokens, *columns.shares), (*counts.tokens, *counts.shares), strict=True)
            for number, frequencies in supplied_to:
                prepared[number] = replace(prepared[number], supplied=frequencies)
        nats = []
        for place, number in enumerate(columns.values):
            own = own_counts(fields[number])
            supplied = own.values if own is not None else None if counts is None else counts.values[place]
            nats.append(_value_nats(prepared[number], supplied))
        return cls(columns, tuple(prepared), tuple(nats))

    def __len__(self) -> int:
        return len(self.prepared[0])

    def count(self) -> ValueCounts:
        """How often the values and tokens of these records occur."""
        values = []
        for number in self.columns.values:
            one = self.prepared[number]
            occurs = _occurrences(one)
            names = dict(zip(one.vocabulary, occurs.astype(int).tolist(), strict=True))
            values.append(Frequencies(int(occurs.sum()), names))
        tokens, shares = (
            tuple(self.prepared[number].tokens.frequencies for number in numbers)
            for numbers in (self.columns.tokens, self.columns.shares)
        )
        return ValueCounts(tuple(values), tokens, shares)

    def make_ready(self) -> None:
        """Make what comparisons need of all values, which is otherwise made when the first pairs are compared."""

        def count_tokens() -> None:
            for number in self.columns.tokens:
                _ = self.prepared[number].tokens

        # Tokens need no scorer, so neither waits for the other for ever; half of the work needs no interpreter.
        with ThreadPoolExecutor(max_workers=1) as pool:
            counting = pool.submit(count_tokens)
            for one in self.prepared:
                _ = one.scorer
            counting.result()

    def compare(self, left: Integers, right: Integers, workers: int = -1) -> Features:
        """The features of pairs."""
        features = np.empty((len(left), self.columns.n_features), dtype=np.float32)
        n = len(self.prepared)
        for number, one in enumerate(self.prepared):
            features[:, number] = one.pairs(left, right, workers)
        self._add_nats(features, n, left, right)
        return features

    def in_words(self, row: int, other: int, distances: Floats) -> tuple[str, ...]:
        """What each comparison finds in two records of which the distances are known."""
        found = []
        for one, distance in zip(self.prepared, distances.tolist(), strict=True):
            code = one.codes[row]
            same = code != MISSING and code == one.codes[other]
            n_with_it = int((one.codes == code).sum()) if same else None
            years = one.years_between(row, other)
            if years is not None and not np.isnan(distance):
                # In words it is the values that differ, whatever that counts.
                distance = one.values_apart(row, other)
            found.append(one.comparison.in_words(distance, n_with_it, years))
        return tuple(found)

    def time_pairs(self, left: Integers, right: Integers) -> Floats:
        """By comparison: about how many seconds a pair takes."""
        left, right = (ends[:: max(len(ends) // TIMED_PAIRS, 1)] for ends in (left, right))
        seconds = []
        for one in self.prepared:
            start = time.perf_counter()
            one.pairs(left, right, 1)
            seconds.append((time.perf_counter() - start) / max(len(left), 1))
        return np.array(seconds) + SHORTEST_TIME

    def complete(self, distances: Features, left: Integers, right: Integers) -> Features:
        """All features of pairs whose distances are there."""
        features = np.empty((len(left), self.columns.n_features), dtype=np.float32)
        features[:, : distances.shape[1]] = distances
        self._add_nats(features, distances.shape[1], left, right)
        return features

    def compare_all(self, groups: Groups = None, workers: int = -1) -> Pairs:
        """All pairs of records, or all pairs within groups, with their features."""
        return self.compare_some(np.arange(len(self)), groups, workers)

    def compare_some(self, rows: Integers, groups: Groups = None, workers: int = -1) -> Pairs:
        """All pairs of some records, by their places among these; with `groups` of these all pairs within groups."""
        if groups is None:
            parts = [np.arange(len(rows))]
        else:
            codes = np.unique(groups, return_inverse=True)[1]
            order = np.argsort(codes, kind="stable")
            parts = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
        sizes = [len(part) * (len(part) - 1) // 2 for part in parts]
        left, right = np.empty(sum(sizes), dtype=np.int64), np.empty(sum(sizes), dtype=np.int64)
        features = np.empty((sum(sizes), self.columns.n_features), dtype=np.float32)
        start = 0
        for part, size in zip(parts, sizes, strict=True):
            here = slice(start, start + size)
            first, second = np.triu_indices(len(part), k=1)
            # Each pair of distinct values is compared once.
            for number, one in enumerate(self.prepared):
                features[here, number] = one.block(rows[part], None, workers)[first, second]
            left[here], right[here] = part[first], part[second]
            start += size
        self._add_nats(features, len(self.prepared), rows[left], rows[right])
        return Pairs(len(rows), left, right, features)

    def _add_nats(self, features: Features, place: int, left: Integers, right: Integers) -> None:
        for number, nats in zip(self.columns.values, self.nats, strict=True):
            codes = self.prepared[number].codes
            one, other = codes[left], codes[right]
            shared = (one == other) & (one != MISSING)
            features[:, place] = np.where(shared, nats[np.where(shared, one, 0)] if len(nats) else 0.0, 0.0)
            features[(one == MISSING) | (other == MISSING), place] = np.nan
            place += 1
        for number in self.columns.tokens:
            features[:, place] = np.minimum(self.prepared[number].shared_nats(left, right), MOST_NATS)
            place += 1


def _occurrences(prepared: Prepared) -> Floats:
    codes = prepared.codes
    return np.bincount(codes[codes != MISSING], minlength=len(prepared.vocabulary)).astype(np.float64)


def _value_nats(prepared: Prepared, supplied: Frequencies | None) -> Floats:
    """By value: log of how many records there are for one that has it."""
    if supplied is None:
        counts = np.maximum(_occurrences(prepared), 1.0)
        total = max(float(counts.sum()), 1.0)
    else:
        counts, total = supplied.of(prepared.vocabulary), float(max(supplied.n_records, 1))
    return np.log(total / counts)


# More copies of a record than this are one; fewer are compared like any other records.
MOST_COPIES = 25
MIXER = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, eq=False)
class Copies:
    """`kept` are the rows that are compared; each row stays with the kept row at its place in `stays_with`."""

    kept: Integers
    stays_with: Integers

    @classmethod
    def find(cls, records: Records, spec: Spec, groups: Groups, known: Integers) -> Self:
        """Rows equal in all compared columns, in one group, of unknown cluster; one without a value is no copy."""
        n = len(records)
        if not _may_have_copies(records, spec):
            return cls(np.arange(n), np.arange(n))
        code = np.zeros(n, dtype=np.int64)
        filled = np.zeros(n, dtype=bool)
        for column in _compared_columns(records, spec):
            filled |= column.codes >= 0
            code = _encode(code * (len(column.texts) + 1) + column.codes + 1)
        if groups is not None:
            numbers = np.unique(groups, return_inverse=True)[1]
            code = _encode(code * (int(numbers.max(initial=0)) + 1) + numbers)
        # Rows of given clusters are no copies, whatever they hold.
        code = _encode(2 * code + (known >= 0))
        order = np.argsort(code, kind="stable")
        starts = np.flatnonzero(np.diff(code[order], prepend=-1))
        rank = np.empty(n, dtype=np.int64)
        rank[order] = np.arange(n) - np.repeat(starts, np.diff(np.append(starts, n)))
        first = np.empty(n, dtype=np.int64)
        first[order] = np.repeat(order[starts], np.diff(np.append(starts, n)))
        many = np.empty(n, dtype=bool)
        sizes = np.diff(np.append(starts, n))
        many[order] = np.repeat(sizes > MOST_COPIES, sizes)
        extra = (rank > 0) & many & filled & (known < 0)
        kept = np.flatnonzero(~extra)
        place = np.full(n, -1, dtype=np.int64)
        place[kept] = np.arange(len(kept))
        return cls(kept, np.where(extra, place[first], place))

    def any(self) -> bool:
        """Whether there are rows that are not compared."""
        return len(self.kept) < len(self.stays_with)


def _compared_columns(records: Records, spec: Spec) -> Iterator[EncodedColumn]:
    """Each column that is compared, or says when, as codes."""
    for name in dict.fromkeys(name for field in spec.fields for name in field.columns_read):
        column = records.encoded(name)
        if column is None:
            column = EncodedColumn.of([None if cell is None else str(cell) for cell in records[name].tolist()])
        assert column is not None
        yield column


def _may_have_copies(records: Records, spec: Spec) -> bool:
    """Whether more rows than are compared each may be equal: so many have one hash, which most tables show at once."""
    hashes = np.zeros(len(records), dtype=np.uint64)
    for column in _compared_columns(records, spec):
        hashes = (hashes + column.codes.astype(np.uint64)) * MIXER
        hashes ^= hashes >> np.uint64(29)
    hashes.sort()
    return bool((hashes[MOST_COPIES:] == hashes[:-MOST_COPIES]).any())


def _encode(values: Integers) -> Integers:
    from scdp.texts import number_values

    return number_values(values)[0].astype(np.int64)
