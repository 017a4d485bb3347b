"""Connected components on Spark: a frame of edges enters, and a frame of rows with their components leaves.

Alternating stars (Kiveris and others, 2014): each record's neighbours are hung at its smallest one, first those larger
than it and then the others, until nothing changes. Edges never reach the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from scdp._typing import Integers
from scdp.components import connected_components
from scdp.engines.spark_tables import batch_of, group_starts, integers, mapped, saved, worker_errors

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
