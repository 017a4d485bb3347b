"""Split-merge moves on hidden clusters: sequentially allocated proposals, accepted by Metropolis-Hastings.

Two hidden items of one group are drawn. Together, their cluster is split: the first opens a new cluster,
the second keeps the old one with all known members, and the rest sit down one by one in random order with
probability proportional to count times predictive. Apart, their clusters are merged, and the same construction
gives the probability of the way back. A merge whose way back does not exist (the first item's cluster has
known members) is refused.

Points keep sums at the two sides, distances scatters. Given centroids (SCDP-3 on distances), the acceptance also
weighs what the gaps between them would be.
"""

from __future__ import annotations

from math import lgamma

import numpy as np

from scdp._compile import kernel
from scdp._typing import Floats, Integers
from scdp.chains import State
from scdp.chains.arithmetic import (
    BOTH,
    KEPT,
    OPENED,
    Scatters,
    Sums,
    add_item,
    clear_sums,
    empty_sums,
    log_new_cluster,
    lowest_empty,
    n_used,
    slot_counts,
)
from scdp.chains.distances import ROUNDING, TURNS, add_to_scatter, empty_scatters, sum_over_list, weights_by_position
from scdp.chains.distances.centroid_moves import list_sides, log_parting, make_parting, measure, take_over
from scdp.chains.distances.centroids import Centroids, coupling_of, presence_by_position
from scdp.chains.items import DistanceItems, Items, SlotItems


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
def draw_move(rng: np.random.Generator, items: SlotItems, cluster: Integers) -> tuple[int, int, Integers]:
    """Two hidden items, and the others of their clusters that may move; -1 for the second where there is no move."""
    first, second = draw_pair(rng, items)
    if second < 0:
        return first, -1, np.empty(0, np.int64)
    if cluster[first] != cluster[second] and items.known_in_slot[cluster[first]] > 0:
        return first, -1, np.empty(0, np.int64)
    return first, second, movable_members(rng, items, cluster, first, second)


@kernel
def known_members(items: SlotItems, cluster: Integers, slot: int) -> Integers:
    """The items of a slot whose cluster is known, in ascending order."""
    known = np.empty(items.known_in_slot[slot], np.int64)
    n = 0
    if known.shape[0] > 0:
        is_hidden = np.zeros(cluster.shape[0], np.bool_)
        is_hidden[items.hidden] = True
        for i in range(cluster.shape[0]):
            if cluster[i] == slot and not is_hidden[i]:
                known[n] = i
                n += 1
    return known[:n]


@kernel
def draw_side(
    rng: np.random.Generator, log_opened: float, log_kept: float, together: bool, with_first: bool
) -> tuple[int, float]:
    """The side of a member, drawn when the pair is together, else where it is; and the log of that side's share."""
    opened = with_first
    if together:
        opened = rng.random() < 1.0 / (1.0 + np.exp(log_kept - log_opened))
    # In the form that cannot overflow.
    gap = log_kept - log_opened if opened else log_opened - log_kept
    return OPENED if opened else KEPT, -np.log1p(np.exp(gap)) if gap < 30.0 else -gap


@kernel
def log_opening(items: SlotItems, state: State, counts: Integers, first: int, together: bool) -> float:
    """Log of what a split brings to the prior of its group by one cluster more, sizes apart."""
    r = items.group[first]
    n_clusters = n_used(counts, items.slot_start[r], items.slot_end[r]) - (not together)
    return log_new_cluster(state, n_clusters) - lgamma(1.0 - state.discount)


@kernel
def is_accepted(rng: np.random.Generator, ratio: float, together: bool) -> bool:
    """Whether a split with this log ratio is accepted, or the merge that undoes it."""
    if ratio != ratio:
        raise FloatingPointError("the weight of a split is no number")
    return np.log(rng.random()) < (ratio if together else -ratio)


@kernel
def move_side(cluster: Integers, counts: Integers, first: int, members: Integers, sides: Integers, target: int) -> None:
    """Move the first item and its side: into a new cluster, or in with the second item."""
    n_moved = 1
    counts[cluster[first]] -= 1
    for m in range(members.shape[0]):
        if sides[m] == OPENED:
            counts[cluster[members[m]]] -= 1
            cluster[members[m]] = target
            n_moved += 1
    cluster[first] = target
    counts[target] += n_moved


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
def add_anchors(items: Items, state: State, cluster: Integers, first: int, second: int) -> Sums:
    """The two sides before allocation: the first item alone; the second with its cluster's known members."""
    sums = empty_sums(3, items.points.shape[1])
    add_item(sums, OPENED, items, first, state.precision[state.type[first]], 1)
    add_item(sums, KEPT, items, second, state.precision[state.type[second]], 1)
    for i in known_members(items, cluster, cluster[second]):
        add_item(sums, KEPT, items, i, state.precision[state.type[i]], 1)
    return sums


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
        sides[m], log_share = draw_side(rng, opened, kept, together, cluster[i] == cluster[first])
        log_proposal += log_share
        add_item(sums, sides[m], items, i, row, 1)
    return sides, log_proposal


