"""Gold tests of SCDP-3 (see conditioned_gold.py): every variant, every kernel, M = 1, 2 and 8."""

from __future__ import annotations

import numpy as np
import pytest

from conditioned_gold import LAYOUTS, check, long_run
from gold_tools import FALSE_ALARM, Stream
from scdp.chains import GammaPrior, Plan, Priors, initial_state
from scdp.chains.items import lay_out_vectors
from scdp.chains.run import constants_of, update_concentrations
from scdp.chains.vector_conditioned import conditioned_sweep, with_means
from scdp.chains.vector_coupling import VARIANTS
from twins import simulate

variants = pytest.mark.parametrize("variant", list(VARIANTS))


@variants
@pytest.mark.parametrize("n_auxiliary", [1, 2, 8])
@pytest.mark.parametrize("kernel", ["clusters", "clusters from the prior", "types by auxiliary"])
def test_algorithm_8_is_exact_for_every_number_of_auxiliary_values(kernel, n_auxiliary, variant):
    assert check(kernel, variant, n_auxiliary=n_auxiliary) > FALSE_ALARM


@variants
@pytest.mark.parametrize("layout", list(LAYOUTS))
@pytest.mark.parametrize("kernel", ["means", "types", "precisions", "sweep"])
def test_every_other_kernel_leaves_the_posterior_as_it_is(kernel, layout, variant):
    assert check(kernel, variant, layout) > FALSE_ALARM


@variants
def test_long_run_frequencies_are_the_posterior(variant):
    distance, expected = long_run(variant, "partly known")
    assert distance < 2 * expected + 0.002


@pytest.mark.parametrize("variant", ["normalized", "mean"])
@pytest.mark.parametrize("scheme", ["collapsed", "paper"])
def test_geweke_with_continuous_means_and_precisions(variant, scheme):
    """Forward draws against a chain that alternates sweep and new data; 8 z-scores, each at false alarm 1e-4."""
    priors = Priors(precision=GammaPrior(3.0, 3.0))
    rng = Stream(np.random.PCG64([2005, 3, int(scheme == "paper")]))
    n, n_draws = 5, 5000
    forward = np.array([summary(*forward_state(rng, variant, priors, n)) for _ in range(n_draws)])
    plan = Plan(conditioning=variant, n_auxiliary=2, scheme=scheme, learn_separation_rate=True)
    state, points = forward_state(rng, variant, priors, n)
    chain = []
    for _ in range(n_draws * 2):
        items = lay_out_vectors(points, np.full(n, -1)).items
        state, _ = conditioned_sweep(rng, state, items, plan, priors)
        state = update_concentrations(rng, state, priors, constants_of(items))
        noise = rng.standard_normal(points.shape) / np.sqrt(state.precision[state.type])
        points = state.means[state.cluster] + noise
        chain.append(summary(state, points))
    chain = np.array(chain)
    batches = chain.reshape(80, -1, chain.shape[1]).mean(axis=1)
    error = np.sqrt(forward.var(axis=0) / n_draws + batches.var(axis=0, ddof=1) / 80)
    z = (forward.mean(axis=0) - chain.mean(axis=0)) / error
    assert np.abs(z).max() < 4.5, z


def forward_state(rng, variant, priors, n):
    """A draw of everything from the generative model: precisions come last but one, given the means."""
    drawn = simulate.simulate(rng, np.zeros(n, np.int64), 2, priors)
    rate_value = priors.separation_rate.draw(rng)
    k = len(drawn.means)
    pairs = max(k * (k - 1) / 2, 1)
    gaps = k * (drawn.means**2).sum(axis=0) - drawn.means.sum(axis=0) ** 2
    rate = priors.precision.rate + rate_value * (gaps / pairs if variant == "mean" else gaps)
    precision = rng.standard_gamma(priors.precision.shape, drawn.precision.shape) / rate
    points = drawn.means[drawn.clusters] + rng.standard_normal((n, 2)) / np.sqrt(precision[drawn.types])
    start = initial_state(rng, lay_out_vectors(points, np.full(n, -1)), "one", priors)
    means = np.zeros((n, 2))
    means[:k] = drawn.means
    state = start._replace(
        cluster=drawn.clusters,
        type=drawn.types,
        precision=precision,
        cluster_concentration=drawn.cluster_concentration,
        type_concentration=drawn.type_concentration,
        means=means,
        separation_rate=rate_value,
    )
    return state, points


def summary(state, points):
    """Bounded statistics, since some moments of the model are infinite."""
    k, kinds = len(np.unique(state.cluster)), len(np.unique(state.type))
    return [
        k,
        kinds,
        np.bincount(state.cluster).max(),
        np.tanh(state.cluster_concentration),
        np.tanh(state.separation_rate),
        np.tanh(state.precision[state.type[0], 0]),
        np.tanh(np.abs(state.means[state.cluster[0], 1])),
        np.tanh(np.abs(points[0] - points[1]).sum()),
    ]


def test_a_start_has_means():
    rng = np.random.default_rng(0)
    laid_out = lay_out_vectors(rng.normal(size=(6, 2)), np.full(6, -1))
    state = with_means(rng, initial_state(rng, laid_out, "kmeans", Priors()), laid_out.items)
    assert np.abs(state.means[np.unique(state.cluster)]).min() > 0
