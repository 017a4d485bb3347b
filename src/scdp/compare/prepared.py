"""Prepared columns: cells go in; distinct values, each record's place among them and a scorer come out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import compress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Features, Integers
from scdp.compare.amounts import parse_date
from scdp.compare.cells import (
    TRANSFORMS,
    Codes,
    Tokens,
    clean,
    clean_all,
    distinct_texts,
    encode,
    first_of_list,
    number,
    split_names,
)
from scdp.compare.cells import Frequencies as Frequencies
from scdp.compare.cells import cell_text as cell_text
from scdp.compare.scorers import Scorer
from scdp.errors import InputError
from scdp.table import Column, EncodedColumn, Records

if TYPE_CHECKING:
    from scdp.compare.comparison import Comparison


# Edit distance takes time in the product of the lengths: two cells of a megabyte would take hours.
LONGEST_CELL = 20_000
# So many distinct texts are parsed in kernels, where there are some; of fewer, these would take longer to load.
FEWEST_AT_ONCE = 5_000
MISSING = -1
# Up to this distance two values agree in part, which counts whatever the time between two records.
KEPT = 0.5
# Pairs of records scored at a time: what that takes beside the result stays below 100 MB.
PAIRS_AT_ONCE = 1 << 20
# To sort pairs by their values takes as long as to score them, so it is done where it spares this share of them;
# the share is estimated from the pairs whose values fall into one of so many parts.
WORTH_SORTING, PARTS = 0.4, 64


@dataclass(frozen=True)
class Prepared:
    """`codes[record]` (32 bits) is the place of the record's value in `vocabulary`, -1 where it is missing.

    Without `supplied`, how rare values and tokens are is counted over these records. `times` are the years of the
    records (NaN = unknown) where a difference counts less after years.
    """

    comparison: Comparison
    codes: NDArray[Any]
    vocabulary: Sequence[Any]
    supplied: Frequencies | None = None
    times: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def scorer(self) -> Scorer:
        return self.comparison.kind_details.scorer(self)

    @cached_property
    def tokens(self) -> Tokens:
        """What values share with others, and how many records have it."""
        n_of_value = np.bincount(self.codes[self.codes != MISSING], minlength=len(self.vocabulary))
        own = own_counts(self.comparison)
        supplied = self.supplied if own is None else own.tokens
        return Tokens.of(self.vocabulary, n_of_value, self.comparison.kind_details.tokens, supplied)

    def shared_nats(self, left: NDArray[Any], right: NDArray[Any]) -> Features:
        """The information in what the records of each pair share: [0, inf), NaN where a value is missing.

        A value or token that c of N records have carries log(N / c) nats. For kinds with tokens it is the sum over
        those shared (the largest, where tokens are forms of the same), for others that of the value where both have
        the same, else 0.

        Parameters
        ----------
        left, right
            Rows of the prepared records, one pair an entry.

        Returns
        -------
        Nats (pairs,), float32.
        """
        out = np.full(len(left), np.nan, dtype=np.float32)
        forms = self.comparison.kind_details.forms
        for start in range(0, len(out), PAIRS_AT_ONCE):
            part = slice(start, start + PAIRS_AT_ONCE)
            a, b = self.codes[left[part]].astype(np.int64), self.codes[right[part]].astype(np.int64)
            present = (a != MISSING) & (b != MISSING)
            if present.any():
                out[part][present] = self.tokens.shared_nats(a[present], b[present], forms)
        return out

    def shares(self) -> NDArray[np.float64]:
        """How common each value is: shares of the records that have one, so that it is the same in a larger table."""
        tokens = self.tokens
        return tokens.counts / tokens.n_records

    def numbers(self) -> NDArray[np.float64]:
        """The numbers of the records that have one."""
        return np.asarray(self.vocabulary, dtype=np.float64)[self.codes[self.codes != MISSING]]

    def table(self, rows: Integers, columns: Integers | None, workers: int) -> Features:
        """Distances between vocabulary places, with a last row and column of NaN, where -1 points."""
        others = rows if columns is None else columns
        out = np.full((len(rows) + 1, len(others) + 1), np.nan, dtype=np.float32)
        if len(rows) and len(others):
            out[:-1, :-1] = self.scorer.block(rows, columns, workers)
        return out

    def block(self, rows: Integers, columns: Integers | None, workers: int) -> Features:
        """Distances between records: each pair of distinct values is scored once, then spread."""
        values, places = distinct(self.codes[rows])
        if columns is None:
            found = self.table(values, None, workers)[np.ix_(places, places)]
            return self.relax(found, rows[:, None], rows)
        other_values, other_places = distinct(self.codes[columns])
        found = self.table(values, other_values, workers)[np.ix_(places, other_places)]
        return self.relax(found, rows[:, None], columns)

    def pairs(self, left: NDArray[Any], right: NDArray[Any], workers: int) -> Features:
        """Distances of the given pairs of records."""
        out = np.full(len(left), np.nan, dtype=np.float32)
        for start in range(0, len(out), PAIRS_AT_ONCE):
            part = slice(start, start + PAIRS_AT_ONCE)
            a, b = self.codes[left[part]], self.codes[right[part]]
            present = (a != MISSING) & (b != MISSING)
            if present.any():
                low, high = (ends(a, b)[present].astype(np.int64) for ends in (np.minimum, np.maximum))
                out[part][present] = self.score_values(low, high, workers)
        return self.relax(out, left, right)

    def relax(self, distances: Features, left: NDArray[Any], right: NDArray[Any]) -> Features:
        """Distances of records as far as they count after the years between these.

        What is more than half way from equal halves with every half-life. A record without a time is of the same time.
        """
        half_life = self.comparison.half_life
        if self.times is None or half_life is None:
            return distances
        years = np.nan_to_num(np.abs(self.times[left] - self.times[right]), nan=0.0)
        with np.errstate(invalid="ignore"):
            relaxed = KEPT + (distances - KEPT) * np.exp2(-years / half_life)
            return np.where(distances > KEPT, relaxed, distances).astype(np.float32)

    def years_between(self, row: int, other: int) -> float | None:
        """How far apart in time two records are, if that counts and is known."""
        years = None if self.times is None else float(abs(self.times[row] - self.times[other]))
        return None if years is None or np.isnan(years) else years

    def values_apart(self, row: int, other: int) -> float:
        """The distance of the values of two records, neither missing, whatever the time between these."""
        low, high = sorted((int(self.codes[row]), int(self.codes[other])))
        return float(self.score_values(np.array([low]), np.array([high]), 1)[0])

    def score_values(self, low: Integers, high: Integers, workers: int) -> Features:
        """Distances of pairs of values; each distinct pair is scored once where pairs are often the same."""
        n_values = len(self.vocabulary)
        keys = low * n_values + high
        if not often_the_same(keys):
            return self.scorer.pairs(low, high, workers)
        few, places = np.unique(keys, return_inverse=True)
        return self.scorer.pairs(few // n_values, few % n_values, workers)[places]


def often_the_same(keys: Integers) -> bool:
    """Whether many keys occur again, judged by all that fall into one of many parts by their value."""
    from scdp.compare.kernels import take_part

    sample = take_part(keys, PARTS)
    return len(np.unique(sample)) <= (1 - WORTH_SORTING) * len(sample)


def distinct(codes: NDArray[Any]) -> tuple[Integers, Integers]:
    """The distinct codes present, and each record's place among them, -1 if missing."""
    values, places = np.unique(codes.astype(np.int64), return_inverse=True)
    if len(values) and values[0] == MISSING:
        return values[1:], places - 1
    return values, places


