"""Split-merge moves on hidden clusters: sequentially allocated proposals, accepted by Metropolis-Hastings.

Two hidden items of one group are drawn. Together, their cluster is split: the first opens a new cluster,
the second keeps the old one with all known members, and the rest sit down one by one in random order with
probability proportional to count times predictive. Apart, their clusters are merged, and the same construction
gives the probability of the way back. A merge whose way back does not exist (the first item's cluster has
known members) is refused.
"""

from __future__ import annotations

from math import lgamma

import numpy as np

from scdp._compile import kernel
from scdp._typing import Floats, Integers
from scdp.chains.arithmetic import (
    Sums,
    add_item,
    clear_sums,
    empty_sums,
    log_new_cluster,
    lowest_empty,
    n_used,
    slot_counts,
)
from scdp.chains.items import Items, SlotItems
from scdp.chains.state import State

OPENED, KEPT = 0, 1


@kernel
def draw_pair(rng: np.random.Generator, items: SlotItems) -> tuple[int, int]:
    """Two different hidden items of one group, or -1 for the second where there is no other."""
    hidden = items.hidden
    first = hidden[int(rng.random() * hidden.shape[0])]
    others = 0
    for j in hidden:
        others += items.group[j] == items.group[first] and j != first
    if others == 0:
        return first, -1
    skip = int(rng.random() * others)
    for j in hidden:
        if items.group[j] == items.group[first] and j != first:
            if skip == 0:
                return first, j
            skip -= 1
    return first, -1


@kernel
def log_join(sums: Sums, side: int, items: Items, i: int, row: Floats, prior_weight: float, discount: float) -> float:
    """Log of count times predictive density of item i at one side, up to a constant equal on both sides."""
    total = 0.0
    product = 1.0
    for f in range(row.shape[0]):
        if items.observed[i, f] > 0:
            a = prior_weight + sums.weight[side, f]
            inverse = row[f] / (row[f] + a) * a
            gap = items.points[i, f] - sums.pull[side, f] / a
            total -= inverse * gap * gap
            product *= inverse
            if not 1e-100 < product < 1e100:
                total += np.log(product)
                product = 1.0
    return np.log(sums.size[side] - discount) + 0.5 * (total + np.log(product))


@kernel
def log_evidence(sums: Sums, side: int, prior_weight: float, discount: float) -> float:
    """Log of Gamma(count - discount) times the marginal likelihood, without factors no partition changes."""
    total = 0.0
    for f in range(sums.weight.shape[1]):
        a = prior_weight + sums.weight[side, f]
        total += sums.pull[side, f] * sums.pull[side, f] / a - np.log(a / prior_weight)
    return lgamma(sums.size[side] - discount) + 0.5 * total


@kernel
def movable_members(rng: np.random.Generator, items: SlotItems, cluster: Integers, first: int, second: int) -> Integers:
    """The other hidden items of the two clusters, in random order."""
    members = np.empty(items.hidden.shape[0], np.int64)
    m = 0
    for i in items.hidden:
        if (cluster[i] == cluster[first] or cluster[i] == cluster[second]) and i != first and i != second:
            members[m] = i
            m += 1
    for last in range(m - 1, 0, -1):
        pick = int(rng.random() * (last + 1))
        members[last], members[pick] = members[pick], members[last]
    return members[:m]


@kernel
def allocate(
    rng: np.random.Generator, items: Items, state: State, cluster: Integers, members: Integers,
    first: int, second: int, sums: Sums,
) -> tuple[Integers, float]:  # fmt: skip
    """Put the members at two sides: drawn when the pair is together, else followed as they are."""
    together = cluster[first] == cluster[second]
    prior_weight = 1.0 / state.mean_variance
    sides = np.empty(members.shape[0], np.int64)
    log_proposal = 0.0
    for m in range(members.shape[0]):
        i = members[m]
        row = state.precision[state.type[i]]
        opened = log_join(sums, OPENED, items, i, row, prior_weight, state.discount)
        kept = log_join(sums, KEPT, items, i, row, prior_weight, state.discount)
        probability = 1.0 / (1.0 + np.exp(kept - opened))
        if together:
            sides[m] = OPENED if rng.random() < probability else KEPT
        else:
            sides[m] = OPENED if cluster[i] == cluster[first] else KEPT
        # log of the chosen side's share, in the form that cannot overflow
        gap = kept - opened if sides[m] == OPENED else opened - kept
        log_proposal -= np.log1p(np.exp(gap)) if gap < 30.0 else gap
        add_item(sums, sides[m], items, i, row, 1)
    return sides, log_proposal


