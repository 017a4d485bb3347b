"""Gibbs over reference types and their precisions, given the means.

With the means known, residuals are a Dirichlet-process mixture of zero-mean Gaussians: a type in use is weighed
by its count and density, a new one by the concentration and the Gamma-Normal marginal (a Student t per feature).
"""

from __future__ import annotations

from math import lgamma

import numpy as np

from scdp._compile import kernel
from scdp._typing import Floats, Integers
from scdp.chains import GammaPrior, Plan, Priors, State
from scdp.chains.arithmetic import choose, cluster_sums, log_sum, log_table, lowest_empty, slot_counts, sum_of_logs
from scdp.chains.items import Items


@kernel
def draw_means(rng: np.random.Generator, items: Items, state: State) -> tuple[Floats, Integers]:
    """A mean for every used cluster slot (rows of empty slots stay 0), and the used slots."""
    sums = cluster_sums(items, state)
    used = np.flatnonzero(sums.size)
    means = np.zeros_like(sums.weight)
    for slot in used:
        for f in range(means.shape[1]):
            a = 1.0 / state.mean_variance + sums.weight[slot, f]
            means[slot, f] = sums.pull[slot, f] / a + rng.standard_normal() / np.sqrt(a)
    return means, used


@kernel
def draw_mean_variance(rng: np.random.Generator, means: Floats, used: Integers, shape: float, rate: float) -> float:
    """The variance of the mean prior; its inverse has a Gamma(shape, rate) prior."""
    square = 0.0
    for slot in used:
        for f in range(means.shape[1]):
            square += means[slot, f] * means[slot, f]
    after_shape = shape + 0.5 * used.shape[0] * means.shape[1]
    return (rate + 0.5 * square) / rng.standard_gamma(after_shape)


@kernel
def separation_prior(means: Floats, used: Integers) -> tuple[Floats, Floats]:
    """SCDP-2: Gamma shape and rate per feature from squared gaps v between all pairs of used means.

    Prior mean = mean(v) / 2 and prior variance = var(v). Both come from power sums of the centred means, so the
    cost is linear in the number of clusters. Gamma(1, 1) stands in where means are too few or have no spread.
    """
    n_features = means.shape[1]
    shape = np.ones(n_features)
    rate = np.ones(n_features)
    k = used.shape[0]
    if k < 3:
        return shape, rate
    pairs = 0.5 * k * (k - 1)
    for f in range(n_features):
        centre = 0.0
        for slot in used:
            centre += means[slot, f] / k
        second = third = fourth = 0.0
        for slot in used:
            x = means[slot, f] - centre
            second += x * x
            third += x * x * x
            fourth += x * x * x * x
        gap = k * second / pairs
        spread = (k * fourth + 3.0 * second * second) / pairs - gap * gap
        if gap > 0.0 and spread > 1e-12 * gap * gap:
            shape[f] = 0.25 * gap * gap / spread
            rate[f] = 0.5 * gap / spread
    return shape, rate


def coupled_prior(state: State, plan: Plan, priors: Priors, gaps: Floats, n_pairs: int) -> State:
    """The prior of precisions in the variants that change the update of types alone; `gaps` are sums over pairs.

    "types" takes the printed factor exp(-rate t S). "density" takes it for a Normal density of p_j around p_k, which
    brings t^(1/2) for each pair of clusters and feature.
    """
    prior = priors.precision
    assert isinstance(prior, GammaPrior)
    more = 0.5 * n_pairs if plan.type_coupling == "density" else 0.0
    rate = prior.rate + state.separation_rate * np.maximum(gaps, 0.0)
    return state._replace(shape=np.full_like(state.shape, prior.shape + more), rate=rate)


# Below this a precision would overflow when inverted; only an underflowing Gamma draw gets there.
SMALLEST = 1e-150
NEW = -1


@kernel
def squared_residuals(items: Items, i: int, mean: Floats, square: Floats) -> None:
    """Squared gaps of item i to its mean; 0 where its value is missing."""
    for f in range(mean.shape[0]):
        gap = items.points[i, f] - mean[f]
        square[f] = items.observed[i, f] * gap * gap


