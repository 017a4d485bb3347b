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

from scdp.errors import InputError
from scdp.estimators import Estimator
from scdp.estimators.model_folder import load_model
from scdp.io import FolderLock
from scdp.io.atomic import recover
from scdp.resolver_fit import ResolverFit
from scdp.store.files import (
    DECISIONS,
    DELETED,
    ENTITY,
    MANIFEST,
    MODEL,
    Event,
    follow,
    is_free,
    make_empty,
    name_entities,
    read_events,
    read_manifest,
    read_stored,
    remove_uncounted,
    write_generation,
)
from scdp.store.placement import (
    Placement,
    Setting,
    StoredRows,
    WordIndex,
    draw_home,
    find_pairs,
    place_all,
    place_few,
    settle_store,
)
from scdp.table import Records, check_no_zero, records_from, unique_ids
from scdp.table.decisions import Constraints, Decision, read_decisions

# If more than one in so many records is looked at, all are drawn; else only entities near those that are.
PLACED_ALONE = 10
CORRECTION = "correction"


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

    Example
    -------
    >>> store = Store("customers")  # doctest: +SKIP
    >>> store.lookup({"name": "Ada Lovelace"})[0].entity  # doctest: +SKIP
    'e-17'
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
        if not is_free(place):
            raise InputError(f"{place}: is there and is no store; give a new folder, or an empty one")
        place.mkdir(parents=True, exist_ok=True)
        with FolderLock(place, "store"):
            if not (place / MANIFEST).exists():
                make_empty(place, lambda folder: model.save(folder, force=True))
        return cls(place)

    def _read(self) -> None:
        records = read_stored(self.folder, self.manifest, self.id_column)
        named = records[ENTITY].tolist() if len(records) else []
        kept = {name: cells for name, cells in records.columns.items() if name not in (ENTITY, DELETED)}
        self._rows = StoredRows(Records(kept, str(self.folder)), self.id_column, named)
        self._index: WordIndex | None = None
        self._setting: Setting | None = None

    @property
    def records(self) -> Records:
        """The records as they are now."""
        return self._rows.records

    @property
    def entities(self) -> dict[str, str]:
        """The entity of each record, by id."""
        return self._rows.entities

    def load(self) -> Self:
        """Make ready what updates and lookups need, so that the first of them is as fast as all others."""
        if self._index is None:
            self._index = self._rows.make_index(self._compared)
        if len(self._rows) and (self._setting is None or self._setting.is_old(len(self._rows))):
            self._setting = settle_store(self._fitted, self._rows, self._index, self._compared)
        return self

    @property
    def _fitted(self) -> ResolverFit:
        assert isinstance(self.model.fitted_, ResolverFit)
        return self.model.fitted_

    def decisions(self) -> list[Decision]:
        """All that people decided about these records: with updates, and in between."""
        between = self.folder / DECISIONS
        return [*self.decisions_of_updates(), *(read_decisions(between) if between.is_file() else ())]

    def decisions_of_updates(self) -> list[Decision]:
        """What people decided and gave to updates; the rest is in `decisions.jsonl` of the folder."""
        return [one for name in self.manifest.list_files("decisions") for one in read_decisions(self.folder / name)]

    def events(self) -> list[Event]:
        """All that happened to entities, in order."""
        return read_events(self.folder, self.manifest)

    def update(
        self, new: Records | Any | None = None, *, delete: Iterable[str] = (), decisions: Iterable[Decision] = ()
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
            try:
                return self._update(None if new is None else records_from(new), list(delete), list(decisions))
            except BaseException:
                # What is held here is neither as before nor as after; the disk is one of them.
                self.manifest = read_manifest(self.folder)
                self._read()
                raise

    def _update(self, new: Records | None, delete: list[str], decisions: list[Decision]) -> list[Event]:
        rows = self._rows
        lost = [identifier for identifier in delete if identifier not in rows.entities]
        if lost:
            raise InputError(f"{self.folder}: there is no record {lost[0]!r} to delete; check the id")
        said = [*self.decisions(), *decisions]
        gone = {record: rows.entities[record] for record in dict.fromkeys(delete)}
        reasons = self._add(new, set(gone))
        freed = self._free(said, {*gone, *reasons})
        rows.remove(gone)
        for record in (record for entity in freed for record in rows.members.get(entity, ())):
            reasons.setdefault(record, "placed again after a change of its entity")
        for record in self._find_joined(said):
            reasons.setdefault(record, "decision")
        events: list[Event] = [
            {"event": "delete", "entity": entity, "records": [record], "reason": "deletion"}
            for record, entity in gone.items()
        ]
        events += [
            {"event": "correct", "entity": rows.entities[record], "records": [record], "reason": why}
            for record, why in reasons.items()
            if why == CORRECTION
        ]
        following = self.manifest.next_entity
        entity: dict[str, str] = {}
        if reasons:
            clusters, sure = self._place(said, freed, reasons)
            before = {record: rows.entities[record] for some in clusters for record in some if record in rows.entities}
            entity, happened, following = name_entities(clusters, before, sure, reasons, following)
            events += happened
        now = datetime.now(UTC).isoformat(timespec="seconds")
        events = [{"time": now, **event} for event in events]
        changed = [record for record, home in entity.items() if rows.entities.get(record) != home or record in reasons]
        table = self._table(changed, entity, gone)
        self.manifest = write_generation(self.folder, self.manifest, table, events, decisions, following)
        for record, home in entity.items():
            rows.assign(record, home)
        return events

    def _add(self, new: Records | None, deleted: set[str]) -> dict[str, str]:
        """Add the records that are new or changed; why each of them is looked at."""
        if new is None:
            return {}
        rows, reasons = self._rows, {}
        new.require(self.id_column, *self._compared)
        unique_ids(new, self.id_column)
        names = [name for name in new.names if name not in (ENTITY, DELETED)]
        places = []
        merged: dict[str, list[Any]] = {name: [] for name in dict.fromkeys([*rows.columns, *names])}
        for place, identifier in enumerate(map(str, new[self.id_column].tolist())):
            old = None if identifier in deleted else rows.row_of.get(identifier)
            if old is not None and all(
                name in rows.columns and rows.columns[name][old] == new[name][place] for name in names
            ):
                continue
            reasons[identifier] = "new record" if old is None else CORRECTION
            places.append(place)
            for name, cells in merged.items():
                kept = None if old is None or name not in rows.columns else rows.columns[name][old]
                cells.append(new[name][place] if name in names else kept)
        columns = {name: np.array([*cells, None], dtype=object)[:-1] for name, cells in merged.items()}
        added = rows.append(columns, list(reasons))
        if self._index is not None:
            for row in added.tolist():
                self._index.add(row, rows.cells(row, self._compared))
        return reasons

    def _free(self, said: list[Decision], concerned: set[str]) -> set[str]:
        """The entities whose records are all to be placed again: changed, or torn by decisions."""
        rows = self._rows
        freed = {rows.entities[record] for record in concerned if record in rows.entities}
        named = {rows.entities[one] for line in said for one in line.ids if one in rows.entities}
        ids = [record for entity in sorted(named) for record in rows.members[entity]]
        held = [Decision(tuple(rows.members[entity]), "same") for entity in named if len(rows.members[entity]) > 1]
        # With what entities hold together, decisions that two records differ may be contradicted.
        together = Constraints.of([*held, *(one for one in said if one.decision == "same")], ids).group
        apart = Constraints.of(said, ids)
        torn = {
            int(together[one])
            for one, other in zip(apart.left.tolist(), apart.right.tolist(), strict=True)
            if together[one] == together[other] >= 0
        }
        return freed | {
            rows.entities[record] for record, group in zip(ids, together.tolist(), strict=True) if group in torn
        }

    def _find_joined(self, said: list[Decision]) -> set[str]:
        """Records of two entities or more that a decision makes one."""
        found: set[str] = set()
        for one in said:
            here = [record for record in one.ids if record in self._rows.row_of]
            if one.decision == "same" and len({self.entities.get(record) for record in here}) > 1:
                found.update(here)
        return found

    def _place(
        self, said: list[Decision], freed: set[str], reasons: Mapping[str, str]
    ) -> tuple[list[list[str]], dict[str, float]]:
        """The clusters that hold a record that is looked at, and how sure each one's place is."""
        placed = self._draw(said, freed, list(reasons))
        sure = placed.posterior.membership_probability(placed.labels)
        members: dict[int, list[int]] = {}
        for place, label in enumerate(placed.labels.tolist()):
            members.setdefault(label, []).append(place)
        clusters: list[list[str]] = []
        probability: dict[str, float] = {}
        for places in members.values():
            records = [placed.ids[place] for place in places]
            if any(record in reasons for record in records):
                clusters.append(records)
                probability |= {record: float(sure[place]) for record, place in zip(records, places, strict=True)}
        return clusters, probability

    def _draw(self, said: list[Decision], freed: set[str], looked_at: list[str]) -> Placement:
        """Draw what some records may concern: of many new records all, else the entities near them."""
        rows = self._rows
        if PLACED_ALONE * len(looked_at) > len(rows):
            held = {entity: some for entity, some in rows.members.items() if entity not in freed}
            self._index = self._setting = None
            return place_all(self.model, rows.records, self.id_column, held, said)
        self.load()
        assert self._index is not None
        assert self._setting is not None
        chosen = np.array(sorted(rows.row_of[record] for record in looked_at), dtype=np.int64)
        near = find_pairs(rows, self._index, self._compared, chosen.tolist())
        return place_few(self.model, self._setting, rows, near, chosen, freed, said)

    @property
    def _compared(self) -> list[str]:
        spec = self.model.fitted_spec_
        assert spec is not None
        return list(dict.fromkeys(name for field in spec.fields for name in field.columns_read))

    def _table(self, changed: list[str], entity: Mapping[str, str], gone: Mapping[str, str]) -> dict[str, Any]:
        """The rows of a generation: records with their entities, and ids that are deleted."""
        there = self._rows.take(np.array([self._rows.row_of[one] for one in changed], dtype=np.int64))
        columns: dict[str, Any] = {
            name: np.concatenate([cells, np.full(len(gone), None, dtype=object)])
            for name, cells in there.columns.items()
        }
        columns[self.id_column][len(changed) :] = list(gone)
        named = [*(entity[record] for record in changed), *gone.values()]
        columns[ENTITY] = np.array([*named, None], dtype=object)[:-1]
        columns[DELETED] = np.array(["no"] * len(changed) + ["yes"] * len(gone), dtype=object)
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
            The likeliest first; one without an entity stands for none of those that are there. Entities stay as
            they are, so the probabilities sum to one.
        """
        rows, compared = self._rows, self._compared
        if not len(rows):
            return [Match(None, 1.0, ())]
        foreign = [name for name in cells if name not in rows.columns]
        if foreign or not any(cells.get(name) for name in compared):
            wrong = f"there is no column {foreign[0]!r}" if foreign else "no compared column is filled"
            raise InputError(f"{self.folder}: {wrong}; give some of {', '.join(compared)}")
        for name, cell in cells.items():
            if cell is not None and not isinstance(cell, str | int | float):
                raise InputError(f"{self.folder}: {name!r} is {cell!r}; give a text or a number")
        one = check_no_zero(records_from([{name: cells.get(name) for name in rows.columns}]))
        self.load()
        assert self._index is not None
        assert self._setting is not None
        near = self._index.find_near((one[name][0] for name in compared), rows.alive)
        ids = rows.columns[self.id_column]
        homes = list(dict.fromkeys(rows.entities[str(ids[row])] for row in near.tolist()))
        there = np.array([rows.row_of[record] for home in homes for record in rows.members[home]], dtype=np.int64)
        given = np.repeat(np.arange(len(homes)), [len(rows.members[home]) for home in homes])
        table = {name: np.concatenate([cells[there], one[name]]) for name, cells in rows.columns.items()}
        drawn = draw_home(self.model, self._setting, Records(table, rows.source), given)
        share = np.bincount(np.minimum(drawn, len(homes)), minlength=len(homes) + 1) / len(drawn)
        found = [
            Match(home, float(part), tuple(rows.members[home]))
            for home, part in zip(homes, share.tolist(), strict=False)
            if part > 0.0
        ]
        found.append(Match(None, float(share[-1]), ()))
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
            "id" as asked for, "entity" under which it goes on (of a record that was deleted: that which it was in),
            "records" that it has now, and "history", the events that concern it.
        """
        events = self.events()
        # A record that was deleted had its entity from the last event that names it.
        left = next((event["entity"] for event in reversed(events) if name in event["records"]), name)
        entity = follow(events, self.entities.get(name, left))
        history = [
            event
            for event in events
            if name in (event["entity"], event.get("from")) or entity == event["entity"] or name in event["records"]
        ]
        if not history:
            raise InputError(f"{self.folder}: there never was an entity or a record {name!r}; check the id")
        records = sorted(record for record, home in self.entities.items() if home == entity)
        return {"id": name, "entity": entity, "records": records, "history": history}


def _id_column(model: Estimator, folder: Path) -> str:
    spec = model.fitted_spec_
    if spec is None or spec.id is None or not isinstance(model.fitted_, ResolverFit):
        raise InputError(f"{folder}: a store needs a resolver of records with ids; fit one with --id")
    return spec.id
