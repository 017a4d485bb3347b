"""Every comparison equals a slow, obvious twin on random unicode; missing is NaN; parts and cleaning."""

from __future__ import annotations

import random
import unicodedata

import numpy as np
import pytest

from scdp import compare
from scdp.compare import kinds
from scdp.compare.cells import STANDARD, abbreviation, clean, digits, first_of_list, head, number, split_names, year
from scdp.compare.comparison import learned_scale
from scdp.errors import InputError
from scdp.table import Records

N_PAIRS = 10_000
# Few letters, so that matches happen; then accents, combining marks, astral characters, punctuation.
ALPHABET = "aaabbbcAB  éñßİ\u0301\u0308\U0001f600\U00010400漢字.,-'&12"


# Kinds that have a distance for any two texts; those that read parts of their own have tests of their own.
OF_ANY_TEXT = sorted(name for name, kind in kinds.BUILT_IN.items() if kind.value not in ("number", "parts"))


def random_texts(seed: int, count: int = 2 * N_PAIRS, longest: int = 14) -> list[str]:
    source = random.Random(seed)
    return ["".join(source.choices(ALPHABET, k=source.randrange(longest))) for _ in range(count)]


# ------------------------------------------------------------------------------------------- the slow twins
def slow_levenshtein(a: str, b: str) -> float:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, start=1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (x != y))
    return row[-1] / max(len(a), len(b))


def slow_subsequence(a: str, b: str) -> float:
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            table[i + 1][j + 1] = table[i][j] + 1 if x == y else max(table[i][j + 1], table[i + 1][j])
    return 1 - table[-1][-1] / max(len(a), len(b))


def slow_substring(a: str, b: str) -> float:
    runs = (j - i for i in range(len(a)) for j in range(i + 1, len(a) + 1) if a[i:j] in b)
    return 1 - max(runs, default=0) / max(len(a), len(b))


