"""What each part of the resolver adds: the same tasks with one part left out at a time.

python -m benchmarks.ablation [--tasks references,identity,...] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.resolver import clusters_of
from scdp.compare.features import Columns, Comparer, Layout, Pairs
from scdp.estimators.inputs import Points, codes
from scdp.linkage.sources import RecordSource, VectorSource, VectorView, units
from scdp.linkage.training import Choices, fit_ensemble, held_out
from scdp.linkage.training.folds import LabelledSource
from scdp.metrics import evaluate
from scdp.paper.tasks import load_problem
from scdp.posterior import Posterior
from scdp.table import records_from

TASKS = "references,references-kearns,references-schapire,identity,coreference,digits-0,digits-1,digits-2"
N_DRAWS = 120
WHOLE = Choices()


@dataclass(frozen=True)
class Variant:
    """The resolver with something left out."""

    choices: Choices = WHOLE
    evidence: bool = True
    shift: bool = True


VARIANTS = {
    "the resolver": Variant(),
    "without evidence": Variant(evidence=False),
    "without boosted trees": Variant(replace(WHOLE, boosted=False)),
    "without rescans": Variant(replace(WHOLE, n_rescans=0)),
    "without calibration shift": Variant(shift=False),
    "one member": Variant(replace(WHOLE, n_members=1)),
}


class Prepared(NamedTuple):
    """What to learn from, the pairs of the test part, and how features are laid out (None: no evidence)."""

    source: LabelledSource
    new: Pairs
    cluster: np.ndarray
    group: np.ndarray
    sign: np.ndarray
    layout: Layout | None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", default=TASKS)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for task in options.tasks.split(","):
        name, _, seed = task.partition("-") if task.startswith("digits") else (task, "", "0")
        for row in run_variants(task, load_problem(name, int(seed or 0))):
            rows.append(row)
            print(
                f"{task:20} {row['variant']:34} F {row['f']:.3f}  VI {row['vi']:.3f}  K {row['clusters']:4} of "
                f"{row['truth']:4} ({row['interval'][0]}-{row['interval'][1]})  {row['seconds']:.0f} s",
                flush=True,
            )
            if options.out:
                options.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def run_variants(task: str, problem: Any) -> Iterator[dict[str, Any]]:
    prepared = prepare(problem)
    gold = clusters_of(problem.task.test)
    for name, variant in VARIANTS.items():
        if prepared.layout is None and not variant.evidence:
            continue  # vectors have none
        start = time.perf_counter()
        posterior = resolve(prepared, variant)
        yield score(task, name, posterior, gold, time.perf_counter() - start)
        if name == "the resolver":
            yield score_draws(task, posterior, gold)


def prepare(problem: Any) -> Prepared:
    train, test = problem.task.train, problem.task.test
    cluster = clusters_of(train)
    group = np.zeros(len(cluster), np.int64) if train.groups is None else codes(train.groups)
    # A cluster is one within a group.
    cluster = np.unique([cluster, group], axis=1, return_inverse=True)[1].ravel()
    if problem.spec is None:
        rows = Points.of(np.asarray(train.data), True)
        view = VectorView.of(rows.values, cluster, rows.mean, units(rows.scale))
        new = view.pairs(np.asarray(test.data), None)
        source = VectorSource(rows.values, None, view)
        return Prepared(source, new, cluster, group, np.full(new.n_features, -1), None)
    spec = problem.spec.fit(train.data)
    columns = Columns.of(spec.fields)
    known = None if train.groups is None else group
    records = RecordSource.of(records_from(train.data), spec, np.arange(len(cluster)), known)
    new = Comparer.of(records_from(test.data), spec.fields).compare_all(test.groups)
    return Prepared(records, new, cluster, group, columns.sign, columns.layout)


def resolve(prepared: Prepared, variant: Variant) -> Posterior:
    source, new, cluster, group, sign, layout = prepared
    vectors = layout is None
    choices = replace(variant.choices, boosted=False) if vectors else variant.choices
    with limit_shifts(variant.shift):
        kept = layout if variant.evidence else None
        ensemble, _ = fit_ensemble(source, cluster, group, kept, sign, choices, seed=0)
    there = ensemble.set_to(new.features, new.features, len(new), new.n_items)
    return Posterior(there.sample(new, np.full(new.n_items, -1), N_DRAWS, seed=1)[None])


@contextmanager
def limit_shifts(any_shift: bool) -> Iterator[None]:
    """Without any shift, none but 0 is tried."""
    before = held_out.SHIFTS
    held_out.SHIFTS = before if any_shift else np.zeros(1)
    try:
        yield
    finally:
        held_out.SHIFTS = before


def score(task: str, variant: str, posterior: Posterior, gold: np.ndarray, seconds: float) -> dict[str, Any]:
    labels = posterior.point_estimate("vi", random_state=0)
    scores = evaluate(gold, labels)
    return _row(task, variant, scores["f"], scores["vi"], len(np.unique(labels)), posterior, gold, seconds)


def score_draws(task: str, posterior: Posterior, gold: np.ndarray) -> dict[str, Any]:
    """The mean over single draws, in place of the point estimate of all of them."""
    scores = [evaluate(gold, draw) for draw in posterior.draws[0, ::6]]
    f, vi = (float(np.mean([each[name] for each in scores])) for name in ("f", "vi"))
    n_clusters = round(float(posterior.n_clusters.mean()))
    return _row(task, "one draw, not the point estimate", f, vi, n_clusters, posterior, gold, 0.0)


def _row(
    task: str,
    variant: str,
    f: float,
    vi: float,
    n_clusters: int,
    posterior: Posterior,
    gold: np.ndarray,
    seconds: float,
) -> dict[str, Any]:
    low, high = posterior.n_clusters_interval(0.9)
    return {
        "task": task,
        "variant": variant,
        "f": f,
        "vi": vi,
        "clusters": n_clusters,
        "truth": len(np.unique(gold)),
        "interval": [int(low), int(high)],
        "seconds": seconds,
    }


if __name__ == "__main__":
    main()
