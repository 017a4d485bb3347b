"""The sieve: candidate pairs enter, those that may be together leave, with the log-odds that they are.

A monotone additive model of the comparisons, learned from labelled pairs. Its log-odds hold among as many records as it
learned from. Among more records everyone meets more strangers, but not more relatives: by how much the odds fall is
read off the new pairs themselves (`Sieve.settled`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from scdp.linkage.pieces import Knots, Places, add_back, add_up

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Features = NDArray[np.float32]

# Pairs that are less likely than this are dropped: log-odds.
CUT = -5.0
# Penalties a labelled pair, on the bends of each function and on its rises.
BEND = 1e-3
RISE = 1e-4
MOST_STEPS = 200


# Pairs this far above even odds are taken as certain when the others are weighed.
CERTAIN = 3.0
# Fewer certain pairs than this do not tell how many pairs are together.
FEWEST_CERTAIN = 20
MOST_TOGETHER = 2000
# Log-odds are counted in bins: whole counts add up to the same, whatever the order of the pairs.
BINS_A_UNIT = 64
LOWEST, HIGHEST = -32.0, 96.0


class Column(Protocol):
    """The distances of pairs of records by one comparison."""

    def pairs(self, left: NDArray[Any], right: NDArray[Any], workers: int) -> Features: ...


class LabelledPairs(NamedTuple):
    """Pairs to learn from: their distances (pairs, fields), whether they are together, and for how many each stands.

    `left` and `right` are the numbers of their clusters.
    """

    features: Features
    left: Integers
    right: Integers
    weight: Floats

    @property
    def together(self) -> NDArray[np.bool_]:
        return self.left == self.right

    def take(self, mask: NDArray[np.bool_]) -> LabelledPairs:
        return LabelledPairs(self.features[mask], self.left[mask], self.right[mask], self.weight[mask])


@dataclass(frozen=True, eq=False)
class Sieve:
    """`order` are the comparisons, the most telling first; all arrays by comparison are in that order.

    `bias` belongs to a data set of `n_records`. `together` are log-odds of pairs that are together, ascending, each
    by a sieve that has not seen their clusters.
    """

    order: tuple[int, ...]
    knots: Knots
    heights: Floats
    missing: Floats
    bias: float
    n_records: int
    together: Floats

    @classmethod
    def learn(cls, pairs: LabelledPairs, n_records: int) -> Self:
        """The most likely sieve; `together` is left empty."""
        knots = Knots.of(pairs.features, np.full(pairs.features.shape[1], -1))
        heights, missing, bias = _fitted(knots, pairs)
        order = np.argsort(heights[:, -1], kind="stable")
        ordered = Knots(knots.at[order], knots.sign[order])
        parts = ordered, heights[order], missing[order]
        return cls(tuple(order.tolist()), *parts, bias, n_records, np.zeros(0))

    def full_shift(self, n_records: int) -> float:
        """What the log-odds change by among so many records if all that are met more are strangers."""
        return -float(np.log(max(n_records, 1) / self.n_records))

    def log_odds(self, features: Features) -> Floats:
        """Of pairs with all comparisons, among as many records as the sieve learned from."""
        return self._sums(np.ascontiguousarray(features[:, self.order]), slice(None)) + self.bias

    def floor(self, n_records: int) -> float:
        """The log-odds that a pair needs to be kept whatever the shift."""
        return CUT - max(self.full_shift(n_records), 0.0)

    def height(self, place: int, distances: Features) -> Floats:
        """What the comparison at a place of the order adds to the log-odds."""
        return self._sums(distances[:, None], slice(place, place + 1))

    def settled(self, histogram: NDArray[np.int64], n_records: int) -> float:
        """The shift of the log-odds that fits a data set, whose pairs by `counted` log-odds are given.

        Pairs that stay certain under the full shift tell how many pairs are together, as the same share of labelled
        pairs is that certain; the shift is where the log-odds of all pairs add up to that many.
        """
        full = self.full_shift(n_records)
        low, high = sorted((full, 0.0))
        bar = CERTAIN + max(-full, 0.0)
        centres = LOWEST + (np.arange(len(histogram)) + 0.5) / BINS_A_UNIT
        n_certain, n_like_them = int(histogram[centres > bar].sum()), int((self.together > bar).sum())
        if min(n_certain, n_like_them) < FEWEST_CERTAIN:
            return full
        floor = self.floor(n_records)
        wanted = n_certain * (self.together > floor).sum() / n_like_them

        def excess(shift: float) -> float:
            return float((histogram / (1.0 + np.exp(-(centres + shift))))[centres > floor].sum()) - wanted

        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if excess(middle) > 0 else (middle, high)
        return (low + high) / 2

    def _sums(self, features: Features, fields: slice) -> Floats:
        knots = Knots(self.knots.at[fields], self.knots.sign[fields])
        total = np.empty((len(features), 1))
        add_up(*knots.places(features), self.heights[None, fields], self.missing[None, fields], total)
        return total[:, 0]


def counted(log_odds: Floats) -> NDArray[np.int64]:
    """How many pairs have log-odds in each bin; such counts may be added."""
    bins = (np.clip(log_odds, LOWEST, HIGHEST - 1e-9) - LOWEST) * BINS_A_UNIT
    return np.bincount(bins.astype(np.int64), minlength=int((HIGHEST - LOWEST) * BINS_A_UNIT))


@dataclass(frozen=True, eq=False)
class Halves:
    """Two sieves, each of one half of the clusters: what one thinks of pairs the other has learned from."""

    sieves: tuple[Sieve, Sieve]
    half: Integers

    @classmethod
    def learn(cls, pairs: LabelledPairs, n_records: int, rng: np.random.Generator) -> Self:
        n_clusters = int(max(pairs.left.max(), pairs.right.max())) + 1
        half = rng.permutation(n_clusters) % 2
        one, two = (
            Sieve.learn(pairs.take((half[pairs.left] == side) & (half[pairs.right] == side)), n_records // 2)
            for side in (0, 1)
        )
        return cls((one, two), half)

    def log_odds(self, features: Features, left: Integers, right: Integers, n_records: int) -> Floats:
        """Of pairs of these clusters; a pair of both halves has been seen by neither and is judged by both."""
        first, second = (sieve.log_odds(features) + sieve.full_shift(n_records) for sieve in self.sieves)
        count = self.half[left] + self.half[right]
        return np.where(count == 0, second, np.where(count == 2, first, (first + second) / 2))


def learn_sieve(pairs: LabelledPairs, n_records: int, rng: np.random.Generator) -> tuple[Sieve, Halves]:
    """The sieve of all pairs, and two halves to judge the labelled pairs by."""
    halves = Halves.learn(pairs, n_records, rng)
    true = pairs.take(pairs.together)
    together = np.sort(halves.log_odds(true.features, true.left, true.right, n_records))
    thinned = together[np.linspace(0, len(together) - 1, min(len(together), MOST_TOGETHER)).astype(int)]
    return replace(Sieve.learn(pairs, n_records), together=thinned), halves


def _fitted(knots: Knots, labelled: LabelledPairs) -> tuple[Floats, Floats, float]:
    """Heights, weights of missing, and bias of the highest penalised likelihood."""
    from scipy.optimize import minimize

    n_fields, n_pieces = knots.at.shape[0], knots.at.shape[1] - 1
    places = knots.places(labelled.features)
    start = np.concatenate([np.full(n_fields * n_pieces, -0.3), np.zeros(n_fields + 1)])
    found = minimize(
        lambda flat: objective(flat, places, labelled, n_pieces),
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[(None, 0.0)] * (n_fields * n_pieces) + [(None, None)] * (n_fields + 1),
        options={"maxiter": MOST_STEPS},
    )
    rise, missing, bias = _unpacked(found.x, n_pieces)
    return _heights(rise), missing, bias


def objective(flat: Floats, places: Places, labelled: LabelledPairs, n_pieces: int) -> tuple[float, Floats]:
    """The penalised negative log-likelihood a pair that is together, and its derivatives."""
    rise, missing, bias = _unpacked(flat, n_pieces)
    heights = _heights(rise)
    score = np.empty((len(labelled.weight), 1))
    add_up(*places, heights[None], missing[None], score)
    side = np.where(labelled.together, 1.0, -1.0)
    margin = side * (score[:, 0] + bias)
    n_together = max(float(labelled.weight[labelled.together].sum()), 1.0)
    value = (labelled.weight * np.logaddexp(0.0, -margin)).sum() / n_together
    by_score = -(labelled.weight * side * np.exp(-np.logaddexp(0.0, margin))) / n_together
    by_height, by_missing = np.zeros((1, *heights.shape)), np.zeros((1, len(missing)))
    add_back(*places, by_score[:, None], by_height, by_missing)
    # Each rise lifts all heights after it.
    by_rise = np.cumsum(by_height[0, :, ::-1], axis=1)[:, ::-1][:, 1:] + 2 * RISE * rise
    bend = np.diff(rise, axis=1)
    by_rise[:, 1:] += 2 * BEND * bend
    by_rise[:, :-1] -= 2 * BEND * bend
    value += BEND * (bend**2).sum() + RISE * ((rise**2).sum() + (missing**2).sum())
    slope = np.concatenate([by_rise.ravel(), by_missing[0] + 2 * RISE * missing, [by_score.sum()]])
    return float(value), slope


def _unpacked(flat: Floats, n_pieces: int) -> tuple[Floats, Floats, float]:
    n_fields = (len(flat) - 1) // (n_pieces + 1)
    rise, missing = flat[: n_fields * n_pieces], flat[n_fields * n_pieces : -1]
    return rise.reshape(n_fields, n_pieces), missing, float(flat[-1])


def _heights(rise: Floats) -> Floats:
    return np.concatenate([np.zeros((len(rise), 1)), np.cumsum(rise, axis=1)], axis=1)
