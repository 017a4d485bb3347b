"""The systems of the experiments, and the hidden-test protocol by which each is run on a problem.

SCDP sees training clusters and test items together, the test items' clusters hidden, as in the paper. Every other
system learns from the training part alone and then clusters the test part.
"""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Integers
from scdp.datasets import Labelled
from scdp.errors import InputError
from scdp.estimators.inputs import Compared, codes
from scdp.paper.surface import take_raw
from scdp.paper.tasks import DRAWN_BY_SEED, FEATURES, TASKS, Problem, join_parts, name_within_groups, parent
from scdp.table import Records

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


def make_baseline_runner(
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


def make_chain_runner(model: str, *, learns: bool = True, **options: Any) -> Runner:
    """SCDP on training clusters and hidden test items; one that learns nothing sees the test items alone."""

    def run(problem: Problem, effort: Effort) -> Outcome:
        train, test = problem.task.train, problem.task.test
        whole = join_parts(train, test) if learns else test
        hidden = np.arange(len(whole) - len(test), len(whole))
        known = codes(whole.clusters)
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
            types=describe_types(fitted, problem, whole) if learns else None,
            note=note,
        )

    return run


def make_resolver_runner(**options: Any) -> Runner:
    """The resolver: it learns from the training part alone, and clusters the test part with its clusters hidden."""

    def run(problem: Problem, effort: Effort) -> Outcome:
        from scdp.resolver import EntityResolver

        train, test = problem.task.train, problem.task.test
        model = EntityResolver(spec=problem.spec, random_state=effort.seed % 2**31, n_jobs=-1, **options)
        model.fit(train.data, codes(name_within_groups(train)), train.groups)
        effort.tell(0.8)
        labels, posterior = model.predict_with_posterior(test.data, test.groups)
        return Outcome(labels, draws=_thin_draws(posterior.draws), chains=posterior.n_chains)

    return run


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


EXAMPLES_OF_A_TYPE = 2


def _thin_draws(draws: NDArray[Any]) -> NDArray[Any]:
    chosen = np.unique(np.linspace(0, draws.shape[1] - 1, SCORED_DRAWS).round().astype(int))
    return draws[:, chosen]


def describe_types(fitted: Any, problem: Problem, whole: Labelled) -> dict[str, Any]:
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
        "examples": [[describe(whole, row) for row in _choose_examples(end, slot)] for slot in slots[order]],
    }


def feature_names(problem: Problem, n_features: int) -> list[str]:
    if problem.spec is not None:
        return list(problem.spec.names)
    return [f"pixel {place + 1}" for place in range(n_features)]


def _choose_examples(end: Any, slot: int) -> list[int]:
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


# Chains and sweeps by task. Quick runs fit a coffee break on two cores, full ones about an hour of one.
QUICK = MappingProxyType({"digits": (2, 300), "identity": (2, 200), "coreference": (2, 200), "references": (2, 100)})
FULL = MappingProxyType({"digits": (3, 200), "identity": (3, 300), "coreference": (3, 300), "references": (3, 300)})


# Repeats of a full run: draws of digit images, and seeds of the systems on the other tasks of the paper.
DRAWS, SEEDS = 5, 3
BOTH = "both"


