"""Markov chains over clusters and reference types, for the model of Daumé and Marcu.

Here is the state of a chain: what the next step needs and nothing else; what it is learned under, and where it starts.
Checkpoints keep it: two files a chain, written in turn, so that one is whole whenever the process dies.
"""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Arrays, Floats, Integers
from scdp.chains.items import ItemLayout, part_labels
from scdp.errors import InputError
from scdp.io import FolderLock, remove
from scdp.io.atomic import PART, Damaged, Words, find_leftovers, read_sealed, write_sealed


class State(NamedTuple):
    """Slots, not labels: `cluster[i]` and `type[i]` index cluster and type slots, of which some may be empty.

    `precision` has a row per type slot; `shape` and `rate` are the Gamma prior of its columns. `grid` holds
    the rows of a discrete precision prior with log weights `grid_log_weight`, none when the prior is Gamma.

    The rest is for SCDP-3, whose means are part of the state: a row per cluster slot, the separation rate, and
    a discrete mean prior (no row when it is Normal).

    `discount` is Pitman and Yor's, of the prior on clusters; 0 is the Dirichlet process. `pseudo_counts` are the
    parameters of a discrete likelihood, a row for each outcome; none where it is Gaussian.
    """

    cluster: Integers
    type: Integers
    precision: Floats
    cluster_concentration: float
    type_concentration: float
    mean_variance: float
    shape: Floats
    rate: Floats
    grid: Floats
    grid_log_weight: Floats
    means: Floats = np.empty((0, 0))
    separation_rate: float = 1.0
    mean_grid: Floats = np.empty((0, 0))
    mean_grid_log_weight: Floats = np.empty(0)
    discount: float = 0.0
    pseudo_counts: Floats = np.empty((0, 0))

    def to_parts(self) -> tuple[dict[str, float], Arrays]:
        """Its numbers and its arrays by name, for a file."""
        fields = self._asdict()
        arrays = {name: value for name, value in fields.items() if np.ndim(value)}
        return {name: float(value) for name, value in fields.items() if name not in arrays}, arrays


@dataclass(frozen=True)
class GammaPrior:
    """Gamma distribution by shape and rate (mean shape / rate)."""

    shape: float = 1.0
    rate: float = 1.0

    def __post_init__(self) -> None:
        if not (self.shape > 0 and self.rate > 0):
            raise ValueError(f"a Gamma prior needs shape and rate above 0, not {self.shape} and {self.rate}")

    def draw(self, rng: np.random.Generator) -> float:
        return float(rng.standard_gamma(self.shape) / self.rate)


@dataclass(frozen=True)
class PrecisionGrid:
    """A discrete prior on precision vectors: row g of `values` has probability `weights[g]`.

    It makes the joint posterior over clusters, types and precisions enumerable, which is what tests stand on.
    """

    values: NDArray[np.float64]
    weights: NDArray[np.float64]


@dataclass(frozen=True)
class Priors:
    """All priors of the model; a concentration that is not learned keeps the value it starts with."""

    mean_variance: float = 1.0
    precision: GammaPrior | PrecisionGrid = field(default_factory=GammaPrior)
    cluster_concentration: GammaPrior = field(default_factory=GammaPrior)
    type_concentration: GammaPrior = field(default_factory=GammaPrior)
    mean_precision: GammaPrior = field(default_factory=GammaPrior)
    separation_rate: GammaPrior = field(default_factory=GammaPrior)
    precision_rate: GammaPrior = field(default_factory=GammaPrior)

    @property
    def concentrations(self) -> Floats:
        """Shape and rate of the cluster concentration, then of the type concentration, as kernels take them."""
        one, other = self.cluster_concentration, self.type_concentration
        return np.array([one.shape, one.rate, other.shape, other.rate])


