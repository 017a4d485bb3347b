"""The convergence warning over a handful of simulated runs (`make alarms` for 200 of each kind)."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks import alarms


def test_chains_stuck_apart_are_warned_of_and_draws_of_one_law_are_not(monkeypatch):
    """Detection is near 1 and false alarms near 0 (docs/checkpoints.md): 3 of 4 and 1 of 4 leave room for luck."""
    monkeypatch.setattr(alarms, "SWEEPS", 600)
    assert alarms.count(alarms.two_clusters_apart, 4) >= 3
    assert alarms.count(alarms.one_pair_apart, 4) >= 3
    assert alarms.count(alarms.converged, 4) <= 1