@kernel
def add_log_densities(
    log_weight: Floats, candidate: Integers, m: int, precision: Floats, log_precision: Floats,
    half_log: Floats, observed: Floats, complete: bool, square: Floats,
) -> None:  # fmt: skip
    """Add to each of m log weights the log density of squared residuals under its type, without the 2 pi."""
    n_features = square.shape[0]
    for j in range(m):
        kind = candidate[j]
        total = 0.0
        if complete:
            for f in range(n_features):
                total += precision[kind, f] * square[f]
            log_weight[j] += half_log[kind] - 0.5 * total
        else:
            for f in range(n_features):
                total += observed[f] * log_precision[kind, f] - precision[kind, f] * square[f]
            log_weight[j] += 0.5 * total


@kernel
def new_type_constants(state: State) -> Floats:
    """Per feature: log of Gamma(a + 1/2) / Gamma(a) / sqrt(b), the part of the Student t that is constant."""
    constants = np.empty(state.shape.shape[0])
    for f in range(constants.shape[0]):
        a, b = state.shape[f], state.rate[f]
        constants[f] = lgamma(a + 0.5) - lgamma(a) - 0.5 * np.log(b)
    return constants


@kernel
def log_new_type(
    shape: Floats, rate: Floats, equal_shape: bool, constants: Floats, observed: Floats, square: Floats,
    factor: Floats,
) -> float:  # fmt: skip
    """Log marginal density of squared residuals under a type drawn from the Gamma prior.

    With one shape for all features the logarithms are taken of products; a missing value is a factor of 1.
    """
    total = 0.0
    for f in range(square.shape[0]):
        factor[0, f] = 1.0 + 0.5 * square[f] / rate[f]
        total += observed[f] * constants[f]
    if equal_shape:
        return total - (shape[0] + 0.5) * sum_of_logs(factor, 0)
    for f in range(square.shape[0]):
        total -= (shape[f] + 0.5) * np.log(factor[0, f])
    return total


@kernel
def draw_precision(rng: np.random.Generator, state: State, count: Floats, square: Floats, row: Floats) -> None:
    """Fill `row` with precisions given, per feature, the number of residuals and the sum of their squares."""
    for f in range(row.shape[0]):
        draw = rng.standard_gamma(state.shape[f] + 0.5 * count[f])
        row[f] = max(draw / (state.rate[f] + 0.5 * square[f]), SMALLEST)


@kernel
def grid_weights(state: State, count: Floats, square: Floats, log_weight: Floats) -> None:
    """Log weight of every grid row for a type with these counts and sums of squares."""
    for g in range(state.grid.shape[0]):
        total = 0.0
        for f in range(square.shape[0]):
            total += count[f] * np.log(state.grid[g, f]) - state.grid[g, f] * square[f]
        log_weight[g] = state.grid_log_weight[g] + 0.5 * total


@kernel
def draw_row(
    rng: np.random.Generator, state: State, count: Floats, square: Floats, grid_log: Floats, row: Floats
) -> None:
    """Draw a type's precisions given its residuals: how many there are and their squares, per feature."""
    if state.grid.shape[0] > 0:
        grid_weights(state, count, square, grid_log)
        row[:] = state.grid[choose(rng, grid_log, grid_log.shape[0])]
    else:
        draw_precision(rng, state, count, square, row)


@kernel
def enlarge_rows(rows: Floats, n: int) -> Floats:
    """The same rows with room for at least n."""
    if n <= rows.shape[0]:
        return rows
    larger = np.ones((2 * n, rows.shape[1]))
    larger[: rows.shape[0]] = rows
    return larger


@kernel
def list_types(candidate: Integers, log_weight: Floats, counts: Integers, high: int, logs: Floats) -> int:
    """The types in use below slot `high` and the logs of their counts; returns how many there are."""
    m = 0
    for kind in range(high):
        if counts[kind] > 0:
            candidate[m] = kind
            log_weight[m] = logs[counts[kind]]
            m += 1
    return m


