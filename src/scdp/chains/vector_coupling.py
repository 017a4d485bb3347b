"""SCDP-3's target density, and the prior of precisions that the means imply."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scdp._compile import kernel
from scdp._typing import Floats, Integers
from scdp.chains import State
from scdp.chains.arithmetic import log_sum, slot_counts, sum_of_logs
from scdp.chains.items import Items
from scdp.chains.vector_clusters import LOG_2PI, log_given_mean, log_prior_of_labels


@kernel
def used_precision_sum(state: State) -> tuple[Floats, int]:
    """Sum of the used types' precisions by feature, and how many types are used."""
    counts = slot_counts(state.type, state.precision.shape[0])
    total = np.zeros(state.precision.shape[1])
    n = 0
    for kind in range(counts.shape[0]):
        if counts[kind] > 0:
            n += 1
            total += state.precision[kind]
    return total, n


@kernel
def types_given_means(items: Items, state: State, variant: int) -> tuple[Floats, Floats, float]:
    """The precision prior that the means imply: rates, grid log weights, and the log mass a new type brings.

    Given the means, types are a Dirichlet-process mixture with this prior, so SCDP-1's exact updates serve. Only
    the published variant is not normalised: there a new type multiplies the joint by more than a density.
    """
    ranks = ranks_of(state.cluster, items.known_in_slot.shape[0])
    spread = spread_of(state.means, np.flatnonzero(ranks.size))
    rate, grid_log, log_mass = precision_prior_given(state, separation(spread, variant))
    if variant != PUBLISHED:
        return rate, grid_log, 0.0
    n = ranks.n[0]
    for j in range(n):
        log_mass += (2.0 * j - n) * log_mean_prior(state, state.means[ranks.order[j]])
    return rate, grid_log, log_mass + 0.5 * n * (n - 1) * np.log(state.separation_rate)


@kernel
def log_joint_conditioned(items: Items, state: State, variant: int, concentration_priors: Floats) -> float:
    """Log of the target of SCDP-3: data, clusters, means, types, precisions, concentrations and the coupling."""
    ranks = ranks_of(state.cluster, items.known_in_slot.shape[0])
    type_counts = slot_counts(state.type, state.precision.shape[0])
    precision_sum, n_types = used_precision_sum(state)
    spread = spread_of(state.means, np.flatnonzero(ranks.size))
    n = ranks.n[0]
    factor = np.empty((1, items.points.shape[1]))
    total = log_coupling(state, spread, precision_sum, 0, n_types, precision_sum, variant, factor)
    for j in range(n):
        power = 1.0 + n_types * (2.0 * j - n) if variant == PUBLISHED else 1.0
        total += power * log_mean_prior(state, state.means[ranks.order[j]])
    for i in range(state.cluster.shape[0]):
        row = state.precision[state.type[i]]
        total += log_given_mean(items, i, row, state.means[state.cluster[i]])
        for f in range(row.shape[0]):
            total += 0.5 * items.observed[i, f] * (np.log(row[f]) - LOG_2PI)
    return total + log_prior_of_labels(items, state, ranks.size, type_counts, concentration_priors)


NOBODY = 2**62


class Ranks(NamedTuple):
    """`order[:n[0]]` are the used slots in order; `size` and `first` are their keys, by slot."""

    order: Integers
    n: Integers
    size: Integers
    first: Integers


@kernel
def ranks_of(cluster: Integers, n_slots: int) -> Ranks:
    """The order of the clusters of a state."""
    ranks = Ranks(
        np.empty(n_slots + 1, np.int64), np.zeros(1, np.int64), np.zeros(n_slots, np.int64), np.full(n_slots, NOBODY)
    )
    for i in range(cluster.shape[0] - 1, -1, -1):
        ranks.size[cluster[i]] += 1
        ranks.first[cluster[i]] = i
    for slot in range(n_slots):
        if ranks.size[slot] > 0:
            insert(ranks, slot)
    return ranks


@kernel
def position(ranks: Ranks, size: int, first: int) -> int:
    """Where a cluster with these keys stands: the number of clusters that come before it."""
    low, high = 0, ranks.n[0]
    while low < high:
        middle = (low + high) // 2
        slot = ranks.order[middle]
        before = ranks.size[slot] > size or (ranks.size[slot] == size and ranks.first[slot] < first)
        low, high = (middle + 1, high) if before else (low, middle)
    return low


