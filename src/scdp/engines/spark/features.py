"""Features on Spark: candidate pairs go in; they, or those that pass the prefilter, come out compared as on
one machine.

Pairs are joined with the cells of both records, and everything else happens in the worker that has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Integers
from scdp.compare import Comparison
from scdp.compare.features import Comparer, ValueCounts
from scdp.compare.kinds import BUILT_IN
from scdp.engines.spark.session import mapped
from scdp.engines.spark.tables import SparkRecords, batch_of, integers
from scdp.errors import InputError
from scdp.linkage.candidates import link_pairs
from scdp.linkage.ensemble import Ensemble
from scdp.linkage.prefilter import Prefilter, PrefilterRun
from scdp.table.records import Records


class CompareJob(NamedTuple):
    """What every worker needs: comparisons, how often values occur among all records, and the settled ensemble."""

    fields: tuple[Comparison, ...]
    counts: ValueCounts
    ensemble: Ensemble
    prefilter: Prefilter | None


COMPARED = "left long, right long, features array<float>"


def compare_pairs(records: SparkRecords, pairs: Any, job: CompareJob) -> Any:
    """(left, right, features) of the pairs (left, right) that may be matches. Not computed yet.

    The last entry of the features is the log-odds by the evidence of the table alone.
    """
    check_fields(job.fields)
    return mapped(
        _with_cells(records, pairs, _columns_of(job.fields)), partial(_compare, job, records.source), COMPARED
    )


def check_fields(fields: Sequence[Comparison]) -> None:
    """Refuse comparisons of how common values are, and those that workers do not know."""
    for comparison in fields:
        if comparison.kind not in BUILT_IN:
            raise InputError(
                f"comparison {comparison.name!r} is your own and workers of Spark do not know it; "
                "use --engine local or one that is built in"
            )
        if comparison.kind_details.value == "share":
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


def _compare(job: CompareJob, source: str, batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        rows, comparer, left, right = prepare_batch(job, source, batch)
        run = None if job.prefilter is None else PrefilterRun.of(job.prefilter, comparer)
        found = link_pairs(job.ensemble, comparer, run, left.astype(np.int32), right.astype(np.int32))
        features = np.column_stack([found.features, found.log_odds.astype(np.float32)])
        yield batch_of(left=rows[found.left], right=rows[found.right], features=_listed(features))


def _listed(features: NDArray[np.float32]) -> Any:
    import pyarrow as pa

    offsets = np.arange(0, features.size + 1, features.shape[1], dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(features.ravel()))


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
