"""Where true pairs are lost: the share of them that is left after each stage of `scdp cluster`.

python -m benchmarks.scale_recall MODEL PEOPLE.parquet TRUTH.parquet
The files are those of `benchmarks.scale`, rows of both in one order.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from benchmarks.scale import codes
from scdp.compare.features import Copies
from scdp.engines import candidates
from scdp.engines.local import LocalEngine
from scdp.estimators.clustering import cluster_records
from scdp.estimators.model_folder import load_model
from scdp.table.readers import read_records

Labels = NDArray[np.int64]


class Watch:
    """Counts the true pairs that pass through each stage; `entity` is by row of what is compared."""

    def __init__(self, entity: Labels) -> None:
        self.entity = entity
        self.left: Counter[str] = Counter()

    def count(self, stage: str, left: NDArray[Any], right: NDArray[Any]) -> None:
        self.left[stage] += int((self.entity[left] == self.entity[right]).sum())

    def listen(self) -> None:
        """Stand between the stages."""
        find, link, sample, settle = (Copies.find, candidates.link_pairs, LocalEngine.sample, candidates.break_up)

        def find_copies(*given: Any) -> Copies:
            copies = find(*given)
            if len(copies.stays_with) == len(self.entity):
                self.entity = self.entity[copies.kept]
            return copies

        def link_pairs(comparer: Any, run: Any, left: Any, right: Any) -> Any:
            self.count("blocking", left, right)
            found = link(comparer, run, left, right)
            self.count("prefilter", found.left, found.right)
            return found

        def break_up(pairs: Any, n_records: int, ensemble: Any) -> Any:
            found = settle(pairs, n_records, ensemble)
            self.count("large components broken up", found.left, found.right)
            return found

        def sample_pairs(engine: Any, ensemble: Any, pairs: Any, *given: Any) -> Any:
            odds = ensemble.mean_log_odds(pairs.features)
            for name, least in (("log-odds of at least -3", -3.0), ("log-odds of at least 0", 0.0)):
                self.count(name, pairs.left[odds >= least], pairs.right[odds >= least])
            return sample(engine, ensemble, pairs, *given)

        Copies.find = find_copies  # type: ignore[method-assign, assignment]
        candidates.link_pairs = link_pairs
        candidates.break_up = break_up
        LocalEngine.sample = sample_pairs  # type: ignore[method-assign]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("people", type=Path)
    parser.add_argument("truth", type=Path)
    options = parser.parse_args()
    model: Any = load_model(options.model)
    model.engine = LocalEngine()
    records = read_records(options.people)
    with duckdb.connect() as connection:
        entity = codes(connection.sql(f"select entity from '{options.truth}'").to_arrow_table()["entity"])
    watch = Watch(entity[np.argsort(records["id"], kind="stable")])
    watch.listen()
    result = cluster_records(model, records)
    together, n_draws = 0.0, 0
    for _, labels in result.posterior.stored.label_chunks():
        together += sum(true_pairs(row, entity) for row in labels)
        n_draws += len(labels)
    found = dict(watch.left) | {
        "together in a draw, in the mean": together / n_draws,
        "together in the answer": true_pairs(result.codes, entity),
    }
    sizes, linked = np.bincount(entity), np.bincount(result.codes)
    n_true, n_linked = (int((each * (each - 1) // 2).sum()) for each in (sizes, linked))
    right = found["together in the answer"]
    print(f"{len(records):,} records, {n_true:,} true pairs; precision {right / n_linked:.4f}")
    for stage, n_left in found.items():
        print(f"| {stage} | {n_left / n_true:.4f} |")
    return 0


def true_pairs(labels: NDArray[Any], entity: Labels) -> int:
    """The pairs that are together both ways."""
    sizes = np.unique(labels.astype(np.int64) * (int(entity.max()) + 1) + entity, return_counts=True)[1]
    return int((sizes * (sizes - 1) // 2).sum())


if __name__ == "__main__":
    raise SystemExit(main())
