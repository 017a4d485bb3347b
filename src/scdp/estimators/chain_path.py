"""Fitting the paper's models: rows and known clusters are seated, and chains sample the other clusters and the types.

New rows are sampled together with those of `fit`, by chains that go on with the types these had learned.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from scdp import __version__
from scdp._parallel import count_workers
from scdp._typing import Integers
from scdp.chains.checkpoint import ChainCheckpoints, digest
from scdp.chains.distances.items import Layout
from scdp.chains.distances.sweep import check_plan
from scdp.chains.run import Schedule, run_chains, streams
from scdp.chains.separation.coupling import VARIANTS
from scdp.chains.separation.sweep import with_means
from scdp.chains.start import initial_state, start_of_chain
from scdp.chains.state import Plan, Priors, State
from scdp.chains.sweep import settle_types
from scdp.chains.vectors.items import VectorLayout
from scdp.errors import InputError, NumericalError
from scdp.estimators.chains_fit import ChainsFit
from scdp.estimators.inputs import Rows
from scdp.estimators.labels import split_groups
from scdp.estimators.last_states import continued, degeneracy
from scdp.estimators.path import Bar, Bars, Documents, above_zero_or_learn, at_least_one, one_of
from scdp.posterior import DrawRecorder, Posterior

STARTS = ("mixed", "one", "singletons", "kmeans")
# What draws depend on besides the rows and the seed, by the names that people know.
SETTINGS = (
    "model", "n_chains", "n_sweeps", "n_warmup", "thin", "mean_variance", "share_clusters", "scheme", "split_merge",
    "conditioning", "rate", "n_auxiliary",
)  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class ChainPath:
    """The settings of `SCDP` that chains read."""

    model: str
    n_chains: int
    n_sweeps: int
    n_warmup: int | None
    thin: int
    mean_variance: float | str
    share_clusters: bool
    scheme: str
    split_merge: int
    conditioning: str
    rate: float | str
    n_auxiliary: int
    init: str | ArrayLike
    n_jobs: int | None
    checkpoint: str | PathLike[str] | None
    checkpoint_seconds: float
    bar: Bar
    bars: Bars

    takes_candidates = False

    def check(self, on_distances: bool) -> None:
        one_of("scheme", self.scheme, ("collapsed", "paper"))
        one_of("conditioning", self.conditioning, tuple(VARIANTS))
        if on_distances:
            check_plan(self.plan)
        if isinstance(self.init, str):
            one_of("init", self.init, STARTS)
        elif len(np.asarray(self.init)) == 0:
            raise InputError("init holds no labels; give one a row, or one of " + ", ".join(STARTS))
        at_least_one(self, "n_chains", "n_sweeps", "thin", "n_auxiliary")
        if self.schedule.n_draws < 1:
            raise InputError(f"no sweep is left to keep: {self.n_sweeps} sweeps with warm-up {self.n_warmup}")
        above_zero_or_learn("mean_variance", self.mean_variance)
        above_zero_or_learn("rate", self.rate)
        if not self.checkpoint_seconds >= 0:
            raise InputError(f"checkpoint_seconds must be at least 0, not {self.checkpoint_seconds}")

    def fit(
        self, rows: Rows, known: Integers, documents: Documents, features: tuple[str, ...], seed: int
    ) -> tuple[Posterior, ChainsFit]:
        layout = rows.lay_out(known, documents, self.share_clusters)
        rngs = streams(seed, self.n_chains)
        starts = [self._start(rng, layout, chain) for chain, rng in enumerate(rngs)]
        posterior, ends = self._sample(layout, starts, rngs, self.share_clusters, "fit", seed)
        best = int(np.argmax(posterior.traces["log_joint"][:, -1]))
        return posterior, ChainsFit(self.model, rows, documents, known, ends, seed, best, features)

    def sample_new(
        self, fitted: ChainsFit, new: Any, documents: Documents, known: Integers, seed: int
    ) -> Posterior:
        n_fit = len(fitted.rows)
        apart = None if self.share_clusters else np.repeat([0, 1], [n_fit, len(known) - n_fit])
        with self.bar("comparing") as progress:
            together = fitted.rows.joined(new, documents, self.share_clusters, progress)
            layout = together.lay_out(known, split_groups(documents, apart), True)
        rngs = streams(seed, self.n_chains)
        starts = [
            continued(self._start(rng, layout, chain), fitted.ends[chain]) for chain, rng in enumerate(rngs)
        ]
        shared = self.share_clusters or bool((known[n_fit:] >= 0).any())
        return self._sample(layout, starts, rngs, shared, "predict", seed)[0]

    def doubts(self, posterior: Posterior, n_features: int) -> list[str]:
        return list(filter(None, [posterior.convergence_warning(), degeneracy(posterior, n_features)]))

    @property
    def plan(self) -> Plan:
        return Plan(
            scheme="paper" if self.scheme == "paper" else "collapsed",
            learn_types=self.model != "cdp",
            learn_concentrations=self.model != "cdp",
            learn_mean_variance=self.mean_variance == "learn",
            separation=self.model == "scdp2",
            split_merge_attempts=self.split_merge,
            conditioning=cast(Any, self.conditioning) if self.model == "scdp3" else None,
            n_auxiliary=self.n_auxiliary,
            informed=self.scheme != "paper",
            paper_moves=self.scheme == "paper",
            n_candidates=self.n_auxiliary,
            learn_separation_rate=self.rate == "learn",
        )

    @property
    def priors(self) -> Priors:
        variance = 1.0 if isinstance(self.mean_variance, str) else float(self.mean_variance)
        return Priors(mean_variance=variance)

    @property
    def schedule(self) -> Schedule:
        warmup = self.n_sweeps // 2 if self.n_warmup is None else self.n_warmup
        return Schedule(self.n_chains, self.n_sweeps, warmup, self.thin, count_workers(self.n_jobs))

    def _sample(
        self,
        layout: Layout,
        starts: list[State],
        rngs: list[np.random.Generator],
        shared: bool,
        purpose: str,
        seed: int,
    ) -> tuple[Posterior, list[State]]:
        schedule = self.schedule
        recorder = DrawRecorder(
            schedule.n_chains, schedule.n_draws, layout.known_slot, layout.items.hidden, shared=shared
        )
        kept = self._checkpoints(layout, starts, recorder, purpose, seed)
        with kept as checkpoints, self.bars() as bars:
            ends, traces = run_chains(
                layout.items, starts, rngs, self.plan, self.priors, schedule, recorder, bars, checkpoints
            )
        return recorder.finish(traces), ends

    def _checkpoints(
        self,
        layout: Layout,
        starts: list[State],
        recorder: DrawRecorder,
        purpose: str,
        seed: int,
    ) -> AbstractContextManager[ChainCheckpoints | None]:
        if self.checkpoint is None:
            return nullcontext()
        run: dict[str, Any] = {"scdp": __version__, "NumPy": np.__version__}
        # Plain numbers: NumPy's cannot be written as JSON.
        run |= {name: np.asarray(getattr(self, name)).item() for name in SETTINGS}
        run |= {"seed": seed, "data": digest(_arrays(layout.items._asdict(), known_slot=layout.known_slot))}
        # Starts tell apart what no setting does: given labels, and what an earlier fit had learned.
        for chain, start in enumerate(starts):
            run[f"start of chain {chain + 1}"] = digest(_arrays(start._asdict()))
        return ChainCheckpoints(
            Path(self.checkpoint) / purpose,
            run,
            seconds=self.checkpoint_seconds,
            n_chains=self.n_chains,
            n_sweeps=self.n_sweeps,
            n_slots=int(layout.items.slot_end.max(initial=0)),
            recorder=recorder,
        )

    def _start(self, rng: np.random.Generator, layout: Layout, chain: int) -> State:
        init = self.init
        if not isinstance(init, str):
            given = np.asarray(init)
            # A given start belongs to the rows of fit; new rows of predict start as k-means puts them.
            init = given if len(given) == len(layout.known_slot) else "kmeans"
        start = start_of_chain(init, chain) if isinstance(init, str) else init
        state = initial_state(rng, layout, start, self.priors)
        if self.model == "scdp3":
            rate = 1.0 if isinstance(self.rate, str) else float(self.rate)
            state = state._replace(separation_rate=rate)
            # On distances clusters are known by their centroids, which need no start.
            if isinstance(layout, VectorLayout):
                state = with_means(rng, state, layout.items)
        try:
            return settle_types(rng, state, layout.items, self.plan, self.priors)
        except FloatingPointError as error:
            raise NumericalError(
                f"chain {chain + 1}, before its first sweep: {error}, so nothing was drawn from it; "
                "please report it, with the largest and smallest number of each feature"
            ) from error


def _arrays(fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {name: np.asarray(value) for name, value in (fields | more).items()}
