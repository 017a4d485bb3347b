"""The index of a blocking: records and rules enter; blocks, chains and postings leave, ready for the search.

Two records that share tokens of total weight w or more share one of the first tokens of both, where "first"
is what must be left, rarest first, for the rest to weigh less than w: only those are posted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp._parallel import map_in_threads
from scdp._typing import Integers
from scdp.blocking import text
from scdp.blocking.keys import KeyMaker, KeyTable
from scdp.blocking.rules import Blocking, Equal, Identical, Neighbourhood, Overlap, Rule, token_bound
from scdp.hashing import scatter_rows
from scdp.texts import compute_offsets

Rows = NDArray[np.int32]


@dataclass(frozen=True)
class Groups:
    """Group g holds members[offsets[g]:offsets[g + 1]], records in ascending or in sorted order."""

    offsets: Integers
    members: Rows

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def sizes(self) -> Integers:
        return np.diff(self.offsets)

    def select(self, wanted: NDArray[np.bool_]) -> Groups:
        """The groups wanted, in their order."""
        sizes = self.sizes
        return Groups(compute_offsets(sizes[wanted]), self.members[np.repeat(wanted, sizes)])


@dataclass(frozen=True)
class Oversized:
    """What happened to the blocks of a rule that had more records than the bound."""

    rule: str
    n_blocks: int
    n_records: int
    largest: int
    # What the records of the largest block share.
    value: str = field(default="", compare=False)

    def __str__(self) -> str:
        return (
            f"{self.rule}: {self.n_blocks:,} blocks above the bound with {self.n_records:,} records "
            f"(the largest {self.largest:,}) were paired by sorted neighbourhood"
        )


def find_blocks(table: KeyTable) -> Groups:
    """The records that share a key, ascending within a block; blocks of one record are left out."""
    rows, keys = table.entries()
    # About eight keys a bucket; keys are hashes, so their high bits are even.
    bits = max(1, len(keys).bit_length() - 3)
    return Groups(*group_by_key(keys, rows, np.uint64(64 - bits), 1 << bits))


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


def join_groups(groups: list[Groups]) -> Groups:
    """All groups one after the other."""
    if not groups:
        return Groups(np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int32))
    sizes = np.concatenate([part.sizes for part in groups])
    return Groups(compute_offsets(sizes), np.concatenate([part.members for part in groups]))


@kernel
def group_by_key(keys: NDArray[np.uint64], rows: Rows, shift: np.uint64, n_buckets: int) -> tuple[Integers, Rows]:
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
    return group_equal_runs(sorted_keys, sorted_rows)


@kernel
def group_equal_runs(keys: NDArray[np.uint64], rows: Rows) -> tuple[Integers, Rows]:
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


def invert_members(n_records: int, members: Rows) -> tuple[Integers, NDArray[np.int32]]:
    """For each record the places among the members at which it stands, and offsets into them."""
    ends = compute_offsets(np.bincount(members, minlength=n_records))
    # 64 bits only where they are needed: with many rules this is much of the memory.
    places: NDArray[Any] = np.empty(len(members), dtype=np.int32 if len(members) < 2**31 else np.int64)
    fill_places(ends[:-1].copy(), members, places)
    return ends, places


@kernel
def fill_places(free: Integers, members: Rows, places: NDArray[Any]) -> None:
    """Write each member's place into the next free slot of its record."""
    for place in range(len(members)):
        row = members[place]
        places[free[row]] = place
        free[row] += 1


ROUNDING = 1e-9


@dataclass(frozen=True)
class RecordTokens:
    """Record i has tokens[offsets[i]:offsets[i + 1]], rarest first; the first `n_searched[i]` are posted."""

    offsets: NDArray[np.int64]
    tokens: NDArray[np.int32]
    weights: NDArray[np.float64]
    n_searched: NDArray[np.int32]
    postings: Groups


def compute_rarities(sizes: NDArray[np.float64], n_records: float) -> NDArray[np.float64]:
    """The rarity of tokens that so many of the records have: 1 for the rarest, 0 for one that all have."""
    return np.log(n_records / sizes) / np.log(max(n_records, 2))


def order_tokens(groups: Groups, weights: NDArray[np.float64], n_records: int, rarity: float) -> RecordTokens:
    """Tokens as groups of records, with their weights, turned into tokens by record with postings."""
    rank = np.argsort(-weights, kind="stable")
    place = np.empty(len(rank), dtype=np.int64)
    place[rank] = np.arange(len(rank))
    token = np.repeat(place, groups.sizes)
    # Sorted by record and then by rarity; groups and records fit side by side into 63 bits.
    keys = np.sort(groups.members.astype(np.int64) * max(len(rank), 1) + token)
    tokens = (keys % max(len(rank), 1)).astype(np.int32)
    offsets = compute_offsets(np.bincount(groups.members, minlength=n_records))
    ordered = weights[rank]
    n_searched = count_searched(offsets, tokens, ordered, rarity)
    return RecordTokens(offsets, tokens, ordered, n_searched, _make_postings(offsets, tokens, n_searched, len(rank)))