@kernel
def add_anchors(items: Items, state: State, cluster: Integers, first: int, second: int) -> Sums:
    """The two sides before allocation: the first item alone; the second with its cluster's known members."""
    sums = empty_sums(3, items.points.shape[1])
    add_item(sums, OPENED, items, first, state.precision[state.type[first]], 1)
    add_item(sums, KEPT, items, second, state.precision[state.type[second]], 1)
    if items.known_in_slot[cluster[second]] > 0:
        is_hidden = np.zeros(cluster.shape[0], np.bool_)
        is_hidden[items.hidden] = True
        for i in range(cluster.shape[0]):
            if cluster[i] == cluster[second] and not is_hidden[i]:
                add_item(sums, KEPT, items, i, state.precision[state.type[i]], 1)
    return sums


@kernel
def log_split_ratio(sums: Sums, state: State, n_clusters: int) -> float:
    """Log posterior odds of the two sides apart against together, where the group has `n_clusters` clusters."""
    prior_weight, discount = 1.0 / state.mean_variance, state.discount
    both = 2
    clear_sums(sums, both)
    for side in (OPENED, KEPT):
        sums.size[both] += sums.size[side]
        sums.weight[both, :] += sums.weight[side, :]
        sums.pull[both, :] += sums.pull[side, :]
    apart = log_evidence(sums, OPENED, prior_weight, discount) + log_evidence(sums, KEPT, prior_weight, discount)
    together = log_evidence(sums, both, prior_weight, discount)
    return log_opening(state, n_clusters) + apart - together


@kernel
def log_opening(state: State, n_clusters: int) -> float:
    """Log of what one cluster more than `n_clusters` brings to the prior of a group, sizes apart."""
    return log_new_cluster(state, n_clusters) - lgamma(1.0 - state.discount)


@kernel
def split_merge(rng: np.random.Generator, items: Items, state: State, attempts: int) -> tuple[Integers, int]:
    """Try a number of split-merge moves; returns the new slots and how many were accepted."""
    cluster = state.cluster.copy()
    counts = slot_counts(cluster, items.known_in_slot.shape[0])
    accepted = 0
    for _ in range(attempts):
        first, second = draw_pair(rng, items)
        if second < 0:
            continue
        together = cluster[first] == cluster[second]
        if not together and items.known_in_slot[cluster[first]] > 0:
            continue
        members = movable_members(rng, items, cluster, first, second)
        sums = add_anchors(items, state, cluster, first, second)
        sides, log_proposal = allocate(rng, items, state, cluster, members, first, second, sums)
        start, end = items.slot_start[items.group[first]], items.slot_end[items.group[first]]
        n_together = n_used(counts, start, end) - (not together)
        ratio = log_split_ratio(sums, state, n_together) - log_proposal
        if ratio != ratio:
            raise FloatingPointError("the weight of a split is no number")
        if np.log(rng.random()) >= (ratio if together else -ratio):
            continue
        accepted += 1
        # Either way the first item and its side move: into a new cluster, or in with the second item.
        target = lowest_empty(counts, start) if together else cluster[second]
        counts[cluster[first]] -= sums.size[OPENED]
        counts[target] += sums.size[OPENED]
        cluster[first] = target
        for m in range(members.shape[0]):
            if sides[m] == OPENED:
                cluster[members[m]] = target
    return cluster, accepted
