"""The Spark engine: records go to a cluster, where they are compared, divided into components and sampled.

Whole components reach one machine, many at a time. Given the parameters they are independent, and what is random about
a record follows from its number.

Pairs are joined with the cells of both records, and everything else happens in the worker that has them. Components are
found by alternating stars (Kiveris and others, 2014): each record's neighbours are hung at its smallest one, first
those larger than it and then the others, until nothing changes. Edges never reach the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp._parallel import Progress, StepProgress, stage
from scdp._typing import Integers
from scdp.blocking.by_size import BlockingReport
from scdp.blocking.rules import Blocking
from scdp.compare import Comparison
from scdp.compare.features import Comparer, Pairs, ValueCounts
from scdp.compare.kinds import BUILT_IN
from scdp.conditions import Conditions
from scdp.engines import ENTRIES_AT_ONCE, BlockedDraws, Engine, InThreads, Shard, ties_of
from scdp.engines.candidates import CUTS, MOST_CONNECTED, Blocked, index_records, link_pairs, settle
from scdp.engines.spark_candidates import candidate_pairs
from scdp.engines.spark_tables import (
    SparkRecords,
    batch_of,
    bytes_of,
    group_starts,
    integers,
    lists_of,
    mapped,
    records_to_spark,
    saved,
    spark_session,
    whole_groups,
    worker_errors,
)
from scdp.errors import InputError
from scdp.linkage import Ensemble
from scdp.linkage.prefilter import Prefilter, PrefilterRun
from scdp.partitions import connected_components
from scdp.posterior.linked import LabelFile, LinkedDraws
from scdp.table import Records


class CompareJob(NamedTuple):
    """What every worker needs: comparisons, how often values occur among all records, and the settled ensemble."""

    fields: tuple[Comparison, ...]
    counts: ValueCounts
    ensemble: Ensemble
    prefilter: Prefilter | None


COMPARED = "left long, right long, features array<float>"


def compare_pairs(records: SparkRecords, pairs: Any, job: CompareJob) -> Any:
    """(left, right, features) of the pairs (left, right) that may be matches. Not computed yet.

    The last entry of the features is the log-odds by the learned score, which only large components need.
    """
    check_fields(job.fields)
    return mapped(
        _with_cells(records, pairs, _columns_of(job.fields)), partial(_compare, job, records.source), COMPARED
    )


def check_fields(fields: Sequence[Comparison]) -> None:
    """Refuse comparisons that workers do not know."""
    for comparison in fields:
        if comparison.kind not in BUILT_IN:
            raise InputError(
                f"comparison {comparison.name!r} is your own and workers of Spark do not know it; "
                "use --engine local or one that is built in"
            )


def _with_cells(records: SparkRecords, pairs: Any, names: Sequence[str]) -> Any:
    """(left, right), then the cells of the left record and those of the right one."""
    left, right = (_side(records, names, side) for side in ("left", "right"))
    # Joined with the right record first: one shuffle carries the pairs alone, the other one record's cells.
    wide = pairs.select("left", "right").join(right, "right").join(left, "left")
    return wide.select("left", "right", *left.columns[1:], *right.columns[1:])


def _side(records: SparkRecords, names: Sequence[str], side: str) -> Any:
    return records.cells(names).toDF(side, *(f"{side}{i}" for i in range(len(names))))


def _columns_of(fields: Sequence[Comparison]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(column for comparison in fields for column in comparison.columns_read))


def _compare(job: CompareJob, source: str, batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        rows, comparer, left, right = prepare_batch(job, source, batch)
        run = None if job.prefilter is None else PrefilterRun.of(job.prefilter, comparer)
        found = link_pairs(comparer, run, left.astype(np.int32), right.astype(np.int32))
        log_odds = job.ensemble.mean_log_odds(found.features)
        features = np.column_stack([found.features, log_odds.astype(np.float32)])
        yield batch_of(left=rows[found.left], right=rows[found.right], features=lists_of(features))


def prepare_batch(job: CompareJob, source: str, batch: Any) -> tuple[Integers, Comparer, Integers, Integers]:
    """The distinct rows of a batch of pairs, ready to compare, and the pairs as places among them."""
    ends = np.concatenate([integers(batch, "left"), integers(batch, "right")])
    rows, first, places = np.unique(ends, return_index=True, return_inverse=True)
    cells = {name: _cells(batch, column, first) for column, name in enumerate(_columns_of(job.fields))}
    comparer = Comparer.of(Records(cells, source, rows + 1), job.fields, job.counts)
    return rows, comparer, places[: batch.num_rows], places[batch.num_rows :]


def _cells(batch: Any, column: int, places: NDArray[np.int64]) -> Any:
    import pyarrow as pa

    both = pa.chunked_array([batch.column(f"left{column}"), batch.column(f"right{column}")])
    return both.take(pa.array(places)).to_numpy(zero_copy_only=False)


MEETING = "left long, right long"
SAMPLED = "first long, row long, labels binary"
STREAMED = "firsts binary, rows binary, labels binary"
# So much of the draws reaches the driver at a time.
STREAMED_BYTES = 1 << 23


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


def sample_components(labels: Any, pairs: Any, ensemble: Ensemble, n_draws: int, seed: int, given: Any = None) -> Any:
    """(first, row, labels) of pairs (left, right, features) and (row, component). Not computed yet.

    `given` is None, or has a `GivenRows` of all rows as its value.

    There are only rows that some draw has with another; `first` is the first row of those that draws connect with it,
    and `labels` are those of `LinkedDraws`.
    """
    with_component = pairs.join(labels.withColumnRenamed("row", "left"), "left")
    chosen = with_component.select("component", "left", "right", "features")
    ordered = chosen.repartition("component").sortWithinPartitions("component", "left", "right")
    return mapped(ordered, partial(_sample, ensemble, n_draws, seed, given), SAMPLED)


def _sample(ensemble: Ensemble, n_draws: int, seed: int, given: Any, batches: Iterable[Any]) -> Iterator[Any]:
    for table in whole_groups(batches, ("component",), ENTRIES_AT_ONCE):
        shard = shard_of(table, None if given is None else given.value)
        yield labelled_rows(shard.sample(ensemble, n_draws, seed))


def labelled_rows(drawn: LinkedDraws) -> Any:
    """A batch (first, row, labels) of draws."""
    first = np.repeat(drawn.items[drawn.bounds[:-1]], drawn.sizes)
    return batch_of(first=first, row=drawn.items, labels=bytes_of(drawn.labels[:]))


def shard_of(table: Any, given: GivenRows | None = None) -> Shard:
    """Entries of whole components as arrays, in the order that they have on one machine."""
    left, right = integers(table, "left"), integers(table, "right")
    items, places = np.unique(np.concatenate([left, right]), return_inverse=True)
    order = np.lexsort((right, left))
    features = table.column("features").combine_chunks().flatten().to_numpy().reshape(len(left), -1)
    order = order[features[order, -1] != TIE]
    # The last entry is the log-odds by the learned score, which only the breaking up of components needs.
    features = np.ascontiguousarray(features[:, :-1])
    known = np.full(len(items), -1, dtype=np.int64) if given is None else given.known[items]
    conditions = None if given is None or given.conditions is None else given.conditions.take(items)
    ends = places[: len(left)][order], places[len(left) :][order]
    return Shard(items, *ends, features[order], known, conditions)


def collected_draws(sampled: Any, n_draws: int) -> LinkedDraws:
    """The draws on the driver, with the labels in a file: executors sort, and partition by partition arrives."""
    n_parts = -(-sampled.count() * 2 * n_draws // STREAMED_BYTES)
    divided = sampled.repartitionByRange(n_parts, "first") if n_parts > 1 else sampled.coalesce(1)
    streamed = mapped(divided.sortWithinPartitions("first", "row"), joined_batches, STREAMED)
    return linked_draws(streamed.toLocalIterator(), n_draws)


def joined_batches(batches: Iterable[Any]) -> Iterator[Any]:
    """Each batch of (first, row, labels) as one row, or as more where labels of two kinds meet."""
    import pyarrow.compute

    for batch in batches:
        widths = pyarrow.compute.binary_length(batch.column("labels")).to_numpy()
        for start, stop in pairwise([*group_starts([widths]).tolist(), batch.num_rows]):
            some = batch.slice(start, stop - start)
            firsts, rows = (integers(some, name).tobytes() for name in ("first", "row"))
            yield batch_of(firsts=[firsts], rows=[rows], labels=[b"".join(some.column("labels").to_pylist())])


def linked_draws(streamed: Iterable[Any], n_draws: int) -> LinkedDraws:
    """Draws from (firsts, rows, labels) in the order of `LinkedDraws`; no more than one of them is in memory."""
    firsts, items = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]

    def blocks() -> Iterator[NDArray[Any]]:
        for some in streamed:
            firsts.append(np.frombuffer(some["firsts"], np.int64))
            items.append(np.frombuffer(some["rows"], np.int64))
            width = len(some["labels"]) // (len(items[-1]) * n_draws)
            yield np.frombuffer(some["labels"], np.uint16 if width == 2 else np.int32).reshape(-1, n_draws)

    labels = LabelFile.of(blocks(), n_draws)
    bounds = np.append(group_starts([np.concatenate(firsts)]), labels.shape[0])
    return LinkedDraws(np.concatenate(items), bounds, labels)


def cluster_on_spark(
    records: SparkRecords,
    blocking: Blocking,
    job: CompareJob,
    n_draws: int,
    seed: int,
    given: GivenRows | None = None,
    told: StepProgress | None = None,
) -> Any:
    """(first, row, labels) of the rows that a draw has with another, in no order; computed and kept by executors."""
    check_fields(job.fields)
    told = told or StepProgress(None, N_STEPS)
    with worker_errors(), stage("clustering on Spark"):
        candidates = candidate_pairs(records, blocking).frame
        shared = None if given is None else records.frame.sparkSession.sparkContext.broadcast(given)
        if given is not None and given.conditions is not None and given.conditions.uncompared is not None:
            candidates = mapped(candidates, partial(_only_meeting, shared), MEETING)
        compared = saved(compare_pairs(records, candidates, job))
        told.step()
        pairs, labels = break_up(records.frame, compared)
        told.step()
        if given is None:
            return saved(sample_components(labels, pairs, job.ensemble, n_draws, seed))
        pairs = pairs.unionByName(_tie_frame(pairs.sparkSession, given, job.ensemble.n_features + 1))
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
    features = lists_of(np.full((len(left), n_features), TIE, dtype=np.float32))
    return session.createDataFrame(pa.Table.from_batches([batch_of(left=left, right=right, features=features)]))


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


# What executors have done: pairs compared, large components broken up, components sampled.
N_STEPS = 3


class SparkEngine(Engine):
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
    ) -> LinkedDraws:
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
        told = StepProgress(progress, N_STEPS)
        # Settled here, on a sample, exactly as on one machine.
        indexed = index_records(blocked, conditions)
        with stage("settling how much evidence says"):
            settled = settle(blocked, indexed, conditions)
        job = CompareJob(blocked.fields, indexed.comparer.count(), settled.ensemble, settled.prefilter)
        given = GivenRows(known, conditions) if conditions is not None or (known >= 0).any() else None
        sampled = cluster_on_spark(table, blocked.blocking, job, n_draws, seed, given, told)
        told.step()
        with stage("collecting the draws"):
            draws = collected_draws(sampled, n_draws)
        return BlockedDraws(draws, BlockingReport(settled.recall, indexed.search.oversized))


Edges = tuple[Integers, Integers]
Star = Callable[[Integers, Integers, Integers], Edges]
EDGES = "one long, other long"
# So many edges of a partition are contracted at a time: it bounds a worker's memory.
CONTRACTED_AT_ONCE = 2_000_000


def components(rows: Any, edges: Any) -> Any:
    """(row, component) of every row of `rows`, from edges with the columns left and right."""
    from pyspark.sql import functions as F

    with worker_errors():
        hung = saved(_hung(edges))
        before = None
        while (now := _fingerprint(hung)) != before:
            before = now
            # A large star makes no more edges than it gets; a small one repeats some.
            hung = saved(_star(_star(hung, large_star), small_star).distinct())
    labels = hung.select(F.col("one").alias("row"), F.col("other").alias("component"))
    return rows.select("row").join(labels, "row", "left").withColumn("component", F.coalesce("component", "row"))


def _hung(edges: Any) -> Any:
    """Fewer edges that connect the same: those of each partition become stars where they are.

    Sorted first, so that a partition of a lost executor becomes the same stars when it is made again.
    """
    from pyspark.sql import functions as F

    plain = edges.select(F.col("left").alias("one"), F.col("right").alias("other")).sortWithinPartitions("one", "other")
    return mapped(plain, _contracted, EDGES).distinct()


def _contracted(batches: Iterable[Any]) -> Iterator[Any]:
    waiting: list[Edges] = []
    for batch in batches:
        waiting.append((integers(batch, "one"), integers(batch, "other")))
        if sum(len(one) for one, _ in waiting) >= CONTRACTED_AT_ONCE:
            yield _edge_batch(contracted(waiting))
            waiting = []
    if waiting:
        yield _edge_batch(contracted(waiting))


def contracted(parts: Iterable[Edges]) -> Edges:
    """An edge from every row to the smallest it is connected to, which has none."""
    one, other = (np.concatenate(ends) for ends in zip(*parts, strict=True))
    rows, places = np.unique(np.concatenate([one, other]), return_inverse=True)
    found = connected_components(len(rows), [(places[: len(one)], places[len(one) :])])
    smallest = rows[found.labels]
    return rows[rows != smallest], smallest[rows != smallest]


def _star(edges: Any, star: Star) -> Any:
    """One star operation: each record with its neighbours, the smallest first, in one partition."""
    from pyspark.sql import functions as F

    if star is large_star:
        turned = edges.select(F.col("other").alias("one"), F.col("one").alias("other"))
        edges = edges.unionByName(turned)
    sorted_edges = edges.repartition("one").sortWithinPartitions("one", "other")
    return mapped(sorted_edges, partial(starred, star), EDGES)


def starred(star: Star, batches: Iterable[Any]) -> Iterator[Any]:
    """Apply a star operation to sorted edges; only the record at the border of two batches is remembered."""
    last, last_smallest = -1, -1
    for batch in batches:
        one, other = integers(batch, "one"), integers(batch, "other")
        if not len(one):
            continue
        starts = group_starts([one])
        smallest = np.minimum(one[starts], other[starts])
        if one[0] == last:
            smallest[0] = last_smallest
        yield _edge_batch(star(one, other, np.repeat(smallest, np.diff(np.append(starts, len(one))))))
        last, last_smallest = int(one[-1]), int(smallest[-1])


def large_star(one: Integers, other: Integers, smallest: Integers) -> Edges:
    """Larger neighbours are hung at the smallest record around."""
    larger = other > one
    return other[larger], smallest[larger]


def small_star(one: Integers, other: Integers, smallest: Integers) -> Edges:
    """A record and its neighbours, all smaller, are hung at the smallest of them."""
    others = other != smallest
    return np.concatenate([one, other[others]]), np.concatenate([smallest, smallest[others]])


def _edge_batch(edges: Edges) -> Any:
    return batch_of(one=edges[0], other=edges[1])


def _fingerprint(edges: Any) -> tuple[int, ...]:
    """Numbers that differ if the edges do: how many there are and two mixtures of their hashes."""
    from pyspark.sql import functions as F

    mixed = (F.xxhash64("one", "other"), F.xxhash64("other", "one"))
    return tuple(edges.agg(F.count("*"), *(F.bit_xor(column) for column in mixed)).first())
