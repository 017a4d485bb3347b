"""ClusterSVM: a structural support vector machine over correlation clusterings (Finley and Joachims 2005)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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
from scdp.baselines.pairs import Compared, PairBaseline, pair_features
from scdp.baselines.progress import Steps
from scdp.baselines.surface import Labels
from scdp.specs import Spec

CHUNK = 200


class ClusterSVM(PairBaseline):
    """min_w  1/2 ||w||^2 + C mean_documents max_c [ loss(c) + w . Psi(c) - w . Psi(gold) ]

    Psi(c) is the sum of phi over the pairs that c puts together, divided by the number of pairs. The loss is the
    share of wrong pairs, each kind with half the weight (most pairs are apart, and parting all of them would cost
    next to nothing). It adds up over pairs as the score does, so the most violating clustering is a correlation
    clustering too, found approximately; w follows the subgradient with steps 1/t, and the second half of the
    steps is averaged. phi and documents as in GraphPartition. After `fit`: `weights_`, `objective_` by round.
    """

    def __init__(
        self,
        C: float = 100.0,
        spec: Spec | None = None,
        n_rounds: int = 30,
        random_state: int = 0,
        verbose: bool = False,
    ) -> None:
        self.C = C
        self.spec = spec
        self.n_rounds = n_rounds
        self.random_state = random_state
        self.verbose = verbose

    def _learn_pairs(self, items: Compared, labels: Labels) -> None:
        rng = np.random.default_rng(self.random_state)
        table, self.intervals_, codes = prepared(items, labels, rng)
        weights, total, count, step = np.zeros(self.intervals_.shape), np.zeros(self.intervals_.shape), 0, 0
        self.objective_: list[float] = []
        steps = Steps("ClusterSVM", self.n_rounds, self.verbose)
        for number in range(self.n_rounds):
            documents = sheets(table, labels, CHUNK, rng)
            slacks = []
            for place in rng.permutation(len(documents)):
                step += 1
                slope, slack = most_violating(weights, documents[place], codes)
                weights -= (weights + self.C * slope) / step
                slacks.append(slack)
                if number >= self.n_rounds // 2:
                    total, count = total + weights, count + 1
            self.objective_.append(float((weights**2).sum() / 2 + self.C * np.mean(slacks or [0.0])))
            steps.done(f"round {number + 1}, objective {self.objective_[-1]:.3f}")
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
