"""Mutated files for the readers: a random number generator enters, a file is written and read, one example a call.

Whatever a file holds, it is read or refused by an InputError. Any other exception or warning leaves a reader here, and
so does an answer that cannot be right.
"""

from __future__ import annotations

import io
import json
import shutil
import warnings
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from hostile_files import SEATED, SOURCE, apf
from product_cases import SPEC, fitted_folder
from scdp import SCDP, Spec
from scdp.errors import InputError
from scdp.io import atomic
from scdp.paper.datasets import load_ace
from scdp.store.files import Manifest, read_manifest, write_manifest
from scdp.table.decisions import Decision, append_decision, read_decisions
from scdp.table.delimited import read_large
from scdp.table.readers import read_records
from scdp.table.text_files import read_delimited

TABLE = 'id,title,year\nr1,"a, ""b""",1999\nr2,\ufeffc,\nr3,=1+1,2e308\n'
LINES = '{"id": "r1", "title": "a\\u00e9", "year": 1999}\n{"id": 2, "title": [1, {"a": null}], "year": NaN}\n'
DECISIONS = (
    '{"ids": ["a", "b"], "decision": "same", "who": "x", "when": "2026-01-01", "why": "y"}\n'
    '{"ids": ["a", "c", "d"], "decision": "different"}\n'
)
DECISION_TABLE = "decision,id1,id2\nsame,a,b\ncannot tell,b,c\n"
SPLINK = json.dumps(
    {
        "unique_id_column_name": "id",
        "comparisons": [
            {"comparison_levels": [{"sql_condition": 'jaro_winkler_similarity("a_l", "a_r") > 0.9'}]},
            {"comparison_levels": [{"sql_condition": 'abs("b_l" - "b_r") < 3'}, {"sql_condition": "ELSE"}]},
        ],
    }
)
SPECS = (SPEC, f"{SPEC}name = 'x'\nscale = 2.5\nclean = ['lower', 'spaces']\nof = 'year'\n")
# What parsers give a meaning to, beside what is in the file already.
TOKENS = [
    token.encode("utf-8")
    for token in (
        "\"", "'", "[", "]", "{", "}", "[[", "]]", "<", ">", "&", "&#", ";", "<!DOCTYPE x [", "<![CDATA[", "-->", "=",
        ",", "\n", "\r", "\0", "\\", "\\u", "\\ud800", "\ufeff", "\u202e", "1e999", "-1", "9" * 5000, "nan", "null",
        "true", "START", "END", "field", "clean", '"""', "#", "(", "''", "0x", "1979-05-27", "é", "\U0001f600",
    )
] + [b"\xff\xfe", b"\xef\xbb\xbf", b"\x1f\x8b\x08", b"PK\x03\x04", b"\x93NUMPY", b"\x80", b"PAR1"]  # fmt: skip
VALUES: list[Any] = [
    None, True, False, 0, -1, 3, 2**31, 2**63, -(2**63), 10**30, 0.5, -0.0, 1e308, float("nan"), float("inf"), "", "a",
    "\0", [], [[]], {}, {"a": []}, [0] * 9, ["a", None], {"": {"": ""}},
]  # fmt: skip


def mutate(rng: Random, original: bytes) -> bytes:
    """The file with some places cut out, doubled, overwritten, or with a token put in."""
    content = original
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        start = rng.randint(0, len(content))
        end = min(len(content), start + rng.choice((0, 1, 2, 8, 64)))
        middle = rng.choice((rng.choice(TOKENS), rng.randbytes(rng.randint(0, 6)), content[start:end] * 2))
        content = content[:start] + middle + content[end:]
    return content


def some_file(rng: Random, *originals: str) -> bytes:
    """A mutated file mostly, and now and then bytes or tokens of no kind."""
    if rng.random() < 0.8:
        return mutate(rng, rng.choice(originals).encode("utf-8"))
    if rng.random() < 0.5:
        return rng.randbytes(rng.randint(0, 60))
    return b"".join(rng.choices(TOKENS, k=rng.randint(0, 12)))


