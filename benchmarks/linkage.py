"""Record linkage sets: train on 30 % of the entities, cluster the rest; the resolver against ModernBinary.

python -m benchmarks.linkage [--sets restaurant,febrl3,historical] [--systems resolver,modernbinary] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np

from scdp import EntityResolver
from scdp.datasets import Labelled
from scdp.linkage.training.folds import canonical_labels
from scdp.metrics import evaluate
from scdp.paper import baselines
from scdp.paper.datasets import load_febrl3, load_historical, load_restaurant
from scdp.table.propose import proposed_comparisons
from scdp.table.spec import Spec

SETS = {"restaurant": load_restaurant, "febrl3": load_febrl3, "historical": load_historical}
TRAIN_SHARE = 0.3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--systems", default="resolver,modernbinary")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in options.sets.split(","):
        for system in options.systems.split(","):
            rows.append(tried(name, system, *parts(SETS[name](), options.seed)))
            print("  ".join(f"{key} {shown(value)}" for key, value in rows[-1].items()), flush=True)
            if options.out:
                options.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def parts(items: Labelled, seed: int) -> tuple[Labelled, Labelled]:
    """Records of 30 % of the entities, and of all others."""
    entities = canonical_labels(items.clusters.tolist())
    order = np.random.default_rng(seed).permutation(entities.max() + 1)
    seen = np.isin(entities, order[: round(TRAIN_SHARE * len(order))])
    return items.take(np.flatnonzero(seen)), items.take(np.flatnonzero(~seen))


def tried(name: str, system: str, train: Labelled, test: Labelled) -> dict[str, Any]:
    fields = proposed_comparisons(train.data, train.data.names)
    spec = Spec("entity", fields)
    known, gold = (canonical_labels(part.clusters.tolist()) for part in (train, test))
    start = time.perf_counter()
    row: dict[str, Any] = {"set": name, "system": system, "train": len(train), "test": len(test)}
    if system == "resolver":
        model = EntityResolver(spec=spec, random_state=0).fit(train.data, known)
        fitted = time.perf_counter()
        labels, posterior = model.predict_with_posterior(test.data)
        row["interval"] = [int(end) for end in posterior.n_clusters_interval(0.9)]
    else:
        opponent = baselines.ModernBinary(spec=spec).fit(train.data, known)
        fitted = time.perf_counter()
        labels = opponent.predict(test.data)
    scores = evaluate(gold, labels)
    return row | {
        "f": scores["f"],
        "vi": scores["vi"],
        "clusters": len(np.unique(labels)),
        "truth": len(np.unique(gold)),
        "fit_seconds": round(fitted - start, 1),
        "predict_seconds": round(time.perf_counter() - fitted, 1),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def shown(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
