"""What `fit` and `predict` accept, as rows that can be sampled: vectors, distances, or records with a spec."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdp._parallel import Progress
from scdp._typing import Booleans, Floats, Groups, Integers
from scdp.chains.items import ItemLayout, lay_out_distances, lay_out_vectors
from scdp.compare import Comparison
from scdp.compare.comparison import bound_cells
from scdp.compare.distances import Distances, compute_distances, safe_unit, squared_to_origin
from scdp.compare.features import Comparer
from scdp.conditions import Conditions, conditions_of
from scdp.errors import InputError
from scdp.table import Records, unique_ids
from scdp.table.decisions import Constraints, Decision, read_decisions
from scdp.table.spec import Spec

UNKNOWN = -1
# Models that can do with candidates compare all pairs up to so many, and so many of each record beyond.
MOST_FORESEEN, CANDIDATES_OF_ONE = 3_000_000, 50


def n_pairs(n: int, groups: Groups) -> int:
    """How many pairs of rows are in one group."""
    sizes = np.array([n]) if groups is None else np.unique(groups, return_counts=True)[1]
    return int((sizes * (sizes - 1) // 2).sum())


@dataclass(frozen=True)
class Pair:
    """Two rows side by side: by feature their distance in the units given, NaN where either misses the feature.

    `squared` is (3, features) in the units of the model: the squared distance of the two, and of each to the origin.
    """

    first: tuple[str | None, ...]
    second: tuple[str | None, ...]
    distances: Floats
    squared: Floats
    # What each feature says in log-odds, where that hangs on the other rows.
    contributions: Floats | None = None
    # The log-odds of two records of which nothing is known, and those of these two alone.
    start: float = 0.0
    log_odds: float | None = None
    # What each comparison of records finds, in words, and in which columns.
    findings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Points:
    """Vectors, centred and scaled by what was seen in `fit` (mean 0 and scale 1 where that is not wanted)."""

    values: Floats
    mean: Floats
    scale: Floats

    @classmethod
    def of(cls, values: Floats, standardize: bool) -> Self:
        if not standardize:
            return cls(values, np.zeros(values.shape[1]), np.ones(values.shape[1]))
        seen = ~np.isnan(values)
        count = np.maximum(seen.sum(axis=0), 1)
        unit = safe_unit(np.abs(values).max(axis=0, initial=0.0, where=seen))
        mean = unit * (np.where(seen, values / unit, 0.0).sum(axis=0) / count)
        # A constant feature tells nothing and has no scale to divide by; its mean must not be off by a bit.
        low, high = (values.min(axis=0, initial=np.inf, where=seen), values.max(axis=0, initial=-np.inf, where=seen))
        mean = np.where(low == high, low, mean)
        spread = unit * np.sqrt((np.where(seen, (values - mean) / unit, 0.0) ** 2).sum(axis=0) / count)
        return cls(values, mean, np.where(spread > 0, spread, 1.0))

    def __len__(self) -> int:
        return len(self.values)

    def lay_out(self, known: Integers, groups: Groups, share: bool) -> ItemLayout[Any]:
        return lay_out_vectors((self.values - self.mean) / self.scale, known, groups, share_clusters=share)

    def append(self, new: Floats, groups: Groups, share: bool, progress: Progress | None = None) -> Points:
        return replace(self, values=np.vstack([self.values, new]))

    def take_none(self) -> Points:
        """No row, but all that new rows need."""
        return replace(self, values=self.values[:0])

    @property
    def n_features(self) -> int:
        return self.values.shape[1]

    def pair(self, i: int, j: int) -> Pair:
        one, two = self.values[i], self.values[j]
        at_one, at_two = (one - self.mean) / self.scale, (two - self.mean) / self.scale
        squared = np.stack([at_one - at_two, at_one, at_two]) ** 2
        return Pair(_numbers(one), _numbers(two), np.abs(one - two), squared)


@dataclass(frozen=True)
class Compared:
    """The compared columns of records, the fitted spec and the unit of each feature; distances follow from these."""

    records: Records
    spec: Spec
    scales: Floats
    groups: Groups = None
    computed: Distances | None = None
    blocked: bool = False

    @classmethod
    def of(
        cls,
        records: Records,
        spec: Spec,
        groups: Groups,
        standardize: bool,
        progress: Progress | None = None,
        blocked: bool = False,
    ) -> Self:
        """With `blocked` the model compares records by itself, and nothing is compared here."""
        records = bound_cells(records, spec.fields, foreseen_pairs(len(records), groups, blocked))
        fitted = spec.fit(records)
        if blocked:
            columns, units = compared_columns(records, fitted), np.ones(len(fitted.fields))
            return cls(columns, fitted, units, groups, blocked=True)
        distances = compute_distances(records, fitted, groups, progress=progress)
        scaled = distances.scaled() if standardize else distances
        return cls(compared_columns(records, fitted), fitted, scaled.scales, groups, scaled, blocked)

    def __len__(self) -> int:
        return len(self.records)

    @cached_property
    def distances(self) -> Distances:
        if self.computed is not None:
            return self.computed
        return compute_distances(self.records, self.spec, self.groups).rescaled(self.scales)

    def lay_out(self, known: Integers, groups: Groups, share: bool) -> ItemLayout[Any]:
        return lay_out_distances(self.distances, known, groups, share_clusters=share)

    def append(self, new: Records, groups: Groups, share: bool, progress: Progress | None = None) -> Compared:
        if len(self.records):
            columns = {name: np.concatenate([self.records[name], new[name]]) for name in self.records.names}
            # Rows of fit have been compared before: what cannot be is a new one, and is named by its own number.
            together = Records(columns, new.source, np.concatenate([self.records.numbers, new.numbers]))
        else:
            together = new.select(self.records.names)
        pairs = foreseen_pairs(len(together), groups, self.blocked)
        together = bound_cells(together, self.spec.fields, pairs)
        if self.blocked:
            return Compared(together, self.spec, self.scales, groups, blocked=True)
        distances = compute_distances(together, self.spec, groups, progress=progress)
        # In place, since a second copy of all distances is what would take the most memory.
        distances.values[:] *= (distances.scales / self.scales).astype(distances.values.dtype)
        scaled = replace(distances, scales=self.scales)
        return Compared(together, self.spec, self.scales, groups, scaled, self.blocked)

    def take_none(self) -> Compared:
        return self.take(np.zeros(0, dtype=np.int64))

    def take(self, items: Integers) -> Compared:
        """Some of the records, not yet compared."""
        groups = None if self.groups is None else self.groups[items]
        return Compared(self.records.take(items), self.spec, self.scales, groups, blocked=self.blocked)

    def with_fields(self, fields: Iterable[Comparison]) -> Compared:
        """The same records, not yet compared, with other comparisons of the same columns."""
        spec = replace(self.spec, fields=tuple(fields), further=None)
        return Compared(self.records, spec, np.ones(len(spec.fields)), self.groups, blocked=self.blocked)

    @property
    def n_features(self) -> int:
        return len(self.spec.fields)

    def cells(self, row: int) -> tuple[str | None, ...]:
        """What each comparison takes from a record."""
        return tuple(_cells(self.records, field.columns, row) for field in self.spec.fields)

    def pair(self, i: int, j: int) -> Pair:
        scaled = self.distances.pair(i, j).astype(np.float64)
        to_origin = squared_to_origin(self.distances).squared[[i, j]]
        one, two, distances = self.cells(i), self.cells(j), scaled * self.scales
        findings = Comparer.of(self.records, self.spec.fields).in_words(i, j, distances)
        squared = np.vstack([scaled**2, to_origin])
        return Pair(one, two, distances, squared, findings=self.name_columns(findings))

    def name_columns(self, findings: Iterable[str]) -> tuple[tuple[str, str], ...]:
        """What each comparison finds, with the names of its columns."""
        columns = (" and ".join(field.columns) for field in self.spec.fields)
        return tuple(zip(findings, columns, strict=True))


def foreseen_pairs(n: int, groups: Groups, blocked: bool) -> int:
    """About how many pairs of records will be compared."""
    every = n_pairs(n, groups)
    return min(every, MOST_FORESEEN + CANDIDATES_OF_ONE * n) if blocked and groups is None else every


def compared_columns(records: Records, spec: Spec) -> Records:
    """The columns that a spec compares or takes times from, and no others."""
    names = dict.fromkeys(name for field in spec.fields for name in field.columns_read)
    return records.select(names)


def _cells(records: Records, columns: tuple[str, ...], row: int) -> str | None:
    return " ".join(cell for name in columns if (cell := records[name][row])) or None


def _numbers(values: Floats) -> tuple[str | None, ...]:
    return tuple(None if np.isnan(value) else f"{value:g}" for value in values)


@dataclass(frozen=True)
class Precomputed:
    """Distances handed over as an array (items, items, features), NaN where missing."""

    square: NDArray[Any]
    distances: Distances

    @classmethod
    def of(cls, square: ArrayLike, groups: Groups, standardize: bool) -> Self:
        array = check_square_shape(square)
        distances = Distances.from_square(array, groups=groups)
        return cls(array, distances.scaled() if standardize else distances)

    def __len__(self) -> int:
        return len(self.square)

    def lay_out(self, known: Integers, groups: Groups, share: bool) -> ItemLayout[Any]:
        within = self.distances.groups if groups is None else groups
        return lay_out_distances(self.distances, known, within, share_clusters=share)

    def append(self, new: ArrayLike, groups: Groups, share: bool, progress: Progress | None = None) -> Precomputed:
        if share:
            raise InputError(
                "predict cannot join known clusters without the distances to their rows: call fit with all rows, "
                "-1 for those whose cluster is unknown"
            )
        added = check_square_shape(new)
        n, m = len(self.square), len(added)
        square = np.zeros((n + m, n + m, added.shape[2]))
        square[:n, :n], square[n:, n:] = self.square, added
        # Rows of fit and new rows are kept apart, so that no distance between them is asked for.
        part = np.repeat([0, 1], [n, m])
        apart = part if groups is None else np.unique([part, codes(groups)], axis=1, return_inverse=True)[1]
        return Precomputed(square, Distances.from_square(square, groups=apart).rescaled(self.distances.scales))

    def take_none(self) -> Precomputed:
        square = self.square[:0, :0]
        return Precomputed(square, Distances.from_square(square).rescaled(self.distances.scales))

    @property
    def n_features(self) -> int:
        return self.distances.n_features

    def pair(self, i: int, j: int) -> Pair:
        scaled = self.distances.pair(i, j).astype(np.float64)
        to_origin = squared_to_origin(self.distances).squared[[i, j]]
        unseen = (None,) * self.distances.n_features
        return Pair(unseen, unseen, scaled * self.distances.scales, np.vstack([scaled**2, to_origin]))


# Rows of `fit`: they know how to be sampled alone, and together with new rows of their kind (`append`).
Rows = Points | Compared | Precomputed


def codes(values: NDArray[Any]) -> Integers:
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def check_square_shape(square: ArrayLike) -> NDArray[Any]:
    array = np.asarray(square)
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[0] != array.shape[1] or array.dtype.kind not in "fiu":
        raise InputError(f"metric='precomputed' needs distances of shape (items, items, features), not {array.shape}")
    return array.astype(np.float64) if array.dtype.kind != "f" else array


def rows_of(
    X: Any,
    groups: Groups,
    spec: Spec | None,
    metric: str,
    standardize: bool,
    progress: Progress | None = None,
    blocked: bool = False,
) -> Rows:
    """What was handed to `fit`, as rows of its kind; `blocked` is for models that can do with candidate pairs."""
    if isinstance(X, Records) and spec is not None:
        return Compared.of(X, spec, groups, standardize, progress, blocked)
    if metric == "precomputed":
        return Precomputed.of(X, groups, standardize)
    return Points.of(X, standardize)


def spec_of(rows: Rows) -> Spec | None:
    """The fitted spec of records; vectors and distances have none."""
    return rows.spec if isinstance(rows, Compared) else None


def feature_names(rows: Rows, given: Any) -> tuple[str, ...]:
    """The names of the features: of the spec, or those given, or numbers."""
    spec = spec_of(rows)
    if spec is not None:
        return spec.names
    return tuple(f"feature {k + 1}" for k in range(rows.n_features)) if given is None else tuple(given)


Decisions = str | PathLike[str] | Iterable[Decision] | None


def list_decisions(decisions: Decisions) -> list[Decision]:
    """Decisions that are given, or read from a file; none of None."""
    if decisions is None:
        return []
    if isinstance(decisions, str | PathLike):
        return read_decisions(Path(decisions))
    found = list(decisions)
    for one in found:
        if not isinstance(one, Decision):
            raise InputError(f"decisions hold {one!r}; give a file, or a list of scdp.table.decisions.Decision")
    return found


def row_ids(X: Any, spec: Spec | None) -> NDArray[Any]:
    """How decisions name rows: records by their ids, or by their row numbers; others by their places from 0."""
    if isinstance(X, Records) and spec is not None and spec.id is not None and spec.id in X.names:
        return unique_ids(X, spec.id)
    if isinstance(X, Records):
        return np.array(list(map(str, X.numbers.tolist())), dtype=object)
    return np.array(list(map(str, range(len(X)))), dtype=object)


def rows_named(records: Records, spec: Spec, said: list[Decision]) -> Booleans:
    """Which records some decision names."""
    named = {identifier for one in said for identifier in one.ids}
    if not named:
        return np.zeros(len(records), dtype=bool)
    return np.array([identifier in named for identifier in row_ids(records, spec).tolist()], dtype=bool)


def settle_conditions(
    X: Any, spec: Spec | None, decisions: Decisions, known: Integers, groups: Groups
) -> tuple[Conditions | None, Integers]:
    """What every draw must keep, and known clusters (-1 for none) with all rows that decisions put into them.

    The spec says which column holds ids, and what is known of sources.
    """
    said = list_decisions(decisions)
    records = X if isinstance(X, Records) else None
    constraints, ids = None, None
    if said:
        ids = row_ids(X, spec)
        constraints = Constraints.of(said, ids)
    conditions = conditions_of(constraints, records, spec, len(known))
    if conditions is None:
        return None, known

    def name(row: int) -> str:
        named = row_ids(X, spec) if ids is None else ids
        return repr(str(named[row]))

    conditions, known = conditions.settle(known, name)
    if groups is not None:
        left, right = conditions.ties()
        across = np.flatnonzero(groups[left] != groups[right])
        if len(across):
            one, other = int(left[across[0]]), int(right[across[0]])
            raise InputError(
                f"the decisions make {name(one)} and {name(other)} the same, and they are in two groups, "
                f"{groups[one]} and {groups[other]}; correct the decision or the group"
            )
    return (conditions if conditions.any() else None), known
