"""What is done by whole columns, or some rows at a time, for the sake of large tables: the same as row by row."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from scdp.errors import InputError
from scdp.estimators.clustering import cluster_names, ids_of
from scdp.io import targets
from scdp.io.atomic import Staged
from scdp.posterior import Posterior
from scdp.table import Records, text_files, unique_ids
from scdp.table.readers import read_records


@pytest.fixture
def three_rows_at_once(monkeypatch):
    monkeypatch.setattr(text_files, "ROWS_AT_ONCE", 3)
    monkeypatch.setattr(targets, "ROWS_AT_ONCE", 3)


def test_a_csv_is_the_same_read_some_rows_at_a_time(tmp_path, three_rows_at_once):
    lines = ["a,b", *(f"x{k % 4},{'' if k % 3 else ' '}" for k in range(7)), "", 'y,"z\nz"', "", ""]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    found = read_records(tmp_path / "a.csv")
    assert found["a"].tolist() == [*(f"x{k % 4}" for k in range(7)), "y"]
    assert found["b"].tolist() == [None] * 7 + ["z\nz"]
    assert found.numbers.tolist() == [*range(2, 9), 10]
    assert found["a"][0] is found["a"][4]


@pytest.mark.parametrize(
    ("last", "message"),
    [
        ("1,2,3\nx", "row 10 has 3 cells and the header has 2"),
        ("1,2,3\n" + "x,y\n" * 20 + '"x"y,z', "line 31 cannot be read"),
    ],
)
def test_errors_far_down_a_csv_name_their_row(tmp_path, three_rows_at_once, last, message):
    (tmp_path / "a.csv").write_text("a,b\n" + "x,y\n" * 8 + last)
    with pytest.raises(InputError, match=message):
        read_records(tmp_path / "a.csv")


def test_a_bad_header_is_told_before_the_rows_below_it(tmp_path):
    (tmp_path / "a.csv").write_text("a,a\n1,2,3\n")
    with pytest.raises(InputError, match="'a' occurs twice"):
        read_records(tmp_path / "a.csv")
    (tmp_path / "b.csv").write_text("\na,b\n")
    with pytest.raises(InputError, match="row 1 is not a header"):
        read_records(tmp_path / "b.csv")


def plain_csv(rows):
    text = io.StringIO()
    for row in rows:
        ends = any(isinstance(cell, str) and "\r" in cell for cell in row)
        csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL if ends else csv.QUOTE_MINIMAL).writerow(row)
    return text.getvalue()


def test_a_csv_is_written_as_row_by_row(tmp_path, three_rows_at_once):
    columns = {
        "id": ["a", "b\rc", 'd"', "e,f", "g\nh", "", "i", "j"],
        "probability": [0.5, 1.0, 0.3333, 0.0, 1e-05, 0.1, 0.2, 0.3],
    }
    with Staged() as staged:
        targets.stage_table(staged, tmp_path / "a.csv", columns)
    written = (tmp_path / "a.csv").read_bytes().decode()
    assert written == plain_csv([list(columns), *zip(*columns.values(), strict=True)])


def plain_names(labels, ids, given):
    taken, names = set(given), dict(enumerate(given))
    for label, identifier in sorted(zip(labels.tolist(), ids.tolist(), strict=True), key=lambda pair: pair[1]):
        if label not in names:
            name, count = f"c-{identifier}", 2
            while name in taken:
                name, count = f"c-{identifier}-{count}", count + 1
            names[label] = name
            taken.add(name)
    return [names[label] for label in labels.tolist()]


@pytest.mark.parametrize("given", [[], ["c-1", "c-1-2", "other"], ["never met", "c-7"]])
def test_clusters_are_named_as_one_by_one(given):
    rng = np.random.default_rng(len(given))
    for _ in range(20):
        labels = rng.integers(0, 9, 12)
        ids = rng.permutation([*map(str, range(8)), "1-2", "1-3", "7-2", "x"]).astype(object)
        assert cluster_names(labels, ids, given).tolist() == plain_names(labels, ids, given)


def test_records_without_ids_have_row_numbers():
    table = Records({"a": np.array(["x", "y"], object)}, "t.csv", np.array([2, 5]))
    assert ids_of(table, None).tolist() == ["2", "5"]


def test_of_ids_the_first_fault_is_told():
    table = Records({"id": np.array(["a", "b", "b", "c" * 2000, "a"], object)}, "t.csv")
    with pytest.raises(InputError, match="rows 2 and 3 have the same 'id', 'b'"):
        unique_ids(table, "id")
    with pytest.raises(InputError, match="row 4 has a 'id' of 2,000"):
        unique_ids(table.take(np.array([3, 1, 2])), "id")


def test_one_long_name_does_not_make_all_names_long(tmp_path):
    names = np.array(["a", "b" * 1000, 7], object)
    posterior = Posterior(np.zeros((1, 1, 3), int), names=names)
    assert posterior.names.tolist() == ["a", "b" * 1000, "7"]
    assert posterior.names.nbytes < 100
    assert names[2] == 7
    posterior.save(tmp_path / "p.npz")
    assert Posterior.load(tmp_path / "p.npz").names.tolist() == posterior.names.tolist()
