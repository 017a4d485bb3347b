"""The law of a partition given the scores of pairs, and its conditional likelihood. Draws are made in `forward`.

A pair that is not here is known to be far apart: its score is the floor, and items that no chain of pairs connects
are never in one cluster.

Records come in a random order. A record opens a cluster with weight 1 and joins a cluster k with weight
exp(bias + growth log n_k + third [n_k > 1] + mean score with its members). After this forward pass every record is
taken out and placed again, given all others, a fixed number of times. Records alone cannot join two halves of a large
cluster, so then whole clusters are taken: each of two or more stays or joins another of two or more as a record would,
with the weight times exp(merge), and every record is placed once more. A draw is exact: the law of this process is the
model.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp._typing import Floats, Integers
from scdp.compare.features import Neighbours

OPEN = -1
# The weight of joining whole clusters where that is not done, and the free records of a component that it takes.
NO_MERGE = -1e3
FEWEST_TO_MERGE = 4


class Weights(NamedTuple):
    """Of joining a cluster: a constant, by the log of its size, where it has two members or more.

    `floor` is the score of a pair that is not among the candidates, `merge` is added where a whole cluster joins.
    """

    bias: float
    growth: float
    third: float
    floor: float
    merge: float = NO_MERGE


class Placements(NamedTuple):
    """Records placed one after another, and whom each meets then: the same whatever scores and weights are.

    Step s meets the clusters at places `clusters_from[s]` to `clusters_from[s + 1]`, in the order in which its pairs
    `pairs_from[s]` to `pairs_from[s + 1]` come to them; `met` says to which each of these belongs, counted from the
    first of the step. `home` is the true cluster of its record, and `own` says which of those met it is: their number
    where it is none of them. `size` is of the clusters met, and of at most `log_size.shape[0] - 1` records.
    """

    pairs_from: Integers
    clusters_from: Integers
    pair: NDArray[np.int32]
    met: NDArray[np.int32]
    size: NDArray[np.int32]
    home: Integers
    own: Integers
    log_size: Floats

    @classmethod
    def of(cls, neighbours: Neighbours, cluster: Integers, order: Integers, everyone: bool) -> Self:
        """Records come in the given order, or with `everyone` each is placed given all others."""
        n_steps = len(order)
        most = len(neighbours.other) if everyone else len(neighbours.other) // 2
        pairs_from, clusters_from = np.zeros(n_steps + 1, np.int64), np.zeros(n_steps + 1, np.int64)
        pair, met, size = (np.empty(most, np.int32) for _ in range(3))
        own = np.empty(n_steps, np.int64)
        log_size = np.zeros(np.bincount(cluster).max() + 1)
        lay_out(neighbours, cluster, order, everyone, pairs_from, clusters_from, pair, met, size, own, log_size)
        return cls(pairs_from, clusters_from, pair, met, size[: clusters_from[-1]], cluster[order], own, log_size)


@kernel
def lay_out(
    neighbours: Neighbours,
    cluster: Integers,
    order: Integers,
    everyone: bool,
    pairs_from: Integers,
    clusters_from: Integers,
    pair: NDArray[np.int32],
    met: NDArray[np.int32],
    size: NDArray[np.int32],
    own: Integers,
    log_size: Floats,
) -> None:
    """Fill the arrays of `Placements`, all but `home`."""
    for n in range(1, log_size.shape[0]):
        log_size[n] = np.log(float(n))
    n_clusters = cluster.max() + 1
    so_far, place = np.zeros(n_clusters, np.int32), np.full(n_clusters, -1, np.int32)
    placed = np.zeros(cluster.shape[0], np.bool_)
    if everyone:
        placed[:] = True
        for i in range(cluster.shape[0]):
            so_far[cluster[i]] += 1
    n_pairs = n_met = 0
    for s in range(order.shape[0]):
        i = order[s]
        home = cluster[i]
        if everyone:
            placed[i] = False
            so_far[home] -= 1
        first = n_met
        for e in range(neighbours.start[i], neighbours.start[i + 1]):
            j = neighbours.other[e]
            if not placed[j]:
                continue
            k = cluster[j]
            if place[k] < first:
                place[k] = n_met
                size[n_met] = so_far[k]
                n_met += 1
            pair[n_pairs] = neighbours.pair[e]
            met[n_pairs] = place[k] - first
            n_pairs += 1
        own[s] = (place[home] if place[home] >= first else n_met) - first
        pairs_from[s + 1], clusters_from[s + 1] = n_pairs, n_met
        so_far[home] += 1
        placed[i] = True


@kernel
def log_likelihood_grad(
    placements: Placements,
    score: Floats,
    weights: Weights,
    cluster_weight: Floats,
    by_score: Floats,
    by_weights: Floats,
) -> float:
    """The log-likelihood of known clusters; derivatives are added to `by_score` (pairs) and `by_weights` (3).

    `cluster_weight` is how much the records of each cluster count.
    """
    weight = np.zeros(np.diff(placements.clusters_from).max() + 1)
    likelihood = 0.0
    for s in range(placements.own.shape[0]):
        pairs = range(placements.pairs_from[s], placements.pairs_from[s + 1])
        first = placements.clusters_from[s]
        n_met = placements.clusters_from[s + 1] - first
        weight[: n_met + 1] = 0.0
        for e in pairs:
            weight[placements.met[e]] += score[placements.pair[e]] - weights.floor
        highest = 0.0
        for a in range(n_met):
            n = placements.size[first + a]
            weight[a] = weights.bias + weights.growth * placements.log_size[n] + weights.floor + weight[a] / n
            if n > 1:
                weight[a] += weights.third
            highest = max(highest, weight[a])
        everything = 0.0
        for a in range(n_met + 1):
            weight[a] = np.exp(max(weight[a] - highest, -700.0))
            everything += weight[a]
        own = placements.own[s]
        counts = cluster_weight[placements.home[s]]
        likelihood += counts * (np.log(weight[own]) - np.log(everything))
        for a in range(n_met + 1):
            # How much more likely this choice was, given the truth, than it was beforehand.
            excess = -counts * weight[a] / everything
            if a == own:
                excess += counts
            weight[a] = excess
            if a < n_met:
                n = placements.size[first + a]
                by_weights[0] += excess
                by_weights[1] += excess * placements.log_size[n]
                if n > 1:
                    by_weights[2] += excess
        for e in pairs:
            a = placements.met[e]
            by_score[placements.pair[e]] += weight[a] / placements.size[first + a]
    return likelihood


@kernel
def choose(
    n_touched: int,
    touched: Integers,
    total: Floats,
    met: Integers,
    size: Integers,
    n_joining: int,
    constant: float,
    weights: Weights,
    uniform: float,
) -> int:
    """One of the clusters that so many records meet, or -1 for none; `met` and `total` are zero afterwards."""
    highest = 0.0
    for a in range(n_touched):
        k = touched[a]
        mean = weights.floor + total[k] / (size[k] * n_joining)
        total[k] = constant + weights.growth * np.log(float(size[k])) + mean
        if size[k] > 1:
            total[k] += weights.third
        highest = max(highest, total[k])
    everything = np.exp(-highest)
    for a in range(n_touched):
        total[touched[a]] = np.exp(total[touched[a]] - highest)
        everything += total[touched[a]]
    left = uniform * everything
    choice = OPEN
    for a in range(n_touched):
        k = touched[a]
        if choice == OPEN:
            left -= total[k]
            if left < 0.0:
                choice = k
        met[k] = 0
        total[k] = 0.0
    return choice


@kernel
def sample_cluster(
    i: int,
    neighbours: Neighbours,
    score: Floats,
    weights: Weights,
    cluster: Integers,
    size: Integers,
    met: Integers,
    total: Floats,
    touched: Integers,
    uniform: float,
) -> int:
    """The cluster that record i joins, or -1 for a new one; `met` and `total` are zero before and after."""
    n_touched = 0
    for e in range(neighbours.start[i], neighbours.start[i + 1]):
        k = cluster[neighbours.other[e]]
        if k < 0:
            continue
        if met[k] == 0:
            touched[n_touched] = k
            n_touched += 1
        met[k] += 1
        total[k] += score[neighbours.pair[e]] - weights.floor
    if n_touched == 0:
        return OPEN
    return choose(n_touched, touched, total, met, size, 1, weights.bias, weights, uniform)
