"""RCA: relevant component analysis (Bar-Hillel et al. 2003), then k-means that is TOLD k.

The training clusters are the chunklets: differences within them are what does not matter, so the metric is the inverse
of their covariance within clusters. Nothing is searched for, and different clusters teach nothing.
"""

from __future__ import annotations

import numpy as np

from scdp._typing import Floats, Integers
from scdp.compare.distances import Distances
from scdp.errors import InputError
from scdp.paper.baselines.oracle_k_means import OracleBaseline, k_means_under
from scdp.paper.baselines.pairs import Compared, PairTable, Vectors, pair_features, take_raw

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
            raise InputError(
                "RCA: no two training items are of one cluster, so nothing is known to vary within one"
            )
        if isinstance(items, Vectors) and not np.isnan(items.values).any():
            inside = covariance_within(items.values, labels)
            self.metric_ = np.asarray(np.linalg.pinv(inside, rcond=NEGLIGIBLE, hermitian=True), np.float64)
            return
        features = pair_features(take_raw(items) if self.raw and isinstance(items, Distances) else items)
        pairs = np.column_stack([items.layout.group, labels])
        codes = np.unique(pairs, axis=0, return_inverse=True)[1].ravel()
        inside = variance_within(features.astype(np.float64), table, codes)
        self.metric_ = np.where(inside > NEGLIGIBLE * inside.max(), 1.0 / np.maximum(inside, 1e-300), 0.0)

    def _cluster_told(self, items: Compared, gold: Integers | None) -> Integers:
        told = self._told(items.layout, gold)
        if isinstance(items, Distances) and self.raw:
            items = take_raw(items)
        full = self.metric_.ndim == 2
        if full and isinstance(items, Vectors) and np.isnan(items.values).any():
            raise InputError(
                "RCA learned a full matrix: X may not have missing values where training had none"
            )
        return k_means_under(items, self.metric_, told, self.n_starts, self.random_state)
