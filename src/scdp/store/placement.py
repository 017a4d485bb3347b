"""Where records belong in a store: records enter, draws of the entities that they may concern leave.

What strangers look like, how rare values are and how many pairs match is settled once for the store as it stands.
Then a record is compared with the few that share its rare words, and only entities that may be meant are drawn again,
so that the cost hangs on what is new and not on what is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from scdp._parallel import count_workers
from scdp._typing import Features, Integers
from scdp.blocking import connected_components
from scdp.compare import Comparison
from scdp.estimators.base import Estimator
from scdp.estimators.checks import labels_from
from scdp.estimators.decided import settle_conditions
from scdp.estimators.inputs import Compared
from scdp.linkage.candidates import N_STRANGERS, draw_strangers
from scdp.linkage.ensemble import Ensemble
from scdp.linkage.features import Comparer, ValueCounts
from scdp.linkage.law import Pairs
from scdp.linkage.resolver_fit import ResolverFit
from scdp.linkage.shards import InThreads
from scdp.posterior import Posterior
from scdp.store.index import WordIndex
from scdp.store.rows import StoredRows
from scdp.table.decisions import Decision
from scdp.table.records import Records

# Rarity is counted over so many records, and the match rate follows from the neighbours of so many.
MOST_COUNTED, MOST_SETTLED_BY = 200_000, 2_000
# All pairs of records that may be one thing are compared up to so many; of more, those with a record that is placed.
MOST_WHOLE = 150
# An entity is drawn with a record if the log-odds of some pair are at least this: one in 150.
LEAST_LOG_ODDS = -5.0
# The store is settled anew when it has grown by this share.
GROWTH = 0.1


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
        every = comparer.compare_all(workers=1).features
        return Setting(fitted.ensemble.set_to(every, every, n_pairs, len(alive)), counts, len(rows))
    strangers = comparer.compare(*draw_strangers(len(counted)))
    some = rng.choice(alive, min(len(alive), MOST_SETTLED_BY), replace=False)
    likely = _compare(rows, find_pairs(rows, index, names, some), fields, counts)
    # Pairs of some records with all others are met from either of their ends, so they stand for twice as many records.
    n_met = min(2 * len(some), len(alive))
    ensemble = fitted.ensemble.set_to(strangers, likely, n_met * (len(alive) - 1) / 2.0, n_met)
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
    model: Estimator,
    records: Records,
    id_column: str,
    held: Mapping[str, Sequence[str]],
    said: list[Decision],
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
    left, right = np.arange(query), np.full(query, query)
    meets = np.ones(query, dtype=bool) if groups is None else groups[left] == groups[query]
    if conditions is not None:
        meets &= conditions.may_meet(left, right)
    left, right = left[meets], right[meets]
    features = Comparer.of(table, spec.fields, setting.counts).compare(left, right, 1)
    pairs = Pairs(query + 1, left, right, features)
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
    if groups is not None:
        left, right = left[groups[left] == groups[right]], right[groups[left] == groups[right]]
    if conditions is not None:
        meets = conditions.may_meet(left, right)
        left, right = left[meets], right[meets]
    features = Comparer.of(table, spec.fields, setting.counts).compare(left, right, 1)
    pairs = Pairs(len(chosen), left, right, features)
    n_chains = int(model.n_chains)
    n_draws = -(-int(model.count_draws(len(chosen))) // n_chains)
    drawn = InThreads(count_workers(model.n_jobs)).sample(
        setting.ensemble, pairs, known, n_chains * n_draws, fitted.seed + 1, None, conditions
    )
    posterior = Posterior(drawn.reshape(n_draws, n_chains, -1).transpose(1, 0, 2), fixed=known, shared=True)
    labels = labels_from(model._estimate(posterior, known, conditions), known)
    return Placement(ids, labels, posterior)


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


def _spread(
    rows: StoredRows, likely: tuple[Integers, Integers], looked_at: Integers, said: list[Decision]
) -> Integers:
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
