"""The best partition of a component: draws or pair counts enter, labels leave; small ones exactly, large ones by moves.

Exactly: the best partition of a set is its best cluster with the set's first item, and the best partition of the
remainder; so it is enough to know what every subset costs as a cluster. With f as in `summaries`, w(S) the weight of a
set S of items, and D draws, a subset costs in a loss  f(w(S)) - (2 / D) sum_d sum_b f(w(S & b))  over the clusters b of
draw d; what is left of the loss is the same for all partitions. Where links have a price, a subset costs the price of
its pairs less twice their probabilities.

By moves of one item, or of all items of one cluster: adding item i of weight w to cluster k costs
p g(n_k) - (2 / D) sum_d g(n_kd)  where g(x) is f(x + w) - f(x) - f(w), n_k is the weight of k, and n_kd that of the
members of k that draw d puts together with i; a new cluster costs nothing. The price p of a cluster is 1 for both
losses, and lower where more links are wanted. Each draw keeps, for each of its clusters, a short list of the
candidate's clusters that meet it. Room is by the number of items; counts are sums of weights.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from scdp._compile import kernel
from scdp._typing import Booleans, Floats, Integers, SmallIntegers

# The work grows as 3 to the power of the items: 10 take some 20,000 steps.
MOST_ITEMS = 10
N_SUBSETS = 1 << MOST_ITEMS
# A cluster's number in a partition takes so many bits where the partition is written as one number.
BITS = 4
# Smaller differences are rounding, and must not decide between equals.
TIE = 1e-11


@kernel
def solve_components(
    draws: SmallIntegers,
    items: Integers,
    bounds: Integers,
    weights: Integers,
    fixed: SmallIntegers,
    terms: Floats,
    labels: Integers,
) -> None:
    """Write for each item of each component the first item of its cluster in the best partition.

    `items` and `bounds` are components of at most MOST_ITEMS items; items of one label in `fixed` (-1 = free) stay
    together, of different ones apart, and all items of such a label are in one component.
    """
    kinds, counts = np.empty(len(draws), np.int64), np.empty(len(draws), np.int64)
    sums, choices = np.zeros(N_SUBSETS, np.int64), np.zeros(N_SUBSETS, np.int64)
    costs, least = np.zeros(N_SUBSETS), np.zeros(N_SUBSETS)
    for component in range(len(bounds) - 1):
        members = items[bounds[component] : bounds[component + 1]]
        everything = (1 << len(members)) - 1
        n_kinds = 1 if len(members) == 1 else count_kinds(draws, members, kinds, counts)
        # Items of one component that all draws group alike are together in all of them.
        choices[everything] = everything
        if n_kinds > 1 or fixed[members].max() >= 0:
            add_weights(members, weights, sums)
            cost_subsets(kinds[:n_kinds], counts[:n_kinds], len(members), sums, terms, costs)
            forbid(members, fixed, costs)
            choose_clusters(len(members), costs, least, choices)
        name_by_choices(members, choices, labels)


@kernel
def name_by_choices(members: Integers, choices: Integers, labels: Integers) -> None:
    """Write the first item of its cluster for each of some items, of which choices[left] is the next cluster."""
    left = (1 << len(members)) - 1
    while left:
        first = -1
        for place in range(len(members)):
            if choices[left] >> place & 1:
                if first < 0:
                    first = members[place]
                labels[members[place]] = first
        left ^= choices[left]


@kernel
def count_kinds(draws: SmallIntegers, members: Integers, kinds: Integers, counts: Integers) -> int:
    """The distinct partitions that draws make of some items, each as one number, and how often each occurs."""
    n_kinds = 0
    for draw in range(draws.shape[0]):
        kind, n_clusters = 0, 0
        for place in range(len(members)):
            number = n_clusters
            for before in range(place):
                if draws[draw, members[before]] == draws[draw, members[place]]:
                    number = kind >> BITS * before & (1 << BITS) - 1
                    break
            n_clusters = max(n_clusters, number + 1)
            kind |= number << BITS * place
        at = 0
        while at < n_kinds and kinds[at] != kind:
            at += 1
        if at == n_kinds:
            kinds[at], counts[at] = kind, 0
            n_kinds += 1
        counts[at] += 1
    return n_kinds


@kernel
def add_weights(members: Integers, weights: Integers, sums: Integers) -> None:
    """The weight of every subset; bit p of a subset's number is member p."""
    for place in range(len(members)):
        bit = 1 << place
        for subset in range(bit):
            sums[subset | bit] = sums[subset] + weights[members[place]]


