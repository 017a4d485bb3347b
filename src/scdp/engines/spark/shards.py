"""Shards on Spark: pairs with features and components go in; draws of every row that is in a pair come out.

Whole components reach one machine, many at a time. Given the parameters they are independent, and what is random about
a record follows from its number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from scdp.engines.spark.batches import batch_of, integers, whole_groups
from scdp.engines.spark.session import mapped
from scdp.linkage.ensemble import Ensemble
from scdp.linkage.shards import ENTRIES_AT_ONCE, Draws, Shard, all_apart

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
