"""SCDP-3's target density, and the prior of precisions that the means imply."""

from __future__ import annotations

import numpy as np

from scdp._compile import kernel
from scdp._typing import Floats
from scdp.chains.arithmetic import slot_counts
from scdp.chains.separation.coupling import (
    PUBLISHED,
    log_coupling,
    log_mean_prior,
    precision_prior_given,
    ranks_of,
    separation,
    spread_of,
)
from scdp.chains.state import State
from scdp.chains.vectors.density import LOG_2PI, log_prior_of_labels
from scdp.chains.vectors.items import Items


@kernel
def log_given_mean(items: Items, i: int, row: Floats, mean: Floats) -> float:
    """Log density of item i given a mean, without the terms in log precision."""
    square = 0.0
    for f in range(row.shape[0]):
        gap = items.points[i, f] - mean[f]
        square += items.observed[i, f] * row[f] * gap * gap
    return -0.5 * square


@kernel
def used_precision_sum(state: State) -> tuple[Floats, int]:
    """Sum of the used types' precisions by feature, and how many types are used."""
    counts = slot_counts(state.type, state.precision.shape[0])
    total = np.zeros(state.precision.shape[1])
    n = 0
    for kind in range(counts.shape[0]):
        if counts[kind] > 0:
            n += 1
            total += state.precision[kind]
    return total, n


@kernel
def types_given_means(items: Items, state: State, variant: int) -> tuple[Floats, Floats, float]:
    """The precision prior that the means imply: rates, grid log weights, and the log mass a new type brings.

    Given the means, types are a Dirichlet-process mixture with this prior, so SCDP-1's exact updates serve. Only
    the published variant is not normalised: there a new type multiplies the joint by more than a density.
    """
    ranks = ranks_of(state.cluster, items.known_in_slot.shape[0])
    spread = spread_of(state.means, np.flatnonzero(ranks.size))
    rate, grid_log, log_mass = precision_prior_given(state, separation(spread, variant))
    if variant != PUBLISHED:
        return rate, grid_log, 0.0
    n = ranks.n[0]
    for j in range(n):
        log_mass += (2.0 * j - n) * log_mean_prior(state, state.means[ranks.order[j]])
    return rate, grid_log, log_mass + 0.5 * n * (n - 1) * np.log(state.separation_rate)


@kernel
def log_joint_conditioned(items: Items, state: State, variant: int, concentration_priors: Floats) -> float:
    """Log of the target of SCDP-3: data, clusters, means, types, precisions, concentrations and the coupling."""
    ranks = ranks_of(state.cluster, items.known_in_slot.shape[0])
    type_counts = slot_counts(state.type, state.precision.shape[0])
    precision_sum, n_types = used_precision_sum(state)
    spread = spread_of(state.means, np.flatnonzero(ranks.size))
    n = ranks.n[0]
    factor = np.empty((1, items.points.shape[1]))
    total = log_coupling(state, spread, precision_sum, 0, n_types, precision_sum, variant, factor)
    for j in range(n):
        power = 1.0 + n_types * (2.0 * j - n) if variant == PUBLISHED else 1.0
        total += power * log_mean_prior(state, state.means[ranks.order[j]])
    for i in range(state.cluster.shape[0]):
        row = state.precision[state.type[i]]
        total += log_given_mean(items, i, row, state.means[state.cluster[i]])
        for f in range(row.shape[0]):
            total += 0.5 * items.observed[i, f] * (np.log(row[f]) - LOG_2PI)
    return total + log_prior_of_labels(items, state, ranks.size, type_counts, concentration_priors)
