"""On Spark the pairs, components, distances and draws are those of one machine.

All is one test: a session takes long to start, and every process of a test run would start its own.
"""

from __future__ import annotations

import os
import re
import signal
from contextlib import suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from digests.adapter import run_on_spark
from digests.cases import many_people
from digests.record import digest, read_digests
from scdp import EntityResolver, compare
from scdp.blocking import (
    Blocking,
    candidate_pairs,
    connected_components,
    equal,
    identical,
    neighbourhood,
    overlap,
    prefix,
    qgrams,
    soundex,
    tokens,
    year,
)
from scdp.compare import Comparison
from scdp.compare.features import Comparer
from scdp.datasets import make_records
from scdp.engines import InThreads, LocalEngine, SparkEngine
from scdp.engines.candidates import Blocked, compare_candidates, index_records, settle
from scdp.engines.spark_tables import saved
from scdp.errors import InputError
from scdp.estimators.clustering import cluster_records
from scdp.estimators.inputs import Compared
from scdp.linkage.training import Choices
from scdp.resolver_fit import ResolverFit
from scdp.table import Records, records_from
from scdp.table.decisions import Decision
from scdp.table.spec import Spec

BLOCKINGS = {
    "blocks within and above the bound": Blocking(
        (equal(prefix("surname", 1)), equal(tokens("first_name", "surname")), identical("surname", "city")),
        max_block=20,
        window=4,
    ),
    "neighbourhoods": Blocking(
        (neighbourhood("surname", "first_name", window=5), neighbourhood(year("birth_date"), soundex("surname")))
    ),
    "overlaps": Blocking(
        (overlap(tokens("first_name", "surname"), rarity=0.9), overlap(qgrams("surname", 3), rarity=1.2)), max_block=200
    ),
    "links": Blocking(
        (equal("surname"), neighbourhood("birth_date")),
        # Blocks of 60 equal first names: their records have more links than lead anywhere.
        links=(equal("first_name", "surname"), equal("first_name")),
        max_block=100,
    ),
}
LARGE = Blocking(
    (
        equal("surname", prefix("first_name", 1)),
        equal("birth_date"),
        equal("postcode", prefix("surname", 1)),
        overlap(tokens("street", "city"), rarity=1.1),
        neighbourhood("phone", window=3),
    )
)
FIELDS = (
    compare.edit("surname"),
    compare.jaro_winkler(["first_name", "surname"]),
    compare.absolute("birth_date", of="year", scale=10.0),
    compare.token_set("street"),
    compare.edit("postcode"),
)
SPEC = Spec("entity", FIELDS)


def test_spark_gives_what_one_machine_gives(spark_or_skip: Any, subtests: pytest.Subtests):
    people = make_records(2_000, kind="people").data
    for name, blocking in BLOCKINGS.items():
        with subtests.test(name):
            check_pairs(spark_or_skip, people, blocking)
    for check in (
        check_components,
        check_errors,
        check_20_000_records,
        check_prefiltered_and_broken_up,
        check_counts_and_times,
        check_clusters_of_20_000_records,
        check_digest,
        check_a_lost_executor,
        check_rows_of_lost_executors,
    ):
        with subtests.test(check.__name__):
            check(spark_or_skip)


def check_pairs(spark: Any, records: Records, blocking: Blocking, n_partitions: int = 3) -> tuple[Any, Any]:
    from scdp.engines.spark_candidates import candidate_pairs as pairs_on_spark
    from scdp.engines.spark_tables import records_to_spark

    table = records_to_spark(spark, records, n_partitions)
    wanted, found = candidate_pairs(records, blocking), pairs_on_spark(table, blocking)
    assert found.oversized == wanted.oversized
    pairs = sorted_columns(found.frame, "left", "right")
    np.testing.assert_array_equal(pairs, [wanted.left, wanted.right])
    return table, found.frame


