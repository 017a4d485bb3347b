"""Answers by the pairs they link: draws enter; the partition of highest expected F, or of most recall, leaves.

With P the probability that a pair is together, a partition has N links, S = the sum of P over its links of which are
expected to be right, and A = the sum of P over all pairs, the expected number of pairs to be found. Its expected
precision is S / N, its recall S / A, and its F is 2 S / (N + A), each as a ratio of expectations.

Both answers maximise  2 S - price N  at some price of a link. For F it is the highest F itself (Dinkelbach 1967):
each partition's F is the price for the next, until F rises no more. So a pair is worth linking above F / 2, not above
1/2. For a floor on precision it is the least price at which the floor is kept.

At a given price, clusters with no pair between them above price / 2 are best apart. So items fall into components,
of which small ones are solved exactly and large ones are searched. Pairs with known items count as others do; pairs
of two known items are given, and count for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from scdp._compile import kernel
from scdp._parallel import count_workers, map_in_threads
from scdp._typing import Booleans, Floats, Integers, SmallIntegers
from scdp.posterior.average_link import Graph, Merges, apply_merges, build_graph, merge_by_average, unite
from scdp.posterior.canonical import Labels, canonical_labels
from scdp.posterior.components import Components, components, grouped, lead_to_roots
from scdp.posterior.contingency import Partition
from scdp.posterior.pairs import count_pairs_by_component, take_columns
from scdp.posterior.search import RandomState, search_components
from scdp.posterior.small_parts import MOST_ITEMS, N_SUBSETS, choose_clusters

# Components with more pairs in all, or in all draws, than this are searched without counting pairs.
MOST_PAIRS = 1 << 24
MOST_PAIRS_IN_DRAWS = 1 << 31
# Every component of so few items is counted.
ALWAYS_COUNTED = 32
MAX_ROUNDS = 20
# How fast the price falls as long as the floor on precision is kept.
STEP_DOWN = 0.8
LEAST_GAIN = 1e-12


def maximise_expected_f(
    draws: SmallIntegers,
    weights: Integers,
    anchored: Booleans,
    n_starts: int | None,
    random_state: RandomState,
) -> Labels:
    """Canonical labels of the partition of highest expected F over draws (draw, item).

    Anchored items stay apart from each other, and may have a weight other than one: so many items are they.
    """
    problem = LinkProblem.of(draws, weights, anchored)
    if problem.expected_pairs == 0.0:
        return np.arange(draws.shape[1], dtype=np.int32)
    rng = np.random.default_rng(random_state)
    best = problem.weigh(problem.start(_count_for_f(problem)))
    for round_done in range(MAX_ROUNDS):
        price = problem.expected_f(best)
        found = problem.weigh(problem.solve(price, best.labels, 0 if round_done else n_starts, rng))
        if problem.expected_f(found) <= price + LEAST_GAIN:
            break
        best = found
    return problem.spread(best.labels)


def maximise_recall(
    draws: SmallIntegers,
    weights: Integers,
    anchored: Booleans,
    precision: float,
    n_starts: int | None,
    random_state: RandomState,
) -> Labels:
    """Canonical labels of a partition with as many right links as can be had at this expected precision."""
    problem = LinkProblem.of(draws, weights, anchored)
    rng = np.random.default_rng(random_state)
    alone = np.arange(problem.n_linked, dtype=np.int32)
    linked = problem.weigh(problem.merge_while(precision, alone))
    few, many = problem.weigh(alone), None
    price = 2.0 * precision
    for round_done in range(MAX_ROUNDS):
        if linked.right >= problem.expected_pairs:
            break
        found = problem.weigh(problem.solve(price, few.labels, 0 if round_done else n_starts, rng))
        if many is not None and found.value(price) <= few.value(price) + LEAST_GAIN * found.links:
            break
        if found.keeps(precision):
            few = found
        else:
            many = found
        # Where both are worth the same: a better partition than both can only be found there.
        price = price * STEP_DOWN if many is None else many.price_between(few)
    # What is left below the floor is too little for a step of the price, but may be enough for some clusters.
    filled = problem.weigh(problem.merge_while(precision, few.labels))
    return problem.spread(max(filled, linked, key=lambda one: one.right).labels)


def _count_for_f(problem: LinkProblem) -> int:
    """How many merges by average link give the highest F."""
    right, links = np.cumsum(problem.merges.totals) / problem.n_draws, np.cumsum(problem.merges.pairs)
    return int(np.argmax(np.append(0.0, 2.0 * right / (links + problem.expected_pairs))))


@dataclass(frozen=True, eq=False)
class Weighed:
    """A partition, the number of its links, and how many of these are expected to be right."""

    labels: Labels
    right: float
    links: float

    def value(self, price: float) -> float:
        """What a partition is worth at a price of links."""
        return 2.0 * self.right - price * self.links

    def keeps(self, precision: float) -> bool:
        """Whether its expected precision is at least so high; without links it is 1."""
        return self.right >= (precision - LEAST_GAIN) * self.links

    def price_between(self, other: Weighed) -> float:
        """The price at which both are worth the same."""
        return 2.0 * (self.right - other.right) / (self.links - other.links)


@dataclass(frozen=True, eq=False)
class LinkProblem:
    """The items that are ever together with another, ordered by component, and what is known of their pairs.

    `items` are their numbers, `draws` their labels (draw, item), `n_items` the number of all items. `uncounted` are
    components too dense for pairs to be counted.
    """

    n_items: int
    items: Integers
    draws: SmallIntegers
    weights: Integers
    anchored: Booleans
    left: SmallIntegers
    right: SmallIntegers
    counts: SmallIntegers
    uncounted: Components

    @classmethod
    def of(cls, draws: SmallIntegers, weights: Integers, anchored: Booleans) -> LinkProblem:
        """From the labels (draw, item) of all items."""
        n_items = draws.shape[1]
        linked = components([draws], n_items)
        linked = linked.chosen(linked.sizes > 1)
        columns = take_columns(draws, linked.items)
        dense = find_dense(columns, linked.bounds)
        return cls(
            n_items,
            linked.items,
            columns,
            weights[linked.items],
            anchored[linked.items],
            *count_pairs_by_component(columns, linked.bounds, ~dense),
            Components(np.arange(len(linked.items)), linked.bounds).chosen(dense),
        )

    @property
    def n_draws(self) -> int:
        return len(self.draws)

    @property
    def n_linked(self) -> int:
        return len(self.items)

    @cached_property
    def totals(self) -> Integers:
        """The draws that put a pair together, times the number of pairs it stands for."""
        return self.counts * self.weights[self.left] * self.weights[self.right]

    @cached_property
    def graph(self) -> Graph:
        return build_graph(self.n_linked, self.left, self.right, self.totals)

    @cached_property
    def merges(self) -> Merges:
        return merge_by_average(self.graph, self.weights, self.anchored)

    @cached_property
    def expected_pairs(self) -> float:
        """The expected number of pairs that are together."""
        return float(self.totals.sum()) / self.n_draws + self._uncounted_right(
            np.zeros(self.n_linked, np.int32)
        )

    def start(self, n_merges: int) -> Labels:
        """The partition after so many merges by average link, and the first draw where pairs are not counted."""
        labels = apply_merges(self.n_linked, self.merges, n_merges)
        labels[self.uncounted.items] = self.n_linked + self.draws[0, self.uncounted.items]
        return canonical_labels(labels)

    def weigh(self, labels: Labels) -> Weighed:
        """Count the links of a partition, all and those expected to be right."""
        together = labels[self.left] == labels[self.right]
        right = float(self.totals[together].sum()) / self.n_draws + self._uncounted_right(labels)
        sizes = np.bincount(labels, weights=self.weights)
        links = count_pairs_of(sizes).sum() - count_pairs_of(self.weights).sum()
        return Weighed(labels, right, float(links))

    def expected_f(self, weighed: Weighed) -> float:
        """The expected F of a partition."""
        return 2.0 * weighed.right / (weighed.links + self.expected_pairs)

    def solve(self, price: float, start: Labels, n_starts: int | None, rng: np.random.Generator) -> Labels:
        """Canonical labels of the best partition at a price, as far as it is found."""
        counted, labels = self._split_at(price), np.arange(self.n_linked, dtype=np.int64)
        small = (counted.sizes > 1) & (counted.sizes <= MOST_ITEMS)
        self._solve_exactly(counted.chosen(small), price, labels)
        large = counted.chosen(counted.sizes > MOST_ITEMS)
        search_components(
            Components(
                np.concatenate([large.items, self.uncounted.items]),
                np.concatenate([large.bounds, large.bounds[-1] + self.uncounted.bounds[1:]]),
            ),
            self.draws,
            labels,
            loss="binder",
            fixed=np.where(self.anchored, np.arange(self.n_linked), -1).astype(np.int32),
            weights=self.weights,
            n_starts=n_starts,
            random_state=rng,
            price=price,
            start=start,
        )
        return canonical_labels(labels)

    def merge_while(self, precision: float, labels: Labels) -> Labels:
        """Merge whole clusters by average link as long as the expected precision stays so high."""
        between = labels[self.left] != labels[self.right]
        n_clusters = int(labels.max(initial=-1)) + 1
        graph = build_graph(
            n_clusters, labels[self.left[between]], labels[self.right[between]], self.totals[between]
        )
        sizes = np.bincount(labels, weights=self.weights, minlength=n_clusters).astype(np.int64)
        anchored = np.bincount(labels, weights=self.anchored, minlength=n_clusters) > 0
        merges = merge_by_average(graph, sizes, anchored)
        weighed = self.weigh(labels)
        right = weighed.right + np.cumsum(merges.totals) / self.n_draws
        links = weighed.links + np.cumsum(merges.pairs)
        kept = np.flatnonzero(right >= (precision - LEAST_GAIN) * links)
        return apply_merges(n_clusters, merges, int(kept[-1]) + 1 if len(kept) else 0)[labels]

    def spread(self, labels: Labels) -> Labels:
        """Canonical labels of all items: those never together with another are alone."""
        full = self.n_items + np.arange(self.n_items)
        full[self.items] = labels
        return canonical_labels(full)

    def _split_at(self, price: float) -> Components:
        """Components of counted items that pairs above half the price connect."""
        strong = 2.0 * self.counts > price * self.n_draws
        parents = np.arange(self.n_linked, dtype=np.int32)
        unite(self.left[strong], self.right[strong], parents)
        lead_to_roots(parents)
        return Components(*grouped(canonical_labels(parents)))

    def _solve_exactly(self, parts: Components, price: float, labels: Integers) -> None:
        pieces = np.linspace(0, len(parts.sizes), 4 * count_workers(-1) + 1).astype(np.int64)

        def solve(piece: int) -> None:
            bounds = parts.bounds[pieces[piece] : pieces[piece + 1] + 1]
            solve_linked(
                parts.items, bounds, self.graph, self.weights, self.anchored, price * self.n_draws, labels
            )

        list(map_in_threads(solve, range(len(pieces) - 1), count_workers(-1)))

    def _uncounted_right(self, labels: Labels) -> float:
        """The part of `expected_right` whose pairs are not counted."""
        items = self.uncounted.items
        if len(items) == 0:
            return 0.0
        weights = self.weights[items]
        terms = count_pairs_of(np.arange(weights.sum() + 1))
        partition = Partition.of(canonical_labels(labels[items]), weights)
        overlaps = partition.measure(take_columns(self.draws, items), terms)[2]
        return float(overlaps.mean() - count_pairs_of(weights).sum())


def count_pairs_of(sizes: Any) -> Floats:
    """The number of pairs within clusters of these sizes."""
    numbers = np.asarray(sizes, np.float64)
    return numbers * (numbers - 1.0) / 2.0


def find_dense(draws: SmallIntegers, bounds: Integers) -> Booleans:
    """Which components have too many pairs to be counted, the largest first."""
    sizes = np.diff(bounds)
    possible = sizes * (sizes - 1) // 2
    in_draws = possible * len(draws)
    larger = np.flatnonzero(sizes > ALWAYS_COUNTED)
    counts = np.zeros(int(draws.max(initial=-1)) + 1, np.int64)
    for part in larger:
        in_draws[part] = count_pairs_in_draws(draws[:, bounds[part] : bounds[part + 1]], counts)
    order = np.argsort(sizes, kind="stable")
    pairs = np.cumsum(np.minimum(possible, in_draws)[order])
    dense = np.zeros(len(sizes), np.bool_)
    dense[order] = (pairs > MOST_PAIRS) | (np.cumsum(in_draws[order]) > MOST_PAIRS_IN_DRAWS)
    return dense & (sizes > ALWAYS_COUNTED)


@kernel
def count_pairs_in_draws(draws: SmallIntegers, counts: Integers) -> int:
    """The pairs that are together, over all draws; `counts` is zero before and after."""
    total = 0
    for draw in range(draws.shape[0]):
        for label in draws[draw]:
            total += counts[label]
            counts[label] += 1
        for label in draws[draw]:
            counts[label] = 0
    return total


@kernel
def solve_linked(
    items: Integers,
    bounds: Integers,
    graph: Any,
    weights: Integers,
    anchored: Booleans,
    price: float,
    labels: Integers,
) -> None:
    """Write for each item of each component the first item of its cluster in the best partition.

    Components have at most MOST_ITEMS items. `price` is that of a link times the number of draws.
    """
    places = np.full(len(weights), -1, np.int64)
    values = np.empty((MOST_ITEMS, MOST_ITEMS))
    costs, least = np.zeros(N_SUBSETS), np.zeros(N_SUBSETS)
    choices = np.zeros(N_SUBSETS, np.int64)
    for part in range(len(bounds) - 1):
        members = items[bounds[part] : bounds[part + 1]]
        one_cluster = value_pairs(members, graph, weights, price, places, values)
        everything = (1 << len(members)) - 1
        choices[everything] = everything
        if not one_cluster or anchored[members].sum() > 1:
            cost_clusters(members, anchored, values, costs)
            choose_clusters(len(members), costs, least, choices)
        left = everything
        while left:
            first = -1
            for place in range(len(members)):
                if choices[left] >> place & 1:
                    if first < 0:
                        first = members[place]
                    labels[members[place]] = first
            left ^= choices[left]


@kernel
def value_pairs(
    members: Integers, graph: Any, weights: Integers, price: float, places: Integers, values: Floats
) -> bool:
    """What linking each pair of members is worth; whether every pair is worth something. `places` holds -1."""
    for place in range(len(members)):
        places[members[place]] = place
        for other in range(len(members)):
            values[place, other] = -price * weights[members[place]] * weights[members[other]]
    for place in range(len(members)):
        item = members[place]
        for entry in range(graph.starts[item], graph.starts[item + 1]):
            other = places[graph.targets[entry]]
            if other >= 0:
                values[place, other] += 2.0 * graph.totals[entry]
    all_positive = True
    for place in range(len(members)):
        places[members[place]] = -1
        for other in range(place):
            all_positive &= values[place, other] > 0.0
    return all_positive


@kernel
def cost_clusters(members: Integers, anchored: Booleans, values: Floats, costs: Floats) -> None:
    """What every subset costs as a cluster: less its value, and without limit where it joins two anchored items."""
    costs[0] = 0.0
    for place in range(len(members)):
        bit = 1 << place
        for subset in range(bit):
            cost = costs[subset]
            for other in range(place):
                if subset >> other & 1:
                    if anchored[members[place]] and anchored[members[other]]:
                        cost = np.inf
                    cost -= values[place, other]
            costs[subset | bit] = cost
