"""Parameters: their prior, which takes the evidence as it is, the mode of their posterior, and draws near it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from scdp._parallel import map_in_threads
from scdp._typing import Floats, Integers
from scdp.linkage import GROWTH, Knots, Parameters, add_back, add_up
from scdp.linkage.law import NO_MERGE, Placements, Weights, log_likelihood_grad
from scdp.linkage.training.folds import PreparedFold, TrainingFold

# A joint of two rises costs this much of what a rise of one standard deviation costs.
SMOOTHNESS = 1.0


class PriorSpread(NamedTuple):
    """Standard deviations: slope of the evidence, rises of other functions, missing values, and the law's weights."""

    slope: float = 0.25
    rise: float = 0.4
    missing: float = 0.4
    bias: float = 1.0
    growth: float = 0.7
    third: float = 1.0


PRIOR_SPREAD = PriorSpread()
# How much the size of a cluster draws records at most, as in the Chinese restaurant process. One large labelled cluster
# would teach more, and in another table the first cluster to grow would take in everything.
MOST_GROWTH = 1.0
# Beside evidence, the functions of a member are tilted by so many standard deviations of the prior. By a whole one,
# members that learned from a few labels differ most where these say nothing, and know less together than the evidence.
TILT = 0.2


@dataclass(frozen=True, eq=False)
class Prior:
    """A normal prior on the flat vector of parameters, and the signs that rises may have; `based` is with evidence."""

    mean: Floats
    spread: Floats
    sign: Integers
    start: Floats
    n_pieces: int
    based: bool

    @classmethod
    def of(cls, knots: Knots, sign: Integers, based: bool, folds: Sequence[TrainingFold], spread: PriorSpread) -> Prior:
        n_features, n_pieces = knots.at.shape[0], knots.at.shape[1] - 1
        rise, rise_spread = np.zeros((n_features, n_pieces)), np.full((n_features, n_pieces), spread.rise)
        start = np.zeros(n_features)
        if based:
            rise[0] = np.diff(knots.at[0])
            rise_spread[0] = spread.slope * rise[0]
            start[0] = knots.at[0, 0]
        else:
            # Without evidence the features themselves have to carry the score.
            rise += (0.5 / n_features * sign)[:, None]
            rise_spread[:] = 2.0 * spread.rise
        sizes = np.concatenate([np.bincount(fold.cluster) for fold in folds])
        third = np.log(((sizes > 2).sum() + 1.0) / ((sizes > 1).sum() + 2.0))
        bias_spread = spread.bias if based else 4.0 * spread.bias
        mean = np.concatenate([rise.ravel(), np.zeros(n_features), [0.0, GROWTH, third]])
        spreads = np.concatenate(
            [rise_spread.ravel(), np.full(n_features, spread.missing), [bias_spread, spread.growth, spread.third]]
        )
        return cls(mean, spreads, sign, start, n_pieces, based)

    @property
    def n_features(self) -> int:
        return len(self.start)

    @property
    def n_rises(self) -> int:
        return self.n_features * self.n_pieces

    @property
    def bounds(self) -> list[tuple[float | None, float | None]]:
        each: list[tuple[float | None, float | None]] = [
            (0.0, None) if sign > 0 else (None, 0.0) for sign in np.repeat(self.sign, self.n_pieces)
        ]
        return [*each, *[(None, None)] * (self.n_features + 1), (None, MOST_GROWTH), (None, None)]

    def unpack(self, flat: Floats) -> Parameters:
        rise = flat[: self.n_rises].reshape(self.n_features, self.n_pieces)
        heights = self.start[:, None] + np.concatenate(
            [np.zeros((self.n_features, 1)), np.cumsum(rise, axis=1)], axis=1
        )
        missing = flat[self.n_rises : self.n_rises + self.n_features]
        return Parameters(heights, missing.copy(), *map(float, flat[-3:]))

    def cost(self, flat: Floats, centre: Floats) -> tuple[float, Floats]:
        """The negative log-density and its derivatives."""
        off = (flat - centre) / self.spread
        value, slope = 0.5 * float(off @ off), off / self.spread
        rises = off[: self.n_rises].reshape(self.n_features, self.n_pieces)
        joint = np.diff(rises, axis=1)
        value += 0.5 * SMOOTHNESS * float((joint**2).sum())
        by_rise = np.zeros_like(rises)
        by_rise[:, 1:] += SMOOTHNESS * joint
        by_rise[:, :-1] -= SMOOTHNESS * joint
        slope[: self.n_rises] += by_rise.ravel() / self.spread[: self.n_rises]
        return value, slope

    def draw(self, rng: np.random.Generator) -> Floats:
        """A centre for one member: every function is tilted as a whole, the rest moves freely."""
        off = rng.standard_normal(len(self.mean))
        off[: self.n_rises] = (TILT if self.based else 1.0) * np.repeat(
            rng.standard_normal(self.n_features), self.n_pieces
        )
        centre = self.mean + self.spread * off
        rises = centre[: self.n_rises]
        signs = np.repeat(self.sign, self.n_pieces)
        centre[: self.n_rises] = np.where(signs > 0, np.maximum(rises, 0.0), np.minimum(rises, 0.0))
        centre[-2] = min(centre[-2], MOST_GROWTH)
        return centre


