"""Draws of the law by forward sampling: scores of pairs enter, partitions leave.

All that is random about a record follows from its name and the number of the draw, so that records which no pair
connects can be sampled together, apart or on different machines, with the same result.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp._typing import Floats, Integers
from scdp.compare.features import Neighbours
from scdp.hashing import mix_keys
from scdp.linkage.law import FEWEST_TO_MERGE, NO_MERGE, OPEN, Weights, choose, sample_cluster
from scdp.linkage.sampling.component import FEW, make_local_room, sample_component

Names = NDArray[np.uint64]
_STEPS_OF_TWO_TO_THE_53 = 2.0**-53


@kernel
def connect(neighbours: Neighbours, known: Integers) -> tuple[Integers, Integers]:
    """Free records component by component, and where each begins: no pair or given cluster connects two components."""
    n = known.shape[0]
    first_of = np.full(known.max() + 1, OPEN)
    next_of = np.full(n, OPEN)
    for i in range(n - 1, -1, -1):
        if known[i] >= 0:
            next_of[i] = first_of[known[i]]
            first_of[known[i]] = i
    there = np.zeros(n, np.bool_)
    items, waiting = np.empty(n, np.int64), np.empty(n, np.int64)
    bounds = np.zeros(n + 1, np.int64)
    n_items, n_components = 0, 0
    for start in range(n):
        if there[start]:
            continue
        there[start] = True
        waiting[0] = start
        n_waiting = 1
        while n_waiting:
            n_waiting -= 1
            i = waiting[n_waiting]
            if known[i] < 0:
                items[n_items] = i
                n_items += 1
            for e in range(neighbours.start[i], neighbours.start[i + 1]):
                j = neighbours.other[e]
                if not there[j]:
                    there[j] = True
                    waiting[n_waiting] = j
                    n_waiting += 1
            j = first_of[known[i]] if known[i] >= 0 else OPEN
            while j >= 0:
                if not there[j]:
                    there[j] = True
                    waiting[n_waiting] = j
                    n_waiting += 1
                # Each cluster is gone through once.
                first_of[known[i]] = next_of[j]
                j = next_of[j]
        n_components += 1
        bounds[n_components] = n_items
    return items[:n_items], bounds[: n_components + 1]


@kernel
def shuffle(
    items: Integers, first: int, last: int, names: Names, stream: np.uint64, round_number: int, keys: Names
) -> None:
    """Bring the items at places `first` to `last` - 1 into the random order of one round."""
    for place in range(first, last):
        keys[place] = mix_keys(mix_keys(stream, names[items[place]]), np.uint64(2 * round_number))
    if last - first > FEW:
        items[first:last] = items[first:last][np.argsort(keys[first:last])]
        return
    for place in range(first + 1, last):
        item, key = items[place], keys[place]
        free = place
        while free > first and keys[free - 1] > key:
            items[free], keys[free] = items[free - 1], keys[free - 1]
            free -= 1
        items[free], keys[free] = item, key


@kernel
def uniform(name: np.uint64, stream: np.uint64, round_number: int) -> float:
    """A number in [0, 1), for the choice of one record in one round."""
    value = mix_keys(mix_keys(stream, name), np.uint64(2 * round_number + 1))
    return float(value >> np.uint64(11)) * _STEPS_OF_TWO_TO_THE_53


class Room(NamedTuple):
    """Room to work in: by cluster its size, pairs met, total score and a list; by record a list and random keys.

    Only `size` means anything between two records: `met` and `total` are zero. `begins` is by cluster, too.
    """

    size: Integers
    met: Integers
    total: Floats
    touched: Integers
    free: Integers
    keys: Names
    begins: Integers


@kernel
def make_room(n: int, n_known: int) -> Room:
    """Room for so many records and given clusters."""
    n_clusters = n + n_known + 1
    return Room(
        np.zeros(n_clusters, np.int64),
        np.zeros(n_clusters, np.int64),
        np.zeros(n_clusters),
        np.empty(n_clusters, np.int64),
        np.empty(n, np.int64),
        np.empty(n, np.uint64),
        np.empty(n_clusters, np.int64),
    )


@kernel
def place_each(
    neighbours: Neighbours,
    score: Floats,
    weights: Weights,
    stream: np.uint64,
    round_number: int,
    names: Names,
    items: Integers,
    first: int,
    last: int,
    cluster: Integers,
    room: Room,
    n_free: int,
) -> int:
    """Take out each free record of a component that is placed, and place it; how many numbers of clusters are free."""
    size, met, total, touched, free, keys, _ = room
    shuffle(items, first, last, names, stream, round_number, keys)
    for place in range(first, last):
        i = items[place]
        if cluster[i] >= 0:
            k = cluster[i]
            size[k] -= 1
            cluster[i] = OPEN
            if size[k] == 0:
                free[n_free] = k
                n_free += 1
        chance = uniform(names[i], stream, round_number)
        k = sample_cluster(i, neighbours, score, weights, cluster, size, met, total, touched, chance)
        if k < 0:
            n_free -= 1
            k = free[n_free]
        cluster[i] = k
        size[k] += 1
    return n_free


@kernel
def merge_clusters(
    neighbours: Neighbours,
    score: Floats,
    weights: Weights,
    stream: np.uint64,
    round_number: int,
    names: Names,
    items: Integers,
    first: int,
    last: int,
    n_known: int,
    cluster: Integers,
    room: Room,
    n_free: int,
) -> int:
    """Each new cluster of two records or more stays or joins another of two or more, as a whole; the free numbers.

    Clusters come in the order of their first records, and one that has come, or was joined, does not come again.
    """
    size, met, total, touched, free, keys, begins = room
    shuffle(items, first, last, names, stream, round_number, keys)
    # Records of one cluster are a list that begins at the first of them.
    next_of = np.empty(last - first, np.int64)
    for place in range(first, last):
        begins[cluster[items[place]]] = OPEN
    for place in range(last - 1, first - 1, -1):
        k = cluster[items[place]]
        next_of[place - first] = begins[k]
        begins[k] = place
    for place in range(first, last):
        own = cluster[items[place]]
        if begins[own] != place or own < n_known or size[own] < 2:
            continue
        n_touched = 0
        at = place
        while at >= 0:
            i = items[at]
            for e in range(neighbours.start[i], neighbours.start[i + 1]):
                k = cluster[neighbours.other[e]]
                if k == own or size[k] < 2:
                    continue
                if met[k] == 0:
                    touched[n_touched] = k
                    n_touched += 1
                met[k] += 1
                total[k] += score[neighbours.pair[e]] - weights.floor
            at = next_of[at - first]
        if n_touched == 0:
            continue
        chance = uniform(names[items[place]], stream, round_number)
        constant = weights.bias + weights.merge
        k = choose(n_touched, touched, total, met, size, size[own], constant, weights, chance)
        if k < 0:
            continue
        at = place
        while at >= 0:
            cluster[items[at]] = k
            at = next_of[at - first]
        size[k] += size[own]
        size[own] = 0
        begins[k] = OPEN
        free[n_free] = own
        n_free += 1
    return n_free


@kernel
def place_component(
    neighbours: Neighbours,
    score: Floats,
    weights: Weights,
    n_rescans: int,
    stream: np.uint64,
    names: Names,
    items: Integers,
    first: int,
    last: int,
    n_known: int,
    cluster: Integers,
    room: Room,
) -> None:
    """Place the free records of one component, those at places `first` to `last` - 1, none of which is placed yet.

    New clusters have the numbers of these records, after those of given clusters.
    """
    n_free = 0
    for place in range(first, last):
        room.free[n_free] = n_known + items[place]
        n_free += 1
    for scan in range(1 + n_rescans):
        n_free = place_each(neighbours, score, weights, stream, scan, names, items, first, last, cluster, room, n_free)
    if weights.merge > NO_MERGE and last - first >= FEWEST_TO_MERGE:
        scan = 1 + n_rescans
        n_free = merge_clusters(
            neighbours, score, weights, stream, scan, names, items, first, last, n_known, cluster, room, n_free
        )
        place_each(neighbours, score, weights, stream, scan + 1, names, items, first, last, cluster, room, n_free)


@kernel
def sample_partition(
    neighbours: Neighbours,
    score: Floats,
    weights: Weights,
    known: Integers,
    n_rescans: int,
    stream: np.uint64,
    names: Names,
) -> Integers:
    """Clusters of all records; those with `known` >= 0 keep theirs and are there from the start."""
    n = known.shape[0]
    cluster = known.copy()
    n_known = known.max() + 1
    room = make_room(n, n_known)
    for i in range(n):
        if known[i] >= 0:
            room.size[known[i]] += 1
    # Component by component, which changes nothing, so that all that a record needs was at hand a moment ago.
    items, bounds = connect(neighbours, known)
    for component in range(bounds.shape[0] - 1):
        first, last = bounds[component], bounds[component + 1]
        place_component(
            neighbours, score, weights, n_rescans, stream, names, items, first, last, n_known, cluster, room
        )
    return cluster


@kernel
def are_a_pair(neighbours: Neighbours, one: int, other: int) -> bool:
    """Whether two records meet each other and nobody else."""
    first, second = neighbours.start[one], neighbours.start[other]
    alone = neighbours.start[one + 1] - first == 1 and neighbours.start[other + 1] - second == 1
    return alone and neighbours.other[first] == other


@kernel
def is_near_known(neighbours: Neighbours, known: Integers, items: Integers) -> bool:
    """Whether one of the free records of a component meets a record of a given cluster."""
    for i in items:
        for e in range(neighbours.start[i], neighbours.start[i + 1]):
            if known[neighbours.other[e]] >= 0:
                return True
    return False


@kernel
def sample_pair(
    one: int,
    other: int,
    log_weight: float,
    n_rescans: int,
    streams: Names,
    names: Names,
    n_known: int,
    draws: NDArray[np.int32],
) -> None:
    """Draws of two records that meet nobody else: they are together if the one that is placed last joins the other.

    What came before does not matter, since the other is then alone in its cluster.
    """
    # As odds of joining against opening, of which the larger is one.
    join, new = np.exp(min(log_weight, 0.0)), np.exp(-max(log_weight, 0.0))
    for draw in range(len(streams)):
        key = mix_keys(mix_keys(streams[draw], names[one]), np.uint64(2 * n_rescans))
        other_key = mix_keys(mix_keys(streams[draw], names[other]), np.uint64(2 * n_rescans))
        last = other if key < other_key else one
        chance = uniform(names[last], streams[draw], n_rescans)
        draws[draw, one] = n_known + one
        draws[draw, other] = n_known + (one if chance * (join + new) < join else other)


@kernel
def sample_partitions(
    neighbours: Neighbours,
    score: Floats,
    weights: Weights,
    known: Integers,
    n_rescans: int,
    streams: Names,
    names: Names,
    draws: NDArray[np.int32],
) -> None:
    """As `sample_partition` for each of the streams, into `draws` (streams, records), component by component."""
    cluster = known.copy()
    n_known = known.max() + 1
    room = make_room(known.shape[0], n_known)
    for i in range(known.shape[0]):
        if known[i] >= 0:
            room.size[known[i]] += 1
            draws[:, i] = known[i]
    items, bounds = connect(neighbours, known)
    n_most = 2
    for component in range(bounds.shape[0] - 1):
        n_most = max(n_most, bounds[component + 1] - bounds[component])
    local = make_local_room(known.shape[0], n_most, len(neighbours.other), weights)
    for component in range(bounds.shape[0] - 1):
        first, last = bounds[component], bounds[component + 1]
        if last - first == 2 and are_a_pair(neighbours, items[first], items[first + 1]):
            one, other = items[first], items[first + 1]
            log_weight = weights.bias + score[neighbours.pair[neighbours.start[one]]]
            sample_pair(one, other, log_weight, n_rescans, streams, names, n_known, draws)
            continue
        if n_known == 0 or not is_near_known(neighbours, known, items[first:last]):
            sample_component(neighbours, score, weights, n_rescans, streams, names, items[first:last], local, draws)
            for place in range(first, last):
                draws[:, items[place]] += np.int32(n_known)
            continue
        for draw in range(len(streams)):
            place_component(
                neighbours, score, weights, n_rescans, streams[draw], names, items, first, last, n_known, cluster, room
            )
            for place in range(first, last):
                i = items[place]
                draws[draw, i] = cluster[i]
                room.size[cluster[i]] -= 1
                cluster[i] = OPEN


def stream_of(seed: int, draw: int) -> np.uint64:
    """The stream of one draw."""
    return np.uint64(np.random.SeedSequence([seed, draw]).generate_state(1, np.uint64)[0])
