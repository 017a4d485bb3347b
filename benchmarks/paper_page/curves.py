"""Number of clusters by number of items: cluster sizes enter; the Dirichlet process, Pitman-Yor and data curves leave.

The curve of the Dirichlet process has the posterior mean of alpha given (n, k) under the paper's Gamma(1, 1) prior.
Pitman-Yor has the discount d and strength theta of greatest likelihood,
P = prod_{i<K} (theta + i d) / (theta + 1)_{n-1} prod_k (1 - d)_{n_k - 1}; it is compared with the Dirichlet process
(d = 0) of greatest likelihood, so that the prior on alpha does not count against either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from scdp._typing import Floats, Integers

N_ORDERS = 400
N_POINTS = 120
# A fit with one parameter more must gain this much log probability to win (Akaike's rule).
COST_OF_A_PARAMETER = 1.0


@dataclass(frozen=True)
class Curve:
    """Mean and standard deviation of the number of clusters among n items."""

    mean: Floats
    deviation: Floats


@dataclass(frozen=True)
class Fits:
    """Both priors against the data, at the same numbers of items."""

    title: str
    sizes: Integers
    n: Integers
    data: Curve
    dirichlet: Curve
    pitman_yor: Curve
    concentration: float
    likeliest_concentration: float
    strength: float
    discount: float

    @property
    def gaps(self) -> tuple[float, float]:
        """Root mean square distance of each expected curve from that of the data."""
        return _gap(self.dirichlet, self.data), _gap(self.pitman_yor, self.data)

    @property
    def shares_within(self) -> tuple[float, float]:
        """Share of the numbers of items at which the data lie within two standard deviations of each prior."""
        return _share_within(self.dirichlet, self.data), _share_within(self.pitman_yor, self.data)

    @property
    def log_probabilities(self) -> tuple[float, float, float]:
        """Of the partition: Dirichlet process with the paper's alpha, with the likeliest alpha, Pitman-Yor."""
        points = ((self.concentration, 0.0), (self.likeliest_concentration, 0.0), (self.strength, self.discount))
        first, second, third = (log_pitman_yor(self.sizes, *point) for point in points)
        return first, second, third

    @property
    def winner(self) -> str:
        _, dirichlet, pitman_yor = self.log_probabilities
        return "Pitman-Yor" if pitman_yor - dirichlet > COST_OF_A_PARAMETER else "Dirichlet process"

    def as_dict(self) -> dict[str, Any]:
        """For JSON: the parameters and scores of both fits."""
        total = int(self.sizes.sum())
        return {
            "data": self.title,
            "items": total,
            "clusters": len(self.sizes),
            "concentration": self.concentration,
            "likeliest_concentration": self.likeliest_concentration,
            "strength": self.strength,
            "discount": self.discount,
            "log_probability_per_item": [value / total for value in self.log_probabilities],
            "rms_gap": list(self.gaps),
            "share_within_two_deviations": list(self.shares_within),
            "winner": self.winner,
        }


def _gap(prior: Curve, data: Curve) -> float:
    return float(np.sqrt(np.mean((prior.mean - data.mean) ** 2)))


def _share_within(prior: Curve, data: Curve) -> float:
    # The slack is for curves that meet: with one item both are exactly one cluster.
    return float(np.mean(np.abs(prior.mean - data.mean) <= 2 * prior.deviation + 1e-9))


def fit_priors(title: str, sizes: Integers, rng: np.random.Generator) -> Fits:
    """Fit both priors to the sizes of clusters, and resample the data in random orders."""
    total = int(sizes.sum())
    n = np.unique(np.linspace(1, total, N_POINTS).round().astype(np.int64))
    concentration = posterior_concentration(total, len(sizes))
    strength, discount = fit_pitman_yor(sizes)
    return Fits(
        title,
        sizes,
        n,
        resample_curve(sizes, n, rng),
        Curve(*expected_clusters(n, concentration)),
        expected_pitman_yor(n, strength, discount),
        concentration,
        fit_pitman_yor(sizes, most_discount=0.0)[0],
        strength,
        discount,
    )


