"""Point estimates: stored draws enter, the labels that are best by what the user wants leave.

Only hidden items are searched; each known cluster stands among them as one heavy item that cannot move. Least expected
VI and Binder loss are found by `search`; highest expected F, and most recall at a floor on precision, here.

With P the probability that a pair is together, a partition has N links, S = the sum of P over its links of which are
expected to be right, and A = the sum of P over all pairs, the expected number of pairs to be found. Its expected
precision is S / N, its recall S / A, and its F is 2 S / (N + A), each as a ratio of expectations.

A few draws that make one cluster of nearly everything would have more pairs than all others together, and decide alone.
In the mean of F over draws they count next to nothing, so they are left out where F is maximised.

Both answers maximise  2 S - price N  at some price of a link. For F it is the highest F itself (Dinkelbach 1967):
each partition's F is the price for the next, until F rises no more. So a pair is worth linking above F / 2, not above
1/2. For a floor on precision it is the least price at which the floor is kept.

At a given price, clusters with no pair between them above price / 2 are best apart. So items fall into components,
of which small ones are solved exactly and large ones are searched. Pairs with known items count as others do; pairs
of two known items are given, and count for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from scdp._parallel import count_workers, map_in_threads, stage
from scdp._typing import Booleans, Floats, Integers, SmallIntegers
from scdp.errors import InputError
from scdp.partitions import (
    Columns,
    ComponentItems,
    canonical_labels,
    find_components,
    flatten,
    group_items,
    take_columns,
    unite,
)
from scdp.posterior.draws import ComponentColumns, ComponentDraws, StoredDraws
from scdp.posterior.optimise import MOST_ITEMS, solve_linked
from scdp.posterior.pairs import (
    Merges,
    PairGraph,
    apply_merges,
    build_graph,
    count_pairs_by_component,
    find_dense,
    merge_by_average,
)
from scdp.posterior.search import RandomState, check_starts, minimise_expected_loss, search_components
from scdp.posterior.summaries import Partition

# Labels of all draws at once: 256 MB.
MAX_LABELS = 1 << 26
FLOOR = "precision="


@stage("estimating the clusters")
def point_estimate(
    stored: StoredDraws, answer: str, n_starts: int | None, max_draws: int, random_state: RandomState
) -> SmallIntegers:
    """Canonical labels of all items; known items keep their grouping."""
    precision = check_answer(answer)
    check_starts(n_starts)
    if len(stored.hidden) == 0:
        return canonical_labels(stored.known)
    by_links = answer not in ("vi", "binder")
    if by_links and isinstance(stored, ComponentDraws) and stored.n_codes.size <= max_draws:
        return _best_links(LinkProblem.of_components(stored), precision, n_starts, random_state)
    affordable = MAX_LABELS // len(stored.hidden)
    chosen = stored.choose_draws(min(max_draws, affordable))
    if not by_links:
        places = np.arange(len(stored.hidden))
    else:
        # Who is alone in every draw is alone in the answer: most records of a large table, which take no memory here.
        places = stored.places_together(chosen)
    if not len(places):
        return _spread(stored, places, np.empty(0, np.int32), np.empty(0, np.int64))
    codes = stored.codes_at(chosen, places)
    met = _find_met_clusters(stored, codes)
    sizes = np.bincount(stored.known[stored.known >= 0], minlength=stored.n_known_clusters)[met]
    draws = _append_heavy_items(codes, met)
    weights = np.concatenate([np.ones(codes.shape[1], np.int64), sizes.astype(np.int64)])
    is_known = np.arange(len(weights)) >= codes.shape[1]
    if by_links:
        found = _best_links(LinkProblem.of(draws, weights, is_known), precision, n_starts, random_state)
    else:
        found = minimise_expected_loss(
            draws,
            loss="vi" if answer == "vi" else "binder",
            fixed=np.where(is_known, np.arange(len(weights)), -1).astype(np.int32),
            weights=weights,
            n_starts=n_starts,
            random_state=random_state,
        )
    return _spread(stored, places, found, met)


def _best_links(
    problem: LinkProblem, precision: float | None, n_starts: int | None, random_state: RandomState
) -> SmallIntegers:
    """Canonical labels of highest expected F, or of most recall at a floor on the expected precision."""
    if precision is None:
        return maximise_expected_f(problem.drop_collapsed(), n_starts, random_state)
    return maximise_recall(problem, precision, n_starts, random_state)


def check_answer(answer: str) -> float | None:
    """The floor on expected precision that an answer asks for, or None; what is no answer is refused.

    Parameters
    ----------
    answer : str
        "f", "vi", "binder", or "precision=" and a number above 0 and at most 1.
    """
    if answer in ("f", "vi", "binder"):
        return None
    try:
        floor = float(answer.removeprefix(FLOOR)) if answer.startswith(FLOOR) else 0.0
    except (AttributeError, ValueError):
        floor = 0.0
    if not 0.0 < floor <= 1.0:
        raise InputError(
            f"there is no answer {answer!r}: choose 'f', 'vi', 'binder', or a floor on the expected precision "
            "such as 'precision=0.99'"
        )
    return floor


def _find_met_clusters(stored: StoredDraws, codes: SmallIntegers) -> Integers:
    """Known clusters that a hidden item ever joins; no other can lower the loss, so the search omits them."""
    if not stored.shared:
        return np.empty(0, np.int64)
    joined = np.zeros(int(stored.n_codes.max()), bool)
    for row in codes:
        joined[row] = True
    return np.flatnonzero(joined[: stored.n_known_clusters])


def _append_heavy_items(codes: SmallIntegers, met: Integers) -> SmallIntegers:
    """Codes of hidden items and, in further columns, of the clusters met: a known cluster's number is its code."""
    if len(met) == 0:
        return codes
    labels = np.empty((len(codes), codes.shape[1] + len(met)), np.int32)
    labels[:, : codes.shape[1]] = codes
    labels[:, codes.shape[1] :] = met
    return labels


