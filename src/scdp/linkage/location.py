"""Where strangers end in a table: what labels taught elsewhere enters; corrections of the members' constants leave.

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

from scdp._typing import Features, Floats, Integers

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
