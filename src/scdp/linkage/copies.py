"""Exact copies of one record: where they are many, one of them is compared, and the others stay with it.

A hundred identical records are five thousand pairs that tell nothing, and a block of five hundred of them would be cut
off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Groups, Integers
from scdp.linkage.shards import Draws
from scdp.table.records import Records
from scdp.table.spec import Spec

# More copies of a record than this are one; fewer are compared like any other records.
MOST_COPIES = 25


@dataclass(frozen=True, eq=False)
class Copies:
    """`kept` are the rows that are compared; each row stays with the kept row at its place in `stays_with`."""

    kept: Integers
    stays_with: Integers

    @classmethod
    def find(cls, records: Records, spec: Spec, groups: Groups, known: Integers) -> Self:
        """Rows equal in all compared columns, in one group, of unknown cluster; one without a value is no copy."""
        n = len(records)
        code = np.zeros(n, dtype=np.int64)
        filled = np.zeros(n, dtype=bool)
        columns = dict.fromkeys(name for field in spec.fields for name in field.columns)
        for name in columns:
            cells = np.array([cell or "" for cell in records[name]], dtype=object)
            filled |= cells != ""
            values = _encode(cells)
            code = _encode(code * (int(values.max(initial=0)) + 1) + values)
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

    def spread(self, drawn: Draws) -> Draws:
        """Draws of all rows from those of the kept ones; rows are labelled by the first row of their cluster."""
        found: Draws = self.kept.astype(np.int32)[drawn][:, self.stays_with]
        return found


def _encode(values: NDArray[Any]) -> Integers:
    if values.dtype == object:
        places: dict[object, int] = {}
        return np.array([places.setdefault(value, len(places)) for value in values.tolist()], dtype=np.int64)
    return np.unique(values, return_inverse=True)[1].astype(np.int64)
