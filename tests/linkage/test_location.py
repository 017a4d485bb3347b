"""Where strangers end in a table: members that agree, and labelled matches that tell how far to go back."""

import numpy as np
import pytest

from scdp.linkage import law
from scdp.linkage.law import Matches, choose_looked_at, measure_gaps, propose_moves, spread_moves, weigh_moves


def plain_gap(score, log_ratio, log_odds):
    """The twin: a mean over undecided pairs, by how undecided each is."""
    total = weight_of_all = 0.0
    for s, r in zip(score, log_ratio, strict=True):
        if abs(r + log_odds) < law.UNDECIDED:
            p = 1.0 / (1.0 + np.exp(-(r + log_odds)))
            total += p * (1.0 - p) * (s - r)
            weight_of_all += p * (1.0 - p)
    return total / weight_of_all


def test_gaps_are_those_of_undecided_pairs():
    rng = np.random.default_rng(0)
    log_ratio = rng.normal(0.0, 10.0, 400)
    scores = np.stack([1.3 * log_ratio + 2.0, log_ratio, log_ratio + rng.normal(size=400)])
    gaps = measure_gaps(scores, log_ratio, -4.0)
    assert gaps is not None
    for found, score in zip(gaps, scores, strict=True):
        assert found == pytest.approx(plain_gap(score, log_ratio, -4.0))
    # A steeper score is above the evidence where strangers end, which is at a log-ratio of 4.
    assert gaps[0] == pytest.approx(1.3 * 4.0 + 2.0 - 4.0, abs=0.5)
    assert gaps[1] == 0.0


def test_sure_pairs_tell_nothing_of_where_strangers_end():
    log_ratio = np.array([-30.0] * 50 + [30.0] * 50 + [0.0] * (law.FEWEST_UNDECIDED - 1))
    assert measure_gaps(log_ratio[None], log_ratio, 0.0) is None


def test_all_likely_pairs_are_looked_at_and_some_stand_for_the_rest(monkeypatch):
    monkeypatch.setattr(law, "SOME_OTHERS", 100)
    log_odds = np.concatenate([np.full(5000, -20.0), [-1.0, 3.0]])
    chosen, each = choose_looked_at(log_odds)
    assert {5000, 5001} <= set(chosen.tolist())
    assert each.sum() == pytest.approx(len(log_odds))
    assert len(chosen) == 102


def weigh(table, each, of_matches, gap, weight=None):
    """Moves down, and how likely each is."""
    weight = np.ones(len(of_matches)) if weight is None else weight
    moves, before = propose_moves(gap, float(weight.sum()))
    return moves, weigh_moves(moves, before, table, each, of_matches, weight)


def test_the_gap_is_taken_back_where_labelled_matches_do_not_need_it():
    # The table has 50 sure matches and 500 strangers that only the gap of 5 nats makes likely.
    table = np.concatenate([np.full(50, 15.0), np.full(500, 2.0)])
    sure, doubtful = np.full(14, 14.0), np.full(14, 1.0)
    each = np.ones(len(table))
    moves, unneeded = weigh(table, each, sure, 5.0)
    _, needed = weigh(table, each, doubtful, 5.0)
    assert unneeded.sum() == pytest.approx(1.0)
    assert unneeded @ moves > 0.8 * moves[-1] > needed @ moves
    assert needed[0] > unneeded[0]


def test_a_few_poor_matches_do_not_hold_the_line():
    table = np.concatenate([np.full(50, 15.0), np.full(500, 2.0)])
    poor = np.append(np.full(13, 14.0), -9.0)
    moves, found = weigh(table, np.ones(len(table)), poor, 5.0)
    assert found @ moves > 0.8 * moves[-1]


def test_many_labelled_matches_have_taught_where_the_line_is():
    table, each = np.full(50, 5.0), np.ones(50)
    few, _ = weigh(table, each, np.full(1, 5.0), 2.0)
    many, _ = weigh(table, each, np.full(400, 5.0), 2.0)
    assert few[-1] > 0.9 * 2.0
    assert many[-1] < 0.1 * 2.0


