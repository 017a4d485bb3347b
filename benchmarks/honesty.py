"""How honest the resolver is, from few labels to many: F, the interval of K, calibration of pairs, and the verdict.

python -m benchmarks.honesty [--out FILE] [--figure FILE] [--sets crm,...] [--seeds 1] [--jobs 2] [--sizes 300,1500]

A cell is a data set, a number of labelled clusters, how these were chosen, and a number of records. Labelled clusters
are drawn from one half of the clusters (of `crm` from all), records to cluster from the other half. The summary is over
all cells of the file; `--summary FILE` prints it again. Data sets are those in $SCDP_DATA. Some larger tables are there
if they are named: `--sets febrl3,historical,people-20k,citations-20k,historical-50k --sizes 10000`.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from scdp import EntityResolver, Spec, compare
from scdp.errors import InputError
from scdp.estimators.clustering import cluster_records
from scdp.metrics import f_score
from scdp.table import Records

LABELS = (20, 60, 200, 0)
HOW = ("random", "duplicates")
N_BINS = 10
MOST_ITEMS = 3000


class Items(NamedTuple):
    """Records (or vectors) with their true clusters; `other` is a table to learn from, where it is another one."""

    data: Any
    clusters: np.ndarray
    spec: Spec | None
    other: tuple[Any, np.ndarray] | None = None
    overlapping: bool = False


class Cell(NamedTuple):
    """One run of the grid; 0 labelled clusters stands for all of the half that may be labelled."""

    name: str
    n_labelled: int
    how: str
    size: int
    seed: int


def read(folder: str, name: str) -> Records:
    """A table of the data folder."""
    from scdp.table.readers import read_records

    return read_records(Path(os.environ["SCDP_DATA"]) / folder / name)


def crm() -> Items:
    records = read("crm", "records.csv")
    spec = Spec(
        "cluster_id",
        [
            compare.person_name("first_name"),
            compare.person_name("last_name"),
            compare.email("email"),
            compare.phone("phone"),
            compare.address("address"),
            compare.code("postcode"),
            compare.date("birth_date"),
        ],
        id="record_id",
    )
    return Items(records, codes(records["cluster_id"]), spec, overlapping=True)


def table(folder: str, name: str, leave_out: tuple[str, ...] = ()) -> Items:
    """A CSV of the data folder with proposed comparisons."""
    records = read(folder, name)
    named = ("cluster_id", "record_id", *leave_out)
    kept = Records({n: records[n] for n in records.names if n not in named}, records.source)
    return Items(kept, codes(records["cluster_id"]), None)


def linkage(folder: str) -> Items:
    """Train and test part of a linking task."""
    items = table(folder, "records.csv", ("part", "source"))
    part = np.array(read(folder, "records.csv")["part"])
    train, test = np.flatnonzero(part == "train"), np.flatnonzero(part == "test")
    learned = items.data.take(train), codes(items.clusters[train])
    return Items(items.data.take(test), codes(items.clusters[test]), items.spec, learned)


def labelled(load: Callable[[], Any], spec: Spec | None = None) -> Items:
    """A loader's records with proposed comparisons, or with the given ones."""
    found = load()
    if hasattr(found, "train"):
        return Items(found.test.data, codes(found.test.clusters), spec, (found.train.data, codes(found.train.clusters)))
    return Items(found.data, codes(found.clusters), spec)


def surnames(learn: str, test: str) -> Items:
    """Author mentions of one surname, learned on those of another."""
    from scdp.paper.datasets import load_identity_full
    from scdp.paper.tasks import identity_spec

    found = load_identity_full()
    last = np.array([(cell or "").lower() for cell in found.data["last"]])
    parts = [np.flatnonzero(last == name) for name in (learn, test)]
    one, two = ((found.data.take(rows), codes(found.clusters[rows])) for rows in parts)
    return Items(two[0], two[1], replace(identity_spec(), id=None), one)


def made(kind: str) -> Items:
    from scdp.datasets import make_records

    return labelled(lambda: make_records(3000, kind=kind, seed=5))


def digits() -> Items:
    from scdp.paper.datasets import load_digits_task

    return labelled(lambda: load_digits_task(0))


def paper(name: str) -> Items:
    from scdp.paper.datasets import load_identity, load_references
    from scdp.paper.tasks import identity_spec, references_spec

    if name == "references":
        return labelled(lambda: load_references("Freund"), replace(references_spec(), id=None))
    return labelled(load_identity, replace(identity_spec(), id=None))


