"""The log joint density of a state on distances, and SCDP-2's prior from gaps between posterior cluster means."""

from __future__ import annotations

import numpy as np

from scdp.compile import kernel
from scdp.sampler.arithmetic import slot_counts
from scdp.sampler.density import LOG_2PI, log_gamma_density, log_precision_prior, log_restaurants
from scdp.sampler.distance_clusters import ROUNDING
from scdp.sampler.distance_items import DistanceItems
from scdp.sampler.distance_rows import (
    TURNS,
    cluster_scatters,
    list_members,
    seat_of,
    seat_weights,
    sums_by_cluster,
)
from scdp.sampler.items import Floats
from scdp.sampler.state import State


@kernel
def log_data_of_distances(items: DistanceItems, state: State) -> float:
    """Log density of the items given clusters, types and precisions; each feature counts as one dimension."""
    prior_weight = 1.0 / state.mean_variance
    everywhere = np.ones(items.slot_start.shape[0], np.bool_)
    scatters = cluster_scatters(items, state, seat_weights(items, state), prior_weight, everywhere)
    log_precision = np.log(state.precision)
    total = 0.0
    for i in range(items.observed.shape[0]):
        for f in range(items.observed.shape[1]):
            total += items.observed[i, f] * (log_precision[state.type[i], f] - LOG_2PI)
    for slot in range(scatters.count.shape[0]):
        if scatters.count[slot] > 0:
            for f in range(items.observed.shape[1]):
                a = prior_weight + scatters.weight[slot, f]
                total -= np.log(a / prior_weight) + scatters.scatter[slot, f] / a
    return 0.5 * total


@kernel
def log_joint_of_distances(items: DistanceItems, state: State, concentration_priors: Floats) -> float:
    """Everything, as scdp.sampler.density.log_joint has it for points."""
    counts = slot_counts(state.cluster, items.known_in_slot.shape[0])
    type_counts = slot_counts(state.type, state.precision.shape[0])
    whole = np.array([0]), np.array([type_counts.shape[0]])
    return (
        log_data_of_distances(items, state)
        + log_restaurants(counts, items.slot_start, items.slot_end, state.cluster_concentration)
        + log_restaurants(type_counts, whole[0], whole[1], state.type_concentration)
        + log_precision_prior(state, type_counts)
        + log_gamma_density(state.cluster_concentration, concentration_priors[0], concentration_priors[1])
        + log_gamma_density(state.type_concentration, concentration_priors[2], concentration_priors[3])
    )


@kernel
def separation_prior_by_distance(items: DistanceItems, state: State) -> tuple[Floats, Floats, int]:
    """SCDP-2: Gamma shape and rate per feature from squared gaps v between posterior means of one restaurant.

    Prior mean = mean(v) / 2 and prior variance = var(v); Gamma(1, 1) stands in where there are fewer than three pairs or
    no spread. With X the weighted squares between two clusters and U those to the origin, a gap is
    X / (A A') + (U + U') / (sigma A A') - Z / A^2 - Z' / A'^2; below zero it is zero, and counted.
    """
    n_features, n_slots = items.observed.shape[1], items.known_in_slot.shape[0]
    prior_weight = 1.0 / state.mean_variance
    weight = seat_weights(items, state)
    everywhere = np.ones(items.slot_start.shape[0], np.bool_)
    scatters = cluster_scatters(items, state, weight, prior_weight, everywhere)
    members = list_members(state.cluster, n_slots)
    to_origin = np.zeros((n_slots, n_features))
    local_slot = np.empty(state.cluster.shape[0], np.int64)
    widest = 0
    for i in range(state.cluster.shape[0]):
        start = items.slot_start[items.restaurant[i]]
        local_slot[seat_of(items, i)] = state.cluster[i] - start
        widest = max(widest, state.cluster[i] - start + 1)
        for f in range(n_features):
            to_origin[state.cluster[i], f] += weight[seat_of(items, i), f] * items.origin[i, f]
    sums, cross = np.zeros((TURNS, widest, weight.shape[1])), np.zeros((widest, n_features))
    first_power, second_power = np.zeros(n_features), np.zeros(n_features)
    n_pairs = negative = 0
    for r in range(items.slot_start.shape[0]):
        start, first_seat = items.slot_start[r], items.member_start[r]
        n_seats = items.member_start[r + 1] - first_seat
        for slot in range(start, items.slot_end[r]):
            if scatters.count[slot] == 0:
                continue
            n_before = slot - start
            cross[:n_before] = 0.0
            for k in range(members.start[slot], members.start[slot + 1]):
                i = members.item[k]
                sums_by_cluster(
                    sums, widest, local_slot, weight, items.squared, first_seat, n_seats, items.row_start[i]
                )
                for other in range(n_before):
                    for f in range(n_features):
                        cross[other, f] += weight[seat_of(items, i), f] * sums[0, other, f]
            for other in range(n_before):
                if scatters.count[start + other] == 0:
                    continue
                n_pairs += 1
                for f in range(n_features):
                    a = prior_weight + scatters.weight[slot, f]
                    b = prior_weight + scatters.weight[start + other, f]
                    from_origin = to_origin[slot, f] + to_origin[start + other, f]
                    far = (cross[other, f] + prior_weight * from_origin) / (a * b)
                    near = scatters.scatter[slot, f] / a**2 + scatters.scatter[start + other, f] / b**2
                    negative += far - near < -ROUNDING * far
                    gap = max(far - near, 0.0)
                    first_power[f] += gap
                    second_power[f] += gap * gap
    shape, rate = np.ones(n_features), np.ones(n_features)
    if n_pairs < 3:
        return shape, rate, negative
    for f in range(n_features):
        mean = first_power[f] / n_pairs
        spread = second_power[f] / n_pairs - mean * mean
        if mean > 0.0 and spread > 1e-12 * mean * mean:
            shape[f] = 0.25 * mean * mean / spread
            rate[f] = 0.5 * mean / spread
    return shape, rate, negative
