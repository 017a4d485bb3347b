"""Work is bounded by what it costs: cells that would take hours to compare are cut, and it is said."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from scdp import Spec, compare
from scdp.compare import Comparison, kinds
from scdp.compare.comparison import LENGTHS, MOST_SECONDS, RATES, WorkWarning, bound_cells
from scdp.compare.kinds import BUILT_IN
from scdp.estimators.inputs import foreseen_pairs, rows_of
from scdp.table import Records


def table(n: int, length: int, **more: list[str | None]) -> Records:
    texts = [f"{k:07d}".ljust(length, "x") for k in range(n)]
    columns = {"text": texts, "code": ["c" * length] * n, **more}
    return Records({name: np.array([*cells, None], dtype=object)[:-1] for name, cells in columns.items()}, "t.csv")


EDIT = (compare.edit("text"),)


def test_a_day_of_work_becomes_minutes_and_is_said():
    records = table(2450, 20_000)
    with pytest.warns(
        WorkWarning, match=r"t\.csv: comparing cells of up to 20,000 characters .* hours; only the first"
    ):
        bounded = bound_cells(records, EDIT, 3_000_000)
    (length,) = set(map(len, bounded["text"]))
    assert length in LENGTHS
    assert 3e6 * length**2 * RATES["edit"] <= MOST_SECONDS < 3e6 * (2 * length) ** 2 * RATES["edit"]
    assert all(short == whole[:length] for short, whole in zip(bounded["text"], records["text"], strict=True))
    assert len(bounded["code"][0]) == 20_000
    assert bounded.row_numbers is records.row_numbers


@pytest.mark.parametrize(
    ("n", "length", "fields"),
    [
        (2450, 100, EDIT),
        (117, 8000, EDIT),
        (2450, 20_000, (compare.exact("text"),)),
        # All are the same: there is nothing to compare.
        (2450, 20_000, (compare.edit("code"),)),
    ],
    ids=["ordinary", "few and long", "quick kind", "copies"],
)
def test_what_takes_minutes_is_left_whole(n, length, fields):
    records = table(n, length)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert bound_cells(records, fields, n * (n - 1) // 2) is records


def test_kinds_of_the_user_are_taken_for_the_slowest(monkeypatch):
    monkeypatch.setitem(kinds._registered, "own", BUILT_IN["edit"])
    with pytest.warns(WorkWarning):
        bound_cells(table(2450, 20_000), (Comparison(name="own", kind="own", columns=("text",)),), 3_000_000)


def test_rates_are_of_kinds_that_there_are():
    assert set(RATES) <= set(BUILT_IN)


def test_fit_and_predict_foresee_their_pairs():
    assert foreseen_pairs(1000, None, True) == 499_500
    assert foreseen_pairs(1_000_000, None, True) < 10**8 < foreseen_pairs(1_000_000, None, False)
    assert foreseen_pairs(4, np.array([0, 0, 1, 1]), True) == 2


def test_rows_are_bounded_when_they_are_given_and_when_more_come():
    spec = Spec(entity="entity", fields=EDIT)
    some = table(1500, 20_000, entity=["e"] * 1500)
    with pytest.warns(WorkWarning):
        rows = rows_of(some, None, spec, "euclidean", True, blocked=True)
    assert len(rows.records["text"][0]) < 20_000
    few = rows_of(table(3, 20_000), None, spec, "euclidean", True, blocked=True)
    with pytest.warns(WorkWarning):
        more = few.append(some, None, False)
    assert len(set(map(len, more.records["text"]))) == 1
