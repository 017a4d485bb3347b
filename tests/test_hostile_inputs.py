"""Input that means harm, through the command line: each case ends soon, with exit code 2 or a right result.

A refusal is one sentence without a traceback, and leaves nothing behind. Ordinary mistakes are in test_bad_inputs.
"""

from __future__ import annotations

import gzip
import json
import os
import pickle
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hostile_files import (
    ROWS,
    SEATED,
    SOURCE,
    Harm,
    Hostile,
    apf,
    bomb,
    clustered,
    evaluated,
    flagged,
    npy,
    npy_header,
    pickled,
    zipped,
)
from product_cases import QUICK, fitted_folder, read_csv, run
from scdp import io
from scdp.report.sections import cluster_script
from scdp.table import readers
from test_bad_inputs import FIELD, TOP

pytestmark = [
    pytest.mark.filterwarnings("ignore::scdp.posterior.recorder.ConvergenceWarning"),
    pytest.mark.skipif(os.name != "posix", reason="pipes, devices and alarms of POSIX"),
]

# Of the processor, so that a busy machine changes nothing; and by the clock, for what waits and does no work.
SECONDS = {signal.ITIMER_PROF: 10, signal.ITIMER_REAL: 1800}
ALLOWED = 64 << 20
TURNED, ESCAPED = "\u202e", "\\u202e"
Made = tuple[object, ...]
Check = Callable[[Hostile, Any], None]


def formula_ids(start: str) -> tuple[Callable[[Hostile], Made], Check]:
    """Ids and titles that a spreadsheet would run: exact in the tables, text in the file for spreadsheets."""

    def make(place: Hostile) -> Made:
        rows = [
            row | {"id": f"{start}{k}+{row['id']}", "title": f"{start}1+{row['title']}"} for k, row in enumerate(ROWS)
        ]
        return place.cluster("--spreadsheet", place.out / "sheet.csv", records=place.rows(rows))

    def check(place: Hostile, result: Any) -> None:
        assert result.exit_code == 0, result.output
        given = {row["id"] for row in read_csv(place.folder / "a.csv")}
        assert {row["id"] for row in read_csv(place.out / "c.csv")} == given
        assert evaluated(place.out / "c.csv", place.out / "c.csv") == 1.0
        sheet = (place.out / "sheet.csv").read_bytes().decode("utf-8-sig")
        cells = [cell for row in read_csv(place.out / "sheet.csv") for cell in row.values() if cell]
        assert f"'{start}" in sheet
        assert not [cell for cell in cells if cell.lstrip().startswith(("=", "+", "@", "-", "＝"))]
        again = place.cluster("--force", "--known", place.out / "c.csv", records=place.folder / "a.csv")
        before = read_csv(place.out / "c.csv")
        assert run(*again).exit_code == 0
        after = read_csv(place.out / "c.csv")
        assert [row["cluster"] for row in after] == [row["cluster"] for row in before]

    return make, check


def reported(text: str, **cells: str) -> tuple[Callable[[Hostile], Made], Check]:
    """A report of records with this text in them, which must not be in it as it is."""

    def make(place: Hostile) -> Made:
        given = cells or {"id": f"{text}", "title": f"{text} {ROWS[0]['title']}"}
        rows = [ROWS[0] | given, *ROWS[1:]]
        return place.cluster("--report", place.out / "report.html", records=place.rows(rows))

    def check(place: Hostile, result: Any) -> None:
        assert result.exit_code == 0, result.output
        page = (place.out / "report.html").read_text(encoding="utf-8")
        assert text not in page
        # The page's own script, pinned by its digest, and packed data: no other.
        for own in (f"<script>{cluster_script()}</script>", '<script id="clusters-data" type="text/plain">'):
            assert page.count(own) == 1
            page = page.replace(own, "")
        assert "<script" not in page.lower()

    return make, check


def explained(text: str, shown: str) -> tuple[Callable[[Hostile], Made], Check]:
    """Words on the terminal about records with this text in ids and cells."""

    def make(place: Hostile) -> Made:
        return place.explain({"id": f"a{text}", "title": f"x{text}y"}, {"title": "xy"})

    def check(place: Hostile, result: Any) -> None:
        assert result.exit_code == 0, result.output
        assert text not in result.output
        assert shown in result.output

    return make, check


def kept_apart(identifier: str) -> tuple[Callable[[Hostile], Made], Check]:
    """An id that looks like a path becomes no file's name."""

    def make(place: Hostile) -> Made:
        rows = place.rows([ROWS[0] | {"id": identifier}, *ROWS[1:]])
        return place.cluster("--report", place.out / "c.html", "--draws", place.out / "draws", records=rows)

    def check(place: Hostile, result: Any) -> None:
        assert result.exit_code == 0, result.output
        assert sorted(path.name for path in place.out.rglob("*")) == [
            "arrays.npz", "c.csv", "c.html", "c.uncertain.csv", "clusters.parquet", "draws", "draws.parquet", "model",
            "model.json", "model_card.md", "records.jsonl", "records.parquet", "result.json", "spec.toml",
            "summary.json", "traces.parquet",
        ]  # fmt: skip
        assert identifier in {row["id"] for row in read_csv(place.out / "c.csv")}

    return make, check


def is_text(says: str) -> Check:
    def check(place: Hostile, result: Any) -> None:
        assert says in result.output

    return check


