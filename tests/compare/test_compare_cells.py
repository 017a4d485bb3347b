"""Encoding of whole columns against the plain way, row by row; and its errors, which name the first bad row."""

from __future__ import annotations

import numpy as np
import pytest

from scdp import compare
from scdp.compare import prepared as prepared_module
from scdp.compare.cells import (
    STANDARD,
    STEPS,
    TRANSFORMS,
    clean,
    clean_all,
    distinct_texts,
    encode,
    number,
    split_names,
)
from scdp.compare.prepared import LONGEST_CELL, often_the_same, prepare_all
from scdp.errors import InputError
from scdp.table import Records

CELLS = [None, "", "Ann  Lee", "ann lee", "ANN-LEE", "Zoë", " x ", "--", "B. Li and C. Wu", "1990", "12 May 1990"]
CELLS += ["7", "7.0", "a\tb", "a\x1fb", "trailing ", " leading", "é", "3,000 euro"]


def columns_of(rng, n_columns, n_rows, ascii_only=False):
    cells = [cell for cell in CELLS if not ascii_only or cell is None or cell.isascii()]
    return Records({f"c{k}": np.array(rng.choice(np.array(cells, object), n_rows)) for k in range(n_columns)})


def plain_values(comparison, records):
    """The value of each record, None if missing, one at a time."""
    values = []
    kind = comparison.kind_details
    for row in range(len(records)):
        text = " ".join(filter(None, (records[name][row] for name in comparison.columns)))
        for part in filter(None, (comparison.of, kind.part)):
            text = TRANSFORMS[part](text)
        if kind.value == "number":
            values.append(number(clean(text, comparison.clean)))
        elif kind.value == "names":
            names = (clean(name, comparison.clean) for name in split_names(text))
            values.append(tuple(dict.fromkeys(filter(None, names))) or None)
        else:
            values.append(clean(text, comparison.clean) or None)
    return values


COMPARISONS = [
    compare.edit("c0"),
    compare.edit(["c0", "c1"]),
    compare.exact(["c2", "c0", "c1"], clean=()),
    compare.edit_head("c1"),
    compare.edit_abbreviation(["c1", "c2"]),
    compare.edit("c0", of="first_of_list"),
    compare.exact("c0", of="year"),
    compare.jaro_winkler("c1", clean=("spaces", "punctuation")),
    compare.absolute("c0", scale=1.0),
    compare.shared_coauthors("c1"),
    compare.edit("c0", clean=("punctuation",)),
]


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("comparison", COMPARISONS, ids=lambda each: each.name)
def test_columns_are_encoded_as_row_by_row(comparison, ascii_only):
    rng = np.random.default_rng(len(comparison.name))
    records = columns_of(rng, 3, 200, ascii_only)
    found = comparison.prepare(records)
    values = plain_values(comparison, records)
    assert [None if code < 0 else found.vocabulary[code] for code in found.codes] == values
    assert found.vocabulary == list(dict.fromkeys(value for value in values if value is not None))
    assert found.codes.dtype == np.int32


@pytest.mark.parametrize("steps", [STANDARD, (), ("spaces",), ("lower",), ("spaces", "punctuation"), tuple(STEPS)])
def test_cleaning_many_texts_is_cleaning_each(steps):
    texts = [cell or "" for cell in CELLS]
    plain = [text for text in texts if text.isascii()]
    for given in (texts, plain, plain[::-1], [], [""], [" "], ["a", " "], [" ", "a"], ["a\0b", "c "]):
        assert clean_all(given, steps) == [clean(text, steps) for text in given]


