"""What a result tells beside its labels: how good it is, and golden records.

How good a result is without gold clusters: for the whole, by segment, and with records that a person has judged.

Judged records are drawn by a design, each with a stated chance. A person says of each drawn record which of the records
listed with it are the same. What the model expected of the drawn records is corrected by what was found, each by the
inverse of its chance (a difference estimator): right on average, whatever the model believes, sharp where it is good.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Floats, Integers
from scdp.errors import InputError
from scdp.estimators.result import ClusterResult
from scdp.partitions import group_items, number_first
from scdp.posterior import Posterior
from scdp.posterior.io import IntervalTable
from scdp.posterior.pairs import find_pairs_between
from scdp.posterior.summaries import Counts, ExpectedMetrics
from scdp.results import StoredResult
from scdp.table import Records

LEVEL = 0.9
NAMES = {
    "precision": "precision",
    "recall": "recall",
    "f": "F",
    "b_cubed_precision": "B-cubed precision",
    "b_cubed_recall": "B-cubed recall",
    "b_cubed": "B-cubed F",
    "n_clusters": "number of entities",
}
MOST_SEGMENTS = 1000
# Others that are listed with a drawn record: all of its cluster, and who may belong to it.
LEAST_PROBABILITY, MOST_LISTED = 0.01, 60
MOST_DRAWS = 400
# The share of the chance that all records have alike: none is left out whatever the model believes.
EVEN_SHARE = 0.3
YES, NO = ("yes", "y", "1", "true", "same"), ("no", "n", "0", "false", "different")
COLUMNS = ("question", "id", "other", "probability", "chance", "same")


def estimate_whole(result: StoredResult, level: float = LEVEL) -> ExpectedMetrics:
    """Each metric of the answer, with its interval.

    Parameters
    ----------
    result : StoredResult
        A kept result.
    level : float
        The probability that each interval holds.

    Returns
    -------
    dict
        "mean", "low" and "high" by metric, as `Posterior.expected_metrics` gives them.
    """
    return result.posterior.expected_metrics(number_first(result.labels), level)


def tabulate(metrics: ExpectedMetrics, level: float = LEVEL) -> IntervalTable:
    """One row for each metric."""
    rows = [metrics[name] for name in NAMES if name in metrics]
    columns: dict[str, list[Any]] = {"metric": [NAMES[name] for name in NAMES if name in metrics]}
    columns |= {
        f"value{end}": [row[key] for row in rows] for end, key in (("", "mean"), ("_low", "low"), ("_high", "high"))
    }
    return IntervalTable(columns, ("value",), level)


def estimate_segments(result: StoredResult, column: str, level: float = LEVEL) -> IntervalTable:
    """The metrics of the records that share a value of a column, for each value, the most frequent first.

    Parameters
    ----------
    result : StoredResult
        A kept result.
    column : str
        A column of its records.
    level : float
        The probability that each interval holds.

    Returns
    -------
    IntervalTable
        By value, the number of records, and precision, recall, F and the number of entities with their intervals. Only
        pairs of two records of the segment are judged.
    """
    cells = result.records[column]
    values, place, counts = np.unique(
        ["" if cell is None else cell for cell in cells], return_inverse=True, return_counts=True
    )
    if len(values) > MOST_SEGMENTS:
        raise InputError(
            f"{column!r} has {len(values):,} values, more than {MOST_SEGMENTS:,}; choose a column with fewer"
        )
    answer = number_first(result.labels)
    columns: dict[str, list[Any]] = {column: [], "records": []}
    shown = ("precision", "recall", "f", "n_clusters")
    for name in shown:
        columns |= {name: [], f"{name}_low": [], f"{name}_high": []}
    for k in np.argsort(-counts, kind="stable").tolist():
        items = np.flatnonzero(place == k)
        found = result.posterior.restrict(items).expected_metrics(answer[items], level)
        columns[column].append(str(values[k]) or None)
        columns["records"].append(len(items))
        for name in shown:
            for end, key in (("", "mean"), ("_low", "low"), ("_high", "high")):
                columns[f"{name}{end}"].append(found[name][key])
    return IntervalTable(columns, shown, level)


class Expectations(NamedTuple):
    """What the draws say of each record: right links, true partners, B-cubed precision and recall.

    Mean and variance are (quantity, record).
    """

    mean: Floats
    variance: Floats


def expect_by_record(posterior: Posterior, answer: Integers) -> Expectations:
    """Over the draws."""
    stored = posterior.stored
    sizes = np.bincount(answer)[answer].astype(np.float64)
    total, squares = np.zeros((4, len(answer))), np.zeros((4, len(answer)))
    chosen = stored.choose_draws(MOST_DRAWS)
    for labels in stored.labels_at(chosen):
        found = measure_records(answer, sizes, labels.astype(np.int64))
        total += found
        squares += found**2
    mean = total / len(chosen)
    return Expectations(mean, np.maximum(squares / len(chosen) - mean**2, 0.0))


def measure_records(answer: Integers, sizes: Floats, truth: Integers) -> Floats:
    """By record, if `truth` were true: right links, true partners, B-cubed precision and recall."""
    both = np.unique(answer * (truth.max() + 1) + truth, return_inverse=True, return_counts=True)
    shared = both[2][both[1]].astype(np.float64)
    true = np.bincount(truth)[truth].astype(np.float64)
    return np.stack([shared - 1.0, true - 1.0, shared / sizes, shared / true])


def choose_chances(expected: Expectations) -> Floats:
    """The chance of each record to be drawn: the more, the more unsure what it tells."""
    spread = np.sqrt(expected.variance[:2].sum(axis=0))
    even = np.full(len(spread), 1.0 / len(spread))
    return even if spread.sum() <= 0 else EVEN_SHARE * even + (1.0 - EVEN_SHARE) * spread / spread.sum()


def draw_questions(result: StoredResult, n: int, seed: int = 0) -> dict[str, list[Any]]:
    """Draw records to be judged by a person.

    Parameters
    ----------
    result : StoredResult
        A kept result.
    n : int
        How many records.
    seed : int
        Of the draw.

    Returns
    -------
    dict of lists
        A table: for each drawn record (`id`) the records of its cluster and those that may belong to it (`other`), the
        probability that they are the same, the chance with which it was drawn, and `same`, to be filled with yes or no.
        A record that is drawn twice is listed once, and counts twice.
    """
    answer = number_first(result.labels)
    chance = choose_chances(expect_by_record(result.posterior, answer))
    drawn = np.random.default_rng(seed).choice(result.n_records, n, p=chance)
    partners = _list_partners(result.posterior, answer)
    table: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    records = {name: result.records[name] for name in result.records.names if name != result.id_column}
    beside = {f"{name} ({which})": [] for name in records for which in ("id", "other")}  # type: dict[str, list[Any]]
    for question, item in enumerate(drawn.tolist(), start=1):
        # A record without any other tells something too: a row without `other` keeps its place.
        for other, probability in partners.get(item, [(None, None)]):
            table["question"].append(question)
            table["id"].append(str(result.ids[item]))
            table["other"].append("" if other is None else str(result.ids[other]))
            table["probability"].append("" if probability is None else f"{probability:.4f}")
            table["chance"].append(repr(float(chance[item])))
            table["same"].append("")
            for name, cells in records.items():
                beside[f"{name} (id)"].append(cells[item] or "")
                beside[f"{name} (other)"].append("" if other is None else cells[other] or "")
    return table | beside


def _list_partners(posterior: Posterior, answer: Integers) -> dict[int, list[tuple[int, float]]]:
    """By record, who is or may be with it, the most likely first."""
    stored = posterior.stored
    left, right, share = find_pairs_between(stored, stored.choose_draws(MOST_DRAWS), 1e-9, 1.0)
    kept = (share >= LEAST_PROBABILITY) | (answer[left] == answer[right])
    found: dict[int, list[tuple[int, float]]] = {}
    for i, j, p in zip(left[kept].tolist(), right[kept].tolist(), share[kept].tolist(), strict=True):
        found.setdefault(i, []).append((j, p))
        found.setdefault(j, []).append((i, p))
    return {
        item: sorted(others, key=lambda each: (answer[each[0]] != answer[item], -each[1]))[:MOST_LISTED]
        for item, others in found.items()
    }


class Judged(NamedTuple):
    """Drawn records, the chance of each, and what was found: right links, true partners, B-cubed precision, recall."""

    item: Integers
    chance: Floats
    found: Floats


def read_judged(result: StoredResult, reviewed: Records) -> Judged:
    """The records that a person has judged, from the table that `draw_questions` made."""
    reviewed.require(*COLUMNS)
    answer, place = number_first(result.labels), {name: k for k, name in enumerate(result.ids.tolist())}
    sizes = np.bincount(answer)
    questions: dict[str, list[int]] = {}
    for row, question in enumerate(reviewed["question"].tolist()):
        questions.setdefault(str(question), []).append(row)
    items, chances, found = [], [], []
    for rows in questions.values():
        item = _place(reviewed, rows[0], "id", place)
        same = [_place(reviewed, row, "other", place) for row in rows if _is_same(reviewed, row)]
        right = sum(bool(answer[other] == answer[item]) for other in same)
        items.append(item)
        chances.append(_chance(reviewed, rows[0]))
        size, true = float(sizes[answer[item]]), len(same) + 1.0
        found.append([right, true - 1.0, (right + 1.0) / size, (right + 1.0) / true])
    if len(items) < 2:
        raise InputError(f"{reviewed.source}: has {len(items)} judged records; judge at least two")
    return Judged(np.array(items), np.array(chances), np.array(found).T)


def _place(reviewed: Records, row: int, column: str, place: Mapping[str, int]) -> int:
    name = reviewed[column][row]
    # Before what a spreadsheet would run, the file has a ' that is no part of the id.
    name = name if name in place or name is None else name.removeprefix("'")
    if name not in place:
        raise InputError(
            f"{reviewed.source}: row {reviewed.row_number(row)} has the {column} {name!r}, which is no record of the "
            "result; draw the questions again"
        )
    return place[name]


def _is_same(reviewed: Records, row: int) -> bool:
    if reviewed["other"][row] is None:
        return False
    said = (reviewed["same"][row] or "").strip().casefold()
    if said in YES or said in NO:
        return said in YES
    raise InputError(
        f"{reviewed.source}: row {reviewed.row_number(row)} has {said!r} in the column same; write yes or no"
    )


def _chance(reviewed: Records, row: int) -> float:
    try:
        chance = float(reviewed["chance"][row] or "")
    except ValueError:
        chance = 0.0
    if not 0.0 < chance <= 1.0:
        raise InputError(
            f"{reviewed.source}: row {reviewed.row_number(row)} has no chance above 0; draw the questions again"
        )
    return chance


def estimate_reviewed(result: StoredResult, judged: Judged, level: float = LEVEL) -> ExpectedMetrics:
    """Each metric of the answer by what the draws say, corrected by what a person found.

    Parameters
    ----------
    result : StoredResult
        A kept result.
    judged : Judged
        What `read_judged` gave.
    level : float
        The probability that each interval holds.

    Returns
    -------
    dict
        "mean", "low" and "high" by metric; the number of entities is not judged.
    """
    answer = number_first(result.labels)
    expected = expect_by_record(result.posterior, answer)
    return correct_expected(expected, judged, answer, level)


def correct_expected(expected: Expectations, judged: Judged, answer: Integers, level: float) -> ExpectedMetrics:
    """The difference estimator; draws of the four totals by a normal approximation give the intervals."""
    n, n_items = len(judged.item), len(answer)
    off = (judged.found - expected.mean[:, judged.item]) / judged.chance
    mean = expected.mean.sum(axis=1) + off.mean(axis=1)
    # Where hardly anything was off, the draws say how far off more could have been.
    modelled = (expected.variance / choose_chances(expected)).sum(axis=1)
    seen = np.cov(off)
    own = np.diag(seen)
    both = np.sqrt(np.outer(own, own))
    related = np.divide(seen, both, out=np.eye(4), where=both > 0.0)
    wanted = np.sqrt(np.maximum(own, modelled))
    covariance = related * np.outer(wanted, wanted)
    rng = np.random.default_rng(0)
    wide = np.sqrt((n - 1) / rng.chisquare(n - 1, 4000))[:, None]
    drawn = mean + wide * rng.multivariate_normal(np.zeros(4), covariance / n, 4000, check_valid="ignore")
    links = float((np.bincount(answer) * (np.bincount(answer) - 1) / 2).sum())
    right = np.clip(drawn[:, 0] / 2.0, 0.0, links)
    counts = Counts(
        right,
        np.maximum(drawn[:, 1] / 2.0, right),
        links,
        np.clip(drawn[:, 2] / n_items, 1e-6, 1.0),
        np.clip(drawn[:, 3] / n_items, 1e-6, 1.0),
        np.zeros(len(right)),
    )
    tails = [(1.0 - level) / 2.0, (1.0 + level) / 2.0]
    found = {}
    for name, values in counts.metrics().items():
        if name != "n_clusters":
            low, high = np.quantile(values, tails)
            found[name] = {"mean": float(values.mean()), "low": float(low), "high": float(high)}
    return found


FREQUENT, COMPLETE, RECENT = "most frequent", "most complete", "most recent by "
MOST_DRAWS_OF_VALUES = 60
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
    >>> from scdp.table import records_from
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
    for labels in stored.labels_at(stored.choose_draws(MOST_DRAWS_OF_VALUES)) if unsure else ():
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
