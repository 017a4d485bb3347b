"""The fitted restaurant: items of known clusters enter training; what is learned seats new items.

It is an ensemble, which is how unsure the parameters themselves are: each member has learned from another part of the
known clusters, and each draw comes from one member. Where boosted trees judge pairs, a member's trees have never seen
the clusters its restaurant learns from: the task is always clusters that nobody has seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from scdp.errors import InputError
from scdp.folds import canonical_labels, held_out_halves
from scdp.linkage.pairs import Pairs
from scdp.linkage.pieces import Knots
from scdp.linkage.restaurant import seat_all, stream_of
from scdp.linkage.training import N_ORDERS, Lesson, Parameters, first_guess, learn
from scdp.linkage.trees import Trees, fit_trees

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Progress = Callable[[int, int], None]
Result = TypeVar("Result")

N_MEMBERS = 12
N_AGAIN = 2
# A member without trees learns from this share of the clusters.
LESSON_SHARE = 0.8
MOST_LESSON_ITEMS = 1200
# Trees need clusters to learn from besides those that are held out.
FEWEST_FOR_TREES = 8
MOST_TREE_FEATURES = 40
KNOT_PAIRS = 200_000
N_TRIALS = 3
TRIAL_DRAWS = 40


class Source(Protocol):
    """Items of known clusters, of which any part can be asked for as pairs."""

    def pairs(self, items: Integers) -> Pairs: ...


@dataclass(frozen=True)
class Choices:
    """What the user may choose: boosted trees or not (None = where they can be trained), types, and members.

    `all_pairs` and `n_trials` are for those who call: whether nothing was left out, and how many lessons are tried.
    """

    boosted: bool | None = None
    n_types: int = 1
    n_members: int = N_MEMBERS
    n_again: int = N_AGAIN
    all_pairs: bool = True
    n_trials: int = N_TRIALS


class Member(NamedTuple):
    """One member of the ensemble."""

    parameters: Parameters
    trees: Trees | None


class Trial(NamedTuple):
    """Pairs of clusters that were held out: the probability of being together, and whether they are.

    `missed` counts pairs that are together and were never compared, `n_items` the items that were tried.
    """

    probability: Floats
    together: NDArray[np.bool_]
    missed: int = 0
    n_items: int = 0

    @property
    def loss(self) -> float:
        """Squared errors of the probabilities of all pairs, per item; what is not compared has probability 0."""
        wrong = float(((self.probability - self.together) ** 2).sum()) + self.missed
        return wrong / max(self.n_items, 1)


def judged(pairs: Pairs, trees: Trees | None) -> Pairs:
    """The pairs with the trees' opinion as one more feature, where there are trees."""
    return pairs if trees is None else pairs.with_column(trees.log_odds(pairs.features))


@dataclass(frozen=True, eq=False)
class LearnedRestaurant:
    """Members of the ensemble, and the knots they share."""

    knots: Knots
    members: tuple[Member, ...]
    n_again: int

    def scores(self, pairs: Pairs, member: int) -> Floats:
        """Scores (pairs, types) of one member."""
        chosen = self.members[member]
        return chosen.parameters.scores(self.knots.places(judged(pairs, chosen.trees).features))

    def mean_score(self, features: NDArray[np.float32]) -> Floats:
        """Scores of pairs, averaged over types by their shares, and over members."""
        nobody = np.zeros(len(features), dtype=np.int64)
        pairs = Pairs(1, nobody, nobody, features)
        total = np.zeros(len(features))
        for number, member in enumerate(self.members):
            share = np.exp(member.parameters.weights.log_share)
            total += self.scores(pairs, number) @ (share / share.sum())
        return total / len(self.members)

    def draw(
        self,
        pairs: Pairs,
        known: Integers,
        n_draws: int,
        seed: int,
        n_jobs: int = 1,
        progress: Progress | None = None,
        names: NDArray[np.uint64] | None = None,
    ) -> NDArray[np.int32]:
        """Clusterings (draws, items); draw i is the same for any number of draws and jobs.

        All chance follows from the seed and the names of the items (their numbers, unless given), so that items that no
        pair connects with these change nothing.
        """
        draws = np.empty((n_draws, pairs.n_items), dtype=np.int32)
        names = np.arange(pairs.n_items, dtype=np.uint64) if names is None else names
        neighbours = pairs.neighbours
        done = 0

        def of_member(number: int) -> None:
            nonlocal done
            score = self.scores(pairs, number)
            weights = self.members[number].parameters.weights
            for i in range(number, n_draws, len(self.members)):
                draws[i] = seat_all(
                    neighbours, score, weights, known, self.n_again, stream_of(seed, i), names
                )
                done += 1
                if progress is not None:
                    progress(done, n_draws)

        in_parallel(of_member, range(min(len(self.members), n_draws)), n_jobs)
        return draws