def loaders() -> dict[str, Callable[[], Items]]:
    from scdp.paper import datasets

    return {
        "crm": crm,
        "abt-buy": lambda: linkage("abt-buy"),
        "dblp-acm": lambda: linkage("dblp-acm"),
        "restaurant": lambda: labelled(datasets.load_restaurant),
        "febrl3": lambda: labelled(datasets.load_febrl3),
        "historical": lambda: labelled(lambda: datasets.load_historical("5k")),
        "rldata500": lambda: labelled(datasets.load_rldata500),
        "references": lambda: paper("references"),
        "identity": lambda: paper("identity"),
        "surnames": lambda: surnames("chen", "wang"),
        "digits": digits,
        "people": lambda: made("people"),
        "citations": lambda: made("citations"),
    }


def large_loaders() -> dict[str, Callable[[], Items]]:
    """Tables of which half are too many for all pairs; only if they are named."""
    from scdp.datasets import make_records
    from scdp.paper import datasets

    return {
        "people-20k": lambda: labelled(lambda: make_records(20_000, kind="people", seed=15)),
        "citations-20k": lambda: labelled(lambda: make_records(20_000, kind="citations", seed=15)),
        "people-100k": lambda: labelled(lambda: make_records(100_000, kind="people", seed=5)),
        "historical-50k": lambda: labelled(lambda: datasets.load_historical("50k")),
    }


def codes(labels: Any) -> np.ndarray:
    return np.unique(np.asarray(labels).astype(str), return_inverse=True)[1]


def take(data: Any, rows: np.ndarray) -> Any:
    return data.take(rows) if isinstance(data, Records) else data[rows]


def choose(clusters: np.ndarray, cell: Cell, rng: np.random.Generator) -> np.ndarray:
    """The labelled clusters: at random, or two thirds of them with duplicates, as people do it."""
    sizes = np.bincount(clusters)
    n = len(sizes) if cell.n_labelled == 0 else min(cell.n_labelled, len(sizes))
    if cell.how == "random":
        return rng.permutation(len(sizes))[:n]
    repeated = rng.permutation(np.flatnonzero(sizes > 1))
    single = rng.permutation(np.flatnonzero(sizes == 1))
    k = min(len(repeated), max(round(2 * n / 3), n - len(single)))
    return np.concatenate([repeated[:k], single[: n - k]])


