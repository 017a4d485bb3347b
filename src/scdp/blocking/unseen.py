"""How many true pairs a blocking loses, where no labels tell: likely pairs enter, a share leaves.

A pair that several columns propose would be found if one of them failed; one that a single column proposes was nearly
lost. So from how many likely pairs have one column that proposes them, and how many have two, follows how many have
none: the estimate of Chao (1987) for animals that were never caught.
"""

from __future__ import annotations

import numpy as np

from scdp._parallel import map_in_threads
from scdp._typing import Booleans, Floats, Integers
from scdp.blocking.candidates import make_index_search, make_key_maker, worker_count
from scdp.blocking.index import build_index
from scdp.blocking.pairs import number_pairs
from scdp.blocking.rules import Blocking, Rule
from scdp.table.records import Records

# Fewer sets of columns, or fewer likely pairs, tell nothing.
FEWEST_FAMILIES, FEWEST_PAIRS = 3, 20.0
# The pairs of so many records are looked at.
MOST_ROWS = 2_000


def estimate_recall(
    records: Records, blocking: Blocking, left: Integers, right: Integers, probability: Floats
) -> float:
    """The share of true pairs that a blocking proposes, by some that it does (left < right); NaN where they are few.

    `probability` is that of each being a match. Unlikely ones must not be among them.
    """
    families = _group_by_columns(blocking)
    rows = np.unique(left)
    if len(rows) > MOST_ROWS:
        rows = np.sort(np.random.default_rng(len(rows)).choice(rows, MOST_ROWS, replace=False))
        some = np.isin(left, rows)
        left, right, probability = left[some], right[some], probability[some]
    if len(families) < FEWEST_FAMILIES or probability.sum() < FEWEST_PAIRS:
        return float("nan")
    by_family = np.zeros((len(families), len(left)), dtype=bool)
    maker, threads, keys = make_key_maker(records, blocking), worker_count(None), number_pairs(left, right)
    for found, rules in zip(by_family, families.values(), strict=True):
        search = make_index_search(build_index(maker, blocking, rules, threads)[0])
        for pairs in map_in_threads(search.pairs, search.parts(rows.astype(np.int32)), threads):
            found |= np.isin(keys, number_pairs(*pairs))
    shares = [estimate_unseen_share(by_family, probability)]
    # Columns together find what each of them finds and more. Without such rules no fewer pairs are lost.
    alone = [not any(other < columns for other in families) for columns in families]
    if FEWEST_FAMILIES <= sum(alone) < len(families):
        shares.append(estimate_unseen_share(by_family[alone], probability))
    return 1.0 - min(shares)


def estimate_unseen_share(caught: Booleans, weight: Floats) -> float:
    """The share of things that were never caught, by which were caught each time: (times, things), of some weight."""
    n_times, often = len(caught), caught.sum(axis=0)
    once, twice = (float(weight[often == number].sum()) for number in (1, 2))
    unseen = (n_times - 1.0) / n_times * once * max(once - 1.0, 0.0) / (2.0 * (twice + 1.0))
    return unseen / max(unseen + float(weight[often > 0].sum()), 1.0)


def _group_by_columns(blocking: Blocking) -> dict[frozenset[str], list[Rule]]:
    """Rules by what they read: those of the same columns find or lose a pair together."""
    families: dict[frozenset[str], list[Rule]] = {}
    for rule in blocking.rules:
        families.setdefault(frozenset(rule.columns), []).append(rule)
    return families