@kernel
def insert(ranks: Ranks, slot: int) -> None:
    at = position(ranks, ranks.size[slot], ranks.first[slot])
    for j in range(ranks.n[0], at, -1):
        ranks.order[j] = ranks.order[j - 1]
    ranks.order[at] = slot
    ranks.n[0] += 1


@kernel
def remove(ranks: Ranks, slot: int) -> None:
    at = position(ranks, ranks.size[slot], ranks.first[slot])
    ranks.n[0] -= 1
    for j in range(at, ranks.n[0]):
        ranks.order[j] = ranks.order[j + 1]


@kernel
def item_leaves(ranks: Ranks, cluster: Integers, i: int) -> None:
    """Item i leaves its cluster; its label in `cluster` must already be gone."""
    slot = cluster[i]
    remove(ranks, slot)
    ranks.size[slot] -= 1
    if ranks.first[slot] == i:
        ranks.first[slot] = NOBODY
        for j in range(i + 1, cluster.shape[0]):
            if cluster[j] == slot:
                ranks.first[slot] = j
                break
    if ranks.size[slot] > 0:
        insert(ranks, slot)


@kernel
def item_joins(ranks: Ranks, slot: int, i: int) -> None:
    if ranks.size[slot] > 0:
        remove(ranks, slot)
    ranks.size[slot] += 1
    ranks.first[slot] = min(ranks.first[slot], i)
    insert(ranks, slot)


@kernel
def prefix_sums(ranks: Ranks, values: Floats, prefix: Floats) -> None:
    """prefix[j] = sum of values over the first j clusters in order."""
    prefix[0] = 0.0
    for j in range(ranks.n[0]):
        prefix[j + 1] = prefix[j] + values[ranks.order[j]]


@kernel
def rank_weighted(ranks: Ranks, values: Floats) -> float:
    """Sum over the order of j times the value of the j-th cluster, j from 0."""
    total = 0.0
    for j in range(ranks.n[0]):
        total += j * values[ranks.order[j]]
    return total


@kernel
def rank_weighted_after_join(ranks: Ranks, values: Floats, prefix: Floats, weighted: float, slot: int, i: int) -> float:
    """`rank_weighted` as it would be if item i joined the cluster in `slot`: it moves up, those it passes down."""
    size, first = ranks.size[slot], ranks.first[slot]
    old = position(ranks, size, first)
    new = position(ranks, size + 1, min(first, i))
    return weighted + prefix[old] - prefix[new] - (old - new) * values[slot]


@kernel
def rank_weighted_after_open(ranks: Ranks, prefix: Floats, weighted: float, value: float, i: int) -> float:
    """`rank_weighted` as it would be if item i opened a cluster with this value."""
    at = position(ranks, 1, i)
    return weighted + at * value + prefix[ranks.n[0]] - prefix[at]


PUBLISHED, NORMALIZED, MEAN = 0, 1, 2
VARIANTS = {"published": PUBLISHED, "normalized": NORMALIZED, "mean": MEAN}


class Spread(NamedTuple):
    """Power sums of the active means, by which S_f = n square - total^2 follows any change at O(features)."""

    n: int
    total: Floats
    square: Floats


@kernel
def spread_of(means: Floats, used: Integers) -> Spread:
    total = np.zeros(means.shape[1])
    square = np.zeros(means.shape[1])
    for slot in used:
        for f in range(means.shape[1]):
            total[f] += means[slot, f]
            square[f] += means[slot, f] * means[slot, f]
    return Spread(used.shape[0], total, square)


@kernel
def pair_scale(n: int, variant: int) -> float:
    """What multiplies S_f: 1, or one over the number of pairs."""
    if variant != MEAN:
        return 1.0
    return 2.0 / (n * (n - 1.0)) if n > 1 else 0.0


@kernel
def separation(spread: Spread, variant: int) -> Floats:
    """S_f, or its mean over the pairs; rounding never makes it negative."""
    scale = pair_scale(spread.n, variant)
    result = np.empty(spread.total.shape[0])
    for f in range(result.shape[0]):
        gap = spread.n * spread.square[f] - spread.total[f] * spread.total[f]
        result[f] = scale * max(gap, 0.0)
    return result


