"""Readers give the same text from every format, and refuse a bad file in one sentence naming the place."""

from __future__ import annotations

import gzip
import json

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from scdp.errors import InputError
from scdp.table import records as records_module
from scdp.table.records import Records, complete_column, read_records, records_from, unique_ids

ROWS = [
    {"id": "1", "title": 'A "quoted", long title', "year": "1999"},
    {"id": "2", "title": None, "year": "2001"},
    {"id": "03", "title": "Zürich 日本\nsecond line", "year": None},
]


def as_list(records):
    return list(records.rows())


def write(path, content):
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(content.encode()))
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def delimited(delimiter):
    quoted = [f'"{row[name]}"' if row[name] else "  " for row in ROWS for name in row]
    quoted[1] = '"A ""quoted"", long title"'
    lines = [["id", "title", "year"], quoted[:3], quoted[3:6], quoted[6:]]
    return "\r\n".join(delimiter.join(cells) for cells in lines) + "\r\n"


# ---- what comes in ----


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", delimited(",")),
        ("a.CSV", delimited(",")),
        ("bom.csv", "\ufeff" + delimited(",")),
        ("a.csv.gz", delimited(",")),
        ("a.tsv", delimited("\t")),
        ("a.b.tsv.gz", delimited("\t")),
        ("a.jsonl", "\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS)),
        ("a.ndjson", "\r\n".join(json.dumps(row) for row in ROWS) + "\r\n\r\n"),
        ("a.json", "\n\n".join(json.dumps(row) for row in ROWS)),
        ("a.jsonl.gz", "\n".join(json.dumps(row) for row in ROWS)),
    ],
)
def test_text_formats_give_the_same_records(tmp_path, name, content):
    path = write(tmp_path / name, content)
    records = read_records(path)
    assert records.names == ("id", "title", "year")
    assert as_list(records) == ROWS
    assert records.source == str(path)


@pytest.mark.parametrize("name", ["a.parquet", "odd [1]*'name.parquet", "key=value/a.parquet"])
def test_parquet_gives_the_same_records(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    parquet.write_table(pa.Table.from_pylist(ROWS), tmp_path / name)
    assert as_list(read_records(str(tmp_path / name))) == ROWS


def test_parquet_types_become_text_and_their_missing_values_none(tmp_path):
    table = pa.table(
        {
            "whole": [7, None],
            "float": pa.array([1.1, float("nan")], pa.float32()),
            "flag": [True, False],
            "text": ["nan", " "],
            'odd"; name': ["x", ""],
        }
    )
    parquet.write_table(table, tmp_path / "a.parquet")
    assert as_list(read_records(tmp_path / "a.parquet")) == [
        {"whole": "7", "float": "1.1", "flag": "true", "text": "nan", 'odd"; name': "x"},
        {"whole": None, "float": None, "flag": "false", "text": None, 'odd"; name': None},
    ]


def test_json_values_become_text_and_absent_keys_none(tmp_path):
    lines = '{"a": 1, "b": [1, "é"], "c": true}\n{"b": null, "a": 1.5, "d": "x\u2028y", "c": NaN}\n'
    assert as_list(read_records(write(tmp_path / "a.jsonl", lines))) == [
        {"a": "1", "b": '[1, "é"]', "c": "true", "d": None},
        {"a": "1.5", "b": None, "c": None, "d": "x\u2028y"},
    ]


def test_csv_keeps_leading_zeros_and_strips_only_the_header(tmp_path):
    records = read_records(write(tmp_path / "a.csv", " id , name\n007, x \n"))
    assert as_list(records) == [{"id": "007", "name": " x "}]


def test_rows_are_counted_with_header_and_blank_lines_also_after_take(tmp_path):
    records = read_records(write(tmp_path / "a.csv", 'id\na\n\n"b\nb"\nc\n\n'))
    assert [records.row_number(i) for i in range(len(records))] == [2, 4, 5]
    assert records.take(np.array([False, False, True])).row_number(0) == 5
    assert records_from({"id": ["a", "b"]}).take(np.array([1])).row_number(0) == 2


# ---- what is refused ----


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "", "the file is empty"),
        ("a.csv", " \n\n", "the file is empty"),
        ("a.parquet", "", "the file is empty"),
        ("a.csv", "id,name\n", "holds no records"),
        ("a.csv", "id,name\n1,é\n2,è\n".encode("latin-1"), r"row 2 \(byte 10\) is not UTF-8 text; save"),
        ("a.csv", "id,name\n1,x\n".encode("utf-16"), r"row 1 \(byte 0\) is not UTF-8 text; save"),
        ("a.csv", "id,name\n1,x\n".encode("utf-16-le"), "row 1 holds a zero byte.*save the file as UTF-8"),
        ("a.jsonl", b'{"a": 1}\n{"a": "\xff"}\n', r"row 2 \(byte 16\) is not UTF-8"),
        ("a.csv", "1,2.5\n2,3\n", "row 1 is not a header"),
        ("a.csv", ",,\n1,2,3\n", "row 1 is not a header"),
        ("a.csv", "\n\nid\n1\n", "row 1 is not a header"),
        ("a.csv", "id,,x\n1,2,3\n", "column 2 has no name in row 1"),
        ("a.csv", "id,name,id \n1,2,3\n", "the column name 'id' occurs twice"),
        ("a.csv", "id,name\n1,x\n\n2,x,y\n", "row 4 has 3 cells and the header has 2"),
        ("a.tsv", "id\tname\n1\n", "row 2 has 1 cells and the header has 2"),
        ("a.csv", 'id,name\n1,"x\n2,y\n', r"line 3 cannot be read \(unexpected end of data\)"),
        ("a.csv.gz", b"id,name\n1,x\n", "the gzip file is damaged"),
        ("a.xlsx", "x", "the kind of file cannot be told from its name; name it .csv"),
        ("a", "x", "the kind of file cannot be told"),
        ("a.parquet.gz", b"x", "the kind of file cannot be told"),
        ("a.jsonl", '{"a": 1}\n\n{"a": }\n', r"row 3 is not JSON \(Expecting value\)"),
        ("a.json", '[{"a": 1}]', "row 1 is not a JSON object; write one object a line"),
        ("a.parquet", "PAR1 but not really", "not Parquet, or damaged"),
    ],
)
def test_bad_files_are_refused_in_one_sentence(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=message) as caught:
        read_records(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("share", [0.3, 0.9])
def test_a_truncated_parquet_file_is_refused(tmp_path, share):
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"id": [str(i) for i in range(1000)]}), path)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(InputError, match="damaged or cut off"):
        read_records(path)


