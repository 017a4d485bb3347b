"""Outputs of commands: no input is overwritten, nothing is replaced unasked, and all of a set appear or none."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import stat
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import duckdb
import pytest

from product_cases import QUICK, done, fitted_folder, run
from scdp.io import atomic

pytestmark = pytest.mark.filterwarnings("ignore::scdp.posterior.recorder.ConvergenceWarning")


@pytest.fixture
def folder(tmp_path):
    """A copy of the model and its files, with a folder and a link to spell paths with."""
    shutil.copytree(fitted_folder(), tmp_path / "f")
    (tmp_path / "f" / "sub").mkdir()
    (tmp_path / "f" / "linked").symlink_to(tmp_path / "f")
    (tmp_path / "f" / "known.csv").write_text("id,cluster\n", encoding="utf-8")
    shutil.copytree(kept_result(), tmp_path / "f" / "res")
    (tmp_path / "f" / "picture.svg").symlink_to(tmp_path / "f" / "test.csv")
    (tmp_path / "f" / "log.jsonl").write_text('{"id": "1", "title": "a"}\n{"id": "2", "title": "b"}\n')
    with duckdb.connect(str(tmp_path / "f" / "data.duckdb")) as connection:
        connection.execute(f"CREATE TABLE t AS SELECT * FROM read_csv('{tmp_path / 'f' / 'test.csv'}')")
    return tmp_path / "f"


@cache
def kept_result() -> Path:
    """A result, made once, only to be read."""
    place = Path(mkdtemp(prefix="scdp-result-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    model, records = fitted_folder() / "model", fitted_folder() / "test.csv"
    done("cluster", model, records, "--out", place / "c.csv", "--draws", place / "res", "--quiet")
    return place / "res"


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


CLUSTER = ("cluster", "model", "test.csv")
QUERY = ("query", "res", "SELECT count(*) AS n FROM records")
OVERWRITING = [
    (*CLUSTER, "--out", "sub/../test.csv"),
    (*CLUSTER, "--out", "linked/test.csv"),
    (*CLUSTER, "--out", "new.csv", "--uncertain", "linked/test.csv"),
    (*CLUSTER, "--out", "new.csv", "--known", "known.csv", "--known-records", "train.csv", "--report", "train.csv"),
    (*CLUSTER, "--known", "known.csv", "--known-records", "train.csv", "--out", "sub/../train.csv"),
    (*CLUSTER, "--known", "known.csv", "--out", "new.csv", "--summary", "linked/known.csv"),
    (*CLUSTER, "--out", "new.csv", "--summary", "model/model.json"),
    (*CLUSTER, "--out", "model/records.jsonl"),
    (*CLUSTER, "--out", "new.csv", "--report", "linked/model/spec.toml"),
    (*CLUSTER, "--out", "new.csv", "--draws", "model"),
    (*CLUSTER, "--out", "new.csv", "--draws", "sub/../model"),
    (*CLUSTER, "--out", "new.csv", "--checkpoint", "model"),
    ("fit", "train.csv", "--write-spec", "train.csv"),
    ("fit", "train.csv", "--write-spec", "sub/../train.csv"),
    ("fit", "train.csv", "--spec", "spec.toml", "--write-spec", "linked/spec.toml"),
    ("fit", "train.csv", "--spec", "model/spec.toml", "--out", "model", *QUICK),
    ("fit", "model/records.jsonl", "--entity", "title", "--out", "sub/../model", *QUICK),
    (*CLUSTER, "--out", "new.csv", "--draws", "."),
    ("cluster", "res/model", "test.csv", "--out", "new.csv", "--draws", "res"),
    ("cluster", "model", "duckdb:data.duckdb?SELECT * FROM t", "--out", "new.csv", "--summary", "data.duckdb"),
    ("fit", "duckdb:data.duckdb?SELECT * FROM t", "--write-spec", "sub/../data.duckdb"),
    ("link", "model", "train.csv", "test.csv", "--out", "linked/test.csv"),
    (*QUERY, "--out", "res/clusters.parquet"),
    (*QUERY, "--out", "linked/res/model/records.jsonl"),
    ("estimate", "res", "--draw", "5", "--out", "res/new.csv"),
    ("explain", "model", "test.csv", "r1", "r2", "--picture", "picture.svg"),
    ("label", "log.jsonl", "--out", "log.jsonl", "--terminal"),
    ("label", "test.csv", "--out", "new.jsonl", "--clusters", "linked/test.csv", "--terminal"),
]  # fmt: skip


@pytest.mark.parametrize("force", [(), ("--force",)])
@pytest.mark.parametrize("arguments", OVERWRITING, ids=" ".join)
def test_no_input_is_overwritten(folder, monkeypatch, arguments, force):
    monkeypatch.chdir(folder)
    before = everything(folder)
    result = run(*arguments, *force)
    assert result.exit_code == 2, result.output
    assert re.search("is named twice|lies in the folder", result.stderr)
    assert everything(folder) == before


@pytest.mark.parametrize(
    "arguments",
    [
        ("review", "res", "--decisions", "res/model/records.jsonl", "--terminal"),
        ("update", "res", "test.csv", "--model", "model"),
        ("update", "res", "res/records.parquet", "--model", "model"),
        ("update", "test.csv", "test.csv", "--model", "model"),
    ],
    ids=" ".join,
)
def test_what_has_no_force_overwrites_nothing_either(folder, monkeypatch, arguments):
    monkeypatch.chdir(folder)
    before = everything(folder)
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert re.search("lies in|is there and is no store|needs a resolver", result.stderr)
    assert everything(folder) == before


WRITING = [
    ((*CLUSTER, "--out", "new.csv"), "new.csv"),
    ((*CLUSTER, "--out", "new.csv"), "new.uncertain.csv"),
    ((*CLUSTER, "--out", "new.csv", "--report", "r.html"), "r.html"),
    ((*CLUSTER, "--out", "new.csv", "--draws", "draws"), "draws/result.json"),
    ((*CLUSTER, "--out", "new.csv", "--summary", "s.json"), "s.json"),
    ((*CLUSTER, "--out", "new.csv", "--spreadsheet", "s.tsv"), "s.tsv"),
    (("fit", "train.csv", "--spec", "spec.toml", "--out", "other", *QUICK), "other/model.json"),
]


@pytest.mark.parametrize(("arguments", "there"), WRITING, ids=lambda value: value if isinstance(value, str) else "")
def test_nothing_is_replaced_without_force(folder, monkeypatch, arguments, there):
    monkeypatch.chdir(folder)
    Path(there).parent.mkdir(exist_ok=True)
    Path(there).write_text("mine")
    before = everything(folder)
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert "is there already" in result.stderr
    assert "--force" in result.stderr
    assert everything(folder) == before
    done(*arguments, "--force")
    assert Path(there).read_bytes() != b"mine"


def test_known_clusters_are_kept_up_to_date_in_one_file_by_force(folder, monkeypatch):
    monkeypatch.chdir(folder)
    done(*CLUSTER, "--out", "c.csv", "--quiet")
    update = (*CLUSTER, "--known", "c.csv", "--out", "c.csv", "--quiet")
    assert run(*update).exit_code == 2
    before = {line.rpartition(b",")[0] for line in Path("c.csv").read_bytes().splitlines()}
    done(*update, "--force")
    assert {line.rpartition(b",")[0] for line in Path("c.csv").read_bytes().splitlines()} == before


def test_files_keep_their_modes_and_links_stay_links(folder, monkeypatch):
    monkeypatch.chdir(folder)
    done(*CLUSTER, "--out", "c.csv", "--summary", "real.json", "--quiet")
    Path("c.csv").chmod(0o600)
    Path("s.json").symlink_to("real.json")
    done(*CLUSTER, "--out", "c.csv", "--summary", "s.json", "--quiet", "--force")
    assert stat.S_IMODE(Path("c.csv").stat().st_mode) == 0o600
    assert Path("s.json").is_symlink()


def test_a_model_keeps_its_modes(folder, monkeypatch):
    monkeypatch.chdir(folder)
    Path("model").chmod(0o700)
    Path("model/records.jsonl").chmod(0o600)
    done("fit", "train.csv", "--spec", "spec.toml", "--out", "model", *QUICK, "--quiet", "--force")
    modes = [stat.S_IMODE(Path(name).stat().st_mode) for name in ("model", "model/records.jsonl")]
    assert modes == [0o700, 0o600]


@pytest.mark.parametrize("failing", range(1, 6))
def test_outputs_appear_together_or_not_at_all(folder, monkeypatch, failing):
    monkeypatch.chdir(folder)
    outputs = ("--out", "c.csv", "--report", "r.html", "--summary", "s.json", "--draws", "draws")
    done(*CLUSTER, *outputs, "--quiet", "--seed", "1")
    before, renamed, really = everything(folder), [0], atomic._replace

    def fail(part: Path, target: Path) -> None:
        # A checkpoint that cannot be written is no reason to stop.
        renamed[0] += not target.name.startswith((".", "chain"))
        if renamed[0] == failing:
            raise atomic.cannot_write(target, OSError(28, "No space left on device"))
        really(part, target)

    monkeypatch.setattr(atomic, "_replace", fail)
    result = run(*CLUSTER, *outputs, "--quiet", "--seed", "2", "--force")
    shutil.rmtree("c.csv.checkpoint", ignore_errors=True)
    assert result.exit_code == 2
    assert everything(folder) == before


def test_the_folder_one_is_in_does_not_become_a_model(folder, monkeypatch):
    monkeypatch.chdir(folder / "sub")
    for where in (".", ".."):
        result = run("fit", folder / "train.csv", "--out", where, *QUICK, "--force")
        assert result.exit_code == 2
        assert "is the folder that you are in" in result.stderr


def test_no_store_is_made_in_the_model_that_is_read(folder, monkeypatch):
    monkeypatch.chdir(folder)
    before = everything(folder)
    result = run("update", "linked/model/store", "test.csv", "--model", "model")
    assert result.exit_code == 2, result.output
    assert "linked/model/store: lies in the folder model, which --model reads" in result.stderr
    assert everything(folder) == before


def test_a_model_of_its_own_does_not_become_half_a_result(folder, monkeypatch):
    shutil.copytree(folder / "model", folder / "sub" / "model")
    monkeypatch.chdir(folder)
    before = everything(folder)
    result = run("cluster", "model", "test.csv", "--out", "new.csv", "--draws", "sub", "--force")
    assert result.exit_code == 2, result.output
    assert "sub/model: is a model of no result; give another --draws" in result.stderr
    assert everything(folder) == before


def test_clusters_into_a_folder_are_refused_in_a_sentence(folder, monkeypatch):
    monkeypatch.chdir(folder)
    result = run(*CLUSTER, "--out", ".")
    assert result.exit_code == 2
    assert "the kind of file cannot be told" in result.stderr


# ---- checkpoints beside the output ----


def test_files_of_similar_names_are_not_deleted(folder, monkeypatch):
    monkeypatch.chdir(folder)
    mine = ["fit/chainsaw.npz", "fit/.keep.part", "shards/shard-list.npz", "shards/shard-1.npy", "predict/chain.npz"]
    for name in mine:
        Path("kept", name).parent.mkdir(parents=True, exist_ok=True)
        Path("kept", name).write_text("mine")
    fit = ("fit", "train.csv", "--spec", "spec.toml", *QUICK, "--checkpoint", "kept", "--quiet")
    done(*fit, "--out", "m1")
    done(*fit, "--out", "m2", "--resume")
    done(*CLUSTER, "--out", "c.csv", "--checkpoint", "kept", "--resume", "--quiet")
    assert sorted(str(path.relative_to("kept")) for path in Path("kept").rglob("*") if path.is_file()) == sorted(mine)


@pytest.mark.skipif(os.name != "posix", reason="links of POSIX")
def test_a_linked_lock_is_no_way_to_another_file(folder, monkeypatch):
    monkeypatch.chdir(folder)
    Path("victim").write_text("mine")
    Path("kept").mkdir()
    Path("kept/lock").symlink_to(folder / "victim")
    result = run("fit", "train.csv", "--spec", "spec.toml", *QUICK, "--out", "m", "--checkpoint", "kept")
    assert result.exit_code == 2
    assert Path("victim").read_text() == "mine"


def test_a_spec_that_was_edited_is_kept_and_a_proposal_is_replaced_by_force(folder, monkeypatch):
    monkeypatch.chdir(folder)
    write = ("fit", "train.csv", "--write-spec", "proposed.toml")
    done(*write)
    assert "is there already" in run(*write).stderr
    done(*write, "--force")
    proposed = Path("proposed.toml")
    edited = proposed.read_text(encoding="utf-8") + "\n# mine\n"
    proposed.write_text(edited, encoding="utf-8")
    result = run(*write, "--force")
    assert result.exit_code == 2
    assert "this spec was edited, so it is kept; write the proposal to another file" in result.stderr
    assert proposed.read_text(encoding="utf-8") == edited
