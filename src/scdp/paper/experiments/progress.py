"""Progress of a run for people, on stderr: a line for each finished part, and a bar with the time left."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

REFRESH_SECONDS = 0.2
EARLY = 0.03


def in_words(seconds: float) -> str:
    """A length of time as a person says it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class RunProgress:
    """Parts weigh what they are expected to cost, so that the time left is not fooled by cheap ones."""

    def __init__(self, n_parts: int, total_cost: float) -> None:
        self._n_parts, self._total = n_parts, max(total_cost, 1e-9)
        self._n_done, self._done, self._cost = 0, 0.0, 0.0
        self._start = self._shown = time.monotonic()

    def __enter__(self) -> Self:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._bars: Progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[left]}"),
            console=Console(stderr=True, soft_wrap=True, highlight=False),
            transient=True,
        )
        self._bar: TaskID = self._bars.add_task("starting", total=self._total, left="")
        # Without a terminal the bar would leave only its last state in a log file.
        if self._bars.console.is_terminal:
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def say(self, line: str) -> None:
        self._bars.console.print(line, markup=False)

    def begin(self, label: str, cost: float) -> None:
        self._cost = cost
        self._bars.update(self._bar, description=label, completed=self._done, left=self._left(0.0))

    def tell(self, share: float) -> None:
        """The share of the part at work that is done; called by the threads of the chains, often."""
        now = time.monotonic()
        if now - self._shown > REFRESH_SECONDS:
            self._shown = now
            self._bars.update(
                self._bar, completed=self._done + share * self._cost, left=self._left(share * self._cost)
            )

    def finish(self, line: str) -> None:
        self._n_done += 1
        self._done += self._cost
        self._bars.update(self._bar, completed=self._done)
        left = self._left(0.0)
        counted = f"{self._n_done} of {self._n_parts} done"
        self.say(f"{line}; {counted}{', ' + left if left else ''}")

    def _left(self, begun: float) -> str:
        done = self._done + begun
        # Before that the guess would be made of import times.
        if done < EARLY * self._total or done >= self._total:
            return ""
        elapsed = time.monotonic() - self._start
        return f"about {in_words(elapsed / done * (self._total - done))} left"
