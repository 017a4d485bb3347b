"""Exact checks of SCDP-3: means and precisions on small grids, so that the whole joint can be enumerated.

From 40,000 exact draws (20,000 for means and whole sweeps, which take ten times as long) one application of a kernel
must leave every marginal as it was: chi-square at false alarm 1e-3. Four items with two mean rows and two precision
rows have up to 8,836 states, weighed by the plain twin of the log joint, so that a bug in a kernel's arithmetic
cannot hide in the truth it is held against.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
from numba import njit

from gold_tools import JOINT_STARTS, STARTS, chi_square, stream
from scdp.chains import Plan, Priors, State
from scdp.chains.items import Items, lay_out_vectors
from scdp.chains.vector_conditioned import (
    conditioned_sweep,
    resample_clusters_conditioned,
    resample_means_from_candidates,
    resample_types_by_auxiliary,
)
from scdp.chains.vector_coupling import VARIANTS, types_given_means
from scdp.chains.vector_types import resample_precisions, resample_types
from twins import exact
from twins.separation import log_target

LAYOUTS = {"all hidden": [-1, -1, -1, -1], "partly known": [0, -1, -1, 1]}
MEANS = np.array([[-0.7, 0.4], [0.9, -0.2]])
ROWS = np.array([[0.6, 1.5], [2.5, 0.8]])


def labelled_choices(partitions: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Every partition with every assignment of one of two rows to each of its blocks."""
    return [(row, np.array(choice)) for row in partitions for choice in product((0, 1), repeat=int(row.max()) + 1)]


@cache
def problem(layout: str, variant: str, discount: float = 0.0) -> tuple[Items, list[State], np.ndarray]:
    """All states of a small problem and their exact probabilities."""
    rng = stream(f"conditioned {layout}")
    known = np.array(LAYOUTS[layout])
    points = rng.normal(size=(4, 2))
    points[1, 0] = np.nan
    laid_out = lay_out_vectors(points, known, share_clusters=True)
    states = [
        state_of(laid_out.items, known, laid_out.known_slot, clusters, types)._replace(discount=discount)
        for clusters in labelled_choices(exact.allowed_partitions(known, laid_out.items.group))
        for types in labelled_choices(exact.partitions(4))
    ]
    code = VARIANTS[variant]
    log_weight = [log_target(laid_out.items, state, code) for state in states]
    return laid_out.items, states, exact.normalize(np.array(log_weight))


def state_of(items: Items, known: np.ndarray, known_slot: np.ndarray, clusters, types) -> State:
    """One enumerated state in slots: known blocks at their own, the others at the free ones in order."""
    partition, mean_choice = clusters
    slot_of = {int(partition[i]): int(known_slot[i]) for i in np.flatnonzero(known >= 0)}
    free = iter(sorted(set(range(len(items.known_in_slot))) - set(slot_of.values())))
    for block in set(partition.tolist()) - set(slot_of):
        slot_of[block] = next(free)
    means = np.zeros((len(items.known_in_slot), 2))
    for block, slot in slot_of.items():
        means[slot] = MEANS[mean_choice[block]]
    return State(
        cluster=np.array([slot_of[int(block)] for block in partition]),
        type=types[0].copy(),
        precision=ROWS[types[1]],
        cluster_concentration=0.8,
        type_concentration=1.2,
        mean_variance=1.0,
        shape=np.ones(2),
        rate=np.ones(2),
        grid=ROWS,
        grid_log_weight=np.log([0.55, 0.45]),
        means=means,
        separation_rate=0.15,
        mean_grid=MEANS,
        mean_grid_log_weight=np.log([0.4, 0.6]),
    )


class Drawn(NamedTuple):
    """Clusters and types of many states, and which of the two rows each item's mean and precisions are."""

    cluster: np.ndarray
    type: np.ndarray
    mean: np.ndarray
    row: np.ndarray


def drawn_of(states: list[State]) -> Drawn:
    means = np.array([state.means[state.cluster, 0] > 0 for state in states])
    rows = np.array([state.precision[state.type, 0] > 1 for state in states])
    return Drawn(np.array([state.cluster for state in states]), np.array([state.type for state in states]), means, rows)


def codes(drawn: Drawn) -> tuple[np.ndarray, np.ndarray]:
    """Per state a number for (clusters, their means) and one for (types, their precisions)."""
    left, right = np.triu_indices(4, 1)
    bits = 1 << np.arange(10)
    first = np.hstack([drawn.cluster[:, left] == drawn.cluster[:, right], drawn.mean]) @ bits
    second = np.hstack([drawn.type[:, left] == drawn.type[:, right], drawn.row]) @ bits
    return first, second


# One application of a kernel: the clusters, means, types and precisions after it. They are called from a compiled loop:
# a call from Python takes ten times as long as what it calls. The others take longer to be compiled for a loop.


@njit(inline="always")
def clusters_once(rng, items, state, code, n_auxiliary, informed):
    cluster, means, _, _ = resample_clusters_conditioned(rng, items, state, code, n_auxiliary, informed)
    return cluster, means, state.type, state.precision


@njit(inline="always")
def types_once(rng, items, state, code, n_auxiliary, informed):
    rate, grid_log, log_mass = types_given_means(items, state, code)
    implied = with_prior(state, rate, grid_log)
    if informed:
        types, rows, _ = resample_types(rng, items, implied, state.means, log_mass)
    else:
        types, rows, _ = resample_types_by_auxiliary(rng, items, implied, state.means, log_mass, n_auxiliary)
    return state.cluster, state.means, types, rows


