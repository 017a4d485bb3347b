"""Historical people, 50,578 records: learn from 30 % of the entities, cluster the rest, end to end, beside the bars.

python -m benchmarks.historical [--draws 60] [--seed 0] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.linkage import parts, shown
from scdp import EntityResolver
from scdp.blocking import candidate_pairs
from scdp.compare.features import Copies
from scdp.datasets import Labelled
from scdp.linkage.prefilter import MOST_UNFILTERED
from scdp.linkage.training.folds import canonical_labels
from scdp.metrics import evaluate
from scdp.paper.datasets import load_historical
from scdp.table.propose import proposed_comparisons
from scdp.table.spec import Spec

MOST_SECONDS = 60.0
LEAST_F = 0.83
LEAST_B_CUBED = 0.86


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    row = tried(*parts(load_historical("50k"), options.seed), options.draws)
    for key, value in row.items():
        print(f"{key:>20}  {shown(value)}")
    if options.out:
        options.out.write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")


def tried(train: Labelled, test: Labelled, n_draws: int) -> dict[str, Any]:
    known, gold = (canonical_labels(part.clusters.tolist()) for part in (train, test))
    start, busy = time.perf_counter(), time.process_time()
    spec = Spec("entity", proposed_comparisons(train.data, train.data.names))
    model = EntityResolver(spec=spec, n_draws=n_draws, random_state=0, n_jobs=-1)
    model.fit(train.data, known)
    fitted, busy_fitted = time.perf_counter(), time.process_time()
    labels, posterior = model.predict_with_posterior(test.data)
    ended, busy_ended = time.perf_counter(), time.process_time()
    scores = evaluate(gold, labels)
    low, high = (int(end) for end in posterior.n_clusters_interval(0.9))
    return {
        "train": len(train),
        "test": len(test),
        "draws": n_draws,
        **seconds("fit", fitted - start, busy_fitted - busy),
        **seconds("cluster", ended - fitted, busy_ended - busy_fitted),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        **blocked(model, test, gold),
        "p": scores["p"],
        "r": scores["r"],
        "f": scores["f"],
        "b_cubed": scores["b3"],
        "clusters": len(np.unique(labels)),
        "truth": len(np.unique(gold)),
        "interval": [low, high],
        "fast_enough": ended - start < MOST_SECONDS,
        "right_enough": bool(scores["f"] >= LEAST_F and scores["b3"] >= LEAST_B_CUBED),
    }


def seconds(what: str, wall: float, processor: float) -> dict[str, float]:
    return {f"{what}_seconds": round(wall, 1), f"{what}_processor": round(processor, 1)}


def blocked(model: EntityResolver, test: Labelled, gold: np.ndarray) -> dict[str, Any]:
    """What was compared, without copies of one record: candidates, and the share of true pairs among them."""
    fitted = model.fitted_
    spec = fitted.rows.spec
    copies = Copies.find(test.data, spec, None, np.full(len(test), -1))
    records = test.data.take(copies.kept)
    pairs = candidate_pairs(records, fitted.ladder.choose(records, spec).blocking)
    different = gold[copies.kept]
    kept = int((different[pairs.left] == different[pairs.right]).sum())
    return {
        "copies": len(test) - len(records),
        "candidates": len(pairs),
        "prefiltered": len(pairs) > MOST_UNFILTERED,
        "true_pairs_kept": kept / n_pairs(different),
    }


def n_pairs(cluster: np.ndarray) -> int:
    """Pairs that are together."""
    sizes = np.bincount(cluster)
    return int((sizes * (sizes - 1) // 2).sum())


if __name__ == "__main__":
    main()
