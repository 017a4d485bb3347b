"""Exact checks of SCDP-3: means and precisions on small grids, so that the whole joint can be enumerated.

From 40,000 exact draws one application of a kernel must leave every marginal as it was: chi-square at false alarm
1e-3. Four items with two mean rows and two precision rows have up to 8,836 states, weighed by the plain twin of the
log joint, so that a bug in a kernel's arithmetic cannot hide in the truth it is held against.
"""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np

from gold_tools import STARTS, chi_square, stream
from scdp.chains.items import Items, lay_out_vectors
from scdp.chains.state import Plan, Priors, State
from scdp.chains.vectors.conditioned import (
    conditioned_sweep,
    resample_clusters_conditioned,
    resample_means_from_candidates,
    resample_types_by_auxiliary,
)
from scdp.chains.vectors.coupling import VARIANTS, types_given_means
from scdp.chains.vectors.types import resample_precisions, resample_types
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


def codes(states: list[State]) -> tuple[np.ndarray, np.ndarray]:
    """Per state a number for (clusters, their means) and one for (types, their precisions)."""
    cluster = np.array([state.cluster for state in states])
    kind = np.array([state.type for state in states])
    mean = np.array([state.means[state.cluster, 0] > 0 for state in states])
    row = np.array([state.precision[state.type, 0] > 1 for state in states])
    left, right = np.triu_indices(4, 1)
    bits = 1 << np.arange(10)
    first = np.hstack([cluster[:, left] == cluster[:, right], mean]) @ bits
    second = np.hstack([kind[:, left] == kind[:, right], row]) @ bits
    return first, second


def step(name: str, variant: str, n_auxiliary: int):
    """The kernel called `name` as a function of (rng, items, state)."""
    code = VARIANTS[variant]

    def clusters(rng, items, state, informed=True):
        cluster, means, _, _ = resample_clusters_conditioned(rng, items, state, code, n_auxiliary, informed)
        return state._replace(cluster=cluster, means=means)

    def means(rng, items, state):
        return state._replace(means=resample_means_from_candidates(rng, items, state, code, 1)[0])

    def types(rng, items, state, exactly=True):
        rate, grid_log, log_mass = types_given_means(items, state, code)
        implied = state._replace(rate=rate, grid_log_weight=grid_log)
        if exactly:
            new, rows, _ = resample_types(rng, items, implied, state.means, log_mass)
        else:
            new, rows, _ = resample_types_by_auxiliary(rng, items, implied, state.means, log_mass, n_auxiliary)
        return state._replace(type=new, precision=rows)

    def precisions(rng, items, state):
        rate, grid_log, _ = types_given_means(items, state, code)
        implied = state._replace(rate=rate, grid_log_weight=grid_log)
        return state._replace(precision=resample_precisions(rng, items, implied, state.means))

    def whole(rng, items, state):
        plan = Plan(conditioning=variant, n_auxiliary=n_auxiliary)
        return conditioned_sweep(rng, state, items, plan, Priors())[0]

    kernels = {
        "clusters": clusters,
        "clusters from the prior": lambda *a: clusters(*a, informed=False),
        "means": means,
        "types": types,
        "types by auxiliary": lambda *a: types(*a, exactly=False),
        "precisions": precisions,
        "sweep": whole,
    }
    return kernels[name]


def check(
    name: str,
    variant: str,
    layout: str = "all hidden",
    n_auxiliary: int = 2,
    n_starts: int = STARTS,
    discount: float = 0.0,
) -> float:
    """The smallest p-value of one kernel over both marginals, times two (Bonferroni)."""
    items, states, probability = problem(layout, variant, discount)
    rng = stream(f"{name} {variant} {layout} {n_auxiliary}")
    kernel = step(name, variant, n_auxiliary)
    starts = rng.choice(len(states), size=n_starts, p=probability)
    after = codes([kernel(rng, items, states[s]) for s in starts])
    cells = codes(states)
    return min(1.0, 2 * min(chi_square(a, c, probability) for a, c in zip(after, cells, strict=True)))


def long_run(variant: str, layout: str, n_sweeps: int = 60_000) -> tuple[float, float]:
    """Total variation between one long chain and the exact posterior of (clusters, means), and its expectation.

    The expectation is that of as many independent draws as the chain has by batch means of its worst cell.
    """
    items, states, probability = problem(layout, variant)
    rng = stream(f"long run {variant} {layout}")
    kernel, state, visited = step("sweep", variant, 2), states[0], []
    for _ in range(n_sweeps):
        state = kernel(rng, items, state)
        visited.append(state)
    seen, cells = codes(visited)[0], codes(states)[0]
    unique, inverse = np.unique(cells, return_inverse=True)
    expected = np.bincount(inverse, weights=probability)
    hits = seen[:, None] == unique[None, :]
    batches = hits.reshape(100, -1, len(unique)).mean(axis=1)
    deviation = batches.std(axis=0, ddof=1) / 10
    distance = 0.5 * np.abs(hits.mean(axis=0) - expected).sum()
    return float(distance), float(0.5 * np.sqrt(2 / np.pi) * deviation.sum())
