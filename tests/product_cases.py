"""Small files of made-up citations and a model fitted to some of them, for tests of the command line."""

from __future__ import annotations

import atexit
import csv
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
from click.testing import CliRunner, Result

from scdp.cli import main
from scdp.datasets import Labelled, make_records

FIELDS = ("title", "author", "year", "venue")
SPEC = """entity = "entity"
id = "id"
[[field]]
kind = "edit"
column = "title"
[[field]]
kind = "edit"
column = "author"
[[field]]
kind = "absolute"
column = "year"
"""
QUICK = ("--model", "scdp1", "--chains", "2", "--sweeps", "20")


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def done(*arguments: Any) -> Result:
    """Run a command that must succeed."""
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


@cache
def citations(n: int = 120, seed: int = 3) -> tuple[Labelled, Labelled]:
    """Two parts of other papers."""
    made = make_records(n, kind="citations", seed=seed)
    papers = np.unique(made.clusters, return_inverse=True)[1]
    return made.take(papers % 2 == 0), made.take(papers % 2 == 1)


def rows_of(part: Labelled) -> list[dict[str, str]]:
    return [
        {"id": str(id), "entity": str(entity)} | {name: cells[name] or "" for name in FIELDS}
        for id, entity, cells in zip(part.ids, part.clusters, part.data.rows(), strict=True)
    ]


def write_csv(path: Path, rows: list[dict[str, str]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@cache
def fitted_folder() -> Path:
    """A folder with train.csv, test.csv, spec.toml and the model in `model`; made once, only to be read."""
    folder = Path(mkdtemp(prefix="scdp-product-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    train, test = citations()
    write_csv(folder / "train.csv", rows_of(train))
    write_csv(folder / "test.csv", rows_of(test))
    (folder / "spec.toml").write_text(SPEC, encoding="utf-8")
    done("fit", folder / "train.csv", "--spec", folder / "spec.toml", "--out", folder / "model", *QUICK, "--quiet")
    return folder
