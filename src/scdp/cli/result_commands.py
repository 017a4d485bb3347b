"""Commands that ask a kept result: how good it is, what changed since another one, and questions in SQL."""

from __future__ import annotations

import json
from pathlib import Path

import click

from scdp.cli.terminal import tell
from scdp.errors import InputError

_PATH = click.Path(path_type=Path)
ESTIMATE_EXAMPLES = """\b
Examples:
  scdp estimate result
  scdp estimate result --by country
  scdp estimate result --draw 50 --out to_judge.csv
  scdp estimate result --reviewed judged.csv
"""
COMPARE_EXAMPLES = """\b
Examples:
  scdp compare may june
  scdp compare may june --json
"""
QUERY_EXAMPLES = """\b
Examples:
  scdp query result "SELECT city, count(distinct entity) FROM records GROUP BY city"
  scdp query result "SELECT count(*) AS twice FROM (SELECT entity FROM records GROUP BY entity HAVING count(*) > 1)"
"""


@click.command(epilog=ESTIMATE_EXAMPLES)
@click.argument("result", type=_PATH)
@click.option("--by", metavar="COL", help="For the records of each value of a column.")
@click.option("--reviewed", type=_PATH, metavar="FILE", help="Records that a person has judged (see --draw).")
@click.option(
    "--draw", type=click.IntRange(2, 100_000), metavar="N", help="Draw so many records to be judged."
)
@click.option("--out", type=_PATH, metavar="FILE", help="Where --draw writes them (CSV or TSV).")
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True, help="Of --draw.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
def estimate(
    result: Path,
    by: str | None,
    reviewed: Path | None,
    draw: int | None,
    out: Path | None,
    seed: int,
    as_json: bool,
    force: bool,
) -> None:
    """Say how good a result is that  scdp cluster --draws  has kept.

    Precision, recall and F of pairs, B-cubed, and the number of entities, each with a 90 % interval, by the draws and
    by what held-out labelled clusters have shown of such draws. With --draw, records are drawn for a person to judge:
    the column same is to be filled with yes or no. With --reviewed, what was judged makes the intervals narrower, and
    right whatever the model believes.
    """
    from scdp.results import estimate as estimates
    from scdp.results import read_result

    if sum(each is not None for each in (by, reviewed, draw)) > 1:
        raise InputError("--by, --reviewed and --draw are three questions; give one of them")
    if (draw is None) != (out is None):
        raise InputError("--draw N needs --out FILE for the records that are drawn, and --out needs --draw")
    if draw is not None and out is not None:
        _write_questions(result, draw, out, seed, force)
        return
    kept = read_result(result)
    if by is not None:
        table = estimates.estimate_segments(kept, by)
        tell(table.to_json() if as_json else str(table))
        return
    if reviewed is not None:
        from scdp.table.readers import read_records

        found = estimates.estimate_reviewed(kept, estimates.read_judged(kept, read_records(reviewed)))
    else:
        found = estimates.estimate_whole(kept)
    tell(json.dumps(found, indent=1) if as_json else str(estimates.tabulate(found)))


def _write_questions(result: Path, n: int, out: Path, seed: int, force: bool) -> None:
    from scdp.io.atomic import Staged
    from scdp.io.tables import DELIMITERS, stage_spreadsheet
    from scdp.io.targets import Given, check_files, check_target
    from scdp.results import read_result
    from scdp.results.estimate import draw_questions

    check_target(out)
    if out.suffix.lower() not in DELIMITERS:
        raise InputError(f"{out}: records to be judged are opened in a spreadsheet; name it .csv or .tsv")
    check_files([Given("RESULT", result)], [Given("--out", out)], force)
    table = draw_questions(read_result(result), n, seed)
    with Staged(replace=force) as staged:
        stage_spreadsheet(staged, out, table)
    tell(f"{out}: {n} records to judge in {len(table['id'])} rows; fill the column same with yes or no")


@click.command(epilog=COMPARE_EXAMPLES)
@click.argument("old", type=_PATH)
@click.argument("new", type=_PATH)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of words.")
def compare(old: Path, new: Path, as_json: bool) -> None:
    """Say what changed between two results that  scdp cluster --draws  has kept.

    Which entities merged, split, appeared or vanished, by the ids of the records; and whether the new table looks
    unlike the old one.
    """
    from scdp.results import read_result
    from scdp.results.drift import compare_results

    found = compare_results(read_result(old), read_result(new))
    tell(json.dumps(found.to_words(), indent=1) if as_json else str(found))


@click.command(epilog=QUERY_EXAMPLES)
@click.argument("result", type=_PATH)
@click.argument("sql", metavar="SELECT")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option("--out", type=_PATH, metavar="FILE", help="Write the table to a file instead.")
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
    tell(table.to_json() if as_json else str(table))
