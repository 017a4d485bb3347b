"""Draws of one component after another: what `forward` gives, in room that the processor's cache holds.

Records, clusters and pairs are numbered within the component, in the order in which pairs lead through it, and what
follows from a record's name is made once a draw. Most records of a large table hardly ever join anybody: where chance
is against all that a record could meet, nobody is looked at (`bound_chances`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp._typing import Booleans, Floats, Integers
from scdp.compare.features import Neighbours
from scdp.hashing import mix_keys
from scdp.linkage.law import FEWEST_TO_MERGE, NO_MERGE, OPEN, Weights

Names = NDArray[np.uint64]
Numbers = NDArray[np.int32]
# Up to so many are sorted one by one; it is also looked whether a round leaves all of so few alone.
FEW = 24
_STEPS_OF_TWO_TO_THE_53 = 2.0**-53
# Bounds are rounded: a record is looked at unless chance is above its bound by more than that. Larger logs are as good.
SLACK, LARGEST_LOG = 1.0 + 1e-9, 50.0


class LocalRoom(NamedTuple):
    """Room for one component. By record: where its pairs start, its key, the chance below which it may join others, its
    cluster, an order with its keys and those before sorting, the next record of its cluster. By pair and direction: the
    other record, the score above the floor. By cluster: size, whether it was met, total score, a list, the place of its
    first record. By size: what a cluster of it adds to the weight. `ends` are of buckets, `local` is by item.
    """

    start: Numbers
    key: Names
    bound: Floats
    cluster: Numbers
    order: Numbers
    keys: Names
    unsorted: Names
    next_of: Numbers
    other: Numbers
    score: Floats
    size: Numbers
    met: Booleans
    total: Floats
    touched: Numbers
    begins: Numbers
    by_size: Floats
    ends: Numbers
    local: Numbers


@kernel
def make_local_room(n_items: int, n_most: int, n_ends: int, weights: Weights) -> LocalRoom:
    """Room for components of at most `n_most` of the items, and of `n_ends` ends of pairs."""
    by_size = np.zeros(n_most + 1)
    for size in range(2, n_most + 1):
        by_size[size] = weights.growth * np.log(float(size)) + weights.third
    return LocalRoom(
        np.zeros(n_most + 1, np.int32),
        np.empty(n_most, np.uint64),
        np.empty(n_most),
        np.empty(n_most, np.int32),
        np.empty(n_most, np.int32),
        np.empty(n_most, np.uint64),
        np.empty(n_most, np.uint64),
        np.empty(n_most, np.int32),
        np.empty(n_ends, np.int32),
        np.empty(n_ends),
        np.zeros(n_most, np.int32),
        np.zeros(n_most, np.bool_),
        np.zeros(n_most),
        np.empty(n_most, np.int32),
        np.empty(n_most, np.int32),
        by_size,
        np.empty(n_most + 2, np.int32),
        np.empty(n_items, np.int32),
    )


@kernel
def bound_chances(weights: Weights, n: int, start: Numbers, score: Floats, by_size: Floats, bound: Floats) -> None:
    """By record, the chance above which it joins nobody, wherever the others are.

    A cluster of m records, l of them met, has at most the weight that its highest score s above the floor would give it
    on min(l, m) records: exp(constant + by_size(m) + s min(l, m) / m). Over m that is largest where m is 1, 2, l or as
    large as can be. All clusters together weigh no more than all records that are met would by themselves.
    """
    largest = n - 1
    for i in range(n):
        n_met = start[i + 1] - start[i]
        middle = min(max(n_met, 2), largest)
        two = min(2, largest)
        constant = weights.bias + weights.floor
        weight = 0.0
        for e in range(start[i], start[i + 1]):
            above = max(score[e], 0.0)
            most = max(above, by_size[two] + above * min(n_met, two) / two)
            most = max(most, by_size[middle] + above * min(n_met, middle) / middle)
            most = max(most, by_size[largest] + above * n_met / largest)
            weight += np.exp(min(constant + most, LARGEST_LOG))
        bound[i] = SLACK * weight / (1.0 + weight)


@kernel
def chance_of(key: np.uint64, round_number: int) -> float:
    """A number in [0, 1), for the choice of one record in one round."""
    return float(mix_keys(key, np.uint64(2 * round_number + 1)) >> np.uint64(11)) * _STEPS_OF_TWO_TO_THE_53


@kernel
def sort_local(
    key: Names, round_number: int, n: int, order: Numbers, keys: Names, unsorted: Names, ends: Numbers
) -> None:
    """The random order of one round."""
    even = np.uint64(2 * round_number)
    if n <= FEW:
        for i in range(n):
            own = mix_keys(key[i], even)
            place = i
            while place > 0 and keys[place - 1] > own:
                keys[place], order[place] = keys[place - 1], order[place - 1]
                place -= 1
            keys[place], order[place] = own, i
        return
    # Keys are hashes, so that buckets by their high bits have a few each.
    n_bits = 1
    while (2 << n_bits) <= n:
        n_bits += 1
    shift = np.uint64(64 - n_bits)
    ends[: (1 << n_bits) + 1] = 0
    for i in range(n):
        unsorted[i] = mix_keys(key[i], even)
        ends[(unsorted[i] >> shift) + np.uint64(1)] += 1
    for bucket in range(1 << n_bits):
        ends[bucket + 1] += ends[bucket]
    for i in range(n):
        bucket = (unsorted[i] >> shift) + np.uint64(1)
        ends[bucket] -= 1
        keys[ends[bucket]], order[ends[bucket]] = unsorted[i], i
    for place in range(1, n):
        own, i = keys[place], order[place]
        while place > 0 and keys[place - 1] > own:
            keys[place], order[place] = keys[place - 1], order[place - 1]
            place -= 1
        keys[place], order[place] = own, i


# As `choose`, which conditions use. Here sizes are few and their weights are known beforehand, and a pass over the
# clusters that spares exponentials is most of the time of a draw: so it is written twice.
@kernel
def choose_local(
    n_touched: int,
    n_joining: int,
    constant: float,
    chance: float,
    by_size: Floats,
    size: Numbers,
    met: Booleans,
    total: Floats,
    touched: Numbers,
) -> int:
    """One of the clusters that so many records meet, or -1 for none; `met` and `total` are zero afterwards."""
    highest = 0.0
    for a in range(n_touched):
        k = touched[a]
        total[k] = constant + by_size[size[k]] + total[k] / (size[k] * n_joining)
        highest = max(highest, total[k])
    # The largest is one: most of the time goes into exponentials.
    everything = 1.0 if highest == 0.0 else np.exp(-highest)
    for a in range(n_touched):
        k = touched[a]
        total[k] = 1.0 if total[k] == highest else np.exp(total[k] - highest)
        everything += total[k]
    left = chance * everything
    choice = OPEN
    for a in range(n_touched):
        k = touched[a]
        if choice == OPEN:
            left -= total[k]
            if left < 0.0:
                choice = k
        met[k] = False
        total[k] = 0.0
    return choice


@kernel
def place_local(
    weights: Weights,
    round_number: int,
    n: int,
    start: Numbers,
    key: Names,
    bound: Floats,
    cluster: Numbers,
    order: Numbers,
    other: Numbers,
    score: Floats,
    size: Numbers,
    met: Booleans,
    total: Floats,
    touched: Numbers,
    by_size: Floats,
) -> int:
    """Take out each record that is placed, and place it, in order; how many clusters have two records or more then.

    A record that opens a cluster gives it its own number, or where that is taken the next free one.
    """
    constant = weights.bias + weights.floor
    for place in range(n):
        i = order[place]
        own = cluster[i]
        chance = chance_of(key[i], round_number)
        joins = chance <= bound[i]
        if own >= 0:
            if not joins and size[own] == 1:
                continue
            size[own] -= 1
            cluster[i] = OPEN
        choice = OPEN
        if joins:
            n_touched = 0
            for e in range(start[i], start[i + 1]):
                k = cluster[other[e]]
                if k < 0:
                    continue
                if not met[k]:
                    met[k] = True
                    touched[n_touched] = k
                    n_touched += 1
                total[k] += score[e]
            if n_touched:
                choice = choose_local(n_touched, 1, constant, chance, by_size, size, met, total, touched)
        if choice < 0:
            choice = i
            while size[choice] > 0:
                choice = choice + 1 if choice + 1 < n else 0
        cluster[i] = choice
        size[choice] += 1
    n_repeated = 0
    for k in range(n):
        n_repeated += size[k] > 1
    return n_repeated


@kernel
def merge_local(
    weights: Weights,
    round_number: int,
    n: int,
    start: Numbers,
    key: Names,
    cluster: Numbers,
    order: Numbers,
    next_of: Numbers,
    other: Numbers,
    score: Floats,
    size: Numbers,
    met: Booleans,
    total: Floats,
    touched: Numbers,
    begins: Numbers,
    by_size: Floats,
) -> None:
    """Each cluster of two records or more stays or joins another of two or more, as a whole."""
    constant = weights.bias + weights.merge + weights.floor
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
                if not met[k]:
                    met[k] = True
                    touched[n_touched] = k
                    n_touched += 1
                total[k] += score[e]
            at = next_of[at]
        if n_touched == 0:
            continue
        chance = chance_of(key[order[place]], round_number)
        choice = choose_local(n_touched, size[own], constant, chance, by_size, size, met, total, touched)
        if choice < 0:
            continue
        at = place
        while at >= 0:
            cluster[order[at]] = choice
            at = next_of[at]
        size[choice] += size[own]
        size[own] = 0
        begins[choice] = OPEN


@kernel
def find_alone(n: int, n_rounds: int, merges: bool, key: Names, bound: Floats) -> int:
    """The last round in which chance leaves each of a few records alone, -1 where there is none.

    What came before it is gone.
    """
    for number in range(n_rounds - 1, -1, -1):
        alone = not (merges and number == n_rounds - 2)
        i = 0
        while alone and i < n:
            alone = chance_of(key[i], number) > bound[i]
            i += 1
        if alone:
            return number
    return -1


@kernel
def sample_component(
    neighbours: Neighbours,
    score_of_pair: Floats,
    weights: Weights,
    n_rescans: int,
    streams: Names,
    names: Names,
    items: Integers,
    room: LocalRoom,
    draws: NDArray[np.int32],
) -> None:
    """Draws of a component, none of whose records is in or near a given cluster."""
    # Taken apart once: to hand the room on takes longer than to place a record.
    (
        start, key, bound, cluster, order, keys, unsorted, next_of, other, score, size, met, total, touched, begins,
        by_size, ends, local
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
    bound_chances(weights, n, start, score, by_size, bound)
    merges = weights.merge > NO_MERGE and n >= FEWEST_TO_MERGE
    n_rounds = 1 + n_rescans + (2 if merges else 0)
    for draw in range(len(streams)):
        for i in range(n):
            key[i] = mix_keys(streams[draw], names[items[i]])
        alone = find_alone(n, n_rounds, merges, key, bound) if n <= FEW else -1
        for i in range(n):
            cluster[i], size[i] = (OPEN, 0) if alone < 0 else (i, 1)
        n_repeated = 0
        for number in range(alone + 1, n_rounds):
            merging = merges and number == n_rounds - 2
            if merging and n_repeated < 2:
                continue
            sort_local(key, number, n, order, keys, unsorted, ends)
            if merging:
                merge_local(
                    weights, number, n, start, key, cluster, order, next_of, other, score, size, met, total, touched,
                    begins, by_size
                )  # fmt: skip
            else:
                n_repeated = place_local(
                    weights, number, n, start, key, bound, cluster, order, other, score, size, met, total, touched,
                    by_size
                )  # fmt: skip
        for i in range(n):
            draws[draw, items[i]] = items[cluster[i]]
