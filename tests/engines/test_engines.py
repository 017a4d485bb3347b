"""Engines: the same draws however components are divided, with workers that die, and from what was kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest

from scdp import EntityResolver, Spec, compare
from scdp import engines as shards_module
from scdp.compare.features import Layout, Pairs
from scdp.engines import InThreads, LocalEngine, label_by_first, local, split_shards
from scdp.engines.local import FinishedShards, ShardWarning, Worker, shard_files
from scdp.errors import InputError
from scdp.io import atomic
from scdp.linkage import Ensemble, Knots, Parameters
from scdp.linkage.evidence import TableEvidence
from scdp.posterior.linked import LinkedDraws, join_linked

N_DRAWS = 8


def made_ensemble(log_odds: float = 1.0) -> Ensemble:
    """Two members, of one feature and the evidence of it."""
    at = np.array([[-10.0, 0.0, 10.0], [0.0, 0.5, 1.0]])
    knots = Knots(at, np.array([1, -1]))
    heights = np.array([[-3.0, 0.0, 3.0], [0.0, -3.0, -6.0]])
    members = tuple(Parameters(heights, np.zeros(2), bias, 0.6, -0.5) for bias in (1.5, 2.5))
    ratio = np.linspace(3.0, -3.0, 7)[None]
    table = TableEvidence(Layout.of([["name"]], [-1]), ratio, ratio[:, 0], 0.01)
    floors = np.array([-6.0, -5.0])
    return Ensemble(knots, members, (), None, log_odds, 1.0, 2, table, floors)


def made_problem(n: int = 3000, seed: int = 0) -> tuple[Pairs, np.ndarray]:
    """Many small components, one large one, items alone, and some given clusters."""
    rng = np.random.default_rng(seed)
    left = np.concatenate([rng.integers(0, n - 4, n), rng.integers(0, 60, 150)])
    right = left + np.concatenate([rng.integers(1, 4, n), rng.integers(1, 40, 150)])
    kept = rng.random(len(left)) < 0.5
    keys = np.unique(left[kept] * n + right[kept])
    left, right = keys // n, keys % n
    known = np.full(n, -1)
    known[rng.choice(n, 40, replace=False)] = rng.integers(0, 12, 40)
    return Pairs(n, left, right, rng.random((len(left), 1)).astype(np.float32)), known


def check_same(found: LinkedDraws, wanted: LinkedDraws) -> None:
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards_module, "ENTRIES_AT_ONCE", 200)


@pytest.mark.parametrize("entries", [1, 50, 1000, 10**6])
def test_shards_hold_every_pair_once_and_whole_components(entries, monkeypatch):
    monkeypatch.setattr(shards_module, "ENTRIES_AT_ONCE", entries)
    pairs, known = made_problem()
    found, items = [], []
    for shard in split_shards(pairs, known):
        assert (np.diff(shard.items) > 0).all()
        found += list(zip(shard.items[shard.left], shard.items[shard.right], strict=True))
        items += shard.items.tolist()
        assert (shard.known == known[shard.items]).all()
    assert sorted(found) == sorted(zip(pairs.left, pairs.right, strict=True))
    assert len(items) == len(set(items))
    assert set(pairs.left) | set(pairs.right) <= set(items)


def test_draws_do_not_depend_on_how_items_are_divided(small_shards):
    pairs, known = made_problem()
    ensemble = made_ensemble()
    whole = InThreads(1).sample(ensemble, pairs, known, N_DRAWS, 5)
    parts = [shard.sample(ensemble, N_DRAWS, 5) for shard in split_shards(pairs, known)]
    assert len(parts) > 5
    check_same(join_linked(parts, N_DRAWS), whole)
    check_same(join_linked(parts[::-1], N_DRAWS), whole)


def test_draws_of_many_items_are_made_in_shards_and_are_the_same(small_shards, monkeypatch):
    pairs, known = made_problem()
    ensemble = made_ensemble()
    whole = InThreads(1).sample(ensemble, pairs, known, N_DRAWS, 5)
    monkeypatch.setattr(shards_module, "MOST_IN_ONE_PIECE", pairs.n_items * N_DRAWS - 1)
    seen: list[tuple[int, int]] = []
    found = InThreads(2).sample(ensemble, pairs, known, N_DRAWS, 5, lambda *done: seen.append(done))
    check_same(found, whole)
    assert seen[-1] == (len(pairs), len(pairs))


def test_labels_are_those_of_the_first_item():
    draws = np.array([[3, 1, 3, 0], [2, 2, 2, 2]], dtype=np.int32)
    label_by_first(draws, np.array([10, 20, 30, 40]))
    assert draws.tolist() == [[10, 20, 10, 40], [10, 10, 10, 10]]


@pytest.mark.parametrize("fewest", [0, 10**9])
@pytest.mark.parametrize("workers", [1, 2])
def test_processes_and_threads_give_the_draws_of_one(workers, fewest, small_shards):
    pairs, known = made_problem()
    ensemble = made_ensemble()
    seen: list[tuple[int, int]] = []
    engine = LocalEngine(workers, fewest=fewest)
    found = engine.sample(ensemble, pairs, known, N_DRAWS, 5, lambda done, total: seen.append((done, total)))
    check_same(found, InThreads(1).sample(ensemble, pairs, known, N_DRAWS, 5))
    assert seen[-1] == (len(pairs), len(pairs))


def test_processes_are_for_much_work_or_for_who_asks_for_them():
    assert LocalEngine().fewest == 2_000_000
    assert LocalEngine(2).fewest == 20_000
    assert LocalEngine(fewest=7).fewest == 7


class Murderous(LocalEngine):
    """Kills the first of its processes, at once or when they have had some time to begin."""

    def __init__(self, n_murders: int, after: float) -> None:
        super().__init__(2, fewest=0)
        self.left, self.after, self.murdered = n_murders, after, 0

    def start(self, ensemble: Ensemble) -> Worker:
        worker = super().start(ensemble)
        if self.left:
            self.left -= 1
            threading.Thread(target=self._kill, args=(worker,), daemon=True).start()
        return worker

    def _kill(self, worker: Worker) -> None:
        time.sleep(self.after)
        assert worker.process.pid is not None
        os.kill(worker.process.pid, signal.SIGKILL)
        self.murdered += 1


@pytest.mark.parametrize("after", [0.0, 0.5])
def test_a_killed_process_costs_only_what_it_was_doing(after, small_shards):
    pairs, known = made_problem()
    ensemble = made_ensemble()
    engine = Murderous(2, after)
    found = engine.sample(ensemble, pairs, known, N_DRAWS, 5)
    assert engine.murdered == 2
    check_same(found, InThreads(1).sample(ensemble, pairs, known, N_DRAWS, 5))


class Stopping(LocalEngine):
    """Stops its first process as soon as it has work, which it then neither does nor gives back."""

    n_stopped = 0

    def start(self, ensemble: Ensemble) -> Worker:
        worker = super().start(ensemble)
        if not self.n_stopped:
            self.n_stopped += 1
            threading.Thread(target=self._stop, args=(worker,), daemon=True).start()
        return worker

    def _stop(self, worker: Worker) -> None:
        while worker.heard > time.monotonic():
            time.sleep(0.01)
        assert worker.process.pid is not None
        os.kill(worker.process.pid, signal.SIGSTOP)


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_a_process_that_falls_silent_is_replaced(small_shards, monkeypatch):
    monkeypatch.setattr(local, "SILENT_SECONDS", 5.0)
    monkeypatch.setattr(local, "BEAT_SECONDS", 0.2)
    pairs, known = made_problem()
    ensemble = made_ensemble()
    engine = Stopping(1, fewest=0)
    found = engine.sample(ensemble, pairs, known, N_DRAWS, 5)
    assert engine.n_stopped == 1
    check_same(found, InThreads(1).sample(ensemble, pairs, known, N_DRAWS, 5))


class Slow(LocalEngine):
    """Its processes take longer over a shard than one may be silent."""

    @staticmethod
    def work(connection: Connection, beat_seconds: float) -> None:
        really = shards_module.Shard.sample

        def slowly(*arguments: object) -> object:
            time.sleep(6.0)
            return really(*arguments)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(shards_module.Shard, "sample", slowly)
            LocalEngine.work(connection, beat_seconds)


def test_a_process_that_works_for_long_is_not_silent(monkeypatch):
    monkeypatch.setattr(local, "SILENT_SECONDS", 5.0)
    monkeypatch.setattr(local, "BEAT_SECONDS", 0.2)
    pairs, known = made_problem(400)
    ensemble = made_ensemble()
    found = Slow(1, fewest=0).sample(ensemble, pairs, known, N_DRAWS, 5)
    check_same(found, InThreads(1).sample(ensemble, pairs, known, N_DRAWS, 5))


KILLED = """
import os, signal, sys, threading, time
sys.path[:0] = FOLDERS
from test_engines import *

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

