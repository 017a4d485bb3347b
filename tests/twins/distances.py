"""Slow, obvious twins of the kernels on distances, with the same arguments, random numbers and results.

They weigh each choice from scratch with the identities of an average: for weights u that sum to 1, the squared distance
to the average is sum u d2(r, m) - 1/2 sum u u' d2(m, m'), the origin being one more point.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Floats, Integers
from scdp.chains import PrecisionGrid, State
from scdp.chains.distances import ROUNDING
from scdp.chains.distances.types import LOWEST, MAX_STEPS
from scdp.chains.items import DistanceItems
from scdp.chains.vector_types import SMALLEST
from twins import crp, likelihood
from twins.vectors import NEW, choose, first_empty, slots_in_use

Index = Integers | NDArray[np.bool_] | list[int]


def squares(items: DistanceItems, left: Index, right: Index) -> Floats:
    """Squared distances (left, right, features) of items of one group."""
    every = np.arange(len(items.place))
    rows = items.row_start[every[left]][:, None] + items.place[every[right]][None, :]
    return items.squared[rows, : items.n_features].astype(np.float64)


def average(
    items: DistanceItems, members: Index, precision: Floats, mean_variance: float
) -> tuple[Floats, Floats, Floats, Floats]:
    """A cluster's mean: total weight A, shares of the members and of the origin, and half its spread."""
    weight = items.observed[members] * precision
    total = 1 / mean_variance + weight.sum(axis=0)
    share, origin_share = weight / total, 1 / (mean_variance * total)
    between = np.einsum("af,bf,abf->f", share, share, squares(items, members, members))
    spread = 0.5 * between + origin_share * (share * items.origin[members]).sum(axis=0)
    return total, share, origin_share, spread


def squared_norm(
    items: DistanceItems, i: int, members: Index, precision: Floats, mean_variance: float
) -> tuple[Floats, Floats, int]:
    """Squared distance of item i to the mean of a cluster, its total weight, and how many were negative."""
    total, share, origin_share, spread = average(items, members, precision, mean_variance)
    far = (share * squares(items, [i], members)[0]).sum(axis=0) + origin_share * items.origin[i]
    negative = (total * (far - spread) < -ROUNDING * (1.0 + total * far)) & (items.observed[i] > 0)
    norm = np.where(negative, np.maximum(far - spread, items.floor), far - spread)
    return norm, total, int(negative.sum())


def log_predictive(
    items: DistanceItems, i: int, row: Floats, members: Index, precision: Floats, mean_variance: float
) -> tuple[float, int]:
    norm, total, negative = squared_norm(items, i, members, precision, mean_variance)
    variance = 1 / row + 1 / total
    terms = -0.5 * (likelihood.LOG_2PI + np.log(variance) + norm / variance)
    return float((items.observed[i] * terms).sum()), negative


def cluster_log_marginal(items: DistanceItems, members: Index, precision: Floats, mean_variance: float) -> float:
    """The quadratic form of a cluster: sum w d2(m, o) - [(sum w)(sum w d2(m, o)) - 1/2 sum w w' d2(m, m')] / A."""
    seen = items.observed[members]
    weight = seen * precision
    total = 1 / mean_variance + weight.sum(axis=0)
    to_origin = (weight * items.origin[members]).sum(axis=0)
    between = np.einsum("af,bf,abf->f", weight, weight, squares(items, members, members))
    form = to_origin - (weight.sum(axis=0) * to_origin - 0.5 * between) / total
    log_weights = (seen * np.log(precision)).sum()
    return float(0.5 * (log_weights - seen.sum() * likelihood.LOG_2PI - (np.log(mean_variance * total) + form).sum()))


def log_partition(items: DistanceItems, state: State, cluster: Integers) -> float:
    """Log of prior times likelihood of a laid_out, types and precisions given."""
    precision = state.precision[state.type]
    prior = likelihood.partition_log_prior(cluster, items.group, state.cluster_concentration)
    return prior + sum(
        cluster_log_marginal(items, cluster == k, precision[cluster == k], state.mean_variance)
        for k in np.unique(cluster)
    )


def resample_clusters(rng: np.random.Generator, items: DistanceItems, state: State) -> tuple[Integers, int, int]:
    cluster, negative = state.cluster.copy(), 0
    precision = state.precision[state.type]
    for i in items.hidden[np.argsort(state.type[items.hidden], kind="stable")]:
        start, end = items.slot_start[items.group[i]], items.slot_end[items.group[i]]
        cluster[i] = NEW
        candidates = slots_in_use(cluster, start, end)
        weights = []
        for slot in [*candidates, NEW]:
            members = np.flatnonzero(cluster == slot) if slot != NEW else np.empty(0, np.int64)
            size = len(members) if slot != NEW else state.cluster_concentration
            density, met = log_predictive(items, i, precision[i], members, precision[members], state.mean_variance)
            weights.append(np.log(size) + density)
            negative += met
        cluster[i] = [*candidates, NEW][choose(rng, weights)]
        if cluster[i] == NEW:
            cluster[i] = first_empty(cluster, start)
    return cluster, int((cluster != state.cluster).sum()), negative