@kernel
def cost_subsets(
    kinds: Integers, counts: Integers, n_members: int, sums: Integers, terms: Floats, costs: Floats
) -> None:
    """What every subset costs as a cluster."""
    n_subsets = 1 << n_members
    blocks = np.empty(MOST_ITEMS, np.int64)
    for subset in range(n_subsets):
        costs[subset] = terms[sums[subset]]
    for at in range(len(kinds)):
        share = 2.0 * counts[at] / counts.sum()
        blocks[:] = 0
        n_blocks = 0
        for place in range(n_members):
            number = kinds[at] >> BITS * place & (1 << BITS) - 1
            blocks[number] |= 1 << place
            n_blocks = max(n_blocks, number + 1)
        for subset in range(n_subsets):
            overlap = 0.0
            for number in range(n_blocks):
                overlap += terms[sums[subset & blocks[number]]]
            costs[subset] -= share * overlap


@kernel
def forbid(members: Integers, fixed: SmallIntegers, costs: Floats) -> None:
    """No price is enough for a subset that divides items of one fixed label or joins those of two."""
    for place in range(len(members)):
        own = fixed[members[place]]
        if own < 0:
            continue
        alike, others = 0, 0
        for other in range(len(members)):
            if fixed[members[other]] == own:
                alike |= 1 << other
            elif fixed[members[other]] >= 0:
                others |= 1 << other
        for subset in range(1 << len(members)):
            if subset >> place & 1 and (subset & alike != alike or subset & others):
                costs[subset] = np.inf


@kernel
def choose_clusters(n_members: int, costs: Floats, least: Floats, choices: Integers) -> None:
    """For every subset that can be left, the cluster of its first member in its best partition."""
    everything = (1 << n_members) - 1
    least[0] = 0.0
    # The first cluster takes the first member away: but for the whole, subsets that hold it are never left.
    for even in range(2, everything + 2, 2):
        subset = min(even, everything)
        first = subset & -subset
        rest = subset ^ first
        least[subset] = np.inf
        with_first = 0
        while True:
            cluster = with_first | first
            cost = costs[cluster] + least[subset ^ cluster]
            if cost < least[subset] - TIE:
                least[subset], choices[subset] = cost, cluster
            if with_first == rest:
                break
            # The next larger subset of the rest: equals are decided for the smaller cluster.
            with_first = with_first - rest & rest


@kernel
def solve_linked(
    items: Integers, bounds: Integers, graph: Any, weights: Integers, anchored: Booleans, price: float, labels: Integers
) -> None:
    """Write for each item of each component the first item of its cluster in the best partition.

    Components have at most MOST_ITEMS items. `price` is that of a link times the number of draws.
    """
    places = np.full(len(weights), -1, np.int64)
    values = np.empty((MOST_ITEMS, MOST_ITEMS))
    costs, least = np.zeros(N_SUBSETS), np.zeros(N_SUBSETS)
    choices = np.zeros(N_SUBSETS, np.int64)
    for component in range(len(bounds) - 1):
        members = items[bounds[component] : bounds[component + 1]]
        one_cluster = value_pairs(members, graph, weights, price, places, values)
        everything = (1 << len(members)) - 1
        choices[everything] = everything
        if not one_cluster or anchored[members].sum() > 1:
            cost_clusters(members, anchored, values, costs)
            choose_clusters(len(members), costs, least, choices)
        name_by_choices(members, choices, labels)


@kernel
def value_pairs(
    members: Integers, graph: Any, weights: Integers, price: float, places: Integers, values: Floats
) -> bool:
    """What linking each pair of members is worth; whether every pair is worth something. `places` holds -1."""
    for place in range(len(members)):
        places[members[place]] = place
        for other in range(len(members)):
            values[place, other] = -price * weights[members[place]] * weights[members[other]]
    for place in range(len(members)):
        item = members[place]
        for entry in range(graph.starts[item], graph.starts[item + 1]):
            other = places[graph.targets[entry]]
            if other >= 0:
                values[place, other] += 2.0 * graph.totals[entry]
    all_positive = True
    for place in range(len(members)):
        places[members[place]] = -1
        for other in range(place):
            all_positive &= values[place, other] > 0.0
    return all_positive