def split(items: Items, cell: Cell) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    """Labelled rows and their clusters, rows to cluster and theirs."""
    rng = np.random.default_rng([cell.seed, cell.size, cell.n_labelled])
    data, clusters = items.data, items.clusters
    if items.other is not None:
        source, known, rest = items.other[0], items.other[1], np.arange(len(clusters))
    else:
        order = rng.permutation(clusters.max() + 1)
        half = order if items.overlapping else order[: len(order) // 2]
        first = np.flatnonzero(np.isin(clusters, half))
        source, known = take(data, first), codes(clusters[first])
        rest = np.arange(len(clusters)) if items.overlapping else np.flatnonzero(~np.isin(clusters, half))
    chosen = np.flatnonzero(np.isin(known, choose(known, cell, rng)))
    if cell.n_labelled == 0 and len(chosen) > MOST_ITEMS:
        some = rng.permutation(known.max() + 1)
        chosen = np.flatnonzero(np.isin(known, some[: int(len(some) * MOST_ITEMS / len(chosen))]))
    if len(rest) > cell.size:
        names = rng.permutation(np.unique(clusters[rest]))
        sizes = np.bincount(clusters[rest], minlength=clusters.max() + 1)[names]
        kept = names[: max(2, int((np.cumsum(sizes) <= cell.size).sum()))]
        rest = rest[np.isin(clusters[rest], kept)]
    return take(source, chosen), codes(known[chosen]), take(data, rest), codes(clusters[rest])


def run(cell: Cell) -> dict[str, Any] | None:
    """One cell; None where nothing can be learned."""
    warnings.simplefilter("ignore")
    try:
        return try_cell(cell)
    except InputError as error:
        print(f"{cell}: {error}", flush=True)
        return None


def try_cell(cell: Cell) -> dict[str, Any] | None:
    items = (loaders() | large_loaders())[cell.name]()
    train, known, new, gold = split(items, cell)
    sizes = np.bincount(known)
    if sizes.max() < 2 or len(sizes) < 2:
        return None
    start = time.process_time()
    model = EntityResolver(spec=items.spec, random_state=cell.seed).fit(train, known)
    fitted = time.process_time()
    if isinstance(new, Records):
        result = cluster_records(model, new)
        labels, posterior = codes(result.labels), result.posterior
        verdict, reasons, expected = result.verdict.colour, list(result.verdict.reasons), result.expected
        posterior = result.posterior
    else:
        labels, posterior = model.predict_with_posterior(new)
        verdict, reasons, expected = None, [], None
    low, high = posterior.n_clusters_interval(0.9)
    n, truth = len(np.unique(labels)), int(gold.max()) + 1
    return {
        **cell._asdict(),
        "n_train": len(known),
        "n_repeated": int((sizes > 1).sum()),
        "n_records": len(gold),
        "f": f_score(gold, labels),
        "f_vi": f_score(gold, np.asarray(posterior.point_estimate("vi", random_state=0))),
        "clusters": n,
        "truth": truth,
        "interval": [int(low), int(high)],
        "covers": bool(low <= truth <= high),
        "inside": bool(low <= n <= high),
        "verdict": verdict,
        "reasons": reasons,
        "expected": expected,
        "bins": reliability(posterior, gold),
        "fit_seconds": round(fitted - start, 1),
        "predict_seconds": round(time.process_time() - fitted, 1),
    }


def reliability(posterior: Any, gold: np.ndarray) -> list[list[float]]:
    """By bin of probability: pairs, sum of probabilities, pairs that are together."""
    draws = posterior.draws.reshape(-1, len(gold))
    draws = draws[:: max(1, len(draws) // 80)]
    left, right = np.triu_indices(len(gold), k=1)
    met = np.zeros(len(left), dtype=np.float32)
    for draw in draws:
        met += draw[left] == draw[right]
    met /= len(draws)
    place = np.minimum((met * N_BINS).astype(int), N_BINS - 1)
    true = (gold[left] == gold[right]).astype(np.float64)
    parts = (np.bincount(place, weights=w, minlength=N_BINS) for w in (np.ones(len(met)), met, true))
    return [list(map(float, each)) for each in zip(*parts, strict=True)]


def calibration_errors(rows: list[dict[str, Any]]) -> tuple[float, dict[str, tuple[float, float]]]:
    """Expected calibration error over all pairs, cells weighing the same; and of pairs between .1 and .9 by data set.

    Of these: their mean probability and the share that is together. Errors of opposite signs in two sets do not cancel.
    """
    whole, inner = [], {}
    for row in rows:
        bins = np.array(row["bins"])
        whole.append(np.abs(bins[:, 1] - bins[:, 2]).sum() / max(bins[:, 0].sum(), 1))
    for name in dict.fromkeys(row["name"] for row in rows):
        pairs, said, seen = sum(
            np.array(row["bins"])[1 : N_BINS - 1].sum(axis=0) for row in rows if row["name"] == name
        )
        if pairs >= 20:
            inner[name] = (float(said / pairs), float(seen / pairs))
    return float(np.mean(whole)), inner


def pooled_error(rows: list[dict[str, Any]]) -> float:
    """Expected calibration error of the pairs between .1 and .9 of all cells together, a cell weighing the same."""
    total = np.zeros((N_BINS - 2, 3))
    for row in rows:
        inner = np.array(row["bins"])[1 : N_BINS - 1]
        total += inner / max(inner[:, 0].sum(), 1.0)
    return float(np.abs(total[:, 1] - total[:, 2]).sum() / total[:, 0].sum())


def summarize(rows: list[dict[str, Any]]) -> str:
    """The figures that a reader wants first."""
    judged = [row for row in rows if row["verdict"] is not None]
    green = [row for row in judged if row["verdict"] == "green"]
    poor = [row for row in judged if row["f"] < 0.8]
    whole, inner = calibration_errors(rows)

    def share(some: list[dict[str, Any]], key: str) -> str:
        return f"{sum(row[key] for row in some)} of {len(some)}"

    return "\n".join(
        [
            f"cells: {len(rows)}; mean F {np.mean([r['f'] for r in rows]):.4f} by highest expected F, "
            f"{np.mean([r['f_vi'] for r in rows]):.4f} by least expected VI",
            f"90 % interval of K covers: {share(rows, 'covers')}",
            f"answer inside its own interval: {share(rows, 'inside')}",
            f"error of probabilities: {whole:.4f} over all; between .1 and .9 {pooled_error(rows):.3f}; by data set "
            f"{np.mean([abs(said - seen) for said, seen in inner.values()]) if inner else 0.0:.3f} in the mean:",
            "  " + ", ".join(f"{name} {said:.2f} ({seen:.2f} are)" for name, (said, seen) in inner.items()),
            f"green: {len(green)}; of these K covers: {share(green, 'covers')}",
            f"F below .8: {len(poor)}; of these not green: {sum(r['verdict'] != 'green' for r in poor)}",
        ]
    )


def tabulate(rows: list[dict[str, Any]]) -> str:
    """F and verdict by data set and number of labelled clusters, means over the rest."""
    lines = ["| | 20 | 60 | 200 | all |", "|---|---|---|---|---|"]
    for name in dict.fromkeys(row["name"] for row in rows):
        cells = []
        for n in LABELS:
            some = [row for row in rows if row["name"] == name and row["n_labelled"] == n]
            if some:
                mean = np.mean([row["f"] for row in some])
                cells.append(f"{mean:.3f} ({sum(r['covers'] for r in some)}/{len(some)})")
            else:
                cells.append("")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def grid(options: argparse.Namespace) -> Iterator[Cell]:
    names = options.sets.split(",") if options.sets else list(loaders())
    for seed in range(options.seeds):
        for size in map(int, options.sizes.split(",")):
            for name in names:
                for n in (0,) if name == "digits" else LABELS:
                    for how in HOW if n else HOW[:1]:
                        yield Cell(name, n, how, size, seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--sets", default="")
    parser.add_argument("--sizes", default="300,1500")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--summary", type=Path, help="only print the summary of such a file")
    options = parser.parse_args()
    if options.summary is not None:
        rows = json.loads(options.summary.read_text(encoding="utf-8"))
    else:
        rows = measure(list(grid(options)), options)
    print(tabulate(rows))
    print(summarize(rows))
    if options.figure:
        draw(rows, options.figure)


def measure(cells: list[Cell], options: argparse.Namespace) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for row in pool.map(run, cells):
            if row is None:
                continue
            rows.append(row)
            print(
                f"{row['name']:<12} {row['n_labelled']:>4} {row['how']:<10} {row['n_records']:>5} records "
                f"F {row['f']:.3f} K {row['clusters']} {row['interval']} truth {row['truth']} "
                f"{'ok' if row['covers'] else 'MISS'} {row['verdict']} "
                f"fit {row['fit_seconds']} predict {row['predict_seconds']}",
                flush=True,
            )
            if options.out:
                options.out.write_text(json.dumps(rows, indent=0) + "\n", encoding="utf-8")
    return rows


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Two pictures: F by number of labelled clusters, and predicted against observed probabilities."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.2))
    names = list(dict.fromkeys(row["name"] for row in rows))
    # As many colours as sets, and the legend where it hides nothing.
    left.set_prop_cycle(color=[pyplot.get_cmap("tab20")(place) for place in range(20)])
    for name in names:
        points = []
        for place, n in enumerate(LABELS):
            some = [row["f"] for row in rows if row["name"] == name and row["n_labelled"] == n]
            if some:
                points.append((place, float(np.mean(some))))
        if points:
            left.plot(*zip(*points, strict=True), marker="o", markersize=3, linewidth=1, label=name)
    left.set_xticks(range(len(LABELS)), [str(n) if n else "all" for n in LABELS])
    left.set_xlabel("labelled clusters")
    left.set_ylabel("pairwise F")
    left.legend(fontsize=7, ncol=5, loc="upper center", bbox_to_anchor=(0.5, -0.15), frameon=False)
    total = np.sum([np.array(row["bins"]) for row in rows], axis=0)
    full = total[:, 0] > 0
    right.plot([0, 1], [0, 1], color="grey", linewidth=0.8)
    right.plot(total[full, 1] / total[full, 0], total[full, 2] / total[full, 0], marker="o")
    right.set_xlabel("predicted probability of being together")
    right.set_ylabel("share that is together")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
