"""Expansion through links: pairs and links go in; pairs that are one link away from a pair come out too.

If a and b are candidates and b and c are linked (almost surely the same), then a and c become candidates: a
poor record that shares something with one record of an entity is compared with the others as well.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp.blocking.chunks import Pairs, roomy

# A record with more links than this is a hub, and nothing is linked through it.
MOST_LINKS = 50


class Graph(NamedTuple):
    """Record i is next to neighbours[offsets[i]:offsets[i + 1]]."""

    offsets: NDArray[np.int64]
    neighbours: NDArray[np.int32]


class LinkedPairs(NamedTuple):
    """Both graphs, for the kernel."""

    pair_offsets: NDArray[np.int64]
    partners: NDArray[np.int32]
    link_offsets: NDArray[np.int64]
    linked: NDArray[np.int32]


def linked_pairs(n_records: int, pairs: Pairs, links: Pairs) -> LinkedPairs:
    """The graphs of the pairs and of the links; the latter without hubs."""
    return LinkedPairs(
        *Graph(*both_ways(n_records, *pairs)), *without_hubs(*both_ways(n_records, *links), MOST_LINKS)
    )


@kernel
def both_ways(
    n_records: int, left: NDArray[np.int32], right: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The neighbours of every record under pairs in either direction."""
    offsets = np.zeros(n_records + 1, dtype=np.int64)
    for pair in range(len(left)):
        offsets[left[pair] + 1] += 1
        offsets[right[pair] + 1] += 1
    for row in range(n_records):
        offsets[row + 1] += offsets[row]
    free = offsets[:-1].copy()
    neighbours = np.empty(2 * len(left), dtype=np.int32)
    for pair in range(len(left)):
        a, b = left[pair], right[pair]
        neighbours[free[a]], neighbours[free[b]] = b, a
        free[a] += 1
        free[b] += 1
    return offsets, neighbours


@kernel
def without_hubs(
    offsets: NDArray[np.int64], neighbours: NDArray[np.int32], most: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The graph without the records that have more neighbours than `most`."""
    kept = np.zeros(len(offsets), dtype=np.int64)
    found = np.empty(len(neighbours), dtype=np.int32)
    total = 0
    for row in range(len(offsets) - 1):
        if offsets[row + 1] - offsets[row] <= most:
            for place in range(offsets[row], offsets[row + 1]):
                other = neighbours[place]
                if offsets[other + 1] - offsets[other] <= most:
                    found[total] = other
                    total += 1
        kept[row + 1] = total
    return kept, found[:total].copy()


@kernel
def linked_meetings(graphs: LinkedPairs) -> NDArray[np.int64]:
    """How many records each one meets in its pairs and one link further, repeats counted."""
    met = np.zeros(len(graphs.pair_offsets) - 1, dtype=np.int64)
    for row in range(len(met)):
        for place in range(graphs.pair_offsets[row], graphs.pair_offsets[row + 1]):
            partner = graphs.partners[place]
            met[row] += 1 + graphs.link_offsets[partner + 1] - graphs.link_offsets[partner]
        for place in range(graphs.link_offsets[row], graphs.link_offsets[row + 1]):
            other = graphs.linked[place]
            met[row] += graphs.pair_offsets[other + 1] - graphs.pair_offsets[other]
    return met


@kernel
def linked_partners(
    graphs: LinkedPairs, rows: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The partners after each of these records with expansion, ascending, and how many each has."""
    counts = np.zeros(len(rows), dtype=np.int64)
    found = np.empty(1 << 12, dtype=np.int32)
    seen = np.full(len(graphs.pair_offsets) - 1, -1, dtype=np.int32)
    total = 0
    for number, row in enumerate(rows):
        start = total
        places = (graphs.pair_offsets[row], graphs.pair_offsets[row + 1])
        found, total = meet_range(graphs.partners, places, row, seen, found, total)
        for place in range(places[0], places[1]):
            partner = graphs.partners[place]
            linked = (graphs.link_offsets[partner], graphs.link_offsets[partner + 1])
            found, total = meet_range(graphs.linked, linked, row, seen, found, total)
        for place in range(graphs.link_offsets[row], graphs.link_offsets[row + 1]):
            other = graphs.linked[place]
            theirs = (graphs.pair_offsets[other], graphs.pair_offsets[other + 1])
            found, total = meet_range(graphs.partners, theirs, row, seen, found, total)
        found[start:total].sort()
        counts[number] = total - start
    return counts, found[:total].copy()


@kernel
def meet_range(
    others: NDArray[np.int32],
    places: tuple[int, int],
    row: int,
    seen: NDArray[np.int32],
    found: NDArray[np.int32],
    total: int,
) -> tuple[NDArray[np.int32], int]:
    """Add the records at these places that come after the row and are not there yet."""
    found = roomy(found, total + places[1] - places[0])
    for place in range(places[0], places[1]):
        other = others[place]
        if other > row and seen[other] != row:
            seen[other] = row
            found[total] = other
            total += 1
    return found, total
