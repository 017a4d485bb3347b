"""Candidate pairs on Spark: records and a blocking go in; the pairs that one machine would find come out.

Blocks are equality joins of keys, blocks above the bound and neighbourhoods are sorted, and pairs one link away
are a join of pairs with links. Only counts and a few records at borders ever reach the driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scdp.blocking.blocks import Oversized
from scdp.blocking.expansion import MOST_LINKS
from scdp.blocking.rules import Blocking, Equal, Identical, Neighbourhood, Overlap, Rule
from scdp.engines.spark.chains import chain_pairs
from scdp.engines.spark.keys import key_entries, sort_texts, sorted_entries, varied_columns
from scdp.engines.spark.overlaps import overlap_pairs
from scdp.engines.spark.session import saved, worker_errors
from scdp.engines.spark.tables import SparkRecords


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
        rules = [(number, rule) for number, rule in self.rules if not isinstance(rule, Neighbourhood)]
        if not rules:
            return []
        entries = self._keep(key_entries(self.records, rules))
        large = self._large(entries)
        self.oversized = self._described(large)
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

    def _described(self, large: Any) -> tuple[Oversized, ...]:
        from pyspark.sql import functions as F

        found = large.groupBy("rule").agg(F.count("*"), F.sum("count"), F.max("count")).collect()
        told = {rule: counts for rule, *counts in found}
        return tuple(
            Oversized(str(rule), *told[number])
            for number, rule in self.rules
            if number in told and not isinstance(rule, Overlap)
        )

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
            bound = self.blocking.max_block
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
    open_links = links.join(hubs, "one", "left_anti").join(
        hubs.withColumnRenamed("one", "other"), "other", "left_anti"
    )
    meeting = _both_ways(pairs).withColumnRenamed("other", "partner").join(open_links, "one")
    reached = meeting.where("partner != other").select(
        F.least("partner", "other").alias("left"), F.greatest("partner", "other").alias("right")
    )
    return pairs.select("left", "right").unionByName(reached).distinct()


def _both_ways(pairs: Any) -> Any:
    from pyspark.sql import functions as F

    there = pairs.select(F.col("left").alias("one"), F.col("right").alias("other"))
    return there.unionByName(pairs.select(F.col("right").alias("one"), F.col("left").alias("other")))
