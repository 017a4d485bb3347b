"""Candidate pairs on Spark: records and a blocking enter; the pairs that one machine would find leave.

As on one machine only the first tokens of a record, rarest first, are posted. Each posting carries the record's
tokens from there on, so that a pair is decided where it meets; met at its rarest shared token it has them all.

Blocks are equality joins of keys, blocks above the bound and neighbourhoods are sorted, and pairs one link away
are a join of pairs with links. Only counts and a few records at borders ever reach the driver.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp._typing import Integers
from scdp.blocking.index import ROUNDING, Oversized, compute_rarities, count_searched
from scdp.blocking.pairs import MOST_LINKS
from scdp.blocking.rules import Blocking, Equal, Identical, Neighbourhood, Overlap, Rule, token_bound
from scdp.engines.spark_tables import (
    Run,
    SparkRecords,
    batch_of,
    empty_run,
    group_starts,
    in_order,
    integers,
    key_entries,
    mapped,
    saved,
    sliced,
    sort_texts,
    sorted_entries,
    varied_columns,
    whole_groups,
    worker_errors,
)
from scdp.texts import compute_offsets

# So many keys of blocks above the bound are sent to every executor.
MOST_SENT = 1_000_000
HEADS = "rule int, key long, row long, part int"
PAIRS = "rule int, left long, right long"
POSTINGS = "rule int, key long, row long, tokens array<long>, sizes array<int>"


def overlap_pairs(entries: Any, thresholds: Mapping[int, float], n_records: int, max_block: int) -> Any:
    """Pairs of entries of overlap rules, each rule with its least rarity; tokens above the bound are gone."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    by_token = Window.partitionBy("rule", "key")
    sized = entries.withColumn("size", F.count("*").over(by_token).cast("int")).where(
        f"size > 1 and size <= {max_block}"
    )
    weights = token_weights(n_records, max_block)
    by_record = sized.repartition("rule", "row").sortWithinPartitions("rule", "row", "size", "key")
    postings = mapped(by_record, partial(_postings, dict(thresholds), weights), POSTINGS)
    meeting = postings.repartition("rule", "key").sortWithinPartitions("rule", "key", "row")
    return mapped(meeting, partial(_pairs, dict(thresholds), weights), PAIRS)


def token_weights(n_records: int, max_block: int) -> NDArray[np.float64]:
    """The rarity of a token by the number of records that have it."""
    sizes = np.arange(max_block + 1, dtype=np.float64)
    sizes[0] = 1.0
    return compute_rarities(sizes, n_records)


def _postings(thresholds: Mapping[int, float], weights: NDArray[np.float64], batches: Iterable[Any]) -> Iterator[Any]:
    for table in whole_groups(batches, ("rule", "row")):
        for part in _by_rule(table):
            yield from sliced(posted(part, weights, thresholds[part.column("rule")[0].as_py()]), 20_000)


def _by_rule(table: Any) -> Iterator[Any]:
    rules = integers(table, "rule")
    starts = [*group_starts([rules]).tolist(), len(rules)]
    for start, stop in itertools.pairwise(starts):
        yield table.slice(start, stop - start)


def posted(table: Any, weights: NDArray[np.float64], rarity: float) -> Any:
    """The postings of whole records of one rule, whose tokens come rarest first."""
    import pyarrow as pa

    rows, keys, sizes = (integers(table, name) for name in ("row", "key", "size"))
    offsets = np.append(group_starts([rows]), len(rows))
    counts = np.diff(offsets)
    n_searched = count_searched(offsets, np.arange(len(rows), dtype=np.int32), weights[sizes], rarity)
    places = np.arange(len(rows)) - np.repeat(offsets[:-1], counts)
    starts = np.flatnonzero(places < np.repeat(n_searched, counts))
    lengths = np.repeat(offsets[1:], counts)[starts] - starts
    ends = compute_offsets(lengths)
    rest = np.arange(ends[-1]) - np.repeat(ends[:-1] - starts, lengths)
    return batch_of(
        rule=integers(table, "rule")[starts].astype(np.int32),
        key=keys[starts],
        row=rows[starts],
        tokens=pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(keys[rest])),
        sizes=pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(sizes[rest].astype(np.int32))),
    )


def _pairs(thresholds: Mapping[int, float], weights: NDArray[np.float64], batches: Iterable[Any]) -> Iterator[Any]:
    for table in whole_groups(batches, ("rule", "key")):
        for part in _by_rule(table):
            rule = part.column("rule")[0].as_py()
            left, right = _met(part, weights, thresholds[rule])
            yield from sliced(batch_of(rule=np.full(len(left), rule, dtype=np.int32), left=left, right=right))


