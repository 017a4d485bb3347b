"""The Chinese restaurant process: probability of a partition, draws, and the clusters it expects."""

from __future__ import annotations

from math import lgamma, log

import numpy as np
from numpy.typing import ArrayLike, NDArray


def log_probability(sizes: ArrayLike, concentration: float, discount: float = 0.0) -> float:
    """Log probability of cluster sizes: alpha^K prod Gamma(n_k) Gamma(alpha) / Gamma(alpha + n).

    With a discount (Pitman and Yor) it is that of seating one item after another.
    """
    if discount:
        return _log_seating(np.asarray(sizes), concentration, discount)
    sizes = np.asarray(sizes)
    sizes = sizes[sizes > 0]
    if len(sizes) == 0:
        return 0.0
    total = float(sizes.sum())
    inside = sum(lgamma(float(size)) for size in sizes)
    return len(sizes) * log(concentration) + inside + lgamma(concentration) - lgamma(concentration + total)


def _log_seating(sizes: NDArray[np.int64], concentration: float, discount: float) -> float:
    """Seat the items cluster by cluster: the order does not matter to the probability."""
    total, seated = 0.0, 0
    for k, size in enumerate(sizes[sizes > 0]):
        for inside in range(int(size)):
            weight = inside - discount if inside else concentration + k * discount
            total += log(weight) - log(concentration + seated)
            seated += 1
    return total


def draw_partition(rng: np.random.Generator, n: int, concentration: float) -> NDArray[np.int64]:
    """Seat n customers one after another; labels in order of first appearance."""
    labels = np.empty(n, dtype=np.int64)
    sizes: list[float] = []
    for i in range(n):
        weights = np.array([*sizes, concentration])
        table = int(np.searchsorted(np.cumsum(weights), rng.random() * weights.sum(), side="right"))
        if table == len(sizes):
            sizes.append(0.0)
        sizes[table] += 1.0
        labels[i] = table
    return labels
