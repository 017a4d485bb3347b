"""The local engine: shards go to processes of this machine, their draws come back.

A process that dies costs only the shards it was working on, which go to another; with a folder, what is done is kept
there, and a run that is started again takes it up.
"""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scdp.engines.finished import FinishedShards
from scdp.errors import InputError
from scdp.seating.learned import LearnedRestaurant
from scdp.seating.pairs import Pairs
from scdp.seating.shards import (
    Draws,
    InThreads,
    OnThisMachine,
    Progress,
    Shard,
    everyone_alone,
    shards_of,
)

Integers = NDArray[np.int64]
# Below this many pairs, starting processes takes longer than the seating.
FEWEST_PAIRS = 20_000
# A shard that so many processes have died of is at fault itself.
MOST_DEATHS = 3
# Shards under way beside the processes, so that none waits; more would only take memory.
AHEAD = 2

_restaurant: LearnedRestaurant | None = None


class LocalEngine(OnThisMachine):
    """`workers` processes (one a core, unless given); finished shards are kept in `folder`, if there is one."""

    def __init__(
        self, workers: int | None = None, folder: Path | None = None, fewest: int = FEWEST_PAIRS
    ) -> None:
        if workers is not None and workers < 1:
            raise InputError(f"workers must be at least 1, not {workers}")
        self.workers = workers or os.cpu_count() or 1
        self.folder = folder
        self.fewest = fewest

    def seat(
        self,
        restaurant: LearnedRestaurant,
        pairs: Pairs,
        known: Integers,
        n_draws: int,
        seed: int,
        progress: Progress | None = None,
    ) -> Draws:
        if len(pairs) < self.fewest:
            return InThreads(self.workers).seat(restaurant, pairs, known, n_draws, seed, progress)
        finished = FinishedShards(self.folder, restaurant, n_draws, seed)
        draws = everyone_alone(n_draws, known)
        done = 0
        for shard, seated in self._seated(restaurant, shards_of(pairs, known), n_draws, seed, finished):
            draws[:, shard.items] = seated
            done += len(shard.left)
            if progress is not None:
                progress(done, len(pairs))
        return draws

    def _seated(
        self,
        restaurant: LearnedRestaurant,
        shards: Iterator[Shard],
        n_draws: int,
        seed: int,
        finished: FinishedShards,
    ) -> Iterator[tuple[Shard, Draws]]:
        """Every shard with its draws, in the order in which they are done."""
        waiting: deque[tuple[Shard, int]] = deque()
        while True:
            under_way: dict[Future[Draws], tuple[Shard, int]] = {}
            try:
                with self._pool(restaurant) as pool:
                    while True:
                        room = self.workers + AHEAD - len(under_way) - len(waiting)
                        waiting.extend((shard, 0) for shard in islice(shards, max(room, 0)))
                        if not (waiting or under_way):
                            return
                        while waiting:
                            # Taken off only when it is under way: to hand it over may fail.
                            shard, deaths = waiting[0]
                            kept = finished.find(shard)
                            if kept is None:
                                under_way[pool.submit(_seat, shard, n_draws, seed)] = shard, deaths
                            waiting.popleft()
                            if kept is not None:
                                yield shard, kept
                        for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                            seated = future.result()
                            shard, _ = under_way.pop(future)
                            finished.keep(shard, seated)
                            yield shard, seated
            except (BrokenProcessPool, OSError) as error:
                # A pool that breaks while it starts another process complains of its closed pipe.
                if isinstance(error, OSError) and "closed" not in str(error):
                    raise
                waiting.extend((shard, deaths + 1) for shard, deaths in under_way.values())
                self._check_deaths(waiting, error)

    def _check_deaths(self, waiting: Iterable[tuple[Shard, int]], error: Exception) -> None:
        if any(deaths >= MOST_DEATHS for _, deaths in waiting):
            raise InputError(
                f"{MOST_DEATHS} processes have died while seating the same records, most likely for want of "
                "memory; free some, or use fewer --workers"
            ) from error

    def _pool(self, restaurant: LearnedRestaurant) -> ProcessPoolExecutor:
        # Not forked: threads of this process may hold locks that a copy would wait for without end.
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self.workers, context, _remember, (restaurant,))


def _remember(restaurant: LearnedRestaurant) -> None:
    global _restaurant
    _restaurant = restaurant


def _seat(shard: Shard, n_draws: int, seed: int) -> Draws:
    assert _restaurant is not None
    return shard.seated(_restaurant, n_draws, seed)