def names_mentions(place: Hostile, result: Any) -> None:
    assert result.exit_code == 0, result.output
    assert [row["name"] for row in read_csv(place.out / "ace" / "records.csv")] == ["Ann Lee"]
    assert [path.name for path in place.out.rglob("*")] == ["ace", "records.csv"]


def own_file_only(place: Hostile, result: Any) -> None:
    clustered(place, result)
    assert len(read_csv(place.out / "c.csv")) == len(ROWS)


def number_or_refusal(place: Hostile, result: Any) -> None:
    if result.exit_code == 0:
        assert all(0 <= float(row["probability"]) <= 1 for row in read_csv(place.out / "c.csv"))
    else:
        refused(place, result, "")


def a_model(place: Hostile, result: Any) -> None:
    if result.exit_code == 0:
        assert (place.out / "model" / "model.json").is_file()
    else:
        refused(place, result, "")


def learning(year: Callable[[int, str], str]) -> Callable[[Hostile], Made]:
    """A model of the training records with other years, by the number of the row and the year that it has."""

    def make(place: Hostile) -> Made:
        rows = read_csv(place.made / "train.csv")
        changed = place.rows([row | {"year": year(k, row["year"])} for k, row in enumerate(rows)])
        return place.fit(changed, "--spec", place.made / "spec.toml")

    return make


def numbers_of_json(place: Hostile) -> Made:
    row = '{"id": "n-YEAR", "title": "x", "author": "y", "year": YEAR}'
    return place.json_rows(*[row.replace("YEAR", year) for year in ("NaN", "Infinity", "-Infinity", "1e999")])


def header_of_zip(place: Hostile, local: int, central: int, value: bytes) -> Made:
    def edit(folder: Path) -> None:
        path = folder / "arrays.npz"
        path.write_bytes(flagged(path.read_bytes(), local, central, value))

    return place.model(edit)


def with_setting(part: str, name: str, value: Any) -> Callable[[Hostile], Made]:
    return lambda place: place.words(lambda about: about[part].update({name: value}))


SETTINGS: list[tuple[str, str, Any]] = [
    ("parameters", "n_chains", []),
    ("parameters", "n_chains", 1e308),
    ("parameters", "n_sweeps", {}),
    ("parameters", "n_sweeps", "x" * 100_000),
    ("parameters", "init", {"a": 1}),
    ("parameters", "mean_variance", [1]),
    ("parameters", "mean_variance", -1e308),
    ("parameters", "scheme", None),
    ("fitted", "chains", {}),
    ("fitted", "chains", "x"),
    ("fitted", "chains", [None] * 10_000),
    ("fitted", "chains", 10**9),
    ("fitted", "features", [[]]),
    ("fitted", "features", ["x"] * 100_000),
    ("fitted", "seed", "x"),
    ("fitted", "rows", None),
]


def vanishing(place: Hostile) -> Made:
    """The records are there when they are looked at, and gone when they are read."""
    path = place.rows(ROWS)
    read = readers.read_bytes

    def gone(which: Path, *rest: Any) -> bytes:
        which.unlink(missing_ok=True)
        return read(which, *rest)

    place.patch.setattr(readers, "read_bytes", gone)
    return place.cluster(records=path)


def full_disk(place: Hostile) -> Made:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    place.patch.setattr(os, "fsync", full)
    return place.cluster()


def broken_disk(place: Hostile) -> Made:
    class Broken:
        def __init__(self, file: Any) -> None:
            self.file = file

        def __enter__(self) -> Broken:
            return self

        def __exit__(self, *_: object) -> None:
            self.file.close()

        def read(self, *_: int) -> bytes:
            raise OSError(5, "Input/output error")

    opened = io.open_ordinary
    place.patch.setattr(io, "open_ordinary", lambda path: Broken(opened(path)))
    return place.cluster(records=place.rows(ROWS))


def laughs(depth: int = 9) -> str:
    entities = '<!ENTITY a0 "ha">' + "".join(f'<!ENTITY a{k} "{f"&a{k - 1};" * 10}">' for k in range(1, depth + 1))
    return f"<!DOCTYPE source_file [{entities}]>"


def spec_field(**settings: Any) -> str:
    lines = {"kind": "edit", "column": "title"} | settings
    return f"{TOP}[[field]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in lines.items())


def raw_field(line: str, kind: str = "absolute", column: str = "year") -> str:
    return f'{TOP}[[field]]\nkind = "{kind}"\ncolumn = "{column}"\n{line}\n'


