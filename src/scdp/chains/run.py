"""Chains: where they start, and how they run, in threads, since kernels release the lock.

Chain i draws from child i of the seed, so its draws depend neither on the number of chains nor of workers.
"""

from __future__ import annotations

import math
import os
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from scdp._parallel import ChainProgress, NoProgress, map_in_threads
from scdp._typing import Floats, Integers
from scdp.chains.arithmetic import n_distinct
from scdp.chains.checkpoint import Checkpoints, NoCheckpoints
from scdp.chains.counts import log_joint_of_counts
from scdp.chains.distances.centroids import log_joint_of_centroids, log_joint_of_distances
from scdp.chains.items import AnyItems, CountItems, DistanceItems, ItemLayout
from scdp.chains.separation.coupling import VARIANTS, log_joint_conditioned
from scdp.chains.state import Info, Plan, PrecisionGrid, Priors, State
from scdp.chains.sweep import Constants, constants_of, sweep
from scdp.chains.vectors.clusters import log_joint
from scdp.errors import InputError, NumericalError
from scdp.io.sealed import write


def medoid_labels(rng: np.random.Generator, items: DistanceItems, members: Integers, k: int) -> Integers:
    """A few steps of k-medoids from random members of one group: a start needs no more."""
    far = mean_squares(items, members)
    medoids = rng.permutation(len(members))[:k]
    labels = far[:, medoids].argmin(axis=1)
    for _ in range(START_STEPS):
        for j in np.unique(labels):
            inside = np.flatnonzero(labels == j)
            medoids[j] = inside[far[np.ix_(inside, inside)].sum(axis=0).argmin()]
        labels = far[:, medoids].argmin(axis=1)
    return labels


def mean_squares(items: DistanceItems, members: Integers) -> Floats:
    """Squared distances averaged over the features both items have; pairs without any are at the mean distance."""
    places = items.place[members]
    observed = items.observed[members]
    far = np.empty((len(members), len(members)))
    for a, i in enumerate(members):
        far[a] = items.squared[items.row_start[i] + places].sum(axis=1, dtype=np.float64)
    shared = observed @ observed.T
    with np.errstate(invalid="ignore", divide="ignore"):
        far /= shared
    return np.where(shared > 0, far, far[shared > 0].mean() if (shared > 0).any() else 0.0)


STARTS = ("kmeans", "singletons", "one")
# Steps of k-means or k-medoids: a start needs no more.
START_STEPS = 10


def start_of_chain(init: str, chain: int) -> str:
    """`mixed` sends chains off from different places, so that agreement between them means something."""
    return STARTS[chain % len(STARTS)] if init == "mixed" else init


def initial_state(rng: np.random.Generator, layout: ItemLayout[Any], init: str | Integers, priors: Priors) -> State:
    """Clusters as asked for, one reference type with precision 1, and concentrations of 1."""
    items = layout.items
    cluster = layout.known_slot.copy()
    for place in range(len(items.slot_start)):
        members = items.hidden[items.group[items.hidden] == place]
        if len(members):
            labels = init[members] if isinstance(init, np.ndarray) else part_labels(rng, items, members, init)
            # A given start opens clusters of its own: those after the known slots of the group.
            known = np.unique(cluster[(items.group == place) & (cluster >= 0)])
            _, position = np.unique(labels, return_inverse=True)
            cluster[members] = items.slot_start[place] + len(known) + position
    rows = precision_start(priors, items.n_features)
    return State(
        cluster=cluster,
        type=np.zeros(len(cluster), dtype=np.int64),
        precision=rows["precision"],
        cluster_concentration=1.0,
        type_concentration=1.0,
        mean_variance=priors.mean_variance,
        shape=rows["shape"],
        rate=rows["rate"],
        grid=rows["grid"],
        grid_log_weight=rows["grid_log_weight"],
    )


def precision_start(priors: Priors, n_features: int) -> dict[str, Floats]:
    prior = priors.precision
    if isinstance(prior, PrecisionGrid):
        fields = {"grid": prior.values, "grid_log_weight": np.log(prior.weights)}
        return fields | {
            "precision": prior.values[:1].copy(),
            "shape": np.ones(n_features),
            "rate": np.ones(n_features),
        }
    return {
        "precision": np.ones((1, n_features)),
        "shape": np.full(n_features, prior.shape),
        "rate": np.full(n_features, prior.rate),
        "grid": np.empty((0, n_features)),
        "grid_log_weight": np.empty(0),
    }


