"""The local engine: shards go to threads, or where they are very many to processes of this machine; draws come back.

A process that dies or falls silent costs only the shards it was working on, which go to another; with a folder, what
is done is kept there, and a run that is started again takes it up.

Finished shards. Each file has a checksum and says of which run it is. What does not fit is made again with a note; a
disk that is full is told of once, and the run goes on.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import re
import signal
import threading
import time
import warnings
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp import __version__
from scdp._parallel import Progress
from scdp._typing import Integers
from scdp.compare.features import Pairs
from scdp.conditions import Conditions
from scdp.engines import MakeShard, OnThisMachine, Shard, ShardDraws, collect_draws, plan_shards, sample_in_threads
from scdp.errors import InputError
from scdp.io import remove
from scdp.io.atomic import PART, Damaged, find_leftovers, read_sealed, write_sealed
from scdp.linkage import Ensemble
from scdp.posterior.linked import LinkedDraws

FORMAT = "scdp-shard-2"
NAMES = r"shard-[0-9a-f]{32}\.npz"


class ShardWarning(UserWarning):
    """A finished shard could not be kept or found again; the run goes on without it."""


class FinishedShards:
    """Of one ensemble, number of draws and seed; without a folder nothing is kept."""

    def __init__(self, folder: Path | None, ensemble: Ensemble, n_draws: int, seed: int) -> None:
        self.folder = folder
        self._n_draws = n_draws
        self._run = blake2b(f"{FORMAT} {__version__} {np.__version__}".encode(), digest_size=16)
        if folder is None:
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self._give_up(f"{folder}: cannot be written ({error.strerror})")
        _add(self._run, np.array([n_draws, seed, ensemble.n_rescans]))
        for array in _arrays_of(ensemble):
            _add(self._run, array)

    def find(self, shard: Shard) -> LinkedDraws | None:
        """The draws of a shard that was finished before."""
        path = self._path(shard)
        if path is None:
            return None
        if not path.is_symlink() and not path.exists():
            return None
        with suppress(Damaged, KeyError, ValueError):
            about, arrays = read_sealed(path)
            draws = LinkedDraws(*(arrays[name] for name in LinkedDraws._fields))
            # Whoever can write here could make a checksum too, and kernels follow labels.
            draws.check(self._n_draws, shard.items)
            if about == self._about(path):
                return draws
        self._tell_damaged()
        return None

    def keep(self, shard: Shard, draws: LinkedDraws) -> None:
        """Keep the draws of a shard, if the disk takes them."""
        path = self._path(shard)
        if path is None:
            return
        try:
            if path.is_symlink() or (path.exists() and not path.is_file()):
                remove(path)
            write_sealed(path, self._about(path), draws._asdict())
        except InputError as error:
            self._give_up(str(error))

    def _tell_damaged(self) -> None:
        warnings.warn(
            f"{self.folder}: some of what was kept is damaged or of another run; it is made again",
            ShardWarning,
            stacklevel=3,
        )

    def _give_up(self, why: str) -> None:
        warnings.warn(f"{why}; the run goes on, and keeps nothing for --resume", ShardWarning, stacklevel=3)
        self.folder = None

    def _about(self, path: Path) -> dict[str, Any]:
        return {"format": FORMAT, "run": self._run.hexdigest(), "shard": path.name}

    def _path(self, shard: Shard) -> Path | None:
        # Threads share this, and any of them may give the folder up.
        folder = self.folder
        if folder is None:
            return None
        digest = self._run.copy()
        arrays: list[NDArray[Any]] = [shard.items, shard.left, shard.right, shard.features, shard.known]
        if shard.conditions is not None:
            arrays += shard.conditions.arrays()
        for array in arrays:
            _add(digest, array)
        return folder / f"shard-{digest.hexdigest()}.npz"


def shard_files(folder: Path) -> list[Path]:
    """The finished shards in a folder, by their exact names."""
    return sorted(path for path in folder.glob("shard-*.npz") if re.fullmatch(NAMES, path.name))


def discard(folder: Path) -> None:
    """Remove the finished shards, and the folder if nothing else is in it."""
    for path in (*shard_files(folder), *(half for half, _ in find_leftovers(folder, NAMES, PART))):
        remove(path)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _add(digest: Any, array: NDArray[Any]) -> None:
    digest.update(str((array.shape, array.dtype.str)).encode())
    digest.update(np.ascontiguousarray(array).data)


def _arrays_of(ensemble: Ensemble) -> list[NDArray[Any]]:
    """All that the draws of a shard hang on."""
    arrays: list[NDArray[Any]] = [ensemble.knots.at, ensemble.knots.sign, np.array([ensemble.log_odds])]
    for member in ensemble.members:
        arrays += [member.heights, member.missing, np.array(member[2:])]
    for trees in ensemble.trees:
        arrays += list(trees.arrays().values())
    if ensemble.table is not None:
        arrays += [ensemble.table.ratio, ensemble.table.exact, *ensemble.table.layout]
    return arrays if ensemble.floors is None else [*arrays, ensemble.floors]


# Below this many pairs threads do as well: processes take seconds to start and a quarter of a gigabyte each.
FEWEST_PAIRS = 2_000_000
# Who asks for a number of processes gets them where there is any work for them.
FEWEST_ASKED_FOR = 20_000
# A shard that so many processes have died of is at fault itself.
MOST_DEATHS = 3
# A process tells so often that it lives, and is replaced when it has not for so long; it may take longer to start.
BEAT_SECONDS = 1.0
SILENT_SECONDS = 60.0
STARTING_SECONDS = 120.0
BEAT = None


class LocalEngine(OnThisMachine):
    """`workers` processes (one a core, unless given); finished shards are kept in `folder`, if there is one.

    Fewer than `fewest` pairs are sampled in as many threads instead: 20,000 if `workers` is given, otherwise 2 million.
    """

    def __init__(self, workers: int | None = None, folder: Path | None = None, fewest: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise InputError(f"workers must be at least 1, not {workers}")
        self.workers = workers or os.cpu_count() or 1
        self.folder = folder
        usual = FEWEST_PAIRS if workers is None else FEWEST_ASKED_FOR
        self.fewest = usual if fewest is None else fewest

    def sample(
        self,
        ensemble: Ensemble,
        pairs: Pairs,
        known: Integers,
        n_draws: int,
        seed: int,
        progress: Progress | None = None,
        conditions: Conditions | None = None,
    ) -> LinkedDraws:
        finished = FinishedShards(self.folder, ensemble, n_draws, seed)
        run = self._in_threads if len(pairs) < self.fewest else self._in_processes
        drawn = run(ensemble, plan_shards(pairs, known, conditions), n_draws, seed, finished)
        return collect_draws(drawn, n_draws, len(pairs), progress)

    def _in_threads(
        self, ensemble: Ensemble, plan: Iterator[MakeShard], n_draws: int, seed: int, finished: FinishedShards
    ) -> Iterator[ShardDraws]:
        """The draws of every shard, in order."""

        def sample(shard: Shard) -> LinkedDraws:
            draws = finished.find(shard)
            if draws is None:
                draws = shard.sample(ensemble, n_draws, seed)
                finished.keep(shard, draws)
            return draws

        return sample_in_threads(plan, sample, self.workers)

    def _in_processes(
        self, ensemble: Ensemble, plan: Iterator[MakeShard], n_draws: int, seed: int, finished: FinishedShards
    ) -> Iterator[ShardDraws]:
        """The draws of every shard, in the order in which they are done."""
        again: deque[Job] = deque()
        workers = [self.start(ensemble) for _ in range(self.workers)]
        busy: dict[Connection, tuple[Worker, Job]] = {}
        try:
            while True:
                while workers and (job := again.popleft() if again else _next(plan)) is not None:
                    kept = finished.find(job.shard)
                    if kept is not None:
                        yield ShardDraws(kept, len(job.shard.left))
                        continue
                    worker = workers.pop()
                    busy[worker.connection] = worker, job
                    worker.send((job.shard, n_draws, seed))
                if not busy:
                    return
                for worker, job in _who_spoke(busy):
                    drawn = worker.result()
                    if drawn is BEAT and worker.lives:
                        continue
                    del busy[worker.connection]
                    if drawn is BEAT:
                        again.append(job.after_a_death())
                        workers.append(self.start(ensemble))
                        continue
                    workers.append(worker)
                    finished.keep(job.shard, drawn)
                    yield ShardDraws(drawn, len(job.shard.left))
        finally:
            for worker in [*workers, *(worker for worker, _ in busy.values())]:
                worker.stop()

    def start(self, ensemble: Ensemble) -> Worker:
        """A process that waits for shards."""
        # Not forked: threads of this process may hold locks that a copy would wait for without end.
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=self.work, args=(theirs, BEAT_SECONDS), daemon=True)
        with _interrupts_blocked():
            process.start()
        # Now only the process holds its end, so that its death is the end of the line.
        theirs.close()
        worker = Worker(process, ours)
        worker.send(ensemble)
        return worker

    @staticmethod
    def work(connection: Connection, beat_seconds: float) -> None:
        """Sample shards until the line ends."""
        # A line that ends, in the middle of a message too, means that nobody waits for the result.
        with suppress(EOFError, OSError, pickle.UnpicklingError):
            connection.send(BEAT)
            ensemble = connection.recv()
            while True:
                shard, n_draws, seed = connection.recv()
                with _heartbeat(connection, beat_seconds):
                    draws = shard.sample(ensemble, n_draws, seed)
                connection.send(draws)


@dataclass(frozen=True, eq=False)
class Job:
    """A shard, and how many processes have died of it."""

    shard: Shard
    deaths: int = 0

    def after_a_death(self) -> Job:
        if self.deaths + 1 >= MOST_DEATHS:
            raise InputError(
                f"{MOST_DEATHS} processes have died or stopped while clustering the same records, most likely for want "
                "of memory; free some, or use fewer --workers"
            )
        return Job(self.shard, self.deaths + 1)


@dataclass(eq=False)
class Worker:
    """A process, the line to it, and when it was last heard of."""

    process: BaseProcess
    connection: Connection
    lives: bool = True
    heard: float = field(default_factory=lambda: time.monotonic() + STARTING_SECONDS)
    # Sending waits for the process to read, and this one must not wait for a process that is stopped.
    sender: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(max_workers=1))

    @property
    def is_silent(self) -> bool:
        return time.monotonic() - self.heard > SILENT_SECONDS

    def send(self, message: object) -> None:
        """Send in the background; whether the process is dead, asking for its result will tell."""
        self.heard = max(self.heard, time.monotonic())
        self.sender.submit(self.connection.send, message)

    def result(self) -> LinkedDraws | None:
        """The draws; None if it only tells that it lives, or does not any more."""
        try:
            if self.is_silent and not self.connection.poll():
                raise EOFError
            draws = self._receive()
        except (EOFError, OSError, pickle.UnpicklingError):
            self.stop()
            return None
        self.heard = time.monotonic()
        return draws

    def _receive(self) -> LinkedDraws | None:
        # A process that is stopped in the middle of a message would be waited for without end.
        watch = threading.Timer(SILENT_SECONDS, self.process.kill)
        watch.daemon = True
        watch.start()
        try:
            draws: LinkedDraws | None = self.connection.recv()
        finally:
            watch.cancel()
        return draws

    def stop(self) -> None:
        self.lives = False
        # A process that is stopped does not heed a gentler signal.
        self.process.kill()
        self.process.join()
        self.sender.shutdown()
        self.connection.close()


def _who_spoke(busy: dict[Connection, tuple[Worker, Job]]) -> list[tuple[Worker, Job]]:
    """The workers that said something, died, or have been silent for too long."""
    spoke = wait(list(busy), timeout=BEAT_SECONDS)
    return [(worker, job) for line, (worker, job) in list(busy.items()) if line in spoke or worker.is_silent]


@contextmanager
def _heartbeat(connection: Connection, seconds: float) -> Iterator[None]:
    """Tell all the while that this process lives; nothing else may be sent in here."""
    done = threading.Event()

    def beat() -> None:
        with suppress(OSError):
            while not done.wait(seconds):
                connection.send(BEAT)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """A process that is started in here never hears of Ctrl-C, which is for this one to act on."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _next(plan: Iterator[MakeShard]) -> Job | None:
    make = next(plan, None)
    return None if make is None else Job(make())