def _spread(stored: StoredDraws, places: Integers, found: SmallIntegers, met: Integers) -> SmallIntegers:
    """Labels of all items from those of hidden items at some places and of heavy ones; the other hidden are alone."""
    n_hidden = len(places)
    homes = len(found) + np.arange(stored.n_known_clusters, dtype=np.int64)
    homes[met] = found[n_hidden:]
    full = len(found) + stored.n_known_clusters + np.arange(stored.n_items, dtype=np.int64)
    is_known = stored.known >= 0
    full[is_known] = homes[stored.known[is_known]]
    full[stored.hidden[places]] = found[:n_hidden]
    return canonical_labels(full)


MAX_ROUNDS = 20
# How fast the price falls as long as the floor on precision is kept.
STEP_DOWN = 0.8
LEAST_GAIN = 1e-12
# A draw that has so many times the pairs of half of the draws, and of all items in pairs, has lost its way.
COLLAPSED = 10.0


def maximise_expected_f(problem: LinkProblem, n_starts: int | None, random_state: RandomState) -> SmallIntegers:
    """Canonical labels of the partition of highest expected F."""
    if problem.expected_pairs == 0.0:
        return np.arange(problem.n_items, dtype=np.int32)
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
    problem: LinkProblem, precision: float, n_starts: int | None, random_state: RandomState
) -> SmallIntegers:
    """Canonical labels of a partition with as many right links as can be had at this expected precision."""
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

    labels: SmallIntegers
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

    `items` are their numbers, `draws` their labels (draw, item), in memory or read when asked for, `n_items` the number
    of all items. `uncounted` are components too dense for pairs to be counted.
    """

    n_items: int
    items: Integers
    draws: Columns
    weights: Integers
    anchored: Booleans
    left: SmallIntegers
    right: SmallIntegers
    counts: SmallIntegers
    uncounted: ComponentItems

    @classmethod
    def of(cls, draws: SmallIntegers, weights: Integers, anchored: Booleans) -> LinkProblem:
        """From the labels (draw, item) of all items.

        Anchored items stay apart from each other, and may have a weight other than one: so many items are they.
        """
        n_items = draws.shape[1]
        linked = find_components([draws], n_items)
        linked = linked.select(linked.sizes > 1)
        columns = take_columns(draws, linked.items)
        dense = find_dense(columns, linked.bounds)
        return cls(
            n_items,
            linked.items,
            columns,
            weights[linked.items],
            anchored[linked.items],
            *count_pairs_by_component(columns, linked.bounds, ~dense),
            ComponentItems(np.arange(len(linked.items)), linked.bounds).select(dense),
        )

    @classmethod
    def of_components(cls, stored: ComponentDraws) -> LinkProblem:
        """From all draws of items that stand by component already."""
        n_linked, columns, bounds = len(stored.items), stored.columns, stored.bounds
        dense = find_dense(columns, bounds)
        some = count_pairs_by_component(columns, bounds, ~dense) if dense.any() else stored.pair_counts
        return cls(
            stored.n_items,
            stored.items,
            columns,
            np.ones(n_linked, np.int64),
            np.zeros(n_linked, bool),
            *some,
            ComponentItems(np.arange(n_linked), bounds).select(dense),
        )

    def drop_collapsed(self) -> LinkProblem:
        """The same without draws that have many times as many pairs as most draws."""
        pairs = self._count_pairs_by_draw()
        kept = pairs <= COLLAPSED * max(float(np.median(pairs)), float(self.weights.sum()))
        if kept.all():
            return self
        draws = take_columns(self.draws, np.arange(self.n_linked))
        again = LinkProblem.of(draws[kept], self.weights, self.anchored)
        return replace(again, n_items=self.n_items, items=self.items[again.items])

    def _count_pairs_by_draw(self) -> Floats:
        """How many pairs each draw has together."""
        if isinstance(self.draws, ComponentColumns):
            return self.draws.count_pairs().astype(np.float64)
        draws = take_columns(self.draws, np.arange(self.n_linked))
        return np.array([count_pairs_of(np.bincount(draw, weights=self.weights)).sum() for draw in draws])

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
    def graph(self) -> PairGraph:
        return build_graph(self.n_linked, self.left, self.right, self.totals)

    @cached_property
    def merges(self) -> Merges:
        return merge_by_average(self.graph, self.weights, self.anchored)

    @cached_property
    def expected_pairs(self) -> float:
        """The expected number of pairs that are together."""
        return float(self.totals.sum()) / self.n_draws + self._find_uncounted_right(np.zeros(self.n_linked, np.int32))

    def start(self, n_merges: int) -> SmallIntegers:
        """The partition after so many merges by average link, and the first draw where pairs are not counted."""
        labels = apply_merges(self.n_linked, self.merges, n_merges)
        if len(self.uncounted.items):
            labels[self.uncounted.items] = self.n_linked + take_columns(self.draws, self.uncounted.items)[0]
        return canonical_labels(labels)

    def weigh(self, labels: SmallIntegers) -> Weighed:
        """Count the links of a partition, all and those expected to be right."""
        together = labels[self.left] == labels[self.right]
        right = float(self.totals[together].sum()) / self.n_draws + self._find_uncounted_right(labels)
        sizes = np.bincount(labels, weights=self.weights)
        links = count_pairs_of(sizes).sum() - count_pairs_of(self.weights).sum()
        return Weighed(labels, right, float(links))

    def expected_f(self, weighed: Weighed) -> float:
        """The expected F of a partition."""
        return 2.0 * weighed.right / (weighed.links + self.expected_pairs)

    def solve(
        self, price: float, start: SmallIntegers, n_starts: int | None, rng: np.random.Generator
    ) -> SmallIntegers:
        """Canonical labels of the best partition at a price, as far as it is found."""
        counted, labels = self._split_at(price), np.arange(self.n_linked, dtype=np.int64)
        small = (counted.sizes > 1) & (counted.sizes <= MOST_ITEMS)
        self._solve_exactly(counted.select(small), price, labels)
        large = counted.select(counted.sizes > MOST_ITEMS)
        search_components(
            ComponentItems(
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

    def merge_while(self, precision: float, labels: SmallIntegers) -> SmallIntegers:
        """Merge whole clusters by average link as long as the expected precision stays so high."""
        between = labels[self.left] != labels[self.right]
        n_clusters = int(labels.max(initial=-1)) + 1
        graph = build_graph(n_clusters, labels[self.left[between]], labels[self.right[between]], self.totals[between])
        sizes = np.bincount(labels, weights=self.weights, minlength=n_clusters).astype(np.int64)
        anchored = np.bincount(labels, weights=self.anchored, minlength=n_clusters) > 0
        merges = merge_by_average(graph, sizes, anchored)
        weighed = self.weigh(labels)
        right = weighed.right + np.cumsum(merges.totals) / self.n_draws
        links = weighed.links + np.cumsum(merges.pairs)
        kept = np.flatnonzero(right >= (precision - LEAST_GAIN) * links)
        return apply_merges(n_clusters, merges, int(kept[-1]) + 1 if len(kept) else 0)[labels]

    def spread(self, labels: SmallIntegers) -> SmallIntegers:
        """Canonical labels of all items: those never together with another are alone."""
        full = self.n_items + np.arange(self.n_items)
        full[self.items] = labels
        return canonical_labels(full)

    def _split_at(self, price: float) -> ComponentItems:
        """Components of counted items that pairs above half the price connect."""
        strong = 2.0 * self.counts > price * self.n_draws
        parents = np.arange(self.n_linked, dtype=np.int32)
        unite(parents, self.left[strong], self.right[strong])
        flatten(parents)
        return ComponentItems(*group_items(canonical_labels(parents)))

    def _solve_exactly(self, components: ComponentItems, price: float, labels: Integers) -> None:
        pieces = np.linspace(0, len(components.sizes), 4 * count_workers(-1) + 1).astype(np.int64)

        def solve(piece: int) -> None:
            bounds = components.bounds[pieces[piece] : pieces[piece + 1] + 1]
            solve_linked(
                components.items, bounds, self.graph, self.weights, self.anchored, price * self.n_draws, labels
            )

        list(map_in_threads(solve, range(len(pieces) - 1), count_workers(-1)))

    def _find_uncounted_right(self, labels: SmallIntegers) -> float:
        """The component of `expected_right` whose pairs are not counted."""
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
