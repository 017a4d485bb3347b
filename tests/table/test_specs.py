"""Specs round-trip through TOML, point at the line of a mistake, and can be proposed from records."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from benchmarks import paper_specs as specs

from scdp import compare
from scdp.compare import kinds
from scdp.errors import InputError
from scdp.paper.tasks import coreference_spec, identity_spec, references_spec
from scdp.table import Records
from scdp.table.propose import propose
from scdp.table.spec import Spec


def table(**columns) -> Records:
    return Records({name: np.array(cells, dtype=object) for name, cells in columns.items()}, "data.csv")


def test_the_call_of_the_product_page():
    spec = Spec(entity="id", fields=[compare.edit("title"), compare.edit("first_author"), compare.absolute("year")])
    assert spec.names == ("edit(title)", "edit(first_author)", "absolute(year)")
    assert spec.fields[2].needs_fit


@pytest.mark.parametrize(
    "make", [specs.richer_references_spec, specs.richer_identity_spec, specs.richer_coreference_spec]
)
def test_richer_specs_round_trip(make, tmp_path):
    spec = make()
    (tmp_path / "spec.toml").write_text(spec.to_toml(), encoding="utf-8")
    assert Spec.from_toml(tmp_path / "spec.toml") == spec


@pytest.mark.parametrize("make", [references_spec, identity_spec, coreference_spec])
def test_paper_specs_round_trip(make, tmp_path):
    spec = make()
    path = tmp_path / "spec.toml"
    path.write_text(spec.to_toml(), encoding="utf-8")
    assert Spec.from_toml(path) == spec
    assert 'clean = ["lower", "punctuation", "accents", "spaces"]' in spec.to_toml()
    assert len(spec.fields) == (5 if make is coreference_spec else 8)


def test_every_setting_round_trips(tmp_path):
    nasty = 'a "quoted" \\ back\tslash\x7f \U0001f600 = [x]'
    fields = [
        compare.edit(nasty, clean=()),
        compare.edit(["a", nasty], of="first_of_list", separator=nasty, name="mine"),
        compare.absolute("n", scale=1 / 3),
        compare.shared_coauthors("s", threshold=0.25, separator="|"),
        compare.date("d", order="mdy", missing=("N/A", nasty)),
        *(compare.make_comparison(kind, "x") for kind in kinds.BUILT_IN),
    ]
    spec = Spec(nasty, fields, id="i", group="g")
    path = tmp_path / "spec.toml"
    path.write_text(spec.to_toml(), encoding="utf-8")
    assert Spec.from_toml(path) == spec


def test_a_registered_comparison_is_known_by_name_in_files(tmp_path, monkeypatch):
    monkeypatch.setattr(kinds, "_registered", {})
    mine = compare.register("same_initial", lambda a, b: float(a[0] != b[0]))
    path = tmp_path / "spec.toml"
    path.write_text(Spec("e", [mine("name")]).to_toml())
    assert Spec.from_toml(path).fields[0].block(["Ann"], ["Bo"])[0, 0] == 1.0
    kinds._registered.clear()
    with pytest.raises(InputError, match="line 4: there is no comparison 'same_initial'"):
        Spec.from_toml(path)


GOOD = """# who is who
entity = "person"
id = "row"

[[field]]
kind = "edit"
column = "name"

