"""Pairs: neighbours, parts of the items, and pairs of distances, each against the plainest form."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from scdp.compare.distances import Distances
from scdp.compare.features import Pairs
from scdp.linkage.sources import pairs_of


def some_pairs(seed: int = 0, n: int = 12, share: float = 0.6) -> Pairs:
    rng = np.random.default_rng(seed)
    left, right = np.triu_indices(n, k=1)
    kept = rng.permutation(len(left))[: round(share * len(left))]
    return Pairs(n, left[kept], right[kept], rng.random((len(kept), 2)).astype(np.float32))


def as_dict(pairs: Pairs) -> dict[frozenset[int], list[float]]:
    ends = zip(pairs.left.tolist(), pairs.right.tolist(), strict=True)
    found = {frozenset(both): row for both, row in zip(ends, pairs.features.tolist(), strict=True)}
    assert len(found) == len(pairs)
    return found


def test_neighbours_are_those_of_the_pairs():
    pairs = some_pairs()
    start, other, number = pairs.neighbours
    assert len(start) == pairs.n_items + 1
    for i in range(pairs.n_items):
        expected = [
            (int(second if first == i else first), k)
            for k, (first, second) in enumerate(zip(pairs.left, pairs.right, strict=True))
            if i in (first, second)
        ]
        here = slice(start[i], start[i + 1])
        assert sorted(zip(other[here].tolist(), number[here].tolist(), strict=True)) == sorted(expected)


def test_items_without_pairs_have_no_neighbours():
    nothing = Pairs(3, np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 2), np.float32))
    assert nothing.neighbours.start.tolist() == [0, 0, 0, 0]
    assert len(nothing.take(np.array([2, 0]))) == 0


def test_a_part_of_the_items_has_its_pairs_under_new_numbers():
    pairs, items = some_pairs(), np.array([7, 2, 11, 4, 0])
    found, every = as_dict(pairs.take(items)), as_dict(pairs)
    expected = {
        frozenset((i, j)): every[frozenset((a, b))]
        for (i, a), (j, b) in combinations(enumerate(items.tolist()), 2)
        if frozenset((a, b)) in every
    }
    assert 0 < len(found) < len(pairs)
    assert found == expected


def test_pairs_within_a_mask_keep_their_numbers():
    pairs, mask = some_pairs(), np.arange(12) % 3 > 0
    found = as_dict(pairs.within(mask))
    assert found == {ends: row for ends, row in as_dict(pairs).items() if all(mask[i] for i in ends)}
    assert pairs.within(mask).n_items == 12
    assert pairs.within(np.ones(12, bool)) is pairs


def test_one_more_feature_stands_last():
    pairs = some_pairs()
    more = pairs.with_column(np.arange(len(pairs)))
    assert more.n_features == 3
    assert more.features[:, 2].tolist() == list(range(len(pairs)))
    np.testing.assert_array_equal(more.features[:, :2], pairs.features)


def test_pairs_of_distances_are_in_the_units_given_and_within_groups():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(9, 2)) * [1, 50]
    square, groups = np.abs(points[:, None] - points), np.arange(9) % 2
    square[0, :, 1] = square[:, 0, 1] = np.nan
    found = as_dict(pairs_of(Distances.from_square(square, groups=groups).scaled()))
    assert set(found) == {frozenset(p) for p in combinations(range(9), 2) if groups[p[0]] == groups[p[1]]}
    for ends, row in found.items():
        i, j = sorted(ends)
        np.testing.assert_allclose(row, square[i, j], rtol=1e-5)
