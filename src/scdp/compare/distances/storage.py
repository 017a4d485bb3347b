"""Distances: per pair of records of one group, one row of features, NaN where a record misses the feature."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdp.compare.distances.layout import NOT_STORED, PairLayout
from scdp.errors import InputError
from scdp.table.spec import Spec

TOLERANCE = 1e-5


def check_square(square: NDArray[Any], layout: PairLayout, names: tuple[str, ...]) -> NDArray[np.bool_]:
    """Refuse what are no distances, naming the entry; return (records, features): the feature is observed.

    A record misses a feature when its diagonal is NaN, or all its distances to others of its group are.
    """
    if square.ndim != 3 or square.shape[0] != square.shape[1]:
        raise InputError(
            f"distances must be an array (n, n) or (n, n, features), not of shape {square.shape}"
        )
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
    _refuse(
        ~both & off_diagonal & ~np.isnan(block),
        block,
        members,
        name,
        "there, though a record misses the feature",
    )
    asymmetric = np.abs(block - block.T) > TOLERANCE * scale
    _refuse(
        asymmetric & both, block, members, name, "not what its mirror entry is: distances must be symmetric"
    )
    return observed


def _refuse(
    wrong: NDArray[np.bool_], block: NDArray[Any], members: NDArray[np.int64], name: str, problem: str
) -> None:
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
        cls,
        array: ArrayLike,
        groups: Sequence[Any] | NDArray[Any] | None = None,
        names: Sequence[str] | None = None,
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