@kernel
def resample_types(
    rng: np.random.Generator, items: Items, state: State, means: Floats, log_new_factor: float = 0.0
) -> tuple[Integers, Floats, int]:
    """One Gibbs pass over every item's type; returns type slots, precision rows and how many items moved.

    `log_new_factor` weighs opening a type beyond the prior: 0 unless the prior is unnormalised (SCDP-3).
    """
    n, n_features = items.points.shape
    types = state.type.copy()
    high = types.max() + 1
    precision = enlarge_rows(state.precision.copy(), high + 1)
    log_precision = np.log(precision)
    half_log = 0.5 * log_precision.sum(axis=1)
    counts = slot_counts(types, n + 2)
    logs = log_table(n)
    log_alpha = np.log(state.type_concentration) + log_new_factor
    constants = new_type_constants(state)
    equal_shape = (state.shape == state.shape[0]).all()
    square = np.empty(n_features)
    factor = np.empty((1, n_features))
    grid_log = np.empty(state.grid.shape[0])
    log_weight = np.empty(n + 2)
    candidate = np.empty(n + 2, np.int64)

    moved = 0
    for i in range(n):
        own, slot, observed, complete = types[i], state.cluster[i], items.observed[i], items.complete[i]
        squared_residuals(items, i, means[slot], square)
        counts[own] -= 1
        m = list_types(candidate, log_weight, counts, high, logs)
        add_log_densities(log_weight, candidate, m, precision, log_precision, half_log, observed, complete, square)
        candidate[m] = NEW
        if state.grid.shape[0] > 0:
            grid_weights(state, observed, square, grid_log)
            log_weight[m] = log_alpha + log_sum(grid_log)
        else:
            log_weight[m] = log_alpha + log_new_type(
                state.shape, state.rate, equal_shape, constants, observed, square, factor
            )
        chosen = candidate[choose(rng, log_weight, m + 1)]
        if chosen == NEW:
            chosen = lowest_empty(counts, 0)
            if chosen >= precision.shape[0]:
                precision, log_precision = enlarge_rows(precision, chosen + 1), enlarge_rows(log_precision, chosen + 1)
                half_log = 0.5 * log_precision.sum(axis=1)
            draw_row(rng, state, observed, square, grid_log, precision[chosen])
            log_precision[chosen] = np.log(precision[chosen])
            half_log[chosen] = 0.5 * log_precision[chosen].sum()
        counts[chosen] += 1
        high = max(high, chosen + 1)
        while counts[high - 1] == 0:
            high -= 1
        types[i] = chosen
        moved += chosen != own
    return types, precision, moved


@kernel
def resample_precisions(rng: np.random.Generator, items: Items, state: State, means: Floats) -> Floats:
    """Draw every used type's precisions given the means; rows of empty slots are left as they are."""
    n, n_features = items.points.shape
    n_types = state.type.max() + 1
    count = np.zeros((n_types, n_features))
    square = np.zeros((n_types, n_features))
    used = np.zeros(n_types, np.bool_)
    for i in range(n):
        kind, slot = state.type[i], state.cluster[i]
        used[kind] = True
        for f in range(n_features):
            gap = items.points[i, f] - means[slot, f]
            count[kind, f] += items.observed[i, f]
            square[kind, f] += items.observed[i, f] * gap * gap
    precision = state.precision.copy()
    grid_log = np.empty(state.grid.shape[0])
    for kind in range(n_types):
        if used[kind]:
            draw_row(rng, state, count[kind], square[kind], grid_log, precision[kind])
    return precision


@kernel
def resample_types_by_auxiliary(
    rng: np.random.Generator, items: Items, state: State, means: Floats, log_new_factor: float, n_auxiliary: int
) -> tuple[Integers, Floats, int]:
    """One pass over every item's type; returns type slots, precision rows and how many items moved."""
    n, n_features = items.points.shape
    types = state.type.copy()
    high = types.max() + 1
    precision = enlarge_rows(state.precision.copy(), high + 1)
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
        m = list_types(candidate, log_weight, counts, high, logs)
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
            precision = enlarge_rows(precision, chosen + 1)
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
