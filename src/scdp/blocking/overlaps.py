"""Token overlap: the keys of records go in; their tokens by rarity and the postings to search come out.

Two records that share tokens of total weight w or more share one of the first tokens of both, where "first"
is what must be left, rarest first, for the rest to weigh less than w: only those are posted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp.blocking.blocks import Groups, ends_of

ROUNDING = 1e-9


@dataclass(frozen=True)
class Tokens:
    """Record i has tokens[offsets[i]:offsets[i + 1]], rarest first; the first `n_searched[i]` are posted."""

    offsets: NDArray[np.int64]
    tokens: NDArray[np.int32]
    weights: NDArray[np.float64]
    n_searched: NDArray[np.int32]
    postings: Groups


def rarities(sizes: NDArray[np.float64], n_records: float) -> NDArray[np.float64]:
    """The rarity of tokens that so many of the records have: 1 for the rarest, 0 for one that all have."""
    return np.log(n_records / sizes) / np.log(max(n_records, 2))


def tokens_of(groups: Groups, weights: NDArray[np.float64], n_records: int, rarity: float) -> Tokens:
    """Tokens as groups of records, with their weights, turned into tokens by record with postings."""
    rank = np.argsort(-weights, kind="stable")
    place = np.empty(len(rank), dtype=np.int64)
    place[rank] = np.arange(len(rank))
    token = np.repeat(place, groups.sizes)
    # Sorted by record and then by rarity; groups and records fit side by side into 63 bits.
    keys = np.sort(groups.members.astype(np.int64) * max(len(rank), 1) + token)
    tokens = (keys % max(len(rank), 1)).astype(np.int32)
    offsets = ends_of(np.bincount(groups.members, minlength=n_records))
    ordered = weights[rank]
    n_searched = searched(offsets, tokens, ordered, rarity)
    return Tokens(offsets, tokens, ordered, n_searched, _postings(offsets, tokens, n_searched, len(rank)))


def _postings(
    offsets: NDArray[np.int64], tokens: NDArray[np.int32], n_searched: NDArray[np.int32], n_tokens: int
) -> Groups:
    counts = np.diff(offsets)
    rows = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    posted = np.arange(len(tokens)) - np.repeat(offsets[:-1], counts) < np.repeat(n_searched, counts)
    order = np.argsort(tokens[posted], kind="stable")
    return Groups(ends_of(np.bincount(tokens[posted], minlength=n_tokens)), rows[posted][order])


@kernel
def searched(
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
def shared_weight(
    tokens: NDArray[np.int32],
    weights: NDArray[np.float64],
    a: int,
    end_a: int,
    b: int,
    end_b: int,
    enough: float,
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
