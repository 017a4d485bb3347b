"""Squared distance of each record to the centroid: d2(i, o) = mean_j d2(i, j) - 1/2 mean_jj' d2(j, j')."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp.compare.distances.storage import Distances


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
