"""Boosted trees as arrays say what scikit-learn says."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from scdp.linkage import trees
from scdp.linkage.trees import LARGEST_SCORE, Trees, fit_trees, sample_pairs

SIGN = np.array([-1, -1, -1, -1])


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
    found = trees._as_arrays(model, -1.5)
    cut = np.clip(expected, -LARGEST_SCORE, LARGEST_SCORE)
    np.testing.assert_allclose(found.log_odds(new), cut, atol=1e-9)
    # Against the odds among the pairs learned from, which other tables do not share.
    np.testing.assert_allclose(found.log_ratio(new), cut + 1.5, atol=1e-9)


def test_splits_between_present_and_missing_are_followed():
    # Missing says it all: the only split there is has no threshold among numbers.
    features = np.zeros((400, 1), np.float32)
    features[::2] = np.nan
    model = HistGradientBoostingClassifier(max_iter=5, early_stopping=False).fit(features, np.arange(400) % 2)
    found = trees._as_arrays(model, 0.0)
    assert np.isfinite(found.threshold).all()
    new = np.array([[np.nan], [0.0], [-5.0], [5.0]], np.float32)
    np.testing.assert_allclose(found.log_odds(new), model.decision_function(new), atol=1e-9)


def test_a_feature_that_is_missing_everywhere_or_constant_does_no_harm():
    features, together = pair_features()
    odd = np.column_stack([features, np.full(len(features), np.nan), np.ones(len(features))])
    signs = np.array([*SIGN, -1, 1])
    found = fit_trees(odd.astype(np.float32), together, signs, np.random.default_rng(0), n_rounds=20)
    plain = fit_trees(features, together, SIGN, np.random.default_rng(0), n_rounds=20)
    np.testing.assert_array_equal(found.log_odds(odd.astype(np.float32)), plain.log_odds(features))
    assert np.isnan(odd[:, 4]).all()


def test_trees_survive_their_arrays():
    features, together = pair_features()
    found = fit_trees(features, together, SIGN, np.random.default_rng(0), n_rounds=5)
    np.testing.assert_array_equal(Trees.from_arrays(found.arrays()).log_odds(features), found.log_odds(features))


def test_sampled_pairs_stand_for_all_and_the_nearest_are_among_them(monkeypatch):
    monkeypatch.setattr(trees, "MOST_PAIRS", 100)
    rng = np.random.default_rng(0)
    together = np.arange(1000) < 300
    features = np.where(together[:, None], 0.0, 0.2 + rng.random((1000, 1))).astype(np.float32)
    features = np.column_stack([features, np.full(1000, np.nan)]).astype(np.float32)
    chosen, weight = sample_pairs(features, together, np.ones(1000), rng)
    assert len(chosen) == len(set(chosen.tolist())) == 100
    assert together[chosen].sum() == 50
    assert weight[together[chosen]].sum() == pytest.approx(300)
    assert weight[~together[chosen]].sum() == pytest.approx(700)
    nearest = 300 + np.argsort(features[300:, 0])[:25]
    assert set(nearest.tolist()) <= set(chosen[weight == 1.0].tolist())


def test_pairs_that_stand_for_others_are_sampled_as_often(monkeypatch):
    monkeypatch.setattr(trees, "MOST_PAIRS", 1000)
    rng = np.random.default_rng(0)
    together = np.arange(5000) < 10
    features = np.where(together[:, None], 0.0, 0.2 + rng.random((5000, 1))).astype(np.float32)
    stands_for = np.where(np.arange(5000) % 2, 1.0, 9.0)
    stands_for[together] = 1.0
    chosen, weight = sample_pairs(features, together, stands_for, rng)
    assert weight.sum() == pytest.approx(stands_for.sum(), rel=0.01)
    # Of the pairs that are not the nearest, nine in ten are of those that stand for nine: six standard errors.
    far = chosen[10 + 495 :]
    assert (stands_for[far] == 9).mean() == pytest.approx(0.9, abs=6 * np.sqrt(0.09 / len(far)))


def test_trees_never_turn_back():
    features, together = pair_features()
    found = fit_trees(features, ~together, -SIGN, np.random.default_rng(0))
    grid = np.tile(np.float32([0.5, 0.5, 0.5, np.nan]), (101, 1))
    for feature in range(3):
        line = grid.copy()
        line[:, feature] = np.linspace(0.0, 1.0, 101)
        assert (np.diff(found.log_odds(line)) >= -1e-12).all()


def test_a_hundred_matches_do_not_make_trees_sure_of_what_they_never_saw():
    rng = np.random.default_rng(3)
    together = np.arange(20_000) < 60
    features = rng.random((20_000, 12)).astype(np.float32)
    features[:60] *= 0.3
    taught = fit_trees(features[::2], together[::2], np.full(12, -1), rng)
    score = taught.log_odds(features[1::2])
    loss = np.logaddexp(0.0, np.where(together[1::2], -score, score)).sum() / together[1::2].sum()
    assert loss < 0.5


def test_trees_know_the_share_of_pairs_that_are_together():
    features, together = pair_features()
    found = fit_trees(features, together, SIGN, np.random.default_rng(0), n_rounds=5)
    assert found.prior[0] == pytest.approx(np.log(together.mean() / (1 - together.mean())))
