"""Chains: every part of the state is drawn once in a sweep, and chains run in threads, since kernels release the lock.

Chain i draws from child i of the seed, so its draws depend neither on the number of chains nor of workers.
"""

from __future__ import annotations

import math
import os
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from scdp._parallel import ChainProgress, map_in_threads
from scdp._typing import Floats, Integers
from scdp.chains import ChainCheckpoints, Info, Plan, Priors, Recorder, State
from scdp.chains.arithmetic import (
    log_symmetric_polynomials,
    n_distinct,
    resample_concentration,
    resample_discounted_concentration,
)
from scdp.chains.counts import count_sweep, log_joint_of_counts
from scdp.chains.distances.centroids import log_joint_of_centroids, log_joint_of_distances
from scdp.chains.distances.clusters import distance_sweep
from scdp.chains.items import AnyItems, CountItems, DistanceItems, Items, group_sizes
from scdp.chains.split_merge import split_merge
from scdp.chains.vector_clusters import log_joint, resample_clusters, resample_clusters_given_means
from scdp.chains.vector_conditioned import conditioned_sweep
from scdp.chains.vector_coupling import VARIANTS, log_joint_conditioned, spread_of
from scdp.chains.vector_types import (
    coupled_prior,
    draw_mean_variance,
    draw_means,
    resample_precisions,
    resample_types,
    separation_prior,
)
from scdp.errors import InputError, NumericalError
from scdp.io.atomic import write_sealed

# Rounds of types and precisions that a start needs.
SETTLING_ROUNDS = 10


class Constants(NamedTuple):
    """What concentration updates need and no sweep changes: sizes and their log symmetric polynomials."""

    sizes: Integers
    group_of_slot: Integers
    log_symmetric: Floats
    all_items: Integers
    log_symmetric_all: Floats


def constants_of(items: AnyItems) -> Constants:
    sizes = group_sizes(items)
    whole = np.array([len(items.group)], dtype=np.int64)
    group_of_slot = np.repeat(np.arange(len(sizes)), items.slot_end - items.slot_start)
    symmetric, symmetric_all = log_symmetric_polynomials(sizes), log_symmetric_polynomials(whole)
    return Constants(sizes, group_of_slot, symmetric, whole, symmetric_all)


def sweep(
    rng: np.random.Generator, state: State, items: AnyItems, plan: Plan, priors: Priors, constants: Constants
) -> tuple[State, Info]:
    """One full update of the state under the plan."""
    state, info = step_of(plan, items)(rng, state, items, plan, priors)
    if plan.learn_scale:
        state = update_scale(rng, state, priors)
    if plan.learn_concentrations:
        state = update_concentrations(rng, state, priors, constants)
    return state, info


def settle_types(rng: np.random.Generator, state: State, items: AnyItems, plan: Plan, priors: Priors) -> State:
    """Update types and precisions alone, the clusters as they are.

    A start needs it: while precisions are still those of the prior, the first pass over the clusters would throw
    items together that the known clusters already tell apart, and a chain can stay there for long.
    """
    frozen = items._replace(hidden=items.hidden[:0])
    for _ in range(SETTLING_ROUNDS if plan.learn_types else 0):
        state, _ = step_of(plan, items)(rng, state, frozen, plan, priors)
    return state


def step_of(plan: Plan, items: AnyItems) -> Callable[..., tuple[State, Info]]:
    if isinstance(items, DistanceItems):
        return distance_sweep
    if isinstance(items, CountItems):
        return count_sweep
    if plan.conditioning is not None:
        return conditioned_sweep
    return collapsed_sweep if plan.scheme == "collapsed" else paper_sweep


def collapsed_sweep(
    rng: np.random.Generator, state: State, items: Items, plan: Plan, priors: Priors
) -> tuple[State, Info]:
    """Clusters with means integrated out; then means are drawn, serve the type updates, and are forgotten."""
    if len(items.hidden):
        state = state._replace(cluster=resample_clusters(rng, items, state)[0])
    if len(items.hidden) and plan.split_merge_attempts:
        state = state._replace(cluster=split_merge(rng, items, state, plan.split_merge_attempts)[0])
    if plan.learn_types or plan.learn_mean_variance:
        means, used = draw_means(rng, items, state)
        state = update_priors(rng, state, plan, priors, means, used)
        if plan.learn_types:
            types, precision, _ = resample_types(rng, items, state, means)
            state = state._replace(type=types, precision=precision)
            state = state._replace(precision=resample_precisions(rng, items, state, means))
    return state, Info()


