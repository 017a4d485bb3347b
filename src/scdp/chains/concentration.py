"""The concentration of a Dirichlet process given its clusters, in one or many groups (West; Appendix B).

Given x_m ~ Beta(alpha + 1, n_m), the density of alpha is a Gamma density times prod (alpha + n_m). Multiplied
out, that is a mixture of M + 1 Gammas weighed by the elementary symmetric polynomials of the n_m: drawn exactly.
"""

from __future__ import annotations

from math import lgamma

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from scdp._compile import kernel
from scdp._typing import Floats, Integers
from scdp.chains.arithmetic import choose
from scdp.chains.separation.sweep import slice_on_line
from scdp.chains.state import GammaPrior, State


@kernel
def log_symmetric_polynomials(sizes: Integers) -> Floats:
    """Log of e_0, …, e_M of the sizes, one size after another: e_j becomes e_j + n_m e_(j-1)."""
    n = sizes.shape[0]
    result = np.full(n + 1, -np.inf)
    result[0] = 0.0
    for m in range(n):
        log_size = np.log(sizes[m])
        for j in range(m + 1, 0, -1):
            result[j] = np.logaddexp(result[j], result[j - 1] + log_size)
    return result


@kernel
def resample_concentration(
    rng: np.random.Generator,
    concentration: float,
    sizes: Integers,
    n_clusters: int,
    log_symmetric: Floats,
    shape: float,
    rate: float,
) -> float:
    """Draw alpha under a Gamma(shape, rate) prior; `n_clusters` counts the clusters of all groups."""
    n = sizes.shape[0]
    after_rate = rate
    for m in range(n):
        after_rate -= np.log(rng.beta(concentration + 1.0, sizes[m]))
    log_weight = np.empty(n + 1)
    for j in range(n + 1):
        after_shape = shape - n + n_clusters + j
        log_weight[j] = log_symmetric[n - j] + lgamma(after_shape) - after_shape * np.log(after_rate)
    after_shape = shape - n + n_clusters + choose(rng, log_weight, n + 1)
    return rng.standard_gamma(after_shape) / after_rate


def resample_discounted_concentration(
    rng: np.random.Generator, state: State, sizes: Integers, n_clusters: Integers, prior: GammaPrior
) -> float:
    """A slice step for alpha under a discount, which West's update does not know: each group of n items in K clusters
    has the factor (alpha + d) … (alpha + (K - 1) d) Gamma(alpha + 1) / Gamma(alpha + n)."""
    # Groups that have more than k clusters, for k from 1 on: each brings a factor alpha + k d.
    steps = np.arange(1, n_clusters.max(initial=1))
    groups = (n_clusters[:, None] > steps).sum(axis=0)

    def log_density(log_value: float) -> float:
        value = float(np.exp(log_value))
        opened = groups @ np.log(value + state.discount * steps)
        seated = (gammaln(value + 1.0) - gammaln(value + sizes)).sum()
        return float(prior.shape * log_value - prior.rate * value + opened + seated)

    return float(np.exp(slice_on_line(rng, float(np.log(state.cluster_concentration)), log_density)))


def expected_clusters(n: ArrayLike, concentration: float) -> tuple[Floats, Floats]:
    """Mean and standard deviation of the number of clusters among n items."""
    n = np.asarray(n, dtype=np.int64)
    opens = concentration / (concentration + np.arange(max(int(n.max(initial=0)), 1)))
    mean = np.concatenate([[0.0], np.cumsum(opens)])
    variance = np.concatenate([[0.0], np.cumsum(opens * (1 - opens))])
    return mean[n], np.sqrt(variance[n])