@njit(inline="always")
def precisions_once(rng, items, state, code, n_auxiliary, informed):
    rate, grid_log, _ = types_given_means(items, state, code)
    rows = resample_precisions(rng, items, with_prior(state, rate, grid_log), state.means)
    return state.cluster, state.means, state.type, rows


@njit(inline="always")
def with_prior(state, rate, grid_log):
    return state_like(state, state.cluster, state.type, state.precision, state.means, rate, grid_log)


@njit(inline="always")
def state_like(one, cluster, kind, precision, means, rate, grid_log_weight):
    return State(
        cluster, kind, precision, one.cluster_concentration, one.type_concentration, one.mean_variance, one.shape,
        rate, one.grid, grid_log_weight, means, one.separation_rate, one.mean_grid, one.mean_grid_log_weight,
        one.discount, one.pseudo_counts,
    )  # fmt: skip


# The kernel, and whether it draws auxiliary values given the item, or types without them.
KERNELS = {
    "clusters": (clusters_once, True),
    "clusters from the prior": (clusters_once, False),
    "types": (types_once, True),
    "types by auxiliary": (types_once, False),
    "precisions": (precisions_once, True),
}


@cache
def loop_over(once: Callable[..., tuple]) -> Callable[..., Drawn]:
    """A compiled loop of a kernel over states, whose precisions stand one after another."""

    @njit
    def loop(rng, items, template, starts, clusters, types, means, rows, first_row, code, n_auxiliary, informed):
        n, width = len(starts), clusters.shape[1]
        cluster, kind = np.empty((n, width), np.int64), np.empty((n, width), np.int64)
        mean, row = np.empty((n, width), np.bool_), np.empty((n, width), np.bool_)
        for k in range(n):
            s = starts[k]
            own = rows[first_row[s] : first_row[s + 1]]
            log_weight = template.grid_log_weight
            state = state_like(template, clusters[s], types[s], own, means[s], template.rate, log_weight)
            after, after_means, after_types, after_rows = once(rng, items, state, code, n_auxiliary, informed)
            for i in range(width):
                cluster[k, i], kind[k, i] = after[i], after_types[i]
                mean[k, i] = after_means[after[i], 0] > 0
                row[k, i] = after_rows[after_types[i], 0] > 1
        return cluster, kind, mean, row

    return loop


def apply_once(name: str, variant: str, n_auxiliary: int, rng, items, states: list[State], starts) -> Drawn:
    """The states after one application of the kernel called `name` to each start."""
    if name not in KERNELS:
        step = sweep if name == "sweep" else means
        return drawn_of([step(rng, items, states[s], variant, n_auxiliary) for s in starts])
    once, informed = KERNELS[name]
    parts = [np.array([getattr(state, part) for state in states]) for part in ("cluster", "type", "means")]
    rows = np.concatenate([state.precision for state in states])
    first_row = np.cumsum([0, *(len(state.precision) for state in states)])
    arguments = (VARIANTS[variant], n_auxiliary, informed)
    return Drawn(*loop_over(once)(rng, items, states[0], starts, *parts, rows, first_row, *arguments))


def means(rng: np.random.Generator, items: Items, state: State, variant: str, n_auxiliary: int) -> State:
    return state._replace(means=resample_means_from_candidates(rng, items, state, VARIANTS[variant], 1)[0])


def sweep(rng: np.random.Generator, items: Items, state: State, variant: str, n_auxiliary: int) -> State:
    plan = Plan(conditioning=variant, n_auxiliary=n_auxiliary)
    return conditioned_sweep(rng, state, items, plan, Priors())[0]


def check(
    name: str,
    variant: str,
    layout: str = "all hidden",
    n_auxiliary: int = 2,
    n_starts: int | None = None,
    discount: float = 0.0,
) -> float:
    """The smallest p-value of one kernel over both marginals, times two (Bonferroni)."""
    items, states, probability = problem(layout, variant, discount)
    rng = stream(f"{name} {variant} {layout} {n_auxiliary}")
    n_starts = n_starts or (STARTS if name in KERNELS else JOINT_STARTS)
    starts = rng.choice(len(states), size=n_starts, p=probability)
    after = codes(apply_once(name, variant, n_auxiliary, rng, items, states, starts))
    cells = codes(drawn_of(states))
    return min(1.0, 2 * min(chi_square(a, c, probability) for a, c in zip(after, cells, strict=True)))


def long_run(variant: str, layout: str, n_sweeps: int = 30_000) -> tuple[float, float]:
    """Total variation between one long chain and the exact posterior of (clusters, means), and its expectation.

    The expectation is that of as many independent draws as the chain has by batch means of its worst cell.
    """
    items, states, probability = problem(layout, variant)
    rng = stream(f"long run {variant} {layout}")
    state, visited = states[0], []
    for _ in range(n_sweeps):
        state = sweep(rng, items, state, variant, 2)
        visited.append(state)
    seen, cells = codes(drawn_of(visited))[0], codes(drawn_of(states))[0]
    unique, inverse = np.unique(cells, return_inverse=True)
    expected = np.bincount(inverse, weights=probability)
    hits = seen[:, None] == unique[None, :]
    batches = hits.reshape(100, -1, len(unique)).mean(axis=1)
    deviation = batches.std(axis=0, ddof=1) / 10
    distance = 0.5 * np.abs(hits.mean(axis=0) - expected).sum()
    return float(distance), float(0.5 * np.sqrt(2 / np.pi) * deviation.sum())
