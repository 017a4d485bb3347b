"""Exact posteriors by enumeration for a handful of items: every sampler test stands on these."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from scipy.special import logsumexp

from scdp._typing import Floats, Integers
from scdp.chains import PrecisionGrid
from twins import crp, likelihood


def partitions(n: int) -> Integers:
    """All partitions of n items, one row each, labels in order of first appearance (Bell(n) rows)."""
    rows = list(_growth_strings(n))
    return np.array(rows, dtype=np.int64).reshape(len(rows), n)


def _growth_strings(n: int) -> Iterator[tuple[int, ...]]:
    if n == 0:
        yield ()
        return
    for head in _growth_strings(n - 1):
        for label in range(max(head, default=-1) + 2):
            yield (*head, label)


def consistent(partition: Integers, known: Integers, groups: Integers) -> bool:
    """Whether a partition respects the known labels (-1 = hidden) and never joins two groups."""
    for i in range(len(partition)):
        for j in range(i):
            together = partition[i] == partition[j]
            if together and groups[i] != groups[j]:
                return False
            both_known = known[i] >= 0 and known[j] >= 0 and groups[i] == groups[j]
            if both_known and together != (known[i] == known[j]):
                return False
    return True


def allowed_partitions(known: Integers, groups: Integers) -> Integers:
    """The partitions a posterior may hold, given known labels and groups."""
    every = partitions(len(known))
    return every[[consistent(row, known, groups) for row in every]]


def normalize(log_weights: Floats) -> Floats:
    return np.exp(log_weights - logsumexp(log_weights))


def cluster_posterior(
    points: Floats,
    precision_of_item: Floats,
    known: Integers,
    groups: Integers,
    concentration: float,
    mean_variance: float,
    discount: float = 0.0,
) -> tuple[Integers, Floats]:
    """Every allowed partition and its posterior probability, given each item's precision row."""
    rows = allowed_partitions(known, groups)
    weights = [
        likelihood.partition_log_prior(row, groups, concentration, discount)
        + partition_log_likelihood(points, row, precision_of_item, mean_variance)
        for row in rows
    ]
    return rows, normalize(np.array(weights))


def partition_log_likelihood(
    points: Floats, partition: Integers, precision_of_item: Floats, mean_variance: float
) -> float:
    """Log density of all points given their partition and precisions."""
    return sum(
        likelihood.cluster_log_marginal(points[partition == k], precision_of_item[partition == k], mean_variance)
        for k in np.unique(partition)
    )


def type_posterior(residuals: Floats, concentration: float, shape: Floats, rate: Floats) -> tuple[Integers, Floats]:
    """Every partition of residuals into reference types and its probability, precisions integrated out."""
    rows = partitions(len(residuals))
    weights = []
    for row in rows:
        labels, sizes = np.unique(row, return_counts=True)
        weights.append(
            crp.log_probability(sizes, concentration)
            + sum(likelihood.type_log_marginal(residuals[row == k], shape, rate) for k in labels)
        )
    return rows, normalize(np.array(weights))


def joint_posterior(
    points: Floats,
    known: Integers,
    groups: Integers,
    cluster_concentration: float,
    type_concentration: float,
    grid: PrecisionGrid,
    mean_variance: float,
) -> tuple[list[tuple[Integers, Integers, Integers]], Floats]:
    """All states (clusters, types, grid row of each type) and their posterior probabilities."""
    clusters = allowed_partitions(known, groups)
    states: list[tuple[Integers, Integers, Integers]] = []
    weights: list[float] = []
    log_grid = np.log(grid.weights)
    for types, choice in _typed_choices(len(points), len(grid.weights)):
        precision = grid.values[choice[types]]
        prior = crp.log_probability(np.bincount(types), type_concentration) + log_grid[choice].sum()
        for row in clusters:
            states.append((row, types, choice))
            weights.append(
                prior
                + likelihood.partition_log_prior(row, groups, cluster_concentration)
                + partition_log_likelihood(points, row, precision, mean_variance)
            )
    return states, normalize(np.array(weights))


def _typed_choices(n: int, grid_size: int) -> Iterator[tuple[Integers, Integers]]:
    for types in partitions(n):
        for choice in product(range(grid_size), repeat=int(types.max()) + 1):
            yield types, np.array(choice, dtype=np.int64)