def _make_postings(
    offsets: NDArray[np.int64], tokens: NDArray[np.int32], n_searched: NDArray[np.int32], n_tokens: int
) -> Groups:
    counts = np.diff(offsets)
    rows = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    posted = np.arange(len(tokens)) - np.repeat(offsets[:-1], counts) < np.repeat(n_searched, counts)
    order = np.argsort(tokens[posted], kind="stable")
    return Groups(compute_offsets(np.bincount(tokens[posted], minlength=n_tokens)), rows[posted][order])


@kernel
def count_searched(
    offsets: NDArray[np.int64], tokens: NDArray[np.int32], weights: NDArray[np.float64], rarity: float
) -> NDArray[np.int32]:
    """How many of a record's tokens, rarest first, must be searched: the rest weigh less than `rarity`."""
    n_searched = np.zeros(len(offsets) - 1, dtype=np.int32)
    for row in range(len(n_searched)):
        rest = 0.0
        place = offsets[row + 1]
        while place > offsets[row] and rest + weights[tokens[place - 1]] < rarity - 2 * ROUNDING:
            place -= 1
            rest += weights[tokens[place]]
        n_searched[row] = place - offsets[row]
    return n_searched


@kernel
def sum_shared_weight(
    tokens: NDArray[np.int32], weights: NDArray[np.float64], a: int, end_a: int, b: int, end_b: int, enough: float
) -> float:
    """The weight of the tokens that two ascending runs share; stops when it is enough."""
    total = 0.0
    while a < end_a and b < end_b and total < enough:
        if tokens[a] == tokens[b]:
            total += weights[tokens[a]]
            a += 1
            b += 1
        elif tokens[a] < tokens[b]:
            a += 1
        else:
            b += 1
    return total


class BlockPart(NamedTuple):
    """Record i stands at places[rows[i]:rows[i + 1]]; at each it looks at the members up to `stops` there."""

    rows: NDArray[np.int64]
    places: NDArray[np.int32]
    stops: NDArray[np.int32]
    members: NDArray[np.int32]


class ChainPart(NamedTuple):
    """As in blocks, but at each place a record looks at the members from `lows` to `highs` there."""

    rows: NDArray[np.int64]
    places: NDArray[np.int32]
    lows: NDArray[np.int32]
    highs: NDArray[np.int32]
    members: NDArray[np.int32]


class TokenPart(NamedTuple):
    """The tokens of overlap rule r and record i are at row r * n_records + i, rarest first.

    The first `n_searched` of a row are looked up in the postings; rules have their own tokens.
    """

    rows: NDArray[np.int64]
    tokens: NDArray[np.int32]
    weights: NDArray[np.float64]
    n_searched: NDArray[np.int32]
    posting_offsets: NDArray[np.int64]
    postings: NDArray[np.int32]
    thresholds: NDArray[np.float64]


class PairIndex(NamedTuple):
    """All that the kernel needs to find a record's partners."""

    n_records: int
    blocks: BlockPart
    chains: ChainPart
    overlaps: TokenPart


class RuleParts(NamedTuple):
    """What one rule gives: blocks within the bound, chains with their window, tokens with their threshold."""

    blocks: Groups | None = None
    chain: tuple[Groups, int] | None = None
    tokens: tuple[RecordTokens, float] | None = None
    oversized: Oversized | None = None


