"""The prefilter: it keeps what plain filtering by the evidence of the table keeps, with the same distances."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scdp import compare
from scdp.compare.features import Columns, Comparer
from scdp.datasets import make_records
from scdp.linkage import prefilter
from scdp.linkage.evidence import TableEvidence
from scdp.linkage.levels import N_LEVELS
from scdp.linkage.prefilter import CUT, LOWEST_CUT, MAY_MATCH, MOST_LOST, SLACK, Prefilter, PrefilterRun, choose_cut
from scdp.table import records_from

FIELDS = (
    compare.edit("surname"),
    compare.jaro_winkler("surname"),
    compare.token_set("street"),
    compare.absolute("birth_date", of="year", scale=10.0),
    compare.date("birth_date"),
    compare.exact("city"),
    compare.person_name(["first_name", "surname"]),
    compare.phone("phone"),
)


def some_evidence(seed: int, fields: Any, match_rate: float) -> TableEvidence:
    """Levels that mostly fall with the distance, but need not."""
    rng = np.random.default_rng(seed)
    ratio = np.linspace(4, -4, N_LEVELS) + rng.normal(0, 1.5, (len(fields), N_LEVELS))
    return TableEvidence(Columns.of(fields).layout, ratio, rng.normal(-0.7, 0.3, len(fields)), match_rate)


def check(comparer: Comparer, table: TableEvidence) -> int:
    left, right = (ends.astype(np.int32) for ends in np.triu_indices(len(comparer), k=1))
    every = comparer.compare(left.astype(np.int64), right.astype(np.int64), 1)
    rule = Prefilter.of(table, every)
    assert sorted(rule.order) == list(range(len(comparer.prepared)))
    assert rule.need == pytest.approx(CUT - table.log_odds_of_match)
    places, distances = PrefilterRun.of(rule, comparer).keep(left, right)
    ratio = table.log_ratio(every)
    kept = np.zeros(len(left), dtype=bool)
    kept[places] = True
    assert kept[ratio >= rule.need].all()
    assert (ratio[kept] >= rule.need - 2 * SLACK).all()
    wanted = every[places, : len(comparer.prepared)]
    np.testing.assert_array_equal(distances.view(np.int32), wanted.view(np.int32))
    return len(places)


@pytest.mark.parametrize("match_rate", [1e-6, 1e-4, 0.01])
def test_what_is_kept_is_what_plain_filtering_keeps(match_rate: float):
    fields = tuple(field.fit(PEOPLE) if field.needs_fit else field for field in FIELDS)
    found = check(Comparer.of(PEOPLE, fields), some_evidence(4, fields, match_rate))
    assert 0 < found < 300 * 299 // 2


PEOPLE = make_records(300, kind="people", seed=2).data


def test_long_and_foreign_texts_are_kept_as_well():
    rng = np.random.default_rng(5)
    letters = np.array(list("abcdefgh\u00e9\u4e2d\U0001f600 "))
    words = ["".join(rng.choice(letters, rng.integers(1, 20))) for _ in range(100)]
    words[7], words[8], words[9] = "ab" * 50, "ba" * 40 + "\u4e2d", ""
    fields = (compare.edit("a"), compare.jaro_winkler("a"))
    check(Comparer.of(records_from({"a": words}), fields), some_evidence(6, fields, 1e-3))


def test_a_pair_that_nothing_can_lift_is_not_compared_to_the_end():
    fields = (compare.exact("a"), compare.edit("b"))
    records = records_from({"a": ["x", "x", "y"], "b": ["one", "two", "three"]})
    comparer = Comparer.of(records, fields)
    levels = np.tile(np.array([[3.0]]), (1, N_LEVELS))
    table = TableEvidence(
        Columns.of(fields).layout,
        np.concatenate([np.where(np.arange(N_LEVELS) > 0, -50.0, levels), levels]),
        np.zeros(2),
        0.01,
    )
    left, right = np.array([0, 0], np.int32), np.array([1, 2], np.int32)
    rule = Prefilter.of(table, comparer.compare(left.astype(np.int64), right.astype(np.int64), 1))
    assert rule.order == (0, 1)
    asked = []
    second = comparer.prepared[1]
    prepared = (comparer.prepared[0], Watched(second, asked))
    run = PrefilterRun.of(rule, Comparer(comparer.columns, prepared, comparer.nats))  # type: ignore[arg-type]
    assert run.keep(left, right)[0].tolist() == [0]
    assert asked == [1]


class Watched:
    """A prepared column that counts the pairs it is asked for."""

    def __init__(self, column: Any, asked: list[int]) -> None:
        self._column, self._asked = column, asked

    def __getattr__(self, name: str) -> Any:
        return getattr(self._column, name)

    def __len__(self) -> int:
        return len(self._column)

    def score_values(self, low: Any, high: Any, workers: int) -> Any:
        self._asked.append(len(low))
        return self._column.score_values(low, high, workers)


def test_what_is_kept_hangs_neither_on_the_order_of_comparisons_nor_on_the_parts(monkeypatch):
    fields = tuple(field.fit(PEOPLE) if field.needs_fit else field for field in FIELDS)
    comparer, table = Comparer.of(PEOPLE, fields), some_evidence(4, fields, 1e-4)
    left, right = (ends.astype(np.int32) for ends in np.triu_indices(len(PEOPLE), k=1))
    every = comparer.compare(left.astype(np.int64), right.astype(np.int64), 1)
    seconds = comparer.time_pairs(left.astype(np.int64), right.astype(np.int64))
    assert (seconds > 0).all()
    found = []
    for times, size in ((None, 1 << 14), (seconds, 100), (np.geomspace(1, 1e9, len(fields)), 7777)):
        monkeypatch.setattr(prefilter, "PAIRS_AT_ONCE", size)
        rule = Prefilter.of(table, every, times)
        places, distances = PrefilterRun.of(rule, comparer).keep(left, right)
        ratio = table.log_ratio(comparer.complete(distances, left[places], right[places]))
        sure = ratio >= rule.need
        found.append((places[sure], distances[sure]))
    assert rule.order == tuple(range(len(fields)))
    for places, distances in found[1:]:
        np.testing.assert_array_equal(places, found[0][0])
        np.testing.assert_array_equal(distances, found[0][1])


def test_no_pairs_are_no_pairs():
    comparer = Comparer.of(PEOPLE, FIELDS[:3])
    table = some_evidence(4, FIELDS[:3], 0.01)
    rule = Prefilter.of(table, np.empty((0, 8), np.float32))
    places, distances = PrefilterRun.of(rule, comparer).keep(np.zeros(0, np.int32), np.zeros(0, np.int32))
    assert places.shape == (0,)
    assert distances.shape == (0, 3)


def test_the_cut_is_lower_where_the_learned_score_finds_matches_below_it():
    rng = np.random.default_rng(0)
    log_odds = np.concatenate([rng.normal(5, 1, 900), rng.normal(-9, 0.5, 100), rng.normal(-20, 1, 5000)])
    probability = np.concatenate([np.full(1000, 0.9), np.full(5000, 0.01)])
    cut = choose_cut(log_odds, probability)
    assert LOWEST_CUT < cut < -9
    lost = probability[(log_odds < cut) & (probability >= MAY_MATCH)].sum()
    assert lost <= MOST_LOST * probability[:1000].sum()
    # Where evidence and score agree, it stays; and it never follows a score that finds matches everywhere.
    assert choose_cut(log_odds[:900], probability[:900]) == CUT
    assert choose_cut(log_odds - 30, probability) == LOWEST_CUT
    assert choose_cut(log_odds, np.zeros(6000)) == CUT


@pytest.mark.parametrize("match_rate", [1e-6, 1e-3])
def test_differences_that_fade_with_time_are_filtered_alike(match_rate: float):
    rng = np.random.default_rng(1)
    columns = {name: PEOPLE[name] for name in PEOPLE.names}
    columns["seen"] = np.array([str(year) for year in rng.integers(1980, 2020, len(PEOPLE))], dtype=object)
    records = records_from(columns)
    fields = (
        compare.jaro_winkler("surname", time="seen"),
        compare.token_set("street", time="seen", half_life=2.0),
        compare.date("birth_date").fit(records),
    )
    found = check(Comparer.of(records, fields), some_evidence(4, fields, match_rate))
    assert 0 < found < 300 * 299 // 2
