"""Distances of all pairs of records within groups, by field: where each pair is stored, the store, and filling it.

The pair (i, j) with rank[i] < rank[j] in one group is entry row_start[i] + rank[j]. A layout that holds only candidate
pairs would answer the same question, `positions`, with -1 for the pairs it does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdp._parallel import Progress
from scdp._typing import Integers
from scdp.compare.prepared import Prepared, distinct
from scdp.errors import InputError
from scdp.table import Records
from scdp.table.spec import Spec

NOT_STORED = -1


def memory_bytes(sizes: ArrayLike, n_features: int, bytes_each: int = 4) -> int:
    """Bytes for groups of these sizes: the sum of m (m - 1) / 2, times features, times 4 (float32)."""
    return sum(m * (m - 1) // 2 for m in np.atleast_1d(np.asarray(sizes)).tolist()) * n_features * bytes_each


@dataclass(frozen=True, eq=False)
class PairLayout:
    """`group[i]` is a record's group, numbered by first appearance; `rank[i]` is its place in that group."""

    group: Integers
    labels: tuple[Any, ...]

    @classmethod
    def of(cls, n_records: int, groups: Sequence[Any] | NDArray[Any] | None = None) -> PairLayout:
        """The layout of so many records, all in one group unless `groups` names each record's."""
        if groups is None:
            return cls(np.zeros(n_records, dtype=np.int64), ("all",) if n_records else ())
        if len(groups) != n_records:
            raise InputError(f"groups has {len(groups)} entries for {n_records} records; it needs one each")
        codes: dict[Any, int] = {}
        group = np.empty(n_records, dtype=np.int64)
        for row, label in enumerate(groups):
            if label is None or label != label:
                raise InputError(f"groups: row {row + 1} has no group; every record needs one")
            group[row] = codes.setdefault(label, len(codes))
        return cls(group, tuple(codes))

    @property
    def n_records(self) -> int:
        return len(self.group)

    @cached_property
    def sizes(self) -> Integers:
        return np.bincount(self.group, minlength=len(self.labels)).astype(np.int64)

    @cached_property
    def starts(self) -> Integers:
        """The first entry of each group, and at the end the number of entries."""
        pairs = self.sizes * (self.sizes - 1) // 2
        return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(pairs)])

    @property
    def n_pairs(self) -> int:
        return int(self.starts[-1])

    @cached_property
    def _order(self) -> Integers:
        return np.argsort(self.group, kind="stable")

    @cached_property
    def _group_starts(self) -> Integers:
        return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(self.sizes)])

    def members(self, group: int) -> Integers:
        """The records of a group, by rank."""
        return self._order[self._group_starts[group] : self._group_starts[group + 1]]

    @cached_property
    def rank(self) -> Integers:
        rank = np.empty(self.n_records, dtype=np.int64)
        rank[self._order] = np.arange(self.n_records) - self._group_starts[self.group[self._order]]
        return rank

    @cached_property
    def row_start(self) -> Integers:
        """What the record of smaller rank adds to the other's rank to find the entry of their pair."""
        size, rank = self.sizes[self.group], self.rank
        return self.starts[self.group] + rank * (2 * size - rank - 1) // 2 - rank - 1

    def positions(self, left: ArrayLike, right: ArrayLike) -> Integers:
        """The entry of each pair; -1 for a record with itself and for records of different groups."""
        i, j = np.asarray(left, dtype=np.int64), np.asarray(right, dtype=np.int64)
        first, second = np.where(self.rank[i] < self.rank[j], (i, j), (j, i))
        stored = (i != j) & (self.group[i] == self.group[j])
        return np.where(stored, self.row_start[first] + self.rank[second], NOT_STORED)

    def row(self, record: int) -> tuple[slice, Integers]:
        """The entries of the pairs of a record with the later ones of its group, and these records."""
        members, rank = self.members(int(self.group[record])), int(self.rank[record])
        start = int(self.row_start[record]) + rank + 1
        return slice(start, start + len(members) - rank - 1), members[rank + 1 :]


TOLERANCE = 1e-5


def check_square(square: NDArray[Any], layout: PairLayout, names: tuple[str, ...]) -> NDArray[np.bool_]:
    """Refuse what are no distances, naming the entry; return (records, features): the feature is observed.

    A record misses a feature when its diagonal is NaN, or all its distances to others of its group are.
    """
    if square.ndim != 3 or square.shape[0] != square.shape[1]:
        raise InputError(f"distances must be an array (n, n) or (n, n, features), not of shape {square.shape}")
    if len(names) != square.shape[2] or len(set(names)) != len(names):
        raise InputError(f"{square.shape[2]} features need as many different names, not {list(names)}")
    observed = np.empty((layout.n_records, len(names)), dtype=bool)
    for group in range(len(layout.labels)):
        members = layout.members(group)
        for feature, name in enumerate(names):
            block = square[:, :, feature][np.ix_(members, members)]
            observed[members, feature] = _check_block(block, members, name)
    return observed


