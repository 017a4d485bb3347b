"""Moves that lower the expected loss of a partition: one item, or all items of one cluster, at a time.

With f as in `summaries`, adding item i to cluster k costs  p g(n_k) - (2 / D) sum_d g(n_kd)  where g(x) is
f(x + 1) - f(x), D the number of draws, and n_kd counts the members of k that draw d puts together with i; a
new cluster costs nothing. The price p of a cluster is 1 for both losses, and lower where more links are wanted.
Each draw keeps, for each of its clusters, a short list of the candidate's clusters that meet it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from scdp._compile import kernel
from scdp._typing import Floats, Integers, SmallIntegers

# Gains below this are rounding, and following them could cycle.
LEAST_GAIN = 1e-9
FILLED, LABEL, COUNT = 0, 1, 2


class Overlaps(NamedTuple):
    """Where each item's list begins (item, draw), and the lists (draw, place, [length, label, count]).

    The list of a draw's cluster begins where that cluster's items would, were they sorted: it has room for as
    many candidate clusters as the draw's cluster has items. Its length stands in its first place.
    """

    begins: SmallIntegers
    lists: SmallIntegers


class Candidate(NamedTuple):
    """A partition in the making: label (-1 = not placed) and size by label, with scratch for scores."""

    labels: SmallIntegers
    sizes: Integers
    scores: Floats
    touched: SmallIntegers
    cursor: Integers


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


@kernel
def place(item: int, label: int, weight: int, overlaps: Any, candidate: Any) -> None:
    """Put an unplaced item into a cluster."""
    candidate.labels[item] = label
    candidate.sizes[label] += weight
    lists = overlaps.lists
    for draw in range(lists.shape[0]):
        begin = overlaps.begins[item, draw]
        end = begin + lists[draw, begin, FILLED]
        entry = begin
        while entry < end and lists[draw, entry, LABEL] != label:
            entry += 1
        if entry == end:
            lists[draw, begin, FILLED] += 1
            lists[draw, entry, LABEL] = label
            lists[draw, entry, COUNT] = 0
        lists[draw, entry, COUNT] += weight


@kernel
def remove(item: int, overlaps: Any, candidate: Any) -> None:
    """Take an item of weight one out of its cluster."""
    label = candidate.labels[item]
    candidate.labels[item] = -1
    candidate.sizes[label] -= 1
    lists = overlaps.lists
    for draw in range(lists.shape[0]):
        begin = overlaps.begins[item, draw]
        entry = begin
        while lists[draw, entry, LABEL] != label:
            entry += 1
        lists[draw, entry, COUNT] -= 1
        if lists[draw, entry, COUNT] == 0:
            lists[draw, begin, FILLED] -= 1
            last = begin + lists[draw, begin, FILLED]
            lists[draw, entry, LABEL] = lists[draw, last, LABEL]
            lists[draw, entry, COUNT] = lists[draw, last, COUNT]


@kernel
def choose(item: int, price: float, gains: Floats, overlaps: Any, candidate: Any) -> tuple[int, float, float]:
    """The best cluster for an item (-1 = a new one), what it costs, and what staying where it is costs."""
    lists, scores, touched = overlaps.lists, candidate.scores, candidate.touched
    own = candidate.labels[item]
    n_touched = 0
    for draw in range(lists.shape[0]):
        begin = overlaps.begins[item, draw]
        for entry in range(begin, begin + lists[draw, begin, FILLED]):
            label = lists[draw, entry, LABEL]
            gain = gains[lists[draw, entry, COUNT] - (label == own)]
            if gain > 0.0:
                if scores[label] == 0.0:
                    touched[n_touched] = label
                    n_touched += 1
                scores[label] += gain
    best, best_cost = -1, 0.0
    stay = 0.0 if own < 0 else price * gains[candidate.sizes[own] - 1]
    for index in range(n_touched):
        label = touched[index]
        size_cost = price * gains[candidate.sizes[label] - (label == own)]
        cost = size_cost - 2.0 * scores[label] / lists.shape[0]
        scores[label] = 0.0
        if label == own:
            stay = cost
        if cost < best_cost - LEAST_GAIN:
            best, best_cost = int(label), cost
    return best, best_cost, stay


@kernel
def find_unused_label(candidate: Any) -> int:
    """A label with no items; there are twice as many labels as items, so one is always near."""
    cursor = candidate.cursor
    while candidate.sizes[cursor[0]] > 0:
        cursor[0] = (cursor[0] + 1) % len(candidate.sizes)
    return cursor[0]


@kernel
def settle(item: int, price: float, gains: Floats, overlaps: Any, candidate: Any) -> float:
    """Put an unplaced item where it costs least, and return that cost."""
    label, cost, _ = choose(item, price, gains, overlaps, candidate)
    if label < 0:
        label = find_unused_label(candidate)
    place(item, label, 1, overlaps, candidate)
    return cost


@kernel
def sweep_items(order: Integers, price: float, gains: Floats, overlaps: Any, candidate: Any) -> bool:
    """Move each item to where it costs least; whether any moved."""
    moved = False
    for item in order:
        if candidate.labels[item] < 0:
            settle(item, price, gains, overlaps, candidate)
            moved = True
            continue
        label, cost, stay = choose(item, price, gains, overlaps, candidate)
        if cost < stay - LEAST_GAIN:
            remove(item, overlaps, candidate)
            if label < 0:
                label = find_unused_label(candidate)
            place(item, label, 1, overlaps, candidate)
            moved = True
    return moved


@kernel
def rebuild_cluster(members: Integers, price: float, gains: Floats, overlaps: Any, candidate: Any) -> bool:
    """Dissolve a cluster and settle its items one by one; undone unless that lowers the loss."""
    label = int(candidate.labels[members[0]])
    before = 0.0
    for item in members:
        before += choose(item, price, gains, overlaps, candidate)[2]
        remove(item, overlaps, candidate)
    after = 0.0
    for item in members:
        after += settle(item, price, gains, overlaps, candidate)
    if after < before - LEAST_GAIN:
        return True
    for item in members:
        remove(item, overlaps, candidate)
    for item in members:
        place(item, label, 1, overlaps, candidate)
    return False


@kernel
def rebuild_clusters(order: Integers, price: float, gains: Floats, overlaps: Any, candidate: Any) -> bool:
    """Try to rebuild every cluster once; whether any attempt was kept."""
    ends = np.zeros(len(candidate.sizes) + 1, np.int64)
    for item in order:
        ends[candidate.labels[item] + 1] += 1
    for label in range(len(candidate.sizes)):
        ends[label + 1] += ends[label]
    members = np.empty_like(order)
    for item in order:
        label = candidate.labels[item]
        members[ends[label]] = item
        ends[label] += 1
    improved = False
    begin = 0
    for label in range(len(candidate.sizes)):
        if ends[label] - begin > 1:
            improved |= rebuild_cluster(members[begin : ends[label]], price, gains, overlaps, candidate)
        begin = ends[label]
    return improved


@kernel
def descend(
    order: Integers,
    weights: Integers,
    start: SmallIntegers,
    price: float,
    gains: Floats,
    max_rounds: int,
    max_sweeps: int,
    overlaps: Any,
    candidate: Any,
) -> None:
    """Lower the expected loss from `start` (-1 = not placed yet), moving only the items in `order`.

    Sweeps over items alternate with at most `max_rounds` rounds of rebuilding clusters.
    """
    overlaps.lists[:, :, FILLED] = 0
    candidate.labels[:] = -1
    candidate.sizes[:] = 0
    for item in range(len(start)):
        if start[item] >= 0:
            place(item, int(start[item]), weights[item], overlaps, candidate)
    for rounds_done in range(max_rounds + 1):
        for _ in range(max_sweeps):
            if not sweep_items(order, price, gains, overlaps, candidate):
                break
        if rounds_done == max_rounds or not rebuild_clusters(order, price, gains, overlaps, candidate):
            break
