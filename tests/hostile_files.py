"""Files that mean harm, made small: archives, arrays, annotation and tables for the hostile-input suite."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import socket
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from product_cases import FIELDS, citations, rows_of, run
from scdp import SCDP
from test_bad_inputs import FIELD, TOP, Place

# Few rows: what is tested is the way in, and not the clustering.
ROWS = rows_of(citations()[1])[:12]
SPREAD = f"{TOP}{FIELD}"
SOURCE = "<DOC><TEXT>Ann Lee met Bo in Bonn.</TEXT></DOC>"
SEATED = (
    '<entity ID="E1" TYPE="PER"><entity_mention ID="E1-1" TYPE="NAM">'
    '<extent><charseq START="0" END="6">Ann Lee</charseq></extent>'
    '<head><charseq START="0" END="6">Ann Lee</charseq></head></entity_mention></entity>'
)


class Hostile(Place):
    """As `Place`, with the makers of hostile files, and `patch` for what happens while a command runs."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        super().__init__(folder)
        self.patch = patch

    def json_rows(self, *lines: str, name: str = "a.jsonl") -> tuple[object, ...]:
        """Good rows and then these lines."""
        good = [json.dumps(row) for row in ROWS]
        return self.cluster(records=self.text("\n".join([*good, *lines]) + "\n", name))

    def json_cells(self, **cells: Any) -> tuple[object, ...]:
        return self.json_rows(json.dumps(ROWS[0] | {"id": "last"} | cells))

    def csv_rows(self, **cells: str) -> tuple[object, ...]:
        """Rows, the last of which has these cells."""
        return self.cluster(records=self.rows([*ROWS, ROWS[0] | {"id": "last"} | cells]))

    def csv_text(self, name: str = "a.csv", encoding: str = "utf-8", line_end: str = "\n") -> bytes:
        text = self.rows(ROWS, "plain.csv").read_text(encoding="utf-8")
        (self.folder / "plain.csv").unlink()
        return text.replace("\r\n", "\n").replace("\n", line_end).encode(encoding)

    def csv_bytes(self, content: bytes, name: str = "a.csv") -> tuple[object, ...]:
        return self.cluster(records=self.text(content, name))

    def link(self, to: str, name: str) -> Path:
        (self.folder / name).symlink_to(to)
        return self.folder / name

    def pipe(self, name: str) -> Path:
        os.mkfifo(self.folder / name)
        return self.folder / name

    def socket(self, name: str) -> Path:
        here = os.getcwd()
        # The name of a socket must be short.
        os.chdir(self.folder)
        try:
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(name)
        finally:
            os.chdir(here)
        return self.folder / name

    def directory(self, name: str) -> Path:
        (self.folder / name).mkdir()
        return self.folder / name

    def parquet(self, columns: dict[str, list[Any]], name: str = "a.parquet") -> Path:
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.table(columns), self.folder / name)
        return self.folder / name

    def parquet_rows(self, name: str = "a.parquet", **more: list[Any]) -> tuple[object, ...]:
        columns = {key: [row[key] for row in ROWS] for key in ("id", *FIELDS)}
        return self.cluster(records=self.parquet(columns | more, name))

    def words(self, change: Callable[[dict[str, Any]], object]) -> tuple[object, ...]:
        """A model whose model.json is changed."""

        def edit(folder: Path) -> None:
            about = json.loads((folder / "model.json").read_text(encoding="utf-8"))
            change(about)
            (folder / "model.json").write_text(json.dumps(about), encoding="utf-8")

        return self.model(edit)

    def words_text(self, change: Callable[[str], str | bytes]) -> tuple[object, ...]:
        def edit(folder: Path) -> None:
            made = change((folder / "model.json").read_text(encoding="utf-8"))
            (folder / "model.json").write_bytes(made if isinstance(made, bytes) else made.encode())

        return self.model(edit)

    def file_of_model(self, name: str, content: str | bytes) -> tuple[object, ...]:
        data = content if isinstance(content, bytes) else content.encode()
        return self.model(lambda folder: (folder / name).write_bytes(data))

    def pipe_in_model(self, name: str) -> tuple[object, ...]:
        def edit(folder: Path) -> None:
            (folder / name).unlink()
            os.mkfifo(folder / name)

        return self.model(edit)

    def member(self, content: bytes, name: str = "labels.npy", **settings: Any) -> tuple[object, ...]:
        """A model in whose arrays a member is replaced or added."""
        return self.model(lambda folder: replace_member(folder / "arrays.npz", name, content, **settings))

    def ace(self, apf: str | bytes, source: str | bytes = SOURCE) -> tuple[object, ...]:
        self.text(source, "d.sgm")
        self.text(apf, "d.apf.xml")
        return self.exported()

    def exported(self) -> tuple[object, ...]:
        return ("datasets", "export", "ace", "--from", self.folder, "--out", self.out / "ace")

    def draws(self, content: bytes) -> tuple[object, ...]:
        """A model whose draws of `fit` have this content."""
        return self.model(lambda folder: (folder / "posterior.npz").write_bytes(content))

    def result(self, content: bytes | None) -> tuple[object, ...]:
        """Explain by a kept result whose description has this content, or by that of a pipe."""
        folder = self.directory("draws")
        if content is None:
            os.mkfifo(folder / "result.json")
        else:
            (folder / "result.json").write_bytes(content)
        ids = (ROWS[0]["id"], ROWS[1]["id"])
        return ("explain", self.made / "model", self.rows(ROWS), *ids, "--draws", folder)

    def explain(self, first: dict[str, str], second: dict[str, str]) -> tuple[object, ...]:
        path = self.rows([ROWS[0] | first, ROWS[1] | second, *ROWS[2:]])
        ids = [(ROWS[k] | cells)["id"] for k, cells in enumerate((first, second))]
        return ("explain", self.made / "model", path, *ids, "--quiet")

    def named(self, column: str, suffix: str) -> tuple[object, ...]:
        """Clusters by a model whose column of ids has this name; that model is made first."""
        rows = [{column: row["id"]} | {k: v for k, v in row.items() if k != "id"} for row in rows_of(citations()[0])]
        model = SCDP.load(self.made / "model")
        spec = (self.made / "model" / "spec.toml").read_text(encoding="utf-8")
        shutil.copytree(self.made / "model", self.folder / "model")
        assert model.spec is not None
        assert f'id = "{model.spec.id}"' in spec
        quoted = json.dumps(column)
        (self.folder / "model" / "spec.toml").write_text(spec.replace('id = "id"', f"id = {quoted}"))
        return (
            "cluster", self.folder / "model", self.rows(rows[:12]), "--out", self.out / f"c{suffix}", "--quiet",
        )  # fmt: skip


