"""The posterior of the parameters: its mode, and draws near it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from scdp._parallel import map_in_threads
from scdp._typing import Floats
from scdp.linkage.ensemble import Parameters, add_back, add_up
from scdp.linkage.law import Weights, log_likelihood_grad
from scdp.linkage.training.folds import PreparedFold
from scdp.linkage.training.prior import Prior

MODE_STEPS = 80
MEMBER_STEPS = 12
# How unsure the constant of the law is, with many labelled clusters and with one.
BIAS_SPREAD, BIAS_SPREAD_OF_ONE = 0.5, 1.2


def objective(
    flat: Floats, folds: Sequence[PreparedFold], prior: Prior, centre: Floats, weight: Sequence[Floats] | None
) -> tuple[float, Floats]:
    """The negative log-posterior of the parameters, and its derivatives."""
    parameters = prior.unpack(flat)
    value, slope = prior.cost(flat, centre)
    n_features, n_pieces = prior.n_features, prior.n_pieces
    for number, fold in enumerate(folds):
        score, by_score = np.empty(len(fold.pairs)), np.zeros(len(fold.pairs))
        add_up(*fold.places, parameters.heights, parameters.missing, score)
        by_weights = np.zeros(3)
        weights = Weights(parameters.bias + fold.log_odds, parameters.growth, parameters.third, fold.floor)
        each = np.ones(fold.cluster.max() + 1) if weight is None else weight[number]
        likelihood = 0.0
        orders = (*fold.orders, np.arange(len(fold.cluster)))
        for place, order in enumerate(orders):
            everyone = place == len(fold.orders)
            likelihood += log_likelihood_grad(
                fold.pairs.neighbours,
                score,
                weights,
                fold.cluster,
                order,
                everyone,
                each,
                by_score,
                by_weights,
            )
        by_height, by_missing = np.zeros((n_features, n_pieces + 1)), np.zeros(n_features)
        add_back(*fold.places, by_score, by_height, by_missing)
        # Each rise lifts all heights after it.
        by_rise = np.cumsum(by_height[:, ::-1], axis=1)[:, ::-1][:, 1:]
        value -= likelihood / len(orders)
        slope -= np.concatenate([by_rise.ravel(), by_missing, by_weights]) / len(orders)
    return value, slope


def maximise(
    folds: Sequence[PreparedFold],
    prior: Prior,
    centre: Floats,
    weight: Sequence[Floats] | None,
    steps: int,
    start: Floats | None = None,
) -> Floats:
    """The parameters of highest posterior density, the prior being centred at `centre`."""
    from scipy.optimize import minimize

    found = minimize(
        lambda flat: objective(flat, folds, prior, centre, weight),
        prior.mean if start is None else start,
        jac=True,
        method="L-BFGS-B",
        bounds=prior.bounds,
        options={"maxiter": steps, "ftol": 1e-5},
    )
    return np.asarray(found.x)


def draw_members(
    folds: Sequence[PreparedFold],
    prior: Prior,
    mode: Floats,
    shift: float,
    n_members: int,
    seed: int,
    n_jobs: int,
    report: Callable[[], None],
) -> tuple[Parameters, ...]:
    """Draws of the parameters near the mode, and of the constant of the law about its calibrated place."""
    n_repeated = max(sum(int((np.bincount(fold.cluster) > 1).sum()) for fold in folds), 1)
    spread = np.hypot(BIAS_SPREAD, BIAS_SPREAD_OF_ONE / np.sqrt(n_repeated))

    def draw(number: int) -> Parameters:
        rng = np.random.default_rng([seed, 7, number])
        weight = [rng.exponential(size=fold.cluster.max() + 1) for fold in folds]
        flat = maximise(folds, prior, prior.draw(rng), weight, MEMBER_STEPS, mode)
        report()
        parameters = prior.unpack(flat)
        return parameters._replace(bias=parameters.bias + shift + spread * rng.standard_normal())

    return tuple(map_in_threads(draw, range(n_members), n_jobs))
