"""SIGKILL at random moments: what is left at the end is what an uninterrupted run leaves (`make crash` for 300)."""

from __future__ import annotations

import numpy as np
import pytest

from crash_cases import Tally, kill_often, prepare

pytestmark = pytest.mark.posix

KILLS = {"fit": 4, "cluster": 2, "reproduce": 1, "update": 3}


def test_ten_kills_change_nothing(tmp_path):
    tally = Tally()
    for job in prepare(tmp_path, sweeps=200):
        kill_often(job, KILLS[job.name], tmp_path, np.random.default_rng(11), tally)
    assert tally.kills == 10
    assert tally.same == tally.runs, tally.problems
    # Some kills have to fall after a checkpoint, or nothing was tested.
    assert tally.with_checkpoint >= 2
