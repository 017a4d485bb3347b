"""Random and mutated files for the readers: whatever they hold, the only exceptions are InputError and its kinds.

`make fuzz` sets SCDP_FUZZ to the number of examples of each reader; without it there are few, and always the same.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import warnings
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostile_files import SEATED, SOURCE, apf
from product_cases import SPEC, fitted_folder
from scdp import SCDP, Spec
from scdp.errors import InputError
from scdp.io import sealed
from scdp.paper.datasets import load_ace
from scdp.table.decisions import Decision, append_decision, read_decisions
from scdp.table.readers import read_records

pytestmark = pytest.mark.filterwarnings("ignore::scdp.posterior.diagnostics.ConvergenceWarning")

EXAMPLES = int(os.environ.get("SCDP_FUZZ", "200"))
fuzzed = settings(
    max_examples=EXAMPLES,
    derandomize="SCDP_FUZZ" not in os.environ,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)

TABLE = 'id,title,year\nr1,"a, ""b""",1999\nr2,\ufeffc,\nr3,=1+1,2e308\n'
LINES = '{"id": "r1", "title": "a\\u00e9", "year": 1999}\n{"id": 2, "title": [1, {"a": null}], "year": NaN}\n'
# What parsers give a meaning to, beside what is in the file already.
TOKENS = [
    "\"", "'", "[", "]", "{", "}", "[[", "]]", "<", ">", "&", "&#", ";", "<!DOCTYPE x [", "<![CDATA[", "-->", "=", ",",
    "\n", "\r", "\0", "\\", "\\u", "\\ud800", "\ufeff", "\u202e", "1e999", "-1", "9" * 5000, "nan", "null", "true",
    "START", "END", "field", "clean", '"""', "#", "(", "''", "0x", "1979-05-27", "é", "\U0001f600",
]  # fmt: skip
SUFFIXES = st.sampled_from([".jsonl", ".csv"])
BYTES = [b"\xff\xfe", b"\xef\xbb\xbf", b"\x1f\x8b\x08", b"PK\x03\x04", b"\x93NUMPY", b"\0", b"\x80", b"PAR1"]


@st.composite
def mutated(draw: Callable[..., Any], original: bytes) -> bytes:
    """The file with some places cut out, doubled, overwritten, or with a token put in."""
    content = original
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.sampled_from([0, 1, 2, 8, 64])))
        middle = draw(
            st.sampled_from([token.encode("utf-8") for token in TOKENS])
            | st.sampled_from(BYTES)
            | st.binary(max_size=6)
            | st.just(content[start:end] * 2)
        )
        content = content[:start] + middle + content[end:]
    return content


def files(*originals: str) -> st.SearchStrategy[bytes]:
    """Mutated files mostly, and now and then bytes or text of no kind."""
    mutants = [mutated(original.encode("utf-8")) for original in originals]
    texts = st.lists(st.sampled_from(TOKENS) | st.text(max_size=5), max_size=12).map("".join)
    return st.one_of(*mutants, *mutants, st.binary(max_size=60), texts.map(lambda text: text.encode("utf-8")))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


