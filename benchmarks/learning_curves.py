"""F by number of labelled clusters: the resolver, ModernBinary with the same comparisons, and Splink without labels.

python -m benchmarks.learning_curves [--sets crm,...] [--labels 20,60,200,0] [--seeds 1] [--size 1000] [--out FILE]

Cells are those of `benchmarks.honesty` with labels drawn at random (0: all of the half that may be labelled).
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accuracy import Part, Problem, line, run
from benchmarks.honesty import Cell, loaders, split
from scdp.estimators.checks import propose_spec
from scdp.table import Records
from scdp.table.spec import Spec

SETS = "crm,restaurant,rldata500,abt-buy,dblp-acm,historical,people"
SYSTEMS = ("resolver", "modernbinary", "splink")


def problem_of(cell: Cell) -> Problem:
    items = loaders()[cell.name]()
    train, known, new, gold = split(items, cell)
    spec = Spec("entity", items.spec.fields) if items.spec else propose_spec(train)
    compared = {name for field in spec.fields for name in field.columns}
    train, new = (Records({n: part[n] for n in sorted(compared)}, part.source) for part in (train, new))
    labels = str(cell.n_labelled) if cell.n_labelled else "all"
    return Problem(cell.name, labels, Part(train, known), Part(new, gold), {"given": spec})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default=SETS)
    parser.add_argument("--labels", default="20,60,200,0")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--size", type=int, default=1000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows: list[dict[str, Any]] = []
    for name in options.sets.split(","):
        for n in map(int, options.labels.split(",")):
            for seed in range(options.seeds):
                problem = problem_of(Cell(name, n, "random", options.size, seed))
                for system in SYSTEMS:
                    rows.append(run(problem, "given", problem.specs["given"], system, seed))
                    print(line(rows[-1]), flush=True)
                if options.out:
                    options.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print_table(rows)


def print_table(rows: list[dict[str, Any]]) -> None:
    """One row a set and number of labels: mean F of each system."""
    print("\n| set | labelled clusters | resolver | ModernBinary | Splink, no label |\n|---|---|---|---|---|")
    for name, labels in dict.fromkeys((row["set"], row["labels"]) for row in rows):
        own = [row for row in rows if (row["set"], row["labels"]) == (name, labels)]
        means = [np.mean([row["f"] for row in own if row["system"] == system]) for system in SYSTEMS]
        print(f"| {name} | {labels} | " + " | ".join(f"{mean:.3f}" for mean in means) + " |")


if __name__ == "__main__":
    main()
