"""Awkward CSV files, all the way from the file through Spec to a fitted model: one clear sentence each, or handled."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from scdp import SCDP, Spec, compare
from scdp.errors import InputError
from scdp.table.readers import read_records

pytestmark = pytest.mark.filterwarnings("ignore::scdp.posterior.recorder.ConvergenceWarning")
HEADER = "id,entity,title,year"
SPEC = Spec("entity", [compare.edit("title"), compare.absolute("year")], id="id")
PROPOSED = Spec("entity", id="id")


def rows(n: int = 12) -> list[list[str]]:
    return [[f"r{i}", f"e{i % 4}", f"{'abcd'[i % 4] * 5} of {i}", str(1960 + 10 * (i % 4))] for i in range(n)]


def write(folder: Path, cells: list[list[str]], header: str = HEADER, encoding: str = "utf-8") -> Path:
    path = folder / "papers.csv"
    lines = [header, *(",".join(row) for row in cells)]
    path.write_bytes(("\n".join(lines) + "\n").encode(encoding))
    return path


def fit(path: Path, spec: Spec = SPEC) -> SCDP:
    model = SCDP("scdp1", spec=spec, n_chains=1, n_sweeps=20, random_state=0, init="singletons")
    return model.fit(read_records(path))


def message(path: Path, spec: Spec = SPEC) -> str:
    with pytest.raises(InputError) as error:
        fit(path, spec)
    text = str(error.value)
    assert "\n" not in text
    return text


def test_a_file_without_faults(tmp_path: Path):
    assert len(fit(write(tmp_path, rows())).labels_) == 12


def test_missing_column(tmp_path: Path):
    path = write(tmp_path, [row[:3] for row in rows()], "id,entity,title")
    assert message(path).endswith("papers.csv: there is no column 'year'; it has: id, entity, title")
    assert len(fit(path, PROPOSED).labels_) == 12


def test_a_field_that_no_record_has(tmp_path: Path):
    path = write(tmp_path, [[*row[:3], " "] for row in rows()])
    assert "papers.csv: column 'year' has no number in any of 12 records; leave" in message(path)
    assert fit(path, PROPOSED).n_features_in_ == 2  # proposed comparisons pass the empty column over
    path = write(tmp_path, [[*row[:2], "", ""] for row in rows()])
    assert "no column is left to compare" in message(path, PROPOSED)


def test_mixed_types_words_among_numbers_are_missing_values(tmp_path: Path):
    cells = rows()
    cells[3][3], cells[7][3] = "unknown", "c. 1970"
    model = fit(write(tmp_path, cells))
    assert len(model.labels_) == 12
    observed = model.fitted_.rows.distances.observed
    np.testing.assert_array_equal(np.flatnonzero(~observed[:, 1]), [3])
    assert observed[:, 0].all()


def test_a_field_of_a_million_characters(tmp_path: Path):
    cells = rows()
    cells[3][2] = "x" * 1_000_000
    path = write(tmp_path, cells)
    assert "papers.csv, row 5, column 'title': 1,000,000 characters, more than the 20,000" in message(path)
    # A column that is not compared may be as long as it likes.
    assert len(fit(path, Spec("entity", [compare.absolute("year")], id="id")).labels_) == 12


def test_ids_given_twice(tmp_path: Path):
    cells = rows()
    cells[11][0] = "r4"
    path = write(tmp_path, cells)
    for spec in (SPEC, PROPOSED):
        assert message(path, spec).endswith("rows 6 and 13 have the same 'id', 'r4'; give each record its own")
    assert len(fit(path, Spec("entity", SPEC.fields)).labels_) == 12  # without ids, rows need no names


def test_bytes_that_are_not_utf_8(tmp_path: Path):
    cells = rows()
    cells[2][2] = "Привет"
    path = write(tmp_path, cells, encoding="cp1251")
    assert "papers.csv: row 4 (byte" in message(path)
    assert "is not UTF-8 text; save the file as UTF-8" in message(path)
