"""`scdp review` and `scdp label` as people run them: in a terminal, killed at any moment, and on a page."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from report_cases import made_result
from scdp.cli import main
from scdp.datasets import make_records
from scdp.io.atomic import Staged
from scdp.io.targets import stage_table
from scdp.results import write_result
from scdp.table.decisions import read_decisions
from scdp.table.readers import read_records


@pytest.fixture
def result(tmp_path: Path) -> Path:
    write_result(made_result(), tmp_path / "result")
    return tmp_path / "result"


def start(*words: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "scdp.cli", *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )


def read_prompt(running: subprocess.Popen[str]) -> None:
    """Until the next question is shown."""
    last = ""
    while last != "\n> ":
        letter = running.stdout.read(1)
        assert letter, "the command has ended"
        last = (last + letter)[-3:]


@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL")
def test_killed_after_an_answer_the_answer_is_there(result: Path):
    for n_given in (1, 2):
        running = start("review", result, "--terminal")
        read_prompt(running)
        running.stdin.write("d\n")
        running.stdin.flush()
        read_prompt(running)
        running.send_signal(signal.SIGKILL)
        running.communicate()
        decided = read_decisions(result / "decisions.jsonl")
        assert len({one.ids for one in decided}) == n_given


def test_a_review_in_the_terminal_is_kept_beside_the_result(result: Path):
    told = CliRunner().invoke(main, ["review", str(result), "--terminal", "--who", "ann"], input="d\nu\nc\n\nq\n")
    assert told.exit_code == 0, told.output
    decided = read_decisions(result / "decisions.jsonl")
    assert {one.who for one in decided} == {"ann"}
    assert "cannot tell" in {one.decision for one in decided}
    assert "Taken back." in told.output


def test_the_page_is_on_this_machine_alone_with_a_token(result: Path):
    running = start("review", result, "--no-open", "--quiet")
    address = running.stdout.readline().strip()
    try:
        assert address.startswith("http://127.0.0.1:")
        with httpx.Client(follow_redirects=True, timeout=60) as client:
            assert client.get(address.split("?")[0]).status_code == 403
            assert "Are these" in client.get(address).text or "Which of these" in client.get(address).text
    finally:
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=60)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["review", "nowhere", "--terminal"], "no such folder"),
        (["review", "RESULT", "--decisions", "d.csv", "--terminal"], "JSON lines"),
        (["label", "nowhere.csv", "--out", "d.jsonl"], "nowhere.csv"),
        (["label", "nowhere.csv", "--out", "d.txt"], "JSON lines"),
    ],
)
def test_what_is_wrong_is_one_sentence(result: Path, words: list[str], told: str):
    words = [str(result) if word == "RESULT" else word for word in words]
    found = CliRunner().invoke(main, words)
    assert found.exit_code == 2
    assert told in found.output
    assert len(found.output.strip().splitlines()) == 1


def test_labels_are_asked_for_where_there_are_none(tmp_path: Path):
    made = make_records(60, seed=3)
    table = tmp_path / "people.csv"
    columns = {"id": list(made.ids)} | {name: list(cells) for name, cells in made.data.columns.items()}
    with Staged() as staged:
        stage_table(staged, table, columns)
    out = tmp_path / "decisions.jsonl"
    told = CliRunner().invoke(main, ["label", str(table), "--out", str(out), "--terminal"], input="d\nd\nc\nd\nq\n")
    assert told.exit_code == 0, told.output
    decided = read_decisions(out)
    assert len(decided) == 4
    assert {one for line in decided for one in line.ids} <= set(map(str, made.ids))
    found = tmp_path / "clusters.csv"
    words = ["label", str(table), "--out", str(out), "--clusters", str(found), "--terminal"]
    again = CliRunner().invoke(main, words, input="q\n")
    assert again.exit_code == 0, again.output
    assert read_decisions(out) == decided
    clusters = read_records(found)
    assert clusters.names == ("id", "cluster", "probability")
    home = dict(zip(clusters["id"], clusters["cluster"], strict=True))
    for one in decided:
        if one.decision == "different":
            assert len({home[identifier] for identifier in one.ids}) == len(one.ids)
    assert CliRunner().invoke(main, words, input="q\n").exit_code == 2
