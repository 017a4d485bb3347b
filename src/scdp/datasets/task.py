"""What every loader returns: labelled items, or a task of a training and a test part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp.table.records import Records


@dataclass(frozen=True)
class Labelled:
    """Items with their gold clusters: `data` is Records or a float array (items, features)."""

    data: Records | NDArray[np.float64]
    clusters: NDArray[Any]
    ids: NDArray[Any]
    groups: NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.clusters)

    @property
    def n_clusters(self) -> int:
        return len(set(self.clusters.tolist()))

    def take(self, rows: NDArray[Any]) -> Labelled:
        """The given rows (indices or a boolean mask), in that order."""
        data = self.data.take(rows) if isinstance(self.data, Records) else self.data[rows]
        groups = None if self.groups is None else self.groups[rows]
        return Labelled(data, self.clusters[rows], self.ids[rows], groups)


@dataclass(frozen=True)
class Task:
    """A supervised clustering task. `note` says which data it is and what it stands in for."""

    name: str
    train: Labelled
    test: Labelled
    note: str
