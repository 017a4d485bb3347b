"""SCDP-3's sweep, whose means are part of the state: clusters, then means, types and the separation rate.

A new cluster brings a mean that changes the prior of every precision, so its weight has no closed form: M auxiliary
means stand for it (Neal's Algorithm 8). They are drawn from the posterior of a mean given the item alone ("informed"),
weighed by prior over proposal, which is exact for every M and needs far fewer of them than draws from the prior as in
the paper. Means are then Gaussian draws or slices, or the paper's choice among candidates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from scdp._compile import kernel
from scdp._typing import Floats, Integers
from scdp.chains import Info, Plan, Priors, State
from scdp.chains.arithmetic import choose, cluster_sums, highest_used, log_sum, log_table, lowest_empty, slice_on_line
from scdp.chains.items import Items
from scdp.chains.vector_clusters import log_given_mean, widest_range
from scdp.chains.vector_coupling import (
    PUBLISHED,
    VARIANTS,
    Ranks,
    Spread,
    add_log_couplings,
    change_spread,
    item_joins,
    item_leaves,
    log_coupling,
    log_mean_prior,
    pair_scale,
    prefix_sums,
    rank_weighted,
    rank_weighted_after_join,
    rank_weighted_after_open,
    ranks_of,
    separation,
    spread_of,
    types_given_means,
    used_precision_sum,
)
from scdp.chains.vector_types import draw_means, resample_precisions, resample_types, resample_types_by_auxiliary


class Openings(NamedTuple):
    """Per type and feature, what opening a cluster needs: the mean given one item is Normal(shift r, deviation^2),
    and `drag` and `log_share` give the item's marginal density."""

    shift: Floats
    deviation: Floats
    drag: Floats
    log_share: Floats


@kernel
def openings_of(state: State) -> Openings:
    a = 1.0 / state.mean_variance + state.precision
    share = 1.0 / (state.mean_variance * a)
    return Openings(state.precision / a, 1.0 / np.sqrt(a), share * state.precision, np.log(share))


@kernel
def draw_auxiliary(
    rng: np.random.Generator, items: Items, state: State, i: int, openings: Openings, informed: bool,
    auxiliary: Floats, first: int, grid_log: Floats,
) -> None:  # fmt: skip
    """Means that item i might open a cluster with: from the prior, or from the posterior given the item."""
    kind = state.type[i]
    if state.mean_grid.shape[0] > 0:
        for a in range(first, auxiliary.shape[0]):
            for g in range(grid_log.shape[0]):
                grid_log[g] = state.mean_grid_log_weight[g]
                if informed:
                    grid_log[g] += log_given_mean(items, i, state.precision[kind], state.mean_grid[g])
            auxiliary[a] = state.mean_grid[choose(rng, grid_log, grid_log.shape[0])]
        return
    centre = np.zeros(auxiliary.shape[1])
    deviation = np.full(auxiliary.shape[1], np.sqrt(state.mean_variance))
    for f in range(auxiliary.shape[1]):
        if informed and items.observed[i, f] > 0:
            centre[f] = openings.shift[kind, f] * items.points[i, f]
            deviation[f] = openings.deviation[kind, f]
    for a in range(first, auxiliary.shape[0]):
        for f in range(auxiliary.shape[1]):
            auxiliary[a, f] = centre[f] + deviation[f] * rng.standard_normal()


@kernel
def log_informed_constant(items: Items, state: State, i: int, openings: Openings, grid_log: Floats) -> float:
    """Log marginal density of item i in a cluster of its own, which replaces density times prior over proposal."""
    kind = state.type[i]
    if state.mean_grid.shape[0] == 0:
        total = 0.0
        for f in range(items.points.shape[1]):
            square = openings.drag[kind, f] * items.points[i, f] * items.points[i, f]
            total += items.observed[i, f] * (openings.log_share[kind, f] - square)
        return 0.5 * total
    for g in range(grid_log.shape[0]):
        density = log_given_mean(items, i, state.precision[kind], state.mean_grid[g])
        grid_log[g] = state.mean_grid_log_weight[g] + density
    return log_sum(grid_log)


@kernel
def add_log_densities(
    log_weight: Floats, candidate: Integers, m: int, points: Floats, observed: Floats, i: int, row: Floats,
    means: Floats,
) -> None:  # fmt: skip
    """Add to each candidate's log weight the log density of item i given its mean."""
    weight = observed[i] * row
    for j in range(m):
        slot = candidate[j]
        square = 0.0
        for f in range(row.shape[0]):
            gap = points[i, f] - means[slot, f]
            square += weight[f] * gap * gap
        log_weight[j] -= 0.5 * square


@kernel
def add_order_terms(
    log_weight: Floats, candidate: Integers, m: int, ranks: Ranks, log_prior: Floats, prefix: Floats,
    weighted: float, i: int, n_types: int,
) -> None:  # fmt: skip
    """The published variant's powers of G0, as they would be with item i at each candidate."""
    n = ranks.n[0]
    for j in range(m):
        after = rank_weighted_after_join(ranks, log_prior, prefix, weighted, candidate[j], i)
        log_weight[j] += n_types * (2.0 * after - n * prefix[n])


