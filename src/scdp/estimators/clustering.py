"""A fitted model and records enter; clusters with names, probabilities and uncertain pairs leave (`ClusterResult`).

Names do not depend on the order of rows: a given cluster keeps its name, a new one is called "c-" and the smallest
id of its records.

Linking two tables. By default no two records of one table are the same thing, and that is part of the model: only
pairs across are compared, and draws and answer keep it. Records of a table that may have a thing several times are
compared with each other as well: what a record of A has in common with two of B, these have in common.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Floats, Integers
from scdp.errors import InputError
from scdp.estimators import Estimator
from scdp.estimators.checks import take_rows
from scdp.estimators.inputs import Decisions, list_decisions
from scdp.estimators.result import ClusterResult, UncertainPair
from scdp.posterior import Posterior
from scdp.table import Records, records_from, unique_ids
from scdp.table.decisions import Decision

LOW, HIGH = 0.05, 0.95
MOST_PAIRS = 10_000
# Above this the probabilities of all pairs at once would take too much memory, and only pairs that occur are kept.
DENSE_ITEMS = 3000
SPARSE_DRAWS = 400
PREFIX = "c-"


def cluster_records(
    model: Estimator,
    records: Records | Any,
    known: Mapping[str, str] | None = None,
    *,
    decisions: Decisions = None,
    random_state: int | None = None,
    title: str = "Clusters",
) -> ClusterResult:
    """Cluster records (or a table of them) by a model of records.

    `known` maps the ids of some to the names of their clusters; `decisions` are kept in all draws and in the answer.
    Decisions about ids that are not among the records say nothing of these, and a warning counts them.
    """
    records = records_from(records)
    spec = model.fitted_spec_
    id_column = None if spec is None else spec.id
    ids = ids_of(records, id_column)
    given, names = _number_clusters(ids, known or {})
    said = list_decisions(decisions)
    _warn_of_strangers(said, ids)
    # Sorted by id, so that nothing depends on the order of the rows.
    order = np.argsort(ids, kind="stable")
    labels, posterior = model.predict_with_posterior(
        take_rows(records, order), known=given[order], decisions=said or None, random_state=random_state
    )
    back = np.argsort(order)
    named = cluster_names(labels, ids[order], names)
    probabilities = posterior.membership_probability(labels)
    probabilities[given[order] >= 0] = 1.0
    posterior = posterior.restrict(back)
    learned = model.fitted_.learned()
    return ClusterResult(
        title=title,
        records=records,
        ids=ids,
        id_column=id_column,
        labels=named[back],
        probabilities=probabilities[back],
        posterior=Posterior(
            posterior.stored,
            posterior.traces,
            names=ids,
            reliability=posterior.reliability,
            blocking=posterior.blocking,
        ),
        spec=spec,
        learned=learned,
        uncertain=uncertain_pairs(posterior, labels[back]),
        independent_draws=model.fitted_.independent_draws,
        numbers=labels[back].astype(np.int64),
    )


def _warn_of_strangers(said: list[Decision], ids: NDArray[Any]) -> None:
    """Tell of decisions about records that are not there."""
    if not said:
        return
    there = set(ids.tolist())
    lost = [identifier for one in said for identifier in one.ids if identifier not in there]
    if lost:
        n_lost = len(set(lost))
        warnings.warn(
            f"decisions name {n_lost} id(s) that are not among the records, such as {lost[0]!r}; "
            "they count only for what follows about others",
            UserWarning,
            stacklevel=3,
        )


def ids_of(records: Records, column: str | None) -> NDArray[Any]:
    """The ids of records; without a column of them, their row numbers."""
    if column is None:
        return np.array(list(map(str, records.numbers.tolist())), dtype=object)
    return unique_ids(records, column)


def _number_clusters(ids: NDArray[Any], known: Mapping[str, str]) -> tuple[Integers, list[str]]:
    """The number of each record's given cluster (-1 = none), and the names by number."""
    if not known:
        return np.full(len(ids), -1, dtype=np.int64), []
    there = set(ids.tolist())
    lost = [identifier for identifier in known if identifier not in there]
    if lost:
        raise InputError(
            f"the known clusters name the record {lost[0]!r} ({len(lost)} such), which is not among the records; "
            "add its row to the records, or leave it out of the known clusters"
        )
    names = sorted({known[identifier] for identifier in ids.tolist() if identifier in known})
    number = {name: k for k, name in enumerate(names)}
    numbers = [number[known[identifier]] if identifier in known else -1 for identifier in ids.tolist()]
    return np.array(numbers, dtype=np.int64), names


