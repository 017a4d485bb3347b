"""From no labels to draws that follow the answers: records and decisions enter; beliefs leave, again and again.

Candidates are compared once. After answers only the members of the ensemble and the draws are made anew, with what was
decided held fixed: what must be together or apart is so in every draw.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from scdp._parallel import Progress, map_in_threads
from scdp._typing import Booleans, Floats, Integers, SmallIntegers
from scdp.compare.features import MOST_PAIRS, Comparer, Neighbours, Pairs
from scdp.estimators.inputs import Compared
from scdp.linkage.candidates import Blocked, compare_candidates
from scdp.linkage.ensemble import NEGLIGIBLE, Ensemble
from scdp.linkage.fit import Choices
from scdp.linkage.resolver_fit import ResolverFit
from scdp.linkage.sampling.forward import sample_partition, stream_of
from scdp.linkage.shards import label_by_first
from scdp.linkage.training.answers import ComparedPairs, learn_from_answers
from scdp.review.beliefs import Beliefs
from scdp.review.view import PairEvidence, TableView
from scdp.table.decisions import Constraints
from scdp.table.records import Records
from scdp.table.spec import Spec

N_DRAWS = 160
# Draws times records are bounded, and with many records only those in doubt are drawn anew.
MOST_LABELS = 60_000_000
FEWEST_DRAWS = 48
MOST_REDRAWN = 20_000
# Learning may lift the log-odds of a pair by about this much.
MARGIN = 3.0
# The score of a pair that is known: above and below all that evidence says.
CERTAIN = 1e5
# Pairs that no draw had together are still asked about if their log-odds are above this.
LEAST_ASKED = -6.0
MOST_OTHERS = 5_000
# However sure the model is that all records are strangers, so many of the likeliest pairs may be asked about.
FEWEST_OTHERS = 200


class Others(NamedTuple):
    """Pairs that no draw puts together, and their small probabilities."""

    left: Integers
    right: Integers
    probability: Floats


class Learner:
    """Records to be labelled, their candidate pairs, and the model that learns from answers.

    Parameters
    ----------
    records : Records
        The table.
    spec : Spec
        How to compare; comparisons are proposed where it has none.
    seed : int
        All chance follows from it.
    n_draws : int
        Draws of the partition.
    n_jobs : int
        Threads that draw.
    progress : Progress, optional
        Is told how far the comparing is.
    """

    def __init__(
        self,
        records: Records,
        spec: Spec,
        seed: int = 0,
        n_draws: int = N_DRAWS,
        n_jobs: int = 1,
        progress: Progress | None = None,
    ) -> None:
        n = len(records)
        rows = Compared.of(records, spec, None, False, blocked=True)
        nobody = np.full(n, -1, dtype=np.int64)
        fitted = ResolverFit.train(rows, nobody, None, rows.spec.names, Choices(), seed)
        self.seed, self.n_records, self.spec, self.n_jobs = seed, n, rows.spec, n_jobs
        self.n_draws = min(n_draws, max(MOST_LABELS // max(n, 1), FEWEST_DRAWS))
        self.comparer = Comparer.of(rows.records, rows.spec.fields)
        self.prior, pairs = self._compare(rows, fitted, progress)
        log_odds = self.prior.mean_log_odds(pairs.features) if len(pairs) else np.zeros(0)
        kept = np.flatnonzero(log_odds >= min(NEGLIGIBLE - MARGIN, _largest(log_odds, MOST_OTHERS)))
        self.pairs = Pairs(n, pairs.left[kept], pairs.right[kept], pairs.features[kept])
        self.places = self.prior.places(self.pairs.features)
        self.learned = self.prior
        self.n_learned = 0

    def _compare(self, rows: Compared, fitted: ResolverFit, progress: Progress | None) -> tuple[Ensemble, Pairs]:
        n = len(rows)
        if n * (n - 1) // 2 <= MOST_PAIRS:
            pairs = self.comparer.compare_all()
            return fitted.ensemble.set_to(pairs.features, pairs.features, len(pairs), n), pairs
        blocking = fitted.ladder.choose(rows.records, rows.spec).blocking
        blocked = Blocked(rows.records, rows.spec.fields, blocking, fitted.ensemble)
        found = compare_candidates(blocked, progress=progress)
        return found.ensemble, found.pairs

    def refresh(self, constraints: Constraints, before: Beliefs | None) -> Beliefs:
        """Learn from all decisions, and draw anew."""
        self.learn(constraints)
        return self.draw(constraints, before)

    def view(self, records: Records, ids: Sequence[str]) -> TableView:
        """The records as people see them, with what the comparisons say."""
        columns = tuple(name for name in records.names if name not in (self.spec.id, self.spec.entity))
        return TableView(records, ids, columns, PairEvidence(self.comparer, self.spec, lambda: self.learned))

    def learn(self, constraints: Constraints) -> None:
        """New members, from all pairs that were compared."""
        compared = ComparedPairs.of(constraints)
        self.n_learned = len(compared.rows)
        if not len(compared.left):
            self.learned = self.prior
            return
        left, right = compared.rows[compared.left], compared.rows[compared.right]
        features = self.comparer.compare(left, right, 1)
        pairs = Pairs(len(compared.rows), compared.left, compared.right, features)
        learned = learn_from_answers(self.prior, compared, pairs, self.n_records, self.seed)
        self.learned = learned.locate(self.pairs.features, self.n_records)

    def draw(self, constraints: Constraints, before: Beliefs | None = None) -> Beliefs:
        """Draws that obey all decisions; of a large table the records in doubt are drawn anew, the others stay."""
        rows = None if before is None or self.n_records <= MOST_REDRAWN else self._in_doubt(before)
        draws = self._sample(constraints, rows, before)
        beliefs = Beliefs(draws, n_members=len(self.learned.members))
        # The draws obey, and so must the answer.
        beliefs.condition(constraints, ComparedPairs.of(constraints).rows.tolist())
        return beliefs

    def _in_doubt(self, before: Beliefs) -> Booleans:
        """Records of the components with most to gain, as many as are drawn anew."""
        pairs = before.unsure.pairs
        p = pairs.probability
        doubt = np.bincount(before.component[pairs.left], p * (1.0 - p), int(before.component.max()) + 1)
        sizes = np.bincount(before.component, minlength=len(doubt))
        order = np.argsort(-doubt, kind="stable")
        chosen = np.zeros(len(doubt), dtype=bool)
        chosen[order[: int(np.searchsorted(np.cumsum(sizes[order]), MOST_REDRAWN))]] = True
        marked: Booleans = chosen[before.component]
        return marked

    def _sample(self, constraints: Constraints, chosen: Booleans | None, before: Beliefs | None) -> SmallIntegers:
        rows = np.arange(self.n_records) if chosen is None else np.flatnonzero(chosen)
        system = _System.of(self, constraints, rows)
        drawn = np.empty((self.n_draws, len(rows)), dtype=np.int32)
        nobody, names = np.full(len(rows), -1), rows.astype(np.uint64)
        n_members = len(self.learned.members)

        def sample_with(member: int) -> None:
            score, weights = system.scores[member], self.learned.weights(member)
            for number in range(member, self.n_draws, n_members):
                drawn[number] = sample_partition(
                    system.neighbours,
                    score,
                    weights,
                    nobody,
                    self.learned.n_rescans,
                    stream_of(self.seed, number),
                    names,
                )

        for _ in map_in_threads(sample_with, range(min(n_members, self.n_draws)), self.n_jobs):
            pass
        label_by_first(drawn, rows)
        if before is None or chosen is None:
            return drawn
        whole = before.base.copy()
        whole[:, rows] = drawn
        return whole

    def others(self, beliefs: Beliefs) -> Others:
        """The likeliest pairs that no draw puts together, and that are not decided."""
        log_odds = self.learned.mean_log_odds(self.pairs.features)
        drawn = _keys(beliefs.pairs.left, beliefs.pairs.right, self.n_records)
        never = np.flatnonzero(~np.isin(_keys(self.pairs.left, self.pairs.right, self.n_records), drawn))
        least = min(LEAST_ASKED, _largest(log_odds[never], FEWEST_OTHERS))
        likely = never[log_odds[never] >= least]
        likely = likely[np.argsort(-log_odds[likely], kind="stable")][:MOST_OTHERS]
        # Less than once in all draws.
        p = np.minimum(1.0 / (1.0 + np.exp(-log_odds[likely])), 0.5 / beliefs.n_draws)
        return Others(self.pairs.left[likely], self.pairs.right[likely], p)


class _System(NamedTuple):
    """Pairs among some rows with the scores that each member gives them; decided pairs are certain."""

    neighbours: Neighbours
    scores: list[Floats]

    @classmethod
    def of(cls, learner: Learner, constraints: Constraints, rows: Integers) -> _System:
        place = np.full(learner.n_records, -1, dtype=np.int64)
        place[rows] = np.arange(len(rows))
        compared = ComparedPairs.of(constraints)
        one, other = place[compared.rows[compared.left]], place[compared.rows[compared.right]]
        inside = (one >= 0) & (other >= 0)
        same = (compared.cluster[compared.left] == compared.cluster[compared.right])[inside]
        one, other = one[inside], other[inside]
        left, right = place[learner.pairs.left], place[learner.pairs.right]
        kept = (left >= 0) & (right >= 0)
        n = len(rows)
        kept &= ~np.isin(_keys(left, right, n), _keys(np.minimum(one, other), np.maximum(one, other), n))
        learned = learner.learned
        scores = np.array([member.scores(learner.places) for member in learned.members])
        kept &= learned.is_likely(scores)
        known = np.where(same, CERTAIN, -CERTAIN)
        left, right = np.concatenate([left[kept], one]), np.concatenate([right[kept], other])
        pairs = Pairs(n, left, right, np.zeros((len(left), 0), dtype=np.float32))
        return cls(pairs.neighbours, [np.concatenate([each[kept], known]) for each in scores])


def _largest(values: Floats, number: int) -> float:
    """The value that so many are at least as large as; of fewer, the smallest."""
    if not len(values):
        return 0.0
    place = max(len(values) - number, 0)
    return float(np.partition(values, place)[place])


def _keys(left: Integers, right: Integers, n: int) -> Integers:
    return left * np.int64(n) + right
