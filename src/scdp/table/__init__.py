"""Tables of records, and specs: what enters a model of records, written by hand, read from TOML, or proposed.

Here are records: a small columnar table of text cells, where a missing cell is None. Tables (dict of lists, list of
dicts, pandas, polars, Arrow) enter, Records leave; files are read by `readers`. Cells of only white space are missing.
Rows are counted as a spreadsheet does: the header of a CSV is row 1.
"""

from __future__ import annotations

import datetime
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from scdp._parallel import count_workers, map_in_threads
from scdp.errors import InputError

MISSING = -1
# So many codes are numbered in a kernel; of fewer, it would take longer to load.
FEWEST_AT_ONCE = 50_000
_CELLS = {str, type(None)}


@dataclass(frozen=True, eq=False)
class EncodedColumn:
    """`codes[record]` is the place of the record's text in `texts`, in the order of appearance; -1 = missing."""

    codes: NDArray[np.int32]
    texts: list[str]

    @classmethod
    def of(cls, cells: list[Any]) -> Self | None:
        """Of texts and None; None where a cell is something else."""
        if not set(map(type, cells)) <= _CELLS:
            return None
        distinct = dict.fromkeys(cells)
        distinct.pop(None, None)
        texts: list[str] = list(distinct)
        places: dict[str | None, int] = dict(zip(texts, range(len(texts)), strict=True))
        places[None] = MISSING
        return cls(np.fromiter(map(places.__getitem__, cells), np.int32, len(cells)), texts)

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def cells(self) -> NDArray[np.object_]:
        """The cells, None where missing."""
        texts = np.empty(len(self.texts) + 1, dtype=object)
        texts[:-1] = self.texts
        return texts[self.codes]

    @property
    def ranks(self) -> NDArray[np.int64]:
        """The place of each record's text in the order of texts; missing ones come first."""
        places = np.empty(len(self.texts) + 1, dtype=np.int64)
        places[sorted(range(len(self.texts)), key=self.texts.__getitem__)] = np.arange(1, len(self.texts) + 1)
        places[MISSING] = 0
        return places[self.codes]

    def with_texts(self, texts: Sequence[str | None]) -> EncodedColumn:
        """The same cells with other texts, one for each there is now; None, and white space alone, is missing."""
        blank = {text for text in texts if not text or text.isspace()}
        kept = [None if text in blank else text for text in texts] if blank else texts
        if kept == self.texts:
            return self
        moved = EncodedColumn.of(list(kept))
        assert moved is not None, "these are texts"
        # The code -1 of a missing cell points at the last place.
        return EncodedColumn(np.append(moved.codes, np.int32(MISSING))[self.codes], moved.texts)

    def take(self, rows: NDArray[Any]) -> EncodedColumn:
        """The given rows, in that order; texts that none of them has are gone."""
        codes, used = number_again(self.codes[rows], len(self.texts))
        return EncodedColumn(codes, [self.texts[place] for place in used.tolist()])


