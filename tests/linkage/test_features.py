"""Features of pairs: the same however pairs are asked for, and rarity by records or by counts that are handed over."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from scdp import compare
from scdp.compare.features import MOST_NATS, Columns, Comparer
from scdp.datasets import make_records
from scdp.table import Records, records_from

FIELDS = (
    compare.edit("surname"),
    compare.jaro_winkler("surname"),
    compare.token_set("street"),
    compare.exact("city"),
    compare.absolute("birth_date", of="year", scale=10.0),
    compare.tfidf("street"),
)


@cache
def people(n: int = 80) -> Records:
    return make_records(n, kind="people", seed=3, missing=0.15).data


def every_pair(n: int) -> tuple[np.ndarray, np.ndarray]:
    left, right = np.triu_indices(n, k=1)
    return left, right


def test_columns_name_distances_then_values_then_tokens():
    columns = Columns.of(FIELDS)
    # Two comparisons of one column share its values; comparisons of the birth year have the year.
    assert columns.n_features == len(FIELDS) + len(columns.values) + len(columns.tokens)
    assert columns.sign.tolist() == [-1] * len(FIELDS) + [1] * (len(columns.values) + len(columns.tokens))
    rarity = columns.layout.rarity
    assert rarity[0] == rarity[1] == len(FIELDS)
    assert rarity[3] != rarity[0]
    assert all(place == -1 or len(FIELDS) <= place < len(FIELDS) + len(columns.values) for place in rarity)
    assert columns.layout.share[:2].tolist() == [0.5, 0.5]
    assert set(columns.tokens) == {n for n, field in enumerate(FIELDS) if field.kind_details.tokens is not None}


def test_all_pairs_are_compared_as_single_ones():
    comparer = Comparer.of(people(), FIELDS)
    pairs = comparer.compare_all()
    left, right = every_pair(len(comparer))
    np.testing.assert_array_equal([pairs.left, pairs.right], [left, right])
    expected = comparer.compare(left, right)
    np.testing.assert_array_equal(pairs.features, expected)
    # Whoever comes first.
    np.testing.assert_allclose(comparer.compare(right, left), expected, atol=1e-6)


def test_some_records_are_compared_by_their_places():
    comparer = Comparer.of(people(), FIELDS)
    rows = np.random.default_rng(0).permutation(80)[:25]
    pairs = comparer.compare_some(rows)
    assert pairs.n_items == 25
    np.testing.assert_allclose(pairs.features, comparer.compare(rows[pairs.left], rows[pairs.right]), atol=1e-6)


def test_groups_are_compared_within():
    comparer = Comparer.of(people(), FIELDS)
    groups = np.array(list("abc"))[np.random.default_rng(1).integers(0, 3, 80)]
    pairs = comparer.compare_all(groups)
    left, right = every_pair(80)
    same = groups[left] == groups[right]
    found = dict(zip(zip(pairs.left.tolist(), pairs.right.tolist(), strict=True), pairs.features, strict=True))
    assert set(found) == set(zip(left[same].tolist(), right[same].tolist(), strict=True))
    every = comparer.compare(left[same], right[same])
    for i, j, row in zip(left[same].tolist(), right[same].tolist(), every, strict=True):
        np.testing.assert_allclose(found[i, j], row, atol=1e-6)


def test_distances_that_are_there_are_completed():
    comparer = Comparer.of(people(), FIELDS)
    left, right = every_pair(80)
    whole = comparer.compare(left, right)
    np.testing.assert_array_equal(comparer.complete(whole[:, : len(FIELDS)], left, right), whole)


def test_counts_of_all_records_make_a_part_as_rare_as_in_the_whole():
    whole = Comparer.of(people(), FIELDS)
    some = np.arange(0, 80, 3)
    part = Comparer.of(people().take(some), FIELDS, whole.count())
    left, right = every_pair(len(some))
    n = len(FIELDS)
    expected = whole.compare(some[left], some[right])[:, n:]
    np.testing.assert_allclose(part.compare(left, right)[:, n:], expected, rtol=1e-6)
    alone = Comparer.of(people().take(some), FIELDS).compare(left, right)[:, n:]
    assert (np.nan_to_num(alone) != np.nan_to_num(expected)).any()


def test_nats_say_how_rare_a_shared_value_is():
    records = records_from({"name": ["ann", "ann", "bob", "bob", "bob", "eve", None, None]})
    comparer = Comparer.of(records, (compare.exact("name"),))
    features = comparer.compare(np.array([0, 2, 0, 0, 6]), np.array([1, 3, 2, 6, 7]))
    # Of six records with a name two are called Ann and three Bob.
    expected = [[0, np.log(6 / 2)], [0, np.log(6 / 3)], [1, 0], [np.nan, np.nan], [np.nan, np.nan]]
    np.testing.assert_allclose(features, np.array(expected, np.float32), rtol=1e-6)
    assert features.dtype == np.float32


@pytest.mark.parametrize("cells", [[None, None, None], ["a", "a", "a"]])
def test_columns_without_values_or_with_one_do_no_harm(cells: list[str | None]):
    comparer = Comparer.of(records_from({"name": cells}), (compare.edit("name"), compare.token_set("name")))
    features = comparer.compare_all().features
    assert np.isnan(features).all() if cells[0] is None else (features == 0).all()


def test_nats_of_tokens_have_a_largest():
    words = " ".join(f"word{k}" for k in range(40))
    texts = [words, words, *(f"other{k}" for k in range(30))]
    comparer = Comparer.of(records_from({"text": texts}), (compare.tfidf("text"),))
    assert comparer.columns.tokens == (0,)
    assert comparer.compare(np.array([0]), np.array([1]))[0, -1] == MOST_NATS
