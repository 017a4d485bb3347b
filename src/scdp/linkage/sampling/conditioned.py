"""Draws given conditions: component by component, a draw that breaks a condition is drawn anew.

In a component of up to 7 free records the draw is exact: the process of the law runs again, up to 16 times, until the
conditions hold, and if they still do not the partition is drawn from the enumerated law of those that keep them. Both
are the law of the process given the conditions.

In a larger component, if some tries of the process do not keep the conditions, records are placed within them: by the
process of the law without choices that break one. A group of records that are the same comes as one record, whose score
with a cluster is the mean over its members, and clusters that it must not join have no weight. This keeps every
condition, and is not the law of the process given the conditions: how far it is from that is measured by
`benchmarks/known_law.py`.

As everywhere, all chance follows from the names of records, the draw, and the number of the try.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp._typing import Floats, Integers
from scdp.compare.features import Neighbours
from scdp.conditions import Limits
from scdp.hashing import mix_keys
from scdp.linkage.law import FEWEST_TO_MERGE, NO_MERGE, OPEN, Weights, choose
from scdp.linkage.sampling import Names, Room, connect, make_room, place_component, shuffle, uniform
from scdp.linkage.sampling.enumeration import MOST_RECORDS, conditional_law, count_sources, keeps

# Tries of the whole process. In components of more records all conditions hardly ever hold at once, and there is only
# the first draw; so it is where records are only the same, which placing them within the conditions does as well.
TRIES = 16
MOST_TRIED = 30
NOT_YET, NEVER = -1, -2


@kernel
def take_out(
    items: Integers, first: int, last: int, cluster: Integers, limits: Limits, holds: Integers, room: Room
) -> None:
    """Have none of the free records of a component placed."""
    count_sources(items, first, last, cluster, limits, holds, -1)
    for place in range(first, last):
        i = items[place]
        if cluster[i] >= 0:
            room.size[cluster[i]] -= 1
            cluster[i] = OPEN


@kernel
def find_conditioned(items: Integers, bounds: Integers, limits: Limits) -> Integers:
    """The components in which a record is under a condition."""
    found = np.empty(bounds.shape[0], np.int64)
    count = 0
    for component in range(bounds.shape[0] - 1):
        concerned = False
        for place in range(bounds[component], bounds[component + 1]):
            i = items[place]
            concerned = concerned or limits.group[i] >= 0 or limits.source[i] >= 0
            concerned = concerned or limits.start[i + 1] > limits.start[i]
        if concerned:
            found[count] = component
            count += 1
    return found[:count].copy()


@kernel
def keeps_apart(items: Integers, first: int, last: int, limits: Limits) -> bool:
    """Whether some records of a component must not be together."""
    apart = False
    for i in items[first:last]:
        apart = apart or limits.source[i] >= 0 or limits.start[i + 1] > limits.start[i]
    return apart


@kernel
def condition_draws(
    neighbours: Neighbours,
    score: Floats,
    weights: Weights,
    known: Integers,
    n_rescans: int,
    streams: Names,
    names: Names,
    limits: Limits,
    draws: NDArray[np.int32],
) -> None:
    """Replace, in draws of the law, the components that break a condition."""
    n, n_known = known.shape[0], known.max() + 1
    room = make_room(n, n_known)
    items, bounds = connect(neighbours, known)
    conditioned = find_conditioned(items, bounds, limits)
    within = make_bounds(limits, known, room.size.shape[0])
    holds, home = within.holds, np.full(n, OPEN)
    given_sizes = np.zeros(n_known, np.int64)
    for i in range(n):
        if known[i] >= 0:
            given_sizes[known[i]] += 1
    # Enumerated laws, one after another: where that of a component begins and ends.
    begins, ends = np.full(bounds.shape[0], NOT_YET), np.zeros(bounds.shape[0], np.int64)
    laws_labels, laws_total = np.empty((64, MOST_RECORDS), np.int64), np.empty(64)
    n_kept = 0
    for d in range(streams.shape[0]):
        cluster = draws[d].astype(np.int64)
        room.size[:] = 0
        holds[:] = 0
        for i in range(n):
            room.size[cluster[i]] += 1
            if limits.source[i] >= 0:
                holds[cluster[i], limits.source[i]] += 1
        for component in conditioned:
            first, last = bounds[component], bounds[component + 1]
            kept = keeps(items, first, last, cluster, limits, holds, home)
            attempt = 0
            is_tried = last - first <= (MOST_TRIED if keeps_apart(items, first, last, limits) else MOST_RECORDS)
            while not kept and attempt < TRIES and is_tried:
                attempt += 1
                take_out(items, first, last, cluster, limits, holds, room)
                again = mix_keys(streams[d], np.uint64(attempt))
                place_component(
                    neighbours, score, weights, n_rescans, again, names, items, first, last, n_known, cluster, room
                )
                count_sources(items, first, last, cluster, limits, holds, 1)
                kept = keeps(items, first, last, cluster, limits, holds, home)
            if kept:
                continue
            take_out(items, first, last, cluster, limits, holds, room)
            again = mix_keys(streams[d], np.uint64(TRIES + 1))
            if last - first > MOST_RECORDS:
                begins[component] = NEVER
            few_items = np.sort(items[first:last])
            if begins[component] == NOT_YET:
                labels, total = conditional_law(
                    few_items, neighbours, score, weights, n_rescans, known, given_sizes, limits, holds, home, cluster
                )
                if n_kept + total.shape[0] > laws_total.shape[0]:
                    more = n_kept + 2 * total.shape[0]
                    laws_labels = np.concatenate((laws_labels, np.empty((more, MOST_RECORDS), np.int64)))
                    laws_total = np.concatenate((laws_total, np.empty(more)))
                begins[component] = n_kept if total.shape[0] else NEVER
                laws_labels[n_kept : n_kept + total.shape[0], : last - first] = labels
                laws_total[n_kept : n_kept + total.shape[0]] = total
                n_kept += total.shape[0]
                ends[component] = n_kept
            if begins[component] == NEVER:
                place_within(
                    neighbours,
                    score,
                    weights,
                    n_rescans,
                    again,
                    names,
                    items[first:last],
                    n_known,
                    cluster,
                    within,
                    room,
                )
                continue
            chance = uniform(names[few_items[0]], again, 0)
            begin, end = begins[component], ends[component]
            row = begin + min(np.searchsorted(laws_total[begin:end], chance, side="right"), end - begin - 1)
            for t in range(last - first):
                k = laws_labels[row, t]
                cluster[few_items[t]] = k
                room.size[k] += 1
            count_sources(few_items, 0, last - first, cluster, limits, holds, 1)
        draws[d] = cluster


class Bounds(NamedTuple):
    """Conditions of all records, and room to keep them: `holds` counts the records of a source by cluster.

    Records of a group are a list: `next_of` leads from one to the next, and `leads` says which is the first. `chain`
    has room for other such lists.
    """

    limits: Limits
    holds: Integers
    next_of: Integers
    leads: NDArray[np.bool_]
    chain: Integers


@kernel
def make_bounds(limits: Limits, known: Integers, n_clusters: int) -> Bounds:
    """The lists of groups of free records, and room for counts of so many clusters."""
    n = known.shape[0]
    holds = np.zeros((n_clusters, limits.n_sources), np.int64)
    next_of, leads, home = np.full(n, OPEN), np.ones(n, np.bool_), np.full(n, OPEN)
    for i in range(n - 1, -1, -1):
        if known[i] < 0 and limits.group[i] >= 0:
            follower = home[limits.group[i]]
            next_of[i] = follower
            if follower >= 0:
                leads[follower] = False
            home[limits.group[i]] = i
    return Bounds(limits, holds, next_of, leads, np.full(n, OPEN))


@kernel
def move(leader: int, next_of: Integers, k: int, cluster: Integers, bounds: Bounds, size: Integers) -> None:
    """Bring the records of a list, which are in one cluster or in none, into another one, or out of all."""
    source, holds = bounds.limits.source, bounds.holds
    i = leader
    while i >= 0:
        for at, by in ((cluster[i], -1), (k, 1)):
            if at >= 0:
                size[at] += by
                if source[i] >= 0:
                    holds[at, source[i]] += by
        cluster[i] = k
        i = next_of[i]


@kernel
def choose_within(
    leader: int,
    next_of: Integers,
    neighbours: Neighbours,
    score: Floats,
    weights: Weights,
    fewest: int,
    constant: float,
    cluster: Integers,
    bounds: Bounds,
    room: Room,
    chance: float,
) -> int:
    """The cluster that the records of a list join, among those of `fewest` or more that they may join, or -1."""
    size, met, total, touched = room.size, room.met, room.total, room.touched
    limits, holds = bounds.limits, bounds.holds
    n_touched, n_members = 0, 0
    i = leader
    while i >= 0:
        n_members += 1
        for e in range(neighbours.start[i], neighbours.start[i + 1]):
            k = cluster[neighbours.other[e]]
            if k < 0 or size[k] < fewest:
                continue
            if met[k] == 0:
                touched[n_touched] = k
                n_touched += 1
            met[k] += 1
            total[k] += score[neighbours.pair[e]] - weights.floor
        i = next_of[i]
    i = leader
    while i >= 0:
        for e in range(limits.start[i], limits.start[i + 1]):
            k = cluster[limits.other[e]]
            if k >= 0 and met[k] > 0:
                met[k] = -1
        if limits.source[i] >= 0:
            for a in range(n_touched):
                if holds[touched[a], limits.source[i]] > 0:
                    met[touched[a]] = -1
        i = next_of[i]
    n_allowed = 0
    for a in range(n_touched):
        k = touched[a]
        if met[k] > 0:
            touched[n_allowed] = k
            n_allowed += 1
        else:
            met[k] = 0
            total[k] = 0.0
    return choose(n_allowed, touched, total, met, size, n_members, constant, weights, chance)


@kernel
def place_leaders(
    neighbours: Neighbours,
    score: Floats,
    weights: Weights,
    stream: np.uint64,
    scan: int,
    names: Names,
    leaders: Integers,
    cluster: Integers,
    bounds: Bounds,
    room: Room,
    n_free: int,
) -> int:
    """Take out each group, or single record, that is placed, and place it; how many numbers of clusters are free."""
    size, free = room.size, room.free
    shuffle(leaders, 0, leaders.shape[0], names, stream, scan, room.keys)
    for leader in leaders:
        before = cluster[leader]
        if before >= 0:
            move(leader, bounds.next_of, OPEN, cluster, bounds, size)
            if size[before] == 0:
                free[n_free] = before
                n_free += 1
        k = choose_within(
            leader,
            bounds.next_of,
            neighbours,
            score,
            weights,
            1,
            weights.bias,
            cluster,
            bounds,
            room,
            uniform(names[leader], stream, scan),
        )
        if k < 0:
            n_free -= 1
            k = free[n_free]
        move(leader, bounds.next_of, k, cluster, bounds, size)
    return n_free


@kernel
def merge_leaders(
    neighbours: Neighbours,
    score: Floats,
    weights: Weights,
    stream: np.uint64,
    scan: int,
    names: Names,
    items: Integers,
    n_known: int,
    cluster: Integers,
    bounds: Bounds,
    room: Room,
    n_free: int,
) -> int:
    """Each new cluster of two records or more stays or joins another of two or more that it may join; free numbers."""
    size, free, begins, chain = room.size, room.free, room.begins, bounds.chain
    shuffle(items, 0, items.shape[0], names, stream, scan, room.keys)
    for i in items:
        begins[cluster[i]] = OPEN
    for i in items[::-1]:
        chain[i] = begins[cluster[i]]
        begins[cluster[i]] = i
    for leader in items:
        own = cluster[leader]
        if begins[own] != leader or own < n_known or size[own] < 2:
            continue
        move(leader, chain, OPEN, cluster, bounds, size)
        k = choose_within(
            leader,
            chain,
            neighbours,
            score,
            weights,
            2,
            weights.bias + weights.merge,
            cluster,
            bounds,
            room,
            uniform(names[leader], stream, scan),
        )
        move(leader, chain, own if k < 0 else k, cluster, bounds, size)
        if k >= 0:
            begins[k] = OPEN
            free[n_free] = own
            n_free += 1
    return n_free


# As `place_component`, and what conditions allow beside it: kernels take arrays and no objects, so the arguments of the
# two are much alike.
@kernel
def place_within(
    neighbours: Neighbours,
    score: Floats,
    weights: Weights,
    n_rescans: int,
    stream: np.uint64,
    names: Names,
    items: Integers,
    n_known: int,
    cluster: Integers,
    bounds: Bounds,
    room: Room,
) -> None:
    """Place the free records of one component, none of which is placed yet, so that all conditions are kept."""
    n_free = items.shape[0]
    room.free[:n_free] = n_known + items
    leaders = items[bounds.leads[items]]
    for scan in range(1 + n_rescans):
        n_free = place_leaders(neighbours, score, weights, stream, scan, names, leaders, cluster, bounds, room, n_free)
    if weights.merge > NO_MERGE and items.shape[0] >= FEWEST_TO_MERGE:
        scan = 1 + n_rescans
        n_free = merge_leaders(
            neighbours, score, weights, stream, scan, names, items, n_known, cluster, bounds, room, n_free
        )
        place_leaders(neighbours, score, weights, stream, scan + 1, names, leaders, cluster, bounds, room, n_free)
