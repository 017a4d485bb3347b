"""Evidence of a pair as a likelihood ratio: how often members of one cluster look like this, against strangers.

Each comparison sorts pairs into a few levels of agreement. What strangers look like is seen in the table at hand, where
almost every random pair is one. What members look like starts from a typical curve, the same for every column, to which
labelled pairs are added as counts, and pairs of the table of which all other columns are sure that they are matches. An
agreement on a rare value weighs more than one on a common value: strangers share a value as often as it occurs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import lgamma
from typing import NamedTuple, Self

import numpy as np

from scdp._typing import Booleans, Features, Floats, Integers
from scdp.compare.features import PLACES, RELEASES, Layout
from scdp.linkage.levels import EDGES, N_LEVELS, add_ratios, count_agreements, count_sure_levels, levels_of

# How often members of one cluster fall into each level where a column describes the thing itself.
TYPICAL = np.array([6.0, 2.0, 1.5, 1.0, 0.7, 0.4, 0.4]) / 12.0
# The typical curve counts as much as so many labelled pairs.
PRIOR_PAIRS = 8.0
# Labelled strangers count as much as so many random pairs of the table: little, but where it has only a few records.
PRIOR_STRANGERS = 200.0
# Before any label: the probability that a column describes the thing, and not the occasion of writing it down.
DESCRIBES_THE_THING = 0.9
# Random pairs are corrected for the matches among them where these are more than this share.
FEW_MATCHES = 0.003
# Two records agree in a group of comparisons where it says more than this for a match.
AGREES = 3.0
# Strangers are known by so much that speaks against a match: about two groups that disagree.
DIFFERS = -3.0
# How many matches agree in two groups while others speak against them.
UNLIKE_MATCHES = 0.02
# Joint agreements are few where they are fewer than this.
FEW_JOINT = 0.5
# Strangers that agree in one part of an address agree in another as often as this, which counts
# as much as so many of them.
JOINT_SHARE, JOINT_PAIRS = 0.5, 2.0
# A corrected share of strangers keeps at least this part of what was seen.
LEAST_LEFT = 0.05
N_ROUNDS = 3
# Other columns are sure of a match from these log-odds on. Such pairs count as at most so many labelled ones, and half
# of that beside so many labelled pairs: they are the easy ones, and labelled pairs are of all sorts.
SURE, MOST_SURE, MANY_LABELLED = 4.0, 120.0, 10.0
EM_STEPS = 100
SMALLEST_RATE, LARGEST_RATE = ANY_RATE = 1e-15, 0.4
# Strangers are counted on at most so many pairs.
MOST_COUNTED = 400_000


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known of members of one cluster: labelled pairs by level, (comparisons, levels).

    `strangers` are the shares of labelled strangers by level. They stand in where a table has few pairs of its own.
    """

    layout: Layout
    counts: Floats
    strangers: Floats | None = None

    @classmethod
    def learn(cls, layout: Layout, features: Features, weight: Floats, stands_for: Floats | None = None) -> Self:
        """From labelled pairs; `weight` is 0 for pairs of different clusters, which stand for so many each."""
        together = weight > 0
        counts = levels_of(features[together], layout.n_comparisons, weight[together])
        others = None if stands_for is None else stands_for[~together]
        strangers = levels_of(features[~together], layout.n_comparisons, others) + 0.5
        return cls(layout, counts, strangers / strangers.sum(axis=1, keepdims=True))

    def without(self, other: Floats) -> Evidence:
        """The same without the counts of some clusters."""
        return Evidence(self.layout, np.maximum(self.counts - other, 0.0), self.strangers)

    def with_sure_pairs(self, table: TableEvidence, pairs: Features) -> Evidence:
        """With what pairs of a table show in a column where all others are sure of a match.

        A column has no say in which pairs tell about it. To let it have one, as EM does, ends in ever more matches.
        """
        seen = table.count_sure_levels(pairs)
        most = MOST_SURE * MANY_LABELLED / (MANY_LABELLED + self.counts.sum(axis=1, keepdims=True))
        weight = most / np.maximum(seen.sum(axis=1, keepdims=True), most)
        return replace(self, counts=self.counts + weight * seen)

    def members(self, strangers: Floats) -> Floats:
        """How often members fall into each level: a mean over columns that describe the thing, and that do not.

        A column of the second kind looks among members as it does among strangers. Labelled pairs decide.
        """
        typical = PRIOR_PAIRS * np.broadcast_to(TYPICAL, self.counts.shape)
        plain = PRIOR_PAIRS * strangers
        log_odds = (
            np.log(DESCRIBES_THE_THING / (1.0 - DESCRIBES_THE_THING))
            + _log_marginal(self.counts, typical)
            - _log_marginal(self.counts, plain)
        )
        belief = 1.0 / (1.0 + np.exp(-np.clip(log_odds, -500.0, 500.0)))[:, None]
        total = PRIOR_PAIRS + self.counts.sum(axis=1, keepdims=True)
        return (belief * typical + (1.0 - belief) * plain + self.counts) / total

    def in_table(
        self, strangers: Features, pairs: Features, n_pairs: float, rates: tuple[float, float] = ANY_RATE
    ) -> TableEvidence:
        """The evidence in one table, from random pairs and from those pairs of it that may be matches.

        `n_pairs` is the number of all pairs of the table, `rates` the least and largest match rate that is believed.
        """
        seen = levels_of(thin(strangers), self.layout.n_comparisons) + 0.5
        if self.strangers is not None:
            seen += PRIOR_STRANGERS * self.strangers
        seen /= seen.sum(axis=1, keepdims=True)
        strangers_share, known = seen, self
        for _ in range(N_ROUNDS):
            members = known.members(strangers_share)
            table = TableEvidence.of(self.layout, members, strangers_share)
            rate = match_rate(table.log_ratio(pairs), n_pairs, rates)
            for _ in range(N_ROUNDS):
                table = replace(table, match_rate=rate)
                table = replace(table, dependence=find_dependence(table, strangers, pairs, n_pairs))
                rate = match_rate(table.log_ratio(pairs), n_pairs, rates)
            table = replace(table, match_rate=rate)
            known = self.with_sure_pairs(table, pairs)
            if rate >= FEW_MATCHES:
                strangers_share = np.maximum((seen - rate * members) / (1.0 - rate), LEAST_LEFT * seen)
                strangers_share /= strangers_share.sum(axis=1, keepdims=True)
        return table


