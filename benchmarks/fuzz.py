"""Mutated files for every reader: no exception but an InputError.

python -m benchmarks.fuzz [--examples 100000] [--only tables] [--start 0]
Prints for each reader how many files were tried and read, and the processor time; the exit code is 1 if an exception
had no type of its own, or an answer could not be right. An example is made again from its number.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from pathlib import Path

from fuzz_cases import READERS, try_reader

MOST_PROBLEMS = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, default=100_000)
    parser.add_argument("--only", choices=list(READERS))
    parser.add_argument("--start", type=int, default=0, help="number of the first example")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    problems: list[str] = []
    for name in [options.only] if options.only else READERS:
        begin, n_read, found = time.process_time(), 0, len(problems)
        with tempfile.TemporaryDirectory(prefix="scdp-fuzz-") as folder:
            for number in range(options.start, options.start + options.examples):
                try:
                    n_read += try_reader(name, number, Path(folder))
                except AssertionError as error:
                    problems.append(str(error))
                    if len(problems) - found >= MOST_PROBLEMS:
                        break
        seconds = time.process_time() - begin
        print(
            f"{name}: {options.examples:,} files, {n_read:,} read, {len(problems) - found} problems; {seconds:.0f} s",
            flush=True,
        )
    print("\n".join(problems))
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
