"""Parquet files: a path enters, Records leave, read by DuckDB one column at a time."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scdp.errors import InputError
from scdp.io.untrusted import largest_unpacked
from scdp.table.database import quoted, read_column
from scdp.table.records import Records, check_no_twice, check_no_zero, check_width, records_of_encoded


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
            columns = {
                written: read_column(connection, f"SELECT {quoted(column)} FROM {table}", name, kind)
                for written, (column, kind, *_) in zip(names, described, strict=True)
            }
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
        raise InputError(
            f"{place}: unpacks to at least {least:,} bytes, more than {most:,}; make it again in parts"
        )
    counts = f"SELECT sum(coalesce(strlen(COLUMNS(*)::VARCHAR), 0) + 8) FROM {table}"
    sizes = connection.execute(counts, [glob.escape(str(place))]).fetchone()
    size = sum(map(int, filter(None, sizes)))
    if size > most:
        raise InputError(f"{place}: unpacks to {size:,} bytes, more than {most:,}; make it again in parts")
