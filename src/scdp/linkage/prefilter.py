"""The prefilter: of very many candidate pairs those stay that may be matches by the evidence of the table.

Evidence is turned into a piecewise-linear bound for each comparison, never below what the comparison can say. A pair is
dropped as soon as the comparisons that are left could not lift it over the bar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp._typing import Features, Floats, Integers
from scdp.compare import Prepared
from scdp.compare.packed import EXACT, NUMBER, Packed, can_be_packed, pack, text_distance
from scdp.compare.scorers import FARTHEST
from scdp.linkage.ensemble import Knots, add_up
from scdp.linkage.evidence import EDGES, TableEvidence

# Pairs that are less likely than this are dropped: log-odds.
CUT = -5.0
N_PIECES = 32


class Column(Protocol):
    """The distances of pairs of records by one comparison."""

    def pairs(self, left: NDArray[Any], right: NDArray[Any], workers: int) -> Features: ...


@dataclass(frozen=True, eq=False)
class Prefilter:
    """`order` are the comparisons, the most telling first; heights are in that order.

    `need` is the log-ratio that a pair must reach.
    """

    order: tuple[int, ...]
    knots: Knots
    heights: Floats
    need: float

    @classmethod
    def of(cls, table: TableEvidence, most_nats: Floats) -> Self:
        """For one table; `most_nats` is by comparison the rarity of its rarest value."""
        at = np.linspace(0.0, 1.0, N_PIECES + 1)
        level = np.searchsorted(EDGES, at, side="left")
        best = np.maximum(table.ratio[:, 0], table.exact + most_nats)
        ratio = np.column_stack([best, table.ratio[:, 1:]])
        # A knot is as high as the highest level that its two pieces touch.
        low, high = np.append(level[0], level[:-1]), np.append(level[1:], level[-1])
        heights = np.maximum(np.maximum(ratio[:, low], ratio[:, level]), ratio[:, high])
        # Levels need not fall with the distance, and between two knots there may be several.
        heights = np.maximum.accumulate(heights[:, ::-1], axis=1)[:, ::-1] * table.layout.share[:, None]
        order = np.argsort(heights[:, -1] - heights[:, 0], kind="stable")
        knots = Knots(np.tile(at, (len(order), 1)), np.full(len(order), -1, dtype=np.int64))
        return cls(tuple(order.tolist()), knots, heights[order], CUT - table.log_odds_of_match)

    @property
    def missing(self) -> Floats:
        """A missing value says nothing."""
        return np.zeros(len(self.order))

    def height(self, place: int, distances: Features) -> Floats:
        """What the comparison at a place of the order adds to the bound."""
        return self._sums(distances[:, None], slice(place, place + 1))

    def bound(self, features: Features) -> Floats:
        """The most that the log-ratio of each pair can be."""
        return self._sums(np.ascontiguousarray(features[:, self.order]), slice(None))

    def _sums(self, features: Features, fields: slice) -> Floats:
        knots = Knots(self.knots.at[fields], self.knots.sign[fields])
        total = np.empty(len(features))
        add_up(*knots.places(features), self.heights[fields], self.missing[fields], total)
        return total


Rows = NDArray[np.int32]
# Sums are rounded: a pair is dropped early only if it misses by more than that.
SLACK = 1e-6
ROOM = 1 << 12


class Curves(NamedTuple):
    """By packed comparison, the prefilter's functions: pieces of `width` from `low` on, and the weight of missing."""

    field: Integers
    low: Floats
    width: Floats
    heights: Floats
    missing: Floats

    @classmethod
    def of(cls, prefilter: Prefilter, places: Sequence[int]) -> Self:
        """`places` are places in the prefilter's order."""
        at = prefilter.knots.at[places]
        field = np.array(prefilter.order, dtype=np.int64)[places]
        return cls(field, at[:, 0], at[:, 1] - at[:, 0], prefilter.heights[places], prefilter.missing[places])


