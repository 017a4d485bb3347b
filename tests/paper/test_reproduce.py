import json
import os
import time
from importlib.resources import files

import numpy as np
import pytest
from click.testing import CliRunner

from loaded_processes import run_loaded, start_loaded
from scdp._compile import cache_folder
from scdp.cli import main

SCHEMA = json.loads(files("scdp.paper").joinpath("results_schema.json").read_text())
TIMES = ("seconds", "sweep_seconds")
SMALL = ["--chains", "2", "--sweeps", "6", "--quick"]


def reproduce(*arguments):
    return CliRunner().invoke(main, ["reproduce", *map(str, arguments)])


def without_times(path):
    return [{key: value for key, value in row.items() if key not in TIMES} for row in json.loads(path.read_text())]


@pytest.fixture
def no_data(tmp_path, monkeypatch):
    """A machine without data sets and network, but with compiled kernels: making them anew takes a minute."""
    kernels = cache_folder()
    if kernels is not None:
        (tmp_path / "cache" / "scdp").mkdir(parents=True)
        (tmp_path / "cache" / "scdp" / "kernels").symlink_to(kernels.parent, target_is_directory=True)
    monkeypatch.setenv("SCDP_DATA", str(tmp_path / "nothing"))
    monkeypatch.setenv("SCDP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SCDP_OFFLINE", "1")


def test_digits_fall_back_to_bundled_ones_and_say_so(no_data, tmp_path):
    jsonschema = pytest.importorskip("jsonschema")
    out = tmp_path / "out"
    result = reproduce("digits", "--out", out, "--systems", "coarse,fine,cdp,scdp1,scdp2", *SMALL)
    assert result.exit_code == 0, result.stderr
    rows = json.loads((out / "results.json").read_text())
    jsonschema.validate(rows, SCHEMA)
    assert [row["system"] for row in rows] == ["coarse", "fine", "cdp", "scdp1", "scdp2"]
    assert all("bundled with scikit-learn" in row["data"] for row in rows)
    assert all(row["paper"]["f"] >= 0 for row in rows)
    assert [row["chains"] for row in rows] == [None, None, 2, 2, 2]
    assert rows[1]["clusters"] == rows[1]["items"]
    assert rows[3]["draws"]["spread"] is not None
    assert {row["features"] for row in rows} == {"unit"}
    assert "digits data: The digits bundled with scikit-learn, in place of USPS" in result.stderr
    text = (out / "results.md").read_text()
    assert "bundled with scikit-learn" in text
    assert "(.666)" in text


def test_raw_features_are_asked_for_by_name(no_data, tmp_path):
    arguments = ["digits", "--systems", "coarse,cdp", "--features", "raw", *SMALL]
    assert reproduce(*arguments, "--out", tmp_path / "out").exit_code == 0
    rows = json.loads((tmp_path / "out" / "results.json").read_text())
    assert [(row["system"], row["features"]) for row in rows] == [("coarse", "raw"), ("cdp", "raw")]
    assert "as the paper's numbers imply" in rows[1]["note"]
    assert reproduce(*arguments[:3], "--features", "big", "--out", tmp_path / "other").exit_code == 2