MODE_STEPS = 80
MEMBER_STEPS = 12
# How unsure the constant of the law is in a new table, with many labelled clusters and with one. Without evidence
# nothing is read off the table, and it is taken to be like those that taught.
BIAS_SPREAD, BIAS_SPREAD_OF_ONE = 1.2, 2.0
PLAIN_SPREAD, PLAIN_SPREAD_OF_ONE = 0.5, 1.2


class Tuning(NamedTuple):
    """Of the law, beside its learned weights: a shift of the log-odds, and the weight of joining whole clusters."""

    shift: float = 0.0
    merge: float = NO_MERGE


class Tunings(NamedTuple):
    """Tunings that may be, each with its probability."""

    each: tuple[Tuning, ...]
    probability: Floats

    def draw(self, rng: np.random.Generator) -> Tuning:
        return self.each[int(rng.choice(len(self.each), p=self.probability))]

    def moved(self, offset: float) -> Tunings:
        """The same with every shift larger by the offset."""
        return self._replace(each=tuple(each._replace(shift=each.shift + offset) for each in self.each))

    @property
    def best(self) -> Tuning:
        return self.each[int(np.argmax(self.probability))]


UNTUNED = Tunings((Tuning(),), np.ones(1))


def objective(
    flat: Floats,
    folds: Sequence[PreparedFold],
    placements: Sequence[tuple[Placements, ...]],
    prior: Prior,
    centre: Floats,
    weight: Sequence[Floats] | None,
) -> tuple[float, Floats]:
    """The negative log-posterior of the parameters, and its derivatives; `placements` are those of each fold."""
    parameters = prior.unpack(flat)
    value, slope = prior.cost(flat, centre)
    n_features, n_pieces = prior.n_features, prior.n_pieces
    for number, fold in enumerate(folds):
        score, by_score = np.empty(len(fold.pairs)), np.zeros(len(fold.pairs))
        add_up(*fold.places, parameters.heights, parameters.missing, score)
        by_weights = np.zeros(3)
        bias, third = parameters.bias + fold.log_odds, parameters.third + fold.third
        weights = Weights(bias, parameters.growth, third, fold.floor)
        each = np.ones(fold.cluster.max() + 1) if weight is None else weight[number]
        likelihood = 0.0
        for one in placements[number]:
            likelihood += log_likelihood_grad(one, score, weights, each, by_score, by_weights)
        by_height, by_missing = np.zeros((n_features, n_pieces + 1)), np.zeros(n_features)
        add_back(*fold.places, by_score, by_height, by_missing)
        # Each rise lifts all heights after it.
        by_rise = np.cumsum(by_height[:, ::-1], axis=1)[:, ::-1][:, 1:]
        value -= likelihood / len(placements[number])
        slope -= np.concatenate([by_rise.ravel(), by_missing, by_weights]) / len(placements[number])
    return value, slope


def maximise(
    folds: Sequence[PreparedFold],
    prior: Prior,
    centre: Floats,
    weight: Sequence[Floats] | None,
    n_steps: int,
    start: Floats | None = None,
) -> Floats:
    """The parameters of highest posterior density, the prior being centred at `centre`."""
    from scipy.optimize import minimize

    placements = [fold.placements() for fold in folds]
    found = minimize(
        lambda flat: objective(flat, folds, placements, prior, centre, weight),
        prior.mean if start is None else start,
        jac=True,
        method="L-BFGS-B",
        bounds=prior.bounds,
        options={"maxiter": n_steps, "ftol": 1e-5},
    )
    return np.asarray(found.x)


def spread_evenly(n_members: int, seed: Sequence[int]) -> Floats:
    """One number for each member, in random order: a few members stand for a normal distribution better so."""
    from scipy.special import ndtri

    order = np.random.default_rng([*seed, 13]).permutation(n_members)
    return np.asarray(ndtri((order + 0.5) / n_members))


def spread_of_bias(folds: Sequence[PreparedFold] | Sequence[TrainingFold], based: bool) -> float:
    """How unsure the constant of the law is in a table as large as these."""
    n_repeated = max(sum(int((np.bincount(fold.cluster) > 1).sum()) for fold in folds), 1)
    many, one = (BIAS_SPREAD, BIAS_SPREAD_OF_ONE) if based else (PLAIN_SPREAD, PLAIN_SPREAD_OF_ONE)
    return float(np.hypot(many, one / np.sqrt(n_repeated)))


def draw_members(
    folds: Sequence[PreparedFold],
    prior: Prior,
    mode: Floats,
    tunings: Tunings,
    n_members: int,
    seed: int,
    n_jobs: int,
    report: Callable[[], None],
) -> tuple[Parameters, ...]:
    """Draws of the parameters near the mode, and of the tuning of the law; the constant is unsure beyond that."""
    spread, doubts = spread_of_bias(folds, prior.based), spread_evenly(n_members, [seed])

    def draw(number: int) -> Parameters:
        rng = np.random.default_rng([seed, 7, number])
        weight = [rng.exponential(size=fold.cluster.max() + 1) for fold in folds]
        flat = maximise(folds, prior, prior.draw(rng), weight, MEMBER_STEPS, mode)
        report()
        parameters = prior.unpack(flat)
        shift, merge = tunings.draw(rng)
        doubt = float(doubts[number])
        bias = parameters.bias + shift + spread * doubt
        return parameters._replace(bias=bias, merge=merge, doubt=doubt)

    return tuple(map_in_threads(draw, range(n_members), n_jobs))
