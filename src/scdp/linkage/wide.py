"""Records whose pairs are too many: blockings say which to compare, and a restaurant learns from such pairs alone.

Where even the candidates are too many, a sieve says which of these to keep, and another restaurant has learned from
what it keeps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Arrays
from scdp.blocking import Blocking, learn_blockings
from scdp.errors import InputError
from scdp.estimators.fitted import Words, part
from scdp.estimators.inputs import Compared
from scdp.linkage.blocked import affordable, blocked_pairs, candidates_a_record, compared, prepared_columns
from scdp.linkage.learned import Choices, LearnedRestaurant, Trial, train
from scdp.linkage.learned_parts import (
    number,
    restaurant_from_parts,
    restaurant_to_parts,
    sieve_from_parts,
    sieve_to_parts,
)
from scdp.linkage.pairs import Features, Pairs
from scdp.linkage.shards import Blocked
from scdp.linkage.sieve import CUT, LabelledPairs, Sieve, learn_sieve
from scdp.linkage.sources import PairSource, SiftedSource

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
PREFIX = "wide."
PREFIX_FAR = "wide.far."
# True pairs that are never compared are lost, so the first blocking keeps nearly all; the others are for more records.
RECALLS = (0.998, 0.99, 0.95)
# A block that is small among few records is too large among many, so rules are also chosen for as many as these.
MANY = (10_000, 100_000, 1_000_000, 10_000_000)
RECALLS_OF_MANY = (0.99, 0.98, 0.97, 0.96, 0.95, 0.93, 0.9)
FEWEST_CLUSTERS = 20
# Of more labelled records than this, restaurants and sieve learn from whole clusters drawn by chance.
MOST_TAUGHT = 6_000
# More candidates than this go through the sieve, if there is one: to seat them all would take minutes.
MOST_CANDIDATES = 1_000_000
# Fewer pairs of one cluster are too few to say of any pair that it cannot be one.
FEWEST_FOR_A_SIEVE = 100
# Pairs that a sieve learns from: of one cluster, candidates, and any others.
MOST_OF_A_KIND = 50_000
# A lesson has at least this part of the labelled items.
LARGEST_SHARE = 8


class Far(NamedTuple):
    """For many records: the sieve, and what the pairs that it keeps have taught."""

    sieve: Sieve
    restaurant: LearnedRestaurant

    def mean_score(self, features: Features) -> Floats:
        """Scores of pairs among as many records as the sieve learned from, averaged over members."""
        log_odds = self.sieve.log_odds(features).astype(np.float32)
        return self.restaurant.mean_score(np.column_stack([features, log_odds]))


class Rung(NamedTuple):
    """Blockings for up to so many records, the most thorough first."""

    n_records: int
    blockings: tuple[Blocking, ...]


class Wide(NamedTuple):
    """Which records to compare (the most thorough blocking first), and what such pairs have taught.

    `blockings` are for about as many records as are labelled, `rungs` for these and for more and more. `restaurant` is
    for as many candidates as can all be seated; without it all go through the sieve.
    """

    blockings: tuple[Blocking, ...]
    restaurant: LearnedRestaurant | None
    far: Far | None
    rungs: tuple[Rung, ...] = ()

    def to_parts(self) -> tuple[Words, Arrays]:
        words: Words = {"blockings": [blocking.to_dict() for blocking in self.blockings]}
        words |= {
            "rungs": [
                {"n_records": rung.n_records, "blockings": [each.to_dict() for each in rung.blockings]}
                for rung in self.rungs
            ]
        }
        arrays: Arrays = {}
        if self.restaurant is not None:
            near_words, near_arrays = restaurant_to_parts(self.restaurant)
            words |= near_words
            arrays |= {PREFIX + name: array for name, array in near_arrays.items()}
        if self.far is not None:
            sieve_words, sieve_arrays = sieve_to_parts(self.far.sieve)
            far_words, far_arrays = restaurant_to_parts(self.far.restaurant)
            words |= {"far": sieve_words | far_words}
            arrays |= {PREFIX_FAR + name: array for name, array in (sieve_arrays | far_arrays).items()}
        return {"wide": words}, arrays

    @classmethod
    def from_parts(
        cls, words: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], n_features: int
    ) -> Wide | None:
        """None where the stored model has none."""
        if "wide" not in words:
            return None
        own = _mapping(words, "wide")
        blockings = _stored_blockings(own)
        far = None
        if "far" in own:
            stored = _without_prefix(arrays, PREFIX_FAR)
            far_words = _mapping(own, "far")
            far = Far(
                sieve_from_parts(far_words, stored, n_features),
                restaurant_from_parts(far_words, stored, n_features + 1),
            )
        # One that goes through a sieve in any case has no words of its own.
        alone = far is not None and "boosted" not in own
        near = None if alone else restaurant_from_parts(own, _without_prefix(arrays, PREFIX), n_features)
        return cls(blockings, near, far, _stored_rungs(own))

    def blocked(self, rows: Compared) -> Blocked:
        """How these records are to be compared, and who judges their pairs."""
        first = self.blockings[0]
        few = self.far is None or n_candidates(rows, first) <= MOST_CANDIDATES
        if self.restaurant is not None and few:
            return Blocked(rows.records, rows.spec, first, None, self.restaurant)
        assert self.far is not None
        blocking = first if few else affordable(rows.records, self.blockings_for(len(rows)))
        return Blocked(rows.records, rows.spec, blocking, *self.far)

    def blockings_for(self, n_records: int) -> tuple[Blocking, ...]:
        """Those of the first rung that reaches so many records, or of the last."""
        high_enough = [rung for rung in self.rungs if rung.n_records >= n_records] or self.rungs[-1:]
        return high_enough[0].blockings if high_enough else self.blockings

    def mean_score(self, features: Features) -> Floats:
        """Scores of pairs by their comparisons alone, averaged over members."""
        judge = self.restaurant or self.far
        assert judge is not None
        return judge.mean_score(features)


def _stored_rungs(words: Mapping[str, Any]) -> tuple[Rung, ...]:
    """Models of version 0.1 had none."""
    stored = words.get("rungs", [])
    if not isinstance(stored, list) or not all(isinstance(rung, Mapping) for rung in stored):
        raise InputError("'rungs' is not what belongs there")
    return tuple(Rung(number(rung, "n_records", 1), _stored_blockings(rung)) for rung in stored)


def _stored_blockings(words: Mapping[str, Any]) -> tuple[Blocking, ...]:
    # Models of version 0.1 had one blocking.
    stored = [words["blocking"]] if "blocking" in words else part(words, "blockings")
    if not isinstance(stored, list) or not stored or not all(isinstance(each, Mapping) for each in stored):
        raise InputError("'blockings' is not what belongs there")
    return tuple(map(Blocking.from_dict, stored))


def _mapping(words: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    own = words[name]
    if not isinstance(own, Mapping):
        raise InputError(f"{name!r} is not what belongs there")
    return own


def _without_prefix(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


class Lesson(NamedTuple):
    """A wide restaurant, how it did on held-out clusters, and the candidate pairs and clusters it learned from."""

    wide: Wide
    trial: Trial
    pairs: Pairs
    cluster: Integers


def learn_wide(rows: Compared, cluster: Integers, choices: Choices, seed: int, n_jobs: int) -> Lesson | None:
    """From labelled records; None where there are too few clusters to learn a blocking from."""
    if len(np.unique(cluster)) < FEWEST_CLUSTERS:
        return None
    try:
        blockings = _blockings(rows, cluster, seed)
    except InputError:
        # What cannot be blocked can still be compared in full, as long as it is not too much.
        return None
    some, cluster = _taught(rows, cluster, seed)
    blockings = _not_too_dear(some, blockings)
    pairs = blocked_pairs(some.records, some.spec, blockings[0])
    if not (cluster[pairs.left] == cluster[pairs.right]).any():
        return None
    wanted = replace(choices, all_pairs=False)
    # Who knows so many records is asked about as many, and these go through the sieve.
    many = n_candidates(rows, blockings[0]) > MOST_CANDIDATES
    tried = wanted if many else replace(wanted, n_trials=0)
    far, trial = _learn_far(some, pairs, cluster, tried, seed, n_jobs)
    rungs = () if far is None else (Rung(len(rows), blockings), *_rungs(some, cluster, len(rows), seed))
    if far is not None and many:
        return Lesson(Wide(blockings, None, far, rungs), trial, pairs, cluster)
    nowhere = np.zeros(len(cluster), dtype=np.int64)
    sign = np.full(pairs.n_features, -1)
    restaurant, trial = train(PairSource(pairs), cluster, nowhere, sign, wanted, seed, n_jobs)
    return Lesson(Wide(blockings, restaurant, far, rungs), trial, pairs, cluster)


def _rungs(rows: Compared, cluster: Integers, n_labelled: int, seed: int) -> list[Rung]:
    """Blockings for more records than are labelled. Without links, whose pairs have to be held before any is sifted."""

    def learned(n_records: int) -> Rung:
        found = learn_blockings(
            rows.records,
            cluster,
            RECALLS_OF_MANY,
            spec=rows.spec,
            n_records=n_records,
            links=False,
            random_state=seed % 2**31,
        )
        return Rung(n_records, _distinct(found))

    return [learned(n) for n in MANY if n > n_labelled]


def _distinct(blockings: Sequence[Blocking]) -> tuple[Blocking, ...]:
    return tuple(dict.fromkeys(blockings))


def _taught(rows: Compared, cluster: Integers, seed: int) -> tuple[Compared, Integers]:
    """The records of whole clusters drawn by chance, where there are more than teach anything new."""
    if len(cluster) <= MOST_TAUGHT:
        return rows, cluster
    order = np.random.default_rng([seed, 5]).permutation(cluster.max() + 1)
    # At least two, however large: one cluster alone tells nothing apart.
    n_drawn = max(2, int((np.cumsum(np.bincount(cluster)[order]) <= MOST_TAUGHT).sum()))
    drawn = order[:n_drawn]
    items = np.flatnonzero(np.isin(cluster, drawn))
    return rows.take(items), np.unique(cluster[items], return_inverse=True)[1]


def _not_too_dear(rows: Compared, blockings: Sequence[Blocking]) -> tuple[Blocking, ...]:
    """The blockings without those that make more candidates of these few records than of many are compared."""
    for place, blocking in enumerate(blockings[:-1]):
        if n_candidates(rows, blocking) <= MOST_CANDIDATES:
            return tuple(blockings[place:])
    return tuple(blockings[-1:])


def n_candidates(rows: Compared, blocking: Blocking) -> float:
    """About how many candidates a blocking would make of the records."""
    return candidates_a_record(rows.records, blocking) * len(rows)


def _learn_far(
    rows: Compared, pairs: Pairs, cluster: Integers, choices: Choices, seed: int, n_jobs: int
) -> tuple[Far | None, Trial]:
    """A sieve, and a restaurant of what it keeps of the candidates."""
    n, sizes = len(cluster), np.bincount(cluster)
    if (sizes * (sizes - 1) // 2).sum() < FEWEST_FOR_A_SIEVE:
        return None, Trial(np.zeros(0), np.zeros(0, dtype=bool))
    rng = np.random.default_rng([seed, 4])
    one, other, weight = _lesson_pairs(pairs.left, pairs.right, cluster, rng)
    columns = prepared_columns(rows.records, rows.spec)
    shown = LabelledPairs(compared(columns, one, other), cluster[one], cluster[other], weight)
    sieve, halves = learn_sieve(shown, n, rng)
    log_odds = halves.log_odds(pairs.features, cluster[pairs.left], cluster[pairs.right], n)
    # A part of the items has higher odds than all of them, so that more may pass there.
    passed = log_odds >= CUT + sieve.full_shift(LARGEST_SHARE * n)
    features = np.column_stack([pairs.features[passed], log_odds[passed]]).astype(np.float32)
    every = Pairs(n, pairs.left[passed], pairs.right[passed], features)
    sign = np.append(np.full(pairs.n_features, -1), 1)
    nowhere = np.zeros(n, dtype=np.int64)
    restaurant, trial = train(SiftedSource(every, sieve), cluster, nowhere, sign, choices, seed, n_jobs)
    return Far(sieve, restaurant), trial


def _blockings(rows: Compared, cluster: Integers, seed: int) -> tuple[Blocking, ...]:
    return _distinct(
        learn_blockings(rows.records, cluster, RECALLS, spec=rows.spec, random_state=seed % 2**31)
    )


def _lesson_pairs(
    left: Integers, right: Integers, cluster: Integers, rng: np.random.Generator
) -> tuple[Integers, Integers, Floats]:
    """Pairs of one cluster, other candidates, and any others, with how many of their kind each stands for."""
    n = len(cluster)
    order = np.argsort(cluster, kind="stable")
    sizes = np.bincount(cluster)
    together = _pairs_within(order, sizes)
    candidates = left * n + right
    apart = candidates[cluster[left] != cluster[right]]
    drawn = rng.integers(0, n, (2, 2 * MOST_OF_A_KIND))
    low, high = drawn.min(axis=0), drawn.max(axis=0)
    strangers = np.unique((low * n + high)[(low < high) & (cluster[low] != cluster[high])])
    strangers = np.setdiff1d(strangers, apart, assume_unique=True)
    n_strangers = n * (n - 1) // 2 - len(together) - len(apart)
    parts = [
        _some(together, len(together), rng),
        _some(apart, len(apart), rng),
        _some(strangers, n_strangers, rng),
    ]
    keys = np.concatenate([keys for keys, _ in parts])
    return keys // n, keys % n, np.concatenate([np.full(len(keys), weight) for keys, weight in parts])


def _some(keys: Integers, stand_for: int, rng: np.random.Generator) -> tuple[Integers, float]:
    chosen = keys if len(keys) <= MOST_OF_A_KIND else rng.choice(keys, MOST_OF_A_KIND, replace=False)
    return chosen, stand_for / max(len(chosen), 1)


def _pairs_within(order: Integers, sizes: Integers) -> Integers:
    """All pairs of items of one cluster as left * n + right; `order` has the clusters one after another."""
    n = len(order)
    ends = np.cumsum(sizes)
    after = np.repeat(ends, sizes) - np.arange(n) - 1
    first = np.repeat(np.arange(n), after)
    second = first + 1 + np.arange(len(first)) - np.repeat(np.cumsum(after) - after, after)
    one, other = order[first], order[second]
    return np.minimum(one, other) * n + np.maximum(one, other)
