"""The log joint density of data and state, means integrated out: the scalar a chain reports each sweep."""

from __future__ import annotations

from math import lgamma

import numpy as np

from scdp._compile import kernel
from scdp._typing import Floats, Integers
from scdp.chains.arithmetic import cluster_sums, slot_counts
from scdp.chains.state import State
from scdp.chains.vectors.items import Items

LOG_2PI = float(np.log(2 * np.pi))


@kernel
def log_gamma_density(value: float, shape: float, rate: float) -> float:
    return shape * np.log(rate) - lgamma(shape) + (shape - 1.0) * np.log(value) - rate * value


@kernel
def log_partition_prior(
    counts: Integers, start: Integers, end: Integers, concentration: float, discount: float = 0.0
) -> float:
    """Log probability of the layout of every group, each a range of slots."""
    total = 0.0
    for r in range(start.shape[0]):
        n = n_clusters = 0
        for slot in range(start[r], end[r]):
            if counts[slot] > 0:
                n += counts[slot]
                total += np.log(concentration + discount * n_clusters)
                total += lgamma(counts[slot] - discount) - lgamma(1.0 - discount)
                n_clusters += 1
        if n > 0:
            total += lgamma(concentration) - lgamma(concentration + n)
    return total


@kernel
def log_precision_prior(state: State, counts: Integers) -> float:
    total = 0.0
    for kind in range(counts.shape[0]):
        if counts[kind] == 0:
            continue
        if state.grid.shape[0] > 0:
            for g in range(state.grid.shape[0]):
                if (state.grid[g] == state.precision[kind]).all():
                    total += state.grid_log_weight[g]
        else:
            for f in range(state.shape.shape[0]):
                total += log_gamma_density(state.precision[kind, f], state.shape[f], state.rate[f])
    return total


@kernel
def log_data(items: Items, state: State) -> float:
    """Log density of the points given clusters, types and precisions."""
    sums = cluster_sums(items, state)
    prior_weight = 1.0 / state.mean_variance
    log_precision = np.log(state.precision)
    total = 0.0
    for i in range(items.points.shape[0]):
        kind = state.type[i]
        for f in range(items.points.shape[1]):
            square = state.precision[kind, f] * items.points[i, f] ** 2
            total += items.observed[i, f] * (log_precision[kind, f] - LOG_2PI - square)
    for slot in range(sums.size.shape[0]):
        if sums.size[slot] > 0:
            for f in range(items.points.shape[1]):
                a = prior_weight + sums.weight[slot, f]
                total += sums.pull[slot, f] ** 2 / a - np.log(a / prior_weight)
    return 0.5 * total


@kernel
def log_prior_of_labels(
    items: Items, state: State, counts: Integers, type_counts: Integers, concentration_priors: Floats
) -> float:
    """Log prior of clusters, types, precisions and concentrations.

    `concentration_priors` holds shape and rate of the cluster concentration, then of the type concentration.
    """
    whole = np.array([0]), np.array([type_counts.shape[0]])
    return (
        log_partition_prior(
            counts, items.slot_start, items.slot_end, state.cluster_concentration, state.discount
        )
        + log_partition_prior(type_counts, whole[0], whole[1], state.type_concentration)
        + log_precision_prior(state, type_counts)
        + log_gamma_density(state.cluster_concentration, concentration_priors[0], concentration_priors[1])
        + log_gamma_density(state.type_concentration, concentration_priors[2], concentration_priors[3])
    )


@kernel
def log_joint(items: Items, state: State, concentration_priors: Floats) -> float:
    """Everything: data, clusters, types, precisions and concentrations."""
    counts = slot_counts(state.cluster, items.known_in_slot.shape[0])
    type_counts = slot_counts(state.type, state.precision.shape[0])
    return log_data(items, state) + log_prior_of_labels(
        items, state, counts, type_counts, concentration_priors
    )
