"""The baselines that judge no pairs: names that match, all together or all apart, mixtures, and k-means.

DPMixture is scikit-learn's variational Dirichlet-process mixture of Gaussians, the unsupervised standard.

RCA. The training clusters are the chunklets: differences within them are what does not matter, so the metric is the
inverse of their covariance within clusters. Nothing is searched for, and different clusters teach nothing.
"""

from __future__ import annotations

import unicodedata
import warnings
from abc import abstractmethod
from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Floats, Integers
from scdp.compare.distances import Distances, PairLayout
from scdp.errors import InputError
from scdp.linkage.training.folds import canonical_labels as canonical_labels
from scdp.paper.surface import (
    Compared,
    DocumentBaseline,
    Items,
    PairBaseline,
    PairTable,
    Vectors,
    check_labels,
    number_within_groups,
    pair_features,
    take_raw,
)
from scdp.table import Records
from scdp.table.spec import Spec


class Coarse(DocumentBaseline):
    """Everything is one cluster (one a document where groups are given)."""

    def _cluster(self, items: Items) -> list[Hashable]:
        return [0] * len(items)


class Fine(DocumentBaseline):
    """Every item is a cluster of its own."""

    def _cluster(self, items: Items) -> list[Hashable]:
        return list(range(len(items)))


class NameMatch(DocumentBaseline):
    """The same last name and the same first initial, whatever the case and accents.

    A record without a last name stays alone; records without a first name match each other.
    """

    def __init__(self, first: str = "first", last: str = "last") -> None:
        self.first = first
        self.last = last

    def _cluster(self, items: Items) -> list[Hashable]:
        records = _need_records(items, self)
        return [
            _make_lone_key(row) if last is None else (fold(last), fold(first or "")[:1])
            for row, (first, last) in enumerate(zip(records[self.first], records[self.last], strict=True))
        ]


class SameHead(DocumentBaseline):
    """The same last word of the column `text`, or the same cell of the column `head`, whatever the case.

    `head` is used instead of `text` where it is given; a mention without a head stays alone.
    """

    def __init__(self, text: str = "name", head: str | None = None) -> None:
        self.text = text
        self.head = head

    def _cluster(self, items: Items) -> list[Hashable]:
        records = _need_records(items, self)
        if self.head is None:
            heads = [_last_word(cell) for cell in records[self.text]]
        else:
            heads = list(records[self.head])
        return [_make_lone_key(row) if head is None else head.casefold() for row, head in enumerate(heads)]


def fold(text: str) -> str:
    """Without case, accents and outer blanks: "  Müller" is "muller"."""
    decomposed = unicodedata.normalize("NFKD", text.strip())
    return "".join(sign for sign in decomposed if not unicodedata.combining(sign)).casefold()


def _last_word(cell: str | None) -> str | None:
    words = (cell or "").split()
    return words[-1] if words else None


def _make_lone_key(row: int) -> Hashable:
    # A tuple with None equals no folded name, so such a record matches nothing.
    return (None, row)


def _need_records(items: Items, baseline: DocumentBaseline) -> Records:
    if not isinstance(items, Records):
        raise InputError(f"{type(baseline).__name__} compares text: give Records, not an array of numbers")
    return items


class DPMixture(DocumentBaseline):
    """Clusters what `predict` is given (each document apart) and learns nothing from `fit`; vectors only.

    `n_components` is where the process is cut off: a limit on the number of clusters, not the number.
    """

    def __init__(self, n_components: int = 30, random_state: int = 0) -> None:
        self.n_components = n_components
        self.random_state = random_state

    def _learn(self, items: Items, labels: Integers | None, groups: NDArray[Any] | None) -> None:
        _need_vectors(items)

    def _cluster(self, items: Items) -> list[Hashable]:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.mixture import BayesianGaussianMixture

        vectors = _need_vectors(items)
        if len(vectors) == 1:
            return [0]
        mixture = BayesianGaussianMixture(
            n_components=min(self.n_components, len(vectors)),
            covariance_type="diag",
            weight_concentration_prior_type="dirichlet_process",
            max_iter=500,
            random_state=self.random_state,
        )
        with warnings.catch_warnings():
            # Weights of empty components keep creeping long after the clusters stand still.
            warnings.simplefilter("ignore", ConvergenceWarning)
            return list(mixture.fit_predict(vectors).tolist())


