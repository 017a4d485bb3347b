"""Gibbs over the hidden clusters on distances, means integrated out; the twin of scdp.chains.vector_clusters.

Same visiting order, candidates and random numbers. With Q = Z / A, an item of precision t at gap
S + d2(item, o) / sigma - Q (A times its squared distance to the mean) adds t / (t + A) times the gap to Q.
Given centroids (SCDP-3), each choice is also weighed by what it would make of the gaps between them.

SCDP-3 knows the clusters by their centroids: what it conditions precisions on is a function of partition and data.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scdp._compile import kernel
from scdp._typing import Floats, Integers
from scdp.chains import Info, Plan, Priors, State
from scdp.chains.arithmetic import (
    Scatters,
    choose,
    clear_sums,
    copy_sums,
    highest_used,
    log_new_cluster,
    log_table,
    lowest_empty,
    n_distinct,
)
from scdp.chains.distances import (
    BATCH,
    ROUNDING,
    add_to_scatter,
    cluster_scatters,
    empty_scatters,
    local_slots,
    position_of,
    sums_by_cluster,
    weights_by_position,
)
from scdp.chains.distances.centroid_moves import (
    add_log_couplings_by_distance,
    item_joins,
    item_leaves,
    item_returns,
    make_visit,
)
from scdp.chains.distances.centroids import (
    Centroids,
    centroids_of,
    coupling_of,
    enlarge_centroids,
    gap_powers,
    log_coupling_of_centroids,
    presence_by_position,
    separation_by_distance,
    separation_prior_by_distance,
)
from scdp.chains.distances.types import (
    resample_mean_variance_by_distance,
    resample_precisions_by_distance,
    resample_types_by_distance,
)
from scdp.chains.items import DistanceItems
from scdp.chains.split_merge import split_merge_by_distance
from scdp.chains.vector_clusters import NEW, groups_with_hidden, list_candidates, order_by_type, widest_range
from scdp.chains.vector_conditioned import slice_separation_rate
from scdp.chains.vector_coupling import VARIANTS, precision_prior_given
from scdp.chains.vector_types import coupled_prior
from scdp.errors import InputError


class Forms(NamedTuple):
    """Per row and feature (padded), for items of one type: Q, t / (t + A) and log t A / (t + A)."""

    form: Floats
    share: Floats
    log_inverse: Floats


@kernel
def make_forms(n_rows: int, width: int) -> Forms:
    return Forms(np.zeros((n_rows, width)), np.zeros((n_rows, width)), np.zeros((n_rows, width)))


@kernel
def copy_form(forms: Forms, source: int, target: int) -> None:
    forms.form[target, :] = forms.form[source, :]
    forms.share[target, :] = forms.share[source, :]
    forms.log_inverse[target, :] = forms.log_inverse[source, :]


@kernel
def fill_form(forms: Forms, at: int, scatters: Scatters, slot: int, row: Floats, prior_weight: float) -> None:
    """Write into row `at` what items of precisions `row` meet in the cluster at `slot`."""
    form, share, log_inverse = forms
    for f in range(row.shape[0]):
        a = prior_weight + scatters.weight[slot, f]
        form[at, f] = scatters.scatter[slot, f] / a
        share[at, f] = row[f] / (row[f] + a)
        log_inverse[at, f] = np.log(share[at, f] * a)


@kernel
def add_log_predictives(
    log_weight: Floats, table_row: Integers, sums_row: Integers, m: int, forms: Forms, sums: Floats, b: int,
    to_origin: Floats, seen: Floats, floor: float,
) -> int:  # fmt: skip
    """Add to each of m log weights the log density of an item, up to a common constant; returns negative gaps.

    The first loop is the hot one and kept free of branches, so that it vectorises; `below` tells whether any gap is
    negative, and only then are they looked at one by one.
    """
    form, share, log_inverse = forms
    negative = 0
    for j in range(m):
        at, k = table_row[j], sums_row[j]
        total = below = 0.0
        for f in range(seen.shape[0]):
            gap = sums[b, k, f] + to_origin[f] - form[at, f]
            below += seen[f] * (abs(gap) - gap)
            total += seen[f] * (log_inverse[at, f] - share[at, f] * gap)
        if below > ROUNDING:
            for f in range(seen.shape[0]):
                far = sums[b, k, f] + to_origin[f]
                gap = far - form[at, f]
                if seen[f] > 0 and gap < -ROUNDING * (1.0 + far):
                    negative += 1
                    total -= share[at, f] * (max(gap, floor) - gap)
        log_weight[j] += 0.5 * total
    return negative


@kernel
def start_batch(rows: Integers, items: DistanceItems, order: Integers, position: int, n_visits: int) -> int:
    """Rows of the next items to visit, as many as are in one group, at most BATCH; the last fills up."""
    n = 1
    while n < min(BATCH, n_visits - position):
        if items.group[order[position + n]] != items.group[order[position]]:
            break
        n += 1
    for b in range(BATCH):
        rows[b] = items.row_start[order[position + min(b, n - 1)]]
    return n


@kernel
def correct_batch(
    sums: Floats, b: int, n: int, items: DistanceItems, order: Integers, position: int, weight: Floats,
    left: int, joined: int, emptied: bool,
) -> None:  # fmt: skip
    """After visit b of a batch moved its item, put its share right in the sums of the visits still to come."""
    i = order[position]
    row_of_i = position_of(items, i)
    for later in range(b + 1, n):
        entry = items.row_start[order[position + later - b]] + items.place[i]
        for f in range(weight.shape[1]):
            term = weight[row_of_i, f] * items.squared[entry, f]
            sums[later, left, f] = 0.0 if emptied else sums[later, left, f] - term
            sums[later, joined, f] += term


@kernel
def resample_clusters_by_distance(
    rng: np.random.Generator, items: DistanceItems, state: State, centroids: Centroids | None = None
) -> tuple[Integers, int, int, int]:
    """One Gibbs pass over the hidden items: new slots, items moved, clusters opened, negative squared norms met.

    With `centroids` (of the clusters as they are, which it keeps up to date) it is SCDP-3's.
    """
    cluster = state.cluster.copy()
    n_features, width = items.observed.shape[1], items.squared.shape[1]
    active = groups_with_hidden(items)
    wanted = np.zeros(items.slot_start.shape[0], np.bool_)
    wanted[active] = True
    prior_weight = 1.0 / state.mean_variance
    weight = weights_by_position(items, state)
    scatters = cluster_scatters(items, state, weight, prior_weight, wanted)
    own_scatter, nobody = empty_scatters(1, n_features), empty_scatters(1, n_features)
    n_slots = scatters.size.shape[0]
    new_row, own_row = n_slots, n_slots + 1
    forms = make_forms(n_slots + 2, width)
    logs = log_table(cluster.shape[0], state.discount)
    high = highest_used(scatters.size, items.slot_start, items.slot_end)
    candidate = np.empty(widest_range(items), np.int64)
    table_row, sums_row = np.empty_like(candidate), np.empty_like(candidate)
    log_weight = np.empty(candidate.shape[0])
    to_origin, seen = np.zeros(width), np.zeros(width)
    local_slot = local_slots(items, cluster)
    order = order_by_type(items.hidden, state.type)
    # Room for the slots that a batch may open, and a row that stays zero: the sums of a new cluster.
    sums = np.zeros((BATCH, candidate.shape[0] + BATCH, width))
    rows = np.zeros(BATCH, np.int64)
    if centroids is not None:
        presence, coupling = presence_by_position(items), coupling_of(state, width)
        # Under a name of its own, since it may be replaced by one with more room.
        current = centroids
        plain_sums, visit = np.zeros_like(sums), make_visit(candidate.shape[0], width)

    moved = opened = negative = 0
    kind = -1
    b, n_batch, zero_row = -1, 0, 0
    for position in range(order.shape[0]):
        i = order[position]
        row = state.precision[state.type[i]]
        if state.type[i] != kind:
            kind = state.type[i]
            fill_form(forms, new_row, nobody, 0, row, prior_weight)
            for r in active:
                for slot in range(items.slot_start[r], high[r]):
                    if scatters.size[slot] > 0:
                        fill_form(forms, slot, scatters, slot, row, prior_weight)

        own, r = cluster[i], items.group[i]
        start, first_position = items.slot_start[r], items.member_start[r]
        b += 1
        if b == n_batch:
            b, n_batch = 0, start_batch(rows, items, order, position, order.shape[0])
            zero_row = high[r] - start + BATCH - 1
            sums_by_cluster(
                sums, zero_row + 1, local_slot, weight, items.squared, first_position, items.member_start[r + 1],
                rows,
            )  # fmt: skip
            if centroids is not None:
                sums_by_cluster(
                    plain_sums, zero_row + 1, local_slot, presence, items.squared, first_position,
                    items.member_start[r + 1], rows,
                )  # fmt: skip
        copy_sums(scatters, own, own_scatter, 0)
        add_to_scatter(own_scatter, 0, sums[b], own - start, items, i, row, prior_weight, -1)
        if own_scatter.size[0] > 0:
            fill_form(forms, own_row, own_scatter, 0, row, prior_weight)
        m = list_candidates(table_row, candidate, log_weight, scatters.size, own, start, high[r], own_row, logs)
        for j in range(m):
            sums_row[j] = candidate[j] - start
        candidate[m], table_row[m], sums_row[m] = NEW, new_row, zero_row
        log_weight[m] = log_new_cluster(state, m)
        for f in range(n_features):
            to_origin[f] = prior_weight * items.origin[i, f]
            seen[f] = items.observed[i, f]
        negative += add_log_predictives(
            log_weight, table_row, sums_row, m + 1, forms, sums, b, to_origin, seen, items.floor
        )
        n_local = high[r] - start
        if centroids is not None:
            item_leaves(visit, current, items, plain_sums, b, i, own, n_local)
            gap_row = current.gap_start[r] + (own - start) * current.room[r]
            add_log_couplings_by_distance(log_weight, candidate, m, start, gap_row, visit, current, state, coupling)
        chosen = candidate[choose(rng, log_weight, m + 1)]
        if chosen == own:
            if centroids is not None:
                item_returns(visit, current, own)
            continue

        emptied = own_scatter.size[0] == 0
        if emptied:
            clear_sums(scatters, own)
            while high[r] > start and scatters.size[high[r] - 1] == 0:
                high[r] -= 1
        else:
            copy_sums(own_scatter, 0, scatters, own)
            copy_form(forms, own_row, own)
        joined = chosen - start
        if chosen == NEW:
            chosen, joined = lowest_empty(scatters.size, start), zero_row
            high[r] = max(high[r], chosen + 1)
            opened += not emptied
        add_to_scatter(scatters, chosen, sums[b], joined, items, i, row, prior_weight, 1)
        fill_form(forms, chosen, scatters, chosen, row, prior_weight)
        cluster[i] = chosen
        local_slot[first_position + items.place[i]] = chosen - start
        correct_batch(sums, b, n_batch, items, order, position, weight, own - start, chosen - start, emptied)
        if centroids is not None:
            if chosen - start >= current.room[r]:
                current = enlarge_centroids(current, r, items.slot_end[r] - start)
            item_joins(visit, current, items, plain_sums, b, joined, i, own, chosen, n_local)
            correct_batch(
                plain_sums, b, n_batch, items, order, position, presence, own - start, chosen - start, emptied
            )
        moved += 1
    return cluster, moved, opened, negative


def distance_sweep(
    rng: np.random.Generator, state: State, items: DistanceItems, plan: Plan, priors: Priors
) -> tuple[State, Info]:
    """One full update of the state except its concentrations."""
    check_plan(plan)
    centroids = centroids_of(items, state.cluster, VARIANTS[plan.conditioning]) if plan.conditioning else None
    opened = in_clusters = in_moves = in_gaps = in_types = 0
    if len(items.hidden):
        cluster, _, opened, in_clusters = resample_clusters_by_distance(rng, items, state, centroids)
        state = state._replace(cluster=cluster)
        cluster, accepted, in_moves = split_merge_by_distance(rng, items, state, plan.split_merge_attempts, centroids)
        # Of the moves accepted, each split made one cluster more and each merge one less.
        opened += (accepted + n_distinct(cluster) - n_distinct(state.cluster)) // 2
        state = state._replace(cluster=cluster)
    if plan.learn_mean_variance:
        prior = priors.mean_precision
        variance = resample_mean_variance_by_distance(rng, items, state, prior.shape, prior.rate)
        state = state._replace(mean_variance=variance)
    if plan.separation:
        shape, rate, in_gaps = separation_prior_by_distance(items, state)
        state = state._replace(shape=shape, rate=rate)
    if plan.type_coupling:
        powers, n_pairs, in_gaps = gap_powers(items, state)
        state = coupled_prior(state, plan, priors, powers[0], n_pairs)
    if centroids is not None:
        in_gaps = int((centroids.total < -ROUNDING).sum())
        if plan.learn_separation_rate:
            state = update_separation_rate(rng, state, centroids, priors)
    if plan.learn_types:
        state, in_types = update_types(rng, state, items, plan, centroids)
    return state, Info(opened, negative_norms=in_clusters + in_moves + in_gaps + in_types)


def update_types(
    rng: np.random.Generator, state: State, items: DistanceItems, plan: Plan, centroids: Centroids | None
) -> tuple[State, int]:
    """Types and precisions, and negative norms met; in SCDP-3 under the prior that the gaps between centroids imply."""
    implied = state
    if centroids is not None:
        gaps = separation_by_distance(centroids, items.n_features)
        rate, grid_log, _ = precision_prior_given(state, gaps)
        implied = state._replace(rate=rate, grid_log_weight=grid_log)
    types, precision, _, negative = resample_types_by_distance(rng, items, implied, plan.n_auxiliary)
    implied = implied._replace(type=types, precision=precision)
    precision = resample_precisions_by_distance(rng, items, implied)
    return state._replace(type=types, precision=precision), negative


def update_separation_rate(rng: np.random.Generator, state: State, centroids: Centroids, priors: Priors) -> State:
    """SCDP-3's separation rate, where it is learned."""

    def log_coupling_at(value: float) -> float:
        return log_coupling_of_centroids(state._replace(separation_rate=value), centroids)

    prior = priors.separation_rate
    value = slice_separation_rate(rng, state.separation_rate, prior.shape, prior.rate, log_coupling_at)
    return state._replace(separation_rate=value)


def check_plan(plan: Plan) -> None:
    """Refuse what needs means, which distances do not have."""
    if plan.scheme == "paper":
        raise InputError("scheme='paper' samples cluster means, which distances do not have: use scheme='collapsed'")
    if plan.conditioning == "published":
        raise InputError(
            "conditioning='published' weighs powers of the density of each cluster mean, which distances do not have: "
            "use conditioning='normalized' or 'mean'"
        )
