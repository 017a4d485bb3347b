"""How rare values and tokens are: distinct values and each record's place among them enter, nats leave."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Integers

Ids = NDArray[np.int32]
Rows = NDArray[np.int64]
Weights = NDArray[np.float64]


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
            texts, ids, starts = _listed([tuple(tokens_of(value)) for value in values])
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
        from scdp.compare.kernels import fill_largest_shared, fill_shared

        out = np.empty(len(left))
        fill = fill_largest_shared if forms else fill_shared
        fill(self.ids, self.starts, self.nats, left, right, out)
        return np.maximum(out, 0.0)


def _listed(tokens: Sequence[Sequence[Any]]) -> tuple[list[Any], NDArray[np.int32], Integers]:
    """Distinct tokens in ascending order, the ids of each list one after the other, and where each list starts.

    Within a list ids ascend, and each is there once.
    """
    every = list(chain.from_iterable(tokens))
    texts = sorted(set(every))
    places = dict(zip(texts, range(len(texts)), strict=True))
    ids = np.fromiter(map(places.__getitem__, every), np.int64, len(every))
    counts = np.fromiter(map(len, tokens), np.int64, len(tokens))
    if counts.max(initial=0) > 1:
        keys = np.unique(np.repeat(np.arange(len(tokens)), counts) * max(len(texts), 1) + ids)
        ids = keys % max(len(texts), 1)
        counts = np.bincount(keys // max(len(texts), 1), minlength=len(tokens))
    starts = np.zeros(len(tokens) + 1, dtype=np.int64)
    np.cumsum(counts, out=starts[1:])
    return texts, ids.astype(np.int32), starts
