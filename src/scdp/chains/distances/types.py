"""Gibbs over reference types on distances, means integrated out: Neal's Algorithm 8 with reused auxiliaries.

A type in use is weighed by its count and the item's predictive in its cluster; each of M auxiliary rows, drawn from
the precision prior, by alpha / M. A row that is chosen is replaced by a fresh draw; a type that loses its only item
replaces a row drawn at random (Favaro and Teh 2013): auxiliaries stay independent draws of the prior.

For fixed clusters and types the data enter by (cluster, type): how many items have a feature, the sum of their squared
distances to the origin, and for two types of a cluster the sum of squared distances between their items.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scdp._compile import kernel
from scdp._typing import Floats, Integers
from scdp.chains import State
from scdp.chains.arithmetic import choose, log_table, lowest_empty, slot_counts, sum_of_logs
from scdp.chains.distances import (
    ROUNDING,
    TURNS,
    Members,
    add_products,
    cluster_scatters,
    list_members,
    origin_sums,
    position_of,
    sum_over_list,
    weights_by_position,
)
from scdp.chains.items import LANES, DistanceItems
from scdp.chains.vector_types import SMALLEST


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
    log_weight: Floats, product: Floats, n: int, by_feature: Floats, base: Floats, gap: Floats, observed: Floats
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
                        add_products(sums, (other - first) * width + f, change, f, items.squared, entry * width + f)
    precision = np.ascontiguousarray(columns[:, n_auxiliary : n_auxiliary + high].T)
    return types, precision, moved, negative


MAX_STEPS = 24
LOWEST = float(np.log(SMALLEST))


class Terms(NamedTuple):
    """Per feature a row with a place for every cluster; `total` is scratch, a single row."""

    base: Floats
    slope: Floats
    constant: Floats
    linear: Floats
    quadratic: Floats
    total: Floats


@kernel
def make_terms(n_rows: int, n: int) -> Terms:
    rows = np.zeros((5, n_rows, n))
    return Terms(rows[0], rows[1], rows[2], rows[3], rows[4], np.empty((1, n)))


@kernel
def log_clusters(terms: Terms, f: int, t: float) -> float:
    """The clusters' part of the log density at precision t."""
    base, slope, constant, linear, quadratic, total = terms
    square = 0.0
    for j in range(base.shape[1]):
        a = base[f, j] + slope[f, j] * t
        total[0, j] = a
        square += (constant[f, j] + t * (linear[f, j] + t * quadratic[f, j])) / a
    return -0.5 * (square + sum_of_logs(total, 0))


@kernel
def log_density(terms: Terms, f: int, shape: float, rate: float, x: float) -> float:
    if x < LOWEST:
        return -np.inf
    t = np.exp(x)
    return shape * x - rate * t + log_clusters(terms, f, t)


@kernel
def slice_step(rng: np.random.Generator, terms: Terms, f: int, shape: float, rate: float, value: float) -> float:
    """One slice-sampling update of a precision under row f of the terms; leaves its density invariant.

    Neal (2003): a level under the density, an interval of fixed width thrown at random around the point, stepped out
    a limited number of times shared at random between both ends, then shrunk until a point lies above the level. The
    width must not depend on the point; it is three standard deviations of the logarithm of a Gamma of this shape.
    Points below the smallest precision have no density, as nowhere in the sampler.
    """
    x = max(np.log(value), LOWEST)
    width = 3.0 / np.sqrt(shape)
    level = log_density(terms, f, shape, rate, x) + np.log(rng.random())
    left = x - width * rng.random()
    right = left + width
    to_left = int(MAX_STEPS * rng.random())
    to_right = MAX_STEPS - 1 - to_left
    while to_left > 0 and log_density(terms, f, shape, rate, left) > level:
        left -= width
        to_left -= 1
    while to_right > 0 and log_density(terms, f, shape, rate, right) > level:
        right += width
        to_right -= 1
    while right - left > 1e-13 * max(1.0, abs(x)):
        proposed = left + rng.random() * (right - left)
        if log_density(terms, f, shape, rate, proposed) >= level:
            return max(np.exp(proposed), SMALLEST)
        if proposed < x:
            left = proposed
        else:
            right = proposed
    return value


