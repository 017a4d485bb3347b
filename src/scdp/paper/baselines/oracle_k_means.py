"""OracleKMeans: k-means that is TOLD the number of clusters, an upper bound on what k-means can do."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp.compare.distances import Distances, PairLayout
from scdp.errors import InputError
from scdp.paper.baselines.implicit_k_means import implicit_k_means
from scdp.paper.baselines.pairs import Compared, PairBaseline, Vectors, pair_features, within_groups
from scdp.paper.baselines.surface import Labels, check_labels
from scdp.table.spec import Spec

Floats = NDArray[np.float64]


class OracleBaseline(PairBaseline):
    """A baseline that is told the number of clusters: by the `gold` labels of `predict`, or as `n_clusters`."""

    n_clusters: int | None

    def predict(self, X: Any, groups: Any = None, gold: Any = None) -> Labels:
        """ORACLE: `gold` are the true clusters of X; each group gets as many clusters as it truly has."""
        found = self._checked(X, groups)
        truth = None if gold is None else check_labels(gold, len(found))
        return within_groups(found.layout, self._cluster_told(found, truth))

    def fit_predict(self, X: Any, y: Any = None, groups: Any = None) -> Labels:
        """ORACLE: `y` is used as the gold labels too, unless `n_clusters` is given."""
        gold = y if self.n_clusters is None else None
        return self.fit(X, y, groups).predict(X, groups, gold)

    @abstractmethod
    def _cluster_told(self, items: Compared, gold: Labels | None) -> Labels: ...

    def _told(self, layout: PairLayout, gold: Labels | None) -> list[int]:
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
    values. Where a pair misses features, the mean over those it has stands for them.
    """

    needs_labels = False

    def __init__(
        self,
        n_clusters: int | None = None,
        spec: Spec | None = None,
        n_starts: int = 10,
        random_state: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.spec = spec
        self.n_starts = n_starts
        self.random_state = random_state

    def _learn(self, items: Any, labels: Labels | None, groups: NDArray[Any] | None) -> None:
        # k-means learns nothing from clusters: all rows give the scales, whether their clusters are known or not.
        super()._learn(items, np.zeros(len(items), dtype=np.int64), groups)

    def _learn_pairs(self, items: Compared, labels: Labels) -> None:
        self.scales_ = items.scaled().scales if isinstance(items, Distances) else None

    def _cluster_told(self, items: Compared, gold: Labels | None) -> Labels:
        if isinstance(items, Distances) and self.scales_ is not None:
            items = items.rescaled(self.scales_)
        sizes = self._told(items.layout, gold)
        return k_means(items, sizes, self.n_starts, self.random_state)


def k_means(
    items: Compared, n_clusters: list[int], n_starts: int, seed: int, weights: Floats | None = None
) -> Labels:
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
        labels[items.layout.members(group)] = implicit_k_means(
            _square(items.layout, group, squared), k, rng, n_starts
        )
    return labels


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


def _of_vectors(values: Floats, n_clusters: int, n_starts: int, seed: int) -> Labels:
    from sklearn.cluster import KMeans

    if n_clusters >= len(np.unique(values, axis=0)):
        # As many clusters as different points (or more): each is its own, and KMeans would only warn.
        return np.unique(values, axis=0, return_inverse=True)[1].astype(np.int64).ravel()
    found = KMeans(n_clusters, n_init=n_starts, random_state=seed).fit(values)
    return np.asarray(found.labels_, dtype=np.int64)
