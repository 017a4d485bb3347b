"""Progress for people: steps of a fit go in, one line on stderr with the time left comes out."""

from __future__ import annotations

import sys
import time


class Steps:
    """Counts the steps of a long fit; tells nobody unless `verbose`."""

    def __init__(self, name: str, total: int, verbose: bool) -> None:
        self._name, self._total, self._verbose = name, total, verbose
        self._done = 0
        self._start = time.monotonic()

    def done(self, step: str) -> None:
        """One more step is behind us; the time left is judged by the mean of those so far."""
        self._done += 1
        if not self._verbose:
            return
        elapsed = time.monotonic() - self._start
        left = elapsed / self._done * max(self._total - self._done, 0)
        print(
            f"{self._name}: {step} ({self._done} of {self._total}), {elapsed:.0f} s so far, about {left:.0f} s left",
            file=sys.stderr,
            flush=True,
        )
