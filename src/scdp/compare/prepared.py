"""Prepared columns: cells go in; distinct values, each record's place among them and a scorer come out."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scdp.compare.cleaning import clean
from scdp.compare.scorers import Floats, Integers, Scorer
from scdp.compare.transforms import TRANSFORMS, first_of_list, number, split_names
from scdp.errors import InputError
from scdp.records import Column

if TYPE_CHECKING:
    from scdp.compare.comparison import Comparison

# Edit distance takes time in the product of the lengths: two cells of a megabyte would take hours.
LONGEST_CELL = 20_000
MISSING = -1


@dataclass(frozen=True)
class Prepared:
    """`codes[record]` is the place of the record's value in `vocabulary`, -1 where it is missing."""

    comparison: Comparison
    codes: Integers
    vocabulary: list[Any]

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def scorer(self) -> Scorer:
        return self.comparison.kind_details.scorer(self.comparison, self.vocabulary)

    def numbers(self) -> NDArray[np.float64]:
        """The numbers of the records that have one."""
        return np.asarray(self.vocabulary, dtype=np.float64)[self.codes[self.codes != MISSING]]

    def table(self, rows: Integers, columns: Integers | None, workers: int) -> Floats:
        """Distances between vocabulary places, with a last row and column of NaN, where -1 points."""
        others = rows if columns is None else columns
        out = np.full((len(rows) + 1, len(others) + 1), np.nan, dtype=np.float32)
        if len(rows) and len(others):
            out[:-1, :-1] = self.scorer.block(rows, columns, workers)
        return out

    def block(self, rows: Integers, columns: Integers | None, workers: int) -> Floats:
        """Distances between records: each pair of distinct values is scored once, then spread."""
        values, places = distinct(self.codes[rows])
        if columns is None:
            return self.table(values, None, workers)[np.ix_(places, places)]
        other_values, other_places = distinct(self.codes[columns])
        return self.table(values, other_values, workers)[np.ix_(places, other_places)]

    def pairs(self, left: Integers, right: Integers, workers: int) -> Floats:
        """Distances of the given pairs of records."""
        a, b = self.codes[left], self.codes[right]
        out = np.full(len(a), np.nan, dtype=np.float32)
        present = (a != MISSING) & (b != MISSING)
        low, high = np.minimum(a, b)[present], np.maximum(a, b)[present]
        keys, places = np.unique(low * len(self.vocabulary) + high, return_inverse=True)
        if len(keys):
            scores = self.scorer.pairs(keys // len(self.vocabulary), keys % len(self.vocabulary), workers)
            out[present] = scores[places]
        return out


def distinct(codes: Integers) -> tuple[Integers, Integers]:
    """The distinct codes present, and each record's place among them, -1 if missing."""
    values, places = np.unique(codes, return_inverse=True)
    if len(values) and values[0] == MISSING:
        return values[1:], places - 1
    return values, places


def encode_cells(
    comparison: Comparison, columns: Sequence[Column], place_of: Callable[[int], str]
) -> Prepared:
    """Join, take the part asked for, clean; equal values share a place. Equal raw cells are handled once.

    `place_of` names a row to people, for messages.
    """
    convert = _conversion(comparison)
    places: dict[Hashable, int] = {}
    seen: dict[str, int] = {}
    codes = np.full(len(columns[0]), MISSING, dtype=np.int64)
    for row in range(len(codes)):
        text = _joined(comparison, columns, row, place_of)
        if text is None:
            continue
        if text not in seen:
            value = convert(text)
            if isinstance(value, str):
                # Cleaning can make a text much longer: one character becomes up to eighteen.
                _check_length(len(value), comparison.name, row, place_of)
            seen[text] = MISSING if value is None else places.setdefault(value, len(places))
        codes[row] = seen[text]
    vocabulary: list[Any] = list(places)
    if comparison.kind_details.value == "share":
        vocabulary = _shares(codes, len(vocabulary))
    return Prepared(comparison, codes, vocabulary)


def _shares(codes: Integers, n_values: int) -> list[float]:
    # Shares and not counts: proportional within one data set, and the same thing in a larger one.
    counts = np.bincount(codes[codes != MISSING], minlength=n_values)
    return (counts / max(counts.sum(), 1)).tolist()


def _joined(
    comparison: Comparison, columns: Sequence[Column], row: int, place_of: Callable[[int], str]
) -> str | None:
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
    return " ".join(filter(None, texts)) or None


def _check_length(length: int, name: str, row: int, place_of: Callable[[int], str]) -> None:
    if length > LONGEST_CELL:
        raise InputError(
            f"{place_of(row)}, column {name!r}: {length:,} characters, more than the "
            f"{LONGEST_CELL:,} that can be compared; shorten the cell or leave it empty"
        )


def cell_text(cell: object) -> str | None:
    """A cell's text, "" if missing, None if it is something that has no text."""
    if cell is None or isinstance(cell, str):
        return cell or ""
    if isinstance(cell, bool | np.bool_):
        return str(cell).lower()
    if isinstance(cell, int | np.integer):
        return str(int(cell))
    if isinstance(cell, float | np.floating):
        value = float(cell)
        return "" if math.isnan(value) else str(int(value)) if value.is_integer() else repr(value)
    return None


def _conversion(comparison: Comparison) -> Callable[[str], Hashable | None]:
    kind, steps = comparison.kind_details, comparison.clean
    parts = [_transform(name, comparison.separator) for name in (comparison.of, kind.part) if name]

    def part(text: str) -> str:
        for transform in parts:
            text = transform(text)
        return text

    if kind.value == "number":
        return lambda text: number(clean(part(text), steps))
    if kind.value == "names":

        def names(text: str) -> tuple[str, ...] | None:
            found = (clean(name, steps) for name in split_names(part(text), comparison.separator))
            return tuple(dict.fromkeys(filter(None, found))) or None

        return names
    return lambda text: clean(part(text), steps) or None


def _transform(name: str, separator: str | None) -> Callable[[str], str]:
    if name == "first_of_list":
        return lambda text: first_of_list(text, separator)
    return TRANSFORMS[name]
