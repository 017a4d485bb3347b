"""Fault injection: every write, sync, rename, read and allocation of four short commands fails once.

python -m benchmarks.faults [--only fit] [--allocations 40]
Files are those that Python itself touches, allocations are calls of nine functions by which NumPy makes arrays: some
ten thousand, an hour of a core and more. With `--allocations` the first one of every line of code
fails, and about so many others of each command, spread evenly.
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

from fault_cases import COMMANDS, KINDS, faults_of, prepare


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=COMMANDS)
    parser.add_argument("--allocations", type=int, help="not every one, but the first of each line and so many others")
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
                    faults.try_each(kind, numbers)
                    tried, right = faults.n_tried - before[0], faults.n_right - before[1]
                    print(
                        f"{name}, {kind}: {seen.count} operations{lines}, {tried} tried, {right} right all the same",
                        flush=True,
                    )
            print("".join(f"{name}, {each}\n" for each in faults.problems), end="", flush=True)
            n_problems += len(faults.problems)
            n_tried += faults.n_tried
    seconds = time.process_time() - begin
    print(f"all: {n_tried} faults, {n_problems} problems; {seconds:.0f} s of processor time")
    return int(n_problems > 0)


if __name__ == "__main__":
    sys.exit(main())
