"""The search: draws enter, the partition that minimises the expected VI or Binder loss over them leaves.

Items that no draw puts together are apart in the best partition: uniting them costs, and no overlap with a draw
pays for it. So components of such links are solved each on its own, small ones exactly. Large ones are searched in
the manner of SALSO (Dahl, Johnson and Mueller 2022): start from the best draws and from items placed one by one in
random order, then improve by moving items and by dissolving clusters.

Items that no draw tells apart, such as copies of a record, are together in the best partition: with t of them in one
cluster and the others in a second, the loss is concave in t for any price up to 2, so least at one of the ends. They
are searched as one item that stands for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scdp._compile import kernel
from scdp._parallel import count_workers, map_in_threads
from scdp._typing import Integers, SmallIntegers
from scdp.errors import InputError
from scdp.partitions import (
    Columns,
    ComponentItems,
    canonical_labels,
    find_alike,
    find_components,
    group_items,
    take_columns,
)
from scdp.posterior.optimise import MOST_ITEMS, Candidate, Costs, Overlaps, descend, solve_components
from scdp.posterior.summaries import Loss, Partition, compute_terms, compute_unscaled_terms

MAX_ROUNDS = 20
MAX_SWEEPS = 50
# Dissolving clusters costs several sweeps, so only the best of so many ends is improved by it.
STARTS_A_FINALIST = 4
# Labels (draws x items) that all starts together may go over: about a second of search.
WORK_FOR_STARTS = 4_000_000
# Components are searched together up to about so many items: more do not fit into fast memory.
ITEMS_AT_ONCE = 10_000
# Moving items takes 24 bytes a label, so this keeps the search below 1 GB.
MOST_SEARCHED = 1 << 25
# The kernels count in 32 bits.
MOST_WEIGHT = (1 << 31) - 1
RandomState = int | np.random.Generator | None


def expected_loss(
    labels: SmallIntegers, draws: SmallIntegers, loss: Loss = "vi", weights: Integers | None = None
) -> float:
    """The mean loss of a partition against draws (draw, item): VI in nats, or the share of wrong pairs."""
    n = len(labels) if weights is None else int(weights.sum())
    partition = Partition.of(canonical_labels(labels), weights)
    return float(partition.distances(draws, compute_terms(loss, n)).mean())


def minimise_expected_loss(
    draws: SmallIntegers,
    *,
    loss: Loss = "vi",
    fixed: SmallIntegers | None = None,
    weights: Integers | None = None,
    n_starts: int | None = None,
    random_state: RandomState = 0,
) -> SmallIntegers:
    """Canonical labels of the best partition found.

    `draws` are labels (draw, item), not negative. Items with a label in `fixed` (-1 = free) keep that grouping:
    items with one label stay together, items with different labels apart; free items may join them. An item
    of weight w stands for w items that are always together. `n_starts` is for `search_partition`.
    """
    check_starts(n_starts)
    n_items = draws.shape[1]
    fixed = np.full(n_items, -1, np.int32) if fixed is None else _renumber(fixed)
    weights = np.ones(n_items, np.int64) if weights is None else weights
    components = find_components([fixed[None], draws], n_items)
    small = components.sizes <= MOST_ITEMS
    labels = np.empty(n_items, np.int64)
    _solve(components.select(small), draws, fixed, weights, loss, labels)
    search_components(
        components.select(~small),
        draws,
        labels,
        loss=loss,
        fixed=fixed,
        weights=weights,
        n_starts=n_starts,
        random_state=random_state,
    )
    return canonical_labels(labels)


def search_components(
    components: ComponentItems,
    draws: Columns,
    labels: Integers,
    *,
    loss: Loss,
    fixed: SmallIntegers,
    weights: Integers,
    n_starts: int | None,
    random_state: RandomState,
    price: float = 1.0,
    start: SmallIntegers | None = None,
) -> None:
    """Write to `labels` (item) the best clusters found of each component's items, numbered by their first item.

    `start` is a partition of all items to begin with besides; for the rest see `search_partition`.
    """
    if not len(components.items):
        return
    searched, stands_for, weights = _unite_alike(components, draws, fixed, weights)
    batches = _split_into_batches(searched)
    starts = _count_starts(len(draws) * sum(map(len, batches))) if n_starts is None else n_starts
    # One batch takes what is given, so that a search of few items is what it would be alone.
    states: Sequence[RandomState] = [random_state] * len(batches)
    if len(batches) > 1:
        states = np.random.default_rng(random_state).spawn(len(batches))

    def search(batch_and_state: tuple[Integers, RandomState]) -> tuple[Integers, SmallIntegers]:
        batch, state = batch_and_state
        found = search_partition(
            _take_canonical(draws, batch),
            loss=loss,
            fixed=fixed[batch],
            weights=weights[batch],
            n_starts=starts,
            random_state=state,
            price=price,
            given=[] if start is None else [canonical_labels(start[batch])],
        )
        return batch, found

    searches = zip(batches, states, strict=True)
    for batch, found in map_in_threads(search, searches, count_workers(-1)):
        items, bounds = group_items(found)
        labels[batch] = batch[items[bounds[:-1]]][found]
    labels[components.items] = labels[stands_for]


def _unite_alike(
    components: ComponentItems, draws: Columns, fixed: SmallIntegers, weights: Integers
) -> tuple[ComponentItems, Integers, Integers]:
    """Components of items that draws or `fixed` tell apart, the one that stands for each item, and weights by item."""
    items = components.items
    first = find_alike([fixed[items], *take_columns(draws, items)])
    kept = first == np.arange(len(items))
    if kept.all():
        return components, items, weights
    united = np.zeros_like(weights)
    np.add.at(united, items[first], weights[items])
    return components.keep(kept), items[first], united


def _split_into_batches(components: ComponentItems) -> list[Integers]:
    """The items of whole components, about as many at a time as are searched best; components are independent."""
    number = components.bounds[:-1] // ITEMS_AT_ONCE
    edges = components.bounds[:-1][np.append(True, np.diff(number) > 0)]
    return [np.sort(items) for items in np.split(components.items, edges[1:])]


def _count_starts(n_labels: int) -> int:
    return int(np.clip(WORK_FOR_STARTS // max(1, n_labels), 4, 64))


def _solve(
    components: ComponentItems,
    draws: SmallIntegers,
    fixed: SmallIntegers,
    weights: Integers,
    loss: Loss,
    labels: Integers,
) -> None:
    # Unscaled, differences are of order one for any n, so rounding is told from gain by one threshold.
    terms = compute_unscaled_terms(loss, int(weights.sum()))
    solve_components(draws, components.items, components.bounds, weights, fixed, terms, labels)


def _take_canonical(draws: Columns, items: Integers) -> SmallIntegers:
    """Canonical labels of some items, in as many of the draws as the search has memory for."""
    some = take_columns(draws, items)
    n_rows = min(len(draws), max(1, MOST_SEARCHED // len(items)))
    rows = np.linspace(0, len(draws) - 1, n_rows).round().astype(np.int64)
    out = np.empty((n_rows, len(items)), np.int32)
    for place, row in enumerate(rows):
        out[place] = canonical_labels(some[row])
    return out


def search_partition(
    draws: SmallIntegers,
    *,
    loss: Loss = "vi",
    fixed: SmallIntegers | None = None,
    weights: Integers | None = None,
    n_starts: int | None = None,
    random_state: RandomState = 0,
    price: float = 1.0,
    given: Sequence[SmallIntegers] = (),
) -> SmallIntegers:
    """As `minimise_expected_loss`, by search from `n_starts` starts (4; up to 64 for small problems).

    Here `draws` must be canonical labels. `price` is that of a cluster (see `moves`); `given` are further
    starts, canonical labels that respect the fixed items; without one, `n_starts` must be at least one.
    """
    if n_starts is None:
        n_starts = _count_starts(draws.size)
    search = _Search(draws, loss, fixed, weights, price, given)
    if len(search.free) == 0:
        return canonical_labels(search.fixed)
    rng = np.random.default_rng(random_state)
    starts = search.choose_starts((n_starts + 1) // 2, 2 * n_starts) if n_starts else []
    starts += [search.fixed] * (n_starts - len(starts))
    found = {labels.tobytes(): labels for labels in (search.move_items(start, rng) for start in starts)}
    finalists = sorted(found.values(), key=search.expected_loss)[: -(-n_starts // STARTS_A_FINALIST)]
    finalists += given
    return min((search.rebuild(labels, rng) for labels in finalists), key=search.expected_loss)


def check_starts(n_starts: int | None) -> None:
    """Refuse a search without a start."""
    if n_starts is not None and n_starts < 1:
        raise InputError(f"n_starts is {n_starts}: at least one start is needed")


class _Search:
    """What every start of one search shares."""

    def __init__(
        self,
        draws: SmallIntegers,
        loss: Loss,
        fixed: SmallIntegers | None,
        weights: Integers | None,
        price: float,
        given: Sequence[SmallIntegers],
    ) -> None:
        n_items = draws.shape[1]
        self.draws, self.price = draws, price
        self.weights = np.ones(n_items, np.int64) if weights is None else weights
        self.fixed = np.full(n_items, -1, np.int32) if fixed is None else _renumber(fixed)
        self.free = np.flatnonzero(self.fixed < 0)
        self._check(given)
        n = int(self.weights.sum())
        self.terms = compute_terms(loss, n)
        # Unscaled, a single move is of order one for any n, so rounding is told from gain by one threshold.
        self.costs = Costs(price, compute_unscaled_terms(loss, n), self.weights)
        self.overlaps = _prepare_overlaps(draws)
        self.candidate = _make_candidate(n_items)

    def _check(self, given: Sequence[SmallIntegers]) -> None:
        """Refuse what has no room in the kernels."""
        n_items = self.draws.shape[1]
        for labels in given:
            if len(labels) != n_items or not 0 <= labels.min(initial=0) <= labels.max(initial=0) < max(1, n_items):
                raise InputError(f"a start of {n_items} items must have that many labels, from 0 to {n_items - 1}")
        if self.draws.size and not 0 <= self.draws.min() <= self.draws.max() < n_items:
            raise InputError(f"labels of {n_items} items must be from 0 to {n_items - 1}: make them canonical")
        if len(self.weights) != n_items or len(self.fixed) != n_items:
            raise InputError(f"{len(self.weights)} weights and {len(self.fixed)} fixed labels for {n_items} items")
        if self.weights.dtype.kind not in "iu" or self.weights.min(initial=1) < 1:
            raise InputError("weights must be whole numbers from 1 on: an item stands for so many")
        if self.weights.sum() > MOST_WEIGHT:
            raise InputError(f"items stand for {self.weights.sum():,} in all, of which {MOST_WEIGHT:,} can be counted")

    def expected_loss(self, labels: SmallIntegers) -> float:
        own, others, overlaps = Partition.of(labels, self.weights).measure(self.draws, self.terms)
        return float((self.price * own - 2.0 * overlaps + others).mean())

    def choose_starts(self, n_best: int, n_tried: int) -> list[SmallIntegers]:
        """The best of some evenly spaced draws, made to respect the fixed items, and of a single cluster."""
        rows = np.unique(np.linspace(0, len(self.draws) - 1, n_tried).round().astype(np.int64))
        starts = [self._separate(np.zeros_like(self.draws[0]))]
        for draw in self.draws[rows]:
            starts += [self._join(draw), self._separate(draw)]
        distinct = {start.tobytes(): start for start in starts}
        ranked = sorted(distinct.values(), key=lambda start: self.expected_loss(canonical_labels(start)))
        return ranked[:n_best]

    def move_items(self, start: SmallIntegers, rng: np.random.Generator) -> SmallIntegers:
        """Where single moves lead from a start."""
        return self._descend(start, rng.permutation(self.free), 0)

    def rebuild(self, labels: SmallIntegers, rng: np.random.Generator) -> SmallIntegers:
        """Where dissolving clusters as well leads."""
        return self._descend(labels, rng.permutation(self.free), MAX_ROUNDS)

    def _descend(self, start: SmallIntegers, order: Integers, rounds: int) -> SmallIntegers:
        descend(order, start, rounds, MAX_SWEEPS, self.costs, self.overlaps, self.candidate)
        return canonical_labels(self.candidate.labels)

    def _separate(self, draw: SmallIntegers) -> SmallIntegers:
        """The draw's clusters of free items, kept away from the fixed ones."""
        return np.where(self.fixed < 0, draw + self.fixed.max() + 1, self.fixed).astype(np.int32)

    def _join(self, draw: SmallIntegers) -> SmallIntegers:
        """The same, except that a free item joins the fixed items it is with in the draw."""
        is_fixed = self.fixed >= 0
        home = np.full(int(draw.max()) + 1, -1, np.int32)
        home[draw[is_fixed]] = self.fixed[is_fixed]
        return np.where(is_fixed | (home[draw] < 0), self._separate(draw), home[draw]).astype(np.int32)


