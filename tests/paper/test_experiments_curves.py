import numpy as np
import pytest
from benchmarks.paper_page import curves
from benchmarks.paper_page.curves import expected_clusters
from scipy import integrate
from scipy.special import comb, gammaln

from twins import crp


def partitions(n):
    """Every partition of n items as labels in order of first appearance."""
    found = [[0]]
    for _ in range(n - 1):
        found = [[*labels, label] for labels in found for label in range(max(labels) + 2)]
    return [np.bincount(labels) for labels in found]


@pytest.mark.parametrize(("n", "k"), [(10, 1), (10, 4), (1285, 10), (1000, 300)])
def test_the_concentration_has_its_posterior_mean(n, k):
    mean = curves.posterior_concentration(n, k)

    def density(alpha, power):
        at = k * np.log(alpha) + gammaln(alpha) - gammaln(alpha + n) - alpha
        top = k * np.log(mean) + gammaln(mean) - gammaln(mean + n) - mean
        return alpha**power * np.exp(at - top)

    above, below = (
        integrate.quad(density, 1e-12, 20 * mean + 20, (power,), limit=500, points=[mean])[0] for power in (1, 0)
    )
    assert mean == pytest.approx(above / below, rel=1e-4)


@pytest.mark.parametrize(("strength", "discount"), [(1.3, 0.0), (0.5, 0.4), (-0.2, 0.6)])
def test_pitman_yor_is_a_distribution_with_the_moments_we_plot(strength, discount):
    sizes = partitions(6)
    probability = np.exp([curves.log_pitman_yor(each, strength, discount) for each in sizes])
    counts = np.array([len(each) for each in sizes])
    assert probability.sum() == pytest.approx(1.0)
    curve = curves.expected_pitman_yor(np.array([1, 6]), strength, discount)
    mean = probability @ counts
    assert curve.mean == pytest.approx([1.0, mean])
    assert curve.deviation[1] == pytest.approx(np.sqrt(probability @ (counts - mean) ** 2))


def test_without_discount_it_is_the_dirichlet_process():
    sizes = np.array([5, 3, 1, 1])
    assert curves.log_pitman_yor(sizes, 2.5, 0.0) == pytest.approx(crp.log_probability(sizes, 2.5))
    n = np.array([1, 10, 100])
    curve = curves.expected_pitman_yor(n, 2.5, 0.0)
    mean, deviation = expected_clusters(n, 2.5)
    assert curve.mean == pytest.approx(mean)
    assert curve.deviation == pytest.approx(deviation, abs=1e-6)


def test_resampling_has_the_mean_of_drawing_without_replacement():
    sizes, n = np.array([40, 7, 2, 1]), np.array([1, 5, 20, 50])
    curve = curves.resample_curve(sizes, n, np.random.default_rng(0), n_orders=4000)
    exact = [sum(1 - comb(50 - size, each) / comb(50, each) for size in sizes) for each in n]
    # Five standard errors: one false alarm in a million runs, whatever the seed.
    assert np.all(np.abs(curve.mean - exact) <= 5 * curve.deviation / np.sqrt(4000) + 1e-9)
    assert curve.deviation[-1] == 0.0


def test_likeliest_parameters_have_no_better_neighbours():
    sizes = np.array([50, 20, 10, 5, 3, 2, 2, *[1] * 20])
    strength, discount = curves.fit_pitman_yor(sizes)
    best = curves.log_pitman_yor(sizes, strength, discount)
    assert 0.2 < discount < 0.9
    for step in ((0.05, 0), (-0.05, 0), (0, 0.01), (0, -0.01)):
        assert curves.log_pitman_yor(sizes, strength + step[0], discount + step[1]) < best


@pytest.mark.parametrize(
    ("sizes", "winner"), [([60, *[1] * 40], "Pitman-Yor"), ([30, 25, 20, 15], "Dirichlet process")]
)
def test_the_better_prior_must_earn_its_second_parameter(sizes, winner):
    fits = curves.fit_priors("made up", np.array(sizes), np.random.default_rng(0))
    paper, dirichlet, pitman_yor = fits.log_probabilities
    assert paper <= dirichlet + 1e-6
    assert dirichlet <= pitman_yor + 1e-6
    assert fits.winner == winner
    assert fits.as_dict()["clusters"] == len(sizes)


def test_the_share_within_two_deviations_is_counted_over_numbers_of_items():
    flat = np.zeros(4)
    prior = curves.Curve(np.array([1.0, 2.0, 3.0, 4.0]), flat + 0.5)
    data = curves.Curve(np.array([1.0, 2.9, 4.1, 5.0]), flat)
    fits = curves.Fits("made up", np.array([4]), np.arange(4), data, prior, data, 1.0, 1.0, 1.0, 0.0)
    assert fits.shares_within == (0.75, 1.0)
