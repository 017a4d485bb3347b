"""New records week by week: given clusters keep their names, and little is lost against clustering all at once.

Made-up records enter; printed are how many records were renamed (none may be), and F in batches and at once.
"""

from __future__ import annotations

import argparse
import time
from typing import NamedTuple

import numpy as np

from scdp import EntityResolver, Spec, metrics
from scdp.datasets import Labelled, make_records
from scdp.estimators.clustering import cluster_records


class Found(NamedTuple):
    """Records that were renamed by a later batch, and F of both ways."""

    renamed: int
    f_in_batches: float
    f_at_once: float


def papers(n_new: int, n_shown: int = 300, kind: str = "citations", seed: int = 0) -> tuple[Labelled, Labelled]:
    """Records to learn from and new ones, of other papers (or people); the new ones in random order."""
    made = make_records(n_new + n_shown, kind=kind, seed=seed)
    codes = np.unique(made.clusters, return_inverse=True)[1]
    order = np.random.default_rng(seed).permutation(codes.max() + 1)
    sizes = np.cumsum(np.bincount(codes)[order])
    shown = np.isin(codes, order[sizes <= n_shown])
    new = np.random.default_rng(seed + 1).permutation(np.flatnonzero(~shown))
    return made.take(shown), made.take(new)


def in_batches(train: Labelled, new: Labelled, n_batches: int) -> Found:
    """Cluster new records batch by batch, what was found before given as known; and all of them at once."""
    columns = {"id": new.ids.astype(str), **new.data.columns}
    clusters = np.unique(train.clusters, return_inverse=True)[1]
    model = EntityResolver(spec=Spec("entity", id="id"), n_jobs=-1, random_state=0)
    model.fit({"id": train.ids.astype(str), "entity": train.clusters, **train.data.columns}, clusters)
    known: dict[str, str] = {}
    renamed = 0
    for end in np.linspace(0, len(new), n_batches + 1).round().astype(int)[1:]:
        start = time.perf_counter()
        so_far = {name: column[:end] for name, column in columns.items()}
        result = cluster_records(model, so_far, known)
        found = dict(zip(result.ids.tolist(), result.labels.tolist(), strict=True))
        renamed += sum(found[name] != cluster for name, cluster in known.items())
        known = found
        print(f"{end} records, {result.n_clusters} clusters, {time.perf_counter() - start:.1f} s", flush=True)
    at_once = cluster_records(model, columns)
    labels = [known[name] for name in columns["id"]]
    return Found(renamed, metrics.f_score(new.clusters, labels), metrics.f_score(new.clusters, at_once.labels))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--records", type=int, default=1000)
    options.add_argument("--batches", type=int, default=10)
    options.add_argument("--kind", default="citations")
    options.add_argument("--seeds", type=int, default=1)
    given = options.parse_args()
    for seed in range(given.seeds):
        found = in_batches(*papers(given.records, kind=given.kind, seed=seed), given.batches)
        print(
            f"{given.kind}, seed {seed}: {found.renamed} renamed, F {found.f_in_batches:.3f} in {given.batches} "
            f"batches, {found.f_at_once:.3f} at once"
        )


if __name__ == "__main__":
    main()
