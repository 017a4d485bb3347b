"""Folds by cluster: labels and documents enter, sets of held-out rows leave, no cluster on both sides."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Integers
from scdp.errors import InputError

Rows = NDArray[np.int64]

FEWEST_CLUSTERS = 4
DOCUMENT_FOLDS = 5
FEW_CLUSTER_FOLDS = 10


def canonical_labels(labels: Iterable[Hashable]) -> Integers:
    """The same clustering as integers 0..K-1 in order of first appearance."""
    codes: dict[Hashable, int] = {}
    return np.array([codes.setdefault(label, len(codes)) for label in labels], dtype=np.int64)


def held_out_sets(
    labels: Integers, groups: NDArray[np.int64], n_folds: int, rng: np.random.Generator
) -> list[Rows]:
    """The rows each fold holds out: whole documents where there are enough, whole clusters otherwise.

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
    document keeps its size in any fold, so documents are held out by fifths.
    """
    if len(np.unique(groups)) >= DOCUMENT_FOLDS:
        return held_out_sets(labels, groups, DOCUMENT_FOLDS, rng)
    if _clusters(labels, groups)[1] < 8:
        # Too few to quarter into two or more each.
        return held_out_sets(labels, groups, FEW_CLUSTER_FOLDS, rng)
    halves: list[Rows] = []
    for _ in range(2):
        quarters = held_out_sets(labels, groups, 4, rng)
        halves += [np.sort(np.concatenate(two)) for two in combinations(quarters, 2)]
    return halves


def _clusters(labels: Integers, groups: NDArray[np.int64]) -> tuple[Integers, int]:
    """A cluster is one within a document."""
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


def _halves(
    clusters: NDArray[np.int64], n_clusters: int, n_folds: int, rng: np.random.Generator
) -> list[Rows]:
    half = n_clusters // 2
    if n_clusters <= 10:
        every = list(combinations(range(n_clusters), half))
        chosen = [every[place] for place in rng.permutation(len(every))[:n_folds]]
    else:
        chosen = [tuple(rng.permutation(n_clusters)[:half].tolist()) for _ in range(n_folds)]
    return [np.flatnonzero(np.isin(clusters, held)) for held in chosen]
