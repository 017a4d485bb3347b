"""The Spark engine: records go to a cluster, where they are compared, divided into components and sampled.

Whole components reach one machine, many at a time. Given the parameters they are independent, and what is random about
a record follows from its number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp.blocking.candidates import search_of
from scdp.blocking.rules import Blocking
from scdp.engines.spark.candidates import candidate_pairs
from scdp.engines.spark.components import components
from scdp.engines.spark.features import Job, check_fields, compare_pairs
from scdp.engines.spark.session import mapped, saved, spark_session, worker_errors
from scdp.engines.spark.tables import SparkRecords, batch_of, integers, records_to_spark, whole_groups
from scdp.errors import InputError
from scdp.linkage.candidates import CUTS, MOST_CONNECTED, Blocked, sample_candidates, settle
from scdp.linkage.ensemble import Ensemble
from scdp.linkage.features import Comparer
from scdp.linkage.law import Pairs
from scdp.linkage.shards import ENTRIES_AT_ONCE, Draws, InThreads, Progress, Shard, all_apart

SAMPLED = "row long, draws array<int>"


def sample_components(labels: Any, pairs: Any, ensemble: Ensemble, n_draws: int, seed: int) -> Any:
    """(row, draws) of the rows in pairs (left, right, features), from (row, component). Not computed yet.

    In each draw a row is labelled by the first row of its cluster. Rows in no pair are alone in all draws.
    """
    with_component = pairs.join(labels.withColumnRenamed("row", "left"), "left")
    chosen = with_component.select("component", "left", "right", "features")
    ordered = chosen.repartition("component").sortWithinPartitions("component", "left", "right")
    return mapped(ordered, partial(_sample, ensemble, n_draws, seed), SAMPLED)


def _sample(ensemble: Ensemble, n_draws: int, seed: int, batches: Iterable[Any]) -> Iterator[Any]:
    import pyarrow as pa

    for table in whole_groups(batches, ("component",), ENTRIES_AT_ONCE):
        shard = shard_of(table)
        draws = shard.sample(ensemble, n_draws, seed)
        offsets = np.arange(0, draws.size + 1, n_draws, dtype=np.int32)
        listed = pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.ascontiguousarray(draws.T).ravel()))
        yield batch_of(row=shard.items, draws=listed)


def shard_of(table: Any) -> Shard:
    """Entries of whole components as arrays, in the order that they have on one machine."""
    left, right = integers(table, "left"), integers(table, "right")
    items, places = np.unique(np.concatenate([left, right]), return_inverse=True)
    order = np.lexsort((right, left))
    features = table.column("features").combine_chunks().flatten().to_numpy().reshape(len(left), -1)
    # The last entry is the log-odds by the evidence alone, which only the breaking up of components needs.
    features = np.ascontiguousarray(features[:, :-1])
    nobody = np.full(len(items), -1, dtype=np.int64)
    return Shard(items, places[: len(left)][order], places[len(left) :][order], features[order], nobody)


def collected_draws(sampled: Any, n_records: int, n_draws: int) -> Draws:
    """Draws (draws, records) on the driver: 4 bytes a record and draw."""
    draws = all_apart(n_draws, np.full(n_records, -1, dtype=np.int64))
    table = sampled.toArrow()
    if table.num_rows:
        rows, listed = integers(table, "row"), table.column("draws").combine_chunks()
        draws[:, rows] = listed.flatten().to_numpy().reshape(-1, n_draws).T
    return draws


def cluster_on_spark(records: SparkRecords, blocking: Blocking, job: Job, n_draws: int, seed: int) -> Any:
    """(row, draws) of every row that may be together with another, in no order; computed and kept by executors."""
    check_fields(job.fields)
    with worker_errors():
        candidates = candidate_pairs(records, blocking).frame
        compared = saved(compare_pairs(records, candidates, job))
        pairs, labels = break_up(records.frame, compared)
        return saved(sample_components(labels, pairs, job.ensemble, n_draws, seed))


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
    ) -> Draws:
        # Pairs that are all in memory are few: they are sampled sooner than they are sent.
        return InThreads(1).sample(ensemble, pairs, known, n_draws, seed, progress)

    def sample_blocked(
        self,
        blocked: Blocked,
        known: NDArray[np.int64],
        n_draws: int,
        seed: int,
        progress: Progress | None = None,
    ) -> Draws:
        if (known >= 0).any():
            raise InputError("the engine spark takes no known clusters; use --engine local with --known")
        table = records_to_spark(self.session, blocked.records)
        # Settled here, on a sample, exactly as on one machine.
        comparer = Comparer.of(blocked.records, blocked.fields)
        search = search_of(blocked.records, blocked.blocking, memory_limit="400MB")
        rows = np.argsort(search.homes, kind="stable").astype(np.int32)
        settled = settle(blocked, comparer, sample_candidates(search, rows, len(known)))
        job = Job(blocked.fields, comparer.count(), settled.ensemble, settled.prefilter)
        sampled = cluster_on_spark(table, blocked.blocking, job, n_draws, seed)
        return collected_draws(sampled, len(known), n_draws)
