"""Pairs of items that draws put together: labels of draws enter; pair counts and merges by average link leave.

Only pairs within a component are ever together, so components are counted each on its own, and the work grows with
the pairs that draws really hold, never with the square of the items.

In average link two clusters are as similar as the mean count over all pairs of an item of one and an item of the other,
absent pairs counted as 0. The nearest-neighbour chain finds the same merges as always merging the two most similar
clusters, because a merge never makes clusters more similar to a third. Sums and sizes are whole numbers, so comparisons
are exact, and equals are decided for the smaller item.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from scdp._compile import kernel
from scdp._parallel import count_workers, map_in_threads, stage
from scdp._typing import Booleans, Floats, Integers, SmallIntegers
from scdp.errors import InputError
from scdp.partitions import (
    ChosenColumns,
    Columns,
    canonical_labels,
    count_labels,
    count_pairs_in_draws,
    find_alike,
    find_components,
    flatten,
    number_within,
    root_of,
    slice_columns,
    take_columns,
    unite,
)
from scdp.posterior.draws import ComponentDraws, StoredDraws

# Components are counted together up to about so many items: more do not fit into fast memory.
ITEMS_AT_ONCE = 10_000
# And up to so many labels (draws x items) of them.
LABELS_AT_ONCE = 240 * ITEMS_AT_ONCE
# Labels (draws x items) at a time: 256 MB.
MOST_LABELS = 1 << 26
# Components with more pairs in all, or in all draws, than this are searched without counting pairs.
MOST_PAIRS = 1 << 24
MOST_PAIRS_IN_DRAWS = 1 << 31
# Where more pairs than this could be together, items that no draw tells apart are counted as one.
MOST_SINGLE = 1 << 22
MOST_LISTED = 1 << 27
# Where only the least certain are asked for, two such sets of items give about so many pairs.
MOST_OF_EACH = 1 << 20
# Every component of so few items is counted.
ALWAYS_COUNTED = 32


class PairCounts(NamedTuple):
    """Pairs, the smaller item first, and in how many draws each is together."""

    left: SmallIntegers
    right: SmallIntegers
    counts: SmallIntegers


class SharedPairs(NamedTuple):
    """Pairs of items (smaller first) that some draw has together, and their share of the draws.

    Where `alike` is not 1, an item stands for so many that no draw tells apart, itself the smallest; those that others
    stand for have 0. Pairs among such are not listed: they are together in all draws.
    """

    left: Integers
    right: Integers
    share: Floats
    alike: Integers
    stands_for: Integers

    def spread(self, within: bool, most_of_each: int = 1 << 62) -> tuple[Integers, Integers, Floats]:
        """The pairs of all items, with or without those that no draw tells apart; of each at most about so many."""
        if self.alike.min(initial=1) == 1:
            return self.left, self.right, self.share
        n_left = np.minimum(self.alike[self.left], most_of_each)
        n_right = np.minimum(self.alike[self.right], -(-most_of_each // n_left))
        counts = n_left * n_right
        n_within = int((self.alike * (self.alike - 1) // 2).sum()) if within else 0
        n_pairs = int(counts.sum()) + n_within
        if n_pairs > MOST_LISTED:
            raise InputError(
                f"{n_pairs:,} pairs of records are together in some draw, of which {MOST_LISTED:,} at most are listed; "
                f"the largest set of records that no draw tells apart has {self.alike.max():,}: leave copies out"
            )
        order, starts = np.argsort(self.stands_for, kind="stable"), np.cumsum(self.alike) - self.alike
        place, k = number_within(counts), np.repeat(np.arange(len(counts)), counts)
        left = order[starts[self.left[k]] + place // n_right[k]]
        right = order[starts[self.right[k]] + place % n_right[k]]
        share = self.share[k]
        if within:
            # Each with all that come after it among those alike.
            more = (starts + self.alike)[self.stands_for[order]] - np.arange(len(order)) - 1
            first = np.repeat(np.arange(len(order)), more)
            left = np.concatenate([left, order[first]])
            right = np.concatenate([right, order[first + 1 + number_within(more)]])
            share = np.concatenate([share, np.ones(n_within)])
        return np.minimum(left, right), np.maximum(left, right), share

    def least_certain(self, at_most: int) -> SharedPairs:
        """Those that stand for so many of the least certain pairs, and others that are as uncertain."""
        doubt = np.abs(self.share - 0.5).round(9)
        order = np.argsort(doubt, kind="stable")
        counts = np.cumsum(np.minimum(self.alike[self.left[order]] * self.alike[self.right[order]], at_most))
        last = min(int(np.searchsorted(counts, at_most)), len(order) - 1)
        kept = order[: np.searchsorted(doubt[order], doubt[order[last]], side="right")] if len(order) else order
        return self._replace(left=self.left[kept], right=self.right[kept], share=self.share[kept])


@stage("finding uncertain pairs")
def find_pairs_between(
    stored: StoredDraws, draws: Integers, low: float, high: float, at_most: int | None = None
) -> tuple[Integers, Integers, Floats]:
    """Pairs of items (smaller first) together in a share of `draws` from `low`, above 0, to `high`; and the share.

    Some of the draws are left out where memory would not do for all. With `at_most`, so many of the least certain
    pairs are enough.
    """
    pairs = find_shared_pairs(stored, draws)
    chosen = (pairs.share >= low) & (pairs.share <= high)
    pairs = pairs._replace(left=pairs.left[chosen], right=pairs.right[chosen], share=pairs.share[chosen])
    if at_most is None:
        return pairs.spread(within=high >= 1.0)
    return pairs.least_certain(at_most).spread(within=high >= 1.0, most_of_each=MOST_OF_EACH)


def find_shared_pairs(stored: StoredDraws, draws: Integers) -> SharedPairs:
    """All pairs of items that are together in one of the draws.

    Where these are very many, items that no draw tells apart are counted as one, such as copies of a record: half a
    million copies have 125 billion pairs.
    """
    n_items, by_component = stored.n_items, None
    columns: Columns
    if isinstance(stored, ComponentDraws) and len(draws) == stored.n_codes.size:
        by_component, linked, columns = stored, stored.linked, stored.columns
    else:
        draws = draws[:: -(-len(draws) * n_items // MOST_LABELS) or 1]
        labels = stored.labels_at(draws)
        linked = find_components([labels], n_items)
        linked = linked.select(linked.sizes > 1)
        columns = take_columns(labels, linked.items)
    stands_for = np.arange(n_items)
    if int((linked.sizes * (linked.sizes - 1) // 2).sum()) > MOST_SINGLE:
        first = find_alike_by_component(columns, linked.bounds)
        stands_for[linked.items] = linked.items[first]
        kept = first == np.arange(len(first))
        columns = columns[:, kept] if isinstance(columns, np.ndarray) else ChosenColumns(columns, np.flatnonzero(kept))
        linked, by_component = linked.keep(kept), None
    if by_component is None:
        pairs = count_pairs_by_component(columns, linked.bounds)
    else:
        pairs = by_component.pair_counts
    left, right = linked.items[pairs.left], linked.items[pairs.right]
    ends, share = (np.minimum(left, right), np.maximum(left, right)), pairs.counts / len(draws)
    return SharedPairs(*ends, share, np.bincount(stands_for, minlength=n_items), stands_for)


def find_alike_by_component(draws: Columns, bounds: Integers) -> Integers:
    """`find_alike` of the columns of some components at a time: in two of them no items are alike."""
    found = np.arange(bounds[-1])
    for begin, end in split_into_blocks(bounds, None, len(draws)):
        found[begin:end] = begin + find_alike(slice_columns(draws, begin, end))
    return found


def count_pairs_by_component(draws: Columns, bounds: Integers, which: Booleans | None = None) -> PairCounts:
    """All pairs of columns ever together; columns are ordered by component, which begin at `bounds`.

    Only pairs in components that are true in `which` are counted (all, unless given).
    """
    n_labels = count_labels(draws)

    def count(block: tuple[int, int]) -> PairCounts:
        begin, end = block
        left, right, counts = count_pairs_in_block(slice_columns(draws, begin, end), n_labels)
        return PairCounts(left + np.int32(begin), right + np.int32(begin), counts)

    found = list(map_in_threads(count, split_into_blocks(bounds, which, len(draws)), count_workers(-1)))
    if not found:
        nothing = np.empty(0, np.int32)
        return PairCounts(nothing, nothing, nothing)
    return PairCounts(*(np.concatenate(each) for each in zip(*found, strict=True)))


def split_into_blocks(bounds: Integers, which: Booleans | None = None, n_draws: int = 1) -> list[tuple[int, int]]:
    """Begin and end of components that follow each other, as many at a time as are counted best."""
    at_once = min(ITEMS_AT_ONCE, LABELS_AT_ONCE // max(n_draws, 1) or 1)
    chosen = np.ones(len(bounds) - 1, np.bool_) if which is None else which
    # A block ends where a component is left out, and after so many items.
    number = bounds[:-1] // at_once + np.cumsum(~chosen)
    starts = np.flatnonzero(np.diff(number, prepend=-1)).tolist()
    blocks = []
    for first, end in pairwise([*starts, len(chosen)]):
        begin = first + (not chosen[first])
        if begin < end:
            blocks.append((int(bounds[begin]), int(bounds[end])))
    return blocks


@kernel
def count_pairs_in_block(draws: SmallIntegers, n_labels: int) -> tuple[SmallIntegers, SmallIntegers, SmallIntegers]:
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


def find_dense(draws: Columns, bounds: Integers) -> Booleans:
    """Which components have too many pairs to be counted, the largest first."""
    sizes = np.diff(bounds)
    possible = sizes * (sizes - 1) // 2
    in_draws = possible * len(draws)
    larger = np.flatnonzero(sizes > ALWAYS_COUNTED)
    counts = np.zeros(count_labels(draws), np.int64)
    for component in larger:
        own = slice_columns(draws, bounds[component], bounds[component + 1])
        in_draws[component] = count_pairs_in_draws(own, counts)
    order = np.argsort(sizes, kind="stable")
    pairs = np.cumsum(np.minimum(possible, in_draws)[order])
    dense = np.zeros(len(sizes), np.bool_)
    dense[order] = (pairs > MOST_PAIRS) | (np.cumsum(in_draws[order]) > MOST_PAIRS_IN_DRAWS)
    return dense & (sizes > ALWAYS_COUNTED)


class PairGraph(NamedTuple):
    """The neighbours of item i, with the totals of the pairs, stand from starts[i] to starts[i + 1]."""

    starts: Integers
    targets: SmallIntegers
    totals: Integers


class Merges(NamedTuple):
    """Merges from the most similar on: an item of either cluster, the total and the number of pairs between them."""

    first: SmallIntegers
    second: SmallIntegers
    totals: Integers
    pairs: Integers


def build_graph(n_items: int, left: SmallIntegers, right: SmallIntegers, totals: Integers) -> PairGraph:
    """Every pair from both sides; a pair may occur more than once, and its totals then add up."""
    graph = PairGraph(
        np.zeros(n_items + 2, np.int64), np.empty(2 * len(left), np.int32), np.empty(2 * len(left), np.int64)
    )
    fill_graph(left, right, totals, *graph)
    return graph._replace(starts=graph.starts[:-1])


def merge_by_average(graph: PairGraph, weights: Integers, anchored: Booleans) -> Merges:
    """All merges of clusters with a pair between them; `weights` are items' sizes, anchored items are never merged."""
    n_items = len(weights)
    found = np.empty((4, max(0, n_items - 1)), np.int64)
    count = follow_chains(graph, weights.copy(), anchored.copy(), np.arange(n_items, dtype=np.int32), found)
    first, second, totals, pairs = found[:, :count]
    # Stable: a merge never stands before those that made its clusters.
    order = np.argsort(-totals / pairs, kind="stable")
    return Merges(first[order].astype(np.int32), second[order].astype(np.int32), totals[order], pairs[order])


