"""Parts that never mix: labels of draws enter; sets of items, linked by being together in some draw, leave."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp.posterior.canonical import Labels, canonical_labels

Counts = NDArray[np.int64]


class Components(NamedTuple):
    """Items ordered by component, each item's in ascending order, and where each component begins."""

    items: Counts
    bounds: Counts

    @property
    def sizes(self) -> Counts:
        return np.diff(self.bounds)

    def chosen(self, which: NDArray[np.bool_]) -> Components:
        """Some of the components, in the same order."""
        items = self.items[np.repeat(which, self.sizes)]
        return Components(items, np.concatenate([[0], np.cumsum(self.sizes[which])]))


def components(chunks: Iterable[NDArray[np.int32]], n_items: int) -> Components:
    """Components of items (from 0) that any row of any chunk (draw, item) of labels puts together.

    A negative label is no label: its item is with no other.
    """
    parents = np.arange(n_items, dtype=np.int32)
    for draws in chunks:
        connect(draws, np.full(int(draws.max(initial=-1)) + 1, -1, np.int64), parents)
    lead_to_roots(parents)
    return Components(*grouped(canonical_labels(parents)))


def grouped(labels: Labels) -> tuple[Counts, Counts]:
    """Items ordered by their canonical label, and where the items of each label begin."""
    bounds = np.zeros(int(labels.max(initial=-1)) + 2, np.int64)
    items = np.empty(len(labels), np.int64)
    sort_by_label(labels, bounds, items)
    return items, bounds


@kernel
def find_root(parents: NDArray[np.int32], item: int) -> int:
    """The smallest item of the tree, with every step of the way there halved for the next time."""
    while parents[item] != item:
        parents[item] = parents[parents[item]]
        item = parents[item]
    return item


@kernel
def connect(draws: NDArray[np.int32], heads: Counts, parents: NDArray[np.int32]) -> None:
    """Join the trees of items that a draw puts together; `heads` (by label) holds -1 on entry.

    A label's first item in a draw is kept as draw x items + item, so that nothing is to be cleared between draws.
    """
    n_items = draws.shape[1]
    for draw in range(draws.shape[0]):
        base = draw * n_items
        for item in range(n_items):
            label = draws[draw, item]
            if label < 0:
                continue
            if heads[label] < base:
                heads[label] = base + item
                continue
            head = heads[label] - base
            if parents[head] != parents[item]:
                first, second = find_root(parents, head), find_root(parents, item)
                parents[max(first, second)] = min(first, second)


@kernel
def lead_to_roots(parents: NDArray[np.int32]) -> None:
    """Make every item point at its root; roots are smaller than what hangs on them, so one pass is enough."""
    for item in range(len(parents)):
        parents[item] = parents[parents[item]]


@kernel
def sort_by_label(labels: Labels, bounds: Counts, items: Counts) -> None:
    """Counting sort; `bounds` enters as zeros, one more than there are labels."""
    for label in labels:
        bounds[label + 1] += 1
    for label in range(len(bounds) - 1):
        bounds[label + 1] += bounds[label]
    for item in range(len(labels)):
        items[bounds[labels[item]]] = item
        bounds[labels[item]] += 1
    for label in range(len(bounds) - 1, 0, -1):
        bounds[label] = bounds[label - 1]
    bounds[0] = 0
