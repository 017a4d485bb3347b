"""Gold test 1: one application of every kernel to exact draws of the posterior gives exact draws again.

Each p-value is asserted above 1e-3, so a correct kernel fails one of them with probability 1e-3 over the
choice of the fixed seed (about 1 in 10 for the whole file). 40,000 starts and 52 cells find an effect
sqrt(sum (q - p)^2 / p) of 0.05 with probability 0.999; a concentration wrong by 10 % makes 0.07 to 0.08. On the joint
posterior there are 20,000 starts, which find 0.07.
"""

from __future__ import annotations

import numpy as np
import pytest

import gold_checks
from gold_tools import FALSE_ALARM, JOINT_STARTS, LAYOUTS, detectable

ONE_RESTAURANT = np.array([30])


def assert_accepted(found: dict[str, float]) -> None:
    assert min(found.values()) > FALSE_ALARM, found


@pytest.mark.parametrize("layout", LAYOUTS)
class TestClusters:
    @pytest.mark.parametrize("kernel", list(gold_checks.CLUSTER_KERNELS))
    def test_invariant(self, layout: str, kernel: str):
        assert_accepted(gold_checks.check_clusters(layout, kernel))


@pytest.mark.parametrize("layout", ["missing values", "two known", "two documents"])
class TestJoint:
    @pytest.mark.parametrize("kernel", list(gold_checks.JOINT_KERNELS))
    def test_invariant(self, layout: str, kernel: str):
        assert_accepted(gold_checks.check_joint(layout, kernel))


@pytest.mark.parametrize(("kernel", "shapes"), [("types", "equal"), ("types", "unequal"), ("precisions", "unequal")])
def test_types_under_the_gamma_prior(kernel: str, shapes: str):
    assert_accepted(gold_checks.check_gamma_types("missing values", kernel, shapes))


def test_precision_with_means_integrated_out():
    assert_accepted(gold_checks.check_collapsed_precision())


def test_mean_variance():
    assert_accepted(gold_checks.check_mean_variance())


@pytest.mark.parametrize(
    ("sizes", "k"), [(ONE_RESTAURANT, 6), (gold_checks.DOCUMENT_SIZES, 40)], ids=["one", "documents"]
)
class TestConcentration:
    """Gold test 4: the prior comes back, the posterior given K stays, and the paper's inner Gibbs agrees."""

    def test_prior_comes_back(self, sizes: np.ndarray, k: int):
        assert_accepted(gold_checks.check_concentration_prior(sizes))

    def test_posterior_stays(self, sizes: np.ndarray, k: int):
        assert_accepted(gold_checks.check_concentration_posterior(sizes, k))

    def test_inner_gibbs_agrees(self, sizes: np.ndarray, k: int):
        assert_accepted(gold_checks.check_inner_gibbs(sizes, k, alpha=1.3))


def test_both_concentrations_of_a_sweep():
    assert_accepted(gold_checks.check_both_concentrations())


def test_stated_power():
    assert detectable(52) < 0.05
    assert detectable(52, JOINT_STARTS) < 0.07
