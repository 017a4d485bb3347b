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

from typing import NamedTuple

import numpy as np

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


@kernel
def log_likelihood_grad(
    neighbours: Neighbours,
    score: Floats,
    weights: Weights,
    cluster: Integers,
    order: Integers,
    everyone: bool,
    cluster_weight: Floats,
    by_score: Floats,
    by_weights: Floats,
) -> float:
    """The log-likelihood of known clusters; derivatives are added to `by_score` (pairs) and `by_weights` (3).

    Records come in the given order, or with `everyone` each is placed given all others. `cluster_weight` is how much
    the records of each cluster count.
    """
    n_clusters = cluster.max() + 1
    size = np.zeros(n_clusters)
    placed = np.zeros(cluster.shape[0], np.bool_)
    if everyone:
        placed[:] = True
        for i in range(cluster.shape[0]):
            size[cluster[i]] += 1.0
    total = np.zeros(n_clusters)
    met = np.zeros(n_clusters)
    touched = np.empty(n_clusters, np.int64)
    weight = np.empty(n_clusters + 1)
    likelihood = 0.0
    for i in order:
        home = cluster[i]
        if everyone:
            placed[i] = False
            size[home] -= 1.0
        n_touched = 0
        for e in range(neighbours.start[i], neighbours.start[i + 1]):
            j = neighbours.other[e]
            if not placed[j]:
                continue
            k = cluster[j]
            if met[k] == 0.0:
                touched[n_touched] = k
                n_touched += 1
            met[k] += 1.0
            total[k] += score[neighbours.pair[e]] - weights.floor
        highest = 0.0
        weight[n_touched] = 0.0
        own = n_touched
        for a in range(n_touched):
            k = touched[a]
            weight[a] = weights.bias + weights.growth * np.log(size[k]) + weights.floor + total[k] / size[k]
            if size[k] > 1.5:
                weight[a] += weights.third
            highest = max(highest, weight[a])
            if k == home:
                own = a
        everything = 0.0
        for a in range(n_touched + 1):
            weight[a] = np.exp(max(weight[a] - highest, -700.0))
            everything += weight[a]
        counts = cluster_weight[home]
        likelihood += counts * (np.log(weight[own]) - np.log(everything))
        for a in range(n_touched + 1):
            # How much more likely this choice was, given the truth, than it was beforehand.
            excess = -counts * weight[a] / everything
            if a == own:
                excess += counts
            weight[a] = excess
            if a < n_touched:
                k = touched[a]
                by_weights[0] += excess
                by_weights[1] += excess * np.log(size[k])
                if size[k] > 1.5:
                    by_weights[2] += excess
        for a in range(n_touched):
            met[touched[a]] = float(a)
        for e in range(neighbours.start[i], neighbours.start[i + 1]):
            j = neighbours.other[e]
            if placed[j]:
                k = cluster[j]
                by_score[neighbours.pair[e]] += weight[int(met[k])] / size[k]
        for a in range(n_touched):
            met[touched[a]] = 0.0
            total[touched[a]] = 0.0
        size[home] += 1.0
        placed[i] = True
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
