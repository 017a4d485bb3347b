"""Draws given conditions: component by component, a draw that breaks a condition is drawn anew.

In a component of up to 7 free records the draw is exact: the process of the law runs again, up to 16 times, until the
conditions hold, and if they still do not the partition is drawn from the enumerated law of those that keep them. Both
are the law of the process given the conditions.

In a larger component, if some tries of the process do not keep the conditions, records are placed within them
(within.py).

As everywhere, all chance follows from the names of records, the draw, and the number of the try.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp._typing import Floats, Integers
from scdp.compare.features import Neighbours
from scdp.conditions import Limits
from scdp.hashing import mix_keys
from scdp.linkage.law import OPEN, Weights
from scdp.linkage.sampling import Names, Room, connect, make_room, place_component, uniform
from scdp.linkage.sampling.enumeration import MOST_RECORDS, enumerate_law, look_at_few
from scdp.linkage.sampling.within import make_bounds, place_within

# Tries of the whole process. In components of more records all conditions hardly ever hold at once, and there is only
# the first draw; so it is where records are only the same, which placing them within the conditions does as well.
TRIES = 16
MOST_TRIED = 30
NOT_YET, NEVER = -1, -2


@kernel
def keeps(
    items: Integers, first: int, last: int, cluster: Integers, limits: Limits, holds: Integers, home: Integers
) -> bool:
    """Whether the records of a component keep the conditions; `holds` counts the records of a source by cluster."""
    kept = True
    for place in range(first, last):
        i = items[place]
        group, source = limits.group[i], limits.source[i]
        if group >= 0:
            if home[group] < 0:
                home[group] = cluster[i]
            kept = kept and home[group] == cluster[i]
        if source >= 0 and holds[cluster[i], source] > 1:
            kept = False
        for e in range(limits.start[i], limits.start[i + 1]):
            kept = kept and cluster[limits.other[e]] != cluster[i]
    for place in range(first, last):
        group = limits.group[items[place]]
        if group >= 0:
            home[group] = OPEN
    return kept


@kernel
def count_sources(
    items: Integers, first: int, last: int, cluster: Integers, limits: Limits, holds: Integers, by: int
) -> None:
    """Add the placed records of a component to the counts of sources by cluster, or take them away."""
    for place in range(first, last):
        i = items[place]
        if limits.source[i] >= 0 and cluster[i] >= 0:
            holds[cluster[i], limits.source[i]] += by


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
def conditional_law(
    few_items: Integers,
    neighbours: Neighbours,
    score: Floats,
    weights: Weights,
    n_rescans: int,
    known: Integers,
    given_sizes: Integers,
    limits: Limits,
    holds: Integers,
    home: Integers,
    cluster: Integers,
) -> tuple[Integers, Floats]:
    """Clusters (partitions, records) that keep the conditions, and their probabilities summed up; none at a loss.

    The records are not placed, before as after.
    """
    n = few_items.shape[0]
    nothing = np.empty((0, n), np.int64), np.empty(0)
    few, given = look_at_few(few_items, neighbours, score, weights, known, given_sizes)
    if few.pair_met.shape[0] < n:
        return nothing
    states, law = enumerate_law(few, weights, n_rescans)
    n_given, n_known = given.shape[0], given_sizes.shape[0]
    labels = np.empty((states.shape[0], n), np.int64)
    probability = np.empty(states.shape[0])
    count = 0
    for s in range(states.shape[0]):
        for t in range(n):
            k = states[s, t]
            if k < n_given:
                labels[count, t] = given[k]
            else:
                u = 0
                while states[s, u] != k:
                    u += 1
                labels[count, t] = n_known + few_items[u]
        for t in range(n):
            cluster[few_items[t]] = labels[count, t]
        count_sources(few_items, 0, n, cluster, limits, holds, 1)
        if keeps(few_items, 0, n, cluster, limits, holds, home):
            probability[count] = law[s]
            count += 1
        count_sources(few_items, 0, n, cluster, limits, holds, -1)
    for t in range(n):
        cluster[few_items[t]] = OPEN
    total = np.cumsum(probability[:count])
    if count == 0 or not total[-1] > 0.0:
        return nothing
    return labels[:count].copy(), total / total[-1]


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
