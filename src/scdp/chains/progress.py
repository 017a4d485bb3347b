"""Progress of chains for people: a bar per chain with sweeps per second and time left."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class ChainProgress(Protocol):
    """What a running chain tells."""

    def advance(self, chain: int, sweeps_done: int) -> None: ...


class Silent:
    """Tells nobody."""

    def advance(self, chain: int, sweeps_done: int) -> None:
        pass


class ChainBars:
    """Bars on stderr, refreshed a few times a second however fast the sweeps are."""

    def __init__(self, n_chains: int, n_sweeps: int) -> None:
        self._n_chains, self._n_sweeps = n_chains, n_sweeps
        self._bars: Progress | None = None
        self._tasks: list[TaskID] = []
        self._shown = [0.0] * n_chains

    def __enter__(self) -> Self:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]:>9.0f} sweeps/s"),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=Console(stderr=True),
        )
        names = [f"chain {chain + 1}" for chain in range(self._n_chains)]
        self._tasks = [self._bars.add_task(name, total=self._n_sweeps, speed=0.0) for name in names]
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def advance(self, chain: int, sweeps_done: int) -> None:
        now = time.monotonic()
        if self._bars is None or (now - self._shown[chain] < 0.2 and sweeps_done < self._n_sweeps):
            return
        self._shown[chain] = now
        task = self._bars.tasks[self._tasks[chain]]
        speed = sweeps_done / task.elapsed if task.elapsed else 0.0
        self._bars.update(self._tasks[chain], completed=sweeps_done, speed=speed)