class Cells(NamedTuple):
    """Statistics by cell, a cell being a type within a cluster; cluster c has cells start[c] to start[c + 1].

    The pairs of the u-th and v-th type of cluster c are row pair_start[c] + u * (its number of types) + v of `pairs`:
    each pair of items counts once, in rows (u, v) and (v, u) alike.
    """

    start: Integers
    type: Integers
    cluster: Integers
    n_items: Floats
    origin: Floats
    pair_start: Integers
    pairs: Floats


@kernel
def local_types(types: Integers, members: Members, n_types: int) -> tuple[Integers, Integers, Integers]:
    """Cells of every slot: where they start, the type of each, and of every item the rank of its cell."""
    n_slots = members.start.shape[0] - 1
    start = np.zeros(n_slots + 1, np.int64)
    type_of = np.empty(types.shape[0], np.int64)
    rank = np.empty(types.shape[0], np.int64)
    cell_of_type = np.full(n_types, -1)
    n_cells = 0
    for slot in range(n_slots):
        for k in range(members.start[slot], members.start[slot + 1]):
            kind = types[members.item[k]]
            if cell_of_type[kind] < start[slot]:
                cell_of_type[kind] = n_cells
                type_of[n_cells] = kind
                n_cells += 1
            rank[members.item[k]] = cell_of_type[kind] - start[slot]
        start[slot + 1] = n_cells
    return start, type_of[:n_cells].copy(), rank


@kernel
def gather_cells(items: DistanceItems, state: State) -> Cells:
    """All statistics, from one pass over the pairs within clusters."""
    n_slots, width = items.known_in_slot.shape[0], items.squared.shape[1]
    members = list_members(state.cluster, n_slots)
    start, type_of, rank = local_types(state.type, members, state.type.max() + 1)
    n_features = items.observed.shape[1]
    count, origin = np.zeros((type_of.shape[0], n_features)), np.zeros((type_of.shape[0], n_features))
    cluster = np.empty(type_of.shape[0], np.int64)
    pair_start = np.zeros(n_slots + 1, np.int64)
    for slot in range(n_slots):
        cluster[start[slot] : start[slot + 1]] = slot
        pair_start[slot + 1] = pair_start[slot] + (start[slot + 1] - start[slot]) ** 2
    pairs = np.zeros((pair_start[n_slots], width))
    sums = np.empty((TURNS, (start[1:] - start[:-1]).max(), width))
    step, ones = sums.shape[1] * width, np.ones(LANES)
    for slot in range(n_slots):
        first, end = members.start[slot], members.start[slot + 1]
        n_local = start[slot + 1] - start[slot]
        for k in range(first, end):
            i = members.item[k]
            cell = start[slot] + rank[i]
            for f in range(n_features):
                count[cell, f] += items.observed[i, f]
                origin[cell, f] += items.origin[i, f]
            sums[:, :n_local, :] = 0.0
            for other in range(first, k):
                j = members.item[other]
                entry = (items.row_start[i] + items.place[j]) * width
                at = (other % TURNS) * step + rank[j] * width
                for f in range(0, width, LANES):
                    add_products(sums, at + f, ones, 0, items.squared, entry + f)
            for v in range(n_local):
                at = pair_start[slot] + rank[i] * n_local + v
                for f in range(width):
                    pairs[at, f] += sums[0, v, f] + sums[1, v, f]
        for u in range(n_local):
            for v in range(u):
                one, two = pair_start[slot] + u * n_local + v, pair_start[slot] + v * n_local + u
                for f in range(width):
                    pairs[one, f] += pairs[two, f]
                    pairs[two, f] = pairs[one, f]
    return Cells(start, type_of, cluster, count, origin, pair_start, pairs)


