"""The hidden-test protocol: a problem and a system enter; clusters of its test items leave, with what was learned.

SCDP sees training clusters and test items together, the test items' clusters hidden, as in the paper. Every other
system learns from the training part alone and then clusters the test part.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from importlib import import_module
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Integers
from scdp.datasets import Labelled
from scdp.estimators.inputs import Compared
from scdp.paper.baselines.pairs import take_raw
from scdp.paper.tasks import Problem
from scdp.table.records import Records

Advance = Callable[[float], None]
# Draws of each chain that are scored, evenly spread over the kept ones.
SCORED_DRAWS = 50
RAW = "Features as they come, which is as the paper's numbers imply."
ACROSS = "Documents are not kept apart, as the paper's numbers imply."


@dataclass(frozen=True)
class Effort:
    """How hard a system tries, its seed, and whom it tells the share of its work that is done."""

    chains: int
    sweeps: int
    seed: int
    quick: bool = False
    tell: Advance = field(default=lambda share: None, compare=False)


@dataclass(frozen=True)
class Outcome:
    """Clusters of the test items; samplers add draws (chain, draw, test item), their effort and their types.

    `r_hat` is the worst of the chains' diagnostics.
    """

    labels: NDArray[Any]
    draws: NDArray[Any] | None = None
    r_hat: float | None = None
    chains: int | None = None
    sweeps: int | None = None
    sweep_seconds: float | None = None
    types: Mapping[str, Any] | None = None
    note: str = ""


Runner = Callable[[Problem, Effort], Outcome]


def predicting(
    name: str,
    *,
    told: bool = False,
    across_documents: bool = False,
    in_full: Mapping[str, Any] = MappingProxyType({}),
    **in_quick_runs: Any,
) -> Runner:
    """A baseline of that class: fit on the training part, predict the test part; `told` ones see the gold there.

    Options are those of quick runs, and `in_full` those of full ones.
    """

    def run(problem: Problem, effort: Effort) -> Outcome:
        options = in_quick_runs if effort.quick else in_full
        model = _baseline(name, problem, effort.seed, options)
        train, test = problem.task.train, problem.task.test
        if across_documents:
            labels = model.fit(train.data, train.clusters).predict(test.data)
            return Outcome(labels, note="" if test.groups is None else ACROSS)
        model.fit(train.data, train.clusters, train.groups)
        extra = {"gold": test.clusters} if told else {}
        reduced = ", ".join(f"{option} {value}" for option, value in options.items())
        note = f"Run with {reduced}." if reduced else ""
        return Outcome(model.predict(test.data, test.groups, **extra), note=note)

    return run


def _baseline(name: str, problem: Problem, seed: int, options: Mapping[str, Any]) -> Any:
    kind = getattr(import_module("scdp.paper.baselines"), name)
    common = {"spec": problem.spec, "random_state": seed % 2**31, "raw": problem.features == "raw"}
    accepted = kind().get_params()
    return kind(**{key: value for key, value in common.items() if key in accepted}, **options)


def sampling(model: str, *, learns: bool = True, **options: Any) -> Runner:
    """SCDP on training clusters and hidden test items; one that learns nothing sees the test items alone."""

    def run(problem: Problem, effort: Effort) -> Outcome:
        train, test = problem.task.train, problem.task.test
        whole = join_parts(train, test) if learns else test
        hidden = np.arange(len(whole) - len(test), len(whole))
        known = codes_of(whole.clusters)
        known[hidden] = -1
        watch = Watch(effort)
        fitted, note = _fit(model, problem, whole, known, watch, options)
        return Outcome(
            labels=fitted.labels_[hidden],
            draws=_thin_draws(fitted.posterior_.draws)[:, :, hidden],
            r_hat=worst_r_hat(fitted.posterior_),
            chains=effort.chains,
            sweeps=effort.sweeps,
            sweep_seconds=watch.seconds_per_sweep(),
            types=learned_types(fitted, problem, whole) if learns else None,
            note=note,
        )

    return run


def resolving(**options: Any) -> Runner:
    """The resolver: it learns from the training part alone, and clusters the test part with its clusters hidden."""

    def run(problem: Problem, effort: Effort) -> Outcome:
        from scdp.resolver import EntityResolver

        train, test = problem.task.train, problem.task.test
        model = EntityResolver(spec=problem.spec, random_state=effort.seed % 2**31, n_jobs=-1, **options)
        model.fit(train.data, codes_of(name_within_groups(train)), train.groups)
        effort.tell(0.8)
        labels, posterior = model.predict_with_posterior(test.data, test.groups)
        return Outcome(labels, draws=_thin_draws(posterior.draws), chains=posterior.n_chains)

    return run


def name_within_groups(part: Labelled) -> NDArray[Any]:
    """Clusters by name, one in two documents being two."""
    if part.groups is None:
        return part.clusters
    return np.array([f"{group}/{name}" for group, name in zip(part.groups, part.clusters, strict=True)])


def _fit(
    model: str, problem: Problem, whole: Labelled, known: Integers, watch: Watch, options: Mapping[str, Any]
) -> tuple[Any, str]:
    from scdp.chains_model import SCDP

    raw = problem.features == "raw"

    class Watched(SCDP):
        """SCDP that tells the watch, in place of showing bars; raw distances have no missing ones."""

        def _bars(self) -> AbstractContextManager[Any]:
            return nullcontext(watch)

        def _sample_fit(self, rows: Any, *others: Any) -> Any:
            if raw and isinstance(rows, Compared):
                rows = replace(rows, computed=take_raw(rows.distances))
            return super()._sample_fit(rows, *others)

    effort = watch.effort
    # The digits come scaled over training and test images together; distances are scaled by the model.
    kind: dict[str, Any] = {"standardize": not raw, "spec": problem.spec}
    if problem.spec is None:
        kind = {"standardize": False, "scheme": "paper" if raw else "collapsed"}
    estimator = Watched(
        model,
        n_chains=effort.chains,
        n_sweeps=effort.sweeps,
        n_jobs=-1,
        random_state=effort.seed % 2**31,
        **(kind | dict(options)),
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.fit(whole.data, known, whole.groups)
    said = [RAW] if raw else []
    return estimator, " ".join(dict.fromkeys([*said, *(str(each.message) for each in caught)]))


def worst_r_hat(posterior: Any) -> float | None:
    """The largest R-hat of the traces; None for one chain, or where no trace moves."""
    found = [each.rhat for each in posterior.diagnostics() if np.isfinite(each.rhat)]
    return float(max(found)) if found else None


class Watch:
    """Counts the sweeps of all chains: tells the share done, and knows the seconds of a sweep of one chain.

    The first sweep of each chain is left out of the time: it may wait for the compiler.
    """

    def __init__(self, effort: Effort) -> None:
        self.effort = effort
        self._first: dict[int, tuple[int, float]] = {}
        self._last: dict[int, tuple[int, float]] = {}

    def advance(self, chain: int, sweeps_done: int) -> None:
        now = (sweeps_done, time.perf_counter())
        self._first.setdefault(chain, now)
        self._last[chain] = now
        done = sum(sweeps for sweeps, _ in list(self._last.values()))
        self.effort.tell(done / (self.effort.chains * self.effort.sweeps))

    def seconds_per_sweep(self) -> float | None:
        spans = [(self._last[chain], first) for chain, first in self._first.items()]
        sweeps = sum(last[0] - first[0] for last, first in spans)
        return sum(last[1] - first[1] for last, first in spans) / sweeps if sweeps else None


def join_parts(train: Labelled, test: Labelled) -> Labelled:
    """Training items, then test items."""
    if isinstance(train.data, Records):
        assert isinstance(test.data, Records)
        columns = {name: np.concatenate([train.data[name], test.data[name]]) for name in train.data.names}
        data: Records | NDArray[np.float64] = Records(columns, train.data.source)
    else:
        data = np.vstack([train.data, np.asarray(test.data)])
    groups = None
    if train.groups is not None and test.groups is not None:
        groups = np.concatenate([train.groups, test.groups])
    return Labelled(
        data, np.concatenate([train.clusters, test.clusters]), np.concatenate([train.ids, test.ids]), groups
    )


def codes_of(clusters: NDArray[Any]) -> Integers:
    """Clusters of any kind as whole numbers."""
    return np.unique(clusters, return_inverse=True)[1].astype(np.int64)


EXAMPLES_OF_A_TYPE = 2


def _thin_draws(draws: NDArray[Any]) -> NDArray[Any]:
    chosen = np.unique(np.linspace(0, draws.shape[1] - 1, SCORED_DRAWS).round().astype(int))
    return draws[:, chosen]


def learned_types(fitted: Any, problem: Problem, whole: Labelled) -> dict[str, Any]:
    """The types at the end of the chain of the greatest log joint: share, precision by feature, example records.

    The examples of a type are its records from different clusters, in their order.
    """
    end = fitted.fitted_.end
    slots, counts = np.unique(end.type, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return {
        "features": feature_names(problem, end.precision.shape[1]),
        "share": (counts[order] / counts.sum()).tolist(),
        "precision": end.precision[slots[order]].tolist(),
        "examples": [[describe(whole, row) for row in _examples(end, slot)] for slot in slots[order]],
    }


def feature_names(problem: Problem, n_features: int) -> list[str]:
    if problem.spec is not None:
        return list(problem.spec.names)
    return [f"pixel {place + 1}" for place in range(n_features)]


def _examples(end: Any, slot: int) -> list[int]:
    """Rows of the type, one a cluster."""
    rows = np.flatnonzero(end.type == slot)
    _, first = np.unique(end.cluster[rows], return_index=True)
    return [int(row) for row in np.sort(rows[first])[:EXAMPLES_OF_A_TYPE]]


def describe(items: Labelled, row: int) -> str:
    """A record as its filled cells, or an image by its number."""
    if isinstance(items.data, Records):
        cells = (items.data[name][row] for name in items.data.names)
        return " | ".join(cell for cell in cells if cell)
    return f"digit {items.clusters[row]}, image {items.ids[row]}"