def split_merge(
    rng: np.random.Generator, items: DistanceItems, state: State, attempts: int
) -> tuple[Integers, int, int]:
    cluster, accepted, negative = state.cluster.copy(), 0, 0
    for _ in range(attempts):
        proposal, log_ratio, met = propose_split_or_merge(rng, items, state, cluster)
        negative += met
        if proposal is not None and np.log(rng.random()) < log_ratio:
            cluster, accepted = proposal, accepted + 1
    return cluster, accepted, negative


def propose_split_or_merge(
    rng: np.random.Generator, items: DistanceItems, state: State, cluster: Integers
) -> tuple[Integers | None, float, int]:
    """A proposed laid_out, the log of its Metropolis-Hastings ratio, and negative squared norms met."""
    hidden, precision = items.hidden, state.precision[state.type]
    first = hidden[int(rng.random() * len(hidden))]
    others = hidden[(items.group[hidden] == items.group[first]) & (hidden != first)]
    if len(others) == 0:
        return None, 0.0, 0
    second = others[int(rng.random() * len(others))]
    together = cluster[first] == cluster[second]
    if not together and items.known_in_slot[cluster[first]] > 0:
        return None, 0.0, 0
    pair = [cluster[first], cluster[second]]
    members = [i for i in hidden if cluster[i] in pair and i not in (first, second)]
    for last in range(len(members) - 1, 0, -1):
        pick = int(rng.random() * (last + 1))
        members[last], members[pick] = members[pick], members[last]

    known = np.setdiff1d(np.flatnonzero(cluster == cluster[second]), hidden)
    opened, kept, log_proposal, negative = [first], [second, *known], 0.0, 0
    for i in members:
        odds = {}
        for name, side in (("opened", opened), ("kept", kept)):
            density, met = log_predictive(items, i, precision[i], side, precision[side], state.mean_variance)
            odds[name] = np.log(len(side)) + density
            negative += met
        log_odds = odds["kept"] - odds["opened"]
        opens = rng.random() < 1 / (1 + np.exp(log_odds)) if together else cluster[i] == cluster[first]
        log_proposal -= np.logaddexp(0.0, log_odds if opens else -log_odds)
        (opened if opens else kept).append(i)

    apart, merged = cluster.copy(), cluster.copy()
    merged[opened] = cluster[second]
    if together:
        apart[opened] = first_empty(cluster, items.slot_start[items.group[first]])
    log_split = log_partition(items, state, apart) - log_partition(items, state, merged) - log_proposal
    return (apart, log_split, negative) if together else (merged, -log_split, negative)


def draw_prior_row(rng: np.random.Generator, state: State) -> Floats:
    if len(state.grid):
        return state.grid[choose(rng, list(state.grid_log_weight))]
    return np.maximum(rng.standard_gamma(state.shape) / state.rate, SMALLEST)


def resample_types(
    rng: np.random.Generator, items: DistanceItems, state: State, n_auxiliary: int
) -> tuple[Integers, Floats, int, int]:
    types, negative = state.type.copy(), 0
    rows = {int(slot): state.precision[slot] for slot in np.unique(types)}
    auxiliary = [draw_prior_row(rng, state) for _ in range(n_auxiliary)]
    for i in np.argsort(state.cluster, kind="stable"):
        own = int(types[i])
        types[i] = NEW
        if not (types == own).any():
            auxiliary[int(rng.random() * n_auxiliary)] = rows.pop(own)
        others = np.flatnonzero((state.cluster == state.cluster[i]) & (np.arange(len(types)) != i))
        precision = np.array([rows[int(types[j])] for j in others]).reshape(len(others), items.n_features)
        candidates = sorted(rows)
        weights = [np.log(state.type_concentration / n_auxiliary)] * n_auxiliary
        weights += [np.log((types == slot).sum()) for slot in candidates]
        for c, row in enumerate([*auxiliary, *(rows[slot] for slot in candidates)]):
            density, met = log_predictive(items, i, row, others, precision, state.mean_variance)
            weights[c] += density
        negative += met
        chosen = choose(rng, weights)
        if chosen >= n_auxiliary:
            types[i] = candidates[chosen - n_auxiliary]
        else:
            types[i] = first_empty(types, 0)
            rows[int(types[i])] = auxiliary[chosen]
            auxiliary[chosen] = draw_prior_row(rng, state)
    precision = np.ones((max(rows) + 1, items.n_features))
    for slot, row in rows.items():
        precision[slot] = row
    return types, precision, int((types != state.type).sum()), negative


