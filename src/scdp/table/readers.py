"""Readers: the path of a file enters, Records leave; the kind of file is told from its name.

CSV, TSV and JSON (also packed by gzip or Zstandard), Parquet and Excel, and queries of a database. A file of
strangers is read with care: what is too large, packed too tightly, damaged or of another kind is refused. So are the
files that a spec names, of frequencies and of nicknames.
"""

from __future__ import annotations

import datetime
import glob
import logging
import os
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from scdp._parallel import Need, require
from scdp.errors import InputError
from scdp.io import largest_unpacked, open_ordinary, read_bytes
from scdp.table import (
    LARGEST_SPARSE,
    SPARSE_TIMES,
    Records,
    check_no_twice,
    check_no_zero,
    check_width,
    column_of,
    header_names,
    read_column,
    read_each,
    records_of_encoded,
    text_of,
)
from scdp.table.text_files import Reading, decode, find_delimiter, read_delimited, read_json, unpack

__all__ = ["Reading", "file_of", "read_records"]

logger = logging.getLogger(__name__)

DELIMITED = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
JSON = (".jsonl", ".ndjson", ".json")
WORKBOOKS = (".xlsx", ".xlsm")
PACKED = {".gz": "gzip", ".zst": "Zstandard"}
# Databases that are asked, and what stands before the query.
DATABASES = {"duckdb:": "FILE", "postgresql:": "dbname=NAME host=HOST"}
# Cells take more memory than their characters take on the disk, 8 to 22 times while they are read.
TIMES_IN_MEMORY = 8
# Texts of fewer characters are read by Python, which takes less time than to load kernels.
FEWEST_CHARACTERS = 4_000_000
# What Excel shows where a formula failed says nothing about the record.
FAILED = frozenset({"#N/A", "#REF!", "#VALUE!", "#DIV/0!", "#NAME?", "#NULL!", "#NUM!"})
# A sheet has no more rows; a file that claims more is damaged.
MOST_ROWS = 1 << 20


def read_records(path: str | Path, reading: Reading | None = None) -> Records:
    """Read a CSV, TSV, JSON (an array, or an object a line), Parquet or Excel file, every cell as text.

    Parameters
    ----------
    path : str or Path
        Its name says what kind of file it is. Text files may end in .gz or .zst as well. Or a query of a database:
        "duckdb:FILE?SELECT ..." or "postgresql:dbname=NAME host=HOST?SELECT ...".
    reading : Reading, optional
        Separator and encoding of text files. What is not given is guessed, and the guess is logged.

    Returns
    -------
    Records

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "people.csv"
    >>> _ = path.write_text("id;name\\n1;Ann\\n2;\\n")
    >>> read_records(path)["name"].tolist()
    ['Ann', None]
    """
    address = _address(path)
    if is_address(address):
        return read_query(address)
    place, reading = Path(path), reading or Reading()
    _check_file(place)
    packing = PACKED.get(place.suffix.lower())
    kind = Path(place.stem if packing else place.name).suffix.lower()
    if kind in DELIMITED or kind in JSON:
        records = _read_text(place, kind, packing, reading)
    elif kind == ".parquet" and not packing:
        records = read_parquet(place)
    elif kind in WORKBOOKS and not packing:
        records = read_workbook(place)
    else:
        raise InputError(
            f"{place}: the kind of file cannot be told from its name; "
            "name it .csv, .tsv, .jsonl, .ndjson, .json (or these with .gz or .zst), .parquet or .xlsx"
        )
    if not len(records):
        raise InputError(f"{place}: the file holds no records; give it at least one")
    return records


def file_of(path: Path) -> Path:
    """The file that records are read from: of a query, its database."""
    return database_of(_address(path)) or path


def is_address(text: str) -> bool:
    """Whether a text names a database and a query, and no file."""
    return text.startswith(tuple(DATABASES))


