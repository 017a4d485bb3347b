"""Simulation-based calibration, long-run frequencies and Geweke's test, at sizes that take minutes.

Prints the tables of docs/correctness.md and draws docs/figures/sbc.png. The exit code is 1 if anything is rejected.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from scipy import stats

import gold_chains
from gold_tools import random_slots
from scdp.chains import Priors, State, initial_state, run
from scdp.chains.items import ItemLayout, Items, lay_out_vectors
from scdp.chains.vector_clusters import log_joint
from twins.simulate import Simulated, simulate

ROOT = Path(__file__).resolve().parents[1]

SEED = 2005
ITEMS, FEATURES, KNOWN, MISSING = 12, 2, 4, 0.1
DRAWS, THINNING, BURN_IN, BINS = 63, 8, 200, 16
QUANTITIES = ["K", "L", "alpha cluster", "alpha type", "pair together", "log joint", "precision of item 0"]
PRIORS = Priors()
CONCENTRATION_PRIORS = np.ones(4)
REJECTED = 1e-4


def quantities(items: Items, state: State) -> list[float]:
    return [
        len(np.unique(state.cluster)),
        len(np.unique(state.type)),
        state.cluster_concentration,
        state.type_concentration,
        float(state.cluster[-1] == state.cluster[-2]),
        log_joint(items, state, CONCENTRATION_PRIORS),
        state.precision[state.type[0], 0],
    ]


def true_state(rng: np.random.Generator, laid_out: ItemLayout[Items], truth: Simulated) -> State:
    return initial_state(rng, laid_out, "one", PRIORS)._replace(
        cluster=random_slots(rng, laid_out, truth.clusters),
        type=truth.types,
        precision=truth.precision,
        cluster_concentration=truth.cluster_concentration,
        type_concentration=truth.type_concentration,
    )


def one_simulation(rng: np.random.Generator, number: int, plan: run.Plan) -> np.ndarray:
    """Ranks of the truth among thinned draws, ties broken at random; every other data set has known labels."""
    truth = simulate(rng, np.zeros(ITEMS, np.int64), FEATURES, PRIORS, missing=MISSING)
    known = np.full(ITEMS, -1)
    if number % 2:
        known[:KNOWN] = truth.clusters[:KNOWN]
    laid_out = lay_out_vectors(truth.points, known, share_clusters=True)
    items, fixed = laid_out.items, run.constants_of(laid_out.items)
    state = initial_state(rng, laid_out, ["one", "singletons"][number // 2 % 2], PRIORS)
    found = np.empty((DRAWS, len(QUANTITIES)))
    for s in range(1 - BURN_IN, DRAWS * THINNING + 1):
        state, _ = run.sweep(rng, state, items, plan, PRIORS, fixed)
        if s > 0 and s % THINNING == 0:
            found[s // THINNING - 1] = quantities(items, state)
    exact = np.array(quantities(items, true_state(rng, laid_out, truth)))
    # A quantity that no sweep moved is equal to itself up to the rounding of sums in another order.
    tied = np.abs(found - exact) <= 1e-9 * (1 + np.abs(exact))
    below = ((found < exact) & ~tied).sum(axis=0)
    return below + rng.integers(0, tied.sum(axis=0) + 1)


def calibrate(scheme: str, n_simulations: int) -> np.ndarray:
    plan = run.Plan(scheme=scheme, split_merge_attempts=3)
    begin = time.perf_counter()
    ranks = np.empty((n_simulations, len(QUANTITIES)), np.int64)
    for number in range(n_simulations):
        # One stream per simulation: asking for more of them changes none.
        ranks[number] = one_simulation(np.random.default_rng([SEED, number]), number, plan)
        if number % 100 == 99:
            left = (time.perf_counter() - begin) / (number + 1) * (n_simulations - number - 1)
            print(f"  {scheme}: {number + 1}/{n_simulations} simulations, {left:.0f} s left", file=sys.stderr)
    return ranks


def uniformity(ranks: np.ndarray) -> list[float]:
    """Chi-square p-value of each quantity's ranks over equal bins."""
    bins = ranks * BINS // (DRAWS + 1)
    counts = [np.bincount(column, minlength=BINS) for column in bins.T]
    return [float(stats.chisquare(count).pvalue) for count in counts]