def check_components(spark: Any) -> None:
    rng = np.random.default_rng(5)
    path = rng.permutation(2_000)
    n_records, sparse = 4_500, rng.integers(2_000, 4_000, size=(2, 1_100))
    # A long path in a random order is the worst case; the last 500 records have no edge.
    left, right = np.concatenate([path[:-1], sparse[0]]), np.concatenate([path[1:], sparse[1]])
    edges = spark.createDataFrame(pa.table({"left": left, "right": right})).repartition(5)
    check_labels(spark, n_records, edges, left, right)


def check_labels(spark: Any, n_records: int, edges: Any, left: Any, right: Any) -> None:
    from scdp.engines.spark import components

    found = components(spark.range(n_records).toDF("row"), edges)
    wanted = connected_components(n_records, [(left, right)])
    np.testing.assert_array_equal(sorted_columns(found, "row", "component"), [np.arange(n_records), wanted.labels])


def check_errors(spark: Any) -> None:
    from scdp.engines.spark import CompareJob, compare_pairs
    from scdp.engines.spark_tables import records_to_spark, worker_errors

    def frame(**columns: Any) -> Any:
        return spark.createDataFrame(pa.table(columns))

    long = records_to_spark(spark, records_from({"name": ["a" * 30_000, "b"]}))
    few = Comparer.of(records_from({"name": ["a", "b"]}), [compare.edit("name")])
    job = CompareJob(few.columns.fields, few.count(), taught_by(600).ensemble, None)
    compared = compare_pairs(long, frame(left=[0], right=[1]), job)
    with pytest.raises(InputError, match=r"^records, row 1, column 'name': 30,000 characters"), worker_errors():
        compared.collect()


def check_20_000_records(spark: Any) -> None:
    people = make_records(20_000, kind="people").data
    check_pairs(spark, people, LARGE, n_partitions=5)
    few = people.take(np.arange(1_000))
    blocked = blocked_by(taught_by(600), few)
    assert check_compared(spark, blocked) > 1_000
    check_draws(spark, blocked)


def check_prefiltered_and_broken_up(spark: Any) -> None:
    """As with millions of records: candidates pass a prefilter, and large components lose pairs."""
    people = make_records(4_000, kind="people").data
    blocked = blocked_by(taught_by(600), people)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scdp.engines.candidates.MOST_CANDIDATES", 1_000)
        patch.setattr("scdp.engines.candidates.SETTLED_BY", 1_000)
        assert check_compared(spark, blocked) > 500
        whole = compare_candidates(blocked, workers=1).pairs
        sizes = connected_components(len(people), [(whole.left, whole.right)]).sizes
        most = int(sizes.max()) - 1
        patch.setattr("scdp.engines.candidates.MOST_CONNECTED", most)
        patch.setattr("scdp.engines.spark.MOST_CONNECTED", most)
        assert len(compare_candidates(blocked, workers=1).pairs) < len(whole)
        check_draws(spark, blocked)


def check_counts_and_times(spark: Any) -> None:
    """What is counted over all records, fades with time or is read by a library is the same on workers."""
    fields = (
        compare.person_name(["first_name", "surname"], clean=["latin"], nicknames=[("mary", "molly")]),
        compare.count_difference("surname"),
        compare.tfidf("street", time="seen"),
        compare.phone("phone", region="GB"),
        compare.edit("postcode"),
    )
    people = with_times(make_records(2_000, kind="people").data)
    blocked = blocked_by(taught_by(600, fields), people, fields)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scdp.engines.candidates.MOST_CANDIDATES", 1_000)
        patch.setattr("scdp.engines.candidates.SETTLED_BY", 1_000)
        assert check_compared(spark, blocked) > 500
        check_draws(spark, blocked)


def with_times(records: Records) -> Records:
    """Records with a column of years, and some without one."""
    years = np.random.default_rng(0).integers(1990, 2020, len(records))
    cells = np.array([None if year < 1995 else str(year) for year in years], dtype=object)
    return Records({**records.columns, "seen": cells}, records.source)


