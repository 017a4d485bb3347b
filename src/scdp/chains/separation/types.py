"""SCDP-3's means given everything else: Gaussian draws or slices, or the paper's choice among candidates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scdp._compile import kernel
from scdp._typing import Floats, Integers
from scdp.chains.arithmetic import choose, cluster_sums, log_table, lowest_empty, slice_on_line, slot_counts
from scdp.chains.items import Items
from scdp.chains.separation.clusters import draw_auxiliary, openings_of, resample_clusters_conditioned
from scdp.chains.separation.coupling import (
    PUBLISHED,
    VARIANTS,
    add_log_couplings,
    change_spread,
    log_coupling,
    log_given_mean,
    log_mean_prior,
    pair_scale,
    ranks_of,
    separation,
    spread_of,
    types_given_means,
    used_precision_sum,
)
from scdp.chains.state import GammaPrior, Info, Plan, Priors, State
from scdp.chains.vectors.types import (
    NEW,
    add_log_densities,
    draw_means,
    draw_row,
    grown,
    resample_precisions,
    resample_types,
    squared_residuals,
)


@kernel
def log_mean_density(
    x: float, centre: float, precision: float, curve: float, slope: float, level: float, power: float
) -> float:
    """Log density of one coordinate of a mean: Gaussian times (1 + curve x^2 + slope x + level)^power."""
    factor = 1.0 + max(curve * x * x + slope * x + level, 0.0)
    return -0.5 * precision * (x - centre) ** 2 + power * np.log(factor)


@kernel
def slice_step(
    rng: np.random.Generator, x: float, width: float, centre: float, precision: float, curve: float,
    slope: float, level: float, power: float,
) -> float:  # fmt: skip
    """One exact slice-sampling step (stepping out, then shrinking; Neal 2003) on a mean's coordinate."""
    height = log_mean_density(x, centre, precision, curve, slope, level, power) - rng.standard_exponential()
    left = x - width * rng.random()
    right = left + width
    while log_mean_density(left, centre, precision, curve, slope, level, power) > height:
        left -= width
    while log_mean_density(right, centre, precision, curve, slope, level, power) > height:
        right += width
    while True:
        y = left + (right - left) * rng.random()
        if log_mean_density(y, centre, precision, curve, slope, level, power) > height:
            return y
        if y < x:
            left = y
        else:
            right = y


@kernel
def resample_means_exactly(rng: np.random.Generator, items: Items, state: State, variant: int) -> tuple[Floats, int]:
    """Every coordinate of every used mean given the rest: Gaussian in the published variant, else by slices.

    Returns the means and how many coordinates had no proper conditional (negative precision): those stay.
    """
    means = state.means.copy()
    sums = cluster_sums(items, state)
    ranks = ranks_of(state.cluster, items.known_in_slot.shape[0])
    used = np.flatnonzero(sums.size)
    spread = spread_of(means, used)
    precision_sum, n_types = used_precision_sum(state)
    n = used.shape[0]
    scale = state.separation_rate * pair_scale(n, variant)
    improper = 0
    for j in range(n):
        slot = ranks.order[j]
        power = 1.0 + n_types * (2.0 * j - n) if variant == PUBLISHED else 1.0
        for f in range(means.shape[1]):
            others = spread.total[f] - means[slot, f]
            others_square = spread.square[f] - means[slot, f] ** 2
            pull = 2.0 * scale * precision_sum[f]
            precision = power / state.mean_variance + sums.weight[slot, f] + pull * (n - 1)
            if precision <= 0.0:
                improper += 1
                continue
            centre = (sums.pull[slot, f] + pull * others) / precision
            if variant == PUBLISHED:
                x = centre + rng.standard_normal() / np.sqrt(precision)
            else:
                tilt = scale / state.rate[f]
                x = slice_step(
                    rng, means[slot, f], 3.0 / np.sqrt(precision), centre, precision, tilt * (n - 1),
                    -2.0 * tilt * others, tilt * (n * others_square - others * others),
                    n_types * state.shape[f],
                )  # fmt: skip
            means[slot, f] = x
            spread.total[f] = others + x
            spread.square[f] = others_square + x * x
    return means, improper


