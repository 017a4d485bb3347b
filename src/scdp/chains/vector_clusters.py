"""Gibbs over the hidden clusters, one item after another, means integrated out.

Items are visited grouped by reference type, so that each cluster needs one table row, for the type at hand. A
visit then costs a multiply-add per feature and cluster; only the item's own cluster (without it) and the
clusters it leaves and joins are worked out anew.
"""

from __future__ import annotations

from math import lgamma
from typing import NamedTuple

import numpy as np

from scdp._compile import kernel
from scdp._typing import Floats, Integers
from scdp.chains import State
from scdp.chains.arithmetic import (
    add_item,
    choose,
    clear_sums,
    cluster_sums,
    copy_sums,
    empty_sums,
    highest_used,
    log_new_cluster,
    log_table,
    lowest_empty,
    slot_counts,
    sum_of_logs,
)
from scdp.chains.items import Items, SlotItems

LOG_2PI = float(np.log(2 * np.pi))


@kernel
def log_gamma_density(value: float, shape: float, rate: float) -> float:
    return shape * np.log(rate) - lgamma(shape) + (shape - 1.0) * np.log(value) - rate * value


@kernel
def log_partition_prior(
    counts: Integers, start: Integers, end: Integers, concentration: float, discount: float = 0.0
) -> float:
    """Log probability of the layout of every group, each a range of slots."""
    total = 0.0
    for r in range(start.shape[0]):
        n = n_clusters = 0
        for slot in range(start[r], end[r]):
            if counts[slot] > 0:
                n += counts[slot]
                total += np.log(concentration + discount * n_clusters)
                total += lgamma(counts[slot] - discount) - lgamma(1.0 - discount)
                n_clusters += 1
        if n > 0:
            total += lgamma(concentration) - lgamma(concentration + n)
    return total


@kernel
def log_precision_prior(state: State, counts: Integers) -> float:
    total = 0.0
    for kind in range(counts.shape[0]):
        if counts[kind] == 0:
            continue
        if state.grid.shape[0] > 0:
            for g in range(state.grid.shape[0]):
                if (state.grid[g] == state.precision[kind]).all():
                    total += state.grid_log_weight[g]
        else:
            for f in range(state.shape.shape[0]):
                total += log_gamma_density(state.precision[kind, f], state.shape[f], state.rate[f])
    return total


@kernel
def log_data(items: Items, state: State) -> float:
    """Log density of the points given clusters, types and precisions."""
    sums = cluster_sums(items, state)
    prior_weight = 1.0 / state.mean_variance
    log_precision = np.log(state.precision)
    total = 0.0
    for i in range(items.points.shape[0]):
        kind = state.type[i]
        for f in range(items.points.shape[1]):
            square = state.precision[kind, f] * items.points[i, f] ** 2
            total += items.observed[i, f] * (log_precision[kind, f] - LOG_2PI - square)
    for slot in range(sums.size.shape[0]):
        if sums.size[slot] > 0:
            for f in range(items.points.shape[1]):
                a = prior_weight + sums.weight[slot, f]
                total += sums.pull[slot, f] ** 2 / a - np.log(a / prior_weight)
    return 0.5 * total


@kernel
def log_prior_of_labels(
    items: SlotItems, state: State, counts: Integers, type_counts: Integers, concentration_priors: Floats
) -> float:
    """Log prior of clusters, types, precisions and concentrations.

    `concentration_priors` holds shape and rate of the cluster concentration, then of the type concentration.
    """
    whole = np.array([0]), np.array([type_counts.shape[0]])
    return (
        log_partition_prior(counts, items.slot_start, items.slot_end, state.cluster_concentration, state.discount)
        + log_partition_prior(type_counts, whole[0], whole[1], state.type_concentration)
        + log_precision_prior(state, type_counts)
        + log_gamma_density(state.cluster_concentration, concentration_priors[0], concentration_priors[1])
        + log_gamma_density(state.type_concentration, concentration_priors[2], concentration_priors[3])
    )


