"""Files that appear together or not at all."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys

import pytest

from product_cases import fitted_folder
from scdp import SCDP
from scdp.errors import InputError
from scdp.io.atomic import Staged, check_table_target, stage_table, write_text


def test_files_appear_when_all_are_written(tmp_path):
    with Staged() as staged:
        staged.text(tmp_path / "a.txt", "one")
        stage_table(staged, tmp_path / "b.csv", {"x": ["1,5", None]})
        assert not (tmp_path / "a.txt").exists()
    assert (tmp_path / "a.txt").read_text() == "one"
    assert (tmp_path / "b.csv").read_bytes() == b'x\n"1,5"\n""\n'
    assert len(list(tmp_path.iterdir())) == 2


def write_two_and_stop(folder):
    with Staged() as staged:
        staged.text(folder / "a.txt", "new")
        staged.text(folder / "b.txt", "new")
        raise KeyboardInterrupt


def test_none_appears_when_one_fails(tmp_path):
    (tmp_path / "a.txt").write_text("old")
    with pytest.raises(KeyboardInterrupt):
        write_two_and_stop(tmp_path)
    assert (tmp_path / "a.txt").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_full_disk_is_told_with_the_name_of_the_file(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with (
        pytest.raises(InputError, match=r"a\.parquet: cannot be written \(No space left"),
        Staged() as staged,
    ):
        stage_table(staged, tmp_path / "a.parquet", {"x": ["1"]})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["a", "a.xlsx", "a.csv.gz"])
def test_the_kind_of_a_table_is_in_its_name(name, tmp_path):
    with pytest.raises(InputError, match="the kind of file cannot be told"):
        check_table_target(tmp_path / name)


@pytest.fixture
def dead_process():
    """The number of a process that is no more."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    return process.pid


def test_what_a_killed_process_left_of_a_file_is_removed(tmp_path, dead_process):
    halves = [
        f".a.csv.{dead_process}.part",
        f".a.csv.{dead_process}.part.jsonl",
        f".a.csv.{os.getpid()}.part",
    ]
    others = [
        f".a.csv.{os.getppid()}.part",
        f".b.csv.{dead_process}.part",
        f".a_csv.{dead_process}.part",
        f".a.csv.{dead_process}.part.old",
        f"a.csv.{dead_process}.part",
        ".a.csv..part",
    ]
    for name in (*halves, *others):
        (tmp_path / name).write_text("half")
    write_text(tmp_path / "a.csv", "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["a.csv", *others])


def test_a_killed_writer_leaves_nothing_once_the_file_is_written(tmp_path):
    """The process dies by SIGKILL while its file is half there."""
    code = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom scdp.io.atomic import Staged\n"
        "with Staged() as staged:\n    staged.text(Path(sys.argv[1]), 'new')\n    os.kill(os.getpid(), signal.SIGKILL)"
    )
    target = tmp_path / "a.txt"
    target.write_text("old")
    assert subprocess.run([sys.executable, "-c", code, target], check=False).returncode == -signal.SIGKILL
    assert target.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 2
    write_text(target, "newer")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["newer"]


@pytest.mark.parametrize("target_is_there", [False, True])
def test_a_model_whose_place_was_being_taken_is_kept(target_is_there, tmp_path, dead_process):
    """Killed between two renames: the model before, or what was beside it, is under another name."""
    model = SCDP.load(fitted_folder() / "model")
    old, half = (tmp_path / f".m.{dead_process}.{ending}" for ending in ("old", "part"))
    model.save(old)
    (old / "notes.txt").write_text("mine")
    shutil.copytree(fitted_folder() / "model", half)
    if target_is_there:
        model.save(tmp_path / "m")
    model.save(tmp_path / "m", force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    assert (tmp_path / "m" / "notes.txt").read_text() == "mine"
    assert SCDP.load(tmp_path / "m").model == model.model
