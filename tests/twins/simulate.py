"""Forward simulation: draw concentrations, clusters, types, means, precisions and points from the model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scdp._typing import Floats, Integers
from scdp.chains import PrecisionGrid, Priors
from twins import crp


@dataclass(frozen=True)
class Simulated:
    """One draw of everything; `means` and `precision` have a row per cluster and per type."""

    points: Floats
    clusters: Integers
    types: Integers
    means: Floats
    precision: Floats
    cluster_concentration: float
    type_concentration: float


def draw_precisions(rng: np.random.Generator, priors: Priors, n: int, n_features: int) -> Floats:
    """n precision rows from the prior."""
    prior = priors.precision
    if isinstance(prior, PrecisionGrid):
        return prior.values[rng.choice(len(prior.weights), size=n, p=prior.weights)]
    return rng.standard_gamma(prior.shape, (n, n_features)) / prior.rate


def draw_clusters(rng: np.random.Generator, groups: Integers, concentration: float) -> Integers:
    """One partition per group, with labels that are distinct across groups."""
    clusters = np.empty(len(groups), dtype=np.int64)
    used = 0
    for place in np.unique(groups):
        inside = groups == place
        clusters[inside] = used + crp.draw_partition(rng, int(inside.sum()), concentration)
        used = int(clusters[inside].max()) + 1
    return clusters


def simulate(
    rng: np.random.Generator,
    groups: Integers,
    n_features: int,
    priors: Priors,
    *,
    cluster_concentration: float | None = None,
    type_concentration: float | None = None,
    missing: float = 0.0,
) -> Simulated:
    """Draw a data set; concentrations come from their priors unless given; values go missing at random."""
    alpha_cluster = cluster_concentration or priors.cluster_concentration.draw(rng)
    alpha_type = type_concentration or priors.type_concentration.draw(rng)
    n = len(groups)
    clusters = draw_clusters(rng, groups, alpha_cluster)
    types = crp.draw_partition(rng, n, alpha_type)
    means = rng.standard_normal((int(clusters.max()) + 1, n_features)) * np.sqrt(priors.mean_variance)
    precision = draw_precisions(rng, priors, int(types.max()) + 1, n_features)
    noise = rng.standard_normal((n, n_features)) / np.sqrt(precision[types])
    points = means[clusters] + noise
    points[rng.random(points.shape) < missing] = np.nan
    return Simulated(points, clusters, types, means, precision, alpha_cluster, alpha_type)