def _met(part: Any, weights: NDArray[np.float64], rarity: float) -> tuple[Integers, Integers]:
    rows, keys = integers(part, "row"), integers(part, "key")
    tokens = part.column("tokens").combine_chunks()
    offsets = compute_offsets(tokens.value_lengths().to_numpy().astype(np.int64))
    return overlapping(
        np.append(group_starts([keys]), len(keys)),
        rows,
        offsets,
        tokens.flatten().to_numpy(),
        part.column("sizes").combine_chunks().flatten().to_numpy(),
        weights,
        rarity - ROUNDING,
    )


@kernel
def overlapping(
    blocks: Integers,
    rows: Integers,
    offsets: Integers,
    tokens: Integers,
    sizes: NDArray[np.int32],
    weights: NDArray[np.float64],
    enough: float,
) -> tuple[Integers, Integers]:
    """The pairs of postings in one block whose runs of tokens share enough weight."""
    room = 0
    for block in range(len(blocks) - 1):
        size = blocks[block + 1] - blocks[block]
        room += size * (size - 1) // 2
    left, right = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
    total = 0
    for block in range(len(blocks) - 1):
        for i in range(blocks[block], blocks[block + 1]):
            for j in range(i + 1, blocks[block + 1]):
                if run_weight(offsets, tokens, sizes, weights, i, j, enough) >= enough:
                    left[total], right[total] = rows[i], rows[j]
                    total += 1
    return left[:total].copy(), right[:total].copy()


@kernel
def run_weight(
    offsets: Integers,
    tokens: Integers,
    sizes: NDArray[np.int32],
    weights: NDArray[np.float64],
    i: int,
    j: int,
    enough: float,
) -> float:
    """The weight of the tokens that two runs, sorted by size and then by token, share; stops when enough."""
    a, end_a, b, end_b = offsets[i], offsets[i + 1], offsets[j], offsets[j + 1]
    total = 0.0
    while a < end_a and b < end_b and total < enough:
        if tokens[a] == tokens[b]:
            total += weights[sizes[a]]
            a += 1
            b += 1
        elif sizes[a] < sizes[b] or (sizes[a] == sizes[b] and tokens[a] < tokens[b]):
            a += 1
        else:
            b += 1
    return total


@dataclass(frozen=True, eq=False)
class SparkPairs:
    """`frame` has the columns left < right, each pair once; `oversized` names rules with blocks too large."""

    frame: Any
    n_records: int
    oversized: tuple[Oversized, ...] = ()


def candidate_pairs(records: SparkRecords, blocking: Blocking) -> SparkPairs:
    """The pairs of the blocking, expanded through its links, computed and kept by the executors."""
    records.require(*blocking.columns)
    with worker_errors():
        finder = _Finder(records, blocking)
        pairs = saved(_distinct(finder.found(), blocking))
        finder.release()
        if blocking.links:
            pairs = saved(_expanded(pairs))
    return SparkPairs(pairs.select("left", "right"), records.n_records, finder.oversized)


