"""Small components, exactly: draws or pair counts enter, the best partition of each component leaves.

The best partition of a set is its best cluster with the set's first item, and the best partition of the remainder;
so it is enough to know what every subset costs as a cluster.

With f as in `summaries`, w(S) the weight of a set S of items, and D draws, a subset costs in a loss
f(w(S)) - (2 / D) sum_d sum_b f(w(S & b))  over the clusters b of draw d; what is left of the loss is the same for all
partitions. Where links have a price, a subset costs the price of its pairs less twice their probabilities.
"""

from __future__ import annotations

from typing import Any

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
) -> int:
    """Write the best clusters of each component's items to `labels`, numbered from 0; return how many there are.

    `items` and `bounds` are components of at most MOST_ITEMS items; items of one label in `fixed` (-1 = free) stay
    together, of different ones apart, and all items of such a label are in one component.
    """
    kinds, counts = np.empty(len(draws), np.int64), np.empty(len(draws), np.int64)
    sums, choices = np.zeros(N_SUBSETS, np.int64), np.zeros(N_SUBSETS, np.int64)
    costs, least = np.zeros(N_SUBSETS), np.zeros(N_SUBSETS)
    n_clusters = 0
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
        left = everything
        while left:
            for place in range(len(members)):
                if choices[left] >> place & 1:
                    labels[members[place]] = n_clusters
            n_clusters += 1
            left ^= choices[left]
    return n_clusters


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
        left = everything
        while left:
            first = -1
            for place in range(len(members)):
                if choices[left] >> place & 1:
                    if first < 0:
                        first = members[place]
                    labels[members[place]] = first
            left ^= choices[left]


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
