"""The resolver's model: evidence of pairs, the law of a partition, learning it, and drawing from it.

Read `law.py` first (how a partition is drawn), then `evidence.py` (what a pair tells) and `fit.py` (how both are
learned from labelled clusters).

Here is the fitted law as an ensemble, set to a table and drawn from: members are draws of its parameters, and each draw
of a partition comes from one. Knots are fixed; what is learned is the rise of each function over each piece. A distance
may only speak against being together the more, the larger it is, and a pair score only for it. An ensemble is fitted
once and then set to each table it clusters: evidence against the strangers of that table, and the match rate of that
table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp._parallel import Progress, map_in_threads
from scdp._typing import Booleans, Features, Floats, Integers
from scdp.compare.features import Pairs
from scdp.conditions import Conditions
from scdp.linkage.evidence import ANY_RATE, Evidence, TableEvidence
from scdp.linkage.law import (
    NO_MERGE,
    NOTHING_TAUGHT,
    LaterPartners,
    Matches,
    TaughtThird,
    Weights,
    choose_looked_at,
    estimate_third,
    measure_gaps,
    propose_moves,
    spread_moves,
    weigh_moves,
)
from scdp.linkage.sampling import Names, sample_partitions, stream_of
from scdp.linkage.sampling.conditioned import condition_draws
from scdp.linkage.trees import Trees

MISSING = -1
N_KNOTS = 8
# The numbers of pieces are kept in one byte each.
MOST_KNOTS = 128
# A distance without an upper end has its last knot where all but so few pairs lie below.
UPPER_SHARE = 0.99
FAR_ABOVE = 1.5


class Places(NamedTuple):
    """Where the features of each pair lie: the number of the piece (-1 = missing), and how far along it."""

    piece: NDArray[np.int8]
    along: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Knots:
    """`at` is (features, knots), increasing; `sign` is -1 for distances and +1 for scores."""

    at: Floats
    sign: NDArray[np.int64]

    @classmethod
    def of(cls, features: NDArray[np.float32], sign: NDArray[np.int64]) -> Self:
        """Evenly spaced between the ends of what was seen."""
        at = np.empty((features.shape[1], N_KNOTS))
        for number, column in enumerate(features.T):
            low, high = _ends(column[~np.isnan(column)])
            at[number] = np.linspace(low, high, N_KNOTS)
        return cls(at, sign)

    def places(self, features: NDArray[np.float32]) -> Places:
        places = Places(np.empty(features.shape, np.int8), np.zeros(features.shape, np.float32))
        find_places(features, self.at[:, 0], self.at[:, 1] - self.at[:, 0], self.at.shape[1] - 1, *places)
        return places


def _ends(values: NDArray[Any]) -> tuple[float, float]:
    if not len(values):
        return 0.0, 1.0
    low, high, largest = float(values.min()), float(np.quantile(values, UPPER_SHARE)), float(values.max())
    # The tail is cut off only where it is long; a distance in [0, 1] keeps its whole range.
    high = high if low < high and largest - low > FAR_ABOVE * (high - low) else largest
    return low, high if high > low else low + 1.0


@kernel
def find_places(
    features: NDArray[np.float32],
    low: Floats,
    width: Floats,
    n_pieces: int,
    piece: NDArray[np.int8],
    along: NDArray[np.float32],
) -> None:
    for p in range(features.shape[0]):
        for f in range(features.shape[1]):
            value = features[p, f]
            if np.isnan(value):
                piece[p, f] = MISSING
                continue
            position = min(max((value - low[f]) / width[f], 0.0), float(n_pieces))
            whole = min(int(position), n_pieces - 1)
            piece[p, f] = whole
            along[p, f] = position - whole


@kernel
def add_up(
    piece: NDArray[np.int8], along: NDArray[np.float32], heights: Floats, missing: Floats, score: Floats
) -> None:
    """Scores of pairs from heights (features, knots) and the weights of missing features."""
    for p in range(piece.shape[0]):
        total = 0.0
        for f in range(piece.shape[1]):
            q = piece[p, f]
            if q < 0:
                total += missing[f]
            else:
                low = heights[f, q]
                total += low + (heights[f, q + 1] - low) * along[p, f]
        score[p] = total


@kernel
def add_back(
    piece: NDArray[np.int8], along: NDArray[np.float32], by_score: Floats, by_height: Floats, by_missing: Floats
) -> None:
    """Derivatives by heights and missing weights, added to, from those by the scores of pairs."""
    for p in range(piece.shape[0]):
        slope = by_score[p]
        if slope == 0.0:
            continue
        for f in range(piece.shape[1]):
            q = piece[p, f]
            if q < 0:
                by_missing[f] += slope
            else:
                by_height[f, q] += slope * (1.0 - along[p, f])
                by_height[f, q + 1] += slope * along[p, f]


# Where the function of the evidence may bend.
BASE = np.linspace(-10.0, 25.0, N_KNOTS)
# Pairs that were never compared are strangers; without any to look at, their score is this.
FLOOR = -8.0
# Pairs whose log-odds are below this in every member are left out when partitions are sampled.
NEGLIGIBLE = -9.0
# The floor of a table is the mean score of so many of its random pairs.
FLOOR_PAIRS = 20_000


# How much the size of a cluster draws records, before any label.
GROWTH = 0.6
# How unsure the constant is for each factor e that a table is larger than those that taught, up to so many.
DOUBT_BY_SIZE, MOST_LARGER = 0.6, 3.0
# Records of a table have between so many times fewer and more partners than those that were labelled (log).
FEWER_PARTNERS, MORE_PARTNERS = 4.0, 2.0


def believable_rates(partners: float | None, n_pairs: float, n_records: int) -> tuple[float, float]:
    """The least and largest match rate of a table, by how many partners labelled records have.

    People label duplicates, so a table may have far fewer; and it may be denser. Where nothing is labelled (None), any
    rate is believed.
    """
    if partners is None:
        return ANY_RATE
    rate = partners * n_records / (2.0 * max(n_pairs, 1.0))
    return rate * float(np.exp(-FEWER_PARTNERS)), rate * float(np.exp(MORE_PARTNERS))


class Parameters(NamedTuple):
    """Of one member: heights (features, knots), weights of missing features, and the weights of joining.

    `doubt` is how many standard deviations its constant lies off the middle.
    """

    heights: Floats
    missing: Floats
    bias: float
    growth: float
    third: float
    merge: float = NO_MERGE
    doubt: float = 0.0

    def scores(self, places: Places) -> Floats:
        """Scores of pairs."""
        score = np.empty(len(places.piece))
        add_up(*places, self.heights, self.missing, score)
        return score


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Members, the knots they share, and what turns the features of a pair into the columns of its score.

    `log_odds` is that of a random pair of the table for being a match, as far as it is known: of the labelled records,
    until the ensemble is set to a table. `partners` is how many others of its cluster a labelled record has, in the
    mean; None without labels. `trees` are those of two halves of the clusters. `spread` is the standard deviation of
    the members' constants, `sure_spread` that in a table no larger than those that taught how the law fits, `n_taught`
    the records of these, 0 where there were none. `matches` are some of the labelled ones.
    `taught_third` is what the sizes of labelled clusters say of the weight of a third record, and `third` is what is
    added to the members' where the table says otherwise.
    """

    knots: Knots
    members: tuple[Parameters, ...]
    trees: tuple[Trees, ...]
    evidence: Evidence | None
    log_odds: float
    partners: float | None
    n_rescans: int
    table: TableEvidence | None = None
    floors: Floats | None = None
    spread: float = 0.0
    sure_spread: float = 0.0
    n_taught: int = 0
    matches: Matches | None = None
    taught_third: TaughtThird = NOTHING_TAUGHT
    third: float = 0.0

    def with_members(self, members: tuple[Parameters, ...]) -> Ensemble:
        return replace(self, members=members)

    @property
    def n_features(self) -> int:
        """Of a pair, before evidence and trees are added."""
        return len(self.knots.at) - (self.evidence is not None) - bool(self.trees)

    def set_to_all(self, pairs: Pairs) -> Ensemble:
        """The ensemble for one table, all pairs of which were compared."""
        later = LaterPartners(pairs.left, pairs.n_items)
        return self.set_to(pairs.features, pairs.features, len(pairs), pairs.n_items, later)

    def set_to(
        self, strangers: Features, pairs: Features, n_pairs: float, n_records: int, later: LaterPartners | None = None
    ) -> Ensemble:
        """The ensemble for one table, from random pairs of it and from those that may be matches.

        Without evidence nothing is known of the table, and it is taken to be like what was labelled. `later`,
        which is of the pairs, tells how large clusters are.
        """
        if self.evidence is None:
            return self
        rates = believable_rates(self.partners, n_pairs, n_records)
        table = self.evidence.in_table(strangers, pairs, n_pairs, rates)
        there = replace(self.doubt_more(n_records), table=table, log_odds=table.log_odds_of_match)
        log_ratio = table.log_ratio(pairs)
        if later is not None:
            found = estimate_third(later, log_ratio + there.log_odds, GROWTH, self.taught_third.weight)
            there = replace(there, third=self.taught_third.move_to(found))
        there = there.locate(pairs, n_records, log_ratio)
        step = max(len(strangers) // FLOOR_PAIRS, 1)
        places = there.places(np.ascontiguousarray(strangers[::step]))
        scores = np.array([member.scores(places) for member in there.members]).reshape(len(self.members), -1)
        rest = ~there.is_likely(scores)
        floors = scores[:, rest].mean(axis=1) if rest.any() else np.full(len(self.members), FLOOR)
        return replace(there, floors=floors)

    def locate(self, pairs: Features, n_records: int, log_ratio: Floats | None = None) -> Ensemble:
        """Members that put the end of strangers where the evidence of the table and labelled matches let them.

        `log_ratio` is that evidence of the pairs, if it is at hand. A line that lies further beyond it than theirs do
        in the mean is taken back to there; all move on together, down or up, by what labelled matches tell.
        """
        if self.matches is None or self.table is None:
            return self
        log_ratio = self.table.log_ratio(pairs) if log_ratio is None else log_ratio
        chosen, each = choose_looked_at(log_ratio + self.log_odds)
        places = self.places(np.ascontiguousarray(pairs[chosen]))
        scores = np.array([member.scores(places) for member in self.members])
        gaps = measure_gaps(scores, log_ratio[chosen], self.log_odds)
        if gaps is None:
            return self
        gap, bias = float(gaps.mean()), float(np.mean([member.bias for member in self.members]))
        known = self.mean_log_odds(self.matches.among(n_records, self.table.layout.rarity)) - self.matches.optimism
        log_odds = scores.mean(axis=0) + bias + self.log_odds
        moves, before = propose_moves(gap, float(self.matches.weight.sum()))
        likely = weigh_moves(moves, before, log_odds, each, known, self.matches.weight)
        down = np.maximum(gaps - max(gap, 0.0), 0.0) + spread_moves(moves, likely, len(self.members))
        members = tuple(
            member._replace(bias=member.bias - float(off)) for member, off in zip(self.members, down, strict=True)
        )
        return self.with_members(members)

    def doubt_more(self, n_records: int) -> Ensemble:
        """The ensemble for a table of so many records: less sure, the more they are than those that taught it."""
        if not self.n_taught:
            return self
        larger = min(max(np.log(n_records / self.n_taught), 0.0), MOST_LARGER)
        spread = float(np.hypot(self.sure_spread, DOUBT_BY_SIZE * larger))
        members = tuple(
            member._replace(bias=member.bias + member.doubt * (spread - self.spread)) for member in self.members
        )
        return replace(self, members=members, spread=spread)

    def is_likely(self, scores: Floats) -> Booleans:
        """Which pairs, by their scores (members, pairs), are not negligible in every member."""
        bias = np.array([member.bias for member in self.members])[:, None] + self.log_odds
        likely: Booleans = (scores + bias).max(axis=0, initial=-np.inf) >= NEGLIGIBLE
        return likely

    def places(self, features: Features) -> Places:
        """Where the columns of the score of each pair lie among the knots."""
        columns = [features]
        if self.table is not None:
            columns.insert(0, self.table.log_ratio(features)[:, None].astype(np.float32))
        if self.trees:
            columns.append(self.judge_by_trees(features)[:, None].astype(np.float32))
        joined = np.ascontiguousarray(np.column_stack(columns)) if len(columns) > 1 else features
        return self.knots.places(joined)

    def judge_by_trees(self, features: Features) -> Floats:
        """The mean log-ratio of the trees."""
        total = np.zeros(len(features))
        for trees in self.trees:
            total += trees.log_ratio(features)
        return total / max(len(self.trees), 1)

    def weights(self, member: int) -> Weights:
        """Of joining a cluster in the table that the ensemble is set to."""
        chosen = self.members[member]
        floor = FLOOR if self.floors is None else float(self.floors[member])
        return Weights(chosen.bias + self.log_odds, chosen.growth, chosen.third + self.third, floor, chosen.merge)

    def mean_score(self, features: Features) -> Floats:
        """Scores of pairs, averaged over members."""
        places = self.places(features)
        total = np.zeros(len(features))
        for member in self.members:
            total += member.scores(places)
        return total / len(self.members)

    def mean_log_odds(self, features: Features) -> Floats:
        """Log-odds of two records that meet nobody else, averaged over members."""
        bias = float(np.mean([member.bias for member in self.members]))
        return self.mean_score(features) + bias + self.log_odds

    def sample(
        self,
        pairs: Pairs,
        known: Integers,
        n_draws: int,
        seed: int,
        n_jobs: int = 1,
        progress: Progress | None = None,
        names: Names | None = None,
        conditions: Conditions | None = None,
    ) -> NDArray[np.int32]:
        """Partitions (draws, records) that keep the conditions; draw i is the same for any number of draws and jobs.

        All chance follows from the seed and the names of the records (their numbers, unless given), so that records
        that no pair connects with these change nothing.
        """
        draws = np.empty((n_draws, pairs.n_items), dtype=np.int32)
        named = np.arange(pairs.n_items, dtype=np.uint64) if names is None else names
        places = self.places(pairs.features)
        if self.floors is not None:
            likely = np.zeros(len(pairs), dtype=bool)
            for member in self.members:
                likely |= member.scores(places) + member.bias + self.log_odds >= NEGLIGIBLE
            if conditions is not None:
                likely |= conditions.same_group(pairs.left, pairs.right)
            pairs = Pairs(pairs.n_items, pairs.left[likely], pairs.right[likely], pairs.features[likely, :0])
            places = Places(places.piece[likely], places.along[likely])
        # Records that are known to be the same meet, if only as strangers do.
        pairs, n_ties = (pairs, 0) if conditions is None else conditions.tie(pairs)
        neighbours = pairs.neighbours
        done = 0

        def sample_with(number: int) -> None:
            nonlocal done
            weights = self.weights(number)
            score = np.append(self.members[number].scores(places), np.full(n_ties, weights.floor))
            own = np.arange(number, n_draws, len(self.members))
            streams = np.array([stream_of(seed, i) for i in own.tolist()])
            drawn = np.empty((len(own), pairs.n_items), dtype=np.int32)
            sample_partitions(neighbours, score, weights, known, self.n_rescans, streams, named, drawn)
            if conditions is not None:
                condition_draws(
                    neighbours, score, weights, known, self.n_rescans, streams, named, conditions.limits, drawn
                )
            draws[own] = drawn
            done += len(own)
            if progress is not None:
                progress(done, n_draws)

        for _ in map_in_threads(sample_with, range(min(len(self.members), n_draws)), n_jobs):
            pass
        return draws