def test_a_truncated_gzip_file_is_refused(tmp_path):
    path = write(tmp_path / "a.csv.gz", "id\n" + "\n".join(map(str, range(1000))))
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(InputError, match="damaged or cut off"):
        read_records(path)


@pytest.mark.parametrize(
    "column",
    [pa.array([b"\xff\x00"]), pa.array([[b"a"]]), pa.array([{"x": b"a"}]), pa.array([b"abc"], pa.binary(3))],
)
def test_bytes_in_parquet_are_refused(tmp_path, column):
    parquet.write_table(pa.table({"id": ["1"], "photo": column}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="column 'photo' holds bytes and not text; write it as text"):
        read_records(tmp_path / "a.parquet")


def test_a_name_twice_in_parquet_is_refused_and_capitals_make_another_name(tmp_path):
    cells = [pa.array(["1"]), pa.array([{"id": "x", "y": [1]}]), pa.array(["2"])]
    parquet.write_table(pa.table(cells, names=["id", "more", "id"]), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="the column name 'id' occurs twice"):
        read_records(tmp_path / "a.parquet")
    parquet.write_table(pa.table(cells, names=["ID", "more", "id"]), tmp_path / "b.parquet")
    found = read_records(tmp_path / "b.parquet")
    assert (found.names, found["ID"][0], found["id"][0]) == (("ID", "more", "id"), "1", "2")


def test_a_small_parquet_file_of_very_many_rows_is_refused_unread(tmp_path, monkeypatch):
    """40 million rows of one value take few bytes."""
    ones = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1_000_000, np.int8)), pa.array(["x"]))
    with parquet.ParquetWriter(tmp_path / "a.parquet", pa.schema({"id": ones.type})) as writer:
        for _ in range(40):
            writer.write_table(pa.table({"id": ones}))
    assert (tmp_path / "a.parquet").stat().st_size < 200_000
    monkeypatch.setattr(records_module, "_parquet_column", None)
    with pytest.raises(InputError, match="unpacks to at least 320,000,000 bytes"):
        read_records(tmp_path / "a.parquet")