def database_of(address: str) -> Path | None:
    """The file that a query is asked of; None where a text is no such query, or the database is elsewhere."""
    place = address.removeprefix("duckdb:").partition("?")[0]
    return Path(place) if place and address.startswith("duckdb:") else None


def _address(path: str | Path) -> str:
    # In a path, the slashes of a query are encoded.
    return unquote(str(path)) if isinstance(path, Path) else path


def _check_file(place: Path) -> None:
    with open_ordinary(place) as file:
        if not file.read(1):
            raise InputError(f"{place}: the file is empty; give a file with a header and records")
        n_bytes = TIMES_IN_MEMORY * os.fstat(file.fileno()).st_size
    require([Need(f"the cells of {place}", n_bytes, "split the file, or leave out columns that are not compared")])


def _read_text(place: Path, kind: str, packing: str | None, reading: Reading) -> Records:
    content = read_bytes(place)
    if packing is not None:
        content = unpack(place, content, packing)
    text = decode(content, place, reading.encoding, guesses=kind in DELIMITED)
    del content
    if kind in JSON:
        return read_json(text, str(place))
    delimiter = reading.delimiter or find_delimiter(text, DELIMITED[kind], str(place))
    found = _read_large(text, delimiter, str(place))
    return read_delimited(text, delimiter, str(place)) if found is None else found


def _read_large(text: str, delimiter: str, source: str) -> Records | None:
    """The records of a large text; None where it is small, or where the other reader tells what is wrong with it."""
    if len(text) < FEWEST_CHARACTERS:
        return None
    from scdp.table.delimited import read_large

    return read_large(text, delimiter, source)


def read_workbook(place: Path) -> Records:
    """The first sheet of a workbook, its first row being the header; formulas count as the values they last had."""
    try:
        import openpyxl
    except ImportError as error:
        raise InputError(
            f"{place}: Excel files need one more package; install it with  pip install 'scdp[excel]', "
            "or save the sheet as CSV"
        ) from error
    with open_ordinary(place) as file:
        try:
            _check_size(file, place)
            book = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)
            sheet = book.worksheets[0]
            sheet.reset_dimensions()
            if len(book.worksheets) > 1:
                logger.info("%s: only the first of its %d sheets is read, %r", place, len(book.worksheets), sheet.title)
            rows = list(islice(_filled_rows(sheet, place), MOST_ROWS))
        except (InputError, MemoryError):
            raise
        except Exception as error:
            # Each layer (zip, XML, openpyxl's own reading of it) has its own ways to fail.
            raise InputError(f"{place}: not an Excel workbook, or damaged; save it again") from error
    return _from_rows(rows, place)


def _check_size(file: Any, place: Path) -> None:
    """Refuse few bytes that stand for a flood, before any of it is unpacked."""
    with zipfile.ZipFile(file) as archive:
        size = sum(member.file_size for member in archive.infolist())
    packed = file.seek(0, 2)
    file.seek(0)
    if size > largest_unpacked(packed):
        raise InputError(f"{place}: unpacks to {size:,} bytes, which no table does; save it again as CSV")


def _filled_rows(sheet: Any, place: Path) -> Iterator[tuple[int, list[Any]]]:
    """The rows that are not empty, with their numbers, each without the empty cells at its end."""
    n_cells = n_filled = 0
    for number, row in enumerate(sheet.iter_rows(values_only=True), start=1):
        cells = list(row)
        while cells and cells[-1] is None:
            cells.pop()
        n_cells += len(cells)
        n_filled += len(cells) - cells.count(None)
        if n_cells > max(LARGEST_SPARSE, SPARSE_TIMES * n_filled):
            raise InputError(f"{place}: hardly any cell of the sheet is filled; leave out the empty columns")
        if cells:
            yield number, cells


