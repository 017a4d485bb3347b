"""ModernBinary: boosted trees on the features of pairs, then average link, judged on held-out clusters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp.folds import held_out_halves
from scdp.paper.baselines.linkage import CutScores, best_threshold, cut, merge_trees, score_cuts
from scdp.paper.baselines.pairs import (
    Compared,
    Features,
    Integers,
    PairBaseline,
    PairTable,
    Vectors,
    pair_features,
    sample_pairs,
)
from scdp.paper.baselines.progress import Steps
from scdp.paper.baselines.surface import Labels, Rows
from scdp.table.spec import Spec

LINK = "average"


class ModernBinary(PairBaseline):
    """What an expert would do today without the model: the opponent to beat.

    Twelve times half of the clusters are held out (five times a fifth of the documents, where there are any),
    scored by trees that saw none of them, and clustered by average link on 1 - probability. The number of
    boosting `rounds` has the best mean pairwise F there, and the threshold is the middle of those that come within
    a standard error of it. Missing values go to the trees as they are. Of more than `max_pairs` training pairs a
    sample is taken, positive ones first up to half of it, and weighted so that both classes keep their shares.

    After `fit`: `threshold_`, `n_rounds_`, `held_out_score_`, `pairs_used_` and `pairs_available_`.
    """

    def __init__(
        self,
        spec: Spec | None = None,
        rounds: tuple[int, ...] = (25, 50, 100, 200),
        max_pairs: int = 200_000,
        random_state: int = 0,
        verbose: bool = False,
    ) -> None:
        self.spec = spec
        self.rounds = rounds
        self.max_pairs = max_pairs
        self.random_state = random_state
        self.verbose = verbose

    def _learn_pairs(self, items: Compared, labels: Labels) -> None:
        rng = np.random.default_rng(self.random_state)
        table = PairTable.of(items.layout, labels)
        table.need_both_kinds("ModernBinary")
        features = _with_length(items)
        folds = held_out_halves(labels, items.layout.group, rng)
        steps = Steps("ModernBinary", len(folds) + 1, self.verbose)
        cuts: list[dict[int, CutScores]] = []
        for number, held in enumerate(folds):
            model = self._fit_trees(features, table, table.without(held), rng, max(self.rounds))
            cuts.append(_held_out_cuts(model, features, table, held, labels, self.rounds))
            steps.done(f"fold {number + 1}")
        self._choose(cuts)
        self.trees_ = self._fit_trees(features, table, np.arange(len(table.left)), rng, self.n_rounds_)
        steps.done("all training pairs")

    def _choose(self, cuts: list[dict[int, CutScores]]) -> None:
        found = {rounds: best_threshold([fold[rounds] for fold in cuts]) for rounds in self.rounds}
        self.n_rounds_ = max(self.rounds, key=lambda rounds: found[rounds][1])
        self.threshold_, self.held_out_score_ = found[self.n_rounds_]

    def _fit_trees(
        self,
        features: Features,
        table: PairTable,
        pairs: Integers,
        rng: np.random.Generator,
        rounds: int,
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


def _held_out_cuts(
    model: Any, features: Features, table: PairTable, held: Rows, labels: Labels, tried: tuple[int, ...]
) -> dict[int, CutScores]:
    """The F of every cut of clusters the trees did not see, by number of rounds."""
    layout, positions = table.within(held)
    cuts = {}
    for rounds, probability in enumerate(model.staged_predict_proba(features[positions]), start=1):
        if rounds in tried:
            cuts[rounds] = score_cuts(layout, merge_trees(layout, probability[:, 0], LINK), labels[held])
    return cuts


def _probability(model: Any, features: Features) -> NDArray[np.float64]:
    return model.predict_proba(features)[:, 1] if len(features) else np.zeros(0)