def apf(inside: str, doctype: str = "", encoding: str = "") -> str:
    declared = f' encoding="{encoding}"' if encoding else ""
    return (
        f'<?xml version="1.0"{declared}?>{doctype}<source_file SOURCE="news">'
        f'<document DOCID="d">{inside}</document></source_file>'
    )


def npy(array: Any, pickled: bool = False) -> bytes:
    content = io.BytesIO()
    np.lib.format.write_array(content, np.asarray(array), allow_pickle=pickled)
    return content.getvalue()


def npy_header(text: str) -> bytes:
    """A member whose header says this, and that holds nothing."""
    header = text.encode("latin-1") + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


def replace_member(path: Path, name: str, content: bytes, **settings: Any) -> None:
    with zipfile.ZipFile(path) as archive:
        members = {each: archive.read(each) for each in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for each, data in (members | {name: content}).items():
            archive.writestr(each, data, **(settings if each == name else {}))


def flagged(content: bytes, offset_local: int, offset_central: int, value: bytes) -> bytes:
    """A zip file with a field of every header overwritten, such as the flags or the way of packing."""
    for magic, offset in ((b"PK\x03\x04", offset_local), (b"PK\x01\x02", offset_central)):
        place = content.find(magic)
        while place >= 0:
            content = content[: place + offset] + value + content[place + offset + len(value) :]
            place = content.find(magic, place + 4)
    return content


def zipped(**members: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return content.getvalue()


class Harm:
    """Unpickling this fails the test."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.fail, ("a pickled object was loaded",))


def pickled() -> bytes:
    array = np.empty(1, dtype=object)
    array[0] = Harm()
    return npy(array, pickled=True)


def bomb(text: bytes, times: int) -> bytes:
    """A gzip file of a text and of a row repeated until it is far more than may be unpacked."""
    return gzip.compress(text + b"," * times, compresslevel=9)


def clustered(place: Hostile, result: Any) -> None:
    """Every record of the input has a cluster, under the id that it has there."""
    from scdp.table.readers import read_records

    assert result.exit_code == 0, result.output
    (out,) = [path for path in place.out.iterdir() if path.stem == "c"]
    found = read_records(out)
    assert len(found) >= 12
    assert None not in set(found["cluster"])
    assert {path.name.split(".")[0] for path in place.out.iterdir()} == {"c"}


def evaluated(predicted: Path, gold: Path) -> float:
    result = run("evaluate", predicted, gold, "--json")
    assert result.exit_code == 0, result.output
    return float(json.loads(result.output)["f"])