@dataclass(frozen=True)
class Plan:
    """Which scheme, what is learned, and how many split-merge moves are tried.

    `separation` (SCDP-2) and `type_coupling` (two variants of SCDP-3) let the prior of precisions follow the gaps
    between means, and clusters know nothing of it. With `conditioning` (SCDP-3) the means are part of the state. New
    clusters are then weighed by `n_auxiliary` means, drawn given the item. In the paper's scheme they are drawn from
    the prior, new types are weighed by as many precisions from the prior, and means are chosen among as many draws
    from the prior and the current one.
    """

    scheme: Literal["collapsed", "paper"] = "collapsed"
    learn_types: bool = True
    learn_concentrations: bool = True
    learn_mean_variance: bool = False
    learn_scale: bool = False
    separation: bool = False
    type_coupling: Literal["types", "density"] | None = None
    split_merge_attempts: int = 5
    conditioning: Literal["published", "normalized", "mean"] | None = None
    n_auxiliary: int = 8
    learn_separation_rate: bool = False


class Info(NamedTuple):
    """What a sweep reports for diagnostics; no later step reads it."""

    opened_clusters: int = 0
    improper_means: int = 0
    negative_norms: int = 0


STARTS = ("kmeans", "singletons", "one")


def start_of_chain(init: str, chain: int) -> str:
    """`mixed` starts each chain at another place, so that their agreement means something."""
    return STARTS[chain % len(STARTS)] if init == "mixed" else init


def initial_state(rng: np.random.Generator, layout: ItemLayout[Any], init: str | Integers, priors: Priors) -> State:
    """Clusters as asked for, one reference type with precision 1, and concentrations of 1."""
    items = layout.items
    cluster = layout.known_slot.copy()
    for place in range(len(items.slot_start)):
        members = items.hidden[items.group[items.hidden] == place]
        if len(members):
            labels = init[members] if isinstance(init, np.ndarray) else part_labels(rng, items, members, init)
            # A given start opens clusters of its own: those after the known slots of the group.
            known = np.unique(cluster[(items.group == place) & (cluster >= 0)])
            _, position = np.unique(labels, return_inverse=True)
            cluster[members] = items.slot_start[place] + len(known) + position
    width, prior = items.n_features, priors.precision
    gamma = GammaPrior() if isinstance(prior, PrecisionGrid) else prior
    state = State(
        cluster=cluster,
        type=np.zeros(len(cluster), dtype=np.int64),
        precision=np.ones((1, width)),
        cluster_concentration=1.0,
        type_concentration=1.0,
        mean_variance=priors.mean_variance,
        shape=np.full(width, gamma.shape),
        rate=np.full(width, gamma.rate),
        grid=np.empty((0, width)),
        grid_log_weight=np.empty(0),
    )
    if isinstance(prior, PrecisionGrid):
        first = prior.values[:1].copy()
        return state._replace(precision=first, grid=prior.values, grid_log_weight=np.log(prior.weights))
    return state


