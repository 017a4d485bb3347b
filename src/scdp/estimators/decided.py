"""What people know of the rows of a table: decisions and sources enter, conditions of every draw leave."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Booleans, Groups, Integers
from scdp.errors import InputError
from scdp.linkage.conditioning.conditions import Conditions, conditions_of
from scdp.table.decisions import Constraints, Decision, read_decisions
from scdp.table.records import Records, unique_ids
from scdp.table.spec import Spec

Decisions = str | PathLike[str] | Iterable[Decision] | None


def list_decisions(decisions: Decisions) -> list[Decision]:
    """Decisions that are given, or read from a file; none of None."""
    if decisions is None:
        return []
    if isinstance(decisions, str | PathLike):
        return read_decisions(Path(decisions))
    found = list(decisions)
    for one in found:
        if not isinstance(one, Decision):
            raise InputError(
                f"decisions hold {one!r}; give a file, or a list of scdp.table.decisions.Decision"
            )
    return found


def row_ids(X: Any, spec: Spec | None) -> NDArray[Any]:
    """How decisions name rows: records by their ids, or by their row numbers; others by their places from 0."""
    if isinstance(X, Records) and spec is not None and spec.id is not None and spec.id in X.names:
        return unique_ids(X, spec.id)
    if isinstance(X, Records):
        return np.array(list(map(str, X.numbers.tolist())), dtype=object)
    return np.array(list(map(str, range(len(X)))), dtype=object)


def rows_named(records: Records, spec: Spec, said: list[Decision]) -> Booleans:
    """Which records some decision names."""
    named = {identifier for one in said for identifier in one.ids}
    if not named:
        return np.zeros(len(records), dtype=bool)
    return np.array([identifier in named for identifier in row_ids(records, spec).tolist()], dtype=bool)


def settle_conditions(
    X: Any, spec: Spec | None, decisions: Decisions, known: Integers, groups: Groups
) -> tuple[Conditions | None, Integers]:
    """What every draw must keep, and known clusters with all rows that decisions put into them.

    Parameters
    ----------
    X : array or Records
        The rows.
    spec : Spec, optional
        Says which column holds ids, and what is known of sources.
    decisions : path or list of Decision, optional
        What people know.
    known : array of integers
        Given clusters, -1 where there is none.
    groups : array, optional
        The document of each row.

    Returns
    -------
    conditions : Conditions or None
    known : array of integers
    """
    said = list_decisions(decisions)
    records = X if isinstance(X, Records) else None
    constraints, ids = None, None
    if said:
        ids = row_ids(X, spec)
        constraints = Constraints.of(said, ids)
    conditions = conditions_of(constraints, records, spec, len(known))
    if conditions is None:
        return None, known

    def name(row: int) -> str:
        named = row_ids(X, spec) if ids is None else ids
        return repr(str(named[row]))

    conditions, known = conditions.settle(known, name)
    if groups is not None:
        left, right = conditions.ties()
        across = np.flatnonzero(groups[left] != groups[right])
        if len(across):
            one, other = int(left[across[0]]), int(right[across[0]])
            raise InputError(
                f"the decisions make {name(one)} and {name(other)} the same, and they are in two groups, "
                f"{groups[one]} and {groups[other]}; correct the decision or the group"
            )
    return (conditions if conditions.any() else None), known
