"""`scdp cluster RECORDS` without a model, and `scdp fit` on a table without labels."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from scdp.cli import main
from scdp.datasets import make_records


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = make_records(150, kind="people", seed=2)
    path = tmp_path_factory.mktemp("unlabelled") / "people.csv"
    names = made.data.names
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["row", *names])
        for number, cells in enumerate(zip(*(made.data[name] for name in names), strict=True)):
            rows.writerow([f"r{number}", *(cell or "" for cell in cells)])
    return path


def call(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(main, list(map(str, arguments)))
    return done.exit_code, done.output


def clusters_of(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.reader(file))


def test_one_command_clusters_a_table(table: Path, tmp_path: Path):
    code, output = call("cluster", table, "--id", "row", "--out", tmp_path / "clusters.csv")
    assert code == 0, output
    header, *rows = clusters_of(tmp_path / "clusters.csv")
    assert header == ["row", "cluster", "probability"]
    assert len(rows) == 150
    assert "typical curves" in output
    assert "Green" not in output


def write_semicolons(rows: list[list[str]], folder: Path) -> Path:
    lines = [";".join(["Kunden-Nr", *rows[0][1:-1], "Straße"]), *(";".join(row) for row in rows[1:])]
    path = folder / "kunden.csv"
    path.write_text("\n".join(lines) + "\n", encoding="latin-1")
    return path


def write_workbook(rows: list[list[str]], folder: Path) -> Path:
    import openpyxl

    book = openpyxl.Workbook()
    for row in [["customer_id", *rows[0][1:]], *rows[1:]]:
        book.active.append([cell or None for cell in row])
    book.save(folder / "people.xlsx")
    return folder / "people.xlsx"


def write_packed_json(rows: list[list[str]], folder: Path) -> Path:
    objects = [dict(zip(["id", *rows[0][1:]], row, strict=True)) for row in rows[1:]]
    path = folder / "people.json.gz"
    path.write_bytes(gzip.compress(json.dumps(objects).encode()))
    return path


def write_database(rows: list[list[str]], folder: Path) -> str:
    import duckdb

    with duckdb.connect(str(folder / "people.duckdb")) as connection:
        connection.execute(f"CREATE TABLE people AS FROM read_csv('{write_commas(rows, folder)}', all_varchar = true)")
    return f"duckdb:{folder / 'people.duckdb'}?SELECT * FROM people"


def write_commas(rows: list[list[str]], folder: Path) -> Path:
    with (folder / "people.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["record_id", *rows[0][1:]], *rows[1:]])
    return folder / "people.csv"


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (write_commas, []),
        (write_semicolons, ["separated by semicolons", "read as Windows-1252", "'Kunden-Nr'"]),
        (write_workbook, ["'customer_id'"]),
        (write_packed_json, ["'id'"]),
        (write_database, ["'record_id'"]),
    ],
)
def test_files_of_all_kinds_are_clustered_by_one_command_and_alike(table, tmp_path, write, said):
    """No option, no spec: what is guessed is said, and the groups do not depend on the kind of file."""
    rows = clusters_of(table)[:61]
    expected = clusters_of(_clustered(write_commas(rows, tmp_path), tmp_path / "a.csv"))
    found = tmp_path / "b.csv"
    code, output = call("cluster", write(rows, tmp_path), "--out", found)
    assert code == 0, output
    assert all(words in output for words in said), output
    if write is not write_semicolons:
        # Another name of a column may be compared in another way.
        assert clusters_of(found)[1:] == expected[1:]
    assert len(clusters_of(found)) == 61


def _clustered(table: Path, out: Path) -> Path:
    assert call("cluster", table, "--out", out)[0] == 0
    return out


def test_a_model_without_labels_clusters_the_same(table: Path, tmp_path: Path):
    assert call("fit", table, "--id", "row", "--out", tmp_path / "model")[0] == 0
    code, output = call("cluster", tmp_path / "model", table, "--out", tmp_path / "clusters.csv")
    assert code == 0, output
    assert len(clusters_of(tmp_path / "clusters.csv")) == 151


def test_the_papers_models_want_labels(table: Path, tmp_path: Path):
    code, output = call("fit", table, "--model", "scdp1", "--id", "row", "--out", tmp_path / "model")
    assert code == 2
    assert "scdp1 learns from at least two entities" in output
    assert not (tmp_path / "model").exists()


def test_a_third_table_is_refused(table: Path, tmp_path: Path):
    code, output = call("cluster", table, table, table, "--out", tmp_path / "clusters.csv")
    assert code == 2
    assert "give a model and one table, or one table alone" in output


def test_a_model_has_its_own_spec(table: Path, tmp_path: Path):
    code, output = call("cluster", tmp_path, table, "--id", "who", "--out", tmp_path / "clusters.csv")
    assert code == 2
    assert "the model has its own" in output
