"""Slow, obvious twins of SCDP-3's kernels on distances: every gap between centroids, every weight, from scratch."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from scdp._typing import Floats, Integers
from scdp.chains import State
from scdp.chains.distances.centroids import separation_from
from scdp.chains.items import DistanceItems
from twins import distances as distance_plain
from twins.distances import log_predictive, propose_split_or_merge, squares
from twins.vectors import NEW, choose, first_empty, slots_in_use


def centroid_gap(items: DistanceItems, one: Integers, other: Integers, f: int) -> float:
    """Squared gap between the plain averages of two sets of items in one feature."""

    def mean_square(left: Integers, right: Integers) -> float:
        return float(squares(items, left, right)[:, :, f].mean())

    return mean_square(one, other) - mean_square(one, one) / 2 - mean_square(other, other) / 2


def separation(items: DistanceItems, cluster: Integers, variant: int) -> Floats:
    """S_f by a loop over all pairs of clusters of one group that have the feature."""
    used = [np.flatnonzero(cluster == slot) for slot in np.unique(cluster)]
    found = np.empty(items.n_features)
    for f in range(items.n_features):
        having = [members[items.observed[members, f] > 0] for members in used]
        gaps = [
            centroid_gap(items, one, other, f)
            for one, other in combinations([members for members in having if len(members)], 2)
            if items.group[one[0]] == items.group[other[0]]
        ]
        found[f] = separation_from(sum(gaps, start=0.0), float(len(gaps)), variant)
    return found


def log_coupling(items: DistanceItems, state: State, cluster: Integers, variant: int) -> float:
    gaps, total = separation(items, cluster, variant), 0.0
    for kind in np.unique(state.type):
        total -= state.separation_rate * float(state.precision[kind] @ gaps)
        if len(state.grid):
            total -= float(np.logaddexp.reduce(state.grid_log_weight - state.separation_rate * state.grid @ gaps))
        else:
            total += float((state.shape * np.log1p(state.separation_rate * gaps / state.rate)).sum())
    return total


def log_partition(items: DistanceItems, state: State, cluster: Integers, variant: int) -> float:
    """Log of prior, likelihood and coupling of a laid_out, types and precisions given."""
    return distance_plain.log_partition(items, state, cluster) + log_coupling(items, state, cluster, variant)


def log_joint(items: DistanceItems, state: State, variant: int, concentration_priors: Floats) -> float:
    joint = distance_plain.log_joint(items, state, concentration_priors)
    return joint + log_coupling(items, state, state.cluster, variant)


def resample_clusters(
    rng: np.random.Generator, items: DistanceItems, state: State, variant: int
) -> tuple[Integers, int, int]:
    """New slots, clusters opened and negative squared norms met."""
    cluster, opened, negative = state.cluster.copy(), 0, 0
    precision = state.precision[state.type]
    for i in items.hidden[np.argsort(state.type[items.hidden], kind="stable")]:
        start, end = items.slot_start[items.group[i]], items.slot_end[items.group[i]]
        alone = (cluster == cluster[i]).sum() == 1
        cluster[i] = NEW
        candidates = slots_in_use(cluster, start, end)
        empty = first_empty(cluster, start)
        weights = []
        for slot in [*candidates, empty]:
            members = np.flatnonzero(cluster == slot)
            size = len(members) or state.cluster_concentration
            density, met = log_predictive(items, i, precision[i], members, precision[members], state.mean_variance)
            with_item = cluster.copy()
            with_item[i] = slot
            weights.append(np.log(size) + density + log_coupling(items, state, with_item, variant))
            negative += met
        cluster[i] = [*candidates, empty][choose(rng, weights)]
        opened += int(cluster[i] == empty and not alone)
    return cluster, opened, negative


def split_merge(
    rng: np.random.Generator, items: DistanceItems, state: State, attempts: int, variant: int
) -> tuple[Integers, int, int]:
    cluster, accepted, negative = state.cluster.copy(), 0, 0
    for _ in range(attempts):
        proposal, log_ratio, met = propose_split_or_merge(rng, items, state, cluster)
        negative += met
        if proposal is None:
            continue
        log_ratio += log_coupling(items, state, proposal, variant)
        log_ratio -= log_coupling(items, state, cluster, variant)
        if np.log(rng.random()) < log_ratio:
            cluster, accepted = proposal, accepted + 1
    return cluster, accepted, negative