DEEP = 200_000
HEADER = "{{'descr': '{}', 'fortran_order': False, 'shape': ({},)}}"
CASES: dict[str, tuple[Callable[[Hostile], Made], str | Check]] = {
    # text that is none, or more than one kind
    "UTF-16 with a mark": (lambda p: p.csv_bytes(p.csv_text(encoding="utf-16")), clustered),
    "UTF-16 without a mark": (lambda p: p.csv_bytes(p.csv_text(encoding="utf-16-le")), "save the file as UTF-8"),
    "UTF-32": (lambda p: p.csv_bytes(p.csv_text(encoding="utf-32-be")), "save the file as UTF-8"),
    "too long a way to write a slash": (lambda p: p.csv_bytes(p.csv_text() + b"\xc0\xaf"), "is not UTF-8"),
    "half a character in bytes": (lambda p: p.csv_bytes(p.csv_text() + b"\xed\xa0\x80"), "is not UTF-8"),
    "the mark of UTF-8 twice": (lambda p: p.csv_bytes(b"\xef\xbb\xbf" * 2 + p.csv_text()), clustered),
    "only marks": (lambda p: p.csv_bytes(b"\xef\xbb\xbf" * 2), "the file is empty"),
    "a zero byte": (lambda p: p.csv_bytes(p.csv_text().replace(b"r", b"\0", 1)), "zero byte"),
    "zero bytes alone": (lambda p: p.csv_bytes(b"\0" * 1000), "zero byte"),
    "line ends of old Macs": (lambda p: p.csv_bytes(p.csv_text(line_end="\r")), clustered),
    "line ends of all kinds": (
        lambda p: p.csv_bytes(p.csv_text(line_end="\r\n").replace(b"\r\n", b"\r", 2).replace(b"\r\n", b"\n", 3)),
        clustered,
    ),
    # cells
    "ten megabytes in a cell that is compared": (lambda p: p.csv_rows(title="x" * 10_000_000), "shorten the cell"),
    "ten megabytes in another cell": (lambda p: p.csv_rows(venue="x" * 10_000_000), clustered),
    "ten megabytes of an id": (lambda p: p.csv_rows(id="x" * 10_000_000), "give it a shorter one"),
    "a million quotes": (lambda p: p.csv_rows(venue='"' * 1_000_000), clustered),
    "a million quotes, one open": (lambda p: p.csv_bytes(p.csv_text() + b'"' * 1_000_001), "check its quotes"),
    "a million separators": (lambda p: p.csv_bytes(p.csv_text() + b"," * 1_000_000), "1000001 cells"),
    "rows without cells": (lambda p: p.csv_bytes(p.csv_text() + b"\n" * 300_000), clustered),
    "huge numbers": (lambda p: p.csv_rows(year="1e308"), number_or_refusal),
    "huge negative numbers": (lambda p: p.csv_rows(year="-1e308"), number_or_refusal),
    "tiny numbers": (lambda p: p.csv_rows(year="1e-308"), number_or_refusal),
    "numbers beyond all": (lambda p: p.csv_rows(year="1e999"), clustered),
    "a number of ten thousand digits": (lambda p: p.csv_rows(year="9" * 10_000), clustered),
    "infinity": (lambda p: p.csv_rows(year="-inf"), clustered),
    "digits of other scripts": (lambda p: p.csv_rows(year="١٩٩٩²"), number_or_refusal),
    "names without end": (lambda p: p.csv_rows(author=" and ".join(["a, b"] * 1500)), clustered),
    "spaces without end": (lambda p: p.csv_rows(author=" " * 15_000 + "x"), clustered),
    "marks on a letter": (lambda p: p.csv_rows(title="e" + "\u0301" * 15_000), clustered),
    "a text that grows": (lambda p: p.csv_rows(title="\ufdfa" * 15_000), number_or_refusal),
    # learning from numbers at the edges
    "learning from huge numbers": (learning(lambda k, _: f"{'-' * (k % 2)}1e308"), a_model),
    "learning from tiny numbers": (learning(lambda k, _: f"{k}e-320"), a_model),
    "one number beyond the others": (learning(lambda k, year: "1e300" if k == 3 else year), a_model),
    # columns
    "a hundred thousand columns": (
        lambda p: p.csv_bytes(",".join(f"c{k}" for k in range(100_000)).encode() + b"\n" + b"," * 99_999),
        "has 100,000 columns",
    ),
    "a hundred thousand names in JSON": (
        lambda p: p.json_rows(json.dumps({f"c{k}": 1 for k in range(100_000)})),
        "more than the 10,000 that are read",
    ),
    "twelve thousand columns of Parquet": (
        lambda p: p.cluster(records=p.parquet({f"c{k}": [1] for k in range(12_000)})),
        "has 12,000 columns",
    ),
    "nine thousand columns more": (
        lambda p: p.cluster(records=p.rows([row | dict.fromkeys(map(str, range(9000)), "x") for row in ROWS])),
        clustered,
    ),
    "three hundred columns to compare": (
        lambda p: p.fit(p.rows([row | {f"x{k}": str(i) for k in range(300)} for i, row in enumerate(ROWS)])),
        "name the fields in a spec",
    ),
    "a name of ten megabytes": (
        lambda p: p.cluster(records=p.rows([row | {"x" * 10_000_000: "y"} for row in ROWS])),
        clustered,
    ),
    "a long list of names in a message": (
        lambda p: p.cluster(records=p.rows([{f"{'x' * 500}{k}": "y" for k in range(5000)}])),
        "there is no column 'title'",
    ),
    # JSON
    "half a character in JSON": (lambda p: p.json_cells(title="\ud800"), "half a character"),
    "half a character in a name": (lambda p: p.json_cells(**{"a\udfff": "x"}), "half a character"),
    "a zero byte in JSON": (lambda p: p.json_cells(title="a\0b"), "zero byte"),
    "a zero byte in a name": (lambda p: p.json_cells(**{"a\0": "x"}), "zero byte"),
    "arrays without end": (lambda p: p.json_rows("[" * DEEP), "nested too deeply"),
    "objects without end": (lambda p: p.json_rows('{"a":' * DEEP), "nested too deeply"),
    "a deep cell": (lambda p: p.json_rows('{"a":' + "[" * 900 + "]" * 900 + "}"), "has no 'id'"),
    "a name twice in JSON": (lambda p: p.json_rows('{"id": "x", "id": "y"}'), "it has 'id' twice"),
    "a name twice further in": (lambda p: p.json_rows('{"id": {"a": 1, "a": 2}}'), "it has 'a' twice"),
    "a number of a million digits": (lambda p: p.json_rows('{"id": ' + "9" * 1_000_000 + "}"), "is not JSON"),
    "numbers that are none": (numbers_of_json, clustered),
    "rows with no names in common": (
        lambda p: p.json_rows(*[json.dumps({f"x{k}": 1}) for k in range(6000)]),
        "hardly any names in common",
    ),
    "separators inside JSON": (lambda p: p.json_cells(title="a\u2028b\u2029c\x85d\x0be"), clustered),
    # packed files
    "a bomb of CSV": (lambda p: p.csv_bytes(bomb(b"id,title\n", 2 * ALLOWED), "a.csv.gz"), "which no table does"),
    "a bomb of JSON": (lambda p: p.csv_bytes(bomb(b"{}\n", 2 * ALLOWED), "a.jsonl.gz"), "which no table does"),
    "a bomb of many members": (
        lambda p: p.csv_bytes(bomb(b"id\n", ALLOWED // 4) * 8, "a.csv.gz"),
        "which no table does",
    ),
    "gzip in gzip": (lambda p: p.csv_bytes(gzip.compress(gzip.compress(b"x")), "a.csv.gz.gz"), "cannot be told"),
    "gzip in gzip by a plain name": (
        lambda p: p.csv_bytes(gzip.compress(gzip.compress(p.csv_text())), "a.csv.gz"),
        "save the file as UTF-8",
    ),
    "two members": (
        lambda p: p.csv_bytes(gzip.compress(p.csv_text()[:100]) + gzip.compress(p.csv_text()[100:]), "a.csv.gz"),
        clustered,
    ),
    "a member with the name of another file": (
        lambda p: p.csv_bytes(
            b"\x1f\x8b\x08\x08" + b"\0" * 6 + b"../../evil.csv\0" + gzip.compress(p.csv_text())[10:], "a.csv.gz"
        ),
        clustered,
    ),
    "gzip with something behind": (
        lambda p: p.csv_bytes(gzip.compress(p.csv_text()) + b"evil", "a.csv.gz"),
        "is damaged",
    ),
    # Parquet
    "a bomb of Parquet": (
        lambda p: p.cluster(records=p.parquet({"id": ["x" * 50_000] * 4000})),
        "make it again in parts",
    ),
    "a zero byte in Parquet": (lambda p: p.parquet_rows(more=["a\0"] * len(ROWS)), "zero byte"),
    "Parquet by its ends only": (lambda p: p.csv_bytes(b"PAR1" + b"\xff" * 50 + b"PAR1", "a.parquet"), "not Parquet"),
    "Parquet with SQL for a name": (lambda p: p.parquet_rows(**{'"; DROP TABLE x; --': ["y"] * len(ROWS)}), clustered),
    "a star for a name": (
        lambda p: (p.parquet({"id": ["x"]}, "other.parquet"), p.parquet_rows("*.parquet"))[1],
        own_file_only,
    ),
    "brackets in a name": (
        lambda p: (p.parquet({"id": ["x"]}, "a.parquet"), p.parquet_rows("[a].parquet"))[1],
        own_file_only,
    ),
    "a quote in a name": (lambda p: p.parquet_rows("a'; SELECT 1; --.parquet"), own_file_only),
    # what is no ordinary file
    "a pipe": (lambda p: p.cluster(records=p.pipe("a.csv")), "a pipe or a device"),
    "a packed pipe": (lambda p: p.cluster(records=p.pipe("a.csv.gz")), "a pipe or a device"),
    "a pipe of Parquet": (lambda p: p.cluster(records=p.pipe("a.parquet")), "a pipe or a device"),
    "a pipe of a spec": (lambda p: p.fit(p.rows(ROWS), "--spec", p.pipe("s.toml")), "a pipe or a device"),
    "a socket": (lambda p: p.cluster(records=p.socket("a.csv")), "a.csv"),
    "zeros without end": (lambda p: p.cluster(records=p.link("/dev/zero", "a.csv")), "a pipe or a device"),
    "a full device": (lambda p: p.cluster(records=p.link("/dev/full", "a.csv")), "a pipe or a device"),
    "a link to itself": (lambda p: p.cluster(records=p.link("a.csv", "a.csv")), "Too many levels"),
    "a model that is a link to itself": (lambda p: p.cluster(model=p.link("m", "m")), "there is no such model"),
    "a folder named as CSV": (lambda p: p.cluster(records=p.directory("x.csv")), "this is a directory"),
    "a folder named as Parquet": (lambda p: p.cluster(records=p.directory("x.parquet")), "this is a directory"),
    "a folder named as gzip": (lambda p: p.cluster(records=p.directory("x.csv.gz")), "this is a directory"),
    "a folder named as spec": (lambda p: p.fit(p.rows(ROWS), "--spec", p.directory("s.toml")), "this is a directory"),
    "a name too long": (lambda p: p.cluster(records=Path("x" * 5000 + ".csv")), "File name too long"),
    "writing turned round in a path": (lambda p: p.cluster(records=Path(f"a{TURNED}.csv")), f"a{ESCAPED}.csv"),
    "a cursor that moves in a path": (lambda p: p.cluster(records=Path("a\x1b[2J.csv")), "a\\u001b[2J.csv"),
    "a file that vanishes": (vanishing, "there is no such file"),
    "a disk that breaks": (broken_disk, "Input/output error"),
    # outputs
    "a report on a full device": (lambda p: p.cluster("--report", "/dev/full"), "a pipe or a device"),
    "a spec on a device": (lambda p: ("fit", p.made / "train.csv", "--write-spec", "/dev/null"), "a pipe or a device"),
    "clusters on a pipe": (lambda p: p.cluster("--out", p.pipe("o.csv")), "a pipe or a device"),
    "clusters by a link on a device": (
        lambda p: p.cluster("--out", p.link("/dev/full", "o.csv")),
        "a pipe or a device",
    ),
    "a full disk": (full_disk, "No space left"),
    "a folder that is only read": (lambda p: p.cluster("--out", "/proc/c.csv"), "cannot be written"),
    "a model in a folder that is only read": (
        lambda p: ("fit", p.made / "train.csv", "--out", "/proc/model", *QUICK),
        "cannot be written",
    ),
    "a name for clusters that is too long": (lambda p: p.cluster("--out", p.out / f"{'x' * 250}.csv"), "too long"),
    "a spreadsheet of no kind": (lambda p: p.cluster("--spreadsheet", p.out / "s.xlsx"), "name it .csv or .tsv"),
    "a spreadsheet on the clusters": (lambda p: p.cluster("--spreadsheet", p.out / "c.csv"), "is named twice"),
    "draws on a device": (lambda p: p.cluster("--draws", "/dev/null"), "there is a file of this name"),
    "results under a device": (lambda p: ("reproduce", "digits", "--quick", "--out", "/dev/null/x"), "/dev/null"),
    "a demo under a device": (lambda p: ("demo", "--out", "/dev/null/x"), "/dev/null/x"),
    # names that are paths or code
    "a task that is a path": (lambda p: ("reproduce", "../../etc", "--out", p.out / "r"), "../../etc"),
    "a system that is code": (
        lambda p: ("reproduce", "digits", "--systems", "x;import", "--out", p.out / "r"),
        "x;import",
    ),
    "a set that is a path": (lambda p: ("datasets", "path", "../../etc/passwd"), "no data set"),
    "a set to fetch that is an address": (lambda p: ("datasets", "fetch", "http://127.0.0.1/x"), "no data set"),
    **{
        f"the id {name!r:.20}": kept_apart(name)
        for name in (
            "../../x",
            "/etc/passwd",
            "..\\..\\x",
            "CON",
            "a" * 1000,
            "; rm -rf /",
            "$(touch x)",
            "%s%n{0}",
            ".",
        )
    },
    **{
        f"ids that start with {start!r}": formula_ids(start)
        for start in ("=", "+", "-", "@", "\t=", "\r=", " =", "＝", "=cmd|' /C calc'!A")
    },
    # pages and terminals
    "a script in records": reported("<script>alert(1)</script>"),
    "a picture in records": reported('"><img src=x onerror=alert(1)>'),
    "the end of the page in records": reported("</main></body></html><b>"),
    "a way out of an attribute": reported("' onmouseover='alert(1)"),
    "a comment in records": reported("<!-- x"),
    "writing turned round in a report": reported(TURNED),
    "isolates in a report": reported("\u2066\u2069"),
    "writing turned round in words": explained(TURNED, ESCAPED),
    "colours in words": explained("\x1b[31m", "\\u001b"),
    "a bell in words": explained("\x07", "\\u0007"),
    "a title for the window": explained("\x1b]0;owned\x07", "\\u001b]0;owned"),
    # names of columns, which reach SQL in Parquet
    **{
        f"ids in a column {name!r}, as {kind[1:]}": ((lambda n, k: lambda p: p.named(n, k))(name, kind), clustered)
        for name in ('a"b', "a'; DROP TABLE records; --", 'x" FROM range(9); --', "{0}%s\\", "\x1b[2J", f"i{TURNED}d")
        for kind in (".csv", ".parquet")
    },
    # specs
    "a spec of arrays without end": (lambda p: p.fit_spec("entity = " + "[" * 50_000), "nested too deeply"),
    "a spec of tables without end": (lambda p: p.fit_spec("entity = " + "{a=" * 50_000), "spec.toml"),
    "a spec of eight megabytes": (lambda p: p.fit_spec(TOP + "#" * 8_000_000), "4,194,304 bytes"),
    "a spec of a long array": (lambda p: p.fit_spec(spec_field(clean=["lower"] * 90_000)), "90,000 steps"),
    "a spec of many columns": (lambda p: p.fit_spec(spec_field(column=["title"] * 90_000)), "names a column twice"),
    "a spec of columns that are not there": (
        lambda p: p.fit_spec(spec_field(column=[f"c{k}" for k in range(90_000)])),
        "there is no column 'c0'",
    ),
    "a spec of many fields": (
        lambda p: p.fit_spec(TOP + "".join(f'{FIELD}name = "f{k}"\n' for k in range(9000))),
        "has 9,000 fields",
    ),
    "a long dotted key": (lambda p: p.fit_spec("a." * 20_000 + "b = 1"), "spec.toml"),
    "a number of many digits": (lambda p: p.fit_spec(raw_field("scale = " + "9" * 5000)), "not valid TOML"),
    "a scale that is no number": (lambda p: p.fit_spec(raw_field("scale = nan")), "must be a positive number"),
    "a scale without end": (lambda p: p.fit_spec(raw_field("scale = inf")), "must be a positive number"),
    "a scale next to nothing": (lambda p: p.fit_spec(raw_field("scale = 5e-324")), a_model),
    "a scale beyond all": (lambda p: p.fit_spec(raw_field("scale = 1e308")), a_model),
    "a pattern for a step": (lambda p: p.fit_spec(spec_field(clean=["(a+)+$"])), "there is no cleaning step '(a+)+$'"),
    "a pattern that matches all": (lambda p: p.fit_spec(spec_field(clean=[".*"])), "there is no cleaning step '.*'"),
    "code for a kind": (lambda p: p.fit_spec(spec_field(kind="__import__('os')")), "there is no comparison"),
    "an attribute for a part": (lambda p: p.fit_spec(spec_field(of="__class__")), "there is no transform"),
    "a step of a megabyte": (lambda p: p.fit_spec(spec_field(clean=["x" * 900_000])), "there is no cleaning step"),
    "writing turned round in a spec": (lambda p: p.fit_spec(spec_field(kind=f"e{TURNED}")), ESCAPED),
    "a line end in a name": (lambda p: p.fit_spec(spec_field(name="a\n[[field]]\nb")), a_model),
    "a spec with a mark": (lambda p: p.fit_spec(f"\ufeff{TOP}{FIELD}"), a_model),
    "a zero byte in a spec": (lambda p: p.fit_spec(f"{TOP}\0"), "not valid TOML"),
    "a date for a column": (
        lambda p: p.fit_spec(f"{TOP}[[field]]\nkind='edit'\ncolumn=1979-05-27\n"),
        "must be a name",
    ),
    # models: words
    "a model of a number that is none": (
        lambda p: p.words(lambda a: a["parameters"].update(mean_variance=float("nan"))),
        "model.json: cannot be read",
    ),
    "a model of a number without end": (
        lambda p: p.words_text(lambda t: t.replace('"parameters": {', '"parameters": {"x": 1e999,', 1)),
        "cannot be read",
    ),
    "a model with a name twice": (
        lambda p: p.words_text(lambda t: t.replace("{", '{"format": "x",', 1)),
        "'format' twice",
    ),
    "a model nested without end": (lambda p: p.file_of_model("model.json", '{"a":' * DEEP), "nested too deeply"),
    "a model of too many bytes": (lambda p: p.file_of_model("model.json", b" " * (65 << 20)), "67,108,864 bytes"),
    "a model in UTF-16": (lambda p: p.words_text(lambda t: t.encode("utf-16")), "model.json: cannot be read"),
    "a model with half a character": (
        lambda p: p.words_text(lambda t: t.replace("{", '{"x": "\\ud800",', 1)),
        "half a character",
    ),
    "a model with a number of many digits": (
        lambda p: p.words_text(lambda t: t.replace("{", '{"x": %s,' % ("9" * 5000), 1)),
        "cannot be read",
    ),
    "a version of truth values": (lambda p: p.words(lambda a: a.update(version=[True, False])), "which is none"),
    "a model that says where to write": (
        lambda p: p.words(lambda a: a["parameters"].update(checkpoint=str(p.out / "evil"), checkpoint_seconds=0)),
        clustered,
    ),
    "a model of a metric that is a module": (
        lambda p: p.words(lambda a: a["parameters"].update(metric="os")),
        "metric must be one of",
    ),
    "a model of a huge seed": (lambda p: p.words(lambda a: a["fitted"].update(seed=10**400)), clustered),
    "a model that is a path": (lambda p: p.words(lambda a: a.update(model="../../x")), "is not known"),
    "a model that is a module": (lambda p: p.words(lambda a: a.update(model="os.system")), "is not known"),
    "a model that is a list": (lambda p: p.words(lambda a: a.update(model=["scdp1"])), "is not known"),
    **{
        f"{part} {name} = {value!r:.12}": (with_setting(part, name, value), "fit the model again")
        for part, name, value in SETTINGS
    },
    # models: arrays
    "a pickled array": (lambda p: p.member(pickled()), "it holds pickled objects"),
    "one pickled array more": (lambda p: p.member(pickled(), "more.npy"), "it holds pickled objects"),
    "a pickle for arrays": (lambda p: p.file_of_model("arrays.npz", pickle.dumps(Harm())), "it is damaged"),
    "an array for arrays": (lambda p: p.file_of_model("arrays.npz", npy([1, 2])), "it is damaged"),
    "names out of the folder": (lambda p: p.member(npy([1.0]), "../../evil.npy"), clustered),
    "a name from the root": (lambda p: p.member(npy([1.0]), "/tmp/scdp-evil.npy"), clustered),
    "a bomb of arrays": (
        lambda p: p.member(npy(b"\0" * 100).ljust(2 * ALLOWED, b"\0"), "more.npy", compress_type=zipfile.ZIP_DEFLATED),
        "which no such file does",
    ),
    "an array larger than its file": (lambda p: p.member(npy_header(HEADER.format("<f8", 10**12))), "it is damaged"),
    "an array of nothing, many times": (lambda p: p.member(npy_header(HEADER.format("<U0", 10**12))), "it is damaged"),
    "an array of a negative length": (lambda p: p.member(npy_header(HEADER.format("<f8", -5))), "it is damaged"),
    "a header of code": (lambda p: p.member(npy_header("__import__('os').system('x')")), "it is damaged"),
    "a header nested without end": (lambda p: p.member(npy_header("(" * 9000)), "it is damaged"),
    "a member that is no array": (lambda p: p.member(b"what"), "it is damaged"),
    "an encrypted member": (lambda p: header_of_zip(p, 6, 8, b"\x01\x00"), "it is damaged"),
    "a way of packing that is not known": (lambda p: header_of_zip(p, 8, 10, b"\x63\x00"), "it is damaged"),
    "arrays of records": (lambda p: p.member(npy([(1, 2.0)])), "'labels' has shape"),
    "arrays of dates": (lambda p: p.member(npy(["2020-01-01"] * 3)), "which is not what belongs there"),
    # models: what is beside
    "a model.json that is a pipe": (lambda p: p.pipe_in_model("model.json"), "this is no model of scdp"),
    "arrays that are a pipe": (lambda p: p.pipe_in_model("arrays.npz"), "is missing"),
    "records that are a pipe": (lambda p: p.pipe_in_model("records.jsonl"), "a pipe or a device"),
    "a spec that is a pipe": (lambda p: p.pipe_in_model("spec.toml"), "a pipe or a device"),
    "draws that are a pipe": (lambda p: p.pipe_in_model("posterior.npz"), "posterior.npz"),
    "records nested without end": (lambda p: p.file_of_model("records.jsonl", "[" * DEEP), "nested too deeply"),
    "records with half a character": (
        lambda p: p.file_of_model("records.jsonl", '{"title": "\\ud800"}\n'),
        "half a character",
    ),
    "records of lists": (lambda p: p.file_of_model("records.jsonl", '{"title": [[1]]}\n'), "fit the model again"),
    "a spec of a model without end": (
        lambda p: p.file_of_model("spec.toml", "entity = " + "[" * 50_000),
        "nested too deeply",
    ),
    # draws that are kept
    "draws that are pickled": (lambda p: p.draws(zipped(version=pickled())), "not a posterior saved by scdp"),
    "a bomb of draws": (lambda p: p.draws(zipped(version=bytes(2 * ALLOWED))), "not a posterior saved by scdp"),
    "a result from a pipe": (lambda p: p.result(None), "this is no result of scdp"),
    "a result that is no JSON": (lambda p: p.result(b"\xff{"), "cannot be read"),
    "a result nested without end": (lambda p: p.result(b"[" * DEEP), "nested too deeply"),
    "a result of other files": (
        lambda p: p.result(b'{"format": "scdp-result", "version": [1, 0], "files": {"../x.y": "0"}}'),
        "is not whole",
    ),
    "draws with a version of text": (lambda p: p.draws(zipped(version=npy("x"))), "not a posterior saved by scdp"),
    "draws of the future": (lambda p: p.draws(zipped(version=npy(9))), "another version"),
    # annotation in XML
    "a good document": (lambda p: p.ace(apf(SEATED)), names_mentions),
    "a billion laughs": (lambda p: p.ace(apf("&a9;", laughs())), "entities of its own"),
    "one long entity, many times": (
        lambda p: p.ace(apf("&a;" * 50_000, f'<!DOCTYPE x [<!ENTITY a "{"x" * 50_000}">]>')),
        "entities of its own",
    ),
    "a file of this machine": (
        lambda p: p.ace(apf("&a;", '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>')),
        "entities of its own",
    ),
    "a parameter entity": (
        lambda p: p.ace(apf("", '<!DOCTYPE x [<!ENTITY % a SYSTEM "http://127.0.0.1/x"> %a;]>')),
        "entities of its own",
    ),
    "a public document type": (
        lambda p: p.ace(apf("", '<!DOCTYPE x PUBLIC "a" "http://127.0.0.1/x">')),
        "entities of its own",
    ),
    "two document types": (lambda p: p.ace(apf("", '<!DOCTYPE x SYSTEM "a.dtd">' + laughs())), "entities of its own"),
    "the usual document type": (
        lambda p: p.ace(apf(SEATED, '<!DOCTYPE x SYSTEM "http://127.0.0.1/x">')),
        names_mentions,
    ),
    "laughs in UTF-16": (lambda p: p.ace(apf("&a9;", laughs(), "UTF-16").encode("utf-16")), "entities of its own"),
    "an include": (
        lambda p: p.ace(apf(SEATED + '<x:include xmlns:x="http://www.w3.org/2001/XInclude" href="/etc/passwd"/>')),
        names_mentions,
    ),
    "a style sheet": (
        lambda p: p.ace(apf(SEATED).replace("?>", '?><?xml-stylesheet href="file:///etc/passwd"?>', 1)),
        names_mentions,
    ),
    "elements without end": (lambda p: p.ace(apf("<a>" * DEEP + "</a>" * DEEP + SEATED)), names_mentions),
    "entities in entities": (
        lambda p: p.ace(apf('<entity ID="E" TYPE="PER">' * 50_000 + "</entity>" * 50_000 + SEATED)),
        names_mentions,
    ),
    "an encoding that is not known": (lambda p: p.ace(apf("", "", "x-evil")), "is not readable XML"),
    "an encoding of seven bits": (lambda p: p.ace(apf("", "", "utf-7")), "is not readable XML"),
    "an offset of many digits": (
        lambda p: p.ace(apf(SEATED.replace('END="6"', f'END="{"9" * 6000}"'))),
        "character offsets",
    ),
    "an offset beyond the text": (
        lambda p: p.ace(apf(SEATED.replace('END="6"', 'END="99999999"'))),
        "do not belong together",
    ),
    "an offset below 0": (lambda p: p.ace(apf(SEATED.replace('START="0"', 'START="-7"'))), "character offsets"),
    "a character of many digits": (lambda p: p.ace(apf(SEATED), SOURCE + f"&#{'9' * 6000};"), "cannot be read"),
    "a document that is a path": (lambda p: p.ace(apf(SEATED).replace('DOCID="d"', 'DOCID="../../x"')), names_mentions),
    "a document of twenty megabytes": (lambda p: p.ace(apf(" " * (20 << 20))), "16,777,216 bytes"),
    "a document that is a pipe": (lambda p: (p.pipe("d.apf.xml"), p.exported())[1], "a pipe or a device"),
    "a source that is a pipe": (
        lambda p: (p.text(apf(SEATED), "d.apf.xml"), p.pipe("d.sgm"), p.exported())[2],
        "a pipe or a device",
    ),
    "ends of tags without starts": (lambda p: p.ace(apf(SEATED), SOURCE + "<" * 1_000_000), names_mentions),
}


class TooLateError(BaseException):
    """No Exception, which the command line would turn into a sentence."""


def too_late(*_: object) -> None:
    raise TooLateError("it does not end")


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """Kernels are compiled once for a machine, which is no part of a case."""
    folder = fitted_folder()
    assert run("explain", folder / "model", folder / "test.csv", *[r["id"] for r in ROWS[:2]]).exit_code == 0


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hostile]:
    monkeypatch.setenv("SCDP_DATA", str(tmp_path / "no-data"))
    monkeypatch.setenv("SCDP_OFFLINE", "1")
    made = Hostile(tmp_path, monkeypatch)
    before = {path: path.stat().st_mtime_ns for path in made.made.rglob("*")}
    yield made
    assert {path: path.stat().st_mtime_ns for path in made.made.rglob("*")} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


def refused(place: Hostile, result: Any, says: str) -> None:
    assert result.exit_code == 2, result.output[-2000:]
    *_, last = result.stderr.strip().splitlines()
    assert says in last
    assert sum("error:" in line.lower() for line in result.stderr.splitlines()) == 1
    assert len(last) < 3000
    assert not list(place.out.rglob("*"))


@pytest.mark.parametrize("name", CASES)
def test_refused_in_one_sentence_or_done_right(name, place):
    make, expected = CASES[name]
    arguments = make(place)
    files = sorted(place.folder.rglob("*"))
    before = [(number, signal.signal(number, too_late)) for number in (signal.SIGALRM, signal.SIGPROF)]
    for timer, seconds in SECONDS.items():
        signal.setitimer(timer, seconds)
    try:
        result = run(*arguments)
    finally:
        for timer in SECONDS:
            signal.setitimer(timer, 0)
        for number, handler in before:
            signal.signal(number, handler)
    assert "Traceback" not in result.output
    assert sorted(path for path in place.folder.rglob("*") if path.name != "a.csv") == [
        path for path in files if path.name != "a.csv"
    ]
    if isinstance(expected, str):
        refused(place, result, expected)
    else:
        expected(place, result)


def in_a_process(*arguments: object, **settings: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "scdp.cli", *map(str, arguments)]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=900, check=False, **settings)


