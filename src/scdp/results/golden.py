"""Golden records: a result enters; one row an entity leaves, each value by a stated rule and with its probability.

Rules: "most frequent" (of equals the longest, then the first in the alphabet), "most complete" (the longest), and
"most recent by COLUMN" (that of the record with the largest value there, numbers as numbers and dates as texts).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Integers
from scdp.errors import InputError
from scdp.estimators.result import ClusterResult
from scdp.partitions import group_items, number_first
from scdp.table.records import Records

FREQUENT, COMPLETE, RECENT = "most frequent", "most complete", "most recent by "
MOST_DRAWS = 60
# Chooses a row, of which the cell is taken; None where no row has one.
Rule = Callable[[Sequence[int]], int | None]


def make_rule(rule: str, column: str, records: Records) -> Rule:
    """The rule of a column by its words.

    Parameters
    ----------
    rule : {"most frequent", "most complete", "most recent by COLUMN"}
        In words.
    column : str
        The column whose value is chosen.
    records : Records
        All records.

    Returns
    -------
    callable
        From rows of one entity to the row whose value is taken, or None if none has a value.

    Example
    -------
    >>> from scdp.table.records import records_from
    >>> records = records_from({"city": ["Ulm", "Bonn", "Ulm"], "seen": ["1", "10", "9"]})
    >>> make_rule("most frequent", "city", records)([0, 1, 2])
    0
    >>> make_rule("most recent by seen", "city", records)([0, 1, 2])
    1
    """
    cells = records[column]
    if rule == FREQUENT:

        def weigh(rows: Sequence[int]) -> Callable[[int], Any]:
            counts = Counter(cells[row] for row in rows)
            return lambda row: (-counts[cells[row]], -len(cells[row]), cells[row])
    elif rule == COMPLETE:

        def weigh(rows: Sequence[int]) -> Callable[[int], Any]:
            return lambda row: (-len(cells[row]), cells[row])
    elif rule.startswith(RECENT):
        by = records[rule.removeprefix(RECENT)]

        def weigh(rows: Sequence[int]) -> Callable[[int], Any]:
            return lambda row: (_order(by[row]), -len(cells[row]), cells[row])
    else:
        raise InputError(
            f"there is no rule {rule!r} for a golden record; choose '{FREQUENT}', '{COMPLETE}' or '{RECENT}COLUMN'"
        )

    def choose(rows: Sequence[int]) -> int | None:
        there = [row for row in rows if cells[row] is not None]
        return min(there, key=weigh(there)) if there else None

    return choose


class _Falling:
    """A text by which larger ones come first."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __lt__(self, other: _Falling) -> bool:
        return self.text > other.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Falling) and self.text == other.text

    __hash__ = None  # type: ignore[assignment]


def _order(value: str | None) -> tuple[int, float, _Falling]:
    """Larger values first, numbers before texts, none last."""
    if value is None:
        return 2, 0.0, _Falling("")
    try:
        return 0, -float(value), _Falling("")
    except ValueError:
        return 1, 0.0, _Falling(value)


def make_golden(result: ClusterResult, rules: Mapping[str, str] | None = None) -> dict[str, list[Any]]:
    """One row for each entity of the answer.

    Parameters
    ----------
    result : ClusterResult
        What `cluster_records` gave.
    rules : dict of str, optional
        The rule by column; "most frequent" where none is given.

    Returns
    -------
    dict of lists
        `cluster` and `records` (how many it has); then for each column its value, `COLUMN_probability`, the share of
        draws in which the rule gives this value for the entity of the cluster's surest record, and
        `COLUMN_records`, how many records of the cluster have this value.
    """
    records, given = result.records, dict(rules or {})
    names = [name for name in records.names if name != result.id_column]
    for name in given:
        records.require(name)
    choose = {name: make_rule(given.get(name, FREQUENT), name, records) for name in names}
    clusters = _list_clusters(number_first(result.labels))
    drawn = _draw_entities(result, clusters)
    table: dict[str, list[Any]] = {
        "cluster": [str(result.labels[rows[0]]) for rows in clusters],
        "records": [len(rows) for rows in clusters],
    }
    for name in names:
        cells = records[name]
        found = [_judge(rows, sets, cells, choose[name]) for rows, sets in zip(clusters, drawn, strict=True)]
        title = f"{name}_given" if name in table else name
        table[title] = ["" if value is None else value for value, _, _ in found]
        table[f"{title}_probability"] = [round(probability, 4) for _, probability, _ in found]
        table[f"{title}_records"] = [support for _, _, support in found]
    return table


def _list_clusters(labels: Integers) -> list[tuple[int, ...]]:
    order, bounds = group_items(labels.astype(np.int32))
    return [tuple(order[a:b].tolist()) for a, b in pairwise(bounds.tolist())]


def _draw_entities(
    result: ClusterResult, clusters: Sequence[tuple[int, ...]]
) -> list[list[tuple[tuple[int, ...], int]]]:
    """For each cluster, the entities of its surest record in the draws, each with the number of draws."""
    sure = [bool((result.probabilities[list(rows)] > 1.0 - 1e-9).all()) for rows in clusters]
    anchors = [max(rows, key=lambda row: (result.probabilities[row], -row)) for rows in clusters]
    counts: list[Counter[tuple[int, ...]]] = [Counter() for _ in clusters]
    stored = result.posterior.stored
    unsure = [k for k, is_sure in enumerate(sure) if not is_sure]
    for labels in stored.labels_at(stored.choose_draws(MOST_DRAWS)) if unsure else ():
        order, bounds = group_items(labels)
        for k in unsure:
            label = labels[anchors[k]]
            counts[k][tuple(order[bounds[label] : bounds[label + 1]].tolist())] += 1
    return [[(rows, 1)] if sure[k] else list(counts[k].items()) for k, rows in enumerate(clusters)]


def _judge(
    rows: Sequence[int], drawn: Sequence[tuple[tuple[int, ...], int]], cells: NDArray[Any], choose: Rule
) -> tuple[str | None, float, int]:
    """The value, its probability, and the records that have it."""
    value = _value(choose(rows), cells)
    total = sum(count for _, count in drawn)
    same = sum(count for entity, count in drawn if _value(choose(entity), cells) == value)
    return value, same / total, sum(cells[row] == value for row in rows) if value is not None else 0


def _value(row: int | None, cells: NDArray[Any]) -> str | None:
    return None if row is None else cells[row]


def list_pairs(result: ClusterResult, at_least: float) -> dict[str, NDArray[Any]]:
    """All pairs that are together with a probability from `at_least` on, and whether the answer has them together.

    Parameters
    ----------
    result : ClusterResult
        What `cluster_records` gave.
    at_least : float
        Above 0.

    Returns
    -------
    dict of arrays
        `id1`, `id2`, `probability` and `together` ("yes" or "no"), the most likely first.
    """
    from scdp.posterior.pairs import find_pairs_between

    stored = result.posterior.stored
    left, right, share = find_pairs_between(stored, stored.choose_draws(1000), at_least, 1.0)
    order = np.lexsort((right, left, -share))
    left, right, share = left[order], right[order], share[order]
    answer, ids = number_first(result.labels), result.ids.astype(str).astype(object)
    together = np.array(["no", "yes"], dtype=object)[(answer[left] == answer[right]).astype(np.int64)]
    return {"id1": ids[left], "id2": ids[right], "probability": share.round(4), "together": together}
