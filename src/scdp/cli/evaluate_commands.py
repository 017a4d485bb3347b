"""`scdp evaluate` and `scdp reproduce`: clusters against gold clusters, and the paper's experiments run again."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scdp.cli.terminal import reading_options
from scdp.errors import InputError, ScdpError

if TYPE_CHECKING:
    from scdp.table.records import Column, Records
    from scdp.table.text_files import Reading


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

EXAMPLES = """\b
Examples:
  scdp evaluate clusters.csv gold.csv
  scdp evaluate clusters.csv gold.parquet --id record_id --gold-cluster entity
  scdp evaluate clusters.jsonl gold.csv --json > metrics.json
"""


@click.command(epilog=EXAMPLES)
@click.argument("predicted", type=click.Path(path_type=Path))
@click.argument("gold", type=click.Path(path_type=Path))
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
        click.echo(_table(values, len(true), len(set(labels)), len(set(true.values()))))


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
    from scdp.table.records import complete_column, unique_ids

    ids: Column = unique_ids(records, identifier)
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


def _table(values: dict[str, float], items: int, clusters: int, gold_clusters: int) -> str:
    lines = [f"{items} items, {clusters} predicted clusters, {gold_clusters} gold clusters", ""]
    lines += [f"{key:<14} {value:8.4f}  {DESCRIPTIONS[key]}" for key, value in values.items()]
    return "\n".join(lines)


REPRODUCE_EXAMPLES = """\b
Examples:
  scdp reproduce digits --quick --out out
  scdp reproduce all --quick --out out
  scdp reproduce digits --features raw --out out
  scdp reproduce references --systems coarse,fine,scdp1 --repeats 3 --out out
  scdp reproduce all --out out --resume
"""


@click.command(epilog=REPRODUCE_EXAMPLES)
@click.argument("task", metavar="TASK|all")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder for the results.")
@click.option("--quick", is_flag=True, help="Few chains and sweeps: all tasks in under 15 minutes on 2 cores.")
@click.option(
    "--features",
    type=click.Choice(["unit", "raw"]),
    help="Scale to unit variance, as the paper says, or take features as they come, as its numbers imply.  "
    "[default: both; unit with --quick]",
)
@click.option("--systems", metavar="A,B,...", help="Only these systems.  [default: all that apply]")
@click.option("--chains", type=int, metavar="N", help="Chains of each sampler.")
@click.option("--sweeps", type=int, metavar="N", help="Sweeps of each chain, the warm-up included.")
@click.option("--repeats", type=int, metavar="R", help="Runs with other seeds.  [default: 5 for digits, 3 for others]")
@click.option("--seed", type=int, default=0, show_default=True, metavar="S", help="Seed of everything random.")
@click.option("--resume", is_flag=True, help="Go on with the run that DIR holds.")
def reproduce(
    task: str,
    out: Path,
    quick: bool,
    features: str | None,
    systems: str | None,
    chains: int | None,
    sweeps: int | None,
    repeats: int | None,
    seed: int,
    resume: bool,
) -> None:
    """Run the paper's experiments and make its tables.

    TASK is digits, identity, coreference or references. DIR gets results.json, and results.md for
    people. A full run has every table twice, for features scaled to unit variance and for features as they come, and
    takes an hour or more. Every finished part is kept at once, so an interrupted run goes on with the same command
    and --resume.
    """
    from scdp.paper.results import write_results
    from scdp.paper.run import run
    from scdp.paper.systems import BOTH, Settings, chosen_systems
    from scdp.paper.tasks import chosen_tasks

    settings = Settings(quick, chains, sweeps, repeats, seed, features or ("unit" if quick else BOTH))
    tasks = chosen_tasks(task, quick)
    wanted = chosen_systems(systems)
    try:
        parts, failures = run(tasks, wanted, settings, out, resume)
    except KeyboardInterrupt:
        click.echo(f"{out} keeps what is finished; go on with the same command and --resume", err=True)
        raise
    for path in write_results(parts, out, failures):
        click.echo(path)
    if failures:
        raise ScdpError(f"{len(failures)} parts are left out, which --resume tries again: {'; '.join(failures)}")
