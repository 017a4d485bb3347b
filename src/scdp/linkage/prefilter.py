"""The prefilter: of very many pairs those stay that may be matches by the evidence of the table.

What two records can say at most follows from their codes alone: a missing value says nothing, a value that both have is
worth its rarity, and two different values at most what the best level is worth. Comparisons are then made one after
another, each only for pairs that are still in reach. A pair is dropped as soon as those left cannot lift it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp._typing import Features, Floats, Integers
from scdp.compare.features import Comparer, Pairs
from scdp.linkage import Ensemble, believable_rates
from scdp.linkage.evidence import TableEvidence, thin
from scdp.linkage.law import LaterPartners
from scdp.linkage.levels import EDGES

# Pairs that are less likely than this by the evidence are dropped: log-odds. Where the learned score finds matches
# among them the cut is lower, down to the second; of all that may be matches, at most this share is dropped.
CUT, LOWEST_CUT, MOST_LOST = -5.0, -15.0, 0.003
# A pair may be a match from this probability on.
MAY_MATCH = 0.05
# Sums are rounded: a pair is dropped early only if it misses by more than that.
SLACK = 1e-4
# Two values that differ and have not been compared yet.
OPEN = np.float32(-1.0)
ROOM = 1 << 12
# The order of comparisons is settled by so many candidates.
MOST_LOOKED_AT = 20_000
# Where a table has more pairs than this, those below these log-odds by the evidence are left out of all its pairs. The
# first look at them is rough, and leaves so much below.
MOST_UNFILTERED = 300_000
UNLIKELY, MARGIN = -11.0, 5.0
# Where true pairs look like strangers, the evidence sees no matches at all, and everything would be left out: the first
# look takes records to have so many partners at least.
FEWEST_PARTNERS = 0.01
# So many pairs are filtered at a time: what is known of them stays in the processor's cache.
PAIRS_AT_ONCE = 1 << 14

Rows = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Prefilter:
    """`order` are the comparisons, those first that rule out most for their time; `cut` are the log-odds that a pair
    must reach by the evidence."""

    order: tuple[int, ...]
    table: TableEvidence
    cut: float

    @property
    def need(self) -> float:
        """The log-ratio that a pair must reach."""
        return self.cut - self.table.log_odds_of_match

    @classmethod
    def of(
        cls,
        table: TableEvidence,
        candidates: Features,
        seconds: Floats | None = None,
        probability: Floats | None = None,
    ) -> Self:
        """For one table, from the features of some of its candidates; `seconds` is how long each comparison takes, and
        `probability` that of each of these candidates for being a match by the learned score.

        What is kept does not hang on the order, so that times may differ from run to run.
        """
        most = table.ratio.max(axis=1) * table.layout.share
        cut = CUT
        if probability is not None:
            cut = choose_cut(table.log_ratio(candidates) + table.log_odds_of_match, probability)
        candidates = np.ascontiguousarray(candidates[:: max(len(candidates) // MOST_LOOKED_AT, 1)])
        said = table.by_comparison(candidates)
        open_pairs = ~np.isnan(candidates[:, : len(most)]) & (candidates[:, : len(most)] > EDGES[0])
        ruled_out = np.where(open_pairs, most - said, 0.0).mean(axis=0) if len(candidates) else most
        order = np.argsort(-ruled_out / (1.0 if seconds is None else seconds), kind="stable")
        return cls(tuple(order.tolist()), table, cut)


def choose_cut(log_odds: Floats, probability: Floats) -> float:
    """The log-odds by the evidence below which hardly any pair may be a match by the learned score."""
    may_match = probability >= MAY_MATCH
    if not may_match.any():
        return CUT
    found, weight = log_odds[may_match], probability[may_match]
    order = np.argsort(found)
    dropped = np.cumsum(weight[order]) <= MOST_LOST * weight.sum()
    return float(np.clip(found[order[min(int(dropped.sum()), len(order) - 1)]], LOWEST_CUT, CUT))


@dataclass(frozen=True, eq=False)
class PrefilterRun:
    """A prefilter made ready for one set of records.

    `codes` are (records, comparisons); a common value with code v of comparison c is worth `equal[first[c] + v]`, two
    different values are worth `unequal[c]` at most.
    """

    prefilter: Prefilter
    comparer: Comparer
    codes: NDArray[np.int32]
    equal: Floats
    first: Integers
    unequal: Floats

    @classmethod
    def of(cls, prefilter: Prefilter, comparer: Comparer) -> Self:
        table, columns = prefilter.table, comparer.prepared
        worth = []
        for c, column in enumerate(columns):
            place = table.layout.rarity[c]
            nats = comparer.nats[place - len(columns)] if place >= 0 else np.zeros(len(column.vocabulary))
            worth.append(table.layout.share[c] * np.where(nats > 0.0, table.exact[c] + nats, table.ratio[c, 0]))
        sizes = np.cumsum([0, *map(len, worth)])
        codes = np.empty((len(comparer), len(columns)), dtype=np.int32)
        for c, column in enumerate(columns):
            codes[:, c] = column.codes
        unequal = table.ratio.max(axis=1) * table.layout.share
        return cls(prefilter, comparer, codes, np.concatenate(worth), sizes[:-1], unequal)

    def keep(self, left: Rows, right: Rows) -> tuple[Integers, Features]:
        """The places of the pairs that may be matches, and their distances."""
        places, distances = [], []
        for start in range(0, max(len(left), 1), PAIRS_AT_ONCE):
            part = slice(start, start + PAIRS_AT_ONCE)
            some, found = self._keep_some(left[part], right[part])
            places.append(some + start)
            distances.append(found)
        return np.concatenate(places), np.concatenate(distances)

    def _keep_some(self, left: Rows, right: Rows) -> tuple[Integers, Features]:
        table, floor = self.prefilter.table, self.prefilter.need - SLACK
        places, bound, distances = bound_by_codes(left, right, self.codes, self.equal, self.first, self.unequal, floor)
        for c in self.prefilter.order:
            todo, low, high = find_open(c, left, right, self.codes, places, distances)
            prepared = self.comparer.prepared[c]
            found = prepared.relax(prepared.score_values(low, high, 1), left[places[todo]], right[places[todo]])
            distances[todo, c] = found
            lower_bounds(found, todo, EDGES, table.ratio[c] * table.layout.share[c], self.unequal[c], bound)
            n_kept = drop_hopeless(floor, places, bound, distances)
            places, bound, distances = places[:n_kept], bound[:n_kept], distances[:n_kept]
        # Few are left, and a view would hold the memory of all.
        return places.copy(), distances.copy()


@kernel
def bound_by_codes(
    left: Rows, right: Rows, codes: NDArray[np.int32], equal: Floats, first: Integers, unequal: Floats, floor: float
) -> tuple[Integers, Floats, Features]:
    """Pairs that their codes leave in reach: places, the most that each can say, and distances as far as known."""
    n_columns = codes.shape[1]
    places, bounds = np.empty(ROOM, np.int64), np.empty(ROOM)
    distances = np.empty((ROOM, n_columns), np.float32)
    n_found = 0
    for p in range(len(left)):
        total = 0.0
        for c in range(n_columns):
            one, other = codes[left[p], c], codes[right[p], c]
            if one >= 0 and other >= 0:
                total += equal[first[c] + one] if one == other else unequal[c]
        if total < floor:
            continue
        if n_found == len(places):
            places, bounds = (np.append(places, np.empty_like(places)), np.append(bounds, np.empty_like(bounds)))
            distances = np.concatenate((distances, np.empty_like(distances)))
        places[n_found], bounds[n_found] = p, total
        for c in range(n_columns):
            one, other = codes[left[p], c], codes[right[p], c]
            if one < 0 or other < 0:
                distances[n_found, c] = np.nan
            else:
                distances[n_found, c] = 0.0 if one == other else OPEN
        n_found += 1
    return places[:n_found].copy(), bounds[:n_found].copy(), distances[:n_found].copy()


@kernel
def find_open(
    column: int, left: Rows, right: Rows, codes: NDArray[np.int32], places: Integers, distances: Features
) -> tuple[Integers, Integers, Integers]:
    """Which pairs have values of a column that are to be compared, and these values: the lower, and the higher code."""
    n = len(places)
    todo, low, high = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    n_open = 0
    for p in range(n):
        if distances[p, column] == OPEN:
            one, other = codes[left[places[p]], column], codes[right[places[p]], column]
            todo[n_open], low[n_open], high[n_open] = p, min(one, other), max(one, other)
            n_open += 1
    return todo[:n_open], low[:n_open], high[:n_open]


@kernel
def drop_hopeless(floor: float, places: Integers, bound: Floats, distances: Features) -> int:
    """Move the pairs in reach to the front, in their order; how many there are."""
    n_kept = 0
    for p in range(len(places)):
        if bound[p] < floor:
            continue
        if n_kept < p:
            places[n_kept], bound[n_kept] = places[p], bound[p]
            for c in range(distances.shape[1]):
                distances[n_kept, c] = distances[p, c]
        n_kept += 1
    return n_kept


@kernel
def lower_bounds(
    distances: Features, places: Integers, edges: Floats, ratio: Floats, most: float, bound: Floats
) -> None:
    """Put what a comparison says in the place of the most that it could say; NaN says nothing."""
    for i in range(len(places)):
        said = 0.0
        if not np.isnan(distances[i]):
            level = 0
            while level < len(edges) and distances[i] > edges[level]:
                level += 1
            said = ratio[level]
        bound[places[i]] += said - most


def prefilter_all(pairs: Pairs, ensemble: Ensemble) -> tuple[Pairs, Ensemble]:
    """Of all pairs of a table those that may be matches, and the ensemble set to the table.

    The law learns from candidates where records are many. Every record meets strangers from every cluster if it meets
    all records, and so many unlikely choices together are not unlikely any more.
    """
    if ensemble.evidence is None or len(pairs) <= MOST_UNFILTERED:
        return pairs, ensemble.set_to_all(pairs)
    some = thin(pairs.features)
    n, n_pairs = pairs.n_items, len(pairs)
    least, most = believable_rates(ensemble.partners, n_pairs, n)
    rates = max(least, FEWEST_PARTNERS * n / (2.0 * n_pairs)), most
    first = ensemble.evidence.in_table(some, some, len(some), rates)
    pairs = pairs.select(first.log_ratio(pairs.features) + first.log_odds_of_match >= UNLIKELY - MARGIN)
    there = ensemble.set_to(some, pairs.features, n_pairs, n, LaterPartners(pairs.left, n))
    assert there.table is not None
    return pairs.select(there.table.log_ratio(pairs.features) + there.log_odds >= UNLIKELY), there