@kernel
def auxiliary_weights(
    rng: np.random.Generator, items: Items, state: State, i: int, openings: Openings, base: Spread,
    precision_sum: Floats, n_types: int, variant: int, informed: bool, keep_first: bool, auxiliary: Floats,
    grid_log: Floats, log_weight: Floats, start: int, factor: Floats,
) -> None:  # fmt: skip
    """Draw the auxiliary means (the first is kept when it was the item's own) and weigh opening each of them."""
    n = auxiliary.shape[0]
    # Before `start` stand the clusters of the other items of the group.
    log_share = np.log((state.cluster_concentration + state.discount * start) / n)
    draw_auxiliary(rng, items, state, i, openings, informed, auxiliary, 1 if keep_first else 0, grid_log)
    if informed:
        log_weight[start : start + n] = log_share + log_informed_constant(items, state, i, openings, grid_log)
    else:
        for a in range(n):
            row = state.precision[state.type[i]]
            log_weight[start + a] = log_share + log_given_mean(items, i, row, auxiliary[a])
    add_log_couplings(log_weight, start, state, base, auxiliary, n_types, precision_sum, variant, factor)


@kernel
def resample_clusters_conditioned(
    rng: np.random.Generator, items: Items, state: State, variant: int, n_auxiliary: int, informed: bool
) -> tuple[Integers, Floats, int, int]:
    """One pass of Algorithm 8 over the hidden items; returns slots, means, items moved and clusters opened."""
    cluster, means = state.cluster.copy(), state.means.copy()
    ranks = ranks_of(cluster, items.known_in_slot.shape[0])
    counts = ranks.size
    ordered = variant == PUBLISHED
    high = highest_used(counts, items.slot_start, items.slot_end)
    precision_sum, n_types = used_precision_sum(state)
    logs = log_table(cluster.shape[0], state.discount)
    candidate = np.empty(widest_range(items) + n_auxiliary, np.int64)
    log_weight = np.empty(candidate.shape[0])
    auxiliary = np.empty((n_auxiliary, means.shape[1]))
    grid_log = np.empty(state.mean_grid.shape[0])
    openings = openings_of(state)
    factor = np.empty((1, means.shape[1]))
    log_prior = np.zeros(counts.shape[0])
    prefix = np.zeros(counts.shape[0] + 1)
    used = np.flatnonzero(counts)
    for k in used:
        log_prior[k] = log_mean_prior(state, means[k])
    spread = spread_of(means, used)
    moved = opened = 0
    for i in items.hidden:
        row = state.precision[state.type[i]]
        own, r = cluster[i], items.group[i]
        if ordered:
            item_leaves(ranks, cluster, i)
        else:
            counts[own] -= 1
        alone = counts[own] == 0
        base = change_spread(spread, means[own], -1) if alone else spread
        if alone:
            auxiliary[0] = means[own]
        m = 0
        for slot in range(items.slot_start[r], high[r]):
            if counts[slot] > 0:
                candidate[m] = slot
                log_weight[m] = logs[counts[slot]]
                m += 1
        add_log_densities(log_weight, candidate, m, items.points, items.observed, i, row, means)
        coupling = log_coupling(state, base, means[own], 0, n_types, precision_sum, variant, factor)
        for j in range(m):
            log_weight[j] += coupling
        auxiliary_weights(
            rng, items, state, i, openings, base, precision_sum, n_types, variant, informed, alone, auxiliary,
            grid_log, log_weight, m, factor,
        )  # fmt: skip
        if ordered:
            prefix_sums(ranks, log_prior, prefix)
            weighted = rank_weighted(ranks, log_prior)
            add_order_terms(log_weight, candidate, m, ranks, log_prior, prefix, weighted, i, n_types)
            for a in range(n_auxiliary):
                value = log_mean_prior(state, auxiliary[a])
                after = rank_weighted_after_open(ranks, prefix, weighted, value, i)
                all_priors = prefix[ranks.n[0]] + value
                log_weight[m + a] += n_types * (2.0 * after - (ranks.n[0] + 1) * all_priors)
        pick = choose(rng, log_weight, m + n_auxiliary)
        if pick < m:
            chosen = candidate[pick]
            spread = base
        else:
            chosen = lowest_empty(counts, items.slot_start[r])
            means[chosen] = auxiliary[pick - m]
            log_prior[chosen] = log_mean_prior(state, means[chosen])
            spread = change_spread(base, means[chosen], 1)
            opened += 0 if alone else 1
        if ordered:
            item_joins(ranks, chosen, i)
        else:
            counts[chosen] += 1
        cluster[i] = chosen
        high[r] = max(high[r], chosen + 1)
        while counts[high[r] - 1] == 0:
            high[r] -= 1
        moved += chosen != own
    return cluster, means, moved, opened


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
    opened = improper = 0
    informed = plan.scheme != "paper"
    if len(items.hidden):
        cluster, means, _, opened = resample_clusters_conditioned(
            rng, items, state, variant, plan.n_auxiliary, informed
        )
        state = state._replace(cluster=cluster, means=means)
    if plan.scheme == "paper" or len(state.mean_grid):
        means, _ = resample_means_from_candidates(rng, items, state, variant, plan.n_auxiliary)
    else:
        means, improper = resample_means_exactly(rng, items, state, variant)
    state = state._replace(means=means)
    if plan.learn_separation_rate:
        prior = priors.separation_rate
        rate = resample_separation_rate(rng, state, variant, prior.shape, prior.rate)
        state = state._replace(separation_rate=rate)
    return update_types(rng, state, items, plan, variant), Info(opened, improper)


def update_types(rng: np.random.Generator, state: State, items: Items, plan: Plan, variant: int) -> State:
    """Types and precisions under the prior that the means imply."""
    rate, grid_log, log_mass = types_given_means(items, state, variant)
    implied = state._replace(rate=rate, grid_log_weight=grid_log)
    if plan.scheme == "paper":
        types, precision, _ = resample_types_by_auxiliary(rng, items, implied, state.means, log_mass, plan.n_auxiliary)
    else:
        types, precision, _ = resample_types(rng, items, implied, state.means, log_mass)
    implied = implied._replace(type=types, precision=precision)
    precision = resample_precisions(rng, items, implied, state.means)
    return state._replace(type=types, precision=precision)


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