class _Finder:
    """Finds the (rule, left, right) of every rule; some more than once."""

    def __init__(self, records: SparkRecords, blocking: Blocking) -> None:
        self.records, self.blocking = records, blocking
        self.rules: Sequence[tuple[int, Rule]] = list(enumerate(blocking.all_rules))
        self.oversized: tuple[Oversized, ...] = ()
        self.chained: list[Any] = []
        self.windows: dict[int, int] = {}
        self.kept: list[Any] = []

    def found(self) -> Any:
        """The pairs of all kinds of rules. Not computed yet."""
        parts = self._keyed()
        self._add_neighbourhoods()
        if self.chained:
            pairs, ordered = chain_pairs(_union(self.chained), self.windows)
            self.kept.append(ordered)
            parts.append(pairs)
        return _union(parts)

    def _keyed(self) -> list[Any]:
        """The pairs of rules with keys; blocks above the bound are put among the chains."""
        from pyspark.sql import functions as F

        rules = [(number, rule) for number, rule in self.rules if not isinstance(rule, Neighbourhood)]
        if not rules:
            return []
        entries = self._keep(key_entries(self.records, rules))
        large = self._large(entries)
        self.oversized, n_large = self._described(large)
        # Sent to all, so that the entries of a block of very many records need not come together to be left out.
        large = F.broadcast(large) if n_large <= MOST_SENT else large
        if self.oversized:
            self.chained.append(self._chained(entries, large))
            self.windows |= {number: self.blocking.window for number, _ in rules}
        return self._blocked(entries.join(large, ["rule", "key"], "left_anti"))

    def _add_neighbourhoods(self) -> None:
        rules = [(number, rule) for number, rule in self.rules if isinstance(rule, Neighbourhood)]
        if rules:
            self.chained.append(sorted_entries(self.records, rules))
            self.windows |= {number: rule.window for number, rule in rules}

    def release(self) -> None:
        """Let go of what was kept on the way."""
        for frame in self.kept:
            frame.unpersist()

    def _keep(self, frame: Any) -> Any:
        self.kept.append(frame.persist())
        return frame

    def _large(self, entries: Any) -> Any:
        counts = entries.groupBy("rule", "key").count()
        return self._keep(counts.where(f"count > {self.blocking.max_block}"))

    def _described(self, large: Any) -> tuple[tuple[Oversized, ...], int]:
        """The blocks above the bound by rule, and how many there are of all rules."""
        from pyspark.sql import functions as F

        found = large.groupBy("rule").agg(F.count("*"), F.sum("count"), F.max("count")).collect()
        told = {rule: counts for rule, *counts in found}
        shown = tuple(
            Oversized(str(rule), *told[number])
            for number, rule in self.rules
            if number in told and not isinstance(rule, Overlap)
        )
        return shown, sum(counts[0] for counts in told.values())

    def _chained(self, entries: Any, large: Any) -> Any:
        """The entries of blocks above the bound, with the place of each record among all."""
        from pyspark.sql import functions as F

        columns = varied_columns(self.records, self.blocking.columns)
        overlaps = [number for number, rule in self.rules if isinstance(rule, Overlap)]
        blocks = large.where(~F.col("rule").isin(overlaps)).select("rule", "key")
        return (
            entries.join(blocks, ["rule", "key"])
            .join(sort_texts(self.records, columns), "row")
            .select("rule", "key", "place", "row")
        )

    def _blocked(self, entries: Any) -> list[Any]:
        from pyspark.sql import functions as F

        rarities = {number: rule.rarity for number, rule in self.rules if isinstance(rule, Overlap)}
        parts = []
        if any(isinstance(rule, Equal | Identical) for _, rule in self.rules):
            parts.append(_block_pairs(entries.where(~F.col("rule").isin(list(rarities)))))
        if rarities:
            tokens = entries.where(F.col("rule").isin(list(rarities)))
            bound = token_bound(self.blocking.max_block, self.records.n_records)
            parts.append(overlap_pairs(tokens, rarities, self.records.n_records, bound))
        return parts


def _block_pairs(entries: Any) -> Any:
    left = entries.withColumnRenamed("row", "left")
    right = entries.withColumnRenamed("row", "right")
    # `left < right` filters within a block, whose size is bounded.
    return left.join(right, ["rule", "key"]).where("left < right").select("rule", "left", "right")


def _union(frames: Sequence[Any]) -> Any:
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionByName(frame)
    return whole


def _distinct(frame: Any, blocking: Blocking) -> Any:
    """Each pair once; with links, whether one of them made it."""
    from pyspark.sql import functions as F

    if not blocking.links:
        return frame.select("left", "right").distinct()
    links = [number for number, rule in enumerate(blocking.all_rules) if rule in blocking.links]
    linked = frame.select("left", "right", F.col("rule").isin(links).alias("linked"))
    return linked.groupBy("left", "right").agg(F.max("linked").alias("linked"))


def _expanded(pairs: Any) -> Any:
    """The pairs, and those of a partner with what the other is linked to, but through no hub."""
    from pyspark.sql import functions as F

    links = _both_ways(pairs.where("linked"))
    hubs = links.groupBy("one").count().where(f"count > {MOST_LINKS}").select("one")
    open_links = links.join(hubs, "one", "left_anti").join(hubs.withColumnRenamed("one", "other"), "other", "left_anti")
    meeting = _both_ways(pairs).withColumnRenamed("other", "partner").join(open_links, "one")
    reached = meeting.where("partner != other").select(
        F.least("partner", "other").alias("left"), F.greatest("partner", "other").alias("right")
    )
    return pairs.select("left", "right").unionByName(reached).distinct()


def _both_ways(pairs: Any) -> Any:
    from pyspark.sql import functions as F

    there = pairs.select(F.col("left").alias("one"), F.col("right").alias("other"))
    return there.unionByName(pairs.select(F.col("right").alias("one"), F.col("left").alias("other")))


def chain_pairs(chained: Any, windows: Mapping[int, int]) -> tuple[Any, Any]:
    """Pairs of (rule, key, place, row) at most the rule's window apart by place; and the frame to unpersist."""
    ordered = in_order(chained, "rule", "key", "place").drop("place").persist()
    widest = max(windows.values())
    heads = mapped(ordered, partial(_heads, widest), HEADS).collect()
    follow = following(heads, widest)
    return mapped(ordered, partial(_window_pairs, follow, dict(windows)), PAIRS), ordered


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


def _window_pairs(follow: Mapping[int, Run], windows: Mapping[int, int], batches: Iterable[Any]) -> Iterator[Any]:
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