PROCESSES: dict[str, tuple[Callable[[Hostile], Made], str]] = {
    "results on a full device": (lambda p: ("evaluate", p.made / "test.csv", p.made / "test.csv"), "No space left"),
    "a list on a full device": (lambda p: ("datasets", "list"), "No space left"),
    "a pipe in a process": (lambda p: p.cluster(records=p.pipe("a.csv")), "a pipe or a device"),
    "a path that is no text": (lambda p: ("evaluate", os.fsdecode(b"\xff.csv"), "x.csv"), "\\udcff.csv"),
}


@pytest.mark.parametrize("name", PROCESSES)
def test_the_same_in_a_process_of_its_own(name, place):
    make, says = PROCESSES[name]
    with Path("/dev/full").open("wb") as full:
        result = in_a_process(*make(place), stdout=full)
    assert result.returncode == 2, result.stderr
    assert says in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert "Traceback" not in result.stderr
    assert not list(place.out.rglob("*"))


def test_there_are_enough_of_them(capsys):
    with capsys.disabled():
        print(f"\n{len(CASES) + len(PROCESSES)} hostile inputs through the command line")
    assert len(CASES) + len(PROCESSES) > 250


def test_help_says_where_formulas_are_escaped():
    assert "a ' in front" in " ".join(run("cluster", "--help").output.split())
    assert "not escaped" in " ".join(run("datasets", "export", "--help").output.split())
