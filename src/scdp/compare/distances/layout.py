"""Where the distance of two records is stored: upper triangles, one for each group, one after the other.

The pair (i, j) with rank[i] < rank[j] in one group is entry row_start[i] + rank[j]. A layout that holds only
candidate pairs would answer the same question, `positions`, with -1 for the pairs it does not hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdp._compile import kernel
from scdp._typing import Integers
from scdp.errors import InputError

NOT_STORED = -1


def memory_bytes(sizes: ArrayLike, n_features: int, bytes_each: int = 4) -> int:
    """Bytes for groups of these sizes: the sum of m (m - 1) / 2, times features, times 4 (float32)."""
    return sum(m * (m - 1) // 2 for m in np.atleast_1d(np.asarray(sizes)).tolist()) * n_features * bytes_each


@dataclass(frozen=True, eq=False)
class PairLayout:
    """`group[i]` is a record's group, numbered by first appearance; `rank[i]` is its place in that group."""

    group: Integers
    labels: tuple[Any, ...]

    @classmethod
    def of(cls, n_records: int, groups: Sequence[Any] | NDArray[Any] | None = None) -> PairLayout:
        """The layout of so many records, all in one group unless `groups` names each record's."""
        if groups is None:
            return cls(np.zeros(n_records, dtype=np.int64), ("all",) if n_records else ())
        if len(groups) != n_records:
            raise InputError(f"groups has {len(groups)} entries for {n_records} records; it needs one each")
        codes: dict[Any, int] = {}
        group = np.empty(n_records, dtype=np.int64)
        for row, label in enumerate(groups):
            if label is None or label != label:
                raise InputError(f"groups: row {row + 1} has no group; every record needs one")
            group[row] = codes.setdefault(label, len(codes))
        return cls(group, tuple(codes))

    @property
    def n_records(self) -> int:
        return len(self.group)

    @cached_property
    def sizes(self) -> Integers:
        return np.bincount(self.group, minlength=len(self.labels)).astype(np.int64)

    @cached_property
    def starts(self) -> Integers:
        """The first entry of each group, and at the end the number of entries."""
        pairs = self.sizes * (self.sizes - 1) // 2
        return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(pairs)])

    @property
    def n_pairs(self) -> int:
        return int(self.starts[-1])

    @cached_property
    def _order(self) -> Integers:
        return np.argsort(self.group, kind="stable")

    @cached_property
    def _group_starts(self) -> Integers:
        return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(self.sizes)])

    def members(self, group: int) -> Integers:
        """The records of a group, by rank."""
        return self._order[self._group_starts[group] : self._group_starts[group + 1]]

    @cached_property
    def rank(self) -> Integers:
        rank = np.empty(self.n_records, dtype=np.int64)
        rank[self._order] = np.arange(self.n_records) - self._group_starts[self.group[self._order]]
        return rank

    @cached_property
    def row_start(self) -> Integers:
        """What the record of smaller rank adds to the other's rank to find the entry of their pair."""
        size, rank = self.sizes[self.group], self.rank
        return self.starts[self.group] + rank * (2 * size - rank - 1) // 2 - rank - 1

    def positions(self, left: ArrayLike, right: ArrayLike) -> Integers:
        """The entry of each pair; -1 for a record with itself and for records of different groups."""
        i, j = np.asarray(left, dtype=np.int64), np.asarray(right, dtype=np.int64)
        first, second = np.where(self.rank[i] < self.rank[j], (i, j), (j, i))
        stored = (i != j) & (self.group[i] == self.group[j])
        return np.where(stored, self.row_start[first] + self.rank[second], NOT_STORED)

    def row(self, record: int) -> tuple[slice, Integers]:
        """The entries of the pairs of a record with the later ones of its group, and these records."""
        members, rank = self.members(int(self.group[record])), int(self.rank[record])
        start = int(self.row_start[record]) + rank + 1
        return slice(start, start + len(members) - rank - 1), members[rank + 1 :]


@kernel
def pair_entry(row_start: Any, rank: Any, i: int, j: int) -> Any:
    """The entry of two different records of one group in `Distances.values`."""
    if rank[i] < rank[j]:
        return row_start[i] + rank[j]
    return row_start[j] + rank[i]
