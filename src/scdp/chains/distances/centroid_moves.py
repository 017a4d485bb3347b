"""SCDP-3 on distances: what S would be with an item in each cluster, and the gaps after it has moved.

With u = 1 / (n + 1), an item at squared distance e_k of centroid k that joins it moves the centroid, so that
|p_k' - p_j|^2 = (1 - u) |p_k - p_j|^2 + u e_j - u (1 - u) e_k; leaving is the same equation solved for the other gap.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scdp._compile import kernel
from scdp._typing import Floats, Integers
from scdp.chains import State
from scdp.chains.arithmetic import BOTH, KEPT, OPENED
from scdp.chains.distances import BATCH, add_products, position_of, sums_by_cluster
from scdp.chains.distances.centroids import Centroids, Coupling, log_coupling_by_distance, separation_from, set_size
from scdp.chains.items import LANES, DistanceItems


class Visit(NamedTuple):
    """One group without the item at hand, by feature.

    `far` is the item's squared distance to each centroid, slots counted from the group's first, and `everyone`
    its sum; `present` is the number of centroids. A gap D of the cluster that the item leaves becomes
    D + stretch D + pull (far of the other) + shift, and `reach` is the sum of those. `total` and `n_pairs` are S and
    its pairs over all groups. `before` holds size, spread and reach of the cluster that the item leaves.
    """

    far: Floats
    everyone: Floats
    present: Floats
    seen: Floats
    stretch: Floats
    pull: Floats
    shift: Floats
    reach: Floats
    total: Floats
    n_pairs: Floats
    before: Floats
    ones: Floats


@kernel
def make_visit(widest: int, width: int) -> Visit:
    row = np.zeros((9, width))
    return Visit(
        np.zeros((widest, width)),
        row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7], row[8],
        np.zeros((3, width)),
        np.ones(width),
    )  # fmt: skip


@kernel
def fill_far(visit: Visit, centroids: Centroids, sums: Floats, b: int, first: int, n_local: int) -> None:
    """Squared distances to all centroids, the item's own still among its cluster; one flat loop, so it vectorises."""
    width = sums.shape[2]
    far, plain = visit.far.reshape(-1), sums.reshape(-1)
    inverse, spread = centroids.inverse.reshape(-1), centroids.spread.reshape(-1)
    start, at = b * sums.shape[1] * width, first * width
    for x in range(n_local * width):
        far[x] = plain[start + x] * inverse[at + x] - spread[at + x]


@kernel
def item_leaves(
    visit: Visit, centroids: Centroids, items: DistanceItems, sums: Floats, b: int, i: int, own: int, n_local: int
) -> None:  # fmt: skip
    """Take item i out of its cluster, but for the gaps, which wait until it has moved.

    `sums` holds its unweighted squares by cluster. Little is called here and below: a call with two dozen arrays
    would cost more than a cluster.
    """
    r = items.group[i]
    first, width = items.slot_start[r], sums.shape[2]
    k = own - first
    fill_far(visit, centroids, sums, b, first, n_local)
    before, far_of = visit.before, visit.far
    size_of, spread_of, reach_of = centroids.size, centroids.spread, centroids.reach
    for f in range(items.observed.shape[1]):
        seen, size, spread = items.observed[i, f], size_of[own, f], spread_of[own, f]
        before[0, f], before[1, f], before[2, f] = size, spread, reach_of[own, f]
        square, rest = sums[b, k, f], size - seen
        after = (spread * size * size - square) / (rest * rest) if rest > 0.0 else 0.0
        far = square / rest - after if rest > 0.0 else 0.0
        # A cluster that only this item gave the feature to has no centroid left, and no gaps.
        share = seen / size if size > 0.0 else 0.0
        scale = 1.0 / (1.0 - share) if share < 1.0 else 0.0
        vanished = 1.0 if size > 0.0 and rest == 0.0 else 0.0
        size_of[own, f], spread_of[own, f], far_of[k, f] = rest, after, far
        centroids.inverse[own, f] = 1.0 / rest if rest > 0.0 else 0.0
        centroids.entry[own, f] = 1.0 / (rest + 1.0)
        centroids.present[own, f] = 1.0 if rest > 0.0 else 0.0
        visit.seen[f] = seen
        visit.stretch[f] = scale - 1.0
        visit.pull[f] = -share * scale
        visit.shift[f] = share * far
        visit.present[f] = centroids.n_here[r, f] - vanished
        visit.n_pairs[f] = centroids.n_pairs[f] - vanished * visit.present[f]
    visit.everyone[:] = 0.0
    for j in range(n_local):
        for f in range(0, width, LANES):
            add_products(visit.everyone, f, visit.ones, f, far_of, j * width + f)
    for f in range(width):
        far, present, reach = far_of[k, f], centroids.present[own, f], before[2, f]
        others = visit.pull[f] * (visit.everyone[f] - far) + visit.shift[f] * (visit.present[f] - present)
        visit.reach[f] = (1.0 + visit.stretch[f]) * reach + others
        visit.total[f] = centroids.total[f] - reach + visit.reach[f]
        # So that reach + pull far + shift, as for every other cluster, is this cluster's sum without the item.
        reach_of[own, f] = visit.reach[f] - visit.pull[f] * far - visit.shift[f] * present


