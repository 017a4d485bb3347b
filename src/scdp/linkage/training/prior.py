"""The prior of the parameters: take the evidence as it is, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from scdp._typing import Floats, Integers
from scdp.linkage.ensemble import Knots, Parameters
from scdp.linkage.training.folds import TrainingFold

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
# How much the size of a cluster draws records, before any label.
GROWTH = 0.6


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
    def of(
        cls, knots: Knots, sign: Integers, based: bool, folds: Sequence[TrainingFold], spread: PriorSpread
    ) -> Prior:
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
            [
                rise_spread.ravel(),
                np.full(n_features, spread.missing),
                [bias_spread, spread.growth, spread.third],
            ]
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
        return each + [(None, None)] * (self.n_features + 3)

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
        off[: self.n_rises] = np.repeat(rng.standard_normal(self.n_features), self.n_pieces)
        centre = self.mean + self.spread * off
        rises = centre[: self.n_rises]
        signs = np.repeat(self.sign, self.n_pieces)
        centre[: self.n_rises] = np.where(signs > 0, np.maximum(rises, 0.0), np.minimum(rises, 0.0))
        return centre
