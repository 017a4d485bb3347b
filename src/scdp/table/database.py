"""Columns by way of DuckDB: a query, or a plain text file, enters; encoded columns leave, without a loop over cells."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from scdp.table.encoded import EncodedColumn
from scdp.table.records import Column, Records, column_of, header_names, records_of_encoded

# Where so many cells differ, to look each up by itself costs more than to take it as it is.
MOSTLY_DISTINCT = 0.9
# Files of fewer characters are read by Python, which takes less time than to start a database.
FEWEST_CHARACTERS = 4_000_000
# With these in its path a file would be a pattern to the database, and stand for others.
PATTERN = frozenset("*?[]{}")


def quoted(name: str) -> str:
    """A column's name for SQL."""
    return '"' + name.replace('"', '""') + '"'


def encode_column(connection: Any, query: str, parameters: Sequence[Any] = ()) -> Column | EncodedColumn:
    """The texts of a query for one column, `cell`, encoded by the database; as they are where nearly all differ."""
    connection.execute(f"CREATE OR REPLACE TEMP TABLE cells AS {query}", list(parameters))
    n_cells, n_texts = connection.execute(
        "SELECT count(*), approx_count_distinct(cell) FROM cells"
    ).fetchone()
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
        f"CREATE TEMP TABLE lines AS SELECT * FROM read_csv(?, delim = ?, header = true, auto_detect = false, "
        f"columns = {{{kinds}}}, quote = '\"', escape = '\"', strict_mode = true)"
    )
    try:
        with duckdb.connect() as connection:
            connection.execute(query, [str(place), delimiter])
            return [
                _without_blanks(encode_column(connection, f"SELECT c{number} AS cell FROM lines"))
                for number in range(n_columns)
            ]
    except duckdb.Error:
        return None


def _without_blanks(column: Column | EncodedColumn) -> Column | EncodedColumn:
    return (
        column.with_texts(column.texts) if isinstance(column, EncodedColumn) else column_of(column.tolist())
    )
