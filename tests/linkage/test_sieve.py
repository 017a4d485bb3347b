"""The sieve: its slopes, what it drops and why it may, and the shift that fits a larger data set."""

from __future__ import annotations

import numpy as np
import pytest

from scdp.blocking import connected_components
from scdp.linkage import blocked
from scdp.linkage.blocked import Sifted, broken_up
from scdp.linkage.pieces import Knots
from scdp.linkage.sieve import Halves, LabelledPairs, Sieve, counted, learn_sieve, objective

N_FIELDS = 3


def made_pairs(rng: np.random.Generator, n: int = 4000, n_clusters: int = 300) -> LabelledPairs:
    left, right = rng.integers(0, n_clusters, (2, n))
    right = np.where(rng.random(n) < 0.2, left, right)
    near = rng.beta(1, 6, (n, N_FIELDS))
    far = rng.beta(4, 2, (n, N_FIELDS))
    features = np.where((left == right)[:, None], near, far).astype(np.float32)
    features[rng.random(features.shape) < 0.1] = np.nan
    return LabelledPairs(features, left, right, rng.uniform(0.5, 2, n))


def test_derivatives_are_those_of_the_likelihood():
    rng = np.random.default_rng(0)
    pairs = made_pairs(rng, 200)
    knots = Knots.of(pairs.features, np.full(N_FIELDS, -1))
    places, n_pieces = knots.places(pairs.features), knots.at.shape[1] - 1
    flat = -np.abs(rng.normal(0, 0.5, N_FIELDS * n_pieces + N_FIELDS + 1))
    slope = objective(flat, places, pairs, n_pieces)[1]
    for place in range(len(flat)):
        high, low = flat.copy(), flat.copy()
        high[place] += 1e-6
        low[place] -= 1e-6
        change = objective(high, places, pairs, n_pieces)[0] - objective(low, places, pairs, n_pieces)[0]
        assert slope[place] == pytest.approx(change / 2e-6, abs=1e-5)


def test_a_larger_distance_never_speaks_for_being_together():
    sieve = Sieve.learn(made_pairs(np.random.default_rng(1)), 500)
    assert (np.diff(sieve.heights, axis=1) <= 0).all()


def test_log_odds_tell_pairs_apart_that_were_not_learned_from():
    rng = np.random.default_rng(2)
    sieve = Sieve.learn(made_pairs(rng), 500)
    new = made_pairs(rng)
    log_odds = sieve.log_odds(new.features)
    assert np.median(log_odds[new.together]) > 2
    assert np.median(log_odds[~new.together]) < -2


def test_the_shift_is_found_where_strangers_are_more_and_where_they_are_not():
    rng = np.random.default_rng(4)
    n_true, n_records = 20_000, 100_000
    sieve = Sieve(
        (0,), Knots(np.zeros((1, 2)), np.array([-1])), np.zeros((1, 2)), np.zeros(1), 0.0, 1000, np.zeros(0)
    )
    # Where one is as common as the other, the log-odds of a value s of these two are s.
    true = rng.normal(4.5, 3, n_true)
    few = rng.normal(-4.5, 3, n_true)
    sieve = Sieve(*sieve_parts(sieve), np.sort(rng.normal(4.5, 3, 2000)))
    for more in (1, 10, 100):
        strangers = np.repeat(few, more) + rng.normal(0, 0.01, n_true * more)
        shift = sieve.settled(counted(np.concatenate([true, strangers])), n_records)
        assert -np.log(100) <= shift <= 0
        assert shift == pytest.approx(-np.log(more), abs=0.5)


def sieve_parts(sieve: Sieve) -> tuple[object, ...]:
    return (sieve.order, sieve.knots, sieve.heights, sieve.missing, sieve.bias, sieve.n_records)


def test_without_certain_pairs_all_more_records_count_as_strangers():
    sieve = Sieve.learn(made_pairs(np.random.default_rng(5)), 500)
    assert sieve.settled(counted(np.array([0.0, 1.0])), 5000) == pytest.approx(-np.log(10))
    assert sieve.full_shift(500) == 0


def test_counts_of_parts_add_up_to_the_count_of_all():
    values = np.random.default_rng(6).normal(0, 30, 1000)
    assert (counted(values[:400]) + counted(values[400:]) == counted(values)).all()
    assert counted(values).sum() == 1000


def test_halves_judge_pairs_that_they_have_not_seen():
    rng = np.random.default_rng(7)
    pairs = made_pairs(rng)
    halves = Halves.learn(pairs, 500, np.random.default_rng(8))
    judged = halves.log_odds(pairs.features, pairs.left, pairs.right, 500)
    first = (halves.half[pairs.left] == 0) & (halves.half[pairs.right] == 0)
    second = halves.sieves[1]
    wanted = second.log_odds(pairs.features) + second.full_shift(500)
    assert judged[first] == pytest.approx(wanted[first])


def test_the_sieve_keeps_what_the_halves_thought_of_pairs_that_are_together():
    pairs = made_pairs(np.random.default_rng(9))
    sieve, _ = learn_sieve(pairs, 500, np.random.default_rng(10))
    assert len(sieve.together) == min(pairs.together.sum(), 2000)
    assert (np.diff(sieve.together) >= 0).all()
    assert np.median(sieve.together) > 2


def test_chains_of_unlikely_pairs_are_broken_up_and_others_left(monkeypatch):
    monkeypatch.setattr(blocked, "MOST_CONNECTED", 5)
    rng = np.random.default_rng(0)
    # A chain of 40 records, every fourth link unlikely, and a small component with an unlikely pair.
    left = np.append(np.arange(39), [50, 51])
    right = left + 1
    log_odds = np.where(np.arange(41) % 4 == 3, -4.5 + rng.random(41), 3.0)
    log_odds[-2:] = [-4.9, 2.0]
    found = broken_up(Sifted(left, right, np.zeros((41, 1), dtype=np.float32), log_odds), 60)
    assert connected_components(60, [(found.left, found.right)]).sizes.max() <= 5
    assert {(50, 51), (51, 52)} <= set(zip(found.left.tolist(), found.right.tolist(), strict=True))
    assert set(left[log_odds > 0]) <= set(found.left)
