"""Sorted lists of tokens that are merged, compiled: what two lists share, by weight."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp._typing import Integers

Ids = NDArray[np.int32]
Rows = NDArray[np.int64]
Weights = NDArray[np.float64]


@kernel
def fill_shared(
    ids: Ids, starts: Integers, weights: Weights, left: Rows, right: Rows, out: NDArray[np.float64]
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
    ids: Ids, starts: Integers, weights: Weights, left: Rows, right: Rows, out: NDArray[np.float64]
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
    starts: Integers,
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


@dataclass(frozen=True)
class Frequencies:
    """How many of `n_records` records (those with a value) have each token; one that is not listed counts as 1.

    Where the records at hand are a part of all, give those of all; or those of a country for names.
    """

    n_records: int
    counts: Mapping[Hashable, int]

    def of(self, tokens: Sequence[Hashable]) -> NDArray[np.float64]:
        """The counts of tokens, at least 1 and at most `n_records`."""
        found = np.fromiter((self.counts.get(token, 1) for token in tokens), np.float64, len(tokens))
        return np.clip(found, 1, max(self.n_records, 1))


@dataclass(frozen=True)
class Tokens:
    """The tokens of a vocabulary: value v has `ids[starts[v]:starts[v + 1]]`, ascending, each once.

    `texts` are the tokens by id, `counts` how many of `n_records` records have each. With `whole`, the token of a
    value is the value itself.
    """

    texts: list[Any]
    ids: NDArray[np.int32]
    starts: Integers
    counts: NDArray[np.float64]
    n_records: int
    whole: bool = False

    @classmethod
    def of(
        cls,
        values: Sequence[Any],
        n_of_value: NDArray[np.int64],
        tokens_of: Callable[[Any], Iterable[Any]] | None,
        frequencies: Frequencies | None = None,
    ) -> Tokens:
        """`n_of_value` is how many records have each value; without `tokens_of` the value is the only token."""
        whole = tokens_of is None
        if tokens_of is None:
            texts, ids = list(values), np.arange(len(values), dtype=np.int32)
            starts = np.arange(len(values) + 1, dtype=np.int64)
        else:
            texts, ids, starts = _listed([sorted(set(tokens_of(value))) for value in values])
        n_records = int(n_of_value.sum())
        if frequencies is not None:
            return cls(texts, ids, starts, frequencies.of(texts), max(frequencies.n_records, 1), whole)
        weights = np.repeat(n_of_value, np.diff(starts))
        counts = np.bincount(ids, weights=weights, minlength=len(texts))
        return cls(texts, ids, starts, np.maximum(counts, 1.0), max(n_records, 1), whole)

    @property
    def nats(self) -> NDArray[np.float64]:
        """What sharing each token tells."""
        return np.log(self.n_records / self.counts)

    @property
    def frequencies(self) -> Frequencies:
        """The counts by token, to be supplied elsewhere."""
        counts = self.counts.astype(np.int64).tolist()
        return Frequencies(self.n_records, dict(zip(self.texts, counts, strict=True)))

    def shared_nats(self, left: Integers, right: Integers, forms: bool = False) -> NDArray[np.float64]:
        """The nats of the tokens that the values left[p] and right[p] share: their sum, or with `forms` the largest."""
        if self.whole:
            return np.where(left == right, self.nats[left], 0.0)
        out = np.empty(len(left))
        fill = fill_largest_shared if forms else fill_shared
        fill(self.ids, self.starts, self.nats, left, right, out)
        return np.maximum(out, 0.0)


def _listed(tokens: Sequence[Sequence[Any]]) -> tuple[list[Any], NDArray[np.int32], Integers]:
    """Distinct tokens in ascending order, the ids of each list one after the other, and where each list starts."""
    texts = sorted({token for each in tokens for token in each})
    places = {token: place for place, token in enumerate(texts)}
    starts = np.zeros(len(tokens) + 1, dtype=np.int64)
    np.cumsum([len(each) for each in tokens], out=starts[1:])
    ids = np.fromiter((places[token] for each in tokens for token in each), np.int32, int(starts[-1]))
    return texts, ids, starts
