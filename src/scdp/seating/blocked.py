"""Records too many for all their pairs: candidate pairs of a blocking enter, their distances leave as pairs to seat."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scdp.blocking import Blocking, candidate_pairs
from scdp.records import Records
from scdp.seating.pairs import Pairs
from scdp.specs import Spec


def blocked_pairs(
    records: Records,
    spec: Spec,
    blocking: Blocking,
    workers: int = -1,
    progress: Callable[[int, int], None] | None = None,
) -> Pairs:
    """The candidate pairs of records with their distances by a fitted spec, in the units of its comparisons."""
    found = candidate_pairs(records, blocking)
    left, right = found.left.astype(np.int64), found.right.astype(np.int64)
    features = np.empty((len(left), len(spec.fields)), dtype=np.float32)
    for number, comparison in enumerate(spec.fields):
        features[:, number] = comparison.prepare(records).pairs(left, right, workers)
        if progress is not None:
            progress(number + 1, len(spec.fields))
    return Pairs(len(records), left, right, features)
