"""Columns by way of DuckDB: a query, or a plain text file, enters; encoded columns leave, without a loop over cells."""

from __future__ import annotations

import csv
import glob
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from scdp._parallel import count_workers, map_in_threads
from scdp.errors import InputError
from scdp.io.untrusted import largest_unpacked, open_ordinary
from scdp.table.records import (
    MIDNIGHT,
    Column,
    EncodedColumn,
    Records,
    check_no_twice,
    check_no_zero,
    check_width,
    column_of,
    drop_ending,
    header_names,
    records_of_encoded,
)

# Where so many cells differ, to look each up by itself costs more than to take it as it is.
MOSTLY_DISTINCT = 0.9
# Files of fewer characters are read by Python, which takes less time than to start a database.
FEWEST_CHARACTERS = 4_000_000
# With these in its path a file would be a pattern to the database, and stand for others.
PATTERN = frozenset("*?[]{}")
# Databases that are asked, and what stands before the query.
DATABASES = {"duckdb:": "FILE", "postgresql:": "dbname=NAME host=HOST"}


def quoted(name: str) -> str:
    """A column's name for SQL."""
    return '"' + name.replace('"', '""') + '"'


def encode_column(connection: Any, query: str, parameters: Sequence[Any] = ()) -> Column | EncodedColumn:
    """The texts of a query for one column, `cell`, encoded by the database; as they are where nearly all differ."""
    connection.execute(f"CREATE OR REPLACE TEMP TABLE cells AS {query}", list(parameters))
    n_cells, n_texts = connection.execute("SELECT count(*), approx_count_distinct(cell) FROM cells").fetchone()
    if n_texts > MOSTLY_DISTINCT * n_cells:
        found = connection.execute("SELECT cell FROM cells ORDER BY rowid").fetchnumpy()["cell"]
        column: Column = np.array(np.ma.getdata(found), dtype=object)
        column[np.ma.getmaskarray(found)] = None
        return column
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE texts AS SELECT cell, row_number() OVER (ORDER BY min(rowid)) - 1 AS code "
        "FROM cells WHERE cell IS NOT NULL GROUP BY cell"
    )
    texts = connection.execute("SELECT cell FROM texts ORDER BY code").fetchnumpy()["cell"].tolist()
    codes = connection.execute(
        "SELECT coalesce(texts.code, -1)::INTEGER AS code FROM cells LEFT JOIN texts USING (cell) ORDER BY cells.rowid"
    ).fetchnumpy()["code"]
    return EncodedColumn(np.ascontiguousarray(codes, dtype=np.int32), texts)


def read_each(
    connection: Any, wanted: Sequence[Any], read: Callable[[Any, Any], Column | EncodedColumn]
) -> list[Column | EncodedColumn]:
    """What `read` gives for a connection of its own and each of the wanted columns, on all cores."""

    def read_one(column: Any) -> Column | EncodedColumn:
        with connection.cursor() as own:
            return read(own, column)

    return list(map_in_threads(read_one, wanted, count_workers(-1)))


def read_column(connection: Any, query: str, parameters: Sequence[Any], kind: str) -> Column | EncodedColumn:
    """A query for one column of a kind of the database, every cell as text.

    It is one column at a time, so that texts that occur again are never all there at once.
    """
    one = f"SELECT COLUMNS(*)::VARCHAR AS cell FROM ({query})"
    found = encode_column(connection, one, parameters)
    texts: list[str | None] = list(found.texts) if isinstance(found, EncodedColumn) else found.tolist()
    if kind in ("FLOAT", "DOUBLE"):
        texts = drop_ending([None if text == "nan" else text for text in texts], ".0")
    elif kind.startswith("TIMESTAMP"):
        texts = drop_ending(texts, MIDNIGHT)
    return found.with_texts(texts) if isinstance(found, EncodedColumn) else column_of(texts)


def is_address(text: str) -> bool:
    """Whether a text names a database and a query, and no file."""
    return text.startswith(tuple(DATABASES))


def database_of(address: str) -> Path | None:
    """The file that a query is asked of; None where a text is no such query, or the database is elsewhere."""
    place = address.removeprefix("duckdb:").partition("?")[0]
    return Path(place) if place and address.startswith("duckdb:") else None


