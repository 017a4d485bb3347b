"""`scdp query`: a kept result and a SELECT enter; numbers with intervals leave."""

from __future__ import annotations

import json
from pathlib import Path

import click

from scdp.cli.terminal import tell

EXAMPLES = """\b
Examples:
  scdp query result "SELECT city, count(distinct entity) FROM records GROUP BY city"
  scdp query result "SELECT count(*) AS twice FROM (SELECT entity FROM records GROUP BY entity HAVING count(*) > 1)"
"""


@click.command(epilog=EXAMPLES)
@click.argument("result", type=click.Path(path_type=Path))
@click.argument("sql", metavar="SELECT")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FILE", help="Write the table to a file instead."
)
@click.option("--force", is_flag=True, help="Replace a file that is there.")
def query(result: Path, sql: str, as_json: bool, out: Path | None, force: bool) -> None:
    """Ask a question in SQL of a result that  scdp cluster --draws  has kept.

    The table is called records. It has the columns of the records, record (counted from 0), cluster and probability of
    the answer, and entity. The query is run on every draw, and each number comes back as its mean with a 90 % interval.
    """
    from scdp.io.atomic import Staged
    from scdp.io.tables import stage_table
    from scdp.io.targets import Given, check_files, check_table_target
    from scdp.results import read_result

    if out is not None:
        check_table_target(out)
        check_files([Given("RESULT", result)], [Given("--out", out)], force)
    table = read_result(result).query(sql)
    if out is not None:
        with Staged(replace=force) as staged:
            stage_table(staged, out, table.columns)
        return
    tell(json.dumps(table.rows(), indent=1, default=str) if as_json else str(table))
