"""`scdp evaluate`: clusters and gold clusters of the same records enter; how well they agree leaves."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scdp.cli import PATH, reading_options
from scdp.errors import InputError

if TYPE_CHECKING:
    from scdp.table.readers import Reading
    from scdp.table.records import Records

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
    from scdp.table.records import complete_column, unique_ids

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
