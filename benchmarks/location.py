"""What parts of the law are worth with few labels: cells of the honesty grid with and without each.

Members are told where strangers end, sure pairs of the table teach what members of a cluster look like, and the
functions of members are tilted by less than the prior would.

python -m benchmarks.location [--sets rldata500,...] [--labels 20] [--size 1200] [--seeds 2]

Printed by cell: F, the number of clusters with its 90 % interval, and the least and largest gap of a member, in nats.
"""

from __future__ import annotations

import argparse
import warnings
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.honesty import Cell, try_cell
from scdp import linkage as module
from scdp.linkage import Ensemble, evidence
from scdp.linkage.training import posterior

SETS = "rldata500,restaurant,people,abt-buy,dblp-acm,historical,citations"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default=SETS)
    parser.add_argument("--labels", type=int, default=20)
    parser.add_argument("--size", type=int, default=1200)
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows: dict[str, list[dict[str, Any]]] = {}
    for name in options.sets.split(","):
        for seed in range(options.seeds):
            cell = Cell(name, options.labels, "duplicates", options.size, seed)
            for way, change in WAYS.items():
                gaps: list[float] = []
                with change(gaps):
                    row = try_cell(cell)
                assert row is not None
                rows.setdefault(way, []).append(row)
                seen = f"  gaps {min(gaps):.1f} to {max(gaps):.1f}" if gaps else ""
                print(f"{name:12} {seed} {way:14} {line(row)}{seen}", flush=True)
    for way, found in rows.items():
        widths = [(row["interval"][1] - row["interval"][0]) / row["truth"] for row in found]
        print(
            f"{way}: mean F {np.mean([row['f'] for row in found]):.3f}, K covered in "
            f"{sum(row['covers'] for row in found)} of {len(found)}, mean width {np.mean(widths):.2f} of K"
        )


@contextmanager
def as_learned(gaps: list[float]) -> Any:
    """Members keep the constants that they learned."""
    with patch.object(Ensemble, "locate", lambda self, pairs, n_records: self):
        yield


@contextmanager
def watched(gaps: list[float]) -> Any:
    """As it is, with the gaps kept."""
    measure = module.measure_gaps

    def keep(*arguments: Any) -> Any:
        found = measure(*arguments)
        gaps.extend([] if found is None else found.tolist())
        return found

    with patch.object(module, "measure_gaps", keep):
        yield


@contextmanager
def without_sure_pairs(gaps: list[float]) -> Any:
    """Labelled pairs and the typical curve alone teach what members of a cluster look like."""
    with patch.object(evidence, "MOST_SURE", 1e-9):
        yield


@contextmanager
def tilted(gaps: list[float]) -> Any:
    """Functions of members are tilted as far as the prior does it."""
    with patch.object(posterior, "TILT", 1.0):
        yield


WAYS = {"as learned": as_learned, "no sure pairs": without_sure_pairs, "tilted": tilted, "as it is": watched}


def line(row: dict[str, Any]) -> str:
    low, high = row["interval"]
    return f"F {row['f']:.3f}  K {row['clusters']} ({low} to {high}) of {row['truth']}  {row['verdict']}"


if __name__ == "__main__":
    main()
