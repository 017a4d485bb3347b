"""The folder of a store: never made in another's folder, and only its own files are removed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from estimators.test_decided import fitted, people
from scdp.errors import InputError
from scdp.store import Store, files

RANDOM = "0123456789abcdef"


@pytest.fixture
def dead_process():
    """The number of a process that is no more."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    return process.pid


def test_a_model_of_the_users_own_is_not_replaced_by_that_of_a_store(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.json").write_text("mine")
    with pytest.raises(InputError, match="is there and is no store"):
        Store.create(tmp_path, fitted())
    assert (tmp_path / "model" / "model.json").read_text() == "mine"


@pytest.mark.posix
@pytest.mark.parametrize("left", ["lock", ".model.{}-{}.part", ".store.json.{}-{}.part"])
def test_a_store_is_made_where_a_killed_process_had_begun_one(tmp_path, dead_process, left):
    place = tmp_path / left.format(dead_process, RANDOM)
    if "model" in left:
        place.mkdir()
        (place / "arrays.npz").write_bytes(b"half")
    else:
        place.write_text("")
        fitted().save(tmp_path / "model")
    assert not Store.create(tmp_path, fitted()).entities
    assert {path.name for path in tmp_path.iterdir()} <= {"model", "store.json", place.name} - {"lock"}


def test_a_store_that_cannot_be_finished_leaves_nothing_in_the_way(tmp_path, monkeypatch):
    def fail(*_):
        raise InputError("the disk is full")

    monkeypatch.setattr(files, "write_manifest", fail)
    with pytest.raises(InputError, match="the disk is full"):
        Store.create(tmp_path, fitted())
    monkeypatch.undo()
    assert not os.listdir(tmp_path)
    Store.create(tmp_path, fitted())


def test_files_of_similar_names_are_kept(tmp_path):
    records, _, _ = people(60, 2)
    store = Store.create(tmp_path, fitted())
    mine = ("records-7.parquet", "events-12.jsonl", "records-old.parquet")
    for name in mine:
        (tmp_path / name).write_text("mine")
    left = tmp_path / "events-1.jsonl"
    left.write_text("half")
    store.update(records)
    assert all((tmp_path / name).read_text() == "mine" for name in mine)
    assert left.read_text() != "half"


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("name", ["records-1.parquet", "events-1.jsonl"])
def test_a_store_with_a_changed_bit_is_refused(tmp_path, name):
    Store.create(tmp_path, fitted()).update(people(60, 2)[0])
    flip_a_bit(tmp_path / name)
    with pytest.raises(InputError, match=f"{name}: is not as it was written; bring back a copy"):
        Store(tmp_path)


@pytest.mark.parametrize(("old", "new"), [('"generation": 1', '"generation": 0'), ('"files"', '"filed"')])
def test_a_list_of_files_that_was_edited_is_refused(tmp_path, old, new):
    Store.create(tmp_path, fitted()).update(people(60, 2)[0])
    manifest = tmp_path / "store.json"
    manifest.write_text(manifest.read_text().replace(old, new))
    with pytest.raises(InputError, match="damaged or of another version"):
        Store(tmp_path)
