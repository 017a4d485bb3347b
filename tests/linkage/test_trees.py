"""Boosted trees as arrays say what scikit-learn says."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from scdp.linkage import trees
from scdp.linkage.trees import LARGEST_SCORE, Trees, fit_trees, sampled


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


def test_trees_know_the_share_of_pairs_that_are_together():
    features, together = pair_features()
    found = fit_trees(features, together, np.random.default_rng(0), n_rounds=5)
    assert found.prior[0] == pytest.approx(np.log(together.mean() / (1 - together.mean())))
