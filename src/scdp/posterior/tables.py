"""Tables: columns as Parquet files and back, entities named by their first records, numbers with intervals."""

from __future__ import annotations

import glob
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Integers
from scdp.errors import InputError, MissingExtraError
from scdp.io.tables import database_errors


def name_by_first(labels: NDArray[Any]) -> NDArray[np.int32]:
    """The number of the first item of each item's cluster, from canonical labels.

    Example
    -------
    >>> name_by_first(np.array([0, 1, 0, 2])).tolist()
    [0, 1, 0, 3]
    """
    before = np.concatenate([[-1], np.maximum.accumulate(labels)[:-1]]) if len(labels) else labels
    firsts = np.flatnonzero(labels > before).astype(np.int32)
    return firsts[labels] if len(labels) else np.zeros(0, np.int32)


def number_first(names: NDArray[Any]) -> Integers:
    """Numbers for names, in the order in which they appear.

    Example
    -------
    >>> number_first(np.array(["b", "a", "b"])).tolist()
    [0, 1, 0]
    """
    number: dict[Any, int] = {}
    return np.array([number.setdefault(name, len(number)) for name in names.tolist()], np.int64)


def quote_name(name: str) -> str:
    """A name as SQL takes it."""
    return '"' + name.replace('"', '""') + '"'


def write_parquet(path: Path, *blocks: Mapping[str, NDArray[Any]]) -> None:
    """Write columns to a file that is there and empty, one block of rows after another."""
    import duckdb

    with database_errors(), duckdb.connect() as connection:
        # Cells are texts or numbers by the kind of their array, not by what they look like.
        connection.execute("SET pandas_analyze_sample = 0")
        parts = []
        for number, block in enumerate(blocks):
            names = {f"column{k}": values for k, values in enumerate(block.values())}
            connection.register(f"block{number}", names)
            titles = ", ".join(f"column{k} AS {quote_name(name)}" for k, name in enumerate(block))
            parts.append(f"SELECT {titles} FROM block{number}")
        target = str(path).replace("'", "''")
        options = "FORMAT parquet, PARQUET_VERSION v2, COMPRESSION zstd, USE_TMP_FILE false"
        connection.execute(f"COPY ({' UNION ALL BY NAME '.join(parts)}) TO '{target}' ({options})")


def read_parquet(path: Path, names: Sequence[str] | None, where: str = "true") -> dict[str, NDArray[Any]]:
    """Columns of a file in the order of its rows, all of them unless named."""
    import duckdb

    chosen = "*" if names is None else ", ".join(map(quote_name, names))
    try:
        with duckdb.connect() as connection:
            found = connection.execute(
                f"SELECT {chosen} FROM read_parquet(?) WHERE {where}", [glob.escape(str(path))]
            ).fetchnumpy()
    except duckdb.OutOfMemoryException as error:
        raise MemoryError from error
    except duckdb.Error as error:
        raise InputError(f"{path}: cannot be read ({str(error).splitlines()[0]}); make it again") from error
    return {name: _fill(values, path) for name, values in found.items()}


def parquet_names(path: Path) -> list[str]:
    """The names of the columns of a file."""
    import duckdb

    with duckdb.connect() as connection:
        found = connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", [glob.escape(str(path))])
        return [str(row[0]) for row in found.fetchall()]


def _fill(values: NDArray[Any], path: Path) -> NDArray[Any]:
    """Gaps among numbers are NaN; elsewhere there are none."""
    plain: NDArray[Any] = np.ma.getdata(values)
    gaps = np.ma.getmask(values)
    if gaps is np.ma.nomask or not gaps.any():
        return plain
    if plain.dtype.kind != "f":
        raise InputError(f"{path}: has gaps; make it again")
    return np.where(gaps, np.nan, plain)


def make_pandas(columns: Mapping[str, Any], index: Any = None) -> Any:
    """Columns as pandas has them."""
    try:
        import pandas
    except ImportError:
        raise MissingExtraError("pandas", "pandas", "A data frame") from None
    return pandas.DataFrame(columns, index=index)


def make_polars(columns: Mapping[str, Any]) -> Any:
    """Columns as polars has them."""
    try:
        import polars
    except ImportError:
        raise MissingExtraError("polars", "polars", "A data frame") from None
    return polars.DataFrame(columns)


@dataclass(frozen=True, eq=False)
class IntervalTable:
    """A table some of whose columns are numbers with an interval.

    Parameters
    ----------
    columns : dict of lists
        The columns by name. The interval of a number `n` is in the columns `n_low` and `n_high`.
    numbers : tuple of str
        The columns that have an interval.
    level : float
        The probability that each interval holds.

    Example
    -------
    >>> table = IntervalTable({"city": ["Ulm"], "n": [3.5], "n_low": [3.0], "n_high": [4.0]}, ("n",), 0.9)
    >>> print(table)
    city  n    90 % interval
    Ulm   3.5  3 to 4
    """

    columns: dict[str, list[Any]]
    numbers: tuple[str, ...]
    level: float

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def rows(self) -> list[dict[str, Any]]:
        """One dict a row."""
        return [dict(zip(self.columns, row, strict=True)) for row in zip(*self.columns.values(), strict=True)]

    def to_json(self) -> str:
        """A JSON list with an object for each row; numbers that JSON has not are null."""
        rows = [{name: _for_json(value) for name, value in row.items()} for row in self.rows()]
        return json.dumps(rows, indent=1, default=str, allow_nan=False)

    def to_pandas(self) -> Any:
        """The table as pandas has it."""
        return make_pandas(self.columns)

    def to_polars(self) -> Any:
        """The table as polars has it."""
        return make_polars(self.columns)

    def _shown(self) -> tuple[list[str], list[list[str]]]:
        """Titles and cells: a number and its interval are two columns."""
        ends = {f"{name}{end}" for name in self.numbers for end in ("_low", "_high")}
        titles: list[str] = []
        columns: list[list[str]] = []
        for name, values in self.columns.items():
            if name in ends:
                continue
            titles.append(name)
            columns.append([_say(value) for value in values])
            if name in self.numbers:
                low, high = self.columns[f"{name}_low"], self.columns[f"{name}_high"]
                titles.append(f"{100 * self.level:g} % interval")
                columns.append([f"{_say(a)} to {_say(b)}" for a, b in zip(low, high, strict=True)])
        return titles, [list(row) for row in zip(*columns, strict=True)]

    def __str__(self) -> str:
        titles, rows = self._shown()
        wide = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
        lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, wide, strict=True)) for row in (titles, *rows)]
        return "\n".join(line.rstrip() for line in lines)

    def _repr_html_(self) -> str:
        titles, rows = self._shown()
        head = "".join(f"<th>{escape(title)}</th>" for title in titles)
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        return f"<table><tr>{head}</tr>{body}</table>"


def _for_json(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _say(value: Any) -> str:
    if value is None:
        return "-"
    if not isinstance(value, float):
        return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(value))
    if not np.isfinite(value):
        return "-" if np.isnan(value) else "infinite" if value > 0 else "minus infinite"
    return (
        f"{value:,.0f}"
        if value == round(value) and abs(value) < 1e15
        else f"{value:,.4g}"
        if abs(value) < 1e4
        else f"{value:,.1f}"
    )
