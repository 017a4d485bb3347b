"""Kernels on distances between items: clusters, reference types and centroids.

Here are sums of weighted squared distances, the one thing every kernel on distances needs, four features at a time. A
cluster with weights w per member and feature keeps A = 1 / sigma + sum w and its scatter
Z = (1 / sigma) sum w d2(m, o) + sum over pairs w w' d2(m, m'); Z / A is its quadratic form, never negative.
An item with S = sum w d2(item, m) that joins adds t to A and t (S + d2(item, o) / sigma) to Z.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import config
from numba import types as numba_types
from numba.extending import intrinsic
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp._typing import Floats, Integers
from scdp.chains import State
from scdp.chains.arithmetic import Scatters
from scdp.chains.items import LANES, DistanceItems

# Two accumulators in turn, or four items at once: an addition need not wait for the one before it.
TURNS = 2
BATCH = 4
# A gap below zero by less than this, absolutely or as a share of its positive part, is rounding (float32).
ROUNDING = 1e-6


class Members(NamedTuple):
    """The items of cluster slot k are item[start[k] : start[k + 1]]."""

    item: Integers
    start: Integers


@intrinsic  # type: ignore[untyped-decorator]
def add_products_by_lanes(
    typing_context: Any, target: Any, at: Any, weight: Any, weight_at: Any, values: Any, values_at: Any
) -> Any:
    """As `add_products_plainly`, in vector instructions: the compiler leaves loops over a few features unvectorised."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        double = ir.DoubleType()
        single = signature.args[4].dtype == numba_types.float32

        def lanes(k: int, element: Any) -> Any:
            array = context.make_array(signature.args[k])(context, builder, arguments[k])
            first = builder.gep(array.data, [arguments[k + 1]])
            return builder.bitcast(first, ir.VectorType(element, LANES).as_pointer())

        where = lanes(0, double)
        value = builder.load(lanes(4, ir.FloatType() if single else double), align=4 if single else 8)
        if single:
            value = builder.fpext(value, ir.VectorType(double, LANES))
        product = builder.fmul(builder.load(lanes(2, double), align=8), value, flags=("contract",))
        total = builder.fadd(builder.load(where, align=8), product, flags=("contract",))
        builder.store(total, where, align=8)
        return context.get_dummy_value()

    place = numba_types.intp
    return numba_types.void(target, place, weight, place, values, place), generate


def add_products_plainly(
    target: Floats, at: int, weight: Floats, weight_at: int, values: NDArray[Any], values_at: int
) -> None:
    """target[at : at + 4] += weight[weight_at : …] * values[values_at : …], places counted in the flat arrays."""
    total, factor, value = target.reshape(-1), weight.reshape(-1), values.reshape(-1)
    for lane in range(LANES):
        total[at + lane] += factor[weight_at + lane] * float(value[values_at + lane])


add_products = add_products_plainly if config.DISABLE_JIT else add_products_by_lanes


@kernel
def weights_by_position(items: DistanceItems, state: State) -> Floats:
    """The weights of every item in the order of `member`, 0 where a feature is missing or padding."""
    weight = np.zeros((items.member.shape[0], items.squared.shape[1]))
    for position in range(items.member.shape[0]):
        i = items.member[position]
        for f in range(items.observed.shape[1]):
            weight[position, f] = items.observed[i, f] * state.precision[state.type[i], f]
    return weight


@kernel
def position_of(items: DistanceItems, i: int) -> int:
    return items.member_start[items.group[i]] + items.place[i]


@kernel
def sums_by_cluster(
    sums: Floats, n_slots: int, local_slot: Integers, weight: Floats, squared: NDArray[Any],
    first_position: int, end_position: int, row: Integers,
) -> None:  # fmt: skip
    """sums[b, k] = sum of w d2 over the positions of slot k, d2 from row row[b] of `squared` on, for four rows."""
    width = weight.shape[1]
    sums[:, :n_slots, :] = 0.0
    second, third, fourth = sums.shape[1] * width, 2 * sums.shape[1] * width, 3 * sums.shape[1] * width
    row_1, row_2 = (row[0] - first_position) * width, (row[1] - first_position) * width
    row_3, row_4 = (row[2] - first_position) * width, (row[3] - first_position) * width
    for position in range(first_position, end_position):
        to = local_slot[position] * width
        for at in range(position * width, (position + 1) * width, LANES):
            add_products(sums, to, weight, at, squared, row_1 + at)
            add_products(sums, to + second, weight, at, squared, row_2 + at)
            add_products(sums, to + third, weight, at, squared, row_3 + at)
            add_products(sums, to + fourth, weight, at, squared, row_4 + at)
            to += LANES