def _check_block(block: NDArray[Any], members: NDArray[np.int64], name: str) -> NDArray[np.bool_]:
    diagonal = np.diagonal(block)
    scale = np.nanmax(np.abs(block), initial=0.0, where=np.isfinite(block)) or 1.0
    _refuse(np.isinf(block), block, members, name, "infinite")
    _refuse(block < 0, block, members, name, "negative")
    off_diagonal = ~np.eye(len(block), dtype=bool)
    _refuse(~off_diagonal & (block > TOLERANCE * scale), block, members, name, "on the diagonal and not zero")
    alone = len(block) == 1
    observed = ~np.isnan(diagonal) & (alone | (off_diagonal & ~np.isnan(block)).any(axis=1))
    both = observed[:, None] & observed
    _refuse(both & np.isnan(block), block, members, name, "missing, though both records have the feature")
    _refuse(~both & off_diagonal & ~np.isnan(block), block, members, name, "there, though a record misses the feature")
    asymmetric = np.abs(block - block.T) > TOLERANCE * scale
    _refuse(asymmetric & both, block, members, name, "not what its mirror entry is: distances must be symmetric")
    return observed


def _refuse(wrong: NDArray[np.bool_], block: NDArray[Any], members: NDArray[np.int64], name: str, problem: str) -> None:
    if wrong.any():
        a, b = (int(k) for k in np.argwhere(wrong)[0])
        raise InputError(
            f"distances: entry ({members[a]}, {members[b]}) of {name!r} is {problem} ({float(block[a, b])})"
        )


Values = NDArray[np.float32] | NDArray[np.float64]
PAIRS_AT_ONCE = 1 << 18


