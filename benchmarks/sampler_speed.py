"""`make bench`: what a sweep costs, as ratios taken in one process, and how well the chains mix.

Prints a table and writes it to docs/speed.md. CPU time, best of several runs, so that a busy machine does not tell.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from scdp._compile import kernel
from scdp.chains import Plan, Priors, State, initial_state
from scdp.chains.arithmetic import n_distinct
from scdp.chains.items import ItemLayout, Items, lay_out_vectors
from scdp.chains.run import Schedule, constants_of, run_chains, streams, sweep
from scdp.chains.vector_conditioned import conditioned_sweep, with_means
from scdp.paper.datasets import load_digits_task
from twins import vectors as plain

PRIORS = Priors()
PAPER_MILLISECONDS = 240.0
PAGE = Path(__file__).parent.parent / "docs" / "speed.md"


@dataclass(frozen=True)
class Row:
    """One line of the table: what was measured, the figure in words, the bar, and whether it is met."""

    what: str
    figure: str
    bar: str
    met: bool


def best(run: Callable[[], object], repeats: int = 7, inner: int = 20) -> float:
    """Least CPU seconds of one call, over several batches of calls."""
    run()
    least = np.inf
    for _ in range(repeats):
        start = time.process_time()
        for _ in range(inner):
            run()
        least = min(least, (time.process_time() - start) / inner)
    return float(least)


@kernel
def bare_pass(points, rows, table, n_table):
    """One multiply-add per (row, table row, feature): the least that weighing every choice could cost."""
    total = 0.0
    for i in rows:
        for k in range(n_table):
            inner = 0.0
            for f in range(points.shape[1]):
                inner += table[k, f] * points[i, f]
            total += inner
    return total


@kernel
def gaussian_pass(points, rows, centre, table, n_table):
    """The same with the arithmetic of a Gaussian: weight times squared gap per term."""
    total = 0.0
    for i in rows:
        for k in range(n_table):
            inner = 0.0
            for f in range(points.shape[1]):
                gap = points[i, f] - centre[k, f]
                inner += table[k, f] * gap * gap
            total += inner
    return total


def digits_layout() -> ItemLayout[Items]:
    task = load_digits_task(seed=0, fallback=True)
    points = np.vstack([task.train.data, task.test.data])
    known = np.concatenate([task.train.clusters, np.full(len(task.test), -1)])
    return lay_out_vectors(points, known)


def simulated_layout(n: int = 600, n_features: int = 8, noise: float = 0.25) -> ItemLayout[Items]:
    """Thirty Gaussian clusters in fifteen close pairs, four noise deviations apart, all hidden: whether two halves
    are one cluster or two is what single-site moves find hard to change their mind about."""
    rng = np.random.default_rng(5)
    places = rng.normal(size=(15, n_features))
    apart = rng.normal(size=(15, n_features))
    apart *= 2 * noise / np.linalg.norm(apart, axis=1, keepdims=True)
    centres = np.vstack([places - apart, places + apart])
    points = centres[rng.integers(30, size=n)] + rng.normal(size=(n, n_features)) * noise
    return lay_out_vectors(points / points.std(axis=0), np.full(n, -1))


def settled(laid_out: ItemLayout[Items], plan: Plan, n_sweeps: int = 100, init: str = "kmeans") -> State:
    """A state some sweeps away from its start."""
    rng = np.random.default_rng(0)
    state = initial_state(rng, laid_out, init, PRIORS)
    constants = constants_of(laid_out.items)
    for _ in range(n_sweeps):
        state, _ = sweep(rng, state, laid_out.items, plan, PRIORS, constants)
    return state


@cache
def digits_sweep() -> tuple[float, float, float, State, ItemLayout[Items]]:
    """CPU seconds of an SCDP-1 sweep at the paper's size and of two bare passes over its terms, and the state."""
    laid_out = digits_layout()
    items, state = laid_out.items, settled(laid_out, Plan())
    rng, constants = np.random.default_rng(1), constants_of(laid_out.items)
    n_clusters = len(np.unique(state.cluster[items.hidden]))
    table = np.random.default_rng(2).random((max(n_clusters, n_distinct(state.type)), items.n_features))
    centre = np.random.default_rng(3).random(table.shape)
    everyone = np.arange(len(items.points))

    def bare() -> None:
        bare_pass(items.points, items.hidden, table, n_clusters)
        bare_pass(items.points, everyone, table, n_distinct(state.type))

    def same_arithmetic() -> None:
        gaussian_pass(items.points, items.hidden, centre, table, n_clusters)
        bare_pass(items.points, everyone, table, n_distinct(state.type))

    full = best(lambda: sweep(rng, state, items, Plan(), PRIORS, constants))
    return full, best(bare), best(same_arithmetic), state, laid_out


