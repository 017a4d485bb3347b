"""`scdp datasets export`: tables with id and entity that the other commands take."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from scdp.cli import main
from scdp.paper.datasets import LOADERS, export_parts
from scdp.table.readers import read_records


@pytest.mark.parametrize("name", LOADERS)
def test_every_set_of_records_has_ids_entities_and_something_to_compare(name, data_or_skip):
    with data_or_skip():
        parts = export_parts(name)
    assert set(parts) in ({"train", "test"}, {"records"})
    for columns in parts.values():
        assert list(columns)[:2] == ["id", "entity"]
        assert len(columns) >= 3
        assert len(set(columns["id"])) == len(columns["id"]) > len(set(columns["entity"]))


def test_files_are_written(data_or_skip, tmp_path):
    with data_or_skip():
        parts = export_parts("rldata500")
    result = CliRunner().invoke(main, ["datasets", "export", "rldata500", "--out", str(tmp_path / "data")])
    assert result.exit_code == 0, result.output
    assert "records.csv: 500 records" in result.stdout
    again = read_records(tmp_path / "data" / "records.csv")
    assert again["entity"].tolist() == parts["records"]["entity"].tolist()


def test_tables_of_tutorials_are_made_without_any_file(tmp_path, monkeypatch):
    monkeypatch.setenv("SCDP_DATA", "/nowhere")
    monkeypatch.setenv("SCDP_CACHE", str(tmp_path / "cache"))
    for name, files in (("people", ["gold", "gold_all", "new", "people"]), ("crm", ["gold", "shop", "support"])):
        result = CliRunner().invoke(main, ["datasets", "export", name, "--out", str(tmp_path / name)])
        assert result.exit_code == 0, result.output
        assert sorted(path.stem for path in (tmp_path / name).iterdir()) == files


def test_sets_without_a_public_copy_are_not_offered(tmp_path, monkeypatch):
    monkeypatch.setenv("SCDP_DATA", "/nowhere")
    monkeypatch.setenv("SCDP_CACHE", str(tmp_path / "cache"))
    result = CliRunner().invoke(main, ["datasets", "export", "identity", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "there are: people, citations, crm, references, cora, restaurant, febrl3" in result.stderr
