"""Planted bugs: each is one exact change of the source, and a gold check must reject it at p < 1e-6.

Every mutant runs in its own process on a copy of the package, and the unchanged package runs through all the checks
the mutants use: it must not be rejected at 1e-3.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "scdp"
CAUGHT, FALSE_ALARM = 1e-6, 1e-3


@dataclass(frozen=True)
class Mutant:
    """A change of one place in one file of the package, and the check (with its arguments) that must see it."""

    name: str
    file: str
    old: str
    new: str
    check: str
    arguments: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, tuple[str, ...]]:
        return self.check, self.arguments


MUTANTS = [
    Mutant(
        "an item counts in its own cluster's density", "sampler/clusters.py",
        "table_row[m] = own_row if slot == own else slot", "table_row[m] = slot",
        "check_clusters", ("missing values", "clusters"),
    ),
    Mutant(
        "an item counts in its own cluster's size", "sampler/clusters.py",
        "size = count[slot] - (slot == own)", "size = count[slot]",
        "check_clusters", ("missing values", "clusters"),
    ),
    Mutant(
        "cluster concentration 10 % too large", "sampler/clusters.py",
        "np.log(state.cluster_concentration)", "np.log(1.1 * state.cluster_concentration)",
        "check_clusters", ("all hidden", "clusters"),
    ),
    Mutant(
        "type concentration used for clusters", "sampler/clusters.py",
        "np.log(state.cluster_concentration)", "np.log(state.type_concentration)",
        "check_clusters", ("all hidden", "clusters"),
    ),
    Mutant(
        "the two concentrations swapped after their update", "sampler/sweep.py",
        "cluster_concentration=alpha_cluster, type_concentration=alpha_type",
        "cluster_concentration=alpha_type, type_concentration=alpha_cluster",
        "check_both_concentrations",
    ),
    Mutant(
        "a new cluster's density has the wrong sign", "sampler/clusters.py",
        "        add_log_predictives(log_weight, table_row, m + 1, table, items, i)",
        "        add_log_predictives(log_weight, table_row, m + 1, table, items, i)\n"
        "        log_weight[m] = 2.0 * log_alpha - log_weight[m]",
        "check_clusters", ("all hidden", "clusters"),
    ),
    Mutant(
        "uncertainty of the mean left out of the predictive", "sampler/predictive.py",
        "inverse[at, f] = row[f] / (row[f] + a) * a", "inverse[at, f] = row[f]",
        "check_clusters", ("all hidden", "clusters"),
    ),
    Mutant(
        "a missing value read as zero", "sampler/items.py",
        "    observed = ~np.isnan(points)\n",
        "    points = np.nan_to_num(points)\n    observed = ~np.isnan(points)\n",
        "check_clusters", ("missing values", "clusters"),
    ),
    Mutant(
        "a missing value weighs in its cluster", "sampler/arithmetic.py",
        "w = sign * items.observed[i, f] * row[f]", "w = sign * row[f]",
        "check_clusters", ("missing values", "clusters"),
    ),
    Mutant(
        "documents share one restaurant", "sampler/items.py",
        "key = group if share_clusters", "key = np.zeros_like(group) if share_clusters",
        "check_clusters", ("two documents", "clusters"),
    ),
    Mutant(
        "a new cluster opens in the first restaurant", "sampler/clusters.py",
        "chosen = lowest_empty(sums.count, items.slot_start[r])", "chosen = lowest_empty(sums.count, 0)",
        "check_clusters", ("two documents", "clusters"),
    ),
    Mutant(
        "all clusters of all documents counted as one size", "sampler/items.py",
        "np.bincount(self.restaurant, minlength=len(self.slot_start)).astype(np.int64)",
        "np.array([len(self.restaurant)])",
        "check_both_concentrations",
    ),
    Mutant(
        "split-merge ratio upside down", "sampler/split_merge.py",
        "(ratio if together else -ratio)", "(-ratio if together else ratio)",
        "check_clusters", ("all hidden", "split-merge, 1 attempt"),
    ),
    Mutant(
        "split-merge forgets its proposal's probability", "sampler/split_merge.py",
        "1.0 / state.mean_variance) - log_proposal", "1.0 / state.mean_variance)",
        "check_clusters", ("all hidden", "split-merge, 1 attempt"),
    ),
    Mutant(
        "split-merge forgets known members", "sampler/split_merge.py",
        "if items.known_in_slot[cluster[second]] > 0:", "if items.known_in_slot[cluster[second]] > 9:",
        "check_clusters", ("two known", "split-merge, 3 attempts"),
    ),
    Mutant(
        "split-merge merges known clusters away", "sampler/split_merge.py",
        "if not together and items.known_in_slot[cluster[first]] > 0:", "if False:",
        "check_clusters", ("two known", "split-merge, 3 attempts"),
    ),
    Mutant(
        "the paper's new mean drawn from the prior", "sampler/paper.py",
        "mean[f] = weight * items.points[i, f] / a + rng.standard_normal() / np.sqrt(a)",
        "mean[f] = rng.standard_normal() / np.sqrt(prior_weight)",
        "check_clusters", ("all hidden", "clusters given means"),
    ),
    Mutant(
        "means drawn with the variance for a deviation", "sampler/means.py",
        "rng.standard_normal() / np.sqrt(a)", "rng.standard_normal() / a",
        "check_clusters", ("all hidden", "means"),
    ),
    Mutant(
        "a precision draw multiplied by its rate", "sampler/types.py",
        "draw / (state.rate[f] + 0.5 * square[f])", "draw * (state.rate[f] + 0.5 * square[f])",
        "check_gamma_types", ("missing values", "precisions", "unequal"),
    ),
    Mutant(
        "a residual adds 1 to the shape, not 1/2", "sampler/types.py",
        "rng.standard_gamma(state.shape[f] + 0.5 * count[f])", "rng.standard_gamma(state.shape[f] + count[f])",
        "check_gamma_types", ("missing values", "precisions", "unequal"),
    ),
    Mutant(
        "a new type's weight lacks its constant", "sampler/types.py",
        "total += observed[f] * constants[f]", "total += 0.0",
        "check_gamma_types", ("all hidden", "types", "unequal"),
    ),
    Mutant(
        "an item counts in its own type", "sampler/types.py",
        "log_weight[m] = logs[counts[kind]]", "log_weight[m] = logs[counts[kind] + (kind == own)]",
        "check_gamma_types", ("all hidden", "types", "unequal"),
    ),
    Mutant(
        "a new type keeps the precisions of the old slot", "sampler/types.py",
        "draw_row(rng, state, observed, square, grid_log, precision[chosen])", "pass",
        "check_joint", ("two documents", "types"),
    ),
    Mutant(
        "Beta(alpha, n) for Beta(alpha + 1, n)", "sampler/concentration.py",
        "rng.beta(concentration + 1.0, sizes[m])", "rng.beta(concentration, sizes[m])",
        "check_one_restaurant",
    ),
    Mutant(
        "mixture index of the concentration off by one", "sampler/concentration.py",
        "n_clusters + choose(rng, log_weight, n + 1)", "n_clusters + 1 + choose(rng, log_weight, n + 1)",
        "check_documents",
    ),
    Mutant(
        "shape of the mean's precision counts clusters, not values", "sampler/means.py",
        "0.5 * used.shape[0] * means.shape[1]", "0.5 * used.shape[0]",
        "check_mean_variance",
    ),
    Mutant(
        "SCDP-2 gives shape and rate in the wrong order", "sampler/means.py",
        "            rate[f] = 0.5 * gap / spread\n    return shape, rate",
        "            rate[f] = 0.5 * gap / spread\n    return rate, shape",
        "check_separation_prior",
    ),
]  # fmt: skip


def run_check(check: str, arguments: tuple[str, ...]) -> dict[str, float]:
    """Run a gold check in this process, on whichever copy of the package comes first on the path."""
    import gold_checks

    if check == "check_one_restaurant":
        return gold_checks.check_concentration_prior(gold_checks.np.array([30]))
    if check == "check_documents":
        return gold_checks.check_concentration_prior(gold_checks.DOCUMENT_SIZES)
    return getattr(gold_checks, check)(*arguments)


def run_apart(package: Path, key: tuple[str, tuple[str, ...]]) -> tuple[str, float]:
    """The smallest p-value of a check in a fresh process that imports the package from `package`'s folder."""
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(package.parent), str(ROOT / "tests"), str(ROOT)]),
            "SCDP_CACHE": cache,
        }
        command = [sys.executable, "-m", "benchmarks.mutants", "--check", json.dumps(key)]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the check {key} did not finish:\n{done.stderr[-2000:]}")
    answer = json.loads(done.stdout.splitlines()[-1])
    if Path(answer["package"]) != package:
        raise RuntimeError(f"the check imported {answer['package']}, not {package}")
    return min(answer["found"].items(), key=lambda pair: pair[1])