def prepare_all(comparisons: Sequence[Comparison], records: Records) -> Iterator[Prepared]:
    """What each comparison's `prepare` gives, in turn; values that several take from the cells are made once."""
    kept: dict[Hashable, tuple[Codes, Sequence[Any]]] = {}
    keys = [value_key(comparison) for comparison in comparisons]
    for place, (key, comparison) in enumerate(zip(keys, comparisons, strict=True)):
        found = kept.pop(key, None)
        if found is None:
            columns = [records.encoded(column) or records[column] for column in comparison.columns]
            found = _encoded(comparison, columns, partial(row_of, records))
        if key in keys[place + 1 :]:
            kept[key] = found
        yield Prepared(comparison, *found, times=read_times(comparison, records))


def read_times(comparison: Comparison, records: Records) -> NDArray[np.float64] | None:
    """The years of records, with months and days as parts of a year; NaN where none is known.

    Where a day and a month could be either, the day is first.
    """
    if comparison.time is None:
        return None
    found = distinct_texts([records.encoded(comparison.time) or records[comparison.time]])
    if found is None:
        raise InputError(f"{records.source}: column {comparison.time!r} holds cells that are no text, number or date")
    codes, texts = found
    dates = [parse_date(text) or (0, 0, 0) for text in texts]
    # In the middle of what is not known.
    years = [
        year + (month - 1 + (day - 0.5) / 31 if day else month - 0.5 if month else 6.0) / 12 if year else np.nan
        for year, month, day in dates
    ]
    return np.array([*years, np.nan])[codes]


def row_of(records: Records, row: int) -> str:
    """A row by its place in its source, for messages."""
    return f"{records.source}, row {records.row_number(row)}"


def value_key(comparison: Comparison) -> Hashable:
    """Equal for comparisons that take the same values from records."""
    kind = comparison.kind_details
    value = {"share": "text", "parts": comparison.kind}.get(kind.value, kind.value)
    settings = (comparison.clean, comparison.separator, comparison.missing, comparison.order, comparison.region)
    return comparison.columns, comparison.of, kind.part, settings, value, comparison.frequencies


class OwnCounts(NamedTuple):
    """How often the values of one comparison occur, and how often their tokens."""

    values: Frequencies
    tokens: Frequencies