def apply_merges(n_items: int, merges: Merges, count: int) -> SmallIntegers:
    """Canonical labels after the first so many merges."""
    parents = np.arange(n_items, dtype=np.int32)
    unite(parents, merges.first[:count], merges.second[:count])
    flatten(parents)
    return canonical_labels(parents)


@kernel
def fill_graph(
    left: SmallIntegers,
    right: SmallIntegers,
    pair_totals: Integers,
    starts: Integers,
    targets: SmallIntegers,
    totals: Integers,
) -> None:
    """Counting sort of all pairs by either item; `starts` enters as zeros, two more than there are items."""
    for pair in range(len(left)):
        starts[left[pair] + 2] += 1
        starts[right[pair] + 2] += 1
    for item in range(2, len(starts)):
        starts[item] += starts[item - 1]
    for pair in range(len(left)):
        for one, other in ((left[pair], right[pair]), (right[pair], left[pair])):
            place = starts[one + 1]
            targets[place], totals[place] = other, pair_totals[pair]
            starts[one + 1] += 1


class NeighbourLists(NamedTuple):
    """A linked list of entries (neighbour, total) for each cluster, and where an entry is in the present scan."""

    heads: Integers
    tails: Integers
    following: Integers
    targets: SmallIntegers
    totals: Integers
    seen: Integers


