"""Readers give the same text from every format, and refuse a bad file in one sentence naming the place."""

from __future__ import annotations

import datetime
import gzip
import json
import sys
import zipfile

import duckdb
import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import zstandard

from scdp.errors import InputError
from scdp.table import Records, complete_column, readers, records_from, unique_ids
from scdp.table.readers import Reading, read_records

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
        ("array.json", "\n " + json.dumps(ROWS, indent=1)),
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


def test_whole_numbers_and_days_have_no_tail_from_any_table(tmp_path):
    frame = pd.DataFrame({"year": [1990, None], "day": pd.to_datetime(["2020-01-02", None]), "size": [1.5, 2.0]})
    expected = [{"year": "1990", "day": "2020-01-02", "size": "1.5"}, {"year": None, "day": None, "size": "2.0"}]
    frame.to_parquet(tmp_path / "a.parquet")
    assert as_list(records_from(frame)) == as_list(read_records(tmp_path / "a.parquet")) == expected
    assert as_list(records_from(pl.from_pandas(frame))) == as_list(records_from(pa.Table.from_pandas(frame)))
    at_noon = pd.DataFrame({"when": pd.to_datetime(["2020-01-02 12:00", "2020-01-02 00:00"])})
    assert records_from(at_noon)["when"].tolist() == ["2020-01-02 12:00:00", "2020-01-02 00:00:00"]


# ---- what is guessed ----


@pytest.mark.parametrize(
    ("name", "delimiter", "said"),
    [
        ("a.csv", ";", "separated by semicolons"),
        ("a.csv", "\t", "separated by tabs"),
        ("a.csv", "|", "separated by bars"),
        ("a.txt", ",", "separated by commas"),
        ("a.txt", "\t", None),
        ("a.tsv", ";", "separated by semicolons"),
    ],
)
def test_the_separator_is_found_and_said(tmp_path, caplog, name, delimiter, said):
    caplog.set_level("INFO", logger="scdp")
    assert as_list(read_records(write(tmp_path / name, delimited(delimiter)))) == ROWS
    assert (said in caplog.text) if said else not caplog.text


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ("id,a;b\n1,x;y\n", ("id", "a;b")),  # both are even: the usual one
        ("name\nx;y\nz\n", ("name",)),  # no separator at all
        ('a;b\n"x;y";2,5\n', ("a", "b")),
        ("a;b\n1;2\n" + "x;y\n" * 40_000 + "z;z", ("a", "b")),  # more than is looked at
    ],
)
def test_the_usual_separator_is_kept_unless_another_fits_better(tmp_path, content, names):
    assert read_records(write(tmp_path / "a.csv", content)).names == names


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "utf-16"])
def test_western_text_and_utf_16_are_read_and_said(tmp_path, caplog, encoding):
    caplog.set_level("INFO", logger="scdp")
    text = "id;name;price\n1;Müller & Söhne, Zürich;3,50 £\n2;Ærøskøbing;\n"
    found = read_records(write(tmp_path / "a.csv", text.encode(encoding)))
    assert found["name"].tolist() == ["Müller & Söhne, Zürich", "Ærøskøbing"]
    assert ("read as Windows-1252" in caplog.text) == (encoding != "utf-16")
    assert "semicolons" in caplog.text


def test_what_is_named_is_not_guessed(tmp_path):
    path = write(tmp_path / "a.csv", "a;b,c;d\nПривет;1,2;3\n".encode("cp1251"))
    found = read_records(path, Reading(delimiter=",", encoding="cp1251"))
    assert as_list(found) == [{"a;b": "Привет;1", "c;d": "2;3"}]
    with pytest.raises(InputError, match="not ascii text; give another --encoding"):
        read_records(path, Reading(encoding="ascii"))
    with pytest.raises(InputError, match="there is no encoding 'klingon'"):
        Reading(encoding="klingon")
    with pytest.raises(InputError, match="--encoding"):
        Reading(encoding="base64")
    with pytest.raises(InputError, match="--delimiter must be one character"):
        Reading(delimiter="::")
    assert Reading(delimiter="tab") == Reading(delimiter="\t")


# ---- packed files and workbooks ----


def test_zstandard_files_of_several_frames_are_read(tmp_path):
    content = delimited(",").encode()
    packed = [zstandard.ZstdCompressor().compress(part) for part in (content[:40], content[40:])]
    assert as_list(read_records(write(tmp_path / "a.csv.zst", b"".join(packed)))) == ROWS
    with pytest.raises(InputError, match="the Zstandard file is damaged or cut off"):
        read_records(write(tmp_path / "b.csv.zst", b"".join(packed)[:-4]))


def test_a_small_zstandard_file_of_very_much_is_refused(tmp_path):
    flood = zstandard.ZstdCompressor().compress(b"id\n" + b"0" * (200 << 20))
    with pytest.raises(InputError, match="which no table does"):
        read_records(write(tmp_path / "a.csv.zst", flood))


def test_a_missing_package_is_named_with_its_extra(tmp_path, monkeypatch):
    for module, name, extra in (("zstandard", "a.csv.zst", "zstd"), ("openpyxl", "a.xlsx", "excel")):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(InputError, match=rf"pip install 'scdp\[{extra}\]'"):
            read_records(write(tmp_path / name, b"x"))


def workbook(path, rows, *more):
    book = openpyxl.Workbook()
    for cells in rows:
        book.active.append(cells)
    for title in more:
        book.create_sheet(title)
    book.save(path)
    return path


