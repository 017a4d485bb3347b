"""Records of a large component placed within the conditions: the process of the law without choices that break one.

A group of records that are the same comes as one record, whose score with a cluster is the mean over its members, and
clusters that it must not join have no weight. This keeps every condition, and is not the law of the process given the
conditions: how far it is from that is measured by `benchmarks/known_law.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp._typing import Floats, Integers
from scdp.compare.features import Neighbours
from scdp.conditions import Limits
from scdp.linkage.law import FEWEST_TO_MERGE, NO_MERGE, OPEN, Weights, choose
from scdp.linkage.sampling import Names, Room, shuffle, uniform


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
