"""Checkpoints: chains go on draw for draw; damage, other runs, second processes and full disks are told of."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from product_cases import QUICK, citations, done, rows_of, run, write_csv
from scdp import SCDP, chains
from scdp.chains import ChainCheckpoints, CheckpointWarning
from scdp.errors import InputError
from scdp.io import FolderLock

pytestmark = pytest.mark.filterwarnings("ignore::scdp.posterior.recorder.ConvergenceWarning")


class Death(BaseException):
    """Stands for the end of the process."""


def points(seed=0):
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(mean, 1.0, (12, 2)) for mean in (-3.0, 0.0, 3.0)])


def squares():
    return (points()[:, None] - points()[None]) ** 2


KNOWN = np.where(np.arange(36) % 2, np.repeat([0, 1, 2], 12), -1)
SETTINGS = {"n_chains": 2, "n_sweeps": 40, "random_state": 3}


def model(folder=None, seconds=0.0, **settings):
    made = SCDP(**(SETTINGS | settings))
    return made if folder is None else made.keep_checkpoints(folder, seconds)


def die_at(monkeypatch, sweep):
    """Every chain dies at the end of this sweep, without a word."""
    reached = ChainCheckpoints.note_sweep

    def dying(self, chain, sweeps, *rest):
        reached(self, chain, sweeps, *rest)
        if sweeps == sweep:
            raise Death

    monkeypatch.setattr(ChainCheckpoints, "note_sweep", dying)
    # A slow disk makes checkpoints rare; here each sweep has one.
    monkeypatch.setattr(chains, "SHARE", 1e9)


def killed(monkeypatch, folder, sweep=31, data=None, **settings):
    with monkeypatch.context() as patched:
        die_at(patched, sweep)
        with pytest.raises(Death):
            model(folder, **settings).fit(points() if data is None else data, KNOWN)


def everything(fitted):
    posterior = fitted.posterior_
    arrays = [*posterior.stored.words, posterior.stored.starts, posterior.stored.n_codes, fitted.labels_]
    arrays += [posterior.traces[name] for name in sorted(posterior.traces)]
    return [np.asarray(array) for array in (*arrays, *(value for end in fitted.fitted_.ends for value in end))]


def same(one, other):
    pairs = list(zip(everything(one), everything(other), strict=True))
    return all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in pairs)


@pytest.mark.parametrize(
    ("settings", "data"),
    [
        ({"model": "cdp"}, None),
        ({"model": "scdp1"}, None),
        ({"model": "scdp1", "scheme": "paper", "n_jobs": 2}, None),
        ({"model": "scdp2"}, None),
        ({"model": "scdp3"}, None),
        ({"model": "scdp3", "scheme": "paper"}, None),
        ({"model": "scdp1", "metric": "precomputed"}, squares()),
        ({"model": "scdp3", "metric": "precomputed", "share_clusters": True}, squares()),
    ],
)
@pytest.mark.parametrize("sweep", [7, 31])
def test_a_killed_run_goes_on_draw_for_draw(tmp_path, monkeypatch, settings, data, sweep):
    rows = points() if data is None else data
    killed(monkeypatch, tmp_path, sweep, data, **settings)
    assert same(model(tmp_path, **settings).fit(rows, KNOWN), model(**settings).fit(rows, KNOWN))


def test_a_finished_run_is_not_sampled_again_and_makes_room_for_another(tmp_path, monkeypatch):
    first = model(tmp_path).fit(points(), KNOWN)
    with monkeypatch.context() as patched:
        patched.setattr("scdp.chains.run.sweep", None)
        assert same(model(tmp_path).fit(points(), KNOWN), first)
    assert same(model(tmp_path, random_state=4).fit(points(), KNOWN), model(random_state=4).fit(points(), KNOWN))


def test_new_rows_go_on_too(tmp_path, monkeypatch):
    fitted = model().fit(points(), KNOWN)
    whole = fitted.predict_posterior(points(1))
    fitted.keep_checkpoints(tmp_path, seconds=0.0)
    with monkeypatch.context() as patched:
        die_at(patched, 9)
        with pytest.raises(Death):
            fitted.predict_posterior(points(1))
    assert list((tmp_path / "predict").glob("chain*.npz"))
    again = fitted.predict_posterior(points(1))
    assert all(np.array_equal(again.traces[name], whole.traces[name]) for name in whole.traces)
    fitted.predict(points(2))


def newest(folder, chain=1):
    files = sorted((folder / "fit").glob(f"chain{chain}.*.npz"))
    return max(files, key=lambda path: chains.read_sealed(path)[0]["sweeps"])


def truncated(path):
    path.write_bytes(path.read_bytes()[:-100])


def altered(path):
    # As many bytes as are more than a header between two arrays, of which some may be changed without harm.
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 200] = bytes(byte ^ 1 for byte in content[middle : middle + 200])
    path.write_bytes(content)


def emptied(path):
    path.write_bytes(b"")


def pickled(path):
    with path.open("wb") as file:
        np.savez(file, about=np.array([{}], dtype=object))


@pytest.mark.parametrize("damage", [truncated, altered, emptied, pickled])
def test_a_damaged_newest_falls_back_to_the_one_before(tmp_path, monkeypatch, damage):
    killed(monkeypatch, tmp_path)
    damage(newest(tmp_path))
    with pytest.warns(CheckpointWarning, match=r"damaged: chain1\..\.npz; chain 1 goes on from the one before, at"):
        again = model(tmp_path).fit(points(), KNOWN)
    assert same(again, model().fit(points(), KNOWN))


def test_without_any_good_one_a_chain_starts_again(tmp_path, monkeypatch):
    killed(monkeypatch, tmp_path)
    for path in (tmp_path / "fit").glob("chain1.*.npz"):
        truncated(path)
    with pytest.warns(CheckpointWarning, match=r"chain 1 goes on from the beginning"):
        again = model(tmp_path).fit(points(), KNOWN)
    assert same(again, model().fit(points(), KNOWN))


def test_a_changed_file_with_a_right_checksum_is_not_believed(tmp_path, monkeypatch):
    killed(monkeypatch, tmp_path)
    path = newest(tmp_path)
    about, arrays = chains.read_sealed(path)
    arrays["state.cluster"] = arrays["state.cluster"] + 10_000_000
    chains.write_sealed(path, about, arrays)
    with pytest.warns(CheckpointWarning, match="damaged"):
        again = model(tmp_path).fit(points(), KNOWN)
    assert same(again, model().fit(points(), KNOWN))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"random_state": 4}, "a run with seed "),
        ({"n_sweeps": 50}, "a run with n_sweeps 40, and this one has 50"),
        ({"model": "scdp2"}, "a run with model scdp1, and this one has scdp2"),
        ({"standardize": False}, "a run with data "),
        ({"init": "one"}, "a run with start of chain "),
    ],
)
def test_another_run_is_refused_by_name_and_nothing_is_lost(tmp_path, monkeypatch, changed, message):
    killed(monkeypatch, tmp_path)
    with pytest.raises(InputError, match=message):
        model(tmp_path, **changed).fit(points(), KNOWN)
    assert same(model(tmp_path).fit(points(), KNOWN), model().fit(points(), KNOWN))


@pytest.mark.parametrize(
    ("words", "message"),
    [({"version": 2}, "in version 2 of the format"), ({"format": "other"}, "is no checkpoint of scdp")],
)
def test_another_format_is_refused_by_name(tmp_path, monkeypatch, words, message):
    killed(monkeypatch, tmp_path)
    path = newest(tmp_path)
    about, arrays = chains.read_sealed(path)
    chains.write_sealed(path, about | words, arrays)
    with pytest.raises(InputError, match=message):
        model(tmp_path).fit(points(), KNOWN)


def test_another_version_of_scdp_is_refused_by_name(tmp_path, monkeypatch):
    killed(monkeypatch, tmp_path)
    monkeypatch.setattr("scdp.chains_model.__version__", "9.9")
    with pytest.raises(InputError, match=r"a run with scdp .*, and this one has 9\.9"):
        model(tmp_path).fit(points(), KNOWN)


def test_settings_that_make_no_sense_are_refused(tmp_path):
    with pytest.raises(InputError, match="checkpoints need a random_state"):
        model(tmp_path, random_state=None).fit(points(), KNOWN)
    with pytest.raises(InputError, match="the seconds between checkpoints must be at least 0"):
        model(tmp_path, seconds=-1).fit(points(), KNOWN)


def test_the_place_of_checkpoints_is_no_part_of_the_model(tmp_path):
    model(tmp_path / "kept").fit(points(), KNOWN).save(tmp_path / "model")
    assert "checkpoint" not in (tmp_path / "model" / "model.json").read_text()
    assert not hasattr(SCDP.load(tmp_path / "model"), "_kept_in")


# ---- locks ----


def test_a_second_run_is_refused_with_the_process_id_of_the_first(tmp_path):
    with FolderLock(tmp_path), pytest.raises(InputError, match=rf"another run \(process {os.getpid()}\) works in it"):
        FolderLock(tmp_path).__enter__()
    with FolderLock(tmp_path):
        pass
    assert not list(tmp_path.iterdir())


def test_the_lock_of_a_dead_process_is_taken_over(tmp_path):
    script = (
        "import sys, time; from pathlib import Path; from scdp.io import FolderLock\n"
        "with FolderLock(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(InputError, match=rf"\(process {process.pid}\)"):
            FolderLock(tmp_path).__enter__()
        process.kill()
    assert (tmp_path / "lock").exists()
    with FolderLock(tmp_path):
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"


def test_two_fits_in_one_checkpoint_folder(tmp_path):
    with FolderLock(tmp_path / "fit"), pytest.raises(InputError, match="another run"):
        model(tmp_path).fit(points(), KNOWN)


def test_two_reproductions_in_one_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SCDP_OFFLINE", "1")
    with FolderLock(tmp_path / "parts"):
        result = run("reproduce", "digits", "--systems", "coarse", "--quick", "--out", tmp_path)
    assert result.exit_code == 2
    assert f"another run (process {os.getpid()}) works in it" in result.stderr


# ---- disks ----


def test_a_full_disk_while_running_is_told_and_loses_nothing(tmp_path):
    # All three runs are in one process, the first without a limit: it compiles what could not be kept under one, and
    # kernels that two processes compile can differ in the last digit.
    script = f"""
