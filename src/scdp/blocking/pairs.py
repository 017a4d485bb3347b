"""Pairs from the index: some records go in; for each, its later partners come out, sorted, each once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp.blocking.chunks import roomy
from scdp.blocking.index import PairIndex
from scdp.blocking.overlaps import ROUNDING, shared_weight


@kernel
def meetings(index: PairIndex) -> NDArray[np.int64]:
    """How many members of blocks, chains and postings each record meets at most."""
    met = np.zeros(index.n_records, dtype=np.int64)
    for row in range(index.n_records):
        for entry in range(index.blocks.rows[row], index.blocks.rows[row + 1]):
            place = index.blocks.places[entry]
            met[row] += index.blocks.stops[place] - place
        for entry in range(index.chains.rows[row], index.chains.rows[row + 1]):
            place = index.chains.places[entry]
            met[row] += index.chains.highs[place] - index.chains.lows[place]
        for rule in range(len(index.overlaps.thresholds)):
            virtual = rule * index.n_records + row
            for entry in range(
                index.overlaps.rows[virtual],
                index.overlaps.rows[virtual] + index.overlaps.n_searched[virtual],
            ):
                token = index.overlaps.tokens[entry]
                met[row] += index.overlaps.posting_offsets[token + 1] - index.overlaps.posting_offsets[token]
    return met


@kernel
def homes(index: PairIndex) -> NDArray[np.int64]:
    """A number for each record: those of its largest block, or near it in a chain, have the same or the next ones.

    Records that are looked at in this order meet others that were looked at just before.
    """
    home = np.zeros(index.n_records, dtype=np.int64)
    largest = np.zeros(index.n_records, dtype=np.int64)
    for place in range(len(index.chains.members)):
        home[index.chains.members[place]] = len(index.blocks.members) + place
    start = 0
    while start < len(index.blocks.members):
        stop = index.blocks.stops[start]
        for place in range(start, stop):
            row = index.blocks.members[place]
            if stop - start > largest[row]:
                largest[row] = stop - start
                home[row] = start
        start = stop
    return home


@kernel
def partners(index: PairIndex, rows: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The partners after each of these records, ascending, and how many each has."""
    counts = np.zeros(len(rows), dtype=np.int64)
    found = np.empty(1 << 12, dtype=np.int32)
    seen = np.full(index.n_records, -1, dtype=np.int32)
    tried = np.full(index.n_records, -1, dtype=np.int64)
    total = 0
    for number, row in enumerate(rows):
        start = total
        found, total = meet_blocks(index, row, seen, found, total)
        found, total = meet_chains(index, row, seen, found, total)
        for rule in range(len(index.overlaps.thresholds)):
            found, total = meet_tokens(index, row, rule, seen, tried, found, total)
        found[start:total].sort()
        counts[number] = total - start
    return counts, found[:total].copy()


@kernel
def meet_blocks(
    index: PairIndex, row: int, seen: NDArray[np.int32], found: NDArray[np.int32], total: int
) -> tuple[NDArray[np.int32], int]:
    """Add the later members of the record's blocks."""
    for entry in range(index.blocks.rows[row], index.blocks.rows[row + 1]):
        place = index.blocks.places[entry]
        found = roomy(found, total + index.blocks.stops[place] - place)
        for later in range(place + 1, index.blocks.stops[place]):
            other = index.blocks.members[later]
            if seen[other] != row:
                seen[other] = row
                found[total] = other
                total += 1
    return found, total


@kernel
def meet_chains(
    index: PairIndex, row: int, seen: NDArray[np.int32], found: NDArray[np.int32], total: int
) -> tuple[NDArray[np.int32], int]:
    """Add the neighbours in the record's chains that come after it among the records."""
    for entry in range(index.chains.rows[row], index.chains.rows[row + 1]):
        place = index.chains.places[entry]
        found = roomy(found, total + index.chains.highs[place] - index.chains.lows[place])
        for near in range(index.chains.lows[place], index.chains.highs[place]):
            other = index.chains.members[near]
            if other > row and seen[other] != row:
                seen[other] = row
                found[total] = other
                total += 1
    return found, total


@kernel
def meet_tokens(
    index: PairIndex,
    row: int,
    rule: int,
    seen: NDArray[np.int32],
    tried: NDArray[np.int64],
    found: NDArray[np.int32],
    total: int,
) -> tuple[NDArray[np.int32], int]:
    """Add the later records that share enough tokens of one overlap rule."""
    virtual = rule * index.n_records + row
    start, stop = index.overlaps.rows[virtual], index.overlaps.rows[virtual + 1]
    enough = index.overlaps.thresholds[rule] - ROUNDING
    for entry in range(start, start + index.overlaps.n_searched[virtual]):
        token = index.overlaps.tokens[entry]
        place = index.overlaps.posting_offsets[token + 1] - 1
        # Postings ascend, so from the end on come the later records.
        while index.overlaps.postings[place] > row:
            other = index.overlaps.postings[place]
            place -= 1
            if seen[other] == row or tried[other] == virtual:
                continue
            tried[other] = virtual
            theirs = rule * index.n_records + other
            if (
                shared_weight(
                    index.overlaps.tokens,
                    index.overlaps.weights,
                    start,
                    stop,
                    index.overlaps.rows[theirs],
                    index.overlaps.rows[theirs + 1],
                    enough,
                )
                >= enough
            ):
                seen[other] = row
                found = roomy(found, total + 1)
                found[total] = other
                total += 1
    return found, total
