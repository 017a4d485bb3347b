"""Gold checks that need chains: long-run frequencies against the exact posterior, and Geweke's joint test."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from gold_tools import GRID, Problem, make_problem, partition_codes, places_of, stream
from sampler_cases import Case
from scdp.chains import GammaPrior, Priors, State, initial_state, run
from scdp.chains.items import Items, lay_out_vectors
from twins import exact
from twins.simulate import Simulated, simulate

LONG_RUNS = {
    case.name: case
    for case in [
        Case("6 items, 4 known, with types", [0, 0, 1, 1, -1, -1], share=True, missing=0.2, grid=True),
        Case("7 items in 2 documents", [0, 1, -1, -1, -1, -1, -1], [0, 0, 0, 0, 0, 1, 1], share=True, missing=0.2),
        Case("8 items, 3 known", [0, 0, 1, -1, -1, -1, -1, -1], share=True, missing=0.1),
    ]
}


@dataclass(frozen=True)
class LongRun:
    """Total variation between a chain's frequencies and the exact posterior, and what chance makes of it."""

    cells: int
    sweeps: int
    distance: float
    expected: float


def long_run(layout: str, scheme: str, n_sweeps: int, n_batches: int = 40) -> LongRun:
    """Run one chain from one cluster, a twentieth of it as burn-in, and compare frequencies of all cells."""
    case = LONG_RUNS[layout]
    problem = make_problem(case, grid=case.grid)
    cells, probability = exact_cells(problem)
    rng = stream(f"long run of {layout}, {scheme}")
    plan = run.Plan(scheme=scheme, learn_types=case.grid, learn_concentrations=False, split_merge_attempts=1)
    items, state = problem.laid_out.items, problem.template
    state = state._replace(cluster=first_clusters(problem))
    if case.grid:
        state = state._replace(type=np.zeros(len(case.known), np.int64), precision=GRID.values[:1])
    fixed = run.constants_of(items)
    both = np.empty((n_sweeps, 2, len(case.known)), np.int64)
    for s in range(-n_sweeps // 20, n_sweeps):
        state, _ = run.sweep(rng, state, items, plan, Priors(), fixed)
        if s >= 0:
            both[s] = state.cluster, state.type
    codes = cell_codes(both[:, 0], both[:, 1], case.grid)
    return compare_frequencies(codes, cells, probability, n_batches)


def first_clusters(problem: Problem) -> np.ndarray:
    """Every hidden item of a group in its last slot."""
    known, items = problem.laid_out.known_slot, problem.laid_out.items
    return np.where(known >= 0, known, items.slot_end[items.group] - 1)


def cell_codes(clusters: np.ndarray, types: np.ndarray, with_types: bool) -> np.ndarray:
    codes = partition_codes(clusters)
    return codes * 2**15 + partition_codes(types) if with_types else codes


def exact_cells(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Codes and exact probabilities of cluster partitions, or of cluster and type partitions together."""
    case, state, places = problem.case, problem.template, places_of(problem.case)
    known = np.array(case.known)
    if not case.grid:
        rows, probability = exact.cluster_posterior(
            problem.points, state.precision[state.type], known, places,
            state.cluster_concentration, state.mean_variance,
        )  # fmt: skip
        return partition_codes(rows), probability
    states, probability = exact.joint_posterior(
        problem.points, known, places, state.cluster_concentration, state.type_concentration, GRID,
        state.mean_variance,
    )  # fmt: skip
    clusters, types = (np.array([s[part] for s in states]) for part in (0, 1))
    cells, inverse = np.unique(cell_codes(clusters, types, True), return_inverse=True)
    return cells, np.bincount(inverse, weights=probability)


def compare_frequencies(codes: np.ndarray, cells: np.ndarray, probability: np.ndarray, n_batches: int) -> LongRun:
    """The expected distance is the mean of |Normal| errors, sized by batch means, cell by cell."""
    order = np.argsort(cells)
    cells, probability = cells[order], probability[order]
    place = np.searchsorted(cells, codes)
    if place.max() == len(cells) or (cells[place] != codes).any():
        return LongRun(len(cells), len(codes), 1.0, 0.0)
    batches = np.array(
        [np.bincount(part, minlength=len(cells)) / len(part) for part in np.array_split(place, n_batches)]
    )
    error = batches.std(axis=0, ddof=1) / np.sqrt(n_batches)
    # A cell that was hardly visited has no spread between batches; independent draws bound it from below.
    error = np.maximum(error, np.sqrt(probability * (1 - probability) / len(codes)))
    distance = 0.5 * np.abs(batches.mean(axis=0) - probability).sum()
    return LongRun(len(cells), len(codes), float(distance), float(0.5 * np.sqrt(2 / np.pi) * error.sum()))


GEWEKE = {
    "two documents": Case("two documents", [-1] * 7, [0, 0, 0, 0, 1, 1, 1]),
    "three known": Case("three known", [0, 0, 1, -1, -1, -1, -1], share=True),
}
GEWEKE_PRIORS = Priors(
    precision=GammaPrior(2.0, 1.0),
    cluster_concentration=GammaPrior(2.0, 1.5),
    type_concentration=GammaPrior(1.5, 1.5),
    mean_precision=GammaPrior(2.0, 1.0),
)
STATISTICS = [
    "K", "K squared", "L", "largest cluster", "cluster of the last", "last two together", "alpha cluster",
    "alpha type", "alpha cluster squared", "K times alpha", "share of precision", "share of mean variance",
    "square of the last", "product of the last two", "square where together",
]  # fmt: skip


def statistics(
    points: np.ndarray, clusters: np.ndarray, types: np.ndarray, precision: np.ndarray,
    alphas: tuple[float, float], mean_variance: float,
) -> list[float]:  # fmt: skip
    """Scalars of data and state; x / (1 + x) wherever a moment could be infinite."""
    sizes = np.bincount(clusters)
    k, together = np.count_nonzero(sizes), float(clusters[-1] == clusters[-2])
    square, product = points[-1, 0] ** 2, points[-1, 0] * points[-2, 0]
    alpha = alphas[0]
    return [
        k, k * k, len(np.unique(types)), sizes.max(), sizes[clusters[-1]], together, alpha / (1 + alpha),
        alphas[1] / (1 + alphas[1]), (alpha / (1 + alpha)) ** 2, k * alpha / (1 + alpha),
        precision[types[0], 0] / (1 + precision[types[0], 0]), mean_variance / (1 + mean_variance),
        square / (1 + square), product / (1 + abs(product)), together * square / (1 + square),
    ]  # fmt: skip


def draw_forward(rng: np.random.Generator, case: Case, groups: np.ndarray, priors: Priors) -> Simulated:
    """A draw of everything that agrees with the known labels, by rejection."""
    known = np.array(case.known)
    while True:
        drawn = simulate(rng, groups, 2, priors)
        if exact.consistent(np.where(known >= 0, drawn.clusters, -1 - np.arange(len(known))), known, groups):
            return drawn


def geweke(layout: str, scheme: str, learn_mean_variance: bool, n_forward: int, n_sweeps: int) -> dict[str, float]:
    """p-values that forward draws and the chain (sweep given data, data given state) have the same means."""
    case = GEWEKE[layout]
    rng = stream(f"Geweke {layout}, {scheme}, {learn_mean_variance}")
    missing = np.zeros((7, 2), bool)
    missing[[1, 3, 5], [0, 1, 1]] = True
    groups = None if case.groups is None else np.array(case.groups)
    laid_out = lay_out_vectors(np.where(missing, np.nan, 0.0), np.array(case.known), groups, share_clusters=case.share)
    forward = np.empty((n_forward, len(STATISTICS)))
    for s in range(n_forward):
        priors = GEWEKE_PRIORS
        if learn_mean_variance:
            priors = replace(priors, mean_variance=1 / priors.mean_precision.draw(rng))
        drawn = draw_forward(rng, case, places_of(case), priors)
        alphas = drawn.cluster_concentration, drawn.type_concentration
        forward[s] = statistics(
            drawn.points, drawn.clusters, drawn.types, drawn.precision, alphas, priors.mean_variance
        )
    plan = run.Plan(scheme=scheme, learn_mean_variance=learn_mean_variance, split_merge_attempts=2)
    state = initial_state(rng, laid_out, "singletons", GEWEKE_PRIORS)
    chain = successive(rng, laid_out.items, state, plan, missing, n_sweeps)
    return dict(zip(STATISTICS, equal_means(forward, chain), strict=True))


def successive(
    rng: np.random.Generator, items: Items, state: State, plan: run.Plan, missing: np.ndarray, n_sweeps: int
) -> np.ndarray:
    fixed = run.constants_of(items)
    found = np.empty((n_sweeps, len(STATISTICS)))
    for s in range(-n_sweeps // 50, n_sweeps):
        centres = rng.standard_normal((len(items.known_in_slot), 2)) * np.sqrt(state.mean_variance)
        noise = rng.standard_normal(missing.shape) / np.sqrt(state.precision[state.type])
        points = centres[state.cluster] + noise
        if s >= 0:
            alphas = state.cluster_concentration, state.type_concentration
            found[s] = statistics(points, state.cluster, state.type, state.precision, alphas, state.mean_variance)
        items = items._replace(points=np.where(missing, 0.0, points))
        state, _ = run.sweep(rng, state, items, plan, GEWEKE_PRIORS, fixed)
    return found


def equal_means(independent: np.ndarray, chain: np.ndarray, n_batches: int = 50) -> list[float]:
    """Two-sided p-values; the chain's error comes from batch means (t, n_batches - 1 degrees of freedom)."""
    batches = np.array([part.mean(axis=0) for part in np.array_split(chain, n_batches)])
    variance = independent.var(axis=0) / len(independent) + batches.var(axis=0, ddof=1) / n_batches
    gap = np.abs(independent.mean(axis=0) - batches.mean(axis=0))
    constant = variance == 0
    score = np.where(constant, np.where(gap < 1e-12, 0.0, np.inf), gap / np.sqrt(np.where(constant, 1.0, variance)))
    return [float(p) for p in 2 * stats.t.sf(score, n_batches - 1)]
