"""Files that appear together or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import duckdb
import numpy as np
import pytest

from product_cases import fitted_folder
from scdp import SCDP
from scdp.errors import InputError
from scdp.io import atomic
from scdp.io.atomic import COMMIT, OLD, Staged, part_of, recover, write_text
from scdp.io.targets import check_table_target, stage_table, write_parquet

RANDOM = "0123456789abcdef"


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
    with pytest.raises(InputError, match=r"a\.parquet: cannot be written \(No space left"), Staged() as staged:
        stage_table(staged, tmp_path / "a.parquet", {"x": ["1"]})
    assert not list(tmp_path.iterdir())


@pytest.mark.posix
@pytest.mark.skipif(os.name != "posix", reason="limits of POSIX")
def test_a_disk_that_fills_up_under_the_database_is_told_with_the_name_of_the_file(tmp_path):
    """DuckDB writes the Parquet files of a result itself, and has errors of its own."""
    import resource

    limits, numbers = resource.getrlimit(resource.RLIMIT_FSIZE), np.random.default_rng(0).random(10**5)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(InputError, match=r"a\.parquet: cannot be written"), Staged() as staged:
            staged.write(tmp_path / "a.parquet", lambda part: write_parquet(part, {"x": numbers}))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
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


@pytest.mark.posix
def test_what_a_killed_process_left_of_a_file_is_removed(tmp_path, dead_process):
    halves = [f".a.csv.{dead_process}-{RANDOM}.part", f".a.csv.{os.getpid()}-{RANDOM}.part"]
    others = [
        f".a.csv.{os.getppid()}-{RANDOM}.part",
        f".b.csv.{dead_process}-{RANDOM}.part",
        f".a_csv.{dead_process}-{RANDOM}.part",
        f".a.csv.{dead_process}-{RANDOM}.part.old",
        f"a.csv.{dead_process}-{RANDOM}.part",
        f".a.csv.{dead_process}.part",
        f".a.csv.{dead_process}-{RANDOM[1:]}.part",
        ".a.csv..part",
        ".keep.part",
    ]
    for name in (*halves, *others):
        (tmp_path / name).write_text("half")
    write_text(tmp_path / "a.csv", "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["a.csv", *others])


@pytest.mark.posix
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


@pytest.mark.posix
@pytest.mark.parametrize("target_is_there", [False, True])
def test_a_model_whose_place_was_being_taken_is_kept(target_is_there, tmp_path, dead_process):
    """Killed between two renames: the model before, or what was beside it, is under another name."""
    model = SCDP.load(fitted_folder() / "model")
    old, half = (tmp_path / f".m.{dead_process}-{RANDOM}.{ending}" for ending in ("old", "part"))
    model.save(old)
    (old / "notes.txt").write_text("mine")
    shutil.copytree(fitted_folder() / "model", half)
    if target_is_there:
        model.save(tmp_path / "m")
    model.save(tmp_path / "m", force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    assert (tmp_path / "m" / "notes.txt").read_text() == "mine"
    assert SCDP.load(tmp_path / "m").model == model.model


# ---- what was there: its mode, its links ----


def test_columns_of_parquet_keep_their_kind_and_what_is_missing(tmp_path):
    columns = {
        'a "quoted" name': ["1", None, "é, ü"],
        "share": [0.1, 0.30000000000000004, 1e-300],
        "some missing": [1.5, None, 2.0],
        "whole": [1, 2, 2**40],
        "true": [True, False, True],
    }
    with Staged() as staged:
        stage_table(staged, tmp_path / "a.parquet", columns)
    found = duckdb.sql(f"from '{tmp_path / 'a.parquet'}'")
    assert [str(kind) for kind in found.types] == ["VARCHAR", "DOUBLE", "DOUBLE", "BIGINT", "BOOLEAN"]
    assert found.columns == list(columns)
    assert found.fetchall() == list(zip(*columns.values(), strict=True))


@pytest.mark.posix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_a_file_keeps_its_mode(tmp_path, mode, name):
    target = tmp_path / name
    target.write_text("old")
    target.chmod(mode)
    with Staged() as staged:
        stage_table(staged, target, {"x": ["1"]})
    assert stat.S_IMODE(target.stat().st_mode) == mode


@pytest.mark.posix
def test_a_file_keeps_its_owner_where_it_may_be_given_away(tmp_path, monkeypatch):
    target, given = tmp_path / "a.txt", []
    write_text(target, "old")
    before = target.stat()

    def give(path, user, group):
        given.append((Path(path).name.startswith(".a.txt."), user, group))
        # As for anybody but root.
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "chown", give)
    write_text(target, "new")
    assert given == [(True, before.st_uid, before.st_gid)]
    assert target.read_text() == "new"


@pytest.mark.posix
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may give files away")
def test_what_root_replaces_stays_the_file_of_its_owner(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")
    os.chown(target, 12345, 12346)
    write_text(target, "new")
    assert (target.stat().st_uid, target.stat().st_gid) == (12345, 12346)


@pytest.mark.posix
def test_a_new_file_has_the_mode_that_the_user_has_set(tmp_path):
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "a.txt", "new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o640


@pytest.mark.posix
def test_what_is_closed_to_others_is_never_open_while_it_is_written(tmp_path):
    target, seen = tmp_path / "a.txt", []
    target.write_text("old")
    target.chmod(0o600)

    def look(part: Path) -> None:
        seen.append(stat.S_IMODE(part.stat().st_mode))
        part.write_text("new")

    with Staged() as staged:
        staged.write(target, look)
    assert seen == [0o600]


@pytest.mark.posix
@pytest.mark.parametrize("target_is_there", [False, True])
def test_a_link_is_written_through(tmp_path, target_is_there):
    (tmp_path / "real").mkdir()
    real, link = tmp_path / "real" / "a.txt", tmp_path / "a.txt"
    if target_is_there:
        real.write_text("old")
    link.symlink_to(real)
    write_text(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    assert [path.name for path in (tmp_path / "real").iterdir()] == ["a.txt"]


def test_what_came_in_the_meantime_is_not_replaced(tmp_path):
    def write_beside_another(target: Path) -> None:
        with Staged(replace=False) as staged:
            staged.text(target, "new")
            target.write_text("another's")

    with pytest.raises(InputError, match="is there now, and was not before"):
        write_beside_another(tmp_path / "a.txt")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["another's"]


# ---- sets ----

SET = ("a.txt", "b.txt", "c.txt")


def write_set(folder: Path, content: str) -> None:
    with Staged() as staged:
        for name in SET:
            staged.text(folder / name, content)


def contents(folder: Path) -> list[str]:
    return [(folder / name).read_text() if (folder / name).exists() else "" for name in SET]


@pytest.mark.parametrize("before", ["", "old"])
@pytest.mark.parametrize("failing", range(1, 4))
def test_a_rename_that_fails_undoes_the_others(tmp_path, monkeypatch, before, failing):
    if before:
        write_set(tmp_path, before)
    renames, really = [0], Path.replace

    def fail(self: Path, target: Path) -> Path:
        if self.name.endswith(".part"):
            renames[0] += 1
            if renames[0] == failing:
                raise OSError(5, "Input/output error")
        return really(self, target)

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(InputError, match="cannot be written"):
        write_set(tmp_path, "new")
    assert contents(tmp_path) == [before] * 3
    assert len(list(tmp_path.iterdir())) == (3 if before else 0)


KILLED = """
import os, signal, sys
from pathlib import Path
from scdp.io import atomic
steps = [0]
def counted(function):
    def step(*arguments, **more):
        steps[0] += 1
        if steps[0] == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **more)
    return step
