"""Tables that people get: columns enter; a CSV, TSV, JSON lines or Parquet file leaves, whole or not at all."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scdp.io.atomic import Staged
from scdp.io.leftovers import remove

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Column = Sequence[Any] | NDArray[Any]

DELIMITERS = {".csv": ",", ".tsv": "\t"}
JSON_LINES = (".jsonl", ".ndjson", ".json")
# Rows of text files that are written at a time.
ROWS_AT_ONCE = 10_000
PARQUET_KINDS = {float: "DOUBLE", bool: "BOOLEAN", int: "BIGINT"}
# Spreadsheets run a cell that starts like this; a plain number is no formula.
FORMULA = re.compile(r"[\s\ufeff]*[=+\-@＝＋－＠]|[\t\r\n]")
PLAIN_NUMBER = re.compile(r"[-+]?\d{1,15}(?:\.\d{1,15})?")


def stage_table(staged: Staged, path: Path, columns: Mapping[str, Column]) -> None:
    """A table of texts, numbers and truth values as CSV, TSV, JSON lines or Parquet, by the name of the file."""
    kind = path.suffix.lower()
    rows = zip(*columns.values(), strict=True)
    if kind in DELIMITERS:
        staged.text(path, _delimited(list(columns), rows, DELIMITERS[kind]))
    elif kind in JSON_LINES:
        lines = (json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) for row in rows)
        staged.text(path, "".join(f"{line}\n" for line in lines))
    else:
        staged.write(path, lambda part: _write_parquet(part, columns))


def stage_spreadsheet(staged: Staged, path: Path, columns: Mapping[str, Column]) -> None:
    """A CSV or TSV to be opened in a spreadsheet: what it would run as a formula has a ' in front, and is text."""
    rows = (map(spreadsheet_cell, row) for row in zip(*columns.values(), strict=True))
    text = _delimited([*map(spreadsheet_cell, columns)], map(list, rows), DELIMITERS[path.suffix.lower()])
    # By the mark at the start, spreadsheets know that this is UTF-8.
    staged.text(path, "\ufeff" + text)


def spreadsheet_cell(cell: Any) -> Any:
    """A cell that no spreadsheet runs: a text that starts like a formula gets a ' in front."""
    if not isinstance(cell, str) or PLAIN_NUMBER.fullmatch(cell) or not FORMULA.match(cell):
        return cell
    return f"'{cell}"


def _delimited(header: Sequence[str], rows: Iterable[Sequence[Any]], delimiter: str) -> str:
    parts, every = [], chain([header], rows)
    while some := list(islice(every, ROWS_AT_ONCE)):
        text = io.StringIO()
        plain = csv.writer(text, lineterminator="\n", delimiter=delimiter)
        plain.writerows(some)
        parts.append(text.getvalue())
        # A bare carriage return ends a row for every reader, and Python before 3.13 does not quote it.
        if "\r" in parts[-1]:
            parts[-1] = _with_returns(some, delimiter)
    return "".join(parts)


def _with_returns(rows: Iterable[Sequence[Any]], delimiter: str) -> str:
    """Rows in which a cell has a carriage return are quoted."""
    text = io.StringIO()
    plain = csv.writer(text, lineterminator="\n", delimiter=delimiter)
    quoted = csv.writer(text, lineterminator="\n", delimiter=delimiter, quoting=csv.QUOTE_ALL)
    for row in rows:
        ends = any(isinstance(cell, str) and "\r" in cell for cell in row)
        (quoted if ends else plain).writerow(row)
    return text.getvalue()


def _write_parquet(path: Path, columns: Mapping[str, Column]) -> None:
    # By way of JSON lines: DuckDB reads no Python lists, and neither pandas nor Arrow need be here.
    import duckdb

    names = [f"column{k}" for k in range(len(columns))]
    kinds = [PARQUET_KINDS.get(type(next(iter(column), None)), "VARCHAR") for column in columns.values()]
    between = path.with_name(f"{path.name}.jsonl")
    rows = zip(*columns.values(), strict=True)
    lines = (json.dumps(dict(zip(names, row, strict=True))) for row in rows)
    try:
        with between.open("x", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
        # Names of columns are the user's: quotes in them are doubled, as SQL wants.
        titles = ['"' + name.replace('"', '""') + '"' for name in columns]
        chosen = ", ".join(f"{name} AS {title}" for name, title in zip(names, titles, strict=True))
        types = ", ".join(f"{name}: '{kind}'" for name, kind in zip(names, kinds, strict=True))
        reader = f"read_json(?, format = 'newline_delimited', columns = {{{types}}})"
        with database_errors(), duckdb.connect() as connection:
            connection.execute(
                f"COPY (SELECT {chosen} FROM {reader}) TO '{_quoted(path)}' (FORMAT parquet, USE_TMP_FILE false)",
                [str(between)],
            )
    finally:
        remove(between)


@contextmanager
def database_errors() -> Iterator[None]:
    """What DuckDB says of a disk or of memory becomes the error that Python has for it."""
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise MemoryError from error
    except duckdb.IOException as error:
        full = "No space left" in str(error)
        code = errno.ENOSPC if full else errno.EIO
        raise OSError(code, os.strerror(code) if full else str(error).splitlines()[0]) from error


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")