def paper_sweep(rng: np.random.Generator, state: State, items: Items, plan: Plan, priors: Priors) -> tuple[State, Info]:
    """The paper's Figure 2: means, precisions, then clusters and types given both."""
    means, used = draw_means(rng, items, state)
    state = update_priors(rng, state, plan, priors, means, used)
    if plan.learn_types:
        state = state._replace(precision=resample_precisions(rng, items, state, means))
    cluster, means, _ = resample_clusters_given_means(rng, items, state, means)
    state = state._replace(cluster=cluster)
    if plan.learn_types:
        types, precision, _ = resample_types(rng, items, state, means)
        state = state._replace(type=types, precision=precision)
    return state, Info()


def update_priors(
    rng: np.random.Generator, state: State, plan: Plan, priors: Priors, means: Floats, used: Integers
) -> State:
    """The mean variance where it is learned, and SCDP-2's precision prior."""
    if plan.learn_mean_variance:
        prior = priors.mean_precision
        variance = draw_mean_variance(rng, means, used, prior.shape, prior.rate)
        state = state._replace(mean_variance=variance)
    if plan.separation:
        shape, rate = separation_prior(means, used)
        state = state._replace(shape=shape, rate=rate)
    if plan.type_coupling:
        spread = spread_of(means, used)
        gaps, n_pairs = spread.n * spread.square - spread.total**2, spread.n * (spread.n - 1) // 2
        state = coupled_prior(state, plan, priors, gaps, n_pairs)
    return state


def update_scale(rng: np.random.Generator, state: State, priors: Priors) -> State:
    """The rate b of the Gamma(a, b) prior on precisions, one for all features, under a Gamma prior of its own.

    Features of another scale ask for another b: with it and the mean variance learned, no scale is given.
    """
    rows = state.precision[np.unique(state.type)]
    after_shape = priors.precision_rate.shape + rows.shape[0] * state.shape.sum()
    rate = rng.standard_gamma(after_shape) / (priors.precision_rate.rate + rows.sum())
    return state._replace(rate=np.full_like(state.rate, rate))


def update_concentrations(rng: np.random.Generator, state: State, priors: Priors, constants: Constants) -> State:
    """Both concentrations, each given how many clusters (types) there are."""
    n_clusters, n_types = n_distinct(state.cluster), n_distinct(state.type)
    prior = priors.cluster_concentration
    if state.discount > 0:
        in_group = np.bincount(constants.group_of_slot[np.unique(state.cluster)], minlength=len(constants.sizes))
        alpha_cluster = resample_discounted_concentration(rng, state, constants.sizes, in_group, prior)
    else:
        alpha, sizes, symmetric = state.cluster_concentration, constants.sizes, constants.log_symmetric
        alpha_cluster = resample_concentration(rng, alpha, sizes, n_clusters, symmetric, prior.shape, prior.rate)
    prior = priors.type_concentration
    alpha, sizes, symmetric = state.type_concentration, constants.all_items, constants.log_symmetric_all
    alpha_type = resample_concentration(rng, alpha, sizes, n_types, symmetric, prior.shape, prior.rate)
    return state._replace(cluster_concentration=alpha_cluster, type_concentration=alpha_type)


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


TRACES = ("n_clusters", "n_types", "log_joint", "alpha_cluster", "alpha_type", "mean_variance")
CONDITIONED_TRACES = ("separation_rate", "opened_clusters", "improper_means")
DISTANCE_TRACES = ("negative_norms",)


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


@dataclass(frozen=True, eq=False)
class ChainRun:
    """What all chains of a run share; those who are told of draws, sweeps and checkpoints are told by several threads.

    `traces` are (chain, draw). A chain stops at the end of a sweep once `stop` is set.
    """

    items: AnyItems
    plan: Plan
    priors: Priors
    schedule: Schedule
    constants: Constants
    recorder: Recorder
    traces: dict[str, Floats]
    progress: ChainProgress | None
    checkpoints: ChainCheckpoints | None
    stop: threading.Event


