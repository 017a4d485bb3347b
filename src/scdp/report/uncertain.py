"""The most uncertain decisions, for a page: pairs of records enter; tables with their differences marked leave.

A decision is about one cluster (is it one?) or about two (are they one?), and is shown by its least certain pair.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scdp.report.layout import MISSING, field_row, section
from scdp.report.text import isolated, marked, shortened

if TYPE_CHECKING:
    from scdp.estimators.result import ClusterResult, UncertainPair

TITLE = "The most uncertain decisions"
MOST_DECISIONS = 50
# A page that is opened on a phone has an end in sight; the others are one touch away.
FIRST_DECISIONS = 10


def uncertain_section(result: ClusterResult) -> str:
    """Up to fifty decisions, the least certain first."""
    if not result.uncertain:
        return section(TITLE, "<p>No pair of records is uncertain.</p>")
    fields, compared = _fields(result), _compared(result)
    decisions = _decisions(result)
    tables = [_table(pairs, result, fields, compared) for pairs in decisions[:MOST_DECISIONS]]
    content = "\n".join(tables[:FIRST_DECISIONS])
    rest = tables[FIRST_DECISIONS:]
    if rest:
        content += f"<details><summary>Show {len(rest)} more</summary>{chr(10).join(rest)}</details>"
    note = "Words that the other record has not are marked."
    if not set(fields) <= compared:
        note += " Fields in grey are not compared by the model."
    if len(decisions) > MOST_DECISIONS:
        note += f" Not shown: {len(decisions) - MOST_DECISIONS:,} decisions that are less uncertain."
    return section(TITLE, content, note)


def _decisions(result: ClusterResult) -> list[list[UncertainPair]]:
    """The pairs of each decision, in the order of their least certain ones."""
    found: dict[frozenset[Any], list[UncertainPair]] = {}
    for pair in result.uncertain:
        clusters = frozenset((result.labels[pair.left], result.labels[pair.right]))
        found.setdefault(clusters, []).append(pair)
    return list(found.values())


def _fields(result: ClusterResult) -> list[str]:
    """Compared fields first; the id stands above."""
    names = [name for name in result.records.names if name != result.id_column]
    compared = _compared(result)
    return sorted(names, key=lambda name: name not in compared)


def _compared(result: ClusterResult) -> set[str]:
    if result.spec is None:
        return set(result.records.names)
    return {column for comparison in result.spec.fields for column in comparison.columns}


def _table(pairs: list[UncertainPair], result: ClusterResult, fields: list[str], compared: set[str]) -> str:
    pair = pairs[0]
    left, right = (isolated(shortened(str(result.ids[row]), 60)) for row in (pair.left, pair.right))
    rows = "".join(_field(name, pair, result, name in compared) for name in fields)
    title = f"The same with probability {pair.probability:.2f} <span>{_words(pairs, result)}</span>"
    return (
        f'<div class="pair"><h3>{title}</h3>'
        f"<table><tr><th></th><th>{left}</th><th>{right}</th></tr>{rows}</table></div>"
    )


def _words(pairs: list[UncertainPair], result: ClusterResult) -> str:
    pair, more = pairs[0], len(pairs) - 1
    left, right = (isolated(shortened(str(result.labels[row]), 40)) for row in (pair.left, pair.right))
    words = f"put together, in {left}" if pair.together else f"kept apart, in {left} and {right}"
    return f"{words}; {more} more such pair{'' if more == 1 else 's'}" if more else words


def _field(name: str, pair: UncertainPair, result: ClusterResult, is_compared: bool) -> str:
    cells = result.records[name]
    left, right = cells[pair.left], cells[pair.right]
    if left is None and right is None:
        return ""
    kinds = ["differs"] * (left != right) + ["aside"] * (not is_compared)
    return field_row(name, _cell(left, right), _cell(right, left), *kinds)


def _cell(text: str | None, other: str | None) -> str:
    if text is None:
        return MISSING
    return isolated(shortened(text)) if other is None else marked(text, other)
