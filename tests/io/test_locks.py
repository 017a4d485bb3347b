"""Locks and the places of unfinished files: never through a link, never another's file."""

from __future__ import annotations

import os

import pytest

from scdp.errors import InputError
from scdp.io import FolderLock
from scdp.io.atomic import create_exclusively, make_stamp, part_of

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links and pipes of POSIX")


@pytest.fixture
def victim(tmp_path):
    path = tmp_path / "victim"
    path.write_text("mine")
    return path


def locked_folder(tmp_path):
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder"


@pytest.mark.parametrize("make", [os.symlink, os.link])
def test_a_lock_does_not_follow_a_link(tmp_path, victim, make):
    folder = locked_folder(tmp_path)
    make(victim, folder / "lock")
    with pytest.raises(InputError, match="lock: "):
        FolderLock(folder).__enter__()
    assert victim.read_text() == "mine"
    assert (folder / "lock").exists()


def test_a_lock_does_not_wait_for_a_pipe(tmp_path):
    folder = locked_folder(tmp_path)
    os.mkfifo(folder / "lock")
    with pytest.raises(InputError, match="is not a lock of scdp"):
        FolderLock(folder).__enter__()


def test_a_file_of_the_users_own_that_is_called_lock_is_kept(tmp_path):
    folder = locked_folder(tmp_path)
    (folder / "lock").write_text("the key is under the mat")
    with pytest.raises(InputError, match="is not a lock of scdp"):
        FolderLock(folder).__enter__()
    assert (folder / "lock").read_text() == "the key is under the mat"


def test_a_refused_process_leaves_the_lock_as_it_is(tmp_path):
    folder = locked_folder(tmp_path)
    with FolderLock(folder):
        before = (folder / "lock").read_text()
        with pytest.raises(InputError, match="another run"):
            FolderLock(folder).__enter__()
        assert (folder / "lock").read_text() == before
    assert not list(folder.iterdir())


def test_a_lock_holds_on_a_full_disk(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    folder = locked_folder(tmp_path)
    with FolderLock(folder), pytest.raises(InputError, match="another run"):
        FolderLock(folder).__enter__()
    assert not list(folder.iterdir())


def test_places_cannot_be_foreseen_and_are_made_exclusively(tmp_path, victim):
    stamps = {make_stamp() for _ in range(100)}
    assert len(stamps) == 100
    part = part_of(tmp_path / "a.csv", stamps.pop())
    part.symlink_to(victim)
    with pytest.raises(FileExistsError):
        create_exclusively(part)
    assert victim.read_text() == "mine"
