"""Every compiled kernel gives what its plain twin gives, draw for draw from the same stream."""

from __future__ import annotations

import numpy as np
import pytest

from sampler_cases import CASES, Case, build
from scdp.chains import run, split_merge
from scdp.chains import vector_clusters as clusters
from scdp.chains import vector_types as types
from scdp.chains.items import group_sizes
from twins import vectors as plain

pytestmark = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
SEEDS = range(25)
PRIORS = np.array([1.0, 1.0, 2.0, 0.5])


def streams(seed: int) -> tuple[np.random.Generator, np.random.Generator]:
    return np.random.default_rng(seed), np.random.default_rng(seed)


def assert_streams_match(fast: np.random.Generator, slow: np.random.Generator) -> None:
    assert fast.bit_generator.state == slow.bit_generator.state


def test_clusters(case: Case):
    for seed in SEEDS:
        laid_out, state = build(case, seed)
        fast, slow = streams(seed)
        for _ in range(4):
            new, moved = clusters.resample_clusters(fast, laid_out.items, state)
            expected, expected_moved = plain.resample_clusters(slow, laid_out.items, state)
            np.testing.assert_array_equal(new, expected)
            assert moved >= expected_moved  # an item that leaves and comes back to its slot has moved twice
            state = state._replace(cluster=new)
        assert_streams_match(fast, slow)


def test_split_merge(case: Case):
    total = 0
    for seed in SEEDS:
        laid_out, state = build(case, seed)
        fast, slow = streams(seed)
        for _ in range(3):
            new, accepted = split_merge.split_merge(fast, laid_out.items, state, 5)
            expected, expected_accepted = plain.split_merge(slow, laid_out.items, state, 5)
            np.testing.assert_array_equal(new, expected)
            assert accepted == expected_accepted
            total += accepted
            state = state._replace(cluster=new)
        assert_streams_match(fast, slow)
    assert total > 0


def test_means_and_their_variance(case: Case):
    for seed in SEEDS:
        laid_out, state = build(case, seed)
        fast, slow = streams(seed)
        new, used = types.draw_means(fast, laid_out.items, state)
        expected, expected_used = plain.draw_means(slow, laid_out.items, state)
        np.testing.assert_allclose(new, expected, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(used, expected_used)
        variance = types.draw_mean_variance(fast, new, used, 1.5, 0.8)
        assert variance == pytest.approx(plain.draw_mean_variance(slow, expected, used, 1.5, 0.8), rel=1e-12)
        assert_streams_match(fast, slow)


def test_separation_prior(case: Case):
    for seed in SEEDS:
        laid_out, state = build(case, seed)
        drawn, used = types.draw_means(np.random.default_rng(seed), laid_out.items, state)
        shape, rate = types.separation_prior(drawn, used)
        expected_shape, expected_rate = plain.separation_prior(drawn, used)
        np.testing.assert_allclose(shape, expected_shape, rtol=1e-9)
        np.testing.assert_allclose(rate, expected_rate, rtol=1e-9)


def test_types_and_precisions(case: Case):
    for seed in SEEDS:
        laid_out, state = build(case, seed)
        fast, slow = streams(seed)
        for _ in range(3):
            drawn, _ = types.draw_means(np.random.default_rng(seed), laid_out.items, state)
            new, rows, moved = types.resample_types(fast, laid_out.items, state, drawn)
            expected, expected_rows, expected_moved = plain.resample_types(slow, laid_out.items, state, drawn)
            np.testing.assert_array_equal(new, expected)
            used = np.unique(new)
            np.testing.assert_allclose(rows[used], expected_rows[used], rtol=1e-12)
            assert moved >= expected_moved
            state = state._replace(type=new, precision=rows)
            rows = types.resample_precisions(fast, laid_out.items, state, drawn)
            expected_rows = plain.resample_precisions(slow, laid_out.items, state, drawn)
            np.testing.assert_allclose(rows[used], expected_rows[used], rtol=1e-12)
            state = state._replace(precision=rows)
        assert_streams_match(fast, slow)


def test_paper_clusters(case: Case):
    for seed in SEEDS:
        laid_out, state = build(case, seed)
        fast, slow = streams(seed)
        drawn, _ = types.draw_means(np.random.default_rng(seed), laid_out.items, state)
        for _ in range(3):
            new, new_means, _ = clusters.resample_clusters_given_means(fast, laid_out.items, state, drawn)
            expected, slow_means, _ = plain.resample_clusters_given_means(slow, laid_out.items, state, drawn)
            np.testing.assert_array_equal(new, expected)
            used = np.unique(new)
            np.testing.assert_allclose(new_means[used], slow_means[used], rtol=1e-12)
            state, drawn = state._replace(cluster=new), new_means
        assert_streams_match(fast, slow)


def test_concentration(case: Case):
    for seed in SEEDS:
        laid_out, state = build(case, seed)
        sizes = group_sizes(laid_out.items)
        n_clusters = len(np.unique(state.cluster))
        symmetric = run.log_symmetric_polynomials(sizes)
        fast, slow = streams(seed)
        alpha = run.resample_concentration(fast, 1.3, sizes, n_clusters, symmetric, 1.5, 0.7)
        expected = plain.resample_concentration(slow, 1.3, sizes, n_clusters, symmetric, 1.5, 0.7)
        assert alpha == pytest.approx(expected, rel=1e-12)
        assert_streams_match(fast, slow)


def test_log_joint(case: Case):
    for seed in SEEDS:
        laid_out, state = build(case, seed)
        fast = clusters.log_joint(laid_out.items, state, PRIORS)
        assert fast == pytest.approx(plain.log_joint(laid_out.items, state, PRIORS), rel=1e-12, abs=1e-10)
