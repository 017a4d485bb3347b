"""Keys on Spark: records go in; (rule, key, row) entries come out, and texts by which records are sorted.

Keys are made by the package's own KeyMaker batch by batch: a hash depends on the text alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp._typing import Integers
from scdp.blocking.expressions import Expression, text
from scdp.blocking.keys import KeyMaker, TextColumns
from scdp.blocking.rules import Equal, Identical, Neighbourhood, Overlap
from scdp.engines.spark_tables import ROW, SparkRecords, batch_of, batch_records, in_order, integers, mapped, sliced
from scdp.hashing import scatter_rows
from scdp.texts import hash_texts

NumberedRule = tuple[int, Equal | Identical | Overlap]
ENTRIES = "rule int, key long, row long"
CHAINED = "rule int, key long, place binary, row long"

_MIDDLE = np.uint64(1 << 63)
_NO_TEXT = b"\xff"  # No text holds this byte in UTF-8, so what is missing comes last.


def key_entries(records: SparkRecords, rules: Sequence[NumberedRule]) -> Any:
    """Every key of every record by the rules that put records into blocks."""
    names = tuple(dict.fromkeys(column for _, rule in rules for column in rule.columns))
    make = partial(_entries, tuple(rules), names, records.source)
    return mapped(records.cells(names), make, ENTRIES)


def _entries(rules: Sequence[NumberedRule], names: Sequence[str], source: str, batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        maker, rows = KeyMaker(TextColumns(batch_records(batch, names, source))), integers(batch, ROW)
        for number, rule in rules:
            places, keys = maker.rule_keys(rule).entries()
            yield batch_of(rule=_constant(number, len(keys)), key=signed(keys), row=rows[places])


def signed(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Keys as Spark's whole numbers, in the same order."""
    return (keys ^ _MIDDLE).view(np.int64)


def _constant(number: int, times: int) -> NDArray[np.int32]:
    return np.full(times, number, dtype=np.int32)


def sorted_entries(records: SparkRecords, rules: Sequence[tuple[int, Neighbourhood]]) -> Any:
    """The records that have a rule's first key, with the place at which they sort; ties are scattered."""
    names = tuple(dict.fromkeys(column for _, rule in rules for column in rule.columns))
    make = partial(_sorted_entries, tuple(rules), names, records.source)
    return mapped(records.cells(names), make, CHAINED)


def _sorted_entries(
    rules: Sequence[tuple[int, Neighbourhood]], names: Sequence[str], source: str, batches: Iterable[Any]
) -> Iterator[Any]:
    for batch in batches:
        columns, rows = TextColumns(batch_records(batch, names, source)), integers(batch, ROW)
        for number, rule in rules:
            values = [values_of(columns, key) for key in rule.keys]
            here = np.flatnonzero([bool(value) for value in values[0]])
            numbers: NDArray[Any] = rows[here]
            yield batch_of(
                rule=_constant(number, len(here)),
                key=np.zeros(len(here), dtype=np.int64),
                place=sort_places(
                    [[value[row] for row in here.tolist()] for value in values], [scatter_rows(numbers), numbers]
                ),
                row=numbers,
            )


def sort_texts(records: SparkRecords, columns: Sequence[str]) -> Any:
    """The place at which each record sorts by these columns, the first counting most; equal ones by row."""
    make = partial(_sort_texts, tuple(columns), records.source)
    return mapped(records.cells(columns), make, "row long, place binary")


