"""With the compiler off, kernels are plain Python and NumPy, and every run gives the same draws and labels."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from digests.record import read_digests

# One of every kind of rows, of both schemes and of every model.
CASES = {
    "chains": [
        "cdp vectors paper",
        "scdp1 vectors share",
        "scdp1 records known",
        "scdp2 distances",
        "scdp3-normalized distances groups",
        "scdp3-mean vectors paper",
        "scdp3-published vectors collapsed",
    ],
    "resolver": ["distances"],
}
PROGRAM = """
import json
import sys

from digests.cases import CASES
from digests.record import digest

print(json.dumps({section: {name: digest(CASES[section][name]()) for name in names}
                  for section, names in json.loads(sys.argv[1]).items()}))
"""


def test_the_pipeline_runs_and_gives_the_same_with_the_compiler_off():
    paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(CASES)],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    recorded = read_digests()
    assert json.loads(run.stdout) == {
        section: {name: recorded[section][name] for name in names} for section, names in CASES.items()
    }
