"""Closed forms of the model: chain rule, exchangeability, quadrature and forward simulation agree."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import integrate, stats

from scdp.chains import GammaPrior, PrecisionGrid, Priors
from twins import likelihood

VARIANCE = 1.7


def cluster_of(n: int, missing: bool) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(17)
    points, precision = rng.normal(size=(n, 3)) * 2, rng.gamma(1.5, 1.0, (n, 3))
    if missing:
        points[[0, 2, 3], [1, 0, 2]] = np.nan
        points[1] = np.nan
    return points, precision


@pytest.mark.parametrize("missing", [False, True])
def test_chain_rule_in_every_order(missing: bool):
    points, precision = cluster_of(5, missing)
    whole = likelihood.cluster_log_marginal(points, precision, VARIANCE)
    for order in itertools.permutations(range(5)):
        steps = [
            likelihood.predictive_log_density(
                points[i], precision[i], points[list(order[:s])], precision[list(order[:s])], VARIANCE
            )
            for s, i in enumerate(order)
        ]
        assert abs(sum(steps) - whole) < 1e-10


@pytest.mark.parametrize("missing", [False, True])
def test_marginal_is_exchangeable(missing: bool):
    points, precision = cluster_of(5, missing)
    whole = likelihood.cluster_log_marginal(points, precision, VARIANCE)
    for order in itertools.permutations(range(5)):
        again = likelihood.cluster_log_marginal(points[list(order)], precision[list(order)], VARIANCE)
        assert abs(again - whole) < 1e-10


def test_marginal_is_a_multivariate_normal():
    points, precision = cluster_of(4, missing=False)
    expected = sum(
        stats.multivariate_normal(cov=np.diag(1 / precision[:, f]) + VARIANCE).logpdf(points[:, f]) for f in range(3)
    )
    assert likelihood.cluster_log_marginal(points, precision, VARIANCE) == pytest.approx(expected, abs=1e-10)


def test_missing_value_is_integrated_out():
    points, precision = cluster_of(4, missing=False)
    points, precision = points[:, :1], precision[:, :1]

    def density(value: float) -> float:
        filled = points.copy()
        filled[2] = value
        return np.exp(likelihood.cluster_log_marginal(filled, precision, VARIANCE))

    integral, _ = integrate.quad(density, -60, 60, epsabs=1e-13, limit=200)
    points[2] = np.nan
    assert likelihood.cluster_log_marginal(points, precision, VARIANCE) == pytest.approx(np.log(integral), abs=1e-8)


def test_nobody_and_nothing_observed():
    nothing = np.full((2, 3), np.nan)
    assert likelihood.cluster_log_marginal(nothing, np.ones((2, 3)), VARIANCE) == pytest.approx(0.0, abs=1e-14)
    assert likelihood.cluster_log_marginal(np.empty((0, 3)), np.empty((0, 3)), VARIANCE) == 0.0


def test_type_marginal_by_quadrature():
    residuals = np.array([[0.4, -1.2], [np.nan, 0.3], [2.1, 0.9]])
    shape, rate = np.array([1.0, 2.3]), np.array([1.0, 0.4])
    total = 0.0
    for f in range(2):
        seen = residuals[~np.isnan(residuals[:, f]), f]

        def integrand(t: float, seen: np.ndarray = seen, f: int = f) -> float:
            return stats.gamma.pdf(t, shape[f], scale=1 / rate[f]) * stats.norm.pdf(seen, 0, t**-0.5).prod()

        total += np.log(integrate.quad(integrand, 0, 60, epsabs=1e-14, limit=300)[0])
    assert likelihood.type_log_marginal(residuals, shape, rate) == pytest.approx(total, abs=1e-8)


def test_type_marginal_of_one_residual_is_student():
    shape, rate, residual = 1.7, 0.6, 1.3
    expected = stats.t.logpdf(residual, 2 * shape, scale=np.sqrt(rate / shape))
    found = likelihood.type_log_marginal(np.array([[residual]]), np.array([shape]), np.array([rate]))
    assert found == pytest.approx(expected, abs=1e-12)


def test_gamma_density_is_by_rate():
    values = np.array([0.2, 1.0, 3.5])
    expected = stats.gamma.logpdf(values, 2.5, scale=1 / 0.4)
    np.testing.assert_allclose(likelihood.gamma_log_density(values, 2.5, 0.4), expected, atol=1e-12)


def test_log_joint_is_the_sum_of_its_parts():
    rng = np.random.default_rng(4)
    points, clusters, types = rng.normal(size=(4, 2)), np.array([0, 0, 1, 2]), np.array([0, 1, 1, 0])
    precision, groups = rng.gamma(2.0, 1.0, (2, 2)), np.array([0, 0, 0, 1])
    priors = Priors(cluster_concentration=GammaPrior(2.0, 3.0), type_concentration=GammaPrior(1.5, 0.5))
    shape, rate = np.array([1.2, 0.8]), np.array([0.7, 1.5])
    found = likelihood.log_joint(points, clusters, types, precision, groups, 0.8, 1.4, shape, rate, priors, VARIANCE)
    normal = sum(
        stats.multivariate_normal(
            cov=np.diag(1 / precision[types[clusters == k], f]) + VARIANCE, allow_singular=False
        ).logpdf(points[clusters == k, f])
        for k in range(3)
        for f in range(2)
    )
    # group 0 seats 2 + 1, group 1 seats 1; types 2 + 2
    seats = np.log(1 / 1.8 * 0.8 / 2.8) + np.log(1 / 2.4 * 1.4 / 3.4 * 1 / 4.4)
    rows = stats.gamma.logpdf(precision, shape, scale=1 / rate).sum()
    alphas = stats.gamma.logpdf(0.8, 2.0, scale=1 / 3.0) + stats.gamma.logpdf(1.4, 1.5, scale=2.0)
    assert found == pytest.approx(normal + seats + rows + alphas, abs=1e-10)


def test_grid_prior_of_precisions():
    grid = PrecisionGrid(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0.3, 0.7]))
    ones = np.ones(2)
    inside = likelihood.precision_log_prior(grid.values[[1, 0, 1]], ones, ones, grid)
    assert inside == pytest.approx(np.log(0.7 * 0.3 * 0.7), abs=1e-12)
    assert likelihood.precision_log_prior(np.array([[1.0, 4.0]]), ones, ones, grid) == -np.inf


@pytest.mark.parametrize(("shape", "rate"), [(0.0, 1.0), (1.0, -1.0), (float("nan"), 1.0)])
def test_gamma_prior_refuses(shape: float, rate: float):
    with pytest.raises(ValueError, match="above 0"):
        GammaPrior(shape, rate)
