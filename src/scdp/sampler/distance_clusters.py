"""Gibbs over the hidden clusters on distances, means integrated out; the twin of scdp.sampler.clusters.

Same visiting order, candidates and random numbers. With Q = Z / A, an item of precision t at gap
S + d2(item, o) / sigma - Q (A times its squared distance to the mean) adds t / (t + A) times the gap to Q.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scdp.compile import kernel
from scdp.sampler.arithmetic import choose, highest_used, log_table, lowest_empty, sum_of_logs
from scdp.sampler.clusters import (
    NEW,
    list_candidates,
    order_by_type,
    restaurants_with_hidden,
    widest_range,
)
from scdp.sampler.distance_items import DistanceItems
from scdp.sampler.distance_rows import (
    TURNS,
    Scatters,
    add_to_scatter,
    cluster_scatters,
    empty_scatters,
    local_slots,
    seat_weights,
    sums_by_cluster,
)
from scdp.sampler.items import Floats, Integers
from scdp.sampler.state import State

# A gap below zero by less than this, absolutely or as a share of its positive part, is rounding (float32).
ROUNDING = 1e-6


class Forms(NamedTuple):
    """Per row, for items of one type: Q, t / (t + A) and log t A / (t + A) by feature, and half the logs' sum."""

    form: Floats
    share: Floats
    log_inverse: Floats
    half_log: Floats


@kernel
def make_forms(n_rows: int, n_features: int) -> Forms:
    return Forms(
        np.empty((n_rows, n_features)),
        np.empty((n_rows, n_features)),
        np.empty((n_rows, n_features)),
        np.empty(n_rows),
    )


@kernel
def copy_form(forms: Forms, source: int, target: int) -> None:
    forms.form[target, :] = forms.form[source, :]
    forms.share[target, :] = forms.share[source, :]
    forms.log_inverse[target, :] = forms.log_inverse[source, :]
    forms.half_log[target] = forms.half_log[source]


@kernel
def fill_form(
    forms: Forms, at: int, scatters: Scatters, slot: int, row: Floats, prior_weight: float, logs: bool
) -> None:
    """Write into row `at` what items of precisions `row` meet in the cluster at `slot`."""
    form, share, log_inverse, half_log = forms
    for f in range(row.shape[0]):
        a = prior_weight + scatters.weight[slot, f]
        form[at, f] = scatters.scatter[slot, f] / a
        share[at, f] = row[f] / (row[f] + a)
        log_inverse[at, f] = share[at, f] * a
    half_log[at] = 0.5 * sum_of_logs(log_inverse, at)
    if logs:
        for f in range(row.shape[0]):
            log_inverse[at, f] = np.log(log_inverse[at, f])


@kernel
def add_log_predictives(
    log_weight: Floats, table_row: Integers, sums_row: Integers, m: int, forms: Forms, sums: Floats,
    to_origin: Floats, observed: Floats, complete: bool, floor: float,
) -> int:  # fmt: skip
    """Add to each of m log weights the log density of an item, up to a common constant; returns negative gaps."""
    form, share, log_inverse, half_log = forms
    negative = 0
    n_features = to_origin.shape[0]
    for j in range(m):
        at, k = table_row[j], sums_row[j]
        total = 0.0
        if complete:
            for f in range(n_features):
                far = sums[0, k, f] + to_origin[f]
                gap = far - form[at, f]
                negative += gap < -ROUNDING * (1.0 + far)
                total += share[at, f] * max(gap, floor)
            log_weight[j] += half_log[at] - 0.5 * total
        else:
            for f in range(n_features):
                if observed[f] > 0:
                    far = sums[0, k, f] + to_origin[f]
                    gap = far - form[at, f]
                    negative += gap < -ROUNDING * (1.0 + far)
                    total += log_inverse[at, f] - share[at, f] * max(gap, floor)
            log_weight[j] += 0.5 * total
    return negative


@kernel
def move_scatter(source: Scatters, at: int, target: Scatters, slot: int) -> None:
    target.size[slot] = source.size[at]
    target.weight[slot, :] = source.weight[at, :]
    target.scatter[slot, :] = source.scatter[at, :]


@kernel
def clear_scatter(scatters: Scatters, slot: int) -> None:
    """An emptied cluster is exactly zero again: no rounding is inherited by whoever opens the slot next."""
    scatters.size[slot] = 0
    scatters.weight[slot, :] = 0.0
    scatters.scatter[slot, :] = 0.0


