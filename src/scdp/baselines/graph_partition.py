"""GraphPartition: pair scores learned by an averaged perceptron over whole clusterings (McCallum and Wellner 2004)."""

from __future__ import annotations

from itertools import islice

import numpy as np

from scdp.baselines.linear_scores import (
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
from scdp.baselines.pairs import Compared, PairBaseline, pair_features
from scdp.baselines.progress import Steps
from scdp.baselines.surface import Labels
from scdp.specs import Spec

CHUNK = 200


class GraphPartition(PairBaseline):
    """Edges of a complete graph carry w . phi(pair); a clustering scores the sum of the edges inside clusters.

    For each training document in turn (whole clusters, about 200 items at a time, where there are none) the best
    clustering is found approximately by `correlation_clustering`, and w moves towards the pairs it wrongly parts
    and away from those it wrongly joins, by the mean over the document's pairs. The mean of w over the second half
    of the updates is kept. phi says in which interval each feature lies (`linear_scores`). After `fit`: `weights_`,
    and `mistakes_`, the share of wrong pairs at each update.
    """

    def __init__(
        self, spec: Spec | None = None, n_updates: int = 2000, random_state: int = 0, verbose: bool = False
    ) -> None:
        self.spec = spec
        self.n_updates = n_updates
        self.random_state = random_state
        self.verbose = verbose

    def _learn_pairs(self, items: Compared, labels: Labels) -> None:
        rng = np.random.default_rng(self.random_state)
        table, self.intervals_, codes = prepared(items, labels, rng)
        weights, total = np.zeros(self.intervals_.shape), np.zeros(self.intervals_.shape)
        wrong = np.empty(self.n_updates)
        steps = Steps("GraphPartition", 10, self.verbose)
        for number, document in enumerate(islice(endless_sheets(table, labels, CHUNK, rng), self.n_updates)):
            update, wrong[number] = perceptron_update(weights, document, codes)
            weights += update
            if number >= self.n_updates // 2:
                total += weights
            if (number + 1) * 10 // self.n_updates > number * 10 // self.n_updates:
                steps.done(f"update {number + 1}, {wrong[number]:.4f} of pairs wrong")
        self.weights_ = total / (self.n_updates - self.n_updates // 2)
        self.mistakes_ = wrong

    def _cluster_pairs(self, items: Compared) -> Labels:
        codes = self.intervals_.codes(pair_features(items))
        return cluster_groups(items.layout, score_pairs(self.weights_, codes))


def perceptron_update(weights: Weights, document: Sheet, codes: Codes) -> tuple[Weights, float]:
    """The mean of phi(gold) - phi(found) over pairs, and the share of pairs on which the two differ."""
    from scdp.baselines.correlation import correlation_clustering

    mine = codes[document.positions]
    found = joined(correlation_clustering(square_of(score_pairs(weights, mine))))
    amounts = (document.same.astype(np.float64) - found) / len(found)
    return sum_features(mine, amounts, weights.shape), float(np.mean(document.same != found))
