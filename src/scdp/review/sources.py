"""Where beliefs come from: records without labels, a kept result, or a store; decisions enter, beliefs leave.

From no labels: candidates are compared once. After answers only the members of the ensemble and the draws are made
anew, with what was decided held fixed: what must be together or apart is so in every draw. The draws of a result or a
store are conditioned on decisions, and nothing is run again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from scdp._parallel import Progress, map_in_threads
from scdp._typing import Booleans, Floats, Integers, SmallIntegers
from scdp.compare.features import MOST_PAIRS, Comparer, Neighbours, Pairs
from scdp.engines import label_by_first
from scdp.engines.candidates import Blocked, compare_candidates
from scdp.estimators.inputs import Compared
from scdp.hashing import draw_strangers
from scdp.linkage import NEGLIGIBLE, Ensemble
from scdp.linkage.prefilter import prefilter_all
from scdp.linkage.sampling import sample_partition, stream_of
from scdp.linkage.training import Choices, ComparedPairs, learn_from_answers
from scdp.resolver_fit import ResolverFit
from scdp.review.beliefs import Beliefs
from scdp.review.questions import no_others
from scdp.review.view import PairEvidence, TableView
from scdp.table import Records
from scdp.table.decisions import Constraints
from scdp.table.spec import Spec

if TYPE_CHECKING:
    from scdp.results import StoredResult
    from scdp.store import Store


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

    def _compare(self, rows: Compared, fitted: ResolverFit, progress: Progress | None) -> tuple[Ensemble, Pairs]:
        n = len(rows)
        if n * (n - 1) // 2 <= MOST_PAIRS:
            pairs, ensemble = prefilter_all(self.comparer.compare_all(), fitted.ensemble)
            return ensemble, pairs
        blocked = Blocked(
            rows.records,
            rows.spec.fields,
            fitted.ensemble,
            # Nobody asks what it keeps, so that need not be estimated.
            lambda: fitted.ladder.choose(rows.records, rows.spec)._replace(recall=1.0),
        )
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
        neighbours, scores = self._score(constraints, rows)
        drawn = np.empty((self.n_draws, len(rows)), dtype=np.int32)
        nobody, names = np.full(len(rows), -1), rows.astype(np.uint64)
        n_members = len(self.learned.members)

        def sample_with(member: int) -> None:
            weights = self.learned.weights(member)
            for number in range(member, self.n_draws, n_members):
                stream = stream_of(self.seed, number)
                drawn[number] = sample_partition(
                    neighbours, scores[member], weights, nobody, self.learned.n_rescans, stream, names
                )

        for _ in map_in_threads(sample_with, range(min(n_members, self.n_draws)), self.n_jobs):
            pass
        label_by_first(drawn, rows)
        if before is None or chosen is None:
            return drawn
        whole = before.base.copy()
        whole[:, rows] = drawn
        return whole

    def _score(self, constraints: Constraints, rows: Integers) -> tuple[Neighbours, list[Floats]]:
        """Pairs among some rows with the scores that each member gives them; decided pairs are certain."""
        place = np.full(self.n_records, -1, dtype=np.int64)
        place[rows] = np.arange(len(rows))
        compared = ComparedPairs.of(constraints)
        one, other = place[compared.rows[compared.left]], place[compared.rows[compared.right]]
        inside = (one >= 0) & (other >= 0)
        same = (compared.cluster[compared.left] == compared.cluster[compared.right])[inside]
        one, other = one[inside], other[inside]
        left, right = place[self.pairs.left], place[self.pairs.right]
        kept = (left >= 0) & (right >= 0)
        n = len(rows)
        kept &= ~np.isin(_keys(left, right, n), _keys(np.minimum(one, other), np.maximum(one, other), n))
        scores = np.array([member.scores(self.places) for member in self.learned.members])
        kept &= self.learned.is_likely(scores)
        known = np.where(same, CERTAIN, -CERTAIN)
        left, right = np.concatenate([left[kept], one]), np.concatenate([right[kept], other])
        pairs = Pairs(n, left, right, np.zeros((len(left), 0), dtype=np.float32))
        return pairs.neighbours, [np.concatenate([each[kept], known]) for each in scores]

    def others(self, beliefs: Beliefs) -> tuple[Integers, Integers, Floats]:
        """The likeliest pairs that no draw puts together, and that are not decided, with their small probabilities."""
        log_odds = self.learned.mean_log_odds(self.pairs.features)
        drawn = _keys(beliefs.pairs.left, beliefs.pairs.right, self.n_records)
        never = np.flatnonzero(~np.isin(_keys(self.pairs.left, self.pairs.right, self.n_records), drawn))
        least = min(LEAST_ASKED, _largest(log_odds[never], FEWEST_OTHERS))
        likely = never[log_odds[never] >= least]
        likely = likely[np.argsort(-log_odds[likely], kind="stable")][:MOST_OTHERS]
        # Less than once in all draws.
        p = np.minimum(1.0 / (1.0 + np.exp(-log_odds[likely])), 0.5 / beliefs.n_draws)
        return self.pairs.left[likely], self.pairs.right[likely], p


def _largest(values: Floats, number: int) -> float:
    """The value that so many are at least as large as; of fewer, the smallest."""
    if not len(values):
        return 0.0
    place = max(len(values) - number, 0)
    return float(np.partition(values, place)[place])


def _keys(left: Integers, right: Integers, n: int) -> Integers:
    return left * np.int64(n) + right


# Of very many records fewer kept draws are held in memory.
MOST_KEPT_LABELS = 100_000_000
# Pairs that show where matches lie, for what comparisons say.
MOST_LIKELY = 100_000


class KeptDraws(ABC):
    """Draws that are there, as far as decisions leave them: decisions are taken into account when they are made."""

    def refresh(self, constraints: Constraints, before: Beliefs | None) -> Beliefs:
        """The beliefs as they are; those to begin with are conditioned on all decisions."""
        if before is not None:
            return before
        beliefs = self._begin()
        named = np.flatnonzero(constraints.group >= 0)
        rows = np.unique(np.concatenate([named, constraints.left, constraints.right]))
        beliefs.condition(constraints, rows.tolist())
        return beliefs

    @abstractmethod
    def _begin(self) -> Beliefs:
        """The beliefs before any decision."""

    def others(self, beliefs: Beliefs) -> tuple[Integers, Integers, Floats]:
        """None: only draws tell which pairs may be the same."""
        return no_others()


class ResultSource(KeptDraws):
    """The draws of a kept result, as far as decisions leave them.

    Parameters
    ----------
    stored : StoredResult
        What `read_result` gave.
    """

    def __init__(self, stored: StoredResult) -> None:
        self.stored = stored
        n_chains, n_draws = int(stored.about["n_chains"]), int(stored.about["n_draws"])
        # Draws of one member of the resolver, or of one chain, stand at equal distances in this order.
        order = np.arange(n_chains * n_draws).reshape(n_chains, n_draws).T.ravel()
        most = max(MOST_KEPT_LABELS // max(stored.n_records, 1), FEWEST_DRAWS)
        fitted = None if stored.model is None else stored.model.fitted_
        self.fitted = fitted if isinstance(fitted, ResolverFit) else None
        self.n_members = n_chains if self.fitted is None else len(self.fitted.ensemble.members)
        self.draws = order[:most]

    def _begin(self) -> Beliefs:
        answer = np.unique(self.stored.labels.astype(str), return_inverse=True)[1].astype(np.int64)
        return Beliefs(self.stored.read_draws(self.draws), answer, self.n_members)

    def view(self) -> TableView:
        """The records as people see them; what comparisons say is added by `explain`."""
        records = self.stored.records
        spec = None if self.fitted is None else self.stored.model and self.stored.model.fitted_spec_
        hidden = {self.stored.id_column, spec.entity if spec else None}
        columns = tuple(name for name in records.names if name not in hidden)
        return TableView(records, [str(one) for one in self.stored.ids.tolist()], columns)

    def explain(self, view: TableView, beliefs: Beliefs) -> None:
        """Let the view say what each comparison tells, where the result keeps its model."""
        if self.fitted is not None:
            explain_pairs(self.fitted, view, beliefs)


class StoreSource(KeptDraws):
    """The entities of a store under review: all its records are drawn once, and the entities are the answer.

    Parameters
    ----------
    store : Store
        An open store.
    """

    def __init__(self, store: Store) -> None:
        self.store, self.records = store, store.records
        self.ids = [str(one) for one in self.records[store.id_column].tolist()]

    def _begin(self) -> Beliefs:
        entities = [self.store.entities[one] for one in self.ids]
        answer = np.unique(entities, return_inverse=True)[1].astype(np.int64)
        model: Any = self.store.model
        # Decisions are taken into account afterwards, so that one that is taken back leaves no trace.
        draws = model.predict_posterior(self.records).draws
        n_members = len(model.fitted_.ensemble.members)
        return Beliefs(draws.transpose(1, 0, 2).reshape(-1, len(self.ids)), answer, n_members)

    def view(self) -> TableView:
        """The records as people see them."""
        columns = tuple(name for name in self.records.names if name != self.store.id_column)
        return TableView(self.records, self.ids, columns)

    def explain(self, view: TableView, beliefs: Beliefs) -> None:
        """Let the view say what each comparison tells."""
        fitted = self.store.model.fitted_
        assert isinstance(fitted, ResolverFit)
        explain_pairs(fitted, view, beliefs)


def explain_pairs(fitted: ResolverFit, view: TableView, beliefs: Beliefs) -> None:
    """Let a view say what each comparison of a resolver tells about two records, in their table."""
    spec = fitted.rows.spec if isinstance(fitted.rows, Compared) else None
    if spec is None:
        return
    n = len(view.records)
    comparer = Comparer.of(view.records, spec.fields)
    strangers = comparer.compare(*draw_strangers(n))
    step = max(len(beliefs.pairs.left) // MOST_LIKELY, 1)
    likely = comparer.compare(beliefs.pairs.left[::step], beliefs.pairs.right[::step])
    share = 1.0 / step
    ensemble = fitted.ensemble.set_to(strangers, likely, max(share * n * (n - 1) / 2.0, 1.0), max(int(share * n), 2))
    view.evidence = PairEvidence(comparer, spec, lambda: ensemble)