@kernel
def resample_clusters_by_distance(
    rng: np.random.Generator, items: DistanceItems, state: State
) -> tuple[Integers, int, int]:
    """One Gibbs pass over the hidden items; returns new slots, items moved and negative squared norms met."""
    cluster = state.cluster.copy()
    n_features = items.observed.shape[1]
    active = restaurants_with_hidden(items)
    wanted = np.zeros(items.slot_start.shape[0], np.bool_)
    wanted[active] = True
    prior_weight = 1.0 / state.mean_variance
    weight = seat_weights(items, state)
    scatters = cluster_scatters(items, state, weight, prior_weight, wanted)
    own_scatter = empty_scatters(1, n_features)
    nobody = empty_scatters(1, n_features)
    n_slots = scatters.size.shape[0]
    new_row, own_row = n_slots, n_slots + 1
    forms = make_forms(n_slots + 2, n_features)
    some_missing = not items.complete.all()
    log_alpha = np.log(state.cluster_concentration)
    logs = log_table(cluster.shape[0])
    high = highest_used(scatters.size, items.slot_start, items.slot_end)
    candidate = np.empty(widest_range(items), np.int64)
    table_row, sums_row = np.empty_like(candidate), np.empty_like(candidate)
    log_weight = np.empty(candidate.shape[0])
    sums = np.zeros((TURNS, candidate.shape[0], weight.shape[1]))
    to_origin = np.empty(n_features)
    local_slot = local_slots(items, cluster)

    moved = negative = 0
    kind = -1
    for i in order_by_type(items.hidden, state.type):
        row = state.precision[state.type[i]]
        if state.type[i] != kind:
            kind = state.type[i]
            fill_form(forms, new_row, nobody, 0, row, prior_weight, some_missing)
            for r in active:
                for slot in range(items.slot_start[r], high[r]):
                    if scatters.size[slot] > 0:
                        fill_form(forms, slot, scatters, slot, row, prior_weight, some_missing)

        own = cluster[i]
        r = items.restaurant[i]
        start, first_seat = items.slot_start[r], items.member_start[r]
        # One row more than there are clusters: it stays zero, for a new cluster.
        n_local = high[r] - start
        sums_by_cluster(
            sums, n_local + 1, local_slot, weight, items.squared, first_seat,
            items.member_start[r + 1] - first_seat, items.row_start[i],
        )  # fmt: skip
        move_scatter(scatters, own, own_scatter, 0)
        add_to_scatter(own_scatter, 0, sums[0], own - start, items, i, row, prior_weight, -1)
        if own_scatter.size[0] > 0:
            fill_form(forms, own_row, own_scatter, 0, row, prior_weight, some_missing)
        m = list_candidates(
            table_row, candidate, log_weight, scatters.size, own, start, high[r], own_row, logs
        )
        for j in range(m):
            sums_row[j] = candidate[j] - start
        candidate[m], table_row[m], sums_row[m], log_weight[m] = NEW, new_row, n_local, log_alpha
        for f in range(n_features):
            to_origin[f] = prior_weight * items.origin[i, f]
        negative += add_log_predictives(
            log_weight, table_row, sums_row, m + 1, forms, sums, to_origin, items.observed[i],
            items.complete[i], items.floor,
        )  # fmt: skip
        chosen = candidate[choose(rng, log_weight, m + 1)]
        if chosen == own:
            continue

        if own_scatter.size[0] > 0:
            move_scatter(own_scatter, 0, scatters, own)
            copy_form(forms, own_row, own)
        else:
            clear_scatter(scatters, own)
            while high[r] > start and scatters.size[high[r] - 1] == 0:
                high[r] -= 1
        joined = chosen - start
        if chosen == NEW:
            chosen = lowest_empty(scatters.size, start)
            joined = n_local
            high[r] = max(high[r], chosen + 1)
        add_to_scatter(scatters, chosen, sums[0], joined, items, i, row, prior_weight, 1)
        fill_form(forms, chosen, scatters, chosen, row, prior_weight, some_missing)
        cluster[i] = chosen
        local_slot[first_seat + items.place[i]] = chosen - start
        moved += 1
    return cluster, moved, negative