@lru_cache(maxsize=64)
def own_counts(comparison: Comparison) -> OwnCounts | None:
    """What the frequencies that the user gave with a comparison say of values and tokens; None without these."""
    given = comparison.frequencies
    if given is None:
        return None
    texts, split = list(map(str, given.counts)), comparison.kind_details.tokens
    values: Counter[Hashable] = Counter()
    tokens: Counter[Hashable] = Counter()
    for value, count in zip(_converted(comparison, texts), given.counts.values(), strict=True):
        if value is None or value == "":
            continue
        values[value] += count
        for token in (value,) if split is None else set(split(value)):
            tokens[token] += count
    return OwnCounts(replace(given, counts=values), replace(given, counts=tokens))


def encode_cells(
    comparison: Comparison,
    columns: Sequence[Column | EncodedColumn],
    place_of: Callable[[int], str],
    frequencies: Frequencies | None = None,
) -> Prepared:
    """Join, take the part asked for, clean; equal values share a place. Equal raw cells are handled once.

    `place_of` names a row to people, for messages.
    """
    return Prepared(comparison, *_encoded(comparison, columns, place_of), frequencies)


def _encoded(
    comparison: Comparison, columns: Sequence[Column | EncodedColumn], place_of: Callable[[int], str]
) -> tuple[Codes, Sequence[Any]]:
    found = distinct_texts(columns, comparison.missing)
    if found is None or max(map(len, found[1]), default=0) > LONGEST_CELL:
        refuse_bad_cells(comparison, columns, place_of)
    assert found is not None, "cells without a text have been refused"
    codes, texts = found
    many = comparison.kind_details.parse_many
    if many is not None and len(texts) >= FEWEST_AT_ONCE:
        parsed = many(comparison, clean_all(_transformed(comparison, texts), comparison.clean))
        if parsed is not None:
            return parsed[0][codes], parsed[1]
    moved, values = encode(_converted(comparison, texts))
    # Cleaning can make a text much longer: one character becomes up to eighteen.
    if comparison.kind_details.value in ("text", "share") and max(map(len, values), default=0) > LONGEST_CELL:
        refuse_bad_cells(comparison, columns, place_of)
    return _without_missing(moved, values, codes)


def _without_missing(moved: Codes, values: list[Any], codes: Codes) -> tuple[Codes, list[Any]]:
    """Places among the values that are there; the empty text and None are not."""
    # Values differ, so that each of the two is there at most once.
    absent = [values.index(blank) for blank in (None, "") if blank in values]
    if absent:
        present = np.ones(len(values), dtype=bool)
        present[absent] = False
        moved = np.where(present, np.cumsum(present) - 1, MISSING).astype(np.int32)[moved]
        values = list(compress(values, present.tolist()))
    return moved[codes], values


def refuse_bad_cells(
    comparison: Comparison, columns: Sequence[Column | EncodedColumn], place_of: Callable[[int], str]
) -> None:
    """Go row by row, and raise an error at the first cell that has no text or too long a one."""
    cells = [column.cells if isinstance(column, EncodedColumn) else column for column in columns]
    seen: set[str] = set()
    for row in range(len(cells[0])):
        text = _joined(comparison, cells, row, place_of)
        if text in seen or not text:
            continue
        seen.add(text)
        if comparison.kind_details.value in ("text", "share"):
            (value,) = _converted(comparison, [text])
            _check_length(len(value), comparison.name, row, place_of)


def _joined(comparison: Comparison, columns: Sequence[Column], row: int, place_of: Callable[[int], str]) -> str:
    texts, length = [], 0
    for name, column in zip(comparison.columns, columns, strict=False):
        text = cell_text(column[row])
        if text is None:
            raise InputError(
                f"{place_of(row)}, column {name!r}: a cell of type {type(column[row]).__name__} "
                "is neither text nor a number"
            )
        length += len(text)
        _check_length(length, name, row, place_of)
        texts.append(text)
    return " ".join(filter(None, texts))


def _check_length(length: int, name: str, row: int, place_of: Callable[[int], str]) -> None:
    if length > LONGEST_CELL:
        raise InputError(
            f"{place_of(row)}, column {name!r}: {length:,} characters, more than the "
            f"{LONGEST_CELL:,} that can be compared; shorten the cell or leave it empty"
        )


def _converted(comparison: Comparison, texts: list[str]) -> list[Any]:
    """The value of each raw text; the empty text or None where there is none."""
    kind, steps = comparison.kind_details, comparison.clean
    texts = _transformed(comparison, texts)
    if kind.value == "names":
        return [_names(text, comparison) for text in texts]
    cleaned = clean_all(texts, steps)
    if kind.parse is not None:
        return kind.parse(comparison, cleaned)
    return list(map(number, cleaned)) if kind.value == "number" else cleaned


def _transformed(comparison: Comparison, texts: list[str]) -> list[str]:
    """The parts of texts that are compared."""
    for name in (comparison.of, comparison.kind_details.part):
        if name is not None:
            texts = list(map(_transform(name, comparison.separator), texts))
    return texts


def _names(text: str, comparison: Comparison) -> tuple[str, ...] | None:
    found = (clean(name, comparison.clean) for name in split_names(text, comparison.separator))
    return tuple(dict.fromkeys(filter(None, found))) or None


def _transform(name: str, separator: str | None) -> Callable[[str], str]:
    if name == "first_of_list":
        return lambda text: first_of_list(text, separator)
    return TRANSFORMS[name]
