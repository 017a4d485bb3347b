"""Records and their keys on Spark: a DataFrame or Records enter; row numbers and text cells leave, in batches.

Rows are numbered 0 to n - 1 by the order of the record ids, so that no result depends on the partitions.
Columns are named by their place, because Spark takes names that differ in case or hold dots for others.

Keys leave as (rule, key, row) entries, and texts by which records are sorted: made by the package's own KeyMaker batch
by batch, because a hash depends on the text alone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Integers
from scdp.blocking import Expression, text
from scdp.blocking.keys import KeyMaker, TextColumns
from scdp.blocking.rules import Equal, Identical, Neighbourhood, Overlap
from scdp.errors import InputError, MissingExtraError
from scdp.hashing import scatter_rows
from scdp.table import Records
from scdp.texts import hash_texts

OLDEST_JAVA = 17
_OWN_ERROR = re.compile(r"scdp\.\S*Error: (.+)")
# What a worker must find as the driver does: the package, and where compiled kernels are kept.
_PASSED_ON = ("PYTHONPATH", "SCDP_CACHE", "XDG_CACHE_HOME")


def spark_session(master: str | None = None, **settings: str) -> Any:
    """The active session, or a new one; without `master` Spark's own configuration decides where it runs."""
    require_spark()
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with _not_about_pandas():
        return _builder(SparkSession, master, settings).getOrCreate()


def _builder(session: Any, master: str | None, settings: Mapping[str, str]) -> Any:
    builder = session.builder.appName("scdp")
    if master is not None:
        builder = builder.master(master)
    for name in _PASSED_ON:
        if name in os.environ:
            builder = builder.config(f"spark.executorEnv.{name}", os.environ[name])
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder


def require_spark() -> None:
    """Refuse to go on without PySpark or a Java that it can use."""
    try:
        import pyspark  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("pyspark", "spark", "the engine spark") from error
    version = java_version()
    if version is None:
        raise InputError(
            f"the engine spark: there is no Java; install {OLDEST_JAVA} or later, or set JAVA_HOME to where it is"
        )
    if version < OLDEST_JAVA:
        raise InputError(f"the engine spark: Java is version {version}; install {OLDEST_JAVA} or later")


