"""How good the result is, and what more answers would bring: beliefs and random answers enter; F with intervals leaves.

Draws tell the expected F as far as the model is right. Whether it is right is told by questions that were drawn at
random: their answers shift the log-odds of all pairs, and how far is known no better than these answers tell. How steep
log-odds should be, and how many true pairs no draw has, is unsure to begin with as it is for kept results
(`estimators/fitted.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from scdp._typing import Booleans, Floats, Integers
from scdp.estimators.fitted import PRIOR_CLUSTERS, SLOPE_SPREAD
from scdp.review.beliefs import Beliefs
from scdp.review.questions import Ask, Question, choose_best, patterns_of

LEVEL = 0.9
# Before any answer, log-odds are too high or too low by so much (standard deviation); answers of long ago count less.
SHIFT_SPREAD = 0.8
HALF_LIFE = 40.0
N_SHIFTS = 200
N_AHEAD = 20
N_TRUTHS = 32
# Answers teach beside what they settle: gains are larger by this factor, which is known no better than its spread (of
# the logarithm). From the first runs of benchmarks/labelling.py on two tables.
LEARNING, LEARNING_SPREAD = 1.6, 0.5
# Draws share one model, and do not know where it is wrong: so much further from the mean are the ends of intervals of
# F, on the scale of log-odds. In the runs of benchmarks/labelling.py on five tables nine of ten hold with it.
WIDER = 1.5
# With so little to gain from twenty answers, one may stop.
LITTLE_GAIN = 0.005
# Unless nothing is in doubt, and yet so much of F may be missing.
MUCH_ROOM = 0.1
FEWEST_ANSWERS, FEWEST_RANDOM = 12, 3
# The share of wrong answers that is reckoned with when answers are simulated.
ERROR_RATE = 0.02


class Interval(NamedTuple):
    """A mean, and an interval that holds with probability .9."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Quality:
    """How good the answer is, what twenty more answers are expected to add to its F, and whether to stop."""

    f: Interval
    precision: Interval
    recall: Interval
    gain: Interval
    n_clusters: int
    clusters: tuple[int, int]
    stop: bool
    advice: str


class Answered(NamedTuple):
    """A random question that was answered: the log-odds of its pairs when it was asked, and which are the same."""

    log_odds: Floats
    same: Booleans
    number: int


def answered(question: Question, blocks: Sequence[int], number: int) -> Answered:
    """From the block of each record in the answer."""
    block = np.asarray(blocks)
    one, other = np.triu_indices(len(block), k=1)
    p = np.clip(np.array(question.probability), 0.002, 0.998)
    return Answered(np.log(p / (1.0 - p)), block[one] == block[other], number)


def find_shift(answers: Sequence[Answered], n_asked: int) -> tuple[float, float]:
    """How much higher the log-odds of pairs should be by random answers, and the standard deviation of that."""
    shift, precision = 0.0, 1.0 / SHIFT_SPREAD**2
    for _ in range(30):
        slope, curve = -shift / SHIFT_SPREAD**2, 1.0 / SHIFT_SPREAD**2
        for one in answers:
            # The pairs of one question are hardly more than one answer.
            weight = 0.5 ** ((n_asked - one.number) / HALF_LIFE) / np.sqrt(len(one.same))
            p = 1.0 / (1.0 + np.exp(-(one.log_odds + shift)))
            slope += weight * float((one.same - p).sum())
            curve += weight * float((p * (1.0 - p)).sum())
        step = slope / curve
        shift, precision = shift + float(np.clip(step, -1.0, 1.0)), curve
        if abs(step) < 1e-6:
            break
    return float(np.clip(shift, -4.0, 4.0)), float(1.0 / np.sqrt(precision))