@dataclass(frozen=True)
class Settings:
    """The options of a run that change numbers. Which tasks and systems it has may grow from run to run."""

    quick: bool = False
    chains: int | None = None
    sweeps: int | None = None
    repeats: int | None = None
    seed: int = 0
    features: str = "unit"

    def __post_init__(self) -> None:
        for name, least in (("chains", 1), ("sweeps", 2), ("repeats", 1), ("seed", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f"--{name} must be at least {least}, not {value}")

    def effort(self, task: str) -> tuple[int, int]:
        """Chains and sweeps of a sampler on this task."""
        chains, sweeps = (QUICK if self.quick else FULL)[parent(task)]
        return self.chains or chains, self.sweeps or sweeps

    def repeats_of(self, task: str) -> int:
        """Each repeat of the digits draws its own images, and which ones are drawn moves every number."""
        if self.quick or TASKS[task].extra:
            return self.repeats or 1
        return self.repeats or (DRAWS if task in DRAWN_BY_SEED else SEEDS)

    def features_of(self, task: str) -> tuple[str, ...]:
        """The scales of features of this task; raw ones are for the paper's own tables."""
        chosen = FEATURES if self.features == BOTH else (self.features,)
        return tuple(each for each in chosen if each == "unit" or not TASKS[task].extra)

    def seed_of(self, *names: object) -> int:
        """A seed from names and not from order: the same part has it in every run, resumed or not."""
        text = "/".join(map(str, (self.seed, *names)))
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


TEXT = ("identity", "coreference", "references")
EVERY = ("digits", *TEXT)
NUMBER = "it is told the number of test clusters"


@dataclass(frozen=True)
class System:
    """`tasks` are the paper's tasks it applies to, `cost` its rough share of a run's time for the time left.

    An `oracle` is told something of the test clusters, and can only bound what the method does in practice. What is
    `scale_free` gives the same for unit and raw features. `once` is run in the first repeat alone, as the paper
    has no such row.
    """

    name: str
    title: str
    run: Runner
    tasks: tuple[str, ...] = EVERY
    oracle: str = ""
    note: str = ""
    samples: bool = False
    cost: float = 1.0
    scale_free: bool = False
    once: bool = False

    def applies_to(self, task: str) -> bool:
        return parent(task) in self.tasks


# The one reading of SCDP-3 in all tables: it opens clusters on vectors and on distances (docs/results.md).
READING = "mean"

_TABLE = (
    System("coarse", "Coarse", make_baseline_runner("Coarse", across_documents=True), cost=0.1, scale_free=True),
    System("fine", "Fine", make_baseline_runner("Fine"), cost=0.1, scale_free=True),
    System("namematch", "NameMatch", make_baseline_runner("NameMatch"), ("identity",), cost=0.1, scale_free=True),
    System("samehead", "SameHead", make_baseline_runner("SameHead"), ("coreference",), cost=0.1, scale_free=True),
    System("kmeans", "K-Means", make_baseline_runner("OracleKMeans", told=True), oracle=NUMBER, cost=3),
    System("cdp", "CDP", make_chain_runner("cdp", learns=False), EVERY, samples=True, cost=5),
    System(
        "binary",
        "Binary",
        make_baseline_runner("Binary", in_full={"n_pairs": 1500}, n_pairs=500),
        cost=10,
        scale_free=True,
    ),
    System(
        "xingk",
        "Xing-K",
        make_baseline_runner("XingK", told=True, in_full={"max_pairs": 10_000}, max_pairs=5000),
        oracle=f"{NUMBER}, and which C is best",
        cost=10,
    ),
    System(
        "xing2003",
        "Xing-K, as in 2003",
        make_baseline_runner(
            "XingK", told=True, in_full={"max_pairs": 10_000, "program": "2003"}, max_pairs=5000, program="2003"
        ),
        oracle=f"{NUMBER}, and whether learning helps",
        cost=5,
    ),
    System("rca", "RCA", make_baseline_runner("RCA", told=True), oracle=NUMBER, cost=3),
    System(
        "cohenrichman",
        "Cohen-Richman",
        make_baseline_runner(
            "Binary", in_full={"n_pairs": 1500, "links": ("average",)}, n_pairs=500, links=("average",)
        ),
        cost=10,
        scale_free=True,
        once=True,
    ),
    System("scdp1", "SCDP-1", make_chain_runner("scdp1"), EVERY, samples=True, cost=15),
    System("scdp2", "SCDP-2", make_chain_runner("scdp2"), EVERY, samples=True, cost=15),
    System("scdp3", "SCDP-3", make_chain_runner("scdp3", conditioning=READING), samples=True, cost=40),
    System("dpmixture", "DP mixture", make_baseline_runner("DPMixture"), ("digits",), cost=5),
    System(
        "graphpartition",
        "Graph partition",
        make_baseline_runner("GraphPartition", in_full={"updates": (100, 300)}, updates=(100, 300)),
        cost=20,
        scale_free=True,
        once=True,
    ),
    System(
        "clustersvm",
        "Cluster SVM",
        make_baseline_runner("ClusterSVM", in_full={"n_updates": 200}, n_updates=200),
        cost=20,
        scale_free=True,
        once=True,
    ),
    System(
        "modernbinary",
        "Modern binary",
        make_baseline_runner("ModernBinary", in_full={"max_pairs": 40_000}, max_pairs=20_000),
        cost=50,
        scale_free=True,
        once=True,
    ),
    System("resolver", "Entity resolver", make_resolver_runner(), samples=True, cost=30, scale_free=True, once=True),
)
SYSTEMS: MappingProxyType[str, System] = MappingProxyType({system.name: system for system in _TABLE})


def choose_systems(names: str | None) -> list[System]:
    """The systems of a list with commas, in the table's order (all without one); "SCDP-1" is scdp1 too."""
    if names is None:
        return list(SYSTEMS.values())
    wanted = [_plain(name) for name in names.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in SYSTEMS]
    if unknown or not wanted:
        what = f"there is no system {unknown[0]!r}" if unknown else "--systems names no system"
        raise InputError(f"{what}; there are: {', '.join(SYSTEMS)}")
    return [system for name, system in SYSTEMS.items() if name in wanted]


def _plain(name: str) -> str:
    return name.strip().lower().replace("-", "").replace("_", "").replace(" ", "")
