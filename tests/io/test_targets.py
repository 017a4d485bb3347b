"""What a command reads and writes: told apart by identity, never overwritten, replaced only when the user says so."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scdp.errors import InputError
from scdp.io import targets
from scdp.io.targets import Given, check_files, check_folder_target, check_target, is_same_file

pytestmark = pytest.mark.posix


@pytest.fixture
def records(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "linked").symlink_to(tmp_path)
    path = tmp_path / "in.csv"
    path.write_text("id\n1\n")
    (tmp_path / "link.csv").symlink_to(path)
    os.link(path, tmp_path / "second.csv")
    return path


@pytest.mark.parametrize("spelled", ["in.csv", "./in.csv", "sub/../in.csv", "linked/in.csv", "link.csv", "second.csv"])
def test_an_input_is_never_an_output_however_it_is_spelled(records, spelled):
    output = Given("--out", records.parent / spelled)
    for force in (False, True):
        with pytest.raises(InputError, match=r"is named twice, by RECORDS and by --out"):
            check_files([Given("RECORDS", records)], [output], force)


@pytest.mark.parametrize("spelled", ["new.csv", "sub/../new.csv", "linked/new.csv", "NEW.csv"])
def test_outputs_that_are_not_there_yet_are_told_apart_by_their_folder(records, spelled):
    outputs = [Given("--out", records.parent / "new.csv"), Given("--report", records.parent / spelled)]
    with pytest.raises(InputError, match=r"is named twice, by --out and by --report"):
        check_files([], outputs, force=False)


@pytest.mark.parametrize(
    "spelled", ["model/new.csv", "model/deep/er/new.csv", "linked/model/new.csv", "model/x/../new.csv"]
)
def test_nothing_is_written_into_a_folder_that_is_read(records, spelled):
    (records.parent / "model" / "deep").mkdir(parents=True)
    given = [Given("MODEL", records.parent / "model")], [Given("--out", records.parent / spelled)]
    for force in (False, True):
        with pytest.raises(InputError, match=r"lies in the folder .*model, which MODEL reads; give --out"):
            check_files(*given, force)
    check_files(given[0], [Given("--out", records.parent / "models.csv")], force=False)


def test_what_is_only_added_to_may_be_there_and_is_still_a_file_of_its_own(records):
    log = records.with_name("log.jsonl")
    log.write_text("")
    check_files([Given("RECORDS", records)], [], force=False, added=[Given("--out", log)])
    with pytest.raises(InputError, match="is named twice, by RECORDS and by --out"):
        check_files([Given("RECORDS", log)], [], force=False, added=[Given("--out", log)])
    with pytest.raises(InputError, match="is named twice, by --out and by --clusters"):
        check_files([], [Given("--clusters", log)], force=True, added=[Given("--out", log)])


def test_two_files_are_two(records):
    folder = records.parent
    assert not is_same_file(records, folder / "sub" / "in.csv")
    assert not is_same_file(records, folder / "In.csv") or (folder / "In.csv").exists()
    assert not is_same_file(folder / "none" / "a.csv", folder / "nothing" / "a.csv")
    assert is_same_file(folder / "none" / "a.csv", folder / "none" / "a.csv")
    check_files([Given("RECORDS", records)], [Given("--out", folder / "new.csv")], force=False)


def test_what_is_there_is_replaced_only_by_force(records):
    dangling = records.with_name("dangling.csv")
    dangling.symlink_to(records.with_name("gone.csv"))
    for path in (records, dangling):
        with pytest.raises(InputError, match=r"is there already; give --out another name, or --force"):
            check_files([], [Given("--out", path)], force=False)
        check_files([], [Given("--out", path)], force=True)


def test_what_is_carried_over_may_be_updated_by_force(records):
    given = [Given("--known", records)], [Given("--out", records)]
    with pytest.raises(InputError, match="is named twice"):
        check_files(*given, force=False, updated=("--known", "--out"))
    check_files(*given, force=True, updated=("--known", "--out"))
    with pytest.raises(InputError, match="is named twice"):
        check_files(*given, force=True, updated=("--known-records", "--out"))


def test_the_folder_one_is_in_is_no_target(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for folder in (".", "..", str(tmp_path)):
        with pytest.raises(InputError, match="is the folder that you are in, or one around it"):
            check_folder_target(type(tmp_path)(folder))
    check_folder_target(tmp_path / "here" / "model")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anything")
def test_a_file_that_is_only_to_be_read_is_no_target(records):
    records.chmod(0o400)
    with pytest.raises(InputError, match="is only to be read"):
        check_target(records)


AWKWARD = st.one_of(st.text(max_size=6), st.sampled_from(["a,b", "a\tb", '"', "", "\r", "x\ny", " a", "ü", "=1"]))


@settings(deadline=None)
@given(
    st.lists(st.tuples(AWKWARD, st.text("abc1", max_size=3), st.floats(allow_nan=False)), max_size=5),
    st.sampled_from([".csv", ".tsv"]),
    st.sampled_from(["id", "a,b", 'say "a"', ""]),
)
def test_plain_columns_are_written_as_a_writer_writes_them(rows, kind, title):
    """Joined without a writer where no cell needs a quote: the file is the same."""
    columns = {title: [row[0] for row in rows], "cluster": [row[1] for row in rows], "p": [row[2] for row in rows]}
    wanted = targets._delimited(list(columns), zip(*columns.values(), strict=True), targets.DELIMITERS[kind])
    found = targets._join_plain(columns, targets.DELIMITERS[kind])
    assert found in (None, wanted)
    if not any(set(text) & set('\r\n\t,"') for text in (title, *columns[title])) and rows:
        assert found == wanted


def test_columns_of_other_things_are_left_to_the_writer():
    assert targets._join_plain({"a": ["x", None], "b": ["y", "z"]}, ",") is None
    assert targets._join_plain({"a": [True], "b": ["y"]}, ",") is None
    assert targets._join_plain({"a": ["x"]}, ",") is None
