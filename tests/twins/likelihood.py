"""Closed-form densities of the diagonal-Gaussian model, written to be read: what kernels are tested against.

Points are (items, features) with NaN for a missing value, which contributes no factor and no weight.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from scdp._typing import Floats, Integers
from scdp.chains import GammaPrior, PrecisionGrid, Priors
from twins import crp

LOG_2PI = float(np.log(2 * np.pi))


def cluster_log_marginal(points: Floats, precision: Floats, mean_variance: float) -> float:
    """Log density of one cluster's points, each with its own precision row, the mean integrated out."""
    seen = ~np.isnan(points)
    weight = np.where(seen, precision, 0.0)
    values = np.where(seen, points, 0.0)
    total = 1 / mean_variance + weight.sum(axis=0)
    pull = (weight * values).sum(axis=0)
    square = (weight * values**2).sum(axis=0) - pull**2 / total
    log_weights = np.log(precision, where=seen, out=np.zeros_like(precision)).sum()
    return float(0.5 * (log_weights - seen.sum() * LOG_2PI - np.log(mean_variance * total).sum() - square.sum()))


def predictive_log_density(
    point: Floats, precision: Floats, members: Floats, member_precision: Floats, mean_variance: float
) -> float:
    """Log density of a point given the members of the cluster it joins (none for a new cluster)."""
    weight = np.where(np.isnan(members), 0.0, member_precision)
    total = 1 / mean_variance + weight.sum(axis=0)
    mean = (weight * np.nan_to_num(members)).sum(axis=0) / total
    variance = 1 / precision + 1 / total
    terms = -0.5 * (LOG_2PI + np.log(variance) + (point - mean) ** 2 / variance)
    return float(terms[~np.isnan(point)].sum())


def type_log_marginal(residuals: Floats, shape: Floats, rate: Floats) -> float:
    """Log density of residuals that share one reference type, its Gamma precisions integrated out."""
    count = (~np.isnan(residuals)).sum(axis=0)
    after_shape = shape + count / 2
    after_rate = rate + 0.5 * np.nansum(residuals**2, axis=0)
    terms = gammaln(after_shape) - gammaln(shape) + shape * np.log(rate) - after_shape * np.log(after_rate)
    return float((terms - 0.5 * count * LOG_2PI).sum())


def gamma_log_density(value: Floats, shape: Floats | float, rate: Floats | float) -> Floats:
    """Log density of Gamma(shape, rate) at each value."""
    return shape * np.log(rate) - gammaln(shape) + (shape - 1) * np.log(value) - rate * value


def precision_log_prior(precision: Floats, shape: Floats, rate: Floats, grid: PrecisionGrid | None = None) -> float:
    """Log prior of the active precision rows, under the Gamma prior or a grid."""
    if grid is None:
        return float(gamma_log_density(precision, shape, rate).sum())
    matches = (precision[:, None, :] == grid.values[None, :, :]).all(axis=2)
    with np.errstate(divide="ignore"):
        return float(np.log(matches @ grid.weights).sum())


def partition_log_prior(labels: Integers, groups: Integers, concentration: float, discount: float = 0.0) -> float:
    """Log probability of the clusters: one group process per group, all with one concentration."""
    total = 0.0
    for place in np.unique(groups):
        _, sizes = np.unique(labels[groups == place], return_counts=True)
        total += crp.log_probability(sizes, concentration, discount)
    return total


def log_joint(
    points: Floats,
    clusters: Integers,
    types: Integers,
    precision: Floats,
    groups: Integers,
    cluster_concentration: float,
    type_concentration: float,
    shape: Floats,
    rate: Floats,
    priors: Priors,
    mean_variance: float,
) -> float:
    """Log joint density of data and state, means integrated out; `precision` has a row per type label."""
    data = sum(
        cluster_log_marginal(points[clusters == k], precision[types[clusters == k]], mean_variance)
        for k in np.unique(clusters)
    )
    active, type_sizes = np.unique(types, return_counts=True)
    grid = priors.precision if isinstance(priors.precision, PrecisionGrid) else None
    return (
        data
        + partition_log_prior(clusters, groups, cluster_concentration)
        + crp.log_probability(type_sizes, type_concentration)
        + precision_log_prior(precision[active], shape, rate, grid)
        + _concentration_log_prior(cluster_concentration, priors.cluster_concentration)
        + _concentration_log_prior(type_concentration, priors.type_concentration)
    )


def _concentration_log_prior(value: float, prior: GammaPrior) -> float:
    return float(gamma_log_density(np.array(value), prior.shape, prior.rate))