def slow_jaro_winkler(a: str, b: str) -> float:
    reach = max(max(len(a), len(b)) // 2 - 1, 0)
    taken = [False] * len(b)
    matched_a = []
    for i, x in enumerate(a):
        for j in range(max(0, i - reach), min(len(b), i + reach + 1)):
            if not taken[j] and b[j] == x:
                taken[j] = True
                matched_a.append(x)
                break
    matched_b = [y for y, used in zip(b, taken, strict=True) if used]
    if not matched_a:
        return 1.0
    m = len(matched_a)
    swaps = sum(x != y for x, y in zip(matched_a, matched_b, strict=True)) // 2
    similarity = (m / len(a) + m / len(b) + (m - swaps) / m) / 3
    if similarity > 0.7:
        prefix = next((k for k in range(4) if a[k : k + 1] != b[k : k + 1] or k >= len(a)), 4)
        similarity += 0.1 * prefix * (1 - similarity)
    return 1 - similarity


def slow_token_set(a: str, b: str) -> float:
    x, y = set(a.split()), set(b.split())
    return 1 - len(x & y) / len(x | y)


def slow_clean(text: str) -> str:
    text = text.lower()
    text = "".join(" " if unicodedata.category(c)[0] == "P" else c for c in text)
    text = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return " ".join(unicodedata.normalize("NFC", text).split())


TWINS = {
    "edit": slow_levenshtein,
    "longest_common_subsequence": slow_subsequence,
    "longest_common_substring": slow_substring,
    "jaro_winkler": slow_jaro_winkler,
    "token_set": slow_token_set,
    "exact": lambda a, b: float(a != b),
}


def expected(twin, a: str, b: str) -> float:
    return float(twin(a, b)) if a.strip() and b.strip() else float("nan")


@pytest.mark.parametrize("kind", sorted(TWINS))
@pytest.mark.parametrize("steps", [None, ()])
def test_pairs_equal_the_slow_twin_on_random_unicode(kind, steps):
    texts = random_texts(seed=len(kind))
    comparison = compare.make_comparison(kind, "x", clean=steps)
    found = comparison.pairs(texts, np.arange(N_PAIRS), np.arange(N_PAIRS, 2 * N_PAIRS))
    ready = [slow_clean(text) for text in texts] if steps is None else texts
    wanted = [expected(TWINS[kind], a, b) for a, b in zip(ready[:N_PAIRS], ready[N_PAIRS:], strict=True)]
    assert found.dtype == np.float32
    assert np.isnan(wanted).any()
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(("kind", "part"), [("edit_head", head), ("edit_abbreviation", abbreviation)])
def test_edit_on_a_part_equals_the_twin(kind, part):
    texts = random_texts(seed=5)
    found = compare.make_comparison(kind, "x").pairs(texts, np.arange(N_PAIRS), np.arange(N_PAIRS, 2 * N_PAIRS))
    ready = [slow_clean(part(text)) for text in texts]
    wanted = [expected(slow_levenshtein, a, b) for a, b in zip(ready[:N_PAIRS], ready[N_PAIRS:], strict=True)]
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kind", OF_ANY_TEXT)
def test_block_agrees_with_pairs_and_is_symmetric(kind):
    texts = [*random_texts(seed=1, count=120), None, "", "  "]
    comparison = compare.make_comparison(kind, "x")
    square = comparison.block(texts)
    rows, columns = np.indices(square.shape).reshape(2, -1)
    np.testing.assert_array_equal(square.ravel(), comparison.pairs(texts, rows, columns))
    np.testing.assert_array_equal(square, square.T)
    if kind != "count_difference":
        np.testing.assert_array_equal(comparison.block(texts[:50], texts[50:]), square[:50, 50:])
    assert np.isnan(square[-3:]).all()
    assert np.nanmin(square) >= 0
    assert np.nanmax(square) <= 1


def test_threads_change_nothing():
    texts = random_texts(seed=2, count=400)
    for kind in ("edit", "longest_common_substring"):
        comparison = compare.make_comparison(kind, "x")
        np.testing.assert_array_equal(comparison.block(texts, workers=1), comparison.block(texts, workers=3))


def test_shared_coauthors_equals_the_slow_twin():
    source = random.Random(3)
    people = ["Ann Lee", "Anne Lee", "Robert E. Schapire", "Robert E Schapire", "Robert F. Schapire",
              "José Núñez", "Christopher Manning", "Christofer Manning", "漢字 漢"]  # fmt: skip
    lists = [source.sample(people, source.randrange(5)) for _ in range(2 * N_PAIRS)]
    comparison = compare.shared_coauthors("x", separator=";")
    found = comparison.pairs(["; ".join(names) for names in lists], np.arange(N_PAIRS), np.arange(N_PAIRS, 2 * N_PAIRS))

    def slow(a: list[str], b: list[str]) -> float:
        if not a or not b:
            return float("nan")
        first, second = set(map(slow_clean, a)), set(map(slow_clean, b))
        near = [[slow_levenshtein(x, y) < 0.1 for y in second] for x in first]
        shared = min(sum(map(any, near)), sum(any(column) for column in zip(*near, strict=True)))
        return 1 / (1 + shared)

    wanted = [slow(a, b) for a, b in zip(lists[:N_PAIRS], lists[N_PAIRS:], strict=True)]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert np.nanmin(found) < 0.4


def test_coauthors_below_the_threshold_strictly():
    # One letter in ten is a distance of exactly 0.1: not shared.
    assert compare.shared_coauthors("x").block(["abcdefghij"], ["abcdefghiX"])[0, 0] == 1.0
    assert compare.shared_coauthors("x").block(["abcdefghijk"], ["abcdefghijX"])[0, 0] == 0.5


def test_numbers_and_their_scale():
    comparison = compare.absolute("year", scale=10)
    found = comparison.block(["1990", "in 1995, maybe", "no year", None, 2000.0])
    np.testing.assert_allclose(found[0], [0, 0.5, np.nan, np.nan, 1.0])
    with pytest.raises(InputError, match="no scale yet"):
        compare.absolute("year").block(["1990"])


def test_learned_scale_is_the_95th_percentile_of_the_differences():
    numbers = np.random.default_rng(0).normal(size=300)
    i, j = np.triu_indices(300, k=1)
    assert learned_scale(numbers) == pytest.approx(np.percentile(np.abs(numbers[i] - numbers[j]), 95))
    assert learned_scale(np.random.default_rng(1).normal(size=50_000)) == pytest.approx(1.96 * 2**0.5, rel=0.02)
    assert learned_scale(np.array([5.0] * 99 + [8.0])) == 3.0
    assert learned_scale(np.array([5.0, 5.0])) == 1.0
    assert learned_scale(np.array([5.0])) == 1.0


def test_count_difference_is_a_difference_of_shares():
    found = compare.count_difference("venue").block(["ICML", "icml", "NIPS", None, "COLT", "ICML."])
    np.testing.assert_allclose(found[0], [0, 0, 0.4, np.nan, 0.4, 0], rtol=1e-6)


def test_missing_is_never_far():
    for kind in OF_ANY_TEXT:
        found = compare.make_comparison(kind, "x").block(["word", "", None, "...", float("nan")])
        assert not np.isnan(found[0, 0])
        assert np.isnan(found[0, 1:]).all(), kind


def test_cleaning_is_explicit():
    assert clean("  Ünïted—STATES, (of)\tAmerica ", STANDARD) == "united states of america"
    assert clean("Ünïted", ("lower",)) == "ünïted"
    assert clean(" \t ", ()) == ""
    assert clean("한국어", ("accents",)) == "한국어"
    assert compare.edit("x").clean == STANDARD
    assert compare.edit("x", clean=()).block(["A"], ["a"])[0, 0] == 1.0
    assert compare.edit("x").block(["e\u0301t\u00e9"], ["ete"])[0, 0] == 0.0


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("George W. Bush", "GWB"), ("IBM", "IBM"), ("U.S.A.", "USA"), ("AT&T", "AT&T"), ("Bush", "B"),
        ("United States of America", "USA"), ("bank of england", "boe"), ("MICROSOFT", "M"),
        ("", ""), ("...", ""), ("(Big) 'Blue'", "BB"),
    ],
)  # fmt: skip
def test_abbreviations(text, short):
    assert abbreviation(text) == short


