"""Chains: each a random stream, a start and a number of sweeps, in threads, since kernels release the lock.

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

from scdp._parallel import ChainProgress, NoProgress, map_in_threads
from scdp._typing import Floats, Integers
from scdp.chains.arithmetic import n_distinct
from scdp.chains.checkpoint import Checkpoints, NoCheckpoints
from scdp.chains.counts import CountItems, log_joint_of_counts
from scdp.chains.distances.density import log_joint_of_centroids, log_joint_of_distances
from scdp.chains.distances.items import AnyItems, DistanceItems
from scdp.chains.separation.coupling import VARIANTS, log_joint_conditioned
from scdp.chains.state import Info, Plan, Priors, State
from scdp.chains.sweep import Constants, constants_of, sweep
from scdp.chains.vectors.density import log_joint
from scdp.errors import InputError, NumericalError
from scdp.io.sealed import write


def check_numbers(state: State, *more: float) -> None:
    """FloatingPointError if anything of a state, or one of the other numbers, is no number."""
    scalars = (
        state.cluster_concentration,
        state.type_concentration,
        state.mean_variance,
        state.separation_rate,
    )
    # Sums, which are no number as soon as a part is none: this is asked after every sweep.
    if math.isnan(sum(scalars, state.precision.sum() + state.means.sum())):
        names = [name for name, value in state._asdict().items() if np.isnan(value).any()]
        raise FloatingPointError(f"{', '.join(names) or 'a sum'} is no number")
    if any(map(math.isnan, more)):
        raise FloatingPointError("the log joint is no number")


def describe_breakdown(
    reason: FloatingPointError,
    chain: int,
    sweep: int,
    before: State,
    generator: Mapping[str, Any],
    folder: Path | None,
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
    return (
        log_joint(items, state, priors)
        if variant is None
        else log_joint_conditioned(items, state, variant, priors)
    )


def note_conditioned(traces: dict[str, Floats], at: tuple[int, int], state: State, info: Info) -> None:
    traces["separation_rate"][at] = state.separation_rate
    traces["opened_clusters"][at] = info.opened_clusters
    traces["improper_means"][at] = info.improper_means
