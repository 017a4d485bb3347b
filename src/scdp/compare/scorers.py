"""Scorers: a vocabulary of distinct values goes in once; float32 distances of blocks or pairs come out."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Features, Integers
from scdp.errors import InputError

if TYPE_CHECKING:
    from scdp.compare.prepared import Prepared

# Below this many pairs starting threads costs more than it saves.
PAIRS_WORTH_A_THREAD = 20_000
# Blocks whose scoring needs more memory than their result are made in parts of about so many pairs.
PAIRS_AT_ONCE = 1 << 18


class Scorer(Protocol):
    """Distances between entries of one vocabulary, named by their positions in it."""

    def block(self, rows: Integers, columns: Integers | None, workers: int) -> Features:
        """Shape (rows, columns); without columns, rows against rows."""

    def pairs(self, left: Integers, right: Integers, workers: int) -> Features:
        """Shape (pairs,)."""


def thread_count(workers: int, n_pairs: int) -> int:
    """How many threads so many pairs are worth; `workers` below 1 means every core."""
    if n_pairs < PAIRS_WORTH_A_THREAD:
        return 1
    return workers if workers > 0 else os.cpu_count() or 1


def by_rows(rows: Integers, columns: Integers | None, score: Callable[[Integers, Integers], Features]) -> Features:
    """A block made of parts `score(some rows, columns)`; without columns, each half of it once."""
    others = rows if columns is None else columns
    out = np.empty((len(rows), len(others)), dtype=np.float32)
    step = max(1, PAIRS_AT_ONCE // max(len(others), 1))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        first = start if columns is None else 0
        out[part, first:] = score(rows[part], others[first:])
        if columns is None:
            out[first:, part] = out[part, first:].T
    return out


class PairScorer(ABC):
    """Makes blocks out of pairs, for scorers that have no faster way."""

    @abstractmethod
    def pairs(self, left: Integers, right: Integers, workers: int) -> Features: ...

    def block(self, rows: Integers, columns: Integers | None, workers: int) -> Features:
        def score(some: Integers, others: Integers) -> Features:
            left, right = np.repeat(some, len(others)), np.tile(others, len(some))
            return self.pairs(left, right, workers).reshape(len(some), len(others))

        return by_rows(rows, columns, score)


class RapidFuzzScorer:
    """Any of RapidFuzz's normalised distances, computed there."""

    def __init__(self, vocabulary: Sequence[str], measure: Callable[..., float]) -> None:
        self._texts = np.array([*vocabulary, None], dtype=object)[:-1]
        self._measure = measure

    def block(self, rows: Integers, columns: Integers | None, workers: int) -> Features:
        from rapidfuzz.process import cdist

        queries = self._texts[rows].tolist()
        # The very same list tells RapidFuzz that the block is symmetric: it then scores each pair once.
        choices = queries if columns is None else self._texts[columns].tolist()
        threads = thread_count(workers, len(queries) * len(choices))
        return cdist(queries, choices, scorer=self._measure, dtype=np.float32, workers=threads)

    def pairs(self, left: Integers, right: Integers, workers: int) -> Features:
        from rapidfuzz.process import cpdist

        queries, choices = self._texts[left].tolist(), self._texts[right].tolist()
        threads = thread_count(workers, len(queries))
        return cpdist(queries, choices, scorer=self._measure, dtype=np.float32, workers=threads)


def rapidfuzz_scorer(measure: str, prepared: Prepared) -> RapidFuzzScorer:
    """The scorer of texts by one of RapidFuzz's measures, by its name."""
    from rapidfuzz import distance

    return RapidFuzzScorer(prepared.vocabulary, getattr(distance, measure).normalized_distance)


