"""How good the answer is without a single label: F, the number of clusters with its interval, and the verdict.

python -m benchmarks.without_labels [--sets crm,restaurant,...] [--write DIR]

Every record of a data set in $SCDP_DATA is clustered with proposed comparisons (those of `crm` are named in
benchmarks/honesty.py); labels are only used to score. historical-50k and people-100k are there too, if named.
With --write nothing is clustered: tables are written as NAME.csv and their clusters as NAME.truth, for other tools.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.honesty import Items, codes, large_loaders, loaders
from scdp import EntityResolver, metrics
from scdp.estimators.clustering import cluster_records

SETS = "crm,restaurant,febrl3,rldata500,historical,dblp-acm,abt-buy,people,citations"
# Where features lie is seen on this many records; all are clustered.
LOOKED_AT = 200


def tables() -> dict[str, Callable[[], Items]]:
    """By name: the tables of benchmarks/honesty.py, the large ones too."""
    return loaders() | large_loaders()


def write(name: str, items: Items, folder: Path) -> None:
    """The columns that are compared, and the true cluster of each row."""
    hidden = ("cluster_id", "record_id", *(column for column in items.data.names if "labelled_" in column))
    kept = [column for column in items.data.names if column not in hidden]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(kept)
        writer.writerows(zip(*(items.data[column] for column in kept), strict=True))
    (folder / f"{name}.truth").write_text("\n".join(map(str, items.clusters.tolist())) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default=SETS)
    parser.add_argument("--write", type=Path, metavar="DIR")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.write is not None:
        for name in options.sets.split(","):
            write(name, tables()[name](), options.write)
        return
    print("| | records | F | expected F | clusters (90 %) | true | verdict | processor s |")
    print("|---|---|---|---|---|---|---|---|")
    for name in options.sets.split(","):
        start = time.process_time()
        items = tables()[name]()
        n = len(items.data)
        model = EntityResolver(spec=items.spec, random_state=0)
        model.fit(items.data.take(np.arange(0, n, max(1, n // LOOKED_AT))))
        result = cluster_records(model, items.data)
        low, high = result.posterior.n_clusters_interval(0.9)
        f = metrics.f_score(items.clusters, codes(result.labels))
        print(
            f"| {name} | {n} | {f:.3f} | {result.expected['f']['mean']:.2f} | {result.n_clusters} ({low} to {high}) | "
            f"{items.clusters.max() + 1} | {result.verdict.colour} | {time.process_time() - start:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
