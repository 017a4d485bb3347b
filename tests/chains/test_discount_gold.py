"""Pitman and Yor's discount: every kernel that moves clusters, against exact enumeration.

p-values are asserted above 1e-3, so that a right kernel fails one of the dozen with probability .01 over the choice of
the fixed seeds; 10,000 starts and 52 cells find an effect of .1 with probability .999.
"""

from __future__ import annotations

import numpy as np
import pytest

import conditioned_gold
import gold_checks
from distance_cases import build_both
from gold_tools import FALSE_ALARM, chi_square, partition_codes
from sampler_cases import CASES, Case
from scdp import SCDP
from scdp.chains import split_merge
from scdp.chains import vector_clusters as clusters
from scdp.chains.distances import centroids
from scdp.chains.distances import clusters as distance_clusters
from scdp.errors import InputError
from twins import crp, exact, likelihood

PRIORS = np.array([1.0, 1.0, 2.0, 0.5])


def test_the_prior_is_a_distribution():
    chances = [crp.log_probability(np.bincount(row), 0.7, 0.45) for row in exact.partitions(6)]
    assert np.exp(chances).sum() == pytest.approx(1.0)


def test_the_log_prior_of_kernels():
    for row in exact.partitions(5):
        counts = np.bincount(row, minlength=5)
        found = clusters.log_partition_prior(counts, np.array([0]), np.array([5]), 0.7, 0.45)
        assert found == pytest.approx(crp.log_probability(counts, 0.7, 0.45))


@pytest.mark.parametrize("layout", ["partly known", "two documents"])
@pytest.mark.parametrize("kernel", ["clusters", "split-merge, 3 attempts", "clusters given means"])
def test_clusters(layout: str, kernel: str):
    found = gold_checks.check_discount(layout, kernel)
    assert min(found.values()) > FALSE_ALARM, found


@pytest.mark.parametrize("variant", ["mean", "published"])
def test_clusters_of_scdp3(variant: str):
    p = conditioned_gold.check("clusters", variant, "partly known", n_starts=10_000, discount=0.45)
    assert p > FALSE_ALARM


def test_concentration():
    found = gold_checks.check_discounted_concentration()
    assert min(found.values()) > FALSE_ALARM, found


@pytest.mark.parametrize("case", CASES[1:4], ids=lambda case: case.name)
def test_distances_draw_as_coordinates_do(case: Case):
    for seed in range(6):
        laid_out, by_distance, state = build_both(case, seed)
        state = state._replace(discount=0.45)
        joint = clusters.log_joint(laid_out.items, state, PRIORS)
        found = centroids.log_joint_of_distances(by_distance.items, state, PRIORS)
        assert found == pytest.approx(joint, rel=0, abs=1e-8)
        rngs = [np.random.default_rng(seed) for _ in range(2)]
        for _ in range(4):
            new = distance_clusters.resample_clusters_by_distance(rngs[0], by_distance.items, state, None)[0]
            np.testing.assert_array_equal(new, clusters.resample_clusters(rngs[1], laid_out.items, state)[0])
            state = state._replace(cluster=new)
            new = split_merge.split_merge_by_distance(rngs[0], by_distance.items, state, 5, None)[0]
            np.testing.assert_array_equal(new, split_merge.split_merge(rngs[1], laid_out.items, state, 5)[0])
            state = state._replace(cluster=new)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_estimator_samples_the_exact_posterior():
    """Every eighth of 24,000 sweeps: 3,000 draws, close to independent, of 15 partitions."""
    points = np.array([[0.1], [0.4], [1.2], [-0.9]])
    model = SCDP("cdp", n_chains=1, n_sweeps=24_000, discount=0.45, standardize=False, random_state=0)
    draws = model.fit(points).posterior_.draws[0][::8]
    groups = np.zeros(4, int)
    rows = exact.partitions(4)
    weights = [
        likelihood.partition_log_prior(row, groups, 1.0, 0.45)
        + exact.partition_log_likelihood(points, row, np.ones((4, 1)), 1.0)
        for row in rows
    ]
    p = chi_square(partition_codes(draws), partition_codes(rows), exact.normalize(np.array(weights)))
    assert p > FALSE_ALARM


@pytest.mark.parametrize("discount", [-0.1, 1.0, float("nan")])
def test_what_is_no_discount_is_refused(discount: float):
    with pytest.raises(InputError, match="discount must be from 0 to below 1"):
        SCDP("cdp", discount=discount).fit(np.zeros((3, 1)))
