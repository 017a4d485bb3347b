"""The score of a pair: a sum over features of piecewise-linear functions, and of weights where one is missing.

Knots are fixed; what is learned is the rise of each function over each piece. A distance may only
speak against being together the more, the larger it is, and a pair score only for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel

Floats = NDArray[np.float64]
MISSING = -1
N_KNOTS = 8
# The numbers of pieces are kept in one byte each.
MOST_KNOTS = 128
# A distance without an upper end has its last knot where all but so few pairs lie below.
UPPER_SHARE = 0.99
FAR_ABOVE = 1.5


class Places(NamedTuple):
    """Where the features of each pair lie: the number of the piece (-1 = missing), and how far along it."""

    piece: NDArray[np.int8]
    along: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Knots:
    """`at` is (features, knots), increasing; `sign` is -1 for distances and +1 for scores."""

    at: Floats
    sign: NDArray[np.int64]

    @classmethod
    def of(cls, features: NDArray[np.float32], sign: NDArray[np.int64]) -> Self:
        """Evenly spaced between the ends of what was seen."""
        at = np.empty((features.shape[1], N_KNOTS))
        for number, column in enumerate(features.T):
            low, high = _ends(column[~np.isnan(column)])
            at[number] = np.linspace(low, high, N_KNOTS)
        return cls(at, sign)

    def places(self, features: NDArray[np.float32]) -> Places:
        places = Places(np.empty(features.shape, np.int8), np.zeros(features.shape, np.float32))
        find_places(features, self.at[:, 0], self.at[:, 1] - self.at[:, 0], self.at.shape[1] - 1, *places)
        return places


def _ends(values: NDArray[Any]) -> tuple[float, float]:
    if not len(values):
        return 0.0, 1.0
    low, high, largest = float(values.min()), float(np.quantile(values, UPPER_SHARE)), float(values.max())
    # The tail is cut off only where it is long; a distance in [0, 1] keeps its whole range.
    high = high if low < high and largest - low > FAR_ABOVE * (high - low) else largest
    return low, high if high > low else low + 1.0


@kernel
def find_places(
    features: NDArray[np.float32],
    low: Floats,
    width: Floats,
    n_pieces: int,
    piece: NDArray[np.int8],
    along: NDArray[np.float32],
) -> None:
    for p in range(features.shape[0]):
        for f in range(features.shape[1]):
            value = features[p, f]
            if np.isnan(value):
                piece[p, f] = MISSING
                continue
            position = min(max((value - low[f]) / width[f], 0.0), float(n_pieces))
            whole = min(int(position), n_pieces - 1)
            piece[p, f] = whole
            along[p, f] = position - whole


@kernel
def add_up(
    piece: NDArray[np.int8], along: NDArray[np.float32], heights: Floats, missing: Floats, score: Floats
) -> None:
    """Scores of pairs from heights (features, knots) and the weights of missing features."""
    for p in range(piece.shape[0]):
        total = 0.0
        for f in range(piece.shape[1]):
            q = piece[p, f]
            if q < 0:
                total += missing[f]
            else:
                low = heights[f, q]
                total += low + (heights[f, q + 1] - low) * along[p, f]
        score[p] = total


@kernel
def add_back(
    piece: NDArray[np.int8],
    along: NDArray[np.float32],
    by_score: Floats,
    by_height: Floats,
    by_missing: Floats,
) -> None:
    """Derivatives by heights and missing weights, added to, from those by the scores of pairs."""
    for p in range(piece.shape[0]):
        slope = by_score[p]
        if slope == 0.0:
            continue
        for f in range(piece.shape[1]):
            q = piece[p, f]
            if q < 0:
                by_missing[f] += slope
            else:
                by_height[f, q] += slope * (1.0 - along[p, f])
                by_height[f, q + 1] += slope * along[p, f]
