"""What made-up people let anybody reach: an oracle that knows how they were written, beside the resolver.

python -m benchmarks.people_oracle [--sizes 20000,100000] [--seed 1]

The oracle has seen as many other people of the generator as it is asked about, with all their labels: boosted trees
learn what every comparison, the rarity of each shared value and the signs of how a record was written (an initial, a
phone without hyphens, a shortened street, exchanged names) say of a pair. It is asked about the candidates and about
the true pairs that the blocking lost; links are cut where the truth finds F best, once with what
links connect and once pair by pair, which no partition need reach. The resolver learns from 2,000 labelled entities.
"""

from __future__ import annotations

import argparse
import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier

from benchmarks.scale import training_part
from scdp import EntityResolver
from scdp.compare.features import Comparer
from scdp.datasets import Labelled, make_records
from scdp.engines.candidates import Blocked, compare_candidates
from scdp.metrics import Contingency, evaluate
from scdp.partitions import connected_components
from scdp.resolver_fit import ResolverFit
from scdp.table import Records
from scdp.table.propose import proposed_comparisons
from scdp.table.spec import Spec

# Log-odds at which links are cut.
CUTS = np.linspace(-4.0, 6.0, 41)


class Judged(NamedTuple):
    """Pairs of a table: their ends, features, and whether they are true; those after `n_found` no blocking found."""

    left: NDArray[np.int64]
    right: NDArray[np.int64]
    features: NDArray[np.float32]
    true: NDArray[np.bool_]
    n_found: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="20000,100000")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    labelled = training_part(options.seed + 1)
    assert isinstance(labelled.data, Records)
    spec = Spec("entity", proposed_comparisons(labelled.data, labelled.data.names))
    resolver = EntityResolver(spec=spec, random_state=0).fit(labelled.data, labelled.clusters)
    print("| records | resolver | oracle, what its links connect | oracle, pair by pair | seconds |")
    print("|---|---|---|---|---|")
    for size in map(int, options.sizes.split(",")):
        start = time.perf_counter()
        seen, asked = (make_records(size, "people", seed=seed) for seed in (options.seed + 100, options.seed))
        learned = learn(judge(resolver, seen))
        pairs = judge(resolver, asked)
        log_odds = learned.decision_function(pairs.features)
        ours = evaluate(asked.clusters, resolver.predict(asked.data))["f"]
        row = (ours, best_clusters(asked, pairs, log_odds), best_pairs(asked, pairs, log_odds))
        seconds = time.perf_counter() - start
        print(f"| {size:,} | {' | '.join(f'{f:.4f}' for f in row)} | {seconds:.0f} |", flush=True)


def judge(resolver: EntityResolver, people: Labelled) -> Judged:
    """The pairs that are asked about, with all that there is to say of each."""
    fitted, records = resolver.fitted_, people.data
    assert isinstance(fitted, ResolverFit)
    assert isinstance(records, Records)
    spec = resolver.fitted_spec_
    assert spec is not None
    blocked = Blocked(records, spec.fields, fitted.ensemble, lambda: fitted.ladder.choose(records, spec))
    found = compare_candidates(blocked).pairs
    entity = np.unique(people.clusters, return_inverse=True)[1]
    n = len(entity)
    lost = np.setdiff1d(number(*true_pairs(entity), n), number(found.left, found.right, n))
    left = np.concatenate([found.left, lost // n])
    right = np.concatenate([found.right, lost % n])
    compared = Comparer.of(records, spec.fields).compare(left, right)
    signs = signs_of(records)
    pieces = [compared, signs[left], signs[right], cross(records, left, right)]
    return Judged(left, right, np.column_stack(pieces).astype(np.float32), entity[left] == entity[right], len(found))


def number(left: NDArray[np.int64], right: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """One number for each pair."""
    return np.minimum(left, right) * n + np.maximum(left, right)


def true_pairs(entity: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All pairs of records of one entity."""
    order = np.argsort(entity, kind="stable")
    left, right = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    apart = 1
    while (same := entity[order[apart:]] == entity[order[:-apart]]).any():
        left.append(order[:-apart][same])
        right.append(order[apart:][same])
        apart += 1
    return np.concatenate(left), np.concatenate(right)


def signs_of(records: Records) -> NDArray[np.float32]:
    """By record, the signs of how it was written, and what it lacks."""
    first, street, phone = (records[name] for name in ("first_name", "street", "phone"))
    signs = [
        [bool(cell) and cell.endswith(".") for cell in first],
        [bool(cell) and cell.endswith(".") for cell in street],
        [bool(cell) and "-" not in cell for cell in phone],
        *([cell is None for cell in records[name]] for name in records.names),
    ]
    return np.array(signs, dtype=np.float32).T


def cross(records: Records, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.float32]:
    """Whether the first name of one is the surname of the other, and how many cells are equal."""
    first, surname = records["first_name"], records["surname"]
    one = (first[left] == surname[right]) & (first[left] != None)  # noqa: E711
    other = (first[right] == surname[left]) & (first[right] != None)  # noqa: E711
    codes = [records.encoded(name) for name in records.names]
    equal = sum((c.codes[left] == c.codes[right]) & (c.codes[left] >= 0) for c in codes if c is not None)
    return np.column_stack([one, other, equal]).astype(np.float32)


def learn(pairs: Judged) -> HistGradientBoostingClassifier:
    """What true and other candidates look like; those that were lost would tell that they are true."""
    some = slice(0, pairs.n_found)
    trees = HistGradientBoostingClassifier(
        max_iter=400, learning_rate=0.06, max_leaf_nodes=63, early_stopping=True, random_state=0
    )
    return trees.fit(pairs.features[some], pairs.true[some])


def best_clusters(people: Labelled, pairs: Judged, log_odds: NDArray[np.float64]) -> float:
    """The best F of what links connect, over all cuts."""
    entity = np.unique(people.clusters, return_inverse=True)[1]

    def f_score(cut: float) -> float:
        kept = log_odds >= cut
        groups = connected_components(len(entity), [(pairs.left[kept], pairs.right[kept])])
        together, said, true, _ = Contingency.of(entity, groups.codes).pairs
        return 2 * together / (said + true)

    return max(map(f_score, CUTS))


def best_pairs(people: Labelled, pairs: Judged, log_odds: NDArray[np.float64]) -> float:
    """The best F of pairs that are decided one by one, over all cuts."""
    sizes = np.unique(people.clusters, return_counts=True)[1]
    n_true = int((sizes * (sizes - 1) // 2).sum())
    return max(2 * int(pairs.true[log_odds >= cut].sum()) / (int((log_odds >= cut).sum()) + n_true) for cut in CUTS)


if __name__ == "__main__":
    main()
