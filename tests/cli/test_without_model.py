"""`scdp cluster RECORDS` without a model, and `scdp fit` on a table without labels."""

from __future__ import annotations

import csv
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