def java_version() -> int | None:
    """The major version of the Java that Spark would start, None if there is none."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None:
        return None
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', told)
    return int(found[1]) if found else None


@contextmanager
def worker_errors() -> Iterator[None]:
    """An error that scdp raised on purpose in a worker is raised here as the one sentence it was."""
    from pyspark.errors import PythonException

    try:
        yield
    except PythonException as error:
        found = _OWN_ERROR.findall(str(error))
        if not found:
            raise
        raise InputError(found[-1]) from error


def mapped(frame: Any, function: Callable[[Iterable[Any]], Iterator[Any]], schema: str) -> Any:
    """The frame that a function makes of the Arrow batches of each partition. Not computed yet."""
    with _not_about_pandas():
        return frame.mapInArrow(function, schema)


@contextmanager
def _not_about_pandas() -> Iterator[None]:
    # PySpark asks for pandas and warns of version 3, though only Arrow batches are exchanged here.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield


def saved(frame: Any) -> Any:
    """The frame computed once and cut off from its plan: plans of loops would grow without end.

    Rows stay where they were computed, or in the checkpoint folder, if there is one. Without a folder Spark remembers
    how they were made, and makes those of a lost executor again, however many are lost. Copies would not do: they are
    made only where another executor is there when rows are kept.
    """
    from pyspark import StorageLevel
    from pyspark.sql import DataFrame

    session = frame.sparkSession
    if session.sparkContext.getCheckpointDir():
        return frame.checkpoint()
    # Spark's own `persist` would keep the rows until it is told otherwise; these go when nobody asks for them any more.
    jvm, java = session.sparkContext._jvm, session._jsparkSession
    relations = getattr(jvm.org.apache.spark.sql.execution.columnar, "InMemoryRelation$")
    level = session.sparkContext._getJavaStorageLevel(StorageLevel.MEMORY_AND_DISK)
    kept = getattr(relations, "MODULE$").apply(level, frame._jdf.queryExecution(), jvm.scala.Option.empty())
    rows = jvm.org.apache.spark.sql.classic.Dataset.ofRows(java, kept).queryExecution().toRdd()
    rows.count()
    return DataFrame(java.internalCreateDataFrame(rows, frame._jdf.schema(), False), session)


def batch_of(**columns: Any) -> Any:
    """A record batch of arrays, of NumPy or Arrow."""
    import pyarrow as pa

    arrays = [column if isinstance(column, pa.Array) else pa.array(column) for column in columns.values()]
    return pa.RecordBatch.from_arrays(arrays, list(columns))


def lists_of(rows: NDArray[Any]) -> Any:
    """The rows of a table of numbers as an Arrow array of lists."""
    import pyarrow as pa

    ends = np.arange(0, rows.size + 1, rows.shape[1], dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(np.ascontiguousarray(rows).ravel()))


def bytes_of(rows: NDArray[Any]) -> Any:
    """The rows of a table of numbers as an Arrow array of bytes."""
    import pyarrow as pa

    ends = np.arange(len(rows) + 1, dtype=np.int32) * (rows.shape[1] * rows.dtype.itemsize)
    buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(np.ascontiguousarray(rows))]
    return pa.Array.from_buffers(pa.binary(), len(rows), buffers)


def integers(batch: Any, name: str) -> Integers:
    """A column of whole numbers without missing ones."""
    return np.asarray(batch.column(name).to_numpy(), dtype=np.int64)


def group_starts(columns: Sequence[NDArray[Any]]) -> Integers:
    """Where rows differ from the one before; the first always does."""
    if not len(columns[0]):
        return np.empty(0, dtype=np.int64)
    changed = np.ones(len(columns[0]), dtype=bool)
    changed[1:] = False
    for column in columns:
        changed[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changed)


def whole_groups(batches: Iterable[Any], by: Sequence[str], at_least: int = 0) -> Iterator[Any]:
    """Tables of whole groups, from batches sorted by whole numbers; `at_least` rows each but for the last."""
    waiting: list[Any] = []
    n_waiting = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        start = _last_border([waiting[-1].slice(waiting[-1].num_rows - 1), batch] if waiting else [batch], by)
        start -= bool(waiting)
        if (start > 0 or (start == 0 and waiting)) and n_waiting + start >= at_least:
            yield _table([*waiting, batch.slice(0, start)])
            waiting, n_waiting = [], 0
            batch = batch.slice(start)
        waiting.append(batch)
        n_waiting += batch.num_rows
    if waiting:
        yield _table(waiting)


def _last_border(batches: Sequence[Any], by: Sequence[str]) -> int:
    table = _table(batches)
    starts = group_starts([integers(table, name) for name in by])
    return int(starts[-1])


def _table(batches: Sequence[Any]) -> Any:
    import pyarrow as pa

    return pa.Table.from_batches([batch for batch in batches if batch.num_rows]).combine_chunks()


def sliced(batch: Any, rows: int = 1 << 20) -> Iterator[Any]:
    """The batch in parts: a batch that crosses to Spark must fit into its memory."""
    for first in range(0, batch.num_rows, rows):
        yield batch.slice(first, rows)


ROW = "row"


@dataclass(frozen=True, eq=False)
class SparkRecords:
    """`frame` has the column `row` and the text columns c0, c1, ... that stand for `names`; None is missing."""

    frame: Any
    names: tuple[str, ...]
    n_records: int
    source: str = "records"

    def require(self, *names: str) -> None:
        """Refuse records that lack one of the columns."""
        Records({name: np.empty(0, dtype=object) for name in self.names}, self.source).require(*names)

    def cells(self, names: Sequence[str]) -> Any:
        """The row numbers and the columns asked for."""
        self.require(*names)
        return self.frame.select(ROW, *(f"c{self.names.index(name)}" for name in names))


def records_to_spark(spark: Any, records: Records, n_partitions: int | None = None) -> SparkRecords:
    """Records in memory, numbered in their order."""
    import pyarrow as pa

    columns = {f"c{i}": pa.array(column, pa.string()) for i, column in enumerate(records.columns.values())}
    table = pa.table({ROW: np.arange(len(records), dtype=np.int64), **columns})
    frame = spark.createDataFrame(table)
    if n_partitions is not None:
        frame = frame.repartition(n_partitions)
    return SparkRecords(frame, records.names, len(records), records.source)


def in_order(frame: Any, *columns: str) -> Any:
    """The frame sorted over all partitions, with the number of each row's partition in `part`.

    It is to be kept while it is used, so that every use sees the same borders between partitions. What a worker
    is told of its partition's number would not do: in a union of frames it is another.
    """
    from pyspark.sql import functions as F

    return frame.orderBy(*columns).withColumn("part", F.spark_partition_id())


def batch_records(batch: Any, names: Sequence[str], source: str) -> Records:
    """The cells of a batch, whose columns after the first stand for `names`, as Records."""
    cells = (batch.column(i + 1).to_numpy(zero_copy_only=False) for i in range(len(names)))
    return Records(dict(zip(names, cells, strict=True)), source, integers(batch, ROW) + 1)


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