def estimate(ask: Ask, answers: Sequence[Answered], n_asked: int, seed: int = 0) -> Quality:
    """The quality of the answer.

    Parameters
    ----------
    ask : Ask
        The beliefs now.
    answers : sequence of Answered
        To questions that were drawn at random.
    n_asked : int
        All questions that were answered.
    seed : int
        Of the simulation.

    Returns
    -------
    Quality
    """
    beliefs, rng = ask.beliefs, np.random.default_rng(seed)
    shift, spread = find_shift(answers, n_asked)
    pairs, n_sure, n_sure_linked = beliefs.unsure
    p = np.concatenate([pairs.probability, ask.others[2]])
    linked = np.concatenate(
        [beliefs.answer[pairs.left] == beliefs.answer[pairs.right], np.zeros(len(ask.others[2]), bool)]
    )
    floor = 0.5 / (beliefs.n_draws + 1.0)
    doubtful = (p > 0.0) & (p < 1.0)
    log_odds = np.clip(np.log(np.clip(p, floor, 1 - floor) / np.clip(1 - p, floor, 1 - floor)), -8, 8)
    sure_true = float((~doubtful).sum() + n_sure)
    sure_linked = float((~doubtful & linked).sum() + n_sure_linked)
    n_links = beliefs.n_links
    log_odds, own = log_odds[doubtful], linked[doubtful]
    by_draw = _spread_over_draws(beliefs)
    values = []
    for shifted in shift + spread * rng.standard_normal(N_SHIFTS):
        slope = max(1.0 + SLOPE_SPREAD * rng.standard_normal(), 0.0)
        missed = rng.beta(0.5, PRIOR_CLUSTERS + len(answers))
        q = 1.0 / (1.0 + np.exp(-(slope * log_odds + shifted)))
        right = sure_linked + float(q[own].sum())
        true = (sure_true + float(q.sum())) / (1.0 - missed)
        off = by_draw[int(rng.integers(len(by_draw)))]
        values.append(_scores(right + off[0], true + off[1], n_links))
    n_true = sure_true + float(p[doubtful].sum())
    n_pairs = (float(n_links), n_true, (n_links + n_true) / 2.0)
    precision, recall, f = (
        widen(interval(each), among) for each, among in zip(np.array(values).T, n_pairs, strict=True)
    )
    gain = predict_gain(ask, rng, spread, max(1.0 - f.mean, 0.0))
    stop, advice = advise(f, gain, n_asked, len(answers))
    return Quality(f, precision, recall, gain, beliefs.n_clusters, _cluster_interval(beliefs), stop, advice)


def _scores(right: float, true: float, links: float) -> tuple[float, float, float]:
    # Pairs are whole: with half a pair in doubt all may well be right.
    true = float(max(round(true), 0))
    right = min(float(max(round(right), 0)), links, true)
    return (
        right / links if links else 1.0,
        right / true if true > 0 else 1.0,
        2.0 * right / (links + true) if links + true > 0 else 1.0,
    )


