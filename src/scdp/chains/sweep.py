"""The concentration of a Dirichlet process given its clusters, in one or many groups (West; Appendix B).

Given x_m ~ Beta(alpha + 1, n_m), the density of alpha is a Gamma density times prod (alpha + n_m). Multiplied
out, that is a mixture of M + 1 Gammas weighed by the elementary symmetric polynomials of the n_m: drawn exactly."""

from __future__ import annotations

from collections.abc import Callable
from math import lgamma
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from scdp._compile import kernel
from scdp._typing import Floats, Integers
from scdp.chains.arithmetic import choose, n_distinct
from scdp.chains.distances.items import AnyItems, DistanceItems
from scdp.chains.distances.sweep import distance_sweep
from scdp.chains.separation.sweep import conditioned_sweep
from scdp.chains.state import Info, Plan, Priors, State
from scdp.chains.vectors.clusters import resample_clusters, resample_clusters_given_means
from scdp.chains.vectors.items import Items
from scdp.chains.vectors.means import draw_mean_variance, draw_means, separation_prior
from scdp.chains.vectors.split_merge import split_merge
from scdp.chains.vectors.types import resample_precisions, resample_types


@kernel
def log_symmetric_polynomials(sizes: Integers) -> Floats:
    """Log of e_0, …, e_M of the sizes, one size after another: e_j becomes e_j + n_m e_(j-1)."""
    n = sizes.shape[0]
    result = np.full(n + 1, -np.inf)
    result[0] = 0.0
    for m in range(n):
        log_size = np.log(sizes[m])
        for j in range(m + 1, 0, -1):
            result[j] = np.logaddexp(result[j], result[j - 1] + log_size)
    return result


@kernel
def resample_concentration(
    rng: np.random.Generator,
    concentration: float,
    sizes: Integers,
    n_clusters: int,
    log_symmetric: Floats,
    shape: float,
    rate: float,
) -> float:
    """Draw alpha under a Gamma(shape, rate) prior; `n_clusters` counts the clusters of all groups."""
    n = sizes.shape[0]
    after_rate = rate
    for m in range(n):
        after_rate -= np.log(rng.beta(concentration + 1.0, sizes[m]))
    log_weight = np.empty(n + 1)
    for j in range(n + 1):
        after_shape = shape - n + n_clusters + j
        log_weight[j] = log_symmetric[n - j] + lgamma(after_shape) - after_shape * np.log(after_rate)
    after_shape = shape - n + n_clusters + choose(rng, log_weight, n + 1)
    return rng.standard_gamma(after_shape) / after_rate


def expected_clusters(n: ArrayLike, concentration: float) -> tuple[Floats, Floats]:
    """Mean and standard deviation of the number of clusters among n items."""
    n = np.asarray(n, dtype=np.int64)
    opens = concentration / (concentration + np.arange(max(int(n.max(initial=0)), 1)))
    mean = np.concatenate([[0.0], np.cumsum(opens)])
    variance = np.concatenate([[0.0], np.cumsum(opens * (1 - opens))])
    return mean[n], np.sqrt(variance[n])


class Constants(NamedTuple):
    """What concentration updates need and no sweep changes: sizes and their log symmetric polynomials."""

    sizes: Integers
    log_symmetric: Floats
    all_items: Integers
    log_symmetric_all: Floats


def constants_of(items: AnyItems) -> Constants:
    sizes = items.sizes
    whole = np.array([len(items.group)], dtype=np.int64)
    return Constants(sizes, log_symmetric_polynomials(sizes), whole, log_symmetric_polynomials(whole))


def sweep(
    rng: np.random.Generator, state: State, items: AnyItems, plan: Plan, priors: Priors, constants: Constants
) -> tuple[State, Info]:
    """One full update of the state under the plan."""
    state, info = step_of(plan, items)(rng, state, items, plan, priors)
    if plan.learn_concentrations:
        state = update_concentrations(rng, state, priors, constants)
    return state, info


def settle_types(
    rng: np.random.Generator, state: State, items: AnyItems, plan: Plan, priors: Priors, n_rounds: int = 10
) -> State:
    """Update types and precisions alone, the clusters as they are.

    A start needs it: while precisions are still those of the prior, the first pass over the clusters would throw
    items together that the known clusters already tell apart, and a chain can stay there for long.
    """
    frozen = items._replace(hidden=items.hidden[:0])
    for _ in range(n_rounds if plan.learn_types else 0):
        state, _ = step_of(plan, items)(rng, state, frozen, plan, priors)
    return state


def step_of(plan: Plan, items: AnyItems) -> Callable[..., tuple[State, Info]]:
    if isinstance(items, DistanceItems):
        return distance_sweep
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


def paper_sweep(
    rng: np.random.Generator, state: State, items: Items, plan: Plan, priors: Priors
) -> tuple[State, Info]:
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
    return state


def update_concentrations(
    rng: np.random.Generator, state: State, priors: Priors, constants: Constants
) -> State:
    """Both concentrations, each given how many clusters (types) there are."""
    n_clusters, n_types = n_distinct(state.cluster), n_distinct(state.type)
    prior = priors.cluster_concentration
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
