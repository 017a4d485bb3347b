"""Every kernel on distances gives what its plain twin gives, draw for draw, and what coordinates give."""

from __future__ import annotations

import numpy as np
import pytest

from distance_cases import build_both, build_strange
from sampler_cases import CASES, Case
from scdp.chains import State, split_merge
from scdp.chains import vector_clusters as clusters
from scdp.chains.distances import centroids
from scdp.chains.distances import centroids as distance_centroids
from scdp.chains.distances import clusters as distance_clusters
from scdp.chains.distances import types as distance_types
from scdp.chains.items import DistanceItems
from twins import distances as distance_plain

SEEDS = range(12)
PRIORS = np.array([1.0, 1.0, 2.0, 0.5])
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
each_geometry = pytest.mark.parametrize("geometry", ["euclidean", "strange", "clipped"])


def build(case: Case, seed: int, geometry: str) -> tuple[DistanceItems, State]:
    if geometry == "euclidean":
        _, laid_out, state = build_both(case, seed)
    else:
        laid_out, state = build_strange(case, seed, clip=geometry == "clipped")
    return laid_out.items, state


def streams(seed: int) -> tuple[np.random.Generator, np.random.Generator]:
    return np.random.default_rng(seed), np.random.default_rng(seed)


def assert_streams_match(fast: np.random.Generator, slow: np.random.Generator) -> None:
    assert fast.bit_generator.state == slow.bit_generator.state


@each_case
class TestAgainstCoordinates:
    def test_log_joint(self, case: Case):
        for seed in range(40):
            laid_out, by_distance, state = build_both(case, seed)
            expected = clusters.log_joint(laid_out.items, state, PRIORS)
            found = centroids.log_joint_of_distances(by_distance.items, state, PRIORS)
            assert found == pytest.approx(expected, rel=0, abs=1e-8)

    def test_clusters_draw_for_draw(self, case: Case):
        for seed in SEEDS:
            laid_out, by_distance, state = build_both(case, seed)
            fast, slow = streams(seed)
            for _ in range(4):
                new, moved, _, negative = distance_clusters.resample_clusters_by_distance(
                    fast, by_distance.items, state, None
                )
                expected, expected_moved = clusters.resample_clusters(slow, laid_out.items, state)
                np.testing.assert_array_equal(new, expected)
                assert (moved, negative) == (expected_moved, 0)
                state = state._replace(cluster=new)
            assert_streams_match(fast, slow)

    def test_split_merge_draw_for_draw(self, case: Case):
        for seed in SEEDS:
            laid_out, by_distance, state = build_both(case, seed)
            fast, slow = streams(seed)
            for _ in range(3):
                new, accepted, negative = split_merge.split_merge_by_distance(fast, by_distance.items, state, 5, None)
                expected, expected_accepted = split_merge.split_merge(slow, laid_out.items, state, 5)
                np.testing.assert_array_equal(new, expected)
                assert (accepted, negative) == (expected_accepted, 0)
                state = state._replace(cluster=new)
            assert_streams_match(fast, slow)

    def test_gaps_between_posterior_means(self, case: Case):
        for seed in SEEDS:
            laid_out, by_distance, state = build_both(case, seed)
            items = laid_out.items
            used = np.unique(state.cluster)
            for slot in used:
                for other in used:
                    places = [items.group[state.cluster == k][0] for k in (slot, other)]
                    if slot != other and places[0] == places[1]:
                        far, near = distance_plain.gap_between(by_distance.items, state, slot, other)
                        gap = posterior_mean(items, state, slot) - posterior_mean(items, state, other)
                        np.testing.assert_allclose(far - near, gap**2, atol=1e-10)


def posterior_mean(items, state: State, slot: int) -> np.ndarray:
    inside = state.cluster == slot
    weight = items.observed[inside] * state.precision[state.type[inside]]
    total = 1 / state.mean_variance + weight.sum(axis=0)
    return (weight * items.points[inside]).sum(axis=0) / total


