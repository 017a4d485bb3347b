"""Fault injection: a failing write, sync, rename or read leaves a right result, or exit code 2 and nothing lost.

The work itself is done once and handed over, so that every n can be tried.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

from fault_cases import COMMANDS, FILE_KINDS, KINDS, Fault, faults_of, injected, prepare
from scdp.errors import InputError
from scdp.table.decisions import Decision, append_decision, read_decisions

pytestmark = pytest.mark.filterwarnings("ignore::scdp.posterior.recorder.ConvergenceWarning")
# Of commands that take longer, one operation in so many is made to fail here; `make faults` tries all.
STEPS = {"fit": 1, "cluster": 1, "update": 16, "label": 16}


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    return prepare(tmp_path_factory.mktemp("given") / "given")


@pytest.mark.parametrize("name", COMMANDS)
def test_faults_of_a_command(name, given, tmp_path, monkeypatch):
    faults = faults_of(name, given, tmp_path, monkeypatch.setattr)
    faults.expect()
    counts = {kind: faults.count(kind) for kind in FILE_KINDS}
    for kind, count in counts.items():
        faults.try_each(kind, range(1, count + 1, STEPS[name]))
    assert not faults.problems, "\n".join(faults.problems)
    # Most kinds of operation were met, and failures of them are refused.
    assert sum(count > 0 for count in counts.values()) >= (3 if name == "label" else 4)
    assert faults.n_tried >= sum(counts.values()) // STEPS[name]


@pytest.mark.parametrize("kind", ["write", "sync", "read"])
def test_no_answered_question_is_lost(kind, tmp_path):
    """What was told to be kept stays; what failed is there whole or not at all, and can be said again."""
    path = tmp_path / "decisions.jsonl"
    said = [Decision((f"a{k}", f"b{k}"), "same", why="x" * 9000) for k in range(3)]
    append_decision(path, said[0])
    with injected(Fault(kind, 0, tmp_path)) as fault:
        append_decision(path, said[1])
    assert fault.count > 0
    for n in range(1, fault.count + 1):
        kept = read_decisions(path)
        with injected(Fault(kind, n, tmp_path)), pytest.raises(InputError, match=r"decisions\.jsonl: cannot be"):
            append_decision(path, said[2])
        assert read_decisions(path)[: len(kept)] == kept
        append_decision(path, said[2])
        assert read_decisions(path)[-1] == said[2]


@pytest.mark.posix
def test_a_pipe_is_no_file_of_decisions(tmp_path):
    os.mkfifo(tmp_path / "decisions.jsonl")
    with pytest.raises(InputError, match="pipe or a device"):
        append_decision(tmp_path / "decisions.jsonl", Decision(("a", "b"), "same"))


def act(folder):
    """One operation of each kind at least."""
    path = folder / "a"
    with path.open("wb") as file:
        file.write(b"1")
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    path.replace(folder / "b")
    np.zeros(1)
    return (folder / "b").read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_faults_are_of_every_kind(kind, tmp_path):
    with injected(Fault(kind, 0, tmp_path)) as fault:
        assert act(tmp_path) == b"1"
    assert fault.count > 0
    with injected(Fault(kind, 1, tmp_path)), pytest.raises((MemoryError, OSError)):
        act(tmp_path)