class Dependence(NamedTuple):
    """By group of comparisons: the group that it depends on among strangers (-1 = none), and by how many nats.

    Strangers who live at one address often share a surname: there the two agreements tell less than their sum.
    """

    parent: Integers
    lift: Floats

    @classmethod
    def none(cls, n_groups: int) -> Self:
        return cls(np.full(n_groups, -1), np.zeros(n_groups))


@dataclass(frozen=True, eq=False)
class TableEvidence:
    """Log-ratios by comparison and level, and the share of all pairs of the table that are matches."""

    layout: Layout
    ratio: Floats
    exact: Floats
    match_rate: float = 0.0
    dependence: Dependence | None = None

    @classmethod
    def of(cls, layout: Layout, members: Floats, strangers: Floats) -> Self:
        return cls(layout, np.log(members) - np.log(strangers), np.log(members[:, 0]))

    @property
    def log_odds_of_match(self) -> float:
        """The log-odds that a random pair of the table is a match."""
        return log_odds(self.match_rate)

    def log_ratio(self, features: Features) -> Floats:
        """Of each pair: the log-likelihood ratio of being together."""
        out = np.empty(len(features))
        parent, lift = self.dependence or Dependence.none(self.layout.n_groups)
        add_ratios(features, *self._arrays, parent, lift, out)
        return out

    @property
    def _arrays(self) -> tuple[Floats, Floats, Floats, Floats, Integers, Integers]:
        layout = self.layout
        return EDGES, self.ratio, self.exact, layout.share, layout.rarity, layout.group

    def count_agreements(self, features: Features) -> Floats:
        """(groups, groups, 4): strangers by two groups, see the kernel of this name."""
        n = self.layout.n_groups
        counts = np.zeros((n, n, 4))
        known = self.dependence or Dependence.none(n)
        count_agreements(features, *self._arrays, *known, AGREES, DIFFERS, self.log_odds_of_match, counts)
        return counts

    def count_sure_levels(self, features: Features) -> Floats:
        """(comparisons, levels): pairs of which all groups but that of the comparison are sure that they match."""
        layout = self.layout
        counts = np.zeros((layout.n_comparisons, N_LEVELS))
        known = self.dependence or Dependence.none(layout.n_groups)
        count_sure_levels(features, *self._arrays, *known, self.log_odds_of_match, SURE, counts)
        return counts

    def by_comparison(self, features: Features) -> Floats:
        """(pairs, comparisons): what each comparison adds to the log-ratio."""
        parts = np.zeros((len(features), self.layout.n_comparisons))
        for c in range(self.layout.n_comparisons):
            alone = np.full_like(features, np.nan)
            alone[:, c] = features[:, c]
            if self.layout.rarity[c] >= 0:
                alone[:, self.layout.rarity[c]] = features[:, self.layout.rarity[c]]
            parts[:, c] = self.log_ratio(alone)
        return parts


