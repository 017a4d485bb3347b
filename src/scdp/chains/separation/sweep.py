"""One sweep of SCDP-3: clusters, means, separation rate, types and precisions, each given all the rest."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scdp._typing import Floats
from scdp.chains.separation.clusters import resample_clusters_conditioned
from scdp.chains.separation.coupling import (
    PUBLISHED,
    VARIANTS,
    log_coupling,
    separation,
    spread_of,
    types_given_means,
    used_precision_sum,
)
from scdp.chains.separation.types import (
    resample_means_exactly,
    resample_means_from_candidates,
    resample_types_by_auxiliary,
)
from scdp.chains.state import GammaPrior, Info, Plan, Priors, State
from scdp.chains.vectors.items import Items
from scdp.chains.vectors.means import draw_means
from scdp.chains.vectors.types import resample_precisions, resample_types

# A rate outside [1e-9, 1e9] is ruled out: the prior gives that one in a billion, and its logarithm stays finite.
LOG_LARGEST_RATE = float(np.log(1e9))


def with_means(rng: np.random.Generator, state: State, items: Items) -> State:
    """A state to start from: means drawn as SCDP-1 would draw them."""
    return state._replace(means=draw_means(rng, items, state)[0])


def conditioned_sweep(
    rng: np.random.Generator, state: State, items: Items, plan: Plan, priors: Priors
) -> tuple[State, Info]:
    """One full update of the state except its concentrations."""
    variant = VARIANTS[plan.conditioning or "normalized"]
    moved = opened = improper = 0
    if len(items.hidden):
        cluster, means, moved, opened = resample_clusters_conditioned(
            rng, items, state, variant, plan.n_auxiliary, plan.informed
        )
        state = state._replace(cluster=cluster, means=means)
    if plan.paper_moves or len(state.mean_grid):
        means, _ = resample_means_from_candidates(rng, items, state, variant, plan.n_candidates)
    else:
        means, improper = resample_means_exactly(rng, items, state, variant)
    state = state._replace(means=means)
    if plan.learn_separation_rate:
        prior = priors.separation_rate
        rate = resample_separation_rate(rng, state, variant, prior.shape, prior.rate)
        state = state._replace(separation_rate=rate)
    state, moved_types = update_types(rng, state, items, plan, variant)
    return state, Info(moved, 0, moved_types, opened, improper)


def update_types(
    rng: np.random.Generator, state: State, items: Items, plan: Plan, variant: int
) -> tuple[State, int]:
    """Types and precisions under the prior that the means imply."""
    rate, grid_log, log_mass = types_given_means(items, state, variant)
    implied = state._replace(rate=rate, grid_log_weight=grid_log)
    if plan.paper_moves:
        types, precision, moved = resample_types_by_auxiliary(
            rng, items, implied, state.means, log_mass, plan.n_auxiliary
        )
    else:
        types, precision, moved = resample_types(rng, items, implied, state.means, log_mass)
    implied = implied._replace(type=types, precision=precision)
    precision = resample_precisions(rng, items, implied, state.means)
    return state._replace(type=types, precision=precision), moved


def coupled_prior(state: State, plan: Plan, priors: Priors, gaps: Floats, n_pairs: int) -> State:
    """The prior of precisions in the readings that change the update of types alone; `gaps` are sums over pairs.

    "types" takes the printed factor exp(-rate t S). "density" takes it for a Normal density of p_j around p_k, which
    brings t^(1/2) for each pair of clusters and feature.
    """
    prior = priors.precision
    assert isinstance(prior, GammaPrior)
    more = 0.5 * n_pairs if plan.type_coupling == "density" else 0.0
    rate = prior.rate + state.separation_rate * np.maximum(gaps, 0.0)
    return state._replace(shape=np.full_like(state.shape, prior.shape + more), rate=rate)


def resample_separation_rate(
    rng: np.random.Generator, state: State, variant: int, shape: float, rate: float
) -> float:
    """The separation rate under a Gamma(shape, rate) prior: Gamma in the published variant, else by a slice."""
    used = np.unique(state.cluster)
    spread = spread_of(state.means, used)
    precision_sum, n_types = used_precision_sum(state)
    if variant == PUBLISHED:
        pairs = len(used) * (len(used) - 1) / 2
        pull = float(precision_sum @ separation(spread, variant))
        return float(rng.standard_gamma(shape + n_types * pairs) / (rate + pull))

    factor = np.empty((1, len(precision_sum)))

    def log_coupling_at(value: float) -> float:
        now = state._replace(separation_rate=value)
        return log_coupling(now, spread, precision_sum, 0, n_types, precision_sum, variant, factor)

    return slice_separation_rate(rng, state.separation_rate, shape, rate, log_coupling_at)


def slice_separation_rate(
    rng: np.random.Generator,
    value: float,
    shape: float,
    rate: float,
    log_coupling_at: Callable[[float], float],
) -> float:
    """A slice step for the logarithm of the separation rate, under a Gamma(shape, rate) prior."""

    def log_density(log_value: float) -> float:
        if abs(log_value) > LOG_LARGEST_RATE:
            return -np.inf
        now = float(np.exp(log_value))
        return shape * log_value - rate * now + log_coupling_at(now)

    return float(np.exp(slice_on_line(rng, float(np.log(value)), log_density)))


def slice_on_line(
    rng: np.random.Generator, x: float, log_density: Callable[[float], float], width: float = 1.0
) -> float:
    """One slice-sampling step: stepping out, then shrinking."""
    height = log_density(x) - rng.standard_exponential()
    left = x - width * rng.random()
    right = left + width
    while log_density(left) > height:
        left -= width
    while log_density(right) > height:
        right += width
    while True:
        y = left + (right - left) * rng.random()
        if log_density(y) > height:
            return float(y)
        left, right = (y, right) if y < x else (left, y)
