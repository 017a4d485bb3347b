"""Binary: a support vector machine with RBF kernel on pairs, then min, max or average link (the paper's Binary)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Features, Integers
from scdp.blocking import candidate_pairs
from scdp.blocking.by_size import learn_ladder
from scdp.compare.distances import PairLayout
from scdp.compare.features import MOST_PAIRS
from scdp.linkage.training.folds import canonical_labels, held_out_halves, held_out_sets
from scdp.paper.surface import (
    LINKS,
    UNKNOWN,
    Compared,
    CutScores,
    Items,
    PairBaseline,
    PairTable,
    Rows,
    ScoredPairBaseline,
    Steps,
    Vectors,
    best_threshold,
    check_items,
    cut,
    merge_trees,
    number_within_groups,
    pair_features,
    sample_pairs,
    score_cuts,
)
from scdp.table import Records
from scdp.table.spec import Spec

RATIO = (sqrt(5) - 1) / 2


def golden_section(function: Callable[[float], float], low: float, high: float, n_calls: int) -> float:
    """The best point of `n_calls` evaluations (at least two); exact in the limit for a function with one peak."""
    left, right = high - RATIO * (high - low), low + RATIO * (high - low)
    at_left, at_right = function(left), function(right)
    best = max((at_left, left), (at_right, right))
    for _ in range(n_calls - 2):
        if at_left >= at_right:
            high, right, at_right = right, left, at_left
            left = high - RATIO * (high - low)
            at_left = function(left)
            best = max(best, (at_left, left))
        else:
            low, left, at_left = left, right, at_right
            right = low + RATIO * (high - low)
            at_right = function(right)
            best = max(best, (at_right, right))
    return best[1]


LOG2_GAMMA = (-10.0, 3.0)
LOG2_C = (-5.0, 8.0)
CALLS, ROUNDS = 7, 2
PAIRS_AT_ONCE = 1 << 14
# Folds of fewer items than this have too few pairs of one cluster to judge by.
FEWEST_ITEMS_A_FOLD = 10


class Binary(ScoredPairBaseline):
    """The paper's pairwise system, after Cohen and Richman (2002), with all three links.

    Gamma and C by golden-section search in turn (each seven values, twice), for the best accuracy on balanced
    held-out pairs under `n_folds`-fold cross-validation; link and threshold by the best mean pairwise F of held-out
    clusters under another. Folds are of whole clusters, or of single items where clusters are fewer than folds, and
    pairs across folds are not used. Each machine learns from at most `n_pairs` pairs, half of one cluster and half of
    two, drawn with `random_state`. Features are brought to mean 0 and variance 1; a missing one becomes 0, the mean,
    and sets an indicator. With `links=("average",)` it is Cohen and Richman's own.

    After `fit`: `gamma_`, `C_`, `pair_accuracy_`, `link_`, `threshold_`, `held_out_score_`, `pairs_used_` and
    `pairs_available_`.
    """

    def __init__(
        self,
        spec: Spec | None = None,
        n_folds: int = 10,
        n_pairs: int = 4000,
        random_state: int = 0,
        verbose: bool = False,
        links: tuple[str, ...] = tuple(LINKS),
    ) -> None:
        self.spec = spec
        self.links = links
        self.n_folds = n_folds
        self.n_pairs = n_pairs
        self.random_state = random_state
        self.verbose = verbose

    def _learn_pairs(self, items: Compared, labels: Integers) -> None:
        rng = np.random.default_rng(self.random_state)
        table = PairTable.of(items.layout, labels)
        table.need_both_kinds("Binary")
        raw = pair_features(items)
        self.columns_ = PairColumns.of(raw[self._sample(np.arange(len(raw)), table.same, rng)])
        folds = self._folds(labels, items.layout.group, rng)
        steps = Steps("Binary", 2 * ROUNDS * CALLS + len(folds), self.verbose)
        self._tune_machine(raw, table, folds, rng, steps)
        folds = self._folds(labels, items.layout.group, rng)
        self._tune_clustering(raw, table, folds, labels, rng, steps)
        everything = np.arange(len(raw))
        chosen = self._sample(everything, table.same, rng)
        self.pairs_available_, self.pairs_used_ = len(everything), len(chosen)
        self.machine_ = self._fit_machine(self.columns_.of_pairs(raw[chosen]), table.same[chosen])

    def _folds(self, labels: Integers, groups: Integers, rng: np.random.Generator) -> list[Rows]:
        """Ten halves of five clusters are hardly ten folds: then items are dealt out, cluster by cluster."""
        few = len(np.unique(labels)) < self.n_folds and len(np.unique(groups)) < self.n_folds
        if not few or len(labels) < FEWEST_ITEMS_A_FOLD * self.n_folds:
            return held_out_sets(labels, groups, self.n_folds, rng)
        order = rng.permutation(len(labels))
        order = order[np.argsort(labels[order], kind="stable")]
        return [np.sort(order[fold :: self.n_folds]) for fold in range(self.n_folds)]

    def _sample(self, pairs: Integers, same: NDArray[np.bool_], rng: np.random.Generator) -> Integers:
        return sample_pairs(pairs, same, self.n_pairs // 2, self.n_pairs - self.n_pairs // 2, rng)

    def _tune_machine(
        self, raw: Features, table: PairTable, folds: list[Rows], rng: np.random.Generator, steps: Steps
    ) -> None:
        parts = []
        for held in folds:
            learn = self._sample(table.find_pairs_without(held), table.same, rng)
            judge = self._sample(np.sort(table.select_within(held)[1]), table.same, rng)
            parts.append([(self.columns_.of_pairs(raw[rows]), table.same[rows]) for rows in (learn, judge)])
        tried: dict[tuple[float, float], float] = {}

        def accuracy(log_gamma: float, log_c: float) -> float:
            if (log_gamma, log_c) not in tried:
                self.gamma_, self.C_ = 2.0**log_gamma, 2.0**log_c
                tried[log_gamma, log_c] = float(np.mean([self._accuracy(*part) for part in parts]))
            steps.finish_step("gamma and C")
            return tried[log_gamma, log_c]

        # Gamma for a given C, then C for that gamma, and both again.
        best_gamma, best_c = 0.0, 0.0
        for _ in range(ROUNDS):
            best_gamma = golden_section(partial(accuracy, log_c=best_c), *LOG2_GAMMA, CALLS)
            best_c = golden_section(partial(accuracy, best_gamma), *LOG2_C, CALLS)
        self.gamma_, self.C_ = 2.0**best_gamma, 2.0**best_c
        self.pair_accuracy_ = tried[best_gamma, best_c]

    def _accuracy(self, learn: tuple[Features, NDArray[np.bool_]], judge: tuple[Features, NDArray[np.bool_]]) -> float:
        """Both kinds of pairs count the same, however many there are of each."""
        right = (_decision(self._fit_machine(*learn), judge[0]) > 0) == judge[1]
        return float(np.mean([right[judge[1] == kind].mean() for kind in np.unique(judge[1])]))

    def _fit_machine(self, features: Features, same: NDArray[np.bool_]) -> Any:
        from sklearn.svm import SVC

        return SVC(C=self.C_, gamma=self.gamma_, cache_size=200).fit(features, same)

    def _tune_clustering(
        self,
        raw: Features,
        table: PairTable,
        folds: list[Rows],
        labels: Integers,
        rng: np.random.Generator,
        steps: Steps,
    ) -> None:
        cuts: dict[str, list[CutScores]] = {link: [] for link in self.links}
        for held in folds:
            chosen = self._sample(table.find_pairs_without(held), table.same, rng)
            machine = self._fit_machine(self.columns_.of_pairs(raw[chosen]), table.same[chosen])
            layout, positions = table.select_within(held)
            apart = -_decision(machine, self.columns_.of_pairs(raw[positions]))
            for link in self.links:
                trees = merge_trees(layout, apart, link)
                cuts[link].append(score_cuts(layout, trees, labels[held]))
            steps.finish_step("link and threshold")
        found = {link: best_threshold(cuts[link]) for link in self.links}
        self.link_ = max(self.links, key=lambda link: found[link][1])
        self.threshold_, self.held_out_score_ = found[self.link_]

    def _cluster_pairs(self, items: Compared) -> Integers:
        apart = -_decision(self.machine_, self.columns_.of_pairs(pair_features(items)))
        return cut(items.layout, merge_trees(items.layout, apart, self.link_), self.threshold_)


@dataclass(frozen=True)
class PairColumns:
    """How raw pair features become columns of a kernel machine: centred, scaled, filled, with indicators."""

    mean: NDArray[np.float64]
    spread: NDArray[np.float64]
    may_miss: NDArray[np.bool_]

    @classmethod
    def of(cls, raw: Features) -> PairColumns:
        seen = ~np.isnan(raw)
        counts = np.maximum(seen.sum(axis=0), 1)
        mean = np.where(seen, raw, 0.0).sum(axis=0) / counts
        spread = np.sqrt((np.where(seen, raw - mean, 0.0) ** 2).sum(axis=0) / counts)
        return cls(mean, np.where(spread > 0, spread, 1.0), np.asarray(np.isnan(raw).any(axis=0), dtype=bool))

    def of_pairs(self, raw: Features) -> Features:
        missing = np.isnan(raw)
        filled = np.where(missing, 0.0, (raw - self.mean) / self.spread)
        return np.hstack([filled, missing[:, self.may_miss]]).astype(np.float32)


def _decision(machine: Any, features: Features) -> NDArray[np.float64]:
    """The machine's decision values, by matrix products: many times faster than pair by pair."""
    from sklearn.metrics.pairwise import rbf_kernel

    support, weights = machine.support_vectors_.astype(np.float32), machine.dual_coef_[0]
    out = np.empty(len(features))
    for start in range(0, len(features), PAIRS_AT_ONCE):
        part = features[start : start + PAIRS_AT_ONCE]
        out[start : start + len(part)] = rbf_kernel(part, support, gamma=machine.gamma) @ weights
    return out + machine.intercept_[0]


