"""How honest the flagship's probabilities are: thirty splits by cluster, K's interval, and calibration of pairs.

python -m benchmarks.honesty [--out FILE] [--figure FILE] [--splits 30]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from scdp import EntityResolver
from scdp.datasets import Labelled
from scdp.folds import canonical_labels
from scdp.metrics import evaluate
from scdp.paper.datasets import load_coreference, load_digits_task, load_identity, load_references
from scdp.paper.specs import coreference_spec, identity_spec, references_spec
from scdp.table.records import Records
from scdp.table.spec import Spec

N_BINS = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--splits", type=int, default=30)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name, spec, train, test in splits(options.splits):
        rows.append(tried(name, spec, train, test))
        print(line(rows[-1]), flush=True)
        if options.out:
            options.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print(summary(rows))
    if options.figure:
        draw(rows, options.figure)


def splits(n: int) -> Iterator[tuple[str, Spec | None, Labelled, Labelled]]:
    """Data sets in turn; half of the clusters (documents, digits) train, the others are clustered."""
    sets = {
        "references": (whole(load_references("Freund")), references_spec()),
        "identity": (whole(load_identity()), identity_spec()),
        "coreference": (whole(load_coreference()), coreference_spec()),
        "digits": (None, None),
    }
    for number in range(n):
        name = list(sets)[number % len(sets)]
        rng = np.random.default_rng(number)
        labelled, spec = sets[name]
        items = digits(number) if labelled is None else labelled
        units = canonical_labels((items.clusters if items.groups is None else items.groups).tolist())
        seen = np.isin(units, rng.permutation(units.max() + 1)[: (units.max() + 1) // 2])
        yield f"{name}-{number}", spec, items.take(np.flatnonzero(seen)), items.take(np.flatnonzero(~seen))


def whole(task: Any) -> Labelled:
    """Training and test part of a task together."""
    first, second = task.train, task.test
    data = Records({name: np.concatenate([first.data[name], second.data[name]]) for name in first.data.names})
    groups = None if first.groups is None else np.concatenate([first.groups, second.groups])
    return Labelled(
        data,
        np.concatenate([first.clusters, second.clusters]),
        np.concatenate([first.ids, second.ids]),
        groups,
    )


def digits(seed: int) -> Labelled:
    task = load_digits_task(seed)
    both = task.train, task.test
    return Labelled(
        np.vstack([part.data for part in both]),
        np.concatenate([part.clusters for part in both]),
        np.concatenate([part.ids for part in both]),
    )


def clusters_of(part: Labelled) -> np.ndarray:
    """A cluster is one within a document."""
    names = part.clusters.tolist()
    return canonical_labels(names if part.groups is None else zip(part.groups.tolist(), names, strict=True))


def tried(name: str, spec: Spec | None, train: Labelled, test: Labelled) -> dict[str, Any]:
    start = time.perf_counter()
    model = EntityResolver(spec=spec, random_state=0).fit(train.data, clusters_of(train), train.groups)
    fitted = time.perf_counter()
    labels, posterior = model.predict_with_posterior(test.data, test.groups)
    gold = clusters_of(test)
    low, high = posterior.n_clusters_interval(0.9)
    scores = evaluate(gold, labels)
    bins = reliability(posterior, gold, test.groups)
    return {
        "split": name,
        "f": scores["f"],
        "vi": scores["vi"],
        "clusters": len(np.unique(labels)),
        "truth": len(np.unique(gold)),
        "interval": [int(low), int(high)],
        "bins": bins,
        "ece": calibration_error(bins),
        "fit_seconds": round(fitted - start, 1),
        "predict_seconds": round(time.perf_counter() - fitted, 1),
    }


def reliability(posterior: Any, gold: np.ndarray, groups: np.ndarray | None) -> list[list[float]]:
    """By bin of probability: pairs, sum of probabilities, pairs that are together. Pairs within documents only."""
    draws = posterior.draws.reshape(-1, len(gold))
    left, right = np.triu_indices(len(gold), k=1)
    if groups is not None:
        inside = groups[left] == groups[right]
        left, right = left[inside], right[inside]
    together = np.zeros(len(left))
    for draw in draws:
        together += draw[left] == draw[right]
    probability = together / len(draws)
    place = np.minimum((probability * N_BINS).astype(int), N_BINS - 1)
    truth = gold[left] == gold[right]
    counts = (np.bincount(place, weights, N_BINS).tolist() for weights in (None, probability, truth))
    return [list(each) for each in zip(*counts, strict=True)]


def calibration_error(bins: list[list[float]]) -> float:
    """The mean distance of predicted from observed, weighted by pairs."""
    table = np.array(bins)
    return float(np.abs(table[:, 1] - table[:, 2]).sum() / table[:, 0].sum())


def uncertain_error(bins: list[list[float]]) -> float:
    """The same among pairs that are not as good as certain (probability from .1 to .9)."""
    table = np.array(bins)[1:-1]
    return float(np.abs(table[:, 1] - table[:, 2]).sum() / max(table[:, 0].sum(), 1))


def line(row: dict[str, Any]) -> str:
    low, high = row["interval"]
    verdict = "covers" if low <= row["truth"] <= high else "misses"
    return (
        f"{row['split']:16} F {row['f']:.3f}  VI {row['vi']:.3f}  K {row['clusters']:4}  90 % {low:4}-{high:4} "
        f"{verdict} {row['truth']:4}  ECE {row['ece']:.4f}  fit {row['fit_seconds']:5.1f} s  "
        f"predict {row['predict_seconds']:5.1f} s"
    )


def summary(rows: list[dict[str, Any]]) -> str:
    covered = [low <= row["truth"] <= high for row in rows for low, high in [row["interval"]]]
    bins = np.sum([row["bins"] for row in rows], axis=0).tolist()
    errors = np.mean([row["ece"] for row in rows])
    return (
        f"{len(rows)} splits: the 90 % interval of K covers the truth in {np.mean(covered):.0%}; expected calibration "
        f"error {errors:.4f} in the mean over splits, {calibration_error(bins):.4f} over all pairs, "
        f"{uncertain_error(bins):.3f} among uncertain pairs (.1 to .9)"
    )


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """The reliability diagram, one line a data set."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 6), layout="constrained")
    axes.plot([0, 1], [0, 1], color="0.7", lw=1)
    for name in sorted({row["split"].rsplit("-", 1)[0] for row in rows}):
        mine = [row["bins"] for row in rows if row["split"].rsplit("-", 1)[0] == name]
        table = np.sum(mine, axis=0)
        filled = table[table[:, 0] >= 20]
        axes.plot(filled[:, 1] / filled[:, 0], filled[:, 2] / filled[:, 0], marker="o", label=name)
    axes.set_xlabel("probability of being together")
    axes.set_ylabel("share that is together")
    axes.set_title("Reliability over splits by cluster")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