def test_heads_digits_years_and_numbers():
    assert [head("George W. Bush ."), head("..."), head("one")] == ["Bush", "", "one"]
    assert digits("+44 (20) 7946-0958") == "442079460958"
    assert [year("(1995)."), year("12345 and 96"), year("to appear, June 1997")] == ["1995", "", "1997"]
    found = [number("1,234.5 kg"), number("-3"), number("1990-1995"), number("x1"), number("none"), number("9" * 400)]
    assert found == [1234.5, -3.0, 1990.0, 1.0, None, None]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Auer, P., Cesa-Bianchi, N., Freund, Y., & Schapire, R.",
         ["P. Auer", "N. Cesa-Bianchi", "Y. Freund", "R. Schapire"]),
        ("P. Auer, N. Cesa-Bianchi, and R. E. Schapire,", ["P. Auer", "N. Cesa-Bianchi", "R. E. Schapire"]),
        ("Lewis, D.; Schapire, R.; and Papka, R.", ["D. Lewis", "R. Schapire", "R. Papka"]),
        ("M. Kearns, M. Li, D. Ron and L.G. Valiant", ["M. Kearns", "M. Li", "D. Ron", "L.G. Valiant"]),
        ("Kearns, Michael and Schapire, Robert", ["Michael Kearns", "Robert Schapire"]),
        ("Andy Sand", ["Andy Sand"]), ("", []), (" , and ; ", []),
    ],
)  # fmt: skip
def test_author_lists_as_bibliographies_write_them(text, names):
    assert split_names(text) == names
    assert first_of_list(text) == (names[0] if names else "")


