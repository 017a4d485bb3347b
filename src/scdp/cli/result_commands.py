"""Results: how well they agree with gold clusters, how good one is without, what changed, questions, and reasons."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scdp.cli import PATH, reading_options, say, tell
from scdp.cli.cluster_commands import open_model, require_columns
from scdp.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from scdp.estimators import Estimator
    from scdp.estimators.explanation import Explanation
    from scdp.estimators.result import ClusterResult
    from scdp.posterior import Posterior
    from scdp.results.changes import Change, ClusterStory
    from scdp.table import Records
    from scdp.table.readers import Reading


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
@click.argument("result", type=PATH)
@click.option("--by", metavar="COL", help="For the records of each value of a column.")
@click.option("--reviewed", type=PATH, metavar="FILE", help="Records that a person has judged (see --draw).")
@click.option("--draw", type=click.IntRange(2, 100_000), metavar="N", help="Draw so many records to be judged.")
@click.option("--out", type=PATH, metavar="FILE", help="Where --draw writes them (CSV or TSV).")
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
    from scdp.io.targets import DELIMITERS, Given, check_files, check_target, stage_spreadsheet
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
@click.argument("old", type=PATH)
@click.argument("new", type=PATH)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of words.")
def compare(old: Path, new: Path, as_json: bool) -> None:
    """Say what changed between two results that  scdp cluster --draws  has kept.

    Which entities merged, split, appeared or vanished, by the ids of the records; and whether the new table looks
    unlike the old one.
    """
    from scdp.results import read_result
    from scdp.results.changes import compare_results

    found = compare_results(read_result(old), read_result(new))
    tell(json.dumps(asdict(found), indent=1) if as_json else str(found))


@click.command(epilog=QUERY_EXAMPLES)
@click.argument("result", type=PATH)
@click.argument("sql", metavar="SELECT")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option("--out", type=PATH, metavar="FILE", help="Write the table to a file instead.")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
def query(result: Path, sql: str, as_json: bool, out: Path | None, force: bool) -> None:
    """Ask a question in SQL of a result that  scdp cluster --draws  has kept.

    The table is called records. It has the columns of the records, record (counted from 0), cluster and probability of
    the answer, and entity. The query is run on every draw, and each number comes back as its mean with a 90 % interval.
    """
    from scdp.io.atomic import Staged
    from scdp.io.targets import Given, check_files, check_table_target, stage_table
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


EXPLAIN_EXAMPLES = """\b
Examples:
  scdp explain model new.csv r17 r208
  scdp explain model new.csv r17 r208 --draws draws
  scdp explain draws r17 r208 --picture waterfall.svg
  scdp explain draws --cluster r17
  scdp explain draws --merge r17 r208
