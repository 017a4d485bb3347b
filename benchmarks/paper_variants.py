"""SCDP-3 by the variant of its equation: what each gives on the paper's tasks, one line of JSON for each fit.

python -m benchmarks.paper_variants RUN.jsonl run --tasks digits,references --features raw --sweeps 60
python -m benchmarks.paper_variants RUN.jsonl show

A variant is one of docs/scdp3.md with a rate ("types:0.1") and, on vectors, the paper's own moves ("mean+paper").
SCDP-1 stands beside them. Lines that are there already are not made again.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from scdp import metrics
from scdp.paper.systems import Effort, make_chain_runner
from scdp.paper.tasks import find_published, load_problem

VARIANTS = (
    "scdp1", "normalized", "mean", "published", "types", "density", "types:0.1", "density:0.1", "mean:0.1",
    "normalized:0.01",
)  # fmt: skip


def options_of(variant: str) -> dict[str, Any]:
    """What SCDP is asked for beyond its model."""
    name, _, scheme = variant.partition("+")
    variant, _, rate = name.partition(":")
    options: dict[str, Any] = {"conditioning": variant, "rate": float(rate or 1.0)}
    return options | ({"scheme": scheme} if scheme else {})


def fit(task: str, features: str, variant: str, effort: Effort) -> dict[str, Any]:
    problem = load_problem(task, 0, features)
    model, options = ("scdp1", {}) if variant == "scdp1" else ("scdp3", options_of(variant))
    outcome = make_chain_runner(model, **options)(problem, effort)
    found = metrics.evaluate(problem.task.test.clusters, outcome.labels)
    scores = {name: round(found[name], 4) for name in ("f", "p", "r", "vi")}
    return scores | {"clusters": len(set(outcome.labels.tolist())), "note": outcome.note}


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(arguments: argparse.Namespace) -> None:
    done = [{key: value for key, value in each.items() if key != "found"} for each in read(arguments.out)]
    effort = Effort(arguments.chains, arguments.sweeps, arguments.seed)
    for task in arguments.tasks.split(","):
        for features in arguments.features.split(","):
            for variant in arguments.variants.split(","):
                entry = {
                    "task": task, "features": features, "variant": variant,
                    "chains": effort.chains, "sweeps": effort.sweeps, "seed": effort.seed,
                }  # fmt: skip
                if entry in done:
                    continue
                try:
                    found = fit(task, features, variant, effort)
                except Exception as error:  # a breakdown is a finding
                    found = {"error": f"{type(error).__name__}: {error}"[:200]}
                with arguments.out.open("a") as file:
                    file.write(json.dumps(entry | {"found": found}) + "\n")


def show(path: Path) -> str:
    """A Markdown table: F and the number of clusters of each variant on each task and scale."""
    fits = read(path)
    columns = list(dict.fromkeys((each["task"], each["features"]) for each in fits))
    lines = [
        "| variant | " + " | ".join(f"{task}, {features}" for task, features in columns) + " |",
        "|---|" + "---|" * len(columns),
    ]
    published = [find_published(task, "scdp3") or {} for task, _ in columns]
    lines.append("| the paper | " + " | ".join(f"{each['f']:.3f}" for each in published) + " |")
    for variant in dict.fromkeys(each["variant"] for each in fits):
        cells = []
        for task, features in columns:
            own = [
                each["found"]
                for each in fits
                if (each["task"], each["features"], each["variant"]) == (task, features, variant)
            ]
            cells.append(cell(own[-1]) if own else "")
        lines.append(f"| {variant} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def cell(found: dict[str, Any]) -> str:
    return "refused" if "error" in found else f"{found['f']:.3f} ({found['clusters']})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("what", choices=("run", "show"))
    parser.add_argument("--tasks", default="digits,identity,coreference,references")
    parser.add_argument("--features", default="unit,raw")
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--chains", type=int, default=2)
    parser.add_argument("--sweeps", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.what == "show":
        print(show(arguments.out))
    else:
        run(arguments)


if __name__ == "__main__":
    main()
