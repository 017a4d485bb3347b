"""Entities before and after an update: the clusters of records enter, ids of entities and events leave.

An id keeps its meaning for ever: it goes on with the cluster that holds most of its records. Of several ids in one
cluster the oldest goes on and the others are merged into it; records that leave go to another entity or open one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Event = dict[str, Any]
PREFIX = "e-"


def number_of(entity: str) -> int:
    """The number in the id of an entity: the smaller, the older."""
    return int(entity.removeprefix(PREFIX))


def name_entities(
    clusters: Sequence[Sequence[str]],
    before: Mapping[str, str],
    probability: Mapping[str, float],
    reasons: Mapping[str, str],
    next_entity: int,
) -> tuple[dict[str, str], list[Event], int]:
    """The entity of each record of some clusters, what happened, and the next number of an entity.

    `before` has the entity of records that had one, `probability` how sure each one's place is, and `reasons` why a
    record is looked at again.
    """
    heirs = _find_heirs(clusters, before)
    entity: dict[str, str] = {}
    events: list[Event] = []
    for number, cluster in enumerate(clusters):
        claims = sorted((old for old, heir in heirs.items() if heir == number), key=number_of)
        name = claims[0] if claims else f"{PREFIX}{next_entity}"
        next_entity += not claims
        come: dict[str | None, list[str]] = {}
        for record in cluster:
            entity[record] = name
            if before.get(record) != name:
                come.setdefault(before.get(record), []).append(record)
        for old, records in sorted(come.items(), key=lambda item: (item[0] is None, str(item[0]))):
            sure = round(min(probability[record] for record in records), 4)
            why = reasons.get(records[0]) or _bridge(cluster, reasons)
            if old is None and not claims and len(come) == 1:
                events.append(_event("open", None, name, records, sure, why))
            elif old is None:
                events.append(_event("join", None, name, records, sure, why))
            elif heirs.get(old) == number:
                events.append(_event("merge", old, name, records, sure, why))
            elif not claims:
                events.append(_event("split", old, name, records, sure, why))
            else:
                events.append(_event("move", old, name, records, sure, why))
    return entity, events, next_entity


def _find_heirs(clusters: Sequence[Sequence[str]], before: Mapping[str, str]) -> dict[str, int]:
    """By entity, the cluster that has most of its records; of equals the first."""
    counts: dict[str, Counter[int]] = {}
    for number, cluster in enumerate(clusters):
        for record in cluster:
            if record in before:
                counts.setdefault(before[record], Counter())[number] += 1
    return {old: min(by, key=lambda number: (-by[number], number)) for old, by in counts.items()}


def _bridge(cluster: Iterable[str], reasons: Mapping[str, str]) -> str:
    """Why records that nobody looked at are concerned: what came to their cluster."""
    newcomer = next((record for record in cluster if record in reasons), None)
    return "decision" if newcomer is None else f"{reasons[newcomer]} {newcomer}"


def _event(kind: str, old: str | None, name: str, records: list[str], sure: float, why: str) -> Event:
    words: Event = {"event": kind}
    words |= {} if old is None else {"from": old}
    return words | {"entity": name, "records": records, "probability": sure, "reason": why}


def replay(events: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The entity of each record, from the events alone."""
    entity: dict[str, str] = {}
    for event in events:
        for record in event["records"]:
            if event["event"] == "delete":
                entity.pop(record, None)
            else:
                entity[record] = event["entity"]
    return entity


def follow(events: Iterable[Mapping[str, Any]], entity: str) -> str:
    """The id under which an entity goes on: its own, unless it was merged into another."""
    for event in events:
        if event["event"] == "merge" and event["from"] == entity:
            entity = event["entity"]
    return entity
