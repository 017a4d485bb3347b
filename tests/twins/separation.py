"""Slow, obvious twins of SCDP-3's kernels: every weight is a difference of the whole log joint, worked out anew."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from scdp._typing import Floats, Integers
from scdp.chains import PrecisionGrid, State
from scdp.chains.items import Items
from scdp.chains.vector_coupling import MEAN, PUBLISHED
from twins import crp, likelihood
from twins.vectors import choose, first_empty, log_density_of_row, points_with_missing, slots_in_use


def clusters_by_size(cluster: Integers) -> list[int]:
    """Used slots by decreasing size, ties by the earliest item."""
    slots = np.unique(cluster).tolist()
    return sorted(slots, key=lambda k: (-(cluster == k).sum(), np.flatnonzero(cluster == k)[0]))


def log_mean_prior(state: State, mean: Floats) -> float:
    if len(state.mean_grid):
        row = [(grid_row == mean).all() for grid_row in state.mean_grid].index(True)
        return float(state.mean_grid_log_weight[row])
    square = mean**2 / state.mean_variance
    return float(-0.5 * (likelihood.LOG_2PI + np.log(state.mean_variance) + square).sum())


def pair_gaps(means: list[Floats], variant: int, n_features: int) -> Floats:
    """S_f by a loop over all pairs of means."""
    gaps = np.zeros(n_features)
    pairs = list(combinations(means, 2))
    for one, other in pairs:
        gaps += (one - other) ** 2
    return gaps / max(len(pairs), 1) if variant == MEAN else gaps


def log_coupling(state: State, variant: int) -> float:
    order = clusters_by_size(state.cluster)
    gaps = pair_gaps([state.means[k] for k in order], variant, state.means.shape[1])
    n, total = len(order), 0.0
    for kind in np.unique(state.type):
        row = state.precision[kind]
        total -= state.separation_rate * float(row @ gaps)
        if variant == PUBLISHED:
            total += n * (n - 1) / 2 * np.log(state.separation_rate)
            total += sum((2 * j - n) * log_mean_prior(state, state.means[k]) for j, k in enumerate(order))
        elif len(state.grid):
            total -= float(np.logaddexp.reduce(state.grid_log_weight - state.separation_rate * state.grid @ gaps))
        else:
            total += float((state.shape * np.log1p(state.separation_rate * gaps / state.rate)).sum())
    return total


def log_joint_conditioned(items: Items, state: State, variant: int, concentration_priors: Floats) -> float:
    kinds, type_sizes = np.unique(state.type, return_counts=True)
    grid = PrecisionGrid(state.grid, np.exp(state.grid_log_weight)) if len(state.grid) else None
    alphas = np.array([state.cluster_concentration, state.type_concentration])
    residuals = points_with_missing(items) - state.means[state.cluster]
    return float(
        likelihood.partition_log_prior(state.cluster, items.group, state.cluster_concentration, state.discount)
        + sum(log_mean_prior(state, state.means[k]) for k in np.unique(state.cluster))
        + crp.log_probability(type_sizes, state.type_concentration)
        + likelihood.precision_log_prior(state.precision[kinds], state.shape, state.rate, grid)
        + sum(log_density_of_row(state.precision[state.type[i]], residuals[i]) for i in range(len(residuals)))
        + likelihood.gamma_log_density(alphas, concentration_priors[::2], concentration_priors[1::2]).sum()
        + log_coupling(state, variant)
    )


def log_target(items: Items, state: State, variant: int) -> float:
    return log_joint_conditioned(items, state, variant, np.ones(4))


def log_posterior_of_mean(items: Items, state: State, i: int, mean: Floats) -> float:
    """Log density of the informed proposal: a mean given item i alone."""
    row, point = state.precision[state.type[i]], points_with_missing(items)[i]
    if len(state.mean_grid):
        weights = state.mean_grid_log_weight + np.array(
            [log_density_of_row(row, point - grid_row) for grid_row in state.mean_grid]
        )
        chosen = [(grid_row == mean).all() for grid_row in state.mean_grid].index(True)
        return float(weights[chosen] - np.logaddexp.reduce(weights))
    total = 1 / state.mean_variance + items.observed[i] * row
    gap = mean - items.observed[i] * row * items.points[i] / total
    return float(0.5 * (np.log(total) - likelihood.LOG_2PI - total * gap**2).sum())


def draw_auxiliary(rng: np.random.Generator, items: Items, state: State, i: int, informed: bool) -> Floats:
    row = state.precision[state.type[i]]
    if len(state.mean_grid):
        point = points_with_missing(items)[i]
        weights = [
            log_weight + (log_density_of_row(row, point - grid_row) if informed else 0.0)
            for log_weight, grid_row in zip(state.mean_grid_log_weight, state.mean_grid, strict=True)
        ]
        return state.mean_grid[choose(rng, weights)]
    if not informed:
        return rng.standard_normal(items.n_features) * np.sqrt(state.mean_variance)
    total = 1 / state.mean_variance + items.observed[i] * row
    centre = items.observed[i] * row * items.points[i] / total
    return centre + rng.standard_normal(items.n_features) / np.sqrt(total)


def resample_clusters_conditioned(
    rng: np.random.Generator, items: Items, state: State, variant: int, n_auxiliary: int, informed: bool
) -> tuple[Integers, Floats]:
    for i in items.hidden:
        own, start = state.cluster[i], items.slot_start[items.group[i]]
        alone = (state.cluster == own).sum() == 1
        auxiliary = [state.means[own].copy()] if alone else []
        others = state.cluster.copy()
        others[i] = -1
        candidates = slots_in_use(others, start, items.slot_end[items.group[i]])
        weights = [log_target(items, seated(state, i, slot), variant) for slot in candidates]
        while len(auxiliary) < n_auxiliary:
            auxiliary.append(draw_auxiliary(rng, items, state, i, informed))
        empty = first_empty(others, start)
        for mean in auxiliary:
            opened = seated(state, i, empty, mean)
            proposal = log_posterior_of_mean(items, state, i, mean) if informed else log_mean_prior(state, mean)
            weights.append(log_target(items, opened, variant) - proposal - np.log(n_auxiliary))
        pick = choose(rng, weights)
        if pick < len(candidates):
            state = seated(state, i, candidates[pick])
        else:
            state = seated(state, i, empty, auxiliary[pick - len(candidates)])
    return state.cluster, state.means


def seated(state: State, i: int, slot: int, mean: Floats | None = None) -> State:
    """The state with item i at a slot, and with that slot's mean if one is given."""
    cluster, means = state.cluster.copy(), state.means.copy()
    cluster[i] = slot
    if mean is not None:
        means[slot] = mean
    return state._replace(cluster=cluster, means=means)