def sweep_against_bare_pass() -> Row:
    full, bare, _, state, laid_out = digits_sweep()
    hidden = len(np.unique(state.cluster[laid_out.items.hidden]))
    figure = (
        f"{full / bare:.1f}x ({1e3 * full:.2f} ms at {hidden} clusters and {n_distinct(state.type)} types; "
        f"the paper: {PAPER_MILLISECONDS:.0f} ms)"
    )
    what = "SCDP-1 sweep of the digits against one compiled multiply-add per term"
    return Row(what, figure, "at most 4x", full <= 4 * bare)


def sweep_against_same_arithmetic() -> Row:
    full, _, same, _, _ = digits_sweep()
    what = "the same sweep against a bare pass of the same arithmetic, weight times squared gap"
    return Row(what, f"{full / same:.1f}x", "at most 4x", full <= 4 * same)


def sweep_against_plain_twin() -> Row:
    full, _, _, state, laid_out = digits_sweep()
    rng, items = np.random.default_rng(1), laid_out.items
    start = time.process_time()
    plain.resample_clusters(rng, items, state)
    means, _ = plain.draw_means(rng, items, state)
    plain.resample_types(rng, items, state, means)
    plain.resample_precisions(rng, items, state, means)
    ratio = (time.process_time() - start) / full
    return Row("the same sweep against its plain twin", f"{ratio:.0f}x faster", "at least 100x", ratio >= 100)


def conditioned_against_sweep() -> Row:
    full, _, _, state, laid_out = digits_sweep()
    rng = np.random.default_rng(1)
    state = with_means(rng, state, laid_out.items)
    plan = Plan(conditioning="mean")
    ratio = best(lambda: conditioned_sweep(rng, state, laid_out.items, plan, PRIORS), inner=5) / full
    return Row(
        "SCDP-3 sweep of the same state against SCDP-1", f"{ratio:.1f}x (the paper: 7.5x)", "at most 3x", ratio <= 3
    )


class Nothing:
    """A recorder that keeps no draws."""

    def record(self, chain: int, draw: int, slots: object) -> None:
        pass


