"""The paper's own cluster update (its Figure 2): means are part of the state and a new cluster draws one."""

from __future__ import annotations

import numpy as np

from scdp._compile import kernel
from scdp.chains.arithmetic import choose, highest_used, log_table, lowest_empty, slot_counts
from scdp.chains.state import State
from scdp.chains.vectors.clusters import widest_range
from scdp.chains.vectors.items import Floats, Integers, Items


@kernel
def log_given_mean(items: Items, i: int, row: Floats, means: Floats, slot: int) -> float:
    """Log density of item i given its mean, without the terms in log precision."""
    square = 0.0
    for f in range(row.shape[0]):
        gap = items.points[i, f] - means[slot, f]
        square += items.observed[i, f] * row[f] * gap * gap
    return -0.5 * square


@kernel
def log_new_mean(items: Items, i: int, row: Floats, prior_weight: float) -> float:
    """Log density of item i under a mean drawn from the prior, without the terms in log precision."""
    total = 0.0
    for f in range(row.shape[0]):
        if items.observed[i, f] > 0:
            share = prior_weight / (prior_weight + row[f])
            total += np.log(share) - share * row[f] * items.points[i, f] ** 2
    return 0.5 * total


@kernel
def draw_new_mean(
    rng: np.random.Generator, items: Items, i: int, row: Floats, prior_weight: float, mean: Floats
) -> None:
    for f in range(row.shape[0]):
        weight = items.observed[i, f] * row[f]
        a = prior_weight + weight
        mean[f] = weight * items.points[i, f] / a + rng.standard_normal() / np.sqrt(a)


@kernel
def resample_clusters_given_means(
    rng: np.random.Generator, items: Items, state: State, means: Floats
) -> tuple[Integers, Floats, int]:
    """One Gibbs pass over hidden items; returns slots, means (new clusters have theirs) and items moved."""
    cluster, means = state.cluster.copy(), means.copy()
    counts = slot_counts(cluster, items.known_in_slot.shape[0])
    high = highest_used(counts, items.slot_start, items.slot_end)
    prior_weight = 1.0 / state.mean_variance
    log_alpha = np.log(state.cluster_concentration)
    logs = log_table(cluster.shape[0])
    candidate = np.empty(widest_range(items), np.int64)
    log_weight = np.empty(candidate.shape[0])
    moved = 0
    for i in items.hidden:
        row = state.precision[state.type[i]]
        own, r = cluster[i], items.restaurant[i]
        counts[own] -= 1
        m = 0
        for slot in range(items.slot_start[r], high[r]):
            if counts[slot] > 0:
                candidate[m] = slot
                log_weight[m] = logs[counts[slot]] + log_given_mean(items, i, row, means, slot)
                m += 1
        candidate[m] = -1
        log_weight[m] = log_alpha + log_new_mean(items, i, row, prior_weight)
        chosen = candidate[choose(rng, log_weight, m + 1)]
        if chosen < 0:
            chosen = lowest_empty(counts, items.slot_start[r])
            draw_new_mean(rng, items, i, row, prior_weight, means[chosen])
        counts[chosen] += 1
        high[r] = max(high[r], chosen + 1)
        while counts[high[r] - 1] == 0:
            high[r] -= 1
        cluster[i] = chosen
        moved += chosen != own
    return cluster, means, moved
