"""The default model: what makes two records the same is learned from known clusters, and draws are independent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np

from scdp._parallel import count_workers, require
from scdp._typing import Groups, Integers
from scdp.compile_ahead import compile_ahead
from scdp.conditions import Conditions
from scdp.engines import Engine, InThreads
from scdp.estimators import Estimator
from scdp.estimators.checks import Extent, at_least_one, sampling_needs, training_needs
from scdp.estimators.inputs import Rows
from scdp.linkage.fit import Choices
from scdp.posterior import Posterior
from scdp.posterior.estimate import check_answer
from scdp.resolver_fit import ResolverFit
from scdp.table.spec import Spec

# Of many items, as many draws as of a few would take gigabytes, and sums over them are sharp with less: draws times
# items are bounded, down to the draws that any number of items has.
MANY_ITEMS = 25_000
MOST_LABELS = 6_000_000
DRAWS_OF_MANY = 60


class EntityResolver(Estimator):
    """Decide which rows are the same thing, and how sure that is.

    Parameters
    ----------
    n_draws : int
        Draws over all chains. They are independent, so chains only share them out.
    n_chains : int
        Parts in which draws are handed over, for diagnostics.
    answer : {"f", "vi", "binder", "precision=0.99"}
        What the point estimate optimises: expected pairwise F, expected variation of information, expected wrong
        pairs, or recall subject to a floor on expected precision.
    boosted : bool, optional
        Whether pairs are also judged by boosted trees; None = where there is enough to learn from.
    share_clusters : bool
        Whether rows of unknown cluster may join the known clusters.
    standardize : bool
        Centre each feature and scale it to unit variance.
    metric : {"euclidean", "precomputed"}
        Vectors (items, features), or distances (items, items, features).
    spec : Spec, optional
        How to compare records; X is then Records, or a table of columns.
    engine : Engine, optional
        Where clusters are sampled, such as `scdp.engines.LocalEngine()`; None = threads of this process. Draws do
        not depend on it.
    n_jobs : int, optional
        Threads (None = 1, -1 = one a core). Draws do not depend on it.
    random_state : int, optional
        Seed.
    verbose : int
        Show bars.

    Attributes
    ----------
    labels_ : array of integers
        The cluster of each row of `fit`: known ones keep their label, new clusters get fresh numbers.
    posterior_ : Posterior
        The draws, co-clustering probabilities and intervals.

    Example
    -------
    >>> names = ["Ann Smith", "Anne Smith", "Bob Jones", "Robert Jones", "Cy Young", "Dee Dee"]
    >>> cities = ["Bonn", "Bonn", "Ulm", "Ulm", "Kiel", "Jena"]
    >>> people = [{"name": name, "city": city} for name, city in zip(names, cities)]
    >>> model = EntityResolver(n_draws=24, random_state=0).fit(people, ["a", "a", "b", "b", "c", "d"])
    >>> model.labels_.tolist()
    [0, 0, 1, 1, 2, 3]
    """

    model = "resolver"
    takes_candidates = True
    takes_decisions = True
    fitted_class = ResolverFit

    def __init__(
        self,
        *,
        n_draws: int = 240,
        n_chains: int = 4,
        answer: str = "f",
        boosted: bool | None = None,
        share_clusters: bool = False,
        standardize: bool = True,
        metric: str = "euclidean",
        spec: Spec | None = None,
        engine: Engine | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        # As scikit-learn asks: every argument by its name, stored as it came.
        self.n_draws = n_draws
        self.n_chains = n_chains
        self.answer = answer
        self.boosted = boosted
        self.share_clusters = share_clusters
        self.standardize = standardize
        self.metric = metric
        self.spec = spec
        self.engine = engine
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def check_parameters(self) -> None:
        at_least_one(self, "n_chains", "n_draws")
        check_answer(self.answer)

    def count_draws(self, n_items: int) -> int:
        """How many draws there are of so many items."""
        if n_items <= MANY_ITEMS:
            return self.n_draws
        return min(self.n_draws, max(DRAWS_OF_MANY, MOST_LABELS // n_items))

    def _check_memory(self, rows: Extent, n_fit: int | None) -> None:
        hidden = np.flatnonzero(rows.known < 0)
        everyone = n_fit is not None or self.share_clusters
        sampled = np.arange(len(rows)) if everyone else hidden
        total = max(self.count_draws(len(sampled)), self.n_chains)
        needs = sampling_needs(rows, sampled, total, self.n_jobs)
        require([*(training_needs(rows) if n_fit is None else ()), *needs])

    def _sample_fit(
        self,
        rows: Rows,
        known: Integers,
        groups: Groups,
        features: tuple[str, ...],
        seed: int,
        conditions: Conditions | None = None,
    ) -> tuple[Posterior, ResolverFit]:
        choices = Choices(boosted=self.boosted)
        self._compile_ahead()
        with self._bar("learning") as progress:
            fitted = ResolverFit.train(
                rows, known, groups, features, choices, seed, count_workers(self.n_jobs), progress, conditions
            )
        rows, everyone = fitted.rows, np.arange(len(known))
        if self.share_clusters:
            return self._sample(fitted, rows, groups, everyone, known, seed, True, conditions), fitted
        posterior = self._sample(fitted, rows, groups, everyone[known < 0], known, seed, False, conditions)
        # New rows never meet those of fit, and what was learned is all that is needed of them.
        nobody = None if groups is None else groups[:0]
        return posterior, replace(fitted, rows=rows.take_none(), groups=nobody)

    def _sample_more(
        self, new: Any, groups: Groups, known: Integers, seed: int, conditions: Conditions | None = None
    ) -> Posterior:
        fitted = cast(ResolverFit, self.fitted_)
        self._compile_ahead()
        with self._bar("comparing") as progress:
            rows = fitted.rows.append(new, groups, self.share_clusters, progress)
        return self._sample(fitted, rows, groups, np.arange(len(rows)), known, seed, True, conditions)

    def _compile_ahead(self) -> None:
        # Only where somebody sees what takes so long.
        if self.verbose:
            compile_ahead()

    def _sample(
        self,
        fitted: ResolverFit,
        rows: Rows,
        groups: Groups,
        items: Integers,
        known: Integers,
        seed: int,
        shared: bool,
        conditions: Conditions | None = None,
    ) -> Posterior:
        shape = (self.n_chains, max(1, -(-self.count_draws(len(items)) // self.n_chains)))
        engine = self.engine or InThreads(count_workers(self.n_jobs))
        with self._bar("sampling") as progress:
            return fitted.posterior(rows, groups, items, known, shape, seed, shared, engine, progress, conditions)