class SubstringScorer(PairScorer):
    """1 - longest common substring / longer length, compiled."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        from scdp.compare.kernels import encode

        self._codes, self._starts = encode(list(vocabulary))

    def pairs(self, left: Integers, right: Integers, workers: int) -> Features:
        from scdp.compare.kernels import fill_pairs

        out = np.empty(len(left), dtype=np.float32)
        # Interleaved shares: in a triangle of pairs, neighbouring rows cost about the same.
        threads = thread_count(workers, len(left))
        shares = [slice(start, None, threads) for start in range(threads)]

        def score(share: slice) -> None:
            fill_pairs(self._codes, self._starts, left[share], right[share], out[share])

        if threads == 1:
            score(shares[0])
        else:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(score, shares))
        return out


# Differences beyond the farthest are all the same: as far apart as numbers can be, with a square that is finite.
LARGEST_NUMBER, FARTHEST = 1e300, 1e15


class NumberScorer:
    """Absolute difference divided by a scale."""

    def __init__(self, vocabulary: Sequence[float] | NDArray[np.float64], scale: float) -> None:
        with np.errstate(over="ignore"):
            numbers = np.asarray(vocabulary, dtype=np.float64) / scale
        self.numbers = np.clip(numbers, -LARGEST_NUMBER, LARGEST_NUMBER)

    def block(self, rows: Integers, columns: Integers | None, workers: int) -> Features:
        others = rows if columns is None else columns
        return self._distance(self.numbers[rows][:, None] - self.numbers[others])

    def pairs(self, left: Integers, right: Integers, workers: int) -> Features:
        return self._distance(self.numbers[left] - self.numbers[right])

    @staticmethod
    def _distance(difference: NDArray[np.float64]) -> Features:
        return np.minimum(np.abs(difference), FARTHEST).astype(np.float32)


class ExactScorer:
    """0 where the values are the same, else 1; a vocabulary has no value twice."""

    def block(self, rows: Integers, columns: Integers | None, workers: int) -> Features:
        others = rows if columns is None else columns
        return (rows[:, None] != others).astype(np.float32)

    def pairs(self, left: Integers, right: Integers, workers: int) -> Features:
        return (left != right).astype(np.float32)


class TokenSetScorer:
    """Jaccard distance between the sets of words: 1 - shared / all."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._words = incidence([text.split() for text in vocabulary])
        self._sizes = np.asarray(self._words.sum(axis=1), dtype=np.float32).ravel()

    def block(self, rows: Integers, columns: Integers | None, workers: int) -> Features:
        def score(some: Integers, others: Integers) -> Features:
            shared = (self._words[some] @ self._words[others].T).toarray()
            return self._distance(shared, self._sizes[some][:, None], self._sizes[others])

        return by_rows(rows, columns, score)

    def pairs(self, left: Integers, right: Integers, workers: int) -> Features:
        shared = np.asarray(self._words[left].multiply(self._words[right]).sum(axis=1)).ravel()
        return self._distance(shared, self._sizes[left], self._sizes[right])

    @staticmethod
    def _distance(shared: NDArray[Any], left: Features, right: Features) -> Features:
        shared = shared.astype(np.float32)
        return np.asarray(1.0 - shared / (left + right - shared), dtype=np.float32)


def incidence(sets: Sequence[Sequence[str]], known: dict[str, int] | None = None) -> Any:
    """A sparse 0/1 matrix (sets, members); `known` maps members to columns and is filled as they appear."""
    from scipy.sparse import csr_array

    position = {} if known is None else known
    distinct = [{position.setdefault(member, len(position)) for member in members} for members in sets]
    columns = np.array([column for members in distinct for column in sorted(members)], dtype=np.int64)
    starts = np.zeros(len(sets) + 1, dtype=np.int64)
    np.cumsum([len(members) for members in distinct], out=starts[1:])
    ones = np.ones(len(columns), dtype=np.int32)
    return csr_array((ones, columns, starts), shape=(len(sets), max(len(position), 1)))


# Cosines that differ from one by less are those of one direction.
SAME_DIRECTION = 1e-9
# So many coordinates are multiplied at a time.
COORDINATES_AT_ONCE = 1 << 20


