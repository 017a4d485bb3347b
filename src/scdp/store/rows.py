"""The rows of an open store: all that were read or added, which of them count now, and who belongs to which entity."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from scdp._typing import Booleans, Integers
from scdp.store.index import WordIndex
from scdp.table.records import Column, Records


class StoredRows:
    """Rows in the order in which they came; a correction is one more row, and the one before does not count any more.

    Parameters
    ----------
    records : Records
        The rows to begin with.
    id_column : str
        Holds the ids.
    entities : sequence of str
        The entity of each row.
    """

    def __init__(self, records: Records, id_column: str, entities: Sequence[str]) -> None:
        self.id_column, self.source = id_column, records.source
        self.columns: dict[str, Column] = dict(records.columns) or {id_column: np.empty(0, dtype=object)}
        self.alive: Booleans = np.ones(len(self.columns[id_column]), dtype=bool)
        ids = self.columns[id_column].tolist()
        self.row_of: dict[str, int] = {str(one): row for row, one in enumerate(ids)}
        self.entities: dict[str, str] = dict(zip(ids, entities, strict=True))
        # The records of each entity.
        self.members: dict[str, list[str]] = {}
        for record, entity in self.entities.items():
            self.members.setdefault(entity, []).append(record)

    def __len__(self) -> int:
        return len(self.row_of)

    @property
    def records(self) -> Records:
        """The rows that count."""
        chosen = np.flatnonzero(self.alive)
        return Records({name: cells[chosen] for name, cells in self.columns.items()}, self.source)

    def take(self, rows: Integers) -> Records:
        """Some rows."""
        return Records({name: cells[rows] for name, cells in self.columns.items()}, self.source)

    def cells(self, row: int, names: Iterable[str]) -> list[Any]:
        """Some cells of a row."""
        return [self.columns[name][row] for name in names]

    def append(self, new: dict[str, Column], ids: Sequence[str]) -> Integers:
        """Rows that are new, or stand for those that have the same ids; their numbers."""
        n, n_new = len(self.alive), len(ids)
        for name in dict.fromkeys([*self.columns, *new]):
            before = self.columns.get(name, np.full(n, None, dtype=object))
            more = new.get(name, np.full(n_new, None, dtype=object))
            self.columns[name] = np.concatenate([before, more])
        self.alive = np.concatenate([self.alive, np.ones(n_new, dtype=bool)])
        rows = np.arange(n, n + n_new)
        for row, identifier in zip(rows.tolist(), ids, strict=True):
            if identifier in self.row_of:
                self.alive[self.row_of[identifier]] = False
            self.row_of[identifier] = row
        return rows

    def remove(self, ids: Iterable[str]) -> None:
        """Rows that do not count any more."""
        for identifier in ids:
            self.alive[self.row_of.pop(identifier)] = False
            self.members[self.entities.pop(identifier)].remove(identifier)

    def assign(self, identifier: str, entity: str) -> None:
        """Put a record into an entity."""
        before = self.entities.get(identifier)
        if before == entity:
            return
        if before is not None:
            self.members[before].remove(identifier)
        self.entities[identifier] = entity
        self.members.setdefault(entity, []).append(identifier)

    def make_index(self, names: Iterable[str]) -> WordIndex:
        """An index over the words of some columns."""
        nobody = np.full(len(self.alive), None, dtype=object)
        return WordIndex({name: self.columns.get(name, nobody).tolist() for name in names})
