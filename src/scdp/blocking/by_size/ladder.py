"""Blockings for tables of any size: learned from labelled records where these are enough, else made for the columns.

A block that is small among few records is too large among many. So blockings are learned for two sizes, and for larger
tables their rules are chosen by what they cost there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from scdp._typing import Integers
from scdp.blocking import (
    Blocking,
    Rule,
    candidate_pairs,
    equal,
    learn_blockings,
    overlap,
    qgrams,
    text,
    tokens,
)
from scdp.blocking.by_size.pool import ChosenBlocking, RulePool
from scdp.blocking.estimates import scaled_up_candidates
from scdp.blocking.hashes import scattered
from scdp.blocking.keys import TextColumns
from scdp.blocking.training import profile
from scdp.errors import InputError
from scdp.table.records import Records
from scdp.table.spec import Spec

# True pairs that are never compared are lost, so the first blocking keeps nearly all; the others are for more records.
RECALLS = (0.998, 0.99, 0.95)
MANY = 10_000
RECALLS_OF_MANY = (0.99, 0.98, 0.97, 0.95)
# Fewer labelled pairs than this teach no blocking.
FEWEST_PAIRS = 100
# A blocking that would make more candidates a record than this is too thorough for so many records.
MOST_CANDIDATES_A_RECORD = 64
SAMPLE = 20_000
# Blockings are learned from whole clusters of at most so many records.
MOST_TAUGHT = 6_000


class Step(NamedTuple):
    """Blockings for up to so many records, the most thorough first."""

    n_records: int
    blockings: tuple[Blocking, ...]


class Ladder(NamedTuple):
    """Blockings by size of the table, and rules for larger ones; without any, one is made for the columns at hand."""

    steps: tuple[Step, ...]
    pool: RulePool | None = None

    def choose(self, records: Records, spec: Spec) -> ChosenBlocking:
        """The most thorough blocking whose candidates are not too many."""
        if not self.steps:
            return ChosenBlocking(default_blocking(records, spec), float("nan"))
        fitting = [step for step in self.steps if step.n_records >= len(records)]
        if not fitting and self.pool is not None and self.pool.rules:
            return self.pool.choose(records, column_names(spec))
        *others, last = (fitting or self.steps[-1:])[0].blockings
        cheap = (each for each in others if candidates_a_record(records, each) <= MOST_CANDIDATES_A_RECORD)
        return ChosenBlocking(next(cheap, last), float("nan"))

    def to_words(self) -> dict[str, Any]:
        steps = [
            {"n_records": step.n_records, "blockings": [each.to_dict() for each in step.blockings]}
            for step in self.steps
        ]
        return {"steps": steps} if self.pool is None else {"steps": steps, "pool": self.pool.to_words()}

    @classmethod
    def from_words(cls, stored: object) -> Ladder:
        """What `to_words` gave, checked."""
        try:
            assert isinstance(stored, Mapping)
            steps = tuple(map(_read_step, stored["steps"]))
            return cls(steps, RulePool.from_words(stored["pool"]) if "pool" in stored else None)
        except (AssertionError, KeyError, TypeError, ValueError) as error:
            raise InputError("'blockings' is not what belongs there") from error


def column_names(spec: Spec) -> tuple[str, ...]:
    """The columns that a spec compares."""
    return tuple(dict.fromkeys(name for field in spec.fields for name in field.columns))


def _read_step(stored: object) -> Step:
    if not isinstance(stored, Mapping) or not isinstance(stored.get("blockings"), list):
        raise InputError("'blockings' is not what belongs there")
    size, blockings = stored.get("n_records"), stored["blockings"]
    sound = isinstance(size, int) and not isinstance(size, bool) and size > 0 and blockings
    if not sound or not all(isinstance(each, Mapping) for each in blockings):
        raise InputError("'blockings' is not what belongs there")
    return Step(int(size or 0), tuple(map(Blocking.from_dict, blockings)))


def learn_ladder(records: Records, spec: Spec, cluster: Integers, seed: int) -> Ladder:
    """From labelled records; an empty one where they are too few to learn from."""
    sizes = np.bincount(cluster)
    if int((sizes * (sizes - 1) // 2).sum()) < FEWEST_PAIRS:
        return Ladder(())
    some, known = _take_some(records, cluster, seed)
    steps = []
    wanted = [(len(records), RECALLS), *([(MANY, RECALLS_OF_MANY)] if len(records) < MANY else [])]
    for size, recalls in wanted:
        try:
            found = learn_blockings(
                some,
                known,
                recalls,
                spec=spec,
                n_records=max(size, len(some)),
                links=size == len(records),
                random_state=seed % 2**31,
            )
        except InputError:
            # What cannot be blocked by rules that were learned still can by rules for any table.
            continue
        steps.append(Step(size, tuple(dict.fromkeys(found))))
    return Ladder(tuple(steps), RulePool.learn(some, column_names(spec), known, seed) if steps else None)


def _take_some(records: Records, cluster: Integers, seed: int) -> tuple[Records, Integers]:
    """The records of whole clusters drawn by chance, where there are more than teach anything new."""
    if len(cluster) <= MOST_TAUGHT:
        return records, cluster
    order = np.random.default_rng([seed, 5]).permutation(cluster.max() + 1)
    # At least two, however large: one cluster alone tells nothing apart.
    n_drawn = max(2, int((np.cumsum(np.bincount(cluster)[order]) <= MOST_TAUGHT).sum()))
    items = np.flatnonzero(np.isin(cluster, order[:n_drawn]))
    return records.take(items), np.unique(cluster[items], return_inverse=True)[1]


def candidates_a_record(records: Records, blocking: Blocking) -> float:
    """About how many candidate pairs a record there would be, judged by a sample."""
    n = len(records)
    if n <= SAMPLE:
        return len(candidate_pairs(records, blocking)) / max(n, 1)
    order = np.argsort(scattered(np.arange(n, dtype=np.int32)), kind="stable")
    return scaled_up_candidates(records.take(np.sort(order[:SAMPLE])), blocking, n) / n


def default_blocking(records: Records, spec: Spec) -> Blocking:
    """Pairs that share a rare value, rare words or rare q-grams, in one column or over all of them."""
    names = column_names(spec)
    columns = TextColumns(records)
    profiles = [found for name in names if (found := profile(columns, name)) is not None]
    if not profiles:
        return Blocking((equal(text(names[0])),))
    rules: list[Rule] = [equal(text(found.column)) for found in profiles]
    rules += [overlap(qgrams(found.column, 2 if found.is_number else 3), 1.25) for found in profiles]
    if len(profiles) > 1:
        every: Sequence[str] = [found.column for found in profiles]
        rules.append(overlap(tokens(*every), 1.0))
    return Blocking(tuple(rules))