@kernel
def item_returns(visit: Visit, centroids: Centroids, own: int) -> None:
    """Undo item_leaves."""
    for f in range(visit.seen.shape[0]):
        size = visit.before[0, f]
        centroids.size[own, f] = size
        centroids.inverse[own, f] = 1.0 / size if size > 0.0 else 0.0
        centroids.entry[own, f] = 1.0 / (size + 1.0)
        centroids.present[own, f] = 1.0 if size > 0.0 else 0.0
        centroids.spread[own, f] = visit.before[1, f]
        centroids.reach[own, f] = visit.before[2, f]


@kernel
def change_by_joining(far: float, share: float, everyone: float, reach: float, others: float) -> float:
    """What S gains when the item joins a centroid at squared distance `far` whose gaps to the others add to `reach`."""
    return share * (everyone - far - reach - (1.0 - share) * far * others)


@kernel
def add_log_couplings_by_distance(
    log_weight: Floats, candidate: Integers, m: int, first: int, gap_row: int, visit: Visit, centroids: Centroids,
    state: State, coupling: Coupling,
) -> None:  # fmt: skip
    """Add to m log weights the coupling with the item at each candidate, and to the next that with it alone.

    The gaps of the cluster that the item leaves begin at `gap_row`.
    """
    far_of, everyone, here, seen, stretch, pull, shift, _, total, n_pairs, _, _ = visit
    entry, present_in, reach_of, gap_of = centroids.entry, centroids.present, centroids.reach, centroids.gap
    variant, gaps, precision_sum = centroids.variant, coupling.gaps, coupling.precision_sum
    steepness, power = coupling.steepness, coupling.power[0]
    simple = coupling.even and state.grid.shape[0] == 0
    for j in range(m + 1):
        slot = candidate[j] if j < m else first
        row, k = gap_row + slot - first, slot - first
        joins = 1.0 if j < m else 0.0
        weight, product = 0.0, 1.0
        for f in range(gaps.shape[0]):
            far, present = joins * far_of[k, f], joins * present_in[slot, f]
            share = seen[f] * (entry[slot, f] if j < m else 1.0)
            others = here[f] - present
            reach = joins * (reach_of[slot, f] + stretch[f] * gap_of[row, f]) + pull[f] * far + shift[f] * present
            after = total[f] + change_by_joining(far, share, everyone[f], reach, others)
            gap = separation_from(after, n_pairs[f] + seen[f] * others * (1.0 - present), variant)
            weight -= precision_sum[f] * gap
            product *= 1.0 + steepness[f] * gap
            gaps[f] = gap
        if simple and product < 1e290:
            log_weight[j] += weight + power * np.log(product)
        else:
            log_weight[j] += log_coupling_by_distance(state, coupling)


@kernel
def set_gap(gap: Floats, reach: Floats, here: int, there: int, other: int, f: int, new: float) -> None:
    """Write the gap of two clusters into both of its rows, and its change into the sum of the other one."""
    reach[other, f] += new - gap[here, f]
    gap[here, f] = new
    gap[there, f] = new


