"""Exact copies of a record: few of very many are compared, and all are drawn together."""

from __future__ import annotations

import numpy as np
import pytest

from scdp import EntityResolver, Spec, compare
from scdp.compare.features import MOST_COPIES, Copies
from scdp.datasets import make_records
from scdp.posterior.linked import LinkedDraws
from scdp.table import records_from

SPEC = Spec("entity", [compare.edit("name"), compare.exact("city")])


def find(names: list, cities: list, groups=None, known=None) -> Copies:
    unknown = np.full(len(names), -1) if known is None else known
    records = records_from({"name": names, "city": cities, "note": list(range(len(names)))})
    return Copies.find(records, SPEC, groups, unknown)


def test_of_very_many_copies_one_is_kept_and_others_stay_with_it():
    n = 100
    copies = find(["ann", *["bob"] * n, "eve"], ["rome"] * (n + 2))
    assert copies.any()
    assert copies.kept.tolist() == [0, 1, n + 1]
    assert copies.stays_with.tolist() == [0, *[1] * n, 2]
    assert not find(["bob"] * MOST_COPIES, ["rome"] * MOST_COPIES).any()


def test_rows_that_differ_in_what_is_compared_are_no_copies():
    assert not find(["ann"] * 60, [f"city {k % 3}" for k in range(60)]).any()
    assert find(["ann"] * 60, ["rome"] * 60).any()


@pytest.mark.parametrize("nothing", [None, ""])
def test_rows_without_any_value_are_no_copies(nothing):
    assert not find([nothing] * 60, [None] * 60).any()
    # One value is enough.
    assert find([nothing] * 60, ["rome"] * 60).any()


def test_copies_are_of_one_group_and_of_unknown_cluster():
    n = 2 * MOST_COPIES
    assert not find(["ann"] * n, ["rome"] * n, groups=np.arange(n) % 2).any()
    assert find(["ann"] * n, ["rome"] * n, groups=np.zeros(n)).any()
    known = np.where(np.arange(n) < MOST_COPIES, -1, 0)
    assert not find(["ann"] * n, ["rome"] * n, known=known).any()


def test_draws_of_kept_rows_are_spread_over_all():
    n = MOST_COPIES + 10
    copies = find(["ann", *["bob"] * n], ["rome"] * (n + 1))
    together = np.array([[0, 1], [0, 0]], np.int32)
    spread = LinkedDraws.of(together).spread(copies.kept, copies.stays_with)
    assert [row.tolist() for row in spread.rows(n + 1)] == [[0, *[1] * n], [0] * (n + 1)]


@pytest.mark.parametrize("n_others", [300, 0])
def test_a_thousand_identical_records_are_one_cluster(n_others: int):
    train = make_records(150, kind="people", seed=1)
    spec = Spec("entity", [compare.edit("surname"), compare.edit("first_name"), compare.exact("city")])
    model = EntityResolver(spec=spec, n_draws=24, boosted=False, random_state=0)
    model.fit(train.data, np.unique(train.clusters, return_inverse=True)[1])
    columns = {"surname": ["quintero"] * 1000, "first_name": ["zelda"] * 1000, "city": ["ulm"] * 1000}
    if n_others:
        new = make_records(n_others, kind="people", seed=2).data
        columns = {name: [*cells, *new[name]] for name, cells in columns.items()}
    labels, posterior = model.predict_with_posterior(columns)
    assert len(labels) == posterior.n_items == len(columns["city"])
    assert len(set(labels[:1000])) == 1
    assert not set(labels[:1000]) & set(labels[1000:])
