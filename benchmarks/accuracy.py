"""F of pairs on every set with proposed comparisons: 30 % of the clusters labelled, or 20 clusters; mean of splits.

python -m benchmarks.accuracy [--sets abt-buy,...] [--labels 30%,20] [--splits 5] [--most 6000] [--out FILE]
    [--systems resolver,modernbinary,splink]

The proposal sees the labelled records only. `crm` has its labels in columns of its own, and the paper's tasks their own
parts; those are run once for each seed. Tables are made of the sets in $SCDP_DATA; `--sets people-100k,people-1m` are
made-up people. Splink has no labels: its settings follow from what the columns look like, and its links are cut at .95.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import time
import warnings
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import paper_specs as specs
from benchmarks.honesty import read
from scdp import EntityResolver
from scdp.datasets import make_records
from scdp.estimators.checks import propose_spec
from scdp.linkage.training.folds import canonical_labels
from scdp.metrics import evaluate
from scdp.table import Records
from scdp.table.spec import Spec

TABLES = {
    "abt-buy": ("abt-buy", "records.csv"),
    "dblp-acm": ("dblp-acm", "records.csv"),
    "restaurant": ("restaurant", "records.csv"),
    "febrl3": ("febrl3", "records.csv"),
    "historical": ("historical-50k", "historical_5k.csv"),
    "rldata500": ("rldata500", "records.csv"),
}
NOT_COMPARED = ("cluster_id", "record_id", "cluster", "unique_id", "part", "source")
# Made-up people, of whom all are clustered that are not labelled.
MADE = {"people-100k": 100_000, "people-1m": 1_000_000}
CRM_LABELS = {"60 duplicates": "labelled_60_duplicates_first", "60": "labelled_60_at_random"}
RICHER = {
    "references": specs.richer_references_spec,
    "identity": specs.richer_identity_spec,
    "coreference": specs.richer_coreference_spec,
}
TASKS = ("references", "references-kearns", "references-schapire", "identity", "coreference")
SETS = (*TABLES, "crm", *TASKS)
# Of the labelled clusters, two thirds have duplicates where they are few: people label those.
MANY_DUPLICATES = 2 / 3
SPLINK_CUT = 0.95
# What tells one run from another.
RUN = ("set", "labels", "comparisons", "system", "seed")


class Part(NamedTuple):
    """Records with their clusters, and the documents within which they are clustered."""

    data: Records
    clusters: np.ndarray
    groups: np.ndarray | None = None

    def take(self, rows: np.ndarray) -> Part:
        return Part(
            self.data.take(rows),
            canonical_labels(self.clusters[rows].tolist()),
            None if self.groups is None else self.groups[rows],
        )


class Problem(NamedTuple):
    """What to learn from and what to cluster; `specs` are comparisons chosen beforehand, by the name of the choice."""

    name: str
    labels: str
    train: Part
    test: Part
    specs: dict[str, Spec]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--labels", default="30%,20")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--systems", default="resolver")
    parser.add_argument("--most", type=int, default=6000, help="records of a table at most")
    parser.add_argument("--out", type=Path, help="keep every run in this file, and add to those that it has")
    parser.add_argument("--page", type=Path, help="write the table of means to this file")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows: list[dict[str, Any]] = []
    if options.out and options.out.exists():
        rows = json.loads(options.out.read_text(encoding="utf-8"))
    done = {tuple(row[key] for key in RUN) for row in rows}
    for name in options.sets.split(","):
        for seed in range(options.splits):
            for problem in problems(name, options.labels.split(","), seed, options.most):
                for choice, spec in problem.specs.items():
                    for system in options.systems.split(","):
                        if (name, problem.labels, choice, system, seed) in done:
                            continue
                        rows.append(run(problem, choice, spec, system, seed))
                        print(line(rows[-1]), flush=True)
                        if options.out:
                            options.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print_summary(rows)
    if options.page:
        options.page.write_text(page(rows), encoding="utf-8")


def problems(name: str, labels: list[str], seed: int, most: int) -> Iterator[Problem]:
    """All ways to label the set."""
    if name in TASKS:
        yield paper_task(name)
        return
    if name == "crm":
        yield from crm_problems(labels, seed)
        return
    if name in MADE:
        made = make_records(MADE[name], "people", seed=seed + 1)
        whole, most = Part(made.data, canonical_labels(made.clusters.tolist())), MADE[name]
    else:
        whole = table(*TABLES[name])
    for how in labels:
        yield split(name, whole, how, seed, most)


def table(folder: str, file: str) -> Part:
    records = read(folder, file)
    entity = "cluster_id" if "cluster_id" in records.names else "cluster"
    kept = Records({n: records[n] for n in records.names if n not in NOT_COMPARED}, records.source)
    return Part(kept, canonical_labels(records[entity].tolist()))


def split(name: str, whole: Part, how: str, seed: int, most: int) -> Problem:
    """Some clusters to learn from; all others, up to a number of records, to cluster."""
    rng = np.random.default_rng(seed)
    clusters = whole.clusters
    order = rng.permutation(clusters.max() + 1)
    sizes = np.bincount(clusters)
    if how.endswith("%"):
        n = round(len(order) * float(how[:-1]) / 100)
        chosen = order[:n]
    else:
        n = int(how)
        repeated, single = order[sizes[order] > 1], order[sizes[order] == 1]
        k = max(round(MANY_DUPLICATES * n), n - len(single))
        chosen = np.concatenate([repeated[:k], single[: n - k]])
    rest = order[~np.isin(order, chosen)]
    rest = rest[np.cumsum(sizes[rest]) <= most]
    train, test = (whole.take(np.flatnonzero(np.isin(clusters, part))) for part in (chosen, rest))
    return Problem(name, how, train, test, {"proposed": propose_spec(train.data)})


def crm_problems(labels: list[str], seed: int) -> Iterator[Problem]:
    """The labels its columns tell of, and 20 clusters of those with duplicates first; all records are clustered."""
    records = read("crm", "records.csv")
    clusters = canonical_labels(records["cluster_id"].tolist())
    names = [n for n in records.names if n not in NOT_COMPARED and not n.startswith("labelled_")]
    whole = Part(Records({n: records[n] for n in names}, records.source), clusters)
    rng = np.random.default_rng(seed)
    for how, column in CRM_LABELS.items():
        marked = np.flatnonzero([cell is not None and str(cell).strip() != "" for cell in records[column]])
        if seed == 0:
            yield Problem("crm", how, whole.take(marked), whole, {"proposed": propose_spec(whole.data.take(marked))})
        if how == "60 duplicates" and "20" in labels:
            few = rng.permutation(np.unique(clusters[marked]))[:20]
            some = whole.take(marked[np.isin(clusters[marked], few)])
            yield Problem("crm", "20", some, whole, {"proposed": propose_spec(some.data)})


def paper_task(name: str) -> Problem:
    """The paper's parts, with its own comparisons, with richer ones, and with those proposed."""
    from scdp.paper.tasks import load_problem, name_within_groups

    problem = load_problem(name, 0)
    assert problem.spec is not None
    train, test = (
        Part(part.data, canonical_labels(name_within_groups(part).tolist()), part.groups)
        for part in (problem.task.train, problem.task.test)
    )
    compared = [n for n in train.data.names if n != problem.spec.group]
    choices = {
        "paper": Spec("entity", problem.spec.fields),
        "richer": Spec("entity", RICHER[name.partition("-")[0]]().fields),
        "proposed": propose_spec(train.data.select(compared), train.groups is not None),
    }
    return Problem(name, "own part", train, test, choices)


