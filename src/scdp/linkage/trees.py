"""Boosted trees on the features of pairs, as plain arrays: trained by scikit-learn, evaluated and stored here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel_as_written
from scdp._parallel import one_thread_a_library
from scdp._typing import Booleans, Features, Floats, Integers
from scdp.errors import InputError
from scdp.linkage.evidence import log_odds

N_ROUNDS = 100
# Small trees, leaves that few pairs cannot push far, and no turning back: a pair that is nearer in one comparison is
# never less likely a match. Without these, trees are sure of themselves where they saw a hundred matches.
MOST_LEAVES, SHRINKAGE, N_BINS = 8, 3.0, 63
MOST_PAIRS = 20_000
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

    def log_ratio(self, features: Features) -> NDArray[np.float64]:
        """Of each pair: the log-likelihood ratio of being together."""
        return self.log_odds(features) - self.prior[0]

    def log_odds(self, features: Features) -> NDArray[np.float64]:
        """Of each pair for being together, cut off where they are as good as certain."""
        out = np.full(len(features), self.baseline[0])
        add_leaves(features, *self._leaf_sets, LOWEST_BIT, out)
        return np.clip(out, -LARGEST_SCORE, LARGEST_SCORE)

    @cached_property
    def _leaf_sets(self) -> LeafSets:
        return LeafSets.of(self)

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        return cls(**{field.name: arrays[field.name] for field in fields(cls)})


class LeafSets(NamedTuple):
    """Which leaves a value of a feature leaves open, as bits, the leftmost leaf first, by the value's place.

    A node that sends a pair to the right closes all leaves on its left, and the leftmost that stays open is where the
    pair ends (QuickScorer, Lucchese and others 2015). The thresholds of feature f, ascending, begin at `bounds[f]`.
    `open_leaves` (place, tree) has one row more for each feature than there are thresholds, one for missing, and a last
    one in which all are open.
    """

    thresholds: Floats
    bounds: Integers
    open_leaves: NDArray[Any]
    values: Floats

    @classmethod
    def of(cls, trees: Trees) -> Self:
        spans = [_span_leaves(trees, int(root)) for root in trees.first]
        n_leaves = max((len(leaves) for leaves, _ in spans), default=1)
        values = np.zeros((len(spans), n_leaves))
        closed: dict[int, int] = {}
        tree_of: dict[int, int] = {}
        for tree, (leaves, lefts) in enumerate(spans):
            values[tree, : len(leaves)] = trees.value[leaves]
            closed |= lefts
            tree_of |= dict.fromkeys(lefts, tree)
        inner = np.array(sorted(closed), dtype=np.int64)
        used = trees.feature[inner]
        n_features = int(used.max(initial=-1)) + 1
        kind = np.uint8 if n_leaves <= 8 else np.uint32
        every = int(np.iinfo(kind).max)
        thresholds = [np.unique(trees.threshold[inner[used == f]]) for f in range(n_features)]
        bounds = np.concatenate([[0], np.cumsum([len(each) for each in thresholds])]).astype(np.int64)
        open_leaves = np.full((int(bounds[-1]) + 2 * n_features + 1, len(spans)), every, kind)
        for node in inner.tolist():
            f = int(trees.feature[node])
            start, n_places = int(bounds[f]) + 2 * f, len(thresholds[f]) + 1
            first_right = int(np.searchsorted(thresholds[f], trees.threshold[node])) + 1
            right = [*range(first_right, n_places), *([] if trees.missing_left[node] else [n_places])]
            open_leaves[start + np.array(right, dtype=np.int64), tree_of[node]] &= kind(~closed[node] & every)
        joined = np.concatenate([np.zeros(0), *thresholds])
        return cls(joined, bounds, open_leaves, values)


# Trees have at most so many leaves, which are bits of a number.
MOST_BITS = 32
# By byte.
LOWEST_BIT = np.array([0, *((byte & -byte).bit_length() - 1 for byte in range(1, 256))], dtype=np.int64)


def _span_leaves(trees: Trees, root: int) -> tuple[list[int], dict[int, int]]:
    """The leaves of a tree from left to right, and for each inner node those on its left, as bits."""
    leaves: list[int] = []
    lefts: dict[int, int] = {}
    waiting: list[tuple[int, int]] = [(root, -1)]
    while waiting:
        node, before = waiting.pop()
        if before >= 0:
            # All leaves on the left of this node have been seen.
            lefts[node] = (1 << len(leaves)) - (1 << before)
            waiting.append((int(trees.right[node]), -1))
        elif trees.left[node] < 0:
            leaves.append(node)
        else:
            waiting.append((node, len(leaves)))
            waiting.append((int(trees.left[node]), -1))
        if len(leaves) > MOST_BITS or len(waiting) > 2 * MOST_BITS:
            raise InputError(f"a tree of the model has more than {MOST_BITS} leaves; fit the model again")
    return leaves, lefts


@kernel_as_written
def add_leaves(
    features: Features,
    thresholds: Floats,
    bounds: Integers,
    open_leaves: NDArray[Any],
    values: Floats,
    lowest_bit: Integers,
    out: Floats,
) -> None:
    """Add the value of the leaf each pair ends in, tree by tree."""
    n_trees = open_leaves.shape[1]
    still_open = np.empty(n_trees, open_leaves.dtype)
    for p in range(features.shape[0]):
        still_open[:] = open_leaves[-1]
        for f in range(len(bounds) - 1):
            value = np.float64(features[p, f])
            low, high = bounds[f], bounds[f + 1]
            if np.isnan(value):
                low = high + 1
            while low < high:
                middle = (low + high) // 2
                if thresholds[middle] < value:
                    low = middle + 1
                else:
                    high = middle
            row = open_leaves[low + 2 * f]
            for tree in range(n_trees):
                still_open[tree] &= row[tree]
        total = 0.0
        for tree in range(n_trees):
            bits, leaf = np.int64(still_open[tree]), 0
            while bits & 255 == 0:
                bits >>= 8
                leaf += 8
            total += values[tree, leaf + lowest_bit[bits & 255]]
        out[p] += total


def fit_trees(
    features: Features,
    together: Booleans,
    sign: Integers,
    rng: np.random.Generator,
    n_rounds: int = N_ROUNDS,
    stands_for: Floats | None = None,
) -> Trees:
    """Trees that tell pairs of one cluster from others, rising (+1) or falling (-1) with each feature.

    `stands_for` is how many pairs each of them stands for, one unless given.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    each = np.ones(len(features)) if stands_for is None else stands_for
    chosen, weight = sample_pairs(features, together, each, rng)
    seen = features[chosen]
    # Scikit-learn fails on a feature that is missing everywhere; of a constant one the trees never ask.
    seen[:, np.isnan(seen).all(axis=0)] = 0.0
    model = HistGradientBoostingClassifier(
        max_iter=n_rounds,
        max_leaf_nodes=MOST_LEAVES,
        l2_regularization=SHRINKAGE,
        max_bins=N_BINS,
        monotonic_cst=sign,
        early_stopping=False,
        random_state=int(rng.integers(2**31)),
    )
    with one_thread_a_library("sklearn.ensemble"):
        model.fit(seen, together[chosen], sample_weight=weight)
    return _as_arrays(model, log_odds(float(together.sum() / each.sum())))