def plant(mutant: Mutant, folder: Path) -> Path:
    """A copy of the package under `folder` with the mutant's change in it."""
    package = folder / "scdp"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
    path = package / mutant.file
    text = path.read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        raise ValueError(f"{mutant.file} holds {text.count(mutant.old)} times what {mutant.name!r} replaces")
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    return package


def print_row(name: str, where: str, p: float, verdict: str, seconds: float) -> None:
    print(
        f"{name:58s} {where:26s} {'< 1e-300' if p == 0 else f'{p:.1e}':>9s}  {verdict:8s} {seconds:4.0f} s",
        flush=True,
    )


def run_unchanged() -> bool:
    """Every check the mutants use, on the package as it is."""
    fine = True
    for key in sorted({mutant.key for mutant in MUTANTS}):
        begin = time.perf_counter()
        where, p = run_apart(SOURCE, key)
        fine &= p > FALSE_ALARM
        label = " ".join([key[0].removeprefix("check_"), *key[1]])
        print_row(
            f"unchanged: {label}",
            where,
            p,
            "accepted" if p > FALSE_ALARM else "REJECTED",
            time.perf_counter() - begin,
        )
    return fine


def run_mutants() -> int:
    caught = 0
    for mutant in MUTANTS:
        begin = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            where, p = run_apart(plant(mutant, Path(folder).resolve()), mutant.key)
        caught += p < CAUGHT
        print_row(mutant.name, where, p, "caught" if p < CAUGHT else "MISSED", time.perf_counter() - begin)
    return caught


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.check:
        import scdp

        check, arguments = json.loads(options.check)
        found = run_check(check, tuple(arguments))
        print(json.dumps({"package": str(Path(scdp.__file__).resolve().parent), "found": found}))
        return 0
    fine = run_unchanged()
    caught = run_mutants()
    print(f"caught {caught}/{len(MUTANTS)}" + ("" if fine else "; the unchanged package was rejected"))
    return 0 if fine and caught == len(MUTANTS) else 1


if __name__ == "__main__":
    sys.exit(main())
