"""The resolver against ModernBinary on the paper's tasks, in one run: pairwise F, VI, clusters, seconds.

python -m benchmarks.resolver [--tasks references,...,digits-0] [--systems resolver,modernbinary] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from scdp import EntityResolver
from scdp.datasets import Labelled
from scdp.linkage.training.folds import canonical_labels
from scdp.metrics import evaluate
from scdp.paper import baselines
from scdp.paper.tasks import load_problem, name_within_groups

TEXT = "references,references-kearns,references-schapire,identity,coreference"
TASKS = ",".join([TEXT, *(f"digits-{seed}" for seed in range(10))])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", default=TASKS)
    parser.add_argument("--systems", default="resolver,modernbinary")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    # One thread a library, so that seconds mean the same on any machine.
    with threadpool_limits(limits=1):
        for task in options.tasks.split(","):
            for system in options.systems.split(","):
                rows.append(tried(task, system))
                print(line(rows[-1]), flush=True)
                if options.out:
                    options.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    for system in options.systems.split(","):
        for family in ("references", "digits"):
            mine = [row for row in rows if row["system"] == system and row["task"].startswith(family)]
            if len(mine) > 1:
                means = ", ".join(f"{key.upper()} {np.mean([row[key] for row in mine]):.3f}" for key in ("f", "vi"))
                print(f"{family}, mean of {len(mine)}: {system} {means}")


def tried(task: str, system: str) -> dict[str, Any]:
    name, _, seed = task.partition("-") if task.startswith("digits") else (task, "", "0")
    problem = load_problem(name, int(seed))
    train, test = problem.task.train, problem.task.test
    start, processor = time.perf_counter(), time.process_time()
    row: dict[str, Any] = {"task": task, "system": system}
    if system == "resolver":
        model = EntityResolver(spec=problem.spec, random_state=0)
        model.fit(train.data, clusters_of(train), train.groups)
        labels, posterior = model.predict_with_posterior(test.data, test.groups)
        row["interval"] = [int(end) for end in posterior.n_clusters_interval(0.9)]
    else:
        opponent = baselines.ModernBinary(spec=problem.spec).fit(train.data, train.clusters, train.groups)
        labels = opponent.predict(test.data, test.groups)
    gold = clusters_of(test)
    scores = evaluate(gold, labels)
    return row | {
        "f": scores["f"],
        "vi": scores["vi"],
        "clusters": len(np.unique(labels)),
        "truth": len(np.unique(gold)),
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - processor,
    }


def clusters_of(part: Labelled) -> np.ndarray:
    """A cluster is one within a document."""
    return canonical_labels(name_within_groups(part).tolist())


def line(row: dict[str, Any]) -> str:
    low, high = row.get("interval", ["", ""])
    interval = f"({low}-{high})" if low != "" else ""
    return (
        f"{row['task']:20} {row['system']:13} F {row['f']:.3f}  VI {row['vi']:.3f}  K {row['clusters']:4} of "
        f"{row['truth']:4} {interval:12} {row['seconds']:.0f} s, processor {row['cpu_seconds']:.0f} s"
    )


if __name__ == "__main__":
    main()
