"""What workers of Spark do, tested without Spark: batches go in, batches come out."""

from __future__ import annotations

import subprocess
import sys
from itertools import combinations, pairwise

import numpy as np
import pyarrow as pa
import pytest

from scdp import compare
from scdp.blocking import connected_components
from scdp.compare.features import Comparer, Pairs
from scdp.engines import spark_tables, split_shards
from scdp.engines.spark import (
    CompareJob,
    check_fields,
    contracted,
    joined_batches,
    labelled_rows,
    large_star,
    linked_draws,
    prepare_batch,
    shard_of,
    small_star,
    starred,
)
from scdp.engines.spark_candidates import following, near_pairs, overlapping, token_weights
from scdp.engines.spark_tables import batch_of, group_starts, signed, sliced, sort_places, whole_groups
from scdp.errors import InputError, MissingExtraError
from scdp.linkage import Ensemble, Knots
from scdp.posterior.linked import LinkedDraws, join_linked
from scdp.table import records_from

SENT = pa.schema([("first", pa.int64()), ("row", pa.int64()), ("labels", pa.binary())])


def in_batches(rng: np.random.Generator, **columns: np.ndarray) -> list[pa.RecordBatch]:
    whole = batch_of(**columns)
    cuts = np.sort(rng.integers(0, whole.num_rows + 1, size=6)).tolist()
    edges = [0, *cuts, whole.num_rows]
    return [whole.slice(start, stop - start) for start, stop in pairwise(edges)]


@pytest.mark.parametrize("at_least", [0, 7, 1000])
@pytest.mark.parametrize("seed", range(20))
def test_whole_groups_are_whole_and_complete(seed: int, at_least: int):
    rng = np.random.default_rng(seed)
    rule, key = np.sort(rng.integers(0, 2, 40)), np.empty(40, dtype=np.int64)
    for value in (0, 1):
        key[rule == value] = np.sort(rng.integers(0, 6, (rule == value).sum()))
    tables = list(whole_groups(in_batches(rng, rule=rule, key=key, row=np.arange(40)), ("rule", "key"), at_least))
    assert np.concatenate([table["row"].to_numpy() for table in tables]).tolist() == list(range(40))
    seen = [set(zip(table["rule"].to_pylist(), table["key"].to_pylist(), strict=True)) for table in tables]
    assert sum(map(len, seen)) == len(set().union(*seen))
    assert all(table.num_rows >= at_least for table in tables[:-1])


def test_groups_of_nothing():
    assert list(whole_groups([batch_of(key=np.empty(0, dtype=np.int64))], ("key",))) == []
    assert group_starts([np.empty(0, dtype=np.int64)]).tolist() == []
    assert [part.num_rows for part in sliced(batch_of(row=np.arange(5)), 2)] == [2, 2, 1]


def test_signed_keys_keep_their_order():
    keys = np.array([0, 1, 2**63 - 1, 2**63, 2**64 - 1], dtype=np.uint64)
    assert np.all(np.diff(signed(keys).astype(object)) > 0)


def test_sort_places_sort_as_texts_and_numbers_do():
    texts = ["", "a", "a\0", "a\0b", "ab", "a b", "b", "é", "z", "\U0001f600", "\ufffd"]
    cases = [(one, two, row) for one in texts for two in texts for row in (0, 300)]
    numbers = np.array([row for *_, row in cases])
    places = sort_places([[one for one, *_ in cases], [two for _, two, _ in cases]], [numbers]).to_pylist()
    wanted = sorted(
        range(len(cases)), key=lambda i: (not cases[i][0], cases[i][0], not cases[i][1], cases[i][1], cases[i][2])
    )
    assert sorted(range(len(cases)), key=lambda i: places[i]) == wanted


def plain_near_pairs(runs: list[tuple[int, int, int]], windows: dict[int, int]) -> set[tuple[int, int, int]]:
    return {
        (first[0], min(first[2], second[2]), max(first[2], second[2]))
        for (i, first), (j, second) in combinations(enumerate(runs), 2)
        if first[:2] == second[:2] and j - i <= windows[first[0]]
    }