@kernel
def item_joins(
    visit: Visit, centroids: Centroids, items: DistanceItems, sums: Floats, b: int, joined: int, i: int, own: int,
    chosen: int, n_local: int,
) -> None:  # fmt: skip
    """Carry out a move: the gaps of the cluster that was left, then those of the one that is joined.

    `sums[b, joined]` holds the item's unweighted squares to the cluster it joins, which has room in the gaps.
    """
    r = items.group[i]
    first, width = items.slot_start[r], sums.shape[2]
    at, room, present = centroids.gap_start[r], centroids.room[r], centroids.present
    gap_of, reach, entry = centroids.gap, centroids.reach, centroids.entry
    far, seen, stretch, pull, shift = visit.far, visit.seen, visit.stretch, visit.pull, visit.shift
    left, k = own - first, chosen - first
    for j in range(n_local):
        if j != left:
            here, there = at + left * room + j, at + j * room + left
            for f in range(width):
                gap = (1.0 + stretch[f]) * gap_of[here, f] + pull[f] * far[j, f] + shift[f] * present[first + j, f]
                set_gap(gap_of, reach, here, there, first + j, f, gap)
    reach[own, :] = visit.reach
    if k >= n_local:
        far[k, :] = 0.0
        reach[chosen, :] = 0.0
    for j in range(n_local):
        if j != k:
            here, there = at + k * room + j, at + j * room + k
            for f in range(width):
                share = seen[f] * entry[chosen, f]
                gap = gap_of[here, f] - share * far[k, f] * present[first + j, f]
                set_gap(gap_of, reach, here, there, first + j, f, (1.0 - share) * gap + share * far[j, f])
    for f in range(width):
        grow_cluster(visit, centroids, r, chosen, f, far[k, f], sums[b, joined, f])


@kernel
def grow_cluster(visit: Visit, centroids: Centroids, r: int, slot: int, f: int, far: float, square: float) -> None:
    """Size, spread and sums after the item has joined a cluster, `square` its squares to the members added up."""
    seen, size, present = visit.seen[f], centroids.size[slot, f], centroids.present[slot, f]
    share, others = seen * centroids.entry[slot, f], visit.present[f] - present
    reach = centroids.reach[slot, f]
    change = change_by_joining(far, share, visit.everyone[f], reach, others)
    centroids.reach[slot, f] = reach + change
    centroids.total[f] = visit.total[f] + change
    centroids.n_pairs[f] = visit.n_pairs[f] + seen * others * (1.0 - present)
    centroids.n_here[r, f] = visit.present[f] + seen * (1.0 - present)
    spread = (centroids.spread[slot, f] * size * size + seen * square) / max((size + seen) ** 2, 1.0)
    set_size(centroids, slot, f, size + seen, spread)


# What is at neither side.
REST = 2
APART, JOINED = 0, 1


class Parting(NamedTuple):
    """Two sides and the rest of their group. `side` is by position in `member`; `listed` are the items of both sides.

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
    side, listed = np.zeros(n, np.int64), np.zeros(n, np.int64)
    three, two = np.zeros((3, 3, width)), np.zeros((3, 2, width))
    weight = np.zeros((n, width))
    return Parting(presence, weight, side, listed, three[0], three[1], three[2], two[0], two[1], two[2])


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
    for position in range(first_position, items.member_start[r + 1]):
        i = items.member[position]
        parting.side[position] = REST
        if cluster[i] == cluster[first] or cluster[i] == cluster[second]:
            parting.side[position] = KEPT
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
    for position in range(first_position, end_position):
        slot = cluster[items.member[position]]
        for f in range(width):
            share = centroids.inverse[slot, f] if parting.side[position] == REST else 1.0
            weight[position, f] = presence[position, f] * share
    parting.size[:] = 0.0
    parting.pairs[:] = 0.0
    parting.reach[:] = 0.0
    sums, row = np.zeros((BATCH, 3, width)), np.empty(BATCH, np.int64)
    for k in range(0, n, BATCH):
        for b in range(BATCH):
            row[b] = items.row_start[parting.listed[min(k + b, n - 1)]]
        sums_by_cluster(sums, 3, parting.side, weight, items.squared, first_position, end_position, row)
        for b in range(min(BATCH, n - k)):
            position = position_of(items, parting.listed[k + b])
            side = parting.side[position]
            for f in range(width):
                parting.size[side, f] += presence[position, f]
                parting.size[BOTH, f] += presence[position, f]
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
def log_parting(parting: Parting, centroids: Centroids, state: State, coupling: Coupling, together: bool) -> float:
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
