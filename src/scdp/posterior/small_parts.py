"""Small components of a posterior: draws enter, the partition of least expected loss leaves, exactly.

With f as in `contingency`, w(S) the weight of a set S of items, and D draws, a partition costs the sum over its
clusters S of  f(w(S)) - (2 / D) sum_d sum_b f(w(S & b))  over the clusters b of draw d; what is left of the loss is
the same for all. So the best partition of a set is its best cluster with the set's first item, and the best
partition of the remainder.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

# The work grows as 3 to the power of the items: 10 take some 20,000 steps.
MOST_ITEMS = 10
N_SUBSETS = 1 << MOST_ITEMS
# A cluster's number in a partition takes so many bits where the partition is written as one number.
BITS = 4
# Smaller differences are rounding, and must not decide between equals.
TIE = 1e-11


@kernel
def solve_parts(
    draws: NDArray[np.int32],
    items: Counts,
    bounds: Counts,
    weights: Counts,
    fixed: NDArray[np.int32],
    terms: Floats,
    labels: Counts,
) -> int:
    """Write the best clusters of each component's items to `labels`, numbered from 0; return how many there are.

    `items` and `bounds` are components of at most MOST_ITEMS items; items of one label in `fixed` (-1 = free) stay
    together, of different ones apart, and all items of such a label are in one component.
    """
    kinds, counts = np.empty(len(draws), np.int64), np.empty(len(draws), np.int64)
    sums, choices = np.zeros(N_SUBSETS, np.int64), np.zeros(N_SUBSETS, np.int64)
    costs, least = np.zeros(N_SUBSETS), np.zeros(N_SUBSETS)
    n_clusters = 0
    for part in range(len(bounds) - 1):
        members = items[bounds[part] : bounds[part + 1]]
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
def count_kinds(draws: NDArray[np.int32], members: Counts, kinds: Counts, counts: Counts) -> int:
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
def add_weights(members: Counts, weights: Counts, sums: Counts) -> None:
    """The weight of every subset; bit p of a subset's number is member p."""
    for place in range(len(members)):
        bit = 1 << place
        for subset in range(bit):
            sums[subset | bit] = sums[subset] + weights[members[place]]


@kernel
def cost_subsets(
    kinds: Counts, counts: Counts, n_members: int, sums: Counts, terms: Floats, costs: Floats
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
def forbid(members: Counts, fixed: NDArray[np.int32], costs: Floats) -> None:
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
def choose_clusters(n_members: int, costs: Floats, least: Floats, choices: Counts) -> None:
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