@pytest.mark.parametrize("seed", range(10))
def test_pairs_of_chains_cross_the_borders_of_partitions(seed: int):
    from scdp.engines.spark_candidates import _window_pairs

    rng = np.random.default_rng(seed)
    windows = {0: 2, 1: 4}
    runs = sorted((int(rng.integers(2)), int(rng.integers(3)), i) for i in rng.permutation(40).tolist())
    runs = [(rule, key, int(row)) for (rule, key, _), row in zip(runs, rng.permutation(40), strict=True)]
    # Partitions of few records: a window spans several of them.
    cuts = [0, *sorted(rng.integers(0, 41, size=12).tolist()), 40]
    parts = {number: runs[start:stop] for number, (start, stop) in enumerate(pairwise(cuts))}
    follow = following([(*run, part) for part, held in parts.items() for run in held[:4]], 4)
    found: list[tuple[int, int, int]] = []
    for part, held in parts.items():
        columns = np.array([(*run, part) for run in held], dtype=np.int64).reshape(-1, 4).T
        batches = in_batches(rng, **dict(zip(("rule", "key", "row", "part"), columns, strict=True)))
        for batch in _window_pairs(follow, windows, batches):
            found += zip(*(column.to_pylist() for column in batch.columns), strict=True)
    assert len(found) == len(set(found))
    assert set(found) == plain_near_pairs(runs, windows)


def test_near_pairs_of_one_run():
    run = [np.array(column, dtype=np.int64) for column in ([0, 0, 0, 0], [5, 5, 6, 6], [9, 3, 4, 1])]
    rules, left, right = near_pairs(*run, np.array([3]), 0, 4)
    assert list(zip(rules, left, right, strict=True)) == [(0, 3, 9), (0, 1, 4)]


@pytest.mark.parametrize("seed", range(5))
def test_overlapping_runs_of_tokens_against_sets(seed: int):
    rng = np.random.default_rng(seed)
    weights = token_weights(100, 20)
    sizes_of = rng.integers(2, 20, size=12)
    blocks = np.array([0, 4, 5, 11])
    runs = []
    for _ in range(11):
        held = rng.choice(12, size=rng.integers(1, 8), replace=False).tolist()
        runs.append(sorted(held, key=lambda token: (sizes_of[token], token)))
    tokens = np.array([token for run in runs for token in run], dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum([len(run) for run in runs])])
    rows = np.arange(100, 111)
    left, right = overlapping(blocks, rows, offsets, tokens, sizes_of[tokens].astype(np.int32), weights, 1.0)
    wanted = [
        (100 + i, 100 + j)
        for start, stop in pairwise(blocks)
        for i, j in combinations(range(start, stop), 2)
        if sum(weights[sizes_of[token]] for token in set(runs[i]) & set(runs[j])) >= 1.0
    ]
    assert wanted
    assert list(zip(left.tolist(), right.tolist(), strict=True)) == wanted


def test_contracted_edges_hang_every_row_at_the_smallest():
    one, other = contracted([(np.array([70, 5]), np.array([3, 70])), (np.array([8]), np.array([9]))])
    assert dict(zip(one.tolist(), other.tolist(), strict=True)) == {5: 3, 70: 3, 9: 8}


@pytest.mark.parametrize("seed", range(10))
def test_stars_end_in_components_whatever_the_batches(seed: int):
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, 30, size=(2, 25))
    edges = {(max(a, b), min(a, b)) for a, b in ends.T.tolist() if a != b}
    labels = connected_components(30, [tuple(ends)]).labels
    for _ in range(30):
        for star in (large_star, small_star):
            turned = {(b, a) for a, b in edges} if star is large_star else set()
            one, other = np.array(sorted(edges | turned)).T
            batches = starred(star, in_batches(rng, one=one, other=other))
            edges = {edge for batch in batches for edge in zip(*batch.to_pydict().values(), strict=True)}
    assert edges == {(row, int(label)) for row, label in enumerate(labels) if row != label}


def test_a_batch_is_prepared_as_its_cells_are():
    names = ("name", "town")
    cells = {"name": ["Anna Lee", None, "Ana Lee"], "town": ["Bath", "bath", "York"]}
    left, right = np.array([0, 0, 1]), np.array([1, 2, 2])
    columns = {
        f"{side}{i}": [cells[name][row] for row in rows]
        for side, rows in (("left", left), ("right", right))
        for i, name in enumerate(names)
    }
    fields = (compare.edit("name"), compare.exact("town"))
    batch = batch_of(left=left + 7, right=right + 7, **columns)
    comparer = Comparer.of(records_from(cells), fields)
    # Of more records than those of the batch: how rare a value is follows from all of them.
    more = Comparer.of(records_from({name: column * 2 + [column[0]] for name, column in cells.items()}), fields)
    nothing = Ensemble(Knots(np.zeros((0, 2)), np.zeros(0, dtype=np.int64)), (), (), None, 0.0, 1.0, 0)
    rows, prepared, one, other = prepare_batch(CompareJob(fields, more.count(), nothing, None), "records", batch)
    assert (rows.tolist(), one.tolist(), other.tolist()) == ([7, 8, 9], left.tolist(), right.tolist())
    found = prepared.compare(one, other, 1)
    np.testing.assert_array_equal(found, more.compare(left, right, 1))
    np.testing.assert_array_equal(found[:, :2], comparer.compare(left, right, 1)[:, :2])


