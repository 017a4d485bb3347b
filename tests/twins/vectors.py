"""Slow, obvious twins of every kernel, with the same arguments, the same random numbers and the same results.

They weigh each choice from scratch with the closed forms of scdp.chains. Nothing else uses them: they are what
the compiled kernels are tested against, draw for draw.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from scdp._typing import Floats, Integers
from scdp.chains import PrecisionGrid, State
from scdp.chains.items import Items
from scdp.chains.vector_types import SMALLEST
from twins import crp, likelihood

NEW = -1


def choose(rng: np.random.Generator, log_weights: list[float]) -> int:
    weights = np.exp(np.array(log_weights) - max(log_weights))
    cumulative = np.cumsum(weights)
    picked = np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right")
    return min(int(picked), len(weights) - 1)


def points_with_missing(items: Items) -> Floats:
    return np.where(items.observed > 0, items.points, np.nan)


def slots_in_use(labels: Integers, start: int, end: int) -> list[int]:
    return [int(slot) for slot in np.unique(labels) if start <= slot < end]


def first_empty(labels: Integers, start: int) -> int:
    slot = start
    while (labels == slot).any():
        slot += 1
    return slot


def resample_clusters(rng: np.random.Generator, items: Items, state: State) -> tuple[Integers, int]:
    points, cluster = points_with_missing(items), state.cluster.copy()
    precision = state.precision[state.type]
    order = items.hidden[np.argsort(state.type[items.hidden], kind="stable")]
    for i in order:
        start, end = items.slot_start[items.group[i]], items.slot_end[items.group[i]]
        cluster[i] = NEW
        candidates = slots_in_use(cluster, start, end)
        weights = []
        for slot in [*candidates, NEW]:
            members = (cluster == slot) if slot != NEW else np.zeros(len(cluster), bool)
            size = members.sum() if slot != NEW else state.cluster_concentration
            density = likelihood.predictive_log_density(
                points[i], precision[i], points[members], precision[members], state.mean_variance
            )
            weights.append(np.log(size) + density)
        cluster[i] = [*candidates, NEW][choose(rng, weights)]
        if cluster[i] == NEW:
            cluster[i] = first_empty(cluster, start)
    return cluster, int((cluster != state.cluster).sum())


def split_merge(rng: np.random.Generator, items: Items, state: State, attempts: int) -> tuple[Integers, int]:
    cluster, accepted = state.cluster.copy(), 0
    for _ in range(attempts):
        proposal, log_ratio = propose_split_or_merge(rng, items, state, cluster)
        if proposal is not None and np.log(rng.random()) < log_ratio:
            cluster, accepted = proposal, accepted + 1
    return cluster, accepted


def propose_split_or_merge(
    rng: np.random.Generator, items: Items, state: State, cluster: Integers
) -> tuple[Integers | None, float]:
    """A proposed laid_out and its log Metropolis-Hastings ratio; None where the move is refused outright."""
    hidden = items.hidden
    first = hidden[int(rng.random() * len(hidden))]
    others = hidden[(items.group[hidden] == items.group[first]) & (hidden != first)]
    if len(others) == 0:
        return None, 0.0
    second = others[int(rng.random() * len(others))]
    together = cluster[first] == cluster[second]
    if not together and items.known_in_slot[cluster[first]] > 0:
        return None, 0.0
    pair = [cluster[first], cluster[second]]
    members = [i for i in hidden if cluster[i] in pair and i not in (first, second)]
    for last in range(len(members) - 1, 0, -1):
        pick = int(rng.random() * (last + 1))
        members[last], members[pick] = members[pick], members[last]

    known = np.setdiff1d(np.flatnonzero(cluster == cluster[second]), hidden)
    opened, kept, log_proposal = [first], [second, *known], 0.0
    for i in members:
        log_odds = log_join(items, state, i, kept) - log_join(items, state, i, opened)
        drawn = rng.random() < 1 / (1 + np.exp(log_odds)) if together else False
        opens = drawn if together else cluster[i] == cluster[first]
        log_proposal -= np.logaddexp(0.0, log_odds if opens else -log_odds)
        (opened if opens else kept).append(i)

    apart, merged = cluster.copy(), cluster.copy()
    merged[opened] = cluster[second]
    if together:
        apart[opened] = first_empty(cluster, items.slot_start[items.group[first]])
    log_split = log_partition(items, state, apart) - log_partition(items, state, merged) - log_proposal
    return (apart, log_split) if together else (merged, -log_split)


def log_join(items: Items, state: State, i: int, side: list[int]) -> float:
    points, precision = points_with_missing(items), state.precision[state.type]
    density = likelihood.predictive_log_density(
        points[i], precision[i], points[side], precision[side], state.mean_variance
    )
    return float(np.log(len(side)) + density)


def log_partition(items: Items, state: State, cluster: Integers) -> float:
    """Log of prior times likelihood of a laid_out, types and precisions given."""
    points, precision = points_with_missing(items), state.precision[state.type]
    prior = likelihood.partition_log_prior(cluster, items.group, state.cluster_concentration)
    return prior + sum(
        likelihood.cluster_log_marginal(points[cluster == k], precision[cluster == k], state.mean_variance)
        for k in np.unique(cluster)
    )


def draw_means(rng: np.random.Generator, items: Items, state: State) -> tuple[Floats, Integers]:
    used = np.unique(state.cluster)
    means = np.zeros((len(items.known_in_slot), items.n_features))
    for slot in used:
        inside = state.cluster == slot
        weight = items.observed[inside] * state.precision[state.type[inside]]
        total = 1 / state.mean_variance + weight.sum(axis=0)
        centre = (weight * items.points[inside]).sum(axis=0) / total
        means[slot] = centre + rng.standard_normal(items.n_features) / np.sqrt(total)
    return means, used


def draw_mean_variance(rng: np.random.Generator, means: Floats, used: Integers, shape: float, rate: float) -> float:
    active = means[used]
    return float((rate + (active**2).sum() / 2) / rng.standard_gamma(shape + active.size / 2))


def separation_prior(means: Floats, used: Integers) -> tuple[Floats, Floats]:
    active = means[used]
    shape, rate = np.ones(means.shape[1]), np.ones(means.shape[1])
    if len(used) < 3:
        return shape, rate
    left, right = np.triu_indices(len(used), 1)
    for f in range(means.shape[1]):
        gaps = (active[left, f] - active[right, f]) ** 2
        if gaps.mean() > 0 and gaps.var() > 1e-12 * gaps.mean() ** 2:
            shape[f] = (gaps.mean() / 2) ** 2 / gaps.var()
            rate[f] = (gaps.mean() / 2) / gaps.var()
    return shape, rate


def log_density_of_row(row: Floats, residuals: Floats) -> float:
    """Log density of residuals (NaN = missing) under one precision row."""
    terms = 0.5 * (np.log(row) - likelihood.LOG_2PI - row * residuals**2)
    return float(np.nansum(terms))


def draw_row(rng: np.random.Generator, state: State, residuals: Floats) -> Floats:
    """The precisions of a type given its residuals, one a row."""
    if len(state.grid):
        weights = [
            log_weight + log_density_of_row(row, residuals)
            for log_weight, row in zip(state.grid_log_weight, state.grid, strict=True)
        ]
        return state.grid[choose(rng, weights)]
    shape = state.shape + 0.5 * (~np.isnan(residuals)).sum(axis=0)
    rate = state.rate + 0.5 * np.nansum(residuals**2, axis=0)
    return np.maximum(rng.standard_gamma(shape) / rate, SMALLEST)


def log_new_type(state: State, residual: Floats) -> float:
    if len(state.grid):
        terms = [
            w + log_density_of_row(row, residual) for w, row in zip(state.grid_log_weight, state.grid, strict=True)
        ]
        return float(np.logaddexp.reduce(terms))
    return likelihood.type_log_marginal(residual[None, :], state.shape, state.rate)


def resample_types(
    rng: np.random.Generator, items: Items, state: State, means: Floats, log_new_factor: float = 0.0
) -> tuple[Integers, Floats, int]:
    types = state.type.copy()
    precision = {int(slot): state.precision[slot] for slot in np.unique(types)}
    residuals = points_with_missing(items) - means[state.cluster]
    for i in range(len(types)):
        types[i] = NEW
        candidates = [int(slot) for slot in np.unique(types) if slot != NEW]
        weights = [
            np.log((types == slot).sum()) + log_density_of_row(precision[slot], residuals[i]) for slot in candidates
        ]
        new = log_new_type(state, residuals[i]) + log_new_factor
        weights.append(np.log(state.type_concentration) + new)
        types[i] = [*candidates, NEW][choose(rng, weights)]
        if types[i] == NEW:
            types[i] = first_empty(types, 0)
            precision[int(types[i])] = draw_row(rng, state, residuals[i : i + 1])
    rows = np.ones((max(precision) + 1, items.n_features))
    for slot, row in precision.items():
        rows[slot] = row
    return types, rows, int((types != state.type).sum())


def resample_precisions(rng: np.random.Generator, items: Items, state: State, means: Floats) -> Floats:
    residuals = points_with_missing(items) - means[state.cluster]
    precision = state.precision.copy()
    for kind in np.unique(state.type):
        precision[kind] = draw_row(rng, state, residuals[state.type == kind])
    return precision


def resample_clusters_given_means(
    rng: np.random.Generator, items: Items, state: State, means: Floats
) -> tuple[Integers, Floats, int]:
    points, cluster, means = points_with_missing(items), state.cluster.copy(), means.copy()
    nobody = np.empty((0, items.n_features))
    for i in items.hidden:
        row = state.precision[state.type[i]]
        start, end = items.slot_start[items.group[i]], items.slot_end[items.group[i]]
        cluster[i] = NEW
        candidates = slots_in_use(cluster, start, end)
        weights = [
            np.log((cluster == slot).sum()) + log_density_of_row(row, points[i] - means[slot]) for slot in candidates
        ]
        marginal = likelihood.predictive_log_density(points[i], row, nobody, nobody, state.mean_variance)
        weights.append(np.log(state.cluster_concentration) + marginal)
        cluster[i] = [*candidates, NEW][choose(rng, weights)]
        if cluster[i] == NEW:
            cluster[i] = first_empty(cluster, start)
            total = 1 / state.mean_variance + items.observed[i] * row
            centre = items.observed[i] * row * items.points[i] / total
            means[cluster[i]] = centre + rng.standard_normal(items.n_features) / np.sqrt(total)
    return cluster, means, int((cluster != state.cluster).sum())


def resample_concentration_inner_gibbs(
    rng: np.random.Generator,
    concentration: float,
    sizes: Integers,
    n_clusters: int,
    shape: float,
    rate: float,
    n_inner: int = 200,
) -> float:
    """Appendix B as printed: an inner Gibbs sampler over one indicator per group, then a Gamma draw."""
    x = rng.beta(concentration + 1, sizes)
    after_rate = rate - np.log(x).sum()
    base = shape - len(sizes) + n_clusters
    chosen = np.zeros(len(sizes), dtype=bool)
    for _ in range(n_inner):
        for m in range(len(sizes)):
            chosen[m] = False
            odds = base + chosen.sum()
            chosen[m] = rng.random() < odds / (odds + sizes[m] * after_rate)
    return float(rng.standard_gamma(base + chosen.sum()) / after_rate)


def resample_concentration(
    rng: np.random.Generator,
    concentration: float,
    sizes: Integers,
    n_clusters: int,
    log_symmetric: Floats,
    shape: float,
    rate: float,
) -> float:
    n = len(sizes)
    after_rate = rate - sum(np.log(rng.beta(concentration + 1, size)) for size in sizes)
    # prod (alpha + n_m) multiplied out: coefficient j belongs to alpha^(n - j)
    coefficients = np.poly(-np.asarray(sizes, dtype=float))
    weights = []
    for j in range(n + 1):
        after_shape = shape - n + n_clusters + j
        weights.append(np.log(coefficients[n - j]) + gammaln(after_shape) - after_shape * np.log(after_rate))
    return float(rng.standard_gamma(shape - n + n_clusters + choose(rng, weights)) / after_rate)


def log_joint(items: Items, state: State, concentration_priors: Floats) -> float:
    """Same as the kernel; the grid's prior is looked up row by row."""
    prior_shape, prior_rate = concentration_priors[::2], concentration_priors[1::2]
    alphas = np.array([state.cluster_concentration, state.type_concentration])
    kinds, type_sizes = np.unique(state.type, return_counts=True)
    grid = PrecisionGrid(state.grid, np.exp(state.grid_log_weight)) if len(state.grid) else None
    return float(
        log_partition(items, state, state.cluster)
        + crp.log_probability(type_sizes, state.type_concentration)
        + likelihood.precision_log_prior(state.precision[kinds], state.shape, state.rate, grid)
        + likelihood.gamma_log_density(alphas, prior_shape, prior_rate).sum()
    )