import resource, sys, warnings
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from chains.test_checkpoints import *
whole = model().fit(points(), KNOWN)
killed(pytest.MonkeyPatch(), Path(sys.argv[1]))
print(chains.read_sealed(newest(Path(sys.argv[1])))[0]["sweeps"])
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    fitted = model(sys.argv[1]).fit(points(), KNOWN)
told = [str(each.message) for each in caught if each.category is CheckpointWarning]
print(same(fitted, whole))
print(told[0])
"""
    result = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, timeout=900, check=False
    )
    assert not result.returncode, result.stderr
    before, is_same, told = result.stdout.splitlines()
    assert is_same == "True", result.stderr
    assert "cannot be written (File too large)" in told
    assert "the run goes on, and the checkpoint before is kept" in told
    assert chains.read_sealed(newest(tmp_path))[0]["sweeps"] == int(before)
    assert not list((tmp_path / "fit").glob(".*"))


def test_a_folder_that_cannot_be_made_is_one_sentence_before_any_work(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        model(tmp_path / "file").fit(points(), KNOWN)

    def read_only(*_, **__):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("scdp.io.atomic.os.open", read_only)
    with pytest.raises(InputError, match=r"cannot be written \(Read-only file system\)"):
        model(tmp_path / "kept").fit(points(), KNOWN)


def test_halves_of_a_killed_run_are_removed(tmp_path):
    (tmp_path / "fit").mkdir()
    (tmp_path / "fit" / ".chain1.a.npz.1-0123456789abcdef.part").write_text("half")
    model(tmp_path).fit(points(), KNOWN)
    assert not list((tmp_path / "fit").glob(".*"))


def test_writing_takes_a_small_share_of_a_run(tmp_path, monkeypatch):
    """Whatever a write costs, the next one waits until it is under 2 % of the time between."""
    clock, writes = [0.0], []

    def slow(*_):
        writes.append(clock[0])
        clock[0] += 0.5

    monkeypatch.setattr(chains.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(chains, "write_sealed", slow)
    monkeypatch.setattr(ChainCheckpoints, "_parts", lambda *_: ({}, {}))
    kept = ChainCheckpoints(tmp_path, {}, seconds=10.0, n_chains=1, n_sweeps=200, n_slots=1, recorder=None)
    for sweep in range(1, 200):
        clock[0] += 1.0
        kept.note_sweep(0, sweep, None)
    # The first after the ten seconds that were asked for, then as seldom as half a second allows.
    assert writes[0] == 10.0
    assert len(writes) > 5
    assert all(0.5 / gap < 0.02 for gap in np.diff(writes))


# ---- the command line ----


@pytest.fixture
def records(tmp_path):
    train, _ = citations()
    return write_csv(tmp_path / "train.csv", rows_of(train))


def test_ctrl_c_says_how_to_go_on_and_resume_does(records, tmp_path, monkeypatch):
    fit = ["fit", records, *QUICK, "--checkpoint-seconds", "0", "--out"]
    done(*fit, tmp_path / "whole")
    assert not list(tmp_path.glob("*.checkpoint"))
    with monkeypatch.context() as patched:
        reached = ChainCheckpoints.note_sweep

        def interrupted(self, chain, sweeps, *rest):
            reached(self, chain, sweeps, *rest)
            if sweeps == 12:
                raise KeyboardInterrupt

        patched.setattr(ChainCheckpoints, "note_sweep", interrupted)
        result = run(*fit, tmp_path / "model")
    assert result.exit_code == 130
    assert "model.checkpoint keeps what was sampled; go on with the same command and --resume" in result.stderr
    refused = run(*fit, tmp_path / "model")
    assert refused.exit_code == 2
    assert "holds the checkpoint of an earlier run; go on with it by the same command and --resume" in refused.stderr
    other = run(*fit, tmp_path / "model", "--resume", "--seed", "5")
    assert other.exit_code == 2
    assert "a run with seed" in other.stderr
    done(*fit, tmp_path / "model", "--resume")
    assert not list(tmp_path.glob("*.checkpoint"))
    with np.load(tmp_path / "whole" / "posterior.npz") as whole, np.load(tmp_path / "model" / "posterior.npz") as model:
        assert all(np.array_equal(whole[name], model[name]) for name in whole.files)


def test_a_real_ctrl_c_stops_between_sweeps_and_keeps_them(records, tmp_path):
    command = [sys.executable, "-m", "scdp.cli", "fit", str(records), "--model", "scdp1", "--chains", "2"]
    command += ["--sweeps", "1000000", "--checkpoint-seconds", "0.1", "--out", str(tmp_path / "model")]
    # A job in the background has its interrupts ignored, and so would the command.
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=heed) as process:
        try:
            while not list(tmp_path.glob("model.checkpoint/fit/chain*.npz")) and process.poll() is None:
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            errors = process.communicate(timeout=900)[1]
        finally:
            process.kill()
    assert process.returncode == 130, errors
    assert "keeps what was sampled; go on with the same command and --resume" in errors
    assert "Traceback" not in errors
    assert not (tmp_path / "model").exists()
    assert chains.read_sealed(next(tmp_path.glob("model.checkpoint/fit/chain1.*.npz")))[0]["sweeps"] > 0


def test_two_commands_with_one_output(records, tmp_path):
    with FolderLock(tmp_path / "model.checkpoint"):
        result = run("fit", records, *QUICK, "--out", tmp_path / "model")
        assert result.exit_code == 2
        assert f"another run (process {os.getpid()}) works in it" in result.stderr
    done("fit", records, *QUICK, "--out", tmp_path / "model")


def test_a_full_disk_at_the_end_keeps_the_checkpoint(records, tmp_path, monkeypatch):
    fit = ["fit", records, *QUICK, "--out", tmp_path / "model"]
    with monkeypatch.context() as patched:

        def full(*_):
            raise OSError(28, "No space left on device")

        patched.setattr("scdp.estimators.model_folder._write_files", full)
        result = run(*fit)
    assert result.exit_code == 2
    assert "cannot be written (No space left on device)" in result.stderr
    with monkeypatch.context() as patched:
        patched.setattr("scdp.chains.run.sweep", None)
        done(*fit, "--resume")


def test_a_folder_of_ones_own_keeps_its_other_files(records, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("mine")
    done("fit", records, *QUICK, "--out", tmp_path / "model", "--checkpoint", tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["letter.txt"]