@kernel
def list_neighbours(graph: Any) -> NeighbourLists:
    """The graph as linked lists, which can be joined."""
    n_items = len(graph.starts) - 1
    heads, tails = np.full(n_items, -1), np.full(n_items, -1)
    following = np.arange(1, len(graph.targets) + 1)
    for item in range(n_items):
        begin, end = graph.starts[item], graph.starts[item + 1]
        if begin < end:
            heads[item], tails[item] = begin, end - 1
            following[end - 1] = -1
    return NeighbourLists(heads, tails, following, graph.targets.copy(), graph.totals.copy(), np.full(n_items, -1))


@kernel
def combine_entries(cluster: int, parents: SmallIntegers, lists: Any) -> None:
    """Leave one entry for each present neighbour of a cluster; entries of merged ones are added up."""
    before, entry = -1, lists.heads[cluster]
    while entry >= 0:
        other = root_of(parents, lists.targets[entry])
        known = lists.seen[other]
        after = lists.following[entry]
        if other == cluster or known >= 0:
            if other != cluster:
                lists.totals[known] += lists.totals[entry]
            if before < 0:
                lists.heads[cluster] = after
            else:
                lists.following[before] = after
        else:
            lists.targets[entry] = other
            lists.seen[other] = entry
            before = entry
        entry = after
    lists.tails[cluster] = before
    entry = lists.heads[cluster]
    while entry >= 0:
        lists.seen[lists.targets[entry]] = -1
        entry = lists.following[entry]


