"""What a law is learned from and applied to: records, distances or vectors, as pairs of any part of them.

Diffusion distances compare where random walks over the graph of nearest neighbours end: two items of one elongated
cluster are close though many steps apart. They are made anew for each set of items, from the items alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Floats, Integers
from scdp.blocking import CandidatePairs, candidate_pairs
from scdp.blocking.by_size import MOST_CANDIDATES_A_RECORD, Ladder
from scdp.compare.distances import Distances, safe_unit
from scdp.compare.features import Comparer, Pairs
from scdp.conditions import Conditions
from scdp.errors import InputError
from scdp.hashing import draw_strangers
from scdp.linkage.training.folds import LabelledPairs, choose_whole, take_whole_clusters
from scdp.table import Records
from scdp.table.spec import Spec

N_NEIGHBOURS = (10, 20)
WALK_STEPS = (1, 3, 8)
N_DIMENSIONS = 12
# Of more coordinates than this, single ones say too little to be worth a function each.
MOST_COORDINATES = 16
# The covariance within clusters is drawn this far towards a round one: few clusters cannot tell all of it.
ROUNDNESS = 0.3
FARTHEST = 6.0
# All pairs of up to so many records are learned from. Of more only candidates are compared, and learning looks at whole
# clusters of at most so many records, at so many pairs of one cluster, and at so many random pairs.
MOST_WHOLE = 750
MOST_BLOCKED, MOST_TOGETHER, MOST_FAR = 6_000, 200_000, 50_000
MOST_PAIRS_TAUGHT = MOST_BLOCKED * MOST_CANDIDATES_A_RECORD + MOST_TOGETHER + MOST_FAR
SAME_SIZE = 10.0
# Of very many labelled records clusters are taken each with so many that look like it.
MOST_AROUND = 50


@dataclass(frozen=True, eq=False)
class VectorView:
    """How vectors are looked at: centred and scaled, and turned by the covariance within the training clusters."""

    mean: Floats
    scale: Floats
    whitening: Floats

    @classmethod
    def of(cls, values: Floats, cluster: Integers, mean: Floats, scale: Floats) -> Self:
        return cls(mean, scale, whitening(np.nan_to_num((values - mean) / scale), cluster))

    @property
    def names(self) -> tuple[str, ...]:
        walks = (f"walk of {t} over {k} neighbours" for k in N_NEIGHBOURS for t in WALK_STEPS)
        single = (f"coordinate {number + 1}" for number in range(self._n_single))
        return ("distance", "distance by spread within clusters", *walks, *single)

    @property
    def _n_single(self) -> int:
        return len(self.mean) if len(self.mean) <= MOST_COORDINATES else 0

    def pairs(self, values: Floats, groups: Integers | None) -> Pairs:
        """All pairs within each group (of all vectors without groups)."""
        parts = [np.arange(len(values))] if groups is None else rows_of(groups)
        found = [self._pairs_among(values, rows) for rows in parts]
        features = np.concatenate([each[2] for each in found])
        left, right = (np.concatenate([each[side] for each in found]) for side in (0, 1))
        return Pairs(len(values), left, right, features)

    def _pairs_among(self, values: Floats, rows: Integers) -> tuple[Integers, Integers, NDArray[np.float32]]:
        plain = np.nan_to_num((values[rows] - self.mean) / self.scale)
        left, right = np.triu_indices(len(rows), k=1)
        squared = squared_distances(plain)
        columns = [
            np.sqrt(squared[left, right] / plain.shape[1]),
            np.sqrt(squared_distances(plain @ self.whitening)[left, right] / plain.shape[1]),
        ]
        for k in N_NEIGHBOURS:
            columns += [walk[left, right] for walk in diffusion_distances(squared, k)]
        columns += [
            np.abs(values[rows[left], f] - values[rows[right], f]) / self.scale[f] for f in range(self._n_single)
        ]
        return rows[left], rows[right], np.minimum(np.column_stack(columns), FARTHEST).astype(np.float32)


def rows_of(groups: Integers) -> list[Integers]:
    """The rows of each group, groups in order of first appearance."""
    order = np.argsort(groups, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)


def squared_distances(points: Floats) -> Floats:
    norms = np.einsum("if,if->i", points, points)
    squared = np.maximum(norms[:, None] + norms - 2 * points @ points.T, 0.0)
    np.fill_diagonal(squared, 0.0)
    return squared


def whitening(points: Floats, cluster: Integers) -> Floats:
    """A matrix that makes the covariance within clusters round, as far as they tell."""
    n_features = points.shape[1]
    codes = np.unique(cluster, return_inverse=True)[1]
    sums = np.zeros((codes.max(initial=-1) + 1, n_features))
    np.add.at(sums, codes, points)
    gaps = points - (sums / np.maximum(np.bincount(codes), 1)[:, None])[codes]
    covariance = gaps.T @ gaps / max(len(points) - len(sums), 1)
    size = np.trace(covariance) / n_features
    if not size > 0:
        return np.eye(n_features)
    spread, axes = np.linalg.eigh((1 - ROUNDNESS) * covariance + ROUNDNESS * size * np.eye(n_features))
    return axes / np.sqrt(spread)


def diffusion_distances(squared: Floats, n_neighbours: int) -> list[Floats]:
    """By number of steps, distances between where walks from each item end; missing where items are too few."""
    n = len(squared)
    if n < 2 * n_neighbours:
        return [np.full((n, n), np.nan)] * len(WALK_STEPS)
    nearest = np.argsort(squared, axis=1, kind="stable")[:, : n_neighbours + 1]
    joined = np.zeros((n, n))
    joined[np.arange(n)[:, None], nearest] = 1.0
    joined = np.maximum(joined, joined.T)
    degree = joined.sum(axis=1)
    values, vectors = leading_vectors(joined / np.sqrt(np.outer(degree, degree)))
    distances = []
    for steps in WALK_STEPS:
        place = vectors * values**steps * np.sqrt(degree.sum() / degree)[:, None]
        walked = squared_distances(place)
        # Measured by their median, which makes sets of different sizes comparable.
        middle = np.median(walked[np.triu_indices(n, k=1)])
        distances.append(np.sqrt(walked / middle) if middle > 0 else walked)
    return distances


def leading_vectors(matrix: Floats) -> tuple[Floats, Floats]:
    """The largest eigenvalues and their vectors, without the first, which is the same for all items."""
    from scipy.linalg import eigh

    n = len(matrix)
    first = max(n - N_DIMENSIONS, 0)
    values, vectors = eigh(matrix, subset_by_index=(first, n - 1))
    return values[::-1][1:], vectors[:, ::-1][:, 1:]


def units(scale: Floats) -> Floats:
    """One unit for all coordinates whose spreads are of one size, as those of pixels are; else each its own.

    Blowing up pixels that hardly ever change hides the picture; incomes and ages have no common unit.
    """
    # Not the smallest: of many pixels a few hardly ever change.
    if scale.max() <= SAME_SIZE * np.quantile(scale, 0.25, method="lower"):
        unit = safe_unit(scale.max())
        return np.full(len(scale), unit * np.sqrt(np.mean((scale / unit) ** 2)))
    return scale


# Pairs are kept in single precision, whose squares must stay finite.
LARGEST_UNIT = 1e15


def pairs_of(distances: Distances) -> Pairs:
    """All pairs within groups, with their distances in the units of the comparisons."""
    layout = distances.layout
    left = np.empty(layout.n_pairs, dtype=np.int64)
    right = np.empty(layout.n_pairs, dtype=np.int64)
    for row in range(layout.n_records):
        entries, others = layout.row(row)
        left[entries], right[entries] = row, others
    if ((distances.scales > LARGEST_UNIT) | (distances.scales < 1 / LARGEST_UNIT)).any():
        low, high = float(distances.scales.min()), float(distances.scales.max())
        raise InputError(
            f"distances of {low:.0e} to {high:.0e} are beyond what this model can hold; give them in a unit in which "
            f"they are between {1 / LARGEST_UNIT:.0e} and {LARGEST_UNIT:.0e}"
        )
    features = np.asarray(distances.values, dtype=np.float32) * np.asarray(distances.scales, dtype=np.float32)
    return Pairs(layout.n_records, left, right, features)


@dataclass(frozen=True, eq=False)
class PairSource:
    """Pairs that are there already; a part of the items has a part of the pairs."""

    every: Pairs
    groups: Integers | None = None

    @property
    def n_records(self) -> int:
        return self.every.n_items

    def choose(self, cluster: Integers, rng: np.random.Generator) -> Integers:
        return choose_whole(cluster, self.groups, rng)

    def pairs(self, items: Integers, cluster: Integers) -> LabelledPairs:
        return LabelledPairs(self.every.take(items))


@dataclass(frozen=True, eq=False)
class RecordSource:
    """Records, compared when a part of them is asked for; rarity is counted over all of them.

    Of many records in one group only the candidates of a blocking are compared, with all pairs of one cluster and a
    sample of the others; `find_candidates` is None where all pairs are.
    """

    comparer: Comparer
    labelled: Integers
    groups: Integers | None
    conditions: Conditions | None = None
    find_candidates: Callable[[Integers], CandidatePairs] | None = None

    @classmethod
    def of(
        cls,
        records: Records,
        spec: Spec,
        labelled: Integers,
        groups: Integers | None,
        conditions: Conditions | None = None,
        ladder: Ladder | None = None,
    ) -> RecordSource:
        source = cls(Comparer.of(records, spec.fields), labelled, groups, conditions)
        if ladder is None or groups is not None or (conditions is not None and conditions.uncompared is not None):
            return source

        def find_candidates(rows: Integers) -> CandidatePairs:
            some = records.take(rows)
            return candidate_pairs(some, ladder.choose(some, spec).blocking)

        return replace(source, find_candidates=find_candidates)

    @property
    def n_records(self) -> int:
        return len(self.comparer)

    def choose(self, cluster: Integers, rng: np.random.Generator) -> Integers:
        if self.find_candidates is None:
            return choose_whole(cluster, None if self.groups is None else self.groups[self.labelled], rng)
        items = np.arange(len(cluster))
        if len(cluster) > MOST_BLOCKED:
            found = self.find_candidates(self.labelled)
            items = choose_neighbourhoods(cluster, found, MOST_BLOCKED, rng)
        return take_whole_clusters(items, cluster, MOST_BLOCKED, rng, MOST_TOGETHER)

    def pairs(self, items: Integers, cluster: Integers) -> LabelledPairs:
        rows = self.labelled[items]
        if self.find_candidates is not None and len(rows) > MOST_WHOLE:
            return self._near_pairs(rows, cluster)
        pairs = self.comparer.compare_some(rows, None if self.groups is None else self.groups[rows])
        if self.conditions is not None and self.conditions.uncompared is not None:
            pairs = pairs.select(self.conditions.may_meet(rows[pairs.left], rows[pairs.right]))
        return LabelledPairs(pairs)

    def _near_pairs(self, rows: Integers, cluster: Integers) -> LabelledPairs:
        """Candidates and pairs of one cluster, each for itself, and random other pairs, which stand for the rest."""
        assert self.find_candidates is not None
        n = len(rows)
        found = self.find_candidates(rows)
        near = np.union1d(found.left.astype(np.int64) * n + found.right, _pairs_together(cluster))
        far = np.setdiff1d(_random_pairs(n), near)
        n_rest = n * (n - 1) // 2 - len(near)
        each = np.concatenate([np.ones(len(near)), np.full(len(far), n_rest / max(len(far), 1))])
        left, right = np.divmod(np.concatenate([near, far]), n)
        order = np.lexsort((right, left))
        left, right = left[order], right[order]
        features = self.comparer.compare(rows[left], rows[right])
        return LabelledPairs(Pairs(n, left, right, features), each[order])


def choose_neighbourhoods(cluster: Integers, found: CandidatePairs, most: int, rng: np.random.Generator) -> Integers:
    """Some whole clusters, each with those that look like it: as many records as there is room for, or all.

    A sample of clusters alone hardly has strangers that look alike, and what relatives at one address are would not be
    learned from it.
    """
    codes = np.unique(cluster, return_inverse=True)[1]
    sizes = np.bincount(codes)
    left, right = codes[found.left].astype(np.int64), codes[found.right]
    apart = left != right
    ends = np.unique(np.concatenate([left * len(sizes) + right, right * len(sizes) + left])[np.tile(apart, 2)])
    one, other = np.divmod(ends, len(sizes))
    starts = np.searchsorted(one, np.arange(len(sizes) + 1))
    chosen = np.zeros(len(sizes), dtype=bool)
    room = most
    for centre in rng.permutation(len(sizes)).tolist():
        around = rng.permutation(other[starts[centre] : starts[centre + 1]])[:MOST_AROUND]
        new = np.append(centre, around)
        new = new[~chosen[new]]
        if sizes[new].sum() > room:
            # The last one comes alone, so that there are two.
            chosen[centre] |= sizes[centre] <= room
            break
        chosen[new] = True
        room -= int(sizes[new].sum())
    return np.flatnonzero(chosen[codes]) if chosen.sum() > 1 else np.arange(len(cluster))


def _pairs_together(cluster: Integers) -> Integers:
    """Pairs i < j of one cluster, as i times the number of records plus j."""
    n = len(cluster)
    codes = np.unique(cluster, return_inverse=True)[1]
    found = [np.zeros(0, dtype=np.int64)]
    for members in rows_of(codes):
        one, other = np.triu_indices(len(members), k=1)
        found.append(members[one] * n + members[other])
    return np.concatenate(found)


def _random_pairs(n: int) -> Integers:
    """Some pairs i < j of n records, as i times n plus j, each once."""
    left, right = draw_strangers(n, MOST_FAR)
    return np.unique(left * n + right)


@dataclass(frozen=True, eq=False)
class VectorSource:
    """Vectors, whose neighbourhoods are made anew for every part of them."""

    values: NDArray[np.float64]
    groups: Integers | None
    view: VectorView

    @property
    def n_records(self) -> int:
        return len(self.values)

    def choose(self, cluster: Integers, rng: np.random.Generator) -> Integers:
        return choose_whole(cluster, self.groups, rng)

    def pairs(self, items: Integers, cluster: Integers) -> LabelledPairs:
        groups = None if self.groups is None else self.groups[items]
        return LabelledPairs(self.view.pairs(self.values[items], groups))
