"""Whether the intervals of precision, recall, F and B-cubed hold the truth, and those of counts by segment.

python -m benchmarks.estimates [--sets rldata500,...] [--seeds 0,1,2,3,4] [--labels 30%] [--most 300] [--judged 50]
    [--out FILE]
python -m benchmarks.estimates --read FILE FILE ...     the summary of what several runs wrote

Of each development set, some clusters are labelled and others, up to `--most` records, are clustered; by turns the
answer is that of highest F, or one with a floor on precision, so that recalls differ. Judged records are drawn by the
design of `scdp estimate --draw` and answered by the truth. Segments are records whose first cell starts with the same
letter.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accuracy import TABLES, Problem, problems
from scdp import EntityResolver
from scdp.estimators.clustering import cluster_records
from scdp.metrics import evaluate
from scdp.partitions import number_first
from scdp.results.estimate import Judged, choose_chances, correct_expected, expect_by_record, measure_records

METRICS = {"precision": "p", "recall": "r", "f": "f", "b_cubed": "b3"}
ANSWERS = ("f", "precision=0.99", "f", "precision=0.995", "vi")
FEWEST = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default=",".join(TABLES))
    parser.add_argument("--seeds", default="0,1,2,3,4", help="a split of each set for each")
    parser.add_argument("--read", type=Path, nargs="+", metavar="FILE", help="sum up what runs wrote, and run nothing")
    parser.add_argument("--most", type=int, default=300, help="records to cluster")
    parser.add_argument("--labels", default="30%", help="labelled clusters, or a share of them")
    parser.add_argument("--judged", type=int, default=50, help="records that are judged")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows: list[dict[str, Any]] = []
    if options.read:
        rows = [row for path in options.read for row in json.loads(path.read_text(encoding="utf-8"))]
        print_summary(rows)
        return
    for seed in map(int, options.seeds.split(",")):
        for name in options.sets.split(","):
            for problem in problems(name, [options.labels], seed, options.most):
                rows.append(measure(problem, seed, options.judged))
                print(line(rows[-1]), flush=True)
                if options.out:
                    options.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print_summary(rows)


def measure(problem: Problem, seed: int, n_judged: int) -> dict[str, Any]:
    """One split: the truth, and the intervals of the draws alone, of the calibrated draws, and with judged records."""
    (spec,) = problem.specs.values()
    answer = ANSWERS[seed % len(ANSWERS)]
    model = EntityResolver(spec=spec, answer=answer, random_state=seed)
    model.fit(problem.train.data, problem.train.clusters)
    result = cluster_records(model, problem.test.data)
    labels, truth = number_first(result.labels), problem.test.clusters
    scores = evaluate(truth, labels)
    true = {name: float(scores[short]) for name, short in METRICS.items()}
    calibrated = result.posterior.expected_metrics(labels)
    result.posterior.reliability, kept = None, result.posterior.reliability
    plain = result.posterior.expected_metrics(labels)
    result.posterior.reliability = kept
    expected = expect_by_record(result.posterior, labels)
    chance = choose_chances(expected)
    item = np.random.default_rng(seed).choice(len(labels), n_judged, p=chance)
    found = measure_records(labels, np.bincount(labels)[labels].astype(float), truth.astype(np.int64))
    judged = Judged(item, chance[item], found[:, item])
    reviewed = correct_expected(expected, judged, labels, 0.9)
    return {
        "set": problem.name,
        "seed": seed,
        "answer": answer,
        "truth": true | {"n_clusters": len(np.unique(truth))},
        "draws": plain,
        "calibrated": calibrated,
        "judged": reviewed,
        "segments": count_segments(problem, result.posterior, truth),
        "line": None if kept is None else kept.to_words(),
    }


def count_segments(problem: Problem, posterior: Any, truth: np.ndarray) -> list[list[float]]:
    """By segment, the true number of entities, and the ends of its interval."""
    cells = problem.test.data[problem.test.data.names[0]]
    segment = np.array([(cell or " ").strip().lower()[:1] for cell in cells])
    rows = posterior.query(
        "SELECT segment, count(distinct entity) AS n FROM records GROUP BY segment", {"segment": segment.tolist()}
    ).rows()
    found = []
    for row in rows:
        items = segment == (row["segment"] or "")
        if items.sum() >= FEWEST:
            found.append([len(np.unique(truth[items])), row["n_low"], row["n_high"]])
    return found


def line(row: dict[str, Any]) -> str:
    parts = [f"{row['set']:<11} {row['seed']} {row['answer']:<15}"]
    for name in METRICS:
        value, kept = row["truth"][name], row["calibrated"][name]
        parts.append(
            f"{name} {value:.3f} in {kept['low']:.3f}..{kept['high']:.3f}{'' if holds(kept, value) else ' NO'}"
        )
    return "  ".join(parts)


def holds(interval: dict[str, float], value: float) -> bool:
    return interval["low"] - 1e-9 <= value <= interval["high"] + 1e-9


def print_summary(rows: list[dict[str, Any]]) -> None:
    recalls = [row["truth"]["recall"] for row in rows]
    print(f"\n{len(rows)} splits, true recalls {min(recalls):.2f} to {max(recalls):.2f}")
    for kind in ("draws", "calibrated", "judged"):
        for name in (*METRICS, "n_clusters"):
            if name in rows[0][kind]:
                held = sum(holds(row[kind][name], row["truth"][name]) for row in rows)
                width = np.mean([row[kind][name]["high"] - row[kind][name]["low"] for row in rows])
                print(f"{kind:<11} {name:<11} holds {held:>2} of {len(rows)}, mean width {width:.3f}")
    segments = [each for row in rows for each in row["segments"]]
    held = sum(low <= true <= high for true, low, high in segments)
    print(f"segments: {held} of {len(segments)} counts held, {held / max(len(segments), 1):.0%}")


if __name__ == "__main__":
    main()