@kernel
def cost_clusters(members: Integers, anchored: Booleans, values: Floats, costs: Floats) -> None:
    """What every subset costs as a cluster: less its value, and without limit where it joins two anchored items."""
    costs[0] = 0.0
    for place in range(len(members)):
        bit = 1 << place
        for subset in range(bit):
            cost = costs[subset]
            for other in range(place):
                if subset >> other & 1:
                    if anchored[members[place]] and anchored[members[other]]:
                        cost = np.inf
                    cost -= values[place, other]
            costs[subset | bit] = cost


# Gains below this, for each unit of weight, are rounding, and following them could cycle.
LEAST_GAIN = 1e-9
FILLED, LABEL, COUNT = 0, 1, 2


class Overlaps(NamedTuple):
    """Where each item's list begins (item, draw), and the lists (draw, place, [length, label, count]).

    The list of a draw's cluster begins where that cluster's items would, were they sorted: it has room for as
    many candidate clusters as the draw's cluster has items. Its length stands in its first place.
    """

    begins: SmallIntegers
    lists: SmallIntegers


class Candidate(NamedTuple):
    """A partition in the making: label (-1 = not placed) and size by label, with scratch for scores."""

    labels: SmallIntegers
    sizes: Integers
    scores: Floats
    touched: SmallIntegers
    cursor: Integers


class Costs(NamedTuple):
    """What decides the cost of a cluster: its price, f for every weight up to that of all items, weight by item."""

    price: float
    terms: Floats
    weights: Integers


@kernel
def place(item: int, label: int, weights: Integers, overlaps: Any, candidate: Any) -> None:
    """Put an unplaced item into a cluster."""
    weight = weights[item]
    candidate.labels[item] = label
    candidate.sizes[label] += weight
    lists = overlaps.lists
    for draw in range(lists.shape[0]):
        begin = overlaps.begins[item, draw]
        end = begin + lists[draw, begin, FILLED]
        entry = begin
        while entry < end and lists[draw, entry, LABEL] != label:
            entry += 1
        if entry == end:
            lists[draw, begin, FILLED] += 1
            lists[draw, entry, LABEL] = label
            lists[draw, entry, COUNT] = 0
        lists[draw, entry, COUNT] += weight


@kernel
def remove(item: int, weights: Integers, overlaps: Any, candidate: Any) -> None:
    """Take an item out of its cluster."""
    weight = weights[item]
    label = candidate.labels[item]
    candidate.labels[item] = -1
    candidate.sizes[label] -= weight
    lists = overlaps.lists
    for draw in range(lists.shape[0]):
        begin = overlaps.begins[item, draw]
        entry = begin
        while lists[draw, entry, LABEL] != label:
            entry += 1
        lists[draw, entry, COUNT] -= weight
        if lists[draw, entry, COUNT] == 0:
            lists[draw, begin, FILLED] -= 1
            last = begin + lists[draw, begin, FILLED]
            lists[draw, entry, LABEL] = lists[draw, last, LABEL]
            lists[draw, entry, COUNT] = lists[draw, last, COUNT]


@kernel
def choose(item: int, costs: Any, overlaps: Any, candidate: Any) -> tuple[int, float, float]:
    """The best cluster for an item (-1 = a new one), what it costs, and what staying where it is costs."""
    lists, scores, touched = overlaps.lists, candidate.scores, candidate.touched
    price, terms, weight = costs.price, costs.terms, costs.weights[item]
    alone, least_gain = terms[weight], LEAST_GAIN * weight
    own = candidate.labels[item]
    n_touched = 0
    for draw in range(lists.shape[0]):
        begin = overlaps.begins[item, draw]
        for entry in range(begin, begin + lists[draw, begin, FILLED]):
            label = lists[draw, entry, LABEL]
            others = lists[draw, entry, COUNT] - (weight if label == own else 0)
            if others > 0:
                gain = terms[others + weight] - terms[others] - alone
                if scores[label] == 0.0:
                    touched[n_touched] = label
                    n_touched += 1
                scores[label] += gain
    best, best_cost, stay = -1, 0.0, 0.0
    if own >= 0:
        size = candidate.sizes[own]
        stay = price * (terms[size] - terms[size - weight] - alone)
    for index in range(n_touched):
        label = touched[index]
        others = candidate.sizes[label] - (weight if label == own else 0)
        size_cost = price * (terms[others + weight] - terms[others] - alone)
        cost = size_cost - 2.0 * scores[label] / lists.shape[0]
        scores[label] = 0.0
        if label == own:
            stay = cost
        if cost < best_cost - least_gain:
            best, best_cost = int(label), cost
    return best, best_cost, stay