def typed(read: Callable[[], Any]) -> Any:
    """What is read, or None where it is refused in one sentence; any other exception or warning fails the test."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return read()
    except InputError:
        return None


@fuzzed
@given(content=files(TABLE), suffix=st.sampled_from([".csv", ".tsv", ".csv.gz"]))
def test_the_reader_of_tables(folder, content, suffix):
    path = folder / f"a{suffix}"
    path.write_bytes(content)
    found = typed(lambda: read_records(path))
    assert found is None or all(cell is None or cell.strip() for name in found.names for cell in found[name])


@fuzzed
@given(content=files(LINES))
def test_the_reader_of_json_lines(folder, content):
    path = folder / "a.jsonl"
    path.write_bytes(content)
    found = typed(lambda: read_records(path))
    if found is not None:
        "".join(cell or "" for name in found.names for cell in found[name]).encode("utf-8")


@fuzzed
@given(content=files(SPEC, f"{SPEC}name = 'x'\nscale = 2.5\nclean = ['lower', 'spaces']\nof = 'year'\n"))
def test_the_reader_of_specs(folder, content):
    path = folder / "spec.toml"
    path.write_bytes(content)
    found = typed(lambda: Spec.from_toml(path))
    if found is not None:
        path.write_text(found.to_toml(), encoding="utf-8", newline="")
        assert Spec.from_toml(path) == found


SPLINK = json.dumps(
    {
        "unique_id_column_name": "id",
        "comparisons": [
            {"comparison_levels": [{"sql_condition": 'jaro_winkler_similarity("a_l", "a_r") > 0.9'}]},
            {"comparison_levels": [{"sql_condition": 'abs("b_l" - "b_r") < 3'}, {"sql_condition": "ELSE"}]},
        ],
    }
)


@fuzzed
@given(content=files(SPLINK))
def test_the_reader_of_settings_of_splink(folder, content):
    path = folder / "splink.json"
    path.write_bytes(content)
    found = typed(lambda: Spec.from_toml(path))
    if found is not None:
        (folder / "spec.toml").write_text(found.to_toml(), encoding="utf-8", newline="")
        assert Spec.from_toml(folder / "spec.toml") == found


@fuzzed
@given(
    annotation=files(apf(SEATED), apf(SEATED, '<!DOCTYPE x SYSTEM "a.dtd">')),
    source=files(SOURCE) | st.none(),
)
def test_the_reader_of_annotation(folder, annotation, source):
    place = folder / "ace"
    place.mkdir(exist_ok=True)
    (place / "d.apf.xml").write_bytes(annotation)
    (place / "d.sgm").write_bytes(SOURCE.encode() if source is None else source)
    typed(lambda: load_ace(place))


DECISIONS = (
    '{"ids": ["a", "b"], "decision": "same", "who": "x", "when": "2026-01-01", "why": "y"}\n'
    '{"ids": ["a", "c", "d"], "decision": "different"}\n'
)


@fuzzed
@given(content=files(DECISIONS) | files("decision,id1,id2\nsame,a,b\ncannot tell,b,c\n"), suffix=SUFFIXES)
def test_the_reader_of_decisions(folder, content, suffix):
    path = folder / f"decisions{suffix}"
    path.write_bytes(content)
    found = typed(lambda: read_decisions(path))
    if found is not None and suffix == ".jsonl":
        # Whatever was readable stays, and one more line follows.
        append_decision(path, Decision(("x", "y"), "same"))
        assert read_decisions(path) == [*found, Decision(("x", "y"), "same")]


@cache
def good_shard() -> bytes:
    with TemporaryDirectory() as place:
        path = Path(place) / "shard.npz"
        sealed.write(
            path, {"format": "x", "run": "y"}, {"draws": np.arange(40, dtype=np.int32).reshape(4, 10)}
        )
        return path.read_bytes()


@fuzzed
@given(data=st.data())
def test_the_reader_of_what_is_kept_between_runs(folder, data):
    """Altered bytes are found out: what is read is what was written, or nothing is."""
    path = folder / "shard.npz"
    path.write_bytes(data.draw(mutated(good_shard())))
    try:
        about, arrays = sealed.read(path)
    except (InputError, sealed.Damaged):
        return
    assert about == {"format": "x", "run": "y"}
    assert (arrays["draws"] == np.arange(40).reshape(4, 10)).all()


@cache
def good_model() -> dict[str, bytes]:
    """The files of a model; few arrays, and the small ones of a zip file that mutations can hit."""
    folder = fitted_folder() / "model"
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@cache
def words() -> dict[str, Any]:
    return json.loads(good_model()["model.json"])


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def places(content: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value that another value could stand in."""
    inside = (
        content.items()
        if isinstance(content, dict)
        else enumerate(content)
        if isinstance(content, list)
        else ()
    )
    return [path, *(deeper for key, value in inside for deeper in places(value, (*path, key)))]


def with_value(content: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    copy = dict(content) if isinstance(content, dict) else list(content)
    copy[path[0]] = with_value(content[path[0]], path[1:], value)
    return copy


@st.composite
def changed_arrays(draw: Callable[..., Any]) -> bytes:
    """The arrays with one of another shape, kind or content."""
    with np.load(io.BytesIO(good_model()["arrays.npz"])) as archive:
        arrays = dict(archive)
    name = draw(st.sampled_from(sorted(arrays)))
    array = arrays[name]
    others = [
        array[:0], array[None], array.T.copy(), array.astype(str), array.astype(bool), np.full_like(array, 9),
        np.full_like(array, -9), array.ravel()[:1], array.astype(np.complex128), array.astype(np.float32),
        np.full(array.shape, np.nan), np.full(array.shape, 1e308), np.full(array.shape, 2**62), np.array(3),
    ]  # fmt: skip
    arrays[name] = draw(st.sampled_from(others))
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


@st.composite
def changed_models(draw: Callable[..., Any]) -> tuple[str, bytes]:
    """One file of the model that is another than it was."""
    kind = draw(st.sampled_from(["values", "arrays", "bytes", "bytes", "member"]))
    if kind == "values":
        path = draw(st.sampled_from(places(words())))
        return "model.json", json.dumps(with_value(words(), path, draw(JSON_VALUES))).encode()
    if kind == "arrays":
        return "arrays.npz", draw(changed_arrays())
    if kind == "member":
        content = io.BytesIO(good_model()["arrays.npz"])
        with zipfile.ZipFile(content) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        name = draw(st.sampled_from(sorted(members)))
        members[name] = draw(mutated(members[name][:400])) + members[name][400:]
        again = io.BytesIO()
        with zipfile.ZipFile(again, "w") as archive:
            for each, data in members.items():
                archive.writestr(each, data)
        return "arrays.npz", again.getvalue()
    name = draw(st.sampled_from(sorted(good_model())))
    return name, draw(mutated(good_model()[name]))


@fuzzed
@given(change=changed_models())
def test_the_loader_of_models(folder, change):
    place = folder / "model"
    if not place.exists():
        shutil.copytree(fitted_folder() / "model", place)
    name, content = change
    (place / name).write_bytes(content)
    try:
        typed(lambda: SCDP.load(place))
    finally:
        (place / name).write_bytes(good_model()[name])


def test_the_files_that_are_mutated_are_good(folder):
    (folder / "good.csv").write_text(TABLE, encoding="utf-8")
    (folder / "good.jsonl").write_text(LINES, encoding="utf-8")
    assert len(read_records(folder / "good.csv")) == 3
    assert len(read_records(folder / "good.jsonl")) == 2
    assert SCDP.load(fitted_folder() / "model").spec is not None
