"""Records and a spec go in, their distances come out; distinct values are scored once, in blocks of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp.compare import Prepared
from scdp.compare.prepared import distinct
from scdp.distances.layout import PairLayout
from scdp.distances.storage import Distances
from scdp.records import Records
from scdp.specs import Spec

# Entries of the largest temporary table: 64 MB of float32, beside what a scorer itself needs for it.
TABLE_ENTRIES = 1 << 24

Progress = Callable[[int, int], None]


def compute_distances(
    records: Records,
    spec: Spec,
    groups: Sequence[Any] | NDArray[Any] | None = None,
    workers: int = -1,
    progress: Progress | None = None,
) -> Distances:
    """The distances of all pairs of records, only within `groups` (or the spec's group column) if given.

    A spec that still has scales to learn, or no fields, learns them from these records: the result's `spec`
    has them, and is the one to use for other records. `progress(done, total)` counts distances.
    """
    fitted = spec.fit(records) if spec.needs_fit else spec
    if groups is None and fitted.group is not None:
        groups = records[fitted.group]
    layout = PairLayout.of(len(records), groups)
    values = np.empty((layout.n_pairs, len(fitted.fields)), dtype=np.float32)
    observed = np.empty((len(records), len(fitted.fields)), dtype=bool)
    for feature, comparison in enumerate(fitted.fields):
        prepared = comparison.prepare(records)
        observed[:, feature] = prepared.codes >= 0
        for group in range(len(layout.labels)):
            start, stop = layout.starts[group], layout.starts[group + 1]
            _fill(values[start:stop, feature], prepared, layout.members(group), workers)
            if progress is not None:
                progress(feature * layout.n_pairs + int(stop), values.size)
    return Distances(values, observed, fitted.names, layout, np.ones(len(fitted.fields)), fitted)


def _fill(out: NDArray[np.float32], prepared: Prepared, members: NDArray[np.int64], workers: int) -> None:
    """Write a group's upper triangle, row after row."""
    size = len(members)
    values, places = distinct(prepared.codes[members])
    rows_at_once = size if len(values) ** 2 <= TABLE_ENTRIES else max(1, TABLE_ENTRIES // len(values))
    position = 0
    for first in range(0, size - 1, rows_at_once):
        rows = places[first : first + rows_at_once]
        table, row_places = _table(prepared, values, rows, rows_at_once < size, workers)
        for rank, row in enumerate(row_places.tolist(), start=first):
            count = size - rank - 1
            out[position : position + count] = table[row][places[rank + 1 :]]
            position += count


def _table(
    prepared: Prepared, values: NDArray[np.int64], rows: NDArray[np.int64], partial: bool, workers: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    if not partial:
        return prepared.table(values, None, workers), rows
    needed, row_places = distinct(rows)
    return prepared.table(values[needed], values, workers), row_places