@kernel
def log_joint(items: Items, state: State, concentration_priors: Floats) -> float:
    """Everything: data, clusters, types, precisions and concentrations."""
    counts = slot_counts(state.cluster, items.known_in_slot.shape[0])
    type_counts = slot_counts(state.type, state.precision.shape[0])
    return log_data(items, state) + log_prior_of_labels(items, state, counts, type_counts, concentration_priors)


class Table(NamedTuple):
    """Per row: mean and inverse variance by feature, log inverse variance by feature, and half their sum."""

    mean: Floats
    inverse: Floats
    log_inverse: Floats
    half_log: Floats


@kernel
def make_table(n_rows: int, n_features: int) -> Table:
    return Table(
        np.empty((n_rows, n_features)), np.empty((n_rows, n_features)), np.empty((n_rows, n_features)), np.empty(n_rows)
    )


@kernel
def fill_row(
    table: Table, at: int, weight: Floats, pull: Floats, slot: int, row: Floats, prior_weight: float, logs: bool
) -> None:
    """Write into row `at` the predictive of the cluster sums at `slot` for items of precisions `row`."""
    mean, inverse, log_inverse, half_log = table
    for f in range(row.shape[0]):
        a = prior_weight + weight[slot, f]
        mean[at, f] = pull[slot, f] / a
        inverse[at, f] = row[f] / (row[f] + a) * a
    half_log[at] = 0.5 * sum_of_logs(inverse, at)
    if logs:
        for f in range(row.shape[0]):
            log_inverse[at, f] = np.log(inverse[at, f])


@kernel
def copy_row(table: Table, source: int, target: int) -> None:
    table.mean[target, :] = table.mean[source, :]
    table.inverse[target, :] = table.inverse[source, :]
    table.log_inverse[target, :] = table.log_inverse[source, :]
    table.half_log[target] = table.half_log[source]


NEW = -1


@kernel
def order_by_type(hidden: Integers, types: Integers) -> Integers:
    """The hidden items, stably sorted by reference type."""
    n_types = 0
    for i in hidden:
        n_types = max(n_types, types[i] + 1)
    place = np.zeros(n_types + 1, np.int64)
    for i in hidden:
        place[types[i] + 1] += 1
    for kind in range(n_types):
        place[kind + 1] += place[kind]
    order = np.empty(hidden.shape[0], np.int64)
    for i in hidden:
        order[place[types[i]]] = i
        place[types[i]] += 1
    return order


@kernel
def groups_with_hidden(items: SlotItems) -> Integers:
    open_to_change = np.zeros(items.slot_start.shape[0], np.bool_)
    for i in items.hidden:
        open_to_change[items.group[i]] = True
    return np.flatnonzero(open_to_change)


@kernel
def widest_range(items: SlotItems) -> int:
    """The largest number of clusters an item may ever choose from, a new one included."""
    widest = 0
    for r in range(items.slot_start.shape[0]):
        widest = max(widest, items.slot_end[r] - items.slot_start[r])
    return widest + 1


@kernel
def list_candidates(
    table_row: Integers, candidate: Integers, log_weight: Floats, count: Integers, own: int,
    start: int, high: int, own_row: int, logs: Floats,
) -> int:  # fmt: skip
    """The clusters an item may sit in without itself: slot, table row and log size; returns how many."""
    m = 0
    for slot in range(start, high):
        size = count[slot] - (slot == own)
        if size > 0:
            candidate[m] = slot
            table_row[m] = own_row if slot == own else slot
            log_weight[m] = logs[size]
            m += 1
    return m


@kernel
def add_log_predictives(log_weight: Floats, table_row: Integers, m: int, table: Table, items: Items, i: int) -> None:
    """Add to each of m log weights the log density of item i under its table row, up to a common constant.

    The hottest loops of all, so they stand inline: a call with its dozen arrays would cost more than a row.
    """
    mean, inverse, log_inverse, half_log = table
    points, observed = items.points, items.observed
    n_features = points.shape[1]
    if items.complete[i]:
        for j in range(m):
            at = table_row[j]
            square = 0.0
            for f in range(n_features):
                gap = points[i, f] - mean[at, f]
                square += inverse[at, f] * gap * gap
            log_weight[j] += half_log[at] - 0.5 * square
        return
    for j in range(m):
        at = table_row[j]
        total = 0.0
        for f in range(n_features):
            gap = points[i, f] - mean[at, f]
            total += observed[i, f] * (log_inverse[at, f] - inverse[at, f] * gap * gap)
        log_weight[j] += 0.5 * total