def _need_vectors(items: Items) -> NDArray[np.float64]:
    if isinstance(items, Records) or items.ndim != 2:
        given = "records" if isinstance(items, Records) else "distances"
        raise InputError(f"DPMixture needs coordinates, not {given}: give a float array (items, features)")
    if np.isnan(items).any():
        row, column = np.argwhere(np.isnan(items))[0].tolist()
        raise InputError(f"DPMixture: X has a missing value in row {row}, column {column}; fill it first")
    return items


def implicit_k_means(
    squared: Floats, n_clusters: int, rng: np.random.Generator, n_starts: int = 10, n_steps: int = 100
) -> Integers:
    """The best of several starts by the sum of squared distances to the means."""
    if n_clusters >= len(squared):
        return np.arange(len(squared))
    best, lowest = np.zeros(len(squared), dtype=np.int64), np.inf
    for _ in range(n_starts):
        labels, inertia = _lloyd(squared, _seeds(squared, n_clusters, rng), n_steps)
        if inertia < lowest:
            best, lowest = labels, inertia
    return best


def to_means(squared: Floats, labels: Integers, n_clusters: int) -> Floats:
    """Squared distance (items, clusters) of every item to the mean of every cluster; none may be empty."""
    member = np.zeros((len(labels), n_clusters))
    member[np.arange(len(labels)), labels] = 1.0
    sizes = member.sum(axis=0)
    sums = squared @ member
    inside = np.einsum("ik,ik->k", member, sums)
    return sums / sizes - inside / (2 * sizes**2)


def _seeds(squared: Floats, n_clusters: int, rng: np.random.Generator) -> Integers:
    """k-means++: each next seed is drawn by its squared distance to the nearest one; then the nearest seed."""
    first = int(rng.integers(len(squared)))
    seeds, nearest = [first], squared[first].copy()
    while len(seeds) < n_clusters:
        nearest[seeds] = 0.0
        total = nearest.sum()
        rest = np.setdiff1d(np.arange(len(squared)), seeds)
        # Where all that is left lies on a seed, any item is as good as another.
        seed = int(rng.choice(len(squared), p=nearest / total)) if total > 0 else int(rng.choice(rest))
        seeds.append(seed)
        nearest = np.minimum(nearest, squared[seed])
    labels = np.argmin(squared[:, seeds], axis=1)
    labels[seeds] = np.arange(n_clusters)
    return labels


def _lloyd(squared: Floats, labels: Integers, n_steps: int) -> tuple[Integers, float]:
    n_clusters, rows = int(labels.max()) + 1, np.arange(len(labels))
    best, lowest = labels, np.inf
    for _ in range(n_steps):
        apart = to_means(squared, labels, n_clusters)
        inertia = float(apart[rows, labels].sum())
        # Distances that fit no Euclidean space can make a step uphill, so the best state is kept.
        if inertia < lowest:
            best, lowest = labels, inertia
        moved = _fill_empty(np.argmin(apart, axis=1), apart, n_clusters)
        if np.array_equal(moved, labels):
            break
        labels = moved
    return best, lowest


def _fill_empty(labels: Integers, apart: Floats, n_clusters: int) -> Integers:
    """Give each empty cluster the item that is farthest from the mean of its own."""
    sizes = np.bincount(labels, minlength=n_clusters)
    for empty in np.flatnonzero(sizes == 0):
        own = np.where(sizes[labels] > 1, apart[np.arange(len(labels)), labels], -np.inf)
        item = int(np.argmax(own))
        sizes[labels[item]] -= 1
        labels[item] = empty
        sizes[empty] += 1
    return labels


