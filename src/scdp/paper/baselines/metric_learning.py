"""Metric learning of Xing et al. (2003): differences of similar and dissimilar pairs enter, a metric leaves.

Their program is  min_A  sum_S ||x - y||_A^2 - log sum_D ||x - y||_A. A factor C on its second term changes A by that
factor only, and so no clustering: minimise over the scale first. For C to matter something else must fix the scale,
and at C = 0 something must keep A from zero. We take the barrier of the cone in which A must lie:

    J(A) = 1/|s| sum_S ||x - y||_A^2 - log det A - C |d|/|s| log( 1/|d| sum_D ||x - y||_A )

so that a dissimilar pair weighs C times a similar one. C = 0 whitens the differences within clusters; C -> infinity
is the program of 2003. J is convex. On distances A is diagonal: ||.||_A^2 = sum_f a_f d_f^2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
TOLERANCE = 1e-8


def ridged(similar: Floats, ridge: float) -> Floats:
    """Mean squares (features) or second moments (features, features) plus `ridge` times their mean in each direction.

    It adds a multiple of the trace of A to J: a direction that hardly varies would weigh almost infinitely.
    """
    diagonal = similar if similar.ndim == 1 else np.diagonal(similar)
    mean = float(diagonal.mean())
    extra = ridge * mean if mean > 0 else 1.0
    return similar + (extra if similar.ndim == 1 else extra * np.eye(len(similar)))


def diagonal_objective(weights: Floats, similar: Floats, dissimilar: Floats, balance: float) -> float:
    """J for a diagonal A; `similar` are mean squares, `dissimilar` squares (pairs, features), balance C |d|/|s|."""
    length = np.sqrt(dissimilar @ weights).mean()
    return float(similar @ weights - np.log(weights).sum() - (balance * np.log(length) if balance else 0.0))


def learn_diagonal(similar: Floats, dissimilar: Floats, balance: float, n_steps: int = 100) -> Floats:
    """The minimum of J over a > 0 by Newton's method, in units where C = 0 gives ones."""
    scaled = dissimilar / similar
    ones = np.ones(len(similar))
    weights = ones.copy()
    for _ in range(n_steps):
        gradient, hessian = _diagonal_slopes(weights, scaled, balance)
        step = np.asarray(np.linalg.solve(hessian, gradient), dtype=np.float64)
        if gradient @ step < TOLERANCE:
            break
        weights = _diagonal_step(weights, step, gradient, ones, scaled, balance)
    return weights / similar


def _diagonal_slopes(weights: Floats, scaled: Floats, balance: float) -> tuple[Floats, Floats]:
    gradient, hessian = 1.0 - 1.0 / weights, np.diag(1.0 / weights**2)
    if not balance:
        return gradient, hessian
    lengths = np.sqrt(scaled @ weights)
    inverse = 1.0 / np.maximum(lengths, 1e-12)
    mean = lengths.mean()
    slope = (inverse @ scaled) / (2 * len(scaled)) / mean
    bend = (scaled * (inverse**3)[:, None]).T @ scaled / (4 * len(scaled)) / mean
    return gradient - balance * slope, hessian + balance * (bend + np.outer(slope, slope))


def _diagonal_step(
    weights: Floats, step: Floats, gradient: Floats, similar: Floats, scaled: Floats, balance: float
) -> Floats:
    """Halve the step until it stays positive and J falls by enough (Armijo)."""
    before, size = diagonal_objective(weights, similar, scaled, balance), 1.0
    while size > 1e-12:
        moved = weights - size * step
        if (moved > 0).all():
            gain = before - diagonal_objective(moved, similar, scaled, balance)
            if gain >= 1e-4 * size * float(gradient @ step):
                return moved
        size /= 2
    return weights


def full_objective(metric: Floats, similar: Floats, dissimilar: Floats, balance: float) -> float:
    """J for a full A; `similar` is the second moment of differences, `dissimilar` differences (pairs, features)."""
    sign, log_determinant = np.linalg.slogdet(metric)
    if sign <= 0:
        return float("inf")
    lengths = np.sqrt(np.maximum(np.einsum("pf,pf->p", dissimilar @ metric, dissimilar), 0.0))
    return float(
        np.sum(similar * metric) - log_determinant - (balance * np.log(lengths.mean()) if balance else 0.0)
    )


def learn_full(similar: Floats, dissimilar: Floats, balance: float, n_steps: int = 200) -> Floats:
    """The minimum of J over A by projected gradient, in coordinates where C = 0 gives the identity."""
    values, vectors = np.linalg.eigh(similar)
    whiten = vectors / np.sqrt(values)
    if not balance:
        return np.asarray(whiten @ whiten.T)
    moved = dissimilar @ whiten
    identity = np.eye(len(similar))
    metric, size = identity.copy(), 1.0
    for _ in range(n_steps):
        before = full_objective(metric, identity, moved, balance)
        gradient = _full_gradient(metric, identity, moved, balance)
        metric, size, gain = _projected_step(metric, gradient, before, size, identity, moved, balance)
        if gain < TOLERANCE * max(1.0, abs(before)):
            break
    return np.asarray(whiten @ metric @ whiten.T)


def _full_gradient(metric: Floats, identity: Floats, moved: Floats, balance: float) -> Floats:
    lengths = np.sqrt(np.maximum(np.einsum("pf,pf->p", moved @ metric, moved), 1e-24))
    pull = (moved / lengths[:, None]).T @ moved / (2 * lengths.sum())
    return np.asarray(identity - np.linalg.inv(metric) - balance * pull)


def _projected_step(
    metric: Floats,
    gradient: Floats,
    before: float,
    size: float,
    similar: Floats,
    moved: Floats,
    balance: float,
) -> tuple[Floats, float, float]:
    """Along the gradient, then back to positive matrices; the step grows after success and halves after failure."""
    size *= 2
    while size > 1e-12:
        there = project_positive(metric - size * gradient)
        gain = before - full_objective(there, similar, moved, balance)
        if gain >= 1e-4 * float(np.sum(gradient * (metric - there))):
            return there, size, gain
        size /= 2
    return metric, size, 0.0


def project_positive(matrix: Floats, smallest: float = 1e-6) -> Floats:
    """The nearest symmetric matrix whose eigenvalues are at least `smallest`."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((vectors * np.maximum(values, smallest)) @ vectors.T)