def _sort_texts(names: Sequence[str], source: str, batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        columns, rows = TextColumns(batch_records(batch, names, source)), integers(batch, ROW)
        values = [values_of(columns, text(name)) for name in names]
        yield batch_of(row=rows, place=sort_places(values, [rows]))


def values_of(columns: TextColumns, expression: Expression) -> list[str]:
    """Each record's value of an expression of one key a record; "" where there is none."""
    codes, texts = columns.encode(expression.columns)
    values = [*expression.value_of_each(texts), ""]
    return [values[code] for code in codes.tolist()]


def sort_places(values: Sequence[Sequence[str]], numbers: Sequence[NDArray[np.int64]]) -> Any:
    """Bytes that sort as the texts do, one after the other and those missing last, and then the numbers."""
    import pyarrow as pa

    tails = [b"".join(part) for part in zip(*map(_number_bytes, numbers), strict=True)]
    heads = zip(*values, strict=True)
    places = [b"".join([*map(_text_bytes, texts), tail]) for texts, tail in zip(heads, tails, strict=True)]
    return pa.array(places, pa.binary())


def _number_bytes(numbers: NDArray[np.int64]) -> list[bytes]:
    content = numbers.astype(">i8").tobytes()
    return [content[start : start + 8] for start in range(0, len(content), 8)]


def _text_bytes(value: str) -> bytes:
    # The zero byte ends a text so that a shorter one comes first; one inside is marked as not the end.
    return value.encode().replace(b"\0", b"\0\1") + b"\0\0" if value else _NO_TEXT


def varied_columns(records: SparkRecords, columns: Sequence[str]) -> tuple[str, ...]:
    """The columns by how many distinct cleaned texts they have, most first; of equal ones the later first."""
    from pyspark.sql import functions as F

    make = partial(_distinct_texts, tuple(columns), records.source)
    found = mapped(records.cells(columns), make, "column int, text long")
    counts = dict(found.groupBy("column").agg(F.countDistinct("text")).collect())
    order = sorted(range(len(columns)), key=lambda column: counts.get(column, 0))
    return tuple(columns[column] for column in reversed(order))


def _distinct_texts(names: Sequence[str], source: str, batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        columns = TextColumns(batch_records(batch, names, source))
        for number, name in enumerate(names):
            hashes = hash_texts(columns.encode((name,))[1])
            yield batch_of(column=_constant(number, len(hashes)), text=signed(hashes))


HEADS = "rule int, key long, row long, part int"
PAIRS = "rule int, left long, right long"


class Run(NamedTuple):
    """Records in sorted order; only those with the same rule and key are neighbours."""

    rules: Integers
    keys: Integers
    rows: Integers

    def joined(self, other: Run) -> Run:
        return Run(*(np.concatenate(parts) for parts in zip(self, other, strict=True)))

    def last(self, n: int) -> Run:
        return Run(*(part[max(len(part) - n, 0) :] for part in self))

    def first(self, n: int) -> Run:
        return Run(*(part[:n] for part in self))


def empty_run() -> Run:
    return Run(*(np.empty(0, dtype=np.int64) for _ in Run._fields))


def chain_pairs(chained: Any, windows: Mapping[int, int]) -> tuple[Any, Any]:
    """Pairs of (rule, key, place, row) at most the rule's window apart by place; and the frame to unpersist."""
    ordered = in_order(chained, "rule", "key", "place").drop("place").persist()
    widest = max(windows.values())
    heads = mapped(ordered, partial(_heads, widest), HEADS).collect()
    follow = following(heads, widest)
    return mapped(ordered, partial(_pairs, follow, dict(windows)), PAIRS), ordered


def _heads(n: int, batches: Iterable[Any]) -> Iterator[Any]:
    """The first n records of the partition."""
    for batch in batches:
        yield batch.slice(0, n)
        n -= min(n, batch.num_rows)
        if not n:
            return


def following(heads: Sequence[Sequence[int]], n: int) -> dict[int, Run]:
    """The n records after the end of each partition, from the first n (or fewer) of every partition."""
    by_part: dict[int, list[Sequence[int]]] = {}
    for *record, part in heads:
        by_part.setdefault(part, []).append(record)
    follow: dict[int, Run] = {}
    after: list[Sequence[int]] = []
    for part in sorted(by_part, reverse=True):
        follow[part] = Run(*np.array(after, dtype=np.int64).reshape(-1, 3).T)
        after = [*by_part[part], *after][:n]
    return follow


def _pairs(follow: Mapping[int, Run], windows: Mapping[int, int], batches: Iterable[Any]) -> Iterator[Any]:
    window_of = np.zeros(max(windows) + 1, dtype=np.int64)
    for rule, window in windows.items():
        window_of[rule] = window
    widest = max(windows.values())
    before, part = empty_run(), 0
    for batch in batches:
        if not batch.num_rows:
            continue
        part = batch.column("part")[0].as_py()
        run = before.joined(Run(*(integers(batch, name) for name in ("rule", "key", "row"))))
        yield from _pair_batches(run, window_of, len(before.rows), len(run.rows))
        before = run.last(widest)
    if len(before.rows):
        run = before.joined(follow[part])
        yield from _pair_batches(run, window_of, len(before.rows), len(before.rows))


def _pair_batches(run: Run, window_of: Integers, first: int, stop: int) -> Iterator[Any]:
    rules, left, right = near_pairs(*run, window_of, first, stop)
    yield from sliced(batch_of(rule=rules.astype(np.int32), left=left, right=right))


@kernel
def near_pairs(
    rules: Integers, keys: Integers, rows: Integers, window_of: Integers, first: int, stop: int
) -> tuple[Integers, Integers, Integers]:
    """Pairs within the window whose later place is `first` or more and whose earlier one is below `stop`."""
    room = 0
    for place in range(first, len(rows)):
        room += min(window_of[rules[place]], place)
    found = np.empty((3, room), dtype=np.int64)
    total = 0
    for later in range(first, len(rows)):
        for place in range(max(0, later - window_of[rules[later]]), min(later, stop)):
            if rules[place] == rules[later] and keys[place] == keys[later]:
                found[0, total] = rules[later]
                found[1, total] = min(rows[place], rows[later])
                found[2, total] = max(rows[place], rows[later])
                total += 1
    return found[0, :total].copy(), found[1, :total].copy(), found[2, :total].copy()
