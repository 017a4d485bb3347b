"""Vectors as pairs: distances, walks over neighbourhoods, documents and missing coordinates."""

from __future__ import annotations

import numpy as np
import pytest

from scdp.compare.features import Pairs
from scdp.linkage.sources import (
    N_NEIGHBOURS,
    WALK_STEPS,
    VectorSource,
    VectorView,
    diffusion_distances,
    squared_distances,
    units,
    whitening,
)


def as_dict(pairs: Pairs) -> dict[frozenset[int], list[float]]:
    ends = zip(pairs.left.tolist(), pairs.right.tolist(), strict=True)
    found = {frozenset(both): row for both, row in zip(ends, pairs.features.tolist(), strict=True)}
    assert len(found) == len(pairs)
    return found


def view_of(values: np.ndarray, cluster: np.ndarray | None = None) -> VectorView:
    cluster = np.arange(len(values)) // 3 if cluster is None else cluster
    return VectorView.of(values, cluster, values.mean(axis=0), values.std(axis=0))


def test_plain_distances_are_those_of_pairs():
    values = np.random.default_rng(0).normal(size=(8, 3)) * [1, 10, 0.1]
    view = view_of(values)
    found = as_dict(view.pairs(values, None))
    assert len(found) == 28
    place = {name: k for k, name in enumerate(view.names)}
    for ends, row in found.items():
        i, j = sorted(ends)
        gap = (values[i] - values[j]) / view.scale
        assert row[place["distance"]] == pytest.approx(np.sqrt((gap**2).mean()), rel=1e-5)
        spread = gap @ view.whitening
        expected = min(float(np.sqrt((spread**2).mean())), 6.0)
        assert row[place["distance by spread within clusters"]] == pytest.approx(expected, rel=1e-5)
        np.testing.assert_allclose(row[-3:], np.abs(gap), rtol=1e-5)


def test_names_are_as_many_as_features():
    for width in (2, 16, 17, 30):
        values = np.random.default_rng(0).normal(size=(30, width))
        view = view_of(values)
        assert len(view.names) == view.pairs(values, None).n_features
        assert ("coordinate 1" in view.names) == (width <= 16)


def test_few_items_have_no_walks_and_more_have_some():
    rng = np.random.default_rng(0)
    for n in (19, 20, 39, 40):
        values = rng.normal(size=(n, 2))
        features = view_of(values).pairs(values, None).features[:, 2 : 2 + len(N_NEIGHBOURS) * len(WALK_STEPS)]
        there = ~np.isnan(features).any(axis=0)
        assert there.tolist() == [n >= 2 * k for k in N_NEIGHBOURS for _ in WALK_STEPS]
        assert there.all() or np.isnan(features[:, ~there]).all()


def test_walks_are_symmetric_and_see_a_gap():
    rng = np.random.default_rng(0)
    line = np.column_stack([np.linspace(0, 12, 60), rng.normal(size=60) * 0.05])
    points = np.vstack([line, line + np.array([0, 3])])
    squared = squared_distances(points)
    np.testing.assert_allclose(squared, ((points[:, None] - points) ** 2).sum(axis=2), atol=1e-9)
    walks = diffusion_distances(squared, 10)
    for walk in walks:
        np.testing.assert_allclose(walk, walk.T, atol=1e-9)
        assert (np.diag(walk) == 0).all()
    # A quarter of a line away on the same line, against just opposite on the other one, which is nearer.
    assert squared[20, 36] > squared[20, 80]
    assert walks[-1][20, 36] < 0.9 * walks[-1][20, 80]


def test_features_do_not_depend_on_the_order_of_items():
    rng = np.random.default_rng(0)
    values, order = rng.normal(size=(45, 3)), rng.permutation(45)
    view = view_of(values)
    found, shuffled = as_dict(view.pairs(values, None)), as_dict(view.pairs(values[order], None))
    for ends, row in shuffled.items():
        i, j = ends
        np.testing.assert_allclose(row, found[frozenset((int(order[i]), int(order[j])))], atol=1e-3)


def test_documents_are_looked_at_one_by_one():
    rng = np.random.default_rng(0)
    values, documents = rng.normal(size=(60, 3)), rng.permutation(np.repeat([5, 2, 9], [25, 5, 30]))
    view = view_of(values)
    pairs = view.pairs(values, documents)
    assert (documents[pairs.left] == documents[pairs.right]).all()
    assert len(pairs) == 25 * 12 + 10 + 15 * 29
    for name in (5, 2, 9):
        rows = np.flatnonzero(documents == name)
        alone = as_dict(view.pairs(values[rows], None))
        np.testing.assert_equal(as_dict(pairs.take(rows)), alone)


def test_missing_coordinates_are_missing_and_the_rest_still_counts():
    values = np.random.default_rng(0).normal(size=(30, 3))
    view = view_of(values)
    values[4, 1] = np.nan
    pairs = view.pairs(values, None)
    touched = (pairs.left == 4) | (pairs.right == 4)
    assert (np.isnan(pairs.features[:, -2]) == touched).all()
    assert not np.isnan(pairs.features[:, :2]).any()


def test_whitening_makes_the_spread_within_clusters_rounder():
    rng = np.random.default_rng(0)
    cluster = np.repeat(np.arange(40), 10)
    spread = rng.normal(size=(400, 2)) * [3, 0.3]
    found = spread @ whitening(spread + rng.normal(size=(40, 2))[cluster] * 5, cluster)
    before, after = spread.std(axis=0), np.sqrt(np.linalg.eigvalsh(np.cov(found.T)))
    assert after[1] / after[0] < 0.5 * before[0] / before[1]
    np.testing.assert_array_equal(whitening(np.ones((4, 2)), np.array([0, 0, 1, 1])), np.eye(2))


def test_one_unit_for_coordinates_of_one_size():
    assert units(np.array([1.0, 2.0, 3.0])).tolist() == [np.sqrt(14 / 3)] * 3
    assert units(np.array([1.0, 2.0, 3000.0])).tolist() == [1.0, 2.0, 3000.0]


def test_vectors_are_a_source_of_any_part():
    rng = np.random.default_rng(0)
    values, documents = rng.normal(size=(30, 2)), np.arange(30) % 2
    view, items = view_of(values), np.array([3, 8, 1, 20, 22])
    found = VectorSource(values, documents, view).pairs(items, np.arange(5)).pairs
    expected = view.pairs(values[items], documents[items])
    assert as_dict(found).keys() == as_dict(expected).keys() == {frozenset(p) for p in [(0, 2), (1, 3), (1, 4), (3, 4)]}