class IndexParts:
    """Finds the blocks, chains and tokens of rules."""

    def __init__(self, maker: KeyMaker, blocking: Blocking) -> None:
        self.maker, self.blocking = maker, blocking
        self.n_records = len(maker.columns)

    def find(self, rule: Rule) -> RuleParts:
        """What one rule gives; the keys of its distinct texts must be there where several are at work."""
        if isinstance(rule, Neighbourhood):
            return RuleParts(chain=(sort_records(self.maker, rule), rule.window))
        if isinstance(rule, Overlap):
            return RuleParts(tokens=self._find_tokens(rule))
        return self._find_blocks(rule)

    def _find_blocks(self, rule: Equal | Identical) -> RuleParts:
        keys = self.maker.rule_keys(rule)
        blocks, chains = split_oversized(find_blocks(keys), self.blocking.max_block, self._ranks)
        if not len(chains):
            return RuleParts(blocks)
        sizes = chains.sizes
        member = int(chains.members[chains.offsets[int(np.argmax(sizes))]])
        value = self.maker.describe(rule, member)
        oversized = Oversized(str(rule), len(chains), int(sizes.sum()), int(sizes.max()), value)
        return RuleParts(blocks, (chains, self.blocking.window), oversized=oversized)

    def _find_tokens(self, rule: Overlap) -> tuple[RecordTokens, float]:
        groups = find_blocks(self.maker.rule_keys(rule))
        groups = groups.select(groups.sizes <= token_bound(self.blocking.max_block, self.n_records))
        weights = compute_rarities(groups.sizes.astype(np.float64), self.n_records)
        return order_tokens(groups, weights, self.n_records, rule.rarity), rule.rarity

    def _ranks(self, rows: NDArray[np.int32]) -> NDArray[np.int64]:
        """Each row's place when they are sorted by the columns of the blocking, the most varied first."""
        columns = sorted(self.blocking.columns, key=lambda column: len(self.maker.columns.encode((column,))[1]))
        # The last key of a lexsort is the first to count; equal rows keep the order of the records.
        ranks_of: list[NDArray[Any]] = [self.maker.ranks(text(column), rows) for column in columns]
        order = np.lexsort((rows, *ranks_of))
        ranks = np.empty(len(rows), dtype=np.int64)
        ranks[order] = np.arange(len(rows))
        return ranks

    def join(self, found: Sequence[RuleParts]) -> PairIndex:
        """The index of rules, from what each gives."""
        return PairIndex(
            self.n_records,
            _block_part(join_groups([each.blocks for each in found if each.blocks is not None]), self.n_records),
            _chain_part([each.chain for each in found if each.chain is not None], self.n_records),
            _token_part([each.tokens for each in found if each.tokens is not None]),
        )


def build_index(
    maker: KeyMaker, blocking: Blocking, rules: Sequence[Rule], threads: int = 1
) -> tuple[PairIndex, tuple[Oversized, ...]]:
    """The index of some rules of a blocking, and which of them had blocks above the bound."""
    parts = IndexParts(maker, blocking)
    for rule in rules:
        maker.make_ready(rule)
    found = list(map_in_threads(parts.find, rules, threads))
    return parts.join(found), tuple(each.oversized for each in found if each.oversized is not None)


def sort_records(maker: KeyMaker, rule: Neighbourhood) -> Groups:
    """One group: the records that have the first key, sorted by all of them."""
    rows = np.flatnonzero(maker.find_present(rule.keys[0])).astype(np.int32)
    ranks = [maker.ranks(key, rows) for key in reversed(rule.keys)]
    # Files often hold duplicates side by side; ties in their order would be found only there.
    ranks.insert(0, scatter_rows(rows))
    return Groups(np.array([0, len(rows)], dtype=np.int64), rows[np.lexsort(ranks)])


def _block_part(blocks: Groups, n_records: int) -> BlockPart:
    rows, places = invert_members(n_records, blocks.members)
    stops = np.repeat(blocks.offsets[1:].astype(places.dtype), blocks.sizes)
    return BlockPart(rows, places, stops, blocks.members)


def _chain_part(chains: Sequence[tuple[Groups, int]], n_records: int) -> ChainPart:
    groups = join_groups([chain for chain, _ in chains])
    windows = np.repeat(
        np.array([window for _, window in chains], dtype=np.int64),
        np.array([len(chain.members) for chain, _ in chains], dtype=np.int64),
    )
    rows, places = invert_members(n_records, groups.members)
    here = np.arange(len(groups.members))
    lows = np.maximum(np.repeat(groups.offsets[:-1], groups.sizes), here - windows)
    highs = np.minimum(np.repeat(groups.offsets[1:], groups.sizes), here + windows + 1)
    return ChainPart(rows, places, lows.astype(places.dtype), highs.astype(places.dtype), groups.members)


def _token_part(found: Sequence[tuple[RecordTokens, float]]) -> TokenPart:
    """The tokens of all overlap rules side by side: those of a later rule get higher numbers."""
    parts = [part for part, _ in found]
    starts = np.cumsum([0, *(len(part.weights) for part in parts)]).astype(np.int32)
    tokens = [part.tokens + start for part, start in zip(parts, starts, strict=False)]
    postings = join_groups([part.postings for part in parts])
    counts = [np.diff(part.offsets) for part in parts]
    return TokenPart(
        compute_offsets(np.concatenate([np.empty(0, dtype=np.int64), *counts])),
        np.concatenate([np.empty(0, dtype=np.int32), *tokens]),
        np.concatenate([np.empty(0), *(part.weights for part in parts)]),
        np.concatenate([np.empty(0, dtype=np.int32), *(part.n_searched for part in parts)]),
        postings.offsets,
        postings.members,
        np.array([rarity for _, rarity in found], dtype=np.float64),
    )
