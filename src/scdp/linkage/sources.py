"""What a law is learned from and applied to: distances of items, or vectors, as pairs of any part of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Groups
from scdp.compare.distances import Distances
from scdp.errors import InputError
from scdp.linkage.features import Comparer
from scdp.linkage.pairs import Integers, Pairs
from scdp.linkage.vectors import VectorView
from scdp.table.records import Records
from scdp.table.spec import Spec

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
class RecordSource:
    """Records, compared when a part of them is asked for; rarity is counted over all of them."""

    comparer: Comparer
    labelled: Integers
    groups: Groups

    @classmethod
    def of(cls, records: Records, spec: Spec, labelled: Integers, groups: Groups) -> RecordSource:
        return cls(Comparer.of(records, spec.fields), labelled, groups)

    def pairs(self, items: Integers) -> Pairs:
        rows = self.labelled[items]
        return self.comparer.compare_some(rows, None if self.groups is None else self.groups[rows])


@dataclass(frozen=True, eq=False)
class VectorSource:
    """Vectors, whose neighbourhoods are made anew for every part of them."""

    values: NDArray[np.float64]
    documents: Integers | None
    view: VectorView

    def pairs(self, items: Integers) -> Pairs:
        documents = None if self.documents is None else self.documents[items]
        return self.view.pairs(self.values[items], documents)
