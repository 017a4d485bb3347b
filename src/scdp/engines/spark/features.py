"""Features on Spark: candidate pairs go in; they, or those that pass a sieve, come out compared as on one machine.

Pairs are joined with the cells of both records, and everything else happens in the worker that has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp.compare import Comparison, Prepared
from scdp.compare.kinds import BUILT_IN
from scdp.compare.prepared import prepare_all
from scdp.engines.spark.batches import batch_of, integers
from scdp.engines.spark.session import mapped
from scdp.engines.spark.tables import SparkRecords
from scdp.errors import InputError
from scdp.linkage.blocked import compared, histogram, in_sample, sampled_share, sifted
from scdp.linkage.sieve import Sieve, counted
from scdp.linkage.sifting import Sifter
from scdp.table.records import Records

Integers = NDArray[np.int64]
COMPARED = "left long, right long, features array<float>"


def blocked_pairs(records: SparkRecords, pairs: Any, fields: Sequence[Comparison]) -> Any:
    """(left, right, features) of pairs (left, right). Not computed yet."""
    check_fields(fields)
    cells = _with_cells(records, pairs, _columns_of(fields))
    return mapped(cells, partial(_compared, tuple(fields), records.source), COMPARED)


def sifted_pairs(records: SparkRecords, pairs: Any, fields: Sequence[Comparison], sieve: Sieve) -> Any:
    """(left, right, features) of the pairs (left, right) that may be together; the last feature is their log-odds.

    Not computed yet, but for the counts of a sample, from which the shift of the log-odds follows.
    """
    check_fields(fields)
    names, n = _columns_of(fields), records.n_records
    sample = mapped(
        pairs.select("left", "right"), partial(_sample, sampled_share(n)), "left long, right long"
    )
    counts = partial(_counts, tuple(fields), sieve, n, records.source)
    counted_bins = mapped(_with_cells(records, sample, names), counts, "bin int, size long")
    shift = sieve.settled(_histogram(counted_bins), n)
    sift = partial(_sifted, tuple(fields), sieve, shift, records.source)
    return mapped(_with_cells(records, pairs, names), sift, COMPARED)


def check_fields(fields: Sequence[Comparison]) -> None:
    """Refuse comparisons that need all records at once, or that workers do not know."""
    for comparison in fields:
        if comparison.kind not in BUILT_IN:
            raise InputError(
                f"comparison {comparison.name!r} is your own and workers of Spark do not know it; "
                "use --engine local or one that is built in"
            )
        if comparison.kind_details.of_all:
            raise InputError(
                f"comparison {comparison.name!r} counts values over all records, which --engine spark does not; "
                "use --engine local or leave it out"
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
    return tuple(dict.fromkeys(column for comparison in fields for column in comparison.columns))


def _compared(fields: Sequence[Comparison], source: str, batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        rows, columns, left, right = prepared_batch(fields, source, batch)
        features = compared(columns, left, right, workers=1)
        yield batch_of(left=rows[left], right=rows[right], features=_listed(features))


def _sample(share: float, batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        chosen = in_sample(integers(batch, "left").astype(np.int32), share)
        yield batch.filter(chosen)


def _counts(
    fields: Sequence[Comparison], sieve: Sieve, n_records: int, source: str, batches: Iterable[Any]
) -> Iterator[Any]:
    total = counted(np.zeros(0))
    for batch in batches:
        _, columns, left, right = prepared_batch(fields, source, batch)
        total += histogram(
            Sifter.of(sieve, columns), left.astype(np.int32), right.astype(np.int32), n_records
        )
    bins = np.flatnonzero(total)
    yield batch_of(bin=bins.astype(np.int32), size=total[bins])


def _sifted(
    fields: Sequence[Comparison], sieve: Sieve, shift: float, source: str, batches: Iterable[Any]
) -> Iterator[Any]:
    for batch in batches:
        rows, columns, left, right = prepared_batch(fields, source, batch)
        sifter = Sifter.of(sieve, columns)
        pairs = sifted(sifter, left.astype(np.int32), right.astype(np.int32), shift).pairs(len(rows))
        yield batch_of(left=rows[pairs.left], right=rows[pairs.right], features=_listed(pairs.features))


def _listed(features: NDArray[np.float32]) -> Any:
    import pyarrow as pa

    offsets = np.arange(0, features.size + 1, features.shape[1], dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(features.ravel()))


def prepared_batch(
    fields: Sequence[Comparison], source: str, batch: Any
) -> tuple[Integers, list[Prepared], Integers, Integers]:
    """The distinct rows of a batch of pairs, their prepared columns, and the pairs as places among them."""
    ends = np.concatenate([integers(batch, "left"), integers(batch, "right")])
    rows, first, places = np.unique(ends, return_index=True, return_inverse=True)
    cells = {name: _cells(batch, column, first) for column, name in enumerate(_columns_of(fields))}
    records = Records(cells, source, rows + 1)
    columns = list(prepare_all(fields, records))
    return rows, columns, places[: batch.num_rows], places[batch.num_rows :]


def _cells(batch: Any, column: int, places: NDArray[np.int64]) -> Any:
    import pyarrow as pa

    both = pa.chunked_array([batch.column(f"left{column}"), batch.column(f"right{column}")])
    return both.take(pa.array(places)).to_numpy(zero_copy_only=False)


def _histogram(counts: Any) -> NDArray[np.int64]:
    """The pairs by log-odds: whole counts, which add up to the same whatever the partitions."""
    from pyspark.sql import functions as F

    total = counted(np.zeros(0))
    for place, size in counts.groupBy("bin").agg(F.sum("size")).collect():
        total[place] = size
    return total
