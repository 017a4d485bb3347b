"""Blocks: keys go in; the records that share one come out, and chains of those whose block is too large."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp.blocking.keys import KeyTable

Rows = NDArray[np.int32]
Offsets = NDArray[np.int64]


@dataclass(frozen=True)
class Groups:
    """Group g holds members[offsets[g]:offsets[g + 1]], records in ascending or in sorted order."""

    offsets: Offsets
    members: Rows

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def sizes(self) -> Offsets:
        return np.diff(self.offsets)

    def select(self, wanted: NDArray[np.bool_]) -> Groups:
        """The groups wanted, in their order."""
        sizes = self.sizes
        return Groups(ends_of(sizes[wanted]), self.members[np.repeat(wanted, sizes)])


@dataclass(frozen=True)
class Oversized:
    """What happened to the blocks of a rule that had more records than the bound."""

    rule: str
    n_blocks: int
    n_records: int
    largest: int

    def __str__(self) -> str:
        return (
            f"{self.rule}: {self.n_blocks:,} blocks above the bound with {self.n_records:,} records "
            f"(the largest {self.largest:,}) were paired by sorted neighbourhood"
        )


def ends_of(counts: NDArray[np.int64]) -> Offsets:
    """Offsets from sizes."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def blocks_of(table: KeyTable) -> Groups:
    """The records that share a key, ascending within a block; blocks of one record are left out."""
    rows, keys = table.entries()
    # About eight keys a bucket; keys are hashes, so their high bits are even.
    bits = max(1, len(keys).bit_length() - 3)
    return Groups(*grouped(keys, rows, np.uint64(64 - bits), 1 << bits))


def split_oversized(
    blocks: Groups, max_block: int, sort_ranks: Callable[[Rows], NDArray[np.int64]]
) -> tuple[Groups, Groups]:
    """Blocks within the bound, and the others with their records sorted by the ranks asked for."""
    large = blocks.sizes > max_block
    chains = blocks.select(large)
    if not len(chains):
        return blocks, chains
    block_of = np.repeat(np.arange(len(chains)), chains.sizes)
    order = np.lexsort((sort_ranks(chains.members), block_of))
    return blocks.select(~large), Groups(chains.offsets, chains.members[order])


def joined(groups: list[Groups]) -> Groups:
    """All groups one after the other."""
    if not groups:
        return Groups(np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int32))
    sizes = np.concatenate([part.sizes for part in groups])
    return Groups(ends_of(sizes), np.concatenate([part.members for part in groups]))


@kernel
def grouped(keys: NDArray[np.uint64], rows: Rows, shift: np.uint64, n_buckets: int) -> tuple[Offsets, Rows]:
    """Rows of equal keys together, by key and then in the order given; keys that occur once are left out."""
    ends = np.zeros(n_buckets + 1, dtype=np.int64)
    for entry in range(len(keys)):
        ends[(keys[entry] >> shift) + np.uint64(1)] += 1
    for bucket in range(n_buckets):
        ends[bucket + 1] += ends[bucket]
    free = ends[:-1].copy()
    sorted_keys, sorted_rows = np.empty_like(keys), np.empty_like(rows)
    for entry in range(len(keys)):
        bucket = keys[entry] >> shift
        # Into its place among the keys already in the bucket: stable, and quick where they are equal.
        place = free[bucket]
        while place > ends[bucket] and sorted_keys[place - 1] > keys[entry]:
            sorted_keys[place], sorted_rows[place] = sorted_keys[place - 1], sorted_rows[place - 1]
            place -= 1
        sorted_keys[place], sorted_rows[place] = keys[entry], rows[entry]
        free[bucket] += 1
    return repeated(sorted_keys, sorted_rows)


@kernel
def repeated(keys: NDArray[np.uint64], rows: Rows) -> tuple[Offsets, Rows]:
    """Offsets and rows of the runs of equal keys that are longer than one."""
    offsets, members = np.zeros(len(keys) // 2 + 1, dtype=np.int64), np.empty_like(rows)
    n_groups = kept = start = 0
    for place in range(1, len(keys) + 1):
        if place == len(keys) or keys[place] != keys[start]:
            if place - start > 1:
                members[kept : kept + place - start] = rows[start:place]
                kept += place - start
                n_groups += 1
                offsets[n_groups] = kept
            start = place
    return offsets[: n_groups + 1].copy(), members[:kept].copy()


def inverted(n_records: int, members: Rows) -> tuple[Offsets, NDArray[np.int32]]:
    """For each record the places among the members at which it stands, and offsets into them."""
    ends = ends_of(np.bincount(members, minlength=n_records))
    # 64 bits only where they are needed: with many rules this is much of the memory.
    places: NDArray[Any] = np.empty(len(members), dtype=np.int32 if len(members) < 2**31 else np.int64)
    fill_places(ends[:-1].copy(), members, places)
    return ends, places


@kernel
def fill_places(free: Offsets, members: Rows, places: NDArray[Any]) -> None:
    """Write each member's place into the next free slot of its record."""
    for place in range(len(members)):
        row = members[place]
        places[free[row]] = place
        free[row] += 1
