"""Small sets for the tests of the opponents, each with clusters known by construction."""

from __future__ import annotations

import numpy as np


def blobs(seed: int, n_clusters: int, size: int = 8, spread: float = 0.1, n_features: int = 2):
    """Tight clusters at random whole-number places, no two at the same."""
    rng = np.random.default_rng(seed)
    places = rng.choice(100, n_clusters, replace=False)
    centres = np.zeros((n_clusters, n_features))
    centres[:, 0], centres[:, 1] = np.divmod(places, 10)
    y = np.repeat(np.arange(n_clusters), size)
    return 3 * centres[y] + rng.normal(0, spread, (len(y), n_features)), y


def touching_bars(seed: int, n_clusters: int, size: int = 12):
    """Intervals of a line that touch: the distance of two points does not tell whether they are together."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_clusters), size)
    return (y + rng.random(len(y)))[:, None] + rng.random(), y


def as_distances(X):
    """|x_i - x_j| by feature, which loses nothing but the signs."""
    return np.abs(X[:, None, :] - X[None, :, :])


def exclusive_or(seed: int, n_clusters: int, size: int = 6):
    """Two distances; together are those of whom exactly one is small, so neither says anything alone."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_clusters), size)
    first = rng.random((len(y), len(y))) < 0.5
    first = np.triu(first, 1) | np.triu(first, 1).T
    same = y[:, None] == y
    distances = np.where(np.stack([first, first ^ same], axis=2), 0.1, 0.9)
    distances[np.arange(len(y)), np.arange(len(y))] = 0.0
    return distances, y


def pluses(seed: int, centres, size: int = 60):
    """Axis-aligned pluses: half of a cluster's points spread along each axis."""
    rng = np.random.default_rng(seed)
    centres = np.asarray(centres, dtype=float)
    y = np.repeat(np.arange(len(centres)), size)
    flat = np.tile(np.arange(size) % 2 == 0, len(centres))
    spread = np.where(flat[:, None], PLUS_SPREADS[0], PLUS_SPREADS[1])
    return centres[y] + spread * rng.normal(size=(len(y), 2)), y


PLUS_SPREADS = np.array([[1.5, 0.03], [0.03, 1.5]])
# Arms reach past the neighbours' centres.
PLUS_TRAINING = [(-3, -3), (-1.5, 3), (3, -2), (0, 0), (2, 2.5), (-3, 1), (1.2, -3.2), (3.3, 0.7)]
PLUS_TEST = [(-1, -1), (1, 0), (0, 1)]
