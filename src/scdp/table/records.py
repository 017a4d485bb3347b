"""Records: a small columnar table of text cells, where a missing cell is None; and its readers.

Files (CSV, TSV, JSON lines, Parquet) and tables (dict of lists, pandas, polars, Arrow) enter, Records leave.
Cells of only white space are missing. Rows are counted as a spreadsheet does: the header of a CSV is row 1.
"""

from __future__ import annotations

import csv
import glob
import gzip
import io
import json
import os
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp.errors import InputError
from scdp.io.memory import Need, require
from scdp.io.untrusted import largest_unpacked, open_ordinary, parse_json, read_at_most, read_bytes

Column = NDArray[np.object_]
# Each text a column has met, by itself: cells that are equal become one text in memory.
_Known = dict[str | None, str | None]

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_JSON_LINES = (".jsonl", ".ndjson", ".json")
# Beyond these a file is taken for a mistake or an attack, and refused before it takes time or memory.
MOST_COLUMNS = 10_000
LONGEST_ID = 1_000
# Cells take more memory than their characters take on the disk, 8 to 22 times while they are read.
TIMES_IN_MEMORY = 8
# Rows of a text file that are taken apart at a time.
ROWS_AT_ONCE = 10_000
LARGEST_SPARSE, SPARSE_TIMES = 10_000_000, 100


@dataclass(frozen=True)
class Records:
    """Columns of equal length; every cell is a non-empty `str` or None. `source` is named in error messages.

    `row_numbers` says where each record stands in its source; without it they are counted from 1.
    """

    columns: Mapping[str, Column]
    source: str = "records"
    row_numbers: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        lengths = {len(column) for column in self.columns.values()}
        if len(lengths) > 1:
            raise InputError(f"{self.source}: columns have different lengths {sorted(lengths)}")

    def __len__(self) -> int:
        return next((len(column) for column in self.columns.values()), 0)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.columns)

    def __getitem__(self, name: str) -> Column:
        self.require(name)
        return self.columns[name]

    def require(self, *names: str) -> None:
        """Refuse records that lack one of the columns."""
        missing = [repr(name) for name in names if name not in self.columns]
        if missing:
            known = ", ".join(self.names) or "none"
            raise InputError(f"{self.source}: there is no column {' or '.join(missing)}; it has: {known}")

    def row_number(self, index: int) -> int:
        """Where a record stands in its source, for messages to people."""
        return index + 1 if self.row_numbers is None else int(self.row_numbers[index])

    @property
    def numbers(self) -> NDArray[np.int64]:
        """Where all records stand in their source."""
        return np.arange(1, len(self) + 1) if self.row_numbers is None else self.row_numbers

    def take(self, rows: NDArray[Any]) -> Records:
        """The given rows (indices or a boolean mask), in that order."""
        columns = {name: column[rows] for name, column in self.columns.items()}
        return Records(columns, self.source, self.numbers[rows])

    def rows(self) -> Iterator[dict[str, str | None]]:
        """One dict a record, for people and reports; bulk work goes by column."""
        for cells in zip(*self.columns.values(), strict=True):
            yield dict(zip(self.columns, cells, strict=True))


def complete_column(records: Records, column: str) -> Column:
    """The cells of a column that must have no missing one."""
    cells = records[column]
    texts = cells.tolist()
    if None in texts:
        row = records.row_number(texts.index(None))
        raise InputError(
            f"{records.source}: row {row} has no {column!r}; fill that cell or leave the row out"
        )
    return cells


def unique_ids(records: Records, column: str) -> Column:
    """The cells of a column that must be there and differ, in the order of the records."""
    ids = complete_column(records, column)
    texts = ids.tolist()
    if len(set(texts)) < len(texts) or max(map(len, texts), default=0) > LONGEST_ID:
        _refuse_ids(records, column, texts)
    return ids


