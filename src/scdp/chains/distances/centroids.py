"""SCDP-3 on distances: how far apart the centroids of clusters are, and the factor that this gives a partition.

A centroid is the plain average of the members that have a feature. S_f, the sum over pairs of clusters of one
group of their squared gap, depends on partition and data alone; t_lf | clusters ~ Gamma(a, rate b + rate S_f).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scdp._compile import kernel
from scdp._typing import Floats, Integers
from scdp.chains import State
from scdp.chains.arithmetic import highest_used, slot_counts, sum_of_logs
from scdp.chains.distances import (
    BATCH,
    ROUNDING,
    cluster_scatters,
    list_members,
    local_slots,
    origin_sums,
    position_of,
    sums_by_cluster,
    weights_by_position,
)
from scdp.chains.items import DistanceItems
from scdp.chains.vector_clusters import LOG_2PI, log_prior_of_labels
from scdp.chains.vector_coupling import MEAN, log_grid_normalizer, used_precision_sum


@kernel
def gap_powers(items: DistanceItems, state: State) -> tuple[Floats, int, int]:
    """Sums of squared gaps and of their squares (2, features) over pairs of clusters of one group.

    Also the number of pairs, and of gaps that came out below zero: those count as zero.
    """
    n_features = items.observed.shape[1]
    prior_weight = 1.0 / state.mean_variance
    weight = weights_by_position(items, state)
    everywhere = np.ones(items.slot_start.shape[0], np.bool_)
    scatters = cluster_scatters(items, state, weight, prior_weight, everywhere)
    to_origin = origin_sums(items, state, weight)
    total = prior_weight + scatters.weight
    spread = scatters.scatter / total**2
    members = list_members(state.cluster, total.shape[0])
    local_slot = local_slots(items, state.cluster)
    widest = local_slot.max() + 1
    sums, cross = np.zeros((BATCH, widest, weight.shape[1])), np.zeros((widest, n_features))
    row = np.zeros(BATCH, np.int64)
    powers = np.zeros((2, n_features))
    n_pairs = negative = 0
    for r in range(items.slot_start.shape[0]):
        start, first_position = items.slot_start[r], items.member_start[r]
        for slot in range(start, items.slot_end[r]):
            cross[:] = 0.0
            first, end = members.start[slot], members.start[slot + 1]
            for k in range(first, end, BATCH):
                n = min(BATCH, end - k)
                for b in range(BATCH):
                    row[b] = items.row_start[members.item[k + min(b, n - 1)]]
                sums_by_cluster(
                    sums, widest, local_slot, weight, items.squared, first_position, items.member_start[r + 1], row
                )
                for b in range(n):
                    position = position_of(items, members.item[k + b])
                    for local in range(slot - start):
                        for f in range(n_features):
                            cross[local, f] += weight[position, f] * sums[b, local, f]
            for other in range(start, slot):
                if scatters.size[slot] == 0 or scatters.size[other] == 0:
                    continue
                n_pairs += 1
                for f in range(n_features):
                    pull = prior_weight * (to_origin[slot, f] + to_origin[other, f])
                    far = (cross[other - start, f] + pull) / (total[slot, f] * total[other, f])
                    gap = far - spread[slot, f] - spread[other, f]
                    negative += gap < -ROUNDING * (1.0 + far)
                    gap = max(gap, 0.0)
                    powers[0, f] += gap
                    powers[1, f] += gap * gap
    return powers, n_pairs, negative


@kernel
def separation_prior_by_distance(items: DistanceItems, state: State) -> tuple[Floats, Floats, int]:
    """Gamma shape and rate per feature, and how many gaps came out negative.

    Prior mean = half the mean gap and prior variance = their variance; Gamma(1, 1) stands in where there are fewer than
    three pairs or no spread.
    """
    powers, n_pairs, negative = gap_powers(items, state)
    n_features = powers.shape[1]
    shape, rate = np.ones(n_features), np.ones(n_features)
    if n_pairs < 3:
        return shape, rate, negative
    for f in range(n_features):
        mean = powers[0, f] / n_pairs
        spread = powers[1, f] / n_pairs - mean * mean
        if mean > 0.0 and spread > 1e-12 * mean * mean:
            shape[f] = 0.25 * mean * mean / spread
            rate[f] = 0.5 * mean / spread
    return shape, rate, negative


class Centroids(NamedTuple):
    """Clusters as plain averages, kept up to date by the moves; rows per slot, columns per feature (padded).

    `size` counts the members that have the feature, `inverse` is one over it (0 for none), `entry` one over one more,
    `present` 1 where there is any, and `spread` half the mean square between two of them. `total` and `n_pairs` are S
    before it is clipped, and its number of pairs, over all groups. Slots of settled groups stay empty: only
    their sum is needed.

    Row gap_start[r] + a * room[r] + b of `gap` is the squared gap of the a-th and b-th slot of group r, `reach`
    its sum over b, and `n_here` the number of its centroids. Only the Gibbs pass needs these three; split-merge
    moves leave them as they are.
    """

    size: Floats
    inverse: Floats
    entry: Floats
    present: Floats
    spread: Floats
    total: Floats
    n_pairs: Floats
    gap_start: Integers
    room: Integers
    gap: Floats
    reach: Floats
    n_here: Floats
    variant: int


class Coupling(NamedTuple):
    """What the factor of a partition needs to know of types and precisions, by feature (padded)."""

    n_types: int
    precision_sum: Floats
    power: Floats
    steepness: Floats
    even: bool
    gaps: Floats
    factor: Floats


@kernel
def separation_from(total: float, n_pairs: float, variant: int) -> float:
    """S_f, or its mean over pairs. Distances that fit no space can make the sum negative: it then counts as zero."""
    # Without a pair, what is left of the sum is rounding.
    found = total if total > 0.0 and n_pairs >= 1.0 else 0.0
    return found / max(n_pairs, 1.0) if variant == MEAN else found


@kernel
def separation_by_distance(centroids: Centroids, n_features: int) -> Floats:
    gaps = np.empty(n_features)
    for f in range(n_features):
        gaps[f] = separation_from(centroids.total[f], centroids.n_pairs[f], centroids.variant)
    return gaps


@kernel
def presence_by_position(items: DistanceItems) -> Floats:
    """In the order of `member`, 1 where an item has a feature, 0 where not or padding."""
    presence = np.zeros((items.member.shape[0], items.squared.shape[1]))
    for position in range(items.member.shape[0]):
        for f in range(items.observed.shape[1]):
            presence[position, f] = items.observed[items.member[position], f]
    return presence


@kernel
def set_size(centroids: Centroids, slot: int, f: int, size: float, spread: float) -> None:
    centroids.size[slot, f] = size
    centroids.inverse[slot, f] = 1.0 / size if size > 0.0 else 0.0
    centroids.entry[slot, f] = 1.0 / (size + 1.0)
    centroids.present[slot, f] = 1.0 if size > 0.0 else 0.0
    centroids.spread[slot, f] = spread if size > 0.0 else 0.0


@kernel
def empty_centroids(items: DistanceItems, high: Integers, variant: int) -> Centroids:
    """No cluster yet, with room in the gaps for those up to `high` and some more."""
    n_slots, width = items.known_in_slot.shape[0], items.squared.shape[1]
    room = np.zeros(high.shape[0], np.int64)
    gap_start = np.zeros(high.shape[0] + 1, np.int64)
    for r in range(high.shape[0]):
        if not items.settled[r]:
            room[r] = min(high[r] - items.slot_start[r] + 8, items.slot_end[r] - items.slot_start[r])
        gap_start[r + 1] = gap_start[r] + room[r] * room[r]
    total, n_pairs = np.zeros(width), np.zeros(width)
    for f in range(items.observed.shape[1]):
        total[f], n_pairs[f] = items.settled_gaps[0, f], items.settled_gaps[1, f]
    rows, entry = np.zeros((5, n_slots, width)), np.ones((n_slots, width))
    gap, n_here = np.zeros((gap_start[-1], width)), np.zeros((high.shape[0], width))
    return Centroids(
        rows[0], rows[1], entry, rows[2], rows[3], total, n_pairs, gap_start, room, gap, rows[4], n_here, variant
    )


@kernel
def enlarge_centroids(centroids: Centroids, r: int, limit: int) -> Centroids:
    """The same with twice the room for group r, at most `limit`."""
    room, gap_start = centroids.room.copy(), np.zeros_like(centroids.gap_start)
    room[r] = min(2 * room[r], limit)
    for q in range(room.shape[0]):
        gap_start[q + 1] = gap_start[q] + room[q] * room[q]
    gap = np.zeros((gap_start[-1], centroids.gap.shape[1]))
    for q in range(room.shape[0]):
        for a in range(centroids.room[q]):
            old = centroids.gap_start[q] + a * centroids.room[q]
            new = gap_start[q] + a * room[q]
            gap[new : new + centroids.room[q], :] = centroids.gap[old : old + centroids.room[q], :]
    size, inverse, entry, present, spread, total, n_pairs, _, _, _, reach, n_here, variant = centroids
    return Centroids(
        size, inverse, entry, present, spread, total, n_pairs, gap_start, room, gap, reach, n_here, variant
    )


@kernel
def add_squares_between(
    centroids: Centroids, items: DistanceItems, r: int, n_local: int, local_slot: Integers, presence: Floats,
    sums: Floats,
) -> None:  # fmt: skip
    """Into the gaps of group r, the sums of squares between the items of every two clusters.

    Each pair of items counts once, at the row of the item that comes later.
    """
    first_position, end_position = items.member_start[r], items.member_start[r + 1]
    width = presence.shape[1]
    flat_gap, flat_sums = centroids.gap.reshape(-1), sums.reshape(-1)
    row = np.empty(BATCH, np.int64)
    for position in range(first_position, end_position, BATCH):
        n = min(BATCH, end_position - position)
        for b in range(BATCH):
            row[b] = items.row_start[items.member[position + min(b, n - 1)]]
        sums_by_cluster(sums, n_local, local_slot, presence, items.squared, first_position, position, row)
        for b in range(n):
            for c in range(b):
                # Those of one batch come to each other, not to the sums.
                entry = row[b] + position + c - first_position
                for f in range(width):
                    sums[b, local_slot[position + c], f] += items.squared[entry, f]
            at = (centroids.gap_start[r] + local_slot[position + b] * centroids.room[r]) * width
            start = b * sums.shape[1] * width
            for x in range(n_local * width):
                flat_gap[at + x] += flat_sums[start + x]


@kernel
def squares_to_gaps(centroids: Centroids, items: DistanceItems, r: int, n_local: int) -> None:
    """Turn the sums of squares of group r into squared gaps, and add these up."""
    first, at, room = items.slot_start[r], centroids.gap_start[r], centroids.room[r]
    size, inverse, gap = centroids.size, centroids.inverse, centroids.gap
    for a in range(n_local):
        for f in range(items.observed.shape[1]):
            within = gap[at + a * room + a, f] * inverse[first + a, f] * inverse[first + a, f]
            set_size(centroids, first + a, f, size[first + a, f], within)
            gap[at + a * room + a, f] = 0.0
            centroids.n_here[r, f] += centroids.present[first + a, f]
    for a in range(n_local):
        for b in range(a):
            one, two = at + a * room + b, at + b * room + a
            for f in range(items.observed.shape[1]):
                both = centroids.present[first + a, f] * centroids.present[first + b, f]
                square = (gap[one, f] + gap[two, f]) * inverse[first + a, f] * inverse[first + b, f]
                square -= both * (centroids.spread[first + a, f] + centroids.spread[first + b, f])
                gap[one, f] = square
                gap[two, f] = square
                centroids.reach[first + a, f] += square
                centroids.reach[first + b, f] += square
                centroids.total[f] += square
                centroids.n_pairs[f] += both


@kernel
def centroids_of(items: DistanceItems, cluster: Integers, variant: int) -> Centroids:
    """Sizes, spreads and gaps of the clusters, from one pass over all pairs of groups that are not settled."""
    counts = slot_counts(cluster, items.known_in_slot.shape[0])
    high = highest_used(counts, items.slot_start, items.slot_end)
    centroids = empty_centroids(items, high, variant)
    for i in range(cluster.shape[0]):
        if not items.settled[items.group[i]]:
            for f in range(items.observed.shape[1]):
                centroids.size[cluster[i], f] += items.observed[i, f]
    for slot in range(counts.shape[0]):
        for f in range(items.observed.shape[1]):
            set_size(centroids, slot, f, centroids.size[slot, f], 0.0)
    local_slot, presence = local_slots(items, cluster), presence_by_position(items)
    widest = 1
    for r in range(high.shape[0]):
        widest = max(widest, high[r] - items.slot_start[r])
    sums = np.zeros((BATCH, widest, items.squared.shape[1]))
    for r in range(high.shape[0]):
        if not items.settled[r]:
            n_local = high[r] - items.slot_start[r]
            add_squares_between(centroids, items, r, n_local, local_slot, presence, sums)
            squares_to_gaps(centroids, items, r, n_local)
    return centroids


@kernel
def coupling_of(state: State, width: int) -> Coupling:
    precision_sum, n_types = used_precision_sum(state)
    n_features = precision_sum.shape[0]
    padded_sum, power, steepness = np.zeros(width), np.zeros(width), np.zeros(width)
    even = True
    for f in range(n_features):
        padded_sum[f] = state.separation_rate * precision_sum[f]
        power[f] = n_types * state.shape[f]
        steepness[f] = state.separation_rate / state.rate[f]
        even &= state.shape[f] == state.shape[0]
    return Coupling(n_types, padded_sum, power, steepness, even, np.zeros(width), np.ones((1, width)))


@kernel
def log_coupling_by_distance(state: State, coupling: Coupling) -> float:
    """Log of what multiplies the joint of SCDP-1 when S is coupling.gaps."""
    gaps, factor = coupling.gaps, coupling.factor
    result = 0.0
    for f in range(gaps.shape[0]):
        result -= coupling.precision_sum[f] * gaps[f]
        factor[0, f] = 1.0 + coupling.steepness[f] * gaps[f]
    if state.grid.shape[0] > 0:
        return result - coupling.n_types * log_grid_normalizer(state, gaps[: state.grid.shape[1]])
    if coupling.even:
        return result + coupling.power[0] * sum_of_logs(factor, 0)
    for f in range(state.shape.shape[0]):
        result += coupling.power[f] * np.log(factor[0, f])
    return result


@kernel
def log_coupling_of_centroids(state: State, centroids: Centroids) -> float:
    """The same for the clusters as they are."""
    coupling = coupling_of(state, centroids.total.shape[0])
    n_features = state.shape.shape[0]
    coupling.gaps[:n_features] = separation_by_distance(centroids, n_features)
    return log_coupling_by_distance(state, coupling)


@kernel
def log_data_of_distances(items: DistanceItems, state: State) -> float:
    """Log density of the items given clusters, types and precisions; each feature counts as one dimension."""
    prior_weight = 1.0 / state.mean_variance
    everywhere = np.ones(items.slot_start.shape[0], np.bool_)
    scatters = cluster_scatters(items, state, weights_by_position(items, state), prior_weight, everywhere)
    log_precision = np.log(state.precision)
    total = 0.0
    for i in range(items.observed.shape[0]):
        for f in range(items.observed.shape[1]):
            total += items.observed[i, f] * (log_precision[state.type[i], f] - LOG_2PI)
    for slot in range(scatters.size.shape[0]):
        if scatters.size[slot] > 0:
            for f in range(items.observed.shape[1]):
                a = prior_weight + scatters.weight[slot, f]
                total -= np.log(a / prior_weight) + scatters.scatter[slot, f] / a
    return 0.5 * total


@kernel
def log_joint_of_distances(items: DistanceItems, state: State, concentration_priors: Floats) -> float:
    """Everything, as scdp.chains.vector_clusters.log_joint has it for points."""
    counts = slot_counts(state.cluster, items.known_in_slot.shape[0])
    type_counts = slot_counts(state.type, state.precision.shape[0])
    prior = log_prior_of_labels(items, state, counts, type_counts, concentration_priors)
    return log_data_of_distances(items, state) + prior


@kernel
def log_joint_of_centroids(items: DistanceItems, state: State, variant: int, concentration_priors: Floats) -> float:
    """The same for SCDP-3: times the coupling of precisions and gaps between centroids."""
    coupling = log_coupling_of_centroids(state, centroids_of(items, state.cluster, variant))
    return log_joint_of_distances(items, state, concentration_priors) + coupling
