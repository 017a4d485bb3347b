"""Pairs in Parquet files, through DuckDB: chunks of pairs go in and come out, never all at once."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp.blocking.chunks import Pairs
from scdp.errors import InputError

LIMIT = 10**9
_TABLE = "read_parquet(?, file_row_number = true, hive_partitioning = false)"


def write_pairs(
    path: str | Path, chunks: Iterable[Pairs], n_records: int, limit: int = LIMIT, threads: int = 1
) -> None:
    """Write the chunks in their order; the file is there only when it is whole."""
    import duckdb

    place = Path(path)
    unfinished = place.with_name(place.name + ".unfinished")
    try:
        with (
            tempfile.TemporaryDirectory(prefix="scdp-pairs-") as folder,
            duckdb.connect(f"{folder}/pairs.duckdb") as connection,
        ):
            _limit(connection, folder, limit, threads)
            _fill(connection, chunks)
            connection.execute(
                "COPY pairs TO $path (FORMAT parquet, COMPRESSION zstd, KV_METADATA {n_records: $n})",
                {"path": str(unfinished), "n": str(n_records)},
            )
        unfinished.replace(place)
    except (OSError, duckdb.IOException) as error:
        raise InputError(f"{place}: the pairs cannot be written there ({error}); check the folder") from error
    finally:
        unfinished.unlink(missing_ok=True)


def _limit(connection: Any, folder: str, limit: int, threads: int) -> None:
    connection.execute("SET memory_limit = $limit", {"limit": f"{max(limit, 2 * 10**8)}B"})
    connection.execute("SET temp_directory = $folder", {"folder": folder})
    connection.execute("SET threads = $threads", {"threads": threads})


def _fill(connection: Any, chunks: Iterable[Pairs]) -> None:
    connection.execute('CREATE TABLE pairs ("left" INTEGER, "right" INTEGER)')
    for left, right in chunks:
        if len(left):
            connection.register(
                "chunk", {"left": np.ascontiguousarray(left), "right": np.ascontiguousarray(right)}
            )
            connection.execute("INSERT INTO pairs SELECT * FROM chunk")
            connection.unregister("chunk")


def pair_file_size(path: str | Path) -> tuple[int, int]:
    """How many pairs a file holds, and of how many records."""
    found = _query(path, "SELECT decode(value) FROM parquet_kv_metadata(?) WHERE decode(key) = 'n_records'")
    if not found:
        raise InputError(f"{path}: it does not say of how many records; write it with to_parquet")
    pairs = _query(path, "SELECT sum(num_rows)::BIGINT FROM parquet_file_metadata(?)")
    return int(pairs[0][0] or 0), int(found[0][0])


def read_pair_chunks(path: str | Path, pairs: int = 1 << 20) -> Iterator[Pairs]:
    """The pairs of a file, so many at a time, in their order."""
    total, _ = pair_file_size(path)
    for first in range(0, total, pairs):
        yield _between(path, first, first + pairs)


def read_all_pairs(path: str | Path) -> tuple[NDArray[np.int32], NDArray[np.int32], int]:
    """All pairs of a file, and the number of records."""
    total, n_records = pair_file_size(path)
    return *_between(path, 0, total), n_records


def _between(path: str | Path, first: int, last: int) -> Pairs:
    import duckdb

    with duckdb.connect() as connection:
        found = connection.execute(
            f'SELECT "left", "right" FROM {_TABLE} WHERE file_row_number >= ? AND file_row_number < ? '
            "ORDER BY file_row_number",
            [str(path), first, last],
        ).fetchnumpy()
    return np.asarray(found["left"], dtype=np.int32), np.asarray(found["right"], dtype=np.int32)


def _query(path: str | Path, query: str) -> list[tuple[Any, ...]]:
    import duckdb

    try:
        with duckdb.connect() as connection:
            return connection.execute(query, [str(path)]).fetchall()
    except duckdb.Error as error:
        raise InputError(f"{path}: it is no Parquet file of pairs; check the path") from error
