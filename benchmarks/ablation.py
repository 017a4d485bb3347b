"""What each part of the flagship adds: the same tasks with one part changed at a time.

python -m benchmarks.ablation [--tasks references,identity,...] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.honesty import clusters_of
from scdp.compare.distances import compute_distances
from scdp.estimators.inputs import Points, codes
from scdp.linkage.learned import Choices, LearnedRestaurant, train
from scdp.linkage.neighbourhood import VectorView, units
from scdp.linkage.pairs import Pairs
from scdp.linkage.sources import PairSource, VectorSource, pairs_of
from scdp.metrics import evaluate
from scdp.paper.experiments.tasks import load_problem
from scdp.posterior import Posterior

WHOLE = Choices()
VARIANTS = {
    "the flagship": WHOLE,
    "without boosted trees": replace(WHOLE, boosted=False),
    "without seating again": replace(WHOLE, n_again=0),
    "one member instead of twelve": replace(WHOLE, n_members=1),
    "two reference types": replace(WHOLE, n_types=2),
}
TASKS = "references,references-kearns,references-schapire,identity,coreference,digits-0,digits-1,digits-2"
N_DRAWS = 120


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", default=TASKS)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for task in options.tasks.split(","):
        name, _, seed = task.partition("-") if task.startswith("digits") else (task, "", "0")
        problem = load_problem(name, int(seed or 0))
        for row in on_task(task, problem):
            rows.append(row)
            print(
                f"{task:20} {row['variant']:34} F {row['f']:.3f}  VI {row['vi']:.3f}  K {row['clusters']:4} of "
                f"{row['truth']:4} ({row['interval'][0]}-{row['interval'][1]})  {row['seconds']:.0f} s",
                flush=True,
            )
            if options.out:
                options.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def on_task(task: str, problem: Any) -> list[dict[str, Any]]:
    source, new, cluster, group = prepared(problem)
    gold = clusters_of(problem.task.test)
    vectors = isinstance(source, VectorSource)
    rows = []
    for variant, choices in VARIANTS.items():
        if vectors and variant == "without boosted trees":
            continue  # vectors are never judged by trees
        wanted = replace(choices, boosted=False) if vectors else choices
        start = time.perf_counter()
        sign = np.full(new.n_features, -1)
        restaurant, _ = train(source, cluster, group, sign, wanted, seed=0)
        posterior = drawn(restaurant, new)
        rows.append(scored(task, variant, posterior, gold, time.perf_counter() - start))
        if variant == "the flagship":
            rows.append(one_draw(task, posterior, gold))
    return rows


def prepared(problem: Any) -> tuple[Any, Pairs, np.ndarray, np.ndarray]:
    """What to learn from, the pairs of the test items, and clusters and documents of the training items."""
    train_part, test = problem.task.train, problem.task.test
    cluster = clusters_of(train_part)
    group = np.zeros(len(cluster), np.int64) if train_part.groups is None else codes(train_part.groups)
    if problem.spec is None:
        rows = Points.of(np.asarray(train_part.data), True)
        view = VectorView.of(rows.values, cluster, rows.mean, units(rows.scale))
        return VectorSource(rows.values, None, view), view.pairs(np.asarray(test.data), None), cluster, group
    spec = problem.spec.fit(train_part.data)
    known, new = (pairs_of(compute_distances(part.data, spec, part.groups)) for part in (train_part, test))
    return PairSource(known), new, cluster, group


def drawn(restaurant: LearnedRestaurant, new: Pairs) -> Posterior:
    draws = restaurant.draw(new, np.full(new.n_items, -1), N_DRAWS, seed=1)
    return Posterior(draws[None])


def scored(task: str, variant: str, posterior: Posterior, gold: np.ndarray, seconds: float) -> dict[str, Any]:
    labels = posterior.point_estimate("vi", random_state=0)
    scores = evaluate(gold, labels)
    low, high = posterior.n_clusters_interval(0.9)
    return {
        "task": task,
        "variant": variant,
        "f": scores["f"],
        "vi": scores["vi"],
        "clusters": len(np.unique(labels)),
        "truth": len(np.unique(gold)),
        "interval": [int(low), int(high)],
        "seconds": seconds,
    }


def one_draw(task: str, posterior: Posterior, gold: np.ndarray) -> dict[str, Any]:
    """The mean over single draws, in place of the point estimate of all of them."""
    scores = [evaluate(gold, draw) for draw in posterior.draws[0, ::6]]
    low, high = posterior.n_clusters_interval(0.9)
    return {
        "task": task,
        "variant": "one draw, not the point estimate",
        "f": float(np.mean([each["f"] for each in scores])),
        "vi": float(np.mean([each["vi"] for each in scores])),
        "clusters": round(float(posterior.n_clusters.mean())),
        "truth": len(np.unique(gold)),
        "interval": [int(low), int(high)],
        "seconds": 0.0,
    }


if __name__ == "__main__":
    main()
