"""Where records belong in a store: records enter, draws of the entities that they may concern leave.

What strangers look like, how rare values are and how many pairs match is settled once for the store as it stands.
Then a record is compared with the few that share its rare words, and only entities that may be meant are drawn again,
so that the cost hangs on what is new and not on what is there.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from scdp._parallel import count_workers
from scdp._typing import Booleans, Features, Integers, SmallIntegers
from scdp.compare import Comparison
from scdp.compare.features import Comparer, Pairs, ValueCounts
from scdp.conditions import Conditions
from scdp.engines import InThreads
from scdp.estimators import Estimator
from scdp.estimators.checks import labels_from
from scdp.estimators.inputs import Compared, settle_conditions
from scdp.hashing import N_STRANGERS, draw_strangers
from scdp.linkage import Ensemble
from scdp.linkage.law import LaterPartners
from scdp.partitions import connected_components
from scdp.posterior import Posterior, pack_linked
from scdp.resolver_fit import ResolverFit
from scdp.table import Column, Records
from scdp.table.decisions import Decision
from scdp.table.spec import Spec

WORDS = re.compile(r"\w+")
# Words of so many letters are also found by their halves: one letter that is wrong leaves one of them whole.
FEWEST_HALVED = 5
# Nobody writes a longer one twice in the same way.
LONGEST = 40
# A word that more records have leads nowhere: more than one in so many, and more than so many.
MOST_SHARED, MOST_SHARED_RECORDS = 200, 1_000
# The rarest words are looked up until they have led to so many records.
MOST_LOOKED_UP = 30_000
NEAREST = 60


def keys_of(cell: str) -> list[str]:
    """The words of a cell and the cell as one word, with the halves of long ones; and words with the next one.

    Example
    -------
    >>> keys_of("Ada Lovelace")
    ['ada', 'lovelace', 'love-', '-lace', 'adalovelace', 'adalo-', '-velace']
    >>> keys_of("7 Elm St")
    ['7', 'elm', 'st', '7elmst', '7el-', '-mst', '7elm', 'elmst']
    """
    words = WORDS.findall(cell.casefold())
    found, pairs = [], []
    if len(words) > 1:
        if len(words) > 2:
            pairs = [one + other for one, other in pairwise(words)]
        words.append("".join(words))
    for word in words:
        if len(word) > LONGEST:
            continue
        found.append(word)
        if len(word) >= FEWEST_HALVED:
            half = len(word) // 2
            found += [word[:half] + "-", "-" + word[half:]]
    return found + pairs


class WordIndex:
    """Rows by the words of their cells; the first rows are laid out together, later ones are added one by one.

    Parameters
    ----------
    columns : mapping
        Cells by column, in the order of the rows.
    """

    def __init__(self, columns: Mapping[str, Sequence[Any]]) -> None:
        self.n_rows = len(next(iter(columns.values()), ()))
        self._number: dict[str, int] = {}
        known: dict[str, tuple[int, ...]] = {}
        codes, owners = array("i"), []
        for cells in columns.values():
            counts = np.zeros(self.n_rows, dtype=np.int64)
            for row, cell in enumerate(cells):
                if cell is None:
                    continue
                numbers = known.get(cell)
                if numbers is None:
                    keys = keys_of(str(cell))
                    numbers = tuple(self._number.setdefault(key, len(self._number)) for key in keys)
                    known[cell] = numbers
                codes.extend(numbers)
                counts[row] = len(numbers)
            owners.append(np.repeat(np.arange(self.n_rows, dtype=np.int32), counts))
        code = np.frombuffer(codes, dtype=np.int32) if len(codes) else np.zeros(0, dtype=np.int32)
        order = np.argsort(code, kind="stable")
        self._rows = np.concatenate([np.zeros(0, np.int32), *owners])[order]
        self._starts = np.searchsorted(code[order], np.arange(len(self._number) + 1))
        self._later: dict[str, list[int]] = {}

    def add(self, row: int, cells: Iterable[Any]) -> None:
        """One more row."""
        self.n_rows = max(self.n_rows, row + 1)
        for key in _keys(cells):
            self._later.setdefault(key, []).append(row)

    def find_near(self, cells: Iterable[Any], alive: Booleans, most: int = NEAREST) -> Integers:
        """The rows that share most rare words with some cells, those first that share most."""
        ways = []
        limit = max(MOST_SHARED_RECORDS, self.n_rows // MOST_SHARED)
        for key in _keys(cells):
            rows = self._rows_of(key, limit)
            if len(rows):
                ways.append(rows)
        ways.sort(key=len)
        weight, total = [], 0
        for number, rows in enumerate(ways):
            total += len(rows)
            if total > MOST_LOOKED_UP and number:
                ways = ways[:number]
                break
            weight.append(np.full(len(rows), np.log(max(self.n_rows / len(rows), 1.0)) + 1e-9))
        if not ways:
            return np.zeros(0, dtype=np.int64)
        found, place = np.unique(np.concatenate(ways), return_inverse=True)
        shared = np.bincount(place, np.concatenate(weight))
        shared[~alive[found]] = 0.0
        best = np.argsort(-shared, kind="stable")[:most]
        near: Integers = found[best[shared[best] > 0.0]].astype(np.int64)
        return near

    def _rows_of(self, key: str, most: int) -> SmallIntegers:
        """The rows that have a word, twice if in two columns; none if they are more than so many."""
        number, later = self._number.get(key), self._later.get(key, ())
        start, end = (0, 0) if number is None else self._starts[number : number + 2]
        if end - start + len(later) > most:
            return self._rows[:0]
        first = self._rows[start:end]
        return np.concatenate([first, np.array(later, dtype=np.int32)]) if later else first


def _keys(cells: Iterable[Any]) -> dict[str, None]:
    return dict.fromkeys(key for cell in cells if cell is not None for key in keys_of(str(cell)))


# Rarity is counted over so many records, and the match rate follows from the neighbours of so many.
MOST_COUNTED, MOST_SETTLED_BY = 200_000, 2_000
# All pairs of records that may be one thing are compared up to so many; of more, those with a record that is placed.
MOST_WHOLE = 150
# An entity is drawn with a record if the log-odds of some pair are at least this: one in 150.
LEAST_LOG_ODDS = -5.0
# The store is settled anew when it has grown by this share.
GROWTH = 0.1


class StoredRows:
    """Rows in the order in which they came; a correction is one more row, and the one before does not count any more.

    Parameters
    ----------
    records : Records
        The rows to begin with.
    id_column : str
        Holds the ids.
    entities : sequence of str
        The entity of each row.
    """

    def __init__(self, records: Records, id_column: str, entities: Sequence[str]) -> None:
        self.id_column, self.source = id_column, records.source
        self.columns: dict[str, Column] = dict(records.columns) or {id_column: np.empty(0, dtype=object)}
        self.alive: Booleans = np.ones(len(self.columns[id_column]), dtype=bool)
        ids = self.columns[id_column].tolist()
        self.row_of: dict[str, int] = {str(one): row for row, one in enumerate(ids)}
        self.entities: dict[str, str] = dict(zip(ids, entities, strict=True))
        # The records of each entity.
        self.members: dict[str, list[str]] = {}
        for record, entity in self.entities.items():
            self.members.setdefault(entity, []).append(record)

    def __len__(self) -> int:
        return len(self.row_of)

    @property
    def records(self) -> Records:
        """The rows that count."""
        return self.take(np.flatnonzero(self.alive))

    def take(self, rows: Integers) -> Records:
        """Some rows."""
        return Records({name: cells[rows] for name, cells in self.columns.items()}, self.source)

    def cells(self, row: int, names: Iterable[str]) -> list[Any]:
        """Some cells of a row."""
        return [self.columns[name][row] for name in names]

    def append(self, new: dict[str, Column], ids: Sequence[str]) -> Integers:
        """Rows that are new, or stand for those that have the same ids; their numbers."""
        n, n_new = len(self.alive), len(ids)
        for name in dict.fromkeys([*self.columns, *new]):
            before = self.columns.get(name, np.full(n, None, dtype=object))
            more = new.get(name, np.full(n_new, None, dtype=object))
            self.columns[name] = np.concatenate([before, more])
        self.alive = np.concatenate([self.alive, np.ones(n_new, dtype=bool)])
        rows = np.arange(n, n + n_new)
        for row, identifier in zip(rows.tolist(), ids, strict=True):
            if identifier in self.row_of:
                self.alive[self.row_of[identifier]] = False
            self.row_of[identifier] = row
        return rows

    def remove(self, ids: Iterable[str]) -> None:
        """Rows that do not count any more."""
        for identifier in ids:
            self.alive[self.row_of.pop(identifier)] = False
            self.members[self.entities.pop(identifier)].remove(identifier)

    def assign(self, identifier: str, entity: str) -> None:
        """Put a record into an entity."""
        before = self.entities.get(identifier)
        if before == entity:
            return
        if before is not None:
            self.members[before].remove(identifier)
        self.entities[identifier] = entity
        self.members.setdefault(entity, []).append(identifier)

    def make_index(self, names: Iterable[str]) -> WordIndex:
        """An index over the words of some columns."""
        nobody = np.full(len(self.alive), None, dtype=object)
        return WordIndex({name: self.columns.get(name, nobody).tolist() for name in names})


class Setting(NamedTuple):
    """A model set to a store of so many records: evidence against its strangers, and how rare its values are."""

    ensemble: Ensemble
    counts: ValueCounts
    n_records: int

    def is_old(self, n_records: int) -> bool:
        """Whether so many records are too many, or too few, for what was settled."""
        return abs(n_records - self.n_records) > GROWTH * self.n_records


def settle_store(fitted: ResolverFit, rows: StoredRows, index: WordIndex, names: Sequence[str]) -> Setting:
    """Set a model to the records of a store, by random pairs and by the neighbours of some records."""
    rng = np.random.default_rng(len(rows))
    alive = np.flatnonzero(rows.alive)
    counted = alive if len(alive) <= MOST_COUNTED else np.sort(rng.choice(alive, MOST_COUNTED, replace=False))
    assert isinstance(fitted.rows, Compared)
    fields = fitted.rows.spec.fields
    comparer = Comparer.of(rows.take(counted), fields)
    counts = comparer.count()
    n_pairs = len(alive) * (len(alive) - 1) // 2
    if n_pairs <= N_STRANGERS:
        there = fitted.ensemble.set_to_all(comparer.compare_all(workers=1))
        return Setting(there, counts, len(rows))
    strangers = comparer.compare(*draw_strangers(len(counted)))
    some = rng.choice(alive, min(len(alive), MOST_SETTLED_BY), replace=False)
    left, right = find_pairs(rows, index, names, some)
    likely = _compare(rows, (left, right), fields, counts)
    later = LaterPartners(np.where(np.isin(left, some), left, -1), len(some))
    # Pairs of some records with all others are met from either of their ends, so they stand for twice as many records.
    n_met = min(2 * len(some), len(alive))
    ensemble = fitted.ensemble.set_to(strangers, likely, n_met * (len(alive) - 1) / 2.0, n_met, later)
    # What is settled by some records is as doubtful as all of them are many.
    return Setting(ensemble.doubt_more(len(alive)), counts, len(rows))


def find_pairs(
    rows: StoredRows, index: WordIndex, names: Sequence[str], some: Iterable[int]
) -> tuple[Integers, Integers]:
    """Pairs of each of some rows with those near it, each pair once."""
    found: set[tuple[int, int]] = set()
    for row in some:
        near = index.find_near(rows.cells(row, names), rows.alive).tolist()
        found.update((min(row, other), max(row, other)) for other in near if other != row)
    left, right = np.array(sorted(found), dtype=np.int64).reshape(-1, 2).T
    return left, right


class Placement(NamedTuple):
    """Records that were drawn: their ids, the answer, and the draws."""

    ids: list[str]
    labels: Integers
    posterior: Posterior


def place_all(
    model: Estimator, records: Records, id_column: str, held: Mapping[str, Sequence[str]], said: list[Decision]
) -> Placement:
    """Draw all records of a store; what is held together stays together."""
    # Chance follows from the order of the ids, not from the order in which records came.
    order = np.argsort(records[id_column], kind="stable")
    table = records.take(order)
    labels, posterior = model.predict_with_posterior(table, decisions=[*_as_decisions(held), *said])
    return Placement(list(map(str, table[id_column].tolist())), labels, posterior)


def draw_home(model: Any, setting: Setting, table: Records, given: Integers) -> Integers:
    """Draw the entity of the last row of a table; the others are in the given ones, which stay as they are.

    Returns
    -------
    By draw the number of the entity, or a larger one where the row is in none of them.
    """
    fitted: Any = model.fitted_
    spec = fitted.rows.spec
    query = len(given)
    known = np.append(given, -1)
    groups = None if spec.group is None else table[spec.group]
    conditions, known = settle_conditions(table, spec, None, known, groups)
    pairs = _compare_meeting(setting, table, spec, conditions, np.arange(query), np.full(query, query))
    n_draws = int(model.count_draws(query + 1))
    drawn = setting.ensemble.sample(pairs, known, n_draws, fitted.seed + 1, conditions=conditions)
    home: Integers = drawn[:, query].astype(np.int64)
    return home


def place_few(
    model: Any,
    setting: Setting,
    rows: StoredRows,
    near: tuple[Integers, Integers],
    looked_at: Integers,
    freed: set[str],
    said: list[Decision],
) -> Placement:
    """Draw some rows and the entities that they may belong to; `near` are pairs of rows to begin with."""
    fitted: Any = model.fitted_
    spec = fitted.rows.spec
    likely = _keep_likely(setting, rows, near, spec.fields)
    chosen = _spread(rows, likely, looked_at, said)
    ids = [str(one) for one in rows.columns[rows.id_column][chosen].tolist()]
    held: dict[str, list[str]] = {}
    for one in ids:
        entity = rows.entities.get(one)
        if entity is not None and entity not in freed:
            held.setdefault(entity, []).append(one)
    table = rows.take(chosen)
    groups = None if spec.group is None else table[spec.group]
    nobody = np.full(len(chosen), -1, dtype=np.int64)
    named = set(ids)
    own = [one for one in said if not named.isdisjoint(one.ids)]
    conditions, known = settle_conditions(table, spec, [*_as_decisions(held), *own], nobody, groups)
    ends = [tuple(np.searchsorted(chosen, end) for end in likely)]
    if conditions is not None:
        ends.append(conditions.ties())
    left, right = _pairs_within(len(chosen), ends, np.searchsorted(chosen, looked_at))
    pairs = _compare_meeting(setting, table, spec, conditions, left, right)
    n_chains = int(model.n_chains)
    n_draws = -(-int(model.count_draws(len(chosen))) // n_chains)
    drawn = InThreads(count_workers(model.n_jobs)).sample(
        setting.ensemble, pairs, known, n_chains * n_draws, fitted.seed + 1, None, conditions
    )
    stored = pack_linked(drawn, np.arange(len(chosen)), known, (n_chains, n_draws), shared=True)
    posterior = Posterior(stored)
    labels = labels_from(model._estimate(posterior, known, conditions), known)
    return Placement(ids, labels, posterior)


def _compare_meeting(
    setting: Setting, table: Records, spec: Spec, conditions: Conditions | None, left: Integers, right: Integers
) -> Pairs:
    """Those pairs of rows of a table that may be one thing, compared."""
    if spec.group is not None:
        groups = table[spec.group]
        meets = groups[left] == groups[right]
        left, right = left[meets], right[meets]
    if conditions is not None:
        meets = conditions.may_meet(left, right)
        left, right = left[meets], right[meets]
    features = Comparer.of(table, spec.fields, setting.counts).compare(left, right, 1)
    return Pairs(len(table), left, right, features)


def _compare(
    rows: StoredRows, pairs: tuple[Integers, Integers], fields: Sequence[Comparison], counts: ValueCounts
) -> Features:
    """The features of pairs of rows."""
    there = np.unique(np.concatenate(pairs))
    left, right = (np.searchsorted(there, end) for end in pairs)
    return Comparer.of(rows.take(there), fields, counts).compare(left, right, 1)


def _as_decisions(held: Mapping[str, Sequence[str]]) -> list[Decision]:
    """What is one entity stays one."""
    return [
        Decision(tuple(records), "same", place=f"entity {entity}")
        for entity, records in held.items()
        if len(records) > 1
    ]


def _keep_likely(
    setting: Setting, rows: StoredRows, near: tuple[Integers, Integers], fields: Sequence[Comparison]
) -> tuple[Integers, Integers]:
    """The pairs that may be matches."""
    if not len(near[0]):
        return near
    ensemble = setting.ensemble
    places = ensemble.places(_compare(rows, near, fields, setting.counts))
    scores = np.max([member.scores(places) + member.bias for member in ensemble.members], axis=0)
    kept = scores + ensemble.log_odds >= LEAST_LOG_ODDS
    return near[0][kept], near[1][kept]


def _spread(rows: StoredRows, likely: tuple[Integers, Integers], looked_at: Integers, said: list[Decision]) -> Integers:
    """All rows that are concerned: those looked at, whole entities that may be meant, and what decisions join."""
    ids = rows.columns[rows.id_column]
    chosen = {str(ids[row]) for row in np.unique(np.concatenate([looked_at, *likely])).tolist()}
    partners: dict[str, set[str]] = {}
    for one in said:
        if one.decision == "same":
            for record in one.ids:
                partners.setdefault(record, set()).update(one.ids)
    waiting = list(chosen)
    while waiting:
        record = waiting.pop()
        entity = rows.entities.get(record)
        joined = partners.get(record, set()) | set(rows.members[entity] if entity is not None else ())
        waiting += joined - chosen
        chosen |= joined
    # Records that are not there any more may still hold others together.
    there = (rows.row_of[record] for record in chosen if record in rows.row_of)
    return np.array(sorted(there), dtype=np.int64)


def _pairs_within(n: int, ends: list[Any], looked_at: Integers) -> tuple[Integers, Integers]:
    """The pairs that are compared: all within a component, or with those that are looked at where it is large."""
    codes = connected_components(n, ends).codes
    order = np.argsort(codes, kind="stable")
    is_new = np.zeros(n, dtype=bool)
    is_new[looked_at] = True
    left: list[Integers] = [np.zeros(0, dtype=np.int64)]
    right: list[Integers] = [np.zeros(0, dtype=np.int64)]
    for part in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1):
        one, other = np.triu_indices(len(part), k=1)
        kept = slice(None) if len(part) <= MOST_WHOLE else is_new[part[one]] | is_new[part[other]]
        left.append(np.minimum(part[one], part[other])[kept])
        right.append(np.maximum(part[one], part[other])[kept])
    one, other = np.concatenate(left), np.concatenate(right)
    order = np.lexsort((other, one))
    return one[order], other[order]
