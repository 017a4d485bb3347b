"""Pairs by their levels of agreement: features and log-ratios of levels enter; sums and counts leave."""

from __future__ import annotations

import numpy as np

from scdp._compile import kernel
from scdp._typing import Features, Floats, Integers

# A distance up to the first edge is in the first level, and so on; larger ones are in the last level.
EDGES = np.array([1e-6, 0.08, 0.17, 0.3, 0.5, 0.7])
N_LEVELS = len(EDGES) + 1
# More than sums of what groups say are off by.
ROUNDING = 1e-9


@kernel
def count_levels(features: Features, n_comparisons: int, edges: Floats, weight: Floats, counts: Floats) -> None:
    """Add the weight of each pair to the level it has in each comparison; missing values count nowhere."""
    for p in range(features.shape[0]):
        for c in range(n_comparisons):
            value = features[p, c]
            if np.isnan(value):
                continue
            level = 0
            while level < edges.shape[0] and value > edges[level]:
                level += 1
            counts[c, level] += weight[p]


@kernel
def weigh_groups(
    row: Features,
    edges: Floats,
    ratio: Floats,
    exact: Floats,
    share: Floats,
    rarity: Integers,
    group: Integers,
    said: Floats,
) -> float:
    """What each group of comparisons says of one pair, into `said`, with rarity where values are equal; and the sum."""
    said[:] = 0.0
    total = 0.0
    for c in range(ratio.shape[0]):
        value = row[c]
        if np.isnan(value):
            continue
        level = 0
        while level < edges.shape[0] and value > edges[level]:
            level += 1
        evidence = ratio[c, level]
        if level == 0 and rarity[c] >= 0:
            nats = row[rarity[c]]
            if nats > 0.0:
                evidence = exact[c] + nats
        said[group[c]] += share[c] * evidence
        total += share[c] * evidence
    return total


@kernel
def add_ratios(
    features: Features,
    edges: Floats,
    ratio: Floats,
    exact: Floats,
    share: Floats,
    rarity: Integers,
    group: Integers,
    parent: Integers,
    lift: Floats,
    out: Floats,
) -> None:
    """Log-ratios of pairs: the sum over groups, less what agreement in a group and in its parent tell twice."""
    said = np.empty(parent.shape[0])
    for p in range(features.shape[0]):
        total = weigh_groups(features[p], edges, ratio, exact, share, rarity, group, said)
        for g in range(parent.shape[0]):
            if parent[g] >= 0:
                both = min(said[g], said[parent[g]])
                if both > 0.0:
                    total -= min(lift[g], both)
        out[p] = total


@kernel
def count_agreements(
    features: Features,
    edges: Floats,
    ratio: Floats,
    exact: Floats,
    share: Floats,
    rarity: Integers,
    group: Integers,
    parent: Integers,
    lift: Floats,
    agrees: float,
    differs: float,
    log_odds: float,
    counts: Floats,
) -> None:
    """Strangers by two groups g < h, (groups, groups, 4): all, those that agree in g, in h, in both.

    Strangers are pairs that others of the groups speak against. Where both agree, the pair counts as far as it is a
    stranger if the two agreements tell no more than one. `agrees` is not negative.
    """
    n_groups = counts.shape[0]
    said, agreeing = np.empty(n_groups), np.empty(n_groups, np.int64)
    # Of pairs that are strangers whichever two groups are left out, which nearly all are: how many agree in each group.
    n_anyway, agree_anyway = 0.0, np.zeros(n_groups)
    for p in range(features.shape[0]):
        total = weigh_groups(features[p], edges, ratio, exact, share, rarity, group, said)
        against = 0.0
        for g in range(n_groups):
            against += min(said[g], 0.0)
            if parent[g] >= 0:
                total -= min(lift[g], max(min(said[g], said[parent[g]]), 0.0))
        if against > differs:
            continue
        n_agreeing, least, second = 0, 0.0, 0.0
        for g in range(n_groups):
            if said[g] > agrees:
                agreeing[n_agreeing] = g
                n_agreeing += 1
            second = min(second, max(said[g], least))
            least = min(least, said[g])
        if against - least - second < differs - ROUNDING:
            n_anyway += 1.0
            for a in range(n_agreeing):
                agree_anyway[agreeing[a]] += 1.0
        else:
            for g in range(n_groups):
                for h in range(g + 1, n_groups):
                    if against - min(said[g], 0.0) - min(said[h], 0.0) <= differs:
                        counts[g, h, 0] += 1.0
                        counts[g, h, 1] += said[g] > agrees
                        counts[g, h, 2] += said[h] > agrees
        # A group that agrees does not speak against the pair, which is a stranger without it, too.
        for b in range(1, n_agreeing):
            h = agreeing[b]
            for a in range(b):
                g = agreeing[a]
                both = min(said[g], said[h])
                once = total - both
                if parent[g] == h:
                    once += min(lift[g], both)
                elif parent[h] == g:
                    once += min(lift[h], both)
                counts[g, h, 3] += 1.0 / (1.0 + np.exp(min(once + log_odds, 50.0)))
    for g in range(n_groups):
        for h in range(g + 1, n_groups):
            counts[g, h, 0] += n_anyway
            counts[g, h, 1] += agree_anyway[g]
            counts[g, h, 2] += agree_anyway[h]


@kernel
def count_sure_levels(
    features: Features,
    edges: Floats,
    ratio: Floats,
    exact: Floats,
    share: Floats,
    rarity: Integers,
    group: Integers,
    parent: Integers,
    lift: Floats,
    log_odds: float,
    sure: float,
    counts: Floats,
) -> None:
    """Add pairs to the level they have in each comparison where all other groups are sure that they are matches."""
    n_groups = parent.shape[0]
    said, less = np.empty(n_groups), np.empty(n_groups)
    for p in range(features.shape[0]):
        total = weigh_groups(features[p], edges, ratio, exact, share, rarity, group, said) + log_odds
        less[:] = said
        for g in range(n_groups):
            if parent[g] >= 0:
                twice = min(lift[g], max(min(said[g], said[parent[g]]), 0.0))
                total -= twice
                # Without either of the two nothing is told twice.
                less[g] -= twice
                less[parent[g]] -= twice
        for c in range(ratio.shape[0]):
            value = features[p, c]
            rest = total - less[group[c]]
            if np.isnan(value) or rest < sure:
                continue
            level = 0
            while level < edges.shape[0] and value > edges[level]:
                level += 1
            counts[c, level] += 1.0 / (1.0 + np.exp(-min(rest, 50.0)))


def levels_of(features: Features, n_comparisons: int, weight: Floats | None = None) -> Floats:
    """(comparisons, levels): how many pairs, by weight, are in each level."""
    counts = np.zeros((n_comparisons, N_LEVELS))
    each = np.ones(len(features)) if weight is None else weight.astype(np.float64)
    count_levels(features, n_comparisons, EDGES, each, counts)
    return counts
