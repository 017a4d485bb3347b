"""Files that appear together or not at all."""

from __future__ import annotations

import os

import pytest

from scdp.errors import InputError
from scdp.files import Staged, check_table_target, stage_table


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