def read_query(address: str) -> Records:
    """The records that a query gives: `duckdb:FILE?SELECT ...`, or `postgresql:KEYWORDS?SELECT ...`.

    The database is opened for reading, and no extension of DuckDB is fetched: that of PostgreSQL must be installed.
    """
    import duckdb

    scheme, rest = next((mark, address[len(mark) :]) for mark in DATABASES if address.startswith(mark))
    place, _, query = rest.partition("?")
    if not place or not query.strip():
        raise InputError(f"{address}: write  {scheme}{DATABASES[scheme]}?SELECT ...  with a place and a query")
    source = f"{scheme}{place}"
    if scheme == "duckdb:":
        with open_ordinary(Path(place)):
            pass
    try:
        with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection:
            _attach(connection, scheme, place)
            # The whole answer first: two runs of a query need not give their rows in one order.
            connection.execute(f"CREATE TEMP TABLE answer AS SELECT * FROM ({query.strip().rstrip(';')})")
            described = connection.execute("DESCRIBE answer").fetchall()
            check_width(len(described), source)
            if held := next((name for name, kind, *_ in described if "BLOB" in kind), None):
                raise InputError(f"{source}: column {held!r} holds bytes and not text; leave it out of the query")
            columns = {
                name: read_column(connection, f"SELECT {quoted(name)} FROM answer", [], kind)
                for name, kind, *_ in described
            }
    except duckdb.OutOfMemoryException as error:
        raise MemoryError from error
    except duckdb.Error as error:
        (reason, *_) = str(error).splitlines()
        raise InputError(f"{source}: {reason}; mend the query, or what names the database") from error
    records = check_no_zero(records_of_encoded(columns, source))
    if not len(records):
        raise InputError(f"{source}: the query gives no records; mend it")
    return records


def _attach(connection: Any, scheme: str, place: str) -> None:
    """Open a database for reading, and make it the one that the query is about."""
    import duckdb

    kind = ""
    if scheme == "postgresql:":
        try:
            connection.execute("LOAD postgres")
        except duckdb.Error as error:
            raise InputError(
                f"{scheme}{place}: DuckDB has no reader of PostgreSQL on this machine; install it once by  "
                "python -c \"import duckdb; duckdb.sql('INSTALL postgres')\"  or give a file"
            ) from error
        kind = "TYPE postgres, "
    escaped = place.replace("'", "''")
    connection.execute(f"ATTACH '{escaped}' AS given ({kind}READ_ONLY)")
    connection.execute("USE given")


def read_plain_text(text: str, place: Path, delimiter: str) -> Records | None:
    """The records of a large text file that is plain, as `read_delimited` reads them; None where it is not.

    Plain is a file of UTF-8 (the text is what it holds, from its first byte on) with a header, a line for each row, and
    quotes only around whole cells. What is wrong with any other is told by the reader that goes row by row.
    """
    if len(text) < FEWEST_CHARACTERS or PATTERN & set(str(place)):
        return None
    header = text[: text.find("\n") + 1].rstrip("\r\n")
    if delimiter not in header or '"' in header or not _is_plain(text, delimiter):
        return None
    names = header_names(next(csv.reader([header], delimiter=delimiter)), str(place))
    columns = _read_columns(place, delimiter, len(names))
    if columns is None:
        return None
    records = records_of_encoded(dict(zip(names, columns, strict=True)), str(place))
    # The database overlooks a row that has one empty cell too many.
    if not _is_even(text, delimiter, len(records) + 1, len(names)):
        return None
    return records.with_numbers(np.arange(2, len(records) + 2))


def _is_plain(text: str, delimiter: str) -> bool:
    """Whether rows are lines, none of them empty, and quotes stand around whole cells, or in twos in them."""
    if "\r" in text and ('"' in text or not text.count("\r") == text.count("\r\n") == text.count("\n")):
        return False
    if "\n\n" in text or "\n\r" in text or text.startswith(("\n", "\r")):
        return False
    if '"' not in text:
        return True
    end = "[^" + re.escape(delimiter) + "\\n]"
    return '"' not in re.sub(f'(?<!{end})"[^"]*(?:""[^"]*)*"(?!{end})', "", text)


def _is_even(text: str, delimiter: str, n_rows: int, n_columns: int) -> bool:
    """Whether there are as many lines as rows, and as many separators as these have together."""
    bare = re.sub('"[^"]*"', "", text) if '"' in text else text
    n_lines = bare.count("\n") + (not bare.endswith("\n"))
    return n_lines == n_rows and bare.count(delimiter) == (n_columns - 1) * n_lines


