"""Every opponent on the four tasks: pairwise F, VI, clusters and time; prints a table and keeps a JSON of it.

python -m benchmarks.opponents [--tasks digits,freund,...] [--systems Binary,...] [--out FILE] [--digits-seeds 10]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from scdp.datasets import Task
from scdp.metrics import evaluate
from scdp.paper import baselines
from scdp.paper.datasets import load_coreference, load_digits_task, load_identity, load_references
from scdp.paper.tasks import coreference_spec, identity_spec, references_spec
from scdp.table.spec import Spec

ORACLES = ("OracleKMeans", "XingK", "XingKDiagonal")
TASKS: dict[str, tuple[Callable[[], Task], Spec | None]] = {
    "digits": (load_digits_task, None),
    "freund": (lambda: load_references("Freund"), references_spec()),
    "kearns": (lambda: load_references("Kearns"), references_spec()),
    "schapire": (lambda: load_references("Schapire"), references_spec()),
    "identity": (load_identity, identity_spec()),
    "coreference": (load_coreference, coreference_spec()),
}
SYSTEMS: dict[str, Callable[[Spec | None], baselines.Baseline]] = {
    "OracleKMeans": lambda spec: baselines.OracleKMeans(spec=spec),
    "XingK": lambda spec: baselines.XingK(spec=spec, verbose=True),
    "XingKDiagonal": lambda spec: baselines.XingK(form="diagonal", spec=spec, verbose=True),
    "DPMixture": lambda spec: baselines.DPMixture(),
    "Binary": lambda spec: baselines.Binary(spec=spec, verbose=True),
    "ModernBinary": lambda spec: baselines.ModernBinary(spec=spec, verbose=True),
    "GraphPartition": lambda spec: baselines.GraphPartition(spec=spec, verbose=True),
    "ClusterSVM": lambda spec: baselines.ClusterSVM(spec=spec, verbose=True),
    "SameHead": lambda spec: baselines.SameHead(),
    "NameMatch": lambda spec: baselines.NameMatch(),
}
ONLY = {
    "DPMixture": ("digits",),
    "XingKDiagonal": ("digits",),
    "SameHead": ("coreference",),
    "NameMatch": ("identity",),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--digits-seeds", type=int, default=1, help="digits of seeds 0, 1, ...")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for system in options.systems.split(","):
        for name, task, spec in wanted(options.tasks.split(","), options.digits_seeds):
            if name.split("-")[0] in ONLY.get(system, (name.split("-")[0],)):
                rows.append(run(system, name, task, spec))
                print(line(rows[-1]), flush=True)
                if options.out:
                    options.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    summarize_digits(rows)


def wanted(names: list[str], n_seeds: int) -> Iterator[tuple[str, Task, Spec | None]]:
    for name in names:
        load, spec = TASKS[name]
        if name != "digits":
            yield name, load(), spec
            continue
        for seed in range(n_seeds):
            yield f"digits-{seed}", load_digits_task(seed=seed), None


def run(system: str, name: str, task: Task, spec: Spec | None) -> dict[str, Any]:
    start, cpu = time.monotonic(), time.process_time()
    model = SYSTEMS[system](spec).fit(task.train.data, task.train.clusters, task.train.groups)
    told = {"gold": task.test.clusters} if system in ORACLES else {}
    labels = model.predict(task.test.data, task.test.groups, **told)
    return {
        "task": name,
        "system": system,
        "metrics": evaluate(task.test.clusters, labels),
        "clusters": len(np.unique(labels)),
        "gold_clusters": task.test.n_clusters,
        "seconds": time.monotonic() - start,
        "cpu_seconds": time.process_time() - cpu,
        "learned": learned(model),
    }


def learned(model: baselines.Baseline) -> dict[str, Any]:
    """What the system says it chose and used: numbers and short texts ending in an underscore."""
    simple = (int, float, str, tuple)
    return {k: v for k, v in vars(model).items() if k.endswith("_") and isinstance(v, simple)}


def line(row: dict[str, Any]) -> str:
    scores = " ".join(f"{name.upper()} {row['metrics'][name]:.3f}" for name in ("p", "r", "f", "vi"))
    clusters = f"{row['clusters']:4} clusters of {row['gold_clusters']}"
    taken = f"{row['seconds']:.0f} s, cpu {row['cpu_seconds']:.0f} s"
    return f"{row['task']:12} {row['system']:14} {scores} {clusters}  {taken}"


def summarize_digits(rows: list[dict[str, Any]]) -> None:
    for system in dict.fromkeys(row["system"] for row in rows):
        scores = [r["metrics"]["f"] for r in rows if r["system"] == system and r["task"].startswith("digits")]
        if len(scores) > 1:
            spread = f"{min(scores):.3f} to {max(scores):.3f}"
            print(f"digits, {len(scores)} seeds: {system} F mean {np.mean(scores):.3f}, {spread}")


if __name__ == "__main__":
    main()
