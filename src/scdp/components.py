"""Components: edges between records go in; records that are connected come out with one label.

Given the global parameters they are independent, so each can be clustered by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdp._compile import kernel
from scdp.errors import InputError

Rows = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Components:
    """`labels[i]` is the smallest record connected to record i.

    Component c holds the records members[offsets[c]:offsets[c + 1]], ascending; components are in the order of
    their smallest record.

    Attributes
    ----------
    labels : array of int32 (record,)
        The smallest record of the component.
    offsets : array of int (component + 1,)
        Where each component begins among the members.
    members : array of int32 (record,)
        The records, by component.

    Example
    -------
    >>> found = connected_components(4, [([0], [2])])
    >>> [found[c].tolist() for c in range(len(found))]
    [[0, 2], [1], [3]]
    """

    labels: Rows
    offsets: NDArray[np.int64]
    members: Rows

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, component: int) -> Rows:
        """The records of one component."""
        if not 0 <= component < len(self):
            raise IndexError(f"component {component} of {len(self)}")
        return self.members[self.offsets[component] : self.offsets[component + 1]]

    @property
    def sizes(self) -> NDArray[np.int64]:
        return np.diff(self.offsets)

    @property
    def codes(self) -> Rows:
        """The number of each record's component."""
        codes = np.empty(len(self.labels), dtype=np.int32)
        codes[self.members] = np.repeat(np.arange(len(self), dtype=np.int32), self.sizes)
        return codes


def connected_components(n_records: int, edges: Iterable[tuple[ArrayLike, ArrayLike]]) -> Components:
    """The components of records 0 to n_records - 1 under edges that come in chunks of two arrays.

    Parameters
    ----------
    n_records : int
        How many records there are.
    edges : iterable of pairs of arrays
        The records at the two ends of edges, in chunks.

    Returns
    -------
    Components

    Example
    -------
    >>> connected_components(4, [([0], [2])]).labels.tolist()
    [0, 1, 0, 3]
    """
    parents = np.arange(n_records, dtype=np.int32)
    for ends in edges:
        left, right = (_check_rows(end, n_records) for end in ends)
        if len(left) != len(right):
            raise InputError(f"edges: {len(left)} left ends and {len(right)} right ones; give as many")
        unite(parents, left, right)
    flatten(parents)
    members = np.argsort(parents, kind="stable").astype(np.int32)
    ordered = parents[members]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    return Components(parents, np.append(starts, n_records).astype(np.int64), members)


def _check_rows(end: ArrayLike, n_records: int) -> Rows:
    rows = np.asarray(end)
    if rows.size and not (rows.min() >= 0 and rows.max() < n_records):
        raise InputError(f"edges: an end is not among the records 0 to {n_records - 1}; check the pairs")
    return np.ascontiguousarray(rows, dtype=np.int32)


@kernel
def root_of(parents: Rows, row: int) -> int:
    """The root of a record; on the way each record gets its grandparent as parent, so that the next search is short."""
    while parents[row] != row:
        parents[row] = parents[parents[row]]
        row = parents[row]
    return row


@kernel
def unite(parents: Rows, left: Rows, right: Rows) -> None:
    """Join the trees of both ends of every edge; the smaller root stays root."""
    for edge in range(len(left)):
        a, b = root_of(parents, left[edge]), root_of(parents, right[edge])
        if a < b:
            parents[b] = a
        elif b < a:
            parents[a] = b


@kernel
def flatten(parents: Rows) -> None:
    """Make the root of every record its parent; a parent is never larger than its child."""
    for row in range(len(parents)):
        parents[row] = parents[parents[row]]