@kernel
def log_split_ratio(sums: Sums, state: State) -> float:
    """Log odds of the two sides apart against together, but for what one cluster more weighs."""
    prior_weight, discount = 1.0 / state.mean_variance, state.discount
    clear_sums(sums, BOTH)
    for side in (OPENED, KEPT):
        sums.size[BOTH] += sums.size[side]
        sums.weight[BOTH, :] += sums.weight[side, :]
        sums.pull[BOTH, :] += sums.pull[side, :]
    apart = log_evidence(sums, OPENED, prior_weight, discount) + log_evidence(sums, KEPT, prior_weight, discount)
    return apart - log_evidence(sums, BOTH, prior_weight, discount)


@kernel
def split_merge(rng: np.random.Generator, items: Items, state: State, attempts: int) -> tuple[Integers, int]:
    """Try a number of split-merge moves; returns the new slots and how many were accepted."""
    cluster = state.cluster.copy()
    counts = slot_counts(cluster, items.known_in_slot.shape[0])
    accepted = 0
    for _ in range(attempts):
        first, second, members = draw_move(rng, items, cluster)
        if second < 0:
            continue
        together = cluster[first] == cluster[second]
        sums = add_anchors(items, state, cluster, first, second)
        sides, log_proposal = allocate(rng, items, state, cluster, members, first, second, sums)
        ratio = log_opening(items, state, counts, first, together) + log_split_ratio(sums, state) - log_proposal
        if is_accepted(rng, ratio, together):
            accepted += 1
            start = items.slot_start[items.group[first]]
            target = lowest_empty(counts, start) if together else cluster[second]
            move_side(cluster, counts, first, members, sides, target)
    return cluster, accepted


@kernel
def log_join_by_distance(
    scatters: Scatters, side: int, sums: Floats, items: DistanceItems, i: int, row: Floats, prior_weight: float,
    discount: float,
) -> tuple[float, int]:  # fmt: skip
    """Log of count times predictive of item i at a side, up to a constant of both sides; negative gaps met."""
    total = 0.0
    product = 1.0
    negative = 0
    for f in range(row.shape[0]):
        if items.observed[i, f] > 0:
            a = prior_weight + scatters.weight[side, f]
            share = row[f] / (row[f] + a)
            far = sums[0, f] + prior_weight * items.origin[i, f]
            gap = far - scatters.scatter[side, f] / a
            if gap < -ROUNDING * (1.0 + far):
                negative += 1
                gap = max(gap, items.floor)
            total -= share * gap
            product *= share * a
            if not 1e-100 < product < 1e100:
                total += np.log(product)
                product = 1.0
    return np.log(scatters.size[side] - discount) + 0.5 * (total + np.log(product)), negative


@kernel
def log_evidence_by_distance(scatters: Scatters, side: int, prior_weight: float, discount: float) -> float:
    """Log of Gamma(count - discount) times the marginal likelihood, without factors no partition changes."""
    total = 0.0
    for f in range(scatters.weight.shape[1]):
        a = prior_weight + scatters.weight[side, f]
        total -= scatters.scatter[side, f] / a + np.log(a / prior_weight)
    return lgamma(scatters.size[side] - discount) + 0.5 * total


@kernel
def add_to_side(
    scatters: Scatters, side: int, at_side: Floats, at_other: Floats, items: DistanceItems, state: State, i: int
) -> None:
    """Add item i to a side and to both together, given its sums over those already at each."""
    row = state.precision[state.type[i]]
    prior_weight = 1.0 / state.mean_variance
    add_to_scatter(scatters, side, at_side, 0, items, i, row, prior_weight, 1)
    for f in range(row.shape[0]):
        at_side[0, f] += at_other[0, f]
    add_to_scatter(scatters, BOTH, at_side, 0, items, i, row, prior_weight, 1)


