"""One table under review: several people are asked, their answers are kept, and the beliefs follow.

The lock is held only for short steps. Learning and the choice of questions go on in a thread of their own, on a
snapshot, and what was answered meanwhile is added when they are done.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Protocol

import numpy as np

from scdp._typing import Floats, Integers
from scdp.errors import InputError
from scdp.review.beliefs import Beliefs
from scdp.review.quality import Answered, Quality, answered, estimate
from scdp.review.questions import ONE_IN_RANDOM, Ask, Question, choose_best, choose_random, draw_at_random, patterns_of
from scdp.table.decisions import Answer, Constraints, Decision, DecisionLog, decisions_of

# Questions that are ready before anybody asks for them.
N_READY = 12
N_RANDOM_READY = 4
# A question is kept for one person so long (in seconds); then others may be asked about its records.
KEPT_FOR = 900.0
RANDOM = re.compile(r"drawn at random, probability (0\.\d+|1\.0+)")
NAME = re.compile(r"[^\x00-\x1f\x7f]{1,80}")


class BeliefSource(Protocol):
    """Where beliefs come from."""

    def refresh(self, constraints: Constraints, before: Beliefs | None) -> Beliefs:
        """Beliefs by all that was decided; `before` is a snapshot."""
        ...

    def others(self, beliefs: Beliefs) -> tuple[Integers, Integers, Floats]:
        """Pairs that no draw puts together but may be the same, with their probabilities."""
        ...


@dataclass(frozen=True)
class Posed:
    """A question that somebody was asked, with a number of its own."""

    number: int
    question: Question


@dataclass(frozen=True)
class KeptAnswer:
    """An answer that was kept, to what, and what it tells of the quality if the question was drawn at random."""

    posed: Posed
    answer: Answer
    told: Answered | None


@dataclass
class Person:
    """Somebody who answers: the open question, until when it is kept for nobody else, and what can be taken back."""

    name: str | None
    open: Posed | None = None
    kept_until: float = 0.0
    given: list[KeptAnswer] = field(default_factory=list)
    note: str = ""

    def take_note(self) -> str:
        """What the next page is to say: once."""
        said, self.note = self.note, ""
        return said


class Session:
    """Questions, answers and what follows from them, for any number of people at once.

    Parameters
    ----------
    log : DecisionLog
        Keeps the answers.
    source : BeliefSource
        Gives the beliefs.
    seed : int
        Of the questions at random.
    ask_at_random : bool
        Whether one question in four is drawn at random.
    clock : function
        Gives the time in seconds.
    """

    def __init__(
        self,
        log: DecisionLog,
        source: BeliefSource,
        seed: int = 0,
        ask_at_random: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.log, self._source, self._clock = log, source, clock
        # One for each thread that draws.
        self._rng, self._rng_ahead = (np.random.default_rng([seed, stream]) for stream in (1, 2))
        self._ask_at_random = ask_at_random
        self._lock = threading.RLock()
        self.people: dict[str, Person] = {}
        self.n_answers = count_answers(log.decisions)
        self._n_posed = 0
        self._random = random_answers(log.decisions)
        self.beliefs = source.refresh(log.constraints, None)
        self._others = source.others(self.beliefs)
        self._ready: list[Question] = []
        self._ready_random: list[Question] = []
        self.quality: Quality | None = None
        self.problem = ""
        self.least_sure: list[int] = []
        self._version, self._done = 1, 0
        self._news, self._stopped = threading.Condition(self._lock), False
        self._thread = threading.Thread(target=self._work, name="scdp-review", daemon=True)

    def start(self) -> None:
        """Begin to learn in the background."""
        self._thread.start()

    def stop(self) -> None:
        """End the background work; all answers are on the disk already."""
        with self._lock:
            self._stopped = True
            self._news.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout=60)

    def settle(self) -> Beliefs:
        """The beliefs by all answers, also by those that the background has not come to; the session is over."""
        self.stop()
        with self._lock:
            if self.is_learning:
                self.beliefs = self._source.refresh(self.log.constraints, self.beliefs)
            return self.beliefs

    def person(self, key: str, name: str | None = None) -> Person:
        """The person of a browser or terminal, known by a key."""
        with self._lock:
            found = self.people.get(key)
            if found is None:
                found = self.people[key] = Person(name)
            return found

    def rename(self, key: str, name: str) -> None:
        """Give somebody a name, which is written beside the decisions."""
        name = " ".join(name.split())
        if not NAME.fullmatch(name):
            raise InputError("a name has 1 to 80 characters")
        with self._lock:
            self.person(key).name = name

    @property
    def is_learning(self) -> bool:
        """Whether answers are still to be taken into account in the background."""
        return self._done < self._version

    def pose(self, key: str) -> Posed | None:
        """The open question of a person, or the next one; None where nothing is worth asking.

        While a question is kept for somebody, nobody else is asked about its records.
        """
        with self._lock:
            person = self.person(key)
            if person.open is not None and not self._may_go_on(person):
                person.open = None
            if person.open is None:
                question = self._next(self._taken())
                if question is not None:
                    self._n_posed += 1
                    person.open = Posed(self._n_posed, question)
            person.kept_until = self._clock() + KEPT_FOR
            return person.open

    def _may_go_on(self, person: Person) -> bool:
        """Whether an open question is still this person's: after long, others may have it or have answered it."""
        assert person.open is not None
        if self._clock() < person.kept_until:
            return True
        rows = person.open.question.rows
        return self._taken(but=person).isdisjoint(rows) and not self._is_settled(rows)

    def _taken(self, but: Person | None = None) -> set[int]:
        """The records of all questions that are kept for somebody."""
        now = self._clock()
        kept = (one.open for one in self.people.values() if one is not but and now < one.kept_until)
        return {row for posed in kept if posed is not None for row in posed.question.rows}

    def _next(self, taken: set[int]) -> Question | None:
        ask = self._ask()
        if self._ask_at_random and self._n_posed % ONE_IN_RANDOM == ONE_IN_RANDOM - 1:
            drawn = self._next_at_random(ask, taken)
            if drawn is not None:
                return drawn
        while self._ready:
            question = self._ready.pop(0)
            if taken.isdisjoint(question.rows) and not self._is_settled(question.rows):
                return question
        self._ready = choose_best(ask, taken, n=N_READY)
        if self._ready:
            return self._ready.pop(0)
        return choose_random(ask, self._rng, taken) if self._ask_at_random else None

    def _next_at_random(self, ask: Ask, taken: set[int]) -> Question | None:
        """One that was drawn in the background, if it is still open: to draw among very many pairs takes a while."""
        while self._ready_random:
            question = self._ready_random.pop(0)
            left, right = (np.array([row]) for row in question.rows)
            decided = bool(self.beliefs.is_decided(left, right)[0])
            if not decided and question.rows not in ask.refused and taken.isdisjoint(question.rows):
                p = self.beliefs.probability(*question.rows)
                return replace(question, probability=(p,)) if p > 0.0 else question
        return choose_random(ask, self._rng, taken)

    def _ask(self) -> Ask:
        return Ask(self.beliefs, self.log.refused(), self._others)

    def _is_settled(self, rows: Sequence[int]) -> bool:
        """Whether decisions have answered a question before it was asked: all draws part its records alike."""
        draws = self.beliefs.columns(np.array(rows, dtype=np.int64))
        refused = self.log.refused()
        pairs = [(min(pair), max(pair)) for pair in combinations(rows, 2)]
        return not patterns_of(draws).any() or all(pair in refused for pair in pairs)

    def answer(self, key: str, number: int, blocks: Sequence[int] | None) -> None:
        """Keep the answer to a person's open question: the block of each record, or None if nobody can tell.

        An answer to a question that is not open any more (sent twice) changes nothing.
        """
        with self._lock:
            posed = self.person(key).open
            if posed is None or posed.number != number:
                return
            question = posed.question
            why = told = None
            if question.is_random:
                why = f"drawn at random, probability {question.probability[0]:.4f}"
                told = None if blocks is None else answered(question, blocks, self.n_answers)
            self._keep(key, posed, question.rows, blocks, why, told)

    def decide(self, key: str, rows: Sequence[int], blocks: Sequence[int]) -> None:
        """Keep what somebody decided about records without being asked."""
        with self._lock:
            posed = Posed(0, Question(tuple(rows), 0.0, False, ()))
            self._keep(key, posed, rows, blocks, None, None)
            # An accepted cluster looks as before, so it is said.
            self.person(key).note = "Kept. Undo takes it back."

    def _keep(
        self,
        key: str,
        posed: Posed,
        rows: Sequence[int],
        blocks: Sequence[int] | None,
        why: str | None,
        told: Answered | None,
    ) -> None:
        person = self.person(key)
        ids = [self.log.ids[row] for row in rows]
        answer = Answer(decisions_of(ids, blocks, person.name, why))
        self.log.append(answer)
        person.given.append(KeptAnswer(posed, answer, told))
        person.note = ""
        if person.open is not None and person.open.number == posed.number:
            person.open = None
        self.n_answers += 1
        if told is not None:
            self._random.append(told)
        if blocks is not None:
            self._condition(rows)
        self._wake()

    def _condition(self, rows: Iterable[int]) -> None:
        # Pages that are being made go on with the beliefs that they have.
        beliefs = self.beliefs.snapshot()
        beliefs.condition(self.log.constraints, rows)
        self.beliefs = beliefs

    def undo(self, key: str) -> bool:
        """Take back the last answer of a person and ask again; whether there was one."""
        with self._lock:
            person = self.person(key)
            if not person.given:
                return False
            given = person.given.pop()
            rows = given.posed.question.rows
            self.log.withdraw(given.answer)
            self.n_answers -= 1
            if given.told is not None:
                self._random = [one for one in self._random if one is not given.told]
            self._condition(rows)
            if given.posed.number and self._taken(but=person).isdisjoint(rows):
                person.open = given.posed
                person.kept_until = self._clock() + KEPT_FOR
            person.note = "Taken back."
            self._wake()
            return True

    def _wake(self) -> None:
        self._version += 1
        self._news.notify_all()

    def _work(self) -> None:
        while True:
            with self._lock:
                while self._done == self._version and not self._stopped:
                    self._news.wait()
                if self._stopped:
                    return
                version, constraints = self._version, self.log.constraints
                seen, before = list(self.log.decisions), self.beliefs.snapshot()
            try:
                beliefs = before if version == 1 else self._source.refresh(constraints, before)
                self._look(beliefs, version, seen)
            except Exception as error:
                # Answers are kept and conditioned on all the same; only learning stands still.
                with self._lock:
                    self.problem, self._done = f"Learning failed: {error}", version

    def _look(self, beliefs: Beliefs, version: int, seen: list[Decision]) -> None:
        """Choose questions and judge the quality by new beliefs, then let them hold."""
        others = self._source.others(beliefs)
        with self._lock:
            ask = Ask(beliefs, self.log.refused(), others)
            taken, random, n_answers = self._taken(), list(self._random), self.n_answers
        ready = choose_best(ask, taken, n=N_READY)
        at_random = draw_at_random(ask, self._rng_ahead, taken, N_RANDOM_READY) if self._ask_at_random else []
        quality = estimate(ask, random, n_answers)
        ranked = list_least_sure(beliefs)
        with self._lock:
            if self._stopped:
                return
            before, now = {id(one) for one in seen}, {id(one) for one in self.log.decisions}
            late = [one for one in self.log.decisions if id(one) not in before]
            gone = [one for one in seen if id(one) not in now]
            rows = {self.log.row_of[i] for one in (*late, *gone) for i in one.ids if i in self.log.row_of}
            if rows:
                beliefs.condition(self.log.constraints, rows)
            self.beliefs, self._others, self._ready, self.quality = beliefs, others, ready, quality
            self.least_sure, self._ready_random = ranked, at_random
            self._done, self.problem = version, ""


