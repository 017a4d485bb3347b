"""The obvious twins of blocking: all pairs of records are looked at, one after the other, in plain Python."""

from __future__ import annotations

import math
from collections import Counter, deque
from itertools import combinations, product

import numpy as np

from scdp.blocking.keys import KeyMaker, TextColumns
from scdp.blocking.rules import Equal, Identical, Neighbourhood, Overlap
from scdp.compare.cells import STANDARD, clean
from scdp.hashing import scatter_rows
from scdp.table import Records, records_from

LETTERS = "abcdé"


def random_records(n: int, seed: int) -> Records:
    """Names of one to three short words, cities of few different ones, dates of birth; some cells missing."""
    rng = np.random.default_rng(seed)

    def words(counts: tuple[int, int], lengths: tuple[int, int]) -> str:
        made = ["".join(rng.choice(list(LETTERS), rng.integers(*lengths))) for _ in range(rng.integers(*counts))]
        return " ".join(made).title()

    makers = {
        "name": lambda: words((1, 4), (1, 4)),
        "city": lambda: words((1, 3), (1, 2)),
        "born": lambda: f"19{rng.integers(50, 55)}-0{rng.integers(1, 4)}-11",
    }
    cells = {name: [None if rng.random() < 0.15 else make() for _ in range(n)] for name, make in makers.items()}
    for column in cells.values():
        column[n // 2 : n // 2 + n // 20] = column[: n // 20]  # some exact duplicates
    return records_from(cells)


def keys_of(expression, records: Records, row: int) -> set[str]:
    """The keys of one record, computed for it alone."""
    if expression.exploded:
        return {key for column in expression.columns for key in _exploded(expression, records[column][row])}
    texts = [clean(records[column][row] or "", STANDARD) for column in expression.columns]
    value = expression.value_of_each([" ".join(filter(None, texts))])[0]
    return {value} if value else set()


def _exploded(expression, cell: str | None) -> list[str]:
    return expression.values()(clean(cell or "", STANDARD))


def pairs_of_rule(rule, records: Records, max_block: int) -> set[tuple[int, int]]:
    """The pairs of one rule by its definition; blocks above the bound are not refined."""
    if isinstance(rule, Neighbourhood):
        return _neighbours(rule, records)
    if isinstance(rule, Overlap):
        return _overlapping(rule, records, max_block)
    n = len(records)
    if isinstance(rule, Identical):
        rows = [tuple(clean(records[c][row] or "", STANDARD) for c in rule.columns) for row in range(n)]
        return {(a, b) for a, b in combinations(range(n), 2) if rows[a] == rows[b] and any(rows[a])}
    assert isinstance(rule, Equal)
    keys = [set(product(*(keys_of(key, records, row) for key in rule.keys))) for row in range(n)]
    return {(a, b) for a, b in combinations(range(n), 2) if keys[a] & keys[b]}


def _overlapping(rule: Overlap, records: Records, max_block: int) -> set[tuple[int, int]]:
    n = len(records)
    tokens = [keys_of(rule.key, records, row) for row in range(n)]
    counts = Counter(token for own in tokens for token in own)
    total = math.log(max(n, 2))
    rarity = {t: math.log(n / count) / total for t, count in counts.items() if count <= max_block}

    def shared(a: int, b: int) -> float:
        return sum(rarity.get(token, 0.0) for token in tokens[a] & tokens[b])

    return {(a, b) for a, b in combinations(range(n), 2) if shared(a, b) >= rule.rarity - 1e-9}


def _neighbours(rule: Neighbourhood, records: Records) -> set[tuple[int, int]]:
    ties = scatter_rows(np.arange(len(records), dtype=np.int32))
    last = (1, "")

    def key(row: int):
        values = [keys_of(expression, records, row) for expression in rule.keys]
        return [*((0, min(value)) if value else last for value in values), ties[row]]

    ordered = sorted((row for row in range(len(records)) if keys_of(rule.keys[0], records, row)), key=key)
    near = [(a, b) for i, a in enumerate(ordered) for b in ordered[i + 1 : i + 1 + rule.window]]
    return {(min(pair), max(pair)) for pair in near}


def expanded(pairs: set[tuple[int, int]], links: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """Pairs, and what is one link away from one of them."""
    both = pairs | {(b, a) for a, b in pairs}
    linked = links | {(b, a) for a, b in links}
    further = {(a, d) for a, b in both for c, d in linked if b == c and a != d}
    return pairs | {(min(pair), max(pair)) for pair in further}


def components_by_search(n: int, edges: list[tuple[int, int]]) -> list[int]:
    """The smallest record reachable from each, by searching from every record."""
    nexts: list[set[int]] = [set() for _ in range(n)]
    for a, b in edges:
        nexts[a].add(b)
        nexts[b].add(a)
    labels = []
    for start in range(n):
        seen, queue = {start}, deque([start])
        while queue:
            new = nexts[queue.popleft()] - seen
            seen |= new
            queue.extend(new)
        labels.append(min(seen))
    return labels


def pair_set(pairs) -> set[tuple[int, int]]:
    return set(zip(pairs.left.tolist(), pairs.right.tolist(), strict=True))


def key_maker(records: Records) -> KeyMaker:
    return KeyMaker(TextColumns(records))