[[field]]
kind = "absolute"
column = "year"
scale = 3
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('entity = "person"', "entity = person", r"spec.toml, line 2: not valid TOML"),
        ('entity = "person"', "entity = 3", r"spec.toml, line 2: entity must be the name of a column"),
        ('id = "row"', 'idd = "row"', r"line 3: unknown key 'idd'; known are entity, id, group, source"),
        ('kind = "edit"', 'kind = "edti"', r"line 6: there is no comparison 'edti'; did you mean 'edit'\?"),
        ('kind = "edit"', "kind = 1", r"spec.toml, line 6: kind must be a text in quotes, not 1"),
        ('kind = "edit"\n', "", r"spec.toml, line 5: this field has no kind"),
        ('column = "year"\n', "", r"spec.toml, line 9: this field has no column"),
        ('column = "year"', "column = [1]", r"spec.toml, line 11: column must be a name or a list of names"),
        ('column = "year"', "column = []", r"spec.toml, line 11: column must be"),
        ("scale = 3", 'scale = "3"', r"spec.toml, line 12: scale must be a number, not '3'"),
        ("scale = 3", "scale = -3", r"spec.toml, line 12: scale must be a positive number"),
        ("scale = 3", "scales = 3", r"spec.toml, line 12: unknown key 'scales'; known are kind, column, of"),
        ("scale = 3", "threshold = 3", r"line 12: absolute has no option 'threshold' \(its options: scale"),
        ("scale = 3", 'clean = ["upper"]', r"spec.toml, line 12: there is no cleaning step 'upper'"),
        ("scale = 3", 'missing = "-"', r"spec.toml, line 12: missing must be a list of texts"),
        ("scale = 3", 'missing = [""]', r"spec.toml, line 12: missing must be a list of texts"),
        ("scale = 3", 'order = "dmy"', r"line 12: absolute has no option 'order' \(its options: scale"),
        ("scale = 3", 'clean = "lower"', r"spec.toml, line 12: clean must be a list of steps"),
        ("scale = 3", 'of = "yaer"', r"line 12: there is no transform 'yaer'; did you mean 'year'"),
        ("scale = 3", 'name = "edit(name)"', r"line 9: a field named 'edit\(name\)' is already on line 5"),
        ("[[field]]", "[field]", r"spec.toml, line 9: not valid TOML"),
    ],
)  # fmt: skip
def test_mistakes_point_at_the_line(old, new, message, tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text(GOOD)
    assert len(Spec.from_toml(path).fields) == 2
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(InputError, match=message):
        Spec.from_toml(path)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match="there is no such file"):
        Spec.from_toml(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b'entity = "\xe9"')
    with pytest.raises(InputError, match="not UTF-8 text at byte 10"):
        Spec.from_toml(tmp_path / "latin.toml")
    (tmp_path / "flat.toml").write_text('entity = "e"\nfield = "edit"\n')
    with pytest.raises(InputError, match=r"flat.toml, line 2: field must be a list of tables"):
        Spec.from_toml(tmp_path / "flat.toml")


def test_names_must_differ_and_fields_be_comparisons():
    with pytest.raises(InputError, match=r"two fields are named 'edit\(a\)'"):
        Spec("e", [compare.edit("a"), compare.edit("a", clean=())])
    with pytest.raises(InputError, match="field 1 is 'title', not a comparison"):
        Spec("e", ["title"])


def many(n: int = 60) -> Records:
    return table(
        person=[f"p{k // 2}" for k in range(n)],
        row=[f"r{k}" for k in range(n)],
        key=[f"K-{k:05d}" for k in range(n)],
        name=[f"Ann {'abcdefgh'[k % 8]}lee" for k in range(n)],
        title=[f"A rather long title about subject number {k % 30} of many" for k in range(n)],
        price=[f"{k % 17}.5" for k in range(n)],
        born=[f"{1900 + k % 40}-0{k % 9 + 1}-12" for k in range(n)],
        postcode=[f"0{k % 20 + 1000}" for k in range(n)],
        friends=[f"Bo {k % 7}; Cy {k % 5}" for k in range(n)],
        sex=["fm"[k % 2] for k in range(n)],
        country=["NL"] * n,
        empty=[None] * n,
    )


def test_propose_chooses_by_what_columns_hold():
    spec = propose(many(), "person", "row")
    assert spec.names == (
        "person_name(name)",
        "soft_tokens(title)", "qgram_tfidf(title)",
        "relative(price)",
        "date(born)",
        "code(postcode)",
        "set_overlap(friends)",
        "category(sex)",
    )  # fmt: skip


def test_propose_refuses_what_it_cannot_do():
    with pytest.raises(InputError, match=r"data.csv: there is no column 'who'"):
        propose(many(), "who")
    with pytest.raises(InputError, match="no column is left to compare"):
        propose(table(person=["a", "b"], same=["x", "x"]), "person")


def test_fit_proposes_and_learns_scales():
    spec = Spec("person", id="row")
    assert spec.needs_fit
    fitted = spec.fit(many())
    assert not fitted.needs_fit
    assert fitted.fields[4].order == "dmy"
    assert fitted.fit(many()) == fitted
    assert Spec("e", [compare.absolute("price")]).fit(many()).fields[0].scale == pytest.approx(14.0, abs=1.0)
    again = Spec("e", [compare.absolute("price", scale=2.0)]).fit(many())
    assert again.fields[0].scale == 2.0


def test_fit_names_a_field_without_values():
    with pytest.raises(InputError, match=r"data.csv: column 'empty' has no value in any of 60 records"):
        Spec("person", [compare.edit("empty")]).fit(many())


def test_importing_specs_stays_light():
    heavy = ("numba", "scipy", "sklearn", "pandas", "pydantic")
    code = f"import sys, scdp.table.spec; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
