"""The proposal as a table: what each column looks like, how it is compared, and how much that told in training."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from scdp.cli import is_quiet

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from scdp.estimators.base import Estimator
    from scdp.table.records import Records
    from scdp.table.spec import ProposedColumn, Spec

N_EXAMPLES, LONGEST_EXAMPLE = 2, 24
# Of a pipe: lines are as long as they must be.
ANY_WIDTH = 10_000
WHAT_TOLD = "told: what it adds to the log-odds of two records of one cluster, in the mean over labelled ones"


def is_proposed(spec_file: Path | None) -> bool:
    """Whether comparisons are proposed: there is no spec, or it names none."""
    from scdp.table.spec import Spec

    # Settings of Splink without any comparison are refused.
    return spec_file is None or (spec_file.suffix.lower() != ".json" and not Spec.from_toml(spec_file).fields)


def show_proposal(model: Estimator, records: Records) -> None:
    """On stderr: column by column what the model compares and what that told; `records` are those it learned from."""
    spec = model.fitted_spec_
    if is_quiet() or spec is None:
        return
    from rich.console import Console
    from rich.table import Table

    told = find_told(model)
    in_terminal = sys.stderr.isatty()
    console = Console(stderr=True, highlight=False, markup=False, emoji=False, width=None if in_terminal else ANY_WIDTH)
    heads = ("column", "looks like", "compared by", "told", "examples")
    table = Table(*heads) if in_terminal else Table(*heads, box=None, pad_edge=False)
    for row in describe(spec, records):
        compared, said = zip(*_say_comparisons(row, told), strict=True)
        cells = (row.column, row.looks_like, "\n".join(compared), "\n".join(said), _say_examples(row))
        table.add_row(*map(_printable, cells))
    if not told:
        table.columns.pop(heads.index("told"))
    console.print(table)
    if told:
        console.print(WHAT_TOLD)


def find_told(model: Estimator) -> dict[str, float]:
    """By name of a comparison, the nats it adds for labelled matches in the mean; empty where nothing was labelled."""
    from scdp.resolver_fit import ResolverFit

    fitted, spec = model.fitted_, model.fitted_spec_
    said = fitted.said_of_matches() if isinstance(fitted, ResolverFit) else None
    return {} if said is None or spec is None else dict(zip(spec.names, said.tolist(), strict=True))


def describe(spec: Spec, records: Records) -> list[ProposedColumn]:
    """What the columns look like, those that are not compared too, with the comparisons of the spec."""
    from dataclasses import replace

    from scdp.table.spec import propose_columns

    roles = {spec.entity, spec.id, spec.group, spec.source}
    columns = [name for name in records.names if name not in roles]
    entity = spec.entity if spec.entity in records.names else None
    found = propose_columns(records, columns, entity, spec.group is not None)
    return [
        replace(row, comparisons=tuple(field for field in spec.fields if row.column in field.columns)) for row in found
    ]


def _say_comparisons(row: ProposedColumn, told: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    """How a column is compared and what that told, or why it is not, line by line."""
    for field in row.comparisons:
        others = [name for name in field.columns if name != row.column]
        kind = field.kind if field.of is None else f"{field.kind} of {field.of}"
        with_others = f", with {' and '.join(others)}" if others else ""
        yield kind + with_others, f"{told[field.name]:+.1f}" if field.name in told else ""
    if not row.comparisons:
        yield f"not compared: {row.note or 'another column holds it'}", ""
    elif row.missing:
        yield "missing: " + ", ".join(map(repr, row.missing)), ""


def _say_examples(row: ProposedColumn) -> str:
    texts = [text if len(text) <= LONGEST_EXAMPLE else text[: LONGEST_EXAMPLE - 1] + "…" for text in row.examples]
    return ", ".join(texts[:N_EXAMPLES])


def _printable(text: str) -> str:
    from scdp.report import escape_hidden

    return "\n".join(map(escape_hidden, text.split("\n")))