def _read_columns(place: Path, delimiter: str, n_columns: int) -> list[Column | EncodedColumn] | None:
    import duckdb

    kinds = ", ".join(f"'c{number}': 'VARCHAR'" for number in range(n_columns))
    query = (
        f"CREATE TABLE lines AS SELECT * FROM read_csv(?, delim = ?, header = true, auto_detect = false, "
        f"columns = {{{kinds}}}, quote = '\"', escape = '\"', strict_mode = true)"
    )
    try:
        with duckdb.connect() as connection:
            connection.execute(query, [str(place), delimiter])
            return read_each(
                connection,
                range(n_columns),
                lambda own, number: _without_blanks(encode_column(own, f"SELECT c{number} AS cell FROM lines")),
            )
    except duckdb.Error:
        return None


def _without_blanks(column: Column | EncodedColumn) -> Column | EncodedColumn:
    return column.with_texts(column.texts) if isinstance(column, EncodedColumn) else column_of(column.tolist())


def read_parquet(place: Path) -> Records:
    """A Parquet file, every cell as text."""
    import duckdb

    # A folder named "key=value" must not become a column, and a * in a name must not bring in other files.
    table, name = "read_parquet(?, hive_partitioning = false)", [glob.escape(str(place))]
    try:
        with duckdb.connect() as connection:
            described = connection.execute(f"DESCRIBE SELECT * FROM {table}", name).fetchall()
            # DuckDB gives names that differ in capitals alone a number; the file has them as they are.
            names = _parquet_names(connection, name)
            check_width(len(described), str(place))
            check_no_twice(names, str(place))
            _check_no_bytes(described, names, str(place))
            _check_parquet_size(connection, table, place, len(names))
            found = read_each(
                connection,
                described,
                lambda own, column: read_column(own, f"SELECT {quoted(column[0])} FROM {table}", name, column[1]),
            )
            columns = dict(zip(names, found, strict=True))
    except duckdb.OutOfMemoryException as error:
        raise MemoryError from error
    except (duckdb.Error, UnicodeDecodeError) as error:
        if "Too many open files" in str(error):
            raise InputError(
                f"{place}: cannot be read, since too many files are open; close some, or raise  ulimit -n"
            ) from error
        raise InputError(f"{place}: the file is not Parquet, or damaged or cut off; make it again") from error
    return check_no_zero(records_of_encoded(columns, str(place)))


def _parquet_names(connection: Any, place: list[str]) -> list[str]:
    """The names of the columns as they are written; those of parts of a column are passed over."""
    schema = connection.execute("SELECT name, num_children FROM parquet_schema(?)", place).fetchall()
    names, inside = [], 0
    # The first row is the whole, and what a row has inside comes right after it.
    for name, n_children in schema[1:]:
        if not inside:
            names.append(name)
        inside += (n_children or 0) - (1 if inside else 0)
    return names


def _check_no_bytes(described: Sequence[Sequence[Any]], names: Sequence[str], source: str) -> None:
    for name, (_, kind, *_) in zip(names, described, strict=True):
        if "BLOB" in kind:
            raise InputError(f"{source}: column {name!r} holds bytes and not text; write it as text")


def _check_parquet_size(connection: Any, table: str, place: Path, n_columns: int) -> None:
    """Refuse a few bytes that stand for a flood of cells, as one value repeated without end can."""
    most = largest_unpacked(place.stat().st_size)
    promised = connection.execute(
        "SELECT sum(num_rows)::HUGEINT FROM parquet_file_metadata(?)", [glob.escape(str(place))]
    ).fetchone()
    least = 8 * n_columns * int(promised[0] or 0)
    if least > most:
        # Before any of it is looked at.
        raise InputError(f"{place}: unpacks to at least {least:,} bytes, more than {most:,}; make it again in parts")
    counts = f"SELECT sum(coalesce(strlen(COLUMNS(*)::VARCHAR), 0) + 8) FROM {table}"
    sizes = connection.execute(counts, [glob.escape(str(place))]).fetchone()
    size = sum(map(int, filter(None, sizes)))
    if size > most:
        raise InputError(f"{place}: unpacks to {size:,} bytes, more than {most:,}; make it again in parts")