for place, name in ((os, "fsync"), (os, "link"), (Path, "replace"), (Path, "unlink"), (os, "close")):
    setattr(place, name, counted(getattr(place, name)))
with atomic.Staged() as staged:
    for name in ("a.txt", "b.txt", "c.txt"):
        staged.text(Path(sys.argv[1]) / name, "new")
"""


@pytest.mark.posix
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("before", ["", "old"])
def test_a_set_is_all_old_or_all_new_wherever_its_writer_is_killed(tmp_path, before):
    """For every step of writing three files, which is a system call each."""
    seen = set()
    for step in range(1, 100):
        folder = tmp_path / str(step)
        folder.mkdir()
        if before:
            write_set(folder, before)
        command = [sys.executable, "-c", KILLED, str(folder), str(step)]
        ended = subprocess.run(command, check=False).returncode
        recover(folder)
        assert contents(folder) in ([before] * 3, ["new"] * 3), step
        assert not list(folder.glob(f".*{COMMIT}")), step
        assert not list(folder.glob(f".*{OLD}")), step
        seen.add(contents(folder)[0])
        write_set(folder, "newer")
        assert sorted(path.name for path in folder.iterdir()) == list(SET), step
        if ended == 0:
            break
    assert ended == 0
    assert seen == {before, "new"}


def test_the_set_of_a_process_that_lives_is_left_alone(tmp_path):
    other = f"{os.getppid()}-{RANDOM}"
    part_of(tmp_path / "a.txt", other).write_text("new")
    part_of(tmp_path / "a.txt", other, COMMIT).write_text(f'["{tmp_path / "a.txt"}"]')
    recover(tmp_path)
    assert not (tmp_path / "a.txt").exists()
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.posix
@pytest.mark.parametrize("note", ["", "[", "{}", "[1]", '["/nowhere/else.txt"]'])
def test_a_note_that_is_none_changes_nothing(tmp_path, dead_process, note):
    (tmp_path / "a.txt").write_text("old")
    (tmp_path / f".a.txt.{dead_process}-{RANDOM}{COMMIT}").write_text(note)
    recover(tmp_path)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


@pytest.mark.posix
def test_notes_of_other_users_are_not_believed(tmp_path, dead_process, monkeypatch):
    stamp = f"{dead_process}-{RANDOM}"
    part_of(tmp_path / "a.txt", stamp).write_text("planted")
    part_of(tmp_path / "a.txt", stamp, COMMIT).write_text(f'["{tmp_path / "a.txt"}"]')
    monkeypatch.setattr(atomic.os, "geteuid", lambda: os.getuid() + 1, raising=False)
    recover(tmp_path)
    assert not (tmp_path / "a.txt").exists()