def _prepare_overlaps(draws: SmallIntegers) -> Overlaps:
    n_draws, n_items = draws.shape
    begins = np.empty((n_items, n_draws), np.int32)
    find_begins(draws, np.zeros(n_items + 2, np.int32), begins)
    return Overlaps(begins, np.zeros((n_draws, n_items, 3), np.int32))


@kernel
def find_begins(draws: SmallIntegers, starts: SmallIntegers, begins: SmallIntegers) -> None:
    """Fill begins (item, draw) from canonical labels (draw, item); `starts` is zero scratch."""
    n_draws, n_items = draws.shape
    for draw in range(n_draws):
        n_clusters = 0
        for item in range(n_items):
            starts[draws[draw, item] + 1] += 1
            n_clusters = max(n_clusters, draws[draw, item] + 1)
        for cluster in range(n_clusters):
            starts[cluster + 1] += starts[cluster]
        for item in range(n_items):
            begins[item, draw] = starts[draws[draw, item]]
        starts[: n_clusters + 1] = 0


def _make_candidate(n_items: int) -> Candidate:
    n_labels = 2 * n_items + 2
    return Candidate(
        labels=np.empty(n_items, np.int32),
        sizes=np.zeros(n_labels, np.int64),
        scores=np.zeros(n_labels),
        touched=np.empty(n_labels, np.int32),
        cursor=np.zeros(1, np.int64),
    )


def _renumber(fixed: SmallIntegers) -> SmallIntegers:
    labels = np.full(len(fixed), -1, np.int32)
    labels[fixed >= 0] = canonical_labels(fixed[fixed >= 0])
    return labels
