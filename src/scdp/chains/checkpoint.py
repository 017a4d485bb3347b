"""Checkpoints of chains: two files each, written in turn, so that one is whole whenever the process dies."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Arrays, Floats, Integers
from scdp.chains import State
from scdp.errors import InputError
from scdp.io.atomic import PART, FolderLock, find_leftovers, remove
from scdp.io.sealed import Damaged, Words, read_sealed, write_sealed

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