@dataclass(frozen=True, eq=False)
class PrefilterRun:
    """A prefilter made ready for the columns of one set of records; `others` are places in its order not packed."""

    prefilter: Prefilter
    columns: Sequence[Column]
    packed: Packed | None
    curves: Curves
    others: tuple[int, ...]

    @classmethod
    def of(cls, prefilter: Prefilter, columns: Sequence[Column]) -> Self:
        known = [can_be_packed(columns[field]) for field in prefilter.order]
        chosen, others = np.flatnonzero(known).tolist(), np.flatnonzero(np.logical_not(known)).tolist()
        ready = [columns[prefilter.order[place]] for place in chosen]
        prepared = [column for column in ready if isinstance(column, Prepared)]
        packed = pack(prepared, len(prepared[0])) if prepared else None
        return cls(prefilter, columns, packed, Curves.of(prefilter, chosen), tuple(others))

    def keep(self, left: Rows, right: Rows) -> tuple[Integers, Features]:
        """The places of the pairs that may be matches, and their distances."""
        rule, need = self.prefilter, self.prefilter.need
        best = np.maximum(rule.heights.max(axis=1), 0.0)
        unseen = float(best[list(self.others)].sum())
        if self.packed is None:
            places, score = np.arange(len(left)), np.zeros(len(left))
            features = np.empty((len(left), len(self.columns)), dtype=np.float32)
        else:
            floor = need - unseen - SLACK
            places, features, score = filter_pairs(
                left, right, self.packed, self.curves, floor, len(self.columns)
            )
        for place in self.others:
            field = rule.order[place]
            features[:, field] = self.columns[field].pairs(left[places], right[places], 1)
            score = score + rule.height(place, features[:, field])
            unseen -= best[place]
            enough = score >= need - unseen - SLACK
            places, features, score = places[enough], features[enough], score[enough]
        # Summed up in one way, whatever was packed, so that every machine has the same to the last bit.
        enough = rule.bound(features) >= need
        return places[enough], features[enough]


@kernel
def height(low: float, width: float, heights: Floats, c: int, value: float) -> float:
    """What a distance by comparison c adds to the log-odds."""
    n_pieces = heights.shape[1] - 1
    position = min(max((value - low) / width, 0.0), float(n_pieces))
    piece = min(int(position), n_pieces - 1)
    start = heights[c, piece]
    return start + (heights[c, piece + 1] - start) * (position - piece)


@kernel
def filter_pairs(
    left: Rows, right: Rows, packed: Packed, curves: Curves, floor: float, n_fields: int
) -> tuple[Integers, Features, Floats]:
    """Places, distances (packed columns only) and sums of the pairs whose sum reaches the floor, in order."""
    # Taken apart once: a loop over the arrays of a tuple would count who holds them at every step.
    measure, source, cells, letters, n_letters, first, numbers = packed
    field, low, width, heights, missing = curves
    n_packed = len(source)
    nearest = np.empty(n_packed)
    for c in range(n_packed):
        nearest[c] = height(low[c], width[c], heights, c, 0.0)
    values = np.empty(n_packed, np.float32)
    masks = np.zeros((len(first), n_letters), np.uint64)
    holds = np.full(len(first), -1)
    places, sums = np.empty(ROOM, np.int64), np.empty(ROOM)
    features = np.empty((ROOM, n_fields), np.float32)
    n_found = 0
    for p in range(len(left)):
        one, other = left[p], right[p]
        total = 0.0
        for c in range(n_packed):
            s = source[c]
            total += missing[c] if cells[one, s] < 0 or cells[other, s] < 0 else nearest[c]
        c = 0
        while total >= floor and c < n_packed:
            s = source[c]
            a, b = cells[one, s], cells[other, s]
            if a < 0 or b < 0:
                values[c] = np.nan
            elif a == b:
                values[c] = 0.0
            else:
                if measure[c] == NUMBER:
                    values[c] = min(abs(numbers[first[s] + a] - numbers[first[s] + b]), FARTHEST)
                elif measure[c] == EXACT:
                    values[c] = 1.0
                else:
                    values[c] = text_distance(measure[c], s, one, other, cells, letters, masks, holds)
                total += height(low[c], width[c], heights, c, values[c]) - nearest[c]
            c += 1
        if total < floor:
            continue
        if n_found == len(places):
            places, sums = np.append(places, np.empty_like(places)), np.append(sums, np.empty_like(sums))
            features = np.concatenate((features, np.empty_like(features)))
        places[n_found], sums[n_found] = p, total
        for c in range(n_packed):
            features[n_found, field[c]] = values[c]
        n_found += 1
    return places[:n_found].copy(), features[:n_found].copy(), sums[:n_found].copy()