def test_a_workbook_gives_what_excel_shows(tmp_path, caplog):
    caplog.set_level("INFO", logger="scdp")
    day, noon = datetime.datetime(2020, 1, 2), datetime.datetime(2020, 1, 2, 12)
    rows = [["id", " name", "when"], [1, "Ann", day], [], [2.0, None, noon], ["003", "#N/A"], [4.5, True]]
    found = read_records(workbook(tmp_path / "a.xlsx", rows, "other"))
    assert as_list(found) == [
        {"id": "1", "name": "Ann", "when": "2020-01-02"},
        {"id": "2", "name": None, "when": "2020-01-02 12:00:00"},
        {"id": "003", "name": None, "when": None},
        {"id": "4.5", "name": "true", "when": None},
    ]
    assert found.numbers.tolist() == [2, 4, 5, 6]
    assert "only the first of its 2 sheets" in caplog.text


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "the first sheet is empty"),
        ([["id"]], "holds no records"),
        ([["id", "id"], [1, 2]], "'id' occurs twice"),
        ([["id"], [1], [2, 3]], "row 3 has 2 cells and the header has 1"),
    ],
)
def test_bad_sheets_are_refused(tmp_path, rows, message):
    with pytest.raises(InputError, match=message):
        read_records(workbook(tmp_path / "a.xlsx", rows))


def test_a_workbook_that_unpacks_to_a_flood_or_is_hardly_filled_is_refused(tmp_path, monkeypatch):
    path = workbook(tmp_path / "a.xlsx", [["id"], ["1"]])
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/media/x", b"0" * (70 << 20))
    with pytest.raises(InputError, match=r"unpacks to .* which no table does"):
        read_records(path)
    monkeypatch.setattr(readers, "LARGEST_SPARSE", 1000)
    wide = [[None] * 150 + ["x"]] * 20
    with pytest.raises(InputError, match="hardly any cell of the sheet is filled"):
        read_records(workbook(tmp_path / "b.xlsx", wide))


def test_entities_in_a_workbook_are_not_expanded(tmp_path):
    path = workbook(tmp_path / "a.xlsx", [["id"], ["1"]])
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    name = next(name for name in parts if name.endswith("sheet1.xml"))
    parts[name] = b'<!DOCTYPE x [<!ENTITY a "' + b"a" * 1000 + b'">]>' + parts[name]
    with zipfile.ZipFile(path, "w") as archive:
        for part, content in parts.items():
            archive.writestr(part, content)
    with pytest.raises(InputError, match="not an Excel workbook, or damaged"):
        read_records(path)


# ---- what is refused ----


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "", "the file is empty"),
        ("a.csv", " \n\n", "the file is empty"),
        ("a.parquet", "", "the file is empty"),
        ("a.csv", "id,name\n", "holds no records"),
        ("a.csv", "id,name\n1,é\n2,Ã¨\n".encode("latin-1"), r"row 2 \(byte 10\) is not UTF-8 text; save"),
        ("a.csv", b"id,name\n1,\xff\n", r"row 2 \(byte 10\) is not UTF-8 text; save"),
        ("a.csv", "id,name\n1,Привет\n".encode("cp1251"), "is not UTF-8 text; save the file as UTF-8, or name"),
        ("a.csv", "id,name\n1,x\n".encode("utf-16")[:-1], "this is not utf-16 text"),
        ("a.csv", "id,name\n1,x\n".encode("utf-32"), "row 1 holds a zero byte|not UTF-8"),
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
        ("a.xls", "x", "the kind of file cannot be told from its name; name it .csv"),
        ("a.xlsx", "x", "not an Excel workbook, or damaged"),
        ("a.csv.zst", b"id,name\n1,x\n", "the Zstandard file is damaged"),
        ("a", "x", "the kind of file cannot be told"),
        ("a.parquet.gz", b"x", "the kind of file cannot be told"),
        ("a.jsonl", '{"a": 1}\n\n{"a": }\n', r"row 3 is not JSON \(Expecting value\)"),
        ("a.json", '[{"a": 1}, 2]', "item 2 is not a JSON object; write an array of objects"),
        ("a.json", '[{"a": 1},\n{"a": }]', r"row 2 is not JSON \(Expecting value\); write an array"),
        ("a.json", "[" * 100_000, "nested too deeply"),
        ("a.json", "[]", "holds no records"),
        ("a.json", '{"a": 1,\n "b": 2}', r"row 1 is not JSON .*; write one object a line"),
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
    "column", [pa.array([b"\xff\x00"]), pa.array([[b"a"]]), pa.array([{"x": b"a"}]), pa.array([b"abc"], pa.binary(3))]
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
    monkeypatch.setattr(readers, "read_column", None)
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


@pytest.mark.parametrize(
    "table",
    [
        {name: [row[name] for row in ROWS] for name in ROWS[0]},
        {name: np.array([row[name] for row in ROWS], dtype=object) for name in ROWS[0]},
        pd.DataFrame(ROWS, index=[5, 5, 5]),
        pd.DataFrame(ROWS, dtype="string"),
        pa.Table.from_pylist(ROWS),
        pl.DataFrame(ROWS),
        pl.LazyFrame(ROWS),
        ROWS,
    ],
    ids=["lists", "arrays", "pandas", "pandas-string", "arrow", "polars", "polars-lazy", "dicts"],
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
        {"whole": "1", "float": "1.5", "day": "2020-01-02", "flag": "true", "3": "[1, 2]"},
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
        ([1, 2], "mine: a list is not a table"),
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