def slice_step(rng: np.random.Generator, log_density: Callable[[float], float], shape: float, value: float) -> float:
    """One update of a positive value by slice sampling of its logarithm, whose log density is given."""

    def height(x: float) -> float:
        return log_density(float(np.exp(x))) if x >= LOWEST else -np.inf

    x, width = float(np.log(value)), 3 / np.sqrt(shape)
    level = height(x) + np.log(rng.random())
    left = x - width * rng.random()
    right = left + width
    to_left = int(MAX_STEPS * rng.random())
    to_right = MAX_STEPS - 1 - to_left
    while to_left > 0 and height(left) > level:
        left, to_left = left - width, to_left - 1
    while to_right > 0 and height(right) > level:
        right, to_right = right + width, to_right - 1
    while True:
        proposed = left + rng.random() * (right - left)
        if height(proposed) >= level:
            return float(np.exp(proposed))
        left, right = (proposed, right) if proposed < x else (left, proposed)


def log_data(items: DistanceItems, state: State) -> float:
    precision = state.precision[state.type]
    return sum(
        cluster_log_marginal(items, state.cluster == k, precision[state.cluster == k], state.mean_variance)
        for k in np.unique(state.cluster)
    )


def with_precision(state: State, kind: int, feature: int | slice, value: float | Floats) -> State:
    precision = state.precision.copy()
    precision[kind, feature] = value
    return state._replace(precision=precision)


def resample_precisions(rng: np.random.Generator, items: DistanceItems, state: State) -> Floats:
    for kind in np.unique(state.type):
        if len(state.grid):
            weights = [
                log_weight + log_data(items, with_precision(state, kind, slice(None), row))
                for log_weight, row in zip(state.grid_log_weight, state.grid, strict=True)
            ]
            state = with_precision(state, kind, slice(None), state.grid[choose(rng, weights)])
            continue
        count = items.observed[state.type == kind].sum(axis=0)
        for f in range(items.n_features):

            def density(t: float, now: State = state, kind: int = kind, f: int = f) -> float:
                # The density of log t: one more factor t.
                prior = now.shape[f] * np.log(t) - now.rate[f] * t
                return float(prior + log_data(items, with_precision(now, kind, f, t)))

            value = slice_step(rng, density, state.shape[f] + count[f] / 2, state.precision[kind, f])
            state = with_precision(state, kind, f, value)
    return state.precision


def resample_mean_variance(
    rng: np.random.Generator, items: DistanceItems, state: State, shape: float, rate: float
) -> float:
    n_means = len(np.unique(state.cluster)) * items.n_features

    def density(s: float) -> float:
        return float(shape * np.log(s) - rate * s + log_data(items, state._replace(mean_variance=1 / s)))

    return 1 / slice_step(rng, density, shape + n_means / 2, 1 / state.mean_variance)


def separation_prior(items: DistanceItems, state: State) -> tuple[Floats, Floats, int]:
    gaps, negative = [], 0
    used = np.unique(state.cluster)
    place = {int(slot): items.group[state.cluster == slot][0] for slot in used}
    for a, slot in enumerate(used):
        for other in used[:a]:
            if place[int(slot)] == place[int(other)]:
                far, near = gap_between(items, state, slot, other)
                negative += int((far - near < -ROUNDING * (1.0 + far)).sum())
                gaps.append(np.maximum(far - near, 0.0))
    shape, rate = np.ones(items.n_features), np.ones(items.n_features)
    if len(gaps) >= 3:
        mean, spread = np.mean(gaps, axis=0), np.var(gaps, axis=0)
        found = (mean > 0) & (spread > 1e-12 * mean**2)
        shape[found] = (mean[found] / 2) ** 2 / spread[found]
        rate[found] = (mean[found] / 2) / spread[found]
    return shape, rate, negative


def gap_between(items: DistanceItems, state: State, slot: int, other: int) -> tuple[Floats, Floats]:
    """Squared distance between two posterior means, as what is added and what is taken away."""
    one, two = (np.flatnonzero(state.cluster == k) for k in (slot, other))
    precision, variance = state.precision[state.type], state.mean_variance
    _, share, origin_share, spread = average(items, one, precision[one], variance)
    _, other_share, other_origin_share, other_spread = average(items, two, precision[two], variance)
    far = np.einsum("af,bf,abf->f", share, other_share, squares(items, one, two))
    far = far + other_origin_share * (share * items.origin[one]).sum(axis=0)
    far = far + origin_share * (other_share * items.origin[two]).sum(axis=0)
    return far, spread + other_spread


def log_joint(items: DistanceItems, state: State, concentration_priors: Floats) -> float:
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
