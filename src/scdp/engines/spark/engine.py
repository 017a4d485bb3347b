"""The Spark engine: records go to a cluster, where they are compared, divided into components and sampled.

Whole components reach one machine, many at a time. Given the parameters they are independent, and what is random about
a record follows from its number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Integers
from scdp.blocking.candidates import search_of
from scdp.blocking.rules import Blocking
from scdp.compare.features import Comparer, Pairs
from scdp.engines.spark.candidates import candidate_pairs
from scdp.engines.spark.components import components
from scdp.engines.spark.features import CompareJob, check_fields, compare_pairs
from scdp.engines.spark.session import mapped, saved, spark_session, worker_errors
from scdp.engines.spark.tables import SparkRecords, batch_of, integers, records_to_spark, whole_groups
from scdp.estimators.conditions import Conditions
from scdp.linkage.candidates import CUTS, MOST_CONNECTED, Blocked, sample_candidates, settle
from scdp.linkage.ensemble import Ensemble
from scdp.linkage.shards import (
    ENTRIES_AT_ONCE,
    BlockedDraws,
    Draws,
    InThreads,
    Progress,
    Shard,
    all_apart,
    ties_of,
)

MEETING = "left long, right long"
SAMPLED = "row long, draws array<int>"


class GivenRows(NamedTuple):
    """What is known of all rows: the numbers of given clusters (-1 = none), and conditions."""

    known: Integers
    conditions: Conditions | None

    def ties(self) -> tuple[Integers, Integers]:
        """Edges that hold together what is known to be the same."""
        ends = [ties_of(self.known)]
        if self.conditions is not None:
            ends.append(self.conditions.ties())
        left, right = (np.concatenate(side) for side in zip(*ends, strict=True))
        return left, right


# The log-odds of what is no pair, and only holds two rows together that are known to be the same.
TIE = -np.inf


def sample_components(
    labels: Any, pairs: Any, ensemble: Ensemble, n_draws: int, seed: int, given: Any = None
) -> Any:
    """(row, draws) of the rows in pairs (left, right, features), from (row, component). Not computed yet.

    `given` is None, or has a `GivenRows` of all rows as its value.

    In each draw a row is labelled by the first row of its cluster. Rows in no pair are alone in all draws.
    """
    with_component = pairs.join(labels.withColumnRenamed("row", "left"), "left")
    chosen = with_component.select("component", "left", "right", "features")
    ordered = chosen.repartition("component").sortWithinPartitions("component", "left", "right")
    return mapped(ordered, partial(_sample, ensemble, n_draws, seed, given), SAMPLED)


def _sample(ensemble: Ensemble, n_draws: int, seed: int, given: Any, batches: Iterable[Any]) -> Iterator[Any]:
    import pyarrow as pa

    for table in whole_groups(batches, ("component",), ENTRIES_AT_ONCE):
        shard = shard_of(table, None if given is None else given.value)
        draws = shard.sample(ensemble, n_draws, seed)
        offsets = np.arange(0, draws.size + 1, n_draws, dtype=np.int32)
        listed = pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.ascontiguousarray(draws.T).ravel()))
        yield batch_of(row=shard.items, draws=listed)


def shard_of(table: Any, given: GivenRows | None = None) -> Shard:
    """Entries of whole components as arrays, in the order that they have on one machine."""
    left, right = integers(table, "left"), integers(table, "right")
    items, places = np.unique(np.concatenate([left, right]), return_inverse=True)
    order = np.lexsort((right, left))
    features = table.column("features").combine_chunks().flatten().to_numpy().reshape(len(left), -1)
    order = order[features[order, -1] != TIE]
    # The last entry is the log-odds by the evidence alone, which only the breaking up of components needs.
    features = np.ascontiguousarray(features[:, :-1])
    known = np.full(len(items), -1, dtype=np.int64) if given is None else given.known[items]
    conditions = None if given is None or given.conditions is None else given.conditions.take(items)
    ends = places[: len(left)][order], places[len(left) :][order]
    return Shard(items, *ends, features[order], known, conditions)


def collected_draws(sampled: Any, known: Integers, n_draws: int) -> Draws:
    """Draws (draws, records) on the driver: 4 bytes a record and draw."""
    draws = all_apart(n_draws, known)
    table = sampled.toArrow()
    if table.num_rows:
        rows, listed = integers(table, "row"), table.column("draws").combine_chunks()
        draws[:, rows] = listed.flatten().to_numpy().reshape(-1, n_draws).T
    return draws


def cluster_on_spark(
    records: SparkRecords,
    blocking: Blocking,
    job: CompareJob,
    n_draws: int,
    seed: int,
    given: GivenRows | None = None,
) -> Any:
    """(row, draws) of every row that may be together with another, in no order; computed and kept by executors."""
    check_fields(job.fields)
    with worker_errors():
        candidates = candidate_pairs(records, blocking).frame
        shared = None if given is None else records.frame.sparkSession.sparkContext.broadcast(given)
        if given is not None and given.conditions is not None and given.conditions.uncompared is not None:
            candidates = mapped(candidates, partial(_only_meeting, shared), MEETING)
        compared = saved(compare_pairs(records, candidates, job))
        pairs, labels = break_up(records.frame, compared)
        if given is None:
            return saved(sample_components(labels, pairs, job.ensemble, n_draws, seed))
        session = pairs.sparkSession
        n_features = job.ensemble.n_features + 1
        pairs = pairs.unionByName(_tie_frame(session, given, n_features))
        labels = components(records.frame, pairs)
        return saved(sample_components(labels, pairs, job.ensemble, n_draws, seed, shared))


def _only_meeting(given: Any, batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        left, right = integers(batch, "left"), integers(batch, "right")
        meets = given.value.conditions.may_meet(left, right)
        yield batch_of(left=left[meets], right=right[meets])


def _tie_frame(session: Any, given: GivenRows, n_features: int) -> Any:
    import pyarrow as pa

    left, right = given.ties()
    features = np.full(len(left) * n_features, TIE, dtype=np.float32)
    offsets = np.arange(0, len(features) + 1, n_features, dtype=np.int32)
    listed = pa.ListArray.from_arrays(pa.array(offsets), pa.array(features))
    table = pa.Table.from_arrays([pa.array(left), pa.array(right), listed], ["left", "right", "features"])
    return session.createDataFrame(table)


def break_up(rows: Any, pairs: Any) -> tuple[Any, Any]:
    """Pairs without the least likely ones of components of too many rows, as on one machine; and the components."""
    from pyspark.sql import functions as F

    for cut in CUTS:
        labels = components(rows, pairs)
        sizes = labels.groupBy("component").count().where(F.col("count") > MOST_CONNECTED)
        # Few, for each has many rows: their numbers are all that the driver sees.
        large = [row["component"] for row in sizes.collect()]
        if not large:
            return pairs, labels
        likely = F.element_at("features", -1) >= F.lit(cut).cast("float")
        marked = pairs.join(labels.withColumnRenamed("row", "left"), "left")
        pairs = saved(marked.where(likely | ~F.col("component").isin(large)).select(*pairs.columns))
    return pairs, components(rows, pairs)


class SparkEngine:
    """Samples on the active Spark session, or on a new one as Spark's own configuration says."""

    def __init__(self, session: Any = None) -> None:
        self.session = session if session is not None else spark_session()

    def sample(
        self,
        ensemble: Ensemble,
        pairs: Pairs,
        known: NDArray[np.int64],
        n_draws: int,
        seed: int,
        progress: Progress | None = None,
        conditions: Conditions | None = None,
    ) -> Draws:
        # Pairs that are all in memory are few: they are sampled sooner than they are sent.
        return InThreads(1).sample(ensemble, pairs, known, n_draws, seed, progress, conditions)

    def sample_blocked(
        self,
        blocked: Blocked,
        known: NDArray[np.int64],
        n_draws: int,
        seed: int,
        progress: Progress | None = None,
        conditions: Conditions | None = None,
    ) -> BlockedDraws:
        table = records_to_spark(self.session, blocked.records)
        # Settled here, on a sample, exactly as on one machine.
        comparer = Comparer.of(blocked.records, blocked.fields)
        search = search_of(blocked.records, blocked.blocking, memory_limit="400MB")
        rows = np.argsort(search.homes, kind="stable").astype(np.int32)
        settled = settle(blocked, comparer, sample_candidates(search, rows, len(known)), conditions)
        job = CompareJob(blocked.fields, comparer.count(), settled.ensemble, settled.prefilter)
        anything = conditions is not None or bool((known >= 0).any())
        given = GivenRows(known, conditions) if anything else None
        sampled = cluster_on_spark(table, blocked.blocking, job, n_draws, seed, given)
        return BlockedDraws(collected_draws(sampled, known, n_draws), search.oversized)
