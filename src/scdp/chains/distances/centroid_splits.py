"""SCDP-3 on distances: S with two sides of a split-merge move apart and together.

With B the other clusters of the group, the gaps of a cluster X to them add up to
sum over its items of (sum over j in B of the mean square to the items of j) / n_X - |B| V_X - sum over j in B of V_j,
V being half the mean square between two items of a cluster: no gap between two clusters of B is needed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scdp._compile import kernel
from scdp._typing import Floats, Integers
from scdp.chains.distances.centroids import (
    Centroids,
    Coupling,
    log_coupling_by_distance,
    separation_from,
    set_size,
)
from scdp.chains.distances.items import DistanceItems
from scdp.chains.distances.rows import BATCH, position_of, sums_by_cluster
from scdp.chains.state import State
from scdp.chains.vectors.split_merge import KEPT, OPENED

REST = 2
BOTH = 2
APART, JOINED = 0, 1


class Parting(NamedTuple):
    """Two sides and the rest of their group. `side` is by seat; `listed` are the items of both sides.

    Per feature, with rows for the opened side, the kept side and both together: how many have it (`size`), the sum of
    squares over their pairs (`pairs`), and their mean squares to the rest (`reach`). `total` and `n_pairs` are S and
    its number of pairs over all groups, with the sides apart (row 0) and together (row 1). `rest` holds how many
    other clusters have the feature (row 0) and the sum of their spreads (row 1).
    """

    presence: Floats
    weight: Floats
    side: Integers
    listed: Integers
    size: Floats
    pairs: Floats
    reach: Floats
    rest: Floats
    total: Floats
    n_pairs: Floats


@kernel
def make_parting(n: int, width: int, presence: Floats) -> Parting:
    return Parting(
        presence,
        np.zeros((n, width)),
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
        np.zeros((3, width)),
        np.zeros((3, width)),
        np.zeros((3, width)),
        np.zeros((2, width)),
        np.zeros((2, width)),
        np.zeros((2, width)),
    )


@kernel
def list_sides(
    parting: Parting, items: DistanceItems, cluster: Integers, first: int, second: int, members: Integers,
    sides: Integers,
) -> int:  # fmt: skip
    """Sort a group into the opened side, the kept side and the rest; returns how many items are listed.

    Everyone of the two clusters is at the kept side unless the proposal opens with them: known members always are.
    """
    r = items.group[first]
    first_position = items.member_start[r]
    n = 0
    for seat in range(first_position, items.member_start[r + 1]):
        i = items.member[seat]
        parting.side[seat] = REST
        if cluster[i] == cluster[first] or cluster[i] == cluster[second]:
            parting.side[seat] = KEPT
            parting.listed[n] = i
            n += 1
    parting.side[first_position + items.place[first]] = OPENED
    for m in range(members.shape[0]):
        if sides[m] == OPENED:
            parting.side[first_position + items.place[members[m]]] = OPENED
    return n


@kernel
def measure(parting: Parting, centroids: Centroids, items: DistanceItems, cluster: Integers, n: int) -> None:
    """Sizes, squares within and squares to the rest, from one pass over the rows of the n listed items."""
    r = items.group[parting.listed[0]]
    first_position, end_position = items.member_start[r], items.member_start[r + 1]
    presence, weight = parting.presence, parting.weight
    width = weight.shape[1]
    one, other = cluster[parting.listed[0]], cluster[parting.listed[0]]
    for k in range(n):
        other = max(other, cluster[parting.listed[k]])
        one = min(one, cluster[parting.listed[k]])
    measure_rest(parting, centroids, items.slot_start[r], items.slot_end[r], one, other)
    for seat in range(first_position, end_position):
        slot = cluster[items.member[seat]]
        for f in range(width):
            share = centroids.inverse[slot, f] if parting.side[seat] == REST else 1.0
            weight[seat, f] = presence[seat, f] * share
    parting.size[:] = 0.0
    parting.pairs[:] = 0.0
    parting.reach[:] = 0.0
    sums, row = np.zeros((BATCH, 3, width)), np.empty(BATCH, np.int64)
    for k in range(0, n, BATCH):
        for b in range(BATCH):
            row[b] = items.row_start[parting.listed[min(k + b, n - 1)]]
        sums_by_cluster(sums, 3, parting.side, weight, items.squared, first_position, end_position, row)
        for b in range(min(BATCH, n - k)):
            seat = position_of(items, parting.listed[k + b])
            side = parting.side[seat]
            for f in range(width):
                parting.size[side, f] += presence[seat, f]
                parting.size[BOTH, f] += presence[seat, f]
                parting.pairs[side, f] += 0.5 * sums[b, side, f]
                parting.pairs[BOTH, f] += 0.5 * (sums[b, OPENED, f] + sums[b, KEPT, f])
                parting.reach[side, f] += sums[b, REST, f]
                parting.reach[BOTH, f] += sums[b, REST, f]


@kernel
def measure_rest(parting: Parting, centroids: Centroids, start: int, end: int, one: int, other: int) -> None:
    """Add up the clusters of slots `start` to `end` but for the two at hand."""
    parting.rest[:] = 0.0
    for slot in range(start, end):
        if slot != one and slot != other:
            for f in range(parting.rest.shape[1]):
                parting.rest[0, f] += centroids.present[slot, f]
                parting.rest[1, f] += centroids.spread[slot, f]


@kernel
def weigh_sides(parting: Parting, centroids: Centroids, together: bool) -> None:
    """S and its number of pairs with the sides apart and together; they are `together` in the clusters as they are."""
    size, pairs, reach = parting.size, parting.pairs, parting.reach
    n_others, spread_others = parting.rest[0], parting.rest[1]
    for f in range(size.shape[1]):
        apart = joined = n_apart = n_joined = 0.0
        for side in range(3):
            if size[side, f] > 0.0:
                spread = pairs[side, f] / (size[side, f] * size[side, f])
                gaps = reach[side, f] / size[side, f] - n_others[f] * spread - spread_others[f]
                if side == BOTH:
                    joined, n_joined = gaps, n_others[f]
                else:
                    apart += gaps
                    n_apart += n_others[f]
        if size[OPENED, f] > 0.0 and size[KEPT, f] > 0.0:
            between = pairs[BOTH, f] - pairs[OPENED, f] - pairs[KEPT, f]
            apart += between / (size[OPENED, f] * size[KEPT, f])
            apart -= pairs[OPENED, f] / size[OPENED, f] ** 2 + pairs[KEPT, f] / size[KEPT, f] ** 2
            n_apart += 1.0
        now, n_now = (joined, n_joined) if together else (apart, n_apart)
        parting.total[APART, f] = centroids.total[f] - now + apart
        parting.total[JOINED, f] = centroids.total[f] - now + joined
        parting.n_pairs[APART, f] = centroids.n_pairs[f] - n_now + n_apart
        parting.n_pairs[JOINED, f] = centroids.n_pairs[f] - n_now + n_joined


@kernel
def log_parting(
    parting: Parting, centroids: Centroids, state: State, coupling: Coupling, together: bool
) -> float:
    """Log of the coupling with the sides apart over that with the sides together."""
    weigh_sides(parting, centroids, together)
    result = 0.0
    for way in range(2):
        for f in range(state.shape.shape[0]):
            total, n_pairs = parting.total[way, f], parting.n_pairs[way, f]
            coupling.gaps[f] = separation_from(total, n_pairs, centroids.variant)
        term = log_coupling_by_distance(state, coupling)
        result += term if way == APART else -term
    return result


@kernel
def take_over(
    parting: Parting, centroids: Centroids, from_slot: int, second_slot: int, target: int, together: bool
) -> None:
    """Carry out an accepted move: the opened side goes from `from_slot` to `target`."""
    way = APART if together else JOINED
    centroids.total[:] = parting.total[way]
    centroids.n_pairs[:] = parting.n_pairs[way]
    for f in range(parting.size.shape[1]):
        if together:
            set_side(parting, centroids, OPENED, target, f)
            set_side(parting, centroids, KEPT, second_slot, f)
        else:
            set_size(centroids, from_slot, f, 0.0, 0.0)
            set_side(parting, centroids, BOTH, second_slot, f)


@kernel
def set_side(parting: Parting, centroids: Centroids, side: int, slot: int, f: int) -> None:
    size = parting.size[side, f]
    set_size(centroids, slot, f, size, parting.pairs[side, f] / (size * size) if size > 0.0 else 0.0)
