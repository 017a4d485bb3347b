"""Columns packed for kernels: prepared columns go in; the values of each record side by side come out, and a kernel
that compares two texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp.compare.prepared import Prepared
from scdp.compare.scorers import NumberScorer
from scdp.compare.strings import MOST_LETTERS, clear_masks, edit, jaro_winkler, set_masks

# Columns with more texts than this that are too long for masks are left to others.
MOST_LONG = 0.01
# What kernels can compute.
EDIT, JARO_WINKLER, NUMBER, EXACT = range(4)
MEASURES = {
    "edit": EDIT,
    "edit_head": EDIT,
    "edit_abbreviation": EDIT,
    "jaro_winkler": JARO_WINKLER,
    "absolute": NUMBER,
    "count_difference": NUMBER,
    "exact": EXACT,
}


class Packed(NamedTuple):
    """Comparison c takes `measure[c]` of the values of source `source[c]`, which several may share.

    What belongs to a record is side by side, for that is what a kernel comes for. Of S sources, `cells[record]` has the
    codes of its S values (-1 = missing), then the places in `letters` of its S texts and of their end. The number of a
    code is `numbers[first[source] + code]`.
    """

    measure: NDArray[np.int64]
    source: NDArray[np.int64]
    cells: NDArray[Any]
    letters: NDArray[Any]
    n_letters: int
    first: NDArray[np.int64]
    numbers: NDArray[np.float64]


def can_be_packed(column: object) -> bool:
    """Whether kernels can compare its values: texts that are not long, numbers, or whether they are the same."""
    if not isinstance(column, Prepared) or column.comparison.kind not in MEASURES:
        return False
    if MEASURES[column.comparison.kind] not in (EDIT, JARO_WINKLER):
        return True
    n_long = sum(map(MOST_LETTERS.__lt__, map(len, column.vocabulary)))
    return n_long <= MOST_LONG * len(column.vocabulary)


def pack(columns: Sequence[Prepared], n_records: int) -> Packed:
    """Columns that can be packed; those with the same values share them."""
    measures = [MEASURES[column.comparison.kind] for column in columns]
    keys = [_source_key(column, measure) for column, measure in zip(columns, measures, strict=True)]
    sources = list(dict.fromkeys(keys))
    chosen = [columns[keys.index(key)] for key in sources]
    codes = np.empty((n_records, len(chosen)), dtype=np.int32)
    for place, column in enumerate(chosen):
        codes[:, place] = column.codes
    numbers = [_numbers(column) for column in chosen]
    cells, letters, n_letters = _texts(chosen, codes)
    return Packed(
        np.array(measures, dtype=np.int64),
        np.array([sources.index(key) for key in keys], dtype=np.int64),
        cells,
        letters,
        n_letters,
        _offsets(list(map(len, numbers)))[:-1],
        np.concatenate([np.zeros(0), *numbers]),
    )


def _texts(columns: Sequence[Prepared], codes: NDArray[np.int32]) -> tuple[NDArray[Any], NDArray[Any], int]:
    """The cells of each record, all letters, and how many kinds there are of these."""
    texts = [[] if isinstance(column.scorer, NumberScorer) else column.vocabulary for column in columns]
    letters, n_letters = numbered_letters(texts)
    at = _offsets([len(text) for each in texts for text in each])
    first = _offsets(list(map(len, texts)))
    total = n_letters_of(codes, first, at)
    cells = np.empty((len(codes), 2 * len(columns) + 1), np.int32 if total < 2**31 else np.int64)
    laid_out = np.empty(total, letters.dtype)
    lay_out(codes, first, at, letters, cells, laid_out)
    return cells, laid_out, n_letters


def _source_key(column: Prepared, measure: int) -> tuple[int, int, float | None]:
    """Equal for columns with the same records' values; numbers have a scale, texts have none."""
    scale = (column.comparison.scale or 1.0) if measure == NUMBER else None
    return id(column.codes), id(column.vocabulary), scale


def _numbers(column: Prepared) -> NDArray[np.float64]:
    return column.scorer.numbers if isinstance(column.scorer, NumberScorer) else np.zeros(0)


def _offsets(sizes: list[int]) -> NDArray[np.int64]:
    offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def numbered_letters(texts: Sequence[Sequence[str]]) -> tuple[NDArray[Any], int]:
    """All texts one after another, their letters numbered from 0 in the smallest type that holds these."""
    parts = [_points(each) for each in texts]
    used = np.zeros(0x110000, dtype=bool)
    for part in parts:
        used[part] = True
    n_letters = int(used.sum())
    number = np.zeros(len(used), dtype=np.min_scalar_type(max(n_letters - 1, 0)))
    number[used] = np.arange(n_letters)
    return np.concatenate([number[:0], *(number[part] for part in parts)]), n_letters


def _points(texts: Sequence[str]) -> NDArray[np.uint32]:
    return np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


@kernel
def n_letters_of(codes: NDArray[np.int32], first: NDArray[np.int64], at: NDArray[np.int64]) -> int:
    """Of all texts of all records; the texts of a source are those from `first[source]` on, and start at `at`."""
    total = 0
    for record in range(codes.shape[0]):
        for source in range(codes.shape[1]):
            if codes[record, source] >= 0 and first[source] < first[source + 1]:
                text = first[source] + codes[record, source]
                total += at[text + 1] - at[text]
    return total


@kernel
def lay_out(
    codes: NDArray[np.int32],
    first: NDArray[np.int64],
    at: NDArray[np.int64],
    letters: Any,
    cells: Any,
    laid_out: Any,
) -> None:
    """Copy the texts of each record one after another."""
    place = 0
    n_sources = codes.shape[1]
    for record in range(codes.shape[0]):
        for source in range(n_sources):
            cells[record, source] = codes[record, source]
            cells[record, n_sources + source] = place
            if codes[record, source] >= 0 and first[source] < first[source + 1]:
                text = first[source] + codes[record, source]
                for letter in range(at[text], at[text + 1]):
                    laid_out[place] = letters[letter]
                    place += 1
        cells[record, 2 * n_sources] = place


@kernel
def text_distance(
    measure: int,
    source: int,
    one: int,
    other: int,
    cells: Any,
    letters: Any,
    masks: NDArray[np.uint64],
    holds: NDArray[np.int64],
) -> np.float32:
    """Of the texts of two records.

    `masks` (sources, letters) are those of the records that `holds` names, -1 = none, and become those of `one`.
    """
    at = len(holds) + source
    begin, end = int(cells[one, at]), int(cells[one, at + 1])
    held = holds[source]
    if held != one:
        if held >= 0:
            clear_masks(masks, source, letters, int(cells[held, at]), int(cells[held, at + 1]))
        # A longer text is compared without masks.
        if end - begin <= MOST_LETTERS:
            set_masks(masks, source, letters, begin, end)
        holds[source] = one
    other_begin, other_end = int(cells[other, at]), int(cells[other, at + 1])
    if measure == EDIT:
        return np.float32(edit(masks, source, letters, begin, end, other_begin, other_end))
    return np.float32(jaro_winkler(masks, source, letters, begin, end, other_begin, other_end))
