"""Libraries of the extra `people`: what they read, the same distances as by slow twins, and a sentence without them."""

from __future__ import annotations

import random
import sys
from functools import partial

import numpy as np
import pytest

from compare.test_content_kinds import FIRST, LAST, check_twin, prepared_pairs
from scdp import Spec, compare
from scdp.compare.comparison import ComparisonError
from scdp.compare.languages import number_groups
from scdp.errors import InputError, MissingExtraError
from twins import kinds as twins

NAMES = [("Ben", "Robert", "Jon"), ("Mary", "Zoe")]
OTHERS = ["王小明", "محمد", "สมชาย", "김철수", "Ольга", "Γιώργος", "გიორგი", "JR", "Ph.D."]


def _name(chance: random.Random) -> str:
    titles = ["", "", "The Hon. ", "Mrs. ", "Mr ", "Lt. Col. "]
    suffixes = ["", "", ", Ph.D.", " Jr.", ", MD, FACS", " III"]
    words = chance.choices([*FIRST, *LAST, *OTHERS], k=chance.randrange(4))
    return chance.choice(titles) + " ".join(words) + chance.choice(suffixes)


def _phone(chance: random.Random) -> str:
    digits = "".join(chance.choices("0127", k=chance.choice([4, 6, 7, 9, 10])))
    lead = chance.choice(["", "+44 ", "0044", "0", "+44 (0)", "00", "+1 ", "1-800-"])
    return f"{lead}{digits[:3]} {digits[3:]}{chance.choice(['', '', ' ext 12', 'FLOW', ' x9'])}"


@pytest.mark.parametrize("settings", [{"clean": ["latin"]}, {"clean": ["latin", "lower"], "nicknames": NAMES}])
def test_names_by_libraries_equal_the_slow_twin(settings):
    groups = number_groups(tuple(map(twin_names, settings["nicknames"]))) if "nicknames" in settings else None
    twin = twins.person_name
    if groups is not None:
        twin = partial(twin, groups_of=lambda name: groups.get(name, frozenset()))
    check_twin(*prepared_pairs("person_name", 3, _name, **settings), twin)


def twin_names(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.lower() for name in names)


@pytest.mark.parametrize("region", ["GB", "US", "IT"])
def test_phones_of_a_region_equal_the_slow_twin(region):
    check_twin(*prepared_pairs("phone", 4, _phone, region=region), twins.phone)


@pytest.mark.parametrize(
    ("region", "one", "other", "distance"),
    [
        ("RU", "8 (495) 123-45-67", "+7 495 123 45 67", 0.0),
        ("HU", "06 1 234 5678", "+36 1 234 5678", 0.0),
        ("US", "1-800-FLOWERS", "+1 800 356 9377 ext. 4", 0.0),
        ("AU", "0011 44 20 7946 0958", "+44 (0)20 7946 0958", 0.0),
        # Numbers of two countries; a local number, without its area, is compared by its digits.
        ("US", "212 555 0123", "+52 212 555 0123", 0.1),
        ("US", "555-0123", "(212) 555-0123", 0.0),
        # No whole number of any country: as without a region.
        ("GB", "12345", "0012345", 0.0),
        ("GB", "020 7946 0958", "020 7946 0959", 0.2),
    ],
)
def test_phones_of_a_country(region, one, other, distance):
    comparison = compare.phone("tel", region=region)
    assert comparison.block([one], [other])[0, 0] == pytest.approx(distance)
    assert np.isnan(comparison.block(["n/a"], [other])[0, 0])


def test_many_phones_are_read_as_few(monkeypatch: pytest.MonkeyPatch):
    chance = random.Random(1)
    cells = [_phone(chance) for _ in range(300)]
    comparison = compare.phone("tel", region="GB")
    few = comparison.block(cells)
    monkeypatch.setattr("scdp.compare.prepared.FEWEST_AT_ONCE", 10)
    np.testing.assert_array_equal(comparison.block(cells), few)


