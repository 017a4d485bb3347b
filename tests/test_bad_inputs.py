"""Wrong files, specs, models and options: one clear sentence each, exit code 2, and nothing is left behind."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from product_cases import QUICK, SPEC, citations, fitted_folder, read_csv, rows_of, run, write_csv
from scdp import SCDP

pytestmark = pytest.mark.filterwarnings("ignore::scdp.posterior.recorder.ConvergenceWarning")

GOOD = rows_of(citations()[0])


class Place:
    """A folder for the inputs of a case, and one that must stay empty for its outputs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out = folder / "in", folder / "out"
        self.folder.mkdir()
        self.out.mkdir()
        self.made = fitted_folder()

    def text(self, text: str | bytes, name: str = "a.csv") -> Path:
        path = self.folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
        return path

    def rows(self, rows: list[dict[str, str]], name: str = "a.csv") -> Path:
        return write_csv(self.folder / name, rows)

    def fit(self, records: Path | str, *options: object) -> tuple[object, ...]:
        return ("fit", records, "--out", self.out / "model", *QUICK, *options)

    def fit_spec(self, text: str, *options: object) -> tuple[object, ...]:
        return self.fit(self.made / "train.csv", "--spec", self.text(text, "spec.toml"), *options)

    def cluster(self, *options: object, records: Path | None = None, model: Path | None = None) -> tuple[object, ...]:
        where = (model or self.made / "model", records or self.made / "test.csv")
        return ("cluster", *where, "--out", self.out / "c.csv", *options)

    def known(self, rows: list[dict[str, str]], *options: object) -> tuple[object, ...]:
        return self.cluster("--known", self.rows(rows, "known.csv"), *options)

    def model(self, change: Callable[[Path], object]) -> tuple[object, ...]:
        copy = self.folder / "model"
        shutil.copytree(self.made / "model", copy)
        change(copy)
        return self.cluster(model=copy)

    def array_model(self) -> Path:
        model = SCDP(n_chains=1, n_sweeps=4, random_state=0).fit(np.arange(6.0)[:, None], [0, 0, 1, 1, 2, 2])
        model.save(self.folder / "arrays")
        return self.folder / "arrays"


def changed(**cells: str) -> list[dict[str, str]]:
    return [{**row, **cells} for row in GOOD]


def long_cell(place: int) -> list[dict[str, str]]:
    """Records to cluster, one of which is too long to be compared."""
    rows = rows_of(citations()[1])[:10]
    return [row | ({"title": "x" * 30_000} if k == place else {}) for k, row in enumerate(rows)]


def without(column: str) -> list[dict[str, str]]:
    return [{name: cell for name, cell in row.items() if name != column} for row in GOOD]


def version(folder: Path, value: object) -> None:
    about = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    (folder / "model.json").write_text(json.dumps(about | {"version": value}), encoding="utf-8")


FIELD = '[[field]]\nkind = "edit"\ncolumn = "title"\n'
TOP = 'entity = "entity"\nid = "id"\n'

