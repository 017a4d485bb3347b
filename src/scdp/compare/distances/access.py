"""The kernel that finds a pair's entry in `Distances.values`; its plain twin is `PairLayout.positions`."""

from __future__ import annotations

from typing import Any

from scdp._compile import kernel


@kernel
def pair_entry(row_start: Any, rank: Any, i: int, j: int) -> Any:
    """The entry of two different records of one group in `Distances.values`."""
    if rank[i] < rank[j]:
        return row_start[i] + rank[j]
    return row_start[j] + rank[i]
