"""Two tables linked: a fitted model and records of A and B enter; which record of A is which of B leaves.

By default no two records of one table are the same thing, and that is part of the model: only pairs across are
compared, and draws and answer keep it. Records of a table that may have a thing several times are compared with each
other as well: what a record of A has in common with two of B, these have in common.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Floats
from scdp.errors import InputError
from scdp.estimators.base import Estimator
from scdp.estimators.clustering import ids_of
from scdp.estimators.decided import Decisions, list_decisions
from scdp.posterior import Posterior
from scdp.table.decisions import Decision
from scdp.table.records import Records, records_from

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
    names = [*dict.fromkeys(name for field in spec.fields for name in field.columns)]
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


def _name_apart(
    first: NDArray[Any], second: NDArray[Any], said: list[Decision]
) -> tuple[NDArray[Any], list[Decision]]:
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
