"""Gold tests of SCDP-3 on distances: every move leaves the enumerated posterior as it is (see centroid_gold.py).

Each p-value is asserted above 1e-3, so that a correct kernel fails one of them with probability 1e-3 over the choice of
the fixed seed (about 1 in 50 for the whole file).
"""

from __future__ import annotations

import numpy as np
import pytest

from centroid_gold import RATE, STARTS, check_clusters, check_joint, difference_from_scdp1, layout_of
from gold_tools import FALSE_ALARM, LAYOUTS, kolmogorov, make_problem, stream
from scdp.chains import GammaPrior, Priors
from scdp.chains.distances.centroids import centroids_of
from scdp.chains.distances.clusters import update_separation_rate
from scdp.chains.vector_coupling import VARIANTS
from twins import distance_separation as plain

each_variant = pytest.mark.parametrize("variant", ["normalized", "mean"])


@each_variant
@pytest.mark.parametrize(
    ("layout", "kernel"),
    [("missing values", "clusters"), ("missing values", "split-merge, 3 attempts"), ("two documents", "both moves")],
)
def test_clusters(layout: str, kernel: str, variant: str):
    assert check_clusters(layout, kernel, variant) > FALSE_ALARM


@pytest.mark.parametrize("layout", ["two known", "training apart"])
def test_clusters_with_known_ones(layout: str):
    assert check_clusters(layout, "both moves", "normalized") > FALSE_ALARM


def test_clusters_where_distances_fit_no_space():
    assert check_clusters("missing values", "both moves", "mean", strange=True) > FALSE_ALARM


@each_variant
@pytest.mark.parametrize("layout", ["missing values", "two documents"])
def test_the_target_is_not_that_of_scdp1(layout: str, variant: str):
    assert difference_from_scdp1(layout, variant) > 0.03


@pytest.mark.parametrize(
    ("layout", "kernel", "variant"),
    [
        ("missing values", "types", "normalized"),
        ("missing values", "sweep", "normalized"),
        ("two documents", "sweep", "mean"),
    ],
)
def test_clusters_types_and_precisions_on_a_grid(layout: str, kernel: str, variant: str):
    found = check_joint(layout, kernel, variant)
    assert min(found.values()) > FALSE_ALARM, found


@each_variant
def test_separation_rate_by_quadrature(variant: str):
    """Exact draws of the rate given everything else stay exact draws."""
    problem, code = make_problem(LAYOUTS["missing values"]), VARIANTS[variant]
    items = layout_of(problem, False).items
    state = problem.template._replace(cluster=np.array([0, 1, 0, 2, 1]), separation_rate=RATE)
    priors = Priors(separation_rate=GammaPrior(1.5, 0.7))
    grid = np.exp(np.linspace(-12, 4, 4001))
    log_density = np.array(
        [
            0.5 * np.log(rate)
            - 0.7 * rate
            + plain.log_coupling(items, state._replace(separation_rate=rate), state.cluster, code)
            for rate in grid
        ]
    )
    density = np.exp(log_density - log_density.max())
    cumulative = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(grid))])
    cumulative /= cumulative[-1]
    rng, centroids = (stream(f"separation rate by centroids {variant}"), centroids_of(items, state.cluster, code))
    n = STARTS // 2
    after = np.empty(n)
    for s, rate in enumerate(np.interp(rng.random(n), cumulative, grid)):
        now = state._replace(separation_rate=float(rate))
        after[s] = update_separation_rate(rng, now, centroids, priors).separation_rate
    assert kolmogorov(after, lambda x: np.interp(x, grid, cumulative)) > FALSE_ALARM