def typed(read: Callable[[], Any]) -> Any:
    """What is read, or None where it is refused in one sentence."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return read()
    except InputError:
        return None


def read_table(rng: Random, folder: Path) -> bool:
    path = folder / f"a{rng.choice(('.csv', '.tsv', '.csv.gz'))}"
    path.write_bytes(some_file(rng, TABLE))
    found = typed(lambda: read_records(path))
    assert found is None or all(cell is None or cell.strip() for name in found.names for cell in found[name])
    return found is not None


def read_large_table(rng: Random, folder: Path) -> bool:
    """By kernels, as texts of many megabytes are: the same as the plain reader, or nothing."""
    text = some_file(rng, TABLE).decode("utf-8", "replace")
    delimiter = rng.choice(",,,,;\t|")
    found = typed(lambda: read_large(text, delimiter, "a.csv"))
    if found is None:
        return False
    plain = read_delimited(text, delimiter, "a.csv")
    assert found.names == plain.names
    assert [list(found[name]) for name in found.names] == [list(plain[name]) for name in plain.names]
    return True


def read_lines(rng: Random, folder: Path) -> bool:
    path = folder / "a.jsonl"
    path.write_bytes(some_file(rng, LINES))
    found = typed(lambda: read_records(path))
    if found is not None:
        "".join(cell or "" for name in found.names for cell in found[name]).encode("utf-8")
    return found is not None


def read_spec(rng: Random, folder: Path, name: str = "spec.toml", originals: tuple[str, ...] = SPECS) -> bool:
    path, again = folder / name, folder / "again.toml"
    path.write_bytes(some_file(rng, *originals))
    found = typed(lambda: Spec.from_toml(path))
    if found is not None:
        again.write_text(found.to_toml(), encoding="utf-8", newline="")
        assert Spec.from_toml(again) == found
    return found is not None


def read_splink(rng: Random, folder: Path) -> bool:
    return read_spec(rng, folder, "splink.json", (SPLINK,))


def read_annotation(rng: Random, folder: Path) -> bool:
    place = folder / "ace"
    place.mkdir(exist_ok=True)
    annotation = some_file(rng, apf(SEATED), apf(SEATED, '<!DOCTYPE x SYSTEM "a.dtd">'))
    (place / "d.apf.xml").write_bytes(annotation)
    (place / "d.sgm").write_bytes(SOURCE.encode() if rng.random() < 0.5 else some_file(rng, SOURCE))
    return typed(lambda: load_ace(place)) is not None


def read_said(rng: Random, folder: Path) -> bool:
    path = folder / f"decisions{rng.choice(('.jsonl', '.csv'))}"
    path.write_bytes(some_file(rng, DECISIONS, DECISION_TABLE))
    found = typed(lambda: read_decisions(path))
    if found is not None and path.suffix == ".jsonl":
        # Whatever was readable stays, and one more line follows.
        append_decision(path, Decision(("x", "y"), "same"))
        assert read_decisions(path) == [*found, Decision(("x", "y"), "same")]
    return found is not None


DRAWS = np.arange(40, dtype=np.int32).reshape(4, 10)
MANIFEST = Manifest(3, 17, ("records-1.parquet", "events-3.jsonl"), ("0" * 64, "f" * 64))


@cache
def good_files() -> tuple[bytes, bytes]:
    """A shard, and the list of files of a store."""
    with TemporaryDirectory() as place:
        path = Path(place) / "shard.npz"
        atomic.write_sealed(path, {"format": "x", "run": "y"}, {"draws": DRAWS})
        write_manifest(Path(place), MANIFEST)
        return path.read_bytes(), (Path(place) / "store.json").read_bytes()


def read_shard(rng: Random, folder: Path) -> bool:
    """Altered bytes are found out: what is read is what was written, or nothing is."""
    path = folder / "shard.npz"
    path.write_bytes(mutate(rng, good_files()[0]))
    try:
        about, arrays = atomic.read_sealed(path)
    except (InputError, atomic.Damaged):
        return False
    assert about == {"format": "x", "run": "y"}
    assert (arrays["draws"] == DRAWS).all()
    return True


def read_store(rng: Random, folder: Path) -> bool:
    """As of a shard."""
    (folder / "store.json").write_bytes(mutate(rng, good_files()[1]))
    found = typed(lambda: read_manifest(folder))
    assert found in (None, MANIFEST)
    return found is not None


@cache
def good_model() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (fitted_folder() / "model").iterdir()}


def places(content: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value that another value could stand in."""
    inside = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    return [path, *(deeper for key, value in inside for deeper in places(value, (*path, key)))]


