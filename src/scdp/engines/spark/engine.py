"""The Spark engine: records go to a cluster, where they are compared, divided into components and seated."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp.engines.spark.pipeline import cluster_on_spark
from scdp.engines.spark.session import spark_session
from scdp.engines.spark.shards import collected_draws
from scdp.engines.spark.tables import records_to_spark
from scdp.errors import InputError
from scdp.linkage.learned import LearnedRestaurant
from scdp.linkage.pairs import Pairs
from scdp.linkage.shards import Blocked, Draws, InThreads, Progress


class SparkEngine:
    """Seats on the active Spark session, or on a new one as Spark's own configuration says."""

    def __init__(self, session: Any = None) -> None:
        self.session = session if session is not None else spark_session()

    def seat(
        self,
        restaurant: LearnedRestaurant,
        pairs: Pairs,
        known: NDArray[np.int64],
        n_draws: int,
        seed: int,
        progress: Progress | None = None,
    ) -> Draws:
        # Pairs that are all in memory are few: they are seated sooner than they are sent.
        return InThreads(1).seat(restaurant, pairs, known, n_draws, seed, progress)

    def seat_blocked(
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
        seated = cluster_on_spark(
            table, blocked.blocking, blocked.spec.fields, blocked.sieve, blocked.restaurant, n_draws, seed
        )
        return collected_draws(seated, len(known), n_draws)
