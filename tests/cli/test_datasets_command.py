"""`scdp datasets`: the table, the paths and the fetching, on sets made here."""

from __future__ import annotations

import hashlib

import pytest
from click.testing import CliRunner

from scdp.cli.demo_commands import datasets
from scdp.errors import DataNotFoundError, InputError
from scdp.paper import files as sources

CONTENT = b"some records"
DIGEST = hashlib.sha256(CONTENT).hexdigest()


def made_source(name: str, *paths: str) -> sources.Source:
    files = tuple(sources.File(path, len(CONTENT), DIGEST) for path in paths)
    return sources.Source(name, "load_it", 12, 3, "CC0", "we wrote it", "nobody", files)


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("SCDP_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("SCDP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SCDP_OFFLINE", "1")
    monkeypatch.setattr(sources, "_SOURCES", (made_source("whole", "raw/a.csv"), made_source("half", "a", "b")))
    monkeypatch.setattr("scdp.cli.demo_commands.NAMES", ("whole", "half"))
    for place in ("whole/raw/a.csv", "half/a"):
        (tmp_path / "data" / place).parent.mkdir(parents=True)
        (tmp_path / "data" / place).write_bytes(CONTENT)
    return tmp_path / "data"


def run(*arguments):
    return CliRunner().invoke(datasets, arguments)


def test_list_is_an_aligned_table(folder):
    lines = run("list").output.splitlines()
    assert lines[0] == "name   records  clusters  licence  where"
    assert lines[2] == f"whole       12         3  CC0      {folder / 'whole'}"
    assert lines[3] == "half        12         3  CC0      without b"
    (folder / "half" / "a").unlink()
    assert run("list").output.splitlines()[3].endswith("not here")


def test_list_of_the_real_sets_names_them_all(monkeypatch, tmp_path):
    monkeypatch.setenv("SCDP_DATA", str(tmp_path))
    monkeypatch.setenv("SCDP_CACHE", str(tmp_path))
    lines = run("list").output.splitlines()
    assert [line.split()[0] for line in lines[2:]] == list(sources.NAMES)
    assert all(line.endswith("not here") for line in lines[2:])


def test_path_shows_files_and_checks_them(folder):
    assert run("path", "whole").output == f"{folder / 'whole/raw/a.csv'}\n"
    assert run("path", "whole", "--check").output.endswith("a.csv: digest is right\n")
    (folder / "whole/raw/a.csv").write_bytes(b"other")
    assert run("path", "whole").exit_code == 0
    result = run("path", "--check", "whole")
    assert "digest differs" in result.output
    assert isinstance(result.exception, DataNotFoundError)


def test_path_of_an_incomplete_set_names_what_is_missing(folder):
    result = run("path", "half")
    assert str(folder / "half/a") in result.output
    assert isinstance(result.exception, DataNotFoundError)
    assert "b missing" in str(result.exception)


def test_unknown_sets_are_refused(folder):
    for command in ("path", "fetch"):
        result = run(command, "nothing")
        assert isinstance(result.exception, InputError)
        assert "there are: " in str(result.exception)


def test_fetch_passes_over_what_is_here_and_says_what_cannot_be_had(folder):
    assert run("fetch", "whole").output == "whole/raw/a.csv: already here\n"
    result = run("fetch", "all")
    assert "half/a: already here\nhalf/b: not fetched\n" in result.output
    assert "no public copy" in str(result.exception)


def test_fetch_does_not_hide_a_foreign_file_in_the_data_folder(folder):
    (folder / "whole/raw/a.csv").write_bytes(b"other")
    result = run("fetch", "whole")
    assert isinstance(result.exception, InputError)
    assert "SHA-256 differs" in str(result.exception)
