"""Columns for blocking: cells go in, distinct cleaned texts and each record's place among them come out."""

from __future__ import annotations

import numpy as np

from scdp.compare.cells import Codes, clean_all, encode
from scdp.compare.cleaning import STANDARD
from scdp.table.records import Records

MISSING = -1


class TextColumns:
    """The columns of records, each encoded on first use: -1 is missing, other codes index `texts`."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self._encoded: dict[tuple[str, ...], tuple[Codes, list[str]]] = {}

    def __len__(self) -> int:
        return len(self.records)

    def encoded(self, columns: tuple[str, ...]) -> tuple[Codes, list[str]]:
        """Each record's place in the list of distinct texts; several columns are joined by a space."""
        if columns not in self._encoded:
            several = len(columns) > 1
            self._encoded[columns] = self._joined(columns) if several else self._single(columns[0])
        return self._encoded[columns]

    def _single(self, column: str) -> tuple[Codes, list[str]]:
        codes, cells = encode(self.records[column].tolist())
        return _merge_equal(codes, clean_all([cell or "" for cell in cells], STANDARD))

    def _joined(self, columns: tuple[str, ...]) -> tuple[Codes, list[str]]:
        parts = [self.encoded((column,)) for column in columns]
        keys = np.zeros(len(self), dtype=np.int64)
        for places, texts in parts:
            # Distinct numbers again after each column, so that no product of counts can overflow.
            keys = np.unique(keys * (len(texts) + 1) + places + 1, return_inverse=True)[1]
        _, first, codes = np.unique(keys, return_index=True, return_inverse=True)
        joined = [
            " ".join(texts[places[row]] for places, texts in parts if places[row] != MISSING)
            for row in first.tolist()
        ]
        return _merge_equal(codes.astype(np.int32), joined)


def _merge_equal(codes: Codes, texts: list[str]) -> tuple[Codes, list[str]]:
    """Equal texts get one place, empty ones none."""
    moved, distinct = encode(texts)
    if "" in distinct:
        empty = distinct.index("")
        moved = np.where(moved == empty, MISSING, moved - (moved > empty)).astype(np.int32)
        del distinct[empty]
    return moved[codes], distinct
