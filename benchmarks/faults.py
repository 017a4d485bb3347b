"""Fault injection: every write, sync, rename, read and allocation of four short commands fails once.

python -m benchmarks.faults [--only fit] [--allocations 40] [--part 1/2]
Files are those that Python itself touches, allocations are calls of nine functions by which NumPy makes arrays: some
ten thousand, an hour of a core and more. With `--allocations` the first one of every line of code
fails, and about so many others of each command, spread evenly. With `--part 1/2` every second one fails, and with
`--part 2/2` the others: two processes do the work of one. Problems are printed as they are found, and how far it is
every minute, to the error stream.
Prints, for each command and kind, how many operations there were, how many failures were tried and how many runs ended
right in spite of it. The exit code is 1 if anything was lost, mixed or not told in a sentence.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from pathlib import Path

import pytest

from fault_cases import COMMANDS, KINDS, Faults, faults_of, prepare

SECONDS_BETWEEN_LINES = 60


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=COMMANDS)
    parser.add_argument("--allocations", type=int, help="not every one, but the first of each line and so many others")
    parser.add_argument("--part", type=read_part, default=slice(None), help="such as 1/2: the first of two halves")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    n_problems, n_tried, begin = 0, 0, time.process_time()
    with tempfile.TemporaryDirectory(prefix="scdp-faults-") as folder, pytest.MonkeyPatch.context() as patch:
        given = prepare(Path(folder) / "given")
        for name in [options.only] if options.only else COMMANDS:
            with patch.context() as mine:
                faults = faults_of(name, given, Path(folder), mine.setattr)
                faults.expect()
                for kind in KINDS:
                    seen, before = faults.watch(kind), (faults.n_tried, faults.n_right)
                    numbers, lines = list(range(1, seen.count + 1)), ""
                    if kind == "allocation":
                        if options.allocations is not None:
                            some = numbers[:: max(1, seen.count // max(options.allocations, 1))]
                            numbers = sorted({*seen.first.values(), *(some if options.allocations else [])})
                        lines = f" in {len(seen.first)} lines of code"
                    try_all(faults, name, kind, numbers[options.part])
                    tried, right = faults.n_tried - before[0], faults.n_right - before[1]
                    print(
                        f"{name}, {kind}: {seen.count} operations{lines}, {tried} tried, {right} right all the same",
                        flush=True,
                    )
            n_problems += len(faults.problems)
            n_tried += faults.n_tried
    seconds = time.process_time() - begin
    print(f"all: {n_tried} faults, {n_problems} problems; {seconds:.0f} s of processor time")
    return int(n_problems > 0)


def try_all(faults: Faults, name: str, kind: str, numbers: list[int]) -> None:
    """One after another; say what is wrong at once, and every minute how far it is."""
    said = time.monotonic()
    for done, number in enumerate(numbers):
        found = len(faults.problems)
        faults.try_each(kind, [number])
        for problem in faults.problems[found:]:
            print(f"{name}, {problem}", flush=True)
        if time.monotonic() - said > SECONDS_BETWEEN_LINES:
            said = time.monotonic()
            print(f"{name}, {kind}: {done + 1} of {len(numbers)}", file=sys.stderr, flush=True)


def read_part(text: str) -> slice:
    """Which numbers a part has: those from its place on, in steps of the number of parts."""
    place, count = map(int, text.split("/"))
    if not 1 <= place <= count:
        raise ValueError(text)
    return slice(place - 1, None, count)


if __name__ == "__main__":
    sys.exit(main())
