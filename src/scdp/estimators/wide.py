"""Records whose pairs are too many: a blocking says which to compare, and a restaurant learns from such pairs alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp.blocking import Blocking, learn_blocking
from scdp.errors import InputError
from scdp.estimators.fitted import Arrays, Words, part
from scdp.estimators.inputs import Compared
from scdp.estimators.learned_parts import restaurant_from_parts, restaurant_to_parts
from scdp.seating.blocked import blocked_pairs
from scdp.seating.learned import Choices, LearnedRestaurant, Trial, train
from scdp.seating.pairs import Pairs
from scdp.seating.sources import PairSource

Integers = NDArray[np.int64]
PREFIX = "wide."
# True pairs that are never compared are lost, so blocking keeps more of them than it does where pairs are costly.
RECALL = 0.998
FEWEST_CLUSTERS = 20


class Wide(NamedTuple):
    """Which records to compare, and what such pairs have taught."""

    blocking: Blocking
    restaurant: LearnedRestaurant

    def to_parts(self) -> tuple[Words, Arrays]:
        words, arrays = restaurant_to_parts(self.restaurant)
        prefixed = {PREFIX + name: array for name, array in arrays.items()}
        return {"wide": words | {"blocking": self.blocking.to_dict()}}, prefixed

    @classmethod
    def from_parts(
        cls, words: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], n_features: int
    ) -> Wide | None:
        """None where the stored model has none."""
        if "wide" not in words:
            return None
        own = words["wide"]
        if not isinstance(own, Mapping) or not isinstance(part(own, "blocking"), Mapping):
            raise InputError("'wide' is not what belongs there")
        stored = {
            name.removeprefix(PREFIX): array for name, array in arrays.items() if name.startswith(PREFIX)
        }
        return cls(Blocking.from_dict(own["blocking"]), restaurant_from_parts(own, stored, n_features))

    def pairs(self, rows: Compared) -> Pairs:
        """The candidate pairs of records."""
        return blocked_pairs(rows.records, rows.spec, self.blocking)


class Lesson(NamedTuple):
    """A wide restaurant, how it did on held-out clusters, and the candidate pairs it learned from."""

    wide: Wide
    trial: Trial
    pairs: Pairs


def learn_wide(rows: Compared, cluster: Integers, choices: Choices, seed: int, n_jobs: int) -> Lesson | None:
    """From labelled records; None where there are too few clusters to learn a blocking from."""
    if len(np.unique(cluster)) < FEWEST_CLUSTERS:
        return None
    try:
        blocking, _ = learn_blocking(
            rows.records, cluster, spec=rows.spec, recall=RECALL, random_state=seed % 2**31
        )
    except InputError:
        # What cannot be blocked can still be compared in full, as long as it is not too much.
        return None
    pairs = blocked_pairs(rows.records, rows.spec, blocking)
    together = cluster[pairs.left] == cluster[pairs.right]
    if not together.any():
        return None
    nowhere = np.zeros(len(cluster), dtype=np.int64)
    wanted = replace(choices, all_pairs=False)
    sign = np.full(pairs.n_features, -1)
    restaurant, trial = train(PairSource(pairs), cluster, nowhere, sign, wanted, seed, n_jobs)
    return Lesson(Wide(blocking, restaurant), trial, pairs)
