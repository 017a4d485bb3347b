"""Clusters ordered by decreasing size, ties by their earliest item, kept up to date as items come and go."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scdp._compile import kernel
from scdp.chains.vectors.items import Floats, Integers

NOBODY = 2**62


class Ranks(NamedTuple):
    """`order[:n[0]]` are the used slots in order; `size` and `first` are their keys, by slot."""

    order: Integers
    n: Integers
    size: Integers
    first: Integers


@kernel
def ranks_of(cluster: Integers, n_slots: int) -> Ranks:
    """The order of the clusters of a state."""
    ranks = Ranks(
        np.empty(n_slots + 1, np.int64),
        np.zeros(1, np.int64),
        np.zeros(n_slots, np.int64),
        np.full(n_slots, NOBODY),
    )
    for i in range(cluster.shape[0] - 1, -1, -1):
        ranks.size[cluster[i]] += 1
        ranks.first[cluster[i]] = i
    for slot in range(n_slots):
        if ranks.size[slot] > 0:
            insert(ranks, slot)
    return ranks


@kernel
def position(ranks: Ranks, size: int, first: int) -> int:
    """Where a cluster with these keys stands: the number of clusters that come before it."""
    low, high = 0, ranks.n[0]
    while low < high:
        middle = (low + high) // 2
        slot = ranks.order[middle]
        before = ranks.size[slot] > size or (ranks.size[slot] == size and ranks.first[slot] < first)
        low, high = (middle + 1, high) if before else (low, middle)
    return low


@kernel
def insert(ranks: Ranks, slot: int) -> None:
    at = position(ranks, ranks.size[slot], ranks.first[slot])
    for j in range(ranks.n[0], at, -1):
        ranks.order[j] = ranks.order[j - 1]
    ranks.order[at] = slot
    ranks.n[0] += 1


@kernel
def remove(ranks: Ranks, slot: int) -> None:
    at = position(ranks, ranks.size[slot], ranks.first[slot])
    ranks.n[0] -= 1
    for j in range(at, ranks.n[0]):
        ranks.order[j] = ranks.order[j + 1]


@kernel
def item_leaves(ranks: Ranks, cluster: Integers, i: int) -> None:
    """Item i leaves its cluster; its label in `cluster` must already be gone."""
    slot = cluster[i]
    remove(ranks, slot)
    ranks.size[slot] -= 1
    if ranks.first[slot] == i:
        ranks.first[slot] = NOBODY
        for j in range(i + 1, cluster.shape[0]):
            if cluster[j] == slot:
                ranks.first[slot] = j
                break
    if ranks.size[slot] > 0:
        insert(ranks, slot)


@kernel
def item_joins(ranks: Ranks, slot: int, i: int) -> None:
    if ranks.size[slot] > 0:
        remove(ranks, slot)
    ranks.size[slot] += 1
    ranks.first[slot] = min(ranks.first[slot], i)
    insert(ranks, slot)


@kernel
def prefix_sums(ranks: Ranks, values: Floats, prefix: Floats) -> None:
    """prefix[j] = sum of values over the first j clusters in order."""
    prefix[0] = 0.0
    for j in range(ranks.n[0]):
        prefix[j + 1] = prefix[j] + values[ranks.order[j]]


@kernel
def rank_weighted(ranks: Ranks, values: Floats) -> float:
    """Sum over the order of j times the value of the j-th cluster, j from 0."""
    total = 0.0
    for j in range(ranks.n[0]):
        total += j * values[ranks.order[j]]
    return total


@kernel
def rank_weighted_after_join(
    ranks: Ranks, values: Floats, prefix: Floats, weighted: float, slot: int, i: int
) -> float:
    """`rank_weighted` as it would be if item i joined the cluster in `slot`: it moves up, those it passes down."""
    size, first = ranks.size[slot], ranks.first[slot]
    old = position(ranks, size, first)
    new = position(ranks, size + 1, min(first, i))
    return weighted + prefix[old] - prefix[new] - (old - new) * values[slot]


@kernel
def rank_weighted_after_open(ranks: Ranks, prefix: Floats, weighted: float, value: float, i: int) -> float:
    """`rank_weighted` as it would be if item i opened a cluster with this value."""
    at = position(ranks, 1, i)
    return weighted + at * value + prefix[ranks.n[0]] - prefix[at]
