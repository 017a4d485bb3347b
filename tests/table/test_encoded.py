"""Columns as codes: the same whether rows are taken before or after, and whatever the cells are."""

from __future__ import annotations

import numpy as np
import pytest

from scdp import table
from scdp.table import EncodedColumn, Records, records_from


@pytest.mark.parametrize("seed", range(20))
def test_rows_taken_are_encoded_as_if_they_were_all(seed: int):
    rng = np.random.default_rng(seed)
    cells = [None if rng.random() < 0.2 else "abcdefghij"[rng.integers(10)] for _ in range(rng.integers(1, 40))]
    rows = rng.integers(0, len(cells), rng.integers(0, 50))
    column = EncodedColumn.of(cells)
    assert column is not None
    taken, plain = column.take(rows), EncodedColumn.of([cells[row] for row in rows])
    assert plain is not None
    assert taken.codes.tolist() == plain.codes.tolist()
    assert taken.texts == plain.texts
    assert taken.cells.tolist() == [cells[row] for row in rows]
    ordered = taken.cells[np.argsort(taken.ranks, kind="stable")]
    assert [cell or "" for cell in ordered] == sorted(cell or "" for cell in taken.cells)


def test_records_keep_the_codes_of_rows_and_columns_that_are_taken():
    records = records_from({"a": ["x", None, "y", "x"], "b": ["1", "2", "3", "4"]})
    column = records.encoded("a")
    assert column is records.encoded("a") is records.select(["a"]).encoded("a")
    taken = records.take(np.array([2, 3, 1]))
    found = taken.encoded("a")
    assert found is not None
    assert found.codes.tolist() == [0, 1, -1]
    assert found.texts == ["y", "x"]


def test_cells_that_are_no_text_have_no_codes():
    for cell in (1, 1.5, ["x"], True):
        column = np.empty(2, dtype=object)
        column[:] = ["x", cell]
        assert Records({"a": column}).encoded("a") is None


@pytest.mark.parametrize("n_texts", [1, 7, 5_000])
def test_many_codes_are_numbered_again_as_few_are(monkeypatch, n_texts: int):
    codes = np.random.default_rng(0).integers(-1, n_texts, 3_000).astype(np.int32)
    plain = table.number_again(codes, n_texts)
    monkeypatch.setattr(table, "FEWEST_AT_ONCE", 0)
    for found, wanted in zip(table.number_again(codes, n_texts), plain, strict=True):
        np.testing.assert_array_equal(found, wanted)
        assert found.dtype == wanted.dtype