def number_again(codes: NDArray[np.int32], n_texts: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Codes in the order in which they appear, and what each was before."""
    if len(codes) >= FEWEST_AT_ONCE:
        from scdp.texts import number_by_appearance

        return number_by_appearance(codes, n_texts)
    # Of several rows the last one written is the first of them; what is missing is written behind all texts.
    first = np.full(n_texts + 1, len(codes))
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    used = np.flatnonzero(first[:n_texts] < len(codes))
    used = used[np.argsort(first[used])]
    number = np.full(n_texts + 1, MISSING, np.int32)
    number[used] = np.arange(len(used), dtype=np.int32)
    return number[codes], used


Column = NDArray[np.object_]
# Each text a column has met, by itself: cells that are equal become one text in memory.
KnownTexts = dict[str | None, str | None]

# Beyond these a table is taken for a mistake or an attack, and refused.
LONGEST_ID, MOST_COLUMNS = 1_000, 10_000
# A table of more cells than the first is refused if it has more than so many for each that is filled.
LARGEST_SPARSE, SPARSE_TIMES = 10_000_000, 100
MIDNIGHT = " 00:00:00"


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
        taken = Records(columns, self.source, self.numbers[rows])
        taken._encoded.update((name, None if found is None else found.take(rows)) for name, found in self._encodings())
        return taken

    def with_numbers(self, row_numbers: NDArray[np.int64]) -> Records:
        """The same records, which stand elsewhere in their source."""
        numbered = Records(self.columns, self.source, row_numbers)
        numbered._encoded.update(self._encodings())
        return numbered

    def select(self, names: Iterable[str]) -> Records:
        """Some of the columns."""
        columns = {name: self[name] for name in names}
        selected = Records(columns, self.source, self.row_numbers)
        selected._encoded.update((name, found) for name, found in self._encodings() if name in columns)
        return selected

    def encoded(self, name: str) -> EncodedColumn | None:
        """A column as codes, made once; None where a cell is neither text nor missing."""
        if name not in self._encoded:
            self._encoded[name] = EncodedColumn.of(self[name].tolist())
        return self._encoded[name]

    @cached_property
    def _encoded(self) -> dict[str, EncodedColumn | None]:
        return {}

    def _encodings(self) -> list[tuple[str, EncodedColumn | None]]:
        """What is encoded by now: another thread may encode more meanwhile."""
        return list(self._encoded.items())

    def rows(self) -> Iterator[dict[str, str | None]]:
        """One dict a record, for people and reports; bulk work goes by column."""
        for cells in zip(*self.columns.values(), strict=True):
            yield dict(zip(self.columns, cells, strict=True))


def records_of_encoded(columns: Mapping[str, Column | EncodedColumn], source: str) -> Records:
    """Records of which some columns are encoded already."""
    encoded = {name: column for name, column in columns.items() if isinstance(column, EncodedColumn)}
    cells = {name: column.cells if isinstance(column, EncodedColumn) else column for name, column in columns.items()}
    records = Records(cells, source)
    records._encoded.update(encoded)
    return records


# Where so many cells differ, to look each up by itself costs more than to take it as it is.
MOSTLY_DISTINCT = 0.9


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


def complete_column(records: Records, column: str) -> Column:
    """The cells of a column that must have no missing one."""
    cells = records[column]
    texts = cells.tolist()
    if None in texts:
        row = records.row_number(texts.index(None))
        raise InputError(f"{records.source}: row {row} has no {column!r}; fill that cell or leave the row out")
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


def records_from(table: Any, source: str = "records") -> Records:
    """Records from a table in memory, every cell as the text people would type.

    Parameters
    ----------
    table : dict of lists, list of dicts, or pandas, polars or Arrow table
        Records are returned as they are. Whole numbers that pandas keeps as 1990.0 become 1990.
    source : str
        What error messages call the table.

    Returns
    -------
    Records

    Examples
    --------
    >>> records = records_from([{"id": 1, "name": "Ann"}, {"id": 2, "name": None}])
    >>> records["name"].tolist()
    ['Ann', None]
    """
    if isinstance(table, Records):
        return table
    if isinstance(table, list | tuple) and all(isinstance(row, Mapping) for row in table):
        return records_from_rows(table, source)
    names, columns = (list(table), list(table.values())) if isinstance(table, Mapping) else _frame(table, source)
    return _from_columns([str(name) for name in names], columns, source)


def records_from_rows(rows: Sequence[Mapping[Any, Any]], source: str) -> Records:
    """Records from one dict a row; what a row does not name is missing there."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return _from_columns(list(map(str, names)), [[row.get(name) for row in rows] for name in names], source)


def _frame(table: Any, source: str) -> tuple[list[Any], list[list[Any]]]:
    """Names and columns of any data frame that narwhals knows, lazy ones too."""
    import narwhals
    from narwhals.exceptions import DuplicateError

    try:
        frame = narwhals.from_native(table)
    except DuplicateError as error:
        names = table.column_names if hasattr(table, "column_names") else table.columns
        check_no_twice([str(name) for name in names], source)
        raise InputError(f"{source}: a column name occurs twice; give each its own") from error
    except TypeError as error:
        raise InputError(
            f"{source}: a {type(table).__name__} is not a table; "
            "give a dict of lists, a list of dicts, or a pandas, polars or Arrow table"
        ) from error
    if isinstance(frame, narwhals.LazyFrame):
        frame = frame.collect()
    return list(frame.columns), [frame.get_column(name).to_list() for name in frame.columns]


def _from_columns(names: list[str], columns: Sequence[Iterable[Any]], source: str) -> Records:
    check_no_twice(names, source)
    for name, column in zip(names, columns, strict=True):
        if isinstance(column, str | bytes) or not isinstance(column, Iterable):
            raise InputError(f"{source}: column {name!r} is a {type(column).__name__}; give a list of cells")
    texts = (column_of(_texts(list(column))) for column in columns)
    return Records(dict(zip(names, texts, strict=True)), source)


def _texts(values: list[Any]) -> list[str | None]:
    texts = [text_of(value) for value in values]
    kinds = {type(value) for value, text in zip(values, texts, strict=True) if text is not None}
    if kinds and all(issubclass(kind, float | np.floating) for kind in kinds):
        return drop_ending(texts, ".0")
    if kinds and all(issubclass(kind, datetime.datetime) for kind in kinds):
        return drop_ending(texts, MIDNIGHT)
    return texts


def drop_ending(texts: list[str | None], ending: str) -> list[str | None]:
    """What every text ends with and no person would type: 1990.0 is 1990, a day has no midnight."""
    if not all(text is None or text.endswith(ending) for text in texts):
        return texts
    return [None if text is None else text[: -len(ending)] for text in texts]


def column_of(cells: Iterable[str | None]) -> Column:
    """A column of texts, equal ones kept once; what is white space alone is missing."""
    given, known = list(cells), KnownTexts()
    return filled(list(map(known.setdefault, given, given)), known)


def filled(cells: list[str | None], known: KnownTexts) -> Column:
    """A column of cells that are all in `known`; what is white space alone is missing."""
    blank = {"", *filter(str.isspace, filter(None, known))} if known else set()
    column = np.empty(len(cells), dtype=object)
    column[:] = [None if cell in blank else cell for cell in cells] if blank & known.keys() else cells
    return column


def text_of(value: Any) -> str | None:
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


def check_no_twice(names: Sequence[str], source: str) -> None:
    """Refuse a table in which a name stands for two columns."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InputError(f"{source}: the column name {twice[0]!r} occurs twice; give each column its own name")


def check_width(n_columns: int, source: str) -> None:
    """Refuse a table of more columns than any person fills."""
    if n_columns > MOST_COLUMNS:
        raise InputError(
            f"{source}: has {n_columns:,} columns, more than the {MOST_COLUMNS:,} that are read; "
            "leave out those that are not compared"
        )


def check_no_zero(records: Records) -> Records:
    """The records, none of whose cells holds a zero byte."""
    for name, column in records.columns.items():
        found = records._encoded.get(name)
        texts = column.tolist() if found is None else found.texts
        if "\0" in name or "\0" in "".join(filter(None, texts)):
            row = next((index for index, cell in enumerate(column.tolist()) if cell and "\0" in cell), None)
            where = "in its name" if row is None else f"in row {records.row_number(row)}"
            raise InputError(f"{records.source}: column {name!r} holds a zero byte {where}; leave that character out")
    return records


def header_names(cells: Sequence[str], source: str) -> list[str]:
    """The names in the first row of a file, checked."""
    check_width(len(cells), source)
    names = [cell.strip() for cell in cells]
    if not any(names) or all(map(_is_number, names)):
        raise InputError(f"{source}: row 1 is not a header; put the names of the columns there")
    if "" in names:
        number = names.index("") + 1
        raise InputError(f"{source}: column {number} has no name in row 1; give each column a name")
    check_no_twice(names, source)
    return names


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
