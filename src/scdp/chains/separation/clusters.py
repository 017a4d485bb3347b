"""SCDP-3's clusters, by Neal's Algorithm 8.

A new cluster brings a mean that changes the prior of every precision, so its weight has no closed form: M auxiliary
means stand for it. They are drawn from the posterior of a mean given the item alone ("informed"), weighed by prior
over proposal, which is exact for every M and needs far fewer of them than draws from the prior as in the paper.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scdp._compile import kernel
from scdp._typing import Floats, Integers
from scdp.chains.arithmetic import choose, highest_used, log_table, lowest_empty
from scdp.chains.items import Items
from scdp.chains.separation.coupling import (
    PUBLISHED,
    Ranks,
    Spread,
    add_log_couplings,
    change_spread,
    item_joins,
    item_leaves,
    log_coupling,
    log_given_mean,
    log_mean_prior,
    prefix_sums,
    rank_weighted,
    rank_weighted_after_join,
    rank_weighted_after_open,
    ranks_of,
    spread_of,
    used_precision_sum,
)
from scdp.chains.state import State
from scdp.chains.vectors.clusters import widest_range


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
    largest = grid_log.max()
    return largest + np.log(np.exp(grid_log - largest).sum())


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
