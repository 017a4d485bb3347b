"""The prefilter: its bound is never below the evidence, and what it keeps is what plain filtering would keep."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from scdp import compare
from scdp.compare.prepared import prepare_all
from scdp.datasets import make_records
from scdp.linkage.evidence import EDGES, N_LEVELS, Layout, TableEvidence
from scdp.linkage.prefilter import CUT, Prefilter, PrefilterRun
from scdp.table.records import records_from


class Table:
    """Distances of pairs, read from a matrix; counts how many were asked for."""

    def __init__(self, distances: NDArray[np.float32]) -> None:
        self.distances, self.asked = distances, 0

    def pairs(self, left: NDArray[Any], right: NDArray[Any], workers: int) -> NDArray[np.float32]:
        self.asked += len(left)
        return self.distances[left, right]


def some_evidence(rng: np.random.Generator, n_fields: int, match_rate: float = 0.01) -> TableEvidence:
    """Levels that mostly fall with the distance, but need not; some comparisons know how rare a value is."""
    ratio = np.linspace(4, -4, N_LEVELS) + rng.normal(0, 1.5, (n_fields, N_LEVELS))
    share = rng.choice([1.0, 0.5, 0.25], n_fields)
    rarity = np.where(np.arange(n_fields) % 2, n_fields, -1)
    return TableEvidence(Layout(share, rarity), ratio, rng.normal(-0.7, 0.3, n_fields), match_rate)


def random_features(rng: np.random.Generator, n: int, n_fields: int, most_nats: float) -> NDArray[np.float32]:
    features = rng.random((n, n_fields + 1)).astype(np.float32) * np.float32(1.2)
    at_edges = np.concatenate([[0.0], EDGES, np.linspace(0, 1, 33)]).astype(np.float32)
    special = rng.random(features.shape) < 0.4
    features[special] = rng.choice(at_edges, special.sum())
    features[:, -1] = rng.choice([0.0, 0.5, 1.0], n) * most_nats
    features[rng.random(features.shape) < 0.15] = np.nan
    return features


@pytest.mark.parametrize("seed", range(20))
def test_the_bound_is_never_below_the_log_ratio(seed: int):
    rng = np.random.default_rng(seed)
    n_fields, most = 5, 7.5
    table = some_evidence(rng, n_fields)
    rule = Prefilter.of(table, np.where(table.layout.rarity >= 0, most, 0.0))
    features = random_features(rng, 3000, n_fields, most)
    bound, truth = rule.bound(features[:, :n_fields]), table.log_ratio(features)
    # Nats and places along a piece are in single precision.
    assert (bound >= truth - 1e-5).all()
    # And not far above it where values are not shared: a piece touches at most the next level.
    assert np.median(bound - truth) < 12
    assert (np.diff(rule.heights, axis=1) <= 0).all()


def test_a_missing_value_says_nothing_and_the_need_follows_from_the_match_rate():
    table = some_evidence(np.random.default_rng(0), 3, match_rate=0.2)
    rule = Prefilter.of(table, np.zeros(3))
    assert rule.bound(np.full((1, 3), np.nan, np.float32)).tolist() == [0.0]
    assert rule.need == pytest.approx(CUT - np.log(0.25))
    assert sorted(rule.order) == [0, 1, 2]
    # The comparison that can say most against a pair comes first.
    falls = rule.heights[:, -1] - rule.heights[:, 0]
    assert (np.diff(falls) >= 0).all()


def check(rule: Prefilter, every: NDArray[np.float32], places: Any, features: Any) -> None:
    np.testing.assert_array_equal(places, np.flatnonzero(rule.bound(every) >= rule.need))
    np.testing.assert_array_equal(features.view(np.int32), every[places].view(np.int32))


def test_columns_that_kernels_do_not_know_are_compared_one_after_another():
    rng = np.random.default_rng(3)
    rule = Prefilter.of(some_evidence(rng, 3, 0.004), np.zeros(3))
    tables = [Table(rng.random((40, 40)).astype(np.float32)) for _ in range(3)]
    tables[0].distances[::3] = np.nan
    left, right = (ends.astype(np.int32) for ends in np.triu_indices(40, k=1))
    places, features = PrefilterRun.of(rule, tables).keep(left, right)
    check(rule, np.stack([table.distances[left, right] for table in tables], axis=1), places, features)
    assert 0 < len(places) < len(left)
    # Pairs that nothing can save are not compared to the end.
    assert tables[rule.order[-1]].asked < len(left)


FIELDS = (
    compare.edit("surname"),
    compare.jaro_winkler("surname"),
    compare.token_set("street"),
    compare.jaro_winkler("street"),
    compare.absolute("birth_date", of="year", scale=10.0),
    compare.exact("city"),
    compare.edit(["first_name", "surname"], clean=["lower", "sorted"]),
)


@pytest.mark.parametrize("match_rate", [1e-4, 0.01, 0.3])
def test_packed_columns_keep_what_plain_filtering_keeps(match_rate: float):
    records = make_records(300, kind="people", seed=2).data
    columns = list(prepare_all(FIELDS, records))
    rule = Prefilter.of(
        some_evidence(np.random.default_rng(4), len(FIELDS), match_rate), np.full(len(FIELDS), 3.0)
    )
    left, right = (ends.astype(np.int32) for ends in np.triu_indices(300, k=1))
    run = PrefilterRun.of(rule, columns)
    assert len(run.others) == 1
    assert run.packed is not None
    every = np.stack([column.pairs(left, right, 1) for column in columns], axis=1)
    places, features = run.keep(left, right)
    check(rule, every, places, features)
    assert 0 < len(places) < len(left)


def test_long_and_foreign_texts_are_compared_as_others():
    rng = np.random.default_rng(5)
    letters = np.array(list("abcdefgh\u00e9\u4e2d\U0001f600 "))
    words = ["".join(rng.choice(letters, rng.integers(1, 20))) for _ in range(300)]
    # Two in three hundred are too long for masks.
    words[7], words[8] = "ab" * 50, "ba" * 40 + "\u4e2d"
    fields = (compare.edit("a"), compare.jaro_winkler("a"))
    columns = list(prepare_all(fields, records_from({"a": words})))
    left, right = (ends.astype(np.int32) for ends in np.triu_indices(300, k=1))
    every = np.stack([column.pairs(left, right, 1) for column in columns], axis=1)
    for match_rate in (1e-9, 0.003):
        rule = Prefilter.of(some_evidence(rng, 2, match_rate), np.zeros(2))
        run = PrefilterRun.of(rule, columns)
        assert not run.others
        check(rule, every, *run.keep(left, right))
    # Where more are long, they are left to those who are made for it.
    longer = records_from({"a": [word * 10 for word in words]})
    assert len(PrefilterRun.of(rule, list(prepare_all(fields, longer))).others) == 2


def test_no_pairs_are_no_pairs():
    columns = list(prepare_all(FIELDS, make_records(30, kind="people", seed=2).data))
    rule = Prefilter.of(some_evidence(np.random.default_rng(4), len(FIELDS)), np.zeros(len(FIELDS)))
    places, features = PrefilterRun.of(rule, columns).keep(np.zeros(0, np.int32), np.zeros(0, np.int32))
    assert places.shape == (0,)
    assert features.shape == (0, len(FIELDS))