def find_dependence(table: TableEvidence, strangers: Features, pairs: Features, n_pairs: float) -> Dependence:
    """Which groups of a family agree together among strangers more often than by chance: a tree of the strongest.

    An address may do so with a name or a phone, too: relatives live together, and a house shares its lines. Songs of
    one album share its artist and year, and papers of one issue its venue.

    Joint agreements are rare, and counted among the pairs that may be matches; the rest among random pairs.
    """
    family = table.layout.family
    related = relate_families(family)
    if not len(pairs) or not len(strangers) or (family >= 0).sum() < 2:
        return Dependence.none(table.layout.n_groups)
    some = strangers if strangers is pairs else thin(strangers)
    counts = table.count_agreements(some)
    joint = counts[..., 3] if strangers is pairs else table.count_agreements(pairs)[..., 3]
    scale = n_pairs / len(some)
    # Counts of random pairs are scaled up, and no more certain than they were.
    one, other = ((counts[..., k] + FEW_JOINT * (scale > 1.0)) * scale for k in (1, 2))
    total = np.maximum(counts[..., 0] * scale, 1.0)
    seen = np.maximum(joint - UNLIKE_MATCHES * table.match_rate * n_pairs, 0.0)
    lift = np.log((seen + FEW_JOINT) / (one * other / total + FEW_JOINT))
    is_place = family == PLACES
    places = is_place[:, None] & is_place[None, :]
    for first, second in ((one, other), (other, one)):
        lift = np.where(places, np.maximum(lift, lift_of_places(seen, first, second, total)), lift)
    return _spanning_tree(np.where(related, np.maximum(lift, 0.0), 0.0))


def relate_families(family: Integers) -> Booleans:
    """(groups, groups): those of one family, and places with those of any."""
    one, other = family[:, None], family[None, :]
    at_a_place = ((one == PLACES) & (other != RELEASES)) | ((other == PLACES) & (one != RELEASES))
    related: Booleans = (one >= 0) & (other >= 0) & ((one == other) | at_a_place)
    return related


def lift_of_places(seen: Floats, first: Floats, second: Floats, total: Floats) -> Floats:
    """How many nats likelier strangers that agree in one part of an address agree in a second, from their numbers.

    Few such strangers are in a small table. There neighbours are taken for what they are nearly everywhere: who shares
    the street shares the town.
    """
    given = (seen + JOINT_SHARE * JOINT_PAIRS) / (np.maximum(first, seen) + JOINT_PAIRS)
    nats: Floats = np.log(given) - np.log(np.minimum((second + FEW_JOINT) / total, 1.0))
    return nats


def _spanning_tree(lift: Floats) -> Dependence:
    """The tree of the largest lifts; `lift` is of groups g < h."""
    n = len(lift)
    found = Dependence.none(n)
    whole = np.maximum(lift, lift.T)
    connected = np.zeros(n, dtype=bool)
    best, nearest = np.zeros(n), np.full(n, -1)
    for _ in range(n):
        g = int(np.argmax(np.where(connected, -1.0, best)))
        found.parent[g], found.lift[g] = nearest[g], best[g]
        connected[g] = True
        closer = ~connected & (whole[g] > best)
        best[closer], nearest[closer] = whole[g][closer], g
    return found


def thin(features: Features) -> Features:
    """Evenly spaced rows, at most as many as it takes to count strangers."""
    step = -(-len(features) // MOST_COUNTED) if len(features) else 1
    return features if step == 1 else np.ascontiguousarray(features[::step])


def match_rate(log_ratio: Floats, n_pairs: float, rates: tuple[float, float] = ANY_RATE) -> float:
    """The share of all pairs that are matches which makes the ratios of the given pairs most likely (EM).

    Pairs that are not given are strangers.
    """
    likely = np.exp(np.clip(log_ratio, -60.0, 60.0))
    n_pairs = max(n_pairs, 1.0)
    # About one partner for each second record, at the start.
    lowest, highest = max(rates[0], SMALLEST_RATE), min(rates[1], LARGEST_RATE)
    rate = min(max(0.5 / np.sqrt(2.0 * n_pairs), lowest), highest)
    for _ in range(EM_STEPS):
        odds = likely * (rate / (1.0 - rate))
        new = min(max(float((odds / (1.0 + odds)).sum()) / n_pairs, lowest), highest)
        if abs(new - rate) < 1e-4 * rate:
            return new
        rate = new
    return rate


def log_odds(share: float) -> float:
    """Of a share between 0 and 1."""
    kept = min(max(share, SMALLEST_RATE), 1.0 - 1e-9)
    return float(np.log(kept) - np.log1p(-kept))


def member_weights(cluster: Integers, left: Integers, right: Integers) -> tuple[Booleans, Floats]:
    """Which pairs are together, and the weight of each: a cluster of n counts as n - 1 pairs, not as n (n - 1) / 2."""
    together = cluster[left] == cluster[right]
    sizes = np.bincount(cluster)
    return together, np.where(together, 2.0 / sizes[cluster[left]], 0.0)


def _log_marginal(counts: Floats, prior: Floats) -> Floats:
    """By comparison: the log-probability of the counts where the shares have a Dirichlet prior."""
    total = _log_gamma(prior.sum(axis=1)) - _log_gamma(prior.sum(axis=1) + counts.sum(axis=1))
    each: Floats = total + (_log_gamma(prior + counts) - _log_gamma(prior)).sum(axis=1)
    return each


def _log_gamma(values: Floats) -> Floats:
    """Of a few numbers: SciPy's takes longer to load than most tables take to cluster."""
    return np.array([lgamma(value) for value in values.ravel().tolist()]).reshape(values.shape)
