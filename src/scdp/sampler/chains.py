"""Chains: each a random stream, a start and a number of sweeps, in threads, since kernels release the lock.

Chain i draws from child i of the seed, so its draws depend neither on the number of chains nor of workers.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from scdp.model.priors import Priors
from scdp.sampler.arithmetic import n_distinct
from scdp.sampler.density import log_joint
from scdp.sampler.items import Floats, Integers, Items
from scdp.sampler.progress import ChainProgress, Silent
from scdp.sampler.state import State
from scdp.sampler.sweep import Constants, Plan, constants_of, sweep

TRACES = ("n_clusters", "n_types", "log_joint", "alpha_cluster", "alpha_type", "mean_variance")


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
    items: Items,
    starts: list[State],
    rngs: list[np.random.Generator],
    plan: Plan,
    priors: Priors,
    schedule: Schedule,
    recorder: Recorder,
    progress: ChainProgress | None = None,
) -> tuple[list[State], dict[str, Floats]]:
    """Run every chain to its end; returns their last states and the traces (chain, draw)."""
    traces = {name: np.empty((schedule.n_chains, schedule.n_draws)) for name in TRACES}
    constants = constants_of(items)
    stop = threading.Event()

    def one(chain: int) -> State:
        return run_chain(
            chain, items, starts[chain], rngs[chain], plan, priors, schedule, constants, recorder, traces,
            progress or Silent(), stop,
        )  # fmt: skip

    if schedule.n_jobs == 1 or schedule.n_chains == 1:
        return [one(chain) for chain in range(schedule.n_chains)], traces
    with ThreadPoolExecutor(schedule.n_jobs) as pool:
        try:
            return list(pool.map(one, range(schedule.n_chains))), traces
        except BaseException:
            stop.set()
            raise


def run_chain(
    chain: int,
    items: Items,
    state: State,
    rng: np.random.Generator,
    plan: Plan,
    priors: Priors,
    schedule: Schedule,
    constants: Constants,
    recorder: Recorder,
    traces: dict[str, Floats],
    progress: ChainProgress,
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
    for number in range(schedule.n_sweeps):
        if stop.is_set():
            break
        state, _ = sweep(rng, state, items, plan, priors, constants)
        draw, off = divmod(number + 1 - schedule.n_warmup, schedule.thin)
        if draw >= 1 and off == 0:
            recorder.record(chain, draw - 1, state.cluster)
            note(traces, chain, draw - 1, items, state, concentration_priors)
        progress.advance(chain, number + 1)
    return state


def note(
    traces: dict[str, Floats], chain: int, draw: int, items: Items, state: State, priors: Floats
) -> None:
    """Write the label-free scalars of a state into the traces."""
    traces["n_clusters"][chain, draw] = n_distinct(state.cluster)
    traces["n_types"][chain, draw] = n_distinct(state.type)
    traces["log_joint"][chain, draw] = log_joint(items, state, priors)
    traces["alpha_cluster"][chain, draw] = state.cluster_concentration
    traces["alpha_type"][chain, draw] = state.type_concentration
    traces["mean_variance"][chain, draw] = state.mean_variance