def _refuse_ids(records: Records, column: str, ids: Sequence[str]) -> None:
    first: dict[str, int] = {}
    for index, identifier in enumerate(ids):
        if len(identifier) > LONGEST_ID:
            raise InputError(
                f"{records.source}: row {records.row_number(index)} has a {column!r} of {len(identifier):,} "
                f"characters, more than {LONGEST_ID:,}; give it a shorter one"
            )
        before = first.setdefault(identifier, index)
        if before != index:
            rows = f"rows {records.row_number(before)} and {records.row_number(index)}"
            raise InputError(
                f"{records.source}: {rows} have the same {column!r}, {identifier!r}; give each record its own"
            )


def read_records(path: str | Path) -> Records:
    """Read a CSV, TSV, JSON lines (all three also gzipped) or Parquet file, every cell as text."""
    place = Path(path)
    _check_file(place)
    gzipped = place.suffix.lower() == ".gz"
    kind = Path(place.stem if gzipped else place.name).suffix.lower()
    if kind in _DELIMITERS:
        records = _read_delimited(_read_text(place, gzipped), _DELIMITERS[kind], str(place))
    elif kind in _JSON_LINES:
        records = _read_json_lines(_read_text(place, gzipped), str(place))
    elif kind == ".parquet" and not gzipped:
        records = _read_parquet(place)
    else:
        raise InputError(
            f"{place}: the kind of file cannot be told from its name; "
            "name it .csv, .tsv, .jsonl, .ndjson, .json (or these with .gz) or .parquet"
        )
    if not len(records):
        raise InputError(f"{place}: the file holds no records; give it at least one")
    return records


def records_from(table: Any, source: str = "records") -> Records:
    """Records from a dict of lists, a list of dicts or a pandas, polars or Arrow table, every cell as text."""
    if isinstance(table, Records):
        return table
    if isinstance(table, list | tuple) and all(isinstance(row, Mapping) for row in table):
        named = list(dict.fromkeys(name for row in table for name in row))
        return _from_columns(
            list(map(str, named)), [[row.get(name) for row in table] for name in named], source
        )
    if isinstance(table, Mapping):
        names, columns = list(table), list(table.values())
    elif hasattr(table, "column_names"):
        names, columns = list(table.column_names), [column.to_pylist() for column in table.columns]
    elif hasattr(table, "columns"):
        names = list(table.columns)
        _check_no_twice([str(name) for name in names], source)
        columns = [table[name] for name in names]
    else:
        raise InputError(
            f"{source}: a {type(table).__name__} is not a table; "
            "give a dict of lists, a list of dicts, or a pandas, polars or Arrow table"
        )
    return _from_columns([str(name) for name in names], columns, source)


def _from_columns(names: list[str], columns: Sequence[Iterable[Any]], source: str) -> Records:
    _check_no_twice(names, source)
    for name, column in zip(names, columns, strict=True):
        if isinstance(column, str | bytes) or not isinstance(column, Iterable):
            raise InputError(f"{source}: column {name!r} is a {type(column).__name__}; give a list of cells")
    texts = (_column(map(_text, column)) for column in columns)
    return Records(dict(zip(names, texts, strict=True)), source)


def _column(cells: Iterable[str | None]) -> Column:
    given, known = list(cells), _Known()
    return _filled(list(map(known.setdefault, given, given)), known)


def _filled(cells: list[str | None], known: _Known) -> Column:
    """A column of cells that are all in `known`; what is white space alone is missing."""
    blank = {"", *filter(str.isspace, filter(None, known))} if known else set()
    column = np.empty(len(cells), dtype=object)
    column[:] = [None if cell in blank else cell for cell in cells] if blank & known.keys() else cells
    return column


