"""Gibbs over reference types on distances, means integrated out: Neal's Algorithm 8 with reused auxiliaries.

A type in use is weighed by its count and the item's predictive in its cluster; each of M auxiliary rows, drawn from
the precision prior, by alpha / M. A row that is chosen is replaced by a fresh draw; a type that loses its only item
replaces a row drawn at random (Favaro and Teh 2013): auxiliaries stay independent draws of the prior.
"""

from __future__ import annotations

import numpy as np

from scdp._compile import kernel
from scdp._typing import Floats, Integers
from scdp.chains.arithmetic import choose, log_table, lowest_empty, slot_counts
from scdp.chains.distances.items import LANES, DistanceItems
from scdp.chains.distances.rows import (
    ROUNDING,
    TURNS,
    add_products,
    list_members,
    position_of,
    sum_over_list,
    weights_by_position,
)
from scdp.chains.state import State
from scdp.chains.vectors.types import SMALLEST


@kernel
def draw_prior_row(rng: np.random.Generator, state: State, grid_log: Floats, row: Floats) -> None:
    """Precisions from the prior; `grid_log` is scratch as long as the grid."""
    if state.grid.shape[0] > 0:
        grid_log[:] = state.grid_log_weight
        row[:] = state.grid[choose(rng, grid_log, grid_log.shape[0])]
    else:
        for f in range(row.shape[0]):
            row[f] = max(rng.standard_gamma(state.shape[f]) / state.rate[f], SMALLEST)


@kernel
def add_log_type_densities(
    log_weight: Floats,
    product: Floats,
    n: int,
    by_feature: Floats,
    base: Floats,
    gap: Floats,
    observed: Floats,
) -> None:
    """Add to n log weights that of an item under precision column c, up to a constant of all columns."""
    for c in range(n):
        product[c] = 1.0
    for f in range(gap.shape[0]):
        if observed[f] > 0:
            a, distance = base[f], 0.5 * gap[f]
            for c in range(n):
                share = by_feature[f, c] / (by_feature[f, c] + a)
                product[c] *= share
                log_weight[c] -= share * distance
    for c in range(n):
        if product[c] > 1e-290:
            log_weight[c] += 0.5 * np.log(product[c])
        else:
            for f in range(gap.shape[0]):
                if observed[f] > 0:
                    log_weight[c] += 0.5 * np.log(by_feature[f, c] / (by_feature[f, c] + base[f]))


@kernel
def resample_types_by_distance(
    rng: np.random.Generator, items: DistanceItems, state: State, n_auxiliary: int
) -> tuple[Integers, Floats, int, int]:
    """One pass over every item's type; returns type slots, precision rows, items moved, negative norms met."""
    n, n_features = items.observed.shape
    types = state.type.copy()
    high = types.max() + 1
    # Columns of precisions by feature: the auxiliaries first, then the type slots.
    columns = np.ones((n_features, n_auxiliary + n + 1))
    columns[:, n_auxiliary : n_auxiliary + high] = state.precision[:high].T
    grid_log = np.empty(state.grid.shape[0])
    row = np.empty(n_features)
    for j in range(n_auxiliary):
        draw_prior_row(rng, state, grid_log, row)
        columns[:, j] = row
    counts = slot_counts(types, n + 1)
    logs = log_table(n)
    log_share = np.log(state.type_concentration / n_auxiliary)
    prior_weight = 1.0 / state.mean_variance
    weight = weights_by_position(items, state)
    width = weight.shape[1]
    members = list_members(state.cluster, items.known_in_slot.shape[0])
    largest = (members.start[1:] - members.start[:-1]).max()
    sums, total, change = np.empty((largest, width)), np.empty((TURNS, width)), np.zeros(width)
    base, form, gap = np.empty(n_features), np.empty(n_features), np.empty(n_features)
    log_weight, product = np.empty(columns.shape[1]), np.empty(columns.shape[1])

    moved = negative = 0
    for slot in range(items.known_in_slot.shape[0]):
        first, end = members.start[slot], members.start[slot + 1]
        if first == end:
            continue
        base[:] = prior_weight
        form[:] = 0.0
        for k in range(first, end):
            i = members.item[k]
            sum_over_list(total, items, weight, members.item, first, end, i)
            sums[k - first] = total[0]
            for f in range(n_features):
                w = weight[position_of(items, i), f]
                base[f] += w
                form[f] += w * (prior_weight * items.origin[i, f] + 0.5 * total[0, f])
        for k in range(first, end):
            i = members.item[k]
            own, position, observed = types[i], position_of(items, i), items.observed[i]
            for f in range(n_features):
                far = sums[k - first, f] + prior_weight * items.origin[i, f]
                base[f] -= weight[position, f]
                form[f] -= weight[position, f] * far
                gap[f] = far - form[f] / base[f]
                if observed[f] > 0 and gap[f] < -ROUNDING * (1.0 + far):
                    negative += 1
                    gap[f] = max(gap[f], items.floor)
            counts[own] -= 1
            if counts[own] == 0:
                columns[:, int(rng.random() * n_auxiliary)] = columns[:, n_auxiliary + own]
            for c in range(n_auxiliary):
                log_weight[c] = log_share
            for kind in range(high):
                log_weight[n_auxiliary + kind] = logs[counts[kind]]
            add_log_type_densities(log_weight, product, n_auxiliary + high, columns, base, gap, observed)
            chosen = choose(rng, log_weight, n_auxiliary + high) - n_auxiliary
            opened = chosen < 0
            if opened:
                auxiliary, chosen = chosen + n_auxiliary, lowest_empty(counts, 0)
                columns[:, n_auxiliary + chosen] = columns[:, auxiliary]
                draw_prior_row(rng, state, grid_log, row)
                columns[:, auxiliary] = row
            counts[chosen] += 1
            high = max(high, chosen + 1)
            while counts[high - 1] == 0:
                high -= 1
            types[i] = chosen
            for f in range(n_features):
                w = observed[f] * columns[f, n_auxiliary + chosen]
                base[f] += w
                form[f] += w * (sums[k - first, f] + prior_weight * items.origin[i, f])
                change[f] = w - weight[position, f]
                weight[position, f] = w
            # A new type may take the slot that the item's own left empty: its precisions are new all the same.
            if opened or chosen != own:
                moved += 1
                for other in range(first, end):
                    entry = items.row_start[i] + items.place[members.item[other]]
                    for f in range(0, width, LANES):
                        add_products(
                            sums, (other - first) * width + f, change, f, items.squared, entry * width + f
                        )
    precision = np.ascontiguousarray(columns[:, n_auxiliary : n_auxiliary + high].T)
    return types, precision, moved, negative
