"""What is believed about records now: draws of their partition, conditioned at once on every decision.

Records that no draw puts together are independent of each other, so a decision changes only the records of its own
components. There, draws that disagree with it are replaced by such that agree; where none agrees, all are corrected.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import NamedTuple

import numpy as np

from scdp._typing import Booleans, Floats, Integers, SmallIntegers
from scdp.engines import label_by_first
from scdp.partitions import ComponentItems, find_components, take_columns
from scdp.posterior import Posterior
from scdp.posterior.pairs import count_pairs_by_component
from scdp.table.decisions import Constraints

# Draws (draws x pairs) that are looked at together.
ENTRIES_AT_ONCE = 20_000_000
# The clusters of more records than this are only corrected by decisions, not found anew.
MOST_SEARCHED = 300


class PairBeliefs(NamedTuple):
    """Pairs that some draw puts together, smaller row first; `by_member` is (members, pairs)."""

    left: Integers
    right: Integers
    by_member: Floats

    @property
    def probability(self) -> Floats:
        found: Floats = self.by_member.mean(axis=0)
        return found

    def take(self, which: Booleans | Integers) -> PairBeliefs:
        return PairBeliefs(self.left[which], self.right[which], self.by_member[:, which])

    def join(self, other: PairBeliefs) -> PairBeliefs:
        return PairBeliefs(
            np.concatenate([self.left, other.left]),
            np.concatenate([self.right, other.right]),
            np.concatenate([self.by_member, other.by_member], axis=1),
        )


class UnsurePairs(NamedTuple):
    """The pairs of components in which draws differ, and how many others there are: those all draws put together."""

    pairs: PairBeliefs
    n_sure: int
    n_sure_linked: int


class Beliefs:
    """Draws of the partition of n records as far as decisions leave them.

    Parameters
    ----------
    draws : array of integers (draws, records)
        The cluster of each record in each draw, by any numbers from 0 to n.
    answer : array of integers, optional
        The cluster of each record in the answer that is judged; the one of highest expected F, unless given.
    n_members : int
        Draw i is of member i % n_members: draws of one member share their parameters.

    Example
    -------
    >>> beliefs = Beliefs(np.array([[0, 0, 2], [0, 1, 2]]), n_members=1)
    >>> beliefs.pairs.probability
    array([0.5])
    """

    def __init__(self, draws: SmallIntegers, answer: Integers | None = None, n_members: int = 1) -> None:
        self.base = np.ascontiguousarray(draws, dtype=np.int32).copy()
        self.n_draws, self.n_records = self.base.shape
        self.n_members = min(n_members, self.n_draws)
        label_by_first(self.base, np.arange(self.n_records))
        if answer is None:
            answer = Posterior(self.base[None]).point_estimate("f").astype(np.int64)
        self.answer = _by_first(answer)
        self.base_answer = self.answer.copy()
        found = find_components([self.base, self.answer[None].astype(np.int32)], self.n_records)
        self.component = np.empty(self.n_records, dtype=np.int64)
        self.component[found.items] = np.repeat(np.arange(len(found.bounds) - 1), found.sizes)
        self._components = found
        # Conditioned draws, by the first record of the components that decisions reach.
        self._changed: dict[int, tuple[Integers, SmallIntegers]] = {}
        self._home = np.full(self.n_records, -1, dtype=np.int64)
        self._base_pairs = self._count_pairs(found.select(found.sizes > 1))
        code = self.component[self._base_pairs.left]
        self._pair_bounds = np.searchsorted(code, np.arange(len(found.bounds)))
        # Pairs of records that decisions reach stand apart, so that a decision costs the same in any table.
        self._stale = np.zeros(len(code), dtype=bool)
        self._fresh: dict[int, PairBeliefs] = {}
        self._pairs: PairBeliefs | None = self._base_pairs
        self._unsure: UnsurePairs | None = None
        # Of a large table most components are sure: they are counted, and looked at no more.
        in_doubt = np.zeros(len(found.bounds), dtype=bool)
        in_doubt[code[self._base_pairs.probability < 1.0]] = True
        self._open = np.flatnonzero(in_doubt[code])
        self._base_open = self._base_pairs.take(self._open)
        self._sure = ~in_doubt[code]
        self._sure_linked = self._sure & (self.answer[self._base_pairs.left] == self.answer[self._base_pairs.right])
        nothing = np.zeros(0, dtype=np.int64)
        self._constraints = Constraints(np.full(self.n_records, -1, dtype=np.int64), nothing, nothing)
        self.threshold = self._find_threshold()

    @property
    def n_clusters(self) -> int:
        """Of the answer."""
        return int((self.answer == np.arange(self.n_records)).sum())

    @property
    def pairs(self) -> PairBeliefs:
        """All pairs that some draw puts together."""
        if self._pairs is None:
            kept = self._base_pairs.take(~self._stale) if self._stale.any() else self._base_pairs
            for fresh in self._fresh.values():
                kept = kept.join(fresh)
            self._pairs = kept
        return self._pairs

    @property
    def unsure(self) -> UnsurePairs:
        """What is in doubt: all that decisions may change, and all that they have changed."""
        if self._unsure is None:
            kept = self._base_open.take(~self._stale[self._open])
            for fresh in self._fresh.values():
                kept = kept.join(fresh)
            left = ~self._stale
            self._unsure = UnsurePairs(kept, int((self._sure & left).sum()), int((self._sure_linked & left).sum()))
        return self._unsure

    def count_clusters(self) -> Integers:
        """The number of clusters in each draw."""
        pairs = self.unsure.pairs
        rest = np.ones(self.n_records, dtype=bool)
        rest[pairs.left] = rest[pairs.right] = False
        # The others are parted alike by all draws; where decisions reach, they are alone.
        alike = int((rest & ((self._home >= 0) | (self.base[0] == np.arange(self.n_records)))).sum())
        rows = np.flatnonzero(~rest)
        if not len(rows):
            return np.full(self.n_draws, alike)
        draws = np.sort(self.columns(rows), axis=1)
        counts: Integers = 1 + (np.diff(draws, axis=1) != 0).sum(axis=1) + alike
        return counts

    def snapshot(self) -> Beliefs:
        """The same beliefs, for somebody who reads them while decisions go on."""
        other = copy(self)
        other.answer, other._home, other._changed = self.answer.copy(), self._home.copy(), dict(self._changed)
        other._stale, other._fresh = self._stale.copy(), dict(self._fresh)
        return other

    def columns(self, rows: Integers) -> SmallIntegers:
        """Draws (draws, rows) of some records."""
        out = self.base[:, rows]
        for place in np.flatnonzero(self._home[rows] >= 0):
            items, draws = self._changed[int(self._home[rows[place]])]
            out[:, place] = draws[:, int(np.searchsorted(items, rows[place]))]
        return out

    def probability(self, row: int, other: int) -> float:
        """That two records are together."""
        both = self.columns(np.array([row, other]))
        return float((both[:, 0] == both[:, 1]).mean())

    def membership(self) -> Floats:
        """How sure it is that each record belongs to its cluster: as `Posterior.membership_probability`."""
        draws = self.base.copy()
        for items, changed in self._changed.values():
            draws[:, items] = changed
        return Posterior(draws[None]).membership_probability(self.answer)

    def members_of(self, row: int) -> Integers:
        """The records of the answer's cluster that a record is in."""
        near = self.around(row)
        members: Integers = near[self.answer[near] == self.answer[row]]
        return members

    def around(self, row: int) -> Integers:
        """All records that might be together with a record, itself among them, ascending."""
        home = int(self._home[row])
        return self._changed[home][0] if home >= 0 else self._items_of(int(self.component[row]))

    def condition(self, constraints: Constraints, rows: Iterable[int]) -> None:
        """Take all decisions into account, of which those about some rows are new or were withdrawn."""
        self._constraints = constraints
        regions = _Regions(self, constraints)
        touched = {code for row in rows for code in (regions.of(row), *self._former(row, regions))}
        for code in touched:
            self._change(regions.rows(code), constraints)

    def is_decided(self, left: Integers, right: Integers) -> Booleans:
        """Which pairs of rows decisions have made the same, or different."""
        known = self._constraints
        group = known.group
        n = self.n_records
        # One number for all records of a group, and for each other record.
        name = np.where(group >= 0, n + group, np.arange(n))
        one, other = name[known.left], name[known.right]
        apart = np.minimum(one, other) * (2 * n) + np.maximum(one, other)
        one, other = name[left], name[right]
        found: Booleans = (one == other) | np.isin(np.minimum(one, other) * (2 * n) + np.maximum(one, other), apart)
        return found

    def _former(self, row: int, regions: _Regions) -> set[int]:
        """The regions that the records are in now which were in one with this record until now."""
        home = int(self._home[row])
        return set() if home < 0 else {regions.of(int(item)) for item in self._changed[home][0]}

    def _change(self, items: Integers, constraints: Constraints) -> None:
        inside = np.isin(items, _constrained(constraints, items))
        for home in {int(home) for home in self._home[items] if home >= 0}:
            self._home[self._changed.pop(home)[0]] = -1
            self._fresh.pop(home)
        self._pairs = self._unsure = None
        for part in np.unique(self.component[items]).tolist():
            self._stale[self._pair_bounds[part] : self._pair_bounds[part + 1]] = bool(inside.any())
        draws = self.base[:, items]
        self.answer[items] = self.base_answer[items]
        local = _localise(constraints, items)
        if inside.any():
            draws = _number_rows(condition_draws(draws, local, self.n_members))
            left, right, _ = count_pairs_by_component(draws, np.array([0, len(items)]))
            fresh = self._beliefs_of(draws, left.astype(np.int64), right.astype(np.int64))
            # No label may be that of a record elsewhere.
            label_by_first(draws, items)
            first = int(items[0])
            self._changed[first] = items, draws
            self._home[items] = first
            self._fresh[first] = fresh._replace(left=items[left], right=items[right])
        self.answer[items] = items[self._answer_of(items, draws, local, bool(inside.any()))]

    def _answer_of(self, items: Integers, draws: SmallIntegers, local: Constraints, constrained: bool) -> Integers:
        """The answer for some records, by places among them."""
        old = np.unique(self.answer[items], return_inverse=True)[1]
        if not constrained:
            return _by_first(old)
        corrected = _by_first(correct_draw(old.astype(np.int32), local).astype(np.int64))
        if len(items) > MOST_SEARCHED:
            return corrected
        together = np.zeros((len(items), len(items)))
        for row in draws:
            together += row[:, None] == row[None, :]
        gain = together / len(draws) - self.threshold
        np.fill_diagonal(gain, 0.0)
        best, worth = corrected, _worth(corrected, gain)
        for other in (merge_greedily(gain), *np.unique(draws, axis=0)[:50]):
            proposal = _by_first(correct_draw(np.asarray(other, np.int32), local).astype(np.int64))
            if _worth(proposal, gain) > worth + 1e-9:
                best, worth = proposal, _worth(proposal, gain)
        return best

    def _items_of(self, code: int) -> Integers:
        bounds = self._components.bounds
        return self._components.items[bounds[code] : bounds[code + 1]]

    def _count_pairs(self, linked: ComponentItems) -> PairBeliefs:
        columns = take_columns(self.base, linked.items)
        left, right, _ = count_pairs_by_component(columns, linked.bounds)
        found = self._beliefs_of(columns, left.astype(np.int64), right.astype(np.int64))
        one, other = linked.items[left], linked.items[right]
        order = np.argsort(self.component[one], kind="stable")
        return PairBeliefs(np.minimum(one, other)[order], np.maximum(one, other)[order], found.by_member[:, order])

    def _beliefs_of(self, draws: SmallIntegers, left: Integers, right: Integers) -> PairBeliefs:
        by_member = np.empty((self.n_members, len(left)))
        step = max(ENTRIES_AT_ONCE // max(self.n_draws, 1), 1)
        for start in range(0, len(left), step):
            here = slice(start, start + step)
            together = draws[:, left[here]] == draws[:, right[here]]
            for member in range(self.n_members):
                by_member[member, here] = together[member :: self.n_members].mean(axis=0)
        return PairBeliefs(left, right, by_member)

    def _find_threshold(self) -> float:
        """Pairs above half of the expected F are better linked, as far as F goes."""
        probability = self.pairs.probability
        linked = self.answer[self.pairs.left] == self.answer[self.pairs.right]
        total = float(probability.sum()) + self.n_links
        return float(probability[linked].sum()) / total if total > 0 else 0.5

    @property
    def n_links(self) -> float:
        """Pairs that the answer puts together."""
        sizes = np.bincount(self.answer, minlength=1).astype(np.float64)
        return float((sizes * (sizes - 1.0)).sum() / 2.0)


class _Regions:
    """Components that decisions connect, as one."""

    def __init__(self, beliefs: Beliefs, constraints: Constraints) -> None:
        self._beliefs = beliefs
        self._above: dict[int, int] = {}
        self._parts: dict[int, list[int]] | None = None
        code = beliefs.component
        grouped = np.flatnonzero(constraints.group >= 0)
        order = grouped[np.argsort(constraints.group[grouped], kind="stable")]
        same = constraints.group[order[1:]] == constraints.group[order[:-1]]
        ends = [(order[:-1][same], order[1:][same]), (constraints.left, constraints.right)]
        for one, other in ends:
            for a, b in zip(code[one].tolist(), code[other].tolist(), strict=True):
                self._above[self._top(a)] = self._top(b)

    def _top(self, code: int) -> int:
        while self._above.get(code, code) != code:
            code = self._above[code]
        return code

    def of(self, row: int) -> int:
        return self._top(int(self._beliefs.component[row]))

    def rows(self, code: int) -> Integers:
        if self._parts is None:
            self._parts = {}
            for part in self._above:
                self._parts.setdefault(self._top(part), []).append(part)
        parts = {code, *self._parts.get(code, [])}
        return np.sort(np.concatenate([self._beliefs._items_of(part) for part in parts]))


def _constrained(constraints: Constraints, items: Integers) -> Integers:
    grouped = items[constraints.group[items] >= 0]
    apart = np.isin(constraints.left, items)
    return np.concatenate([grouped, constraints.left[apart], constraints.right[apart]])


def _localise(constraints: Constraints, items: Integers) -> Constraints:
    """The constraints among some rows, which are ascending, by places among them."""
    inside = np.isin(constraints.left, items) & np.isin(constraints.right, items)
    left, right = (np.searchsorted(items, end[inside]) for end in (constraints.left, constraints.right))
    return Constraints(constraints.group[items], left, right)


def condition_draws(draws: SmallIntegers, local: Constraints, n_members: int) -> SmallIntegers:
    """Draws that agree with constraints: those that do, in place of those that do not."""
    agrees = np.ones(len(draws), dtype=bool)
    for group in np.unique(local.group[local.group >= 0]):
        members = np.flatnonzero(local.group == group)
        agrees &= (draws[:, members] == draws[:, members[:1]]).all(axis=1)
    for one, other in zip(local.left.tolist(), local.right.tolist(), strict=True):
        agrees &= draws[:, one] != draws[:, other]
    if agrees.all():
        return draws
    out = draws.copy()
    if not agrees.any():
        for number in range(len(out)):
            out[number] = correct_draw(out[number], local)
        return out
    good = np.flatnonzero(agrees)
    for number in np.flatnonzero(~agrees).tolist():
        own = good[good % n_members == number % n_members]
        pool = own if len(own) else good
        out[number] = draws[pool[number % len(pool)]]
    return out


def correct_draw(draw: SmallIntegers, local: Constraints) -> SmallIntegers:
    """The draw with what must be together put together, and what must not be taken apart."""
    labels = draw.astype(np.int32).copy()
    fresh = int(labels.max(initial=-1)) + 1
    groups = [np.flatnonzero(local.group == group) for group in np.unique(local.group[local.group >= 0]).tolist()]
    for members in groups:
        # Those that are elsewhere come alone: who they were with is not said to be the same.
        names, counts = np.unique(labels[members], return_counts=True)
        labels[members] = names[int(np.argmax(counts))]
    for one, other in zip(local.left.tolist(), local.right.tolist(), strict=True):
        if labels[one] != labels[other]:
            continue
        group = int(local.group[other])
        moved = np.flatnonzero(local.group == group) if group >= 0 else np.array([other])
        labels[moved] = fresh
        fresh += 1
    return labels


def merge_greedily(gain: Floats) -> Integers:
    """Clusters by merging, again and again, the two whose merger gains most, as long as it gains."""
    n = len(gain)
    between = gain.copy()
    np.fill_diagonal(between, -np.inf)
    labels = np.arange(n)
    while n > 1:
        one, other = divmod(int(np.argmax(between)), len(gain))
        if between[one, other] <= 0.0:
            break
        labels[labels == other] = one
        between[one] += between[other]
        between[:, one] = between[one]
        between[one, one] = -np.inf
        between[other, :] = between[:, other] = -np.inf
    return labels


def _worth(labels: Integers, gain: Floats) -> float:
    return float(gain[labels[:, None] == labels[None, :]].sum())


def _by_first(labels: Integers) -> Integers:
    """Each item labelled by the first item of its cluster."""
    _, first, code = np.unique(labels, return_index=True, return_inverse=True)
    found: Integers = first[code].astype(np.int64)
    return found


def _number_rows(draws: SmallIntegers) -> SmallIntegers:
    """Labels of each draw as small numbers."""
    out = np.empty_like(draws)
    for number, row in enumerate(draws):
        out[number] = np.unique(row, return_inverse=True)[1]
    return out
