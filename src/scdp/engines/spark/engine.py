"""The Spark engine: records go to a cluster, where they are compared, divided into components and sampled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp.blocking.candidates import search_of
from scdp.engines.spark.features import Job
from scdp.engines.spark.pipeline import cluster_on_spark
from scdp.engines.spark.session import spark_session
from scdp.engines.spark.shards import collected_draws
from scdp.engines.spark.tables import records_to_spark
from scdp.errors import InputError
from scdp.linkage.candidates import Blocked, sample_candidates, settle
from scdp.linkage.ensemble import Ensemble
from scdp.linkage.features import Comparer
from scdp.linkage.pairs import Pairs
from scdp.linkage.shards import Draws, InThreads, Progress


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
