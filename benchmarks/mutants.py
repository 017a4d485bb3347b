"""Planted bugs: each is one exact change of the source, and a gold check must reject it at p < 1e-6.

Every mutant runs in its own process on a copy of the package. The unchanged package runs through all the checks
that mutants use, and must not be rejected at 1e-3.
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
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "scdp"
CAUGHT, FALSE_ALARM = 1e-6, 1e-3


Key = tuple[str, tuple[str, ...]]


class Verdict(NamedTuple):
    """The smallest p-value of a check, what it is the p-value of, and how long the check took."""

    where: str
    p: float
    seconds: float


@dataclass(frozen=True)
class Mutant:
    """A change of one place in one file of the package, and the check, with its arguments, that must see it."""

    name: str
    file: str
    old: str
    new: str
    check: str
    arguments: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        return self.check, self.arguments


MUTANTS = [
    Mutant(
        "an item counts in its own cluster's density", "chains/vector_clusters.py",
        "table_row[m] = own_row if slot == own else slot", "table_row[m] = slot",
        "check_clusters", ("missing values", "clusters"),
    ),
    Mutant(
        "an item counts in its own cluster's size", "chains/vector_clusters.py",
        "size = count[slot] - (slot == own)", "size = count[slot]",
        "check_clusters", ("missing values", "clusters"),
    ),
    Mutant(
        "cluster concentration 10 % too large", "chains/vector_clusters.py",
        "= NEW, new_row, log_new_cluster(state, m)", "= NEW, new_row, 0.0953 + log_new_cluster(state, m)",
        "check_clusters", ("all hidden", "clusters"),
    ),
    Mutant(
        "type concentration used for clusters", "chains/vector_clusters.py",
        "= NEW, new_row, log_new_cluster(state, m)", "= NEW, new_row, np.log(state.type_concentration)",
        "check_clusters", ("all hidden", "clusters"),
    ),
    Mutant(
        "the two concentrations swapped after their update", "chains/run.py",
        "cluster_concentration=alpha_cluster, type_concentration=alpha_type",
        "cluster_concentration=alpha_type, type_concentration=alpha_cluster",
        "check_both_concentrations",
    ),
    Mutant(
        "a new cluster's density has the wrong sign", "chains/vector_clusters.py",
        "        add_log_predictives(log_weight, table_row, m + 1, table, items, i)",
        "        add_log_predictives(log_weight, table_row, m + 1, table, items, i)\n"
        "        log_weight[m] = 2.0 * log_new_cluster(state, m) - log_weight[m]",
        "check_clusters", ("all hidden", "clusters"),
    ),
    Mutant(
        "uncertainty of the mean left out of the predictive", "chains/vector_clusters.py",
        "inverse[at, f] = row[f] / (row[f] + a) * a", "inverse[at, f] = row[f]",
        "check_clusters", ("all hidden", "clusters"),
    ),
    Mutant(
        "a missing value read as zero", "chains/items.py",
        "    observed = ~np.isnan(points)\n",
        "    points = np.nan_to_num(points)\n    observed = ~np.isnan(points)\n",
        "check_clusters", ("missing values", "clusters"),
    ),
    Mutant(
        "a missing value weighs in its cluster", "chains/arithmetic.py",
        "w = sign * items.observed[i, f] * row[f]", "w = sign * row[f]",
        "check_clusters", ("missing values", "clusters"),
    ),
    Mutant(
        "groups share one partition", "chains/items.py",
        "key = group if share_clusters", "key = np.zeros_like(group) if share_clusters",
        "check_clusters", ("two documents", "clusters"),
    ),
    Mutant(
        "a new cluster opens in the first group", "chains/vector_clusters.py",
        "lowest_empty(sums.size, items.slot_start[r])", "lowest_empty(sums.size, 0)",
        "check_clusters", ("two documents", "clusters"),
    ),
    Mutant(
        "all clusters of all groups counted as one size", "chains/items.py",
        "np.bincount(items.group, minlength=len(items.slot_start)).astype(np.int64)",
        "np.array([len(items.group)])",
        "check_both_concentrations",
    ),
    Mutant(
        "split-merge ratio upside down", "chains/split_merge.py",
        "(ratio if together else -ratio)", "(-ratio if together else ratio)",
        "check_clusters", ("all hidden", "split-merge, 1 attempt"),
    ),
    Mutant(
        "split-merge forgets its proposal's probability", "chains/split_merge.py",
        "log_split_ratio(sums, state) - log_proposal", "log_split_ratio(sums, state)",
        "check_clusters", ("all hidden", "split-merge, 1 attempt"),
    ),
    Mutant(
        "split-merge forgets known members", "chains/split_merge.py",
        "return known[:n]", "return known[:0]",
        "check_clusters", ("two known", "split-merge, 3 attempts"),
    ),
    Mutant(
        "split-merge merges known clusters away", "chains/split_merge.py",
        "if cluster[first] != cluster[second] and items.known_in_slot[cluster[first]] > 0:", "if False:",
        "check_clusters", ("two known", "split-merge, 3 attempts"),
    ),
    Mutant(
        "the paper's new mean drawn from the prior", "chains/vector_clusters.py",
        "mean[f] = weight * items.points[i, f] / a + rng.standard_normal() / np.sqrt(a)",
        "mean[f] = rng.standard_normal() / np.sqrt(prior_weight)",
        "check_clusters", ("all hidden", "clusters given means"),
    ),
    Mutant(
        "means drawn with the variance for a deviation", "chains/vector_types.py",
        "rng.standard_normal() / np.sqrt(a)", "rng.standard_normal() / a",
        "check_clusters", ("all hidden", "means"),
    ),
    Mutant(
        "a precision draw multiplied by its rate", "chains/vector_types.py",
        "draw / (state.rate[f] + 0.5 * square[f])", "draw * (state.rate[f] + 0.5 * square[f])",
        "check_gamma_types", ("missing values", "precisions", "unequal"),
    ),
    Mutant(
        "a residual adds 1 to the shape, not 1/2", "chains/vector_types.py",
        "state.shape[f] + 0.5 * count[f]", "state.shape[f] + count[f]",
        "check_gamma_types", ("missing values", "precisions", "unequal"),
    ),
    Mutant(
        "a new type's weight lacks its constant", "chains/vector_types.py",
        "total += observed[f] * constants[f]", "total += 0.0",
        "check_gamma_types", ("all hidden", "types", "unequal"),
    ),
    Mutant(
        "an item counts in its own type", "chains/vector_types.py",
        "add_log_densities(log_weight, candidate, m, precision, log_precision, half_log",
        "log_weight[:m] = logs[counts[candidate[:m]] + (candidate[:m] == own)]\n"
        "        add_log_densities(log_weight, candidate, m, precision, log_precision, half_log",
        "check_gamma_types", ("all hidden", "types", "unequal"),
    ),
    Mutant(
        "a new type keeps the precisions of the old slot", "chains/vector_types.py",
        "draw_row(rng, state, observed, square, grid_log, precision[chosen])", "pass",
        "check_joint", ("two documents", "types"),
    ),
    Mutant(
        "Beta(alpha, n) for Beta(alpha + 1, n)", "chains/arithmetic.py",
        "rng.beta(concentration + 1.0, sizes[m])", "rng.beta(concentration, sizes[m])",
        "check_one_group",
    ),
    Mutant(
        "mixture index of the concentration off by one", "chains/arithmetic.py",
        "n_clusters + choose(rng, log_weight, n + 1)", "n_clusters + 1 + choose(rng, log_weight, n + 1)",
        "check_documents",
    ),
    Mutant(
        "shape of the mean's precision counts clusters, not values", "chains/vector_types.py",
        "0.5 * used.shape[0] * means.shape[1]", "0.5 * used.shape[0]",
        "check_mean_variance",
    ),
    Mutant(
        "SCDP-2 gives shape and rate in the wrong order", "chains/vector_types.py",
        "            rate[f] = 0.5 * gap / spread\n    return shape, rate",
        "            rate[f] = 0.5 * gap / spread\n    return rate, shape",
        "check_separation_prior",
    ),
    Mutant(
        "SCDP-3: the current mean is not among the candidates", "chains/vector_conditioned.py",
        "draw_auxiliary(rng, items, state, 0, openings, False, options, 1, grid_log)",
        "draw_auxiliary(rng, items, state, 0, openings, False, options, 0, grid_log)",
        "check_conditioned", ("means", "normalized", "2"),
    ),
    Mutant(
        "SCDP-3: a mean only this item used is lost (M + 1 rule)", "chains/vector_conditioned.py",
        "auxiliary, 1 if keep_first else 0, grid_log", "auxiliary, 0, grid_log",
        "check_conditioned", ("clusters from the prior", "normalized", "2", "160000"),
    ),
    Mutant(
        "SCDP-3: a type only this item used is lost (M + 1 rule)", "chains/vector_types.py",
        "for a in range(int(kept), n_auxiliary):", "for a in range(n_auxiliary):",
        "check_conditioned", ("types by auxiliary", "normalized", "2", "160000"),
    ),
    Mutant(
        "SCDP-3: clusters ordered by increasing size", "chains/vector_coupling.py",
        "before = ranks.size[slot] > size or", "before = ranks.size[slot] < size or",
        "check_conditioned", ("clusters", "published", "2"),
    ),
    Mutant(
        "SCDP-3: pair term counted twice", "chains/vector_coupling.py",
        "gap = gap if gap > 0.0 else 0.0", "gap = 2.0 * gap if gap > 0.0 else 0.0",
        "check_conditioned", ("clusters", "normalized", "2"),
    ),
    Mutant(
        "SCDP-3 on distances: the centroid that an item leaves stays where it was",
        "chains/distances/centroid_moves.py",
        "set_gap(gap_of, reach, here, there, first + j, f, gap)", "pass",
        "check_centroids", ("missing values", "clusters", "normalized"),
    ),
    Mutant(
        "SCDP-3 on distances: an item moves a centroid in a feature it misses", "chains/distances/centroid_moves.py",
        "share = seen[f] * (entry[slot, f] if j < m else 1.0)", "share = entry[slot, f] if j < m else 1.0",
        "check_centroids", ("missing values", "clusters", "mean"),
    ),
    Mutant(
        "SCDP-3 on distances: split-merge forgets the gaps", "chains/split_merge.py",
        "ratio += log_parting(parting, centroids, state, coupling, together)", "pass",
        "check_centroids", ("missing values", "split-merge, 3 attempts", "normalized"),
    ),
    Mutant(
        "a join is not discounted", "chains/arithmetic.py",
        "table[i] = np.log(i - discount)", "table[i] = np.log(i)",
        "check_discount", ("partly known", "clusters"),
    ),
    Mutant(
        "a new cluster's weight does not grow with the clusters", "chains/arithmetic.py",
        "np.log(state.cluster_concentration + state.discount * n_clusters)", "np.log(state.cluster_concentration)",
        "check_discount", ("partly known", "clusters"),
    ),
    Mutant(
        "a split counts the clusters after it", "chains/split_merge.py",
        "items.slot_end[r]) - (not together)", "items.slot_end[r]) + together",
        "check_discount", ("partly known", "split-merge, 3 attempts"),
    ),
    Mutant(
        "a split forgets what a cluster of one weighs", "chains/split_merge.py",
        "log_new_cluster(state, n_clusters) - lgamma(1.0 - state.discount)", "log_new_cluster(state, n_clusters)",
        "check_discount", ("partly known", "split-merge, 3 attempts"),
    ),
    Mutant(
        "all groups counted as one in a discounted concentration", "chains/arithmetic.py",
        "groups = (n_clusters[:, None] > steps).sum(axis=0)", "groups = (n_clusters.max() > steps) * 1.0",
        "check_discounted_concentration",
    ),
    Mutant(
        "a missing count is taken for trials that failed", "chains/items.py",
        "trials = items.observed * items.points.max(axis=0, initial=0.0)",
        "trials = np.ones_like(items.points) * items.points.max(axis=0, initial=0.0)",
        "check_counts", ("missing values", "beta-binomial"),
    ),
    Mutant(
        "an item counts in its own cluster's outcomes", "chains/counts.py",
        "        sums.outcomes[own] -= items.outcomes[i]\n", "        sums.outcomes[own] -= 0.0\n",
        "check_counts", ("two documents", "dirichlet-multinomial"),
    ),
    Mutant(
        "trials of a pool are left out of its chance", "chains/counts.py",
        "result -= log_rising(total[p] + sums.trials[slot, p], items.trials[i, p])",
        "result -= log_rising(total[p], items.trials[i, p])",
        "check_counts", ("two documents", "beta-binomial"),
    ),
    Mutant(
        "a pseudo-count's density lacks the change of variable", "chains/counts.py",
        "result = log_value - value", "result = -value",
        "check_pseudo_counts", ("beta-binomial",),
    ),
    Mutant(
        "the other pseudo-counts of a pool are forgotten", "chains/counts.py",
        "others = total[pool] - pseudo[c]", "others = 1.0",
        "check_pseudo_counts", ("dirichlet-multinomial",),
    ),
    Mutant(
        "the learned scale counts types once and not by feature", "chains/run.py",
        "rows.shape[0] * state.shape.sum()", "rows.shape[0] * state.shape[0]",
        "check_scale",
    ),
]  # fmt: skip


def run_check(check: str, arguments: tuple[str, ...]) -> dict[str, float]:
    """Run a gold check in this process, on whichever copy of the package comes first on the path."""
    import gold_checks

    if check == "check_one_group":
        return gold_checks.check_concentration_prior(gold_checks.np.array([30]))
    if check == "check_documents":
        return gold_checks.check_concentration_prior(gold_checks.DOCUMENT_SIZES)
    return getattr(gold_checks, check)(*arguments)


def run_checks_here(keys: list[Key]) -> None:
    """Print a line of JSON per check: which package was tested, its p-values, and the time they took."""
    import scdp

    package = str(Path(scdp.__file__).resolve().parent)
    for check, arguments in keys:
        begin = time.perf_counter()
        found = run_check(check, tuple(arguments))
        print(json.dumps({"package": package, "found": found, "seconds": time.perf_counter() - begin}))


def run_apart(package: Path, keys: list[Key]) -> list[Verdict]:
    """The smallest p-value of each check, from a fresh process that imports the package at `package`."""
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(package.parent), str(ROOT / "tests"), str(ROOT)]),
            "SCDP_CACHE": cache,
        }
        command = [sys.executable, "-m", "benchmarks.mutants", "--checks", json.dumps(keys)]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode and done.stderr.rstrip().splitlines()[-1].startswith(("FloatingPointError", "ValueError")):
        # The sampler itself refuses weights that are no numbers, and NumPy sizes that do not fit: no draw leaves it.
        return [Verdict("refused to draw", 0.0, 0.0) for _ in keys]
    if done.returncode:
        raise RuntimeError(f"the checks {keys} did not finish:\n{done.stderr[-2000:]}")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if {answer["package"] for answer in answers} != {str(package)}:
        raise RuntimeError(f"the checks imported {answers[0]['package']}, not {package}")
    return [Verdict(*min(answer["found"].items(), key=lambda pair: pair[1]), answer["seconds"]) for answer in answers]


def copy_package(source: Path, folder: Path) -> Path:
    return Path(shutil.copytree(source, folder / "scdp", ignore=shutil.ignore_patterns("__pycache__")))


def changed_text(mutant: Mutant, source: Path) -> str:
    """The mutant's file with its change, which must have exactly one place to go."""
    text = (source / mutant.file).read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        raise ValueError(f"{mutant.file} holds {text.count(mutant.old)} times what {mutant.name!r} replaces")
    return text.replace(mutant.old, mutant.new)


