"""Enumeration, the group process and the forward simulator agree with counting and with each other."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.paper_page.curves import expected_clusters
from scipy import stats

from gold_tools import FALSE_ALARM, chi_square, distinct, kolmogorov, partition_codes
from scdp.chains import GammaPrior, PrecisionGrid, Priors
from twins import crp, exact, likelihood, simulate

BELL = [1, 1, 2, 5, 15, 52, 203, 877, 4140]


@pytest.mark.parametrize("n", range(1, 9))
def test_bell_numbers(n: int):
    rows = exact.partitions(n)
    assert rows.shape == (BELL[n], n)
    if n >= 2:
        assert len(np.unique(partition_codes(rows))) == BELL[n]


@pytest.mark.parametrize("concentration", [0.05, 1.0, 7.3])
@pytest.mark.parametrize("n", range(1, 8))
def test_restaurant_sums_to_one(n: int, concentration: float):
    logs = [crp.log_probability(np.bincount(row), concentration) for row in exact.partitions(n)]
    assert np.exp(logs).sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("n", [1, 4, 7])
def test_expected_clusters_by_enumeration(n: int):
    rows = exact.partitions(n)
    weights = np.exp([crp.log_probability(np.bincount(row), 1.6) for row in rows])
    k = distinct(rows)
    mean, deviation = expected_clusters(n, 1.6)
    assert mean == pytest.approx(weights @ k, abs=1e-12)
    assert deviation**2 == pytest.approx(weights @ k**2 - (weights @ k) ** 2, abs=1e-12)


def test_expected_clusters_of_many_sizes():
    mean, deviation = expected_clusters(np.array([0, 1, 3]), 2.0)
    np.testing.assert_allclose(mean, [0, 1, 1 + 2 / 3 + 2 / 4])
    np.testing.assert_allclose(deviation**2, [0, 0, 2 / 9 + 1 / 4])


def test_drawn_partitions_follow_the_restaurant():
    rng = np.random.default_rng(3)
    rows = exact.partitions(5)
    probability = np.exp([crp.log_probability(np.bincount(row), 1.4) for row in rows])
    drawn = np.array([crp.draw_partition(rng, 5, 1.4) for _ in range(20_000)])
    assert chi_square(partition_codes(drawn), partition_codes(rows), probability) > FALSE_ALARM


def test_known_labels_and_groups_constrain():
    hidden, one = np.full(5, -1), np.zeros(5, np.int64)
    assert len(exact.allowed_partitions(hidden, one)) == 52
    assert len(exact.allowed_partitions(np.array([0, 0, 1, -1, -1]), one)) == 10
    assert len(exact.allowed_partitions(np.array([0, 1, 2, 0, 1]), one)) == 1
    assert len(exact.allowed_partitions(hidden, np.array([0, 0, 0, 1, 1]))) == 5 * 2
    # the same label in two groups names two clusters
    places = np.array([0, 0, 1, 1, 1])
    rows = exact.allowed_partitions(np.array([0, -1, 0, -1, -1]), places)
    assert len(rows) == 2 * 5
    assert (rows[:, 0] != rows[:, 2]).all()


def test_cluster_posterior_is_bayes():
    rng = np.random.default_rng(5)
    points, precision = rng.normal(size=(3, 2)), rng.gamma(2.0, 1.0, (3, 2))
    rows, probability = exact.cluster_posterior(points, precision, np.full(3, -1), np.zeros(3, np.int64), 0.7, 1.2)
    weight = {}
    for blocks in ([[0, 1, 2]], [[0, 1], [2]], [[0, 2], [1]], [[1, 2], [0]], [[0], [1], [2]]):
        labels = np.empty(3, np.int64)
        total = crp.log_probability([len(b) for b in blocks], 0.7)
        for k, block in enumerate(blocks):
            labels[block] = k
            total += likelihood.cluster_log_marginal(points[block], precision[block], 1.2)
        weight[int(partition_codes(labels[None])[0])] = np.exp(total)
    expected = [weight[int(code)] / sum(weight.values()) for code in partition_codes(rows)]
    np.testing.assert_allclose(probability, expected, rtol=1e-12)


def test_joint_posterior_reduces_to_its_parts():
    rng = np.random.default_rng(6)
    points, known, places = rng.normal(size=(3, 1)), np.full(3, -1), np.zeros(3, np.int64)
    single = PrecisionGrid(np.array([[2.0]]), np.array([1.0]))
    states, probability = exact.joint_posterior(points, known, places, 0.7, 1.3, single, 1.2)
    assert len(states) == 5 * 5
    assert probability.sum() == pytest.approx(1.0)
    rows, expected = exact.cluster_posterior(points, np.full((3, 1), 2.0), known, places, 0.7, 1.2)
    codes = partition_codes(np.array([state[0] for state in states]))
    found = [probability[codes == code].sum() for code in partition_codes(rows)]
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_grid_of_equal_rows_leaves_types_to_their_prior():
    rng = np.random.default_rng(7)
    double = PrecisionGrid(np.array([[2.0], [2.0]]), np.array([0.25, 0.75]))
    states, probability = exact.joint_posterior(
        rng.normal(size=(3, 1)), np.full(3, -1), np.zeros(3, np.int64), 0.7, 1.3, double, 1.2
    )
    assert len(states) == 5 * (2 + 3 * 4 + 8)
    codes = partition_codes(np.array([state[1] for state in states]))
    for row in exact.partitions(3):
        expected = np.exp(crp.log_probability(np.bincount(row), 1.3))
        assert probability[codes == partition_codes(row[None])[0]].sum() == pytest.approx(expected)


def test_type_posterior_without_data_is_the_prior():
    rows, probability = exact.type_posterior(np.full((4, 2), np.nan), 1.3, np.ones(2), np.ones(2))
    expected = np.exp([crp.log_probability(np.bincount(row), 1.3) for row in rows])
    np.testing.assert_allclose(probability, expected, rtol=1e-12)


PRIORS = Priors(
    mean_variance=2.0,
    precision=GammaPrior(5.0, 2.0),
    cluster_concentration=GammaPrior(2.0, 1.5),
    type_concentration=GammaPrior(3.0, 4.0),
)
PLACES = np.array([0, 0, 0, 1, 1])


@pytest.fixture(scope="module")
def draws() -> list[simulate.Simulated]:
    rng = np.random.default_rng(8)
    return [simulate.simulate(rng, PLACES, 2, PRIORS, missing=0.25) for _ in range(6000)]


class TestForwardSimulator:
    """6,000 draws; every p-value at a false alarm of 1e-3."""

    def test_concentrations_follow_their_priors(self, draws):
        alphas = np.array([(d.cluster_concentration, d.type_concentration) for d in draws])
        assert kolmogorov(alphas[:, 0], stats.gamma(2.0, scale=1 / 1.5).cdf) > FALSE_ALARM
        assert kolmogorov(alphas[:, 1], stats.gamma(3.0, scale=1 / 4.0).cdf) > FALSE_ALARM

    def test_groups_never_share_a_cluster(self, draws):
        assert not any(set(d.clusters[:3]) & set(d.clusters[3:]) for d in draws)

    def test_precisions_and_means(self, draws):
        precision = np.array([d.precision[d.types[0], 1] for d in draws])
        assert kolmogorov(precision, stats.gamma(5.0, scale=1 / 2.0).cdf) > FALSE_ALARM
        mean = np.array([d.means[d.clusters[4], 0] for d in draws])
        assert kolmogorov(mean, stats.norm(scale=np.sqrt(2.0)).cdf) > FALSE_ALARM

    def test_points_scatter_around_their_means(self, draws):
        gap = np.array([(d.points - d.means[d.clusters]) * np.sqrt(d.precision[d.types]) for d in draws])
        seen = gap[:, 2, 1]
        assert kolmogorov(seen[~np.isnan(seen)], stats.norm.cdf) > FALSE_ALARM

    def test_share_of_missing_values(self, draws):
        count = int(np.isnan([d.points for d in draws]).sum())
        assert stats.binomtest(count, 6000 * 10, 0.25).pvalue > FALSE_ALARM

    def test_variance_of_a_point(self, draws):
        # Var = mean variance + E[1 / precision] = 2 + 2 / (5 - 1); its fourth moment is finite with shape 5
        points = np.array([d.points[0, 0] for d in draws])
        points = points[~np.isnan(points)]
        error = (points**2).std() / np.sqrt(len(points))
        assert abs((points**2).mean() - 2.5) < 3.3 * error

    def test_given_concentrations_are_kept(self):
        drawn = simulate.simulate(
            np.random.default_rng(9), PLACES, 2, PRIORS,
            cluster_concentration=0.4, type_concentration=2.5,
        )  # fmt: skip
        assert (drawn.cluster_concentration, drawn.type_concentration) == (0.4, 2.5)
        assert not np.isnan(drawn.points).any()

    def test_grid_precisions_follow_their_weights(self):
        grid = PrecisionGrid(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), np.array([0.2, 0.5, 0.3]))
        rows = simulate.draw_precisions(np.random.default_rng(10), Priors(precision=grid), 5000, 2)
        assert chi_square(rows[:, 0].astype(int), np.array([1, 3, 5]), grid.weights) > FALSE_ALARM
        assert (rows[:, 1] == rows[:, 0] + 1).all()
