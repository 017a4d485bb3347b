"""What the README says is so: its Python gives what it says, and its figures are those of the tables."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from click.testing import CliRunner

from scdp.cli import main

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


def test_what_is_shown_first_is_what_the_demo_prints(tmp_path):
    shown = README[README.index("```\n") + 4 :].split("```")[0].splitlines()
    result = CliRunner().invoke(main, ["demo", "--out", str(tmp_path / "demo")])
    words = " ".join(result.stdout.split())
    count, quality = re.match(r"(.*\))\. (Estimated .*\))\.", shown[-2]).groups()
    for sentence in (count, quality, shown[-1]):
        assert sentence in words
    rows = [line.split() for line in shown if line.startswith("p")]
    assert len(rows) == 5
    found = {name: chance for chance, name in re.findall(r"│ \d+ │ (\S+) │ (p\d+) │", words)}
    assert {row[0]: row[-1] for row in rows}.items() <= found.items()


def test_the_two_commands_of_a_clone_are_targets():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert commands("make") == [["make", "demo"], ["make", "test"]]
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for _, target in commands("make"))


SYSTEMS = ("scdp", "Splink")


def test_figures_are_those_of_the_tables_they_come_from():
    scale = (ROOT / "docs" / "scale_table.md").read_text(encoding="utf-8")
    header, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in scale.splitlines()
        if line.startswith(("| records |", "| 1")) and line.count("|") > 10
    ]
    measured = {tuple(row[:3]): dict(zip(header, row, strict=True)) for row in rows}
    for size in ("100,000", "1,000,000"):
        (line,) = [line for line in README.splitlines() if line.startswith(f"| F on {size} ")]
        for place, system in ((2, "scdp"), (3, "Splink")):
            for kind in ("Parquet", "CSV"):
                found = round(float(measured[size, kind, system]["F"]), 3)
                assert float(line.split("|")[place].strip(" *")) == found
    plain = " ".join(README.replace("*", "").split())
    ours, theirs = (
        [measured["1,000,000", kind, system]["wall s"] for kind in ("Parquet", "CSV")] for system in SYSTEMS
    )
    said = f"{ours[0]} and {ours[1]} s, after it has learned | {theirs[0]} and {theirs[1]} s"
    assert f"| time, 1,000,000 records, as Parquet and as CSV | {said} |" in plain
    ours, theirs = (measured["100,000", "Parquet", system]["wall s"] for system in SYSTEMS)
    assert f"| time, 100,000 records | {ours} s, after it has learned | {theirs} s |" in plain
    assert f"{measured['1,000,000', 'Parquet', 'scdp']['interval']} |" in plain
    whole = " ".join(README.split())
    disk = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    assert f"| disk, with all it needs | {re.search(r'[*]all[*].*[*]([0-9]+)[*]', disk)[1]} MB" in whole