def _spread_over_draws(beliefs: Beliefs, most: int = 60) -> list[tuple[float, float]]:
    """By draw: how many more linked pairs are right, and how many more pairs are true, than in the mean."""
    pairs = beliefs.unsure.pairs
    linked = beliefs.answer[pairs.left] == beliefs.answer[pairs.right]
    found = []
    rows = np.union1d(pairs.left, pairs.right)
    if not len(rows):
        return [(0.0, 0.0)]
    left, right = np.searchsorted(rows, pairs.left), np.searchsorted(rows, pairs.right)
    draws = beliefs.columns(rows)
    for draw in range(0, beliefs.n_draws, max(beliefs.n_draws // most, 1)):
        together = draws[draw, left] == draws[draw, right]
        found.append((float((together & linked).sum()), float(together.sum())))
    means = np.mean(found, axis=0)
    return [(right - means[0], true - means[1]) for right, true in found]


def interval(values: Floats) -> Interval:
    """The mean and the central interval."""
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(np.mean(values)), float(low), float(high))


def widen(found: Interval, n_pairs: float) -> Interval:
    """The same mean with ends further away; where that leaves less than half of so many pairs wrong, none may be."""
    mean, low, high = (float(np.log(x) - np.log1p(-x)) for x in np.clip(found, 1e-6, 1.0 - 1e-6))
    ends = (1.0 / (1.0 + np.exp(-(mean + WIDER * (end - mean)))) for end in (low, high))
    low, high = (float(1.0 if (1.0 - end) * n_pairs < 0.5 else end) for end in ends)
    return Interval(found.mean, min(low, found.low), max(high, found.high))


def _cluster_interval(beliefs: Beliefs) -> tuple[int, int]:
    low, high = np.quantile(beliefs.count_clusters(), [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="inverted_cdf")
    return int(low), int(high)


def predict_gain(ask: Ask, rng: np.random.Generator, spread: float, room: float) -> Interval:
    """What twenty more answers would add to the F of the answer, if draws are taken for the truth in turn.

    Where the draws leave nothing to ask, it may be anything up to the room that is left to 1.
    """
    questions = choose_best(ask, n=N_AHEAD)
    beliefs = ask.beliefs
    pairs, n_sure, n_sure_linked = beliefs.unsure
    if not questions or not len(pairs.left):
        return Interval(0.0, 0.0, room)
    rows = np.union1d(pairs.left, pairs.right)
    draws = beliefs.columns(rows)
    left, right = np.searchsorted(rows, pairs.left), np.searchsorted(rows, pairs.right)
    patterns = [patterns_of(draws[:, np.searchsorted(rows, question.rows)]) for question in questions]
    near = [_pairs_near(pairs.left, pairs.right, question.rows) for question in questions]
    linked = beliefs.answer[pairs.left] == beliefs.answer[pairs.right]
    n_members = beliefs.n_members
    gains = []
    for truth in rng.choice(beliefs.n_draws, min(N_TRUTHS, beliefs.n_draws), replace=False):
        true = draws[truth, left] == draws[truth, right]
        weight = np.ones(n_members)
        for pattern in patterns:
            agrees = pattern == pattern[truth]
            own = np.array([agrees[member::n_members].mean() for member in range(n_members)])
            weight *= own + ERROR_RATE
        p = (weight / weight.sum()) @ pairs.by_member
        for pattern, around in zip(patterns, near, strict=True):
            agreeing = np.flatnonzero(pattern == pattern[truth])
            p[around] = (draws[np.ix_(agreeing, left[around])] == draws[np.ix_(agreeing, right[around])]).mean(axis=0)
        before = _f(linked, true, n_sure, n_sure_linked)
        gains.append((_f(p >= beliefs.threshold, true, n_sure, n_sure) - before, 1.0 - before))
    settled, rooms = np.tile(np.array(gains).T, 10)
    factor = LEARNING * np.exp(LEARNING_SPREAD * rng.standard_normal(len(settled)))
    # That the model learns may also hurt: that is known no better than the shift.
    noise = rng.standard_normal(len(settled)) * spread * 0.25 * rooms.mean()
    return interval(np.minimum(settled * factor + noise, rooms))


def _pairs_near(left: Integers, right: Integers, rows: Sequence[int]) -> Integers:
    chosen = np.array(rows, dtype=np.int64)
    return np.flatnonzero(np.isin(left, chosen) | np.isin(right, chosen))


def _f(linked: Booleans, true: Booleans, n_sure: int, n_sure_linked: int) -> float:
    """F of pairs in doubt, and of sure ones beside them, which are all true."""
    total = float(linked.sum() + true.sum() + n_sure + n_sure_linked)
    return 2.0 * float((linked & true).sum() + n_sure_linked) / total if total else 1.0


def advise(f: Interval, gain: Interval, n_asked: int, n_random: int) -> tuple[bool, str]:
    """Whether to stop, in words."""
    if n_asked < FEWEST_ANSWERS or n_random < FEWEST_RANDOM:
        more = max(FEWEST_ANSWERS - n_asked, 1)
        return False, f"Too early to say: answer about {more} more questions."
    if gain.mean < LITTLE_GAIN and gain.high < MUCH_ROOM:
        return True, f"You can stop: twenty more answers are expected to add {gain.mean:.3f} to F."
    return (False, f"Go on: twenty more answers are expected to add {gain.mean:.3f} to F (up to {gain.high:.3f}).")