@cache
def taught_by(n: int, fields: tuple[Comparison, ...] = FIELDS) -> ResolverFit:
    """A model of so many people, without trees; it is not changed by who uses it."""
    made = make_records(n, kind="people", seed=1)
    rows = Compared(with_times(made.data), Spec("entity", fields), np.ones(len(fields)), blocked=True)
    clusters = np.unique(made.clusters, return_inverse=True)[1]
    names = tuple(field.name for field in fields)
    return ResolverFit.train(rows, clusters, None, names, Choices(boosted=False, n_members=2), seed=0)


def blocked_by(fitted: ResolverFit, records: Records, fields: tuple[Comparison, ...] = FIELDS) -> Blocked:
    chosen = fitted.ladder.choose(records, Spec("entity", fields))._replace(recall=1.0)
    return Blocked(records, fields, fitted.ensemble, lambda: chosen)


def check_compared(spark: Any, blocked: Blocked) -> int:
    """The pairs that are kept and their features are those of one machine; returns how many there are."""
    from scdp.engines.spark import CompareJob, compare_pairs
    from scdp.engines.spark_candidates import candidate_pairs as pairs_on_spark
    from scdp.engines.spark_tables import records_to_spark

    wanted = compare_candidates(blocked, workers=1).pairs
    comparer = Comparer.of(blocked.records, blocked.fields)
    settled = settle(blocked, index_records(blocked))
    assert (settled.prefilter is None) == (len(blocked.records) <= 1_000)
    table = records_to_spark(spark, blocked.records, 3)
    job = CompareJob(tuple(blocked.fields), comparer.count(), settled.ensemble, settled.prefilter)
    found = compare_pairs(table, pairs_on_spark(table, blocked.blocking).frame, job)
    told = found.orderBy("left", "right").toArrow()
    np.testing.assert_array_equal([told["left"], told["right"]], [wanted.left, wanted.right])
    # The log-odds come last.
    features = told["features"].combine_chunks().flatten().to_numpy().reshape(len(wanted), -1)[:, :-1]
    # As bits: not even the last digit may differ, and NaN is equal to NaN.
    np.testing.assert_array_equal(np.ascontiguousarray(features).view(np.int32), wanted.features.view(np.int32))
    return len(wanted)


def check_draws(spark: Any, blocked: Blocked) -> None:
    nobody = np.full(len(blocked.records), -1)
    found = SparkEngine(spark).sample_blocked(blocked, nobody, 8, seed=11)
    wanted = InThreads(1).sample_blocked(blocked, nobody, 8, seed=11)
    assert 0.5 < len(np.unique(next(wanted.draws.rows(len(nobody))))) / len(nobody) < 1
    for one, other in zip(found.draws, wanted.draws, strict=True):
        np.testing.assert_array_equal(one[:], other)
    assert found.report == wanted.report


def check_clusters_of_20_000_records(spark: Any) -> None:
    """One worker, two workers and Spark: the same clusters, probabilities and uncertain pairs, decisions kept."""
    with pytest.MonkeyPatch.context() as patch:
        # So that these records are too many for all their pairs, as millions would be.
        patch.setattr("scdp.resolver_fit.MOST_PAIRS", 10_000)
        patch.setattr("scdp.engines.candidates.MOST_CANDIDATES", 10_000)
        # A sample settles the match rate, as of millions.
        patch.setattr("scdp.engines.candidates.SETTLED_BY", 5_000)
        model, new = people_model(), people_table(20_000)
        said = people_decisions(20_000)
        one, two, on_spark = (
            cluster_records(model.set_params(engine=engine), new, decisions=said)
            for engine in (LocalEngine(1, fewest=0), LocalEngine(2, fewest=0), SparkEngine(spark))
        )
    assert 15_000 < one.n_clusters < 18_000
    for other in (two, on_spark):
        np.testing.assert_array_equal(one.labels, other.labels)
        np.testing.assert_array_equal(one.probabilities, other.probabilities)
        assert one.uncertain == other.uncertain
    home = dict(zip(one.ids.tolist(), one.labels.tolist(), strict=True))
    for line in said:
        n_homes = len({home[record] for record in line.ids})
        assert n_homes == (1 if line.decision == "same" else len(line.ids))


