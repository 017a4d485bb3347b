"""Records and a spec go in, their distances come out; distinct values are scored once, in blocks of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp._parallel import Progress
from scdp.compare import Prepared
from scdp.compare.distances.layout import PairLayout
from scdp.compare.distances.storage import Distances
from scdp.compare.prepared import distinct
from scdp.table.records import Records
from scdp.table.spec import Spec

# Entries of the largest temporary table: 16 MB of float32.
TABLE_ENTRIES = 1 << 22


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
    codes = prepared.codes[members]
    n_values = len(distinct(codes)[0])
    rows_at_once = len(codes) if n_values**2 <= TABLE_ENTRIES else max(1, TABLE_ENTRIES // n_values)
    position = 0
    for first in range(0, len(codes) - 1, rows_at_once):
        rest = codes[first:]
        table, rows, columns = _table(prepared, rest, min(rows_at_once, len(rest)), workers)
        for rank, row in enumerate(rows.tolist()):
            count = len(rest) - rank - 1
            out[position : position + count] = table[row][columns[rank + 1 :]]
            position += count


def _table(
    prepared: Prepared, codes: NDArray[np.int64], n_rows: int, workers: int
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]:
    """Distances of the first rows' values to all values, and where in it each row and each record stands."""
    values, columns = distinct(codes)
    if n_rows == len(codes):
        return prepared.table(values, None, workers), columns, columns
    row_values, rows = distinct(codes[:n_rows])
    return prepared.table(row_values, values, workers), rows, columns


@dataclass(frozen=True)
class SquaredToOrigin:
    """`squared` is (records, features), NaN where missing; `clipped` counts by feature those below zero."""

    squared: NDArray[np.float64]
    clipped: NDArray[np.int64]


def squared_to_origin(distances: Distances, reference: NDArray[Any] | None = None) -> SquaredToOrigin:
    """Each group's origin is the centroid of its reference records (indices or mask; None = all).

    Means are over the records that have the feature. A group without a reference record that has it gets NaN.
    Distances that fit no Euclidean space can give less than zero: that is set to zero and counted.
    """
    chosen = np.zeros(len(distances), dtype=bool)
    chosen[slice(None) if reference is None else reference] = True
    weights = chosen[:, None] & distances.observed
    counts = _by_group(weights, distances)
    sums = _sums_of_squares(distances, chosen)
    within = _by_group(np.where(weights, sums, 0.0), distances)
    with np.errstate(invalid="ignore", divide="ignore"):
        squared = sums / counts - within / (2.0 * counts**2)
    squared[~distances.observed] = np.nan
    # What rounding alone can make negative is no sign of a non-Euclidean distance.
    rounding = 10 * np.finfo(distances.values.dtype).eps * sums / np.maximum(counts, 1)
    negative = squared < -rounding
    return SquaredToOrigin(np.maximum(squared, 0.0), np.count_nonzero(negative, axis=0))


def _by_group(values: NDArray[Any], distances: Distances) -> NDArray[np.float64]:
    """The sum over each record's group, for every record."""
    totals = np.zeros((len(distances.layout.labels), distances.n_features))
    np.add.at(totals, distances.groups, values)
    return totals[distances.groups]


def _sums_of_squares(distances: Distances, chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
    """sums[i, f] = sum of d2(i, j) over the chosen j of i's group; missing ones add nothing."""
    sums = np.zeros((len(distances), distances.n_features))
    for record in range(len(distances)):
        entries, others = distances.layout.row(record)
        squares = np.nan_to_num(distances.values[entries].astype(np.float64)) ** 2
        sums[record] += squares[chosen[others]].sum(axis=0)
        if chosen[record]:
            sums[others] += squares
    return sums
