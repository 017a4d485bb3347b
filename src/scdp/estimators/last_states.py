"""What the chains of a fit leave behind: a start for chains that go on from it, and what went wrong, in words."""

from __future__ import annotations

import numpy as np

from scdp.chains.state import State
from scdp.posterior import Posterior


def degeneracy(posterior: Posterior, n_features: int) -> str | None:
    """What went wrong in a run of scdp3 whose target is no proper density, in words; None where nothing did."""
    traces = posterior.traces
    if "improper_means" not in traces:
        return None
    coordinates = float((traces["n_clusters"] * n_features).mean())
    share = float(traces["improper_means"].mean()) / max(coordinates, 1.0)
    if share > 0:
        return (
            f"The target of this model is not a proper distribution here: {share:.1%} of the coordinates of cluster "
            "means had no spread to be drawn from (negative precision) and stayed as they were; do not trust the "
            "posterior, and use conditioning='mean' or 'normalized'."
        )
    if len(posterior.hidden) and traces["opened_clusters"].sum() == 0:
        return (
            "Not one new cluster was opened in any kept sweep: the clusters are those of the starts. "
            "Use conditioning='mean', or a smaller rate."
        )
    return None


def continued(start: State, end: State) -> State:
    """A start for old and new rows together that goes on with the types an earlier chain had learned."""
    n_new = len(start.type) - len(end.type)
    most_common = int(np.bincount(end.type).argmax())
    return start._replace(
        type=np.concatenate([end.type, np.full(n_new, most_common, dtype=np.int64)]),
        precision=end.precision,
        cluster_concentration=end.cluster_concentration,
        type_concentration=end.type_concentration,
        mean_variance=end.mean_variance,
        shape=end.shape,
        rate=end.rate,
        separation_rate=end.separation_rate,
    )
