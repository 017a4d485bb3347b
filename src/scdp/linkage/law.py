"""The law of a partition given the scores of pairs, and its conditional likelihood. Draws are made in `sampling`.

A pair that is not here is known to be far apart: its score is the floor, and items that no chain of pairs connects
are never in one cluster.

Records come in a random order. A record opens a cluster with weight 1 and joins a cluster k with weight
exp(bias + growth log n_k + third [n_k > 1] + mean score with its members). After this forward pass every record is
taken out and placed again, given all others, a fixed number of times. Records alone cannot join two halves of a large
cluster, so then whole clusters are taken: each of two or more stays or joins another of two or more as a record would,
with the weight times exp(merge), and every record is placed once more. A draw is exact: the law of this process is the
model.

How two constants of the law are set to a table is here as well: the weight of a third record, by the sure pairs of the
table (`estimate_third`), and the line between matches and strangers, by labels taught elsewhere (`propose_moves`).

In any order of the records, a cluster of n has one record with each of 0, 1, ..., n - 1 later partners. So how many
records have one sure later partner or more, two or more, and three or more tells how many clusters there are of one,
two and more records, also where only some of the records are looked at.

Members learn from a few labelled records, among which hardly any strangers look alike. There a steeper score costs
nothing, and in a larger table it would move the line between matches and strangers by many nats, a different number
for each member. So no member's line may lie further beyond that of the evidence than theirs do in the mean. How much
of that gap is taken back as well is told by the labelled matches, which are a sample of the table's: what is called a
match must be so for most of them, and for few other pairs.

In a table that is much larger the line may lie too near to the matches as well: pairs that agree in what is rare there
have more evidence than any labelled pair had, and what members make of it was never seen. The same labelled matches
tell how far it is to be moved towards the evidence.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp._typing import Features, Floats, Integers
from scdp.compare.features import Neighbours

OPEN = -1
# The weight of joining whole clusters where that is not done, and the free records of a component that it takes.
NO_MERGE = -1e3
FEWEST_TO_MERGE = 4


class Weights(NamedTuple):
    """Of joining a cluster: a constant, by the log of its size, where it has two members or more.

    `floor` is the score of a pair that is not among the candidates, `merge` is added where a whole cluster joins.
    """

    bias: float
    growth: float
    third: float
    floor: float
    merge: float = NO_MERGE


class Placements(NamedTuple):
    """Records placed one after another, and whom each meets then: the same whatever scores and weights are.

    Step s meets the clusters at places `clusters_from[s]` to `clusters_from[s + 1]`, in the order in which its pairs
    `pairs_from[s]` to `pairs_from[s + 1]` come to them; `met` says to which each of these belongs, counted from the
    first of the step. `home` is the true cluster of its record, and `own` says which of those met it is: their number
    where it is none of them. `size` is of the clusters met, and of at most `log_size.shape[0] - 1` records.
    """

    pairs_from: Integers
    clusters_from: Integers
    pair: NDArray[np.int32]
    met: NDArray[np.int32]
    size: NDArray[np.int32]
    home: Integers
    own: Integers
    log_size: Floats

    @classmethod
    def of(cls, neighbours: Neighbours, cluster: Integers, order: Integers, everyone: bool) -> Self:
        """Records come in the given order, or with `everyone` each is placed given all others."""
        n_steps = len(order)
        most = len(neighbours.other) if everyone else len(neighbours.other) // 2
        pairs_from, clusters_from = np.zeros(n_steps + 1, np.int64), np.zeros(n_steps + 1, np.int64)
        pair, met, size = (np.empty(most, np.int32) for _ in range(3))
        own = np.empty(n_steps, np.int64)
        log_size = np.zeros(np.bincount(cluster).max() + 1)
        lay_out(neighbours, cluster, order, everyone, pairs_from, clusters_from, pair, met, size, own, log_size)
        return cls(pairs_from, clusters_from, pair, met, size[: clusters_from[-1]], cluster[order], own, log_size)


@kernel
def lay_out(
    neighbours: Neighbours,
    cluster: Integers,
    order: Integers,
    everyone: bool,
    pairs_from: Integers,
    clusters_from: Integers,
    pair: NDArray[np.int32],
    met: NDArray[np.int32],
    size: NDArray[np.int32],
    own: Integers,
    log_size: Floats,
) -> None:
    """Fill the arrays of `Placements`, all but `home`."""
    for n in range(1, log_size.shape[0]):
        log_size[n] = np.log(float(n))
    n_clusters = cluster.max() + 1
    so_far, place = np.zeros(n_clusters, np.int32), np.full(n_clusters, -1, np.int32)
    placed = np.zeros(cluster.shape[0], np.bool_)
    if everyone:
        placed[:] = True
        for i in range(cluster.shape[0]):
            so_far[cluster[i]] += 1
    n_pairs = n_met = 0
    for s in range(order.shape[0]):
        i = order[s]
        home = cluster[i]
        if everyone:
            placed[i] = False
            so_far[home] -= 1
        first = n_met
        for e in range(neighbours.start[i], neighbours.start[i + 1]):
            j = neighbours.other[e]
            if not placed[j]:
                continue
            k = cluster[j]
            if place[k] < first:
                place[k] = n_met
                size[n_met] = so_far[k]
                n_met += 1
            pair[n_pairs] = neighbours.pair[e]
            met[n_pairs] = place[k] - first
            n_pairs += 1
        own[s] = (place[home] if place[home] >= first else n_met) - first
        pairs_from[s + 1], clusters_from[s + 1] = n_pairs, n_met
        so_far[home] += 1
        placed[i] = True


@kernel
def log_likelihood_grad(
    placements: Placements,
    score: Floats,
    weights: Weights,
    cluster_weight: Floats,
    by_score: Floats,
    by_weights: Floats,
) -> float:
    """The log-likelihood of known clusters; derivatives are added to `by_score` (pairs) and `by_weights` (3).

    `cluster_weight` is how much the records of each cluster count.
    """
    weight = np.zeros(np.diff(placements.clusters_from).max() + 1)
    likelihood = 0.0
    for s in range(placements.own.shape[0]):
        pairs = range(placements.pairs_from[s], placements.pairs_from[s + 1])
        first = placements.clusters_from[s]
        n_met = placements.clusters_from[s + 1] - first
        weight[: n_met + 1] = 0.0
        for e in pairs:
            weight[placements.met[e]] += score[placements.pair[e]] - weights.floor
        highest = 0.0
        for a in range(n_met):
            n = placements.size[first + a]
            weight[a] = weights.bias + weights.growth * placements.log_size[n] + weights.floor + weight[a] / n
            if n > 1:
                weight[a] += weights.third
            highest = max(highest, weight[a])
        everything = 0.0
        for a in range(n_met + 1):
            weight[a] = np.exp(max(weight[a] - highest, -700.0))
            everything += weight[a]
        own = placements.own[s]
        counts = cluster_weight[placements.home[s]]
        likelihood += counts * (np.log(weight[own]) - np.log(everything))
        for a in range(n_met + 1):
            # How much more likely this choice was, given the truth, than it was beforehand.
            excess = -counts * weight[a] / everything
            if a == own:
                excess += counts
            weight[a] = excess
            if a < n_met:
                n = placements.size[first + a]
                by_weights[0] += excess
                by_weights[1] += excess * placements.log_size[n]
                if n > 1:
                    by_weights[2] += excess
        for e in pairs:
            a = placements.met[e]
            by_score[placements.pair[e]] += weight[a] / placements.size[first + a]
    return likelihood


@kernel
def choose(
    n_touched: int,
    touched: Integers,
    total: Floats,
    met: Integers,
    size: Integers,
    n_joining: int,
    constant: float,
    weights: Weights,
    uniform: float,
) -> int:
    """One of the clusters that so many records meet, or -1 for none; `met` and `total` are zero afterwards."""
    highest = 0.0
    for a in range(n_touched):
        k = touched[a]
        mean = weights.floor + total[k] / (size[k] * n_joining)
        total[k] = constant + weights.growth * np.log(float(size[k])) + mean
        if size[k] > 1:
            total[k] += weights.third
        highest = max(highest, total[k])
    everything = np.exp(-highest)
    for a in range(n_touched):
        total[touched[a]] = np.exp(total[touched[a]] - highest)
        everything += total[touched[a]]
    left = uniform * everything
    choice = OPEN
    for a in range(n_touched):
        k = touched[a]
        if choice == OPEN:
            left -= total[k]
            if left < 0.0:
                choice = k
        met[k] = 0
        total[k] = 0.0
    return choice


@kernel
def sample_cluster(
    i: int,
    neighbours: Neighbours,
    score: Floats,
    weights: Weights,
    cluster: Integers,
    size: Integers,
    met: Integers,
    total: Floats,
    touched: Integers,
    uniform: float,
) -> int:
    """The cluster that record i joins, or -1 for a new one; `met` and `total` are zero before and after."""
    n_touched = 0
    for e in range(neighbours.start[i], neighbours.start[i + 1]):
        k = cluster[neighbours.other[e]]
        if k < 0:
            continue
        if met[k] == 0:
            touched[n_touched] = k
            n_touched += 1
        met[k] += 1
        total[k] += score[neighbours.pair[e]] - weights.floor
    if n_touched == 0:
        return OPEN
    return choose(n_touched, touched, total, met, size, 1, weights.bias, weights, uniform)


# The weight of a third record beside that of a second, in the logarithm, where nothing is known of a table.
START_THIRD = float(np.log(0.5))
# Sure pairs have the first of these log-odds that leaves so many records with a later partner, or else the last.
SURE, ENOUGH_PARTNERS = (6.0, 4.0, 2.0), 50
# Where hardly any record is alone or in a pair, the weight would have no upper end, and clusters would run away.
MOST_THIRD = 3.0
# So many clusters of two records or more tell half of what there is to tell.
FEW_REPEATED = 20.0


class TaughtThird(NamedTuple):
    """The weight of a third record by labelled clusters, and how many of these have two records or more."""

    weight: float = START_THIRD
    n_repeated: int = 0

    def move_to(self, found: float) -> float:
        """What is added to the weight in a table that says another: the less, the more was labelled."""
        return (found - self.weight) * FEW_REPEATED / (FEW_REPEATED + self.n_repeated)


NOTHING_TAUGHT = TaughtThird()


class LaterPartners(NamedTuple):
    """Of each pair the record that it shows a later partner of, -1 for none; and how many records were looked at."""

    record: Integers
    n_records: int


def third_of_sizes(sizes: Integers, growth: float) -> TaughtThird:
    """By clusters of known sizes."""
    partners = tuple(int(np.maximum(sizes - least, 0).sum()) for least in (1, 2, 3))
    weight = _weigh_third(partners, int(sizes.sum()), growth, START_THIRD)
    return TaughtThird(weight, int((sizes > 1).sum()))


def estimate_third(later: LaterPartners, log_odds: Floats, growth: float, start: float = START_THIRD) -> float:
    """The weight by the sure pairs of a table, `log_odds` being those of all; where they tell nothing it is `start`."""
    for sure in SURE:
        record = later.record[(log_odds >= sure) & (later.record >= 0)]
        partners = np.unique(record, return_counts=True)[1]
        if len(partners) >= ENOUGH_PARTNERS:
            break
    some = tuple(int((partners >= least).sum()) for least in (1, 2, 3))
    return _weigh_third(some, later.n_records, growth, start)


def _weigh_third(partners: tuple[int, ...], n_records: int, growth: float, start: float) -> float:
    """From the numbers of records with one later partner or more, two or more, and three or more.

    A record that is taken out comes back to a cluster of one or of more as often as such clusters have members to lose;
    `growth` already weighs a cluster of two.
    """
    first, second, third = partners
    n_repeated, n_larger = first - second, second - third
    # Sure pairs need not be all those of a cluster, and then the counts are not those of clusters either.
    n_pairs = max(n_repeated - n_larger, 0)
    n_alone = max(n_records - 2 * first + second, 0)
    # Records of clusters of three or more, by cluster that they could come back to; and the same of pairs.
    comes_to_more = (second + 2 * n_larger + 0.5) / (n_repeated + 1.0)
    comes_to_one = (2 * n_pairs + 1.0) / (n_alone + 1.0)
    found = min(float(np.log(comes_to_more / comes_to_one) - growth * np.log(2.0)), MOST_THIRD)
    told = n_repeated / (n_repeated + FEW_REPEATED)
    return told * found + (1.0 - told) * start


# Of labelled matches at most so many are kept.
MOST_MATCHES = 400
# Pairs are undecided by the evidence up to these log-odds; fewer such pairs than the second number tell nothing.
UNDECIDED, FEWEST_UNDECIDED = 6.0, 5
# All pairs from these log-odds on are looked at, and so many of the rest.
LIKELY, SOME_OTHERS = -6.0, 50_000
# How much of the way back to the evidence is tried, with few labelled matches; with so many it is half as much, since
# they have taught the members where the line is.
RETURNS, MANY_MATCHES = np.array([0.0, 0.25, 0.5, 0.75, 1.0]), 10.0
# How far the line is moved towards the evidence where it lies on the other side of it, and how much less likely the
# next step is before labelled matches are looked at.
LIFTS = np.arange(0.0, 6.5, 0.5)
LIFT_SCALE = 1.0
# Some labelled matches are poor, and are together by others of their cluster: so many may be any pair of the table.
POOR_SHARE = 0.1


class Matches(NamedTuple):
    """Labelled matches: features, what each counts, and among how many records their rarity was counted.

    `optimism` is how many nats members that learned from a match say more for it than members that did not: new matches
    of a table are like the latter.
    """

    features: Features
    weight: Floats
    n_records: int
    optimism: Floats

    @classmethod
    def sample(
        cls, features: Features, weight: Floats, n_records: int, optimism: Floats, rng: np.random.Generator
    ) -> Self:
        """Some of the matches, which count as much together as all of them."""
        if len(weight) > MOST_MATCHES:
            chosen = np.sort(rng.choice(len(weight), MOST_MATCHES, replace=False))
            total = weight.sum()
            features, weight, optimism = features[chosen], weight[chosen], optimism[chosen]
            weight = weight * (total / weight.sum())
        return cls(features, weight, n_records, optimism)

    def among(self, n_records: int, rarity: Integers) -> Features:
        """Features as they would be among so many records; those at the places `rarity` are nats of common values.

        Two of the records that have a value are the match itself; the others grow with the table.
        """
        features = self.features.copy()
        for place in np.unique(rarity[rarity >= 0]):
            nats = features[:, place].astype(np.float64)
            others = np.maximum(np.exp(-nats) - 2.0 / self.n_records, 0.0)
            features[:, place] = np.where(nats > 0.0, -np.log(2.0 / n_records + others), nats)
        return features


def choose_looked_at(log_odds: Floats) -> tuple[Integers, Floats]:
    """Pairs by their log-odds by the evidence: all that may be matches, and some others; how many each stands for."""
    likely, others = np.flatnonzero(log_odds >= LIKELY), np.flatnonzero(log_odds < LIKELY)
    step = max(len(others) // SOME_OTHERS, 1)
    some = others[::step]
    each = np.concatenate([np.ones(len(likely)), np.full(len(some), len(others) / max(len(some), 1))])
    return np.concatenate([likely, some]), each


def measure_gaps(scores: Floats, log_ratio: Floats, log_odds: float) -> Floats | None:
    """By member, how far its scores (members, pairs) lie above the evidence where the evidence is undecided.

    None where too few pairs are.
    """
    by_evidence = log_ratio + log_odds
    undecided = np.abs(by_evidence) < UNDECIDED
    if undecided.sum() < FEWEST_UNDECIDED:
        return None
    weight = 1.0 / np.cosh(by_evidence[undecided] / 2.0) ** 2
    gaps: Floats = (scores[:, undecided] - log_ratio[undecided]) @ weight / weight.sum()
    return gaps


def propose_moves(gap: float, n_matches: float) -> tuple[Floats, Floats]:
    """How far down the line may be moved, with so many labelled matches, and the logarithm of how likely before.

    It is moved down where it lies above the evidence by a gap, and up (below 0) where it lies below.
    """
    if gap >= 0.0:
        return gap * RETURNS * MANY_MATCHES / (MANY_MATCHES + n_matches), np.zeros(len(RETURNS))
    lifts = LIFTS[-gap >= LIFTS]
    return -lifts, -lifts / LIFT_SCALE


def weigh_moves(
    moves: Floats, before: Floats, log_odds: Floats, each: Floats, of_matches: Floats, weight: Floats
) -> Floats:
    """How likely each move down is, by what is called a match after it; `before` is the logarithm of that before.

    `log_odds` are of pairs of the table, which stand for `each` pairs, and `of_matches` those of labelled matches. A
    match is drawn from the pairs of the table by their probabilities, but for a few that may be any pair.
    """
    likelihood = before.copy()
    for place, move in enumerate(moves):
        claimed = (each / (1.0 + np.exp(move - log_odds))).sum()
        known = 1.0 / (1.0 + np.exp(move - of_matches)) / max(claimed, 1e-300)
        likelihood[place] += weight @ np.log((1.0 - POOR_SHARE) * known + POOR_SHARE / each.sum())
    found: Floats = np.exp(likelihood - likelihood.max())
    return found / found.sum()


def spread_moves(moves: Floats, probability: Floats, n_members: int) -> Floats:
    """A move for each member: together they stand for the probabilities."""
    upto = np.cumsum(probability)
    places = np.searchsorted(upto, (np.arange(n_members) + 0.5) / n_members * upto[-1])
    spread: Floats = moves[places]
    return spread
