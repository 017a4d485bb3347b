"""Progress of long work for people: a bar with the time left, for what takes over two seconds."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING

from scdp.compare.distances.compute import Progress

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

PATIENCE = 2.0


class PatientBar:
    """Gives a function to be told (done, total); shows nothing before two seconds have passed."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._bars: Bars | None = None
        self._start = time.monotonic()

    def __enter__(self) -> Progress:
        return self.advance

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def advance(self, done: int, total: int) -> None:
        if self._bars is None and time.monotonic() - self._start > PATIENCE:
            self._bars = _started()
        if self._bars is not None:
            if not self._bars.tasks:
                self._bars.add_task(self._what, total=total)
            self._bars.update(self._bars.tasks[0].id, completed=done, total=total)


def _started() -> Bars:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=Console(stderr=True),
    )
    bars.start()
    return bars
