"""Pairs of items that draws put together: labels of draws enter, pairs with the number of such draws leave.

Only pairs within a component (`components`) are ever together, so components are counted each on its own, and the
work grows with the pairs that draws really hold, never with the square of the items.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from scdp._compile import kernel
from scdp._parallel import count_workers, map_in_threads
from scdp._typing import Booleans, Floats, Integers, SmallIntegers
from scdp.posterior.components import components
from scdp.posterior.draws import StoredDraws

# Components are counted together up to about so many items: more do not fit into fast memory.
ITEMS_AT_ONCE = 10_000
# Labels (draws x items) at a time: 256 MB.
MOST_LABELS = 1 << 26


class PairCounts(NamedTuple):
    """Pairs, the smaller item first, and in how many draws each is together."""

    left: SmallIntegers
    right: SmallIntegers
    counts: SmallIntegers


def find_pairs_between(
    stored: StoredDraws, draws: Integers, low: float, high: float
) -> tuple[Integers, Integers, Floats]:
    """Pairs of items (smaller first) together in a share of `draws` from `low`, above 0, to `high`; and the share.

    Some of the draws are left out where memory would not do for all.
    """
    draws = draws[:: -(-len(draws) * stored.n_items // MOST_LABELS) or 1]
    labels = stored.labels_at(draws)
    linked = components([labels], stored.n_items)
    linked = linked.chosen(linked.sizes > 1)
    pairs = count_pairs_by_component(take_columns(labels, linked.items), linked.bounds)
    share = pairs.counts / len(draws)
    chosen = (share >= low) & (share <= high)
    left, right = linked.items[pairs.left[chosen]], linked.items[pairs.right[chosen]]
    return np.minimum(left, right), np.maximum(left, right), share[chosen]


def take_columns(draws: SmallIntegers, items: Integers) -> SmallIntegers:
    """Labels (draw, item) of some items; row by row, as a row fits into fast memory."""
    out = np.empty((len(draws), len(items)), np.int32)
    for row, labels in enumerate(draws):
        np.take(labels, items, out=out[row], mode="clip")
    return out


def count_pairs_by_component(
    draws: SmallIntegers, bounds: Integers, which: Booleans | None = None
) -> PairCounts:
    """All pairs of columns ever together; columns are ordered by component, which begin at `bounds`.

    Only pairs in components that are true in `which` are counted (all, unless given).
    """
    n_labels = int(draws.max(initial=-1)) + 1

    def count(block: tuple[int, int]) -> PairCounts:
        begin, end = block
        left, right, counts = count_pairs_in_block(draws[:, begin:end], n_labels)
        return PairCounts(left + np.int32(begin), right + np.int32(begin), counts)

    found = list(map_in_threads(count, split_into_blocks(bounds, which), count_workers(-1)))
    if not found:
        nothing = np.empty(0, np.int32)
        return PairCounts(nothing, nothing, nothing)
    return PairCounts(*(np.concatenate(each) for each in zip(*found, strict=True)))


def split_into_blocks(bounds: Integers, which: Booleans | None = None) -> list[tuple[int, int]]:
    """Begin and end of components that follow each other, as many at a time as are counted best."""
    chosen = np.ones(len(bounds) - 1, np.bool_) if which is None else which
    # A block ends where a component is left out, and after so many items.
    number = bounds[:-1] // ITEMS_AT_ONCE + np.cumsum(~chosen)
    starts = np.flatnonzero(np.diff(number, prepend=-1)).tolist()
    blocks = []
    for first, end in pairwise([*starts, len(chosen)]):
        begin = first + (not chosen[first])
        if begin < end:
            blocks.append((int(bounds[begin]), int(bounds[end])))
    return blocks


@kernel
def count_pairs_in_block(
    draws: SmallIntegers, n_labels: int
) -> tuple[SmallIntegers, SmallIntegers, SmallIntegers]:
    """Left and right item of every pair that is ever together, in ascending order of the left, and its draws."""
    n_draws, n_items = draws.shape
    successors = np.empty((n_items, n_draws), np.int32)
    heads = np.full(n_labels, -1, np.int32)
    for draw in range(n_draws):
        for item in range(n_items - 1, -1, -1):
            label = draws[draw, item]
            successors[item, draw] = heads[label]
            heads[label] = item
        for item in range(n_items):
            heads[draws[draw, item]] = -1
    together = np.zeros(n_items, np.int32)
    met = np.empty(n_items, np.int32)
    left, right, counts = np.empty((3, 4 * n_items), np.int32)
    filled = 0
    for item in range(n_items):
        n_met = 0
        for draw in range(n_draws):
            other = successors[item, draw]
            while other >= 0:
                if together[other] == 0:
                    met[n_met] = other
                    n_met += 1
                together[other] += 1
                other = successors[other, draw]
        if filled + n_met > len(left):
            room = np.empty(len(left) + n_met, np.int32)
            left, right = np.concatenate((left, room)), np.concatenate((right, room))
            counts = np.concatenate((counts, room))
        for place in range(n_met):
            left[filled], right[filled], counts[filled] = item, met[place], together[met[place]]
            together[met[place]] = 0
            filled += 1
    return left[:filled].copy(), right[:filled].copy(), counts[:filled].copy()