def check_digest(spark: Any) -> None:
    assert digest(run_on_spark(*many_people(), spark)) == read_digests()["resolver"]["records candidates"]


def check_a_lost_executor(spark: Any) -> None:
    """One of two executors is killed when the pairs have been compared: the clusters are those of one machine."""
    from scdp.engines import spark as module

    killed: list[int] = []

    def after_a_loss(rows: Any, pairs: Any) -> Any:
        killed.append(kill_an_executor(spark))
        return break_up(rows, pairs)

    break_up = module.break_up
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scdp.resolver_fit.MOST_PAIRS", 10_000)
        patch.setattr(module, "break_up", after_a_loss)
        model, new = people_model(), people_table(4_000)
        ids = new["id"].tolist()
        # With given clusters, which go to the new executor too.
        known = {ids[0]: "first", ids[1]: "first", ids[2]: "second"}
        one, on_spark = (
            cluster_records(model.set_params(engine=engine), new, known)
            for engine in (LocalEngine(1), SparkEngine(spark))
        )
    np.testing.assert_array_equal(one.labels, on_spark.labels)
    np.testing.assert_array_equal(one.probabilities, on_spark.probabilities)
    assert len(killed) == 1
    assert spark.sparkContext.getCheckpointDir() is None


def check_rows_of_lost_executors(spark: Any) -> None:
    """Rows that were kept are there after every executor that had computed them is gone, in loops too."""
    from pyspark.sql import functions as F

    kept = spark.range(1_000).withColumn("one", F.col("id") % 7)
    for _ in range(3):
        kept = saved(kept.unionByName(kept).distinct())
    for executor in executors_of(spark):
        os.kill(executor, signal.SIGKILL)
    assert sorted(map(tuple, kept.collect())) == [(number, number % 7) for number in range(1_000)]


def kill_an_executor(spark: Any) -> int:
    """The process of one executor of this session, which is gone."""
    executor = executors_of(spark)[0]
    os.kill(executor, signal.SIGKILL)
    return executor


def executors_of(spark: Any) -> list[int]:
    """The processes of the executors of this session."""
    port = spark.sparkContext.getConf().get("spark.driver.port")
    driver = re.compile(rb"CoarseGrainedScheduler@[^\0]*:%s\0" % port.encode())
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            command = (folder / "cmdline").read_bytes()
            if b"CoarseGrainedExecutorBackend" in command and driver.search(command):
                found.append(int(folder.name))
    assert found, "there is no executor"
    return found


@cache
def people_model() -> EntityResolver:
    made = make_records(600, kind="people", seed=1)
    table = {"id": made.ids.astype(str), "entity": made.clusters, **made.data.columns}
    clusters = np.unique(made.clusters, return_inverse=True)[1]
    spec = Spec("entity", FIELDS, id="id")
    return EntityResolver(spec=spec, boosted=False, n_draws=24, random_state=0).fit(table, clusters)


def people_table(n: int) -> dict[str, Any]:
    made = make_records(n, kind="people")
    return {"id": made.ids.astype(str), **made.data.columns}


def people_decisions(n: int) -> list[Decision]:
    """What somebody knows of the people of the table: some true, and some that no evidence would say."""
    made = make_records(n, kind="people")
    ids = made.ids.astype(str).tolist()
    codes = np.unique(made.clusters, return_inverse=True)[1]
    order = np.argsort(codes, kind="stable")
    clusters = [rows.tolist() for rows in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)]
    several = [rows for rows in clusters if len(rows) > 1]
    found = [Decision(tuple(ids[row] for row in rows), "same") for rows in several[:200]]
    found += [Decision(tuple(ids[row] for row in rows), "different") for rows in several[200:400]]
    found += [Decision((ids[one[0]], ids[other[0]]), "same") for one, other in pairwise(several[400:440])]
    return found


def sorted_columns(frame: Any, *columns: str) -> list[np.ndarray]:
    """The columns of a frame, sorted by the first and then the second."""
    table = frame.toArrow()
    arrays = [table[name].to_numpy() for name in columns]
    order = np.lexsort(arrays[::-1])
    return [array[order] for array in arrays]