@kernel
def resample_clusters(rng: np.random.Generator, items: Items, state: State) -> tuple[Integers, int]:
    """One Gibbs pass over the hidden items; returns the new slots and how many items moved."""
    cluster = state.cluster.copy()
    sums = cluster_sums(items, state)
    n_slots, n_features = sums.weight.shape
    own_sums = empty_sums(1, n_features)
    nobody = empty_sums(1, n_features)
    new_row, own_row = n_slots, n_slots + 1
    table = make_table(n_slots + 2, n_features)
    some_missing = not items.complete.all()
    prior_weight = 1.0 / state.mean_variance
    logs = log_table(items.points.shape[0], state.discount)
    high = highest_used(sums.size, items.slot_start, items.slot_end)
    candidate = np.empty(widest_range(items), np.int64)
    table_row = np.empty(candidate.shape[0], np.int64)
    log_weight = np.empty(candidate.shape[0])
    active = groups_with_hidden(items)

    moved = 0
    kind = -1
    for i in order_by_type(items.hidden, state.type):
        row = state.precision[state.type[i]]
        if state.type[i] != kind:
            kind = state.type[i]
            fill_row(table, new_row, nobody.weight, nobody.pull, 0, row, prior_weight, some_missing)
            for r in active:
                for slot in range(items.slot_start[r], high[r]):
                    if sums.size[slot] > 0:
                        fill_row(table, slot, sums.weight, sums.pull, slot, row, prior_weight, some_missing)

        own = cluster[i]
        r = items.group[i]
        copy_sums(sums, own, own_sums, 0)
        add_item(own_sums, 0, items, i, row, -1)
        if own_sums.size[0] > 0:
            fill_row(table, own_row, own_sums.weight, own_sums.pull, 0, row, prior_weight, some_missing)
        m = list_candidates(
            table_row, candidate, log_weight, sums.size, own, items.slot_start[r], high[r], own_row, logs
        )
        candidate[m], table_row[m], log_weight[m] = NEW, new_row, log_new_cluster(state, m)
        add_log_predictives(log_weight, table_row, m + 1, table, items, i)
        chosen = candidate[choose(rng, log_weight, m + 1)]
        if chosen == own:
            continue

        if own_sums.size[0] > 0:
            copy_sums(own_sums, 0, sums, own)
            copy_row(table, own_row, own)
        else:
            clear_sums(sums, own)
            while high[r] > items.slot_start[r] and sums.size[high[r] - 1] == 0:
                high[r] -= 1
        if chosen == NEW:
            chosen = lowest_empty(sums.size, items.slot_start[r])
            high[r] = max(high[r], chosen + 1)
        add_item(sums, chosen, items, i, row, 1)
        fill_row(table, chosen, sums.weight, sums.pull, chosen, row, prior_weight, some_missing)
        cluster[i] = chosen
        moved += 1
    return cluster, moved


@kernel
def log_given_mean(items: Items, i: int, row: Floats, mean: Floats) -> float:
    """Log density of item i given a mean, without the terms in log precision."""
    square = 0.0
    for f in range(row.shape[0]):
        gap = items.points[i, f] - mean[f]
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
    logs = log_table(cluster.shape[0], state.discount)
    candidate = np.empty(widest_range(items), np.int64)
    log_weight = np.empty(candidate.shape[0])
    moved = 0
    for i in items.hidden:
        row = state.precision[state.type[i]]
        own, r = cluster[i], items.group[i]
        counts[own] -= 1
        m = 0
        for slot in range(items.slot_start[r], high[r]):
            if counts[slot] > 0:
                candidate[m] = slot
                log_weight[m] = logs[counts[slot]] + log_given_mean(items, i, row, means[slot])
                m += 1
        candidate[m] = -1
        log_weight[m] = log_new_cluster(state, m) + log_new_mean(items, i, row, prior_weight)
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