def test_shards_are_as_on_one_machine():
    left, right = np.array([2, 5, 3, 4]), np.array([9, 9, 4, 6])
    features = np.arange(8, dtype=np.float32).reshape(4, 2)
    # The log-odds come last, and are not among the features that records are sampled by.
    sent = np.column_stack([features, np.zeros(4, dtype=np.float32)])
    listed = pa.ListArray.from_arrays(pa.array([0, 3, 6, 9, 12], pa.int32()), pa.array(sent.ravel()))
    component = np.array([2, 2, 3, 3])
    batch = batch_of(component=component, left=left, right=right, features=listed)
    (table,) = whole_groups([batch.slice(0, 1), batch.slice(1)], ("component",), 100)
    found = shard_of(table)
    order = np.lexsort((right, left))
    (wanted,) = split_shards(Pairs(10, left[order], right[order], features[order]), np.full(10, -1))
    for name in ("items", "left", "right", "features", "known"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))


@pytest.mark.parametrize("seed", range(3))
def test_draws_arrive_as_they_are_joined_on_one_machine(seed: int):
    rng = np.random.default_rng(seed)
    parts = []
    for part in range(4):
        items = np.sort(rng.choice(50, 30, replace=False)) * 4 + part
        home = rng.integers(0, 12, 30)
        draws = [np.unique(3 * home + rng.integers(0, 3, 30), return_inverse=True)[1] for _ in range(6)]
        firsts = [[int(np.flatnonzero(draw == label)[0]) for label in draw] for draw in draws]
        parts.append(LinkedDraws.of(np.array(firsts, dtype=np.int32), items))
    # Of a component of very many records labels are wider.
    parts.append(LinkedDraws.of(np.zeros((6, 66_000), dtype=np.int32), np.arange(300, 66_300)))
    for some in (parts[:4], parts, parts[4:], []):
        wanted = join_linked(some, 6)
        table = pa.Table.from_batches([labelled_rows(part) for part in some], SENT).combine_chunks()
        table = table.sort_by([("first", "ascending"), ("row", "ascending")])
        streamed = [row for batch in joined_batches(table.to_batches(100)) for row in batch.to_pylist()]
        found = linked_draws(streamed, 6)
        for one, other in zip(found, wanted, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one[:], other)


def test_comparisons_that_workers_cannot_make_are_refused():
    check_fields([compare.count_difference("venue")])
    own = compare.register("half_of_spark_test", lambda a, b: 0.5)
    with pytest.raises(InputError, match="is your own"):
        check_fields([own("venue")])


def test_a_missing_java_or_pyspark_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path):
    pytest.importorskip("pyspark")
    monkeypatch.setattr(spark_tables, "java_version", lambda: None)
    with pytest.raises(InputError, match="there is no Java; install 17 or later"):
        spark_tables.require_spark()
    monkeypatch.setattr(spark_tables, "java_version", lambda: 8)
    with pytest.raises(InputError, match="Java is version 8"):
        spark_tables.require_spark()
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(MissingExtraError, match=r"scdp\[spark\]"):
        spark_tables.require_spark()


@pytest.mark.parametrize(
    ("told", "version"),
    [('openjdk version "17.0.15" 2025-04-15', 17), ('java version "1.8.0_392"', 8), ("no such thing", None)],
)
def test_versions_of_java(told: str, version: int | None, tmp_path, monkeypatch: pytest.MonkeyPatch):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{told}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert spark_tables.java_version() == version


def test_no_java_at_all(tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert spark_tables.java_version() is None
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert spark_tables.java_version() is None


def test_the_package_and_its_help_do_without_pyspark():
    code = (
        "import sys, scdp, scdp.cli, scdp.engines.spark_tables\n"
        "assert not any(name.split('.')[0] in ('pyspark', 'py4j') for name in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
