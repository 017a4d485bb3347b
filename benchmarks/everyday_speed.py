"""How long the small things take that people do every day: help, reading a table, making records, metrics.

    python -m benchmarks.everyday_speed

Each is run three times and the quickest counts.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from scdp import metrics
from scdp.datasets import make_records
from scdp.table.readers import read_records

REPEATS = 3
N_ROWS = 100_000
N_ITEMS = 1_000_000
KINDS = ("people", "citations")


def main() -> None:
    for name, work in list_work():
        print(f"{time_quickest(work):8.2f} s  {name}")


def time_quickest(work: Callable[[], object]) -> float:
    """The shortest of three runs, in seconds."""
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def list_work() -> Iterator[tuple[str, Callable[[], object]]]:
    """What is timed: its name and the work."""
    yield (
        "scdp --help",
        lambda: subprocess.run([sys.executable, "-m", "scdp.cli", "--help"], check=True, capture_output=True),
    )
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "a.csv"
        line = ",".join(f"some text {i}" for i in range(8))
        rows = "".join(f"{i},{line}\n" for i in range(N_ROWS))
        table.write_text("id,a,b,c,d,e,f,g,h\n" + rows, encoding="utf-8")
        yield f"read a CSV of {N_ROWS:,} rows and 9 columns", lambda: read_records(table)
    for kind in KINDS:
        yield f"make {N_ROWS:,} {kind}", lambda kind=kind: make_records(N_ROWS, kind)
    true, predicted = np.random.default_rng(3).integers(0, N_ITEMS // 10, size=(2, N_ITEMS))
    for name in metrics.__all__:
        yield f"{name} of {N_ITEMS:,} items", lambda name=name: getattr(metrics, name)(true, predicted)


if __name__ == "__main__":
    main()