@kernel
def allocate_by_distance(
    rng: np.random.Generator, items: DistanceItems, state: State, weight: Floats, cluster: Integers,
    members: Integers, first: int, second: int, scatters: Scatters,
) -> tuple[Integers, float, int]:  # fmt: skip
    """Put anchors and members at two sides; draws the sides when the pair is together, else follows them.

    The first item sits alone, the second with its cluster's known members; then the members one by one.
    """
    together = cluster[first] == cluster[second]
    prior_weight = 1.0 / state.mean_variance
    opened, kept = np.zeros((TURNS, weight.shape[1])), np.zeros((TURNS, weight.shape[1]))
    at_opened, at_kept = np.empty_like(cluster), np.empty_like(cluster)
    at_opened[0], at_kept[0] = first, second
    known = known_members(items, cluster, cluster[second])
    n_opened, n_anchors = 1, 1 + known.shape[0]
    at_kept[1:n_anchors] = known
    add_to_side(scatters, OPENED, opened, kept, items, state, first)
    for n_kept in range(n_anchors):
        i = at_kept[n_kept]
        sum_over_list(opened, items, weight, at_opened, 0, 1, i)
        sum_over_list(kept, items, weight, at_kept, 0, n_kept, i)
        add_to_side(scatters, KEPT, kept, opened, items, state, i)
    n_kept = n_anchors
    sides = np.empty(members.shape[0], np.int64)
    log_proposal = 0.0
    negative = 0
    for m in range(members.shape[0]):
        i = members[m]
        row = state.precision[state.type[i]]
        sum_over_list(opened, items, weight, at_opened, 0, n_opened, i)
        sum_over_list(kept, items, weight, at_kept, 0, n_kept, i)
        log_opened, met = log_join_by_distance(scatters, OPENED, opened, items, i, row, prior_weight, state.discount)
        log_kept, also_met = log_join_by_distance(scatters, KEPT, kept, items, i, row, prior_weight, state.discount)
        negative += met + also_met
        sides[m], log_share = draw_side(rng, log_opened, log_kept, together, cluster[i] == cluster[first])
        log_proposal += log_share
        if sides[m] == OPENED:
            add_to_side(scatters, OPENED, opened, kept, items, state, i)
            at_opened[n_opened] = i
            n_opened += 1
        else:
            add_to_side(scatters, KEPT, kept, opened, items, state, i)
            at_kept[n_kept] = i
            n_kept += 1
    return sides, log_proposal, negative


@kernel
def split_merge_by_distance(
    rng: np.random.Generator, items: DistanceItems, state: State, attempts: int,
    centroids: Centroids | None = None,
) -> tuple[Integers, int, int]:  # fmt: skip
    """Try a number of moves; returns new slots, how many were accepted, and negative squared norms met.

    With `centroids` (of the clusters as they are, whose sizes, spreads and sums it keeps up to date) it is SCDP-3's.
    """
    cluster = state.cluster.copy()
    counts = slot_counts(cluster, items.known_in_slot.shape[0])
    weight = weights_by_position(items, state)
    prior_weight = 1.0 / state.mean_variance
    if centroids is not None:
        coupling = coupling_of(state, weight.shape[1])
        parting = make_parting(cluster.shape[0], weight.shape[1], presence_by_position(items))
    accepted = negative = 0
    for _ in range(attempts):
        first, second, members = draw_move(rng, items, cluster)
        if second < 0:
            continue
        together = cluster[first] == cluster[second]
        scatters = empty_scatters(3, items.observed.shape[1])
        sides, log_proposal, met = allocate_by_distance(
            rng, items, state, weight, cluster, members, first, second, scatters
        )
        negative += met
        ratio = log_opening(items, state, counts, first, together) - log_proposal
        ratio += log_evidence_by_distance(scatters, OPENED, prior_weight, state.discount)
        ratio += log_evidence_by_distance(scatters, KEPT, prior_weight, state.discount)
        ratio -= log_evidence_by_distance(scatters, BOTH, prior_weight, state.discount)
        if centroids is not None:
            n = list_sides(parting, items, cluster, first, second, members, sides)
            measure(parting, centroids, items, cluster, n)
            ratio += log_parting(parting, centroids, state, coupling, together)
        if is_accepted(rng, ratio, together):
            accepted += 1
            start = items.slot_start[items.group[first]]
            target = lowest_empty(counts, start) if together else cluster[second]
            if centroids is not None:
                take_over(parting, centroids, cluster[first], cluster[second], target, together)
            move_side(cluster, counts, first, members, sides, target)
    return cluster, accepted, negative
