"""200 SIGKILLs at random moments of `scdp fit`, `scdp cluster` and `scdp reproduce`, each going on with --resume.

Prints how many runs ended exactly as an uninterrupted one does; the exit code is 1 unless all of them did.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

# Threads of libraries do not survive a fork.
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "SCDP_OFFLINE": "1"}

import numpy as np

from crash_cases import Fork, Job, Tally, kill_often, prepare

SHARES = {"fit": 0.45, "cluster": 0.3, "reproduce": 0.25}
SWEEPS = 150


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--only", choices=list(SHARES), help="of all kills, those of this command")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng, total = np.random.default_rng(options.seed), Tally()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="scdp-crash-") as folder:
        for job in prepare(Path(folder), SWEEPS):
            if options.only not in (None, job.name):
                continue
            tally = Tally()
            # Once in this very process, so that copies of it have all code at hand.
            rehearse(job, Path(folder) / f"{job.name}-here")
            kill_often(job, round(options.kills * SHARES[job.name]), Path(folder), rng, tally, Fork)
            print(f"scdp {job.name}: {line(tally)}", flush=True)
            for name in ("kills", "runs", "same", "with_checkpoint", "problems"):
                setattr(total, name, getattr(total, name) + getattr(tally, name))
    print(f"all: {line(total)}; {time.monotonic() - begin:.0f} s")
    print("\n".join(total.problems))
    return int(total.same < total.runs)


def rehearse(job: Job, folder: Path) -> None:
    from click.testing import CliRunner

    from scdp.cli import main as command

    folder.mkdir()
    result = CliRunner().invoke(command, job.command(folder))
    assert result.exit_code == 0, result.output


def line(tally: Tally) -> str:
    return (
        f"{tally.kills} kills ({tally.with_checkpoint} left something to go on from) in {tally.runs} runs, "
        f"{tally.same} of {tally.runs} ended as an uninterrupted run does"
    )


if __name__ == "__main__":
    sys.exit(main())
