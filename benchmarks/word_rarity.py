"""What the nats of shared words would add to the evidence: the best F of pairs, whatever the cut, without labels.

python -m benchmarks.word_rarity [--sets abt-buy,...] [--records 1200]

Evidence weighs an equal value by how rare it is. Words, codes and members of lists that two records share have nats,
too; here their mean over comparisons is added to the evidence with one weight after another. The last column is what a
logistic regression on the truth makes of evidence and nats: an upper bound for any fixed weights.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks.accuracy import SETS, Part, problems
from scdp.compare.features import Columns, Comparer
from scdp.linkage.evidence import Evidence

WEIGHTS = (0.1, 0.2, 0.3, 0.5)
# The regression looks at so many pairs of the most evidence.
MOST_FITTED = 200_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default=",".join(name for name in SETS if name not in ("crm", "coreference")))
    parser.add_argument("--records", type=int, default=1_200)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"| set | evidence | {' | '.join(f'+ {weight} nats' for weight in WEIGHTS)} | fitted to the truth |")
    print(f"|---|---|{'---|' * len(WEIGHTS)}---|")
    for name in options.sets.split(","):
        problem = next(problems(name, ["30%"], 0, options.records))
        scores = measure(problem.test, list(problem.specs["proposed"].fit(problem.train.data).fields))
        print(f"| {name} | {' | '.join(f'{score:.3f}' for score in scores)} |", flush=True)


def measure(part: Part, fields: list) -> list[float]:
    """F of the evidence alone, with each weight of the nats, and as fitted."""
    columns = Columns.of(fields)
    pairs = Comparer.of(part.data, fields).compare_all()
    true = part.clusters[pairs.left] == part.clusters[pairs.right]
    evidence = Evidence.learn(columns.layout, pairs.features, np.zeros(len(pairs)))
    found = evidence.in_table(pairs.features, pairs.features, len(pairs)).log_ratio(pairs.features)
    nats = np.nan_to_num(pairs.features[:, len(fields) + len(columns.values) :])
    if not nats.shape[1]:
        return [best_f(found, true)] * (len(WEIGHTS) + 2)
    most = np.argsort(-found)[:MOST_FITTED]
    seen = np.column_stack([found, nats])[most]
    fitted = LogisticRegression(max_iter=500, C=1e3).fit(seen, true[most]).decision_function(seen)
    mixed = [best_f(found + weight * nats.mean(axis=1), true) for weight in WEIGHTS]
    return [best_f(found, true), *mixed, best_f(fitted, true[most], true.sum())]


def best_f(score: np.ndarray, true: np.ndarray, n_true: float | None = None) -> float:
    """The highest F of pairs that are linked above a score."""
    linked = np.cumsum(true[np.argsort(-score, kind="stable")])
    total = true.sum() if n_true is None else n_true
    return float((2.0 * linked / (np.arange(1, len(linked) + 1) + total)).max())


if __name__ == "__main__":
    main()
