"""The log joint density of a state on distances, means integrated out: the scalar every chain reports each sweep."""

from __future__ import annotations

import numpy as np

from scdp._compile import kernel
from scdp._typing import Floats
from scdp.chains.arithmetic import slot_counts
from scdp.chains.distances.centroids import centroids_of, log_coupling_of_centroids
from scdp.chains.distances.items import DistanceItems
from scdp.chains.distances.rows import cluster_scatters, weights_by_position
from scdp.chains.state import State
from scdp.chains.vectors.density import LOG_2PI, log_gamma_density, log_partition_prior, log_precision_prior


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
    """Everything, as scdp.chains.vectors.density.log_joint has it for points."""
    counts = slot_counts(state.cluster, items.known_in_slot.shape[0])
    type_counts = slot_counts(state.type, state.precision.shape[0])
    whole = np.array([0]), np.array([type_counts.shape[0]])
    return (
        log_data_of_distances(items, state)
        + log_partition_prior(
            counts, items.slot_start, items.slot_end, state.cluster_concentration, state.discount
        )
        + log_partition_prior(type_counts, whole[0], whole[1], state.type_concentration)
        + log_precision_prior(state, type_counts)
        + log_gamma_density(state.cluster_concentration, concentration_priors[0], concentration_priors[1])
        + log_gamma_density(state.type_concentration, concentration_priors[2], concentration_priors[3])
    )


@kernel
def log_joint_of_centroids(
    items: DistanceItems, state: State, variant: int, concentration_priors: Floats
) -> float:
    """The same for SCDP-3: times the coupling of precisions and gaps between centroids."""
    coupling = log_coupling_of_centroids(state, centroids_of(items, state.cluster, variant))
    return log_joint_of_distances(items, state, concentration_priors) + coupling
