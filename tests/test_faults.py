"""Fault injection: a failing write, sync, rename or read leaves a right result, or exit code 2 and nothing lost.

The work itself is done once and handed over, so that every n can be tried.
"""

from __future__ import annotations

import os
import shutil
from functools import cache

import numpy as np
import pytest
from click.testing import CliRunner

from fault_cases import KINDS, Fault, Faults, injected
from product_cases import fitted_folder
from scdp.cli import main
from scdp.errors import InputError
from scdp.estimators.model_folder import load_model
from scdp.table.decisions import Decision, append_decision, read_decisions

pytestmark = pytest.mark.filterwarnings("ignore::scdp.posterior.diagnostics.ConvergenceWarning")
OUT = ("c.csv", "c.uncertain.csv", "s.json", "report.html", "draws/", "new/")


def command(*arguments):
    def run(folder):
        result = CliRunner().invoke(main, [each.replace("@", f"{folder}/") for each in arguments])
        return result.exit_code, result.output

    return run


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """Inputs, a model, and what an earlier command has left."""
    folder = tmp_path_factory.mktemp("given") / "given"
    shutil.copytree(fitted_folder(), folder)
    for name in ("c.csv", "c.uncertain.csv", "s.json"):
        (folder / name).write_text("old\n", encoding="utf-8")
    shutil.copytree(folder / "model", folder / "new")
    return folder


@cache
def clustered():
    from scdp.estimators.clustering import cluster_records
    from scdp.table.readers import read_records

    model = load_model(fitted_folder() / "model").set_params(n_sweeps=4, n_chains=1)
    return cluster_records(model, read_records(fitted_folder() / "test.csv"), random_state=0, title="t")


def try_all(faults, kinds):
    faults.expect()
    counts = {}
    for kind in kinds:
        counts[kind] = faults.count(kind)
        faults.try_each(kind, range(1, counts[kind] + 1))
    assert not faults.problems, "\n".join(faults.problems)
    assert faults.n_tried == sum(counts.values())
    # Each kind of operation was met, and most failures of it are refused.
    assert min(counts.values()) > 0
    assert faults.n_right < faults.n_tried
    return counts


def test_every_fault_of_cluster(given, tmp_path, monkeypatch):
    result = clustered()
    monkeypatch.setattr("scdp.estimators.clustering.cluster_records", lambda *_, **__: result)
    run = command(
        *("cluster", "@model", "@test.csv", "--out", "@c.csv", "--summary", "@s.json"),
        *("--report", "@report.html", "--force", "--quiet"),
    )
    try_all(
        Faults(given, tmp_path, run, lambda name: name.startswith(OUT)), ("write", "sync", "rename", "read")
    )


def test_every_fault_of_fit(given, tmp_path, monkeypatch):
    fitted = load_model(given / "model")
    monkeypatch.setattr(type(fitted), "fit", lambda self, *_, **__: self)
    monkeypatch.setattr("scdp.cli.fit_command.estimator", lambda *_: fitted)
    run = command(
        *("fit", "@train.csv", "--spec", "@spec.toml", "--model", "scdp1"),
        *("--out", "@new", "--force", "--quiet"),
    )
    try_all(
        Faults(given, tmp_path, run, lambda name: name.startswith(OUT)), ("write", "sync", "rename", "read")
    )


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
        with (
            injected(Fault(kind, n, tmp_path)),
            pytest.raises(InputError, match=r"decisions\.jsonl: cannot be"),
        ):
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
