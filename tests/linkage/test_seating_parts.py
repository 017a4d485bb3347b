"""The parts of the learned restaurant, each against the plainest form: pairs, trees, knots, neighbourhoods, lessons."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from scdp.compare.distances import Distances
from scdp.errors import InputError
from scdp.linkage import learned, trees
from scdp.linkage.learned import Choices, Trial, at_most, check_teachable, lesson_parts, train
from scdp.linkage.neighbourhood import (
    N_NEIGHBOURS,
    WALK_STEPS,
    VectorView,
    diffusion_distances,
    squared_distances,
    units,
    whitening,
)
from scdp.linkage.pairs import Pairs
from scdp.linkage.pieces import FAR_ABOVE, N_KNOTS, Knots
from scdp.linkage.sources import PairSource, VectorSource, pairs_of
from scdp.linkage.training import first_guess
from scdp.linkage.trees import LARGEST_SCORE, Trees, fit_trees, sampled


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


# ---- pairs ----


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


# ---- trees ----


def pair_features(seed: int = 0, n: int = 600) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    features = rng.random((n, 4)).astype(np.float32)
    together = features[:, 0] + 0.3 * features[:, 1] + 0.1 * rng.normal(size=n) < 0.4
    features[rng.random(features.shape) < 0.15] = np.nan
    features[rng.random(n) < 0.3, 3] = np.nan
    return features, together


@pytest.mark.parametrize("seed", range(3))
def test_trees_say_what_scikit_learn_says(seed: int):
    features, together = pair_features(seed)
    model = HistGradientBoostingClassifier(max_iter=250, early_stopping=False, random_state=0)
    model.fit(features, together)
    new = pair_features(seed + 10)[0]
    new[:5] = np.nan
    expected = model.decision_function(new)
    assert np.abs(expected).max() > LARGEST_SCORE
    found = trees._as_arrays(model).log_odds(new)
    np.testing.assert_allclose(found, np.clip(expected, -LARGEST_SCORE, LARGEST_SCORE), atol=1e-9)


def test_splits_between_present_and_missing_are_followed():
    # Missing says it all: the only split there is has no threshold among numbers.
    features = np.zeros((400, 1), np.float32)
    features[::2] = np.nan
    model = HistGradientBoostingClassifier(max_iter=5, early_stopping=False).fit(features, np.arange(400) % 2)
    found = trees._as_arrays(model)
    assert np.isfinite(found.threshold).all()
    new = np.array([[np.nan], [0.0], [-5.0], [5.0]], np.float32)
    np.testing.assert_allclose(found.log_odds(new), model.decision_function(new), atol=1e-9)


def test_a_feature_that_is_missing_everywhere_or_constant_does_no_harm():
    features, together = pair_features()
    odd = np.column_stack([features, np.full(len(features), np.nan), np.ones(len(features))])
    found = fit_trees(odd.astype(np.float32), together, np.random.default_rng(0), n_rounds=20)
    plain = fit_trees(features, together, np.random.default_rng(0), n_rounds=20)
    np.testing.assert_array_equal(found.log_odds(odd.astype(np.float32)), plain.log_odds(features))
    assert np.isnan(odd[:, 4]).all()


def test_trees_survive_their_arrays():
    features, together = pair_features()
    found = fit_trees(features, together, np.random.default_rng(0), n_rounds=5)
    np.testing.assert_array_equal(
        Trees.from_arrays(found.arrays()).log_odds(features), found.log_odds(features)
    )


def test_sampled_pairs_stand_for_all(monkeypatch):
    monkeypatch.setattr(trees, "MOST_PAIRS", 100)
    together = np.arange(1000) < 300
    chosen, weight = sampled(together, np.random.default_rng(0))
    assert len(chosen) == len(set(chosen.tolist())) == 100
    assert together[chosen].sum() == 50
    assert weight[together[chosen]].sum() == pytest.approx(300)
    assert weight[~together[chosen]].sum() == pytest.approx(700)


# ---- knots ----


def test_scores_are_those_of_interpolation():
    rng = np.random.default_rng(0)
    seen = rng.random((500, 3)).astype(np.float32) * [1, 5, 0.01]
    knots = Knots.of(seen.astype(np.float32), np.array([-1, -1, 1]))
    guess = first_guess(knots, 2, rng)
    rise = rng.normal(size=guess.rise.shape)
    parameters = guess._replace(rise=rise, missing=rng.normal(size=guess.missing.shape))
    # Also beyond both ends, where functions go on flat.
    new = (rng.normal(size=(300, 3)) * [1, 5, 0.01]).astype(np.float32)
    new[rng.random(new.shape) < 0.2] = np.nan
    found = parameters.scores(knots.places(new))
    for d in range(2):
        total = np.zeros(len(new))
        for f in range(3):
            drawn = np.interp(new[:, f], knots.at[f], parameters.heights[d, f])
            total += np.where(np.isnan(new[:, f]), parameters.missing[d, f], drawn)
        np.testing.assert_allclose(found[:, d], total, atol=1e-4)


def test_knots_span_what_was_seen_but_a_long_tail():
    column = np.linspace(0, 1, 1000)
    tail = np.append(column, [20.0])
    nothing, constant = np.full(1001, np.nan), np.full(1001, 3.0)
    at = Knots.of(
        np.column_stack([np.append(column, 1.0), tail, nothing, constant]).astype(np.float32),
        np.full(4, -1),
    ).at
    assert at.shape == (4, N_KNOTS)
    assert (at[0, 0], at[0, -1]) == (0, 1)
    assert at[1, -1] * FAR_ABOVE < 20
    assert (at[2, 0], at[2, -1]) == (0, 1)
    assert (at[3, 0], at[3, -1]) == (3, 4)
    np.testing.assert_allclose(np.diff(at, axis=1), np.diff(at, axis=1)[:, :1].repeat(N_KNOTS - 1, 1))


# ---- neighbourhoods ----


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
        features = (
            view_of(values).pairs(values, None).features[:, 2 : 2 + len(N_NEIGHBOURS) * len(WALK_STEPS)]
        )
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
    found = VectorSource(values, documents, view).pairs(items)
    expected = view.pairs(values[items], documents[items])
    assert (
        as_dict(found).keys()
        == as_dict(expected).keys()
        == {frozenset(p) for p in [(0, 2), (1, 3), (1, 4), (3, 4)]}
    )


# ---- lessons ----


@pytest.mark.parametrize("boosted", [False, True])
@pytest.mark.parametrize("n_documents", [1, 10])
def test_lessons_hold_whole_clusters(boosted: bool, n_documents: int):
    rng = np.random.default_rng(0)
    cluster = rng.permutation(np.repeat(np.arange(20), rng.integers(1, 6, 20)))
    group = cluster % n_documents
    parts = lesson_parts(cluster, group, boosted, 12, rng)
    assert len(parts) == 12
    for items in parts:
        inside = np.isin(np.arange(len(cluster)), items)
        assert not set(cluster[inside]) & set(cluster[~inside])
        assert 1 < len(set(cluster[inside])) < len(items) < len(cluster)
        if n_documents > 1:
            assert not set(group[inside]) & set(group[~inside])
    assert len({tuple(items) for items in parts}) > 4


def test_large_lessons_are_cut_by_whole_clusters(monkeypatch):
    monkeypatch.setattr(learned, "MOST_LESSON_ITEMS", 50)
    rng = np.random.default_rng(0)
    cluster = rng.permutation(np.repeat(np.arange(40), 4))
    kept = at_most(np.arange(160), cluster, rng)
    assert 30 < len(kept) <= 50
    assert (np.unique(cluster[kept], return_counts=True)[1] == 4).all()
    assert len(at_most(np.arange(40), cluster, rng)) == 40
    # One cluster that is larger than a lesson is cut, since nothing else is left.
    assert len(at_most(np.arange(160), np.zeros(160, dtype=np.int64), rng)) == 50


def lesson_source() -> tuple[PairSource, np.ndarray]:
    rng = np.random.default_rng(0)
    cluster = rng.permutation(np.repeat(np.arange(12), 4))
    points = (rng.normal(size=(12, 2)) * 3)[cluster] + rng.normal(size=(48, 2)) * 0.5
    return PairSource(pairs_of(Distances.from_square(np.abs(points[:, None] - points)))), cluster


def test_trees_never_saw_the_clusters_of_their_lesson():
    source, cluster = lesson_source()
    asked: list[np.ndarray] = []

    class Watching:
        def pairs(self, items: np.ndarray) -> Pairs:
            asked.append(items)
            return source.pairs(items)

    restaurant, _ = train(
        Watching(), cluster, np.zeros(48, np.int64), np.full(2, -1), Choices(n_members=4), 0
    )
    assert all(member.trees is not None for member in restaurant.members)
    assert len(asked) == 8
    for seen, lesson in zip(asked[::2], asked[1::2], strict=True):
        assert not set(cluster[seen]) & set(cluster[lesson])
        assert set(seen) | set(lesson) == set(range(48))


def test_the_trial_is_on_held_out_clusters_and_tells_apart():
    source, cluster = lesson_source()
    _, trial = train(source, cluster, np.zeros(48, np.int64), np.full(2, -1), Choices(n_members=3), 0)
    assert isinstance(trial, Trial)
    assert len(trial.probability) == len(trial.together) > 100
    assert ((trial.probability >= 0) & (trial.probability <= 1)).all()
    assert trial.probability[trial.together].mean() > 0.7 > 0.2 > trial.probability[~trial.together].mean()


def test_training_is_the_same_for_any_number_of_jobs():
    source, cluster = lesson_source()
    choices = Choices(n_members=3)
    one, two = (
        train(source, cluster, np.zeros(48, np.int64), np.full(2, -1), choices, 5, jobs)[0] for jobs in (1, 2)
    )
    for left, right in zip(one.members, two.members, strict=True):
        np.testing.assert_array_equal(left.parameters.rise, right.parameters.rise)
        np.testing.assert_array_equal(left.trees.value, right.trees.value)
    pairs, nobody = source.pairs(np.arange(48)), np.full(48, -1)
    drawn = one.draw(pairs, nobody, 7, 3)
    np.testing.assert_array_equal(two.draw(pairs, nobody, 7, 3, n_jobs=2), drawn)
    np.testing.assert_array_equal(one.draw(pairs, nobody, 4, 3), drawn[:4])


def test_distances_only_speak_against_and_opinions_only_for():
    source, cluster = lesson_source()
    restaurant, _ = train(source, cluster, np.zeros(48, np.int64), np.full(2, -1), Choices(n_members=2), 0)
    for member in restaurant.members:
        assert (member.parameters.rise[:, :2] <= 0).all()
        assert (member.parameters.rise[:, 2] >= 0).all()


@pytest.mark.parametrize(
    ("cluster", "says"),
    [
        ([], "no row has a known cluster"),
        ([1, 1], "all of one cluster"),
        ([0, 1, 2], "all of clusters of one row"),
    ],
)
def test_what_teaches_nothing_is_refused(cluster: list[int], says: str):
    with pytest.raises(InputError, match=f"{says}: give at least two clusters, one of them of two rows"):
        check_teachable(np.array(cluster, dtype=np.int64))
    check_teachable(np.array([0, 0, 1]))
