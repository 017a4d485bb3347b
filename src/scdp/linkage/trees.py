"""Boosted trees on the features of pairs, as plain arrays: trained by scikit-learn, evaluated and stored here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp.linkage.evidence import log_odds

N_ROUNDS = 100
MOST_PAIRS = 60_000
# Log-odds beyond this are as good as certain, and no finer than the training pairs can tell.
LARGEST_SCORE = 12.0


@dataclass(frozen=True, eq=False)
class Trees:
    """Node arrays of all trees one after another; `first` is the root of each tree, children are absolute.

    A leaf has `left` -1. A value up to the threshold goes left, and a missing one where `missing_left` says.
    """

    first: NDArray[np.int64]
    feature: NDArray[np.int64]
    threshold: NDArray[np.float64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    missing_left: NDArray[np.bool_]
    value: NDArray[np.float64]
    baseline: NDArray[np.float64]
    # Log-odds of a match among the pairs that were learned from, which new pairs do not share.
    prior: NDArray[np.float64]

    def log_ratio(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """Of each pair: the log-likelihood ratio of being together."""
        return self.log_odds(features) - self.prior[0]

    def log_odds(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """Of each pair for being together, cut off where they are as good as certain."""
        out = np.full(len(features), self.baseline[0])
        walk(
            features,
            self.first,
            self.feature,
            self.threshold,
            self.left,
            self.right,
            self.missing_left,
            self.value,
            out,
        )
        return np.clip(out, -LARGEST_SCORE, LARGEST_SCORE)

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        return cls(**{field.name: arrays[field.name] for field in fields(cls)})


@kernel
def walk(
    features: NDArray[np.float32],
    first: NDArray[np.int64],
    feature: NDArray[np.int64],
    threshold: NDArray[np.float64],
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    missing_left: NDArray[np.bool_],
    value: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """Add the value of the leaf each pair ends in, tree by tree."""
    for p in range(features.shape[0]):
        total = 0.0
        for tree in range(first.shape[0]):
            node = first[tree]
            while left[node] >= 0:
                found = features[p, feature[node]]
                if np.isnan(found):
                    goes_left = missing_left[node]
                else:
                    goes_left = found <= threshold[node]
                node = left[node] if goes_left else right[node]
            total += value[node]
        out[p] += total


def fit_trees(
    features: NDArray[np.float32],
    together: NDArray[np.bool_],
    rng: np.random.Generator,
    n_rounds: int = N_ROUNDS,
) -> Trees:
    """Trees that tell pairs of one cluster from others; classes keep their shares if pairs are sampled."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits

    chosen, weight = sampled(together, rng)
    seen = features[chosen]
    # Scikit-learn fails on a feature that is missing everywhere; of a constant one the trees never ask.
    seen[:, np.isnan(seen).all(axis=0)] = 0.0
    model = HistGradientBoostingClassifier(
        max_iter=n_rounds, early_stopping=False, random_state=int(rng.integers(2**31))
    )
    # Threads of several fits at once would only wait for each other.
    with threadpool_limits(limits=1):
        model.fit(seen, together[chosen], sample_weight=weight)
    return _as_arrays(model, log_odds(float(together.mean())))


def sampled(
    together: NDArray[np.bool_], rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """At most `MOST_PAIRS` pairs, up to half of them of one cluster, and what each stands for."""
    kinds = [np.flatnonzero(together), np.flatnonzero(~together)]
    n_same = min(len(kinds[0]), MOST_PAIRS // 2)
    counts = [n_same, min(len(kinds[1]), MOST_PAIRS - n_same)]
    chosen = [rng.choice(kind, count, replace=False) for kind, count in zip(kinds, counts, strict=True)]
    weights = [np.full(count, len(kind) / max(count, 1)) for kind, count in zip(kinds, counts, strict=True)]
    return np.concatenate(chosen), np.concatenate(weights)


def _as_arrays(model: Any, prior: float) -> Trees:
    nodes = [predictors[0].nodes for predictors in model._predictors]
    first = np.concatenate([[0], np.cumsum([len(each) for each in nodes])]).astype(np.int64)
    joined = np.concatenate(nodes)
    offset = np.repeat(first[:-1], [len(each) for each in nodes])
    leaf = joined["is_leaf"].astype(bool)
    return Trees(
        first[:-1],
        joined["feature_idx"].astype(np.int64),
        # A split between present and missing has an infinite threshold, which a stored model may not hold.
        np.nan_to_num(joined["num_threshold"].astype(np.float64)),
        np.where(leaf, -1, joined["left"].astype(np.int64) + offset),
        np.where(leaf, -1, joined["right"].astype(np.int64) + offset),
        joined["missing_go_to_left"].astype(bool),
        joined["value"].astype(np.float64),
        np.asarray(model._baseline_prediction, dtype=np.float64).ravel()[:1],
        np.array([prior]),
    )