def test_a_pair_that_stands_for_many_counts_as_often():
    table, each = np.array([8.0, -1.0]), np.array([20.0, 300.0])
    repeated = np.repeat(table, each.astype(int))
    known, weight = np.array([5.0, 0.5]), np.array([1.0, 2.0])
    for gap in (3.0, -3.0):
        _, one = weigh(table, each, known, gap, weight)
        _, other = weigh(repeated, np.ones(len(repeated)), known, gap, weight)
        np.testing.assert_allclose(one, other)


def drawn_table(lift, n_matches=4000, seed=0):
    """Log-odds of the matches and strangers of a table, all of them too low by so much, and of labelled matches."""
    rng = np.random.default_rng(seed)
    # If matches are so distributed, and strangers fall off like this, the log-odds of a pair are what they say.
    matches = rng.normal(5.0, 2.5, 2 * n_matches)
    grid = np.linspace(-8.0, 16.0, 2401)
    density = np.exp(-0.5 * ((grid - 5.0) / 2.5) ** 2) / (2.5 * np.sqrt(2.0 * np.pi)) * n_matches
    strangers = np.repeat(grid, rng.poisson(density * np.exp(-grid) * (grid[1] - grid[0])))
    return np.concatenate([matches[:n_matches], strangers]) - lift, matches[n_matches:][:400] - lift


@pytest.mark.parametrize("lift", [0.0, 1.5, 3.0])
def test_the_line_is_moved_up_where_labelled_matches_tell_and_not_too_far(lift):
    """It falls short by some, since a tenth of labelled matches may be poor."""
    table, known = drawn_table(lift)
    moves, found = weigh(table, np.ones(len(table)), known, -8.0)
    assert lift - 1.2 < -(found @ moves) < lift + 0.3
    # No further than the evidence.
    near, _ = weigh(table, np.ones(len(table)), known, -1.2)
    assert near.tolist() == [0.0, -0.5, -1.0]


def test_a_few_labelled_matches_hardly_lift_the_line():
    table, known = drawn_table(0.0)
    moves, found = weigh(table, np.ones(len(table)), known[:3], -8.0)
    assert -(found @ moves) < 1.5


def test_members_stand_for_the_probabilities():
    moves = spread_moves(law.RETURNS, np.array([0.5, 0.0, 0.25, 0.0, 0.25]), 8)
    assert moves.tolist() == [0.0, 0.0, 0.0, 0.0, 0.5, 0.5, 1.0, 1.0]


def test_rarity_of_a_labelled_match_grows_with_the_table():
    # A value that only the match has, one that half of all records have, and two that differ.
    nats = np.log([40.0 / 2.0, 2.0, 1.0])
    features = np.column_stack([np.zeros(3), nats]).astype(np.float32)
    found = Matches(features, np.ones(3), 40, np.zeros(3)).among(4000, np.array([1, -1]))
    np.testing.assert_allclose(found[0, 1], np.log(4000.0 / 2.0), rtol=1e-5)
    np.testing.assert_allclose(found[1, 1], np.log(2.0), atol=0.11)
    assert found[2, 1] == 0.0
    np.testing.assert_array_equal(found[:, 0], features[:, 0])


def test_a_sample_of_matches_counts_as_all_of_them(monkeypatch):
    monkeypatch.setattr(law, "MOST_MATCHES", 10)
    rng = np.random.default_rng(0)
    features, weight = rng.random((50, 3)).astype(np.float32), rng.random(50) + 0.1
    # What is said too much for a match stays with it.
    some = Matches.sample(features, weight, 99, features[:, 0].astype(np.float64), rng)
    assert some.features.shape == (10, 3)
    assert some.weight.sum() == pytest.approx(weight.sum())
    np.testing.assert_array_equal(some.optimism, some.features[:, 0])
