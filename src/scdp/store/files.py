"""The files of a store, and what happens to its entities: a generation counts once `store.json` names its files.

store.json            which files count, by generation, and the next number of an entity
model/                the model, as `EntityResolver.save` writes it
records-G.parquet     records that generation G added, changed or deleted: their cells, entity, and whether deleted
events-G.jsonl        what happened to entities in generation G
decisions-G.jsonl     decisions that came with generation G
decisions.jsonl       decisions that people add in between; the next update reads them
lock                  there while somebody writes

`store.json` is replaced in one step after all files it names are on the disk, so a process that is killed leaves the
store as it was; files that it does not name are removed by the next update.

Entities. An id keeps its meaning for ever: it goes on with the cluster that holds most of its records. Of several ids
in one cluster the oldest goes on and the others are merged into it; records that leave go to another entity or open
one.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from scdp.errors import InputError
from scdp.io import parse_json, read_bytes, remove, sum_file
from scdp.io.atomic import OLD, PART, Staged, find_leftovers, write_text
from scdp.io.targets import stage_table
from scdp.table import Column, Records
from scdp.table.decisions import Decision
from scdp.table.readers import read_parquet

MANIFEST, MODEL, DECISIONS, LOCK = "store.json", "model", "decisions.jsonl", "lock"
FORMAT, VERSION = "scdp-store", 2
ENTITY, DELETED = "(entity)", "(deleted)"
_OURS = re.compile(r"(records|events|decisions)-(\d+)\.(parquet|jsonl)")
LARGEST_MANIFEST = 64 << 20


@dataclass(frozen=True)
class Manifest:
    """Which files count, in the order of their generations."""

    generation: int = 0
    next_entity: int = 1
    files: tuple[str, ...] = ()
    # The digests of the files, in their order.
    sums: tuple[str, ...] = ()

    def list_files(self, kind: str) -> list[str]:
        """The files of one kind."""
        return [name for name in self.files if name.startswith(f"{kind}-")]


def read_manifest(folder: Path) -> Manifest:
    """What `store.json` says; a folder without one, or with a foreign one, is refused."""
    place = folder / MANIFEST
    if not place.is_file():
        raise InputError(f"{folder}: is no store, for it has no {MANIFEST}; make one by  scdp update --model MODEL")
    try:
        words = parse_json(read_bytes(place, LARGEST_MANIFEST).decode())
        if words["format"] != FORMAT or words["version"] != VERSION:
            raise ValueError("another format")
        if words.pop("checksum") != _sum_words(words):
            raise ValueError("its checksum is another")
        files = tuple(words["files"])
        if not all(_OURS.fullmatch(name) for name in files):
            raise ValueError("foreign files")
        return Manifest(int(words["generation"]), int(words["next_entity"]), files, tuple(words["files"].values()))
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{place}: is damaged or of another version ({error}); bring back a copy") from error


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace `store.json` in one step: from now on, what it names counts."""
    words = {
        "format": FORMAT,
        "version": VERSION,
        "generation": manifest.generation,
        "next_entity": manifest.next_entity,
        "files": dict(zip(manifest.files, manifest.sums, strict=True)),
    }
    write_text(folder / MANIFEST, json.dumps(words | {"checksum": _sum_words(words)}, indent=1) + "\n")


def _sum_words(words: Mapping[str, Any]) -> str:
    return sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()


def check_whole(folder: Path, manifest: Manifest) -> None:
    """Refuse files that are not as they were written."""
    for name, digest in zip(manifest.files, manifest.sums, strict=True):
        if sum_file(folder / name) != digest:
            raise InputError(f"{folder / name}: is not as it was written; bring back a copy of the store")


def is_free(folder: Path) -> bool:
    """Whether a store can be made here: nothing is there, or what a process left that was killed while it made one."""
    if not folder.is_dir():
        return not folder.exists()
    names = {path.name for path in folder.iterdir()}
    left = {path.name for path, _ in find_leftovers(folder, ".+", PART, OLD)} | (names & {LOCK})
    return not names or (bool(left) and names <= left | {MODEL})


def make_empty(folder: Path, save_model: Callable[[Path], object]) -> None:
    """Make a store without records in a folder that is free; what cannot be finished goes again."""
    try:
        save_model(folder / MODEL)
        write_manifest(folder, Manifest())
    except BaseException:
        remove(folder / MODEL)
        raise


def remove_uncounted(folder: Path, manifest: Manifest) -> None:
    """Remove the files of the next generation, which a killed process had not come to count."""
    for path in folder.iterdir():
        match = _OURS.fullmatch(path.name)
        if match and int(match[2]) == manifest.generation + 1:
            remove(path)


def read_stored(folder: Path, manifest: Manifest, id_column: str) -> Records:
    """The records as they are now: of each id the last row, unless that says deleted."""
    check_whole(folder, manifest)
    parts = [read_parquet(folder / name) for name in manifest.list_files("records")]
    names = dict.fromkeys(name for part in parts for name in part.names)
    if not parts:
        return Records({})
    columns = {name: np.concatenate([_cells(part, name) for part in parts]) for name in names}
    last = {identifier: row for row, identifier in enumerate(columns[id_column].tolist())}
    rows = np.array(sorted(row for row in last.values() if columns[DELETED][row] != "yes"), dtype=np.int64)
    return Records({name: cells[rows] for name, cells in columns.items()}, str(folder))


def _cells(part: Records, name: str) -> Column:
    return part[name] if name in part.names else np.full(len(part), None, dtype=object)


def read_events(folder: Path, manifest: Manifest) -> list[dict[str, Any]]:
    """All that happened, in order."""
    lines = [
        line
        for name in manifest.list_files("events")
        for line in read_bytes(folder / name).decode().split("\n")
        if line
    ]
    return [parse_json(line) for line in lines]


def write_generation(
    folder: Path,
    manifest: Manifest,
    rows: Mapping[str, Column],
    events: Sequence[Mapping[str, Any]],
    decisions: Sequence[Decision],
    next_entity: int,
) -> Manifest:
    """Add a generation: its files first, and then the manifest that makes them count."""
    generation = manifest.generation + 1
    names = [f"events-{generation}.jsonl"]
    with Staged() as staged:
        lines = (json.dumps(event, ensure_ascii=False) for event in events)
        staged.text(folder / names[0], "".join(f"{line}\n" for line in lines))
        if len(rows[ENTITY]):
            names.append(f"records-{generation}.parquet")
            stage_table(staged, folder / names[-1], rows)
        if decisions:
            names.append(f"decisions-{generation}.jsonl")
            staged.text(folder / names[-1], "".join(one.to_line() + "\n" for one in decisions))
    sums = (sum_file(folder / name) for name in names)
    after = Manifest(generation, next_entity, (*manifest.files, *names), (*manifest.sums, *sums))
    write_manifest(folder, after)
    return after


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
            if old is None:
                kind = "open" if not claims and len(come) == 1 else "join"
            elif heirs.get(old) == number:
                kind = "merge"
            else:
                kind = "move" if claims else "split"
            origin = {} if old is None else {"from": old}
            events.append(
                {"event": kind} | origin | {"entity": name, "records": records, "probability": sure, "reason": why}
            )
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