@dataclass(frozen=True, eq=False)
class Distances:
    """`values` is (pairs, features), a pair's features side by side; `observed` is (records, features).

    float32 unless given as float64. `values * scales` is in the units first given.
    """

    values: Values
    observed: NDArray[np.bool_]
    names: tuple[str, ...]
    layout: PairLayout
    scales: NDArray[np.float64]
    spec: Spec | None = None

    def __post_init__(self) -> None:
        n_features = len(self.names)
        assert self.values.shape == (self.layout.n_pairs, n_features)
        assert self.observed.shape == (self.layout.n_records, n_features)
        assert self.scales.shape == (n_features,)

    @classmethod
    def from_square(
        cls, array: ArrayLike, groups: Sequence[Any] | NDArray[Any] | None = None, names: Sequence[str] | None = None
    ) -> Distances:
        """From an array (n, n) or (n, n, features): its entries within groups. float64 stays float64."""
        square = np.asarray(array)
        square = square if square.dtype == np.float64 else square.astype(np.float32)
        square = square[:, :, None] if square.ndim == 2 else square
        layout = PairLayout.of(square.shape[0] if square.ndim else 0, groups)
        titles = tuple(names) if names is not None else _default_names(square)
        observed = check_square(square, layout, titles)
        values = np.empty((layout.n_pairs, len(titles)), dtype=square.dtype)
        for record in range(layout.n_records):
            entries, others = layout.row(record)
            values[entries] = square[record, others]
        return cls(values, observed, titles, layout, np.ones(len(titles)))

    def __len__(self) -> int:
        return self.layout.n_records

    @property
    def n_features(self) -> int:
        return len(self.names)

    @property
    def groups(self) -> NDArray[np.int64]:
        return self.layout.group

    @property
    def nbytes(self) -> int:
        return self.values.nbytes

    def feature(self, name: str | int) -> int:
        """The place of a feature given by name (or place)."""
        if isinstance(name, int):
            return range(self.n_features)[name]
        if name not in self.names:
            raise InputError(f"there is no feature {name!r}; there are: {', '.join(self.names)}")
        return self.names.index(name)

    def pair(self, i: int, j: int) -> Values:
        """The features of one pair; zero (or missing) for a record with itself."""
        return self.pair_features([i], [j])[0]

    def pair_features(self, left: ArrayLike, right: ArrayLike) -> Values:
        """The features (pairs, features) of the given pairs, which must be within groups."""
        i, j = np.asarray(left, dtype=np.int64), np.asarray(right, dtype=np.int64)
        across = np.flatnonzero(self.groups[i] != self.groups[j])
        if len(across):
            a, b = int(i[across[0]]), int(j[across[0]])
            raise InputError(f"records {a} and {b} are in different groups: no distance is kept between them")
        positions = self.layout.positions(i, j)
        out = np.zeros((len(i), self.n_features), dtype=self.values.dtype)
        stored = positions != NOT_STORED
        out[stored] = self.values[positions[stored]]
        # The diagonal is not stored: a record is at distance zero from itself where it has a value.
        out[~stored] = np.where(self.observed[i[~stored]], 0.0, np.nan)
        return out

    def square(self) -> Values:
        """The full array (n, n, features), NaN between groups; for small n (`metric="precomputed"`)."""
        return self._full(slice(None), (self.n_features,))

    def matrix(self, feature: str | int) -> Values:
        """The full array (n, n) of one feature, NaN between groups."""
        return self._full(self.feature(feature), ())

    def _full(self, column: slice | int, tail: tuple[int, ...]) -> Values:
        n = len(self)
        out = np.full((n, n, *tail), np.nan, dtype=self.values.dtype)
        for record in range(n):
            entries, others = self.layout.row(record)
            out[record, others] = out[others, record] = self.values[entries, column]
            out[record, record] = np.where(self.observed[record, column], 0.0, np.nan)
        return out

    def take(self, rows: NDArray[Any]) -> Distances:
        """The given records (indices or a boolean mask), in that order, each at most once."""
        chosen = np.arange(len(self))[rows]
        if len(np.unique(chosen)) != len(chosen):
            raise InputError("take: a record is asked for twice")
        layout = PairLayout.of(len(chosen), self.groups[chosen])
        values = np.empty((layout.n_pairs, self.n_features), dtype=self.values.dtype)
        for record in range(len(chosen)):
            entries, others = layout.row(record)
            positions = self.layout.positions(np.full(len(others), chosen[record]), chosen[others])
            values[entries] = self.values[positions]
        labels = tuple(self.layout.labels[code] for code in layout.labels)
        layout = PairLayout(layout.group, labels if chosen.size else ())
        return replace(self, values=values, observed=self.observed[chosen], layout=layout)

    def scaled(self, reference: Distances | NDArray[Any] | None = None) -> Distances:
        """Each feature divided so that half its mean squared distance is 1: unit variance, for coordinates.

        The mean is over the observed pairs of `reference`: other distances (those of the training part, whose
        scales are taken over if they were scaled), rows of these, or all. Zero throughout is left as it is.
        """
        if isinstance(reference, Distances):
            source = reference
            if source.names != self.names:
                raise InputError(f"the reference has features {source.names}, not {self.names}")
        else:
            source = self if reference is None else self.take(reference)
        scales = source.scales * source._half_mean_square_root()
        return self.rescaled(scales)

    def rescaled(self, scales: NDArray[np.float64]) -> Distances:
        """The same distances in the given units (one for each feature)."""
        values = self.values * np.asarray(self.scales / scales, dtype=self.values.dtype)
        return replace(self, values=values, scales=np.array(scales, dtype=np.float64))

    def _half_mean_square_root(self) -> NDArray[np.float64]:
        unit = safe_unit(np.fmax.reduce(self.values, axis=0, initial=0.0))
        total = self._sum(lambda part: np.nansum((part / unit) ** 2, axis=0))
        count = self._sum(lambda part: np.count_nonzero(~np.isnan(part), axis=0))
        mean = total / np.maximum(count, 1)
        return np.where(mean > 0, unit * np.sqrt(mean / 2), 1.0)

    def _sum(self, of_part: Callable[[Values], NDArray[Any]]) -> NDArray[np.float64]:
        total = np.zeros(self.n_features)
        for start in range(0, len(self.values), PAIRS_AT_ONCE):
            total += of_part(self.values[start : start + PAIRS_AT_ONCE])
        return total


def safe_unit(largest: ArrayLike) -> NDArray[np.float64]:
    """A power of two to divide numbers up to `largest` by, so that their squares neither vanish nor overflow.

    Such a division is exact: for numbers of everyday size nothing changes, not even the last bit.
    """
    return np.ldexp(1.0, np.frexp(np.asarray(largest, dtype=np.float64))[1] - 1)


def _default_names(square: NDArray[Any]) -> tuple[str, ...]:
    return tuple(f"feature {k}" for k in range(square.shape[2])) if square.ndim == 3 else ()


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
            place = first + rank
            found = table[row][columns[rank + 1 :]]
            out[position : position + count] = prepared.relax(found, members[place], members[place + 1 :])
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
