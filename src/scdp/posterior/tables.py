"""Columns of NumPy arrays as Parquet files, and back; and entities named by their first records."""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Integers
from scdp.errors import InputError


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

    with duckdb.connect() as connection:
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
    except duckdb.Error as error:
        raise InputError(f"{path}: cannot be read ({str(error).splitlines()[0]}); make it again") from error
    return {name: _fill(values, path) for name, values in found.items()}


def _fill(values: NDArray[Any], path: Path) -> NDArray[Any]:
    """Gaps among numbers are NaN; elsewhere there are none."""
    plain: NDArray[Any] = np.ma.getdata(values)
    gaps = np.ma.getmaskarray(values)
    if not gaps.any():
        return plain
    if plain.dtype.kind != "f":
        raise InputError(f"{path}: has gaps; make it again")
    return np.where(gaps, np.nan, plain)
