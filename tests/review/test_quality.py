from __future__ import annotations

import numpy as np
import pytest

from review_site import doubtful_draws
from scdp.review.beliefs import Beliefs
from scdp.review.quality import SHIFT_SPREAD, WIDER, Interval, advise, answered, estimate, find_shift, widen
from scdp.review.questions import Ask, Question, no_others


def ask_random(n: int, true_shift: float, seed: int):
    rng = np.random.default_rng(seed)
    found = []
    for number in range(n):
        p = rng.uniform(0.05, 0.95)
        odds = np.log(p / (1 - p)) + true_shift
        same = rng.random() < 1 / (1 + np.exp(-odds))
        found.append(answered(Question((0, 1), 0.0, True, (p,)), [0, int(not same)], number))
    return found


def test_without_answers_nothing_but_the_prior_is_known():
    assert find_shift([], 0) == pytest.approx((0.0, SHIFT_SPREAD))


def test_random_answers_tell_how_wrong_probabilities_are():
    shift, spread = find_shift(ask_random(60, 2.0, 0), 60)
    assert spread < SHIFT_SPREAD / 1.5
    assert abs(shift - 2.0) < 3 * spread
    assert find_shift(ask_random(60, -2.0, 1), 60)[0] < -0.8


def test_the_estimate_is_the_expected_f_with_a_wider_interval():
    beliefs = Beliefs(doubtful_draws(60), n_members=4)
    quality = estimate(Ask(beliefs, frozenset(), no_others()), [], 0)
    draws = beliefs.columns(np.arange(beliefs.n_records))
    one, other = np.triu_indices(beliefs.n_records, k=1)
    linked = beliefs.answer[one] == beliefs.answer[other]
    f = [2 * (linked & t).sum() / (linked.sum() + t.sum()) for t in (draws[:, one] == draws[:, other])]
    assert quality.f.mean == pytest.approx(np.mean(f), abs=0.06)
    assert quality.f.low < np.quantile(f, 0.05) + 0.02
    assert quality.f.low < quality.f.mean < quality.f.high
    assert quality.gain.mean > 0.05


def test_ends_are_further_from_the_mean_in_log_odds():
    low, mean, high = 0.7, 0.9, 0.96
    found = widen(Interval(mean, low, high), 1e9)
    odds = [np.log(x / (1 - x)) for x in (low, mean, high, found.low, found.high)]
    assert found.mean == mean
    np.testing.assert_allclose([odds[1] - odds[3], odds[4] - odds[1]], WIDER * np.diff(odds[:3]))


@pytest.mark.parametrize(("n_pairs", "is_whole"), [(20, True), (2000, False)])
def test_where_less_than_half_a_pair_is_wrong_none_may_be(n_pairs: int, is_whole: bool):
    found = widen(Interval(0.9, 0.8, 0.98), n_pairs)
    assert (found.high == 1.0) == is_whole
    assert found.low < 0.8


def test_nothing_in_doubt_stays_a_point():
    assert widen(Interval(1.0, 1.0, 1.0), 50) == (1.0, 1.0, 1.0)


def test_sure_clusters_leave_nothing_to_gain():
    draws = np.tile(np.array([0, 0, 2, 2, 4], dtype=np.int32), (20, 1))
    quality = estimate(Ask(Beliefs(draws), frozenset(), no_others()), [], 30)
    assert quality.precision == Interval(1.0, 1.0, 1.0)
    # That no true pair is missing from all draws is not known for sure.
    assert quality.f.low < quality.f.mean < 1.0
    assert quality.f.high == 1.0
    # What is missing may be found, and no more than that.
    assert quality.gain == pytest.approx((0.0, 0.0, 1.0 - quality.f.mean))
    assert quality.clusters == (3, 3)


def test_to_stop_takes_answers_and_little_to_gain():
    little, much = Interval(0.001, 0.0, 0.01), Interval(0.05, 0.0, 0.1)
    f = Interval(0.95, 0.9, 0.98)
    assert not advise(f, little, 3, 1)[0]
    assert not advise(f, much, 30, 8)[0]
    assert advise(f, little, 30, 8)[0]


def test_scores_stay_within_bounds_where_few_pairs_are_true():
    """Of many pairs with small probabilities some draws have far fewer than the mean."""
    draws = np.tile(np.arange(120, dtype=np.int32), (40, 1))
    draws[0, 60:] = draws[0, :60]
    quality = estimate(Ask(Beliefs(draws, n_members=4), frozenset(), no_others()), [], 0)
    for found in (quality.f, quality.precision, quality.recall):
        assert 0.0 <= found.low <= found.high <= 1.0


def test_records_that_all_seem_strangers_are_no_reason_to_stop():
    """No draw links anything, and the answers say that some pairs are the same: F is not known at all."""
    draws = np.tile(np.arange(60, dtype=np.int32), (40, 1))
    others = (np.arange(0, 40, 2), np.arange(1, 40, 2), np.full(20, 0.01))
    told = [answered(Question((0, 1), 0.0, True, (0.01,)), [0, 0], number) for number in range(6)]
    quality = estimate(Ask(Beliefs(draws, n_members=4), frozenset(), others), told, 20)
    assert quality.f.mean < 0.5
    assert quality.gain.high > 0.5
    assert not quality.stop