def run(problem: Problem, choice: str, spec: Spec, system: str, seed: int) -> dict[str, Any]:
    start = time.process_time()
    labels = SYSTEMS[system](problem, spec, seed)
    scores = evaluate(problem.test.clusters, labels)
    return {
        "set": problem.name,
        "labels": problem.labels,
        "comparisons": choice,
        "system": system,
        "seed": seed,
        "n_train": len(problem.train.clusters),
        "n_test": len(problem.test.clusters),
        "p": scores["p"],
        "r": scores["r"],
        "f": scores["f"],
        "clusters": len(np.unique(labels)),
        "truth": int(problem.test.clusters.max()) + 1,
        "seconds": round(time.process_time() - start, 1),
    }


def resolver(problem: Problem, spec: Spec, seed: int) -> Any:
    model = EntityResolver(spec=spec, random_state=seed)
    model.fit(problem.train.data, problem.train.clusters, problem.train.groups)
    return model.predict(problem.test.data, problem.test.groups)


def modern_binary(problem: Problem, spec: Spec, seed: int) -> Any:
    from scdp.paper import baselines

    opponent = baselines.ModernBinary(spec=spec)
    opponent.fit(problem.train.data, problem.train.clusters, problem.train.groups)
    return opponent.predict(problem.test.data, problem.test.groups)


