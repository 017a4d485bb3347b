"""The whole way on Spark: records, a blocking and what was learned go in; draws of every row in a pair come out."""

from __future__ import annotations

from typing import Any

from scdp.blocking.rules import Blocking
from scdp.engines.spark.candidates import candidate_pairs
from scdp.engines.spark.components import components
from scdp.engines.spark.features import Job, check_fields, compare_pairs
from scdp.engines.spark.session import saved, worker_errors
from scdp.engines.spark.shards import sample_components
from scdp.engines.spark.tables import SparkRecords
from scdp.linkage.candidates import CUTS, MOST_CONNECTED


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
