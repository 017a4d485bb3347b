"""The local engine: shards go to threads, or where they are very many to processes of this machine; draws come back.

A process that dies costs only the shards it was working on, which go to another; with a folder, what is done is kept
there, and a run that is started again takes it up.
"""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scdp._parallel import map_in_threads
from scdp.engines.finished import FinishedShards
from scdp.errors import InputError
from scdp.linkage.ensemble import Ensemble
from scdp.linkage.pairs import Pairs
from scdp.linkage.shards import Draws, OnThisMachine, Progress, Shard, all_apart, split_shards

Integers = NDArray[np.int64]
# Below this many pairs threads do as well: processes take seconds to start and a quarter of a gigabyte each.
FEWEST_PAIRS = 2_000_000
# Who asks for a number of processes gets them where there is any work for them.
FEWEST_ASKED_FOR = 20_000
# A shard that so many processes have died of is at fault itself.
MOST_DEATHS = 3


class LocalEngine(OnThisMachine):
    """`workers` processes (one a core, unless given); finished shards are kept in `folder`, if there is one.

    Fewer than `fewest` pairs are sampled in as many threads instead: 20,000 if `workers` is given, otherwise 2 million.
    """

    def __init__(
        self, workers: int | None = None, folder: Path | None = None, fewest: int | None = None
    ) -> None:
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
    ) -> Draws:
        finished = FinishedShards(self.folder, ensemble, n_draws, seed)
        draws = all_apart(n_draws, known)
        done = 0
        run = self._in_threads if len(pairs) < self.fewest else self._in_processes
        for shard, drawn in run(ensemble, split_shards(pairs, known), n_draws, seed, finished):
            draws[:, shard.items] = drawn
            done += len(shard.left)
            if progress is not None:
                progress(done, len(pairs))
        return draws

    def _in_threads(
        self,
        ensemble: Ensemble,
        shards: Iterator[Shard],
        n_draws: int,
        seed: int,
        finished: FinishedShards,
    ) -> Iterator[tuple[Shard, Draws]]:
        """Every shard with its draws, in order."""

        def sample(shard: Shard) -> tuple[Shard, Draws]:
            draws = finished.find(shard)
            if draws is None:
                draws = shard.sample(ensemble, n_draws, seed)
                finished.keep(shard, draws)
            return shard, draws

        return map_in_threads(sample, shards, self.workers)

    def _in_processes(
        self,
        ensemble: Ensemble,
        shards: Iterator[Shard],
        n_draws: int,
        seed: int,
        finished: FinishedShards,
    ) -> Iterator[tuple[Shard, Draws]]:
        """Every shard with its draws, in the order in which they are done."""
        again: deque[Job] = deque()
        workers = [self.start(ensemble) for _ in range(self.workers)]
        busy: dict[Connection, tuple[Worker, Job]] = {}
        try:
            while True:
                while workers and (job := again.popleft() if again else _next(shards)) is not None:
                    kept = finished.find(job.shard)
                    if kept is not None:
                        yield job.shard, kept
                        continue
                    worker = workers.pop()
                    busy[worker.connection] = worker, job
                    worker.hand_over(job.shard, n_draws, seed)
                if not busy:
                    return
                for connection in wait(list(busy)):
                    assert isinstance(connection, Connection)
                    worker, job = busy.pop(connection)
                    drawn = worker.result()
                    if drawn is None:
                        again.append(job.after_a_death())
                        workers.append(self.start(ensemble))
                        continue
                    workers.append(worker)
                    finished.keep(job.shard, drawn)
                    yield job.shard, drawn
        finally:
            for worker in [*workers, *(worker for worker, _ in busy.values())]:
                worker.stop()

    def start(self, ensemble: Ensemble) -> Worker:
        """A process that waits for shards."""
        # Not forked: threads of this process may hold locks that a copy would wait for without end.
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=self.work, args=(theirs, ensemble), daemon=True)
        process.start()
        # Now only the process holds its end, so that its death is the end of the line.
        theirs.close()
        return Worker(process, ours)

    @staticmethod
    def work(connection: Connection, ensemble: Ensemble) -> None:
        """Sample shards until the line ends."""
        while True:
            try:
                shard, n_draws, seed = connection.recv()
            except EOFError:
                return
            connection.send(shard.sample(ensemble, n_draws, seed))


@dataclass(frozen=True, eq=False)
class Job:
    """A shard, and how many processes have died of it."""

    shard: Shard
    deaths: int = 0

    def after_a_death(self) -> Job:
        if self.deaths + 1 >= MOST_DEATHS:
            raise InputError(
                f"{MOST_DEATHS} processes have died while clustering the same records, most likely for want of "
                "memory; free some, or use fewer --workers"
            )
        return Job(self.shard, self.deaths + 1)


@dataclass(frozen=True, eq=False)
class Worker:
    """A process, and the line to it."""

    process: BaseProcess
    connection: Connection

    def hand_over(self, shard: Shard, n_draws: int, seed: int) -> None:
        try:
            self.connection.send((shard, n_draws, seed))
        except OSError:
            # It is dead, which asking for its result will tell.
            return

    def result(self) -> Draws | None:
        """The draws, or None if it has died."""
        try:
            draws: Draws = self.connection.recv()
        except (EOFError, OSError):
            self.stop()
            return None
        return draws

    def stop(self) -> None:
        self.connection.close()
        self.process.terminate()
        self.process.join()


def _next(shards: Iterator[Shard]) -> Job | None:
    shard = next(shards, None)
    return None if shard is None else Job(shard)
