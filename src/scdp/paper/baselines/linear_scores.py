"""Linear scores of pairs: pair features enter, binary features (in which interval each lies) and their scores leave.

Both direct systems of the literature score a pair by w . phi(pair) with phi of simple indicators. Here each feature is
cut into intervals at quantiles of training pairs, a missing value is an interval of its own, and w is a table
(features, intervals); a sum over features replaces the long product.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp._typing import Features, Floats, Integers
from scdp.compare.distances import PairLayout
from scdp.paper.baselines.pairs import Compared, PairTable, pair_features, sample_pairs
from scdp.paper.baselines.surface import Rows


@kernel
def merge_greedily(scores: Any) -> Any:
    """`scores` (n, n) is symmetric and is overwritten. Integers are numbers of some member."""
    n = scores.shape[0]
    labels = np.arange(n)
    alive = np.ones(n, dtype=np.bool_)
    partner = np.zeros(n, dtype=np.int64)
    for i in range(n):
        partner[i] = best_partner(scores, alive, i)
    while True:
        best, first = 0.0, -1
        for i in range(n):
            if alive[i] and partner[i] >= 0 and scores[i, partner[i]] > best:
                best, first = scores[i, partner[i]], i
        if first < 0:
            return labels
        second = partner[first]
        alive[second] = False
        for i in range(n):
            if labels[i] == second:
                labels[i] = first
            scores[first, i] += scores[second, i]
            scores[i, first] = scores[first, i]
        partner[first] = best_partner(scores, alive, first)
        for i in range(n):
            # Only the scores with the merged cluster changed.
            if alive[i] and i != first:
                if partner[i] == first or partner[i] == second:
                    partner[i] = best_partner(scores, alive, i)
                elif partner[i] < 0 or scores[i, first] > scores[i, partner[i]]:
                    partner[i] = first


@kernel
def best_partner(scores: Any, alive: Any, i: int) -> Any:
    """The living cluster other than i with the highest score, or -1 if there is none."""
    found = -1
    for j in range(scores.shape[0]):
        if alive[j] and j != i and (found < 0 or scores[i, j] > scores[i, found]):
            found = j
    return found


@kernel
def move_items(scores: Any, labels: Any, n_rounds: int) -> Any:
    """Move each item to the cluster (or a new one) where its total is highest, until nothing moves."""
    n = scores.shape[0]
    sizes = np.zeros(n, dtype=np.int64)
    for i in range(n):
        sizes[labels[i]] += 1
    totals = np.zeros(n)
    for _ in range(n_rounds):
        moved = False
        for i in range(n):
            totals[:] = 0.0
            for j in range(n):
                if j != i:
                    totals[labels[j]] += scores[i, j]
            sizes[labels[i]] -= 1
            best, where = totals[labels[i]] + 1e-9, labels[i]
            for label in range(n):
                # An empty label has total 0: the item alone.
                if totals[label] > best:
                    best, where = totals[label], label
            moved = moved or where != labels[i]
            labels[i] = where
            sizes[where] += 1
        if not moved:
            break
    return labels


def correlation_clustering(scores: Floats, n_rounds: int = 20) -> NDArray[np.int64]:
    """Greedy merges, then moves of single items; the diagonal is not looked at."""
    merged = merge_greedily(scores.copy())
    return np.asarray(move_items(scores, merged, n_rounds), dtype=np.int64)


Codes = NDArray[np.uint8]
Weights = NDArray[np.float64]
N_INTERVALS = 10
QUANTILE_PAIRS = 20_000


@dataclass(frozen=True, eq=False)
class Intervals:
    """`edges` are the inner limits of each feature's intervals, ascending; the last interval is "missing"."""

    edges: tuple[NDArray[np.float32], ...]

    @classmethod
    def of(cls, features: Features, same: NDArray[np.bool_], rng: np.random.Generator) -> Intervals:
        """Quantiles of as many pairs of one cluster as of two, so that both ends are resolved."""
        chosen = sample_pairs(np.arange(len(same)), same, QUANTILE_PAIRS, QUANTILE_PAIRS, rng)
        most = int(min(np.count_nonzero(same[chosen]), np.count_nonzero(~same[chosen])))
        chosen = sample_pairs(chosen, same, most, most, rng) if most else chosen
        shares = np.linspace(0, 1, N_INTERVALS + 1)[1:-1]
        return cls(tuple(_edges(column[~np.isnan(column)], shares) for column in features[chosen].T))

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.edges), N_INTERVALS + 1

    def codes(self, features: Features) -> Codes:
        out = np.empty(features.shape, dtype=np.uint8)
        for place, edges in enumerate(self.edges):
            column = features[:, place]
            found = np.searchsorted(edges, column, side="left")
            out[:, place] = np.where(np.isnan(column), N_INTERVALS, found)
        return out