def cluster_names(labels: Integers, ids: NDArray[Any], given: list[str]) -> NDArray[Any]:
    """Given clusters (numbered first) by their name, new ones by the smallest id of their records."""
    order = np.argsort(ids, kind="stable")
    found, first, places = np.unique(labels[order], return_index=True, return_inverse=True)
    names = np.empty(len(found), dtype=object)
    is_new = found >= len(given)
    names[~is_new] = [given[label] for label in found[~is_new].tolist()]
    by_id = np.argsort(np.where(is_new, first, -1), kind="stable")[np.count_nonzero(~is_new) :]
    names[by_id] = _free_names([PREFIX + str(one) for one in ids[order[first[by_id]]].tolist()], given)
    named = np.empty(len(labels), dtype=object)
    named[order] = names[places]
    return named


def _free_names(wanted: list[str], given: list[str]) -> list[str]:
    """Names that no other cluster has; who comes first keeps the name."""
    taken = set(given)
    if taken.isdisjoint(wanted) and len(set(wanted)) == len(wanted):
        return wanted
    free = []
    for name in wanted:
        free.append(_free_name(name, taken))
        taken.add(free[-1])
    return free


def _free_name(name: str, taken: set[str]) -> str:
    free, count = name, 2
    while free in taken:
        free, count = f"{name}-{count}", count + 1
    return free


def uncertain_pairs(
    posterior: Posterior, labels: Integers, low: float = LOW, high: float = HIGH, at_most: int = MOST_PAIRS
) -> tuple[UncertainPair, ...]:
    """Pairs that are together with probability `low` to `high`, the least certain first."""
    find = _dense_pairs if posterior.n_items <= DENSE_ITEMS else _sparse_pairs
    left, right, probability = find(posterior, low, high, at_most)
    order = np.lexsort((right, left, np.abs(probability - 0.5).round(9)))[:at_most]
    return tuple(
        UncertainPair(int(i), int(j), float(p), bool(labels[i] == labels[j]))
        for i, j, p in zip(left[order], right[order], probability[order], strict=True)
    )


def _dense_pairs(posterior: Posterior, low: float, high: float, _: int) -> tuple[Integers, Integers, Floats]:
    together = posterior.co_clustering_matrix()
    left, right = np.nonzero(np.triu((together >= low) & (together <= high), k=1))
    return left, right, together[left, right]


def _sparse_pairs(posterior: Posterior, low: float, high: float, at_most: int) -> tuple[Integers, Integers, Floats]:
    """As `_dense_pairs`, by counting over some draws only the pairs that are ever together."""
    from scdp.posterior.pairs import find_pairs_between

    stored = posterior.stored
    return find_pairs_between(stored, stored.choose_draws(SPARSE_DRAWS), low, high, at_most)


# Names of columns that no table has.
SOURCE, ID = "(source)", "(id)"
A, B = "A", "B"
ONCE = {"both": (A, B), "a": (A,), "b": (B,), "none": ()}


class Links(NamedTuple):
    """Linked records: their ids in A and in B, and the probability that they are the same thing."""

    id_a: NDArray[Any]
    id_b: NDArray[Any]
    probability: Floats


class Linked(NamedTuple):
    """Ids in A and in B; the answer for the records of A and, after them, of B; and the draws."""

    ids: tuple[NDArray[Any], NDArray[Any]]
    labels: NDArray[Any]
    posterior: Posterior


