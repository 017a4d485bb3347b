"""Cluster means (Normal) and their variance (its inverse Gamma), drawn exactly from their conditionals."""

from __future__ import annotations

import numpy as np

from scdp._compile import kernel
from scdp._typing import Floats, Integers
from scdp.chains.arithmetic import cluster_sums
from scdp.chains.state import State
from scdp.chains.vectors.items import Items


@kernel
def draw_means(rng: np.random.Generator, items: Items, state: State) -> tuple[Floats, Integers]:
    """A mean for every used cluster slot (rows of empty slots stay 0), and the used slots."""
    sums = cluster_sums(items, state)
    used = np.flatnonzero(sums.size)
    means = np.zeros_like(sums.weight)
    for slot in used:
        for f in range(means.shape[1]):
            a = 1.0 / state.mean_variance + sums.weight[slot, f]
            means[slot, f] = sums.pull[slot, f] / a + rng.standard_normal() / np.sqrt(a)
    return means, used


@kernel
def draw_mean_variance(
    rng: np.random.Generator, means: Floats, used: Integers, shape: float, rate: float
) -> float:
    """The variance of the mean prior; its inverse has a Gamma(shape, rate) prior."""
    square = 0.0
    for slot in used:
        for f in range(means.shape[1]):
            square += means[slot, f] * means[slot, f]
    after_shape = shape + 0.5 * used.shape[0] * means.shape[1]
    return (rate + 0.5 * square) / rng.standard_gamma(after_shape)


@kernel
def separation_prior(means: Floats, used: Integers) -> tuple[Floats, Floats]:
    """SCDP-2: Gamma shape and rate per feature from squared gaps v between all pairs of used means.

    Prior mean = mean(v) / 2 and prior variance = var(v). Both come from power sums of the centred means, so the
    cost is linear in the number of clusters. Gamma(1, 1) stands in where means are too few or have no spread.
    """
    n_features = means.shape[1]
    shape = np.ones(n_features)
    rate = np.ones(n_features)
    k = used.shape[0]
    if k < 3:
        return shape, rate
    pairs = 0.5 * k * (k - 1)
    for f in range(n_features):
        centre = 0.0
        for slot in used:
            centre += means[slot, f] / k
        second = third = fourth = 0.0
        for slot in used:
            x = means[slot, f] - centre
            second += x * x
            third += x * x * x
            fourth += x * x * x * x
        gap = k * second / pairs
        spread = (k * fourth + 3.0 * second * second) / pairs - gap * gap
        if gap > 0.0 and spread > 1e-12 * gap * gap:
            shape[f] = 0.25 * gap * gap / spread
            rate[f] = 0.5 * gap / spread
    return shape, rate