"""


@click.command(epilog=EXPLAIN_EXAMPLES)
@click.argument("given", nargs=-1, required=True, metavar="MODEL RECORDS|RESULT [ID1 ID2]")
@click.option("--cluster", metavar="A", help="Say why a cluster holds together, by its name or a record's id.")
@click.option("--merge", nargs=2, metavar="A B", help="Say what merging two clusters would do.")
@click.option("--split", metavar="A", help="Say what splitting a cluster at its weakest link would do.")
@click.option(
    "--draws", type=PATH, metavar="DIR",
    help="A result kept by  scdp cluster --draws  of the same records; without it they are clustered again.",
)  # fmt: skip
@click.option("--picture", type=PATH, metavar="FILE", help="Of two records, a waterfall (.svg).")
@click.option("--force", is_flag=True, help="Replace a picture that is there.")
@reading_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of words.")
@click.option("--quiet", is_flag=True, help="Say nothing but the explanation.")
def explain(
    given: tuple[str, ...],
    cluster: str | None,
    merge: tuple[str, str] | None,
    split: str | None,
    draws: Path | None,
    picture: Path | None,
    force: bool,
    reading: Reading,
    as_json: bool,
    quiet: bool,
) -> None:
    """Say why two records are or are not together, or what holds a cluster.

    Of two records: each comparison's distance and what it contributes, the reference types involved, and the
    probability. Of a cluster: its weakest link, who might leave, and the nearest other cluster. Of a merge or a split:
    its odds, the records affected, and what it would do to the expected F.
    """
    asked = [each for each in (cluster, merge, split) if each]
    kept = is_result(Path(given[0]))
    paths, ids = given[: 1 if kept else 2], given[1 if kept else 2 :]
    if len(paths) < (1 if kept else 2):
        raise InputError("give MODEL and RECORDS, or the RESULT that  scdp cluster --draws  has kept")
    if len(asked) > 1 or len(ids) != (0 if asked else 2):
        raise InputError("give two ids, or one of --cluster, --merge and --split")
    if picture is not None:
        read = dict(zip(("RESULT",) if kept else ("MODEL", "RECORDS"), map(Path, paths), strict=True))
        _check_picture(picture, bool(asked), read | {"--draws": draws}, force)
    if not asked:
        found = _explain_pair(paths, ids, draws, reading)
        if picture is not None:
            _write_picture(picture, found, force)
        tell(json.dumps(asdict(found), indent=1) if as_json else str(found))
        return
    from scdp.results.changes import tell_cluster, try_merge, try_split

    result, model = _find_result(paths, draws, reading)
    if cluster:
        told: ClusterStory | Change = tell_cluster(result, cluster, model)
    else:
        told = try_merge(result, *merge) if merge else try_split(result, split or "")
    tell(json.dumps(asdict(told), indent=1) if as_json else str(told))


def is_result(folder: Path) -> bool:
    """Whether a folder holds a kept result."""
    from scdp.results import ABOUT

    return (folder / ABOUT).is_file()


def _check_picture(picture: Path, of_cluster: bool, read: Mapping[str, Path | None], force: bool) -> None:
    from scdp.io.targets import Given, check_files, check_target, list_given

    if of_cluster:
        raise InputError("--picture is a waterfall of two records; give two ids")
    if picture.suffix.lower() != ".svg":
        raise InputError(f"{picture}: the picture is an SVG; name it .svg")
    check_target(picture)
    check_files(list_given(read), [Given("--picture", picture)], force)


def _write_picture(picture: Path, found: Explanation, force: bool) -> None:
    from scdp.io.atomic import Staged
    from scdp.report.charts import waterfall_svg

    with Staged(replace=force) as staged:
        staged.text(picture, waterfall_svg(found))


def _find_result(
    paths: tuple[str, ...], draws: Path | None, reading: Reading
) -> tuple[ClusterResult, Estimator | None]:
    from scdp.estimators.clustering import cluster_records
    from scdp.results import read_result
    from scdp.table.readers import read_records

    if draws is not None or len(paths) == 1:
        kept = read_result(draws or paths[0])
        return kept.result, kept.model
    fitted = open_model(Path(paths[0]))
    table = read_records(Path(paths[1]), reading)
    require_columns(table, fitted)
    say(f"clustering {len(table)} records")
    return cluster_records(fitted, table), fitted


def _explain_pair(paths: tuple[str, ...], pair: tuple[str, ...], draws: Path | None, reading: Reading) -> Explanation:
    from scdp.estimators.clustering import ids_of
    from scdp.results import read_result
    from scdp.table.readers import read_records

    first, second = pair
    if len(paths) == 1:
        kept = read_result(paths[0])
        if kept.model is None:
            raise InputError(f"{paths[0]}: was kept without its model; give MODEL and RECORDS, and --draws {paths[0]}")
        fitted, table, posterior, ids = kept.model, kept.records, kept.posterior, kept.ids
    else:
        fitted = open_model(Path(paths[0]))
        table = read_records(Path(paths[1]), reading)
        require_columns(table, fitted)
        assert fitted.spec is not None
        ids = ids_of(table, fitted.spec.id)
        posterior = None
    rows = {str(identifier): row for row, identifier in enumerate(ids)}
    for identifier in pair:
        if identifier not in rows:
            raise InputError(f"{paths[-1]}: there is no record {identifier!r}; give two ids of its records")
    if first == second:
        raise InputError(f"{first!r} is given twice; give the ids of two different records")
    if draws is not None:
        posterior = _posterior(draws, ids)
    if posterior is None:
        say(f"clustering {len(table)} records")
    return fitted.explain(table, rows[first], rows[second], posterior=posterior, names=(first, second))


def _posterior(folder: Path, ids: NDArray[Any]) -> Posterior:
    """Kept draws, in the order of the records."""
    from scdp.results import read_result

    kept = read_result(folder)
    place = {name: item for item, name in enumerate(kept.ids.tolist())}
    lost = [identifier for identifier in ids if str(identifier) not in place]
    if lost:
        raise InputError(f"{folder}: draws of other records, without {lost[0]!r}; make them again")
    return kept.posterior.restrict([place[str(identifier)] for identifier in ids])


logger = logging.getLogger(__name__)

DESCRIPTIONS = {
    "ri": "Rand index",
    "p": "precision of pairs",
    "r": "recall of pairs",
    "f": "F score of pairs",
    "ced": "cluster edit distance per item (lower is better)",
    "nes": "normalized edit score",
    "vi": "variation of information, in nats (lower is better)",
    "nvi": "normalized variation of information",
    "ari": "adjusted Rand index",
    "b3": "B-cubed F score",
    "nmi": "normalized mutual information",
    "ced_merge_free": "cluster edit distance per item, merges free (lower is better)",
    "nes_merge_free": "purity + inverse purity - 1",
}

EVALUATE_EXAMPLES = """\b
Examples:
  scdp evaluate clusters.csv gold.csv
  scdp evaluate clusters.csv gold.parquet --id record_id --gold-cluster entity
  scdp evaluate clusters.jsonl gold.csv --json > metrics.json
