"""SCDP-3's three variants side by side on development data; writes the table that docs/scdp3.md shows.

Digits: the five TRAINING digits only, two of them hidden in turn, so that no test digit is looked at. Simulated: a
data set with known truth, half of its clusters hidden. Two chains from different starts.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from scdp import SCDP, metrics
from scdp.paper.datasets import load_digits_task

PAGE = Path(__file__).parent.parent / "docs" / "scdp3.md"
START, END = "<!-- table: python -m benchmarks.conditioning -->", "<!-- end of table -->"
HIDDEN_DIGITS = [(1, 3), (5, 8), (9, 1)]
VARIANTS = ("published", "normalized", "mean")


def digit_splits() -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Points, labels with two digits hidden, and the truth; at most 100 images a digit."""
    part = load_digits_task(seed=0, fallback=True).train
    keep = np.concatenate([np.flatnonzero(part.clusters == d)[:100] for d in np.unique(part.clusters)])
    points, truth = np.asarray(part.data)[keep], part.clusters[keep].astype(np.int64)
    for hidden in HIDDEN_DIGITS:
        yield points, np.where(np.isin(truth, hidden), -1, truth), truth


def simulated_splits() -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Twelve clusters of about 25 items in six features of unequal worth; six of them hidden."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        centres = rng.normal(size=(12, 6)) * np.array([3, 3, 2, 2, 1, 0.2])
        truth = rng.integers(12, size=300)
        points = centres[truth] + rng.normal(size=(300, 6)) * np.array([0.5, 0.7, 0.5, 1.0, 0.5, 1.5])
        yield points, np.where(truth < 6, truth, -1), truth


def study(splits: list[tuple[np.ndarray, np.ndarray, np.ndarray]], variant: str) -> list[str]:
    """Means over splits: F, clusters found and true, clusters opened a sweep, types, improper coordinates."""
    rows = []
    for points, known, truth in splits:
        model = SCDP("scdp3", conditioning=variant, n_chains=2, n_sweeps=240, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(points, known)
        hidden, traces = known < 0, model.posterior_.traces
        coordinates = traces["n_clusters"].mean() * points.shape[1]
        rows.append(
            [
                metrics.f_score(truth[hidden], model.labels_[hidden]),
                len(np.unique(model.labels_[hidden])),
                len(np.unique(truth[hidden])),
                traces["opened_clusters"].mean(),
                traces["n_types"].mean(),
                100 * traces["improper_means"].mean() / coordinates,
            ]
        )
    f, found, true, opened, types, improper = np.mean(rows, axis=0)
    return [f"{f:.3f}", f"{found:.1f}", f"{true:.1f}", f"{opened:.2f}", f"{types:.1f}", f"{improper:.1f} %"]


def main() -> int:
    lines = [
        "| task | variant | F | clusters | true | opened a sweep | types | improper coordinates |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for task, splits in (("digits", list(digit_splits())), ("simulated", list(simulated_splits()))):
        for variant in VARIANTS:
            lines.append(f"| {task} | {variant} | " + " | ".join(study(splits, variant)) + " |")
            print(lines[-1], flush=True)
    text = PAGE.read_text(encoding="utf-8")
    head, rest = text.split(START)
    PAGE.write_text(head + START + "\n" + "\n".join(lines) + "\n" + END + rest.split(END)[1], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
