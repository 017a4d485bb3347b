"""The whole way on Spark: records, a blocking and what was learned go in; draws of every row in a pair come out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scdp.blocking.rules import Blocking
from scdp.compare import Comparison
from scdp.engines.spark.candidates import candidate_pairs
from scdp.engines.spark.components import components
from scdp.engines.spark.features import blocked_pairs, check_fields, sifted_pairs
from scdp.engines.spark.session import saved, worker_errors
from scdp.engines.spark.shards import seated_components
from scdp.engines.spark.tables import SparkRecords
from scdp.linkage.blocked import CUTS, MOST_CONNECTED
from scdp.linkage.learned import LearnedRestaurant
from scdp.linkage.sieve import Sieve


def cluster_on_spark(
    records: SparkRecords,
    blocking: Blocking,
    fields: Sequence[Comparison],
    sieve: Sieve | None,
    restaurant: LearnedRestaurant,
    n_draws: int,
    seed: int,
) -> Any:
    """(row, draws) of every row that may be together with another, in no order; computed and kept by executors.

    Without a sieve every candidate pair is seated.
    """
    check_fields(fields)
    with worker_errors():
        candidates = candidate_pairs(records, blocking).frame
        if sieve is None:
            pairs = saved(blocked_pairs(records, candidates, fields))
            labels = components(records.frame, pairs)
        else:
            passed = saved(sifted_pairs(records, candidates, fields, sieve))
            pairs, labels = broken_up(records.frame, passed)
        return saved(seated_components(labels, pairs, restaurant, n_draws, seed))


def broken_up(rows: Any, pairs: Any) -> tuple[Any, Any]:
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
