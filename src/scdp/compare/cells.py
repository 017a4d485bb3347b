"""Columns of cells go in; their distinct texts and each record's place among them come out, with no step a record."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from scdp.compare.cleaning import STEPS, clean
from scdp.table.records import Column

Codes = NDArray[np.int32]
_Value = TypeVar("_Value", bound=Hashable)

_BORDER = "\0"
_SPARE_SPACE = ("  ", f" {_BORDER}", f"{_BORDER} ", *"\t\n\v\f\r\x1c\x1d\x1e\x1f")
_SPACES = re.compile(r"\s+")
_AT_BORDER = re.compile(" ?\0 ?")
_TEXT = {str, type(None)}
# Steps that go by single characters of ASCII or, as spaces, mind the borders.
_IN_ONE = {"lower", "punctuation", "accents", "spaces"}


def encode(values: Sequence[_Value]) -> tuple[Codes, list[_Value]]:
    """Each value's place in the list of distinct values, which are in the order of appearance."""
    distinct = list(dict.fromkeys(values))
    places = dict(zip(distinct, range(len(distinct)), strict=True))
    return np.fromiter(map(places.__getitem__, values), np.int32, len(values)), distinct


def distinct_texts(columns: Sequence[Column], missing: Sequence[str] = ()) -> tuple[Codes, list[str]] | None:
    """Distinct texts of cells, those of a row joined by a space ("" = missing); None if a cell has no text.

    Cells that say no more than one of `missing`, in capitals or not, are missing.
    """
    placeholders = set(map(placeholder_key, missing))
    parts = []
    for column in columns:
        cells = column.tolist()
        if not set(map(type, cells)) <= _TEXT:
            # Cells such as 1, 1.0 and True are equal to Python but not to people: they become texts first.
            cells = list(map(cell_text, cells))
            if None in cells:
                return None
        codes, texts = encode(cells)
        texts = [text or "" for text in texts]
        if placeholders:
            texts = ["" if placeholder_key(text) in placeholders else text for text in texts]
        parts.append((codes, texts))
    return parts[0] if len(parts) == 1 else _joined(parts)


def placeholder_key(text: str) -> str:
    """Equal for texts that are the same placeholder."""
    return text.strip().casefold()


def _joined(parts: Sequence[tuple[Codes, list[str]]]) -> tuple[Codes, list[str]]:
    keys = np.zeros(len(parts[0][0]), dtype=np.int64)
    for codes, texts in parts:
        # Distinct numbers again after each column, so that no product of counts can overflow.
        keys = np.unique(keys * len(texts) + codes, return_inverse=True)[1].ravel()
    _, rows = np.unique(keys, return_index=True)
    appearance = np.argsort(rows, kind="stable")
    places = np.empty(len(rows), dtype=np.int32)
    places[appearance] = np.arange(len(rows), dtype=np.int32)
    cells = (map(texts.__getitem__, codes[rows[appearance]].tolist()) for codes, texts in parts)
    return places[keys], [" ".join(filter(None, row)) for row in zip(*cells, strict=True)]


def clean_all(texts: Sequence[str], steps: tuple[str, ...]) -> list[str]:
    """`clean` for many texts: they are cleaned as one long one where that is the same, as it is for ASCII."""
    if steps[-1:] == ("sorted",):
        return list(map(STEPS["sorted"], clean_all(texts, steps[:-1])))
    whole = _BORDER.join(texts) if _IN_ONE.issuperset(steps) else ""
    if not whole or not whole.isascii() or whole.count(_BORDER) != len(texts) - 1:
        return [clean(text, steps) for text in texts]
    for step in steps:
        whole = _without_spare_spaces(whole) if step == "spaces" else STEPS[step](whole)
    cleaned = whole.split(_BORDER)
    return cleaned if steps[-1:] == ("spaces",) else [text if text.strip() else "" for text in cleaned]


def _without_spare_spaces(whole: str) -> str:
    # Looking for fixed texts takes a hundredth of the time of a pattern.
    if not any(spare in whole for spare in _SPARE_SPACE):
        return whole.strip(" ")
    return _AT_BORDER.sub(_BORDER, _SPACES.sub(" ", whole)).strip(" ")


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