FORMAT, VERSION = "scdp-checkpoint", 1
# The largest share of a run that writing may take: a slow disk makes checkpoints rarer, not the run slower.
SHARE = 0.02
STATE, TRACE, DRAWS = "state.", "trace.", "draws."
# The names of the files; whatever else lies in the folder is the user's.
NAMES = r"chain\d+\.[ab]\.npz"


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written or read; the run goes on without it."""


class Recorder(Protocol):
    """Where draws go, and from where they can be kept and put back; each thread calls it with its own chain number."""

    def record(self, chain: int, draw: int, slots: Integers) -> None: ...
    def export_chain(self, chain: int) -> Arrays: ...
    def restore(self, chain: int, arrays: Mapping[str, NDArray[Any]]) -> None: ...


class ChainCheckpoints:
    """The folder of one run's checkpoints, held by one process at a time.

    `run` names all that the draws depend on, in words; a folder that holds an unfinished run of which any of it
    differs is refused. `seconds` go by between two checkpoints of a chain, or more where writing is slow.
    Several threads call it, each with its own chain number.
    """

    def __init__(
        self,
        folder: Path,
        run: Words,
        *,
        seconds: float,
        n_chains: int,
        n_sweeps: int,
        n_slots: int,
        recorder: Recorder,
    ) -> None:
        self.folder, self._run, self._seconds, self._recorder = folder, run, seconds, recorder
        self._n_chains, self._n_sweeps, self._n_slots = n_chains, n_sweeps, n_slots
        self._lock = FolderLock(folder)
        self._next = [0] * n_chains
        self._kept = [0] * n_chains
        self._last = [0.0] * n_chains
        self._cost = [0.0] * n_chains
        self._found: dict[Path, Words | None] = {}
        self._rngs: dict[int, np.random.Generator] = {}
        self._traces: dict[str, Floats] = {}

    def __enter__(self) -> Self:
        self._lock.__enter__()
        try:
            for half, _ in find_leftovers(self.folder, NAMES, PART, locked=True):
                remove(half)
            self._check_owner()
        except BaseException as error:
            self._lock.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(self, *failure: Any) -> None:
        self._lock.__exit__(*failure)

    def resume(
        self, chain: int, start: State, rng: np.random.Generator, traces: dict[str, Floats]
    ) -> tuple[State, int]:
        """The state to go on from and the sweeps it has behind it; `rng` and `traces` are made to fit."""
        self._rngs[chain], self._traces = rng, traces
        damaged, state, sweeps = [], start, 0
        for place in self._newest_first(chain):
            path = _path(self.folder, chain, place)
            try:
                state, sweeps = self._take_up(chain, *read_sealed(path), start)
            except Damaged:
                damaged.append(path.name)
                continue
            self._next[chain] = 1 - place
            break
        if damaged:
            where = f"from the one before, at sweep {sweeps}" if sweeps else "from the beginning"
            self._tell(f"damaged: {' and '.join(damaged)}; chain {chain + 1} goes on {where}")
        self._kept[chain], self._last[chain] = sweeps, time.monotonic()
        return state, sweeps

    def note_sweep(self, chain: int, sweeps: int, state: State) -> None:
        """A sweep has ended: keep it if it is time to."""
        wait = max(self._seconds, self._cost[chain] / SHARE)
        if time.monotonic() - self._last[chain] >= wait:
            self.note_end(chain, sweeps, state)

    def note_end(self, chain: int, sweeps: int, state: State) -> None:
        """The chain stops here, done or interrupted: keep it."""
        if sweeps == self._kept[chain]:
            return
        begin = time.monotonic()
        about, arrays = self._parts(chain, sweeps, state)
        try:
            write_sealed(_path(self.folder, chain, self._next[chain]), about, arrays)
        except InputError as error:
            self._tell(f"{error}; the run goes on, and the checkpoint before is kept")
        else:
            self._next[chain], self._kept[chain] = 1 - self._next[chain], sweeps
        self._last[chain] = time.monotonic()
        self._cost[chain] = self._last[chain] - begin

    def _tell(self, what: str) -> None:
        warnings.warn(f"checkpoint in {self.folder}: {what}", CheckpointWarning, stacklevel=2)

    def _check_owner(self) -> None:
        """Refuse the folder of another run, unless that one is done; then its files are of no more use."""
        self._found = survey(self.folder)
        others = [about for about in self._found.values() if about and _differs(about, self._run)]
        if not others:
            return
        if _is_done(others):
            for path in self._found:
                remove(path)
            self._found = {}
            return
        raise InputError(
            f"{self.folder}: holds the checkpoint of a run with {_differs(others[0], self._run)}; "
            "give another folder, or remove it"
        )

    def _newest_first(self, chain: int) -> list[int]:
        """The chain's files; one that cannot be read comes first, to be told of."""
        sweeps: dict[int, float] = {}
        for place in (0, 1):
            path = _path(self.folder, chain, place)
            if path in self._found:
                about = self._found[path]
                sweeps[place] = about["sweeps"] if about else float("inf")
        return sorted(sweeps, key=lambda place: -sweeps[place])

    def _parts(self, chain: int, sweeps: int, state: State) -> tuple[Words, Arrays]:
        draws = self._recorder.export_chain(chain)
        scalars, fields = state.to_parts()
        n_draws = len(draws["starts"])
        arrays = {DRAWS + name: values for name, values in draws.items()}
        arrays |= {TRACE + name: values[chain, :n_draws] for name, values in self._traces.items()}
        arrays |= {STATE + name: value for name, value in fields.items()}
        about = {
            "format": FORMAT,
            "version": VERSION,
            "run": self._run,
            "chain": chain,
            "chains": self._n_chains,
            "sweeps": sweeps,
            "of": self._n_sweeps,
            "state": scalars,
            "generator": self._rngs[chain].bit_generator.state,
        }
        return about, arrays

    def _take_up(self, chain: int, about: Words, arrays: Arrays, start: State) -> tuple[State, int]:
        try:
            sweeps = int(about["sweeps"])
            if about["chain"] != chain or not 0 < sweeps <= self._n_sweeps:
                raise Damaged("it is of another chain")
            state = _state(about, arrays, start, self._n_slots)
            self._recorder.restore(chain, _strip_prefix(arrays, DRAWS))
            n_draws = len(arrays[DRAWS + "starts"])
            for name, values in self._traces.items():
                values[chain, :n_draws] = arrays[TRACE + name]
            self._rngs[chain].bit_generator.state = about["generator"]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Damaged(str(error)) from error
        return state, sweeps


