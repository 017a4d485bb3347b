"""Draws of components of a few records: what `forward` gives, in room that stays in the processor's cache.

Most components of a large table have three to a dozen records. Records, clusters and pairs are numbered within the
component, and what follows from a record's name is made once a draw.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp._typing import Floats, Integers
from scdp.blocking.hashes import mixed
from scdp.compare.features import Neighbours
from scdp.linkage.law import FEWEST_TO_MERGE, NO_MERGE, OPEN, Weights

Names = NDArray[np.uint64]
# Components of more free records are drawn in the room of all.
MOST_SMALL = 24
_STEPS_OF_TWO_TO_THE_53 = 2.0**-53


class SmallRoom(NamedTuple):
    """Room for one component. By record: where its pairs start, its key, its cluster, an order and its keys, the next
    record of its cluster. By pair and direction: the other record, the score above the floor. By cluster: size, pairs
    met, total score, two lists, the place of its first record. By size: what a cluster of it adds to the weight.
    """

    start: Integers
    key: Names
    cluster: Integers
    order: Integers
    keys: Names
    next_of: Integers
    other: Integers
    score: Floats
    size: Integers
    met: Integers
    total: Floats
    touched: Integers
    free: Integers
    begins: Integers
    by_size: Floats
    local: Integers


@kernel
def make_small_room(n: int, weights: Weights) -> SmallRoom:
    """Room for any small component of n records."""
    by_size = np.zeros(MOST_SMALL + 1)
    for size in range(2, MOST_SMALL + 1):
        by_size[size] = weights.growth * np.log(float(size)) + weights.third
    return SmallRoom(
        np.zeros(MOST_SMALL + 1, np.int64),
        np.empty(MOST_SMALL, np.uint64),
        np.empty(MOST_SMALL, np.int64),
        np.empty(MOST_SMALL, np.int64),
        np.empty(MOST_SMALL, np.uint64),
        np.empty(MOST_SMALL, np.int64),
        np.empty(MOST_SMALL * MOST_SMALL, np.int64),
        np.empty(MOST_SMALL * MOST_SMALL),
        np.zeros(MOST_SMALL, np.int64),
        np.zeros(MOST_SMALL, np.int64),
        np.zeros(MOST_SMALL),
        np.empty(MOST_SMALL, np.int64),
        np.empty(MOST_SMALL, np.int64),
        np.empty(MOST_SMALL, np.int64),
        by_size,
        np.empty(n, np.int64),
    )


@kernel
def sort_small(key: Names, round_number: int, n: int, order: Integers, keys: Names) -> None:
    """The random order of one round."""
    even = np.uint64(2 * round_number)
    for i in range(n):
        own = mixed(key[i], even)
        place = i
        while place > 0 and keys[place - 1] > own:
            keys[place], order[place] = keys[place - 1], order[place - 1]
            place -= 1
        keys[place], order[place] = own, i


@kernel
def choose_small(
    n_touched: int,
    n_joining: int,
    constant: float,
    floor: float,
    by_size: Floats,
    chance: np.uint64,
    touched: Integers,
    total: Floats,
    met: Integers,
    size: Integers,
) -> int:
    """One of the clusters that so many records meet, or -1 for none; `met` and `total` are zero afterwards."""
    highest = 0.0
    for a in range(n_touched):
        k = touched[a]
        total[k] = constant + by_size[size[k]] + floor + total[k] / (size[k] * n_joining)
        highest = max(highest, total[k])
    # The largest is one: most of the time goes into exponentials.
    everything = 1.0 if highest == 0.0 else np.exp(-highest)
    for a in range(n_touched):
        k = touched[a]
        total[k] = 1.0 if total[k] == highest else np.exp(total[k] - highest)
        everything += total[k]
    left = float(chance >> np.uint64(11)) * _STEPS_OF_TWO_TO_THE_53 * everything
    choice = OPEN
    for a in range(n_touched):
        k = touched[a]
        if choice == OPEN:
            left -= total[k]
            if left < 0.0:
                choice = k
        met[k] = 0
        total[k] = 0.0
    return choice


@kernel
def place_small(
    weights: Weights,
    round_number: int,
    n: int,
    n_free: int,
    start: Integers,
    key: Names,
    cluster: Integers,
    order: Integers,
    keys: Names,
    other: Integers,
    score: Floats,
    size: Integers,
    met: Integers,
    total: Floats,
    touched: Integers,
    free: Integers,
    by_size: Floats,
) -> int:
    """Take out each record that is placed, and place it; how many numbers of clusters are free."""
    sort_small(key, round_number, n, order, keys)
    odd = np.uint64(2 * round_number + 1)
    for place in range(n):
        i = order[place]
        k = cluster[i]
        if k >= 0:
            size[k] -= 1
            cluster[i] = OPEN
            if size[k] == 0:
                free[n_free] = k
                n_free += 1
        n_touched = 0
        for e in range(start[i], start[i + 1]):
            k = cluster[other[e]]
            if k < 0:
                continue
            if met[k] == 0:
                touched[n_touched] = k
                n_touched += 1
            met[k] += 1
            total[k] += score[e]
        k = OPEN
        if n_touched:
            chance = mixed(key[i], odd)
            k = choose_small(n_touched, 1, weights.bias, weights.floor, by_size, chance, touched, total, met, size)
        if k < 0:
            n_free -= 1
            k = free[n_free]
        cluster[i] = k
        size[k] += 1
    return n_free


@kernel
def merge_small(
    weights: Weights,
    round_number: int,
    n: int,
    n_free: int,
    start: Integers,
    key: Names,
    cluster: Integers,
    order: Integers,
    keys: Names,
    next_of: Integers,
    other: Integers,
    score: Floats,
    size: Integers,
    met: Integers,
    total: Floats,
    touched: Integers,
    free: Integers,
    begins: Integers,
    by_size: Floats,
) -> int:
    """Each cluster of two records or more stays or joins another of two or more, as a whole; the free numbers."""
    sort_small(key, round_number, n, order, keys)
    odd = np.uint64(2 * round_number + 1)
    begins[:n] = OPEN
    for place in range(n - 1, -1, -1):
        k = cluster[order[place]]
        next_of[place] = begins[k]
        begins[k] = place
    for place in range(n):
        own = cluster[order[place]]
        if begins[own] != place or size[own] < 2:
            continue
        n_touched = 0
        at = place
        while at >= 0:
            i = order[at]
            for e in range(start[i], start[i + 1]):
                k = cluster[other[e]]
                if k == own or size[k] < 2:
                    continue
                if met[k] == 0:
                    touched[n_touched] = k
                    n_touched += 1
                met[k] += 1
                total[k] += score[e]
            at = next_of[at]
        if n_touched == 0:
            continue
        chance, constant = mixed(key[order[place]], odd), weights.bias + weights.merge
        k = choose_small(n_touched, size[own], constant, weights.floor, by_size, chance, touched, total, met, size)
        if k < 0:
            continue
        at = place
        while at >= 0:
            cluster[order[at]] = k
            at = next_of[at]
        size[k] += size[own]
        size[own] = 0
        begins[k] = OPEN
        free[n_free] = own
        n_free += 1
    return n_free


@kernel
def sample_small(
    neighbours: Neighbours,
    score_of_pair: Floats,
    weights: Weights,
    n_rescans: int,
    streams: Names,
    names: Names,
    items: Integers,
    room: SmallRoom,
    draws: NDArray[np.int32],
) -> None:
    """Draws of a component of at most `MOST_SMALL` records, none of them in or near a given cluster."""
    (
        start, key, cluster, order, keys, next_of, other, score, size, met, total, touched, free, begins, by_size, local
    ) = room  # fmt: skip
    n = len(items)
    for i in range(n):
        local[items[i]] = i
    n_ends = 0
    for i in range(n):
        for e in range(neighbours.start[items[i]], neighbours.start[items[i] + 1]):
            other[n_ends] = local[neighbours.other[e]]
            score[n_ends] = score_of_pair[neighbours.pair[e]] - weights.floor
            n_ends += 1
        start[i + 1] = n_ends
    merges = weights.merge > NO_MERGE and n >= FEWEST_TO_MERGE
    n_rounds = 1 + n_rescans + (2 if merges else 0)
    for draw in range(len(streams)):
        n_free = n
        for i in range(n):
            key[i] = mixed(streams[draw], names[items[i]])
            cluster[i], size[i], free[i] = OPEN, 0, i
        for number in range(n_rounds):
            if merges and number == n_rounds - 2:
                n_free = merge_small(
                    weights, number, n, n_free, start, key, cluster, order, keys, next_of, other, score, size, met,
                    total, touched, free, begins, by_size
                )  # fmt: skip
                continue
            n_free = place_small(
                weights, number, n, n_free, start, key, cluster, order, keys, other, score, size, met, total, touched,
                free, by_size
            )  # fmt: skip
        for i in range(n):
            draws[draw, items[i]] = items[cluster[i]]
