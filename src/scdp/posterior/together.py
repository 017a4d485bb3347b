"""Pairs that are together in some draws and not in others: stored draws enter, pairs with their shares leave.

Only pairs within a component (`components`) are ever together, so all work is linear in the items where components
are small; in large ones, pairs are counted draw by draw within clusters.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp.posterior.components import Components, Counts, components
from scdp.posterior.draws import CHUNK_LABELS, Codes, StoredDraws

# A component of so many items has 496 pairs, of which all are counted.
SMALL = 32
Pairs = tuple[Counts, Counts, NDArray[np.float64]]


def pairs_together(stored: StoredDraws, draws: Counts, low: float, high: float) -> Pairs:
    """Pairs of items (smaller first) together in a share of `draws` from `low`, above 0, to `high`; and the share."""
    parts = components(_chunks(stored, draws), stored.n_items)
    small = parts.sizes <= SMALL
    found = [
        _pairs_in_small_parts(parts.chosen(small), stored, draws, low, high),
        _pairs_in_clusters(np.sort(parts.chosen(~small).items), stored, draws, low, high),
    ]
    left, right, share = (np.concatenate(each) for each in zip(*found, strict=True))
    return left, right, share


def _chunks(stored: StoredDraws, draws: Counts) -> Iterator[Codes]:
    step = max(1, CHUNK_LABELS // max(1, stored.n_items))
    for start in range(0, len(draws), step):
        yield stored.labels_at(draws[start : start + step])


def _pairs_in_small_parts(
    parts: Components, stored: StoredDraws, draws: Counts, low: float, high: float
) -> Pairs:
    sizes = parts.sizes
    counts = np.zeros(int((sizes * (sizes - 1) // 2).sum()), np.int32)
    for chunk in _chunks(stored, draws):
        count_in_parts(chunk, parts.items, parts.bounds, counts)
    share = counts / len(draws)
    chosen = (share >= low) & (share <= high)
    left, right = np.empty((2, int(chosen.sum())), np.int64)
    name_pairs(chosen, parts.items, parts.bounds, left, right)
    return left, right, share[chosen]


@kernel
def count_in_parts(draws: Codes, items: Counts, bounds: Counts, counts: NDArray[np.int32]) -> None:
    """Add to `counts`, pair after pair within part after part, the draws that put the pair together."""
    for draw in range(draws.shape[0]):
        row = draws[draw]
        pair = 0
        for part in range(len(bounds) - 1):
            for second in range(bounds[part] + 1, bounds[part + 1]):
                label = row[items[second]]
                for first in range(bounds[part], second):
                    counts[pair] += row[items[first]] == label
                    pair += 1


@kernel
def name_pairs(chosen: NDArray[np.bool_], items: Counts, bounds: Counts, left: Counts, right: Counts) -> None:
    """The items of the chosen pairs, in the order of `count_in_parts`."""
    pair, filled = 0, 0
    for part in range(len(bounds) - 1):
        for second in range(bounds[part] + 1, bounds[part + 1]):
            for first in range(bounds[part], second):
                if chosen[pair]:
                    left[filled], right[filled] = items[first], items[second]
                    filled += 1
                pair += 1


def _pairs_in_clusters(items: Counts, stored: StoredDraws, draws: Counts, low: float, high: float) -> Pairs:
    """By sparse products; `items` are ascending."""
    from scipy.sparse import csr_array, triu

    if len(items) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
    counts: Any = None
    ones, columns = np.ones(len(items), np.int32), np.arange(len(items))
    for chunk in _chunks(stored, draws):
        for labels in chunk[:, items]:
            member = csr_array((ones, (labels, columns)), shape=(int(labels.max()) + 1, len(items)))
            pairs = triu(member.T @ member, k=1)
            counts = pairs if counts is None else counts + pairs
    found = counts.tocoo()
    share = found.data / len(draws)
    chosen = (share >= low) & (share <= high)
    return items[found.row[chosen]], items[found.col[chosen]], share[chosen]