@kernel
def fill_term(terms: Terms, j: int, cells: Cells, cell: int, precision: Floats, prior_weight: float) -> None:
    """Write as place j what the cluster of a cell is as a function of the precisions of the cell's type."""
    base, slope, constant, linear, quadratic, _ = terms
    slot = cells.cluster[cell]
    first, end = cells.start[slot], cells.start[slot + 1]
    n_local, own = end - first, cell - first
    pairs, at = cells.pairs, cells.pair_start[slot]
    for f in range(precision.shape[1]):
        base[f, j] = prior_weight
        slope[f, j] = cells.n_items[cell, f]
        constant[f, j] = 0.0
        linear[f, j] = prior_weight * cells.origin[cell, f]
        quadratic[f, j] = pairs[at + own * n_local + own, f]
    for u in range(n_local):
        if u == own:
            continue
        row = precision[cells.type[first + u]]
        for f in range(precision.shape[1]):
            within = prior_weight * cells.origin[first + u, f] + row[f] * pairs[at + u * n_local + u, f]
            base[f, j] += row[f] * cells.n_items[first + u, f]
            linear[f, j] += row[f] * pairs[at + own * n_local + u, f]
            constant[f, j] += row[f] * within
        for v in range(u):
            if v != own:
                other = precision[cells.type[first + v]]
                for f in range(precision.shape[1]):
                    constant[f, j] += row[f] * other[f] * pairs[at + u * n_local + v, f]


@kernel
def choose_grid_row(rng: np.random.Generator, state: State, terms: Terms, count: Floats, grid_log: Floats) -> int:
    """A grid row for a type, given how many items have each feature."""
    for g in range(state.grid.shape[0]):
        grid_log[g] = state.grid_log_weight[g]
        for f in range(count.shape[0]):
            t = state.grid[g, f]
            grid_log[g] += 0.5 * count[f] * np.log(t) + log_clusters(terms, f, t)
    return choose(rng, grid_log, grid_log.shape[0])


@kernel
def resample_precisions_by_distance(rng: np.random.Generator, items: DistanceItems, state: State) -> Floats:
    """Update every used type's precisions, one after another; rows of empty slots are left as they are."""
    cells = gather_cells(items, state)
    precision = state.precision.copy()
    by_type = list_members(cells.type, precision.shape[0])
    grid_log = np.empty(state.grid.shape[0])
    n_features = precision.shape[1]
    count = np.empty(n_features)
    for kind in range(precision.shape[0]):
        first, end = by_type.start[kind], by_type.start[kind + 1]
        if first == end:
            continue
        terms = make_terms(n_features, end - first)
        count[:] = 0.0
        for k in range(first, end):
            fill_term(terms, k - first, cells, by_type.item[k], precision, 1.0 / state.mean_variance)
            count += cells.n_items[by_type.item[k]]
        if state.grid.shape[0] > 0:
            precision[kind] = state.grid[choose_grid_row(rng, state, terms, count, grid_log)]
        else:
            for f in range(n_features):
                shape = state.shape[f] + 0.5 * count[f]
                precision[kind, f] = slice_step(rng, terms, f, shape, state.rate[f], precision[kind, f])
    return precision


@kernel
def resample_mean_variance_by_distance(
    rng: np.random.Generator, items: DistanceItems, state: State, shape: float, rate: float
) -> float:
    """The variance of the mean prior, whose inverse s has a Gamma(shape, rate) prior.

    A cluster of weights w is prod_f s^1/2 (s + W)^-1/2 exp(-(s U + V) / 2 (s + W)), U and V its weighted squares to the
    origin and within: the same form as for a precision.
    """
    weight = weights_by_position(items, state)
    everywhere = np.ones(items.slot_start.shape[0], np.bool_)
    within = cluster_scatters(items, state, weight, 0.0, everywhere)
    to_origin = origin_sums(items, state, weight)
    used = np.flatnonzero(within.size)
    n_features = items.observed.shape[1]
    terms = make_terms(1, used.shape[0] * n_features)
    for j in range(used.shape[0]):
        for f in range(n_features):
            at = j * n_features + f
            terms.base[0, at] = within.weight[used[j], f]
            terms.slope[0, at] = 1.0
            terms.constant[0, at] = within.scatter[used[j], f]
            terms.linear[0, at] = to_origin[used[j], f]
    after_shape = shape + 0.5 * used.shape[0] * n_features
    return 1.0 / slice_step(rng, terms, 0, after_shape, rate, 1.0 / state.mean_variance)
