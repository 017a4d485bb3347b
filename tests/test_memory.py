"""What does not fit into the memory is refused before it starts, with the estimate and what to change."""

from __future__ import annotations

import errno
import gzip
import subprocess
import sys
import tracemalloc
from pathlib import Path, PurePosixPath

import duckdb
import numpy as np
import pytest

from product_cases import citations, fitted_folder, rows_of, run, write_csv
from scdp import SCDP, EntityResolver, Spec, io
from scdp import _parallel as memory
from scdp._parallel import Need
from scdp.datasets import make_records
from scdp.errors import InputError
from scdp.estimators import checks
from scdp.linkage.sources import VectorView
from scdp.table.readers import read_records

resource = pytest.importorskip("resource", reason="limits of POSIX")
pytestmark = pytest.mark.filterwarnings("ignore::scdp.posterior.recorder.ConvergenceWarning")

PAPER = ("cdp", "scdp1", "scdp2", "scdp3")
REFUSED = r"this would need about .* of memory, .* of it for .*, and .* are free; "


@pytest.fixture
def little(monkeypatch):
    """A machine that has so many bytes left."""
    return lambda n_bytes: monkeypatch.setattr(memory, "free_bytes", lambda: n_bytes)


def refused(result, says, folder):
    assert result.exit_code == 2, result.output
    *_, last = result.stderr.strip().splitlines()
    assert "this would need about" in last
    assert says in last
    assert "Traceback" not in result.output
    assert not list(folder.iterdir())


def test_the_sentence_names_the_largest_need_and_its_remedy(little):
    little(3 * 10**9)
    with pytest.raises(InputError, match=r"about 4.2 GB of memory, 4.0 GB of it for a, and 3.0 GB are free; do b$"):
        memory.require([Need("c", 2 * 10**8, "do d"), Need("a", 4 * 10**9, "do b")])
    memory.require([Need("a", 3 * 10**9, "do b")])


@pytest.mark.parametrize(
    ("n_bytes", "words"),
    [(999, "1 kB"), (2_500_000, "2.5 MB"), (86 * 10**9, "86 GB"), (123_456 * 10**12, "123,456 TB")],
)
def test_sizes_in_words(n_bytes, words):
    assert memory.size(n_bytes) == words


def test_nothing_is_refused_where_the_system_does_not_say(little):
    little(None)
    memory.require([Need("a", 10**18, "do b")])


def test_what_is_free_is_no_more_than_the_machine_has():
    assert 0 < memory.free_bytes() <= memory.free_of_machine() < 10**15


@pytest.mark.parametrize("version", [1, 2])
def test_a_container_has_less_than_its_machine(version, tmp_path, monkeypatch):
    name, limit, used, idle = {
        1: ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        2: ("", "memory.max", "memory.current", "inactive_file"),
    }[version]
    outer, inner = tmp_path / name / "a", tmp_path / name / "a" / "b"
    inner.mkdir(parents=True)
    for folder, most in ((outer, "5000"), (inner, "max")):
        (folder / limit).write_text(most)
        (folder / used).write_text("3000")
        (folder / "memory.stat").write_text(f"anon 7\n{idle} 500\n")
    monkeypatch.setattr(memory, "CONTROL", tmp_path)
    monkeypatch.setattr(memory, "_own_groups", lambda: [(name, PurePosixPath("/a/b"))])
    assert memory.free_of_container() == 2500
    assert memory.free_bytes() == 2500


def test_a_limit_of_the_process_counts(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1 << 50, 1 << 50))
    assert (1 << 49) < memory.free_of_limit() < (1 << 50)


def test_a_file_that_does_not_fit_is_not_read(little, tmp_path):
    path = write_csv(tmp_path / "a.csv", rows_of(citations()[0]))
    (tmp_path / "out").mkdir()
    little(1000)
    result = run("fit", path, "--out", tmp_path / "out" / "model")
    refused(result, f"for the cells of {path}", tmp_path / "out")


@pytest.mark.parametrize("model", [*PAPER, "resolver"])
def test_fit_says_so_before_it_starts(model, little, tmp_path):
    made = fitted_folder()
    little(8 * (made / "train.csv").stat().st_size)
    options = ("--model", model, "--chains", 2, "--sweeps", 20, "--out", tmp_path / "m")
    result = run("fit", made / "train.csv", "--spec", made / "spec.toml", *options)
    refused(result, "learning from" if model == "resolver" else "the distances of", tmp_path)


@pytest.mark.parametrize("model", PAPER)
def test_more_sweeps_than_any_machine_can_keep(model, tmp_path):
    made = fitted_folder()
    options = ("--model", model, "--sweeps", 10**12, "--out", tmp_path / "m")
    refused(run("fit", made / "train.csv", "--spec", made / "spec.toml", *options), "draws of", tmp_path)


def test_cluster_says_so_before_it_starts(little, tmp_path):
    made = fitted_folder()
    little(8 * (made / "test.csv").stat().st_size)
    result = run("cluster", made / "model", made / "test.csv", "--out", tmp_path / "c.csv")
    refused(result, "take the resolver", tmp_path)


