"""The law of partitions and the evidence of pairs in the plainest form: what compiled kernels are tested against."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, permutations

import numpy as np

from scdp._typing import Features, Floats, Integers
from scdp.compare.features import Layout, Pairs
from scdp.conditions import Conditions
from scdp.hashing import mix_keys
from scdp.linkage.evidence import Dependence, TableEvidence
from scdp.linkage.law import FEWEST_TO_MERGE, NO_MERGE, Weights
from scdp.linkage.levels import EDGES, N_LEVELS
from scdp.linkage.sampling import Names

Partition = tuple[int, ...]


def links_of(record: int, pairs: Pairs) -> list[tuple[int, int]]:
    """The records that a record has a pair with, and the numbers of these pairs, in the order of `Neighbours`."""
    ends = list(enumerate(zip(pairs.left.tolist(), pairs.right.tolist(), strict=True)))
    return [(j, p) for p, (i, j) in ends if i == record] + [(i, p) for p, (i, j) in ends if j == record]


def choice_weights(
    joining: Sequence[int], clusters: dict[int, int], pairs: Pairs, score: Floats, weights: Weights
) -> dict[int | None, float]:
    """The weight of each cluster for a record, given those of others; None, which comes last, is none of them.

    Or for several that join as one, which a cluster of two or more may.
    """
    scores: dict[int, list[float]] = {}
    for record in joining:
        for other, number in links_of(record, pairs):
            if other in clusters:
                scores.setdefault(clusters[other], []).append(float(score[number]))
    found: dict[int | None, float] = {}
    for k, each in scores.items():
        size = sum(1 for label in clusters.values() if label == k)
        if len(joining) > 1 and size == 1:
            continue
        # Members that are no candidates of the record count with the floor.
        n_pairs = size * len(joining)
        mean = (sum(each) + (n_pairs - len(each)) * weights.floor) / n_pairs
        third = weights.third if size > 1 else 0.0
        merge = weights.merge if len(joining) > 1 else 0.0
        found[k] = float(np.exp(weights.bias + merge + third + mean) * size**weights.growth)
    found[None] = 1.0
    return found


def components(pairs: Pairs, known: Sequence[int]) -> list[list[int]]:
    """The free records that chains of pairs and given clusters connect."""
    n = len(known)
    name = list(range(n))
    ends = list(zip(pairs.left.tolist(), pairs.right.tolist(), strict=True))
    ends += [(i, j) for i in range(n) for j in range(i) if known[i] == known[j] and known[i] >= 0]
    for i, j in ends * n:
        name[i] = name[j] = min(name[i], name[j])
    found = [[i for i in range(n) if name[i] == k and known[i] < 0] for k in sorted(set(name))]
    return [each for each in found if each]


def may_merge(weights: Weights, pairs: Pairs, known: Sequence[int]) -> list[int]:
    """The free records of components in which whole clusters may join others."""
    if weights.merge <= NO_MERGE:
        return []
    return sorted(i for each in components(pairs, known) if len(each) >= FEWEST_TO_MERGE for i in each)


def joins_as_one(record: int, clusters: dict[int, int], known: Sequence[int], came: set[int]) -> list[int]:
    """The records of the record's cluster, where it may join another as a whole."""
    members = [i for i, k in clusters.items() if k == clusters[record]]
    free = all(known[i] < 0 for i in members)
    return members if len(members) > 1 and free and not came & set(members) else []


def log_likelihood(
    cluster: Sequence[int],
    order: Iterable[int],
    pairs: Pairs,
    score: Floats,
    weights: Weights,
    everyone: bool,
    cluster_weight: Sequence[float] | None = None,
) -> float:
    """Of known clusters, placed in an order; or of each record given all others."""
    total = 0.0
    placed: dict[int, int] = dict(enumerate(cluster)) if everyone else {}
    for record in order:
        placed.pop(record, None)
        found = choice_weights([record], placed, pairs, score, weights)
        # A cluster none of whose members is a candidate is out of reach: the record then opens a new one.
        chosen = found.get(cluster[record], found[None])
        counts = 1.0 if cluster_weight is None else cluster_weight[cluster[record]]
        total += counts * float(np.log(chosen) - np.log(sum(found.values())))
        placed[record] = cluster[record]
    return total


def chance(stream: np.uint64, name: np.uint64, number: int) -> int:
    """What is random about a record, by the stream of the draw."""
    return int(mix_keys(np.uint64(mix_keys(stream, name)), np.uint64(number)))