def count_answers(decisions: Sequence[Decision]) -> int:
    """How many answers the lines of a file are: those of one person in one second about common records are one."""
    count, last = 0, None
    for one in decisions:
        key = one.who, one.when
        if one.when is None or key != last:
            count += 1
        last = key
    return count


def random_answers(decisions: Sequence[Decision]) -> list[Answered]:
    """Answers in a file to questions that were drawn at random."""
    found = []
    for number, one in enumerate(decisions):
        told = RANDOM.fullmatch(one.why or "")
        if told is not None and one.decision != "cannot tell" and len(one.ids) == 2:
            question = Question((0, 1), 0.0, True, (float(told[1]),))
            found.append(answered(question, [0, int(one.decision == "different")], number))
    return found


def list_least_sure(beliefs: Beliefs, most: int = 2000) -> list[int]:
    """The first record of each cluster of two or more, those in most doubt first."""
    sizes = np.bincount(beliefs.answer, minlength=beliefs.n_records)
    pairs = beliefs.unsure.pairs
    p = pairs.probability
    doubt = np.zeros(beliefs.n_records)
    for end in (pairs.left, pairs.right):
        doubt += np.bincount(beliefs.answer[end], p * (1.0 - p), beliefs.n_records)
    rows = np.flatnonzero(sizes > 1)
    return [int(row) for row in rows[np.argsort(-doubt[rows], kind="stable")][:most]]
