"""Sifting: what passes is what all comparisons together would let pass, to the last bit, and no more is compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from scdp import compare
from scdp.blocking import Blocking, candidate_pairs, equal, neighbourhood, overlap, prefix, tokens
from scdp.blocking.candidates import search_of
from scdp.compare.prepared import prepare_all
from scdp.datasets import make_records
from scdp.linkage import blocked
from scdp.linkage.blocked import compared, in_sample, prepared_columns, sifted_pairs
from scdp.linkage.pieces import Knots
from scdp.linkage.sieve import CUT, Sieve, counted
from scdp.linkage.sifting import Sifter
from scdp.table.records import records_from
from scdp.table.spec import Spec

N_KNOTS = 5


class Table:
    """Distances of pairs, read from a matrix; counts how many were asked for."""

    def __init__(self, distances: NDArray[np.float32]) -> None:
        self.distances, self.asked = distances, 0

    def pairs(self, left: NDArray[Any], right: NDArray[Any], workers: int) -> NDArray[np.float32]:
        self.asked += len(left)
        return self.distances[left, right]


def made_sieve(rng: np.random.Generator, n_fields: int, bias: float = 6.0) -> Sieve:
    """Falling functions on [0, 1] and weights of missing on either side of nothing."""
    knots = Knots(np.tile(np.linspace(0.0, 1.0, N_KNOTS), (n_fields, 1)), np.full(n_fields, -1))
    rises = -rng.uniform(0, 2, (n_fields, N_KNOTS - 1))
    heights = np.concatenate([np.zeros((n_fields, 1)), np.cumsum(rises, axis=1)], axis=1)
    order = np.argsort(heights[:, -1], kind="stable")
    together = np.sort(rng.normal(4, 3, 500))
    missing = rng.uniform(-2, 0.5, n_fields)
    return Sieve(tuple(order.tolist()), knots, heights[order], missing, bias, 200, together)


def test_columns_that_kernels_do_not_know_are_compared_one_after_another():
    rng = np.random.default_rng(3)
    sieve = made_sieve(rng, 3, bias=-2.0)
    tables = [Table(rng.random((40, 40)).astype(np.float32)) for _ in range(3)]
    tables[0].distances[::3] = np.nan
    left, right = (ends.astype(np.int32) for ends in np.triu_indices(40, k=1))
    places, features, log_odds = Sifter.of(sieve, tables).passed(left, right, CUT)
    every = np.stack([table.distances[left, right] for table in tables], axis=1)
    check(sieve, every, CUT, places, features, log_odds)
    assert 0 < len(places) < len(left)
    # Pairs that nothing can save are not compared to the end.
    assert tables[sieve.order[-1]].asked < len(left)


def check(sieve: Sieve, every: Any, need: float, places: Any, features: Any, log_odds: Any) -> None:
    wanted = sieve.log_odds(every)
    np.testing.assert_array_equal(places, np.flatnonzero(wanted >= need))
    np.testing.assert_array_equal(features.view(np.int32), every[places].view(np.int32))
    np.testing.assert_array_equal(log_odds, wanted[places])


FIELDS = (
    compare.edit("surname"),
    compare.jaro_winkler("surname"),
    compare.token_set("street"),
    compare.jaro_winkler("street"),
    compare.absolute("birth_date", of="year", scale=10.0),
    compare.exact("city"),
    compare.edit(["first_name", "surname"], clean=["lower", "sorted"]),
)


@pytest.mark.parametrize("bias", [2.0, 8.0])
def test_packed_columns_give_what_all_comparisons_give(bias):
    records = make_records(300, kind="people", seed=2).data
    columns = list(prepare_all(FIELDS, records))
    sieve = made_sieve(np.random.default_rng(4), len(FIELDS), bias)
    left, right = (ends.astype(np.int32) for ends in np.triu_indices(300, k=1))
    sifter = Sifter.of(sieve, columns)
    assert len(sifter.others) == 1
    assert sifter.packed is not None
    assert len(sifter.packed.first) == 5
    every = compared(columns, left.astype(np.int64), right.astype(np.int64))
    for need in (CUT, 0.0):
        check(sieve, every, need, *sifter.passed(left, right, need))
    assert 0 < len(sifter.passed(left, right, CUT)[0]) < len(left)


def test_long_and_foreign_texts_are_compared_as_others():
    rng = np.random.default_rng(5)
    letters = np.array(list("abcdefgh\u00e9\u4e2d\U0001f600 "))
    words = ["".join(rng.choice(letters, rng.integers(1, 20))) for _ in range(300)]
    # Two in three hundred are too long for masks.
    words[7], words[8] = "ab" * 50, "ba" * 40 + "\u4e2d"
    columns = list(prepare_all((compare.edit("a"), compare.jaro_winkler("a")), records_from({"a": words})))
    sieve = made_sieve(rng, 2, bias=1.0)
    left, right = (ends.astype(np.int32) for ends in np.triu_indices(300, k=1))
    every = compared(columns, left.astype(np.int64), right.astype(np.int64))
    sifter = Sifter.of(sieve, columns)
    assert not sifter.others
    check(sieve, every, -50.0, *sifter.passed(left, right, -50.0))
    # Where more are long, they are left to those who are made for it.
    longer = records_from({"a": [word * 10 for word in words]})
    assert (
        len(
            Sifter.of(sieve, list(prepare_all((compare.edit("a"), compare.jaro_winkler("a")), longer))).others
        )
        == 2
    )


BLOCKING = Blocking(
    (
        equal("surname"),
        equal(prefix("first_name", 1)),
        overlap(tokens("street", "city"), rarity=0.9),
        neighbourhood("phone", window=3),
    ),
    max_block=40,
)


@pytest.mark.parametrize("links", [(), (equal("first_name", "surname"),)])
def test_records_in_any_order_have_the_same_candidates(links):
    records = make_records(1_000, kind="people", seed=3).data
    blocking = Blocking(BLOCKING.rules, links, BLOCKING.max_block)
    wanted = candidate_pairs(records, blocking)
    search = search_of(records, blocking)
    for rows in (np.argsort(search.homes), np.random.default_rng(0).permutation(1_000)):
        left, right = search.pairs(rows.astype(np.int32))
        order = np.lexsort((right, left))
        np.testing.assert_array_equal([left[order], right[order]], [wanted.left, wanted.right])
    assert sum(map(len, search.parts(rows.astype(np.int32)))) == 1_000


def test_records_of_a_block_are_neighbours_in_the_order_of_homes():
    names = np.array(list("abcde") * 40)
    search = search_of(records_from({"name": names.tolist()}), Blocking((equal("name"),)))
    ordered = names[np.argsort(search.homes, kind="stable")]
    assert (ordered[1:] != ordered[:-1]).sum() == 4


def test_what_passes_does_not_depend_on_the_sample_but_for_the_shift(monkeypatch):
    records = make_records(1_500, kind="people", seed=4).data
    spec = Spec("entity", FIELDS)
    sieve = made_sieve(np.random.default_rng(6), len(FIELDS), bias=9.0)
    monkeypatch.setattr(blocked, "SETTLED_BY", 500)
    pairs = sifted_pairs(records, spec, BLOCKING, sieve, workers=2)
    found = candidate_pairs(records, BLOCKING)
    left, right = found.left.astype(np.int64), found.right.astype(np.int64)
    every = compared(prepared_columns(records, spec), left, right)
    log_odds = sieve.log_odds(every)
    sampled = in_sample(found.left, 1 / 3) & (log_odds >= sieve.floor(1_500))
    shifted = log_odds + sieve.settled(counted(log_odds[sampled]), 1_500)
    passed = shifted >= CUT
    assert 0 < passed.sum() < len(left)
    np.testing.assert_array_equal([pairs.left, pairs.right], [left[passed], right[passed]])
    wanted = np.column_stack([every[passed], shifted[passed].astype(np.float32)])
    np.testing.assert_array_equal(pairs.features.view(np.int32), wanted.view(np.int32))


def test_the_sample_is_about_as_large_as_asked_for():
    rows = np.arange(100_000, dtype=np.int32)
    assert in_sample(rows, 1.0).all()
    # Binomial: six standard deviations.
    assert abs(in_sample(rows, 0.1).sum() - 10_000) < 6 * np.sqrt(9_000)
    assert (in_sample(rows, 0.1) <= in_sample(rows, 0.2)).all()