def survey(folder: Path) -> dict[Path, Words | None]:
    """What the checkpoints of a folder say of themselves, None where damaged; another version is refused by name."""
    found: dict[Path, Words | None] = {}
    for path in checkpoint_files(folder):
        try:
            found[path] = about = read_sealed(path)[0]
        except Damaged:
            found[path] = None
            continue
        if about.get("format") != FORMAT:
            raise InputError(f"{path}: is no checkpoint of scdp; give another folder, or remove it")
        if about.get("version") != VERSION:
            raise InputError(
                f"{path}: a checkpoint in version {about.get('version')} of the format, and this scdp reads "
                f"{VERSION}; give another folder, or remove it"
            )
        _check_words(path, about)
    return found


def _check_words(path: Path, about: Words) -> None:
    counts = [about.get(name) for name in ("chain", "chains", "sweeps", "of")]
    if not (isinstance(about.get("run"), dict) and all(isinstance(count, int) for count in counts)):
        raise InputError(f"{path}: is no checkpoint of scdp; give another folder, or remove it")


def checkpoint_files(folder: Path) -> list[Path]:
    """The checkpoints in a folder, by their exact names."""
    return sorted(path for path in folder.glob("chain*.npz") if re.fullmatch(NAMES, path.name))


def discard(folder: Path) -> None:
    """Remove checkpoints, and the folder if nothing else is in it."""
    for path in (*checkpoint_files(folder), *(half for half, _ in find_leftovers(folder, NAMES, PART))):
        remove(path)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _path(folder: Path, chain: int, place: int) -> Path:
    return folder / f"chain{chain + 1}.{'ab'[place]}.npz"


def _differs(about: Words, run: Words) -> str | None:
    """The first thing in which a checkpoint is of another run, in words."""
    other = about["run"]
    for name, value in run.items():
        if other.get(name) != value:
            return f"{name} {other.get(name)}, and this one has {value}"
    return None


def _is_done(abouts: list[Words]) -> bool:
    """Whether every chain of the run that wrote these has reached its end."""
    done = {about["chain"] for about in abouts if about["sweeps"] == about["of"]}
    return len(done) == abouts[0]["chains"]


def _strip_prefix(arrays: Arrays, prefix: str) -> Arrays:
    return {name.removeprefix(prefix): values for name, values in arrays.items() if name.startswith(prefix)}


def _state(about: Words, arrays: Arrays, start: State, n_slots: int) -> State:
    """The stored state; kernels do not check places, so those are checked here."""
    stored = _strip_prefix(arrays, STATE)
    fields: dict[str, Any] = {
        name: stored[name] if np.ndim(value) else float(about["state"][name]) for name, value in start._asdict().items()
    }
    for name, value in start._asdict().items():
        if np.ndim(value) and (fields[name].ndim, fields[name].dtype) != (value.ndim, value.dtype):
            raise Damaged(f"{name} has another shape")
    state = State(**fields)
    for places, size in ((state.cluster, n_slots), (state.type, len(state.precision))):
        if places.shape != start.cluster.shape or not 0 <= places.min(initial=0) <= places.max(initial=0) < size:
            raise Damaged("a slot that is not there")
    return state
