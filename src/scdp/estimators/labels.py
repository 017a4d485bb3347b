"""Labels and the sets of rows that may share them: point estimates, known clusters and documents enter."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Integers
from scdp.estimators.inputs import UNKNOWN, codes


def split_groups(documents: NDArray[Any] | None, apart: Integers | None) -> Integers | None:
    """Numbers of sets of rows that share clusters: documents, each in two parts where parts are kept apart."""
    if documents is None or apart is None:
        return apart if documents is None else codes(documents)
    return np.unique(2 * codes(documents) + apart, return_inverse=True)[1].astype(np.int64)


def labels_from(estimate: Integers, known: Integers, first: int = 0) -> Integers:
    """A point estimate as labels: clusters with known rows take their label, new ones are numbered on.

    New numbers start after the known ones and not below `first`.
    """
    name_of = {
        int(cluster): int(label)
        for cluster, label in zip(estimate[known >= 0], known[known >= 0], strict=True)
    }
    following = max(first, int(known.max(initial=UNKNOWN)) + 1)
    labels = known.copy()
    for i in np.flatnonzero(known < 0):
        cluster = int(estimate[i])
        if cluster not in name_of:
            name_of[cluster] = following
            following += 1
        labels[i] = name_of[cluster]
    return labels
