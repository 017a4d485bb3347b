"""Fitting the flagship: the restaurant learns from the known rows, and seats the others and new ones.

Its draws are independent, so chains only share them out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scdp._parallel import count_workers
from scdp._typing import Integers
from scdp.estimators.inputs import Rows
from scdp.estimators.path import Bar, Documents, at_least_one
from scdp.linkage.learned import Choices
from scdp.linkage.learned_fit import LearnedFit
from scdp.linkage.shards import Engine, InThreads
from scdp.posterior import Posterior

# Of many items, as many draws as of a few would take gigabytes, and sums over them are sharp with less: draws times
# items are bounded, down to the draws that any number of items has.
MANY_ITEMS = 25_000
MOST_LABELS = 6_000_000
DRAWS_OF_MANY = 60


@dataclass(frozen=True, eq=False, kw_only=True)
class LearnedPath:
    """The settings of `SCDP` that the learned restaurant reads."""

    n_chains: int
    n_draws: int
    n_types: int
    boosted: bool | None
    share_clusters: bool
    n_jobs: int | None
    engine: Engine | None
    bar: Bar

    takes_candidates = True

    def check(self, on_distances: bool) -> None:
        at_least_one(self, "n_chains", "n_draws", "n_types")

    def fit(
        self, rows: Rows, known: Integers, documents: Documents, features: tuple[str, ...], seed: int
    ) -> tuple[Posterior, LearnedFit]:
        choices = Choices(boosted=self.boosted, n_types=self.n_types)
        with self.bar("learning") as progress:
            fitted = LearnedFit.train(
                rows, known, documents, features, choices, seed, count_workers(self.n_jobs), progress
            )
        everyone = np.arange(len(known))
        if self.share_clusters:
            return self._seat(fitted, rows, documents, everyone, known, seed, True), fitted
        posterior = self._seat(fitted, rows, documents, everyone[known < 0], known, seed, False)
        # New rows never meet those of fit, and what was learned is all that is needed of them.
        nobody = None if documents is None else documents[:0]
        return posterior, replace(fitted, rows=rows.none(), documents=nobody)

    def sample_new(
        self, fitted: LearnedFit, new: Any, documents: Documents, known: Integers, seed: int
    ) -> Posterior:
        with self.bar("comparing") as progress:
            rows = fitted.rows.joined(new, documents, self.share_clusters, progress)
        return self._seat(fitted, rows, documents, np.arange(len(rows)), known, seed, True)

    def draws_of(self, n_items: int) -> int:
        """How many draws there are of so many items."""
        if n_items <= MANY_ITEMS:
            return self.n_draws
        return min(self.n_draws, max(DRAWS_OF_MANY, MOST_LABELS // n_items))

    def doubts(self, posterior: Posterior, n_features: int) -> list[str]:
        return []

    def _seat(
        self,
        fitted: LearnedFit,
        rows: Rows,
        documents: Documents,
        items: Integers,
        known: Integers,
        seed: int,
        shared: bool,
    ) -> Posterior:
        shape = (self.n_chains, max(1, -(-self.draws_of(len(items)) // self.n_chains)))
        engine = self.engine or InThreads(count_workers(self.n_jobs))
        with self.bar("seating") as progress:
            return fitted.posterior(rows, documents, items, known, shape, seed, shared, engine, progress)