def sample_partition(
    pairs: Pairs, score: Floats, weights: Weights, known: Integers, n_rescans: int, stream: np.uint64, names: Names
) -> Partition:
    """One draw: all free records in one random order, in another for every rescan, and then whole clusters."""
    clusters = {i: int(k) for i, k in enumerate(known) if k >= 0}
    free = [i for i in range(len(known)) if known[i] < 0]

    def choose(joining: Sequence[int], scan: int) -> int | None:
        others = {i: k for i, k in clusters.items() if i not in joining}
        found = choice_weights(joining, others, pairs, score, weights)
        left = (chance(stream, names[joining[0]], 2 * scan + 1) >> 11) / 2**53 * sum(found.values())
        for k, weight in found.items():
            left -= weight
            if left < 0:
                return k
        return None

    def in_order(records: list[int], scan: int) -> list[int]:
        return sorted(records, key=lambda i: chance(stream, names[i], 2 * scan))

    def place(records: list[int], scan: int) -> None:
        for record in in_order(records, scan):
            clusters.pop(record, None)
            chosen = choose([record], scan)
            clusters[record] = max(clusters.values(), default=-1) + 1 if chosen is None else chosen

    for scan in range(1 + n_rescans):
        place(free, scan)
    merging, came, scan = may_merge(weights, pairs, known.tolist()), set[int](), 1 + n_rescans
    order = in_order(merging, scan)
    for record in order:
        members = joins_as_one(record, clusters, known.tolist(), came)
        came.add(record)
        if members:
            # In the order of this scan, so that the choice hangs on the first of them.
            members = [i for i in order if i in members]
            chosen = choose(members, scan)
            if chosen is not None:
                clusters |= dict.fromkeys(members, chosen)
    place(merging, scan + 1)
    return canonical(clusters)


def exact_law(pairs: Pairs, score: Floats, weights: Weights, known: Integers, n_rescans: int) -> dict[Partition, float]:
    """The probability of every partition of a few records, by going through all orders and all choices."""
    given = {i: int(k) for i, k in enumerate(known) if k >= 0}
    free = [i for i in range(len(known)) if known[i] < 0]
    merging = may_merge(weights, pairs, known.tolist())
    passes = [(free, False)] * (1 + n_rescans) + [(merging, True), (merging, False)]
    law = {canonical(given, len(known)): 1.0}
    for records, whole in passes:
        after: dict[Partition, float] = {}
        orders = list(permutations(records))
        for state, probability in law.items():
            for order in orders:
                if whole:
                    ends = _merge_in_order(state, order, known, pairs, score, weights)
                else:
                    ends = _place_in_order(state, order, pairs, score, weights)
                for end, share in ends.items():
                    after[end] = after.get(end, 0.0) + probability * share / len(orders)
        law = after
    return law


def _place_in_order(
    state: Partition, order: Sequence[int], pairs: Pairs, score: Floats, weights: Weights
) -> dict[Partition, float]:
    law = {state: 1.0}
    for record in order:
        after: dict[Partition, float] = {}
        for before, probability in law.items():
            clusters = {i: k for i, k in enumerate(before) if k >= 0 and i != record}
            found = choice_weights([record], clusters, pairs, score, weights)
            total = sum(found.values())
            for k, weight in found.items():
                new = max(clusters.values(), default=-1) + 1
                end = canonical(clusters | {record: new if k is None else k}, len(before))
                after[end] = after.get(end, 0.0) + probability * weight / total
        law = after
    return law


def _merge_in_order(
    state: Partition,
    order: Sequence[int],
    known: Integers,
    pairs: Pairs,
    score: Floats,
    weights: Weights,
    came: frozenset[int] = frozenset(),
) -> dict[Partition, float]:
    law = {state: 1.0}
    for number, record in enumerate(order):
        after: dict[Partition, float] = {}
        for before, probability in law.items():
            clusters = dict(enumerate(before))
            members = joins_as_one(record, clusters, known.tolist(), {*came, *order[:number]})
            if not members:
                after[before] = after.get(before, 0.0) + probability
                continue
            others = {i: k for i, k in clusters.items() if i not in members}
            found = choice_weights(members, others, pairs, score, weights)
            for k, weight in found.items():
                end = before if k is None else canonical(others | dict.fromkeys(members, k), len(before))
                after[end] = after.get(end, 0.0) + probability * weight / sum(found.values())
        law = after
    return law


def exact_law_by_records(
    pairs: Pairs, score: Floats, weights: Weights, known: Integers, n_rescans: int
) -> dict[Partition, float]:
    """As `exact_law`, by who has come so far and not by orders: in a random order, anybody left is next."""
    n = len(known)
    free = frozenset(i for i in range(n) if known[i] < 0)
    merging = frozenset(may_merge(weights, pairs, known.tolist()))
    law = {canonical({i: int(k) for i, k in enumerate(known) if k >= 0}, n): 1.0}
    for records, whole in [(free, False)] * (1 + n_rescans) + [(merging, True), (merging, False)]:
        waiting = {(records, state): probability for state, probability in law.items()}
        for _ in records:
            after: dict[tuple[frozenset[int], Partition], float] = {}
            for (left, state), probability in waiting.items():
                for record in left:
                    if whole:
                        came = records - left
                        ends = _merge_in_order(state, [record], known, pairs, score, weights, came)
                    else:
                        ends = _place_in_order(state, [record], pairs, score, weights)
                    for end, share in ends.items():
                        key = left - {record}, end
                        after[key] = after.get(key, 0.0) + probability * share / len(left)
            waiting = after
        law = {state: probability for (_, state), probability in waiting.items()}
    return law