class Dying(LocalEngine):
    def start(self, ensemble):
        if sys.argv[1] == "while processes start":
            threading.Timer(0.3, die).start()
        return super().start(ensemble)

if __name__ == "__main__":
    shards_module.ENTRIES_AT_ONCE = 200
    Dying(2, fewest=0).sample(made_ensemble(), *made_problem(), 500, 5, die)
"""


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("moment", ["while processes start", "while they work"])
def test_the_processes_of_a_killed_run_end_without_a_word(tmp_path: Path, moment):
    script = tmp_path / "run.py"
    folders = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    script.write_text(KILLED.replace("FOLDERS", repr(folders)), encoding="utf-8")
    # The processes hold standard error open: reading it ends when the last of them has.
    ended = subprocess.run(
        [sys.executable, str(script), moment], capture_output=True, text=True, timeout=900, check=False
    )
    assert ended.returncode == -signal.SIGKILL
    assert ended.stderr == ""


class Deadly(LocalEngine):
    """Its processes die of every shard."""

    @staticmethod
    def work(connection: Connection, beat_seconds: float) -> None:
        connection.recv()
        os.kill(os.getpid(), signal.SIGKILL)


def test_records_that_kill_every_process_are_given_up_in_a_sentence(small_shards):
    pairs, known = made_problem(400)
    with pytest.raises(InputError, match="3 processes have died or stopped while clustering the same records"):
        Deadly(1, fewest=0).sample(made_ensemble(), pairs, known, N_DRAWS, 5)


@pytest.mark.parametrize("fewest", [0, 10**9])
def test_what_is_finished_is_not_done_again(small_shards, tmp_path: Path, fewest):
    pairs, known = made_problem()
    ensemble = made_ensemble()
    first = LocalEngine(1, tmp_path, fewest=fewest).sample(ensemble, pairs, known, N_DRAWS, 5)
    kept = shard_files(tmp_path)
    assert len(kept) > 5
    # One is missing and one is cut short: only these two are sampled again.
    kept[0].unlink()
    kept[1].write_bytes(kept[1].read_bytes()[:100])
    times = {path: path.stat().st_mtime_ns for path in kept[2:]}
    with pytest.warns(ShardWarning, match="some of what was kept is damaged"):
        again = LocalEngine(1, tmp_path, fewest=fewest).sample(ensemble, pairs, known, N_DRAWS, 5)
    check_same(again, first)
    assert shard_files(tmp_path) == kept
    assert {path: path.stat().st_mtime_ns for path in kept[2:]} == times


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def fill_with_zeros(path: Path) -> None:
    _, arrays = atomic.read_sealed(path)
    arrays["labels"][:] = 0
    with path.open("wb") as file:
        np.savez(file, **arrays)


def widen(path: Path) -> None:
    about, arrays = atomic.read_sealed(path)
    atomic.write_sealed(path, about, arrays | {"labels": np.tile(arrays["labels"], (1, 2))})


def take_after_another_run(path: Path) -> None:
    about, arrays = atomic.read_sealed(path)
    atomic.write_sealed(path, about | {"run": "0" * 32}, arrays)


def swap_with_another(path: Path) -> None:
    about, arrays = atomic.read_sealed(path)
    atomic.write_sealed(path, about | {"shard": f"shard-{'0' * 32}.npz"}, arrays)


def put_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def name_places_that_are_not_there(path: Path) -> None:
    """With a right checksum, as one who can write there can make it; kernels would follow the labels."""
    about, arrays = atomic.read_sealed(path)
    atomic.write_sealed(path, about, arrays | {"labels": np.full_like(arrays["labels"], 2**16 - 1)})


def name_items_that_are_not_there(path: Path) -> None:
    about, arrays = atomic.read_sealed(path)
    atomic.write_sealed(path, about, arrays | {"items": arrays["items"] + 2**31})


def move_a_bound(path: Path) -> None:
    about, arrays = atomic.read_sealed(path)
    atomic.write_sealed(path, about, arrays | {"bounds": arrays["bounds"] + 1})


def take_bounds_away(path: Path) -> None:
    about, arrays = atomic.read_sealed(path)
    del arrays["bounds"]
    atomic.write_sealed(path, about, arrays)


def put_a_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def put_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.posix
@pytest.mark.parametrize(
    "damage",
    [
        flip_a_bit,
        fill_with_zeros,
        widen,
        take_after_another_run,
        swap_with_another,
        name_places_that_are_not_there,
        name_items_that_are_not_there,
        move_a_bound,
        take_bounds_away,
        put_a_pipe,
        put_a_link,
        put_a_folder,
    ],
)
def test_what_was_kept_and_is_damaged_is_made_again_with_a_note(small_shards, tmp_path: Path, damage):
    pairs, known = made_problem()
    ensemble = made_ensemble()
    first = LocalEngine(1, tmp_path).sample(ensemble, pairs, known, N_DRAWS, 5)
    for path in shard_files(tmp_path):
        damage(path)
    with pytest.warns(ShardWarning, match="is damaged or of another run; it is made again"):
        again = LocalEngine(1, tmp_path).sample(ensemble, pairs, known, N_DRAWS, 5)
    check_same(again, first)
    check_same(LocalEngine(1, tmp_path).sample(ensemble, pairs, known, N_DRAWS, 5), first)


@pytest.mark.parametrize("fewest", [0, 10**9])
def test_a_full_disk_is_told_once_and_the_run_goes_on(small_shards, tmp_path: Path, monkeypatch, fewest):
    pairs, known = made_problem()
    ensemble = made_ensemble()

    def full(*_):
        raise OSError(28, "No space left on device")

    whole = InThreads(1).sample(ensemble, pairs, known, N_DRAWS, 5)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(ShardWarning, match="No space left on device.*keeps nothing for --resume") as told:
        found = LocalEngine(1, tmp_path, fewest=fewest).sample(ensemble, pairs, known, N_DRAWS, 5)
    check_same(found, whole)
    assert len(told) == 1
    assert not list(tmp_path.iterdir())


def test_a_folder_for_shards_that_cannot_be_made_is_a_warning(tmp_path: Path):
    pairs, known = made_problem(400)
    (tmp_path / "file").write_text("")
    with pytest.warns(ShardWarning, match="cannot be written"):
        LocalEngine(1, tmp_path / "file" / "shards").sample(made_ensemble(), pairs, known, N_DRAWS, 5)


def test_what_another_run_has_finished_is_not_taken(tmp_path: Path):
    pairs, known = made_problem(400)
    ensemble = made_ensemble()
    shard = next(split_shards(pairs, known))
    FinishedShards(tmp_path, ensemble, N_DRAWS, 5).keep(shard, shard.sample(ensemble, N_DRAWS, 5))
    assert FinishedShards(tmp_path, ensemble, N_DRAWS, 5).find(shard) is not None
    assert FinishedShards(tmp_path, ensemble, N_DRAWS, 6).find(shard) is None
    assert FinishedShards(tmp_path, ensemble, N_DRAWS + 1, 5).find(shard) is None
    assert FinishedShards(tmp_path, made_ensemble(1.1), N_DRAWS, 5).find(shard) is None
    assert FinishedShards(tmp_path, replace(ensemble, floors=None), N_DRAWS, 5).find(shard) is None
    assert FinishedShards(None, ensemble, N_DRAWS, 5).find(shard) is None


def make_strangers(n: int, n_twice: int, seed: int) -> tuple[dict[str, list[str]], np.ndarray]:
    """Records of random letters, which meet nobody; the last ones have a letter changed of the first ones."""
    letters = np.random.default_rng(seed).integers(97, 123, (2, n, 9), dtype=np.uint8)
    letters[:, n - n_twice :] = letters[:, :n_twice]
    letters[0, n - n_twice :, -1] = ord("-")
    names, streets = ([row.tobytes().decode() for row in column] for column in letters)
    return {"name": names, "street": streets}, np.concatenate([np.arange(n - n_twice), np.arange(n_twice)])


@pytest.mark.parametrize("engine", [None, LocalEngine(1)])
def test_nothing_of_records_times_draws_is_ever_whole_in_memory(engine):
    """20,000 records by 2,000 draws are 160 MB as 32-bit numbers; only some hundred records meet another."""
    n_records, n_draws = 20_000, 2_000
    spec = Spec("entity", [compare.edit("name"), compare.edit("street")])
    model = EntityResolver(spec=spec, boosted=False, n_draws=n_draws, engine=engine, random_state=0)
    model.fit(*make_strangers(400, 120, 1))
    new, _ = make_strangers(n_records, 200, 2)
    # Kernels are compiled here, which takes memory of its own.
    once = EntityResolver(spec=spec, boosted=False, n_draws=4, engine=engine, random_state=0)
    once.fit(*make_strangers(400, 120, 1))
    found = once.predict_with_posterior(new)
    found[1].expected_metrics(found[0])
    tracemalloc.start()
    labels, posterior = model.predict_with_posterior(new)
    posterior.expected_metrics(labels)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert n_records - 400 < len(set(labels.tolist())) < n_records
    assert posterior.n_chains * posterior.n_draws == n_draws
    assert peak < n_records * n_draws * 4 / 4


def test_no_workers_are_refused():
    with pytest.raises(InputError, match="workers must be at least 1"):
        LocalEngine(0)
