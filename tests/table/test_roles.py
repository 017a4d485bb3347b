"""Columns of ids are found by what they are called and hold."""

from __future__ import annotations

import pytest

from scdp.table import records_from
from scdp.table.spec import find_entity_column, find_id_column, find_shared_ids


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        ({"rec_id": ["1", "1"], "other_id": ["1", "2"]}, "rec_id"),  # a usual name counts, and is checked later
        ({"name": ["x", "y"], "Customer ID": ["1", "2"]}, "Customer ID"),
        ({"customer_id": ["1", "1"], "personId": ["1", "2"]}, "personId"),
        ({"customer_id": ["1", None], "paid": ["1", "2"]}, None),
        ({"entity": ["1", "2"], "entity_id": ["1", "2"]}, None),
    ],
)
def test_the_column_of_ids(columns, found):
    assert find_id_column(records_from(columns), ("entity", "entity_id")) == found


def test_the_column_of_known_clusters():
    assert find_entity_column(records_from({"cluster": ["1"], "entity": ["2"]})) == "entity"
    assert find_entity_column(records_from({"name": ["1"]})) is None


def test_ids_that_two_tables_share():
    ours = records_from({"cluster": ["1", "2"], "key": ["a", "b"]})
    assert find_shared_ids(ours, records_from({"person": ["b", "a"]})) == ("key", "person")
    assert find_shared_ids(ours, records_from({"person": ["b", "c"]})) is None
