"""SCDP-3's kernels on distances give what their plain twins give, and centroids of coordinates give the same gaps."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from distance_cases import build_both, build_strange
from sampler_cases import CASES, Case
from scdp.chains import State
from scdp.chains.distances.centroids import Centroids, centroids_of, log_joint_of_centroids, separation_by_distance
from scdp.chains.distances.clusters import resample_clusters_by_distance
from scdp.chains.items import DistanceItems, lay_out_distances
from scdp.chains.split_merge import split_merge_by_distance
from scdp.chains.vector_coupling import MEAN, NORMALIZED
from scdp.compare.distances import Distances
from twins import distance_separation as plain

SEEDS = range(8)
PRIORS = np.array([1.0, 1.0, 2.0, 0.5])
SPARSE = [
    Case("sparse", [0, 1, 1, -1, -1, -1, -1, -1, -1], share=True, missing=0.6),
    Case("sparse documents", [0, 1, -1, -1, -1, 0, 0, 1, -1], groups=[0] * 5 + [1] * 4, missing=0.5),
]
each_case = pytest.mark.parametrize("case", CASES + SPARSE, ids=lambda case: case.name)
each_geometry = pytest.mark.parametrize("geometry", ["euclidean", "strange", "clipped"])
each_variant = pytest.mark.parametrize("variant", [NORMALIZED, MEAN], ids=["normalized", "mean"])


def build(case: Case, seed: int, geometry: str, uneven: bool = False) -> tuple[DistanceItems, State]:
    if geometry == "euclidean" and case not in SPARSE:
        _, laid_out, state = build_both(case, seed)
    else:  # the helper above refuses a record that is alone with a feature in its group
        laid_out, state = build_strange(case, seed, clip=geometry == "clipped")
    state = state._replace(separation_rate=0.05 + 0.1 * (seed % 3))
    if uneven:
        state = state._replace(shape=np.linspace(0.6, 1.9, len(state.shape)))
    return laid_out.items, state


def assert_same_centroids(found: Centroids, expected: Centroids, n_features: int) -> None:
    for name in ("size", "inverse", "present", "spread", "total", "n_pairs"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-9, err_msg=name)
    assert (found.size[:, n_features:] == 0).all()


@each_case
@each_geometry
@each_variant
class TestTwins:
    def test_separation_and_log_joint(self, case: Case, geometry: str, variant: int):
        for seed in SEEDS:
            items, state = build(case, seed, geometry, uneven=bool(seed % 2))
            gaps = separation_by_distance(centroids_of(items, state.cluster, variant), items.n_features)
            np.testing.assert_allclose(gaps, plain.separation(items, state.cluster, variant), atol=1e-9)
            found = log_joint_of_centroids(items, state, variant, PRIORS)
            assert found == pytest.approx(plain.log_joint(items, state, variant, PRIORS), rel=0, abs=1e-8)

    def test_clusters(self, case: Case, geometry: str, variant: int):
        for seed in SEEDS:
            items, state = build(case, seed, geometry, uneven=bool(seed % 2))
            fast, slow = np.random.default_rng(seed), np.random.default_rng(seed)
            for _ in range(2):
                centroids = centroids_of(items, state.cluster, variant)
                new, _, opened, negative = resample_clusters_by_distance(fast, items, state, centroids)
                expected = plain.resample_clusters(slow, items, state, variant)
                np.testing.assert_array_equal(new, expected[0])
                assert (opened, negative) == expected[1:]
                assert_same_centroids(centroids, centroids_of(items, new, variant), items.n_features)
                state = state._replace(cluster=new)
            assert fast.bit_generator.state == slow.bit_generator.state

    def test_split_merge(self, case: Case, geometry: str, variant: int):
        accepted = 0
        for seed in SEEDS:
            items, state = build(case, seed, geometry, uneven=bool(seed % 2))
            fast, slow = np.random.default_rng(seed), np.random.default_rng(seed)
            for _ in range(2):
                centroids = centroids_of(items, state.cluster, variant)
                found = split_merge_by_distance(fast, items, state, 6, centroids)
                expected = plain.split_merge(slow, items, state, 6, variant)
                np.testing.assert_array_equal(found[0], expected[0])
                assert found[1:] == expected[1:]
                accepted += found[1]
                assert_same_centroids(centroids, centroids_of(items, found[0], variant), items.n_features)
                state = state._replace(cluster=found[0])
            assert fast.bit_generator.state == slow.bit_generator.state
        assert accepted > 0


@each_variant
def test_gaps_are_those_between_the_averages_of_coordinates(variant: int):
    for seed in range(20):
        laid_out, by_distance, state = build_both(CASES[5], seed)
        items = laid_out.items
        expected = np.zeros(items.n_features)
        for f in range(items.n_features):
            averages = []
            for slot in np.unique(state.cluster):
                inside = (state.cluster == slot) & (items.observed[:, f] > 0)
                if inside.any():
                    averages.append(items.points[inside, f].mean())
            gaps = [(one - other) ** 2 for one, other in combinations(averages, 2)] or [0.0]
            expected[f] = np.mean(gaps) if variant == MEAN else np.sum(gaps)
        centroids = centroids_of(by_distance.items, state.cluster, variant)
        np.testing.assert_allclose(separation_by_distance(centroids, items.n_features), expected, atol=1e-10)


def test_a_pass_that_opens_many_clusters_makes_room_for_them():
    """All items start in one cluster, so that the gaps have room for a few; most then leave it."""
    laid_out, state = build_strange(Case("many", [-1] * 60), 3)
    state = state._replace(
        cluster=np.zeros(60, np.int64),
        precision=np.full((4, 3), 30.0),
        cluster_concentration=50.0,
        separation_rate=1e-4,
    )
    centroids = centroids_of(laid_out.items, state.cluster, NORMALIZED)
    new, _, opened, _ = resample_clusters_by_distance(np.random.default_rng(0), laid_out.items, state, centroids)
    assert opened > 2 * centroids.room[0]
    after = centroids_of(laid_out.items, new, NORMALIZED)
    np.testing.assert_allclose(centroids.total, after.total, rtol=1e-10)
    np.testing.assert_allclose(centroids.reach, after.reach, rtol=1e-8, atol=1e-8)


def test_a_separation_below_zero_counts_as_zero():
    """Ten items at distance 1 of each other but 0.1 between the two halves: the halves' centroids are nowhere."""
    half = np.arange(10) < 5
    square = np.where(half[:, None] == half, 1.0, 0.1)[:, :, None] * (1 - np.eye(10))[:, :, None]
    items = lay_out_distances(Distances.from_square(square), np.full(10, -1)).items
    cluster = np.where(half, 0, 1)
    centroids = centroids_of(items, cluster, MEAN)
    assert centroids.total[0] < -0.5
    assert separation_by_distance(centroids, 1)[0] == plain.separation(items, cluster, MEAN)[0] == 0
