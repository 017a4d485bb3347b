"""The systems of the experiments: a frozen table from name to title, runner, and the tasks it applies to."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

from scdp.errors import InputError
from scdp.paper.protocol import Runner, predicting, resolving, sampling
from scdp.paper.tasks import DRAWN_BY_SEED, FEATURES, TASKS, parent

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
    System("coarse", "Coarse", predicting("Coarse", across_documents=True), cost=0.1, scale_free=True),
    System("fine", "Fine", predicting("Fine"), cost=0.1, scale_free=True),
    System("namematch", "NameMatch", predicting("NameMatch"), ("identity",), cost=0.1, scale_free=True),
    System("samehead", "SameHead", predicting("SameHead"), ("coreference",), cost=0.1, scale_free=True),
    System("kmeans", "K-Means", predicting("OracleKMeans", told=True), oracle=NUMBER, cost=3),
    System("cdp", "CDP", sampling("cdp", learns=False), EVERY, samples=True, cost=5),
    System("binary", "Binary", predicting("Binary", in_full={"n_pairs": 1500}, n_pairs=500), cost=10, scale_free=True),
    System(
        "xingk",
        "Xing-K",
        predicting("XingK", told=True, in_full={"max_pairs": 10_000}, max_pairs=5000),
        oracle=f"{NUMBER}, and which C is best",
        cost=10,
    ),
    System(
        "xing2003",
        "Xing-K, as in 2003",
        predicting(
            "XingK", told=True, in_full={"max_pairs": 10_000, "program": "2003"}, max_pairs=5000, program="2003"
        ),
        oracle=f"{NUMBER}, and whether learning helps",
        cost=5,
    ),
    System("rca", "RCA", predicting("RCA", told=True), oracle=NUMBER, cost=3),
    System(
        "cohenrichman",
        "Cohen-Richman",
        predicting("Binary", in_full={"n_pairs": 1500, "links": ("average",)}, n_pairs=500, links=("average",)),
        cost=10,
        scale_free=True,
        once=True,
    ),
    System("scdp1", "SCDP-1", sampling("scdp1"), EVERY, samples=True, cost=15),
    System("scdp2", "SCDP-2", sampling("scdp2"), EVERY, samples=True, cost=15),
    System("scdp3", "SCDP-3", sampling("scdp3", conditioning=READING), samples=True, cost=40),
    System("dpmixture", "DP mixture", predicting("DPMixture"), ("digits",), cost=5),
    System(
        "graphpartition",
        "Graph partition",
        predicting("GraphPartition", in_full={"updates": (100, 300)}, updates=(100, 300)),
        cost=20,
        scale_free=True,
        once=True,
    ),
    System(
        "clustersvm",
        "Cluster SVM",
        predicting("ClusterSVM", in_full={"n_updates": 200}, n_updates=200),
        cost=20,
        scale_free=True,
        once=True,
    ),
    System(
        "modernbinary",
        "Modern binary",
        predicting("ModernBinary", in_full={"max_pairs": 40_000}, max_pairs=20_000),
        cost=50,
        scale_free=True,
        once=True,
    ),
    System("resolver", "Entity resolver", resolving(), samples=True, cost=30, scale_free=True, once=True),
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
