"""The conditional log-likelihood of known clusters when items are seated in a given order, and its derivatives.

One type: a log-linear model, so that the likelihood is concave in all that is learned. `everyone` asks instead for each
item given all others, as when it is seated again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp.linkage.pairs import Neighbours

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Weights(NamedTuple):
    """By reference type: log share, bias and growth of joining, fresh of opening, and the floor of scores."""

    log_share: Floats
    bias: Floats
    growth: Floats
    fresh: Floats
    floor: Floats


@kernel
def seat_known(
    neighbours: Neighbours,
    score: Floats,
    weights: Weights,
    cluster: Integers,
    order: Integers,
    everyone: bool,
    by_score: Floats,
    by_weights: Floats,
) -> float:
    """The log-likelihood; derivatives are added to `by_score` (pairs, types) and `by_weights` (5, types)."""
    n_types = score.shape[1]
    n_clusters = cluster.max() + 1
    size = np.zeros(n_clusters)
    seated = np.zeros(cluster.shape[0], np.bool_)
    if everyone:
        seated[:] = True
        for i in range(cluster.shape[0]):
            size[cluster[i]] += 1.0
    total = np.zeros((n_clusters, n_types))
    met = np.zeros(n_clusters)
    touched = np.empty(n_clusters, np.int64)
    log_weight = np.empty((n_clusters + 1, n_types))
    likelihood = 0.0
    for i in order:
        home = cluster[i]
        if everyone:
            seated[i] = False
            size[home] -= 1.0
        n_touched = 0
        around = 0.0
        for e in range(neighbours.start[i], neighbours.start[i + 1]):
            j = neighbours.other[e]
            if not seated[j]:
                continue
            k = cluster[j]
            if met[k] == 0.0:
                touched[n_touched] = k
                n_touched += 1
            met[k] += 1.0
            around += 1.0
            for d in range(n_types):
                total[k, d] += score[neighbours.pair[e], d] - weights.floor[d]
        crowd = np.log(1.0 + around)
        highest = -np.inf
        for d in range(n_types):
            log_weight[n_touched, d] = weights.log_share[d] + weights.fresh[d] * crowd
            highest = max(highest, log_weight[n_touched, d])
            for a in range(n_touched):
                k = touched[a]
                link = weights.floor[d] + total[k, d] / size[k]
                log_weight[a, d] = (
                    weights.log_share[d] + weights.bias[d] + weights.growth[d] * np.log(size[k]) + link
                )
                highest = max(highest, log_weight[a, d])
        own = n_touched
        for a in range(n_touched):
            if touched[a] == home:
                own = a
        everything = 0.0
        chosen = 0.0
        for a in range(n_touched + 1):
            for d in range(n_types):
                weight = np.exp(log_weight[a, d] - highest)
                log_weight[a, d] = weight
                everything += weight
                if a == own:
                    chosen += weight
        likelihood += np.log(chosen) - np.log(everything)
        for d in range(n_types):
            for a in range(n_touched + 1):
                # How much more likely this choice was, given the truth, than it was beforehand.
                excess = -log_weight[a, d] / everything
                if a == own:
                    excess += log_weight[a, d] / chosen
                log_weight[a, d] = excess
                by_weights[0, d] += excess
                if a == n_touched:
                    by_weights[3, d] += excess * crowd
                else:
                    k = touched[a]
                    by_weights[1, d] += excess
                    by_weights[2, d] += excess * np.log(size[k])
                    by_weights[4, d] += excess * (1.0 - met[k] / size[k])
        for a in range(n_touched):
            met[touched[a]] = float(a)
        for e in range(neighbours.start[i], neighbours.start[i + 1]):
            j = neighbours.other[e]
            if seated[j]:
                k = cluster[j]
                for d in range(n_types):
                    by_score[neighbours.pair[e], d] += log_weight[int(met[k]), d] / size[k]
        for a in range(n_touched):
            k = touched[a]
            met[k] = 0.0
            total[k, :] = 0.0
        size[home] += 1.0
        seated[i] = True
    return likelihood
