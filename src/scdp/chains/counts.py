"""Discrete likelihoods: counts of outcomes whose chances are a cluster's own, integrated out.

A feature of the beta-binomial likelihood is a number of successes among trials, and its two outcomes share a pool of
pseudo-counts; in the Dirichlet-multinomial one all features are outcomes of one pool. Either way a cluster's chances
in a pool are Dirichlet, so that its counts S have the marginal

    prod over outcomes of Gamma(a + S) / Gamma(a)  times  prod over pools of Gamma(A) / Gamma(A + T)

with the pseudo-counts a, their sum A in the pool, and the trials T. Given its cluster's chances, an item has nothing
left that could be its own, so there is one reference type: the pseudo-counts, which all clusters share. Each has a
Gamma(1, 1) prior, as precisions have, and is drawn by a slice step.
"""

from __future__ import annotations

from math import lgamma
from typing import NamedTuple

import numpy as np

from scdp._compile import kernel
from scdp._typing import Floats, Integers
from scdp.chains import Info, Plan, Priors, State
from scdp.chains.arithmetic import choose, highest_used, log_new_cluster, log_table, lowest_empty, slot_counts
from scdp.chains.items import CountItems
from scdp.chains.vector_clusters import NEW, log_gamma_density, log_partition_prior, widest_range

# Pseudo-counts outside of this are ruled out; the prior gives that less than one in a billion.
LOG_SMALLEST, LOG_LARGEST = float(np.log(1e-9)), float(np.log(1e3))


