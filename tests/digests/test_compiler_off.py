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


# Records of a few people, all pairs of them and candidates; without labels, since learning in plain Python takes long.
RECORDS = """
import json
import sys

import scdp.engines.candidates
import scdp.hashing
import scdp.resolver_fit
from scdp import EntityResolver, Spec, compare

spec = Spec(fields=[compare.person_name("name"), compare.phone("tel")], id="id")
who = [k // 2 for k in range(30)]
rows = {
    "id": [f"r{k}" for k in range(30)],
    "name": [f"{'Anna Bob Clara'.split()[k % 3]} {'Smith Miller Stone King Brown'.split()[k // 3]}" for k in who],
    "tel": [f"0511 {k * 71717 % 99991:05d}" for k in who],
}
# Fewer random pairs: what is learned of them takes 50 passes over all.
scdp.hashing.draw_strangers.__defaults__ = (2_000,)
found = []
model = EntityResolver(spec=spec, n_draws=4, random_state=0).fit(rows)
found.append(model.predict(rows).tolist())
scdp.resolver_fit.MOST_PAIRS = scdp.engines.candidates.MOST_PAIRS = 5
found.append(model.predict(rows).tolist())
print(json.dumps(found))
"""


def test_the_resolver_groups_records_and_candidates_with_the_compiler_off():
    found = []
    for disabled in ("0", "1"):
        run = subprocess.run(
            [sys.executable, "-c", RECORDS],
            env=os.environ | {"NUMBA_DISABLE_JIT": disabled},
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stderr
        found.append(json.loads(run.stdout))
    assert found[0] == found[1]
    assert len(set(found[0][0])) < 30
