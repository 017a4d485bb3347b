"""Gold tests on distances: one application of every kernel to exact draws of its target gives exact draws again.

The targets are enumerated with coordinates where the distances are Euclidean, and with the marginals of
twins.distances where they fit no space. Each p-value is asserted above 1e-3, so a correct kernel
fails one of them with probability 1e-3 over the choice of the fixed seed (about 1 in 15 for the whole file);
40,000 starts find an effect of 0.05, and 20,000 of clusters, types and precisions together one of 0.07, as
test_sampler_gold says.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy import stats

from distance_cases import build_strange, groups_of, lay_out_points
from gold_tools import (
    FALSE_ALARM,
    GRID,
    JOINT_STARTS,
    LAYOUTS,
    STARTS,
    Problem,
    chi_square,
    clusters_problem,
    coarse_codes,
    joint_problem,
    kolmogorov,
    make_problem,
    partition_codes,
    random_slots,
    stream,
    two_sample_chi_square,
)
from scdp.chains import Plan, Priors, State
from scdp.chains.distances.centroids import log_data_of_distances
from scdp.chains.distances.clusters import distance_sweep, resample_clusters_by_distance
from scdp.chains.distances.types import (
    resample_mean_variance_by_distance,
    resample_precisions_by_distance,
    resample_types_by_distance,
)
from scdp.chains.items import DistanceItems
from scdp.chains.split_merge import split_merge_by_distance
from twins import crp, exact, likelihood
from twins import distances as distance_plain


def items_of(problem: Problem) -> DistanceItems:
    case = problem.case
    return lay_out_points(problem.points, np.array(case.known), groups_of(case), case.share).items


# None is passed as the sampler does: an argument left out would be compiled for again.
CLUSTER_KERNELS = {
    "clusters": lambda rng, items, state: resample_clusters_by_distance(rng, items, state, None)[0],
    "split-merge, 1 attempt": lambda rng, items, state: split_merge_by_distance(rng, items, state, 1, None)[0],
    "split-merge, 3 attempts": lambda rng, items, state: split_merge_by_distance(rng, items, state, 3, None)[0],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kernel", CLUSTER_KERNELS)
def test_clusters(layout: str, kernel: str):
    problem, rows, probability, starts = clusters_problem(layout)
    items, rng = items_of(problem), stream(f"{kernel} on distances of {layout}")
    after = np.array([CLUSTER_KERNELS[kernel](rng, items, state) for state in starts])
    assert chi_square(partition_codes(after), partition_codes(rows), probability) > FALSE_ALARM


@pytest.mark.parametrize("layout", LAYOUTS)
def test_exact_posterior_is_the_same(layout: str):
    problem, rows, probability, _ = clusters_problem(layout)
    weights = np.array([distance_plain.log_partition(items_of(problem), problem.template, row) for row in rows])
    np.testing.assert_allclose(exact.normalize(weights), probability, rtol=1e-9)


@cache
def strange_problem(layout: str) -> tuple[DistanceItems, np.ndarray, np.ndarray, list[State]]:
    """Distances that fit no space: the items, their partitions, their probabilities, exact starts."""
    laid_out, _ = build_strange(LAYOUTS[layout], seed=5, n_features=2)
    problem = make_problem(LAYOUTS[layout])
    state, items = problem.template, laid_out.items
    rows = exact.allowed_partitions(np.array(problem.case.known), items.group)
    probability = exact.normalize(np.array([distance_plain.log_partition(items, state, row) for row in rows]))
    rng = stream(f"starts on strange distances of {layout}")
    picks = rng.choice(len(rows), STARTS, p=probability)
    starts = [state._replace(cluster=random_slots(rng, laid_out, rows[pick])) for pick in picks]
    return items, rows, probability, starts


@pytest.mark.parametrize("kernel", CLUSTER_KERNELS)
@pytest.mark.parametrize("layout", ["missing values", "two known", "two documents"])
def test_clusters_where_distances_fit_no_space(layout: str, kernel: str):
    """The quadratic form of a cluster is never negative: unclipped, it is a proper target for every kernel."""
    items, rows, probability, starts = strange_problem(layout)
    rng = stream(f"{kernel} on strange distances of {layout}")
    after = np.array([CLUSTER_KERNELS[kernel](rng, items, state) for state in starts])
    assert chi_square(partition_codes(after), partition_codes(rows), probability) > FALSE_ALARM


def _types(n_auxiliary: int):
    def apply(rng: np.random.Generator, items: DistanceItems, state: State) -> State:
        kinds, precision, _, _ = resample_types_by_distance(rng, items, state, n_auxiliary)
        return state._replace(type=kinds, precision=precision)

    return apply


def _precisions(rng: np.random.Generator, items: DistanceItems, state: State) -> State:
    return state._replace(precision=resample_precisions_by_distance(rng, items, state))


def _sweep(rng: np.random.Generator, items: DistanceItems, state: State) -> State:
    plan = Plan(learn_concentrations=False, split_merge_attempts=1, n_auxiliary=2)
    return distance_sweep(rng, state, items, plan, Priors())[0]


JOINT_KERNELS = {
    "types, 1 auxiliary": _types(1),
    "types, 3 auxiliaries": _types(3),
    "precisions": _precisions,
    "sweep": _sweep,
}


@pytest.mark.parametrize("layout", ["missing values", "two known", "two documents"])
@pytest.mark.parametrize("kernel", JOINT_KERNELS)
def test_clusters_types_and_precisions_on_a_grid(layout: str, kernel: str):
    problem, cells, starts = joint_problem(layout)
    items, rng = items_of(problem), stream(f"{kernel} on joint distances of {layout}")
    n = len(problem.points)
    after, kinds = np.empty((JOINT_STARTS, n), np.int64), np.empty((JOINT_STARTS, n), np.int64)
    row = np.empty(JOINT_STARTS, np.int64)
    for s, state in enumerate(starts):
        state = JOINT_KERNELS[kernel](rng, items, state)
        after[s], kinds[s] = state.cluster, state.type
        row[s] = state.precision[state.type[0], 0] == GRID.values[1, 0]
    found = {
        "clusters": chi_square(partition_codes(after), cells.clusters, cells.probability),
        "types": chi_square(partition_codes(kinds), cells.types, cells.probability),
        "K, L and row": chi_square(coarse_codes(after, kinds, row), cells.coarse, cells.probability),
    }
    assert min(found.values()) > FALSE_ALARM, found


def grid_distribution(values: np.ndarray, log_density: np.ndarray):
    density = np.exp(log_density - log_density.max())
    cumulative = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(values))])
    return lambda x: np.interp(x, values, cumulative / cumulative[-1])


POINTS = np.array([[0.4], [1.9], [-0.8], [-1.1], [np.nan], [0.3]])
CLUSTER = np.array([0, 0, 1, 1, 1, 2])


def one_feature(types: np.ndarray, precision: np.ndarray) -> tuple[DistanceItems, State]:
    items = lay_out_points(POINTS, np.full(6, -1), None, False).items
    nothing = np.empty((0, 1)), np.empty(0)
    state = State(CLUSTER, types, precision, 1.0, 1.0, 1.4, np.array([1.3]), np.array([0.6]), *nothing)
    return items, state


def test_one_precision_by_quadrature():
    """Two types: exact draws of the first one's precision given the second's stay exact draws."""
    types = np.array([0, 1, 0, 0, 0, 0])
    grid = np.exp(np.linspace(-14, 5, 4001))
    log_density = np.array(
        [
            exact.partition_log_likelihood(POINTS, CLUSTER, np.array([[t], [2.5]])[types], 1.4)
            + likelihood.gamma_log_density(t, 1.3, 0.6)
            for t in grid
        ]
    )
    cdf = grid_distribution(grid, log_density)
    rng = stream("slice of a precision")
    after = np.empty(STARTS)
    items, state = one_feature(types, np.array([[1.0], [2.5]]))
    for s, t in enumerate(np.interp(rng.random(STARTS), cdf(grid), grid)):
        now = state._replace(precision=np.array([[t], [2.5]]))
        after[s] = resample_precisions_by_distance(rng, items, now)[0, 0]
    assert kolmogorov(after, cdf) > FALSE_ALARM


def test_mean_variance_by_quadrature():
    items, state = one_feature(np.array([0, 1, 0, 0, 0, 1]), np.array([[0.7], [2.5]]))
    grid = np.exp(np.linspace(-12, 6, 4001))
    log_density = np.array(
        [
            exact.partition_log_likelihood(POINTS, CLUSTER, state.precision[state.type], 1 / s)
            + likelihood.gamma_log_density(s, 2.0, 0.8)
            for s in grid
        ]
    )
    cdf = grid_distribution(grid, log_density)
    rng = stream("slice of the mean variance")
    after = np.empty(STARTS)
    for k, s in enumerate(np.interp(rng.random(STARTS), cdf(grid), grid)):
        now = state._replace(mean_variance=1 / s)
        after[k] = 1 / resample_mean_variance_by_distance(rng, items, now, 2.0, 0.8)
    assert kolmogorov(after, cdf) > FALSE_ALARM


# Under the Gamma prior types and precisions have no finite list of states. Instead: draw them from the prior,
# draw data given them, apply the kernel given the data. What comes out must be a draw of prior and data again.

N_FORWARD = 20_000
CLUSTERS = np.array([0, 0, 0, 1, 1])
SEEN = np.array([[1, 1], [0, 1], [1, 1], [1, 1], [1, 0]], bool)
TEMPLATE = lay_out_points(np.where(SEEN, 0.0, np.nan), np.full(5, -1), None, False).items
SHAPE, RATE = np.array([1.4, 2.0]), np.array([0.7, 1.5])


def forward(rng: np.random.Generator) -> tuple[DistanceItems, State]:
    types = crp.draw_partition(rng, 5, 1.3)
    precision = rng.standard_gamma(SHAPE, (5, 2)) / RATE
    means = rng.standard_normal((2, 2)) * np.sqrt(1.4)
    points = means[CLUSTERS] + rng.standard_normal((5, 2)) / np.sqrt(precision[types])
    points[~SEEN] = 0.0
    squared = np.zeros_like(TEMPLATE.squared)
    squared[:, :2] = ((points[:, None] - points) ** 2 * (SEEN[:, None] & SEEN)).reshape(25, 2)
    items = TEMPLATE._replace(squared=squared, origin=points**2)
    nothing = np.empty((0, 2)), np.empty(0)
    return items, State(CLUSTERS, types, precision, 1.0, 1.3, 1.4, SHAPE, RATE, *nothing)


@pytest.mark.parametrize("kernel", ["types, 1 auxiliary", "types, 3 auxiliaries", "precisions"])
def test_types_and_precisions_under_the_gamma_prior(kernel: str):
    rng = stream(f"{kernel} with Gamma prior on distances")
    kinds = np.empty((N_FORWARD, 5), np.int64)
    first, last, fit, other_fit = np.empty((4, N_FORWARD))
    pair = np.empty((2, N_FORWARD), np.int64)
    for s in range(N_FORWARD):
        items, state = forward(rng)
        state = JOINT_KERNELS[kernel](rng, items, state)
        kinds[s] = state.type
        first[s], last[s] = state.precision[state.type[0], 0], state.precision[state.type[4], 1]
        fit[s] = log_data_of_distances(items, state)
        other_items, other = forward(rng)
        other_fit[s] = log_data_of_distances(other_items, other)
        pair[:, s] = summary(items, state), summary(other_items, other)
    rows = exact.partitions(5)
    prior = np.exp([crp.log_probability(np.bincount(row), 1.3) for row in rows])
    found = {
        "types": chi_square(partition_codes(kinds), partition_codes(rows), prior),
        "precision of the first": kolmogorov(first, stats.gamma(SHAPE[0], scale=1 / RATE[0]).cdf),
        "precision of the last": kolmogorov(last, stats.gamma(SHAPE[1], scale=1 / RATE[1]).cdf),
        "log density of the data": float(stats.ks_2samp(fit, other_fit, method="asymp").pvalue),
        "data and types together": two_sample_chi_square(pair[0], pair[1]),
    }
    assert min(found.values()) > FALSE_ALARM, found


def summary(items: DistanceItems, state: State) -> int:
    """Number of types, how far the first and third item are apart, and how precise the first is."""
    far = int(np.searchsorted([0.1, 0.5, 2.0], items.squared[items.row_start[0] + items.place[2], 0]))
    precise = int(np.searchsorted([0.5, 1.5, 3.0], state.precision[state.type[0], 0]))
    return 100 * len(np.unique(state.type)) + 10 * far + precise
