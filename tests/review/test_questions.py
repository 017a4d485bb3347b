from __future__ import annotations

import numpy as np
import pytest
from benchmarks.labelling import choose, choose_nearest_half

from review_site import doubtful_draws
from scdp.partitions import canonical_labels
from scdp.review.beliefs import Beliefs
from scdp.review.questions import (
    MOST_SHOWN,
    ONE_IN_RANDOM,
    Ask,
    Worth,
    choose_best,
    draw_at_random,
    no_others,
    patterns_of,
)


def ask_about(draws: np.ndarray, n_members: int = 4, refused: frozenset = frozenset()) -> Ask:
    return Ask(Beliefs(draws, n_members=n_members), refused, no_others())


def test_patterns_are_partitions():
    draws = np.random.default_rng(0).integers(0, 4, (300, 5)).astype(np.int32)
    found = patterns_of(draws)
    plain = [tuple(canonical_labels(row).tolist()) for row in draws]
    for pattern in np.unique(found):
        assert len({plain[draw] for draw in np.flatnonzero(found == pattern)}) == 1
    assert len(set(plain)) == found.max() + 1


def plain_gain(draws: np.ndarray, rows: tuple[int, ...], threshold: float) -> float:
    """The expected gain in pairs, by going through all answers: the twin of `Worth.gain` without members."""
    n = draws.shape[1]

    def best(some: np.ndarray) -> float:
        return sum(max((some[:, i] == some[:, j]).mean() - threshold, 0.0) for i in range(n) for j in range(i + 1, n))

    answers: dict[tuple[int, ...], list[int]] = {}
    for number, draw in enumerate(draws):
        answers.setdefault(tuple(canonical_labels(draw[list(rows)]).tolist()), []).append(number)
    then = sum(len(some) / len(draws) * best(draws[some]) for some in answers.values())
    return then - best(draws)


@pytest.mark.parametrize("rows", [(0, 1), (0, 2), (0, 1, 2)])
def test_the_gain_is_the_expected_one(rows: tuple[int, ...]):
    draws = doubtful_draws(1, n_draws=60)
    worth = Worth(ask_about(draws, n_members=1))
    expected = plain_gain(draws, rows, worth.threshold) * worth.per_pair
    assert worth.gain(rows) == pytest.approx(expected)


def test_a_question_that_is_sure_gains_nothing():
    draws = np.zeros((20, 3), dtype=np.int32)
    assert Worth(ask_about(draws)).gain((0, 1)) == 0.0
    assert choose_best(ask_about(draws)) == []


def test_groups_in_doubt_are_asked_as_groups():
    question = choose_best(ask_about(doubtful_draws(4)))[0]
    assert len(question.rows) == 3
    assert len({row // 3 for row in question.rows}) == 1
    assert len(question.rows) <= MOST_SHOWN


def test_questions_of_a_set_share_no_record():
    found = choose_best(ask_about(doubtful_draws(6)), taken=[0], n=4)
    rows = [row for question in found for row in question.rows]
    assert len(rows) == len(set(rows))
    assert 0 not in rows


def test_what_nobody_could_tell_is_not_asked_again():
    draws = doubtful_draws(1)
    refused = frozenset({(0, 1), (0, 2), (1, 2)})
    rng = np.random.default_rng(0)
    for number in range(8):
        assert choose(ask_about(draws, refused=refused), number, rng) is None
        assert choose_nearest_half(ask_about(draws, refused=refused), number, rng) is None


def test_one_in_four_is_drawn_at_random():
    ask, rng = ask_about(doubtful_draws(5)), np.random.default_rng(0)
    asked = [choose(ask, number, rng) for number in range(12)]
    assert [question.is_random for question in asked] == [n % ONE_IN_RANDOM == 3 for n in range(12)]


def test_an_answer_that_tells_the_member_is_worth_more():
    """All pairs hang on the member in one block; in another, chance alone decides: the first teaches about others."""
    rng = np.random.default_rng(1)
    draws = np.tile(np.arange(40, dtype=np.int32), (80, 1))
    for draw in range(80):
        if draw % 2:
            draws[draw, 1:20:2] = draws[draw, 0:20:2]
        flips = rng.random(10) < 0.5
        draws[draw, 21:40:2] = np.where(flips, draws[draw, 20:40:2], draws[draw, 21:40:2])
    worth = Worth(ask_about(draws, n_members=2))
    assert worth.gain((0, 1)) > 2 * worth.gain((20, 21))


def test_questions_at_random_are_as_many_as_wanted_and_follow_the_doubt():
    ask = ask_about(doubtful_draws(30))
    drawn = [one for seed in range(40) for one in draw_at_random(ask, np.random.default_rng(seed), [0, 1, 2], 5)]
    assert len(drawn) == 200
    assert all(one.is_random and len(one.rows) == 2 for one in drawn)
    assert not any(row in (0, 1, 2) for one in drawn for row in one.rows)
    assert len({one.rows for one in draw_at_random(ask, np.random.default_rng(1), [], 50)}) == 50
    assert len(draw_at_random(ask_about(doubtful_draws(1)), np.random.default_rng(1), [], 50)) == 3
