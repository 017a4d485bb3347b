"""300 SIGKILLs at random moments of `fit`, `cluster`, `update`, `label`, `reproduce` and of `--workers`.

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

from crash_cases import Fork, Job, Tally, kill_label, kill_often, kill_workers, prepare

SHARES = {"fit": 0.25, "cluster": 0.2, "reproduce": 0.1, "update": 0.18, "label": 0.1, "workers": 0.17}
SWEEPS = 150


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--only", choices=list(SHARES), help="of all kills, those of this command")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng, total = np.random.default_rng(options.seed), Tally()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="scdp-crash-") as folder:
        place = Path(folder)
        jobs = {job.name: job for job in prepare(place, SWEEPS)}
        for name, share in SHARES.items():
            if options.only not in (None, name):
                continue
            n_kills, tally = round(options.kills * share), Tally()
            if name in jobs:
                # Once in this very process, so that copies of it have all code at hand.
                rehearse(jobs[name], place / f"{name}-here")
                kill_often(jobs[name], n_kills, place, rng, tally, Fork)
            else:
                (kill_label if name == "label" else kill_workers)(n_kills, place, rng, tally)
            print(f"{name}: {line(tally)}", flush=True)
            for part in ("kills", "runs", "same", "with_checkpoint", "problems"):
                setattr(total, part, getattr(total, part) + getattr(tally, part))
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
