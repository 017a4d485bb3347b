"""The prefilter: of very many candidate pairs those stay that may be matches by the evidence of the table.

Evidence is turned into a piecewise-linear bound for each comparison, never below what the comparison can say. A pair is
dropped as soon as the comparisons that are left could not lift it over the bar.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Features, Floats
from scdp.linkage.curves import Knots, add_up
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
