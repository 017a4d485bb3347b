"""Statistics and small exact problems behind the gold tests: exact starts, cells, tests of fit.

The checks turn draws into p-values with these; under a correct sampler a p-value is uniform.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from zlib import crc32

import numba
import numpy as np
from scipy import stats

from sampler_cases import Case
from scdp.chains import PrecisionGrid, State
from scdp.chains.items import ItemLayout, Items, lay_out_vectors
from twins import exact

STARTS = 40_000
# Of clusters, types and precisions together, and of whole sweeps: a state takes longer to hand over than to move.
JOINT_STARTS = 20_000
FALSE_ALARM = 1e-3
GRID = PrecisionGrid(np.array([[0.6, 2.0], [5.0, 1.0]]), np.array([0.6, 0.4]))
MEAN_VARIANCE = 1.4
CLUSTER_CONCENTRATION, TYPE_CONCENTRATION = 0.9, 1.3

LAYOUTS = {
    case.name: case
    for case in [
        Case("all hidden", [-1] * 5),
        Case("missing values", [-1] * 5, missing=0.3),
        Case("partly known", [0, 0, 1, -1, -1], share=True),
        Case("two known", [0, 1, -1, -1, -1], share=True, missing=0.3),
        Case("training apart", [0, 0, -1, -1, -1]),
        Case("two documents", [0, -1, -1, -1, -1], groups=[0, 0, 0, 1, 1], share=True, missing=0.3),
    ]
}


class Stream(np.random.Generator):
    """A generator with the same draws that tells Numba its type, which takes as long to find out as many a kernel."""

    _numba_type_ = numba.typeof(np.random.default_rng(0))


def stream(name: str) -> np.random.Generator:
    """A generator per check: fixed, and chosen by nothing but the check's name."""
    return Stream(np.random.PCG64([2005, crc32(name.encode())]))


def partition_codes(labels: np.ndarray) -> np.ndarray:
    """One integer per row of labels that says which pairs of items are together (up to 11 items)."""
    left, right = np.triu_indices(labels.shape[1], 1)
    return (labels[:, left] == labels[:, right]) @ (1 << np.arange(len(left)))


def chi_square(codes: np.ndarray, cells: np.ndarray, probability: np.ndarray) -> float:
    """p-value of draws against cell probabilities (cells may repeat); 0 if a draw lies outside every cell."""
    unique, inverse = np.unique(cells, return_inverse=True)
    expected = np.bincount(inverse, weights=probability) * len(codes)
    place = np.minimum(np.searchsorted(unique, codes), len(unique) - 1)
    if (unique[place] != codes).any():
        return 0.0
    counts = np.bincount(place, minlength=len(unique)).astype(float)
    rare = expected < 5
    if rare.any():
        counts = np.append(counts[~rare], counts[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    if expected[-1] < 5:  # even together the rare cells are rare: they join the smallest common one
        smallest = int(expected[:-1].argmin())
        counts[smallest] += counts[-1]
        expected[smallest] += expected[-1]
        counts, expected = counts[:-1], expected[:-1]
    statistic = ((counts - expected) ** 2 / expected).sum()
    return float(stats.chi2.sf(statistic, len(expected) - 1))


def two_sample_chi_square(first: np.ndarray, second: np.ndarray) -> float:
    """p-value that two samples of integer codes come from one distribution; rare codes are pooled."""
    cells, place = np.unique(np.concatenate([first, second]), return_inverse=True)
    table = np.array([np.bincount(part, minlength=len(cells)) for part in (place[: len(first)], place[len(first) :])])
    rare = table.sum(axis=0) < 20
    if rare.any():
        table = np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1)])
    return float(stats.chi2_contingency(table[:, table.sum(axis=0) > 0], correction=False).pvalue)


def kolmogorov(values: np.ndarray, cdf: Callable[[np.ndarray], np.ndarray]) -> float:
    return float(stats.kstest(values, cdf, method="asymp").pvalue)


def detectable(cells: int, n: int = STARTS, false_alarm: float = FALSE_ALARM, power: float = 0.999) -> float:
    """The effect sqrt(sum (q - p)^2 / p) that a chi-square test over `cells` cells finds at this power."""
    limit = stats.chi2.isf(false_alarm, cells - 1)
    low, high = 0.0, 1e4
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if stats.ncx2.sf(limit, cells - 1, middle) < power else (low, middle)
    return float(np.sqrt(high / n))


@dataclass(frozen=True)
class Problem:
    """A small layout with its points, and a state whose clusters and types are to be filled in."""

    case: Case
    points: np.ndarray
    laid_out: ItemLayout[Items]
    template: State


