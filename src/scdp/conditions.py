"""Conditions: what every draw of the records at hand must keep, as arrays by record.

Every draw keeps the conditions, but the partition that serves best on average may not: two records that differ can
both be together with a third often enough. The clusters concerned are taken apart into what must stay together, and
merged again by average link on the probabilities of pairs, as far as conditions allow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Booleans, Floats, Integers
from scdp.compare.features import Pairs
from scdp.errors import InputError
from scdp.partitions import connected_components
from scdp.posterior import Posterior
from scdp.table import Records
from scdp.table.decisions import Constraints
from scdp.table.spec import Spec


class Limits(NamedTuple):
    """Conditions for kernels: record i is apart from `other[start[i]:start[i + 1]]`."""

    group: Integers
    source: Integers
    n_sources: int
    start: Integers
    other: Integers


@dataclass(frozen=True, eq=False)
class Conditions:
    """Of records: those with the same `group` are together, the pairs `left`, `right` are apart, and so are records
    with the same `source`; -1 says nothing of either kind. Records with the same number in `uncompared` are never
    compared, which also keeps them apart as far as no third record brings them together."""

    group: Integers
    left: Integers
    right: Integers
    source: Integers
    uncompared: Integers | None = None

    @classmethod
    def none(cls, n_records: int) -> Self:
        """Conditions that say nothing."""
        nobody = np.full(n_records, -1, dtype=np.int64)
        return cls(nobody, np.empty(0, np.int64), np.empty(0, np.int64), nobody)

    def __len__(self) -> int:
        return len(self.group)

    def any(self) -> bool:
        """Whether anything is said."""
        said = (self.group, self.source, np.empty(0) if self.uncompared is None else self.uncompared)
        return bool(len(self.left) or any((one >= 0).any() for one in said))

    def arrays(self) -> tuple[Integers, ...]:
        """All that draws hang on."""
        return self.group, self.left, self.right, self.source

    @cached_property
    def limits(self) -> Limits:
        both = np.concatenate([self.left, self.right])
        order = np.argsort(both, kind="stable")
        start = np.zeros(len(self) + 1, dtype=np.int64)
        np.cumsum(np.bincount(both, minlength=len(self)), out=start[1:])
        other = np.concatenate([self.right, self.left])[order]
        # Numbered without gaps: clusters count the records of each.
        _, source = np.unique(self.source, return_inverse=True)
        source = source.astype(np.int64) - int((self.source < 0).any())
        return Limits(self.group, source, int(source.max(initial=-1)) + 1, start, other)

    def take(self, items: Integers) -> Conditions:
        """The conditions among some records, which are numbered anew in the order given."""
        place = np.full(len(self), -1, dtype=np.int64)
        place[items] = np.arange(len(items))
        left, right = place[self.left], place[self.right]
        kept = (left >= 0) & (right >= 0)
        group = self.group[items]
        named = group >= 0
        group = group.copy()
        group[named] = np.unique(group[named], return_inverse=True)[1]
        uncompared = None if self.uncompared is None else self.uncompared[items]
        return Conditions(group, left[kept], right[kept], self.source[items], uncompared)

    def after(self, n_records: int) -> Conditions:
        """The same conditions with so many unconditioned records put before."""
        nobody = np.full(n_records, -1, dtype=np.int64)
        return Conditions(
            np.concatenate([nobody, self.group]),
            self.left + n_records,
            self.right + n_records,
            np.concatenate([nobody, self.source]),
            None if self.uncompared is None else np.concatenate([nobody, self.uncompared]),
        )

    def may_meet(self, left: Integers, right: Integers) -> Booleans:
        """Which pairs are compared."""
        if self.uncompared is None:
            return np.ones(len(left), dtype=bool)
        own = self.uncompared[left]
        meets: Booleans = (own < 0) | (own != self.uncompared[right])
        return meets

    def count_pairs(self) -> float:
        """How many pairs there are to compare."""
        n, sizes = float(len(self)), np.zeros(0)
        if self.uncompared is not None:
            sizes = np.bincount(self.uncompared[self.uncompared >= 0]).astype(np.float64)
        return n * (n - 1) / 2.0 - float((sizes * (sizes - 1) / 2.0).sum())

    def concerned(self) -> Booleans:
        """Which records are under a condition."""
        found: Booleans = (self.group >= 0) | (self.source >= 0)
        found[self.left] = found[self.right] = True
        return found

    def teach(self, known: Integers) -> Integers:
        """Known clusters with those that decisions teach: groups, and records that only differ from others.

        Two records of different groups count as different to those who learn from it.
        """
        taught = known.copy()
        following = int(known.max(initial=-1)) + 1
        members = (self.group >= 0) & (known < 0)
        taught[members] = following + self.group[members]
        following = int(taught.max(initial=-1)) + 1
        alone = np.zeros(len(known), dtype=bool)
        alone[self.left] = alone[self.right] = True
        alone &= taught < 0
        taught[alone] = following + np.arange(int(alone.sum()))
        return taught

    def with_clusters(self, known: Integers) -> Conditions:
        """The conditions, with given clusters as groups."""
        group = self.group.copy()
        group[known >= 0] = int(group.max(initial=-1)) + 1 + known[known >= 0]
        return replace(self, group=group)

    def ties(self) -> tuple[Integers, Integers]:
        """Edges from the first record of each group to the others."""
        members = np.flatnonzero(self.group >= 0)
        _, first, number = np.unique(self.group[members], return_index=True, return_inverse=True)
        leader = members[first][number]
        others = members != leader
        return leader[others], members[others]

    def same_group(self, left: Integers, right: Integers) -> Booleans:
        """Which pairs are known to be the same."""
        group = self.group[left]
        same: Booleans = (group >= 0) & (group == self.group[right])
        return same

    def tie(self, pairs: Pairs) -> tuple[Pairs, int]:
        """Pairs with those added that hold each group together, without features; and how many were added."""
        leader, member = self.ties()
        there = np.minimum(pairs.left, pairs.right) * pairs.n_items + np.maximum(pairs.left, pairs.right)
        new = ~np.isin(leader * pairs.n_items + member, there)
        left = np.concatenate([pairs.left, leader[new]])
        right = np.concatenate([pairs.right, member[new]])
        features = np.concatenate([pairs.features, np.zeros((int(new.sum()), pairs.n_features), np.float32)])
        return Pairs(pairs.n_items, left, right, features), int(new.sum())

    def settle(self, known: Integers, name: Callable[[int], str]) -> tuple[Conditions, Integers]:
        """Conditions among free records, and the given clusters with all that are known to be in them.

        What contradicts the given clusters is refused; `name` names a record by its number.
        """
        known = known.copy()
        group = self.group.copy()
        for number in np.unique(group[(group >= 0) & (known >= 0)]).tolist():
            members = np.flatnonzero(group == number)
            given = members[known[members] >= 0]
            other = given[known[given] != known[given[0]]]
            if len(other):
                raise InputError(
                    f"the decisions make {name(int(given[0]))} and {name(int(other[0]))} the same, and they are given "
                    "in two clusters; correct the decision or the given cluster"
                )
            known[members] = known[given[0]]
            group[members] = -1
        both = (known[self.left] >= 0) & (known[self.right] >= 0)
        wrong = np.flatnonzero(both & (known[self.left] == known[self.right]))
        if len(wrong):
            one, other_one = int(self.left[wrong[0]]), int(self.right[wrong[0]])
            raise InputError(
                f"the decisions make {name(one)} and {name(other_one)} different, and they are given in one cluster; "
                "correct the decision or the given cluster"
            )
        found = replace(self, group=group, left=self.left[~both], right=self.right[~both])
        found._check_sources(known, name)
        return found, known

    def _check_sources(self, known: Integers, name: Callable[[int], str]) -> None:
        for cluster in (self.group, known):
            rows = np.flatnonzero((self.source >= 0) & (cluster >= 0))
            rows = rows[np.lexsort((self.source[rows], cluster[rows]))]
            same = (np.diff(self.source[rows]) == 0) & (np.diff(cluster[rows]) == 0)
            if same.any():
                place = int(np.flatnonzero(same)[0])
                raise InputError(
                    f"{name(int(rows[place]))} and {name(int(rows[place + 1]))} are given as the same, and come from "
                    "a source that has each thing at most once; correct one of the two"
                )


def conditions_of(
    constraints: Constraints | None, records: Records | None, spec: Spec | None, n_records: int
) -> Conditions | None:
    """Conditions of decisions, and of the sources that a spec tells of; None where nothing is said."""
    found = Conditions.none(n_records)
    if constraints is not None:
        found = replace(found, group=constraints.group, left=constraints.left, right=constraints.right)
    if records is not None and spec is not None and spec.source is not None:
        once, code = number_sources(records[spec.source].tolist(), spec.at_most_one)
        found = replace(found, source=once, uncompared=code if spec.link_only else once)
    return found if found.any() else None


def number_sources(names: Sequence[str | None], at_most_one: Sequence[str]) -> tuple[Integers, Integers]:
    """The number of each record's source (-1 = unknown): of those with each thing at most once, and of all."""
    number: dict[str, int] = {}
    code = np.array([-1 if one is None else number.setdefault(one, len(number)) for one in names], dtype=np.int64)
    limited = [number[name] for name in at_most_one if name in number]
    return np.where(np.isin(code, limited), code, -1), code


# Two parts are merged if their records are together with at least this probability on average.
EVEN_ODDS = 0.5
# Of more records, the probabilities of all pairs would take too much memory: what must stay together is kept, no more.
MOST_MERGED = 4_000


def keep_conditions(
    labels: Integers, conditions: Conditions, known: Integers, posterior: Posterior, enough: float = EVEN_ODDS
) -> Integers:
    """Labels in which no condition is broken; clusters that break none stay as they are.

    Known clusters (-1 where there is none) stay whole and apart from each other. Parts of a broken cluster are merged
    if the draws have them together with the mean probability `enough`.
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
