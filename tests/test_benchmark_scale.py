"""The benchmark at scale, tiny and without Splink: what it measures, what it scores, and what it calls met."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pytest

from scdp import metrics
from scdp.datasets.entities import PEOPLE_FIELDS
from scdp.errors import InputError

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks import scale
from benchmarks.process_tree import Run, watched
from benchmarks.scale_table import Row, bars, exponent, page

MEGABYTE = 10**6
# A process that holds 80 MB starts one that holds 120 MB.
TWO_PROCESSES = """
import subprocess, sys, time
held = b"x" * 80_000_000
subprocess.run([sys.executable, "-c", "import time; held = b'x' * 120_000_000; time.sleep(1.0)"])
"""


@pytest.fixture
def files(tmp_path):
    return scale.make_files(tmp_path / "made", 400, seed=3)


def column(source, name):
    place = f"'{source}'" if isinstance(source, Path) else source
    return [row[0] for row in duckdb.connect().execute(f"select {name} from {place}").fetchall()]


def write(path, **columns):
    scale.write_parquet(path, {name: np.array(cells, dtype=object) for name, cells in columns.items()})
    return path


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_the_memory_of_a_process_and_its_child_is_counted_together_and_that_of_the_caller_is_not(tmp_path):
    held = b"x" * (300 * MEGABYTE)
    run = watched([sys.executable, "-c", TWO_PROCESSES], tmp_path / "log", tmp_path)
    assert len(held) > run.peak_bytes
    assert run.exit_code == 0
    assert run.peak_bytes > 200 * MEGABYTE
    assert run.seconds >= 1.0
    assert run.seconds > run.cpu_seconds > 0


def test_a_command_that_fails_leaves_its_exit_code_and_its_last_words(tmp_path):
    script = "import sys; print('first', flush=True); sys.exit('the last words')"
    run = watched([sys.executable, "-c", script], tmp_path / "log", tmp_path)
    assert run.exit_code == 1
    row = scale.ran(Row("scdp", 10, 8), run, tmp_path / "log")
    assert row.failure == "the last words"


def test_systems_see_no_entity_and_learn_from_other_people(files):
    assert column(f"(describe select * from '{files.people}')", "column_name") == ["id", *PEOPLE_FIELDS]
    assert column(files.people, "id") == column(files.truth, "id") == [f"r{row}" for row in range(400)]
    assert len(set(column(files.train, "entity"))) == scale.TRAIN_ENTITIES
    sure = "first_name || surname || birth_date || phone"
    assert not set(column(files.people, sure)) & set(column(files.train, sure)) - {None}


def test_every_record_of_a_training_entity_is_there():
    made = scale.make_records(scale.TRAIN_RECORDS, "people", seed=5)
    part = scale.training_part(5)
    sizes = {entity: int((made.clusters == entity).sum()) for entity in set(part.clusters.tolist())}
    assert len(part) == sum(sizes.values()) < len(made)


def test_scores_are_those_of_metrics_whatever_the_order_of_ids(files, tmp_path):
    gold = dict(zip(column(files.truth, "id"), column(files.truth, "entity"), strict=True))
    rng = np.random.default_rng(0)
    ids = rng.permutation(list(gold)).tolist()
    said = [gold[key] if rng.random() < 0.8 else f"c{rng.integers(50)}" for key in ids]
    row = scale.scored(Row("scdp", 400, 1), write(tmp_path / "said.parquet", id=ids, cluster=said), files.truth)
    truth = [gold[key] for key in ids]
    assert row.failure is None
    assert row.clusters == len(set(said))
    assert row.precision == pytest.approx(metrics.precision(truth, said))
    assert row.recall == pytest.approx(metrics.recall(truth, said))
    assert row.f_score == pytest.approx(metrics.f_score(truth, said))


@pytest.mark.parametrize("change", [lambda ids: ids[1:], lambda ids: [*ids, ids[0]]])
def test_a_missing_or_repeated_id_is_no_result(files, tmp_path, change):
    ids = change(column(files.truth, "id"))
    row = scale.scored(Row("scdp", 400, 1), write(tmp_path / "said.parquet", id=ids, cluster=ids), files.truth)
    assert row.failure == "said.parquet does not hold each id once"
    assert row.f_score is None


def test_the_oracle_finds_the_threshold_that_parts_true_pairs_from_false_ones(tmp_path):
    truth = write(tmp_path / "truth.parquet", id=list("abcdef"), entity=list("112233"))
    pairs = tmp_path / "pairs.parquet"
    scores = "('a', 'b', 9.5), ('c', 'd', 8.5), ('f', 'e', 7.2), ('b', 'c', 6.5), ('d', 'e', 3.0)"
    query = f"copy (select * from (values {scores}) t(id_l, id_r, match_weight)) to '{pairs}'"
    duckdb.connect().execute(query).fetchall()
    assert scale.best_threshold(pairs, truth) == (7.0, 1.0)


def test_the_row_of_the_product_is_made_of_what_its_commands_write(files, monkeypatch):
    commands = []

    def pretended(command, log, folder):
        commands.append(command[3:])
        if "cluster" in command:
            clusters = f"select id, entity as cluster, 1.0 as probability from '{files.truth}'"
            duckdb.connect().execute(f"copy ({clusters}) to '{folder}/clusters.csv'").fetchall()
            summary = {"n_clusters": 9, "n_clusters_interval": [300, 330], "seconds": {"blocking": 2.5}}
            (folder / "clusters.summary.json").write_text(json.dumps(summary))
        return Run(0, 7.0 if "cluster" in command else 5.0, 8.0, 10**9, "PSS")

    monkeypatch.setattr(scale, "watched", pretended)
    row = scale.ours(files, 400)
    # Each command is run once before it is measured, so that its kernels are compiled.
    assert [command[0] for command in commands] == ["fit", "fit", "cluster", "cluster"]
    assert [command.count("warm") + command.count("warm.csv") for command in commands] == [1, 0, 1, 0]
    assert commands[-1][2] == str(files.people)
    assert (row.fit_seconds, row.seconds, row.f_score, row.interval) == (5.0, 7.0, 1.0, (300, 330))
    assert row.clusters == row.entities == len(set(column(files.truth, "entity")))
    text = page([row], {})
    assert "| 400 | Parquet | scdp | 5.0 | 8.0 | 7.0 | 8.0 | 1.00 GB |" in text
    assert "- scdp, 400 records: blocking 2.5" in text


def test_a_fit_that_fails_is_told_and_nothing_is_clustered(files, monkeypatch):
    def refused(command, log, folder):
        assert "cluster" not in command
        log.write_text("reading\nthis would need 9 GB\n")
        return Run(2, 1.0, 1.0, None, "PSS")

    monkeypatch.setattr(scale, "watched", refused)
    assert scale.ours(files, 400).failure == "this would need 9 GB"


GOOD = Row(
    "scdp",
    1000,
    800,
    seconds=10.0,
    cpu_seconds=12.0,
    fit_cpu_seconds=14.0,
    peak_bytes=10**9,
    precision=0.99,
    recall=0.97,
    f_score=0.98,
    clusters=805,
    interval=(790, 810),
)
SPLINK = Row("Splink", 1000, 800, seconds=11.0, peak_bytes=10**9, f_score=0.9, oracle_f=0.95, oracle_weight=9.0)


def missed(*rows):
    return [bar.promise.split(": ", 1)[1] for bar in bars(rows) if bar.met is False]


def test_all_bars_are_met_by_a_good_run():
    assert len(bars([GOOD, SPLINK])) == 6
    assert all(bar.met for bar in bars([GOOD, SPLINK]))


@pytest.mark.parametrize(
    ("change", "bar"),
    [
        ({"seconds": 11.1}, "wall time at most Splink's, 11.0 s"),
        ({"fit_cpu_seconds": 15.1}, "fit at most 15 s of processor time"),
        ({"f_score": 0.949}, "F above Splink's at any threshold, 0.9500"),
        ({"peak_bytes": 2 * 10**9 + 1}, "peak memory at most 2 GB"),
        ({"clusters": 783}, "entities within 2 %"),
        ({"interval": (801, 810)}, "interval covers the truth, 800"),
    ],
)
def test_each_bar_can_be_missed_alone(change, bar):
    assert missed(replace(GOOD, **change), SPLINK) == [bar]


def test_f_must_be_above_splinks_at_any_threshold():
    alone = replace(SPLINK, f_score=0.98, oracle_f=None)
    assert missed(GOOD, alone) == ["F above Splink's at its threshold, 0.9800"]
    assert missed(GOOD, replace(SPLINK, oracle_f=0.999)) == ["F above Splink's at any threshold, 0.9990"]


def test_the_bars_of_time_and_memory_hang_on_the_size():
    few, their = replace(GOOD, size=100_000), replace(SPLINK, size=100_000)
    assert missed(few, their) == ["wall time at most 0.7 times Splink's, 11.0 s"]
    assert not missed(replace(few, seconds=7.6), their)
    many = replace(GOOD, size=10_000_000, peak_bytes=12 * 10**9)
    assert not missed(many)
    assert missed(replace(many, peak_bytes=12 * 10**9 + 1)) == ["peak memory at most 12 GB"]


def test_a_file_of_csv_is_measured_against_splink_on_the_same():
    slow = replace(GOOD, format="csv", seconds=12.0)
    rows = [GOOD, SPLINK, slow, replace(SPLINK, format="csv", seconds=11.5)]
    assert [bar.promise for bar in bars(rows) if bar.met is False] == [
        "1,000 as CSV: wall time at most Splink's, 11.5 s"
    ]
    assert "| 1,000 | CSV | scdp |" in page(rows, {})


def test_people_are_the_same_as_csv(files):
    written = files.as_csv().people
    assert written.suffix == ".csv"
    everything = f"(select * from read_csv('{written}', all_varchar = true) except select * from '{files.people}')"
    assert column(everything, "id") == []
    assert len(column(written, "id")) == 400


def test_each_format_is_measured_and_named(monkeypatch):
    monkeypatch.setattr(scale, "SYSTEMS", {"ours": lambda files, size: Row(files.people.suffix, size, 1)})
    rows = scale.measured([50], ["ours"], 1, ["parquet", "csv"])
    assert [(row.system, row.format) for row in rows] == [(".parquet", "parquet"), (".csv", "csv")]


def test_very_many_records_are_run_only_once(files, monkeypatch):
    commands = []

    def pretended(command, log, folder):
        commands.append(command[3])
        log.write_text("no memory")
        return Run(int("cluster" in command), 1.0, 1.0, None, "PSS")

    monkeypatch.setattr(scale, "watched", pretended)
    scale.ours(files, 10_000_000)
    assert commands == ["fit", "fit", "cluster"]


def test_a_failed_run_misses_all_and_what_was_not_measured_is_neither():
    assert len(missed(Row("scdp", 1000, 800, failure="out of memory"), SPLINK)) == 6
    unknown = [bar for bar in bars([replace(GOOD, interval=None)]) if bar.met is None]
    assert [bar.verdict for bar in unknown] == ["not measured"]
    assert len(bars([GOOD, replace(SPLINK, failure="no memory")])) == 4


def test_growth_is_measured_between_the_smallest_and_the_largest_size():
    large = replace(GOOD, size=10_000, seconds=10.0 * 10**1.05)
    assert exponent([GOOD, large]) == pytest.approx(1.05)
    assert not missed(GOOD, large)
    assert missed(GOOD, replace(large, seconds=130.0)) == ["growth exponent of wall time at most 1.1"]


def test_the_page_marks_the_oracle_the_failures_and_the_bars():
    failed = Row("Splink", 10_000, 8000, failure="out of memory")
    text = page([GOOD, SPLINK, failed], {"splink": "5.0.0"}, "Commit 1234567.")
    assert "\n\nCommit 1234567.\n\n" in text
    assert "chooses Splink's threshold by the true labels, which no user has" in text
    assert "Splink failed at 10,000 records: out of memory" in text
    assert "| 1,000: peak memory at most 2 GB | 1.00 GB | met |" in text


@pytest.mark.parametrize(
    ("sizes", "systems", "kinds"),
    [
        (["100", "many"], ["ours"], ["csv"]),
        (["0"], ["ours"], ["csv"]),
        (["5"], ["dedupe"], ["csv"]),
        (["5"], ["ours"], ["xlsx"]),
    ],
)
def test_options_that_are_wrong_are_refused(sizes, systems, kinds):
    with pytest.raises(InputError, match=r"^--"):
        scale.checked(sizes, systems, kinds)
