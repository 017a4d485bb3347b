"""ClusterSVM: a structural support vector machine over correlation clusterings (Finley and Joachims 2005)."""

from __future__ import annotations

from itertools import islice

import numpy as np

from scdp._typing import Integers
from scdp.folds import held_out_sets
from scdp.metrics import f_score
from scdp.paper.baselines.linear_scores import (
    Codes,
    Sheet,
    Weights,
    cluster_groups,
    endless_sheets,
    mark_together,
    prepare_pairs,
    score_pairs,
    square_of,
    sum_features,
)
from scdp.paper.baselines.pairs import Compared, ScoredPairBaseline, pair_features, within_groups
from scdp.paper.baselines.surface import Steps
from scdp.table.spec import Spec

CHUNK = 200
TRIED_C = (1e2, 1e3, 1e4, 1e5)


class ClusterSVM(ScoredPairBaseline):
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
        steps.done("all training pairs")

    def _best_c(self, items: Compared, labels: Integers, steps: Steps) -> float:
        """The C with the best mean F of held-out quarters, after a quarter of the updates."""
        scores = np.zeros(len(TRIED_C))
        folds = held_out_sets(labels, items.layout.group, 4, np.random.default_rng(self.random_state))
        for number, held in enumerate(folds):
            rest = np.setdiff1d(np.arange(len(labels)), held)
            here, there = items.take(rest), items.take(held)
            gold = within_groups(there.layout, labels[held])
            for place, c in enumerate(TRIED_C):
                self._train(here, labels[rest], c, self.n_updates // 4)
                found = within_groups(there.layout, self._cluster_pairs(there))
                scores[place] += f_score(gold, found) / len(folds)
            steps.done(f"C, fold {number + 1}")
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

    def _cluster_pairs(self, items: Compared) -> Integers:
        codes = self.intervals_.codes(pair_features(items))
        return cluster_groups(items.layout, score_pairs(self.weights_, codes))


def most_violating(weights: Weights, document: Sheet, codes: Codes) -> tuple[Weights, float]:
    """The slope and the value of the hinge of one document at `weights`."""
    from scdp.paper.baselines.linear_scores import correlation_clustering

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


class GraphPartition(ScoredPairBaseline):
    """Edges of a complete graph carry w . phi(pair); a clustering scores the sum of the edges inside clusters.

    For each training document in turn (whole clusters, about 200 items at a time, where there are none) the best
    clustering is found approximately by `correlation_clustering`, and w moves towards the pairs it wrongly parts
    and away from those it wrongly joins, by the mean over the document's pairs; the mean of all w is kept. How many
    updates, of `updates`, has the best mean F on held-out quarters of the clusters (or documents). phi says in which
    interval each feature lies (`linear_scores`). After `fit`: `weights_`, `n_updates_`, and `mistakes_`, the share
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
        self.n_updates_ = (
            self._best_number(items, labels, steps) if len(self.updates) > 1 else self.updates[0]
        )
        self.weights_ = self._train(items, labels, (self.n_updates_,))[self.n_updates_]
        steps.done("all training pairs")

    def _best_number(self, items: Compared, labels: Integers, steps: Steps) -> int:
        folds = held_out_sets(labels, items.layout.group, 4, np.random.default_rng(self.random_state))
        scores = dict.fromkeys(self.updates, 0.0)
        for number, held in enumerate(folds):
            rest, there = np.setdiff1d(np.arange(len(labels)), held), items.take(held)
            gold = within_groups(there.layout, labels[held])
            means = self._train(items.take(rest), labels[rest], self.updates)
            for stop, weights in means.items():
                self.weights_ = weights
                scores[stop] += f_score(gold, within_groups(there.layout, self._cluster_pairs(there)))
            steps.done(f"fold {number + 1}")
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

    def _cluster_pairs(self, items: Compared) -> Integers:
        codes = self.intervals_.codes(pair_features(items))
        return cluster_groups(items.layout, score_pairs(self.weights_, codes))


def perceptron_update(weights: Weights, document: Sheet, codes: Codes) -> tuple[Weights, float]:
    """The mean of phi(gold) - phi(found) over pairs, and the share of pairs on which the two differ."""
    from scdp.paper.baselines.linear_scores import correlation_clustering

    mine = codes[document.positions]
    found = mark_together(correlation_clustering(square_of(score_pairs(weights, mine))))
    amounts = (document.same.astype(np.float64) - found) / len(found)
    return sum_features(mine, amounts, weights.shape), float(np.mean(document.same != found))
