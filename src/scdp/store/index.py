"""Which records of a store are near a record: words and parts of words lead to the rows that have them."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from scdp._typing import Booleans, Integers, SmallIntegers

WORDS = re.compile(r"\w+")
# Words of so many letters are also found by their halves: one letter that is wrong leaves one of them whole.
FEWEST_HALVED = 5
# Nobody writes a longer one twice in the same way.
LONGEST = 40
# A word that more records have leads nowhere: more than one in so many, and more than so many.
MOST_SHARED, MOST_SHARED_RECORDS = 200, 1_000
# The rarest words are looked up until they have led to so many records.
MOST_LOOKED_UP = 30_000
NEAREST = 60


def keys_of(cell: str) -> list[str]:
    """The words of a cell and the cell as one word, with the halves of long ones; and words with the next one.

    Example
    -------
    >>> keys_of("Ada Lovelace")
    ['ada', 'lovelace', 'love-', '-lace', 'adalovelace', 'adalo-', '-velace']
    >>> keys_of("7 Elm St")
    ['7', 'elm', 'st', '7elmst', '7el-', '-mst', '7elm', 'elmst']
    """
    words = WORDS.findall(cell.casefold())
    found, pairs = [], []
    if len(words) > 1:
        if len(words) > 2:
            pairs = [one + other for one, other in pairwise(words)]
        words.append("".join(words))
    for word in words:
        if len(word) > LONGEST:
            continue
        found.append(word)
        if len(word) >= FEWEST_HALVED:
            half = len(word) // 2
            found += [word[:half] + "-", "-" + word[half:]]
    return found + pairs


class WordIndex:
    """Rows by the words of their cells; the first rows are laid out together, later ones are added one by one.

    Parameters
    ----------
    columns : mapping
        Cells by column, in the order of the rows.
    """

    def __init__(self, columns: Mapping[str, Sequence[Any]]) -> None:
        self.n_rows = len(next(iter(columns.values()), ()))
        self._number: dict[str, int] = {}
        known: dict[str, tuple[int, ...]] = {}
        codes, owners = array("i"), []
        for cells in columns.values():
            counts = np.zeros(self.n_rows, dtype=np.int64)
            for row, cell in enumerate(cells):
                if cell is None:
                    continue
                numbers = known.get(cell)
                if numbers is None:
                    keys = keys_of(str(cell))
                    numbers = tuple(self._number.setdefault(key, len(self._number)) for key in keys)
                    known[cell] = numbers
                codes.extend(numbers)
                counts[row] = len(numbers)
            owners.append(np.repeat(np.arange(self.n_rows, dtype=np.int32), counts))
        code = np.frombuffer(codes, dtype=np.int32) if len(codes) else np.zeros(0, dtype=np.int32)
        order = np.argsort(code, kind="stable")
        self._rows = np.concatenate([np.zeros(0, np.int32), *owners])[order]
        self._starts = np.searchsorted(code[order], np.arange(len(self._number) + 1))
        self._later: dict[str, list[int]] = {}

    def add(self, row: int, cells: Iterable[Any]) -> None:
        """One more row."""
        self.n_rows = max(self.n_rows, row + 1)
        for key in _keys(cells):
            self._later.setdefault(key, []).append(row)

    def find_near(self, cells: Iterable[Any], alive: Booleans, most: int = NEAREST) -> Integers:
        """The rows that share most rare words with some cells, those first that share most."""
        ways = []
        limit = max(MOST_SHARED_RECORDS, self.n_rows // MOST_SHARED)
        for key in _keys(cells):
            rows = self._rows_of(key, limit)
            if len(rows):
                ways.append(rows)
        ways.sort(key=len)
        weight, total = [], 0
        for number, rows in enumerate(ways):
            total += len(rows)
            if total > MOST_LOOKED_UP and number:
                ways = ways[:number]
                break
            weight.append(np.full(len(rows), np.log(max(self.n_rows / len(rows), 1.0)) + 1e-9))
        if not ways:
            return np.zeros(0, dtype=np.int64)
        found, place = np.unique(np.concatenate(ways), return_inverse=True)
        shared = np.bincount(place, np.concatenate(weight))
        shared[~alive[found]] = 0.0
        best = np.argsort(-shared, kind="stable")[:most]
        near: Integers = found[best[shared[best] > 0.0]].astype(np.int64)
        return near

    def _rows_of(self, key: str, most: int) -> SmallIntegers:
        """The rows that have a word, twice if in two columns; none if they are more than so many."""
        number, later = self._number.get(key), self._later.get(key, ())
        start, end = (0, 0) if number is None else self._starts[number : number + 2]
        if end - start + len(later) > most:
            return self._rows[:0]
        first = self._rows[start:end]
        return np.concatenate([first, np.array(later, dtype=np.int32)]) if later else first


def _keys(cells: Iterable[Any]) -> dict[str, None]:
    return dict.fromkeys(key for cell in cells if cell is not None for key in keys_of(str(cell)))