def plant(mutant: Mutant, source: Path, folder: Path) -> Path:
    """A copy of the package under `folder` with the mutant's change in it."""
    package = copy_package(source, folder)
    (package / mutant.file).write_text(changed_text(mutant, source), encoding="utf-8")
    return package


def print_row(name: str, verdict: Verdict, word: str) -> None:
    p = "< 1e-300" if verdict.p == 0 else f"{verdict.p:.1e}"
    print(f"{name:66s} {verdict.where:22s} {p:>9s}  {word:8s} {verdict.seconds:4.0f} s", flush=True)


def run_unchanged(source: Path) -> bool:
    """Every check the mutants use, on the package as it is."""
    keys = sorted({mutant.key for mutant in MUTANTS})
    verdicts = run_apart(source, keys)
    for (check, arguments), verdict in zip(keys, verdicts, strict=True):
        label = ", ".join([check.removeprefix("check_").replace("_", " "), *arguments])
        print_row(f"unchanged: {label}", verdict, "accepted" if verdict.p > FALSE_ALARM else "REJECTED")
    return all(verdict.p > FALSE_ALARM for verdict in verdicts)


def run_mutants(source: Path) -> int:
    caught = 0
    for mutant in MUTANTS:
        with tempfile.TemporaryDirectory() as folder:
            [verdict] = run_apart(plant(mutant, source, Path(folder).resolve()), [mutant.key])
        caught += verdict.p < CAUGHT
        print_row(mutant.name, verdict, "caught" if verdict.p < CAUGHT else "MISSED")
    return caught


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checks", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.checks:
        run_checks_here(json.loads(options.checks))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        # One copy for the whole run: an edit meanwhile must not mix two versions.
        source = copy_package(SOURCE, Path(folder).resolve())
        for mutant in MUTANTS:
            changed_text(mutant, source)
        fine = run_unchanged(source)
        caught = run_mutants(source)
    print(f"caught {caught}/{len(MUTANTS)}" + ("" if fine else "; the unchanged package was rejected"))
    return 0 if fine and caught == len(MUTANTS) else 1


if __name__ == "__main__":
    sys.exit(main())
