"""The table of what is proposed: plain in a pipe, with lines in a terminal, and with what each comparison told."""

from __future__ import annotations

import csv
import sys

import pytest

from product_cases import done
from scdp import EntityResolver
from scdp.cli.fit_command import describe, find_told, is_proposed, show_proposal
from scdp.errors import InputError
from scdp.table import records_from
from scdp.table.propose import propose

PHONES = [f"0{511 + k} {k * 7919 % 9000 + 1000}" for k in range(30)]
NAMES = ["Anna Smith", "Bob Miller", "Clara Stone", "David King", "Eva Brown", "Frank Hill"]


def people(labelled=True):
    """Thirty people twice: the same phone, some of the names as written before."""
    rows = []
    for k in range(60):
        who = k // 2
        rows.append(
            {
                "id": f"r{k}",
                "entity": f"e{who}" if labelled else None,
                "full name": f"{NAMES[who % 6]}{'son' * (who // 6 % 2)}",
                "tel": "n/a" if k == 3 else PHONES[who],
                "land": "DE",
            }
        )
    return rows


@pytest.fixture
def table(tmp_path):
    def write(labelled=True):
        path = tmp_path / "people.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, ["id", "entity", "full name", "tel", "land"])
            writer.writeheader()
            writer.writerows(people(labelled))
        return path

    return write


def line_of(text, start):
    return next(line for line in text.splitlines() if line.startswith(start))


def test_fit_shows_what_it_proposes(table, tmp_path):
    result = done("fit", table(), "--out", tmp_path / "m", "--entity", "entity")
    said = result.stderr
    assert line_of(said, "column").split() == ["column", "looks", "like", "compared", "by", "told", "examples"]
    phone = line_of(said, "tel")
    assert phone.split()[1:3] == ["phone", "phone"]
    assert float(phone.split()[3]) > 1.0
    assert PHONES[0] in phone
    assert "missing: 'n/a'" in said
    assert "not compared: all records have the same value" in line_of(said, "land")
    assert "told: what it adds to the log-odds" in said
    assert "│" not in said
    assert "column" not in result.stdout
    assert "looks like" not in done("fit", table(), "--out", tmp_path / "m2", "--quiet").stderr
    spec = tmp_path / "m" / "spec.toml"
    assert "looks like" not in done("fit", table(), "--out", tmp_path / "m3", "--spec", spec).stderr


def test_cluster_without_a_model_shows_what_it_proposes(table, tmp_path):
    said = done("cluster", table(labelled=False), "--out", tmp_path / "c.csv").stderr
    assert line_of(said, "column").split() == ["column", "looks", "like", "compared", "by", "examples"]
    assert line_of(said, "tel").split()[1:3] == ["phone", "phone"]
    assert "told:" not in said


def test_a_terminal_has_a_table_with_lines(monkeypatch, capsys):
    records = records_from(people())
    spec = propose(records, "entity", "id")
    model = EntityResolver(spec=spec, n_draws=4, random_state=0).fit(records, records["entity"])
    assert set(find_told(model)) == set(spec.names)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "100")
    show_proposal(model, records)
    said = capsys.readouterr().err
    assert "│" in said
    assert max(len(line) for line in said.splitlines() if line.startswith("│")) <= 100
    assert {row.column for row in describe(spec, records)} == {"full name", "tel", "land"}


def test_a_spec_that_names_no_comparison_has_them_proposed(tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text('entity = "who"\n', encoding="utf-8")
    assert is_proposed(None)
    assert is_proposed(path)
    path.write_text('[[field]]\nkind = "phone"\ncolumn = "tel"\n', encoding="utf-8")
    assert not is_proposed(path)
    assert not is_proposed(tmp_path / "splink.json")
    with pytest.raises(InputError, match="there is no"):
        is_proposed(tmp_path / "none.toml")
