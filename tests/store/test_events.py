"""Ids of entities through updates: who goes on, what is merged, split or moved, and that the log says all of it."""

from __future__ import annotations

import numpy as np

from scdp.store.files import follow, name_entities, replay


def named(clusters, before, reasons, following=10):
    sure = dict.fromkeys((record for cluster in clusters for record in cluster), 0.9)
    return name_entities(clusters, before, sure, reasons, following)


def kinds(events):
    return [(event["event"], event.get("from"), event["entity"], event["records"]) for event in events]


def test_new_records_open_and_join():
    entity, events, following = named(
        [["a", "n1"], ["n2", "n3"]], {"a": "e-1"}, dict.fromkeys(["n1", "n2", "n3"], "new record")
    )
    assert entity == {"a": "e-1", "n1": "e-1", "n2": "e-10", "n3": "e-10"}
    assert following == 11
    assert kinds(events) == [("join", None, "e-1", ["n1"]), ("open", None, "e-10", ["n2", "n3"])]
    assert events[0]["probability"] == 0.9
    assert events[0]["reason"] == "new record"


def test_a_bridge_merges_into_the_older():
    before = {"a": "e-7", "b": "e-2", "c": "e-7"}
    entity, events, _ = named([["a", "b", "c", "n"]], before, {"n": "new record"})
    assert set(entity.values()) == {"e-2"}
    assert kinds(events) == [("merge", "e-7", "e-2", ["a", "c"]), ("join", None, "e-2", ["n"])]
    assert events[0]["reason"] == "new record n"
    assert follow(events, "e-7") == "e-2"
    assert follow(events, "e-2") == "e-2"


def test_the_larger_part_keeps_the_id():
    before = dict.fromkeys("abc", "e-3")
    entity, events, _ = named([["a"], ["b", "c"]], before, dict.fromkeys("abc", "decision"))
    assert entity == {"a": "e-10", "b": "e-3", "c": "e-3"}
    assert kinds(events) == [("split", "e-3", "e-10", ["a"])]


def test_a_part_that_goes_to_another_entity_moves():
    before = {"a": "e-3", "b": "e-3", "c": "e-3", "d": "e-4"}
    entity, events, _ = named([["a", "b"], ["c", "d"]], before, {"c": "correction"})
    assert entity["c"] == "e-4"
    assert kinds(events) == [("move", "e-3", "e-4", ["c"])]


def test_the_log_says_all_that_happened():
    rng = np.random.default_rng(0)
    before: dict[str, str] = {}
    log: list[dict] = []
    following = 1
    for step in range(30):
        records = [f"r{number}" for number in range(5 * (step + 1))]
        labels = rng.integers(0, 8, len(records))
        clusters = [[r for r, k in zip(records, labels, strict=True) if k == label] for label in np.unique(labels)]
        reasons = dict.fromkeys(records, "new record")
        sure = dict.fromkeys(records, 1.0)
        entity, events, following = name_entities(clusters, before, sure, reasons, following)
        log += events
        assert replay(log) == entity
        for cluster in clusters:
            assert len({entity[record] for record in cluster}) == 1
        assert len(set(entity.values())) == len(clusters)
        before = entity