def part_labels(rng: np.random.Generator, items: AnyItems, members: NDArray[np.int64], init: str) -> NDArray[np.int64]:
    """Starting labels for the hidden items of one group."""
    n = len(members)
    if init == "one":
        return np.zeros(n, dtype=np.int64)
    if init == "singletons":
        return np.arange(n)
    if init == "kmeans":
        k = max(1, round(np.sqrt(n / 2)))
        if isinstance(items, DistanceItems):
            return medoid_labels(rng, items, members, k)
        return kmeans_labels(rng, items.points[members], k)
    raise ValueError(f"init must be 'mixed', 'one', 'singletons', 'kmeans' or an array, not {init!r}")


def kmeans_labels(rng: np.random.Generator, points: Floats, k: int) -> NDArray[np.int64]:
    """A few steps of k-means from random points: a start needs no more."""
    centres = points[rng.permutation(len(points))[:k]].copy()
    labels = np.zeros(len(points), dtype=np.int64)
    for _ in range(START_STEPS):
        labels = ((centres**2).sum(axis=1) - 2 * points @ centres.T).argmin(axis=1)
        for j in np.unique(labels):
            centres[j] = points[labels == j].mean(axis=0)
    return labels


def check_numbers(state: State, *more: float) -> None:
    """FloatingPointError if anything of a state, or one of the other numbers, is no number."""
    scalars = (state.cluster_concentration, state.type_concentration, state.mean_variance, state.separation_rate)
    # Sums, which are no number as soon as a part is none: this is asked after every sweep.
    if math.isnan(sum(scalars, state.precision.sum() + state.means.sum())):
        names = [name for name, value in state._asdict().items() if np.isnan(value).any()]
        raise FloatingPointError(f"{', '.join(names) or 'a sum'} is no number")
    if any(map(math.isnan, more)):
        raise FloatingPointError("the log joint is no number")


def describe_breakdown(
    reason: FloatingPointError, chain: int, sweep: int, before: State, generator: Mapping[str, Any], folder: Path | None
) -> NumericalError:
    """The error to raise; what the sweep began with is kept, so that it can be made again. Rows are not."""
    place = folder or Path(tempfile.gettempdir())
    path = place / f"broken-chain{chain + 1}-{os.getpid()}.npz"
    fields = before._asdict()
    arrays = {name: value for name, value in fields.items() if np.ndim(value)}
    scalars = {name: float(value) for name, value in fields.items() if not np.ndim(value)}
    about = {"chain": chain, "sweep": sweep, "state": scalars, "generator": generator, "reason": str(reason)}
    try:
        write(path, about, arrays)
        kept = f"{path} keeps the state before it, without the rows: please send it with a report"
    except InputError as error:
        kept = f"its state could not be kept ({error})"
    return NumericalError(f"chain {chain + 1}, sweep {sweep}: {reason}, so nothing was drawn from it; {kept}")


TRACES = ("n_clusters", "n_types", "log_joint", "alpha_cluster", "alpha_type", "mean_variance")
CONDITIONED_TRACES = ("separation_rate", "opened_clusters", "improper_means")
DISTANCE_TRACES = ("negative_norms",)


class Recorder(Protocol):
    """Where draws go; called by several threads, each with its own chain number."""

    def record(self, chain: int, draw: int, slots: Integers) -> None: ...


@dataclass(frozen=True)
class Schedule:
    """How many chains, how many sweeps each, which of them are kept, and on how many threads."""

    n_chains: int
    n_sweeps: int
    n_warmup: int
    thin: int = 1
    n_jobs: int = 1

    @property
    def n_draws(self) -> int:
        return (self.n_sweeps - self.n_warmup) // self.thin


def streams(seed: int, n_chains: int) -> list[np.random.Generator]:
    """One independent stream per chain; stream i is the same however many are asked for."""
    return [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(n_chains)]


