"""What the README says is so: its Python gives what it says, and its figures are those of the tables."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.DOTALL | re.MULTILINE)


def commands(word):
    lines = (line for block in blocks("sh") for line in block.splitlines())
    return [shlex.split(line, comments=True) for line in lines if line.startswith(f"{word} ")]


def test_the_example_runs_and_is_right(capsys):
    (code,) = blocks("python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    exec(compile(code, "README.md", "exec"), {})
    count, low, high, f = (float(number) for number in re.findall(r"[\d.]+", capsys.readouterr().out))
    assert low <= high
    # There are 163 people.
    assert abs(count - 163) < 40
    assert 0.6 < f <= 1


def test_the_two_commands_of_a_clone_are_targets():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert commands("make") == [["make", "demo"], ["make", "test"]]
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for _, target in commands("make"))


def test_figures_are_those_of_the_tables_they_come_from():
    scale = (ROOT / "docs" / "scale_table.md").read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in scale.splitlines() if line.startswith("| 1")]
    measured = {(row[0].strip("| "), row[1]): row for row in rows if row[1] in ("scdp", "Splink")}
    for size in ("100,000", "1,000,000"):
        (line,) = [line for line in README.splitlines() if line.startswith(f"| F on {size} ")]
        for place, system in ((2, "scdp"), (3, "Splink")):
            assert float(line.split("|")[place].strip(" *")) == round(float(measured[size, system][8]), 3)
    whole = " ".join(README.split())
    million = measured["1,000,000", "scdp"], measured["1,000,000", "Splink"]
    (ours, other) = million
    spent, theirs = (f"{float(row[4]):.0f} s" for row in (ours, other))
    assert f"| processor time, 1,000,000 records | {spent}, after it has learned | **{theirs}**" in whole
    assert million[0][11].rstrip(" |") in whole
    disk = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    assert f"| disk, with all it needs | {re.search(r'[*]all[*].*[*]([0-9]+)[*]', disk)[1]} MB" in whole