@kernel
def find_nearest(cluster: int, previous: int, weights: Integers, anchored: Booleans, lists: Any) -> int:
    """The entry of the most similar neighbour (-1 = none), of equals the previous one or the smallest."""
    best = -1
    entry = lists.heads[cluster]
    while entry >= 0:
        other = lists.targets[entry]
        if not (anchored[cluster] and anchored[other]):
            if best < 0:
                best = entry
            else:
                nearest = lists.targets[best]
                mine, its = lists.totals[entry] * weights[nearest], lists.totals[best] * weights[other]
                preferred = other == previous or (nearest != previous and other < nearest)
                if mine > its or (mine == its and preferred):
                    best = entry
        entry = lists.following[entry]
    return best


@kernel
def join_lists(kept: int, gone: int, lists: Any) -> None:
    """Append the entries of one cluster to those of another."""
    if lists.heads[gone] < 0:
        return
    if lists.heads[kept] < 0:
        lists.heads[kept] = lists.heads[gone]
    else:
        lists.following[lists.tails[kept]] = lists.heads[gone]
    lists.tails[kept] = lists.tails[gone]


@kernel
def follow_chains(graph: Any, weights: Integers, anchored: Booleans, parents: SmallIntegers, found: Integers) -> int:
    """Merge nearest neighbours of each other until none is left; rows of `found` are the fields of Merges.

    Returns the number of merges. `weights`, `anchored` and `parents` are changed; an item is its own parent on entry.
    """
    lists = list_neighbours(graph)
    chain = np.empty(len(parents) + 1, np.int64)
    count = 0
    for start in range(len(parents)):
        if parents[start] != start:
            continue
        chain[0], length = start, 1
        while length > 0:
            top = chain[length - 1]
            previous = chain[length - 2] if length > 1 else -1
            combine_entries(top, parents, lists)
            entry = find_nearest(top, previous, weights, anchored, lists)
            if entry < 0:
                break
            other = np.int64(lists.targets[entry])
            if other != previous:
                chain[length] = other
                length += 1
                continue
            found[0, count], found[1, count] = other, top
            found[2, count], found[3, count] = lists.totals[entry], weights[other] * weights[top]
            count += 1
            kept, gone = min(other, top), max(other, top)
            parents[gone] = kept
            weights[kept] += weights[gone]
            anchored[kept] |= anchored[gone]
            join_lists(kept, gone, lists)
            length -= 2
            # A chain goes on from what is left of it, or from the new cluster.
            if length == 0:
                chain[0], length = kept, 1
    return count