def run_chains(
    items: AnyItems,
    starts: list[State],
    rngs: list[np.random.Generator],
    plan: Plan,
    priors: Priors,
    schedule: Schedule,
    recorder: Recorder,
    progress: ChainProgress | None = None,
    checkpoints: ChainCheckpoints | None = None,
) -> tuple[list[State], dict[str, Floats]]:
    """Run every chain to its end; returns their last states and the traces (chain, draw)."""
    names = TRACES + (CONDITIONED_TRACES if plan.conditioning else ())
    names += DISTANCE_TRACES if isinstance(items, DistanceItems) else ()
    traces = {name: np.empty((schedule.n_chains, schedule.n_draws)) for name in names}
    stop = threading.Event()
    run = ChainRun(items, plan, priors, schedule, constants_of(items), recorder, traces, progress, checkpoints, stop)

    def one(chain: int) -> State:
        return run_chain(run, chain, starts[chain], rngs[chain])

    # With checkpoints always in threads: Ctrl-C then reaches this one, and chains stop at the end of a sweep.
    if checkpoints is None and (schedule.n_jobs == 1 or schedule.n_chains == 1):
        return [one(chain) for chain in range(schedule.n_chains)], traces
    return list(map_in_threads(one, range(schedule.n_chains), schedule.n_jobs, stop)), traces


def run_chain(run: ChainRun, chain: int, state: State, rng: np.random.Generator) -> State:
    """Sweep, keep what follows the warm-up, and tell how far it is."""
    schedule, traces, checkpoints, done = run.schedule, run.traces, run.checkpoints, 0
    if checkpoints is not None:
        state, done = checkpoints.resume(chain, state, rng, traces)
    for number in range(done, schedule.n_sweeps):
        if run.stop.is_set():
            break
        before, generator = state, rng.bit_generator.state
        draw, off = divmod(number + 1 - schedule.n_warmup, schedule.thin)
        at, kept = (chain, draw - 1), draw >= 1 and off == 0
        try:
            state, info = sweep(rng, state, run.items, run.plan, run.priors, run.constants)
            if kept:
                note(run, at, state, info)
            check_numbers(state, traces["log_joint"][at] if kept else 0.0)
        except FloatingPointError as error:
            place = None if checkpoints is None else checkpoints.folder
            raise describe_breakdown(error, chain, number + 1, before, generator, place) from error
        if kept:
            run.recorder.record(chain, draw - 1, state.cluster)
        done = number + 1
        if run.progress is not None:
            run.progress.advance(chain, done)
        if checkpoints is not None:
            checkpoints.note_sweep(chain, done, state)
    if checkpoints is not None:
        checkpoints.note_end(chain, done, state)
    return state


def note(run: ChainRun, at: tuple[int, int], state: State, info: Info) -> None:
    """Write the label-free scalars of a state into the traces, and what its sweep reports."""
    found = {
        "n_clusters": n_distinct(state.cluster),
        "n_types": n_distinct(state.type),
        "log_joint": log_joint_under(run.plan, run.items, state, run.priors.concentrations),
        "alpha_cluster": state.cluster_concentration,
        "alpha_type": state.type_concentration,
        "mean_variance": state.mean_variance,
        "separation_rate": state.separation_rate,
        "opened_clusters": info.opened_clusters,
        "improper_means": info.improper_means,
        "negative_norms": info.negative_norms,
    }
    for name, values in run.traces.items():
        values[at] = found[name]


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
    scalars, arrays = before.to_parts()
    about = {"chain": chain, "sweep": sweep, "state": scalars, "generator": generator, "reason": str(reason)}
    try:
        write_sealed(path, about, arrays)
        kept = f"{path} keeps the state before it, without the rows: please send it with a report"
    except InputError as error:
        kept = f"its state could not be kept ({error})"
    return NumericalError(f"chain {chain + 1}, sweep {sweep}: {reason}, so nothing was drawn from it; {kept}")
