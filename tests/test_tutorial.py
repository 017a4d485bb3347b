"""What the tutorial shows runs as it stands, and the command line and Python say the same."""

from __future__ import annotations

import json
import re
import shlex
from ast import literal_eval
from pathlib import Path

import pytest

from product_cases import done, read_csv
from scdp.paper.datasets import load_identity

pytestmark = pytest.mark.filterwarnings("ignore::scdp.posterior.diagnostics.ConvergenceWarning")
TEXT = (Path(__file__).parents[1] / "docs" / "tutorial.md").read_text(encoding="utf-8")


def block(language):
    return re.search(rf"^```{language}\n(.*?)^```$", TEXT, flags=re.DOTALL | re.MULTILINE)[1]


def test_the_tutorial_runs_and_python_says_the_same(data_or_skip, tmp_path, monkeypatch, capsys):
    with data_or_skip():
        load_identity()
    monkeypatch.chdir(tmp_path)
    commands = [shlex.split(line) for line in block("sh").splitlines()]
    assert [command[1] for command in commands] == ["datasets", "fit", "fit", "cluster", "evaluate"]
    for _, *arguments in commands:
        done(*arguments)
    scores = json.loads(done(*commands[-1][1:], "--json").stdout)
    assert scores["items"] == 381
    assert scores["f"] > 0.7
    exec(compile(block("python"), "tutorial.md", "exec"), {})
    first, *explanation = capsys.readouterr().out.splitlines()
    assert [literal_eval(part) for part in first.split()] == [pytest.approx(scores["f"], abs=1e-12)] * 2
    assert "probability" in explanation[1]
    pair = read_csv(tmp_path / "clusters.uncertain.csv")[0]
    again = done("explain", "model", "data/test.csv", pair["id1"], pair["id2"], "--draws", "draws").stdout
    assert f"is {float(pair['probability']):.3f}." in again
