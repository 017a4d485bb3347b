"""GraphPartition: pair scores learned by an averaged perceptron over whole clusterings (McCallum and Wellner 2004)."""

from __future__ import annotations

from itertools import islice

import numpy as np

from scdp.folds import held_out_sets
from scdp.metrics import f_score
from scdp.paper.baselines.linear_scores import (
    Codes,
    Sheet,
    Weights,
    cluster_groups,
    endless_sheets,
    joined,
    prepared,
    score_pairs,
    square_of,
    sum_features,
)
from scdp.paper.baselines.pairs import Compared, PairBaseline, pair_features, within_groups
from scdp.paper.baselines.progress import Steps
from scdp.paper.baselines.surface import Labels
from scdp.table.spec import Spec

CHUNK = 200


class GraphPartition(PairBaseline):
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

    def _learn_pairs(self, items: Compared, labels: Labels) -> None:
        steps = Steps("GraphPartition", 1 + (4 if len(self.updates) > 1 else 0), self.verbose)
        self.n_updates_ = (
            self._best_number(items, labels, steps) if len(self.updates) > 1 else self.updates[0]
        )
        self.weights_ = self._train(items, labels, (self.n_updates_,))[self.n_updates_]
        steps.done("all training pairs")

    def _best_number(self, items: Compared, labels: Labels, steps: Steps) -> int:
        folds = held_out_sets(labels, items.layout.group, 4, np.random.default_rng(self.random_state))
        scores = dict.fromkeys(self.updates, 0.0)
        for number, held in enumerate(folds):
            rest, there = np.setdiff1d(np.arange(len(labels)), held), items.take(held)
            gold = within_groups(there.layout, labels[held])
            means = self._train(items.take(rest), labels[rest], self.updates)
            for stop, weights in means.items():
                self.weights_ = weights
                scores[stop] += f_score(within_groups(there.layout, self._cluster_pairs(there)), gold)
            steps.done(f"fold {number + 1}")
        return max(scores, key=scores.__getitem__)

    def _train(self, items: Compared, labels: Labels, stops: tuple[int, ...]) -> dict[int, Weights]:
        """The mean of w after each number of updates."""
        rng = np.random.default_rng(self.random_state)
        table, self.intervals_, codes = prepared(items, labels, rng)
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

    def _cluster_pairs(self, items: Compared) -> Labels:
        codes = self.intervals_.codes(pair_features(items))
        return cluster_groups(items.layout, score_pairs(self.weights_, codes))


def perceptron_update(weights: Weights, document: Sheet, codes: Codes) -> tuple[Weights, float]:
    """The mean of phi(gold) - phi(found) over pairs, and the share of pairs on which the two differ."""
    from scdp.paper.baselines.correlation import correlation_clustering

    mine = codes[document.positions]
    found = joined(correlation_clustering(square_of(score_pairs(weights, mine))))
    amounts = (document.same.astype(np.float64) - found) / len(found)
    return sum_features(mine, amounts, weights.shape), float(np.mean(document.same != found))
