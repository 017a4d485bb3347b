"""The index of a blocking: records and rules go in; blocks, chains and postings come out, ready for pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp.blocking.blocks import (
    Groups,
    Oversized,
    blocks_of,
    ends_of,
    inverted,
    joined,
    split_oversized,
)
from scdp.blocking.expressions import text
from scdp.blocking.keys import KeyMaker, scattered
from scdp.blocking.overlaps import Tokens, rarities, tokens_of
from scdp.blocking.rules import Blocking, Neighbourhood, Overlap, Rule


class BlockPart(NamedTuple):
    """Record i stands at places[rows[i]:rows[i + 1]]; at each it meets the members up to `stops` there."""

    rows: NDArray[np.int64]
    places: NDArray[np.int32]
    stops: NDArray[np.int32]
    members: NDArray[np.int32]


class ChainPart(NamedTuple):
    """As in blocks, but at each place a record meets the members from `lows` to `highs` there."""

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


class IndexParts:
    """Collects the blocks, chains and tokens of one rule after the other."""

    def __init__(self, maker: KeyMaker, blocking: Blocking) -> None:
        self.maker, self.blocking = maker, blocking
        self.n_records = len(maker.columns)
        self.blocks: list[Groups] = []
        self.chains: list[tuple[Groups, int]] = []
        self.tokens: list[tuple[Tokens, float]] = []
        self.oversized: list[Oversized] = []

    def add(self, rule: Rule) -> None:
        if isinstance(rule, Neighbourhood):
            self.chains.append((sorted_records(self.maker, rule), rule.window))
        elif isinstance(rule, Overlap):
            self._add_overlap(rule)
        else:
            self._add_blocks(rule)

    def _add_blocks(self, rule: Rule) -> None:
        assert not isinstance(rule, Neighbourhood), "sorted, not put into blocks"
        blocks, chains = split_oversized(
            blocks_of(self.maker.rule_keys(rule)), self.blocking.max_block, self._ranks
        )
        self.blocks.append(blocks)
        if len(chains):
            self.chains.append((chains, self.blocking.window))
            sizes = chains.sizes
            self.oversized.append(Oversized(str(rule), len(chains), int(sizes.sum()), int(sizes.max())))

    def _add_overlap(self, rule: Overlap) -> None:
        groups = blocks_of(self.maker.rule_keys(rule))
        groups = groups.select(groups.sizes <= self.blocking.max_block)
        weights = rarities(groups.sizes.astype(np.float64), self.n_records)
        self.tokens.append((tokens_of(groups, weights, self.n_records, rule.rarity), rule.rarity))

    def _ranks(self, rows: NDArray[np.int32]) -> NDArray[np.int64]:
        """Each row's place when they are sorted by the columns of the blocking, the most varied first."""
        columns = sorted(
            self.blocking.columns, key=lambda column: len(self.maker.columns.encoded((column,))[1])
        )
        # The last key of a lexsort is the first to count; equal rows keep the order of the records.
        ranks_of: list[NDArray[Any]] = [self.maker.ranks(text(column), rows) for column in columns]
        order = np.lexsort((rows, *ranks_of))
        ranks = np.empty(len(rows), dtype=np.int64)
        ranks[order] = np.arange(len(rows))
        return ranks

    def index(self) -> PairIndex:
        return PairIndex(
            self.n_records,
            _block_part(joined(self.blocks), self.n_records),
            _chain_part(self.chains, self.n_records),
            _token_part(self.tokens),
        )


def build_index(
    maker: KeyMaker, blocking: Blocking, rules: Sequence[Rule]
) -> tuple[PairIndex, tuple[Oversized, ...]]:
    """The index of some rules of a blocking, and which of them had blocks above the bound."""
    parts = IndexParts(maker, blocking)
    for rule in rules:
        parts.add(rule)
    return parts.index(), tuple(parts.oversized)


def sorted_records(maker: KeyMaker, rule: Neighbourhood) -> Groups:
    """One group: the records that have the first key, sorted by all of them."""
    rows = np.flatnonzero(maker.present(rule.keys[0])).astype(np.int32)
    ranks = [maker.ranks(key, rows) for key in reversed(rule.keys)]
    # Files often hold duplicates side by side; ties in their order would be found only there.
    ranks.insert(0, scattered(rows))
    return Groups(np.array([0, len(rows)], dtype=np.int64), rows[np.lexsort(ranks)])


def _block_part(blocks: Groups, n_records: int) -> BlockPart:
    rows, places = inverted(n_records, blocks.members)
    stops = np.repeat(blocks.offsets[1:].astype(places.dtype), blocks.sizes)
    return BlockPart(rows, places, stops, blocks.members)


def _chain_part(chains: Sequence[tuple[Groups, int]], n_records: int) -> ChainPart:
    groups = joined([chain for chain, _ in chains])
    windows = np.repeat(
        np.array([window for _, window in chains], dtype=np.int64),
        np.array([len(chain.members) for chain, _ in chains], dtype=np.int64),
    )
    rows, places = inverted(n_records, groups.members)
    here = np.arange(len(groups.members))
    lows = np.maximum(np.repeat(groups.offsets[:-1], groups.sizes), here - windows)
    highs = np.minimum(np.repeat(groups.offsets[1:], groups.sizes), here + windows + 1)
    return ChainPart(rows, places, lows.astype(places.dtype), highs.astype(places.dtype), groups.members)


def _token_part(found: Sequence[tuple[Tokens, float]]) -> TokenPart:
    """The tokens of all overlap rules side by side: those of a later rule get higher numbers."""
    parts = [part for part, _ in found]
    starts = np.cumsum([0, *(len(part.weights) for part in parts)]).astype(np.int32)
    tokens = [part.tokens + start for part, start in zip(parts, starts, strict=False)]
    postings = joined([part.postings for part in parts])
    counts = [np.diff(part.offsets) for part in parts]
    return TokenPart(
        ends_of(np.concatenate([np.empty(0, dtype=np.int64), *counts])),
        np.concatenate([np.empty(0, dtype=np.int32), *tokens]),
        np.concatenate([np.empty(0), *(part.weights for part in parts)]),
        np.concatenate([np.empty(0, dtype=np.int32), *(part.n_searched for part in parts)]),
        postings.offsets,
        postings.members,
        np.array([rarity for _, rarity in found], dtype=np.float64),
    )
