"""Sorted lists of tokens that are merged, compiled: what two lists share, by weight."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel

Ids = NDArray[np.int32]
Starts = NDArray[np.int64]
Rows = NDArray[np.int64]
Weights = NDArray[np.float64]


@kernel
def fill_shared(
    ids: Ids, starts: Starts, weights: Weights, left: Rows, right: Rows, out: NDArray[np.float64]
) -> None:
    """out[p] = the sum of the weights of the ids that lists left[p] and right[p] share; ids ascend in a list."""
    for p in range(len(left)):
        i, j = starts[left[p]], starts[right[p]]
        end_i, end_j = starts[left[p] + 1], starts[right[p] + 1]
        total = 0.0
        while i < end_i and j < end_j:
            a, b = ids[i], ids[j]
            if a == b:
                total += weights[a]
            i += a <= b
            j += b <= a
        out[p] = total


@kernel
def fill_largest_shared(
    ids: Ids, starts: Starts, weights: Weights, left: Rows, right: Rows, out: NDArray[np.float64]
) -> None:
    """out[p] = the largest weight of an id that lists left[p] and right[p] share; -1 where they share none."""
    for p in range(len(left)):
        i, j = starts[left[p]], starts[right[p]]
        end_i, end_j = starts[left[p] + 1], starts[right[p] + 1]
        largest = -1.0
        while i < end_i and j < end_j:
            a, b = ids[i], ids[j]
            if a == b:
                largest = max(largest, weights[a])
            i += a <= b
            j += b <= a
        out[p] = largest


@kernel
def fill_shared_codes(
    ids: Ids,
    starts: Starts,
    rarity: Weights,
    strong: NDArray[np.bool_],
    left: Rows,
    right: Rows,
    out: NDArray[np.float64],
) -> None:
    """out[p] = 0.5 (1 - rarest shared) + 0.3 x the less rare of two that are not; 0.6 and more where none is shared."""
    for p in range(len(left)):
        i, j = starts[left[p]], starts[right[p]]
        end_i, end_j = starts[left[p] + 1], starts[right[p] + 1]
        shared, own, other = -1.0, 0.0, 0.0
        while i < end_i or j < end_j:
            if j == end_j or (i < end_i and ids[i] < ids[j]):
                if strong[ids[i]]:
                    own = max(own, rarity[ids[i]])
                i += 1
            elif i == end_i or ids[j] < ids[i]:
                if strong[ids[j]]:
                    other = max(other, rarity[ids[j]])
                j += 1
            else:
                shared = max(shared, rarity[ids[i]])
                i += 1
                j += 1
        if shared >= 0.0:
            out[p] = 0.5 * (1.0 - shared) + 0.3 * min(own, other)
        else:
            out[p] = 0.6 + 0.4 * min(own, other)