@pytest.mark.parametrize(("option", "value"), [("--sweeps", 10**12), ("--chains", 10**10)])
def test_reproduce_says_so_before_it_starts(option, value, tmp_path):
    refused(
        run("reproduce", "digits", "--systems", "cdp", option, value, "--out", tmp_path / "r"),
        "take fewer chains or sweeps",
        tmp_path,
    )


def test_reproduce_without_samplers_needs_no_draws(tmp_path):
    result = run("reproduce", "digits", "--systems", "coarse,fine", "--sweeps", 10**12, "--out", tmp_path / "r")
    assert result.exit_code == 0, result.output


def points(n, n_features=2):
    return np.random.default_rng(0).normal(size=(n, n_features))


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        (points(60), {"model": "scdp1", "n_sweeps": 10**11}),
        (points(60), {"model": "scdp1", "n_chains": 10**11}),
        (points(60), {"n_draws": 10**11}),
        (np.zeros((60, 60, 1)), {"model": "cdp", "metric": "precomputed", "n_sweeps": 10**11}),
    ],
)
def test_in_python_as_well(rows, options):
    known = np.repeat(np.arange(20), 3)
    known[40:] = -1
    kind = EntityResolver if "n_draws" in options else SCDP
    with pytest.raises(InputError, match=REFUSED):
        kind(random_state=0, **options).fit(rows, known)


def test_predict_says_so_for_rows_of_both(little):
    model = SCDP("scdp1", n_chains=1, n_sweeps=4, random_state=0).fit(points(60), np.arange(60) % 5)
    little(20_000)
    with pytest.raises(InputError, match=REFUSED + "take fewer chains or sweeps"):
        model.predict(points(3000))


def test_groups_make_the_resolver_need_less():
    known = np.full(3000, -1)
    several = checks.Extent(checks.Compared, 3, known, np.arange(3000) % 10)
    # One document of few records, so that pairs are not too many to be all compared.
    whole = checks.Extent(checks.Compared, 3, known, np.zeros(3000))
    amounts = [checks.sampling_needs(rows, np.arange(3000), 240, None)[-1].n_bytes for rows in (several, whole)]
    assert 8 < amounts[1] / amounts[0] < 12


def test_labelled_records_are_not_all_compared_with_each_other():
    """Of 40,000 records whose clusters are known, learning looks at some, and nothing is sampled."""
    rows = checks.Extent(checks.Compared, 3, np.arange(40_000) // 2, None)
    needs = [*checks.training_needs(rows), *checks.sampling_needs(rows, np.arange(0), 240, None)]
    # All pairs would take 20 GB.
    assert sum(need.n_bytes for need in needs) < 10**9


def test_too_many_records_are_clustered_by_candidates_which_are_few():
    rows = checks.Extent(checks.Compared, 3, np.full(50_000, -1), None)
    draws, candidates = checks.sampling_needs(rows, np.arange(50_000), 120, None)
    # All pairs would take 200 GB.
    assert candidates.n_bytes < 10**8
    assert "candidate pairs of 50,000 records" in candidates.what
    assert draws.n_bytes == 120 * 50_000 * 12


def estimated_and_taken(monkeypatch, fit):
    """Bytes that are asked for before the fit, and the most that it took."""
    asked = []
    for module in ("chains_model", "resolver"):
        monkeypatch.setattr(f"scdp.{module}.require", asked.extend)
    tracemalloc.start()
    try:
        fit()
        return sum(need.n_bytes for need in asked), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("case", ["distances", "points", "draws"])
def test_estimates_are_near_what_is_taken(case, monkeypatch):
    """Within a factor of 1.6; beside large data the constant part, which is not counted, is nothing."""
    if case == "distances":
        made = make_records(700, kind="citations", seed=1)
        spec = Spec.from_toml(fitted_folder() / "spec.toml")
        model = SCDP("cdp", n_chains=1, n_sweeps=2, random_state=0, spec=Spec(spec.entity, spec.fields))
        rows, known = made.data, np.full(700, -1)
    elif case == "points":
        model = SCDP("scdp1", n_chains=1, n_sweeps=2, random_state=0)
        rows, known = points(4000, 40), np.arange(4000) % 50
        known[::20] = -1
    else:
        model = SCDP("cdp", n_chains=2, n_sweeps=600, random_state=0)
        rows, known = points(200), np.full(200, -1)
    few = rows.take(np.arange(40)) if case == "distances" else rows[:40]
    # What is compiled and imported is no part of it.
    model.fit(few, known[:40])
    estimated, taken = estimated_and_taken(monkeypatch, lambda: model.fit(rows, known))
    assert 1 / 1.6 < estimated / taken < 1.6


def test_the_estimate_of_pairs_of_vectors_is_near_what_is_taken():
    rows, cluster = points(500, 3), np.arange(500) % 40
    view = VectorView.of(rows, cluster, np.zeros(3), np.ones(3))
    view.pairs(rows[:60], None)
    tracemalloc.start()
    try:
        found = view.pairs(rows, None)
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 1 / 1.6 < len(found) * checks.bytes_of_view(found.n_features) / taken < 1.6


# ---- where the estimate was too low ----


USED_UP = [
    MemoryError(),
    RuntimeError("can't start new thread"),
    ImportError("x.so: failed to map segment from shared object"),
    OSError(errno.ENOMEM, "Cannot allocate memory"),
    duckdb.OutOfMemoryException("Out of Memory Error: failed to allocate data"),
]


@pytest.mark.parametrize("error", USED_UP, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("command", ["fit", "cluster"])
def test_memory_that_is_used_up_is_one_sentence(command, error, tmp_path, monkeypatch):
    folder = fitted_folder()

    def use_up(*_, **__):
        raise error

    monkeypatch.setattr(EntityResolver, "fit", use_up)
    monkeypatch.setattr("scdp.estimators.clustering.cluster_records", use_up)
    arguments = {
        "fit": ("fit", folder / "train.csv", "--spec", folder / "spec.toml", "--out", tmp_path / "m"),
        "cluster": ("cluster", folder / "model", folder / "test.csv", "--out", tmp_path / "c.csv"),
    }
    result = run(*arguments[command])
    assert result.exit_code == 2
    assert result.stderr.strip().splitlines()[-1].startswith("scdp: error: the memory is used up; ")
    assert "Traceback" not in result.output
    assert not list(tmp_path.iterdir())


def test_what_was_sampled_before_memory_was_used_up_is_kept_and_said(tmp_path, monkeypatch):
    folder = fitted_folder()

    def use_up(*_, **__):
        raise MemoryError

    monkeypatch.setattr("scdp.report.outputs.cluster_columns", use_up)
    result = run("cluster", folder / "model", folder / "test.csv", "--out", tmp_path / "c.csv")
    assert result.exit_code == 2
    assert "keeps what was sampled; go on with the same command and --resume" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["c.csv.checkpoint"]


def peak_of(work):
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_small_file_takes_little_memory_however_large_it_might_be(tmp_path):
    (tmp_path / "model.json").write_text("{}")
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"id\n1\n"))
    read_records(tmp_path / "a.csv.gz")
    assert peak_of(lambda: io.read_bytes(tmp_path / "model.json", 64 << 20)) < 4 << 20
    assert peak_of(lambda: read_records(tmp_path / "a.csv.gz")) < 4 << 20


