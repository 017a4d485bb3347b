"""The systems of the experiments: a frozen table from name to title, runner, and the tasks it applies to."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Any

from scdp.errors import InputError
from scdp.paper.experiments.paper import parent
from scdp.paper.experiments.protocol import Effort, Outcome, Runner, predicting, resolving, sampling
from scdp.paper.experiments.tasks import Problem

# Chains and sweeps by task. Quick runs fit a coffee break on two cores, full ones an hour or two.
QUICK = MappingProxyType(
    {"digits": (2, 300), "identity": (2, 200), "coreference": (2, 200), "references": (2, 100)}
)
FULL = MappingProxyType(
    {"digits": (4, 3000), "identity": (4, 1000), "coreference": (4, 1000), "references": (4, 1000)}
)


@dataclass(frozen=True)
class Settings:
    """The options of a run that change numbers. Which tasks and systems it has may grow from run to run."""

    quick: bool = False
    chains: int | None = None
    sweeps: int | None = None
    repeats: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("chains", 1), ("sweeps", 2), ("repeats", 1), ("seed", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f"--{name} must be at least {least}, not {value}")

    def effort(self, task: str) -> tuple[int, int]:
        """Chains and sweeps of a sampler on this task."""
        chains, sweeps = (QUICK if self.quick else FULL)[parent(task)]
        return self.chains or chains, self.sweeps or sweeps

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

    An `oracle` is told something of the test clusters, and can only bound what the method does in practice.
    """

    name: str
    title: str
    run: Runner
    tasks: tuple[str, ...] = EVERY
    oracle: str = ""
    note: str = ""
    samples: bool = False
    cost: float = 1.0

    def applies_to(self, task: str) -> bool:
        return parent(task) in self.tasks


_ON_POINTS, _ON_DISTANCES = sampling("scdp3"), sampling("scdp3", conditioning="mean")


def _scdp3(problem: Problem, effort: Effort) -> Outcome:
    """The reading that is best on training data: on distances, the sum over pairs joins everything (docs/scdp3.md)."""
    if problem.spec is None:
        return _ON_POINTS(problem, effort)
    outcome = _ON_DISTANCES(problem, effort)
    return replace(outcome, note=f"Separation averaged over pairs of clusters. {outcome.note}".strip())


_TABLE = (
    System("coarse", "Coarse", predicting("Coarse", across_documents=True), cost=0.1),
    System("fine", "Fine", predicting("Fine"), cost=0.1),
    System("namematch", "NameMatch", predicting("NameMatch"), ("identity",), cost=0.1),
    System("samehead", "SameHead", predicting("SameHead"), ("coreference",), cost=0.1),
    System("kmeans", "K-Means", predicting("OracleKMeans", told=True), oracle=NUMBER, cost=3),
    System("cdp", "CDP", sampling("cdp", learns=False), EVERY, samples=True, cost=5),
    System("binary", "Binary", predicting("Binary", n_pairs=500), cost=30),
    System(
        "xingk",
        "Xing-K",
        predicting("XingK", told=True, max_pairs=5000),
        oracle=f"{NUMBER}, and which C is best",
        cost=10,
    ),
    System("scdp1", "SCDP-1", sampling("scdp1"), EVERY, samples=True, cost=15),
    System("scdp2", "SCDP-2", sampling("scdp2"), EVERY, samples=True, cost=15),
    System("scdp3", "SCDP-3", _scdp3, samples=True, cost=40),
    System("dpmixture", "DP mixture", predicting("DPMixture"), ("digits",), cost=5),
    System("graphpartition", "Graph partition", predicting("GraphPartition", updates=(100, 300)), cost=20),
    System("clustersvm", "Cluster SVM", predicting("ClusterSVM", n_updates=200), cost=20),
    System("modernbinary", "Modern binary", predicting("ModernBinary", max_pairs=20_000), cost=50),
    System("resolver", "Entity resolver", resolving(), samples=True, cost=30),
)
SYSTEMS: MappingProxyType[str, System] = MappingProxyType({system.name: system for system in _TABLE})


def chosen_systems(names: str | None) -> list[System]:
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
