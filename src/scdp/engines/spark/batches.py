"""Arrow batches: sorted batches of a partition go in; tables that hold whole groups come out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


def batch_of(**columns: Any) -> Any:
    """A record batch of arrays, of NumPy or Arrow."""
    import pyarrow as pa

    arrays = [column if isinstance(column, pa.Array) else pa.array(column) for column in columns.values()]
    return pa.RecordBatch.from_arrays(arrays, list(columns))


def integers(batch: Any, name: str) -> Integers:
    """A column of whole numbers without missing ones."""
    return np.asarray(batch.column(name).to_numpy(), dtype=np.int64)


def group_starts(columns: Sequence[NDArray[Any]]) -> Integers:
    """Where rows differ from the one before; the first always does."""
    if not len(columns[0]):
        return np.empty(0, dtype=np.int64)
    changed = np.ones(len(columns[0]), dtype=bool)
    changed[1:] = False
    for column in columns:
        changed[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changed)


def whole_groups(batches: Iterable[Any], by: Sequence[str], at_least: int = 0) -> Iterator[Any]:
    """Tables of whole groups, from batches sorted by whole numbers; `at_least` rows each but for the last."""
    waiting: list[Any] = []
    n_waiting = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        start = _last_border([waiting[-1].slice(waiting[-1].num_rows - 1), batch] if waiting else [batch], by)
        start -= bool(waiting)
        if (start > 0 or (start == 0 and waiting)) and n_waiting + start >= at_least:
            yield _table([*waiting, batch.slice(0, start)])
            waiting, n_waiting = [], 0
            batch = batch.slice(start)
        waiting.append(batch)
        n_waiting += batch.num_rows
    if waiting:
        yield _table(waiting)


def _last_border(batches: Sequence[Any], by: Sequence[str]) -> int:
    table = _table(batches)
    starts = group_starts([integers(table, name) for name in by])
    return int(starts[-1])


def _table(batches: Sequence[Any]) -> Any:
    import pyarrow as pa

    return pa.Table.from_batches([batch for batch in batches if batch.num_rows]).combine_chunks()


def sliced(batch: Any, rows: int = 1 << 20) -> Iterator[Any]:
    """The batch in parts: a batch that crosses to Spark must fit into its memory."""
    for first in range(0, batch.num_rows, rows):
        yield batch.slice(first, rows)
