"""Candidates of large tables: the same in any order and on any machine, with and without the prefilter."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

from scdp import compare
from scdp.blocking import Blocking, candidate_pairs, connected_components, equal, neighbourhood, overlap, prefix, tokens
from scdp.blocking.by_size import ChosenBlocking
from scdp.blocking.keys import make_key_maker
from scdp.blocking.pairs import make_search
from scdp.compare.features import Columns, Comparer, Pairs
from scdp.datasets import make_records
from scdp.engines import candidates
from scdp.engines.candidates import (
    Blocked,
    KeptPairs,
    break_up,
    compare_candidates,
    in_sample,
    sample_candidates,
    sampled_share,
    sort_pairs,
)
from scdp.hashing import draw_strangers
from scdp.linkage import prefilter
from scdp.linkage.prefilter import CUT, prefilter_all
from scdp.linkage.sources import RecordSource
from scdp.linkage.training import Choices, fit_ensemble
from scdp.table import records_from
from scdp.table.spec import Spec

FIELDS = (
    compare.edit("surname"),
    compare.jaro_winkler("first_name"),
    compare.token_set("street"),
    compare.absolute("birth_date", of="year", scale=10.0),
    compare.exact("city"),
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


@cache
def blocked(n: int = 1_200) -> Blocked:
    made = make_records(120, kind="people", seed=9)
    cluster = np.unique(made.clusters, return_inverse=True)[1]
    columns = Columns.of(FIELDS)
    source = RecordSource.of(made.data, Spec("entity", FIELDS), np.arange(len(cluster)), None)
    choices = Choices(boosted=False, n_members=2)
    group = np.zeros_like(cluster)
    ensemble, _ = fit_ensemble(source, cluster, group, columns.layout, columns.sign, choices, 0)
    records = make_records(n, kind="people", seed=4).data
    return Blocked(records, FIELDS, ensemble, lambda: ChosenBlocking(BLOCKING, 1.0))


# ---- candidates ----


@pytest.mark.parametrize("links", [(), (equal("first_name", "surname"),)])
def test_records_in_any_order_have_the_same_candidates(links):
    records = make_records(1_000, kind="people", seed=3).data
    blocking = Blocking(BLOCKING.rules, links, BLOCKING.max_block)
    wanted = candidate_pairs(records, blocking)
    search = make_search(make_key_maker(records, blocking), blocking)
    for rows in (np.argsort(search.block_number), np.random.default_rng(0).permutation(1_000)):
        left, right = search.pairs(rows.astype(np.int32))
        order = np.lexsort((right, left))
        np.testing.assert_array_equal([left[order], right[order]], [wanted.left, wanted.right])
    assert sum(map(len, search.parts(rows.astype(np.int32)))) == 1_000


def test_records_of_a_block_are_neighbours_in_the_order_of_homes():
    names = np.array(list("abcde") * 40)
    blocking = Blocking((equal("name"),))
    search = make_search(make_key_maker(records_from({"name": names.tolist()}), blocking), blocking)
    ordered = names[np.argsort(search.block_number, kind="stable")]
    assert (ordered[1:] != ordered[:-1]).sum() == 4


def test_few_candidates_are_all_compared():
    found = compare_candidates(blocked())
    wanted = candidate_pairs(blocked().records, BLOCKING)
    np.testing.assert_array_equal([found.pairs.left, found.pairs.right], [wanted.left, wanted.right])
    comparer = Comparer.of(blocked().records, FIELDS)
    expected = comparer.compare(found.pairs.left, found.pairs.right)
    np.testing.assert_array_equal(found.pairs.features.view(np.int32), expected.view(np.int32))
    assert found.ensemble.table is not None
    assert found.ensemble.log_odds == pytest.approx(found.ensemble.table.log_odds_of_match)
    assert found.ensemble.floors is not None


@pytest.mark.parametrize("settled_by", [500, 20_000])
def test_of_many_candidates_those_stay_that_may_be_matches(monkeypatch, settled_by: int):
    monkeypatch.setattr(candidates, "MOST_CANDIDATES", 100)
    monkeypatch.setattr(candidates, "SETTLED_BY", settled_by)
    found = compare_candidates(blocked(), workers=2)
    wanted = candidate_pairs(blocked().records, BLOCKING)
    left, right = wanted.left.astype(np.int64), wanted.right.astype(np.int64)
    every = KeptPairs(left, right, Comparer.of(blocked().records, FIELDS).compare(left, right))
    table = found.ensemble.table
    assert table is not None
    # Matches and strangers are told apart here by the evidence as by the learned score: the cut is not lowered.
    expected = every.take(table.log_ratio(every.features) + found.ensemble.log_odds >= CUT)
    assert 0 < len(expected.left) < len(left)
    np.testing.assert_array_equal([found.pairs.left, found.pairs.right], [expected.left, expected.right])
    np.testing.assert_array_equal(found.pairs.features.view(np.int32), expected.features.view(np.int32))


def test_of_all_pairs_those_stay_that_may_be_matches():
    given = blocked()
    every = Comparer.of(given.records, FIELDS).compare_all()
    found, ensemble = prefilter_all(every, given.ensemble)
    assert ensemble.table is not None
    # All pairs say about the same of the table as those that may be matches.
    assert abs(ensemble.log_odds - given.ensemble.set_to_all(every).log_odds) < 0.1
    expected = every.select(ensemble.table.log_ratio(every.features) + ensemble.log_odds >= prefilter.UNLIKELY)
    assert 0 < len(expected) < len(every) / 2
    np.testing.assert_array_equal([found.left, found.right], [expected.left, expected.right])


def test_where_the_evidence_sees_no_matches_those_that_may_be_some_stay():
    """A seller's wording: few pairs agree a little, and the estimated match rate falls to nothing."""
    given = blocked()
    every = Comparer.of(given.records, FIELDS).compare_all()
    features = np.zeros_like(every.features)
    features[:, : len(FIELDS)] = 0.95
    alike = np.arange(0, len(every), len(every) // 20)
    features[alike, :2] = 0.25
    assert given.ensemble.evidence is not None
    table = given.ensemble.evidence.in_table(features, features, len(features))
    assert table.log_odds_of_match < prefilter.UNLIKELY - prefilter.MARGIN - table.log_ratio(features).max()
    found, _ = prefilter_all(Pairs(every.n_items, every.left, every.right, features), given.ensemble)
    np.testing.assert_array_equal([found.left, found.right], [every.left[alike], every.right[alike]])


def test_of_few_records_every_pair_stays():
    given = blocked(300)
    every = Comparer.of(given.records, FIELDS).compare_all()
    found, ensemble = prefilter_all(every, given.ensemble)
    assert found is every
    assert ensemble.log_odds == given.ensemble.set_to_all(every).log_odds


def test_progress_is_told_part_by_part():
    told: list[tuple[int, int]] = []
    compare_candidates(blocked(), workers=1, progress=lambda done, total: told.append((done, total)))
    assert told[-1][0] == told[-1][1]
    assert [done for done, _ in told] == list(range(1, len(told) + 1))


# ---- what the table is settled by ----


def test_the_sample_is_about_as_large_as_asked_for():
    rows = np.arange(100_000, dtype=np.int32)
    assert in_sample(rows, 1.0).all()
    # Binomial: six standard deviations.
    assert abs(in_sample(rows, 0.1).sum() - 10_000) < 6 * np.sqrt(9_000)
    assert (in_sample(rows, 0.1) <= in_sample(rows, 0.2)).all()
    assert sampled_share(10) == 1.0
    assert sampled_share(2 * candidates.SETTLED_BY) == 0.5


def test_the_sample_of_candidates_does_not_depend_on_the_order_of_rows(monkeypatch):
    monkeypatch.setattr(candidates, "SETTLED_BY", 300)
    records = blocked().records
    search = make_search(make_key_maker(records, BLOCKING), BLOCKING)
    orders = np.arange(len(records)), np.random.default_rng(0).permutation(len(records))
    one, two = (sample_candidates(search, rows.astype(np.int32), len(records)) for rows in orders)
    np.testing.assert_array_equal(one, two)
    assert 0 < len(one[0]) < len(candidate_pairs(records, BLOCKING))
    assert in_sample(one[0].astype(np.int32), 300 / len(records)).all()


@pytest.mark.parametrize("n", [2, 3, 1000])
def test_strangers_are_two_records_each_and_always_the_same(n: int):
    one, other = draw_strangers(n)
    assert (one < other).all()
    assert one.min() >= 0
    assert other.max() < n
    np.testing.assert_array_equal(draw_strangers(n), (one, other))


# ---- components ----


def test_chains_of_unlikely_pairs_are_broken_up_and_others_left(monkeypatch):
    monkeypatch.setattr(candidates, "MOST_CONNECTED", 5)
    rng = np.random.default_rng(0)
    # A chain of 40 records, every fourth link unlikely, and a small component with an unlikely pair.
    left = np.append(np.arange(39), [50, 51])
    right = left + 1
    log_odds = np.where(np.arange(41) % 4 == 3, -4.5 + rng.random(41), 3.0)
    log_odds[-2:] = [-4.9, 2.0]
    # The features of these pairs are their log-odds.
    judge = SimpleNamespace(mean_log_odds=lambda features: features[:, 0])
    found = break_up(KeptPairs(left, right, log_odds[:, None].astype(np.float32)), 60, judge)
    assert connected_components(60, [(found.left, found.right)]).sizes.max() <= 5
    assert {(50, 51), (51, 52)} <= set(zip(found.left.tolist(), found.right.tolist(), strict=True))
    assert set(left[log_odds > 0]) <= set(found.left)


def test_linked_pairs_are_joined_in_order():
    def part(left: list[int], right: list[int]) -> KeptPairs:
        ends = np.array(left, np.int64), np.array(right, np.int64)
        return KeptPairs(*ends, np.array([left, right], np.float32).T)

    joined = KeptPairs.join([part([5, 1], [6, 3]), part([1], [2]), part([], [])])
    assert joined.left.tolist() == [1, 1, 5]
    assert joined.right.tolist() == [2, 3, 6]
    assert joined.features.tolist() == [[1, 2], [1, 3], [5, 6]]


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_pairs_are_sorted_as_by_two_keys(dtype):
    rng = np.random.default_rng(0)
    largest = 2**31 - 1
    left, right = np.unique(rng.integers(0, largest, (1000, 2)) // rng.choice([1, 10**8], (1000, 2)), axis=0).T
    order = rng.permutation(len(left))
    left, right = np.append(left[order], largest).astype(dtype), np.append(right[order], largest).astype(dtype)
    np.testing.assert_array_equal(sort_pairs(left, right), np.lexsort((right, left)))


def test_what_a_blocking_keeps_is_estimated_where_nobody_knows():
    given = blocked()
    assert compare_candidates(given).report.recall == 1.0
    assert compare_candidates(replace(given, choose=lambda: ChosenBlocking(BLOCKING, 0.9))).report.recall == 0.9
    found = compare_candidates(replace(given, choose=lambda: ChosenBlocking(BLOCKING, np.nan)))
    assert 0.8 < found.report.recall < 1.0
    np.testing.assert_array_equal(found.pairs.left, compare_candidates(given).pairs.left)
