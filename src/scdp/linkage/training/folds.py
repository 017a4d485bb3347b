"""Folds of labelled records: known clusters enter; pairs with all columns of the score leave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from scdp._typing import Booleans, Features, Floats, Integers
from scdp.errors import InputError
from scdp.folds import canonical_labels, held_out_sets
from scdp.linkage.ensemble import BASE, NEGLIGIBLE, Knots, Parameters, Places
from scdp.linkage.evidence import Evidence, Layout, TableEvidence, levels_of, log_odds, member_weights
from scdp.linkage.law import Pairs

N_ORDERS = 2
N_FOLDS = 5
KNOT_PAIRS = 200_000


class LabelledSource(Protocol):
    """Records of known clusters, of which any part can be asked for as pairs."""

    def pairs(self, items: Integers) -> Pairs: ...


class TrainingFold(NamedTuple):
    """Records of known clusters: features of their pairs, what trees say of them, and orders to place them in."""

    pairs: Pairs
    cluster: Integers
    trees: Floats | None
    orders: tuple[Integers, ...]


class PreparedFold(NamedTuple):
    """A fold whose pairs have all columns of the score; `log_odds` is of a random pair of it for being a match.

    Pairs that were left out have the score `floor`.
    """

    places: Places
    pairs: Pairs
    cluster: Integers
    orders: tuple[Integers, ...]
    log_odds: float
    floor: float = 0.0

    def without_unlikely(self, parameters: Parameters) -> PreparedFold:
        """Without the pairs that are as good as certain not to be matches, which make most of the work."""
        score = parameters.scores(self.places)
        kept = score + parameters.bias + self.log_odds >= NEGLIGIBLE
        if kept.all():
            return self
        places = Places(self.places.piece[kept], self.places.along[kept])
        pairs = Pairs(
            self.pairs.n_items, self.pairs.left[kept], self.pairs.right[kept], self.pairs.features[kept]
        )
        return self._replace(places=places, pairs=pairs, floor=float(score[~kept].mean()))


def check_teachable(cluster: Integers) -> None:
    """Refuse known clusters that teach nothing: without two of a kind, or without two kinds."""
    if teaches(cluster):
        return
    n_clusters = len(np.unique(cluster))
    if not len(cluster):
        what = "no row has a known cluster"
    else:
        what = f"the known rows are all of {'one cluster' if n_clusters < 2 else 'clusters of one row'}"
    raise InputError(f"{what}: give at least two clusters, one of them of two rows")


def teaches(cluster: Integers) -> bool:
    """Whether there are two of a kind and two kinds."""
    return 1 < len(np.unique(cluster)) < len(cluster)


def take_whole_clusters(items: Integers, cluster: Integers, most: int, rng: np.random.Generator) -> Integers:
    """Whole clusters of these records, as many as there is room for; at least two."""
    if len(items) <= most:
        return items
    names, codes = np.unique(cluster[items], return_inverse=True)
    order = rng.permutation(len(names))
    sizes = np.bincount(codes)
    # A cluster that is too large for the room left is passed over, so that smaller ones still find a place.
    kept: list[int] = []
    room = most
    for name in order:
        if sizes[name] <= room or len(kept) < 2:
            kept.append(name)
            room -= int(sizes[name])
    chosen: Integers = items[np.isin(codes, kept)]
    return chosen


def split_in_halves(cluster: Integers, group: Integers, rng: np.random.Generator) -> list[Integers]:
    """Two halves of the clusters (or groups), each of which teaches something; none where there are too few."""
    units = group if len(np.unique(group)) >= 4 else cluster
    if len(np.unique(units)) < 4:
        return []
    for _ in range(20):
        halves = held_out_sets(cluster, group if units is group else np.zeros_like(cluster), 2, rng)
        if len(halves) == 2 and all(teaches(cluster[half]) for half in halves):
            first = np.sort(halves[0])
            return [first, np.setdiff1d(np.arange(len(cluster)), first)]
    return []


def mean_partners(cluster: Integers) -> float:
    """How many others of its cluster a record has, in the mean."""
    sizes = np.unique(cluster, return_counts=True)[1]
    return float((sizes * (sizes - 1)).sum() / max(sizes.sum(), 1))


def make_fold(
    pairs: Pairs, cluster: Integers, trees: Floats | None, rng: np.random.Generator
) -> TrainingFold:
    """A fold of these pairs, with random orders to place its records in."""
    orders = tuple(rng.permutation(pairs.n_items) for _ in range(N_ORDERS))
    return TrainingFold(pairs, canonical_labels(cluster.tolist()), trees, orders)


def learn_evidence(layout: Layout, folds: Sequence[TrainingFold]) -> Evidence:
    """The evidence that the labelled pairs of all folds teach."""
    features = np.concatenate([fold.pairs.features for fold in folds])
    weights = [member_weights(fold.cluster, fold.pairs.left, fold.pairs.right)[1] for fold in folds]
    return Evidence.learn(layout, features, np.concatenate(weights))


def make_knots(folds: Sequence[TrainingFold], sign: Integers, based: bool, rng: np.random.Generator) -> Knots:
    """Knots of all columns of the score; those of the evidence are always the same."""
    rows = []
    each = max(KNOT_PAIRS // len(folds), 1)
    for fold in folds:
        n = len(fold.pairs)
        chosen = rng.choice(n, min(each, n), replace=False) if n else np.zeros(0, dtype=np.int64)
        columns = [fold.pairs.features[chosen]]
        if based:
            columns.insert(0, np.zeros((len(chosen), 1), dtype=np.float32))
        if fold.trees is not None:
            columns.append(fold.trees[chosen, None].astype(np.float32))
        rows.append(np.column_stack(columns))
    knots = Knots.of(np.concatenate(rows), sign)
    if based:
        knots.at[0] = BASE
    return knots


def prepare(
    fold: TrainingFold, evidence: Evidence | None, knots: Knots, rng: np.random.Generator
) -> PreparedFold:
    """The fold with all columns of the score; evidence of a pair comes from other clusters than its own."""
    left, right = fold.pairs.left, fold.pairs.right
    together, weight = member_weights(fold.cluster, left, right)
    base = None if evidence is None else cross_fit(evidence, fold, together, weight, rng)
    columns = join_columns(base, fold.pairs.features, fold.trees)
    pairs = Pairs(fold.pairs.n_items, left, right, columns[:, :0])
    return PreparedFold(
        knots.places(columns), pairs, fold.cluster, fold.orders, log_odds(float(together.mean()))
    )


def join_columns(base: Floats | None, features: Features, trees: Floats | None) -> Features:
    """The columns of the score: evidence, features, trees."""
    parts = [features]
    if base is not None:
        parts.insert(0, base[:, None].astype(np.float32))
    if trees is not None:
        parts.append(trees[:, None].astype(np.float32))
    return np.ascontiguousarray(np.column_stack(parts)) if len(parts) > 1 else features


def cross_fit(
    evidence: Evidence, fold: TrainingFold, together: Booleans, weight: Floats, rng: np.random.Generator
) -> Floats:
    """The log-ratio of each labelled pair by what other clusters teach: no pair is judged by itself."""
    features, layout = fold.pairs.features, evidence.layout
    strangers = levels_of(features[~together], layout.n_comparisons) + 0.5
    strangers /= strangers.sum(axis=1, keepdims=True)
    part = rng.permutation(fold.cluster.max() + 1) % N_FOLDS
    first, second = part[fold.cluster[fold.pairs.left]], part[fold.cluster[fold.pairs.right]]
    own = [
        levels_of(features[together & (first == p)], layout.n_comparisons, weight[together & (first == p)])
        for p in range(N_FOLDS)
    ]
    out = np.zeros(len(features))
    for p in range(N_FOLDS):
        for q in range(p, N_FOLDS):
            rows = np.flatnonzero(((first == p) & (second == q)) | ((first == q) & (second == p)))
            if not len(rows):
                continue
            others = evidence.without(own[p] if p == q else own[p] + own[q])
            table = TableEvidence.of(layout, others.members(strangers), strangers)
            out[rows] = table.log_ratio(features[rows])
    return out