def first_pseudo_counts(items: CountItems) -> Floats:
    """Pseudo-counts of 1: all chances are equally likely."""
    return np.ones((items.outcomes.shape[1] // items.n_features, items.n_features))


class CountSums(NamedTuple):
    """Per cluster slot: its number of items, its counts by outcome, and its trials by pool."""

    size: Integers
    outcomes: Floats
    trials: Floats


@kernel
def sum_counts(items: CountItems, cluster: Integers) -> CountSums:
    n_slots = items.known_in_slot.shape[0]
    sums = CountSums(
        slot_counts(cluster, n_slots),
        np.zeros((n_slots, items.outcomes.shape[1])),
        np.zeros((n_slots, items.trials.shape[1])),
    )
    for i in range(cluster.shape[0]):
        sums.outcomes[cluster[i]] += items.outcomes[i]
        sums.trials[cluster[i]] += items.trials[i]
    return sums


@kernel
def pool_sums(items: CountItems, pseudo: Floats) -> Floats:
    """Pseudo-counts summed by pool."""
    total = np.zeros(items.trials.shape[1])
    for c in range(pseudo.shape[0]):
        total[items.pool[c]] += pseudo[c]
    return total


@kernel
def log_rising(x: float, n: float) -> float:
    """Log of x (x + 1) … (x + n - 1), of a whole number of factors."""
    if n > 8.0:
        return lgamma(x + n) - lgamma(x)
    product = 1.0
    for k in range(int(n)):
        product *= x + k
    return np.log(product)


@kernel
def log_predictive(items: CountItems, i: int, sums: CountSums, slot: int, pseudo: Floats, total: Floats) -> float:
    """Log chance of item i in a cluster of these sums, without the number of orders of its outcomes."""
    result = 0.0
    for c in range(pseudo.shape[0]):
        if items.outcomes[i, c] > 0:
            result += log_rising(pseudo[c] + sums.outcomes[slot, c], items.outcomes[i, c])
    for p in range(total.shape[0]):
        if items.trials[i, p] > 0:
            result -= log_rising(total[p] + sums.trials[slot, p], items.trials[i, p])
    return result


@kernel
def resample_clusters_of_counts(rng: np.random.Generator, items: CountItems, state: State) -> tuple[Integers, int]:
    """One Gibbs pass over the hidden items; returns the new slots and how many items moved."""
    cluster = state.cluster.copy()
    sums = sum_counts(items, cluster)
    pseudo = state.pseudo_counts.copy().reshape(-1)
    total = pool_sums(items, pseudo)
    nobody = CountSums(np.zeros(1, np.int64), np.zeros((1, pseudo.shape[0])), np.zeros((1, total.shape[0])))
    high = highest_used(sums.size, items.slot_start, items.slot_end)
    logs = log_table(cluster.shape[0], state.discount)
    candidate = np.empty(widest_range(items), np.int64)
    log_weight = np.empty(candidate.shape[0])
    moved = 0
    for i in items.hidden:
        own, r = cluster[i], items.group[i]
        sums.size[own] -= 1
        sums.outcomes[own] -= items.outcomes[i]
        sums.trials[own] -= items.trials[i]
        m = 0
        for slot in range(items.slot_start[r], high[r]):
            if sums.size[slot] > 0:
                candidate[m] = slot
                log_weight[m] = logs[sums.size[slot]] + log_predictive(items, i, sums, slot, pseudo, total)
                m += 1
        candidate[m] = NEW
        log_weight[m] = log_new_cluster(state, m) + log_predictive(items, i, nobody, 0, pseudo, total)
        chosen = candidate[choose(rng, log_weight, m + 1)]
        if chosen == NEW:
            chosen = lowest_empty(sums.size, items.slot_start[r])
        sums.size[chosen] += 1
        sums.outcomes[chosen] += items.outcomes[i]
        sums.trials[chosen] += items.trials[i]
        high[r] = max(high[r], chosen + 1)
        while sums.size[high[r] - 1] == 0:
            high[r] -= 1
        cluster[i] = chosen
        moved += chosen != own
    return cluster, moved


@kernel
def log_pseudo_density(log_value: float, c: int, others: float, sums: CountSums, pool: int) -> float:
    """Log density of the logarithm of one pseudo-count given all clusters; `others` are those of its pool."""
    if log_value < LOG_SMALLEST or log_value > LOG_LARGEST:
        return -np.inf
    value = np.exp(log_value)
    result = log_value - value
    for slot in range(sums.size.shape[0]):
        if sums.size[slot] > 0 and sums.trials[slot, pool] > 0:
            result += log_rising(value, sums.outcomes[slot, c])
            result -= log_rising(others + value, sums.trials[slot, pool])
    return result


@kernel
def resample_pseudo_counts(rng: np.random.Generator, items: CountItems, state: State) -> Floats:
    """A slice step (stepping out, then shrinking) for each pseudo-count, given the clusters."""
    sums = sum_counts(items, state.cluster)
    pseudo = state.pseudo_counts.copy().reshape(-1)
    total = pool_sums(items, pseudo)
    for c in range(pseudo.shape[0]):
        pool = items.pool[c]
        others = total[pool] - pseudo[c]
        x = np.log(pseudo[c])
        height = log_pseudo_density(x, c, others, sums, pool) - rng.standard_exponential()
        left = x - rng.random()
        right = left + 1.0
        while log_pseudo_density(left, c, others, sums, pool) > height:
            left -= 1.0
        while log_pseudo_density(right, c, others, sums, pool) > height:
            right += 1.0
        while True:
            y = left + (right - left) * rng.random()
            if log_pseudo_density(y, c, others, sums, pool) > height:
                break
            if y < x:
                left = y
            else:
                right = y
        pseudo[c] = np.exp(y)
        total[pool] = others + pseudo[c]
    return pseudo.reshape(state.pseudo_counts.shape)


def count_sweep(
    rng: np.random.Generator, state: State, items: CountItems, plan: Plan, priors: Priors
) -> tuple[State, Info]:
    """One full update of the state except its concentrations."""
    if len(items.hidden):
        state = state._replace(cluster=resample_clusters_of_counts(rng, items, state)[0])
    if plan.learn_types:
        state = state._replace(pseudo_counts=resample_pseudo_counts(rng, items, state))
    return state, Info()


@kernel
def log_joint_of_counts(items: CountItems, state: State, concentration_priors: Floats) -> float:
    """Log of counts, clusters, pseudo-counts and concentrations, without the number of orders of the outcomes."""
    sums = sum_counts(items, state.cluster)
    pseudo = state.pseudo_counts.copy().reshape(-1)
    total = pool_sums(items, pseudo)
    result = log_partition_prior(
        sums.size, items.slot_start, items.slot_end, state.cluster_concentration, state.discount
    )
    for slot in range(sums.size.shape[0]):
        if sums.size[slot] > 0:
            for c in range(pseudo.shape[0]):
                result += log_rising(pseudo[c], sums.outcomes[slot, c])
            for p in range(total.shape[0]):
                result -= log_rising(total[p], sums.trials[slot, p])
    return (
        result
        - pseudo.sum()
        + log_gamma_density(state.cluster_concentration, concentration_priors[0], concentration_priors[1])
    )