@kernel
def find_unused_label(candidate: Any) -> int:
    """A label with no items; there are twice as many labels as items, so one is always near."""
    cursor = candidate.cursor
    while candidate.sizes[cursor[0]] > 0:
        cursor[0] = (cursor[0] + 1) % len(candidate.sizes)
    return cursor[0]


@kernel
def settle(item: int, costs: Any, overlaps: Any, candidate: Any) -> float:
    """Put an unplaced item where it costs least, and return that cost."""
    label, cost, _ = choose(item, costs, overlaps, candidate)
    if label < 0:
        label = find_unused_label(candidate)
    place(item, label, costs.weights, overlaps, candidate)
    return cost


@kernel
def sweep_items(order: Integers, costs: Any, overlaps: Any, candidate: Any) -> bool:
    """Move each item to where it costs least; whether any moved."""
    moved = False
    for item in order:
        if candidate.labels[item] < 0:
            settle(item, costs, overlaps, candidate)
            moved = True
            continue
        label, cost, stay = choose(item, costs, overlaps, candidate)
        if cost < stay - LEAST_GAIN * costs.weights[item]:
            remove(item, costs.weights, overlaps, candidate)
            if label < 0:
                label = find_unused_label(candidate)
            place(item, label, costs.weights, overlaps, candidate)
            moved = True
    return moved


@kernel
def rebuild_cluster(members: Integers, costs: Any, overlaps: Any, candidate: Any) -> bool:
    """Dissolve a cluster and settle its items one by one; undone unless that lowers the loss."""
    label = int(candidate.labels[members[0]])
    before = 0.0
    for item in members:
        before += choose(item, costs, overlaps, candidate)[2]
        remove(item, costs.weights, overlaps, candidate)
    after = 0.0
    for item in members:
        after += settle(item, costs, overlaps, candidate)
    if after < before - LEAST_GAIN * costs.weights[members].max():
        return True
    for item in members:
        remove(item, costs.weights, overlaps, candidate)
    for item in members:
        place(item, label, costs.weights, overlaps, candidate)
    return False


@kernel
def rebuild_clusters(order: Integers, costs: Any, overlaps: Any, candidate: Any) -> bool:
    """Try to rebuild every cluster once; whether any attempt was kept."""
    ends = np.zeros(len(candidate.sizes) + 1, np.int64)
    for item in order:
        ends[candidate.labels[item] + 1] += 1
    for label in range(len(candidate.sizes)):
        ends[label + 1] += ends[label]
    members = np.empty_like(order)
    for item in order:
        label = candidate.labels[item]
        members[ends[label]] = item
        ends[label] += 1
    improved = False
    begin = 0
    for label in range(len(candidate.sizes)):
        if ends[label] - begin > 1:
            improved |= rebuild_cluster(members[begin : ends[label]], costs, overlaps, candidate)
        begin = ends[label]
    return improved


@kernel
def descend(
    order: Integers, start: SmallIntegers, max_rounds: int, max_sweeps: int, costs: Any, overlaps: Any, candidate: Any
) -> None:
    """Lower the expected loss from `start` (-1 = not placed yet), moving only the items in `order`.

    Sweeps over items alternate with at most `max_rounds` rounds of rebuilding clusters.
    """
    overlaps.lists[:, :, FILLED] = 0
    candidate.labels[:] = -1
    candidate.sizes[:] = 0
    for item in range(len(start)):
        if start[item] >= 0:
            place(item, int(start[item]), costs.weights, overlaps, candidate)
    for rounds_done in range(max_rounds + 1):
        for _ in range(max_sweeps):
            if not sweep_items(order, costs, overlaps, candidate):
                break
        if rounds_done == max_rounds or not rebuild_clusters(order, costs, overlaps, candidate):
            break
