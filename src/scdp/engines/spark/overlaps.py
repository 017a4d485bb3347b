"""Token overlap on Spark: (rule, key, row) entries go in; pairs whose shared tokens are rare enough come out.

As on one machine only the first tokens of a record, rarest first, are posted. Each posting carries the record's
tokens from there on, so that a pair is decided where it meets; met at its rarest shared token it has them all.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp.blocking.blocks import ends_of
from scdp.blocking.overlaps import ROUNDING, rarities, searched
from scdp.engines.spark.batches import batch_of, group_starts, integers, sliced, whole_groups
from scdp.engines.spark.chains import PAIRS
from scdp.engines.spark.session import mapped

Integers = NDArray[np.int64]
POSTINGS = "rule int, key long, row long, tokens array<long>, sizes array<int>"


def overlap_pairs(entries: Any, thresholds: Mapping[int, float], n_records: int, max_block: int) -> Any:
    """Pairs of entries of overlap rules, each rule with its least rarity; tokens above the bound are gone."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    by_token = Window.partitionBy("rule", "key")
    sized = entries.withColumn("size", F.count("*").over(by_token).cast("int")).where("size > 1")
    weights = token_weights(n_records, max_block)
    by_record = sized.repartition("rule", "row").sortWithinPartitions("rule", "row", "size", "key")
    postings = mapped(by_record, partial(_postings, dict(thresholds), weights), POSTINGS)
    meeting = postings.repartition("rule", "key").sortWithinPartitions("rule", "key", "row")
    return mapped(meeting, partial(_pairs, dict(thresholds), weights), PAIRS)


def token_weights(n_records: int, max_block: int) -> NDArray[np.float64]:
    """The rarity of a token by the number of records that have it."""
    sizes = np.arange(max_block + 1, dtype=np.float64)
    sizes[0] = 1.0
    return rarities(sizes, n_records)


def _postings(
    thresholds: Mapping[int, float], weights: NDArray[np.float64], batches: Iterable[Any]
) -> Iterator[Any]:
    for table in whole_groups(batches, ("rule", "row")):
        for part in _by_rule(table):
            yield from sliced(posted(part, weights, thresholds[part.column("rule")[0].as_py()]), 20_000)


def _by_rule(table: Any) -> Iterator[Any]:
    rules = integers(table, "rule")
    starts = [*group_starts([rules]).tolist(), len(rules)]
    for start, stop in itertools.pairwise(starts):
        yield table.slice(start, stop - start)


def posted(table: Any, weights: NDArray[np.float64], rarity: float) -> Any:
    """The postings of whole records of one rule, whose tokens come rarest first."""
    import pyarrow as pa

    rows, keys, sizes = (integers(table, name) for name in ("row", "key", "size"))
    offsets = np.append(group_starts([rows]), len(rows))
    counts = np.diff(offsets)
    n_searched = searched(offsets, np.arange(len(rows), dtype=np.int32), weights[sizes], rarity)
    places = np.arange(len(rows)) - np.repeat(offsets[:-1], counts)
    starts = np.flatnonzero(places < np.repeat(n_searched, counts))
    lengths = np.repeat(offsets[1:], counts)[starts] - starts
    ends = ends_of(lengths)
    rest = np.arange(ends[-1]) - np.repeat(ends[:-1] - starts, lengths)
    return batch_of(
        rule=integers(table, "rule")[starts].astype(np.int32),
        key=keys[starts],
        row=rows[starts],
        tokens=pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(keys[rest])),
        sizes=pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(sizes[rest].astype(np.int32))),
    )


def _pairs(
    thresholds: Mapping[int, float], weights: NDArray[np.float64], batches: Iterable[Any]
) -> Iterator[Any]:
    for table in whole_groups(batches, ("rule", "key")):
        for part in _by_rule(table):
            rule = part.column("rule")[0].as_py()
            left, right = _met(part, weights, thresholds[rule])
            yield from sliced(batch_of(rule=np.full(len(left), rule, dtype=np.int32), left=left, right=right))


def _met(part: Any, weights: NDArray[np.float64], rarity: float) -> tuple[Integers, Integers]:
    rows, keys = integers(part, "row"), integers(part, "key")
    tokens = part.column("tokens").combine_chunks()
    offsets = ends_of(tokens.value_lengths().to_numpy().astype(np.int64))
    return overlapping(
        np.append(group_starts([keys]), len(keys)),
        rows,
        offsets,
        tokens.flatten().to_numpy(),
        part.column("sizes").combine_chunks().flatten().to_numpy(),
        weights,
        rarity - ROUNDING,
    )


@kernel
def overlapping(
    blocks: Integers,
    rows: Integers,
    offsets: Integers,
    tokens: Integers,
    sizes: NDArray[np.int32],
    weights: NDArray[np.float64],
    enough: float,
) -> tuple[Integers, Integers]:
    """The pairs of postings in one block whose runs of tokens share enough weight."""
    room = 0
    for block in range(len(blocks) - 1):
        size = blocks[block + 1] - blocks[block]
        room += size * (size - 1) // 2
    left, right = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
    total = 0
    for block in range(len(blocks) - 1):
        for i in range(blocks[block], blocks[block + 1]):
            for j in range(i + 1, blocks[block + 1]):
                if run_weight(offsets, tokens, sizes, weights, i, j, enough) >= enough:
                    left[total], right[total] = rows[i], rows[j]
                    total += 1
    return left[:total].copy(), right[:total].copy()


@kernel
def run_weight(
    offsets: Integers,
    tokens: Integers,
    sizes: NDArray[np.int32],
    weights: NDArray[np.float64],
    i: int,
    j: int,
    enough: float,
) -> float:
    """The weight of the tokens that two runs, sorted by size and then by token, share; stops when enough."""
    a, end_a, b, end_b = offsets[i], offsets[i + 1], offsets[j], offsets[j + 1]
    total = 0.0
    while a < end_a and b < end_b and total < enough:
        if tokens[a] == tokens[b]:
            total += weights[sizes[a]]
            a += 1
            b += 1
        elif sizes[a] < sizes[b] or (sizes[a] == sizes[b] and tokens[a] < tokens[b]):
            a += 1
        else:
            b += 1
    return total
