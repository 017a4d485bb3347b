"""Split-merge moves on distances: the proposals and the acceptance of scdp.chains.vectors.split_merge, on scatters.

Given centroids (SCDP-3), the acceptance also weighs what the gaps between them would be.
"""

from __future__ import annotations

from math import lgamma

import numpy as np

from scdp._compile import kernel
from scdp._typing import Floats, Integers
from scdp.chains.arithmetic import lowest_empty, n_used, slot_counts
from scdp.chains.distances.centroid_moves import list_sides, log_parting, make_parting, measure, take_over
from scdp.chains.distances.centroids import Centroids, coupling_of, presence_by_position
from scdp.chains.distances.rows import (
    ROUNDING,
    TURNS,
    Scatters,
    add_to_scatter,
    empty_scatters,
    sum_over_list,
    weights_by_position,
)
from scdp.chains.items import DistanceItems
from scdp.chains.state import State
from scdp.chains.vectors.split_merge import KEPT, OPENED, draw_pair, log_opening, movable_members

BOTH = 2


@kernel
def log_join(
    scatters: Scatters,
    side: int,
    sums: Floats,
    items: DistanceItems,
    i: int,
    row: Floats,
    prior_weight: float,
    discount: float,
) -> tuple[float, int]:
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
def log_evidence(scatters: Scatters, side: int, prior_weight: float, discount: float) -> float:
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
def list_of_known(items: DistanceItems, cluster: Integers, slot: int, added: Integers) -> int:
    """Fill `added` from place 1 on with the known members of a slot; returns one past the last."""
    if items.known_in_slot[slot] == 0:
        return 1
    is_hidden = np.zeros(cluster.shape[0], np.bool_)
    is_hidden[items.hidden] = True
    end = 1
    for i in range(cluster.shape[0]):
        if cluster[i] == slot and not is_hidden[i]:
            added[end] = i
            end += 1
    return end


@kernel
def allocate(
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
    n_opened, n_anchors = 1, list_of_known(items, cluster, cluster[second], at_kept)
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
        log_opened, met = log_join(scatters, OPENED, opened, items, i, row, prior_weight, state.discount)
        log_kept, also_met = log_join(scatters, KEPT, kept, items, i, row, prior_weight, state.discount)
        negative += met + also_met
        probability = 1.0 / (1.0 + np.exp(log_kept - log_opened))
        if together:
            sides[m] = OPENED if rng.random() < probability else KEPT
        else:
            sides[m] = OPENED if cluster[i] == cluster[first] else KEPT
        # log of the chosen side's share, in the form that cannot overflow
        gap = log_kept - log_opened if sides[m] == OPENED else log_opened - log_kept
        log_proposal -= np.log1p(np.exp(gap)) if gap < 30.0 else gap
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
        first, second = draw_pair(rng, items)
        if second < 0:
            continue
        together = cluster[first] == cluster[second]
        if not together and items.known_in_slot[cluster[first]] > 0:
            continue
        members = movable_members(rng, items, cluster, first, second)
        scatters = empty_scatters(3, items.observed.shape[1])
        sides, log_proposal, met = allocate(rng, items, state, weight, cluster, members, first, second, scatters)
        negative += met
        start, end = items.slot_start[items.group[first]], items.slot_end[items.group[first]]
        n_together = n_used(counts, start, end) - (not together)
        ratio = log_opening(state, n_together) - log_proposal
        ratio += log_evidence(scatters, OPENED, prior_weight, state.discount)
        ratio += log_evidence(scatters, KEPT, prior_weight, state.discount)
        ratio -= log_evidence(scatters, BOTH, prior_weight, state.discount)
        if centroids is not None:
            n = list_sides(parting, items, cluster, first, second, members, sides)
            measure(parting, centroids, items, cluster, n)
            ratio += log_parting(parting, centroids, state, coupling, together)
        if ratio != ratio:
            raise FloatingPointError("the weight of a split is no number")
        if np.log(rng.random()) >= (ratio if together else -ratio):
            continue
        accepted += 1
        # Either way the first item and its side move: into a new cluster, or in with the second item.
        target = lowest_empty(counts, start) if together else cluster[second]
        counts[cluster[first]] -= scatters.size[OPENED]
        counts[target] += scatters.size[OPENED]
        if centroids is not None:
            take_over(parting, centroids, cluster[first], cluster[second], target, together)
        cluster[first] = target
        for m in range(members.shape[0]):
            if sides[m] == OPENED:
                cluster[members[m]] = target
    return cluster, accepted, negative
