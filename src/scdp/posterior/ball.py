"""The credible ball of Wade and Ghahramani (2018): a partition and draws enter, a radius and bounds leave."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scdp.posterior.canonical import Labels, canonical_labels
from scdp.posterior.contingency import Floats, Loss, Partition, loss_terms
from scdp.posterior.draws import StoredDraws


@dataclass(frozen=True, eq=False)
class CredibleBall:
    """The smallest ball around `centre` that holds at least `level` of the draws.

    Its bounds are draws in the ball: of those with the fewest clusters, of those with the most, and of all,
    the one farthest from the centre (upper vertical, lower vertical and horizontal bounds in that paper).
    """

    centre: Labels
    radius: float
    level: float
    loss: Loss
    fewest_clusters: Labels
    most_clusters: Labels
    farthest: Labels


def distances_to_draws(stored: StoredDraws, labels: Labels, loss: Loss) -> Floats:
    """Distances (chain, draw), over hidden items unless clusters may be shared with known ones."""
    compared = labels if stored.shared else canonical_labels(labels[stored.hidden])
    partition, terms = Partition.of(compared), loss_terms(loss, len(compared))
    out = np.empty(stored.n_chains * stored.n_draws)
    for place, draws in stored.label_chunks() if stored.shared else stored.code_chunks():
        out[place] = partition.distances(draws, terms)
    return out.reshape(stored.n_chains, stored.n_draws)


def credible_ball(stored: StoredDraws, centre: Labels, level: float, loss: Loss) -> CredibleBall:
    """The ball around `centre`; among equally extreme draws the first is given."""
    distances = distances_to_draws(stored, centre, loss).ravel()
    counts = stored.n_clusters.ravel()
    radius = float(np.quantile(distances, level, method="inverted_cdf"))
    inside = np.flatnonzero(distances <= radius)
    few = inside[counts[inside] == counts[inside].min()]
    many = inside[counts[inside] == counts[inside].max()]
    extremes = np.array([_farthest(distances, group) for group in (few, many, inside)])
    return CredibleBall(centre, radius, level, loss, *stored.labels_at(extremes))


def _farthest(distances: Floats, group: NDArray[np.int64]) -> int:
    return int(group[np.argmax(distances[group])])