def splink(problem: Problem, spec: Spec, seed: int) -> Any:
    """Without labels: a comparison a column by what it looks like, rules that ask for one equal column each.

    Records of two documents are never compared.
    """
    import logging

    import pandas as pd
    import splink.comparison_library as cl
    from splink import DuckDBAPI, Linker, SettingsCreator, block_on

    from scdp.table.propose import propose_columns

    logging.getLogger("splink").setLevel(logging.ERROR)
    records = problem.test.data
    columns = [row for row in propose_columns(records, records.names) if row.comparisons]
    special = {
        "date": lambda name: cl.LevenshteinAtThresholds(name, [1, 2]),
        "email": cl.EmailComparison,
        "category": cl.ExactMatch,
        "code": lambda name: cl.LevenshteinAtThresholds(name, [1, 2]),
    }
    made = [
        special.get(row.looks_like, lambda name: cl.JaroWinklerAtThresholds(name, [0.95, 0.88, 0.7]))(row.column)
        for row in columns
    ]
    usable = [row.column for row in columns if row.looks_like not in ("category", "month", "day")]
    frame = pd.DataFrame({row.column: [_cell(cell, row.missing) for cell in records[row.column]] for row in columns})
    frame.insert(0, "unique_id", np.arange(len(frame)))
    within = []
    if problem.test.groups is not None:
        frame.insert(1, "within_", problem.test.groups)
        within = ["within_"]
    rules = [block_on(name, *within) for name in usable]
    settings = SettingsCreator("dedupe_only", comparisons=made, blocking_rules_to_generate_predictions=rules)
    linker = Linker(DuckDBAPI().register(frame), settings)
    linker.training.estimate_probability_two_random_records_match(rules[:1], recall=0.7)
    linker.training.estimate_u_using_random_sampling(max_pairs=1e6, seed=seed)
    for rule in rules[:3]:
        # A rule under which a level is never seen teaches nothing, and Splink says so by an error.
        with contextlib.suppress(ValueError):
            linker.training.estimate_parameters_using_expectation_maximisation(rule)
    links = linker.inference.predict(threshold_match_probability=SPLINK_CUT)
    found = linker.clustering.cluster_pairwise_predictions_at_threshold(links, SPLINK_CUT).as_pandas_dataframe()
    return canonical_labels(found.sort_values("unique_id")["cluster_id"].tolist())


def _cell(cell: Any, missing: Collection[str]) -> str | None:
    """The cleaned text; None where it is missing, or stands for that as the proposal has found."""
    text = "" if cell is None else str(cell).strip()
    return text.lower() or None if text not in missing else None


NAMES = {"resolver": "resolver", "modernbinary": "ModernBinary", "splink": "Splink"}
SYSTEMS: dict[str, Callable[[Problem, Spec, int], Any]] = {
    "resolver": resolver,
    "modernbinary": modern_binary,
    "splink": splink,
}


def line(row: dict[str, Any]) -> str:
    return (
        f"{row['set']:20} {row['labels']:13} {row['comparisons']:9} {row['system']:13} {row['seed']}  "
        f"F {row['f']:.3f}  P {row['p']:.3f}  R {row['r']:.3f}  K {row['clusters']:5} of {row['truth']:5}  "
        f"{row['seconds']:.0f} s"
    )


def print_summary(rows: list[dict[str, Any]]) -> None:
    """Mean and standard error over splits."""
    print(f"\n{'set':20} {'labels':13} {'compared':9} {'system':13} splits   F (standard error)")
    for (name, labels, choice, system), mine in scores(rows).items():
        print(f"{name:20} {labels:13} {choice:9} {system:13} {len(mine):6}   {mean(mine)}")


def scores(rows: list[dict[str, Any]]) -> dict[tuple[str, ...], list[float]]:
    """F of all splits, by set, labels, comparisons and system."""
    found: dict[tuple[str, ...], list[float]] = {}
    for row in rows:
        found.setdefault(tuple(row[key] for key in RUN[:-1]), []).append(row["f"])
    return found


def mean(scores: list[float]) -> str:
    """The mean, and its standard error where there is more than one."""
    if len(scores) < 2:
        return f"{np.mean(scores):.3f}"
    return f"{np.mean(scores):.3f} ({np.std(scores, ddof=1) / np.sqrt(len(scores)):.3f})"


def page(rows: list[dict[str, Any]]) -> str:
    """A table of means and standard errors with the systems side by side."""
    found = scores(rows)
    systems = [name for name in SYSTEMS if any(key[-1] == name for key in found)]
    lines = [
        "# Accuracy with proposed comparisons",
        "",
        "Made by `make accuracy`: pairwise F, the mean over splits and its standard error. ModernBinary has the same "
        "comparisons and labels, Splink has no labels and settings that follow from what columns look like. "
        f"{_commit()}",
        "",
        f"| set | labelled clusters | comparisons | splits | {' | '.join(NAMES[name] for name in systems)} |",
        f"|---|---|---|---|{'---|' * len(systems)}",
    ]
    for key in dict.fromkeys(key[:-1] for key in found):
        mine = [found.get((*key, name), []) for name in systems]
        cells = [mean(each) if each else "" for each in mine]
        lines.append(f"| {' | '.join(key)} | {max(map(len, mine))} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _commit() -> str:
    """The commit that was measured."""
    told = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return f"Commit {told.stdout.strip()}." if told.returncode == 0 else ""


if __name__ == "__main__":
    main()
