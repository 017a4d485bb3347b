"""What rarity and each kind of comparison add: F with each left out in turn, on the sets whose proposal has it.

python -m benchmarks.kinds_ablation [--sets abt-buy,...] [--labels 30%] [--splits 2] [--most 2000] [--out FILE]

A kind that is left out is replaced by `edit` of the same columns, once a column. Without rarity, no comparison knows
how common a shared value or word is.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accuracy import SETS, Problem, problems, run
from scdp import compare
from scdp.compare import Comparison, features
from scdp.table.spec import Spec

WHOLE, NO_RARITY = "as proposed", "without rarity"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--labels", default="30%")
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--most", type=int, default=2000, help="records of a table at most")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows: list[dict[str, Any]] = []
    for name in options.sets.split(","):
        for seed in range(options.splits):
            for problem in problems(name, options.labels.split(","), seed, options.most):
                rows += list(run_variants(problem, seed))
        print_set(name, rows)
        if options.out:
            options.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def run_variants(problem: Problem, seed: int) -> Iterator[dict[str, Any]]:
    # As if they had been chosen by hand, so that every run takes the same ones.
    fields = list(problem.specs["proposed"].fields)
    yield run(problem, WHOLE, Spec("entity", fields), "resolver", seed)
    with without_rarity():
        yield run(problem, NO_RARITY, Spec("entity", fields), "resolver", seed)
    for kind in dict.fromkeys(field.kind for field in fields):
        if kind != "edit":
            yield run(problem, f"without {kind}", Spec("entity", without(fields, kind)), "resolver", seed)


def without(fields: list[Comparison], kind: str) -> list[Comparison]:
    """The comparisons with those of a kind replaced by edit distance."""
    made = [compare.edit(field.columns, missing=field.missing) if field.kind == kind else field for field in fields]
    return list({field.name: field for field in made}.values())


@contextmanager
def without_rarity() -> Iterator[None]:
    """No feature tells how common what two records share is."""
    before = features.Columns.of

    def plain(fields: Any) -> features.Columns:
        found = before(fields)
        layout = found.layout._replace(rarity=np.full(len(found.fields), -1))
        return found._replace(values=(), tokens=(), layout=layout)

    features.Columns.of = staticmethod(plain)  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        features.Columns.of = before  # type: ignore[method-assign]


def print_set(name: str, rows: list[dict[str, Any]]) -> None:
    mine = [row for row in rows if row["set"] == name]
    whole = np.mean([row["f"] for row in mine if row["comparisons"] == WHOLE])
    for variant in dict.fromkeys(row["comparisons"] for row in mine):
        f = np.mean([row["f"] for row in mine if row["comparisons"] == variant])
        print(f"{name:20} {variant:26} F {f:.3f}  {f - whole:+.3f}", flush=True)


if __name__ == "__main__":
    main()
