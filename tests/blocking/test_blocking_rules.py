import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blocking_cases import LETTERS, key_maker, keys_of, random_records
from scdp.blocking import (
    Blocking,
    Expression,
    digits,
    equal,
    identical,
    last_word,
    neighbourhood,
    overlap,
    prefix,
    qgrams,
    soundex,
    text,
    tokens,
    year,
)
from scdp.blocking.keys import TextColumns, make_text_keys, number_clean
from scdp.compare.cells import STANDARD, clean, clean_all
from scdp.errors import InputError
from scdp.table import records_from
from scdp.texts import TextBytes, hash_texts

EVERY_KIND = Blocking(
    (
        equal("surname", prefix("first_name", 1), year("born")),
        equal(soundex("surname"), last_word("street"), digits("phone", last=7)),
        overlap(tokens("street", "city"), rarity=1.25),
        neighbourhood("surname", digits("phone"), window=4),
        identical("surname", 'a "quoted" \\ name\n\x7f; DROP TABLE pairs --'),
    ),
    links=(overlap(qgrams("surname", 2), rarity=2), equal(text("surname", "city"))),
    max_block=77,
    window=3,
)


@pytest.mark.parametrize(
    ("expression", "cell", "keys"),
    [
        (text("c"), " Éva  O'Neill ", {"eva o neill"}),
        (prefix("c", 3), "Müller", {"mul"}),
        (prefix("c", 9), "Li", {"li"}),
        (last_word("c"), "12 Main Street", {"street"}),
        (soundex("c"), "Robert", {"R163"}),
        (soundex("c"), "Ashcraft", {"A261"}),
        (soundex("c"), "Tymczak", {"T522"}),
        (soundex("c"), "Pfister", {"P236"}),
        (soundex("c"), "1234", set()),
        (digits("c"), "+44 (0)20-7946", {"440207946"}),
        (digits("c", last=4), "020-7946", {"7946"}),
        (digits("c"), "none", set()),
        (year("c"), "born 1901-02-03", {"1901"}),
        (year("c"), "19010203", set()),
        (tokens("c"), "la La land", {"la", "land"}),
        (qgrams("c", 3), "abcab", {"abc", "bca", "cab"}),
        (qgrams("c", 3), "ab", {"ab"}),
        (text("c"), "...", set()),
        (tokens("c"), None, set()),
    ],
)
def test_an_expression_takes_its_part(expression, cell, keys):
    records = records_from({"c": [cell, "something else"]})
    assert keys_of(expression, records, 0) == keys
    table = key_maker(records).expression_keys(expression)
    rows, found = table.entries()
    assert set(found[rows == 0].tolist()) == set(hash_texts(sorted(keys)).tolist())


def test_texts_cleaned_at_once_are_as_if_cleaned_one_by_one():
    rng = np.random.default_rng(0)
    letters = [*LETTERS, "A", " ", "\t", "'", "-", "ß", "\0", "\n", "7"]
    for some in (letters, [letter for letter in letters if letter.isascii() and letter != "\0"]):
        texts = ["".join(rng.choice(some, rng.integers(0, 7))) for _ in range(300)]
        assert clean_all(texts, STANDARD) == [clean(cell, STANDARD) for cell in texts]
    assert clean_all([], STANDARD) == []


def test_texts_cleaned_and_numbered_at_once_are_those_of_one_by_one():
    rng = np.random.default_rng(4)
    letters = [*LETTERS, "A", " ", "\t", "'", "-", "ß", "\0", "\n", "7", "$", "\x1c", "\u00a0", "\ud800"]
    for some in (letters, [letter for letter in letters if letter.isascii()]):
        texts = ["".join(rng.choice(some, rng.integers(0, 7))) for _ in range(300)]
        cleaned = [clean(cell, STANDARD) for cell in texts]
        codes, distinct = number_clean(texts)
        assert list(distinct) == list(dict.fromkeys(filter(None, cleaned)))
        assert [distinct[code] if code >= 0 else "" for code in codes.tolist()] == cleaned
    assert len(number_clean([])[1]) == 0


