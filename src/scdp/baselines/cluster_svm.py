"""ClusterSVM: a structural support vector machine over correlation clusterings (Finley and Joachims 2005)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scdp.baselines.folds import held_out_sets
from scdp.baselines.linear_scores import (
    Codes,
    Sheet,
    Weights,
    cluster_groups,
    joined,
    prepared,
    score_pairs,
    sheets,
    square_of,
    sum_features,
)
from scdp.baselines.pairs import Compared, PairBaseline, pair_features, within_groups
from scdp.baselines.progress import Steps
from scdp.baselines.surface import Labels
from scdp.metrics import f_score
from scdp.specs import Spec

CHUNK = 200
TRIED_C = (1e2, 1e3, 1e4, 1e5)


class ClusterSVM(PairBaseline):
    """min_w  1/2 ||w||^2 + C mean_documents max_c [ loss(c) + w . Psi(c) - w . Psi(gold) ]

    Psi(c) is the sum of phi over the pairs that c puts together, divided by the number of pairs. The loss is the
    share of wrong pairs, each kind with half the weight (most pairs are apart, and parting all of them would cost
    next to nothing). It adds up over pairs as the score does, so the most violating clustering is a correlation
    clustering too, found approximately; w follows the subgradient with steps 1/t, and the second half of the
    steps is averaged. phi and documents as in GraphPartition. Without `C`, one of 100 to
    100000 is taken, by the F of a held-out quarter of the clusters. After `fit`: `weights_`, `C_`, `objective_`.
    """

    def __init__(
        self,
        C: float | None = None,
        spec: Spec | None = None,
        n_rounds: int = 40,
        random_state: int = 0,
        verbose: bool = False,
    ) -> None:
        self.C = C
        self.spec = spec
        self.n_rounds = n_rounds
        self.random_state = random_state
        self.verbose = verbose

    def _learn_pairs(self, items: Compared, labels: Labels) -> None:
        tried = TRIED_C if self.C is None else ()
        steps = Steps("ClusterSVM", self.n_rounds * (len(tried) + 1), self.verbose)
        self.C_ = self._best_c(items, labels, steps) if self.C is None else self.C
        self._train(items, labels, self.C_, steps)

    def _best_c(self, items: Compared, labels: Labels, steps: Steps) -> float:
        """The C with the best F on one held-out quarter of the clusters (or documents)."""
        rng = np.random.default_rng(self.random_state)
        held = held_out_sets(labels, items.layout.group, 4, rng)[0]
        rest = np.setdiff1d(np.arange(len(labels)), held)
        there = items.take(held)
        gold = within_groups(there.layout, labels[held])
        scores = []
        for c in TRIED_C:
            self._train(items.take(rest), labels[rest], c, steps)
            scores.append(f_score(within_groups(there.layout, self._cluster_pairs(there)), gold))
        return TRIED_C[int(np.argmax(scores))]

    def _train(self, items: Compared, labels: Labels, c: float, steps: Steps) -> None:
        rng = np.random.default_rng(self.random_state)
        table, self.intervals_, codes = prepared(items, labels, rng)
        weights, total, count, step = np.zeros(self.intervals_.shape), np.zeros(self.intervals_.shape), 0, 0
        self.objective_: list[float] = []
        for number in range(self.n_rounds):
            documents = sheets(table, labels, CHUNK, rng)
            slacks = []
            for place in rng.permutation(len(documents)):
                step += 1
                slope, slack = most_violating(weights, documents[place], codes)
                weights -= (weights + c * slope) / step
                slacks.append(slack)
                if number >= self.n_rounds // 2:
                    total, count = total + weights, count + 1
            self.objective_.append(float((weights**2).sum() / 2 + c * np.mean(slacks or [0.0])))
            steps.done(f"C = {c:g}, round {number + 1}")
        self.weights_ = total / max(count, 1)

    def _cluster_pairs(self, items: Compared) -> Labels:
        codes = self.intervals_.codes(pair_features(items))
        return cluster_groups(items.layout, score_pairs(self.weights_, codes))


def most_violating(weights: Weights, document: Sheet, codes: Codes) -> tuple[Weights, float]:
    """The slope and the value of the hinge of one document at `weights`."""
    from scdp.baselines.correlation import correlation_clustering

    mine, same = codes[document.positions], document.same
    scores = score_pairs(weights, mine) / len(same)
    cost = pair_costs(same)
    # Joining two that belong apart costs, parting two that belong together too: a gain for not joining them.
    augmented = scores + np.where(same, -cost, cost)
    found = joined(correlation_clustering(square_of(augmented)))
    amounts = (found.astype(np.float64) - same) / len(same)
    slack = float(cost[found != same].sum() + scores[found].sum() - scores[same].sum())
    if slack <= 0:
        # The search is approximate: the gold clustering itself is always there, with no violation.
        return np.zeros(weights.shape), 0.0
    return sum_features(mine, amounts, weights.shape), slack


def pair_costs(same: NDArray[np.bool_]) -> NDArray[np.float64]:
    """What a mistake on each pair costs: half in all for either kind of pair."""
    kinds = np.bincount(same.astype(np.int64), minlength=2)
    return np.asarray(0.5 / np.maximum(kinds, 1))[same.astype(np.int64)]