LINK = "average"


class ModernBinary(PairBaseline):
    """What an expert would do today without the model: the opponent to beat.

    Twelve times half of the clusters are held out (five times a fifth of the documents, where there are any),
    scored by trees that saw none of them, and clustered by average link on 1 - probability. The number of
    boosting `rounds` has the best mean pairwise F there, and the threshold is the middle of those that come within
    a standard error of it. Missing values go to the trees as they are. Of more than `max_pairs` training pairs a
    sample is taken, positive ones first up to half of it, and weighted so that both classes keep their shares.
    Of a table of records with more than `most_pairs` pairs, only the candidate pairs of the resolver are looked at: a
    blocking learned from the training records, and all other pairs are apart.

    After `fit`: `threshold_`, `n_rounds_`, `held_out_score_`, `pairs_used_` and `pairs_available_`.
    """

    def __init__(
        self,
        spec: Spec | None = None,
        rounds: tuple[int, ...] = (25, 50, 100, 200),
        max_pairs: int = 200_000,
        random_state: int = 0,
        verbose: bool = False,
        most_pairs: int = MOST_PAIRS,
    ) -> None:
        self.spec = spec
        self.most_pairs = most_pairs
        self.rounds = rounds
        self.max_pairs = max_pairs
        self.random_state = random_state
        self.verbose = verbose

    def _learn(self, items: Items, labels: Integers | None, groups: NDArray[Any] | None) -> None:
        assert labels is not None
        known = np.flatnonzero(labels != UNKNOWN)
        # Candidates are found where all records are under one roof, as in the resolver.
        self._taught: tuple[Records, Integers] | None = None
        if isinstance(items, Records) and groups is None:
            self._taught = items.take(known), labels[known]
        super()._learn(items, labels, groups)

    def _find_candidates(self, records: Items | None, layout: PairLayout) -> NDArray[np.bool_] | None:
        """Which pairs are looked at; None for all."""
        if self._taught is None or not isinstance(records, Records) or layout.n_pairs <= self.most_pairs:
            return None
        assert self.spec_ is not None
        taught, clusters = self._taught
        ladder = learn_ladder(taught, self.spec_, canonical_labels(clusters.tolist()), self.random_state)
        found = candidate_pairs(records, ladder.choose(records, self.spec_).blocking)
        mask = np.zeros(layout.n_pairs, dtype=bool)
        mask[layout.positions(found.left.astype(np.int64), found.right.astype(np.int64))] = True
        return mask

    def _learn_pairs(self, items: Compared, labels: Integers) -> None:
        rng = np.random.default_rng(self.random_state)
        table = PairTable.of(items.layout, labels)
        table.need_both_kinds("ModernBinary")
        mask = self._find_candidates(self._taught[0] if self._taught else None, items.layout)
        self._looked_at = np.ones(len(table.left), dtype=bool) if mask is None else mask
        features = _with_length(items)
        folds = held_out_halves(labels, items.layout.group, rng)
        steps = Steps("ModernBinary", len(folds) + 1, self.verbose)
        cuts: list[dict[int, CutScores]] = []
        for number, held in enumerate(folds):
            model = self._fit_trees(features, table, table.find_pairs_without(held), rng, max(self.rounds))
            looked_at = self._looked_at
            cuts.append(_score_held_out_cuts(model, features, table, held, labels, self.rounds, looked_at))
            steps.finish_step(f"fold {number + 1}")
        self._choose(cuts)
        self.trees_ = self._fit_trees(features, table, np.arange(len(table.left)), rng, self.n_rounds_)
        steps.finish_step("all training pairs")
        del self._looked_at

    def _choose(self, cuts: list[dict[int, CutScores]]) -> None:
        found = {rounds: best_threshold([fold[rounds] for fold in cuts]) for rounds in self.rounds}
        self.n_rounds_ = max(self.rounds, key=lambda rounds: found[rounds][1])
        self.threshold_, self.held_out_score_ = found[self.n_rounds_]

    def _fit_trees(
        self, features: Features, table: PairTable, pairs: Integers, rng: np.random.Generator, rounds: int
    ) -> Any:
        from sklearn.ensemble import HistGradientBoostingClassifier

        pairs = pairs[self._looked_at[pairs]]
        chosen = self._sample_pairs(pairs, table.same, rng)
        self.pairs_available_, self.pairs_used_ = len(pairs), len(chosen)
        model = HistGradientBoostingClassifier(max_iter=rounds, early_stopping=False, random_state=self.random_state)
        weights = class_weights(table.same, pairs, chosen)
        return model.fit(_fill_unseen(features[chosen]), table.same[chosen], sample_weight=weights)

    def _sample_pairs(self, pairs: Integers, same: NDArray[np.bool_], rng: np.random.Generator) -> Integers:
        if len(pairs) <= self.max_pairs:
            return pairs
        n_same = min(int(same[pairs].sum()), self.max_pairs // 2)
        return sample_pairs(pairs, same, n_same, self.max_pairs - n_same, rng)

    def predict(self, X: Any, groups: Any = None) -> Integers:
        found = self._check(X, groups)
        apart = 1 - _probability(self.trees_, _with_length(found))
        mask = self._find_candidates(check_items(X) if groups is None else None, found.layout)
        if mask is not None:
            apart[~mask] = 1.0
        return number_within_groups(
            found.layout, cut(found.layout, merge_trees(found.layout, apart, LINK), self.threshold_)
        )


def _fill_unseen(features: Features) -> Features:
    """A feature that every pair misses becomes 0: the trees cannot split by it, and fail on a column of nothing."""
    return np.where(np.isnan(features).all(axis=0), np.float32(0.0), features)


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


def _score_held_out_cuts(
    model: Any,
    features: Features,
    table: PairTable,
    held: Rows,
    labels: Integers,
    tried: tuple[int, ...],
    looked_at: NDArray[np.bool_],
) -> dict[int, CutScores]:
    """The F of every cut of clusters the trees did not see, by number of rounds."""
    layout, positions = table.select_within(held)
    cuts = {}
    for rounds, probability in enumerate(model.staged_predict_proba(features[positions]), start=1):
        if rounds in tried:
            apart = np.where(looked_at[positions], probability[:, 0], 1.0)
            cuts[rounds] = score_cuts(layout, merge_trees(layout, apart, LINK), labels[held])
    return cuts


def _probability(model: Any, features: Features) -> NDArray[np.float64]:
    return model.predict_proba(features)[:, 1] if len(features) else np.zeros(0)
