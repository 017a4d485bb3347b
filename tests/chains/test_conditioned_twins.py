"""SCDP-3's kernels against their plain twins, draw for draw, in every variant."""

from __future__ import annotations

import numpy as np
import pytest

from sampler_cases import CASES, Case, build
from scdp.chains import State
from scdp.chains import vector_conditioned as conditioned
from scdp.chains import vector_coupling as coupling
from scdp.chains.items import Items
from scdp.chains.vector_coupling import MEAN, NORMALIZED, PUBLISHED
from twins import separation as conditioned_plain

SEEDS = range(6)
PRIORS = np.array([1.0, 1.0, 2.0, 0.5])
variants = pytest.mark.parametrize("variant", [PUBLISHED, NORMALIZED, MEAN])
cases = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def problem(case: Case, seed: int) -> tuple[Items, State]:
    """A random state with means, on a grid of means where precisions are on a grid."""
    laid_out, state = build(case, seed)
    rng = np.random.default_rng(1000 + seed)
    shape = (len(laid_out.items.known_in_slot), laid_out.items.n_features)
    extra = {"means": rng.normal(size=shape), "separation_rate": 0.3}
    if case.grid:
        grid = rng.normal(size=(3, shape[1]))
        extra |= {"mean_grid": grid, "mean_grid_log_weight": np.log([0.2, 0.5, 0.3])}
        extra["means"] = grid[rng.integers(0, 3, shape[0])]
    return laid_out.items, state._replace(**extra)


def streams(seed: int) -> tuple[np.random.Generator, np.random.Generator]:
    return np.random.default_rng(seed), np.random.default_rng(seed)


@variants
@cases
def test_log_joint(case: Case, variant: int):
    for seed in range(20):
        items, state = problem(case, seed)
        fast = coupling.log_joint_conditioned(items, state, variant, PRIORS)
        slow = conditioned_plain.log_joint_conditioned(items, state, variant, PRIORS)
        assert fast == pytest.approx(slow, rel=1e-10, abs=1e-8)


@variants
@cases
@pytest.mark.parametrize("n_auxiliary", [1, 2, 8])
@pytest.mark.parametrize("informed", [True, False])
def test_clusters(case: Case, variant: int, n_auxiliary: int, informed: bool):
    for seed in SEEDS:
        items, state = problem(case, seed)
        fast, slow = streams(seed)
        arguments = (items, state, variant, n_auxiliary, informed)
        cluster, means, _, _ = conditioned.resample_clusters_conditioned(fast, *arguments)
        expected, expected_means = conditioned_plain.resample_clusters_conditioned(slow, *arguments)
        np.testing.assert_array_equal(cluster, expected)
        used = np.unique(cluster)
        np.testing.assert_allclose(means[used], expected_means[used], rtol=1e-10, atol=1e-12)
        assert fast.bit_generator.state == slow.bit_generator.state


@variants
@cases
def test_means_from_candidates(case: Case, variant: int):
    for seed in SEEDS:
        items, state = problem(case, seed)
        fast, slow = streams(seed)
        means, changed = conditioned.resample_means_from_candidates(fast, items, state, variant, 3)
        expected, expected_changed = conditioned_plain.resample_means_from_candidates(slow, items, state, variant, 3)
        used = np.unique(state.cluster)
        np.testing.assert_allclose(means[used], expected[used], rtol=1e-10)
        assert changed == expected_changed
        assert fast.bit_generator.state == slow.bit_generator.state


@variants
@pytest.mark.parametrize("case", [case for case in CASES if not case.grid], ids=lambda case: case.name)
def test_means_exactly(case: Case, variant: int):
    for seed in SEEDS:
        items, state = problem(case, seed)
        fast, slow = streams(seed)
        means, improper = conditioned.resample_means_exactly(fast, items, state, variant)
        expected, expected_improper = conditioned_plain.resample_means_exactly(slow, items, state, variant)
        used = np.unique(state.cluster)
        np.testing.assert_allclose(means[used], expected[used], rtol=1e-6, atol=1e-7)
        assert improper == expected_improper
