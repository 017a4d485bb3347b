"""What is under review: a kept result, or a store. Draws are conditioned on decisions, and nothing is run again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from scdp._typing import Floats, Integers
from scdp.compare.features import Comparer
from scdp.estimators.inputs import Compared
from scdp.linkage.candidates import draw_strangers
from scdp.linkage.resolver_fit import ResolverFit
from scdp.results import StoredResult
from scdp.review.beliefs import Beliefs
from scdp.review.questions import no_others
from scdp.review.view import PairEvidence, TableView
from scdp.table.decisions import Constraints

if TYPE_CHECKING:
    from scdp.store.store import Store

# Of very many records fewer draws are held in memory.
MOST_LABELS = 100_000_000
FEWEST_DRAWS = 48
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
        most = max(MOST_LABELS // max(stored.n_records, 1), FEWEST_DRAWS)
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
