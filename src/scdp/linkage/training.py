"""Learning the restaurant: seatings of items of known clusters enter, what makes them most likely leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp.linkage.likelihood import Weights, seat_known
from scdp.linkage.pairs import Neighbours
from scdp.linkage.pieces import Knots, Places, add_back, add_up

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

N_ORDERS = 2
# Penalties per seated item: on the bends of each function, and on its rises.
BEND = 0.01
RISE = 0.001
MOST_STEPS = 150


class Lesson(NamedTuple):
    """Items of known clusters: where the features of their pairs lie, whom each meets, and orders to seat them in."""

    places: Places
    neighbours: Neighbours
    cluster: Integers
    orders: tuple[Integers, ...]


class Parameters(NamedTuple):
    """What is learned: the rises (types, features, pieces), weights of missing (types, features), and weights."""

    rise: Floats
    missing: Floats
    weights: Weights

    @property
    def heights(self) -> Floats:
        start = np.zeros((*self.rise.shape[:2], 1))
        return np.concatenate([start, np.cumsum(self.rise, axis=2)], axis=2)

    def scores(self, places: Places) -> Floats:
        """Scores (pairs, types)."""
        score = np.empty((len(places.piece), len(self.rise)))
        add_up(*places, self.heights, self.missing, score)
        return score


@dataclass(frozen=True)
class Shape:
    """How parameters lie in one flat vector."""

    n_types: int
    n_features: int
    n_pieces: int

    @property
    def sizes(self) -> tuple[int, int, int]:
        return (
            self.n_types * self.n_features * self.n_pieces,
            self.n_types * self.n_features,
            5 * self.n_types,
        )

    def unpack(self, flat: Floats) -> Parameters:
        rise, missing, weights = np.split(flat, np.cumsum(self.sizes)[:-1])
        return Parameters(
            rise.reshape(self.n_types, self.n_features, self.n_pieces),
            missing.reshape(self.n_types, self.n_features),
            Weights(*weights.reshape(5, self.n_types)),
        )

    def pack(self, parameters: Parameters) -> Floats:
        parts = [parameters.rise, parameters.missing, np.stack(parameters.weights)]
        return np.concatenate([part.ravel() for part in parts])


def first_guess(knots: Knots, n_types: int, rng: np.random.Generator) -> Parameters:
    """Every feature a little, in its direction; types differ by chance so that they can part."""
    n_features, n_knots = knots.at.shape
    rise = np.tile(0.5 / n_features * knots.sign[:, None], (n_types, 1, n_knots - 1)).astype(np.float64)
    if n_types > 1:
        rise *= rng.uniform(0.3, 1.7, (n_types, n_features, 1))
    zeros, ones = np.zeros(n_types), np.ones(n_types)
    weights = Weights(np.full(n_types, -np.log(n_types)), zeros, ones, zeros, -4.0 * ones)
    return Parameters(rise, np.zeros((n_types, n_features)), weights)


def learn(
    lessons: Sequence[Lesson], sign: NDArray[np.int64], start: Parameters, *, floor: bool
) -> Parameters:
    """The parameters of highest penalised likelihood. Without `floor`, all pairs are there and it has no meaning."""
    from scipy.optimize import minimize

    shape = Shape(*start.rise.shape)
    bounds = _bounds(shape, sign, start, floor)
    found = minimize(
        lambda flat: objective(flat, lessons, shape),
        shape.pack(start),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": MOST_STEPS},
    )
    return shape.unpack(found.x)


def objective(flat: Floats, lessons: Sequence[Lesson], shape: Shape) -> tuple[float, Floats]:
    """The penalised negative log-likelihood per seated item, and its derivatives."""
    parameters = shape.unpack(flat)
    likelihood, n_seated = 0.0, 0
    by_height = np.zeros(parameters.heights.shape)
    by_missing = np.zeros(parameters.missing.shape)
    by_weights = np.zeros((5, shape.n_types))
    for lesson in lessons:
        score = parameters.scores(lesson.places)
        by_score = np.zeros(score.shape)
        for number, order in enumerate((*lesson.orders, np.arange(len(lesson.cluster)))):
            everyone = number == len(lesson.orders)
            likelihood += seat_known(
                lesson.neighbours,
                score,
                parameters.weights,
                lesson.cluster,
                order,
                everyone,
                by_score,
                by_weights,
            )
            n_seated += len(order)
        add_back(*lesson.places, by_score, by_height, by_missing)
    # Each rise lifts all heights after it.
    by_rise = np.cumsum(by_height[:, :, ::-1], axis=2)[:, :, ::-1][:, :, 1:]
    penalty, penalty_by_rise, penalty_by_missing = _penalty(parameters)
    slope = np.concatenate([by_rise.ravel(), by_missing.ravel(), by_weights.ravel()]) / n_seated
    slope -= np.concatenate([penalty_by_rise.ravel(), penalty_by_missing.ravel(), np.zeros(by_weights.size)])
    return penalty - likelihood / n_seated, -slope


def _penalty(parameters: Parameters) -> tuple[float, Floats, Floats]:
    rise, missing = parameters.rise, parameters.missing
    bend = np.diff(rise, axis=2)
    value = BEND * np.sum(bend**2) + RISE * (np.sum(rise**2) + np.sum(missing**2))
    by_rise = 2 * RISE * rise
    by_rise[:, :, 1:] += 2 * BEND * bend
    by_rise[:, :, :-1] -= 2 * BEND * bend
    return float(value), by_rise, 2 * RISE * missing


def _bounds(
    shape: Shape, sign: NDArray[np.int64], start: Parameters, floor: bool
) -> list[tuple[float | None, float | None]]:
    signs = np.broadcast_to(sign[None, :, None], start.rise.shape).ravel()
    rises: list[tuple[float | None, float | None]] = [
        (0.0, None) if each > 0 else (None, 0.0) for each in signs
    ]
    free: list[tuple[float | None, float | None]] = [(None, None)]
    floors = [(None, 0.0)] * shape.n_types if floor else [(value, value) for value in start.weights.floor]
    # Only the ratios of shares count, so the first type's stays where it is.
    shares = [(start.weights.log_share[0],) * 2, *free * (shape.n_types - 1)]
    return [*rises, *free * shape.sizes[1], *shares, *free * (3 * shape.n_types), *floors]