def sample_pairs(
    features: Features, together: Booleans, stands_for: Floats, rng: np.random.Generator
) -> tuple[Integers, Floats]:
    """At most `MOST_PAIRS` pairs, and how many each stands for, from pairs that stand for so many each.

    Up to half are of one cluster. Of the others, half are those that look most like them, and half are random.
    """
    same, others = np.flatnonzero(together), np.flatnonzero(~together)
    if len(same) > MOST_PAIRS // 2:
        same = rng.choice(same, MOST_PAIRS // 2, replace=False)
    room = MOST_PAIRS - len(same)
    near, far, left_over = others, others[:0], 0.0
    if len(others) > room:
        others = others[np.argsort(-_likeness(features, together)[others], kind="stable")]
        near, rest = others[: room // 2], others[room // 2 :]
        left_over = float(stands_for[rest].sum())
        alike = not np.ptp(stands_for[rest])
        share = None if alike else stands_for[rest] / left_over
        far = rng.choice(rest, room - room // 2, replace=not alike, p=share)
    weights = [
        np.full(len(same), together.sum() / max(len(same), 1)),
        stands_for[near],
        np.full(len(far), left_over / max(len(far), 1)),
    ]
    return np.concatenate([same, near, far]), np.concatenate(weights)


def _likeness(features: Features, together: Booleans) -> Floats:
    """How much each pair looks like those of one cluster: the discriminant of features taken as independent."""
    seen = np.nan_to_num(features - _mean(features), nan=0.0)
    apart = _mean(features[together]) - _mean(features[~together])
    return np.asarray(seen @ (apart / (seen.var(axis=0) + 1e-3)), dtype=np.float64)


def _mean(features: Features) -> Floats:
    """By feature, over the pairs that have it; 0 where none has."""
    present = ~np.isnan(features)
    return np.where(present, features, 0.0).sum(axis=0, dtype=np.float64) / np.maximum(present.sum(axis=0), 1)


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
