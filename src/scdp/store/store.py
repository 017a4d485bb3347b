"""A store of entities: new records, corrections, deletions and decisions enter; entities with lasting ids leave.

Entities that no change concerns stay as they are. In the clusters of new records, what was one entity stays together,
unless a record of it was corrected or deleted, or somebody decided that two of its records differ: then all its records
are placed again. So new records join entities, open them, or are the bridge over which two become one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import numpy as np

from scdp._typing import Integers
from scdp.errors import InputError
from scdp.estimators.base import Estimator
from scdp.estimators.model_folder import load_model
from scdp.io.atomic import FolderLock, recover
from scdp.posterior import Posterior
from scdp.store.events import Event, follow, name_entities
from scdp.store.files import (
    DELETED,
    ENTITY,
    MANIFEST,
    MODEL,
    Manifest,
    read_all_decisions,
    read_events,
    read_manifest,
    read_stored,
    remove_uncounted,
    write_generation,
    write_manifest,
)
from scdp.table.decisions import Constraints, Decision
from scdp.table.records import Records, records_from, unique_ids

# Of larger stores, records are placed among those that share rare words with them, and so many others at random.
MOST_TOGETHER = 20_000
NEAREST = 60
QUERY = "(lookup)"


@dataclass(frozen=True)
class Match:
    """An entity that a record may belong to (None: a new one), the probability, and the ids of its records."""

    entity: str | None
    probability: float
    records: tuple[str, ...]


class Store:
    """A folder of records and entities.

    Parameters
    ----------
    folder : path
        An existing store; `Store.create` makes one.

    Attributes
    ----------
    records : Records
        The records as they are now.
    entities : dict
        The entity of each record, by id.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        recover(self.folder)
        self.manifest = read_manifest(self.folder)
        self.model = load_model(self.folder / MODEL)
        self.id_column = _id_column(self.model, self.folder)
        self._read()

    @classmethod
    def create(cls, folder: str | Path, model: Estimator) -> Self:
        """An empty store with a fitted model of records that has a column of ids."""
        place = Path(folder)
        _id_column(model, place)
        if place.is_dir() and any(path.name not in (MODEL, "lock") for path in place.iterdir()):
            raise InputError(f"{place}: is there and is no store; give a new folder, or an empty one")
        place.mkdir(parents=True, exist_ok=True)
        with FolderLock(place, "store"):
            if not (place / MANIFEST).exists():
                model.save(place / MODEL, force=True)
                write_manifest(place, Manifest())
        return cls(place)

    def _read(self) -> None:
        self.records = read_stored(self.folder, self.manifest, self.id_column)
        ids = self.records[self.id_column].tolist() if len(self.records) else []
        self.entities: dict[str, str] = dict(
            zip(ids, self.records[ENTITY].tolist() if ids else [], strict=True)
        )

    def decisions(self) -> list[Decision]:
        """All that people decided about these records."""
        return read_all_decisions(self.folder, self.manifest)

    def events(self) -> list[Event]:
        """All that happened to entities, in order."""
        return read_events(self.folder, self.manifest)

    def update(
        self,
        new: Records | Any | None = None,
        *,
        delete: Iterable[str] = (),
        decisions: Iterable[Decision] = (),
    ) -> list[Event]:
        """Put records into the store, correct and delete some, and act on decisions.

        Parameters
        ----------
        new : Records or table, optional
            Records with ids. Those whose id is there already are corrections.
        delete : ids
            Records to be removed.
        decisions : Decisions
            Kept for ever, with those in `decisions.jsonl` of the folder.

        Returns
        -------
        list of events
            What happened to entities; it is on the disk when this returns.
        """
        with FolderLock(self.folder, "store"):
            manifest = read_manifest(self.folder)
            if manifest != self.manifest:
                self.manifest = manifest
                self._read()
            remove_uncounted(self.folder, manifest)
            return self._update(None if new is None else records_from(new), list(delete), list(decisions))

    def _update(self, new: Records | None, delete: list[str], decisions: list[Decision]) -> list[Event]:
        lost = [identifier for identifier in delete if identifier not in self.entities]
        if lost:
            raise InputError(f"{self.folder}: there is no record {lost[0]!r} to delete; check the id")
        said = [*self.decisions(), *decisions]
        table, reasons = self._merge(new, set(delete))
        ids = unique_ids(table, self.id_column).tolist() if len(table) else []
        freed = self._free(said, ids, {*delete, *(one for one in reasons if one in self.entities)})
        for record in ids:
            if self.entities.get(record) in freed and record not in reasons:
                reasons[record] = "placed again after a change of its entity"
        joined = self._joined_by(said, ids)
        for record in ids:
            if record in joined and record not in reasons:
                reasons[record] = "decision"
        entity = {record: self.entities[record] for record in ids if record in self.entities}
        events: list[Event] = [
            {"event": "delete", "entity": self.entities[record], "records": [record], "reason": "deletion"}
            for record in delete
        ]
        following = self.manifest.next_entity
        if reasons:
            clusters, sure = self._place(table, ids, said, freed, reasons)
            named, happened, following = name_entities(clusters, entity, sure, reasons, following)
            entity |= named
            events += happened
        now = datetime.now(UTC).isoformat(timespec="seconds")
        events = [{"time": now, **event} for event in events]
        changed = [
            record for record in ids if self.entities.get(record) != entity[record] or record in reasons
        ]
        rows = self._rows(table, ids, changed, entity, delete)
        kept = decisions
        self.manifest = write_generation(self.folder, self.manifest, rows, events, kept, following)
        self._read()
        return events

    def _merge(self, new: Records | None, deleted: set[str]) -> tuple[Records, dict[str, str]]:
        """All records that are to be there, and why those that are new or changed are looked at."""
        reasons: dict[str, str] = {}
        names = dict.fromkeys(name for name in self.records.names if name not in (ENTITY, DELETED))
        rows = {
            str(row[self.id_column]): {name: row[name] for name in names}
            for row in self.records.rows()
            if row[self.id_column] not in deleted
        }
        if new is not None:
            spec = self.model.fitted_spec_
            assert spec is not None
            new.require(self.id_column, *(name for field in spec.fields for name in field.columns))
            unique_ids(new, self.id_column)
            names |= dict.fromkeys(name for name in new.names if name not in (ENTITY, DELETED))
            for row in new.rows():
                identifier = str(row[self.id_column])
                before = rows.get(identifier)
                if before is not None and all(before.get(name) == cell for name, cell in row.items()):
                    continue
                reasons[identifier] = "new record" if before is None else "correction"
                rows[identifier] = (before or {}) | row
        columns = {
            name: np.array([*(row.get(name) for row in rows.values()), None], dtype=object)[:-1]
            for name in names
        }
        return Records(columns, str(self.folder)), reasons

    def _groups(self, said: list[Decision], ids: list[str]) -> tuple[Integers, list[tuple[int, int]]]:
        """By record, the number of what entities and decisions hold together; and pairs that must differ."""
        from scdp.blocking import connected_components

        found = Constraints.of(said, ids)
        place: dict[str, int] = {}
        ends: list[tuple[int, int]] = []
        for row, record in enumerate(ids):
            entity = self.entities.get(record)
            if entity is not None:
                ends.append((place.setdefault(entity, row), row))
        first: dict[int, int] = {}
        grouped = np.flatnonzero(found.group >= 0).tolist()
        ends += [(first.setdefault(int(found.group[row]), row), row) for row in grouped]
        left, right = np.array(ends, dtype=np.int64).reshape(-1, 2).T
        codes = connected_components(len(ids), [(left, right)]).codes.astype(np.int64)
        return codes, list(zip(found.left.tolist(), found.right.tolist(), strict=True))

    def _free(self, said: list[Decision], ids: list[str], concerned: set[str]) -> set[str]:
        """The entities whose records are all to be placed again."""
        freed = {self.entities[record] for record in concerned if record in self.entities}
        if ids:
            groups, apart = self._groups(said, ids)
            torn = {int(groups[one]) for one, other in apart if groups[one] == groups[other]}
            freed |= {
                self.entities[record]
                for row, record in enumerate(ids)
                if record in self.entities and int(groups[row]) in torn
            }
        return freed

    def _joined_by(self, said: list[Decision], ids: list[str]) -> set[str]:
        """Records of two entities or more that a decision makes one."""
        found: set[str] = set()
        there = set(ids)
        for one in said:
            here = [record for record in one.ids if record in there]
            if one.decision == "same" and len({self.entities.get(record) for record in here}) > 1:
                found.update(here)
        return found

    def _place(
        self,
        table: Records,
        ids: list[str],
        said: list[Decision],
        freed: set[str],
        reasons: Mapping[str, str],
    ) -> tuple[list[list[str]], dict[str, float]]:
        """The clusters that hold a record that is looked at, and how sure each one's place is."""
        chosen = self._choose(table, ids, set(reasons))
        labels, posterior = self._predict(table.take(chosen), said, freed)
        sure = posterior.membership_probability(labels)
        members: dict[int, list[int]] = {}
        for place, label in enumerate(labels.tolist()):
            members.setdefault(label, []).append(place)
        clusters: list[list[str]] = []
        probability: dict[str, float] = {}
        for places in members.values():
            records = [ids[chosen[place]] for place in places]
            if any(record in reasons for record in records):
                clusters.append(records)
                probability |= {
                    record: float(sure[place]) for record, place in zip(records, places, strict=True)
                }
        return clusters, probability

    def _predict(self, table: Records, said: list[Decision], freed: set[str]) -> tuple[Integers, Posterior]:
        """Cluster records, entities that are not freed staying together."""
        ids = table[self.id_column].tolist()
        members: dict[str, list[str]] = {}
        for record in ids:
            entity = self.entities.get(record)
            if entity is not None and entity not in freed:
                members.setdefault(entity, []).append(record)
        kept = [
            Decision(tuple(records), "same", place=f"entity {entity} of {self.folder}")
            for entity, records in members.items()
            if len(records) > 1
        ]
        order = np.argsort(np.array(ids, dtype=object), kind="stable")
        labels, posterior = self.model.predict_with_posterior(table.take(order), decisions=[*kept, *said])
        back = np.argsort(order)
        return labels[back], posterior.restricted(back)

    def _choose(self, table: Records, ids: list[str], looked_at: set[str]) -> Integers:
        """The rows that are clustered: all of a small store; of a large one those that may concern the change."""
        if len(ids) <= MOST_TOGETHER:
            return np.arange(len(ids))
        near = find_near(
            table, self._compared(), [row for row, record in enumerate(ids) if record in looked_at]
        )
        touched = {self.entities.get(ids[row]) for row in near}
        rows = {
            row
            for row, record in enumerate(ids)
            if record in looked_at or (record in self.entities and self.entities[record] in touched)
        }
        rest = np.random.default_rng(len(ids)).permutation(len(ids))[: max(MOST_TOGETHER - len(rows), 2_000)]
        return np.array(sorted(rows | set(rest.tolist())), dtype=np.int64)

    def _compared(self) -> list[str]:
        spec = self.model.fitted_spec_
        assert spec is not None
        return list(dict.fromkeys(name for field in spec.fields for name in field.columns))

    def _rows(
        self, table: Records, ids: list[str], changed: list[str], entity: Mapping[str, str], delete: list[str]
    ) -> dict[str, Any]:
        """The rows of a generation: records with their entities, and ids that are deleted."""
        row_of = {record: row for row, record in enumerate(ids)}
        rows = np.array([row_of[record] for record in changed], dtype=np.int64)
        names = table.names or (self.id_column,)
        nobody = np.full(len(delete), None, dtype=object)
        columns: dict[str, Any] = {}
        for name in names:
            cells = table[name][rows] if len(table) else np.empty(0, dtype=object)
            gone = np.array(delete, dtype=object) if name == self.id_column else nobody
            columns[name] = np.concatenate([cells, gone])
        named = [entity[record] for record in changed]
        columns[ENTITY] = np.array([*named, *(self.entities[record] for record in delete)], dtype=object)
        columns[DELETED] = np.array(["no"] * len(changed) + ["yes"] * len(delete), dtype=object)
        return columns

    def lookup(self, cells: Mapping[str, Any]) -> list[Match]:
        """Which entity a record belongs to; nothing is changed.

        Parameters
        ----------
        cells : mapping
            Cells by column; columns that are not there are missing.

        Returns
        -------
        list of Match
            The likeliest first; one without an entity stands for none of those that are there.
        """
        if not len(self.records):
            return [Match(None, 1.0, ())]
        compared = self._compared()
        foreign = [name for name in cells if name not in self.records.names]
        if foreign or not any(cells.get(name) for name in compared):
            wrong = f"there is no column {foreign[0]!r}" if foreign else "no compared column is filled"
            raise InputError(f"{self.folder}: {wrong}; give some of {', '.join(compared)}")
        query = {name: cells.get(name) for name in self.records.names} | {self.id_column: QUERY}
        one = records_from([query])
        columns = {name: np.concatenate([self.records[name], one[name]]) for name in self.records.names}
        table = Records(columns, str(self.folder))
        ids = table[self.id_column].tolist()
        chosen = self._choose(table, ids, {QUERY})
        there = table.take(chosen)
        _, posterior = self._predict(there, self.decisions(), set())
        return self._weigh(there[self.id_column].tolist(), posterior)

    def _weigh(self, ids: list[str], posterior: Posterior) -> list[Match]:
        query = ids.index(QUERY)
        members: dict[str, list[str]] = {}
        first: dict[str, int] = {}
        for row, record in enumerate(ids):
            if record != QUERY:
                members.setdefault(self.entities[record], []).append(record)
                first.setdefault(self.entities[record], row)
        names, rows = list(first), np.array(list(first.values()), dtype=np.int64)
        together, alone, n_draws = np.zeros(len(rows)), 0.0, 0
        for _, labels in posterior.stored.label_chunks():
            same = labels[:, rows] == labels[:, [query]]
            # A record that brings two entities together belongs to each of them.
            together += same.sum(axis=0)
            alone += float((~same.any(axis=1)).sum())
            n_draws += len(labels)
        found = [
            Match(names[k], float(together[k]) / n_draws, tuple(members[names[k]]))
            for k in np.flatnonzero(together).tolist()
        ]
        found.append(Match(None, alone / n_draws, ()))
        return sorted(found, key=lambda match: (-match.probability, match.entity or ""))

    def resolve(self, name: str) -> dict[str, Any]:
        """What has become of an entity, or of the entity of a record.

        Parameters
        ----------
        name : str
            The id of an entity, at any time, or of a record.

        Returns
        -------
        dict
            "id" as asked for, "entity" under which it goes on, "records" that it has now, and "history", the events
            that concern it.
        """
        events = self.events()
        entity = follow(events, self.entities.get(name, name))
        history = [
            event
            for event in events
            if name in (event["entity"], event.get("from"))
            or entity == event["entity"]
            or name in event["records"]
        ]
        if not history:
            raise InputError(f"{self.folder}: there never was an entity or a record {name!r}; check the id")
        records = sorted(record for record, home in self.entities.items() if home == entity)
        return {"id": name, "entity": entity, "records": records, "history": history}


def _id_column(model: Estimator, folder: Path) -> str:
    spec = model.fitted_spec_
    if spec is None or spec.id is None:
        raise InputError(f"{folder}: a store needs a model of records with ids; fit one with --id")
    return spec.id


def find_near(table: Records, columns: Iterable[str], rows: Iterable[int]) -> set[int]:
    """The rows that share most rare words of their compared cells with some given rows."""
    postings: dict[str, list[int]] = {}
    words: list[set[str]] = [set() for _ in range(len(table))]
    for name in columns:
        for row, cell in enumerate(table[name].tolist()):
            if cell is not None:
                words[row].update(cell.casefold().split())
    for row, some in enumerate(words):
        for word in some:
            postings.setdefault(word, []).append(row)
    found: set[int] = set()
    for row in rows:
        weight: dict[int, float] = {}
        for word in words[row]:
            others = postings[word]
            if 1 < len(others) <= max(1_000, len(table) // 200):
                for other in others:
                    weight[other] = weight.get(other, 0.0) + float(np.log(len(table) / len(others)))
        found.update(sorted(weight, key=lambda other: (-weight[other], other))[:NEAREST])
    return found