def keeps_conditions(partition: Sequence[int], conditions: Conditions) -> bool:
    """Whether records are together and apart as they must be."""
    together = all(
        (partition[i] == partition[j]) or conditions.group[i] != conditions.group[j] or conditions.group[i] < 0
        for i, j in combinations(range(len(partition)), 2)
    )
    apart = all(partition[i] != partition[j] for i, j in zip(conditions.left, conditions.right, strict=True))
    once = all(
        partition[i] != partition[j] or conditions.source[i] != conditions.source[j] or conditions.source[i] < 0
        for i, j in combinations(range(len(partition)), 2)
    )
    return together and apart and once


def conditional_law(law: dict[Partition, float], conditions: Conditions) -> dict[Partition, float]:
    """The law of the partitions that keep the conditions."""
    kept = {partition: p for partition, p in law.items() if keeps_conditions(partition, conditions)}
    total = sum(kept.values())
    return {partition: p / total for partition, p in kept.items()}


def canonical(clusters: dict[int, int], n: int = 0) -> Partition:
    """Clusters numbered by first appearance, -1 for records that are not placed."""
    numbers: dict[int, int] = {}
    length = max(n, max(clusters, default=-1) + 1)
    return tuple(numbers.setdefault(clusters[i], len(numbers)) if i in clusters else -1 for i in range(length))


def level_of(distance: float) -> int:
    """The level of agreement: how many edges a distance is above."""
    return sum(distance > edge for edge in EDGES.tolist())


def level_counts(features: Features, n_comparisons: int, weight: Floats) -> Floats:
    """(comparisons, levels): the weight of the pairs in each level."""
    counts = np.zeros((n_comparisons, len(EDGES) + 1))
    for row, counted in zip(features.tolist(), weight.tolist(), strict=True):
        for c in range(n_comparisons):
            if not np.isnan(row[c]):
                counts[c, level_of(row[c])] += counted
    return counts


def said_by_groups(row: list[float], layout: Layout, ratio: Floats, exact: Floats) -> dict[int, float]:
    """What each group of comparisons says of a pair."""
    said = dict.fromkeys(layout.group.tolist(), 0.0)
    for c in range(layout.n_comparisons):
        if np.isnan(row[c]):
            continue
        evidence = ratio[c, level_of(row[c])]
        nats = row[layout.rarity[c]] if layout.rarity[c] >= 0 else 0.0
        if level_of(row[c]) == 0 and nats > 0:
            evidence = exact[c] + nats
        said[int(layout.group[c])] += layout.share[c] * evidence
    return said


def told_twice(said: dict[int, float], dependence: Dependence | None) -> dict[tuple[int, int], float]:
    """By two groups that depend on each other, what their agreements tell twice."""
    if dependence is None:
        return {}
    edges = [(g, int(parent)) for g, parent in enumerate(dependence.parent) if parent >= 0]
    return {(g, h): min(dependence.lift[g], max(min(said[g], said[h]), 0.0)) for g, h in edges}


def log_ratios(
    features: Features, layout: Layout, ratio: Floats, exact: Floats, dependence: Dependence | None = None
) -> Floats:
    """The log-ratio of each pair, group by group."""
    out = []
    for row in features.tolist():
        said = said_by_groups(row, layout, ratio, exact)
        out.append(sum(said.values()) - sum(told_twice(said, dependence).values()))
    return np.array(out)


def agreement_counts(features: Features, table: TableEvidence, agrees: float, differs: float) -> Floats:
    """(groups, groups, 4): strangers by two groups: all, those that agree in one, in the other, in both."""
    layout = table.layout
    n = len(set(layout.group.tolist()))
    counts = np.zeros((n, n, 4))
    for row in features.tolist():
        said = said_by_groups(row, layout, table.ratio, table.exact)
        twice = told_twice(said, table.dependence)
        for g in range(n):
            for h in range(g + 1, n):
                if sum(min(said[k], 0.0) for k in said if k not in (g, h)) > differs:
                    continue
                first, second = said[g] > agrees, said[h] > agrees
                counts[g, h, :3] += [1.0, first, second]
                if first and second:
                    others = {edge: much for edge, much in twice.items() if set(edge) != {g, h}}
                    once = sum(said.values()) - sum(others.values()) - min(said[g], said[h])
                    counts[g, h, 3] += 1.0 / (1.0 + np.exp(once + table.log_odds_of_match))
    return counts


def sure_level_counts(features: Features, table: TableEvidence, sure: float) -> Floats:
    """(comparisons, levels): pairs of which all other groups are sure, with the group as good as missing."""
    layout = table.layout
    counts = np.zeros((layout.n_comparisons, N_LEVELS))
    for row in features:
        for c in range(layout.n_comparisons):
            if np.isnan(row[c]):
                continue
            rest = row.copy()
            rest[: layout.n_comparisons][layout.group == layout.group[c]] = np.nan
            said = log_ratios(rest[None], layout, table.ratio, table.exact, table.dependence)[0]
            if said + table.log_odds_of_match >= sure:
                chance = 1.0 / (1.0 + np.exp(-said - table.log_odds_of_match))
                counts[c] += chance * level_counts(row[None], layout.n_comparisons, np.ones(1))[c]
    return counts
