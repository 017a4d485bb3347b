"""Columns as codes: cells enter; distinct texts and each record's place among them leave, made once a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

MISSING = -1
_CELLS = {str, type(None)}


@dataclass(frozen=True, eq=False)
class EncodedColumn:
    """`codes[record]` is the place of the record's text in `texts`, in the order of appearance; -1 = missing."""

    codes: NDArray[np.int32]
    texts: list[str]

    @classmethod
    def of(cls, cells: list[Any]) -> Self | None:
        """Of texts and None; None where a cell is something else."""
        if not set(map(type, cells)) <= _CELLS:
            return None
        distinct = dict.fromkeys(cells)
        distinct.pop(None, None)
        texts: list[str] = list(distinct)
        places: dict[str | None, int] = dict(zip(texts, range(len(texts)), strict=True))
        places[None] = MISSING
        return cls(np.fromiter(map(places.__getitem__, cells), np.int32, len(cells)), texts)

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def cells(self) -> NDArray[np.object_]:
        """The cells, None where missing."""
        texts = np.empty(len(self.texts) + 1, dtype=object)
        texts[:-1] = self.texts
        return texts[self.codes]

    @property
    def ranks(self) -> NDArray[np.int64]:
        """The place of each record's text in the order of texts; missing ones come first."""
        places = np.empty(len(self.texts) + 1, dtype=np.int64)
        places[sorted(range(len(self.texts)), key=self.texts.__getitem__)] = np.arange(1, len(self.texts) + 1)
        places[MISSING] = 0
        return places[self.codes]

    def with_texts(self, texts: Sequence[str | None]) -> EncodedColumn:
        """The same cells with other texts, one for each there is now; None, and white space alone, is missing."""
        blank = {text for text in texts if not text or text.isspace()}
        kept = [None if text in blank else text for text in texts] if blank else texts
        if kept == self.texts:
            return self
        moved = EncodedColumn.of(list(kept))
        assert moved is not None, "these are texts"
        # The code -1 of a missing cell points at the last place.
        return EncodedColumn(np.append(moved.codes, np.int32(MISSING))[self.codes], moved.texts)

    def take(self, rows: NDArray[Any]) -> EncodedColumn:
        """The given rows, in that order; texts that none of them has are gone."""
        codes, used = number_again(self.codes[rows], len(self.texts))
        return EncodedColumn(codes, [self.texts[place] for place in used.tolist()])


def number_again(codes: NDArray[np.int32], n_texts: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Codes in the order in which they appear, and what each was before."""
    # Of several rows the last one written is the first of them; what is missing is written behind all texts.
    first = np.full(n_texts + 1, len(codes))
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    used = np.flatnonzero(first[:n_texts] < len(codes))
    used = used[np.argsort(first[used])]
    number = np.full(n_texts + 1, MISSING, np.int32)
    number[used] = np.arange(len(used), dtype=np.int32)
    return number[codes], used