def with_value(content: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    copy = dict(content) if isinstance(content, dict) else list(content)
    copy[path[0]] = with_value(content[path[0]], path[1:], value)
    return copy


def changed_arrays(rng: Random, original: bytes) -> bytes:
    """The arrays with one of another shape, kind or content."""
    with np.load(io.BytesIO(original)) as archive:
        arrays = dict(archive)
    name = rng.choice(sorted(arrays))
    array = arrays[name]
    others = [
        lambda: np.empty(0, array.dtype), lambda: array[None], lambda: array.T.copy(), lambda: array.astype(str),
        lambda: array.astype(bool), lambda: np.full_like(array, 9), lambda: np.full(array.shape, -9),
        lambda: array.ravel()[:1], lambda: array.astype(np.complex128), lambda: array.astype(np.float32),
        lambda: np.full(array.shape, np.nan), lambda: np.full(array.shape, 1e308),
        lambda: np.full(array.shape, 2**62), lambda: np.array(3),
    ]  # fmt: skip
    arrays[name] = rng.choice(others)()
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


def changed_member(rng: Random, original: bytes) -> bytes:
    """The archive with the first bytes of one array mutated, and right checksums."""
    with zipfile.ZipFile(io.BytesIO(original)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(sorted(members))
    members[name] = mutate(rng, members[name][:400]) + members[name][400:]
    again = io.BytesIO()
    with zipfile.ZipFile(again, "w") as archive:
        for each, data in members.items():
            archive.writestr(each, data)
    return again.getvalue()


def changed_file(rng: Random, files: dict[str, bytes]) -> tuple[str, bytes]:
    """One file of a folder that is another than it was: in its values, its arrays or its bytes."""
    kind = rng.choice(("values", "arrays", "bytes", "bytes", "member"))
    name = rng.choice(sorted(files))
    if kind == "values" and name.endswith(".json"):
        words = json.loads(files[name])
        return name, json.dumps(with_value(words, rng.choice(places(words)), rng.choice(VALUES))).encode()
    if kind in ("arrays", "member") and name.endswith(".npz"):
        return name, (changed_arrays if kind == "arrays" else changed_member)(rng, files[name])
    return name, mutate(rng, files[name])


def read_model(rng: Random, folder: Path) -> bool:
    place = folder / "model"
    if not place.exists():
        shutil.copytree(fitted_folder() / "model", place)
    name, content = changed_file(rng, good_model())
    (place / name).write_bytes(content)
    try:
        return typed(lambda: SCDP.load(place)) is not None
    finally:
        (place / name).write_bytes(good_model()[name])


READERS: dict[str, Callable[[Random, Path], bool]] = {
    "tables": read_table,
    "large tables": read_large_table,
    "JSON lines": read_lines,
    "specs": read_spec,
    "settings of Splink": read_splink,
    "annotation": read_annotation,
    "decisions": read_said,
    "shards": read_shard,
    "lists of a store": read_store,
    "models": read_model,
}


def try_reader(name: str, seed: int, folder: Path) -> bool:
    """One example; whether the file was read. What goes wrong names the example."""
    try:
        return READERS[name](Random(f"{name} {seed}"), folder)
    except Exception as error:
        raise AssertionError(f"{name}, example {seed}: {type(error).__name__}: {error}") from error
