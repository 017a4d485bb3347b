"""One sweep: the plan and the kind of items enter; every part of the state is drawn once given the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from scdp._typing import Floats, Integers
from scdp.chains.arithmetic import (
    log_symmetric_polynomials,
    n_distinct,
    resample_concentration,
    resample_discounted_concentration,
)
from scdp.chains.counts import count_sweep
from scdp.chains.distances.clusters import distance_sweep
from scdp.chains.items import AnyItems, CountItems, DistanceItems, Items, group_sizes
from scdp.chains.separation.coupling import spread_of
from scdp.chains.separation.types import conditioned_sweep, coupled_prior
from scdp.chains.state import Info, Plan, Priors, State
from scdp.chains.vectors.clusters import resample_clusters, resample_clusters_given_means
from scdp.chains.vectors.split_merge import split_merge
from scdp.chains.vectors.types import (
    draw_mean_variance,
    draw_means,
    resample_precisions,
    resample_types,
    separation_prior,
)

# Rounds of types and precisions that a start needs.
SETTLING_ROUNDS = 10


class Constants(NamedTuple):
    """What concentration updates need and no sweep changes: sizes and their log symmetric polynomials."""

    sizes: Integers
    group_of_slot: Integers
    log_symmetric: Floats
    all_items: Integers
    log_symmetric_all: Floats


def constants_of(items: AnyItems) -> Constants:
    sizes = group_sizes(items)
    whole = np.array([len(items.group)], dtype=np.int64)
    group_of_slot = np.repeat(np.arange(len(sizes)), items.slot_end - items.slot_start)
    symmetric, symmetric_all = log_symmetric_polynomials(sizes), log_symmetric_polynomials(whole)
    return Constants(sizes, group_of_slot, symmetric, whole, symmetric_all)


def sweep(
    rng: np.random.Generator, state: State, items: AnyItems, plan: Plan, priors: Priors, constants: Constants
) -> tuple[State, Info]:
    """One full update of the state under the plan."""
    state, info = step_of(plan, items)(rng, state, items, plan, priors)
    if plan.learn_scale:
        state = update_scale(rng, state, priors)
    if plan.learn_concentrations:
        state = update_concentrations(rng, state, priors, constants)
    return state, info


def settle_types(rng: np.random.Generator, state: State, items: AnyItems, plan: Plan, priors: Priors) -> State:
    """Update types and precisions alone, the clusters as they are.

    A start needs it: while precisions are still those of the prior, the first pass over the clusters would throw
    items together that the known clusters already tell apart, and a chain can stay there for long.
    """
    frozen = items._replace(hidden=items.hidden[:0])
    for _ in range(SETTLING_ROUNDS if plan.learn_types else 0):
        state, _ = step_of(plan, items)(rng, state, frozen, plan, priors)
    return state


def step_of(plan: Plan, items: AnyItems) -> Callable[..., tuple[State, Info]]:
    if isinstance(items, DistanceItems):
        return distance_sweep
    if isinstance(items, CountItems):
        return count_sweep
    if plan.conditioning is not None:
        return conditioned_sweep
    return collapsed_sweep if plan.scheme == "collapsed" else paper_sweep


def collapsed_sweep(
    rng: np.random.Generator, state: State, items: Items, plan: Plan, priors: Priors
) -> tuple[State, Info]:
    """Clusters with means integrated out; then means are drawn, serve the type updates, and are forgotten."""
    moved = accepted = moved_types = 0
    if len(items.hidden):
        cluster, moved = resample_clusters(rng, items, state)
        state = state._replace(cluster=cluster)
    if len(items.hidden) and plan.split_merge_attempts:
        cluster, accepted = split_merge(rng, items, state, plan.split_merge_attempts)
        state = state._replace(cluster=cluster)
    if plan.learn_types or plan.learn_mean_variance:
        means, used = draw_means(rng, items, state)
        state = update_priors(rng, state, plan, priors, means, used)
        if plan.learn_types:
            types, precision, moved_types = resample_types(rng, items, state, means)
            state = state._replace(type=types, precision=precision)
            state = state._replace(precision=resample_precisions(rng, items, state, means))
    return state, Info(moved, accepted, moved_types)


def paper_sweep(rng: np.random.Generator, state: State, items: Items, plan: Plan, priors: Priors) -> tuple[State, Info]:
    """The paper's Figure 2: means, precisions, then clusters and types given both."""
    moved_types = 0
    means, used = draw_means(rng, items, state)
    state = update_priors(rng, state, plan, priors, means, used)
    if plan.learn_types:
        state = state._replace(precision=resample_precisions(rng, items, state, means))
    cluster, means, moved = resample_clusters_given_means(rng, items, state, means)
    state = state._replace(cluster=cluster)
    if plan.learn_types:
        types, precision, moved_types = resample_types(rng, items, state, means)
        state = state._replace(type=types, precision=precision)
    return state, Info(moved, 0, moved_types)


def update_priors(
    rng: np.random.Generator, state: State, plan: Plan, priors: Priors, means: Floats, used: Integers
) -> State:
    """The mean variance where it is learned, and SCDP-2's precision prior."""
    if plan.learn_mean_variance:
        prior = priors.mean_precision
        variance = draw_mean_variance(rng, means, used, prior.shape, prior.rate)
        state = state._replace(mean_variance=variance)
    if plan.separation:
        shape, rate = separation_prior(means, used)
        state = state._replace(shape=shape, rate=rate)
    if plan.type_coupling:
        spread = spread_of(means, used)
        gaps, n_pairs = spread.n * spread.square - spread.total**2, spread.n * (spread.n - 1) // 2
        state = coupled_prior(state, plan, priors, gaps, n_pairs)
    return state


def update_scale(rng: np.random.Generator, state: State, priors: Priors) -> State:
    """The rate b of the Gamma(a, b) prior on precisions, one for all features, under a Gamma prior of its own.

    Features of another scale ask for another b: with it and the mean variance learned, no scale is given.
    """
    rows = state.precision[np.unique(state.type)]
    after_shape = priors.precision_rate.shape + rows.shape[0] * state.shape.sum()
    rate = rng.standard_gamma(after_shape) / (priors.precision_rate.rate + rows.sum())
    return state._replace(rate=np.full_like(state.rate, rate))


def update_concentrations(rng: np.random.Generator, state: State, priors: Priors, constants: Constants) -> State:
    """Both concentrations, each given how many clusters (types) there are."""
    n_clusters, n_types = n_distinct(state.cluster), n_distinct(state.type)
    prior = priors.cluster_concentration
    if state.discount > 0:
        in_group = np.bincount(constants.group_of_slot[np.unique(state.cluster)], minlength=len(constants.sizes))
        alpha_cluster = resample_discounted_concentration(rng, state, constants.sizes, in_group, prior)
    else:
        alpha_cluster = resample_concentration(
            rng, state.cluster_concentration, constants.sizes, n_clusters, constants.log_symmetric,
            prior.shape, prior.rate,
        )  # fmt: skip
    prior = priors.type_concentration
    alpha_type = resample_concentration(
        rng, state.type_concentration, constants.all_items, n_types, constants.log_symmetric_all,
        prior.shape, prior.rate,
    )  # fmt: skip
    return state._replace(cluster_concentration=alpha_cluster, type_concentration=alpha_type)