@kernel
def sum_over_list(
    sums: Floats, items: DistanceItems, weight: Floats, listed: Integers, first: int, end: int, i: int
) -> None:
    """sums[0] = sum of w d2(i, m) over the listed items m of i's group, from `first` up to `end`."""
    width = weight.shape[1]
    base = items.member_start[items.group[i]]
    row = items.row_start[i]
    sums[:] = 0.0
    for k in range(first, end):
        place = items.place[listed[k]]
        turn = (k % TURNS) * width
        for f in range(0, width, LANES):
            add_products(sums, turn + f, weight, (base + place) * width + f, items.squared, (row + place) * width + f)
    for f in range(width):
        sums[0, f] += sums[1, f]


@kernel
def list_members(cluster: Integers, n_slots: int) -> Members:
    """The items of every slot, in ascending order."""
    start = np.zeros(n_slots + 1, np.int64)
    for slot in cluster:
        start[slot + 1] += 1
    for slot in range(n_slots):
        start[slot + 1] += start[slot]
    item = np.empty(cluster.shape[0], np.int64)
    free = start[:-1].copy()
    for i in range(cluster.shape[0]):
        item[free[cluster[i]]] = i
        free[cluster[i]] += 1
    return Members(item, start)


@kernel
def empty_scatters(n_slots: int, n_features: int) -> Scatters:
    return Scatters(np.zeros(n_slots, np.int64), np.zeros((n_slots, n_features)), np.zeros((n_slots, n_features)))


@kernel
def add_to_scatter(
    scatters: Scatters, slot: int, sums: Floats, at: int, items: DistanceItems, i: int, row: Floats,
    prior_weight: float, sign: int,
) -> None:  # fmt: skip
    """Add (sign 1) or take away (-1) item i with precisions `row`; sums[at] holds S over the others there."""
    scatters.size[slot] += sign
    for f in range(row.shape[0]):
        w = sign * items.observed[i, f] * row[f]
        scatters.weight[slot, f] += w
        scatters.scatter[slot, f] += w * (sums[at, f] + prior_weight * items.origin[i, f])


@kernel
def cluster_scatters(
    items: DistanceItems, state: State, weight: Floats, prior_weight: float, wanted: NDArray[np.bool_]
) -> Scatters:
    """The scatters of every slot of the wanted groups, from scratch; others stay empty."""
    n_slots = items.known_in_slot.shape[0]
    scatters = empty_scatters(n_slots, items.observed.shape[1])
    members = list_members(state.cluster, n_slots)
    sums = np.zeros((TURNS, weight.shape[1]))
    for slot in range(n_slots):
        first, end = members.start[slot], members.start[slot + 1]
        if first == end or not wanted[items.group[members.item[first]]]:
            continue
        for k in range(first, end):
            i = members.item[k]
            sum_over_list(sums, items, weight, members.item, first, k, i)
            row = state.precision[state.type[i]]
            add_to_scatter(scatters, slot, sums, 0, items, i, row, prior_weight, 1)
    return scatters


@kernel
def origin_sums(items: DistanceItems, state: State, weight: Floats) -> Floats:
    """Per slot and feature, the weighted squared distances of its items to the origin."""
    sums = np.zeros((items.known_in_slot.shape[0], items.observed.shape[1]))
    for i in range(state.cluster.shape[0]):
        for f in range(sums.shape[1]):
            sums[state.cluster[i], f] += weight[position_of(items, i), f] * items.origin[i, f]
    return sums


@kernel
def local_slots(items: DistanceItems, cluster: Integers) -> Integers:
    """By position, the slot of every item counted from its group's first."""
    local = np.empty(cluster.shape[0], np.int64)
    for i in range(cluster.shape[0]):
        local[position_of(items, i)] = cluster[i] - items.slot_start[items.group[i]]
    return local
