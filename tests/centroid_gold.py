"""Exact checks of SCDP-3 on distances: small problems whose whole posterior is enumerated with the plain twin.

The prior of precisions depends on the data through S, so there is no forward draw of data (Geweke) to compare with.
Instead, one application of a kernel to exact draws of the posterior must give exact draws again. 20,000 starts find an
effect of 0.07 (as gold_tools.detectable says): a state of this model takes more time to hand over than its moves take.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from distance_cases import build_strange, groups_of, lay_out_points
from gold_tools import (
    GRID,
    LAYOUTS,
    JointCells,
    Problem,
    chi_square,
    clusters_problem,
    coarse_codes,
    joint_start,
    make_problem,
    partition_codes,
    places_of,
    random_slots,
    stream,
)
from scdp.chains import Plan, Priors, State
from scdp.chains.distances.centroids import centroids_of
from scdp.chains.distances.clusters import distance_sweep, resample_clusters_by_distance, update_types
from scdp.chains.items import DistanceItems, ItemLayout
from scdp.chains.split_merge import split_merge_by_distance
from scdp.chains.vector_coupling import VARIANTS
from twins import distance_separation as plain
from twins import exact

RATE = 0.3
STARTS = 20_000


def layout_of(problem: Problem, strange: bool) -> ItemLayout[DistanceItems]:
    case = problem.case
    if strange:
        return build_strange(case, seed=5, n_features=2)[0]
    return lay_out_points(problem.points, np.array(case.known), groups_of(case), case.share)


def clusters(rng: np.random.Generator, items: DistanceItems, state: State, variant: int) -> State:
    centroids = centroids_of(items, state.cluster, variant)
    return state._replace(cluster=resample_clusters_by_distance(rng, items, state, centroids)[0])


def split_merge(attempts: int):
    def apply(rng: np.random.Generator, items: DistanceItems, state: State, variant: int) -> State:
        centroids = centroids_of(items, state.cluster, variant)
        return state._replace(cluster=split_merge_by_distance(rng, items, state, attempts, centroids)[0])

    return apply


def both_moves(rng: np.random.Generator, items: DistanceItems, state: State, variant: int) -> State:
    """Gibbs and split-merge on one set of centroids, as in a sweep."""
    centroids = centroids_of(items, state.cluster, variant)
    state = state._replace(cluster=resample_clusters_by_distance(rng, items, state, centroids)[0])
    return state._replace(cluster=split_merge_by_distance(rng, items, state, 3, centroids)[0])


def types(rng: np.random.Generator, items: DistanceItems, state: State, variant: int) -> State:
    """Types and precisions under the prior that the centroids imply."""
    centroids = centroids_of(items, state.cluster, variant)
    return update_types(rng, state, items, Plan(n_auxiliary=2), centroids)[0]


def whole_sweep(rng: np.random.Generator, items: DistanceItems, state: State, variant: int) -> State:
    name = next(name for name, code in VARIANTS.items() if code == variant)
    plan = Plan(conditioning=name, split_merge_attempts=1, n_auxiliary=2)
    return distance_sweep(rng, state, items, plan, Priors())[0]


CLUSTER_KERNELS = {
    "clusters": clusters,
    "split-merge, 1 attempt": split_merge(1),
    "split-merge, 3 attempts": split_merge(3),
    "both moves": both_moves,
}
JOINT_KERNELS = {"types": types, "sweep": whole_sweep}


def check_clusters(layout: str, kernel: str, variant: str, strange: bool = False) -> float:
    """p-value of the partitions after one application of a kernel, types and precisions under the Gamma prior."""
    problem, code = make_problem(LAYOUTS[layout]), VARIANTS[variant]
    state = problem.template._replace(separation_rate=RATE)
    laid_out = layout_of(problem, strange)
    items, known = laid_out.items, np.array(problem.case.known)
    rows = exact.allowed_partitions(known, places_of(problem.case))
    log_weight = [plain.log_partition(items, state, row, code) for row in rows]
    probability = exact.normalize(np.array(log_weight))
    rng = stream(f"{kernel} {variant} by centroids of {layout} {strange}")
    after = np.empty((STARTS, len(known)), np.int64)
    for s, pick in enumerate(rng.choice(len(rows), STARTS, p=probability)):
        start = state._replace(cluster=random_slots(rng, laid_out, rows[pick]))
        after[s] = CLUSTER_KERNELS[kernel](rng, items, start, code).cluster
    return chi_square(partition_codes(after), partition_codes(rows), probability)


def difference_from_scdp1(layout: str, variant: str) -> float:
    """How far the target is from SCDP-1's, as total variation: a check has power only where this is not small."""
    problem, rows, without, _ = clusters_problem(layout)
    state, items = problem.template._replace(separation_rate=RATE), layout_of(problem, False).items
    code = VARIANTS[variant]
    weights = np.array([plain.log_partition(items, state, row, code) for row in rows])
    return float(0.5 * np.abs(exact.normalize(weights) - without).sum())


@cache
def joint_problem(layout: str, variant: str) -> tuple[DistanceItems, JointCells, list[State]]:
    """Clusters, types and precisions on a grid: SCDP-1's exact posterior times the coupling, and exact starts."""
    case, code = LAYOUTS[layout], VARIANTS[variant]
    problem = make_problem(case, grid=True)
    state, items = problem.template._replace(separation_rate=RATE), layout_of(problem, False).items
    states, probability = exact.joint_posterior(
        problem.points, np.array(case.known), places_of(case),
        state.cluster_concentration, state.type_concentration, GRID, state.mean_variance,
    )  # fmt: skip
    gaps = {row.tobytes(): plain.separation(items, row, code) for row, _, _ in states}
    log_coupling = np.empty(len(states))
    for s, (row, _, choice) in enumerate(states):
        pull = RATE * GRID.values @ gaps[row.tobytes()]
        normalizer = np.logaddexp.reduce(np.log(GRID.weights) - pull)
        log_coupling[s] = -(pull[choice] + normalizer).sum()
    probability = exact.normalize(np.log(probability) + log_coupling)
    rng = stream(f"joint starts by centroids of {layout} {variant}")
    template = Problem(case, problem.points, problem.laid_out, state)
    starts = [joint_start(rng, template, *states[pick]) for pick in rng.choice(len(states), STARTS, p=probability)]
    cluster, kinds = (np.array([s[part] for s in states]) for part in (0, 1))
    first_row = np.array([choice[kind[0]] for _, kind, choice in states])
    cells = JointCells(
        partition_codes(cluster), partition_codes(kinds), coarse_codes(cluster, kinds, first_row), probability
    )
    return items, cells, starts


def check_joint(layout: str, kernel: str, variant: str) -> dict[str, float]:
    items, cells, starts = joint_problem(layout, variant)
    rng = stream(f"{kernel} {variant} on the joint by centroids of {layout}")
    n = len(starts[0].cluster)
    cluster, kinds = np.empty((STARTS, n), np.int64), np.empty((STARTS, n), np.int64)
    row = np.empty(STARTS, np.int64)
    for s, state in enumerate(starts):
        state = JOINT_KERNELS[kernel](rng, items, state, VARIANTS[variant])
        cluster[s], kinds[s] = state.cluster, state.type
        row[s] = state.precision[state.type[0], 0] == GRID.values[1, 0]
    return {
        "clusters": chi_square(partition_codes(cluster), cells.clusters, cells.probability),
        "types": chi_square(partition_codes(kinds), cells.types, cells.probability),
        "K, L and row": chi_square(coarse_codes(cluster, kinds, row), cells.coarse, cells.probability),
    }