def posterior_concentration(n: int, k: int) -> float:
    """The posterior mean of alpha given k clusters among n items, prior Gamma(shape 1, rate 1), by quadrature."""
    from scipy.special import gammaln

    log_alpha = np.linspace(-12.0, 12.0, 20_001)
    alpha = np.exp(log_alpha)
    # The grid is even in log alpha: one more power of alpha is its Jacobian.
    log_density = (k + 1) * log_alpha + gammaln(alpha) - gammaln(alpha + n) - alpha
    weight = np.exp(log_density - log_density.max())
    return float(weight @ alpha / weight.sum())


def resample_curve(sizes: Integers, n: Integers, rng: np.random.Generator, n_orders: int = N_ORDERS) -> Curve:
    """The number of clusters among the first n items of the data, over random orders of it."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    counts = np.empty((n_orders, len(n)))
    for order in range(n_orders):
        _, first = np.unique(rng.permutation(labels), return_index=True)
        counts[order] = np.searchsorted(np.sort(first), n, side="left")
    return Curve(counts.mean(axis=0), counts.std(axis=0, ddof=1))


def log_pitman_yor(sizes: Integers, strength: float, discount: float) -> float:
    """Log probability of a partition with these cluster sizes; discount 0 is the Dirichlet process."""
    from scipy.special import gammaln

    opened = np.log(strength + discount * np.arange(1, len(sizes))).sum()
    joined = (gammaln(sizes - discount) - gammaln(1 - discount)).sum()
    return float(opened + joined - gammaln(strength + sizes.sum()) + gammaln(strength + 1))


def fit_pitman_yor(sizes: Integers, most_discount: float = 0.999) -> tuple[float, float]:
    """Strength and discount of greatest likelihood, 0 <= discount < 1 and strength > -discount."""
    from scipy.optimize import minimize

    def loss(point: Floats) -> float:
        return -log_pitman_yor(sizes, float(np.exp(point[0]) - point[1]), float(point[1]))

    # In log(strength + discount) and discount every point of a box is allowed.
    starts = [
        np.array([np.log(len(sizes) / 2 + 0.1), discount])
        for discount in (0.0, 0.3 * most_discount, 0.7 * most_discount)
    ]
    bounds = [(-8.0, 12.0), (0.0, most_discount)]
    best = min((minimize(loss, start, bounds=bounds) for start in starts), key=lambda found: float(found.fun))
    discount = float(best.x[1])
    return float(np.exp(best.x[0]) - discount), discount


def expected_pitman_yor(n: Integers, strength: float, discount: float) -> Curve:
    """Mean and deviation by the chance (theta + d K) / (theta + n) that item n + 1 opens a cluster."""
    last = int(n.max())
    mean, square = np.zeros(last + 1), np.zeros(last + 1)
    mean[1:2] = square[1:2] = 1.0
    for count in range(1, last):
        m, s, total = mean[count], square[count], strength + count
        opens = (strength + discount * m) / total
        mean[count + 1] = m + opens
        square[count + 1] = s + 2 * (strength * m + discount * s) / total + opens
    return Curve(mean[n], np.sqrt(np.maximum(square - mean**2, 0.0))[n])


def expected_clusters(n: ArrayLike, concentration: float) -> tuple[Floats, Floats]:
    """Mean and standard deviation of the number of clusters among n items."""
    n = np.asarray(n, dtype=np.int64)
    opens = concentration / (concentration + np.arange(max(int(n.max(initial=0)), 1)))
    mean = np.concatenate([[0.0], np.cumsum(opens)])
    variance = np.concatenate([[0.0], np.cumsum(opens * (1 - opens))])
    return mean[n], np.sqrt(variance[n])
