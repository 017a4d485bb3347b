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
from scdp.seating.learned import LearnedRestaurant
from scdp.seating.sieve import Sieve


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
        else:
            pairs = saved(sifted_pairs(records, candidates, fields, sieve))
        labels = components(records.frame, pairs)
        return saved(seated_components(labels, pairs, restaurant, n_draws, seed))