def test_any_alphabet_becomes_latin():
    plain, latin = compare.person_name("x"), compare.person_name("x", clean=["latin"])
    for own, theirs in (("王小明", "Wang Xiaoming"), ("გიორგი", "Giorgi"), ("Ольга Петрова", "Olga Petrova")):
        assert latin.block([own], [theirs])[0, 0] < 0.03
    assert plain.block(["王小明"], ["Wang Xiaoming"])[0, 0] == 1.0
    edits = compare.edit("x", clean=["latin", "lower", "spaces"])
    assert edits.block(["Ω mega", "łódź"], ["o MEGA", "lodz"])[[0, 1], [0, 1]].max() == 0.0


SETTINGS = {
    "phonenumbers": lambda: compare.phone("tel", region="GB"),
    "anyascii": lambda: compare.edit("name", clean=["latin"]),
}


@pytest.mark.parametrize("package", SETTINGS)
def test_a_missing_library_is_one_sentence(package, monkeypatch: pytest.MonkeyPatch, tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text(Spec("e", [SETTINGS[package]()]).to_toml(), encoding="utf-8")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"needs {package}: install it with  pip install 'scdp\[people\]'"):
        SETTINGS[package]()
    with pytest.raises(MissingExtraError, match=r"pip install 'scdp\[people\]'"):
        Spec.from_toml(path)
    # Everything else goes without.
    assert compare.phone("tel").block(["020 7946 0958"], ["+44 20 7946 0958"])[0, 0] == 0.0
    assert compare.person_name("name").block(["Dr. Bob Lee"], ["Robert Lee"])[0, 0] < 0.1


def test_settings_are_kept_in_the_file(tmp_path):
    spec = Spec(
        "e",
        [
            compare.phone("tel", region="GB"),
            compare.person_name("name", nicknames={"Margaret": ["Peggy", "Greta"]}),
            compare.edit("name", clean=["latin", "lower"]),
        ],
    )
    path = tmp_path / "spec.toml"
    path.write_text(spec.to_toml(), encoding="utf-8")
    assert Spec.from_toml(path) == spec
    assert 'region = "GB"' in spec.to_toml()
    assert '["margaret", "peggy", "greta"]' in spec.to_toml()


def test_nicknames_may_be_in_a_file(tmp_path):
    (tmp_path / "names.txt").write_text("Margaret, Peggy; Greta\n\nZbigniew Zbyszek\n", encoding="utf-8")
    path = tmp_path / "spec.toml"
    field = '[[field]]\nkind = "person_name"\ncolumn = "name"\nnicknames = '
    path.write_text(field + '"names.txt"\n', encoding="utf-8")
    spec = Spec.from_toml(path)
    assert spec.fields[0].nicknames == (("margaret", "peggy", "greta"), ("zbigniew", "zbyszek"))
    (tmp_path / "names.txt").unlink()
    path.write_text(spec.to_toml(), encoding="utf-8")
    assert Spec.from_toml(path) == spec
    (tmp_path / "latin1.txt").write_bytes("Zoë\n".encode("latin-1"))
    for given, message in (
        ("3", r"line 4: nicknames must be a file with the names of one person a line, or lists"),
        ('[["a b"]]', r"line 4: nicknames have 'a b'"),
        ('"none.txt"', "none.txt"),
        ('"latin1.txt"', "not UTF-8 text at byte 2"),
    ):
        path.write_text(field + given + "\n", encoding="utf-8")
        with pytest.raises(InputError, match=message):
            Spec.from_toml(path)


def test_unknown_settings_are_refused():
    with pytest.raises(ComparisonError, match="there is no region 'UK'"):
        compare.phone("tel", region="UK")
    with pytest.raises(ComparisonError, match="edit has no option 'region'"):
        compare.make_comparison("edit", "name", region="GB")