class CosineScorer(PairScorer):
    """1 - cosine of the angle between two vectors; 1 beyond a right angle, and for vectors of different lengths."""

    def __init__(self, vocabulary: Sequence[tuple[float, ...]]) -> None:
        self._length = np.array([len(vector) for vector in vocabulary], dtype=np.int64)
        self._unit = np.zeros((len(vocabulary), self._length.max(initial=1)))
        for row, vector in enumerate(vocabulary):
            largest = max(map(abs, vector))
            scaled = np.array(vector) / largest
            self._unit[row, : len(vector)] = scaled / np.sqrt((scaled * scaled).sum())

    def pairs(self, left: Integers, right: Integers, workers: int) -> Features:
        out = np.empty(len(left), dtype=np.float32)
        step = max(COORDINATES_AT_ONCE // self._unit.shape[1], 1)
        for start in range(0, len(left), step):
            one, other = left[start : start + step], right[start : start + step]
            distance = 1.0 - (self._unit[one] * self._unit[other]).sum(axis=1)
            distance = np.where(distance < SAME_DIRECTION, 0.0, np.minimum(distance, 1.0))
            out[start : start + step] = np.where(self._length[one] == self._length[other], distance, 1.0)
        return out


def parse_vector(text: str) -> tuple[float, ...] | None:
    """The numbers of a vector, such as "[0.1, 0.2]" or "0.1 0.2"; None if there are none, or all are 0.

    Example
    -------
    >>> parse_vector("[0.1, -2e-1]"), parse_vector("0 0"), parse_vector("none")
    ((0.1, -0.2), None, None)
    """
    try:
        found = tuple(map(float, text.strip(" []()").replace(",", " ").replace(";", " ").split()))
    except ValueError:
        return None
    return found if any(found) and np.isfinite(found).all() else None


class FunctionScorer(PairScorer):
    """A user's function of two texts, called from Python for each pair: the slow path."""

    def __init__(self, vocabulary: Sequence[str], name: str, function: Callable[[str, str], float]) -> None:
        self._texts, self._name, self._function = vocabulary, name, function

    def pairs(self, left: Integers, right: Integers, workers: int) -> Features:
        scores = map(self._score, left.tolist(), right.tolist())
        return np.fromiter(scores, dtype=np.float32, count=len(left))

    def _score(self, left: int, right: int) -> float:
        a, b = self._texts[left], self._texts[right]
        score = float(self._function(a, b))
        if not 0.0 <= score < float("inf"):
            raise InputError(
                f"comparison {self._name!r} gave {score} for {a[:40]!r} and {b[:40]!r}: "
                "a distance must be a finite number, zero or more"
            )
        return score


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

    def block(self, rows: Integers, columns: Integers | None, workers: int) -> Features:
        return by_rows(rows, columns, self._score)

    def _score(self, rows: Integers, columns: Integers) -> Features:
        of_rows = (self._names[rows] @ self._near[columns].T).toarray()
        of_columns = (self._near[rows] @ self._names[columns].T).toarray()
        return _distance(np.minimum(of_rows, of_columns))

    def pairs(self, left: Integers, right: Integers, workers: int) -> Features:
        of_left = self._names[left].multiply(self._near[right]).sum(axis=1)
        of_right = self._near[left].multiply(self._names[right]).sum(axis=1)
        return _distance(np.minimum(np.asarray(of_left).ravel(), np.asarray(of_right).ravel()))


def _distance(shared: NDArray[Any]) -> Features:
    return (1.0 / (1.0 + shared)).astype(np.float32)


def in_threads(
    fill: Callable[[Integers, Integers, NDArray[np.float64]], None], left: Integers, right: Integers, workers: int
) -> NDArray[np.float64]:
    """What `fill(left, right, out)` gives for all pairs, those of each thread side by side."""
    out = np.empty(len(left), dtype=np.float64)
    n_threads = thread_count(workers, len(left))
    if n_threads == 1:
        fill(left, right, out)
        return out
    ends = np.linspace(0, len(left), n_threads + 1).astype(int)
    parts = [slice(start, stop) for start, stop in pairwise(ends)]
    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(lambda part: fill(left[part], right[part], out[part]), parts))
    return out
