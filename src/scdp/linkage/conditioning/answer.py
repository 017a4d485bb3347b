"""The answer within the conditions: clusters of a point estimate that break one are put together anew.

Every draw keeps the conditions, but the partition that serves best on average may not: two records that differ can both
be together with a third often enough. The clusters concerned are taken apart into what must stay together, and merged
again by average link on the probabilities of pairs, as far as conditions allow.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Booleans, Floats, Integers
from scdp.components import connected_components
from scdp.estimators.conditions import Conditions
from scdp.posterior import Posterior

# Two parts are merged if their records are together with at least this probability on average.
EVEN_ODDS = 0.5
# Of more records, the probabilities of all pairs would take too much memory: what must stay together is kept, no more.
MOST_MERGED = 4_000


def keep_conditions(
    labels: Integers, conditions: Conditions, known: Integers, posterior: Posterior, enough: float = EVEN_ODDS
) -> Integers:
    """Labels in which no condition is broken; clusters that break none stay as they are.

    Parameters
    ----------
    labels : array of integers
        The cluster of each record.
    conditions : Conditions
        What must hold.
    known : array of integers
        Given clusters, -1 where there is none; they stay whole and apart from each other.
    posterior : Posterior
        Draws of the same records.
    enough : float
        The mean probability from which parts of a cluster are merged.

    Returns
    -------
    array of integers
    """
    labels = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    n_labels = int(labels.max(initial=-1)) + 1
    leader, member = conditions.ties()
    torn = labels[leader] != labels[member]
    # Clusters that share a group are put together anew as one.
    ends = labels[leader[torn]], labels[member[torn]]
    parts = connected_components(n_labels, [ends]).codes
    broken = np.zeros(int(parts.max(initial=-1)) + 1, dtype=bool)
    broken[parts[ends[0]]] = True
    together = labels[conditions.left] == labels[conditions.right]
    broken[parts[labels[conditions.left[together]]]] = True
    broken[parts[labels[_second_of_source(conditions.source, labels)]]] = True
    following = n_labels
    found = labels.copy()
    region = parts[labels]
    rows = np.flatnonzero(broken[region])
    if not len(rows):
        return found
    rows = rows[np.argsort(region[rows], kind="stable")]
    drawn = np.concatenate([draws[:, rows] for _, draws in posterior.stored.label_chunks()])
    for places in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(region[rows])) + 1):
        some = rows[places]
        merged = merge_within(conditions.take(some), known[some], drawn[:, places], enough)
        found[some] = following + merged
        following += int(merged.max()) + 1
    return found


def _second_of_source(source: Integers, labels: Integers) -> Integers:
    """Records whose cluster has another record of their source."""
    rows = np.flatnonzero(source >= 0)
    rows = rows[np.lexsort((source[rows], labels[rows]))]
    same = (np.diff(source[rows]) == 0) & (np.diff(labels[rows]) == 0)
    return rows[1:][same]


def merge_within(conditions: Conditions, known: Integers, draws: NDArray[Any], enough: float) -> Integers:
    """Clusters of a few records by average link, from what must stay together, as far as conditions allow."""
    unit = _units(conditions, known)
    n_units, n_items = int(unit.max()) + 1, len(unit)
    sizes = np.bincount(unit).astype(np.float64)
    if n_items > MOST_MERGED:
        return unit
    together = np.zeros((n_items, n_items))
    for labels in draws:
        together += labels[:, None] == labels
    together /= len(draws)
    member = np.zeros((n_units, n_items))
    member[unit, np.arange(n_items)] = 1.0
    total: Floats = member @ together @ member.T
    allowed = _may_merge(conditions, known, unit, n_units)
    mean = np.where(allowed, total / np.outer(sizes, sizes), -1.0)
    np.fill_diagonal(mean, -1.0)
    home = np.arange(n_units)
    while n_units > 1:
        one, other = (int(place) for place in np.unravel_index(np.argmax(mean), mean.shape))
        if mean[one, other] < enough:
            break
        home[home == other] = one
        total[one] += total[other]
        total[:, one] += total[:, other]
        sizes[one] += sizes[other]
        allowed[one] &= allowed[other]
        allowed[:, one] &= allowed[:, other]
        allowed[other], allowed[:, other] = False, False
        mean[one] = np.where(allowed[one], total[one] / (sizes[one] * sizes), -1.0)
        mean[one, one] = -1.0
        mean[:, one] = mean[one]
        mean[other], mean[:, other] = -1.0, -1.0
    return np.unique(home[unit], return_inverse=True)[1].astype(np.int64)


def _units(conditions: Conditions, known: Integers) -> Integers:
    """Numbers of what must stay together: given clusters, groups, and single records."""
    n = len(known)
    whole = np.where(known >= 0, known, -1)
    first = np.arange(n)
    for label in (whole, conditions.group):
        rows = np.flatnonzero(label >= 0)
        _, start, code = np.unique(label[rows], return_index=True, return_inverse=True)
        first[rows] = np.minimum(first[rows], rows[start][code])
    return np.unique(first, return_inverse=True)[1].astype(np.int64)


def _may_merge(conditions: Conditions, known: Integers, unit: Integers, n_units: int) -> Booleans:
    """(units, units): whether two may be one cluster."""
    allowed = np.ones((n_units, n_units), dtype=bool)
    left, right = unit[conditions.left], unit[conditions.right]
    allowed[left, right] = allowed[right, left] = False
    given = np.unique(unit[known >= 0])
    allowed[np.ix_(given, given)] = False
    for source in np.unique(conditions.source[conditions.source >= 0]):
        own = np.unique(unit[conditions.source == source])
        allowed[np.ix_(own, own)] = False
    return allowed
