"""Large text files: the same records as row by row, or none at all."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from product_cases import run
from scdp.errors import InputError
from scdp.table import Records, readers
from scdp.table.delimited import read_large
from scdp.table.readers import Reading, read_records
from scdp.table.text_files import read_delimited


def same(one: Records, other: Records) -> bool:
    cells = all(one[name].tolist() == other[name].tolist() for name in other.names)
    return one.names == other.names and cells and one.numbers.tolist() == other.numbers.tolist()


def read_both(text: str, delimiter: str = ",") -> None:
    """Both readers give the same records; where one refuses a text, the other gives none, or says the same."""
    wanted, found = (told(reader, text, delimiter) for reader in (read_delimited, read_large))
    if isinstance(wanted, Records):
        assert isinstance(found, Records)
        assert same(found, wanted)
    else:
        assert found in (None, wanted)


def told(reader, text: str, delimiter: str) -> Records | str | None:
    try:
        return reader(text, delimiter, "some.csv")
    except InputError as error:
        return str(error)


cells = st.text(alphabet='ab ",;\n\r\té0\u2028\x0b', max_size=4)


@given(
    rows=st.lists(st.tuples(cells, cells), min_size=1, max_size=6),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    delimiter=st.sampled_from(",;\t|a "),
)
@settings(max_examples=100, deadline=None)
def test_what_csv_writes_is_read_as_row_by_row(rows, quoting, end, delimiter):
    file = io.StringIO(newline="")
    csv.writer(file, quoting=quoting, lineterminator=end, delimiter=delimiter).writerows([("x", "y"), *rows])
    read_both(file.getvalue(), delimiter)


@given(
    head=st.sampled_from(["x,y\n", "x\r", '"x ""z""\n",y\r\n', ""]),
    body=st.text(alphabet='ab",\n\r é\x0b', max_size=24),
)
@example(head="x,y\n", body=', ""')
@example(head="x,y\n", body=',"" ')
@example(head="x,y\n", body='a"b",c')
@example(head="x,y\n", body='"a')
@example(head="x,y\n", body="a,b,\n")
@example(head="x,y\n", body="a,b\r\r\n\n\rc,")
@example(head="x\r", body='""\n\n""""')
@settings(max_examples=300, deadline=None)
def test_any_text_is_read_as_row_by_row_or_refused(head, body):
    if (head + body).strip():
        read_both(head + body)


def test_many_texts_of_a_column_are_told_apart():
    rows = [(f"{k}", f"{k % 7000:x}", "é" * (k % 5)) for k in range(20_000)]
    read_both("\n".join(map(",".join, [("id", "x", "y"), *rows])))


def test_a_cell_may_be_long():
    long = "ab" * csv.field_size_limit()
    read_both(f'{long},"{long}c"\n1,{long}\n"{long}",2')


def test_large_files_are_read_by_kernels(monkeypatch, tmp_path: Path):
    monkeypatch.setattr(readers, "FEWEST_CHARACTERS", 1)
    monkeypatch.setattr(readers, "read_delimited", None)
    place = tmp_path / "some.csv"
    for text in ('id,name\n1,"a, b"\n2, \n3,"say ""a"""\n4,\n', "id,name\r\n1,a\r\n2,b\r\n", "id;name\n1;ä\n2;ö"):
        for encoding in ("utf-8", "utf-8-sig", "utf-16"):
            place.write_bytes(text.encode(encoding))
            assert same(read_records(place), read_delimited(text, text[2], str(place)))


def test_what_is_wrong_with_a_large_file_is_told_by_the_other_reader(monkeypatch, tmp_path: Path):
    monkeypatch.setattr(readers, "FEWEST_CHARACTERS", 1)
    place = tmp_path / "some.csv"
    place.write_text("x,y\n1,2\n\n1,2,3\n", encoding="utf-8")
    with pytest.raises(InputError, match="row 4 has 3 cells and the header has 2"):
        read_records(place)
    place.write_text('x¦y\n1¦"2"\n', encoding="utf-8")
    assert read_records(place, Reading(delimiter="¦"))["y"].tolist() == ["2"]


def test_kernels_refuse_half_a_character():
    assert read_large("x,y\n1,\ud800\n", ",", "some.csv") is None


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
