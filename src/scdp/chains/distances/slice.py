"""Slice sampling of the logarithm of a precision whose cluster means are integrated out.

With t = exp(x), the density of x is exp(shape x - rate t) prod_j (A_j)^-1/2 exp(-Z_j / (2 A_j)), where j runs over
clusters, A_j = base + slope t and Z_j = constant + linear t + quadratic t^2.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scdp._compile import kernel
from scdp.chains.arithmetic import sum_of_logs
from scdp.chains.vectors.items import Floats
from scdp.chains.vectors.types import SMALLEST

MAX_STEPS = 24
LOWEST = float(np.log(SMALLEST))


class Terms(NamedTuple):
    """Per feature a row with a place for every cluster; `total` is scratch, a single row."""

    base: Floats
    slope: Floats
    constant: Floats
    linear: Floats
    quadratic: Floats
    total: Floats


@kernel
def make_terms(n_rows: int, n: int) -> Terms:
    return Terms(
        np.zeros((n_rows, n)),
        np.zeros((n_rows, n)),
        np.zeros((n_rows, n)),
        np.zeros((n_rows, n)),
        np.zeros((n_rows, n)),
        np.empty((1, n)),
    )


@kernel
def log_clusters(terms: Terms, f: int, t: float) -> float:
    """The clusters' part of the log density at precision t."""
    base, slope, constant, linear, quadratic, total = terms
    square = 0.0
    for j in range(base.shape[1]):
        a = base[f, j] + slope[f, j] * t
        total[0, j] = a
        square += (constant[f, j] + t * (linear[f, j] + t * quadratic[f, j])) / a
    return -0.5 * (square + sum_of_logs(total, 0))


@kernel
def log_density(terms: Terms, f: int, shape: float, rate: float, x: float) -> float:
    if x < LOWEST:
        return -np.inf
    t = np.exp(x)
    return shape * x - rate * t + log_clusters(terms, f, t)


@kernel
def slice_step(
    rng: np.random.Generator, terms: Terms, f: int, shape: float, rate: float, value: float
) -> float:
    """One slice-sampling update of a precision under row f of the terms; leaves its density invariant.

    Neal (2003): a level under the density, an interval of fixed width thrown at random around the point, stepped out
    a limited number of times shared at random between both ends, then shrunk until a point lies above the level. The
    width must not depend on the point; it is three standard deviations of the logarithm of a Gamma of this shape.
    Points below the smallest precision have no density, as nowhere in the sampler.
    """
    x = max(np.log(value), LOWEST)
    width = 3.0 / np.sqrt(shape)
    level = log_density(terms, f, shape, rate, x) + np.log(rng.random())
    left = x - width * rng.random()
    right = left + width
    to_left = int(MAX_STEPS * rng.random())
    to_right = MAX_STEPS - 1 - to_left
    while to_left > 0 and log_density(terms, f, shape, rate, left) > level:
        left -= width
        to_left -= 1
    while to_right > 0 and log_density(terms, f, shape, rate, right) > level:
        right += width
        to_right -= 1
    while right - left > 1e-13 * max(1.0, abs(x)):
        proposed = left + rng.random() * (right - left)
        if log_density(terms, f, shape, rate, proposed) >= level:
            return max(np.exp(proposed), SMALLEST)
        if proposed < x:
            left = proposed
        else:
            right = proposed
    return value