def test_numbers_and_truth_values_that_python_takes_for_equal_stay_apart():
    column = np.array([1, True, 1.0, "1", None, np.nan, "true"], object)
    codes, texts = distinct_texts([column])
    assert [texts[code] for code in codes] == ["1", "true", "1", "1", "", "", "true"]
    assert distinct_texts([np.array([["a"], "b", None], object)]) is None
    assert encode(["b", "a", "b"])[1] == ["b", "a"]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"c0": ["a", "b" * 30_000, ["c"]], "c1": ["x", "y", "z"]}, "row 2, column 'c0': 30,000 char"),
        ({"c0": ["a", ["c"], "b" * 30_000], "c1": ["x", "y", "z"]}, "row 2, column 'c0': a cell of type list"),
        ({"c0": ["a", "b", "c"], "c1": ["x", 3, {1}]}, "row 3, column 'c1': a cell of type set"),
        ({"c0": ["a", "b" * 15_000, "c"], "c1": ["x", "y" * 15_000, "z"]}, "row 2, column 'c1': 30,000 char"),
        ({"c0": ["a", "\ufdfa" * 1500, "c" * 30_000], "c1": ["x"] * 3}, "row 2, column 'mine': 27,002 char"),
    ],
)
def test_the_first_bad_row_is_named(cells, message):
    records = Records({name: np.array([*column, None], object)[:-1] for name, column in cells.items()}, "f.csv")
    with pytest.raises(InputError, match=f"^f.csv, {message}"):
        compare.edit(["c0", "c1"], name="mine").prepare(records)


def test_cells_that_only_their_joint_makes_longest_are_allowed():
    half = LONGEST_CELL // 2
    records = Records({"c0": np.array(["a" * half], object), "c1": np.array(["b" * half], object)})
    assert compare.absolute(["c0", "c1"]).prepare(records).codes.tolist() == [-1]
    with pytest.raises(InputError, match="20,001 characters"):
        compare.exact(["c0", "c1"]).prepare(records)


def test_comparisons_prepared_together_are_as_prepared_alone(monkeypatch):
    records = columns_of(np.random.default_rng(3), 3, 100)
    shares = [compare.jaro_winkler("c0"), compare.count_difference("c0"), compare.exact("c0")]
    comparisons = [*COMPARISONS, *shares]
    alone = [comparison.prepare(records) for comparison in comparisons]
    calls = []
    plain = prepared_module._encoded
    monkeypatch.setattr(prepared_module, "_encoded", lambda *given: calls.append(given) or plain(*given))
    for found, wanted in zip(prepare_all(comparisons, records), alone, strict=True):
        assert found.comparison is wanted.comparison
        assert found.vocabulary == wanted.vocabulary
        assert np.array_equal(found.codes, wanted.codes)
    assert len(calls) == len(COMPARISONS)


def test_prepared_together_names_the_row_of_an_error():
    records = Records({"c0": np.array(["a", "b" * 30_000], object)}, "f.csv", np.array([2, 7]))
    with pytest.raises(InputError, match=r"f\.csv, row 7, column 'c0'"):
        list(prepare_all([compare.edit("c0")], records))


@pytest.mark.parametrize("n_values", [3, 500])
def test_pairs_are_scored_alike_sorted_or_not_and_in_parts(monkeypatch, n_values):
    rng = np.random.default_rng(n_values)
    words = np.array([f"w{k * k}" for k in range(n_values)] + [None], object)
    records = Records({"c0": words[rng.integers(0, n_values + 1, 900)]})
    prepared = compare.jaro_winkler("c0").prepare(records)
    left, right = rng.integers(0, 900, (2, 4000))
    wanted = prepared.block(np.arange(900), None, 1)[left, right]
    keys = prepared.codes[left].astype(np.int64) * n_values + prepared.codes[right]
    assert often_the_same(keys) == (n_values == 3)
    for at_once in (1 << 20, 700):
        monkeypatch.setattr(prepared_module, "PAIRS_AT_ONCE", at_once)
        found = prepared.pairs(left.astype(np.int32), right, 1)
        assert np.array_equal(found, wanted, equal_nan=True)
    assert np.isnan(found).any()


def test_how_often_keys_repeat_is_told_from_a_part_of_them():
    rng = np.random.default_rng(5)
    assert not often_the_same(rng.permutation(100_000))
    assert often_the_same(rng.integers(0, 30_000, 100_000))
    assert often_the_same(np.zeros(10, np.int64))
