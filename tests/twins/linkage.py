"""The learned restaurant in the plainest form: slow, obvious, and what the compiled kernels are tested against."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations

import numpy as np

from scdp.linkage.likelihood import Floats, Integers, Weights
from scdp.linkage.pairs import Pairs

Partition = tuple[int, ...]


def seat_weights(
    item: int, clusters: dict[int, int], pairs: Pairs, score: Floats, weights: Weights
) -> dict[int | None, float]:
    """The weight of every seat for an item, given the clusters of the seated ones; None is a new cluster."""
    found: dict[int | None, float] = {}
    links: dict[int, list[Floats]] = {}
    for number, (i, j) in enumerate(zip(pairs.left, pairs.right, strict=True)):
        other = {int(i): int(j), int(j): int(i)}.get(item)
        if other is not None and other in clusters:
            links.setdefault(clusters[other], []).append(score[number])
    around = sum(map(len, links.values()))
    for d in range(score.shape[1]):
        share = np.exp(weights.log_share[d])
        found[None] = found.get(None, 0.0) + share * (1 + around) ** weights.fresh[d]
        for k, scores in links.items():
            size = sum(1 for each in clusters.values() if each == k)
            # Members that are no candidates of the item count with the floor.
            total = sum(float(each[d]) for each in scores) + (size - len(scores)) * weights.floor[d]
            weight = share * np.exp(weights.bias[d] + total / size) * size ** weights.growth[d]
            found[k] = found.get(k, 0.0) + weight
    return found


def log_likelihood(
    cluster: Sequence[int],
    order: Iterable[int],
    pairs: Pairs,
    score: Floats,
    weights: Weights,
    everyone: bool,
) -> float:
    """Of known clusters, seated in an order; or of each item given all others."""
    total = 0.0
    seated: dict[int, int] = dict(enumerate(cluster)) if everyone else {}
    for item in order:
        seated.pop(item, None)
        found = seat_weights(item, seated, pairs, score, weights)
        # A cluster none of whose members is a candidate is out of reach: the item then opens a new one.
        chosen = found.get(cluster[item], found[None])
        total += float(np.log(chosen) - np.log(sum(found.values())))
        seated[item] = cluster[item]
    return total


def exact_law(
    pairs: Pairs, score: Floats, weights: Weights, known: Integers, n_again: int
) -> dict[Partition, float]:
    """The probability of every clustering of a few items, by going through all orders and all seats."""
    given = {i: int(k) for i, k in enumerate(known) if k >= 0}
    hidden = [i for i in range(len(known)) if known[i] < 0]
    law = {canonical(given): 1.0}
    for _ in range(1 + n_again):
        after: dict[Partition, float] = {}
        orders = list(permutations(hidden))
        for state, probability in law.items():
            for order in orders:
                for end, share in _seated_in_order(state, order, pairs, score, weights).items():
                    after[end] = after.get(end, 0.0) + probability * share / len(orders)
        law = after
    return law


def _seated_in_order(
    state: Partition, order: Sequence[int], pairs: Pairs, score: Floats, weights: Weights
) -> dict[Partition, float]:
    law = {state: 1.0}
    for item in order:
        after: dict[Partition, float] = {}
        for before, probability in law.items():
            clusters = {i: k for i, k in enumerate(before) if k >= 0 and i != item}
            found = seat_weights(item, clusters, pairs, score, weights)
            total = sum(found.values())
            for k, weight in found.items():
                fresh = max(clusters.values(), default=-1) + 1
                end = canonical(clusters | {item: fresh if k is None else k}, len(before))
                after[end] = after.get(end, 0.0) + probability * weight / total
        law = after
    return law


def canonical(clusters: dict[int, int], n: int = 0) -> Partition:
    """Clusters numbered by first appearance, -1 for items that are not seated."""
    numbers: dict[int, int] = {}
    length = max(n, max(clusters, default=-1) + 1)
    return tuple(
        numbers.setdefault(clusters[i], len(numbers)) if i in clusters else -1 for i in range(length)
    )
