"""Chains on Spark: records sorted in all partitions go in; pairs within a window of places come out.

A pair may cross the border of two partitions, so the first records of each are sent to the one before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp.engines.spark.batches import batch_of, integers, sliced
from scdp.engines.spark.session import mapped
from scdp.engines.spark.tables import in_order

Integers = NDArray[np.int64]
HEADS = "rule int, key long, row long, part int"
PAIRS = "rule int, left long, right long"


class Run(NamedTuple):
    """Records in sorted order; only those with the same rule and key are neighbours."""

    rules: Integers
    keys: Integers
    rows: Integers

    def joined(self, other: Run) -> Run:
        return Run(*(np.concatenate(parts) for parts in zip(self, other, strict=True)))

    def last(self, n: int) -> Run:
        return Run(*(part[max(len(part) - n, 0) :] for part in self))

    def first(self, n: int) -> Run:
        return Run(*(part[:n] for part in self))


def empty_run() -> Run:
    return Run(*(np.empty(0, dtype=np.int64) for _ in Run._fields))


def chain_pairs(chained: Any, windows: Mapping[int, int]) -> tuple[Any, Any]:
    """Pairs of (rule, key, place, row) at most the rule's window apart by place; and the frame to unpersist."""
    ordered = in_order(chained, "rule", "key", "place").drop("place").persist()
    widest = max(windows.values())
    heads = mapped(ordered, partial(_heads, widest), HEADS).collect()
    follow = following(heads, widest)
    return mapped(ordered, partial(_pairs, follow, dict(windows)), PAIRS), ordered


def _heads(n: int, batches: Iterable[Any]) -> Iterator[Any]:
    """The first n records of the partition."""
    for batch in batches:
        yield batch.slice(0, n)
        n -= min(n, batch.num_rows)
        if not n:
            return


def following(heads: Sequence[Sequence[int]], n: int) -> dict[int, Run]:
    """The n records after the end of each partition, from the first n (or fewer) of every partition."""
    by_part: dict[int, list[Sequence[int]]] = {}
    for *record, part in heads:
        by_part.setdefault(part, []).append(record)
    follow: dict[int, Run] = {}
    after: list[Sequence[int]] = []
    for part in sorted(by_part, reverse=True):
        follow[part] = Run(*np.array(after, dtype=np.int64).reshape(-1, 3).T)
        after = [*by_part[part], *after][:n]
    return follow


def _pairs(follow: Mapping[int, Run], windows: Mapping[int, int], batches: Iterable[Any]) -> Iterator[Any]:
    window_of = np.zeros(max(windows) + 1, dtype=np.int64)
    for rule, window in windows.items():
        window_of[rule] = window
    widest = max(windows.values())
    before, part = empty_run(), 0
    for batch in batches:
        if not batch.num_rows:
            continue
        part = batch.column("part")[0].as_py()
        run = before.joined(Run(*(integers(batch, name) for name in ("rule", "key", "row"))))
        yield from _pair_batches(run, window_of, len(before.rows), len(run.rows))
        before = run.last(widest)
    if len(before.rows):
        run = before.joined(follow[part])
        yield from _pair_batches(run, window_of, len(before.rows), len(before.rows))


def _pair_batches(run: Run, window_of: Integers, first: int, stop: int) -> Iterator[Any]:
    rules, left, right = near_pairs(*run, window_of, first, stop)
    yield from sliced(batch_of(rule=rules.astype(np.int32), left=left, right=right))


@kernel
def near_pairs(
    rules: Integers, keys: Integers, rows: Integers, window_of: Integers, first: int, stop: int
) -> tuple[Integers, Integers, Integers]:
    """Pairs within the window whose later place is `first` or more and whose earlier one is below `stop`."""
    room = 0
    for place in range(first, len(rows)):
        room += min(window_of[rules[place]], place)
    found = np.empty((3, room), dtype=np.int64)
    total = 0
    for later in range(first, len(rows)):
        for place in range(max(0, later - window_of[rules[later]]), min(later, stop)):
            if rules[place] == rules[later] and keys[place] == keys[later]:
                found[0, total] = rules[later]
                found[1, total] = min(rows[place], rows[later])
                found[2, total] = max(rows[place], rows[later])
                total += 1
    return found[0, :total].copy(), found[1, :total].copy(), found[2, :total].copy()