@kernel
def resample_means_from_candidates(
    rng: np.random.Generator, items: Items, state: State, variant: int, n_candidates: int
) -> tuple[Floats, int]:
    """The paper's move: the current mean and draws from the prior, one of them chosen by its posterior weight.

    Returns the means and how many changed.
    """
    means = state.means.copy()
    ranks = ranks_of(state.cluster, items.known_in_slot.shape[0])
    spread = spread_of(means, np.flatnonzero(ranks.size))
    precision_sum, n_types = used_precision_sum(state)
    n = ranks.n[0]
    n_options = n_candidates + 1
    options = np.empty((n_options, means.shape[1]))
    log_weight = np.empty(n_options)
    factor = np.empty((1, means.shape[1]))
    grid_log = np.empty(state.mean_grid.shape[0])
    openings = openings_of(state)
    changed = 0
    for j in range(n):
        slot = ranks.order[j]
        options[0] = means[slot]
        draw_auxiliary(rng, items, state, 0, openings, False, options, 1, grid_log)
        base = change_spread(spread, means[slot], -1)
        for a in range(n_options):
            log_weight[a] = 0.0
            if variant == PUBLISHED:
                log_weight[a] += n_types * (2.0 * j - n) * log_mean_prior(state, options[a])
            for i in range(state.cluster.shape[0]):
                if state.cluster[i] == slot:
                    log_weight[a] += log_given_mean(items, i, state.precision[state.type[i]], options[a])
        add_log_couplings(log_weight, 0, state, base, options, n_types, precision_sum, variant, factor)
        pick = choose(rng, log_weight, n_options)
        changed += not (options[pick] == means[slot]).all()
        means[slot] = options[pick]
        spread = change_spread(base, means[slot], 1)
    return means, changed


@kernel
def resample_types_by_auxiliary(
    rng: np.random.Generator, items: Items, state: State, means: Floats, log_new_factor: float, n_auxiliary: int
) -> tuple[Integers, Floats, int]:
    """One pass over every item's type; returns type slots, precision rows and how many items moved."""
    n, n_features = items.points.shape
    types = state.type.copy()
    high = types.max() + 1
    precision = grown(state.precision.copy(), high + 1)
    counts = slot_counts(types, n + 2)
    logs = log_table(n)
    log_share = np.log(state.type_concentration / n_auxiliary) + log_new_factor
    square = np.empty(n_features)
    nothing = np.zeros(n_features)
    grid_log = np.empty(state.grid.shape[0])
    log_weight = np.empty(n + 2 + n_auxiliary)
    candidate = np.empty(n + 2 + n_auxiliary, np.int64)
    auxiliary = np.empty((n_auxiliary, n_features))
    every = np.arange(n_auxiliary)
    moved = 0
    for i in range(n):
        own, observed, complete = types[i], items.observed[i], items.complete[i]
        squared_residuals(items, i, means[state.cluster[i]], square)
        counts[own] -= 1
        m = 0
        for kind in range(high):
            if counts[kind] > 0:
                candidate[m] = kind
                log_weight[m] = logs[counts[kind]]
                m += 1
        log_rows, half = logs_of(precision)
        add_log_densities(log_weight, candidate, m, precision, log_rows, half, observed, complete, square)
        # A type that only this item used is not lost: it is the first of the auxiliary ones.
        kept = counts[own] == 0
        if kept:
            auxiliary[0] = precision[own]
        for a in range(int(kept), n_auxiliary):
            draw_row(rng, state, nothing, nothing, grid_log, auxiliary[a])
        log_rows, half = logs_of(auxiliary)
        opened = log_weight[m : m + n_auxiliary]
        opened[:] = log_share
        add_log_densities(opened, every, n_auxiliary, auxiliary, log_rows, half, observed, complete, square)
        candidate[m : m + n_auxiliary] = NEW
        pick = choose(rng, log_weight, m + n_auxiliary)
        chosen = candidate[pick]
        if chosen == NEW:
            chosen = lowest_empty(counts, 0)
            precision = grown(precision, chosen + 1)
            precision[chosen] = auxiliary[pick - m]
        counts[chosen] += 1
        high = max(high, chosen + 1)
        while counts[high - 1] == 0:
            high -= 1
        types[i] = chosen
        moved += chosen != own
    return types, precision, moved


@kernel
def logs_of(rows: Floats) -> tuple[Floats, Floats]:
    """Logarithms of precision rows, and half their sum by row."""
    log_rows = np.log(rows)
    return log_rows, 0.5 * log_rows.sum(axis=1)


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


def update_types(rng: np.random.Generator, state: State, items: Items, plan: Plan, variant: int) -> tuple[State, int]:
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


def resample_separation_rate(rng: np.random.Generator, state: State, variant: int, shape: float, rate: float) -> float:
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
    rng: np.random.Generator, value: float, shape: float, rate: float, log_coupling_at: Callable[[float], float]
) -> float:
    """A slice step for the logarithm of the separation rate, under a Gamma(shape, rate) prior."""

    def log_density(log_value: float) -> float:
        if abs(log_value) > LOG_LARGEST_RATE:
            return -np.inf
        now = float(np.exp(log_value))
        return shape * log_value - rate * now + log_coupling_at(now)

    return float(np.exp(slice_on_line(rng, float(np.log(value)), log_density)))
