"""How often `Posterior.convergence_warning` speaks: of chains stuck apart, where it should, and of chains that agree.

Data come from the model itself. Prints rates over 200 simulated runs of each kind with 95 % intervals.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from scdp.chains import Plan, Priors, initial_state, start_of_chain
from scdp.chains.items import lay_out_vectors
from scdp.chains.run import Schedule, run_chains, settle_types, streams
from scdp.posterior import DrawRecorder, Posterior
from twins.simulate import simulate

ITEMS, FEATURES, SWEEPS = 30, 2, 1000
PRIORS, PLAN = Priors(), Plan()
Labels = NDArray[np.int64]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    options = parser.parse_args()
    for name, kind in KINDS.items():
        begin = time.monotonic()
        alarms = count(kind, options.runs)
        low, high = interval(alarms, options.runs)
        print(
            f"{name}: {alarms} of {options.runs} warned of ({alarms / options.runs:.1%}, 95 % interval "
            f"{low:.1%} to {high:.1%}), {time.monotonic() - begin:.0f} s",
            flush=True,
        )
    return 0


def count(kind: Callable[[np.random.Generator], Posterior], n_runs: int) -> int:
    """Runs of this kind that are warned of; run i is the same however many are asked for."""
    return sum(kind(np.random.default_rng([7, run])).convergence_warning() is not None for run in range(n_runs))


def interval(hits: int, n: int) -> tuple[float, float]:
    """Clopper and Pearson's."""
    low = float(beta.ppf(0.025, hits, n - hits + 1)) if hits else 0.0
    return low, float(beta.ppf(0.975, hits + 1, n - hits)) if hits < n else 1.0


def two_clusters_apart(rng: np.random.Generator) -> Posterior:
    """One chain is kept where two true clusters are one, the other where they are two."""
    points, truth = data(rng)
    first, second = rng.choice(np.unique(truth), 2, replace=False)
    apart = np.where(truth == first, 0, np.where(truth == second, 1, -1))
    return stuck(rng, points, np.where(apart == 1, 0, apart), apart)


def one_pair_apart(rng: np.random.Generator) -> Posterior:
    """One chain is kept where two items are together, the other where they are not: all else can move."""
    points, _ = data(rng)
    apart = np.full(ITEMS, -1)
    apart[rng.choice(ITEMS, 2, replace=False)] = 0, 1
    return stuck(rng, points, np.minimum(apart, 0), apart)


def converged(rng: np.random.Generator) -> Posterior:
    """The draws of a run dealt out at random to two chains: they are of one law, so every alarm is false."""
    points, _ = data(rng)
    run = sampled(rng, points, np.full(ITEMS, -1), n_chains=2)
    order = rng.permutation(run.n_chains * run.n_draws).reshape(run.n_chains, run.n_draws)
    draws = run.stored.labels_at(np.arange(order.size))[order]
    return Posterior(draws, {name: values.ravel()[order] for name, values in run.traces.items()})


def as_run(rng: np.random.Generator) -> Posterior:
    """Two chains from different starts as they are: an alarm may be true, since short chains may not have met."""
    points, _ = data(rng)
    return sampled(rng, points, np.full(ITEMS, -1), n_chains=2)


KINDS = {
    "stuck: two clusters are one in one chain, two in the other": two_clusters_apart,
    "stuck: two items are together in one chain, apart in the other": one_pair_apart,
    "agree: draws of one law": converged,
    f"as run: two chains of {SWEEPS} sweeps from different starts": as_run,
}


def data(rng: np.random.Generator) -> tuple[NDArray[np.float64], Labels]:
    """Points of the model in at least two clusters."""
    while True:
        made = simulate(rng, np.zeros(ITEMS, np.int64), FEATURES, PRIORS, cluster_concentration=2.0)
        if made.clusters.max() > 0:
            return made.points, made.clusters


def stuck(rng: np.random.Generator, points: NDArray[np.float64], together: Labels, apart: Labels) -> Posterior:
    """A chain a given grouping, shown as if all items had been sampled."""
    runs = [sampled(rng, points, known, n_chains=1) for known in (together, apart)]
    draws = np.stack([run.stored.labels_at(np.arange(run.n_draws)) for run in runs])
    traces = {name: np.concatenate([run.traces[name] for run in runs]) for name in runs[0].traces}
    return Posterior(draws, traces)


def sampled(rng: np.random.Generator, points: NDArray[np.float64], known: Labels, *, n_chains: int) -> Posterior:
    """Chains of scdp1, as `SCDP` runs them; without the point estimate, which nobody asks for here."""
    laid_out = lay_out_vectors(points, known, share_clusters=True)
    rngs = streams(int(rng.integers(2**31)), n_chains)
    starts = [
        settle_types(
            rng, initial_state(rng, laid_out, start_of_chain("mixed", chain), PRIORS), laid_out.items, PLAN, PRIORS
        )
        for chain, rng in enumerate(rngs)
    ]
    schedule = Schedule(n_chains, SWEEPS, SWEEPS // 2)
    recorder = DrawRecorder(n_chains, schedule.n_draws, laid_out.known_slot, laid_out.items.hidden)
    _, traces = run_chains(laid_out.items, starts, rngs, PLAN, PRIORS, schedule, recorder)
    return recorder.finish(traces)


if __name__ == "__main__":
    sys.exit(main())
