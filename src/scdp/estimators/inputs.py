"""What `fit` and `predict` accept, as something that can be seated: vectors, distances, or records with a spec."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdp.distances import Distances, compute_distances
from scdp.errors import InputError
from scdp.records import Records
from scdp.sampler.distance_items import AnySeating, seat_distances
from scdp.sampler.items import seat
from scdp.specs import Spec

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
UNKNOWN = -1


class Rows(Protocol):
    """Rows of `fit`; knows how to be seated alone, and together with new rows of its kind."""

    def __len__(self) -> int: ...

    def seat(self, known: Integers, documents: NDArray[Any] | None, share: bool) -> AnySeating: ...

    def joined(self, new: Any, documents: NDArray[Any] | None, share: bool) -> Rows: ...


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
        mean = np.where(seen, values, 0.0).sum(axis=0) / count
        spread = np.sqrt((np.where(seen, values - mean, 0.0) ** 2).sum(axis=0) / count)
        # A constant feature tells nothing and has no scale to divide by.
        return cls(values, mean, np.where(spread > 0, spread, 1.0))

    def __len__(self) -> int:
        return len(self.values)

    def seat(self, known: Integers, documents: NDArray[Any] | None, share: bool) -> AnySeating:
        return seat((self.values - self.mean) / self.scale, known, documents, share_clusters=share)

    def joined(self, new: Floats, documents: NDArray[Any] | None, share: bool) -> Points:
        return replace(self, values=np.vstack([self.values, new]))


@dataclass(frozen=True)
class Compared:
    """Records as the distances between them, with the fitted spec and scales that new records are compared by."""

    records: Records
    distances: Distances

    @classmethod
    def of(cls, records: Records, spec: Spec, documents: NDArray[Any] | None, standardize: bool) -> Self:
        distances = compute_distances(records, spec.fit(records), documents)
        return cls(records, distances.scaled() if standardize else distances)

    def __len__(self) -> int:
        return len(self.records)

    def seat(self, known: Integers, documents: NDArray[Any] | None, share: bool) -> AnySeating:
        return seat_distances(self.distances, known, documents, share_clusters=share)

    def joined(self, new: Records, documents: NDArray[Any] | None, share: bool) -> Compared:
        together = Records(
            {name: np.concatenate([self.records[name], new[name]]) for name in self.records.names}, new.source
        )
        fitted = self.distances.spec
        if fitted is None:
            raise InputError("these distances came without a spec; fit on records to predict on records")
        distances = compute_distances(together, fitted, documents).rescaled(self.distances.scales)
        return Compared(together, distances)


@dataclass(frozen=True)
class Precomputed:
    """Distances handed over as an array (items, items, features), NaN where missing."""

    square: NDArray[Any]
    distances: Distances

    @classmethod
    def of(cls, square: ArrayLike, documents: NDArray[Any] | None, standardize: bool) -> Self:
        array = check_square_shape(square)
        distances = Distances.from_square(array, groups=documents)
        return cls(array, distances.scaled() if standardize else distances)

    def __len__(self) -> int:
        return len(self.square)

    def seat(self, known: Integers, documents: NDArray[Any] | None, share: bool) -> AnySeating:
        groups = self.distances.groups if documents is None else documents
        return seat_distances(self.distances, known, groups, share_clusters=share)

    def joined(self, new: ArrayLike, documents: NDArray[Any] | None, share: bool) -> Precomputed:
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
        groups = (
            part if documents is None else np.unique([part, codes(documents)], axis=1, return_inverse=True)[1]
        )
        return Precomputed(
            square, Distances.from_square(square, groups=groups).rescaled(self.distances.scales)
        )


def codes(documents: NDArray[Any]) -> Integers:
    return np.unique(documents, return_inverse=True)[1].astype(np.int64)


def check_square_shape(square: ArrayLike) -> NDArray[Any]:
    array = np.asarray(square)
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[0] != array.shape[1] or array.dtype.kind not in "fiu":
        raise InputError(
            f"metric='precomputed' needs distances of shape (items, items, features), not {array.shape}"
        )
    return array.astype(np.float64) if array.dtype.kind != "f" else array


def check_known(y: ArrayLike | None, n: int) -> Integers:
    """Cluster labels as integers, -1 where unknown."""
    if y is None:
        return np.full(n, UNKNOWN, dtype=np.int64)
    labels = np.asarray(y)
    if labels.shape != (n,):
        raise InputError(f"y has shape {labels.shape}, but X has {n} rows; give one cluster a row")
    whole = labels.astype(np.int64) if labels.dtype.kind in "iubf" and np.isfinite(labels).all() else None
    if whole is None or (whole != labels).any() or (whole < UNKNOWN).any():
        raise InputError(
            "Unknown label type: y must hold whole numbers, one a cluster, with -1 for a row of unknown cluster"
        )
    return whole


def check_documents(groups: ArrayLike | None, n: int) -> NDArray[Any] | None:
    if groups is None:
        return None
    documents = np.asarray(groups)
    if documents.shape != (n,):
        raise InputError(f"groups has shape {documents.shape}, but X has {n} rows; give one document a row")
    return documents


def row_order(new: Any, documents: NDArray[Any] | None) -> NDArray[np.intp]:
    """An order of new rows that does not depend on the order they came in (as far as rows differ)."""
    if isinstance(new, Records):
        keys = [np.array([value or "" for value in new[name]], dtype=str) for name in reversed(new.names)]
    elif new.ndim == 2:
        keys = list(new.T)
    else:
        keys = [np.arange(len(new))]
    return np.lexsort((*keys, *([] if documents is None else [documents])))


def take_rows(new: Any, rows: NDArray[np.intp]) -> Any:
    """The given new rows, of whatever kind."""
    if isinstance(new, Records):
        return new.take(rows)
    return new[rows] if new.ndim == 2 else new[np.ix_(rows, rows)]