def _edges(column: NDArray[np.float32], shares: NDArray[np.float64]) -> NDArray[np.float32]:
    return np.unique(np.quantile(column, shares).astype(np.float32)) if len(column) else column


def score_pairs(weights: Weights, codes: Codes) -> NDArray[np.float64]:
    """w . phi for each pair: the sum over features of the weight of its interval."""
    total = np.zeros(len(codes))
    for feature, table in enumerate(weights):
        total += table[codes[:, feature]]
    return total


def sum_features(codes: Codes, amounts: NDArray[np.float64], shape: tuple[int, int]) -> Weights:
    """The sum over pairs of amount times phi."""
    return np.stack(
        [np.bincount(codes[:, feature], weights=amounts, minlength=shape[1]) for feature in range(shape[0])]
    )


@dataclass(frozen=True, eq=False)
class Sheet:
    """The pairs of one document: a square of places in the table of all pairs, and which are of one cluster."""

    positions: Integers
    same: NDArray[np.bool_]
    size: int


def sheets(table: PairTable, labels: Integers, chunk: int, rng: np.random.Generator) -> list[Sheet]:
    """The documents; where there is but one, whole clusters in random order, about `chunk` items together."""
    layout = table.layout
    if len(layout.labels) > 1:
        rows = [layout.members(group) for group in range(len(layout.labels))]
    else:
        rows = _chunks(labels, chunk, rng)
    return [_sheet(table, members) for members in rows if len(members) > 1]


def endless_sheets(
    table: PairTable, labels: Integers, chunk: int, rng: np.random.Generator
) -> Iterator[Sheet]:
    """All documents in random order, again and again; nothing where no document has a pair."""
    fixed = sheets(table, labels, chunk, rng) if len(table.layout.labels) > 1 else None
    while True:
        documents = sheets(table, labels, chunk, rng) if fixed is None else fixed
        if not documents:
            return
        yield from (documents[place] for place in rng.permutation(len(documents)))


def _chunks(labels: Integers, chunk: int, rng: np.random.Generator) -> list[Rows]:
    order = rng.permutation(int(labels.max()) + 1)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    sizes = np.bincount(labels, minlength=len(order))[order]
    number = np.minimum((np.cumsum(sizes) - sizes) // chunk, max(len(labels) // chunk - 1, 0))
    return [np.flatnonzero(number[place[labels]] == part) for part in np.unique(number)]


def _sheet(table: PairTable, rows: Rows) -> Sheet:
    _, positions = table.within(np.sort(rows))
    return Sheet(positions, table.same[positions], len(rows))


def square_of(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """The scores of one document's pairs as a symmetric table."""
    from scipy.spatial.distance import squareform

    return np.asarray(squareform(scores, checks=False))


def mark_together(labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    """For each pair of items, in the order of a layout, whether they are together."""
    left, right = np.triu_indices(len(labels), 1)
    return np.asarray(labels[left] == labels[right])


def cluster_groups(layout: PairLayout, scores: NDArray[np.float64]) -> Integers:
    """Correlation clustering of each group by the scores of its pairs."""
    from scdp.paper.baselines.linear_scores import correlation_clustering

    labels = np.zeros(layout.n_records, dtype=np.int64)
    for group, size in enumerate(layout.sizes.tolist()):
        if size > 1:
            block = scores[layout.starts[group] : layout.starts[group + 1]]
            labels[layout.members(group)] = correlation_clustering(square_of(block))
    return labels


def prepare_pairs(
    items: Compared, labels: Integers, rng: np.random.Generator
) -> tuple[PairTable, Intervals, Codes]:
    """What both systems learn from."""
    table = PairTable.of(items.layout, labels)
    table.need_both_kinds("The scores of pairs")
    features = pair_features(items)
    intervals = Intervals.of(features, table.same, rng)
    return table, intervals, intervals.codes(features)