def traces_of(laid_out: ItemLayout[Items], plan: Plan, n_sweeps: int) -> tuple[dict[str, np.ndarray], float]:
    """Traces of four chains from one cluster and from singletons, the second half, and its CPU seconds."""
    rngs = streams(4, 4)
    starts = [
        initial_state(rng, laid_out, init, PRIORS)
        for rng, init in zip(rngs, ("one", "singletons", "one", "singletons"), strict=True)
    ]
    start = time.process_time()
    schedule = Schedule(4, n_sweeps, n_sweeps // 2)
    _, traces = run_chains(laid_out.items, starts, rngs, plan, PRIORS, schedule, Nothing())
    return traces, (time.process_time() - start) / 2


def worst(statistic: str, traces: dict[str, np.ndarray]) -> float:
    """Least effective sample size, or largest R-hat, of the number of clusters and the log joint, over all chains."""
    from arviz_stats.base import array_stats

    function = getattr(array_stats, statistic)
    values = [float(function(traces[name], chain_axis=0, draw_axis=1)) for name in ("n_clusters", "log_joint")]
    return min(values) if statistic == "ess" else max(values)


def mixing(name: str, laid_out: ItemLayout[Items], n_sweeps: int) -> Row:
    """Effective samples over all chains: chains that sit in different places count for little, as they should."""
    collapsed, seconds = traces_of(laid_out, Plan(), n_sweeps)
    paper, paper_seconds = traces_of(laid_out, Plan(scheme="paper"), n_sweeps)
    ours, theirs = worst("ess", collapsed) / seconds, worst("ess", paper) / paper_seconds
    figure = (
        f"{ours / theirs:.1f}x ({ours:.2f} against {theirs:.2f} a second; R-hat {worst('rhat', collapsed):.2f} "
        f"against {worst('rhat', paper):.2f}; mean log joint {collapsed['log_joint'].mean():.0f} against "
        f"{paper['log_joint'].mean():.0f})"
    )
    what = f"effective samples per second on {name}, collapsed with split-merge against the paper's scheme"
    return Row(what, figure, "at least 10x", ours >= 10 * theirs)


def agreement_of_starts() -> Row:
    traces, _ = traces_of(simulated_layout(), Plan(), 2000)
    rhat = worst("rhat", traces)
    what = "R-hat of K and log joint, chains from one cluster and from singletons, 2,000 sweeps, simulated set"
    return Row(what, f"{rhat:.3f}", "below 1.05", rhat < 1.05)


def two_chains() -> Row:
    _, _, _, state, laid_out = digits_sweep()

    def wall(n_chains: int, n_jobs: int) -> float:
        least = np.inf
        for _ in range(3):
            start = time.perf_counter()
            schedule = Schedule(n_chains, 300, 299, n_jobs=n_jobs)
            run_chains(laid_out.items, [state] * n_chains, streams(5, n_chains), Plan(), PRIORS, schedule, Nothing())
            least = min(least, time.perf_counter() - start)
        return least

    gain = 2 * wall(1, 1) / wall(2, 2)
    return Row("throughput of two chains on two cores against one", f"{gain:.2f}x", "at least 1.7x", gain >= 1.7)


def growth() -> Row:
    """Exponent of the cost of a sweep in the number of items, at 20 clusters."""
    sizes = [1000, 2000, 4000, 8000, 16000, 32000]
    seconds = []
    for n in sizes:
        rng = np.random.default_rng(6)
        centres = rng.normal(size=(20, 16)) * 3
        truth = rng.integers(20, size=n)
        laid_out = lay_out_vectors(centres[truth] + rng.normal(size=(n, 16)), np.full(n, -1))
        state = initial_state(rng, laid_out, truth, PRIORS)
        constants = constants_of(laid_out.items)
        run = lambda: sweep(rng, state, laid_out.items, Plan(), PRIORS, constants)  # noqa: B023, E731
        seconds.append(best(run, repeats=3, inner=3))
    slope = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
    what = "growth of a sweep from 1,000 to 32,000 items at 20 clusters"
    return Row(what, f"exponent {slope:.2f}", "at most 1.1", slope <= 1.1)


FIRST_CALL = """
import time, numpy as np
from scdp.chains.items import lay_out_vectors
from scdp.chains import Priors, initial_state
start = time.perf_counter()
from scdp.chains.run import constants_of, sweep
from scdp.chains import Plan
rng = np.random.default_rng(0)
laid_out = lay_out_vectors(rng.normal(size=(20, 3)), np.full(20, -1))
state = initial_state(rng, laid_out, "one", Priors())
sweep(rng, state, laid_out.items, Plan(), Priors(), constants_of(laid_out.items))
print(time.perf_counter() - start)
"""


def first_call() -> Row:
    """A fresh process with a warm kernel cache: importing the kernels (and the compiler) and one sweep."""
    command = [sys.executable, "-c", FIRST_CALL]
    runs = [
        float(subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ).stdout)
        for _ in range(4)
    ]
    figure = f"{min(runs[1:]):.2f} s"
    return Row("first sweep in a fresh process, kernel cache warm", figure, "under 2 s", min(runs[1:]) < 2)


def measurements() -> list[Callable[[], Row]]:
    return [
        sweep_against_bare_pass,
        sweep_against_same_arithmetic,
        sweep_against_plain_twin,
        conditioned_against_sweep,
        lambda: mixing("the digits", digits_layout(), 3000),
        lambda: mixing("a simulated set of 30 clusters", simulated_layout(), 2000),
        agreement_of_starts,
        two_chains,
        growth,
        first_call,
    ]


def table(rows: list[Row]) -> str:
    lines = ["| what | figure | bar | met |", "|---|---|---|---|"]
    lines += [f"| {row.what} | {row.figure} | {row.bar} | {'yes' if row.met else 'NO'} |" for row in rows]
    return "\n".join(lines)


HEAD = """# Speed of the sampler

Written by `make bench`. Every figure is a ratio taken in one process (CPU time, best of several runs) or a statistic
of chains; absolute times are of the machine at hand. Compiled kernels are kept under `$SCDP_CACHE` (or
`$XDG_CACHE_HOME`, or `~/.cache`) in a folder named after a digest of all kernel sources, so an edited kernel is
never served from an old cache; where no such folder can be written (a read-only install without a home), kernels
are compiled anew in each process, which takes about half a minute.

"""


def main() -> int:
    rows = []
    for measure in measurements():
        rows.append(measure())
        print(
            f"{rows[-1].what}: {rows[-1].figure}  [{rows[-1].bar}: {'met' if rows[-1].met else 'MISSED'}]", flush=True
        )
    PAGE.write_text(HEAD + table(rows) + "\n", encoding="utf-8")
    return 0 if all(row.met for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