def train(
    source: Source,
    cluster: Integers,
    group: Integers,
    sign: NDArray[np.int64],
    choices: Choices,
    seed: int,
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> tuple[LearnedRestaurant, Trial]:
    """Learn from items whose clusters are all known, and try it. `sign` tells distances (-1) from scores (+1)."""
    check_teachable(cluster)
    rng = np.random.default_rng(seed)
    boosted = with_trees(cluster, group, len(sign)) if choices.boosted is None else choices.boosted
    parts = lesson_parts(cluster, group, boosted, choices.n_members, rng)
    seeds = rng.integers(2**63, size=len(parts))
    done = 0

    def teach(number: int) -> tuple[Trees | None, Pairs, Integers]:
        nonlocal done
        own = np.random.default_rng(seeds[number])
        trees = _trees_without(source, cluster, parts[number], own) if boosted else None
        items = at_most(parts[number], cluster, own)
        done += 1
        if progress is not None:
            progress(done, 2 * len(parts))
        return trees, judged(source.pairs(items), trees), canonical_labels(cluster[items].tolist())

    prepared = in_parallel(teach, range(len(parts)), n_jobs)
    signs = np.append(sign, 1) if boosted else sign
    knots = Knots.of(sampled_features([pairs for _, pairs, _ in prepared], rng), signs)

    def learned(number: int) -> Member:
        nonlocal done
        trees, pairs, clusters = prepared[number]
        own = np.random.default_rng([int(seeds[number]), 1])
        parameters = learn_from(pairs, clusters, knots, choices, own)
        done += 1
        if progress is not None:
            progress(done, 2 * len(parts))
        return Member(parameters, trees)

    members = in_parallel(learned, range(len(parts)), n_jobs)
    tried = [(pairs, clusters) for _, pairs, clusters in prepared[: choices.n_trials]]
    # A stream of its own: two ways to see the same items are tried on the same halves.
    trial = held_out_trial(tried, knots, choices, np.random.default_rng([seed, 3]))
    return LearnedRestaurant(knots, tuple(members), choices.n_again), trial


def check_teachable(cluster: Integers) -> None:
    """Refuse known clusters that teach nothing: without two of a kind, or without two kinds."""
    n_clusters = len(np.unique(cluster))
    if 1 < n_clusters < len(cluster):
        return
    if not len(cluster):
        what = "no row has a known cluster"
    else:
        what = f"the known rows are all of {'one cluster' if n_clusters < 2 else 'clusters of one row'}"
    raise InputError(f"{what}: give at least two clusters, one of them of two rows")


def learn_from(
    pairs: Pairs, cluster: Integers, knots: Knots, choices: Choices, rng: np.random.Generator
) -> Parameters:
    """What one lesson teaches."""
    orders = tuple(rng.permutation(pairs.n_items) for _ in range(N_ORDERS))
    lesson = Lesson(knots.places(pairs.features), pairs.neighbours, cluster, orders)
    start = first_guess(knots, choices.n_types, rng)
    return learn([lesson], knots.sign, start, floor=not choices.all_pairs)


def held_out_trial(
    lessons: Sequence[tuple[Pairs, Integers]], knots: Knots, choices: Choices, rng: np.random.Generator
) -> Trial:
    """Each lesson's clusters in two halves: learned from one, tried on the other, which nothing has seen."""
    probability, together = [np.zeros(0)], [np.zeros(0, dtype=bool)]
    missed = n_items = 0
    for pairs, cluster in lessons:
        order = rng.permutation(cluster.max() + 1)
        for half in (order[::2], order[1::2]):
            seen, unseen = (np.flatnonzero(np.isin(cluster, half, invert=side)) for side in (False, True))
            known = canonical_labels(cluster[seen].tolist())
            if not 1 < len(np.unique(known)) < len(known):
                continue
            parameters = learn_from(pairs.take(seen), known, knots, choices, rng)
            tried = pairs.take(unseen)
            score = parameters.scores(knots.places(tried.features))
            nobody, names = np.full(tried.n_items, -1), np.arange(tried.n_items, dtype=np.uint64)
            met = np.zeros(len(tried))
            seed = int(rng.integers(2**63))
            for number in range(TRIAL_DRAWS):
                drawn = seat_all(
                    tried.neighbours,
                    score,
                    parameters.weights,
                    nobody,
                    choices.n_again,
                    stream_of(seed, number),
                    names,
                )
                met += drawn[tried.left] == drawn[tried.right]
            truth = cluster[unseen][tried.left] == cluster[unseen][tried.right]
            probability.append(met / TRIAL_DRAWS)
            together.append(truth)
            sizes = np.bincount(cluster[unseen])
            missed += int((sizes * (sizes - 1) // 2).sum() - truth.sum())
            n_items += tried.n_items
    return Trial(np.concatenate(probability), np.concatenate(together), missed, n_items)


def with_trees(cluster: Integers, group: Integers, n_features: int) -> bool:
    """Whether there are enough clusters for trees to learn from some and be judged on others."""
    return len(np.unique(cluster)) >= FEWEST_FOR_TREES and n_features <= MOST_TREE_FEATURES


def lesson_parts(
    cluster: Integers, group: Integers, boosted: bool, n_members: int, rng: np.random.Generator
) -> list[Integers]:
    """The items each member's restaurant learns from: held-out halves (fifths of documents), or a larger share."""
    if not boosted:
        units = group if len(np.unique(group)) >= FEWEST_FOR_TREES else cluster
        return [_share_of(units, cluster, rng) for _ in range(n_members)]
    parts: list[Integers] = []
    while len(parts) < n_members:
        parts += held_out_halves(cluster, group, rng)
    return parts[:n_members]


def _share_of(units: Integers, cluster: Integers, rng: np.random.Generator) -> Integers:
    names = np.unique(units)
    for _ in range(100):
        chosen = rng.permutation(names)[: max(2, round(LESSON_SHARE * len(names)))]
        items = np.flatnonzero(np.isin(units, chosen))
        # Without two of a kind and two kinds there is nothing to learn from.
        if 1 < len(np.unique(cluster[items])) < len(items):
            return items
    return np.arange(len(units))


def at_most(items: Integers, cluster: Integers, rng: np.random.Generator) -> Integers:
    """Whole clusters of these items, as many as a lesson has room for."""
    if len(items) <= MOST_LESSON_ITEMS:
        return items
    names, codes = np.unique(cluster[items], return_inverse=True)
    order = rng.permutation(len(names))
    taken = np.cumsum(np.bincount(codes)[order]) <= MOST_LESSON_ITEMS
    kept = np.isin(codes, order[taken])
    return items[kept] if taken.sum() > 1 else items[:MOST_LESSON_ITEMS]


def _trees_without(
    source: Source, cluster: Integers, held_out: Integers, rng: np.random.Generator
) -> Trees | None:
    others = at_most(np.setdiff1d(np.arange(len(cluster)), held_out), cluster, rng)
    pairs = source.pairs(others)
    together = cluster[others][pairs.left] == cluster[others][pairs.right]
    if together.all() or not together.any():
        # One kind of pairs teaches trees nothing; constant trees keep the features in step.
        return _constant_trees()
    return fit_trees(pairs.features, together, rng)


def _constant_trees() -> Trees:
    none, no_floats = np.zeros(0, dtype=np.int64), np.zeros(0)
    return Trees(none, none, no_floats, none, none, np.zeros(0, dtype=bool), no_floats, np.zeros(1))


def sampled_features(parts: Sequence[Pairs], rng: np.random.Generator) -> NDArray[np.float32]:
    """Enough pairs to see where the features lie."""
    each = max(KNOT_PAIRS // len(parts), 1)
    rows = [rng.choice(len(p), min(each, len(p)), replace=False) for p in parts]
    return np.concatenate([p.features[chosen] for p, chosen in zip(parts, rows, strict=True)])


def in_parallel(work: Callable[[int], Result], numbers: range, n_jobs: int) -> list[Result]:
    """The results in order, whatever the number of threads."""
    if n_jobs == 1:
        return [work(number) for number in numbers]
    with ThreadPoolExecutor(n_jobs) as pool:
        return list(pool.map(work, numbers))
