"""What the restaurant learns from and seats: distances of items, or vectors, as pairs of any part of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scdp.compare.distances import Distances
from scdp.errors import InputError
from scdp.linkage.neighbourhood import VectorView
from scdp.linkage.pairs import Integers, Pairs
from scdp.linkage.sieve import CUT, Sieve

# Pairs are kept in single precision, whose squares must stay finite.
LARGEST_UNIT = 1e15


def pairs_of(distances: Distances) -> Pairs:
    """All pairs within groups, with their distances in the units of the comparisons."""
    layout = distances.layout
    left = np.empty(layout.n_pairs, dtype=np.int64)
    right = np.empty(layout.n_pairs, dtype=np.int64)
    for row in range(layout.n_records):
        entries, others = layout.row(row)
        left[entries], right[entries] = row, others
    if ((distances.scales > LARGEST_UNIT) | (distances.scales < 1 / LARGEST_UNIT)).any():
        low, high = float(distances.scales.min()), float(distances.scales.max())
        raise InputError(
            f"distances of {low:.0e} to {high:.0e} are beyond what this model can hold; give them in a unit in which "
            f"they are between {1 / LARGEST_UNIT:.0e} and {LARGEST_UNIT:.0e}"
        )
    features = np.asarray(distances.values, dtype=np.float32) * np.asarray(distances.scales, dtype=np.float32)
    return Pairs(layout.n_records, left, right, features)


@dataclass(frozen=True, eq=False)
class PairSource:
    """Pairs that are there already; a part of the items has a part of the pairs."""

    every: Pairs

    def pairs(self, items: Integers) -> Pairs:
        return self.every.take(items)


@dataclass(frozen=True, eq=False)
class VectorSource:
    """Vectors, whose neighbourhoods are made anew for every part of them."""

    values: NDArray[np.float64]
    documents: Integers | None
    view: VectorView

    def pairs(self, items: Integers) -> Pairs:
        documents = None if self.documents is None else self.documents[items]
        return self.view.pairs(self.values[items], documents)


@dataclass(frozen=True, eq=False)
class SiftedSource:
    """Pairs whose last feature is a sieve's log-odds, which a part of the items has among as many as it holds."""

    every: Pairs
    sieve: Sieve

    def pairs(self, items: Integers) -> Pairs:
        part = self.every.take(items)
        features = part.features.copy()
        features[:, -1] += np.float32(self.sieve.full_shift(len(items)))
        kept = features[:, -1] >= CUT
        return Pairs(part.n_items, part.left[kept], part.right[kept], features[kept])
