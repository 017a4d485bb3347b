"""How far records that are placed within the conditions are from the exact law given the conditions.

python -m benchmarks.known_law [--records 1500] [--components 200]

Components of more than seven records are too large for the exact law, so both are held side by side in components of
four to seven records of historical people. For each of them a condition is drawn: a pair of a true cluster is the same;
two records differ that are in truth two people, or one; or records come from two sources, at random, that have each
thing once. The last two are against the evidence, the last one more so than in any real pair of tables. Printed are
differences in the probability of two records to be together, over all pairs: between the enumerated law and 4,000 draws
that are only placed within the conditions; as much as 4,000 draws of the exact law have by chance; and between the law
with conditions and without them.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.known_store import historical
from scdp.compare.features import Comparer, Pairs
from scdp.conditions import Conditions
from scdp.linkage.law import OPEN, Weights
from scdp.linkage.sampling import connect, make_room, stream_of
from scdp.linkage.sampling.conditioned import make_bounds, place_within
from scdp.linkage.sampling.enumeration import MOST_RECORDS, conditional_law

N_DRAWS = 4_000
FEWEST = 4
SAME, DIFFERENT = "two of one person are the same", "two of two persons differ"
TORN, TWO_SOURCES = "two of one person differ", "each thing once in two sources"
# Pairs below this are left out, so that components are small.
LEAST_LOG_ODDS = -2.0


class Component:
    """A few records with their scores: all pairs among them that are not negligible.

    Parameters
    ----------
    pairs : Pairs
        Of the records, numbered from 0.
    score : array
        Of each pair.
    truth : array
        The true cluster of each record.
    """

    def __init__(self, pairs: Pairs, score: Any, truth: Any) -> None:
        self.pairs, self.score, self.truth = pairs, score, truth
        self.n = len(truth)
        self.nobody = np.full(self.n, OPEN)
        self.names = np.arange(1, self.n + 1, dtype=np.uint64)

    def exact(self, conditions: Conditions, weights: Weights, n_rescans: int) -> tuple[Any, Any]:
        """Partitions that keep the conditions, and their probabilities; none where nothing could be enumerated."""
        tied, score = self._tie(conditions, weights)
        bounds = make_bounds(conditions.limits, self.nobody, 2 * self.n + 1)
        labels, total = conditional_law(
            np.arange(self.n),
            tied.neighbours,
            score,
            weights,
            n_rescans,
            self.nobody,
            np.zeros(0, np.int64),
            conditions.limits,
            bounds.holds,
            np.full(self.n, OPEN),
            np.full(self.n, OPEN),
        )
        return labels, np.diff(total, prepend=0.0)

    def place(self, conditions: Conditions, weights: Weights, n_rescans: int) -> Any:
        """Draws that are placed within the conditions."""
        tied, score = self._tie(conditions, weights)
        draws = np.empty((N_DRAWS, self.n), dtype=np.int64)
        room = make_room(self.n, 0)
        bounds = make_bounds(conditions.limits, self.nobody, len(room.size))
        for number, cluster in enumerate(draws):
            cluster[:] = OPEN
            room.size[:] = 0
            bounds.holds[:] = 0
            place_within(
                tied.neighbours,
                score,
                weights,
                n_rescans,
                stream_of(0, number),
                self.names,
                np.arange(self.n),
                0,
                cluster,
                bounds,
                room,
            )
        return draws

    def _tie(self, conditions: Conditions, weights: Weights) -> tuple[Pairs, Any]:
        tied, n_ties = conditions.tie(self.pairs)
        return tied, np.append(self.score, np.full(n_ties, weights.floor))


def together(labels: Any, probability: Any) -> Any:
    """The probability of each pair of records to be together."""
    left, right = np.triu_indices(labels.shape[1], 1)
    return probability @ (labels[:, left] == labels[:, right])


def draw_conditions(component: Component, kind: str, rng: np.random.Generator) -> Conditions | None:
    """A condition of a kind; None where there is no pair for it."""
    none = Conditions.none(component.n)
    if kind == TWO_SOURCES:
        return replace(none, source=rng.integers(2, size=component.n))
    one, other = np.triu_indices(component.n, 1)
    is_same = component.truth[one] == component.truth[other]
    found = np.flatnonzero(~is_same if kind == DIFFERENT else is_same)
    if not len(found):
        return None
    pair = found[[rng.integers(len(found))]]
    if kind != SAME:
        return replace(none, left=one[pair], right=other[pair])
    group = none.group.copy()
    group[[one[pair], other[pair]]] = 0
    return replace(none, group=group)


def find_components(n: int) -> tuple[list[Component], Weights, int]:
    """Components of historical people, by the scores of a fitted model."""
    records, truth, model = historical()
    rest = np.arange(n)
    codes = truth[rest]
    fitted: Any = model.fitted_
    pairs = Comparer.of(records.take(rest), fitted.rows.spec.fields).compare_all()
    ensemble = fitted.ensemble.set_to(pairs.features, pairs.features, len(pairs), len(rest))
    places = ensemble.places(pairs.features)
    scores = np.array([member.scores(places) for member in ensemble.members])
    weights = ensemble.weights(0)
    likely = scores[0] + weights.bias >= LEAST_LOG_ODDS
    left, right, score = pairs.left[likely], pairs.right[likely], scores[0, likely]
    near = Pairs(len(rest), left, right, np.zeros((len(left), 0), np.float32))
    items, bounds = connect(near.neighbours, np.full(len(rest), OPEN))
    found = []
    for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        some = np.sort(items[first:last])
        if not FEWEST <= len(some) <= MOST_RECORDS:
            continue
        own = np.isin(left, some)
        ends = (np.searchsorted(some, end[own]) for end in (left, right))
        few = Pairs(len(some), *ends, np.zeros((int(own.sum()), 0), np.float32))
        found.append(Component(few, score[own], codes[some]))
    return found, weights, ensemble.n_rescans


def main() -> None:
    """Print a line for each kind of condition."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1500)
    parser.add_argument("--components", type=int, default=200)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    components, weights, n_rescans = find_components(given.records)
    components = components[: given.components]
    print(f"{len(components)} components of {FEWEST} to {MOST_RECORDS} records", flush=True)
    rng = np.random.default_rng(0)
    for kind in (SAME, DIFFERENT, TORN, TWO_SOURCES):
        within, chance, plain = [], [], []
        for component in components:
            conditions = draw_conditions(component, kind, rng)
            if conditions is None:
                continue
            labels, probability = component.exact(conditions, weights, n_rescans)
            free, law = component.exact(Conditions.none(component.n), weights, n_rescans)
            if not len(labels):
                continue
            exact = together(labels, probability)
            drawn = component.place(conditions, weights, n_rescans)
            within.append(together(drawn, np.full(N_DRAWS, 1 / N_DRAWS)) - exact)
            again = rng.choice(len(labels), N_DRAWS, p=probability / probability.sum())
            chance.append(together(labels[again], np.full(N_DRAWS, 1 / N_DRAWS)) - exact)
            plain.append(together(free, law) - exact)
        print(f"{kind}: {len(within)} components, differences of {sum(map(len, within))} pairs", flush=True)
        for name, all_of_them in (
            ("placed within", within),
            ("exact draws, by chance", chance),
            ("without conditions", plain),
        ):
            size = np.abs(np.concatenate(all_of_them))
            far = (size > 0.05).mean()
            print(
                f"  {name:24} mean {size.mean():.4f}, 99 % below {np.quantile(size, 0.99):.3f}, largest "
                f"{size.max():.3f}, {100 * far:.1f} % above .05",
                flush=True,
            )


if __name__ == "__main__":
    main()