def test_too_few_file_handles_are_not_called_damage(tmp_path):
    parquet.write_table(pa.table({"id": ["1"]}), tmp_path / "a.parquet")
    read_records(tmp_path / "a.parquet")

    class Full:
        def __init__(self, *_):
            raise duckdb.IOException('Cannot open file "a.parquet": Too many open files')

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duckdb, "connect", Full)
        with pytest.raises(InputError, match="too many files are open"):
            read_records(tmp_path / "a.parquet")


def test_an_empty_parquet_table_is_refused(tmp_path):
    parquet.write_table(pa.table({"id": pa.array([], pa.string())}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="holds no records"):
        read_records(tmp_path / "a.parquet")


def test_a_missing_file_and_a_directory_are_refused(tmp_path):
    with pytest.raises(InputError, match="there is no such file"):
        read_records(tmp_path / "none.csv")
    with pytest.raises(InputError, match="this is a directory"):
        read_records(tmp_path)


# ---- tables ----


class LikePolars:
    """The part of a polars frame that is used: names as a list, columns that iterate over Python values."""

    columns = ("id", "title", "year")

    def __getitem__(self, name):
        return [row[name] for row in ROWS]


@pytest.mark.parametrize(
    "table",
    [
        {name: [row[name] for row in ROWS] for name in ROWS[0]},
        {name: np.array([row[name] for row in ROWS], dtype=object) for name in ROWS[0]},
        pd.DataFrame(ROWS, index=[5, 5, 5]),
        pd.DataFrame(ROWS, dtype="string"),
        pa.Table.from_pylist(ROWS),
        LikePolars(),
    ],
    ids=["lists", "arrays", "pandas", "pandas-string", "arrow", "polars"],
)
def test_tables_give_the_same_records(table):
    assert as_list(records_from(table)) == ROWS


def test_table_values_become_text():
    frame = pd.DataFrame(
        {
            "whole": pd.array([1, None], dtype="Int64"),
            "float": [1.5, np.nan],
            "day": [pd.Timestamp("2020-01-02"), pd.NaT],
            "flag": [True, False],
            3: [np.array([1, 2]), " \t"],
        }
    )
    assert as_list(records_from(frame)) == [
        {"whole": "1", "float": "1.5", "day": "2020-01-02 00:00:00", "flag": "true", "3": "[1, 2]"},
        {"whole": None, "float": None, "day": None, "flag": "false", "3": None},
    ]


def test_records_pass_through_unchanged():
    records = records_from({"id": ["a"]}, source="mine")
    assert records_from(records) is records


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"a": [1, 2], "b": [1]}, "mine: columns have different lengths"),
        ({"a": "text"}, "mine: column 'a' is a str; give a list of cells"),
        ({"a": 5}, "mine: column 'a' is a int"),
        ([{"a": 1}], "mine: a list is not a table"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "mine: the column name 'a' occurs twice"),
        (pa.table([[1], [2]], names=["a", "a"]), "mine: the column name 'a' occurs twice"),
        ({1: ["x"], "1": ["y"]}, "mine: the column name '1' occurs twice"),
    ],
)
def test_bad_tables_are_refused(table, message):
    with pytest.raises(InputError, match=message):
        records_from(table, source="mine")


# ---- checks on columns ----


def test_require_names_what_is_missing_and_what_is_there():
    records = records_from({"id": ["a"], "name": ["b"]}, source="people.csv")
    records.require("id", "name")
    with pytest.raises(InputError, match=r"people.csv: there is no column 'x' or 'y'; it has: id, name"):
        records.require("id", "x", "y")
    with pytest.raises(InputError, match="there is no column 'z'"):
        records["z"]
    with pytest.raises(InputError, match="it has: none"):
        Records({}).require("id")


def test_unique_ids_are_returned_in_order():
    assert unique_ids(records_from({"id": ["b", "a"]}), "id").tolist() == ["b", "a"]


def test_a_repeated_id_is_named_with_both_rows(tmp_path):
    records = read_records(write(tmp_path / "a.csv", "id\na\nb\nc\nb\na\n"))
    with pytest.raises(InputError, match="rows 3 and 5 have the same 'id', 'b'"):
        unique_ids(records, "id")


def test_a_missing_cell_is_named_with_its_row(tmp_path):
    records = read_records(write(tmp_path / "a.csv", "id,x\na,1\n ,2\n"))
    for check in (unique_ids, complete_column):
        with pytest.raises(InputError, match="row 3 has no 'id'; fill that cell"):
            check(records, "id")
    assert complete_column(records, "x").tolist() == ["1", "2"]