def _from_rows(rows: Sequence[tuple[int, list[Any]]], place: Path) -> Records:
    if not rows:
        raise InputError(f"{place}: the first sheet is empty; give a sheet with a header and records")
    names = header_names([text_of(cell) or "" for cell in rows[0][1]], str(place))
    for number, cells in rows[1:]:
        if len(cells) > len(names):
            raise InputError(
                f"{place}: row {number} has {len(cells)} cells and the header has {len(names)}; name every column"
            )
    columns = {
        name: column_of(_cell(cells[k]) if k < len(cells) else None for _, cells in rows[1:])
        for k, name in enumerate(names)
    }
    numbers = np.array([number for number, _ in rows[1:]], dtype=np.int64)
    return check_no_zero(Records(columns, str(place), numbers))


def _cell(value: Any) -> str | None:
    """A cell as Excel shows it: a day without a time of day, a whole number without a point."""
    if isinstance(value, str) and value in FAILED:
        return None
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        value = value.date()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    return text_of(value)


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
            _check_no_bytes(
                zip(names, (kind for _, kind, *_ in described), strict=True), str(place), "write it as text"
            )
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


def _check_no_bytes(kinds: Iterable[tuple[str, str]], source: str, advice: str) -> None:
    for name, kind in kinds:
        if "BLOB" in kind:
            raise InputError(f"{source}: column {name!r} holds bytes and not text; {advice}")


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


def quoted(name: str) -> str:
    """A column's name for SQL."""
    return '"' + name.replace('"', '""') + '"'


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
            kinds = {name: kind for name, kind, *_ in described}
            _check_no_bytes(kinds.items(), source, "leave it out of the query")
            columns = {
                name: read_column(connection, f"SELECT {quoted(name)} FROM answer", [], kind)
                for name, kind in kinds.items()
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


# How common values are elsewhere, such as names in a country, and names that one person may go by.
VALUE, COUNT = "value", "count"
WANTED_NAMES = 'a file with the names of one person a line, or lists such as [["Margaret", "Peggy"]]'
LARGEST_FILE = 4 << 20
WANTED = 'a file with the columns value and count, or pairs such as [["Smith", 120]]'


def read_frequencies(path: Path) -> dict[str, int]:
    """The counts by value in a table with the columns value and count; a value that is there twice counts as both."""
    records = read_records(path)
    records.require(VALUE, COUNT)
    found: Counter[str] = Counter()
    for row, (value, count) in enumerate(zip(records[VALUE].tolist(), records[COUNT].tolist(), strict=True)):
        try:
            number = int(str(count).replace(",", ""))
        except ValueError:
            number = 0
        if number < 1 or value is None:
            what = "has no value" if value is None else f"the count {count!r} is no whole number from 1 on"
            raise InputError(
                f"{records.source}, row {records.row_number(row)}: {what}; correct it or leave the row out"
            )
        found[str(value)] += number
    return dict(found)


def find_frequencies(given: object, folder: Path | None) -> dict[str, int] | None:
    """The counts by value of a file in a folder, or of pairs such as ["Smith", 120]; None where it is neither."""
    if isinstance(given, str) and folder is not None:
        return read_frequencies(folder / given)
    found: Counter[str] = Counter()
    for pair in given if isinstance(given, list) else [None]:
        if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) and type(pair[1]) is int):
            return None
        found[pair[0]] += pair[1]
    return dict(found)


def find_nicknames(given: object, folder: Path | None) -> list[list[str]] | None:
    """The groups of names of a file in a folder, those of a person a line, or of lists; None where it is neither."""
    if isinstance(given, str) and folder is not None:
        try:
            lines = read_bytes(folder / given, LARGEST_FILE).decode("utf-8-sig").splitlines()
        except UnicodeDecodeError as error:
            raise InputError(f"{folder / given}: not UTF-8 text at byte {error.start}; save it as UTF-8") from error
        return [names for line in lines if (names := [name for name in re.split(r"[,;\s]+", line) if name])]
    if not isinstance(given, list) or not all(isinstance(group, list) for group in given):
        return None
    return given if all(isinstance(name, str) for group in given for name in group) else None
