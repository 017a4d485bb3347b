"""The prior of precisions where it is learned, and where it follows the gaps between means."""

from __future__ import annotations

import numpy as np
import pytest

import gold_checks
from distance_cases import build_both
from gold_tools import FALSE_ALARM
from sampler_cases import CASES
from scdp import SCDP
from scdp.chains import GammaPrior, Plan, Priors
from scdp.chains.distances.centroids import gap_powers
from scdp.chains.run import update_priors
from scdp.chains.vector_types import coupled_prior
from scdp.errors import InputError

PRIORS = Priors(precision=GammaPrior(1.3, 0.7))


def test_learned_scale():
    found = gold_checks.check_scale()
    assert min(found.values()) > FALSE_ALARM, found


@pytest.mark.parametrize(("coupling", "power"), [("types", 0.0), ("density", 0.5)])
def test_gaps_enter_as_the_reading_says(coupling: str, power: float):
    """Against a loop over pairs of means: exp(-rate t gap), with t to the power for each pair."""
    rng = np.random.default_rng(0)
    state = build_both(CASES[0], 0)[2]
    means, used = rng.normal(size=(9, 3)), np.array([0, 2, 5, 6])
    state = state._replace(separation_rate=0.3)
    found = update_priors(rng, state, Plan(type_coupling=coupling), PRIORS, means, used)
    shape, rate = np.full(3, 1.3), np.full(3, 0.7)
    for place, k in enumerate(used):
        for j in used[:place]:
            shape += power
            rate += 0.3 * (means[j] - means[k]) ** 2
    np.testing.assert_allclose(found.shape, shape)
    np.testing.assert_allclose(found.rate, rate)


def test_gaps_by_distance_are_those_of_posterior_means():
    laid_out, by_distance, state = build_both(CASES[2], 1)
    powers, n_pairs, _ = gap_powers(by_distance.items, state)
    used = np.unique(state.cluster)
    means = {}
    for slot in used:
        inside = state.cluster == slot
        weight = laid_out.items.observed[inside] * state.precision[state.type[inside]]
        total = 1 / state.mean_variance + weight.sum(axis=0)
        means[slot] = (weight * laid_out.items.points[inside]).sum(axis=0) / total
    expected = sum((means[j] - means[k]) ** 2 for k in used for j in used if j < k)
    assert n_pairs == len(used) * (len(used) - 1) // 2
    np.testing.assert_allclose(powers[0], expected, atol=1e-6)
    prior = coupled_prior(state, Plan(type_coupling="types"), PRIORS, powers[0], n_pairs)
    np.testing.assert_allclose(prior.rate, 0.7 + state.separation_rate * expected, atol=1e-6)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("conditioning", ["types", "density"])
def test_readings_of_types_run(conditioning: str):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(3 * k, 0.2, (6, 2)) for k in range(4)])
    y = np.repeat([0, 1, -1, -1], 6)
    model = SCDP("scdp3", conditioning=conditioning, n_chains=1, n_sweeps=20, random_state=0).fit(X, y)
    assert len(model.labels_) == 24
    assert "improper_means" not in model.posterior_.traces


def test_what_does_not_fit_together_is_refused():
    X = np.zeros((3, 1))
    with pytest.raises(InputError, match="has no density to learn a rate by"):
        SCDP("scdp3", conditioning="types", rate="learn").fit(X)
    with pytest.raises(InputError, match="is for model='scdp1'"):
        SCDP("scdp2", mean_variance="learn scale").fit(X)
