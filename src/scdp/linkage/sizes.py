"""How large clusters are in a table: its sure pairs enter, the weight of a third record leaves.

In any order of the records, a cluster of n has one record with each of 0, 1, ..., n - 1 later partners. So how many
records have one sure later partner or more, two or more, and three or more tells how many clusters there are of one,
two and more records, also where only some of the records are looked at.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scdp._typing import Floats, Integers

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
