"""Candidate pairs in Parquet files, through DuckDB: chunks of pairs go in and come out, never all at once."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdp.blocking.index import Oversized
from scdp.blocking.keys import make_key_maker
from scdp.blocking.pairs import Pairs, collect_chunks, find_chunks
from scdp.blocking.rules import Blocking, check_count
from scdp.errors import InputError
from scdp.table import Records

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
            _set_limits(connection, folder, limit, threads)
            _fill_table(connection, chunks)
            connection.execute(
                "COPY pairs TO $path (FORMAT parquet, COMPRESSION zstd, KV_METADATA {n_records: $n})",
                {"path": str(unfinished), "n": str(n_records)},
            )
        unfinished.replace(place)
    except (OSError, duckdb.IOException) as error:
        raise InputError(f"{place}: the pairs cannot be written there ({error}); check the folder") from error
    finally:
        unfinished.unlink(missing_ok=True)


def _set_limits(connection: Any, folder: str, limit: int, threads: int) -> None:
    connection.execute("SET memory_limit = $limit", {"limit": f"{max(limit, 2 * 10**8)}B"})
    connection.execute("SET temp_directory = $folder", {"folder": folder})
    connection.execute("SET threads = $threads", {"threads": threads})


def _fill_table(connection: Any, chunks: Iterable[Pairs]) -> None:
    connection.execute('CREATE TABLE pairs ("left" INTEGER, "right" INTEGER)')
    for left, right in chunks:
        if len(left):
            connection.register("chunk", {"left": np.ascontiguousarray(left), "right": np.ascontiguousarray(right)})
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
    """The pairs of a file, so many at a time, in their order.

    Parameters
    ----------
    path : str or path
        A file of `to_parquet` or `stream_candidate_pairs`.
    pairs : int
        How many at a time.

    Yields
    ------
    left, right : arrays of int32

    Example
    -------
    >>> from tempfile import TemporaryDirectory
    >>> pairs = CandidatePairs(np.array([0, 0], np.int32), np.array([1, 2], np.int32), n_records=4)
    >>> with TemporaryDirectory() as folder:
    ...     pairs.to_parquet(f"{folder}/pairs.parquet")
    ...     [right.tolist() for left, right in read_pair_chunks(f"{folder}/pairs.parquet")]
    [[1, 2]]
    """
    total, _ = pair_file_size(path)
    for first in range(0, total, pairs):
        yield _read_between(path, first, first + pairs)


def read_all_pairs(path: str | Path) -> tuple[NDArray[np.int32], NDArray[np.int32], int]:
    """All pairs of a file, and the number of records."""
    total, n_records = pair_file_size(path)
    return *_read_between(path, 0, total), n_records


def _read_between(path: str | Path, first: int, last: int) -> Pairs:
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


MEMORY_LIMIT = "1GB"
_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


@dataclass(frozen=True, eq=False)
class CandidatePairs:
    """Pair p is the records left[p] < right[p]; pairs are distinct and sorted by left, then right.

    Parameters
    ----------
    left, right : arrays of int32 (pair,)
        The rows of the two records of each pair.
    n_records : int
        How many records the table has.
    oversized : tuple
        What was done with blocks above the bound.

    Example
    -------
    >>> pairs = CandidatePairs(np.array([0, 0], np.int32), np.array([1, 2], np.int32), n_records=4)
    >>> len(pairs)
    2
    """

    left: NDArray[np.int32]
    right: NDArray[np.int32]
    n_records: int
    oversized: tuple[Oversized, ...] = ()

    def __len__(self) -> int:
        return len(self.left)

    def chunks(self, pairs: int = 1 << 20) -> Iterator[Pairs]:
        """The pairs, so many at a time.

        Parameters
        ----------
        pairs : int
            How many at a time.

        Yields
        ------
        left, right : arrays of int32

        Example
        -------
        >>> pairs = CandidatePairs(np.array([0, 0], np.int32), np.array([1, 2], np.int32), n_records=4)
        >>> [left.tolist() for left, right in pairs.chunks(1)]
        [[0], [0]]
        """
        for first in range(0, len(self), pairs):
            yield self.left[first : first + pairs], self.right[first : first + pairs]

    def recall(self, clusters: ArrayLike) -> float:
        """The share of the pairs of records with the same cluster that are candidates; 1 if there are none.

        Records of cluster -1 are unknown and left out.

        Parameters
        ----------
        clusters : array of labels (record,)
            The cluster of each record; -1, None or a missing value where it is unknown.

        Returns
        -------
        float

        Example
        -------
        >>> pairs = CandidatePairs(np.array([0, 0], np.int32), np.array([1, 2], np.int32), n_records=4)
        >>> pairs.recall([0, 0, 1, 1])
        0.5
        """
        codes = encode_known_clusters(clusters, self.n_records)
        sizes = np.bincount(codes[codes >= 0])
        true = int((sizes * (sizes - 1) // 2).sum())
        kept = 0
        for left, right in self.chunks():
            kept += int(((codes[left] == codes[right]) & (codes[left] >= 0)).sum())
        return kept / true if true else 1.0

    def report(self) -> str:
        """How many pairs there are, and what was done with blocks above the bound.

        Returns
        -------
        str

        Example
        -------
        >>> pairs = CandidatePairs(np.array([0, 0], np.int32), np.array([1, 2], np.int32), n_records=4)
        >>> print(pairs.report())
        2 candidate pairs of 4 records, 0.5 a record
        """
        per_record = len(self) / max(self.n_records, 1)
        lines = [f"{len(self):,} candidate pairs of {self.n_records:,} records, {per_record:.1f} a record"]
        return "\n".join([*lines, *map(str, self.oversized)])

    def to_parquet(self, path: str | Path) -> None:
        """Write the columns left and right; `from_parquet` reads them back.

        Parameters
        ----------
        path : str or path
            The file; one that is there is replaced.

        Example
        -------
        >>> from tempfile import TemporaryDirectory
        >>> pairs = CandidatePairs(np.array([0, 0], np.int32), np.array([1, 2], np.int32), n_records=4)
        >>> with TemporaryDirectory() as folder:
        ...     pairs.to_parquet(f"{folder}/pairs.parquet")
        ...     len(CandidatePairs.from_parquet(f"{folder}/pairs.parquet"))
        2
        """
        write_pairs(path, self.chunks(), self.n_records)

    @classmethod
    def from_parquet(cls, path: str | Path) -> CandidatePairs:
        """Read the pairs of a file of `to_parquet` or `stream_candidate_pairs`.

        Parameters
        ----------
        path : str or path
            The file.

        Returns
        -------
        CandidatePairs

        Example
        -------
        >>> from tempfile import TemporaryDirectory
        >>> pairs = CandidatePairs(np.array([0, 0], np.int32), np.array([1, 2], np.int32), n_records=4)
        >>> with TemporaryDirectory() as folder:
        ...     pairs.to_parquet(f"{folder}/pairs.parquet")
        ...     CandidatePairs.from_parquet(f"{folder}/pairs.parquet").right.tolist()
        [1, 2]
        """
        return cls(*read_all_pairs(path))


def candidate_pairs(
    records: Records, blocking: Blocking, *, memory_limit: str | int = MEMORY_LIMIT, threads: int | None = None
) -> CandidatePairs:
    """The pairs of the blocking. Past `memory_limit` they are kept in a temporary file mapped into memory.

    Parameters
    ----------
    records : Records
        The table.
    blocking : Blocking
        Its rules, whose columns the table must have.
    memory_limit : str or int
        Bytes, or text such as "1GB".
    threads : int, optional
        How many threads; without it one for each core.

    Returns
    -------
    CandidatePairs

    Example
    -------
    >>> from scdp.blocking import equal
    >>> from scdp.table import records_from
    >>> records = records_from({"name": ["Ann", "Bob", "ann"]})
    >>> pairs = candidate_pairs(records, Blocking((equal("name"),)))
    >>> pairs.left.tolist(), pairs.right.tolist()
    ([0], [2])
    """
    limit, workers = memory_bytes(memory_limit), worker_count(threads)
    chunks, oversized = find_chunks(make_key_maker(records, blocking), blocking, limit, workers)
    left, right = collect_chunks(chunks, limit)
    return CandidatePairs(left, right, len(records), oversized)


def stream_candidate_pairs(
    records: Records,
    blocking: Blocking,
    path: str | Path,
    *,
    memory_limit: str | int = MEMORY_LIMIT,
    threads: int | None = None,
) -> tuple[Oversized, ...]:
    """Write the pairs to a Parquet file as they are found; the index of the blocks is held in memory.

    Parameters
    ----------
    records : Records
        The table.
    blocking : Blocking
        Its rules, whose columns the table must have.
    path : str or path
        The file; one that is there is replaced.
    memory_limit : str or int
        Bytes, or text such as "1GB".
    threads : int, optional
        How many threads; without it one for each core.

    Returns
    -------
    tuple of Oversized
        What was done with blocks above the bound.

    Example
    -------
    >>> from tempfile import TemporaryDirectory
    >>> from scdp.blocking import equal
    >>> from scdp.table import records_from
    >>> records = records_from({"name": ["Ann", "Bob", "ann"]})
    >>> with TemporaryDirectory() as folder:
    ...     stream_candidate_pairs(records, Blocking((equal("name"),)), f"{folder}/pairs.parquet")
    ...     len(CandidatePairs.from_parquet(f"{folder}/pairs.parquet"))
    ()
    1
    """
    limit, workers = memory_bytes(memory_limit), worker_count(threads)
    chunks, oversized = find_chunks(make_key_maker(records, blocking), blocking, limit, workers)
    write_pairs(path, chunks, len(records), limit, workers)
    return oversized


def encode_known_clusters(clusters: ArrayLike, n_records: int) -> NDArray[np.int64]:
    """Clusters as codes from 0, and -1 where they are unknown (-1, None, "-1" or missing)."""
    labels: NDArray[Any] = np.asarray(clusters)
    if labels.shape != (n_records,):
        raise InputError(f"clusters: {labels.shape} labels for {n_records} records; give one a record")
    if labels.dtype == object:
        labels = np.array(["-1" if label is None else str(label) for label in labels])
    unknown = np.char.equal(labels, "-1") if labels.dtype.kind in "US" else (labels == -1) | (labels != labels)
    codes = np.full(n_records, -1, dtype=np.int64)
    codes[~unknown] = np.unique(labels[~unknown], return_inverse=True)[1]
    return codes


def memory_bytes(limit: str | int) -> int:
    """A limit such as "500MB" or a number of bytes."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMG]I?B)?\s*", str(limit).upper())
    if not found or float(found[1]) <= 0:
        raise InputError(f"blocking: memory_limit is {limit!r}; use something like '500MB' or '2GB'")
    return int(float(found[1]) * _UNITS[found[2] or ""])


def worker_count(threads: int | None) -> int:
    if threads is None:
        return os.cpu_count() or 1
    check_count("threads", threads)
    return threads
