"""One sweep on distances, means integrated out throughout: clusters, split-merge moves, priors, types, precisions.

SCDP-3 knows the clusters by their centroids: what it conditions precisions on is a function of partition and data.
"""

from __future__ import annotations

import numpy as np

from scdp.chains.arithmetic import n_distinct
from scdp.chains.distances.centroids import (
    Centroids,
    centroids_of,
    gap_powers,
    log_coupling_of_centroids,
    separation_by_distance,
    separation_prior_by_distance,
)
from scdp.chains.distances.clusters import resample_clusters_by_distance
from scdp.chains.distances.items import DistanceItems
from scdp.chains.distances.precisions import (
    resample_mean_variance_by_distance,
    resample_precisions_by_distance,
)
from scdp.chains.distances.rows import ROUNDING
from scdp.chains.distances.split_merge import split_merge_by_distance
from scdp.chains.distances.types import resample_types_by_distance
from scdp.chains.separation.coupling import VARIANTS, precision_prior_given
from scdp.chains.separation.sweep import coupled_prior, slice_separation_rate
from scdp.chains.state import Info, Plan, Priors, State
from scdp.errors import InputError


def distance_sweep(
    rng: np.random.Generator, state: State, items: DistanceItems, plan: Plan, priors: Priors
) -> tuple[State, Info]:
    """One full update of the state except its concentrations."""
    check_plan(plan)
    centroids = centroids_of(items, state.cluster, VARIANTS[plan.conditioning]) if plan.conditioning else None
    moved = accepted = opened = moved_types = 0
    in_clusters = in_moves = in_gaps = in_types = 0
    if len(items.hidden):
        cluster, moved, opened, in_clusters = resample_clusters_by_distance(rng, items, state, centroids)
        state = state._replace(cluster=cluster)
        cluster, accepted, in_moves = split_merge_by_distance(
            rng, items, state, plan.split_merge_attempts, centroids
        )
        # Of the moves accepted, each split made one cluster more and each merge one less.
        opened += (accepted + n_distinct(cluster) - n_distinct(state.cluster)) // 2
        state = state._replace(cluster=cluster)
    if plan.learn_mean_variance:
        prior = priors.mean_precision
        variance = resample_mean_variance_by_distance(rng, items, state, prior.shape, prior.rate)
        state = state._replace(mean_variance=variance)
    if plan.separation:
        shape, rate, in_gaps = separation_prior_by_distance(items, state)
        state = state._replace(shape=shape, rate=rate)
    if plan.type_coupling:
        powers, n_pairs, in_gaps = gap_powers(items, state)
        state = coupled_prior(state, plan, priors, powers[0], n_pairs)
    if centroids is not None:
        in_gaps = int((centroids.total < -ROUNDING).sum())
        if plan.learn_separation_rate:
            state = update_separation_rate(rng, state, centroids, priors)
    if plan.learn_types:
        state, moved_types, in_types = update_types(rng, state, items, plan, centroids)
    negative = in_clusters + in_moves + in_gaps + in_types
    return state, Info(moved, accepted, moved_types, opened, negative_norms=negative)


def update_types(
    rng: np.random.Generator, state: State, items: DistanceItems, plan: Plan, centroids: Centroids | None
) -> tuple[State, int, int]:
    """Types and precisions; in SCDP-3 under the prior that the gaps between centroids imply."""
    implied = state
    if centroids is not None:
        gaps = separation_by_distance(centroids, items.n_features)
        rate, grid_log, _ = precision_prior_given(state, gaps)
        implied = state._replace(rate=rate, grid_log_weight=grid_log)
    types, precision, moved, negative = resample_types_by_distance(rng, items, implied, plan.n_auxiliary)
    implied = implied._replace(type=types, precision=precision)
    precision = resample_precisions_by_distance(rng, items, implied)
    return state._replace(type=types, precision=precision), moved, negative


def update_separation_rate(
    rng: np.random.Generator, state: State, centroids: Centroids, priors: Priors
) -> State:
    """SCDP-3's separation rate, where it is learned."""

    def log_coupling_at(value: float) -> float:
        return log_coupling_of_centroids(state._replace(separation_rate=value), centroids)

    prior = priors.separation_rate
    value = slice_separation_rate(rng, state.separation_rate, prior.shape, prior.rate, log_coupling_at)
    return state._replace(separation_rate=value)


def check_plan(plan: Plan) -> None:
    """Refuse what needs means, which distances do not have."""
    if plan.scheme == "paper":
        raise InputError(
            "scheme='paper' samples cluster means, which distances do not have: use scheme='collapsed'"
        )
    if plan.conditioning == "published":
        raise InputError(
            "conditioning='published' weighs powers of the density of each cluster mean, which distances do not have: "
            "use conditioning='normalized' or 'mean'"
        )