def test_explicit_separator_and_joined_columns():
    assert split_names("Lee, Ann | Bo", "|") == ["Lee, Ann", "Bo"]
    records = Records({name: np.array(cells, dtype=object) for name, cells in
                       {"first": ["Ann", None, None], "last": ["Lee", "Lee", None]}.items()})  # fmt: skip
    full = compare.edit(["first", "last"])
    assert full.name == "edit(first + last)"
    prepared = full.prepare(records)
    assert prepared.vocabulary == ["ann lee", "lee"]
    assert prepared.codes.tolist() == [0, 1, -1]


def test_names_and_options():
    assert compare.edit("author", of="first_of_list").name == "edit(first_of_list(author))"
    assert compare.edit("author", name="who").name == "who"
    assert compare.edit("a", of="first_of_list", separator="|").separator == "|"
    assert hash(compare.edit("a")) == hash(compare.edit("a"))
    with pytest.raises(InputError, match="did you mean 'jaro_winkler'"):
        compare.make_comparison("jaro_winkel", "a")
    with pytest.raises(InputError, match="no option 'separator'"):
        compare.edit("a", separator=";")
    with pytest.raises(InputError, match="did you mean 'accents'"):
        compare.edit("a", clean=["accent"])
    with pytest.raises(InputError, match="positive"):
        compare.absolute("a", scale=0)
    with pytest.raises(InputError, match="column must be"):
        compare.edit([])


def test_registered_comparison(monkeypatch):
    monkeypatch.setattr(kinds, "_registered", {})
    same_initial = compare.register("same_initial", lambda a, b: float(a[0] != b[0]))
    comparison = same_initial("name")
    found = comparison.block(["Ann", "anna", "Bo", None])
    np.testing.assert_array_equal(found[0], [0, 0, 1, np.nan])
    assert comparison.name == "same_initial(name)"
    with pytest.raises(InputError, match="built in"):
        compare.register("edit", lambda a, b: 0.0)
    with pytest.raises(InputError, match="letters, digits"):
        compare.register("my own", lambda a, b: 0.0)
    bad = compare.register("bad", lambda a, b: float("nan"))
    with pytest.raises(InputError, match="'bad' gave nan for 'ann' and 'ann'"):
        bad("name").block(["Ann", "Bo"])


def one_column(cells: list[object]) -> Records:
    column = np.empty(len(cells), dtype=object)
    column[:] = cells
    return Records({"x": column}, "people.csv")


def test_bad_cells_are_named():
    with pytest.raises(InputError, match=r"people.csv, row 2, column 'x': 1,048,576 characters, more than the 20,000"):
        compare.edit("x").prepare(one_column(["a", "b" * 2**20]))
    with pytest.raises(InputError, match=r"people.csv, row 3, column 'x': a cell of type list"):
        compare.edit("x").prepare(one_column(["a", 3, ["b"]]))
    with pytest.raises(InputError, match=r"people.csv: there is no column 'y'; it has: x"):
        compare.edit("y").prepare(one_column(["a"]))


def test_mixed_types_are_read_as_text():
    prepared = compare.edit("x").prepare(one_column(["7", 7, 7.0, np.float64(7), True, 7.5, np.nan, None]))
    assert prepared.vocabulary == ["7", "true", "7 5"]
    assert prepared.codes.tolist() == [0, 0, 0, 0, 1, 2, -1, -1]


def test_fit_refuses_fields_without_values():
    with pytest.raises(InputError, match=r"people.csv: column 'x' has no value in any of 2 records"):
        compare.edit("x").fit(one_column([None, "--"]))
    with pytest.raises(InputError, match="column 'x' has no number in any of 2 records"):
        compare.absolute("x").fit(one_column(["a", "b"]))
    assert compare.absolute("x").fit(one_column(["1", "b", "4"])).scale == 3.0
