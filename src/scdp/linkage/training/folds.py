"""Folds of labelled records: known clusters enter; pairs with all columns of the score leave."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import combinations
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Booleans, Features, Floats, Integers
from scdp.compare.features import Layout, Pairs
from scdp.errors import InputError
from scdp.linkage import BASE, FLOOR, NEGLIGIBLE, Knots, Parameters, Places
from scdp.linkage.evidence import Evidence, TableEvidence, log_odds, member_weights
from scdp.linkage.law import Matches, Placements
from scdp.linkage.levels import levels_of

Rows = NDArray[np.int64]

FEWEST_CLUSTERS = 4
GROUP_FOLDS = 5
FEW_CLUSTER_FOLDS = 10


def canonical_labels(labels: Iterable[Hashable]) -> Integers:
    """The same clustering as integers 0..K-1 in order of first appearance."""
    codes: dict[Hashable, int] = {}
    return np.array([codes.setdefault(label, len(codes)) for label in labels], dtype=np.int64)


def held_out_sets(labels: Integers, groups: NDArray[np.int64], n_folds: int, rng: np.random.Generator) -> list[Rows]:
    """The rows each fold holds out: whole groups where there are enough, whole clusters otherwise.

    Folds of clusters are of about equal size and have at least two clusters each, or there would be nothing
    to tell apart. With fewer than 2 `n_folds` clusters each fold holds out a different random half of them.
    """
    if len(np.unique(groups)) >= n_folds:
        return _partition(groups, n_folds, rng)
    clusters, n_clusters = _clusters(labels, groups)
    if n_clusters < FEWEST_CLUSTERS:
        raise InputError(f"y has {n_clusters} known clusters; give at least {FEWEST_CLUSTERS} to learn from")
    if n_clusters >= 2 * n_folds:
        return _partition(clusters, n_folds, rng)
    return _halves(clusters, n_clusters, n_folds, rng)


def held_out_halves(labels: Integers, groups: NDArray[np.int64], rng: np.random.Generator) -> list[Rows]:
    """Twelve halves: every two of four quarters of the clusters, quartered twice, as large as a new data set.

    A threshold chosen on small folds is too loose for a larger set, where more clusters lie close together. A
    group keeps its size in any fold, so groups are held out by fifths.
    """
    if len(np.unique(groups)) >= GROUP_FOLDS:
        return held_out_sets(labels, groups, GROUP_FOLDS, rng)
    if _clusters(labels, groups)[1] < 8:
        # Too few to quarter into two or more each.
        return held_out_sets(labels, groups, FEW_CLUSTER_FOLDS, rng)
    halves: list[Rows] = []
    for _ in range(2):
        quarters = held_out_sets(labels, groups, 4, rng)
        halves += [np.sort(np.concatenate(two)) for two in combinations(quarters, 2)]
    return halves


def _clusters(labels: Integers, groups: NDArray[np.int64]) -> tuple[Integers, int]:
    """A cluster is one within a group."""
    clusters = canonical_labels(zip(groups.tolist(), labels.tolist(), strict=True))
    return clusters, int(clusters.max(initial=-1)) + 1


def _partition(units: NDArray[np.int64], n_folds: int, rng: np.random.Generator) -> list[Rows]:
    """Largest unit first, each to the fold that is lightest so far."""
    codes = canonical_labels(units.tolist())
    sizes = np.bincount(codes)
    order = rng.permutation(len(sizes))
    order = order[np.argsort(-sizes[order], kind="stable")]
    fold_of, weights = np.empty(len(sizes), dtype=np.int64), np.zeros(n_folds)
    counts = np.zeros(n_folds)
    for unit in order:
        # The first round deals out one unit each, the second another: no fold is left with a single cluster.
        lightest = np.lexsort((weights, np.minimum(counts, 2)))[0]
        fold_of[unit] = lightest
        weights[lightest] += sizes[unit]
        counts[lightest] += 1
    return [np.flatnonzero(fold_of[codes] == fold) for fold in range(n_folds)]


def _halves(clusters: NDArray[np.int64], n_clusters: int, n_folds: int, rng: np.random.Generator) -> list[Rows]:
    half = n_clusters // 2
    if n_clusters <= 10:
        every = list(combinations(range(n_clusters), half))
        chosen = [every[place] for place in rng.permutation(len(every))[:n_folds]]
    else:
        chosen = [tuple(rng.permutation(n_clusters)[:half].tolist()) for _ in range(n_folds)]
    return [np.flatnonzero(np.isin(clusters, held)) for held in chosen]


N_ORDERS = 2
N_FOLDS = 5
KNOT_PAIRS = 200_000
# Learning looks at all pairs of at most so many records, or at as many pairs within groups.
MOST_RECORDS = 900
# Groups can be held out where there are so many.
FEWEST_GROUPS = 4


class LabelledPairs(NamedTuple):
    """Pairs of records of known clusters: all of them, or all that may be matches and some of the others.

    `stands_for` is how many pairs each stands for, None where they are all.
    """

    pairs: Pairs
    stands_for: Floats | None = None


class LabelledSource(Protocol):
    """Records of known clusters, of which any part can be asked for as pairs."""

    @property
    def n_records(self) -> int:
        """All records, known or not: among these rarity is counted."""
        ...

    def choose(self, cluster: Integers, rng: np.random.Generator) -> Integers:
        """The records to learn from: whole clusters, as many as there is time for."""
        ...

    def pairs(self, items: Integers, cluster: Integers) -> LabelledPairs:
        """Pairs of some records, whose clusters are these; all pairs of one cluster are among them."""
        ...


class TrainingFold(NamedTuple):
    """Records of known clusters: features of their pairs, what trees say of them, and orders to place them in.

    `stands_for` is how many pairs of the records each stands for, None where all pairs are there.
    """

    pairs: Pairs
    cluster: Integers
    trees: Floats | None
    orders: tuple[Integers, ...]
    stands_for: Floats | None = None

    @property
    def n_pairs(self) -> float:
        """Of all records of the fold."""
        return float(len(self.pairs) if self.stands_for is None else self.stands_for.sum())

    @property
    def match_share(self) -> float:
        """The share of all pairs that are of one cluster."""
        together = self.cluster[self.pairs.left] == self.cluster[self.pairs.right]
        return float(together.sum() / max(self.n_pairs, 1.0))

    def random_pairs(self) -> Features:
        """Features of pairs as they are at random: every pair, or as often as it stands for others."""
        if self.stands_for is None:
            return self.pairs.features
        upto = np.cumsum(self.stands_for)
        places = np.searchsorted(upto, upto[-1] * (np.arange(len(upto)) + 0.5) / len(upto))
        return self.pairs.features[places]


class PreparedFold(NamedTuple):
    """A fold whose pairs have all columns of the score; `log_odds` is of a random pair of it for being a match.

    Pairs that were left out have the score `floor`, and `stands_for` is how many each of those here stands for. The
    weight of a third record is relative to `third`.
    """

    places: Places
    pairs: Pairs
    cluster: Integers
    orders: tuple[Integers, ...]
    log_odds: float
    floor: float = 0.0
    stands_for: Floats | None = None
    third: float = 0.0

    def placements(self) -> tuple[Placements, ...]:
        """Its records placed in each of the orders, and each given all others."""
        placed = (self.pairs.neighbours, self.cluster)
        everyone = Placements.of(*placed, np.arange(len(self.cluster)), True)
        return *(Placements.of(*placed, order, False) for order in self.orders), everyone

    def without_unlikely(self, parameters: Parameters) -> PreparedFold:
        """Without the pairs that are as good as certain not to be matches, which make most of the work."""
        score = parameters.scores(self.places)
        kept = score + parameters.bias + self.log_odds >= NEGLIGIBLE
        if kept.all():
            return self
        places = Places(self.places.piece[kept], self.places.along[kept])
        pairs = Pairs(self.pairs.n_items, self.pairs.left[kept], self.pairs.right[kept], self.pairs.features[kept])
        weight = None if self.stands_for is None else self.stands_for[~kept]
        floor = float(np.average(score[~kept], weights=weight))
        return self._replace(places=places, pairs=pairs, floor=floor, stands_for=None)


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


def choose_whole(cluster: Integers, group: Integers | None, rng: np.random.Generator) -> Integers:
    """Records to learn from by all their pairs: whole groups, where there are some, or else whole clusters."""
    everyone = np.arange(len(cluster))
    if group is None:
        return take_whole_clusters(everyone, cluster, MOST_RECORDS, rng)
    sizes = np.bincount(group)
    order = rng.permutation(len(sizes))
    room = MOST_RECORDS * (MOST_RECORDS - 1) // 2
    n_taken = int((np.cumsum(sizes[order] * (sizes[order] - 1) // 2) <= room).sum())
    if n_taken < min(FEWEST_GROUPS, len(sizes)):
        return take_whole_clusters(everyone, cluster, MOST_RECORDS, rng)
    return everyone[np.isin(group, order[:n_taken])]


def take_whole_clusters(
    items: Integers, cluster: Integers, most: int, rng: np.random.Generator, most_together: float = np.inf
) -> Integers:
    """Whole clusters, at least two, as many as there is room for by records and by pairs of one cluster."""
    names, codes = np.unique(cluster[items], return_inverse=True)
    sizes = np.bincount(codes)
    n_together = sizes * (sizes - 1) // 2
    if len(items) <= most and n_together.sum() <= most_together:
        return items
    order = rng.permutation(len(names))
    # A cluster that is too large for the room left is passed over, so that smaller ones still find a place.
    kept: list[int] = []
    room, room_together = float(most), most_together
    for name in order:
        if (sizes[name] <= room and n_together[name] <= room_together) or len(kept) < 2:
            kept.append(name)
            room -= sizes[name]
            room_together -= n_together[name]
    chosen: Integers = items[np.isin(codes, kept)]
    return chosen


def split_in_halves(cluster: Integers, group: Integers, rng: np.random.Generator) -> list[Integers]:
    """Two halves of the clusters (or groups), each of which teaches something; none where there are too few."""
    units = group if len(np.unique(group)) >= FEWEST_GROUPS else cluster
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
    labelled: LabelledPairs, cluster: Integers, trees: Floats | None, rng: np.random.Generator
) -> TrainingFold:
    """A fold of these pairs, with random orders to place its records in."""
    pairs, stands_for = labelled
    orders = tuple(rng.permutation(pairs.n_items) for _ in range(N_ORDERS))
    return TrainingFold(pairs, canonical_labels(cluster.tolist()), trees, orders, stands_for)


def learn_evidence(layout: Layout, folds: Sequence[TrainingFold]) -> Evidence:
    """The evidence that the labelled pairs of all folds teach."""
    features = np.concatenate([fold.pairs.features for fold in folds])
    weights = [member_weights(fold.cluster, fold.pairs.left, fold.pairs.right)[1] for fold in folds]
    each = [np.ones(len(fold.pairs)) if fold.stands_for is None else fold.stands_for for fold in folds]
    return Evidence.learn(layout, features, np.concatenate(weights), np.concatenate(each))


def sample_matches(
    folds: Sequence[TrainingFold], n_records: int, optimism: Floats | None, rng: np.random.Generator
) -> Matches:
    """Some labelled matches of all folds, with how much is said too much for each; a cluster of n counts as n - 1."""
    features, weights = [], []
    for fold in folds:
        together, weight = member_weights(fold.cluster, fold.pairs.left, fold.pairs.right)
        features.append(fold.pairs.features[together])
        weights.append(weight[together])
    each = np.concatenate(weights)
    return Matches.sample(
        np.concatenate(features), each, n_records, np.zeros(len(each)) if optimism is None else optimism, rng
    )


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


def prepare(fold: TrainingFold, evidence: Evidence | None, knots: Knots, rng: np.random.Generator) -> PreparedFold:
    """The fold with all columns of the score; evidence of a pair comes from other clusters than its own."""
    left, right = fold.pairs.left, fold.pairs.right
    together, weight = member_weights(fold.cluster, left, right)
    base = None if evidence is None else cross_fit(evidence, fold, together, weight, rng)
    columns = join_columns(base, fold.pairs.features, fold.trees)
    return prepare_columns(fold, knots, columns, log_odds(fold.match_share))


def prepare_columns(fold: TrainingFold, knots: Knots, columns: Features, odds: float) -> PreparedFold:
    """The fold with these columns of the score; pairs that are not here are taken for the least alike that are."""
    pairs = Pairs(fold.pairs.n_items, fold.pairs.left, fold.pairs.right, columns[:, :0])
    floor = 0.0 if fold.stands_for is None else FLOOR
    return PreparedFold(knots.places(columns), pairs, fold.cluster, fold.orders, odds, floor, fold.stands_for)


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
    others = None if fold.stands_for is None else fold.stands_for[~together]
    strangers = levels_of(features[~together], layout.n_comparisons, others) + 0.5
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
            rest = evidence.without(own[p] if p == q else own[p] + own[q])
            table = TableEvidence.of(layout, rest.members(strangers), strangers)
            out[rows] = table.log_ratio(features[rows])
    return out