def test_columns_joined_and_encoded():
    records = records_from({"a": ["X", "x.", None, "y", None], "b": ["1", "1", "1", None, None]})
    codes, texts = TextColumns(records).encode(("a", "b"))
    assert [texts[code] if code >= 0 else None for code in codes] == ["x 1", "x 1", "1", "y", None]
    assert len(set(texts)) == len(texts)


def test_keys_do_not_depend_on_the_other_records():
    records = random_records(60, seed=1)
    rule = equal(tokens("name", "city"), prefix("born", 4))
    rows, keys = key_maker(records).rule_keys(rule).entries()
    part = np.arange(17, 40)
    part_rows, part_keys = key_maker(records.take(part)).rule_keys(rule).entries()
    whole = {(row, key) for row, key in zip(rows.tolist(), keys.tolist(), strict=True) if row in part}
    assert whole == {(part[row], key) for row, key in zip(part_rows, part_keys.tolist(), strict=True)}


def test_a_blocking_round_trips_through_toml_and_json(tmp_path):
    path = tmp_path / "blocking.toml"
    path.write_text(EVERY_KIND.to_toml(), encoding="utf-8")
    assert Blocking.from_toml(path) == EVERY_KIND
    assert Blocking.from_dict(json.loads(json.dumps(EVERY_KIND.to_dict()))) == EVERY_KIND


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('kind = "overlap"', 'kind = "overlpa"', "rule 3: it has no known kind"),
        ("rarity = 1.25", "rarity = -1", "rule 3: rarity is -1"),
        ("rarity = 1.25", "", "rule 3: a setting is missing: 'rarity'"),
        ("window = 4", "windw = 4", "rule 4: unknown setting 'windw'"),
        ("max_block = 77", "max_block = 1.5", "max_block is 1.5"),
        ('part = "year"', 'part = "yaer"', "rule 1: there is no part 'yaer'"),
        ("length = 1}", 'length = "1"}', "rule 1: the length of prefix is '1'"),
        ("[[rule]]", "[[rules]]", "unknown setting 'rules'"),
        ("max_block", "[max_block", "not valid TOML"),
    ],
)
def test_a_mistake_in_a_file_is_one_sentence_with_its_place(tmp_path, old, new, message):
    text_of = EVERY_KIND.to_toml()
    assert old in text_of
    path = tmp_path / "blocking.toml"
    path.write_text(text_of.replace(old, new), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        Blocking.from_toml(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: equal(),
        lambda: equal(3),
        lambda: equal(""),
        lambda: prefix("a", 0),
        lambda: Expression("prefix", ("a",)),
        lambda: Expression("text", ("a",), 3),
        lambda: overlap(text("a")),
        lambda: overlap(tokens("a"), rarity=float("nan")),
        lambda: neighbourhood(tokens("a")),
        lambda: neighbourhood("a", window=0),
        lambda: identical(),
        lambda: Blocking(()),
        lambda: Blocking(("surname",)),
        lambda: Blocking((equal("a"),), max_block=1),
    ],
)
def test_a_wrong_description_is_refused(make):
    with pytest.raises(InputError, match=r"^blocking: "):
        make()


PART_EXPRESSIONS = [
    text("c"),
    prefix("c", 1),
    prefix("c", 4),
    last_word("c"),
    soundex("c"),
    digits("c"),
    digits("c", last=3),
    year("c"),
    tokens("c"),
    qgrams("c", 2),
    qgrams("c", 3),
]


@pytest.mark.parametrize("expression", PART_EXPRESSIONS, ids=str)
# The first call may compile.
@settings(deadline=None)
@given(cells=st.lists(st.text(alphabet="abhwszé ß12𝄞ł", max_size=9), max_size=12))
def test_keys_are_hashes_of_the_parts(expression: Expression, cells: list[str]) -> None:
    """Kernels go over bytes; the plain way makes each part as a text and hashes it."""
    texts = [found for found in dict.fromkeys(clean(cell, STANDARD) for cell in cells) if found]
    table = make_text_keys(expression, texts, TextBytes.of(texts))
    if expression.exploded:
        parts = [expression.values()(one) for one in texts]
    else:
        parts = [[value] if value else [] for value in expression.value_of_each(texts)]
    offsets, keys = table.to_lists()
    assert np.diff(offsets).tolist() == list(map(len, parts))
    assert keys.tolist() == hash_texts([part for each in parts for part in each]).tolist()