"""


@click.command(epilog=EVALUATE_EXAMPLES)
@click.argument("predicted", type=PATH)
@click.argument("gold", type=PATH)
@click.option("--id", "id_column", metavar="COLUMN", help="Column of ids.  [default: one that both have]")
@click.option("--gold-id", metavar="COLUMN", help="The same in GOLD, if it has another name.")
@click.option(
    "--cluster", "cluster_column", metavar="COLUMN", help="Column of clusters.  [default: cluster, cluster_id, entity]"
)
@click.option("--gold-cluster", "gold_column", metavar="COLUMN", help="The same in GOLD, if it has another name.")
@reading_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def evaluate(
    predicted: Path,
    gold: Path,
    id_column: str | None,
    gold_id: str | None,
    cluster_column: str | None,
    gold_column: str | None,
    reading: Reading,
    as_json: bool,
) -> None:
    """Compare predicted clusters with gold clusters.

    PREDICTED and GOLD are tables with a column of ids and a column of clusters. They must hold the
    same ids, in any order; the columns may have different names.
    """
    from scdp import metrics
    from scdp.table.readers import read_records

    ours, theirs = read_records(predicted, reading), read_records(gold, reading)
    our_id, their_id = _id_columns(ours, theirs, id_column, gold_id)
    found = _clusters_by_id(ours, our_id, cluster_column)
    true = _clusters_by_id(theirs, their_id, gold_column or cluster_column)
    _check_same_ids(found, true, ours.source, theirs.source)
    labels = [found[key] for key in true]
    values = metrics.evaluate(list(true.values()), labels)
    if as_json:
        click.echo(json.dumps({"items": len(true), **values}, indent=2))
    else:
        click.echo(_tabulate(values, len(true), len(set(labels)), len(set(true.values()))))


def _id_columns(ours: Records, theirs: Records, id_column: str | None, gold_id: str | None) -> tuple[str, str]:
    from scdp.table.spec import find_shared_ids

    if id_column is not None:
        return id_column, gold_id or id_column
    found = find_shared_ids(ours, theirs)
    if found is None:
        raise InputError(
            f"{ours.source} and {theirs.source}: no two columns hold the same ids; "
            "name the columns of ids with --id and --gold-id"
        )
    if found[0] != found[1]:
        logger.info("ids are in %r of %s and %r of %s", found[0], ours.source, found[1], theirs.source)
    return found[0], gold_id or found[1]


def _cluster_column(records: Records) -> str:
    from scdp.table.spec import CLUSTER_COLUMNS

    for name in CLUSTER_COLUMNS:
        if name in records.names:
            return name
    raise InputError(
        f"{records.source}: there is no column {', '.join(CLUSTER_COLUMNS)}; "
        f"name the column of clusters with --cluster or --gold-cluster (it has: {', '.join(records.names)})"
    )


def _clusters_by_id(records: Records, identifier: str, cluster: str | None) -> dict[str, str]:
    from scdp.table import complete_column, unique_ids

    ids = unique_ids(records, identifier)
    clusters = complete_column(records, cluster or _cluster_column(records))
    return dict(zip(ids, clusters, strict=True))


def _check_same_ids(found: dict[str, str], true: dict[str, str], ours: str, theirs: str) -> None:
    for first, second, here, there in ((found, true, ours, theirs), (true, found, theirs, ours)):
        only = [key for key in first if key not in second]
        if only:
            raise InputError(
                f"{here}: {len(only)} of its {len(first)} ids are not in {there}, the first is {only[0]!r}; "
                "give both files the same ids"
            )


def _tabulate(values: dict[str, float], items: int, clusters: int, gold_clusters: int) -> str:
    lines = [f"{items} items, {clusters} predicted clusters, {gold_clusters} gold clusters", ""]
    lines += [f"{key:<14} {value:8.4f}  {DESCRIPTIONS[key]}" for key, value in values.items()]
    return "\n".join(lines)
