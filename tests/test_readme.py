"""What the README shows runs: its Python as it stands, its commands on a small demo."""

from __future__ import annotations

import re
import shlex
from ast import literal_eval
from pathlib import Path

import pytest
from click.testing import CliRunner

from scdp.cli import demo_command, main

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.DOTALL | re.MULTILINE)


def commands(word):
    lines = (line for block in blocks("sh") for line in block.splitlines())
    return [shlex.split(line, comments=True) for line in lines if line.startswith(f"{word} ")]


def test_the_example_prints_what_its_comments_say(capsys):
    (code,) = blocks("python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    exec(compile(code, "README.md", "exec"), {})
    interval, f = map(literal_eval, capsys.readouterr().out.splitlines())
    # Other processors round sums otherwise, so draws and with them figures may differ a little.
    said_interval, said_f = map(literal_eval, re.findall(r"print\(.*\)  # ([^;\n]+)", code))
    assert interval == pytest.approx(said_interval, abs=1)
    assert f == pytest.approx(said_f, abs=0.05)


def test_the_two_commands_come_first_and_are_targets():
    makefile = (Path(__file__).parents[1] / "Makefile").read_text(encoding="utf-8")
    assert commands("make") == [["make", "demo"], ["make", "test"]]
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for _, target in commands("make"))


def test_the_commands_run_one_after_the_other(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo_command, "N_RECORDS", 60)
    monkeypatch.setattr(demo_command, "N_DRAWS", 24)
    found = commands("scdp")
    assert [command[1] for command in found] == ["demo", "evaluate", "evaluate"]
    for _, *arguments in found:
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, result.output
    items = len((tmp_path / "demo" / "gold.csv").read_text(encoding="utf-8").splitlines()) - 1
    assert f'"items": {items}' in result.stdout


@pytest.mark.parametrize("figure", re.findall(r"!\[.+?\]\((.+?)\)", README))
def test_pictures_are_small(figure):
    assert (Path(__file__).parents[1] / figure).stat().st_size < 200_000
