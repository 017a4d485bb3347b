"""ModernBinary: boosted trees on the features of pairs, then average link; both judged on held-out clusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp.baselines.folds import held_out_halves
from scdp.baselines.linkage import CutScores, best_threshold, cut, merge_trees, score_cuts
from scdp.baselines.pairs import (
    Compared,
    Features,
    Integers,
    PairBaseline,
    PairTable,
    Vectors,
    pair_features,
    sample_pairs,
)
from scdp.baselines.progress import Steps
from scdp.baselines.surface import Labels, Rows
from scdp.specs import Spec

LINK = "average"
# Boosting rounds tried; which is best is decided on held-out clusters.
ROUNDS = (25, 50, 100, 200)


@dataclass(frozen=True)
class HeldOut:
    """The log-loss of held-out pairs, and the F of every cut of the held-out trees."""

    loss: float
    cuts: CutScores


class ModernBinary(PairBaseline):
    """What an expert would do today without the model: the opponent to beat.

    Each held-out half of the clusters (fifth of the documents, where there are any) is scored by trees that saw none of them, and clustered by average link on
    1 - probability. The number of boosting rounds has the least mean log-loss there, and the threshold is the middle
    of those whose mean pairwise F is within a standard error of the best. Missing values go to the trees as they are. More than `max_pairs` training pairs are sampled, all
    positive ones first up to half of them, and weighted so that the classes keep their shares.

    After `fit`: `threshold_`, `n_rounds_`, `held_out_score_`, `pairs_used_` and `pairs_available_`.
    """

    def __init__(
        self,
        spec: Spec | None = None,
        max_pairs: int = 600_000,
        random_state: int = 0,
        verbose: bool = False,
    ) -> None:
        self.spec = spec
        self.max_pairs = max_pairs
        self.random_state = random_state
        self.verbose = verbose

    def _learn_pairs(self, items: Compared, labels: Labels) -> None:
        rng = np.random.default_rng(self.random_state)
        table = PairTable.of(items.layout, labels)
        features = _with_length(items)
        folds = held_out_halves(labels, items.layout.group, rng)
        steps = Steps("ModernBinary", len(folds) + 1, self.verbose)
        judged: list[dict[int, HeldOut]] = []
        for number, held in enumerate(folds):
            model = self._fit_trees(features, table, table.without(held), rng)
            judged.append(_judge(model, features, table, held, labels))
            steps.done(f"fold {number + 1}")
        self._choose(judged)
        self.trees_ = self._fit_trees(features, table, np.arange(len(table.left)), rng, self.n_rounds_)
        steps.done("all training pairs")

    def _choose(self, judged: list[dict[int, HeldOut]]) -> None:
        self.n_rounds_ = min(ROUNDS, key=lambda rounds: float(np.mean([fold[rounds].loss for fold in judged])))
        self.threshold_, self.held_out_score_ = best_threshold([fold[self.n_rounds_].cuts for fold in judged])

    def _fit_trees(
        self,
        features: Features,
        table: PairTable,
        pairs: Integers,
        rng: np.random.Generator,
        rounds: int = ROUNDS[-1],
    ) -> Any:
        from sklearn.ensemble import HistGradientBoostingClassifier

        chosen = self._sampled(pairs, table.same, rng)
        self.pairs_available_, self.pairs_used_ = len(pairs), len(chosen)
        model = HistGradientBoostingClassifier(
            max_iter=rounds, early_stopping=False, random_state=self.random_state
        )
        weights = class_weights(table.same, pairs, chosen)
        return model.fit(features[chosen], table.same[chosen], sample_weight=weights)

    def _sampled(self, pairs: Integers, same: NDArray[np.bool_], rng: np.random.Generator) -> Integers:
        if len(pairs) <= self.max_pairs:
            return pairs
        n_same = min(int(same[pairs].sum()), self.max_pairs // 2)
        return sample_pairs(pairs, same, n_same, self.max_pairs - n_same, rng)

    def _cluster_pairs(self, items: Compared) -> Labels:
        apart = 1 - _probability(self.trees_, _with_length(items))
        return cut(items.layout, merge_trees(items.layout, apart, LINK), self.threshold_)


def _with_length(items: Compared) -> Features:
    """The features of all pairs; for vectors also how far apart they are in all, which trees add up badly."""
    features = pair_features(items)
    if not isinstance(items, Vectors):
        return features
    squares = np.nanmean(features**2, axis=1, keepdims=True) if features.size else features[:, :1]
    return np.hstack([features, np.sqrt(squares)])


def class_weights(same: NDArray[np.bool_], pairs: Integers, chosen: Integers) -> NDArray[np.float64]:
    """What each chosen pair stands for, so that sampling leaves the classes their shares."""
    weights = np.ones(len(chosen))
    for kind in (True, False):
        mine = same[chosen] == kind
        if mine.any():
            weights[mine] = np.count_nonzero(same[pairs] == kind) / np.count_nonzero(mine)
    return weights


def _judge(model: Any, features: Features, table: PairTable, held: Rows, labels: Labels) -> dict[int, HeldOut]:
    """How the trees do on clusters they did not see, by number of rounds."""
    layout, positions = table.within(held)
    judged = {}
    for rounds, probability in enumerate(model.staged_predict_proba(features[positions]), start=1):
        if rounds in ROUNDS:
            trees = merge_trees(layout, probability[:, 0], LINK)
            right = np.where(table.same[positions], probability[:, 1], probability[:, 0])
            judged[rounds] = HeldOut(
                float(-np.log(right + 1e-12).mean()), score_cuts(layout, trees, labels[held])
            )
    return judged


def _probability(model: Any, features: Features) -> NDArray[np.float64]:
    return model.predict_proba(features)[:, 1] if len(features) else np.zeros(0)