def link_tables(
    model: Estimator,
    first: Records | Any,
    second: Records | Any,
    *,
    at_most_one: str = "both",
    decisions: Decisions = None,
    random_state: int | None = None,
) -> Links:
    """Which records of two tables are the same thing.

    Parameters
    ----------
    model : EntityResolver
        A fitted model of records.
    first, second : Records, or tables of them
        A and B, with the columns that the model compares.
    at_most_one : {"both", "a", "b", "none"}
        Which of the two tables has each thing at most once.
    decisions : path or list of Decision, optional
        What people know, by the ids of both tables.
    random_state : int, optional
        Stands in for the seed of the model.

    Returns
    -------
    Links
        In the order of A, and there of B.
    """
    drawn = draw_linked(model, first, second, at_most_one, decisions, random_state)
    left, right = _cross_pairs(drawn.labels, len(drawn.ids[0]))
    sure = pair_probabilities(drawn.posterior, left, right)
    return Links(drawn.ids[0][left], drawn.ids[1][right - len(drawn.ids[0])], sure)


def draw_linked(
    model: Estimator,
    first: Records | Any,
    second: Records | Any,
    at_most_one: str,
    decisions: Decisions = None,
    random_state: int | None = None,
) -> Linked:
    """Draws of the records of two tables, those of A first, and the answer."""
    if at_most_one not in ONCE:
        raise InputError(f"at_most_one must be one of {', '.join(ONCE)}, not {at_most_one!r}")
    spec = model.fitted_spec_
    if spec is None:
        raise InputError("only a model of records links two tables; fit one with a spec")
    tables = records_from(first, A), records_from(second, B)
    ids = [ids_of(table, spec.id) for table in tables]
    said = list_decisions(decisions)
    names = [*dict.fromkeys(name for field in spec.fields for name in field.columns_read)]
    names += [spec.group] if spec.group is not None else []
    for table in tables:
        table.require(*names)
    columns: dict[str, Any] = {
        name: np.concatenate([tables[0][name], tables[1][name]]) for name in dict.fromkeys(names)
    }
    columns[SOURCE] = np.repeat(np.array([A, B], dtype=object), [len(ids[0]), len(ids[1])])
    columns[ID], said = _name_apart(ids[0], ids[1], said)
    both = Records(columns, f"{tables[0].source} and {tables[1].source}")
    linker = copy(model)
    rows: Any = model.fitted_.rows
    told = replace(spec, id=ID, source=SOURCE, at_most_one=ONCE[at_most_one], link_only=False)
    linker.fitted_ = replace(model.fitted_, rows=replace(rows, spec=told))  # type: ignore[type-var]
    labels, posterior = linker.predict_with_posterior(both, decisions=said or None, random_state=random_state)
    return Linked((ids[0], ids[1]), labels, posterior)


def _name_apart(first: NDArray[Any], second: NDArray[Any], said: list[Decision]) -> tuple[NDArray[Any], list[Decision]]:
    """Ids that differ between the tables: as they are where they do, else with the table in front."""
    shared = set(first.tolist()) & set(second.tolist())
    if not shared:
        return np.concatenate([first, second]), said
    if said:
        raise InputError(
            f"the id {min(map(str, shared))!r} is in both tables, so decisions cannot tell which is meant; "
            "give the records of one table other ids"
        )
    named = [f"{A} {one}" for one in first.tolist()] + [f"{B} {one}" for one in second.tolist()]
    return np.array(named, dtype=object), said


def _cross_pairs(labels: NDArray[Any], n_first: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The pairs of rows of A and B that have one label."""
    members: dict[int, list[int]] = {}
    for row in range(n_first, len(labels)):
        members.setdefault(int(labels[row]), []).append(row)
    pairs = [(row, other) for row in range(n_first) for other in members.get(int(labels[row]), ())]
    left, right = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return left, right


def pair_probabilities(posterior: Posterior, left: NDArray[np.int64], right: NDArray[np.int64]) -> Floats:
    """The share of draws in which each pair of rows is together."""
    together = np.zeros(len(left))
    n_draws = 0
    for _, labels in posterior.stored.label_chunks():
        together += (labels[:, left] == labels[:, right]).sum(axis=0)
        n_draws += len(labels)
    return together / max(n_draws, 1)
