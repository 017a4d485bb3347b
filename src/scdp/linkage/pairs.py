"""Pairs worth comparing: two items each, with their features (NaN = missing), and whom each item is paired with.

A pair that is not here is known to be far apart: its score is the floor, and items that no chain of pairs connects
are never in one cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Features = NDArray[np.float32]


class Neighbours(NamedTuple):
    """Of item i: the items `other[start[i]:start[i + 1]]`, and at the same places the numbers of their pairs."""

    start: Integers
    other: NDArray[np.int32]
    pair: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Candidate pairs of `n_items` items, each once; `features` is (pairs, features)."""

    n_items: int
    left: Integers
    right: Integers
    features: Features

    def __len__(self) -> int:
        return len(self.left)

    @property
    def n_features(self) -> int:
        return self.features.shape[1]

    @cached_property
    def neighbours(self) -> Neighbours:
        both = np.concatenate([self.left, self.right])
        # Stable, so that neighbours stand in the order of their pairs whatever the sorting does.
        order = np.argsort(both, kind="stable")
        start = np.zeros(self.n_items + 1, dtype=np.int64)
        np.cumsum(np.bincount(both, minlength=self.n_items), out=start[1:])
        other = np.concatenate([self.right, self.left])[order].astype(np.int32)
        return Neighbours(start, other, (order % max(len(self), 1)).astype(np.int32))

    def take(self, items: NDArray[Any]) -> Pairs:
        """The pairs among some items, which are numbered anew in the order given."""
        place = np.full(self.n_items, -1, dtype=np.int64)
        place[items] = np.arange(len(items))
        left, right = place[self.left], place[self.right]
        kept = (left >= 0) & (right >= 0)
        return Pairs(len(items), left[kept], right[kept], self.features[kept])

    def within(self, mask: NDArray[np.bool_]) -> Pairs:
        """The pairs of which both items are marked; items keep their numbers."""
        kept = mask[self.left] & mask[self.right]
        return (
            self
            if kept.all()
            else Pairs(self.n_items, self.left[kept], self.right[kept], self.features[kept])
        )

    def with_column(self, column: NDArray[Any]) -> Pairs:
        """The same pairs with one more feature."""
        features = np.column_stack([self.features, column.astype(np.float32)])
        return Pairs(self.n_items, self.left, self.right, features)
