"""Which question to ask next: the one whose answer is expected to improve the result most, and some at random.

A question shows two to eight records and is answered by their partition. Its worth is the expected gain in pairwise F,
computed from draws: what each answer would change among the records nearby, and how much it would tell about the
parameters of the model, on which all other records hang.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from scdp._typing import Floats, Integers, SmallIntegers
from scdp.review.beliefs import Beliefs

MOST_SHOWN = 8
# Of so many questions one is drawn at random, whatever it is worth.
ONE_IN_RANDOM = 4
# Pairs that are looked at as the beginning of a question, and records near it that its answer may change.
N_SEEDS = 40
MOST_NEAR = 24
# A record is shown as one more when it adds this share to the worth of the question.
WORTH_SHOWING = 0.12
# Probabilities are as good as sure beyond this.
SURE = 0.02


@dataclass(frozen=True)
class Question:
    """Records (by row) to be told apart, and what an answer is expected to bring.

    Parameters
    ----------
    rows : tuple of int
        Two to eight records.
    gain : float
        The expected gain in pairwise F.
    is_random : bool
        Whether it was drawn at random, so that its answer tells how good the result is.
    probability : tuple of float
        Of each pair of the rows (in the order of `numpy.triu_indices`) for being the same, when it was asked.
    """

    rows: tuple[int, ...]
    gain: float
    is_random: bool
    probability: tuple[float, ...]


class Ask(NamedTuple):
    """What is needed to choose questions: beliefs, pairs not to be asked about, and other pairs that may be the same.

    `others` are pairs that no draw puts together, with their small probabilities; random questions look there too.
    """

    beliefs: Beliefs
    refused: frozenset[tuple[int, int]]
    others: tuple[Integers, Integers, Floats]


def no_others() -> tuple[Integers, Integers, Floats]:
    none = np.zeros(0, dtype=np.int64)
    return none, none, np.zeros(0)


class Worth:
    """The worth of questions under some beliefs."""

    def __init__(self, ask: Ask) -> None:
        self.ask, self.beliefs = ask, ask.beliefs
        pairs, n_sure, _ = self.beliefs.unsure
        p = pairs.probability
        self.threshold = self.beliefs.threshold
        # Gains are in pairs; F has about as many in its denominator as are linked and true.
        self.per_pair = 2.0 / max(self.beliefs.n_links + float(p.sum()) + n_sure, 1.0)
        # Where all is as good as sure, nothing is to be asked.
        component = self.beliefs.component
        doubtful = np.zeros(self.beliefs.n_records, dtype=bool)
        doubtful[component[pairs.left[(p > SURE) & (p < 1.0 - SURE)]]] = True
        pairs = pairs.take(doubtful[component[pairs.left]] | doubtful[component[pairs.right]])
        self.left, self.right, self.by_member = pairs
        self.probability = pairs.probability
        order = np.argsort(np.concatenate([self.left, self.right]), kind="stable")
        ends = np.concatenate([self.left, self.right])[order]
        self._other = np.concatenate([self.right, self.left])[order]
        self._pair = np.concatenate([np.arange(len(self.left))] * 2)[order]
        self._ends = ends
        self.knowing_the_member = self._value_of_member()

    def _value_of_member(self) -> float:
        """What it would gain to know which member is right."""
        if self.beliefs.n_members < 2:
            return 0.0
        each = np.maximum(self.by_member - self.threshold, 0.0).sum(axis=1).mean()
        return max(float(each - np.maximum(self.probability - self.threshold, 0.0).sum()), 0.0)

    def neighbours(self, row: int) -> tuple[Integers, Floats]:
        """Records that some draw puts together with a record, and the probabilities."""
        begin, end = np.searchsorted(self._ends, [row, row + 1])
        return self._other[begin:end], self.probability[self._pair[begin:end]]

    def seeds(self, n: int = N_SEEDS) -> Integers:
        """The pairs whose answer alone would gain most, those first that stand for many."""
        p, t = self.probability, self.threshold
        alone = np.where(p < t, p * (1.0 - t), t * (1.0 - p))
        alone[(p < SURE) | (p > 1.0 - SURE)] = 0.0
        sizes = np.bincount(self.beliefs.answer, minlength=1)[self.beliefs.answer]
        stands_for = np.sqrt(np.minimum(sizes[self.left] * sizes[self.right], 16.0))
        alone *= stands_for
        some = np.argpartition(-alone, min(4 * n, len(alone) - 1))[: 4 * n] if len(alone) > 4 * n else ()
        chosen = np.asarray(some if len(some) else np.arange(len(alone)), dtype=np.int64)
        chosen = chosen[np.argsort(-alone[chosen], kind="stable")]
        return np.array([pair for pair in chosen.tolist() if alone[pair] > 0 and not self._refused(pair)][:n])

    def _refused(self, pair: int) -> bool:
        return (int(self.left[pair]), int(self.right[pair])) in self.ask.refused

    def gain(self, rows: Sequence[int]) -> float:
        """The expected gain in F from the answer to a question about these records."""
        near = self._near(rows)
        draws = self.beliefs.columns(near)
        patterns = patterns_of(draws[:, : len(rows)])
        one, other = np.triu_indices(len(near), k=1)
        together = draws[:, one] == draws[:, other]
        whole = np.maximum(together.mean(axis=0) - self.threshold, 0.0).sum()
        then = 0.0
        for pattern in range(int(patterns.max()) + 1):
            chosen = patterns == pattern
            then += chosen.mean() * np.maximum(together[chosen].mean(axis=0) - self.threshold, 0.0).sum()
        told = self._information(patterns) * self.knowing_the_member
        return float(max(then - whole, 0.0) + told) * self.per_pair

    def _near(self, rows: Sequence[int]) -> Integers:
        """The records of a question, then those that its answer may move."""
        found: dict[int, float] = {}
        for row in rows:
            for other, p in zip(*(each.tolist() for each in self.neighbours(row)), strict=True):
                found[other] = max(found.get(other, 0.0), p)
        more = sorted((other for other in found if other not in rows), key=lambda other: -found[other])
        return np.array([*rows, *more[: MOST_NEAR - len(rows)]], dtype=np.int64)

    def _information(self, patterns: Integers) -> float:
        """The share of what is unknown about the member that the answer tells (0 to 1)."""
        n_members = self.beliefs.n_members
        if n_members < 2:
            return 0.0
        n_patterns = int(patterns.max()) + 1
        if n_patterns == 1:
            return 0.0
        member = np.arange(len(patterns)) % n_members
        counts = np.zeros((n_members, n_patterns))
        np.add.at(counts, (member, patterns), 1.0)
        joint = counts / counts.sum()
        expected = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            told = float(np.where(joint > 0, joint * np.log(joint / expected), 0.0).sum())
        # What chance alone would seem to tell, with so few draws.
        told -= (n_members - 1) * (n_patterns - 1) / (2.0 * len(patterns))
        return min(max(told / np.log(n_members), 0.0), 1.0)

    def grow(self, rows: tuple[int, ...]) -> tuple[tuple[int, ...], float]:
        """The question with records added as long as each adds enough, and its gain."""
        gain = self.gain(rows)
        while len(rows) < MOST_SHOWN:
            tried = [(self.gain((*rows, row)), row) for row in self._candidates(rows)]
            best, row = max(tried, default=(0.0, -1))
            if best < (1.0 + WORTH_SHOWING) * gain or best <= 0.0:
                break
            rows, gain = (*rows, row), best
        return rows, gain

    def _candidates(self, rows: tuple[int, ...], most: int = 6) -> list[int]:
        """Records in doubt with one of these."""
        doubt: dict[int, float] = {}
        for row in rows:
            others, p = self.neighbours(row)
            for other, each in zip(others.tolist(), p.tolist(), strict=True):
                free = other not in rows and (min(row, other), max(row, other)) not in self.ask.refused
                if free and SURE < each < 1.0 - SURE:
                    doubt[other] = max(doubt.get(other, 0.0), each * (1.0 - each))
        return sorted(doubt, key=lambda other: (-doubt[other], other))[:most]


def patterns_of(draws: SmallIntegers) -> Integers:
    """By draw, the number of the partition that it makes of these records (at most eight)."""
    code = np.zeros(len(draws), dtype=np.int64)
    for place in range(1, draws.shape[1]):
        first = np.argmax(draws[:, : place + 1] == draws[:, place : place + 1], axis=1)
        code = code * MOST_SHOWN + first
    found: Integers = np.unique(code, return_inverse=True)[1].ravel()
    return found


def choose_best(ask: Ask, taken: Iterable[int] = (), n: int = 1) -> list[Question]:
    """The questions worth most, the best first; none shows a record that is taken or in another of them.

    Parameters
    ----------
    ask : Ask
        Beliefs, and what is not to be asked.
    taken : iterable of int
        Records that others are being asked about.
    n : int
        How many.

    Returns
    -------
    list of Question
        Fewer where fewer are worth asking.
    """
    worth = Worth(ask)
    seen = set(taken)
    found: list[Question] = []
    single: list[tuple[float, tuple[int, ...]]] = []
    for pair in worth.seeds(max(N_SEEDS, 2 * n)).tolist():
        rows = (int(worth.left[pair]), int(worth.right[pair]))
        single.append((worth.gain(rows), rows))
    single.sort(reverse=True)
    # The best beginnings are grown to groups; of many that are wanted, growing all would take long.
    grown = [worth.grow(rows) for _, rows in single[: max(8, min(n, 20))]]
    rest = [(rows, gain) for gain, rows in single[max(8, min(n, 20)) :]]
    for group, gain in sorted([*grown, *rest], key=lambda each: (-each[1], each[0])):
        if len(found) < n and gain > 0 and seen.isdisjoint(group):
            seen |= set(group)
            found.append(Question(group, gain, False, probabilities_of(ask.beliefs, group)))
    return found


def choose_random(ask: Ask, rng: np.random.Generator, taken: Iterable[int] = ()) -> Question | None:
    """A pair at random, likelier where more is in doubt; None where there is none."""
    found = draw_at_random(ask, rng, taken, 1)
    return found[0] if found else None


def draw_at_random(ask: Ask, rng: np.random.Generator, taken: Iterable[int], n_wanted: int) -> list[Question]:
    """Some pairs at random, likelier where more is in doubt.

    Every pair that may be the same has a chance, so that the answers tell how good the probabilities are.
    """
    beliefs = ask.beliefs
    p = np.concatenate([beliefs.pairs.probability, ask.others[2]])
    left = np.concatenate([beliefs.pairs.left, ask.others[0]])
    right = np.concatenate([beliefs.pairs.right, ask.others[1]])
    chance = p * (1.0 - p) + 0.02 * np.sqrt(p)
    chance[p >= 1.0] = 0.002
    n = beliefs.n_records
    refused = [one * n + other for one, other in ask.refused]
    chance[np.isin(left * n + right, refused) | beliefs.is_decided(left, right)] = 0.0
    busy = list(taken)
    chance[np.isin(left, busy) | np.isin(right, busy)] = 0.0
    if not chance.sum() > 0.0:
        return []
    n_drawn = min(n_wanted, int(np.count_nonzero(chance)))
    drawn = rng.choice(len(chance), n_drawn, replace=False, p=chance / chance.sum()).tolist()
    found = []
    for pair in drawn:
        rows = (int(left[pair]), int(right[pair]))
        found.append(Question(rows, 0.0, True, probabilities_of(beliefs, rows, float(p[pair]))))
    return found


def probabilities_of(beliefs: Beliefs, rows: tuple[int, ...], least: float | None = None) -> tuple[float, ...]:
    """Of each pair of the rows for being the same; `least` stands in where no draw has a pair together."""
    draws = beliefs.columns(np.array(rows, dtype=np.int64))
    one, other = np.triu_indices(len(rows), k=1)
    found = (draws[:, one] == draws[:, other]).mean(axis=0)
    if least is not None:
        found = np.maximum(found, least)
    return tuple(float(each) for each in found)
