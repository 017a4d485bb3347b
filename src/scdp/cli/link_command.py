"""`scdp link`: which records of two tables are the same thing, each with a probability."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scdp.cli.cluster_command import open_model
from scdp.cli.fit_command import say, told
from scdp.cli.terminal import RecordsType, json_option, reading_options, tell

if TYPE_CHECKING:
    from scdp.estimators.clustering import Links
    from scdp.table.text_files import Reading

EXAMPLES = """\b
Examples:
  scdp link model a.csv b.csv --out links.csv
  scdp link model a.csv b.csv --out links.csv --at-most-one b
"""
_PATH = click.Path(path_type=Path)


@click.command(epilog=EXAMPLES)
@click.argument("model", type=_PATH)
@click.argument("first", type=RecordsType(), metavar="A")
@click.argument("second", type=RecordsType(), metavar="B")
@click.option("--out", required=True, type=_PATH, metavar="FILE", help="Links: id_a, id_b, probability.")
@click.option(
    "--at-most-one",
    type=click.Choice(["both", "a", "b", "none"]),
    default="both",
    show_default=True,
    help="Which table has each thing at most once.",
)
@click.option("--decisions", type=_PATH, metavar="FILE", help="What people know of some records.")
@click.option("--seed", type=click.IntRange(min=0, max=2**31 - 1), metavar="N", help="[default: the model's]")
@reading_options
@click.option("--force", is_flag=True, help="Replace files that are there.")
@json_option
@click.option("--quiet", is_flag=True, help="Say nothing unless something is wrong.")
def link(
    model: Path,
    first: Path,
    second: Path,
    out: Path,
    at_most_one: str,
    decisions: Path | None,
    seed: int | None,
    reading: Reading,
    force: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Link the records of two tables, A and B, by a model that `scdp fit` has made.

    By default both tables have each thing at most once: only pairs across are compared, and a record is linked to at
    most one other.
    """
    from scdp.estimators.clustering import link_tables
    from scdp.io.atomic import Staged
    from scdp.io.tables import stage_table
    from scdp.io.targets import Given, check_files, check_table_target, list_given
    from scdp.table.readers import file_of, read_records

    check_table_target(out)
    inputs = {"A": file_of(first), "B": file_of(second), "--decisions": decisions, "MODEL": model}
    check_files(list_given(inputs), [Given("--out", out)], force)
    fitted = open_model(model, quiet)
    tables = read_records(first, reading), read_records(second, reading)
    say(f"linking {len(tables[0])} records with {len(tables[1])}", quiet)
    found: list[Links] = []
    messages = told(
        lambda: found.append(
            link_tables(fitted, *tables, at_most_one=at_most_one, decisions=decisions, random_state=seed)
        )
    )
    for message in messages:
        say(f"note: {message}", quiet)
    (links,) = found
    columns: dict[str, list[object]] = {
        "id_a": list(map(str, links.id_a.tolist())),
        "id_b": list(map(str, links.id_b.tolist())),
        "probability": [round(p, 4) for p in links.probability.tolist()],
    }
    with Staged(replace=force) as staged:
        stage_table(staged, out, columns)
    if as_json:
        click.echo(json.dumps({"out": str(out), "n_links": len(links.id_a)}))
    elif not quiet:
        tell(f"{out}: {len(links.id_a)} links")