def run_chains(
    items: AnyItems,
    starts: list[State],
    rngs: list[np.random.Generator],
    plan: Plan,
    priors: Priors,
    schedule: Schedule,
    recorder: Recorder,
    progress: ChainProgress | None = None,
    checkpoints: Checkpoints | None = None,
) -> tuple[list[State], dict[str, Floats]]:
    """Run every chain to its end; returns their last states and the traces (chain, draw)."""
    names = TRACES + (CONDITIONED_TRACES if plan.conditioning else ())
    names += DISTANCE_TRACES if isinstance(items, DistanceItems) else ()
    traces = {name: np.empty((schedule.n_chains, schedule.n_draws)) for name in names}
    constants = constants_of(items)
    stop = threading.Event()

    def one(chain: int) -> State:
        return run_chain(
            chain, items, starts[chain], rngs[chain], plan, priors, schedule, constants, recorder, traces,
            progress or NoProgress(), checkpoints or NoCheckpoints(), stop,
        )  # fmt: skip

    # With checkpoints always in threads: Ctrl-C then reaches this one, and chains stop at the end of a sweep.
    if checkpoints is None and (schedule.n_jobs == 1 or schedule.n_chains == 1):
        return [one(chain) for chain in range(schedule.n_chains)], traces
    return list(map_in_threads(one, range(schedule.n_chains), schedule.n_jobs, stop)), traces


def run_chain(
    chain: int,
    items: AnyItems,
    state: State,
    rng: np.random.Generator,
    plan: Plan,
    priors: Priors,
    schedule: Schedule,
    constants: Constants,
    recorder: Recorder,
    traces: dict[str, Floats],
    progress: ChainProgress,
    checkpoints: Checkpoints,
    stop: threading.Event,
) -> State:
    """Sweep, keep what follows the warm-up, and tell how far it is."""
    concentration_priors = np.array(
        [
            priors.cluster_concentration.shape,
            priors.cluster_concentration.rate,
            priors.type_concentration.shape,
            priors.type_concentration.rate,
        ]
    )
    state, done = checkpoints.resume(chain, state, rng, traces)
    for number in range(done, schedule.n_sweeps):
        if stop.is_set():
            break
        before, generator = state, rng.bit_generator.state
        draw, off = divmod(number + 1 - schedule.n_warmup, schedule.thin)
        at, kept = (chain, draw - 1), draw >= 1 and off == 0
        try:
            state, info = sweep(rng, state, items, plan, priors, constants)
            if kept:
                note(traces, at, items, state, plan, concentration_priors)
            check_numbers(state, traces["log_joint"][at] if kept else 0.0)
        except FloatingPointError as error:
            place = checkpoints.folder
            raise describe_breakdown(error, chain, number + 1, before, generator, place) from error
        if kept:
            recorder.record(chain, draw - 1, state.cluster)
            if plan.conditioning:
                note_conditioned(traces, at, state, info)
            if isinstance(items, DistanceItems):
                traces["negative_norms"][at] = info.negative_norms
        done = number + 1
        progress.advance(chain, done)
        checkpoints.note_sweep(chain, done, state, rng, traces)
    checkpoints.note_end(chain, done, state, rng, traces)
    return state


def note(
    traces: dict[str, Floats], at: tuple[int, int], items: AnyItems, state: State, plan: Plan, priors: Floats
) -> None:
    """Write the label-free scalars of a state into the traces."""
    traces["n_clusters"][at] = n_distinct(state.cluster)
    traces["n_types"][at] = n_distinct(state.type)
    traces["log_joint"][at] = log_joint_under(plan, items, state, priors)
    traces["alpha_cluster"][at] = state.cluster_concentration
    traces["alpha_type"][at] = state.type_concentration
    traces["mean_variance"][at] = state.mean_variance


def log_joint_under(plan: Plan, items: AnyItems, state: State, priors: Floats) -> float:
    """The log of the target that the plan's kernels leave invariant."""
    if isinstance(items, CountItems):
        return log_joint_of_counts(items, state, priors)
    variant = VARIANTS[plan.conditioning] if plan.conditioning else None
    if isinstance(items, DistanceItems):
        if variant is None:
            return log_joint_of_distances(items, state, priors)
        return log_joint_of_centroids(items, state, variant, priors)
    return log_joint(items, state, priors) if variant is None else log_joint_conditioned(items, state, variant, priors)


def note_conditioned(traces: dict[str, Floats], at: tuple[int, int], state: State, info: Info) -> None:
    traces["separation_rate"][at] = state.separation_rate
    traces["opened_clusters"][at] = info.opened_clusters
    traces["improper_means"][at] = info.improper_means
