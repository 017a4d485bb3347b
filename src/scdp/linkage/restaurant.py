"""Seating: scores of pairs enter, a clustering drawn from the learned restaurant leaves.

Items come in a random order and each sits down given those before it; then every item stands up and is seated again,
given all others, a fixed number of times. A draw is exact: the law of this process is the model.

All that is random about an item follows from its name and the number of the draw, so that items which no pair connects
can be seated together, apart or on different machines, with the same result.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp.blocking.keys import mixed
from scdp.linkage.likelihood import Floats, Integers, Weights
from scdp.linkage.pairs import Neighbours

NOT_SEATED = -1
Names = NDArray[np.uint64]
_STEPS_OF_TWO_TO_THE_53 = 2.0**-53
# Up to so many are lined up one by one.
FEW = 24


@kernel
def choose_seat(
    i: int,
    neighbours: Neighbours,
    score: Floats,
    weights: Weights,
    cluster: Integers,
    size: Integers,
    met: Integers,
    total: Floats,
    touched: Integers,
    uniform: float,
) -> int:
    """The cluster that item i joins, or -1 for a new one; `met` and `total` are zero before and after."""
    n_types = score.shape[1]
    n_touched = 0
    around = 0.0
    for e in range(neighbours.start[i], neighbours.start[i + 1]):
        k = cluster[neighbours.other[e]]
        if k < 0:
            continue
        if met[k] == 0:
            touched[n_touched] = k
            n_touched += 1
        met[k] += 1
        around += 1.0
        for d in range(n_types):
            total[k, d] += score[neighbours.pair[e], d] - weights.floor[d]
    if n_touched == 0:
        return NOT_SEATED
    crowd = np.log(1.0 + around)
    highest = -np.inf
    for d in range(n_types):
        highest = max(highest, weights.log_share[d] + weights.fresh[d] * crowd)
        for a in range(n_touched):
            k = touched[a]
            link = weights.floor[d] + total[k, d] / size[k]
            total[k, d] = (
                weights.log_share[d] + weights.bias[d] + weights.growth[d] * np.log(float(size[k])) + link
            )
            highest = max(highest, total[k, d])
    everything = 0.0
    for d in range(n_types):
        everything += np.exp(weights.log_share[d] + weights.fresh[d] * crowd - highest)
        for a in range(n_touched):
            total[touched[a], d] = np.exp(total[touched[a], d] - highest)
            everything += total[touched[a], d]
    left = uniform * everything
    choice = NOT_SEATED
    for a in range(n_touched):
        k = touched[a]
        for d in range(n_types):
            if choice == NOT_SEATED:
                left -= total[k, d]
                if left < 0.0:
                    choice = k
        met[k] = 0
        total[k, :] = 0.0
    return choice


@kernel
def parties(neighbours: Neighbours, known: Integers) -> tuple[Integers, Integers]:
    """Hidden items party by party, and where each begins: no chain of pairs or given clusters connects two parties."""
    n = known.shape[0]
    first_of = np.full(known.max() + 1, NOT_SEATED)
    next_of = np.full(n, NOT_SEATED)
    for i in range(n - 1, -1, -1):
        if known[i] >= 0:
            next_of[i] = first_of[known[i]]
            first_of[known[i]] = i
    there = np.zeros(n, np.bool_)
    items, waiting = np.empty(n, np.int64), np.empty(n, np.int64)
    bounds = np.zeros(n + 1, np.int64)
    n_items, n_parties = 0, 0
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
            j = first_of[known[i]] if known[i] >= 0 else NOT_SEATED
            while j >= 0:
                if not there[j]:
                    there[j] = True
                    waiting[n_waiting] = j
                    n_waiting += 1
                # Each cluster is gone through once.
                first_of[known[i]] = next_of[j]
                j = next_of[j]
        n_parties += 1
        bounds[n_parties] = n_items
    return items[:n_items], bounds[: n_parties + 1]


@kernel
def line_up(
    items: Integers, first: int, last: int, names: Names, stream: np.uint64, round_number: int, keys: Names
) -> None:
    """Bring the items at places `first` to `last` - 1 into the random order of one round."""
    for place in range(first, last):
        keys[place] = mixed(mixed(stream, names[items[place]]), np.uint64(2 * round_number))
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
    """A number in [0, 1), for the choice of one item in one round."""
    value = mixed(mixed(stream, name), np.uint64(2 * round_number + 1))
    return float(value >> np.uint64(11)) * _STEPS_OF_TWO_TO_THE_53


@kernel
def seat_all(
    neighbours: Neighbours,
    score: Floats,
    weights: Weights,
    known: Integers,
    n_again: int,
    stream: np.uint64,
    names: Names,
) -> Integers:
    """Clusters of all items; those with `known` >= 0 keep theirs and are there from the start."""
    n = known.shape[0]
    cluster = known.copy()
    n_known = known.max() + 1
    size = np.zeros(n + n_known + 1, np.int64)
    for i in range(n):
        if known[i] >= 0:
            size[known[i]] += 1
    met = np.zeros(size.shape[0], np.int64)
    total = np.zeros((size.shape[0], score.shape[1]))
    touched = np.empty(size.shape[0], np.int64)
    free = np.empty(n, np.int64)
    keys = np.empty(n, np.uint64)
    # Party by party, which changes nothing, so that all that an item needs was at hand a moment ago.
    items, bounds = parties(neighbours, known)
    for party in range(bounds.shape[0] - 1):
        first, last = bounds[party], bounds[party + 1]
        n_free = 0
        for place in range(first, last):
            free[n_free] = n_known + items[place]
            n_free += 1
        for again in range(1 + n_again):
            line_up(items, first, last, names, stream, again, keys)
            for place in range(first, last):
                i = items[place]
                if cluster[i] >= 0:
                    k = cluster[i]
                    size[k] -= 1
                    cluster[i] = NOT_SEATED
                    if size[k] == 0:
                        free[n_free] = k
                        n_free += 1
                chance = uniform(names[i], stream, again)
                k = choose_seat(i, neighbours, score, weights, cluster, size, met, total, touched, chance)
                if k < 0:
                    n_free -= 1
                    k = free[n_free]
                cluster[i] = k
                size[k] += 1
    return cluster


def stream_of(seed: int, draw: int) -> np.uint64:
    """The stream of one draw."""
    return np.uint64(np.random.SeedSequence([seed, draw]).generate_state(1, np.uint64)[0])