def draw_figure(ranks: np.ndarray, p_values: list[float], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    low, high = stats.binom(len(ranks), 1 / BINS).interval(0.99)
    figure, axes = pyplot.subplots(2, 4, figsize=(10, 4), sharex=True, sharey=True, layout="constrained")
    for axis, name, column, p in zip(axes.flat, QUANTITIES, ranks.T, p_values, strict=False):
        axis.axhspan(low, high, color="0.88", zorder=0)
        axis.axhline(len(ranks) / BINS, color="0.5", linewidth=0.8)
        axis.hist(column, bins=np.linspace(-0.5, DRAWS + 0.5, BINS + 1), color="#3b6ea5", rwidth=0.9)
        axis.set_title(f"{name}, p = {p:.2f}", fontsize=9)
    axes.flat[-1].axis("off")
    axes.flat[-1].text(0, 0.4, f"{len(ranks)} simulations\nrank of the truth\namong {DRAWS} draws\nband: 99 %")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=80)
    pyplot.close(figure)


def report_calibration(n_simulations: int, figure: Path) -> bool:
    print(f"\nSimulation-based calibration, seed {SEED}: chi-square p-values over {BINS} bins\n")
    print("| scheme, simulations | " + " | ".join(QUANTITIES) + " |\n|---" + "|---" * len(QUANTITIES) + "|")
    fine = True
    # The paper's scheme is a yardstick: a quarter of the simulations tells enough about it.
    for scheme, n in [("collapsed", n_simulations), ("paper", n_simulations // 4)]:
        ranks = calibrate(scheme, n)
        p_values = uniformity(ranks)
        print(f"| {scheme}, {n} | " + " | ".join(f"{p:.3f}" for p in p_values) + " |", flush=True)
        fine &= min(p_values) > REJECTED
        if scheme == "collapsed":
            draw_figure(ranks, p_values, figure)
    return fine


def report_long_runs(n_sweeps: int) -> bool:
    print(f"\nTotal variation to the exact posterior after {n_sweeps} sweeps\n")
    print("| layout | scheme | cells | distance | expected by chance |\n|---|---|---|---|---|")
    fine = True
    for layout in gold_chains.LONG_RUNS:
        for scheme in ("collapsed", "paper"):
            drawn = gold_chains.long_run(layout, scheme, n_sweeps)
            print(f"| {layout} | {scheme} | {drawn.cells} | {drawn.distance:.4f} | {drawn.expected:.4f} |", flush=True)
            fine &= drawn.distance < 2 * drawn.expected
    return fine


def report_geweke(n_forward: int, n_sweeps: int) -> bool:
    print(f"\nGeweke's joint test, {n_forward} forward draws against {n_sweeps} sweeps\n")
    print("| layout | scheme | mean variance | smallest of 15 p-values | of |\n|---|---|---|---|---|")
    fine = True
    for layout, scheme, learned in [
        ("two documents", "collapsed", True),
        ("three known", "collapsed", False),
        ("two documents", "paper", False),
        ("three known", "paper", True),
    ]:
        found = gold_chains.geweke(layout, scheme, learned, n_forward, n_sweeps)
        name, p = min(found.items(), key=lambda pair: pair[1])
        print(f"| {layout} | {scheme} | {'learned' if learned else 'fixed'} | {p:.3f} | {name} |", flush=True)
        fine &= p > REJECTED
    return fine


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=1024)
    parser.add_argument("--figure", type=Path, default=ROOT / "docs" / "figures" / "sbc.png")
    options = parser.parse_args()
    begin = time.perf_counter()
    fine = report_calibration(options.simulations, options.figure)
    fine &= report_long_runs(50_000)
    fine &= report_geweke(8_000, 25_000)
    print(f"\n{'nothing rejected' if fine else 'REJECTED'} in {time.perf_counter() - begin:.0f} s")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
