"""The marginal of a posterior: stored draws of many items enter, draws of some of them leave, in their order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scdp.errors import InputError
from scdp.posterior.draws import StoredDraws
from scdp.posterior.recorder import DrawRecorder

if TYPE_CHECKING:
    from scdp.posterior.posterior import Posterior


def restrict(posterior: Posterior, items: NDArray[np.int64]) -> Posterior:
    """The same draws, seen by the chosen items alone. Traces stay, but that of the clusters counts those seen."""
    if len(np.unique(items)) != len(items):
        raise InputError("restricted: an item is asked for twice")
    everyone = np.array_equal(items, np.arange(posterior.n_items))
    chosen = posterior.stored if everyone else _columns(posterior.stored, items)
    names = None if posterior.names is None else posterior.names[items]
    traces: dict[str, Any] = dict(posterior.traces)
    if "n_clusters" in traces:
        traces["n_clusters"] = chosen.n_clusters
    return type(posterior)(chosen, traces, names=names)


def _columns(stored: StoredDraws, items: NDArray[np.int64]) -> StoredDraws:
    known = stored.known[items]
    recorder = DrawRecorder(
        stored.n_chains, stored.n_draws, known, np.flatnonzero(known < 0), shared=stored.shared
    )
    for place, labels in stored.label_chunks():
        for row, draw in enumerate(range(place.start, place.stop)):
            recorder.record(*divmod(draw, stored.n_draws), labels[row, items])
    return recorder.finish().stored
