"""The default model: what makes two records the same is learned from known clusters, and draws are independent.

At the first use on a machine, processes side by side call what most commands need. Otherwise kernels would be compiled
one after another, each when it is first called. A job that fails, or what it left out, costs no more than that.
"""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from scdp._compile import cache_folder
from scdp._parallel import WorkBar, count_workers, require
from scdp._typing import Groups, Integers
from scdp.conditions import Conditions
from scdp.engines import Engine, InThreads
from scdp.estimators import Estimator
from scdp.estimators.checks import Extent, at_least_one, sampling_needs, training_needs
from scdp.estimators.inputs import Rows
from scdp.linkage.training import Choices
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


# Stands among the kernels of a machine when this was done.
DONE = "compiled-ahead"
# Each is a function of this module, and the work of one process.
JOBS = ("compile_ends", "compile_learning")
# About so many kernels are compiled; it is only there to tell how much is done.
N_KERNELS = 135
LOOK_SECONDS = 0.1


def compile_ahead() -> None:
    """Compile what is not compiled yet, with a word on stderr about how far it is."""
    folder = cache_folder()
    if folder is None or (folder / DONE).exists() or count_workers(-1) < len(JOBS):
        return
    processes: list[subprocess.Popen[bytes]] = []
    with WorkBar("compiling, once for this machine") as advance:
        try:
            processes += map(start_job, JOBS)
            while any(process.poll() is None for process in processes):
                advance(min(count_kernels(folder), N_KERNELS), N_KERNELS)
                time.sleep(LOOK_SECONDS)
        finally:
            for process in processes:
                process.kill()
                process.wait()
    with suppress(OSError):
        (folder / DONE).touch()


def start_job(job: str) -> subprocess.Popen[bytes]:
    """A process of its own: in one process only one thread compiles at a time."""
    command = [sys.executable, "-P", "-c", f"from scdp import resolver; resolver.{job}()"]
    nowhere = subprocess.DEVNULL
    return subprocess.Popen(command, stdin=nowhere, stdout=nowhere, stderr=nowhere)


def count_kernels(folder: Path) -> int:
    """How many kernels are compiled."""
    return sum(1 for _ in folder.glob("*/*.nbi"))


def compile_ends() -> None:
    """What comes before pairs are compared, and what comes after something is learned of them."""
    compile_blocking()
    compile_answers()


def compile_blocking() -> None:
    """What proposes candidates, and learns which rules do."""
    from scdp.blocking import candidate_pairs
    from scdp.blocking.by_size import learn_ladder

    records, spec, clusters = made_people()
    ladder = learn_ladder(records, spec, clusters, 0)
    candidate_pairs(records, ladder.choose(records, spec).blocking)


def compile_answers() -> None:
    """What samples, and chooses an answer; of pairs that nobody compared, by a law that nobody taught."""
    from scdp.compare.features import Columns, Pairs
    from scdp.linkage.training import draw_from_prior
    from scdp.posterior.draws import ComponentDraws

    records, spec, _ = made_people()
    columns, n = Columns.of(spec.fields), len(records)
    left = np.repeat(np.arange(n - 4), 4)
    right = left + np.tile(np.arange(1, 5), n - 4)
    features = np.random.default_rng(0).random((len(left), len(columns.sign)), dtype=np.float32)
    pairs, nobody = Pairs(n, left, right, features), np.full(n, -1)
    ensemble = draw_from_prior(pairs, nobody, columns.layout, columns.sign, Choices(n_members=2), 0)
    drawn = InThreads(1).sample(ensemble, pairs, nobody, 8, 0)
    summarise(Posterior(ComponentDraws.of(drawn, n, (1, 8), False)))


def compile_learning() -> None:
    """What compares, learns, samples and chooses an answer; within a group nothing is blocked."""
    records, spec, clusters = made_people()
    group = np.zeros(len(records), dtype=np.int64)
    model = EntityResolver(spec=spec, n_draws=8, n_jobs=-1, random_state=0)
    model.fit(records, clusters, groups=group)
    summarise(model.predict_posterior(records, groups=group))


def summarise(posterior: Any) -> None:
    """An answer, and how sure it is."""
    from scdp.estimators.clustering import uncertain_pairs

    labels = posterior.point_estimate(random_state=0)
    posterior.membership_probability(labels)
    posterior.expected_metrics(labels)
    uncertain_pairs(posterior, labels)


def made_people() -> tuple[Any, Any, Any]:
    """The people of `scdp demo`, with a spec and their clusters."""
    from scdp.datasets import make_tables
    from scdp.table import Records
    from scdp.table.propose import propose

    records = Records(make_tables("people")["people"], source="made-up people")
    known = np.array([entity is not None for entity in records["entity"]])
    records = records.take(known)
    clusters = np.unique(records["entity"].astype(str), return_inverse=True)[1]
    return records, propose(records, "entity", "id", None), clusters
