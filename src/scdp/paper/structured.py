"""Two direct systems of the literature, which score a pair by w . phi(pair) with phi of simple indicators.

ClusterSVM is a structural support vector machine over correlation clusterings (Finley and Joachims 2005). Each feature
is cut into intervals at quantiles of training pairs, a missing value is an interval of its own, and w is a table
(features, intervals); a sum over features replaces the long product.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp._typing import Features, Floats, Integers
from scdp.compare.distances import PairLayout
from scdp.linkage.training.folds import held_out_sets
from scdp.metrics import f_score
from scdp.paper.surface import (
    Compared,
    PairTable,
    Rows,
    ScoredPairBaseline,
    Steps,
    number_within_groups,
    pair_features,
    sample_pairs,
)
from scdp.table.spec import Spec


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


def endless_sheets(table: PairTable, labels: Integers, chunk: int, rng: np.random.Generator) -> Iterator[Sheet]:
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
    _, positions = table.select_within(np.sort(rows))
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
    labels = np.zeros(layout.n_records, dtype=np.int64)
    for group, size in enumerate(layout.sizes.tolist()):
        if size > 1:
            block = scores[layout.starts[group] : layout.starts[group + 1]]
            labels[layout.members(group)] = correlation_clustering(square_of(block))
    return labels


def prepare_pairs(items: Compared, labels: Integers, rng: np.random.Generator) -> tuple[PairTable, Intervals, Codes]:
    """What both systems learn from."""
    table = PairTable.of(items.layout, labels)
    table.need_both_kinds("The scores of pairs")
    features = pair_features(items)
    intervals = Intervals.of(features, table.same, rng)
    return table, intervals, intervals.codes(features)


class LinearBaseline(ScoredPairBaseline):
    """Clusters each group by correlation clustering of w . phi."""

    intervals_: Intervals
    weights_: Weights
    random_state: int

    def _cluster_pairs(self, items: Compared) -> Integers:
        codes = self.intervals_.codes(pair_features(items))
        return cluster_groups(items.layout, score_pairs(self.weights_, codes))

    def _quarters(self, items: Compared, labels: Integers) -> Iterator[tuple[Compared, Integers, Compared, Integers]]:
        """Four times: what to learn from with its labels, and a quarter of the clusters with theirs to judge by."""
        for held in held_out_sets(labels, items.layout.group, 4, np.random.default_rng(self.random_state)):
            rest, there = np.setdiff1d(np.arange(len(labels)), held), items.take(held)
            yield items.take(rest), labels[rest], there, number_within_groups(there.layout, labels[held])

    def _score_held_out(self, there: Compared, gold: Integers) -> float:
        """The F of what the weights at hand make of items that were held out."""
        return float(f_score(gold, number_within_groups(there.layout, self._cluster_pairs(there))))


CHUNK = 200
TRIED_C = (1e2, 1e3, 1e4, 1e5)


class ClusterSVM(LinearBaseline):
    """min_w  1/2 ||w||^2 + C mean_documents max_c [ loss(c) + w . Psi(c) - w . Psi(gold) ]

    Psi(c) is the sum of phi over the pairs that c puts together, divided by the number of pairs; the loss is the
    share of wrong pairs. Both add up over pairs, so the most violating clustering is a correlation clustering too,
    found approximately; w follows the subgradient with steps 1/t, and the second half of the updates is averaged.
    phi and documents as in GraphPartition. Without `C`, one of 100 to 100000 is taken, by the mean F of held-out
    quarters of the clusters (or documents). After `fit`: `weights_`, `C_`, and `slack_` at each update.
    """

    def __init__(
        self,
        C: float | None = None,
        spec: Spec | None = None,
        n_updates: int = 2000,
        random_state: int = 0,
        verbose: bool = False,
    ) -> None:
        self.C = C
        self.spec = spec
        self.n_updates = n_updates
        self.random_state = random_state
        self.verbose = verbose

    def _learn_pairs(self, items: Compared, labels: Integers) -> None:
        steps = Steps("ClusterSVM", 5 if self.C is None else 1, self.verbose)
        self.C_ = self._best_c(items, labels, steps) if self.C is None else self.C
        self._train(items, labels, self.C_, self.n_updates)
        steps.finish_step("all training pairs")

    def _best_c(self, items: Compared, labels: Integers, steps: Steps) -> float:
        """The C with the best mean F of held-out quarters, after a quarter of the updates."""
        scores = np.zeros(len(TRIED_C))
        for number, (here, known, there, gold) in enumerate(self._quarters(items, labels)):
            for place, c in enumerate(TRIED_C):
                self._train(here, known, c, self.n_updates // 4)
                scores[place] += self._score_held_out(there, gold)
            steps.finish_step(f"C, fold {number + 1}")
        return TRIED_C[int(np.argmax(scores))]

    def _train(self, items: Compared, labels: Integers, c: float, n_updates: int) -> None:
        rng = np.random.default_rng(self.random_state)
        table, self.intervals_, codes = prepare_pairs(items, labels, rng)
        weights, total = np.zeros(self.intervals_.shape), np.zeros(self.intervals_.shape)
        self.slack_ = np.empty(n_updates)
        for number, document in enumerate(islice(endless_sheets(table, labels, CHUNK, rng), n_updates)):
            slope, self.slack_[number] = most_violating(weights, document, codes)
            weights -= (weights + c * slope) / (number + 1)
            if number >= n_updates // 2:
                total += weights
        self.weights_ = total / (n_updates - n_updates // 2)


def most_violating(weights: Weights, document: Sheet, codes: Codes) -> tuple[Weights, float]:
    """The slope and the value of the hinge of one document at `weights`."""
    mine, same = codes[document.positions], document.same
    scores = score_pairs(weights, mine) / len(same)
    cost = 1.0 / len(same)
    # Joining two that belong apart costs, parting two that belong together too: a gain for not joining them.
    augmented = scores + np.where(same, -cost, cost)
    found = mark_together(correlation_clustering(square_of(augmented)))
    amounts = (found.astype(np.float64) - same) / len(same)
    slack = float(cost * np.count_nonzero(found != same) + scores[found].sum() - scores[same].sum())
    if slack <= 0:
        # The search is approximate: the gold clustering itself is always there, with no violation.
        return np.zeros(weights.shape), 0.0
    return sum_features(mine, amounts, weights.shape), slack


class GraphPartition(LinearBaseline):
    """Edges of a complete graph carry w . phi(pair); a clustering scores the sum of the edges inside clusters.

    For each training document in turn (whole clusters, about 200 items at a time, where there are none) the best
    clustering is found approximately by `correlation_clustering`, and w moves towards the pairs it wrongly parts
    and away from those it wrongly joins, by the mean over the document's pairs; the mean of all w is kept. How many
    updates, of `updates`, has the best mean F on held-out quarters of the clusters (or documents). phi says in which
    interval each feature lies (`Intervals`). After `fit`: `weights_`, `n_updates_`, and `mistakes_`, the share
    of wrong pairs at each update.
    """

    def __init__(
        self,
        spec: Spec | None = None,
        updates: tuple[int, ...] = (100, 300, 1000, 2000),
        random_state: int = 0,
        verbose: bool = False,
    ) -> None:
        self.spec = spec
        self.updates = updates
        self.random_state = random_state
        self.verbose = verbose

    def _learn_pairs(self, items: Compared, labels: Integers) -> None:
        steps = Steps("GraphPartition", 1 + (4 if len(self.updates) > 1 else 0), self.verbose)
        self.n_updates_ = self._best_number(items, labels, steps) if len(self.updates) > 1 else self.updates[0]
        self.weights_ = self._train(items, labels, (self.n_updates_,))[self.n_updates_]
        steps.finish_step("all training pairs")

    def _best_number(self, items: Compared, labels: Integers, steps: Steps) -> int:
        scores = dict.fromkeys(self.updates, 0.0)
        for number, (here, known, there, gold) in enumerate(self._quarters(items, labels)):
            for stop, weights in self._train(here, known, self.updates).items():
                self.weights_ = weights
                scores[stop] += self._score_held_out(there, gold)
            steps.finish_step(f"fold {number + 1}")
        return max(scores, key=scores.__getitem__)

    def _train(self, items: Compared, labels: Integers, stops: tuple[int, ...]) -> dict[int, Weights]:
        """The mean of w after each number of updates."""
        rng = np.random.default_rng(self.random_state)
        table, self.intervals_, codes = prepare_pairs(items, labels, rng)
        weights, total = np.zeros(self.intervals_.shape), np.zeros(self.intervals_.shape)
        self.mistakes_ = np.empty(max(stops))
        means = {}
        documents = islice(endless_sheets(table, labels, CHUNK, rng), max(stops))
        for number, document in enumerate(documents):
            update, self.mistakes_[number] = perceptron_update(weights, document, codes)
            weights += update
            total += weights
            if number + 1 in stops:
                means[number + 1] = total / (number + 1)
        return means


def perceptron_update(weights: Weights, document: Sheet, codes: Codes) -> tuple[Weights, float]:
    """The mean of phi(gold) - phi(found) over pairs, and the share of pairs on which the two differ."""
    mine = codes[document.positions]
    found = mark_together(correlation_clustering(square_of(score_pairs(weights, mine))))
    amounts = (document.same.astype(np.float64) - found) / len(found)
    return sum_features(mine, amounts, weights.shape), float(np.mean(document.same != found))
