"""The law of a few records by enumeration: the probability of every partition that the process of the law can end in.

Records come in a random order, so each of those that have not come yet is the next with the same probability. The
forward pass is a sum over (records placed, their partition), a rescan one over (records placed again, the partition).
So is the pass in which whole clusters join others: a cluster has come if one of its records has.

A state gives each record -1 (not placed), the number of a given cluster, or that of a new one, new ones in the order
of their first records.

Of these partitions those that keep conditions are the conditional law.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp._typing import Floats, Integers
from scdp.compare.features import Neighbours
from scdp.conditions import Limits
from scdp.linkage.law import FEWEST_TO_MERGE, NO_MERGE, OPEN, Weights

States = NDArray[np.int8]
# Of more records and given clusters there are too many states.
MOST_RECORDS = 7
MOST_GIVEN = 4
MOST_STATES = 30_000


class Few(NamedTuple):
    """A few records and the given clusters that they meet: scores above the floor, and whether there is a pair.

    `pair_score` and `pair_met` are (records, records); `given_score` and `given_met` (records, given clusters) count
    pairs with members.
    """

    pair_score: Floats
    pair_met: Integers
    given_score: Floats
    given_met: Integers
    given_size: Integers


@kernel
def canonical_code(state: States, n_given: int) -> int:
    """Number the new clusters of a state by their first records, in place; and a number that only this state has."""
    n = state.shape[0]
    renamed = np.full(n + n_given, -1, np.int8)
    n_new = 0
    code = 0
    for t in range(n):
        label = state[t]
        if label >= n_given:
            if renamed[label] < 0:
                renamed[label] = n_given + n_new
                n_new += 1
            state[t] = renamed[label]
        code = code * (n_given + n + 1) + state[t] + 1
    return code


@kernel
def list_states(n: int, n_given: int) -> States:
    """All states of n records, placed or not; none if there are too many."""
    states = np.full((1, n), -1, np.int8)
    for t in range(n):
        longer = np.full((states.shape[0] * (n_given + t + 2), n), -1, np.int8)
        count = 0
        for s in range(states.shape[0]):
            highest = n_given - 1
            for before in range(t):
                highest = max(highest, states[s, before])
            for label in range(-1, highest + 2):
                longer[count] = states[s]
                longer[count, t] = label
                count += 1
        if count > MOST_STATES:
            return np.empty((0, n), np.int8)
        states = longer[:count].copy()
    return states


@kernel
def choice_probabilities(
    few: Few, weights: Weights, state: States, joins: NDArray[np.bool_], probability: Floats
) -> None:
    """The probability of each cluster for the records that join one; the last entry is that of none of them.

    Of one record, which may join any cluster; of a whole one of two or more, which may join such a one.
    """
    n, n_given = few.given_met.shape
    size = np.zeros(n_given + n, np.int64)
    met = np.zeros(n_given + n, np.int64)
    total = np.zeros(n_given + n)
    size[:n_given] = few.given_size
    n_joining = joins.sum()
    for j in range(n):
        if state[j] >= 0 and not joins[j]:
            size[state[j]] += 1
    for i in range(n):
        if not joins[i]:
            continue
        met[:n_given] += few.given_met[i]
        total[:n_given] += few.given_score[i]
        for j in range(n):
            if state[j] >= 0 and not joins[j]:
                met[state[j]] += few.pair_met[i, j]
                total[state[j]] += few.pair_score[i, j]
    constant = weights.bias + (weights.merge if n_joining > 1 else 0.0)
    highest = 0.0
    for k in range(n_given + n):
        if n_joining > 1 and size[k] < 2:
            met[k] = 0
        if met[k] > 0:
            mean = weights.floor + total[k] / (size[k] * n_joining)
            total[k] = constant + weights.growth * np.log(float(size[k])) + mean
            if size[k] > 1:
                total[k] += weights.third
            highest = max(highest, total[k])
    everything = np.exp(-highest)
    probability[:] = 0.0
    for k in range(n_given + n):
        if met[k] > 0:
            probability[k] = np.exp(total[k] - highest)
            everything += probability[k]
    probability[n_given + n] = np.exp(-highest)
    probability /= everything


@kernel
def open_label(state: States, n_given: int) -> int:
    """A number for a new cluster that no record of the state has."""
    highest = n_given - 1
    for t in range(state.shape[0]):
        highest = max(highest, state[t])
    return highest + 1


@kernel
def enumerate_law(few: Few, weights: Weights, n_rescans: int) -> tuple[States, Floats]:
    """All partitions and their probabilities; none where there are too many states."""
    n, n_given = few.given_met.shape
    states = list_states(n, n_given)
    n_states = states.shape[0]
    if n_states == 0:
        return states, np.empty(0)
    n_choices = n_given + n + 1
    codes = np.empty(n_states, np.int64)
    n_placed = np.zeros(n_states, np.int64)
    for s in range(n_states):
        codes[s] = canonical_code(states[s], n_given)
        for t in range(n):
            n_placed[s] += states[s, t] >= 0
    order = np.argsort(codes)
    states, codes, n_placed = states[order], codes[order], n_placed[order]
    probability = np.empty(n_choices)
    law = np.zeros(n_states)
    law[0] = 1.0
    after, joins = np.empty(n, np.int8), np.zeros(n, np.bool_)
    for placed in range(n):
        for s in range(n_states):
            if n_placed[s] != placed or law[s] == 0.0:
                continue
            for i in range(n):
                if states[s, i] >= 0:
                    continue
                joins[:] = False
                joins[i] = True
                choice_probabilities(few, weights, states[s], joins, probability)
                for k in range(n_choices):
                    if probability[k] == 0.0:
                        continue
                    after[:] = states[s]
                    after[i] = open_label(states[s], n_given) if k == n_choices - 1 else k
                    place = np.searchsorted(codes, canonical_code(after, n_given))
                    law[place] += law[s] * probability[k] / (n - placed)
    whole = np.flatnonzero(n_placed == n)
    states, codes = states[whole], codes[whole]
    law = rescan(few, weights, states, codes, law[whole], n_rescans)
    if weights.merge > NO_MERGE and n >= FEWEST_TO_MERGE:
        law = rescan(few, weights, states, codes, merge(few, weights, states, codes, law), 1)
    return states, law


@kernel
def count_left(done: int, n: int) -> int:
    """How many of n records have not come yet, by the bits of those that have."""
    n_left = 0
    for i in range(n):
        n_left += (done >> i) & 1 == 0
    return n_left


@kernel
def list_steps(
    few: Few, weights: Weights, states: States, codes: Integers, of_clusters: bool
) -> tuple[Integers, Floats, Integers]:
    """By state and record: where taking it, or its whole cluster, out and placing it again leads, how likely each of
    these is, and how many there are; none for a cluster that does not move: a given one, or a single record."""
    n, n_given = few.given_met.shape
    n_states, n_choices = states.shape[0], n_given + n + 1
    towards = np.zeros((n_states, n, n_choices), np.int64)
    share = np.zeros((n_states, n, n_choices))
    n_steps = np.zeros((n_states, n), np.int64)
    without, after, joins = np.empty(n, np.int8), np.empty(n, np.int8), np.zeros(n, np.bool_)
    probability = np.empty(n_choices)
    for s in range(n_states):
        for i in range(n):
            without[:] = states[s]
            for j in range(n):
                joins[j] = i == j or (of_clusters and states[s, j] == states[s, i])
                if joins[j]:
                    without[j] = -1
            if of_clusters and (states[s, i] < n_given or joins.sum() < 2):
                continue
            canonical_code(without, n_given)
            choice_probabilities(few, weights, without, joins, probability)
            for k in range(n_choices):
                if probability[k] == 0.0:
                    continue
                label = open_label(without, n_given) if k == n_choices - 1 else k
                for j in range(n):
                    after[j] = label if joins[j] else without[j]
                step = n_steps[s, i]
                towards[s, i, step] = np.searchsorted(codes, canonical_code(after, n_given))
                share[s, i, step] = probability[k]
                n_steps[s, i] += 1
    return towards, share, n_steps


@kernel
def rescan(few: Few, weights: Weights, states: States, codes: Integers, law: Floats, n_rescans: int) -> Floats:
    """The law after every record was taken out and placed again so many times, each time in a random order."""
    n, n_states = few.pair_met.shape[0], states.shape[0]
    towards, share, n_steps = list_steps(few, weights, states, codes, False)
    for _ in range(n_rescans):
        reached = np.zeros((1 << n, n_states))
        reached[0] = law
        for done in range((1 << n) - 1):
            n_left = count_left(done, n)
            for s in range(n_states):
                mass = reached[done, s] / n_left
                if mass == 0.0:
                    continue
                for i in range(n):
                    if (done >> i) & 1 == 0:
                        for step in range(n_steps[s, i]):
                            reached[done | (1 << i), towards[s, i, step]] += mass * share[s, i, step]
        law = reached[(1 << n) - 1].copy()
    return law


@kernel
def merge(few: Few, weights: Weights, states: States, codes: Integers, law: Floats) -> Floats:
    """The law after every new cluster of two or more has stayed or joined another, by the order of their records."""
    n, n_states = few.pair_met.shape[0], states.shape[0]
    towards, share, n_steps = list_steps(few, weights, states, codes, True)
    reached = np.zeros((1 << n, n_states))
    reached[0] = law
    for done in range((1 << n) - 1):
        n_left = count_left(done, n)
        for s in range(n_states):
            mass = reached[done, s] / n_left
            if mass == 0.0:
                continue
            for i in range(n):
                if (done >> i) & 1:
                    continue
                here = done | (1 << i)
                came = n_steps[s, i] == 0
                for j in range(n):
                    came = came or (states[s, j] == states[s, i] and (done >> j) & 1 == 1)
                if came:
                    reached[here, s] += mass
                    continue
                for step in range(n_steps[s, i]):
                    reached[here, towards[s, i, step]] += mass * share[s, i, step]
    return reached[(1 << n) - 1].copy()


@kernel
def look_at_few(
    few_items: Integers, neighbours: Neighbours, score: Floats, weights: Weights, known: Integers, given_sizes: Integers
) -> tuple[Few, Integers]:
    """A few free records as arrays, and the given clusters that they meet; no record if these are too many."""
    n = few_items.shape[0]
    pair_score, pair_met = np.zeros((n, n)), np.zeros((n, n), np.int64)
    given_score, given_met = np.zeros((n, MOST_GIVEN)), np.zeros((n, MOST_GIVEN), np.int64)
    given = np.empty(MOST_GIVEN, np.int64)
    n_given = 0
    for t in range(n):
        i = few_items[t]
        for e in range(neighbours.start[i], neighbours.start[i + 1]):
            j = neighbours.other[e]
            above = score[neighbours.pair[e]] - weights.floor
            if known[j] < 0:
                u = np.searchsorted(few_items, j)
                pair_score[t, u] += above
                pair_met[t, u] += 1
                continue
            k = 0
            while k < n_given and given[k] != known[j]:
                k += 1
            if k == n_given:
                if n_given == MOST_GIVEN:
                    n = 0
                    break
                given[k] = known[j]
                n_given += 1
            given_score[t, k] += above
            given_met[t, k] += 1
    given = given[:n_given].copy()
    return (
        Few(
            pair_score[:n, :n].copy(),
            pair_met[:n, :n].copy(),
            given_score[:n, :n_given].copy(),
            given_met[:n, :n_given].copy(),
            given_sizes[given],
        ),
        given,
    )


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