def make_problem(case: Case, n_features: int = 2, grid: bool = False) -> Problem:
    rng = stream(f"points of {case.name}")
    n = len(case.known)
    points = rng.normal(size=(n, n_features)) * 1.2
    points[rng.random(points.shape) < case.missing] = np.nan
    groups = None if case.groups is None else np.array(case.groups)
    rows = np.array([[0.8, 2.5], [3.0, 0.7], [1.5, 1.5]])[:, :n_features]
    template = State(
        cluster=np.zeros(n, np.int64),
        type=np.array([0, 1, 0, 2, 1, 1, 0, 2][:n]),
        precision=rows,
        cluster_concentration=CLUSTER_CONCENTRATION,
        type_concentration=TYPE_CONCENTRATION,
        mean_variance=MEAN_VARIANCE,
        shape=np.array([1.2, 0.8])[:n_features],
        rate=np.array([0.7, 1.5])[:n_features],
        grid=GRID.values if grid else np.empty((0, n_features)),
        grid_log_weight=np.log(GRID.weights) if grid else np.empty(0),
    )
    return Problem(
        case, points, lay_out_vectors(points, np.array(case.known), groups, share_clusters=case.share), template
    )


def places_of(case: Case) -> np.ndarray:
    """Every item's group, by the words of the model: the sampler's own laid_out is under test too."""
    groups = case.groups or [0] * len(case.known)
    keys = [(group, case.share or label >= 0) for group, label in zip(groups, case.known, strict=True)]
    return np.array([sorted(set(keys)).index(key) for key in keys])


def random_slots(rng: np.random.Generator, laid_out: ItemLayout[Items], partition: np.ndarray) -> np.ndarray:
    """A partition as cluster slots: known clusters in theirs, others in random free ones, with holes."""
    items, known = laid_out.items, laid_out.known_slot
    slots = known.copy()
    for place, (start, end) in enumerate(zip(items.slot_start, items.slot_end, strict=True)):
        inside = items.group == place
        free = list(rng.permutation(np.arange(known[inside].max(initial=start - 1) + 1, end)))
        for label in np.unique(partition[inside]):
            members = inside & (partition == label)
            anchor = known[members].max()
            slots[members] = anchor if anchor >= 0 else free.pop()
    return slots


@cache
def clusters_problem(
    layout: str, discount: float = 0.0, n_starts: int = STARTS
) -> tuple[Problem, np.ndarray, np.ndarray, list[State]]:
    """Clusters given types and precisions: the problem, its partitions, their probabilities, exact starts."""
    case = LAYOUTS[layout]
    problem = make_problem(case)
    state = problem.template._replace(discount=discount)
    rows, probability = exact.cluster_posterior(
        problem.points, state.precision[state.type], np.array(case.known), places_of(case),
        state.cluster_concentration, state.mean_variance, discount,
    )  # fmt: skip
    rng = stream(f"cluster starts of {case.name}")
    picks = rng.choice(len(rows), size=n_starts, p=probability)
    starts = [state._replace(cluster=random_slots(rng, problem.laid_out, rows[pick])) for pick in picks]
    return problem, rows, probability, starts


@dataclass(frozen=True)
class JointCells:
    """Cells of the joint posterior: cluster and type partitions, and (K, L, grid row of item 0's type)."""

    clusters: np.ndarray
    types: np.ndarray
    coarse: np.ndarray
    probability: np.ndarray


def coarse_codes(clusters: np.ndarray, types: np.ndarray, row: np.ndarray) -> np.ndarray:
    return 100 * distinct(clusters) + 10 * distinct(types) + row


def distinct(labels: np.ndarray) -> np.ndarray:
    """The number of different labels in every row."""
    ordered = np.sort(labels, axis=1)
    return 1 + (np.diff(ordered, axis=1) > 0).sum(axis=1)


@cache
def joint_problem(layout: str) -> tuple[Problem, JointCells, list[State]]:
    """Clusters, types and precisions on a grid of two rows: the problem, its cells, exact starts."""
    case = LAYOUTS[layout]
    problem = make_problem(case, grid=True)
    state = problem.template
    states, probability = exact.joint_posterior(
        problem.points, np.array(case.known), places_of(case),
        state.cluster_concentration, state.type_concentration, GRID, state.mean_variance,
    )  # fmt: skip
    clusters, types = (np.array([s[part] for s in states]) for part in (0, 1))
    first_row = np.array([choice[kinds[0]] for _, kinds, choice in states])
    cells = JointCells(
        partition_codes(clusters), partition_codes(types), coarse_codes(clusters, types, first_row), probability
    )
    rng = stream(f"joint starts of {case.name}")
    starts = [joint_start(rng, problem, *states[pick]) for pick in rng.choice(len(states), JOINT_STARTS, p=probability)]
    return problem, cells, starts


def joint_start(
    rng: np.random.Generator, problem: Problem, clusters: np.ndarray, types: np.ndarray, choice: np.ndarray
) -> State:
    """A state with random slots for clusters and types; rows of unused types hold what must not matter."""
    n = len(types)
    slot_of_type = rng.permutation(n + 1)[: len(choice)]
    precision = np.full((n + 1, 2), 7.7)
    precision[slot_of_type] = GRID.values[choice]
    return problem.template._replace(
        cluster=random_slots(rng, problem.laid_out, clusters), type=slot_of_type[types], precision=precision
    )