CASES: dict[str, tuple[Callable[[Place], tuple[object, ...]], str]] = {
    # files of records
    "no such file": (lambda p: p.fit(p.folder / "no.csv"), "no.csv: there is no such file"),
    "a folder for a file": (lambda p: p.fit(p.folder), "this is a directory"),
    "an empty file": (lambda p: p.fit(p.text("")), "the file is empty"),
    "only a header": (lambda p: p.fit(p.text("id,entity,title\n")), "holds no records"),
    "no header": (lambda p: p.fit(p.text("1,2,3\n4,5,6\n")), "row 1 is not a header"),
    "a kind not known": (lambda p: p.fit(p.text("x", "a.xls")), "the kind of file cannot be told"),
    "not UTF-8": (lambda p: p.fit(p.text(b"id,entity,title\n1,a,\xff\n")), "row 2 (byte 20) is not UTF-8"),
    "a row too long": (lambda p: p.fit(p.text("id,entity,title\n1,a,b,c\n")), "row 2 has 4 cells"),
    "an open quote": (lambda p: p.fit(p.text('id,entity,title\n1,a,"b\n')), "check its quotes"),
    "a column twice": (lambda p: p.fit(p.text("id,id,entity\n1,2,a\n")), "'id' occurs twice"),
    "no Parquet": (lambda p: p.fit(p.text("what", "a.parquet")), "the file is not Parquet"),
    "no JSON lines": (lambda p: p.fit(p.text("{\n", "a.jsonl")), "row 1 is not JSON"),
    "no gzip": (lambda p: p.fit(p.text("x", "a.csv.gz")), "the gzip file is damaged"),
    # columns
    "no column of entities": (
        lambda p: p.fit(p.rows(without("entity")), "--model", "scdp1"),
        "no column of known clusters was found (name it by --entity)",
    ),
    "a wrong --entity": (lambda p: p.fit(p.rows(GOOD), "--entity", "paper"), "there is no column 'paper'"),
    "a wrong --id": (lambda p: p.fit(p.rows(GOOD), "--id", "key"), "there is no column 'key'"),
    "a wrong --groups": (lambda p: p.fit(p.rows(GOOD), "--groups", "doc"), "there is no column 'doc'"),
    "one column for two": (lambda p: p.fit(p.rows(GOOD), "--groups", "entity"), "is given two roles"),
    "an id twice": (lambda p: p.fit(p.rows([*GOOD, GOOD[0]])), "have the same 'id'"),
    "an id missing": (lambda p: p.fit(p.rows([*GOOD, GOOD[0] | {"id": ""}])), "has no 'id'"),
    "entities all empty": (lambda p: p.fit(p.rows(changed(entity=""))), "column 'entity' is empty"),
    "one entity": (lambda p: p.fit(p.rows(changed(entity="same"))), "all records are of one entity"),
    "entities all different": (
        lambda p: p.fit(p.rows([row | {"entity": row["id"]} for row in GOOD])),
        "no two records share an entity",
    ),
    "nothing to compare": (
        lambda p: p.fit(p.rows([{"id": row["id"], "entity": row["entity"]} for row in GOOD])),
        "no column is left to compare",
    ),
    "a group missing": (
        lambda p: p.fit(p.rows([row | {"doc": "d" if k else ""} for k, row in enumerate(GOOD)]), "--groups", "doc"),
        "has no 'doc'",
    ),
    "a cell too long": (lambda p: p.fit(p.rows([GOOD[0] | {"title": "x" * 30_000}, *GOOD[1:]])), "shorten the cell"),
    # rows are counted as in the file, whatever order they are worked on in
    "a long cell to cluster": (
        lambda p: p.cluster(records=p.rows(long_cell(4))),
        "a.csv, row 6, column 'title': 30,000",
    ),
    "a long cell below empty lines": (
        lambda p: p.cluster(records=p.text(p.rows(long_cell(4)).read_text(encoding="utf-8").replace("\n", "\n\n", 3))),
        "a.csv, row 9, column 'title'",
    ),
    "a long cell of JSON": (
        lambda p: p.cluster(records=p.text("\n".join(map(json.dumps, long_cell(4))), "a.jsonl")),
        "a.jsonl, row 5, column 'title'",
    ),
    "a long cell beside known records": (
        lambda p: p.cluster(
            "--known", p.rows([{"id": GOOD[0]["id"], "cluster": "k"}], "known.csv"),
            "--known-records", p.rows(GOOD[:9], "others.csv"), records=p.rows(long_cell(4)),
        ),
        "row 6, column 'title'",
    ),
    "a long cell to explain": (
        lambda p: ("explain", p.made / "model", p.rows(long_cell(4)), *(row["id"] for row in long_cell(4)[:2])),
        "a.csv, row 6, column 'title'",
    ),
    # specs
    "no such spec": (
        lambda p: p.fit(p.made / "train.csv", "--spec", p.folder / "no.toml"),
        "no.toml: there is no such file",
    ),
    "a spec that is no TOML": (lambda p: p.fit_spec("entity = "), "line 1: not valid TOML"),
    "a spec with a wrong key": (lambda p: p.fit_spec(TOP + "colour = 1\n"), "line 3: unknown key 'colour'"),
    "a comparison not known": (
        lambda p: p.fit_spec(TOP + '[[field]]\nkind = "edti"\ncolumn = "title"\n'),
        "line 4: there is no comparison 'edti'; did you mean 'edit'?",
    ),
    "a field without column": (lambda p: p.fit_spec(TOP + '[[field]]\nkind = "edit"\n'), "has no column"),
    "a field on no column": (
        lambda p: p.fit_spec(TOP + '[[field]]\nkind = "edit"\ncolumn = "name"\n'),
        "there is no column 'name'",
    ),
    "two fields of one name": (lambda p: p.fit_spec(TOP + FIELD + FIELD), "a field named 'edit(title)' is already"),
    "the answer compared": (
        lambda p: p.fit_spec(TOP + '[[field]]\nkind = "exact"\ncolumn = "entity"\n'),
        "gives the answer away",
    ),
    "numbers that are none": (
        lambda p: p.fit_spec(TOP + '[[field]]\nkind = "absolute"\ncolumn = "title"\n'),
        "'title'",
    ),
    # options of fit
    "nothing to write": (lambda p: ("fit", p.made / "train.csv"), "nothing to write"),
    "no chains": (lambda p: p.fit(p.made / "train.csv", "--chains", 0), "'--chains'"),
    "one sweep": (lambda p: p.fit(p.made / "train.csv", "--sweeps", 1), "'--sweeps'"),
    "a seed of text": (lambda p: p.fit(p.made / "train.csv", "--seed", "x"), "'--seed'"),
    "a negative seed": (lambda p: p.fit(p.made / "train.csv", "--seed", "-1"), "'--seed'"),
    "a sample of none": (lambda p: p.fit(p.made / "train.csv", "--sample", 0), "'--sample'"),
    "a model not known": (lambda p: p.fit(p.made / "train.csv", "--model", "scdp9"), "model must be one of"),
    "an option not known": (lambda p: p.fit(p.made / "train.csv", "--colour", "red"), "--colour"),
    "a model in no folder": (
        lambda p: ("fit", p.made / "train.csv", "--out", p.out / "no" / "model"),
        "there is no folder",
    ),
    "a model on a file": (lambda p: ("fit", p.made / "train.csv", "--out", p.text("x")), "there is a file of this"),
    "a model on other things": (
        lambda p: ("fit", p.made / "train.csv", "--out", p.made),
        "which is no part of a model",
    ),
    "a spec to no folder": (
        lambda p: ("fit", p.made / "train.csv", "--write-spec", p.out / "no" / "spec.toml"),
        "there is no folder",
    ),
    # models
    "no such model": (lambda p: p.cluster(model=p.folder / "no"), "there is no such model"),
    "a folder that is no model": (lambda p: p.cluster(model=p.folder), "this is no model of scdp"),
    "a model of a later version": (lambda p: p.model(lambda m: version(m, [9, 0])), "written in version 9.0"),
    "a model without arrays": (lambda p: p.model(lambda m: (m / "arrays.npz").unlink()), "'arrays.npz' is missing"),
    "a damaged model": (lambda p: p.model(lambda m: (m / "arrays.npz").write_bytes(b"PK")), "it is damaged"),
    "a model of arrays": (lambda p: p.cluster(model=p.array_model()), "a model of arrays, not of records"),
    # cluster
    "no records": (lambda p: p.cluster(records=p.folder / "no.csv"), "there is no such file"),
    "records without a column": (lambda p: p.cluster(records=p.rows(without("title"))), "no column 'title'"),
    "records without ids": (lambda p: p.cluster(records=p.rows(without("id"))), "no column 'id'"),
    "records with an id twice": (lambda p: p.cluster(records=p.rows([*GOOD, GOOD[3]])), "have the same 'id'"),
    "no --out": (lambda p: ("cluster", p.made / "model", p.made / "test.csv"), "--out"),
    "clusters of no kind": (
        lambda p: ("cluster", p.made / "model", p.made / "test.csv", "--out", p.out / "c.xlsx"),
        "the kind of file cannot be told",
    ),
    "clusters on a folder": (lambda p: p.cluster("--out", _folder(p, "f.csv")), "this is a directory"),
    "clusters in no folder": (lambda p: p.cluster("--out", p.out / "no" / "c.csv"), "there is no folder"),
    "clusters on the records": (
        lambda p: p.cluster("--out", p.made / "test.csv"),
        "is named twice",
    ),
    "two outputs in one": (lambda p: p.cluster("--uncertain", p.out / "c.csv"), "is named twice"),
    "a report in no folder": (lambda p: p.cluster("--report", p.out / "no" / "r.html"), "there is no folder"),
    "draws on a file": (lambda p: p.cluster("--draws", p.text("x")), "there is a file of this name"),
    "workers of spark": (lambda p: p.cluster("--engine", "spark", "--workers", "2"), "--workers belongs to"),
    "an engine not known": (lambda p: p.cluster("--engine", "hadoop"), "'--engine'"),
    # known clusters
    "known records without clusters": (lambda p: p.cluster("--known-records", p.made / "test.csv"), "needs --known"),
    "known without clusters": (lambda p: p.known([{"id": "r1", "title": "x"}]), "there is no column 'cluster'"),
    "known without ids": (lambda p: p.known([{"name": "r1", "cluster": "x"}]), "there is no column 'id'"),
    "known with an empty cluster": (lambda p: p.known([{"id": "r1", "cluster": ""}]), "has no 'cluster'"),
    "known twice": (lambda p: p.known([{"id": "r1", "cluster": "x"}] * 2), "have the same 'id'"),
    "known but not there": (lambda p: p.known([{"id": "r0000", "cluster": "x"}]), "name the record 'r0000'"),
    "known records in both": (
        lambda p: p.known(
            [{"id": read_csv(p.made / "test.csv")[0]["id"], "cluster": "x"}], "--known-records", p.made / "test.csv"
        ),
        "is in both",
    ),
    # explain
    "an id not there": (
        lambda p: ("explain", p.made / "model", p.made / "test.csv", "r0000", "r1"),
        "there is no record 'r0000'",
    ),
    "one id twice": (
        lambda p: ("explain", p.made / "model", p.made / "test.csv", *[read_csv(p.made / "test.csv")[0]["id"]] * 2),
        "is given twice",
    ),
    "draws not there": (
        lambda p: (
            "explain", p.made / "model", p.made / "test.csv",
            *[row["id"] for row in read_csv(p.made / "test.csv")[:2]], "--draws", p.folder,
        ),
        "this is no result of scdp",
    ),
    # data sets
    "a set not known": (lambda p: ("datasets", "export", "cows", "--out", p.out / "d"), "no set of records 'cows'"),
}  # fmt: skip


