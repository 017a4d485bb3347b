"""SCDP-2's precision prior on distances: from squared gaps between the posterior means of clusters.

With weights w / A on its members and 1 / (sigma A) on the origin, a cluster's mean is an average, so a squared
gap needs distances only: X / (A A') + (U + U') / (sigma A A') - Z / A^2 - Z' / A'^2, with X the weighted squares
between the two clusters, U those to the origin and Z the scatters.
"""

from __future__ import annotations

import numpy as np

from scdp._compile import kernel
from scdp.chains.distances.clusters import ROUNDING
from scdp.chains.distances.items import DistanceItems
from scdp.chains.distances.rows import (
    BATCH,
    cluster_scatters,
    list_members,
    local_slots,
    origin_sums,
    seat_of,
    seat_weights,
    sums_by_cluster,
)
from scdp.chains.state import State
from scdp.chains.vectors.items import Floats


@kernel
def gap_powers(items: DistanceItems, state: State) -> tuple[Floats, int, int]:
    """Sums of squared gaps and of their squares (2, features) over pairs of clusters of one restaurant.

    Also the number of pairs, and of gaps that came out below zero: those count as zero.
    """
    n_features = items.observed.shape[1]
    prior_weight = 1.0 / state.mean_variance
    weight = seat_weights(items, state)
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
        start, first_seat = items.slot_start[r], items.member_start[r]
        for slot in range(start, items.slot_end[r]):
            cross[:] = 0.0
            first, end = members.start[slot], members.start[slot + 1]
            for k in range(first, end, BATCH):
                n = min(BATCH, end - k)
                for b in range(BATCH):
                    row[b] = items.row_start[members.item[k + min(b, n - 1)]]
                sums_by_cluster(
                    sums,
                    widest,
                    local_slot,
                    weight,
                    items.squared,
                    first_seat,
                    items.member_start[r + 1],
                    row,
                )
                for b in range(n):
                    seat = seat_of(items, members.item[k + b])
                    for local in range(slot - start):
                        for f in range(n_features):
                            cross[local, f] += weight[seat, f] * sums[b, local, f]
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
