"""Records: a small columnar table of text cells, where a missing cell is None; and its readers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp.errors import InputError

Column = NDArray[np.object_]


@dataclass(frozen=True)
class Records:
    """Columns of equal length; every cell is a non-empty `str` or None. `source` is named in error messages."""

    columns: Mapping[str, Column]
    source: str = "records"

    def __post_init__(self) -> None:
        lengths = {len(column) for column in self.columns.values()}
        if len(lengths) > 1:
            raise InputError(f"{self.source}: columns have different lengths {sorted(lengths)}")

    def __len__(self) -> int:
        return next((len(column) for column in self.columns.values()), 0)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.columns)

    def __getitem__(self, name: str) -> Column:
        if name not in self.columns:
            known = ", ".join(self.names) or "none"
            raise InputError(f"{self.source}: there is no column {name!r}; it has: {known}")
        return self.columns[name]

    def take(self, rows: NDArray[Any]) -> Records:
        """The given rows (indices or a boolean mask), in that order."""
        return Records({name: column[rows] for name, column in self.columns.items()}, self.source)

    def rows(self) -> Iterator[dict[str, str | None]]:
        """One dict a record, for people and reports; bulk work goes by column."""
        for cells in zip(*self.columns.values(), strict=True):
            yield dict(zip(self.columns, cells, strict=True))