def _folder(place: Place, name: str) -> Path:
    (place.folder / name).mkdir()
    return place.folder / name


@pytest.fixture
def place(tmp_path) -> Iterator[Place]:
    made = Place(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in made.made.rglob("*")}
    yield made
    assert {path: path.stat().st_mtime_ns for path in made.made.rglob("*")} == before


@pytest.mark.parametrize("name", CASES)
def test_one_sentence_exit_code_two_and_nothing_left(name, place):
    make, says = CASES[name]
    arguments = make(place)
    files = sorted(place.folder.rglob("*"))
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    *_, last = result.stderr.strip().splitlines()
    assert says in last
    assert sum("error:" in line.lower() for line in result.stderr.splitlines()) == 1
    assert "Traceback" not in result.output
    assert not list(place.out.rglob("*"))
    assert sorted(place.folder.rglob("*")) == files


def test_there_are_enough_of_them():
    assert len(CASES) >= 40


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_must_not_be_written(place):
    place.out.chmod(0o500)
    try:
        for arguments in (place.cluster(), place.fit(place.made / "train.csv")):
            result = run(*arguments)
            assert result.exit_code == 2
            assert "cannot be written" in result.stderr
    finally:
        place.out.chmod(0o700)


def test_the_good_rows_are_good(place):
    assert run(*place.fit(place.rows(GOOD), "--spec", place.text(SPEC, "spec.toml"))).exit_code == 0
