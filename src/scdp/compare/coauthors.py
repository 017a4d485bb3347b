"""Shared coauthors: lists of names go in, 1 / (1 + number of names they share) comes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp.compare.scorers import Floats, Integers, by_rows, incidence, thread_count

NAMES_AT_ONCE = 256


def matching_names(names: Sequence[str], threshold: float, workers: int) -> Any:
    """A sparse 0/1 matrix (names, names): normalised edit distance below the threshold, or the same name."""
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cdist
    from scipy.sparse import csr_array

    rows: list[NDArray[Any]] = [np.arange(len(names))]
    columns: list[NDArray[Any]] = [np.arange(len(names))]
    for start in range(0, len(names), NAMES_AT_ONCE):
        part = names[start : start + NAMES_AT_ONCE]
        distances = cdist(
            part,
            names,
            scorer=Levenshtein.normalized_distance,
            score_cutoff=threshold,
            dtype=np.float64,
            workers=thread_count(workers, len(part) * len(names)),
        )
        near = np.nonzero(distances < threshold)
        rows.append(near[0] + start)
        columns.append(near[1])
    row, column = np.concatenate(rows), np.concatenate(columns)
    size = max(len(names), 1)
    return csr_array((np.ones(len(row), dtype=np.int32), (row, column)), shape=(size, size))


class SharedNamesScorer:
    """Two lists share as many names as have a match in the other list, counted from the side with fewer."""

    def __init__(self, vocabulary: Sequence[tuple[str, ...]], threshold: float) -> None:
        known: dict[str, int] = {}
        self._names = incidence(vocabulary, known)
        near = (self._names @ matching_names(list(known), threshold, workers=-1)).tocsr()
        near.data[:] = 1
        self._near = near

    def block(self, rows: Integers, columns: Integers | None, workers: int) -> Floats:
        return by_rows(rows, columns, self._score)

    def _score(self, rows: Integers, columns: Integers) -> Floats:
        of_rows = (self._names[rows] @ self._near[columns].T).toarray()
        of_columns = (self._near[rows] @ self._names[columns].T).toarray()
        return _distance(np.minimum(of_rows, of_columns))

    def pairs(self, left: Integers, right: Integers, workers: int) -> Floats:
        of_left = self._names[left].multiply(self._near[right]).sum(axis=1)
        of_right = self._near[left].multiply(self._names[right]).sum(axis=1)
        return _distance(np.minimum(np.asarray(of_left).ravel(), np.asarray(of_right).ravel()))


def _distance(shared: NDArray[Any]) -> Floats:
    return (1.0 / (1.0 + shared)).astype(np.float32)