class OracleBaseline(PairBaseline):
    """A baseline that is told the number of clusters: by the `gold` labels of `predict`, or as `n_clusters`."""

    def __init__(
        self,
        n_clusters: int | None = None,
        spec: Spec | None = None,
        n_starts: int = 10,
        random_state: int = 0,
        raw: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.spec = spec
        self.raw = raw
        self.n_starts = n_starts
        self.random_state = random_state

    def predict(self, X: Any, groups: Any = None, gold: Any = None) -> Integers:
        """ORACLE: `gold` are the true clusters of X; each group gets as many clusters as it truly has."""
        found = self._check(X, groups)
        truth = None if gold is None else check_labels(gold, len(found))
        return number_within_groups(found.layout, self._cluster_with_gold(found, truth))

    def fit_predict(self, X: Any, y: Any = None, groups: Any = None) -> Integers:
        """ORACLE: `y` is used as the gold labels too, unless `n_clusters` is given."""
        gold = y if self.n_clusters is None else None
        return self.fit(X, y, groups).predict(X, groups, gold)

    @abstractmethod
    def _cluster_with_gold(self, items: Compared, gold: Integers | None) -> Integers: ...

    def _count_clusters(self, layout: PairLayout, gold: Integers | None) -> list[int]:
        """The number of clusters of each group."""
        if gold is not None:
            return [len(np.unique(gold[layout.members(group)])) for group in range(len(layout.labels))]
        if self.n_clusters is None:
            name = type(self).__name__
            raise InputError(f"{name} is an oracle: give predict(X, gold=...), or {name}(n_clusters=...)")
        return [min(self.n_clusters, size) for size in layout.sizes.tolist()]


class OracleKMeans(OracleBaseline):
    """ORACLE: k comes from the gold labels of the items to be clustered (`predict(X, groups, gold=y_test)`).

    Vectors are taken as they are. Distances are brought to one unit, so that each feature's mean square is the
    same over the training pairs, and clustered through the implicit embedding; so are vectors with missing
    values. Where a pair misses features, the mean over those it has stands for them. `raw` takes distances as they
    are, and a missing one as 1.
    """

    needs_labels = False

    def _learn(self, items: Any, labels: Integers | None, groups: NDArray[Any] | None) -> None:
        # k-means learns nothing from clusters: all rows give the scales, whether their clusters are known or not.
        super()._learn(items, np.zeros(len(items), dtype=np.int64), groups)

    def _learn_pairs(self, items: Compared, labels: Integers) -> None:
        self.scales_ = items.scaled().scales if isinstance(items, Distances) else None

    def _cluster_with_gold(self, items: Compared, gold: Integers | None) -> Integers:
        if isinstance(items, Distances) and self.scales_ is not None:
            items = take_raw(items) if self.raw else items.rescaled(self.scales_)
        sizes = self._count_clusters(items.layout, gold)
        return k_means(items, sizes, self.n_starts, self.random_state)


def k_means(
    items: Compared, n_clusters: list[int], n_starts: int, seed: int, weights: Floats | None = None
) -> Integers:
    """k-means in each group; `weights` multiply the squared distance of each feature."""
    labels = np.zeros(len(items), dtype=np.int64)
    if isinstance(items, Vectors) and not np.isnan(items.values).any():
        values = items.values if weights is None else items.values * np.sqrt(weights)
        for group, k in enumerate(n_clusters):
            rows = items.layout.members(group)
            labels[rows] = _of_vectors(values[rows], k, n_starts, seed)
        return labels
    rng = np.random.default_rng(seed)
    squared = squared_length(pair_features(items).astype(np.float64), weights)
    for group, k in enumerate(n_clusters):
        labels[items.layout.members(group)] = implicit_k_means(_square(items.layout, group, squared), k, rng, n_starts)
    return labels


def k_means_under(items: Compared, metric: Floats, n_clusters: list[int], n_starts: int, seed: int) -> Integers:
    """k-means in each group under a learned metric: weights of features, or a full matrix for vectors."""
    if metric.ndim == 1:
        return k_means(items, n_clusters, n_starts, seed, metric)
    assert isinstance(items, Vectors)
    values, vectors = np.linalg.eigh(metric)
    turned = items.values @ (vectors * np.sqrt(np.maximum(values, 0.0)))
    return k_means(Vectors(turned, items.layout), n_clusters, n_starts, seed)


def squared_length(features: Floats, weights: Floats | None = None) -> Floats:
    """The squared distance of pairs: the sum over features, each missing one counted as the mean of the others.

    A pair that has nothing in common is as far apart as the mean pair.
    """
    squares = features**2 if weights is None else features**2 * weights
    observed = np.count_nonzero(~np.isnan(squares), axis=1)
    sums = np.nansum(squares, axis=1)
    out = sums * features.shape[1] / np.maximum(observed, 1)
    some = observed > 0
    out[~some] = out[some].mean() if some.any() else 1.0
    return out


def _square(layout: PairLayout, group: int, squared: Floats) -> Floats:
    from scipy.spatial.distance import squareform

    if layout.sizes[group] < 2:
        return np.zeros((1, 1))
    return np.asarray(squareform(squared[layout.starts[group] : layout.starts[group + 1]], checks=False))


def _of_vectors(values: Floats, n_clusters: int, n_starts: int, seed: int) -> Integers:
    from sklearn.cluster import KMeans

    if n_clusters >= len(np.unique(values, axis=0)):
        # As many clusters as different points (or more): each is its own, and KMeans would only warn.
        return np.unique(values, axis=0, return_inverse=True)[1].astype(np.int64).ravel()
    found = KMeans(n_clusters, n_init=n_starts, random_state=seed).fit(values)
    return np.asarray(found.labels_, dtype=np.int64)


# Directions that vary less than this beside the most varied one weigh nothing.
NEGLIGIBLE = 1e-9


def covariance_within(values: Floats, labels: Integers) -> Floats:
    """Covariance of vectors around the mean of their cluster."""
    _, place = np.unique(labels, return_inverse=True)
    sizes = np.bincount(place)
    means = np.stack([np.bincount(place, column) for column in values.T], axis=1) / sizes[:, None]
    gaps = values - means[place]
    return np.asarray(gaps.T @ gaps / len(values))


def variance_within(features: Floats, table: PairTable, labels: Integers) -> Floats:
    """By feature, the mean square around the mean of a cluster, from the distances of its pairs; NaN is no pair."""
    same = np.flatnonzero(table.same)
    squares = features[same] ** 2
    # The squares around a mean are the squares of all pairs over the size, so each pair weighs one over the size.
    size = np.bincount(labels)[labels[table.left[same]]]
    seen = ~np.isnan(squares)
    return np.asarray((np.where(seen, squares, 0.0) / size[:, None]).sum(axis=0) / len(labels))


class RCA(OracleBaseline):
    """ORACLE: k comes from the gold labels of `predict`; the metric from the training clusters.

    Vectors get the full inverse of the covariance within training clusters; distances, and vectors with missing values,
    the inverse of each feature's variance. After `fit`: `metric_`.
    """

    def _learn_pairs(self, items: Compared, labels: Integers) -> None:
        table = PairTable.of(items.layout, labels)
        if not table.same.any():
            raise InputError("RCA: no two training items are of one cluster, so nothing is known to vary within one")
        if isinstance(items, Vectors) and not np.isnan(items.values).any():
            inside = covariance_within(items.values, labels)
            self.metric_ = np.asarray(np.linalg.pinv(inside, rcond=NEGLIGIBLE, hermitian=True), np.float64)
            return
        features = pair_features(take_raw(items) if self.raw and isinstance(items, Distances) else items)
        pairs = np.column_stack([items.layout.group, labels])
        codes = np.unique(pairs, axis=0, return_inverse=True)[1].ravel()
        inside = variance_within(features.astype(np.float64), table, codes)
        self.metric_ = np.where(inside > NEGLIGIBLE * inside.max(), 1.0 / np.maximum(inside, 1e-300), 0.0)

    def _cluster_with_gold(self, items: Compared, gold: Integers | None) -> Integers:
        told = self._count_clusters(items.layout, gold)
        if isinstance(items, Distances) and self.raw:
            items = take_raw(items)
        full = self.metric_.ndim == 2
        if full and isinstance(items, Vectors) and np.isnan(items.values).any():
            raise InputError("RCA learned a full matrix: X may not have missing values where training had none")
        return k_means_under(items, self.metric_, told, self.n_starts, self.random_state)