def resample_means_exactly(rng: np.random.Generator, items: Items, state: State, variant: int) -> tuple[Floats, int]:
    """Coordinate by coordinate, the log joint alone: a parabola in the published variant, else a slice."""
    improper = 0
    for slot in clusters_by_size(state.cluster):
        for f in range(items.n_features):
            old = float(state.means[slot, f])
            lower, middle, upper = (_moved(items, state, variant, slot, f, old + step) for step in (-1, 0, 1))
            precision, slope = -(upper - 2 * middle + lower), (upper - lower) / 2
            if variant == PUBLISHED:
                if precision <= 1e-9:
                    improper += 1
                    continue
                new = old + slope / precision + rng.standard_normal() / np.sqrt(precision)
            else:
                new = _slice(rng, items, state, variant, slot, f)
            state = _with_coordinate(state, slot, f, new)
    return state.means, improper


def _with_coordinate(state: State, slot: int, f: int, value: float) -> State:
    means = state.means.copy()
    means[slot, f] = value
    return state._replace(means=means)


def _moved(items: Items, state: State, variant: int, slot: int, f: int, value: float) -> float:
    return log_target(items, _with_coordinate(state, slot, f, value), variant)


def _slice(rng: np.random.Generator, items: Items, state: State, variant: int, slot: int, f: int) -> float:
    members = state.cluster == slot
    n = len(np.unique(state.cluster))
    scale = state.separation_rate * (2 / (n * (n - 1)) if variant == MEAN and n > 1 else float(n > 1))
    weight = (items.observed[members, f] * state.precision[state.type[members], f]).sum()
    spread = 2 * scale * state.precision[np.unique(state.type), f].sum() * (n - 1)
    width = 3 / np.sqrt(1 / state.mean_variance + weight + spread)
    x = float(state.means[slot, f])
    height = _moved(items, state, variant, slot, f, x) - rng.standard_exponential()
    left = x - width * rng.random()
    right = left + width
    while _moved(items, state, variant, slot, f, left) > height:
        left -= width
    while _moved(items, state, variant, slot, f, right) > height:
        right += width
    while True:
        y = left + (right - left) * rng.random()
        if _moved(items, state, variant, slot, f, y) > height:
            return float(y)
        left, right = (y, right) if y < x else (left, y)


def resample_means_from_candidates(
    rng: np.random.Generator, items: Items, state: State, variant: int, n_candidates: int
) -> tuple[Floats, int]:
    changed = 0
    for slot in clusters_by_size(state.cluster):
        drawn = [draw_auxiliary(rng, items, state, 0, informed=False) for _ in range(n_candidates)]
        options = [state.means[slot], *drawn]
        weights = []
        for option in options:
            means = state.means.copy()
            means[slot] = option
            # candidates come from the prior, so it does not weigh twice
            weights.append(log_target(items, state._replace(means=means), variant) - log_mean_prior(state, option))
        picked = options[choose(rng, weights)]
        changed += int((picked != state.means[slot]).any())
        means = state.means.copy()
        means[slot] = picked
        state = state._replace(means=means)
    return state.means, changed