@pytest.mark.parametrize(
    ("task", "file"),
    [
        ("identity", "acl-authors/acl_authors_1400.csv"),
        ("coreference", "gum-propn/raw/gum_dep_conllu_6genres.tar.gz"),
        ("references", "cora-ksf-1916/raw/coraATDV.txt"),
        ("all", "acl-authors/acl_authors_1400.csv"),
    ],
)
def test_missing_data_is_one_sentence_and_nothing_is_written(no_data, tmp_path, task, file):
    """Which file, where it was looked for, and how to get it."""
    result = reproduce(task, "--out", tmp_path / "out", *SMALL)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert f"{file} is not in {tmp_path / 'nothing'} or {tmp_path / 'cache'}" in result.stderr
    assert "put the file there" in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "there is no task 'nonsense'; there are: digits"),
        (["digits", "--systems", "nonsense"], "there is no system 'nonsense'; there are: coarse"),
        (["digits", "--sweeps", "0"], "--sweeps must be at least 2, not 0"),
        (["digits", "--systems", "samehead"], "no system of samehead applies to digits"),
    ],
)
def test_wrong_options_are_one_sentence(no_data, tmp_path, arguments, message):
    result = reproduce(*arguments, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_used_folder_is_refused_and_resuming_changes_nothing(no_data, tmp_path):
    arguments = ["digits", "--out", tmp_path / "out", "--systems", "coarse,scdp1", *SMALL]
    assert reproduce(*arguments).exit_code == 0
    first = (tmp_path / "out" / "results.json").read_bytes()
    again = reproduce(*arguments)
    assert again.exit_code == 2
    assert "go on with it by --resume" in again.stderr
    assert reproduce(*arguments, "--resume").exit_code == 0
    assert (tmp_path / "out" / "results.json").read_bytes() == first
    other = reproduce(*arguments[:5], "--sweeps", 7, "--resume")
    assert other.exit_code == 2
    assert "holds a run with" in other.stderr


def test_a_run_does_not_depend_on_which_parts_it_finds(no_data, tmp_path):
    arguments = ["digits", "--systems", "coarse,cdp,scdp1", "--repeats", "2", *SMALL]
    assert reproduce(*arguments, "--out", tmp_path / "whole").exit_code == 0
    assert reproduce(*arguments, "--out", tmp_path / "broken").exit_code == 0
    for name in ("digits.cdp.unit.1.part.json", "digits.scdp1.unit.0.part.json"):
        (tmp_path / "broken" / "parts" / name).unlink()
    assert reproduce(*arguments, "--out", tmp_path / "broken", "--resume").exit_code == 0
    assert without_times(tmp_path / "broken" / "results.json") == without_times(tmp_path / "whole" / "results.json")
    assert json.loads((tmp_path / "whole" / "results.json").read_text())[2]["repeats"] == 2


def test_killed_at_any_moment_it_ends_the_same(no_data, tmp_path):
    arguments = ["digits", "--systems", "coarse,fine,cdp,scdp1,scdp2", *SMALL]
    assert reproduce(*arguments, "--out", tmp_path / "whole").exit_code == 0
    out = tmp_path / "killed"
    command = ["reproduce", *arguments, "--out", str(out), "--resume"]
    parts = out / "parts"
    for wanted in (1, 3):
        with start_loaded(command) as process:
            while process.poll() is None and len(list(parts.glob("*.part.json"))) < wanted:
                time.sleep(0.005)
            process.kill()
    assert not (out / "results.json").exists()
    assert run_loaded(command).returncode == 0
    assert without_times(out / "results.json") == without_times(tmp_path / "whole" / "results.json")


def test_killed_at_random_moments_it_ends_the_same(no_data, tmp_path):
    """Moments are spread over the whole of a run: its start, its parts, and the writing of its results."""
    arguments = ["digits", "--systems", "coarse,fine,cdp", *SMALL]

    def started(out):
        return start_loaded(["reproduce", *arguments, "--out", out, "--resume"])

    begin = time.monotonic()
    with started(tmp_path / "whole") as process:
        assert process.wait(900) == 0
    length = time.monotonic() - begin
    for share in np.random.default_rng(0).uniform(0.2, 1.0, 3):
        with started(tmp_path / "killed") as process:
            time.sleep(share * length)
            process.kill()
    with started(tmp_path / "killed") as process:
        assert process.wait(900) == 0
    assert without_times(tmp_path / "killed" / "results.json") == without_times(tmp_path / "whole" / "results.json")


class Death(BaseException):
    """Stands for the end of the process: nothing catches it, nothing is tidied up."""


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_dying_at_each_step_of_writing_it_ends_the_same(no_data, tmp_path, monkeypatch, step):
    arguments = ["digits", "--systems", "coarse,fine", "--quick", "--resume", "--out"]
    assert reproduce(*arguments, tmp_path / "whole").exit_code == 0
    expected = without_times(tmp_path / "whole" / "results.json")
    original, deaths, finished = os.replace if step == "replace" else os.fsync, 0, False
    while not finished:
        left = [deaths]

        def counted(*given, left=left, **named):
            if not left[0]:
                raise Death
            left[0] -= 1
            return original(*given, **named)

        with monkeypatch.context() as patched:
            if step == "replace":
                patched.setattr("pathlib.Path.replace", counted)
            else:
                patched.setattr(os, "fsync", counted)
            try:
                finished = reproduce(*arguments, tmp_path / "out").exit_code == 0
            except Death:
                deaths += 1
        if (tmp_path / "out" / "results.json").exists():
            assert without_times(tmp_path / "out" / "results.json") == expected
    assert deaths >= 4
    assert without_times(tmp_path / "out" / "results.json") == expected
    assert not list((tmp_path / "out" / "parts").glob(".*"))


def test_real_digits(data_or_skip, tmp_path, monkeypatch):
    monkeypatch.setenv("SCDP_OFFLINE", "1")
    with data_or_skip():
        from scdp.paper.datasets import load_usps

        load_usps()
    assert reproduce("digits", "--out", tmp_path, "--systems", "coarse,fine", "--quick").exit_code == 0
    rows = json.loads((tmp_path / "results.json").read_text())
    assert all(row["data"].startswith("USPS") for row in rows)
    assert abs(rows[0]["metrics"]["vi"] - rows[0]["paper"]["vi"]) < 0.15


def test_a_system_that_fails_leaves_the_others_and_is_tried_again(no_data, tmp_path, monkeypatch):
    class Broken:
        def get_params(self):
            raise RuntimeError("out of luck")

    arguments = ["digits", "--systems", "coarse,fine", "--quick", "--out", tmp_path / "out"]
    with monkeypatch.context() as patched:
        patched.setattr("scdp.paper.baselines.Fine", Broken)
        result = reproduce(*arguments)
    assert result.exit_code == 1
    assert "digits Fine failed (RuntimeError: out of luck)" in result.stderr
    assert [row["system"] for row in json.loads((tmp_path / "out" / "results.json").read_text())] == ["coarse"]
    assert "digits Fine failed" in (tmp_path / "out" / "results.md").read_text()
    assert reproduce(*arguments, "--resume").exit_code == 0
    rows = json.loads((tmp_path / "out" / "results.json").read_text())
    assert [row["system"] for row in rows] == ["coarse", "fine"]
    assert "failed" not in (tmp_path / "out" / "results.md").read_text()