@each_case
@each_geometry
class TestTwins:
    def test_log_joint(self, case: Case, geometry: str):
        for seed in SEEDS:
            items, state = build(case, seed, geometry)
            found = centroids.log_joint_of_distances(items, state, PRIORS)
            assert found == pytest.approx(distance_plain.log_joint(items, state, PRIORS), rel=1e-11)

    def test_clusters(self, case: Case, geometry: str):
        negatives = 0
        for seed in SEEDS:
            items, state = build(case, seed, geometry)
            fast, slow = streams(seed)
            for _ in range(3):
                new, moved, _, negative = distance_clusters.resample_clusters_by_distance(fast, items, state, None)
                expected, expected_moved, expected_negative = distance_plain.resample_clusters(slow, items, state)
                np.testing.assert_array_equal(new, expected)
                assert negative == expected_negative
                assert moved >= expected_moved  # an item that leaves and comes back to its slot has moved twice
                negatives += negative
                state = state._replace(cluster=new)
            assert_streams_match(fast, slow)
        assert (negatives > 0) == (geometry != "euclidean")

    def test_split_merge(self, case: Case, geometry: str):
        total = 0
        for seed in SEEDS:
            items, state = build(case, seed, geometry)
            fast, slow = streams(seed)
            for _ in range(3):
                found = split_merge.split_merge_by_distance(fast, items, state, 4, None)
                expected = distance_plain.split_merge(slow, items, state, 4)
                np.testing.assert_array_equal(found[0], expected[0])
                assert found[1:] == expected[1:]
                total += found[1]
                state = state._replace(cluster=found[0])
            assert_streams_match(fast, slow)
        assert total > 0

    @pytest.mark.parametrize("n_auxiliary", [1, 3])
    def test_types(self, case: Case, geometry: str, n_auxiliary: int):
        opened = 0
        for seed in SEEDS:
            items, state = build(case, seed, geometry)
            fast, slow = streams(seed)
            for _ in range(3):
                new, rows, moved, negative = distance_types.resample_types_by_distance(fast, items, state, n_auxiliary)
                expected, expected_rows, expected_moved, expected_negative = distance_plain.resample_types(
                    slow, items, state, n_auxiliary
                )
                np.testing.assert_array_equal(new, expected)
                used = np.unique(new)
                np.testing.assert_allclose(rows[used], expected_rows[used], rtol=1e-12)
                assert negative == expected_negative
                assert moved >= expected_moved
                opened += len(np.setdiff1d(used, np.unique(state.type)))
                state = state._replace(type=new, precision=rows)
            assert_streams_match(fast, slow)
        assert opened > 0

    def test_precisions(self, case: Case, geometry: str):
        changed = 0
        for seed in SEEDS:
            items, state = build(case, seed, geometry)
            fast, slow = streams(seed)
            rows = distance_types.resample_precisions_by_distance(fast, items, state)
            expected = distance_plain.resample_precisions(slow, items, state)
            np.testing.assert_allclose(rows, expected, rtol=1e-9)
            changed += (rows != state.precision).any()
            assert_streams_match(fast, slow)
        assert changed > len(SEEDS) / 2

    def test_mean_variance(self, case: Case, geometry: str):
        for seed in SEEDS:
            items, state = build(case, seed, geometry)
            fast, slow = streams(seed)
            found = distance_types.resample_mean_variance_by_distance(fast, items, state, 1.5, 0.8)
            expected = distance_plain.resample_mean_variance(slow, items, state, 1.5, 0.8)
            assert found == pytest.approx(expected, rel=1e-9)
            assert_streams_match(fast, slow)

    def test_separation_prior(self, case: Case, geometry: str):
        for seed in SEEDS:
            items, state = build(case, seed, geometry)
            shape, rate, negative = distance_centroids.separation_prior_by_distance(items, state)
            expected_shape, expected_rate, expected_negative = distance_plain.separation_prior(items, state)
            np.testing.assert_allclose(shape, expected_shape, rtol=1e-8)
            np.testing.assert_allclose(rate, expected_rate, rtol=1e-8)
            assert negative == expected_negative