@pytest.mark.posix
def test_a_limit_of_address_space_leaves_room_for_libraries(monkeypatch):
    """What they cannot have ends the process without a word of Python's."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    monkeypatch.setattr(resource, "getrlimit", lambda _: (used + memory.NEVER_FILLED, -1))
    assert memory.free_of_limit() < 10 << 20
    with pytest.raises(InputError, match=r"are free; allow the process more \(ulimit -v\), or do b"):
        memory.require([Need("a", 10**9, "do b")])


# ---- with less than the libraries take ----


def limited(n_bytes, *words):
    """A command in a process of its own that may take so much."""
    return subprocess.run(
        [sys.executable, "-m", "scdp.cli", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (n_bytes, n_bytes)),
    )


@pytest.mark.posix
@pytest.mark.parametrize("megabytes", [60, 100, 200, 300, 400, 450, 500, 700, 1000, 1200])
def test_a_limit_below_what_the_libraries_take_is_one_sentence(megabytes, tmp_path):
    """They would hang or end the process, each at limits of its own, if they were loaded."""
    folder = fitted_folder()
    result = limited(megabytes << 20, "cluster", folder / "model", folder / "test.csv", "--out", tmp_path / "c")
    assert result.returncode == 2, result.stderr
    (said,) = result.stderr.splitlines()
    assert said.startswith(f"scdp: error: the process may take {memory.size(megabytes << 20)} (ulimit -v), and ")
    assert not list(tmp_path.iterdir())


@pytest.mark.posix
def test_what_the_libraries_take_is_enough_for_a_small_table(tmp_path):
    folder = fitted_folder()
    words = ("cluster", folder / "model", folder / "test.csv", "--out", tmp_path / "c.csv", "--draws", tmp_path / "d")
    result = limited(memory.bytes_of_libraries(), *words)
    assert result.returncode == 0, result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.csv", "c.uncertain.csv", "d"]


@pytest.mark.posix
@pytest.mark.parametrize("words", [("--help",), ("cluster", "--help"), ("--version",)])
def test_help_needs_no_libraries(words):
    result = limited(300 << 20, *words)
    assert result.returncode == 0, result.stderr


def test_threads_of_many_cores_are_counted(monkeypatch):
    monkeypatch.setattr(memory, "count_cores", lambda: 64)
    monkeypatch.setattr(memory, "limit_of_process", lambda: 4 << 30)
    with pytest.raises(InputError, match=r"may take 4\.3 GB \(ulimit -v\), .* on 64 cores; allow it more, or give it"):
        memory.require_libraries()
    monkeypatch.setattr(memory, "count_cores", lambda: 4)
    memory.require_libraries()
