"""What keeps boosted trees honest: log-loss per match on held-out clusters, free trees beside small monotone ones.

python -m benchmarks.trees [--sets dblp-acm,people,historical]

Trees learn from pairs of one half of the labelled clusters and are judged on all pairs of the other half, both ways.
The sets are those of `benchmarks.honesty`, in $SCDP_DATA.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from benchmarks.honesty import Cell, loaders, split
from scdp.compare.features import Columns
from scdp.linkage import trees
from scdp.linkage.sources import RecordSource
from scdp.linkage.training.folds import split_in_halves
from scdp.linkage.trees import Trees, fit_trees
from scdp.table.propose import propose

Half = tuple[np.ndarray, np.ndarray]


def halves_of(name: str) -> tuple[list[Half], np.ndarray]:
    """Features of the pairs of both halves, and which are together; and the signs of the features."""
    items = loaders()[name]()
    records, known, _, _ = split(items, Cell(name, 0, "random", 1000, 0))
    spec = items.spec or propose(records, None)
    source = RecordSource.of(records, spec, np.arange(len(known)), None)
    rng = np.random.default_rng(0)
    chosen = source.choose(known, rng)
    halves = []
    for half in split_in_halves(known[chosen], np.zeros_like(chosen), rng):
        own = known[chosen[half]]
        pairs = source.pairs(chosen[half], own).pairs
        halves.append((pairs.features, own[pairs.left] == own[pairs.right]))
    return halves, Columns.of(spec.fields).sign


def fit_free_trees(features: np.ndarray, together: np.ndarray, rng: np.random.Generator) -> Trees:
    """Scikit-learn's own defaults, on at most 60,000 random pairs."""
    chosen = rng.permutation(len(together))[:60_000]
    model = HistGradientBoostingClassifier(early_stopping=False, random_state=0)
    model.fit(features[chosen], together[chosen])
    return trees._as_arrays(model, 0.0)


def loss(fitted: Trees, features: np.ndarray, together: np.ndarray) -> float:
    """Log-loss of all pairs, for each that is together."""
    score = fitted.log_odds(features)
    return float(np.logaddexp(0.0, np.where(together, -score, score)).sum() / together.sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default="dblp-acm,people,historical")
    print("set            free: loss, s      small and monotone: loss, s")
    for name in parser.parse_args().sets.split(","):
        (first, second), sign = halves_of(name)
        line = f"{name:<12}"
        for small in (False, True):
            start, losses = time.process_time(), []
            for taught, held in ((first, second), (second, first)):
                rng = np.random.default_rng(1)
                found = fit_trees(*taught, sign, rng) if small else fit_free_trees(*taught, rng)
                losses.append(loss(found, *held))
            line += f"  {losses[0]:9.3f} {losses[1]:9.3f} {time.process_time() - start:6.1f}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