def _text(value: Any) -> str | None:
    """A cell as the text people would type; numbers, dates and the like as they print."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    if _is_missing(value):
        return None
    return str(value).lower() if isinstance(value, bool | np.bool_) else str(value)


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas.NA has no truth value, and says so like this
        return True


def _check_no_twice(names: Sequence[str], source: str) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InputError(
            f"{source}: the column name {twice[0]!r} occurs twice; give each column its own name"
        )


def _check_file(place: Path) -> None:
    with open_ordinary(place) as file:
        if not file.read(1):
            raise InputError(f"{place}: the file is empty; give a file with a header and records")
        n_bytes = TIMES_IN_MEMORY * os.fstat(file.fileno()).st_size
    require(
        [Need(f"the cells of {place}", n_bytes, "split the file, or leave out columns that are not compared")]
    )


def _read_text(place: Path, gzipped: bool) -> str:
    content = _unpacked(place, read_bytes(place)) if gzipped else read_bytes(place)
    try:
        # Files that went through several hands have the mark of UTF-8 more than once.
        text = content.decode("utf-8").lstrip("\ufeff")
    except UnicodeDecodeError as error:
        row = content.count(b"\n", 0, error.start) + 1
        where = f"row {row} (byte {error.start})"
        raise InputError(f"{place}: {where} is not UTF-8 text; save the file as UTF-8") from error
    if "\0" in text:
        row = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(f"{place}: row {row} holds a zero byte, not UTF-8 text; save the file as UTF-8")
    if not text.strip():
        raise InputError(f"{place}: the file is empty; give a file with a header and records")
    return text


def _unpacked(place: Path, packed: bytes) -> bytes:
    most = largest_unpacked(len(packed))
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
            content = read_at_most(file, most + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{place}: the gzip file is damaged or cut off; make it again") from error
    if len(content) > most:
        raise InputError(
            f"{place}: {len(packed):,} bytes that unpack to more than {most:,}, which no table does; "
            "unpack it yourself if you trust it"
        )
    return content


def _check_width(n_columns: int, source: str) -> None:
    if n_columns > MOST_COLUMNS:
        raise InputError(
            f"{source}: has {n_columns:,} columns, more than the {MOST_COLUMNS:,} that are read; "
            "leave out those that are not compared"
        )


def _check_no_zero(records: Records) -> Records:
    for name, column in records.columns.items():
        texts = column.tolist()
        row = None
        if "\0" in "".join(filter(None, texts)):
            row = next(index for index, cell in enumerate(texts) if cell and "\0" in cell)
        if row is not None or "\0" in name:
            where = "in its name" if row is None else f"in row {records.row_number(row)}"
            raise InputError(
                f"{records.source}: column {name!r} holds a zero byte {where}; leave that character out"
            )
    return records


def _read_delimited(text: str, delimiter: str, source: str) -> Records:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    # The text is in memory already, so a long cell is no danger; the limit is put back for other users of csv.
    limit = csv.field_size_limit(max(len(text), csv.field_size_limit()))
    try:
        header = next(reader)
        cells, texts, numbers, wrong = _read_rows(reader, len(header))
    except csv.Error as error:
        line = reader.line_num
        raise InputError(f"{source}: line {line} cannot be read ({error}); check its quotes") from error
    finally:
        csv.field_size_limit(limit)
    names = _header(header, source)
    if wrong is not None:
        number, n_cells = wrong
        raise InputError(
            f"{source}: row {number} has {n_cells} cells and the header has {len(names)}; "
            "put cells that hold the separator in quotes"
        )
    columns = {name: _filled(cells.pop(0), texts.pop(0)) for name in names}
    return Records(columns, source, np.array(numbers, dtype=np.int64))


def _read_rows(
    reader: Iterator[list[str]], width: int
) -> tuple[list[list[str | None]], list[_Known], list[int], tuple[int, int] | None]:
    """Cells and distinct cells by column; numbers of rows that are not empty; the first of another width, and it.

    Rows are taken apart some at a time, and equal cells are one text: all rows at once would take twice the memory.
    """
    columns: list[list[str | None]] = [[] for _ in range(width)]
    texts = [_Known() for _ in range(width)]
    numbers: list[int] = []
    wrong: tuple[int, int] | None = None
    next_number = 2
    while rows := list(islice(reader, ROWS_AT_ONCE)):
        places = [next_number + index for index, row in enumerate(rows) if row]
        next_number += len(rows)
        rows = list(filter(None, rows))
        if wrong is None and not set(map(len, rows)) <= {width}:
            wrong = next(
                (place, len(row)) for place, row in zip(places, rows, strict=True) if len(row) != width
            )
        if wrong is None and rows:
            numbers += places
            for column, known, cells in zip(columns, texts, zip(*rows, strict=True), strict=True):
                column += map(known.setdefault, cells, cells)
    return columns, texts, numbers, wrong


def _header(cells: Sequence[str], source: str) -> list[str]:
    _check_width(len(cells), source)
    names = [cell.strip() for cell in cells]
    if not any(names) or all(map(_is_number, names)):
        raise InputError(f"{source}: row 1 is not a header; put the names of the columns there")
    if "" in names:
        number = names.index("") + 1
        raise InputError(f"{source}: column {number} has no name in row 1; give each column a name")
    _check_no_twice(names, source)
    return names


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read_json_lines(text: str, source: str) -> Records:
    # Not splitlines(): it also splits at separators that may stand inside a JSON string.
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    rows = [_json_object(line, number, source) for number, line in lines]
    names = list(dict.fromkeys(name for row in rows for name in row))
    _check_width(len(names), source)
    if len(names) * len(rows) > max(LARGEST_SPARSE, SPARSE_TIMES * sum(map(len, rows))):
        raise InputError(f"{source}: the rows have hardly any names in common; give them the same ones")
    records = _from_columns(names, [[row.get(name) for row in rows] for name in names], source)
    numbers = np.array([number for number, _ in lines], dtype=np.int64)
    return _check_no_zero(Records(records.columns, source, numbers))


def _json_object(line: str, number: int, source: str) -> dict[str, Any]:
    try:
        value = parse_json(line)
    except ValueError as error:
        reason = getattr(error, "msg", error)
        raise InputError(f"{source}: row {number} is not JSON ({reason}); write one object a line") from error
    if not isinstance(value, dict):
        raise InputError(f"{source}: row {number} is not a JSON object; write one object a line")
    return value


def _read_parquet(place: Path) -> Records:
    import duckdb

    # A folder named "key=value" must not become a column, and a * in a name must not bring in other files.
    table, name = "read_parquet(?, hive_partitioning = false)", [glob.escape(str(place))]
    try:
        with duckdb.connect() as connection:
            described = connection.execute(f"DESCRIBE SELECT * FROM {table}", name).fetchall()
            # DuckDB gives names that differ in capitals alone a number; the file has them as they are.
            names = _parquet_names(connection, name)
            _check_width(len(described), str(place))
            _check_no_twice(names, str(place))
            _check_no_bytes(described, names, str(place))
            _check_parquet_size(connection, table, place, len(names))
            columns = {
                written: _parquet_column(connection, table, name, column, kind)
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
    return _check_no_zero(Records(columns, str(place)))


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


def _parquet_column(connection: Any, table: str, place: list[str], name: str, kind: str) -> Column:
    """One column at a time, so that texts that occur again are never all there at once."""
    quoted = '"' + name.replace('"', '""') + '"'
    found = connection.execute(f"SELECT {quoted}::VARCHAR AS cells FROM {table}", place).fetchnumpy()["cells"]
    cells = np.ma.getdata(found).tolist()
    for row in np.flatnonzero(np.ma.getmaskarray(found)).tolist():
        cells[row] = None
    return _column(_without_nan(cells) if kind in ("FLOAT", "DOUBLE") else cells)


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


def _without_nan(cells: Iterable[str | None]) -> Iterable[str | None]:
    return (None if cell == "nan" else cell for cell in cells)
