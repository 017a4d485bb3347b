"""Pairs from the index, in chunks: some records enter; their later partners leave, sorted, each once.

If a and b are candidates and b and c are linked (almost surely the same), then a and c become candidates: a
poor record that shares something with one record of an entity is compared with the others as well.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp._parallel import map_in_threads
from scdp.blocking.index import ROUNDING, Oversized, PairIndex, build_index, sum_shared_weight
from scdp.blocking.keys import KeyMaker
from scdp.blocking.rules import Blocking

Pairs = tuple[NDArray[np.int32], NDArray[np.int32]]


# The partners of some records, one after the other, and how many each has.
Partners = Callable[[NDArray[np.int32]], tuple[NDArray[np.int64], NDArray[np.int32]]]

# Records are taken together until they have so many others to look at: it bounds a worker's memory.
VISITS_AT_ONCE = 1_000_000


@dataclass(frozen=True, eq=False)
class Search:
    """How the pairs of a blocking are found, record by record; `n_visited` is how many others each looks at.

    In the order of `block_number` records share most of those that they look at. `oversized` are the rules with
    blocks above the bound.
    """

    find_partners: Partners
    n_visited: NDArray[np.int64]
    block_number: NDArray[np.int64]
    oversized: tuple[Oversized, ...] = ()

    def parts(self, rows: NDArray[np.int32]) -> list[NDArray[np.int32]]:
        """Rows in parts that make about as many pairs each."""
        edges = split_rows(self.n_visited[rows])
        return [rows[first:last] for first, last in pairwise(edges)]

    def pairs(self, rows: NDArray[np.int32]) -> Pairs:
        """The pairs of these records with later ones."""
        counts, right = self.find_partners(rows)
        return np.repeat(rows, counts), right

    def chunks(self, threads: int) -> Iterator[Pairs]:
        """All pairs (left < right), sorted; the same whatever the number of threads."""
        return map_in_threads(self.pairs, self.parts(np.arange(len(self.n_visited), dtype=np.int32)), threads)


def split_rows(n_visited: NDArray[np.int64]) -> NDArray[np.int64]:
    """Edges between which records look at about VISITS_AT_ONCE others, or are one record."""
    total = np.concatenate([[0], np.cumsum(n_visited)])
    steps = np.arange(0, total[-1] + VISITS_AT_ONCE, VISITS_AT_ONCE)
    edges = np.searchsorted(total, steps, side="right") - 1
    return np.unique(np.concatenate([[0], edges, [len(n_visited)]]))


def make_search(maker: KeyMaker, blocking: Blocking, limit: int = 10**9, threads: int = 1) -> Search:
    """How the pairs of a blocking are found, through its links if there are any; `limit` is in bytes."""
    index, oversized = build_index(maker, blocking, blocking.all_rules, threads)
    search = make_index_search(index, oversized)
    if not blocking.links:
        return search
    links = make_index_search(build_index(maker, blocking, blocking.links, threads)[0])
    found = (collect_chunks(each.chunks(threads), limit) for each in (search, links))
    graphs = build_linked_graphs(len(maker.columns), *found)
    return Search(
        partial(find_partners_through_links, graphs),
        count_visited_through_links(graphs),
        search.block_number,
        oversized,
    )


def make_index_search(index: PairIndex, oversized: tuple[Oversized, ...] = ()) -> Search:
    """How to find the pairs of an index, without links."""
    return Search(partial(find_partners, index), count_visited(index), number_by_block(index), oversized)


def find_chunks(
    maker: KeyMaker, blocking: Blocking, limit: int = 10**9, threads: int = 1
) -> tuple[Iterator[Pairs], tuple[Oversized, ...]]:
    """The pairs of the rules, expanded through the links if there are any."""
    search = make_search(maker, blocking, limit, threads)
    return search.chunks(threads), search.oversized


def count_index_pairs(index: PairIndex) -> tuple[int, float]:
    """The distinct pairs of blocks and overlaps, and all pairs of chains."""
    near = float((index.chains.highs - index.chains.lows - 1).sum()) / 2
    none = np.zeros(0, dtype=np.int32)
    nowhere = index.chains._replace(rows=np.zeros_like(index.chains.rows), places=none)
    return sum(len(left) for left, _ in make_index_search(index._replace(chains=nowhere)).chunks(1)), near


def number_pairs(left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.int64]:
    """One number for each pair, which sorts as left, then right; both are below 2^31."""
    numbers: NDArray[np.int64] = (left.astype(np.int64) << 31) | right
    return numbers


def collect_chunks(chunks: Iterable[Pairs], limit: int) -> Pairs:
    """All chunks as two arrays: in memory while they and their joined copy fit, else in mapped files."""
    held: list[Pairs] = []
    files: tuple[IO[bytes], IO[bytes]] | None = None
    size = 0
    for chunk in chunks:
        held.append(chunk)
        size += sum(part.nbytes for part in chunk)
        if 2 * size > limit or files:
            files = files or (tempfile.TemporaryFile(), tempfile.TemporaryFile())  # noqa: SIM115
            _append(held, files)
    if files:
        return _map_file(files[0]), _map_file(files[1])
    empty = np.empty(0, dtype=np.int32)
    return (
        np.concatenate([empty, *(left for left, _ in held)]),
        np.concatenate([empty, *(right for _, right in held)]),
    )


def _append(held: list[Pairs], files: tuple[IO[bytes], IO[bytes]]) -> None:
    for chunk in held:
        for part, file in zip(chunk, files, strict=True):
            file.write(part.data)
    held.clear()


def _map_file(file: IO[bytes]) -> NDArray[np.int32]:
    # The file has no name; the map has its own hold on it and is all that keeps it.
    with file:
        file.flush()
        empty = file.tell() == 0
        return np.empty(0, dtype=np.int32) if empty else np.memmap(file, dtype=np.int32, mode="r")


@kernel
def ensure_room(found: NDArray[np.int32], needed: int) -> NDArray[np.int32]:
    """The array, or a longer copy when it is shorter than needed."""
    if needed <= len(found):
        return found
    longer = np.empty(max(needed, 2 * len(found)), dtype=np.int32)
    longer[: len(found)] = found
    return longer


@kernel
def count_visited(index: PairIndex) -> NDArray[np.int64]:
    """How many members of blocks, chains and postings each record looks at, repeats counted."""
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
                index.overlaps.rows[virtual], index.overlaps.rows[virtual] + index.overlaps.n_searched[virtual]
            ):
                token = index.overlaps.tokens[entry]
                met[row] += index.overlaps.posting_offsets[token + 1] - index.overlaps.posting_offsets[token]
    return met


@kernel
def number_by_block(index: PairIndex) -> NDArray[np.int64]:
    """A number for each record: those of its largest block, or near it in a chain, have the same or the next ones.

    In this order a record looks at others that the one before has just looked at, so that they are still in the cache.
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
def find_partners(index: PairIndex, rows: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The partners after each of these records, ascending, and how many each has."""
    counts = np.zeros(len(rows), dtype=np.int64)
    found = np.empty(1 << 12, dtype=np.int32)
    seen = np.full(index.n_records, -1, dtype=np.int32)
    tried = np.full(index.n_records, -1, dtype=np.int64)
    total = 0
    for number, row in enumerate(rows):
        start = total
        found, total = visit_blocks(index, row, seen, found, total)
        found, total = visit_chains(index, row, seen, found, total)
        for rule in range(len(index.overlaps.thresholds)):
            found, total = visit_postings(index, row, rule, seen, tried, found, total)
        found[start:total].sort()
        counts[number] = total - start
    return counts, found[:total].copy()


@kernel
def visit_blocks(
    index: PairIndex, row: int, seen: NDArray[np.int32], found: NDArray[np.int32], total: int
) -> tuple[NDArray[np.int32], int]:
    """Add the later members of the record's blocks."""
    for entry in range(index.blocks.rows[row], index.blocks.rows[row + 1]):
        place = index.blocks.places[entry]
        found = ensure_room(found, total + index.blocks.stops[place] - place)
        for later in range(place + 1, index.blocks.stops[place]):
            other = index.blocks.members[later]
            if seen[other] != row:
                seen[other] = row
                found[total] = other
                total += 1
    return found, total


@kernel
def visit_chains(
    index: PairIndex, row: int, seen: NDArray[np.int32], found: NDArray[np.int32], total: int
) -> tuple[NDArray[np.int32], int]:
    """Add the neighbours in the record's chains that come after it among the records."""
    for entry in range(index.chains.rows[row], index.chains.rows[row + 1]):
        place = index.chains.places[entry]
        found = ensure_room(found, total + index.chains.highs[place] - index.chains.lows[place])
        for near in range(index.chains.lows[place], index.chains.highs[place]):
            other = index.chains.members[near]
            if other > row and seen[other] != row:
                seen[other] = row
                found[total] = other
                total += 1
    return found, total


@kernel
def visit_postings(
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
                sum_shared_weight(
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
                found = ensure_room(found, total + 1)
                found[total] = other
                total += 1
    return found, total


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


def build_linked_graphs(n_records: int, pairs: Pairs, links: Pairs) -> LinkedPairs:
    """The graphs of the pairs and of the links; the latter without hubs."""
    return LinkedPairs(
        *Graph(*build_graph(n_records, *pairs)), *remove_hubs(*build_graph(n_records, *links), MOST_LINKS)
    )


@kernel
def build_graph(
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
def remove_hubs(
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
def count_visited_through_links(graphs: LinkedPairs) -> NDArray[np.int64]:
    """How many records each one looks at in its pairs and one link further, repeats counted."""
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
def find_partners_through_links(
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
        found, total = visit_range(graphs.partners, places, row, seen, found, total)
        for place in range(places[0], places[1]):
            partner = graphs.partners[place]
            linked = (graphs.link_offsets[partner], graphs.link_offsets[partner + 1])
            found, total = visit_range(graphs.linked, linked, row, seen, found, total)
        for place in range(graphs.link_offsets[row], graphs.link_offsets[row + 1]):
            other = graphs.linked[place]
            theirs = (graphs.pair_offsets[other], graphs.pair_offsets[other + 1])
            found, total = visit_range(graphs.partners, theirs, row, seen, found, total)
        found[start:total].sort()
        counts[number] = total - start
    return counts, found[:total].copy()


@kernel
def visit_range(
    others: NDArray[np.int32],
    places: tuple[int, int],
    row: int,
    seen: NDArray[np.int32],
    found: NDArray[np.int32],
    total: int,
) -> tuple[NDArray[np.int32], int]:
    """Add the records at these places that come after the row and are not there yet."""
    found = ensure_room(found, total + places[1] - places[0])
    for place in range(places[0], places[1]):
        other = others[place]
        if other > row and seen[other] != row:
            seen[other] = row
            found[total] = other
            total += 1
    return found, total
