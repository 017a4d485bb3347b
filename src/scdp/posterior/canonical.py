"""Canonical labels: any ids of clusters enter, the same partition numbered by first appearance leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdp._compile import kernel
from scdp.errors import InputError

Labels = NDArray[np.int32]


@kernel
def number_by_appearance(
    ids: NDArray[Any], first: int, numbers: NDArray[np.int32], out: NDArray[np.int32]
) -> int:
    """Write canonical labels of `ids` to `out` and return how many clusters there are.

    `numbers` is scratch indexed by id - first: it must hold -1 on entry and holds -1 again on return.
    """
    count = 0
    for item in range(len(ids)):
        slot = ids[item] - first
        if numbers[slot] < 0:
            numbers[slot] = count
            count += 1
        out[item] = numbers[slot]
    for item in range(len(ids)):
        numbers[ids[item] - first] = -1
    return count


def number_by_appearance_plain(ids: ArrayLike) -> Labels:
    """The slow twin of the kernel."""
    numbers: dict[int, int] = {}
    return np.array([numbers.setdefault(one, len(numbers)) for one in np.asarray(ids).tolist()], np.int32)


def canonical_labels(ids: ArrayLike) -> Labels:
    """The partition given by any integer ids, with clusters numbered in order of first appearance."""
    dense, first, span = dense_ids(as_integers(ids))
    out = np.empty(len(dense), np.int32)
    number_by_appearance(dense, first, np.full(span, -1, np.int32), out)
    return out


def as_integers(ids: ArrayLike) -> NDArray[Any]:
    """A contiguous vector of cluster ids, refused unless its numbers are whole."""
    array = np.asarray(ids)
    if array.ndim != 1:
        raise InputError(f"cluster labels must be one list of integers, not an array of shape {array.shape}")
    if array.dtype.kind not in "iub" and len(array):
        raise InputError(f"cluster labels must be integers, not {array.dtype}: number the clusters first")
    # Labels of 32 bits are taken as they are: a copy of each draw of a million items would be for nothing.
    return np.ascontiguousarray(array, dtype=np.int32 if array.dtype == np.int32 else np.int64)


def dense_ids(ids: NDArray[Any]) -> tuple[NDArray[Any], int, int]:
    """Ids, the smallest of them and their span; renumbered when the span is too wide for a scratch table."""
    if len(ids) == 0:
        return ids, 0, 0
    first, last = int(ids.min()), int(ids.max())
    if last - first >= 4 * len(ids) + 1024:
        _, ids = np.unique(ids, return_inverse=True)
        ids, first, last = ids.astype(np.int64), 0, int(ids.max())
    return ids, first, last - first + 1
