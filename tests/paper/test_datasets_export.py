"""`scdp datasets export`: tables with id and entity that the other commands take."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from scdp.cli import main
from scdp.paper.datasets.tables import LOADERS, exported_parts
from scdp.table.readers import read_records


@pytest.mark.parametrize("name", LOADERS)
def test_every_set_of_records_has_ids_entities_and_something_to_compare(name, data_or_skip):
    with data_or_skip():
        parts = exported_parts(name)
    assert set(parts) in ({"train", "test"}, {"records"})
    for columns in parts.values():
        assert list(columns)[:2] == ["id", "entity"]
        assert len(columns) >= 3
        assert len(set(columns["id"])) == len(columns["id"]) > len(set(columns["entity"]))


def test_files_are_written(data_or_skip, tmp_path):
    with data_or_skip():
        parts = exported_parts("rldata500")
    result = CliRunner().invoke(main, ["datasets", "export", "rldata500", "--out", str(tmp_path / "data")])
    assert result.exit_code == 0, result.output
    assert "records.csv: 500 records" in result.stdout
    again = read_records(tmp_path / "data" / "records.csv")
    assert again["entity"].tolist() == parts["records"]["entity"].tolist()