@kernel
def log_grid_normalizer(state: State, gaps: Floats) -> float:
    """Log of sum_g w_g exp(-rate g S): what normalises a grid prior of precisions given the means."""
    terms = np.empty(state.grid.shape[0])
    for g in range(terms.shape[0]):
        terms[g] = state.grid_log_weight[g] - state.separation_rate * (state.grid[g] * gaps).sum()
    return log_sum(terms)


@kernel
def precision_prior_given(state: State, gaps: Floats) -> tuple[Floats, Floats, float]:
    """The normalised prior of precisions given S: rates, grid log weights, and the log of what normalises it."""
    rate = state.rate + state.separation_rate * gaps
    grid_log = state.grid_log_weight.copy()
    log_mass = 0.0
    if state.grid.shape[0] > 0:
        log_mass = log_grid_normalizer(state, gaps)
        for g in range(grid_log.shape[0]):
            grid_log[g] -= state.separation_rate * (state.grid[g] * gaps).sum() + log_mass
    else:
        for f in range(rate.shape[0]):
            log_mass += state.shape[f] * np.log(state.rate[f] / rate[f])
    return rate, grid_log, log_mass


@kernel
def fill_factors(
    factor: Floats, base: Spread, mean: Floats, change: int, rate: float, prior_rate: Floats, precision_sum: Floats
) -> float:
    """Per feature 1 + rate S_f / prior_rate into `factor`; returns -rate sum_f T_f S_f."""
    n = base.n + change
    total, square = base.total, base.square
    result = 0.0
    for f in range(mean.shape[0]):
        sum_of_means = total[f] + change * mean[f]
        gap = n * (square[f] + change * mean[f] * mean[f]) - sum_of_means * sum_of_means
        gap = gap if gap > 0.0 else 0.0
        result -= precision_sum[f] * gap
        factor[0, f] = 1.0 + rate * gap / prior_rate[f]
    return rate * result


@kernel
def add_log_couplings(
    log_weight: Floats, start: int, state: State, base: Spread, rows: Floats, n_types: int, precision_sum: Floats,
    variant: int, factor: Floats,
) -> None:  # fmt: skip
    """Add to log_weight[start:] the log coupling of the means in `base` with each of `rows` added in turn."""
    for a in range(rows.shape[0]):
        coupling = log_coupling(state, base, rows[a], 1, n_types, precision_sum, variant, factor)
        log_weight[start + a] += coupling


@kernel
def log_coupling(
    state: State, base: Spread, mean: Floats, change: int, n_types: int, precision_sum: Floats, variant: int,
    factor: Floats,
) -> float:  # fmt: skip
    """Log of the coupling for the means in `base` with `mean` added (change 1), taken away (-1) or ignored (0).

    `factor` is scratch of one row. The published variant's powers of G0 are not in it: they follow the ranks.
    """
    n = base.n + change
    rate = state.separation_rate * pair_scale(n, variant)
    result = fill_factors(factor, base, mean, change, rate, state.rate, precision_sum)
    if variant == PUBLISHED:
        return result + 0.5 * n_types * n * (n - 1) * np.log(state.separation_rate)
    if state.grid.shape[0] > 0:
        gaps = (factor[0] - 1.0) * state.rate / state.separation_rate
        return result - n_types * log_grid_normalizer(state, gaps)
    # One shape for all features lets the logarithms be taken of products (see SCDP-2 for shapes that differ).
    varies = False
    for f in range(1, mean.shape[0]):
        varies |= state.shape[f] != state.shape[0]
    if varies:
        return result + n_types * (state.shape * np.log(factor[0])).sum()
    return result + n_types * state.shape[0] * sum_of_logs(factor, 0)


@kernel
def log_mean_prior(state: State, mean: Floats) -> float:
    """Log density of a mean under G0: Normal, or the weight of its row of the grid."""
    if state.mean_grid.shape[0] > 0:
        for g in range(state.mean_grid.shape[0]):
            if (state.mean_grid[g] == mean).all():
                return state.mean_grid_log_weight[g]
        return -np.inf
    square = 0.0
    for f in range(mean.shape[0]):
        square += mean[f] * mean[f]
    return -0.5 * (mean.shape[0] * (LOG_2PI + np.log(state.mean_variance)) + square / state.mean_variance)


@kernel
def change_spread(spread: Spread, mean: Floats, change: int) -> Spread:
    """The power sums with a mean added (change 1) or taken away (-1)."""
    return Spread(spread.n + change, spread.total + change * mean, spread.square + change * mean * mean)
