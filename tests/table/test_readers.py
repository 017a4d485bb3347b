"""Text files by way of the database: the same records as row by row, or none at all."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from product_cases import run
from scdp.errors import InputError
from scdp.table import text_files
from scdp.table.readers import read_records
from scdp.table.records import Records
from scdp.table.text_files import read_delimited


def same(one: Records, other: Records) -> bool:
    cells = all(one[name].tolist() == other[name].tolist() for name in other.names)
    return one.names == other.names and cells and one.numbers.tolist() == other.numbers.tolist()


@pytest.fixture
def small_files(monkeypatch):
    """Let the database read files of any size."""
    monkeypatch.setattr(text_files, "FEWEST_CHARACTERS", 1)


cells = st.text(alphabet='ab ",;\n\té0', max_size=4)


@given(rows=st.lists(st.tuples(cells, cells), min_size=1, max_size=6), quoting=st.sampled_from([0, 1]))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_csv_writes_is_read_as_row_by_row(small_files, tmp_path: Path, rows, quoting):
    file = io.StringIO(newline="")
    csv.writer(file, quoting=quoting, lineterminator="\n").writerows([("x", "y"), *rows])
    text, place = file.getvalue(), tmp_path / "some.csv"
    place.write_text(text, encoding="utf-8", newline="")
    found = text_files.read_plain_text(text, place, ",")
    if found is not None:
        assert same(found, read_delimited(text, ",", str(place)))


@given(body=st.text(alphabet='ab",\n\r ', max_size=24))
@example(body=', ""')
@example(body=',"" ')
@example(body='a"b",c')
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_not_plain_is_left_to_the_other_reader(small_files, tmp_path: Path, body):
    text, place = "x,y\n" + body, tmp_path / "some.csv"
    place.write_text(text, encoding="utf-8", newline="")
    found = text_files.read_plain_text(text, place, ",")
    if found is None:
        return
    try:
        wanted = read_delimited(text, ",", str(place))
    except InputError as error:
        raise AssertionError(f"{text!r} was read") from error
    assert same(found, wanted)


def test_plain_files_are_read_by_the_database(small_files, tmp_path: Path):
    place = tmp_path / "some.csv"
    for text in ('id,name\n1,"a, b"\n2, \n3,"say ""a"""\n4,\n', "id,name\r\n1,a\r\n2,b\r\n", "id;name\n1;ä\n2;ö"):
        place.write_bytes(text.encode())
        delimiter = text[2]
        found = text_files.read_plain_text(text, place, delimiter)
        assert found is not None
        assert same(found, read_delimited(text, delimiter, str(place)))
        assert same(read_records(place), found)


def test_a_file_whose_name_is_a_pattern_is_not_mistaken_for_another(small_files, tmp_path: Path):
    (tmp_path / "a1.csv").write_text("x,y\nwrong,wrong\n", encoding="utf-8")
    place = tmp_path / "a[1].csv"
    place.write_text("x,y\nright,right\n", encoding="utf-8")
    assert read_records(place)["x"].tolist() == ["right"]


# ---- queries ----


@pytest.fixture
def people(tmp_path: Path) -> Path:
    import duckdb

    place = tmp_path / "it's people.duckdb"
    with duckdb.connect(str(place)) as connection:
        connection.execute(
            "CREATE TABLE people AS SELECT * FROM (VALUES "
            "(1, 'Ann/Anna', 1.0::DOUBLE, TIMESTAMP '2020-01-02', NULL), (2, 'Bob', 2.5, NULL, 'x')) "
            "t(id, name, score, seen, note)"
        )
    return place


def test_a_query_gives_records_as_text(people):
    found = read_records(f"duckdb:{people}?SELECT * FROM people ORDER BY id DESC;")
    assert list(found.names) == ["id", "name", "score", "seen", "note"]
    assert found["id"].tolist() == ["2", "1"]
    assert found["score"].tolist() == ["2.5", "1.0"]
    assert found["seen"].tolist() == [None, "2020-01-02"]
    assert found["note"].tolist() == ["x", None]


def test_the_command_line_keeps_the_slashes_of_a_query(people, tmp_path):
    query = f"duckdb:{people}?SELECT id, name FROM people WHERE name <> 'a//b' AND 'c//d' = 'c/' || '/d'"
    target = tmp_path / "spec.toml"
    result = run("fit", query, "--write-spec", target)
    assert result.exit_code == 0, result.output
    assert "How 2 records are compared" in target.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT * FROM nobody", "nobody"),
        ("SELECT", "mend the query"),
        ("SELECT * FROM people WHERE id > 9", "gives no records"),
        ("SELECT 'a'::BLOB AS held", "column 'held' holds bytes"),
        ("", "with a place and a query"),
        ("DROP TABLE people", "mend the query"),
        ("SELECT 1) ; DROP TABLE people; SELECT * FROM (SELECT 2", "read-only"),
    ],
)
def test_a_query_that_fails_is_one_sentence_and_changes_nothing(people, query, reason):
    before = people.read_bytes()
    with pytest.raises(InputError, match=reason) as caught:
        read_records(f"duckdb:{people}?{query}")
    assert "\n" not in str(caught.value)
    assert people.read_bytes() == before


def test_a_database_that_is_not_there_is_not_made(tmp_path):
    with pytest.raises(InputError, match="there is no such file"):
        read_records(f"duckdb:{tmp_path / 'none.duckdb'}?SELECT 1 AS a")
    assert not list(tmp_path.iterdir())


def test_a_reader_that_is_not_installed_is_not_fetched(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(InputError, match="DuckDB has no reader of PostgreSQL on this machine"):
        read_records("postgresql:dbname=crm?SELECT 1 AS a")
    assert not list(tmp_path.rglob("*extension"))
