"""`scdp cluster` and `scdp link`: a model and records enter; clusters or links leave, and how sure each is."""

from __future__ import annotations

import json
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scdp.cli import (
    PATH,
    SHARDS,
    RecordsType,
    checkpoint_folder,
    checkpoint_options,
    is_quiet,
    json_option,
    reading_options,
    say,
    say_notes,
    show_work,
    tell,
)
from scdp.cli.fit_command import (
    NO_LABELS,
    estimator,
    is_proposed,
    labelled_rows,
    lack_of_labels,
    rows_to_learn_from,
    show_proposal,
    spec_of,
)
from scdp.errors import InputError

if TYPE_CHECKING:
    from scdp.engines import Engine
    from scdp.estimators import Estimator
    from scdp.estimators.result import ClusterResult
    from scdp.report.outputs import Outputs
    from scdp.table import Records
    from scdp.table.decisions import Decision
    from scdp.table.readers import Reading


EXAMPLES = """\b
Examples:
  scdp cluster records.csv --out clusters.csv
  scdp cluster model new.csv --out clusters.csv
  scdp cluster model new.csv --out clusters.csv --report report.html
  scdp cluster model all.csv --known clusters.csv --out clusters.csv --force
"""

INTERVAL = 0.9


@click.command(epilog=EXAMPLES)
@click.argument("paths", type=RecordsType(), nargs=-1, required=True, metavar="[MODEL] RECORDS")
@click.option("--out", required=True, type=PATH, metavar="FILE", help="Clusters: id, cluster, probability.")
@click.option("--spec", "spec_file", type=PATH, metavar="FILE", help="Without MODEL: how to compare records.")
@click.option("--entity", metavar="COLUMN", help="Known clusters: rows where it is filled in keep their clusters.")
@click.option("--id", "id_column", metavar="COLUMN", help="Without MODEL: ids.")
@click.option("--known", type=PATH, metavar="FILE", help="Clusters that are given: id and cluster.")
@click.option("--decisions", type=PATH, metavar="FILE", help="What people know of some records, kept in all draws.")
@click.option("--known-records", type=PATH, metavar="FILE", help="Rows of known ids, if not in RECORDS.")
@click.option("--report", type=PATH, metavar="FILE", help="Write a page to look at, such as report.html.")
@click.option("--draws", type=PATH, metavar="DIR", help="Keep the result there: draws, records, clusters, model.")
@click.option("--uncertain", type=PATH, metavar="FILE", help="Uncertain pairs.  [default: beside --out, .uncertain]")
@click.option("--spreadsheet", type=PATH, metavar="FILE", help="Clusters and records to open in a spreadsheet.")
@click.option("--summary", type=PATH, metavar="FILE", help="How many clusters, with an interval, as JSON.")
@click.option("--pairs", type=PATH, metavar="FILE", help="All pairs with their probabilities (see --at-least).")
@click.option(
    "--at-least", type=click.FloatRange(0.0, 1.0, min_open=True), default=0.01, show_default=True, metavar="P",
    help="Pairs of at least this probability.",
)  # fmt: skip
@click.option("--golden", type=PATH, metavar="FILE", help="One row for each entity, by the rules of the spec.")
@click.option(
    "--answer",
    metavar="GOAL",
    help="What the clusters optimise: f, vi, binder, or precision=0.99.  [default: the model's]",
)
@click.option("--engine", type=click.Choice(["local", "spark"]), default="local", show_default=True)
@click.option("--workers", type=click.IntRange(min=1), metavar="N", help="Processes.  [default: threads, one a core]")
@click.option("--seed", type=click.IntRange(min=0, max=2**31 - 1), metavar="N", help="[default: the model's]")
@reading_options
@checkpoint_options("FILE")
@click.option("--force", is_flag=True, help="Replace files that are there.")
@json_option
@click.option("--quiet", is_flag=True, help="Say nothing unless something is wrong.")
def cluster(
    paths: tuple[Path, ...],
    out: Path,
    spec_file: Path | None,
    entity: str | None,
    id_column: str | None,
    known: Path | None,
    decisions: Path | None,
    known_records: Path | None,
    report: Path | None,
    draws: Path | None,
    uncertain: Path | None,
    spreadsheet: Path | None,
    summary: Path | None,
    pairs: Path | None,
    at_least: float,
    golden: Path | None,
    answer: str | None,
    engine: str,
    workers: int | None,
    seed: int | None,
    reading: Reading,
    checkpoint: Path | None,
    seconds: float,
    resume: bool,
    force: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Group records by a model that `scdp fit` has made, or without one.

    Without MODEL, comparisons are proposed from the columns, and what is learned comes from the records whose cluster
    is filled in (--entity); with none, from typical curves and the table alone. Records whose cluster is filled in
    keep it, also with MODEL if --entity names the column.

    RECORDS and --known are CSV, TSV, JSON, Parquet or Excel files, and all outputs but the report are CSV, TSV,
    JSON lines or Parquet, by their names. With --known, given clusters keep their names and records, and new
    records join them or open new clusters.

    Tables hold ids and names as they are, so that scdp reads back what it wrote. Only in the file of
    --spreadsheet (CSV or TSV) do cells that a spreadsheet would run as a formula get a ' in front.
    """
    from scdp.estimators.inputs import list_decisions
    from scdp.io.targets import check_files, check_table_target, list_given
    from scdp.report.outputs import Outputs, write_outputs
    from scdp.results import refuse_other_model
    from scdp.table.readers import file_of, read_records

    if len(paths) > 2:
        raise InputError(f"{paths[2]}: give a model and one table, or one table alone")
    model, records = (None, paths[0]) if len(paths) == 1 else paths
    if model is not None and any((spec_file, id_column)):
        raise InputError("--spec and --id are of a run without a model; the model has its own")
    check_table_target(out)
    doubtful = uncertain or out.with_name(f"{out.stem}.uncertain{out.suffix}")
    outputs = Outputs(out, doubtful, report, draws, spreadsheet, summary, pairs, golden, at_least)
    outputs.check()
    inputs = list_given(
        {
            "RECORDS": file_of(records),
            "--known": known,
            "--known-records": known_records,
            "--spec": spec_file,
            "--decisions": decisions,
            "MODEL": model,
        }
    )
    written = [*outputs.list_given(), *list_given({"--checkpoint": checkpoint})]
    # What is known is carried over into the clusters, so that one file can be kept up to date.
    check_files(inputs, written, force, updated=("--known", "--out"))
    if draws is not None:
        refuse_other_model(draws)
    if known_records is not None and known is None:
        raise InputError("--known-records needs --known, the file that says which clusters they are in")
    said = list_decisions(decisions)
    opened = None if model is None else open_model(model)
    with show_work("reading"):
        table = read_records(records, reading)
    if opened is None:
        fitted, given = learn_here(table, said, spec_file, entity, id_column, seed or 0)
    else:
        fitted = opened
        assert fitted.spec is not None
        given = None if entity is None else filled_in(table, entity, fitted.spec.id)
    if answer is not None:
        from scdp.posterior.estimate import check_answer

        check_answer(answer)
        fitted.answer = answer
    if known_records is not None:
        table = _joined(table, read_records(known_records, reading), fitted)
    if known is not None:
        given = (given or {}) | _known_clusters(read_records(known, reading), fitted)
    samples = not fitted.fitted_.independent_draws
    with checkpoint_folder(checkpoint, out, resume, samples) as kept:
        where = _engine(engine, workers, kept / SHARDS)
        if samples:
            from scdp.chains_model import SCDP

            assert isinstance(fitted, SCDP)
            fitted.keep_checkpoints(kept, seconds)
        else:
            fitted.set_params(engine=where)
        result = _cluster(fitted, table, given, seed, said)
        with show_work("writing"):
            write_outputs(result, fitted, outputs, force)
    if as_json:
        click.echo(json.dumps({"out": str(out), "uncertain": str(doubtful)} | result.summary(), indent=1))
    elif not quiet:
        tell(_summary(result, outputs))


def learn_here(
    table: Records,
    said: list[Decision],
    spec_file: Path | None = None,
    entity: str | None = None,
    id_column: str | None = None,
    seed: int = 0,
) -> tuple[Estimator, dict[str, str] | None]:
    """A resolver that learned from the table itself, and the clusters that are filled in there, by id."""
    from scdp.estimators.inputs import rows_named

    spec = spec_of(table, spec_file, entity, id_column, None)
    rows, known = labelled_rows(table, spec, None, seed)
    lack = lack_of_labels(table, spec.entity, known)
    if lack is not None and not said:
        say(f"{lack}; {NO_LABELS}")
    chosen, taught = rows_to_learn_from(rows, known, seed, rows_named(rows, spec, said))
    model = estimator(spec, seed)
    with say_notes():
        model.fit(chosen, taught, decisions=said or None)
    if is_proposed(spec_file):
        show_proposal(model, chosen)
    return model, None if spec.entity is None else filled_in(table, spec.entity, spec.id)


def filled_in(table: Records, entity: str, id_column: str | None) -> dict[str, str] | None:
    """The clusters that a column of the table has, by id, where it is filled in; None where it is nowhere."""
    from scdp.estimators.clustering import ids_of

    table.require(entity)
    named = zip(ids_of(table, id_column).tolist(), table[entity].tolist(), strict=True)
    return {identifier: name for identifier, name in named if name is not None} or None


def open_model(folder: Path) -> Estimator:
    """A stored model of records, set to work on all cores."""
    from scdp.estimators.model_folder import load_model

    model = load_model(folder)
    if model.spec is None:
        raise InputError(
            f"{folder}: a model of arrays, not of records; use it from Python: {type(model).__name__}.load"
        )
    return model.set_params(n_jobs=-1, verbose=int(not is_quiet()))


def require_columns(records: Records, model: Estimator) -> None:
    """Refuse records that lack a column that the model compares or names records by."""
    spec = model.spec
    assert spec is not None
    names = dict.fromkeys(name for field in spec.fields for name in field.columns_read)
    records.require(*names, *(name for name in (spec.id, spec.group, spec.source) if name is not None))


def _engine(name: str, workers: int | None, folder: Path) -> Engine:
    from scdp.engines import LocalEngine, SparkEngine

    if name == "local":
        return LocalEngine(workers, folder)
    if workers is not None:
        raise InputError("--workers belongs to --engine local; tell Spark by its own settings how many to use")
    return SparkEngine()


def _joined(records: Records, more: Records, model: Estimator) -> Records:
    """The rows of known records, then the others; only the columns that the model reads."""
    import numpy as np

    from scdp.table import Records

    for each in (records, more):
        require_columns(each, model)
    spec = model.spec
    assert spec is not None
    names = [name for name in records.names if name in more.names]
    columns = {name: np.concatenate([more[name], records[name]]) for name in names}
    if spec.id is not None:
        both = set(records[spec.id].tolist()) & set(more[spec.id].tolist())
        if both:
            raise InputError(
                f"{records.source} and {more.source}: the id {min(map(str, both))!r} is in both; "
                "leave the known records out of one"
            )
    numbers = np.concatenate([more.numbers, records.numbers])
    return Records(columns, f"{more.source} and {records.source}", numbers)


def _known_clusters(clusters: Records, model: Estimator) -> dict[str, str]:
    from scdp.table import complete_column, unique_ids
    from scdp.table.spec import CLUSTER_COLUMNS, ID_COLUMNS

    assert model.spec is not None
    if model.spec.id is None:
        raise InputError("--known needs ids: fit the model again with --id and the name of their column")
    names = (model.spec.id, *ID_COLUMNS)
    id_column = next((name for name in names if name in clusters.names), None)
    label = next((name for name in CLUSTER_COLUMNS if name in clusters.names), None)
    if id_column is None or label is None:
        wanted = model.spec.id if id_column is None else CLUSTER_COLUMNS[0]
        has = ", ".join(clusters.names)
        raise InputError(f"{clusters.source}: there is no column {wanted!r}; known clusters need it (it has: {has})")
    ids, labels = unique_ids(clusters, id_column), complete_column(clusters, label)
    return dict(zip(ids.tolist(), labels.tolist(), strict=True))


def _cluster(
    model: Estimator, records: Records, known: dict[str, str] | None, seed: int | None, said: list[Decision]
) -> ClusterResult:
    from scdp._parallel import collection_paused
    from scdp.estimators.clustering import cluster_records

    require_columns(records, model)
    if said:
        say(f"keeping {len(said)} decisions")
    say(f"clustering {len(records)} records, {len(known or {})} of them known")
    title = f"Clusters of {Path(records.source).name}"
    # Chains have bars of their own.
    bar = show_work("preparing") if model.fitted_.independent_draws else nullcontext()
    with say_notes(), collection_paused(), bar:
        result = cluster_records(model, records, known, decisions=said, random_state=seed, title=title)
        problem = None if result.independent_draws else result.posterior.convergence_warning()
        if problem:
            warnings.warn(problem, stacklevel=1)
    return result


def _summary(result: ClusterResult, outputs: Outputs) -> str:
    out, uncertain = outputs.out, outputs.uncertain
    low, high = result.posterior.n_clusters_interval(INTERVAL)
    return (
        f"{out}: {result.n_records} records in {result.n_clusters} clusters (90 % interval {low} to {high}); "
        f"{len(result.uncertain)} uncertain pairs in {uncertain}\n{result.verdict}"
    )


LINK_EXAMPLES = """\b
Examples:
  scdp link model a.csv b.csv --out links.csv
  scdp link model a.csv b.csv --out links.csv --at-most-one b
"""


@click.command(epilog=LINK_EXAMPLES)
@click.argument("model", type=PATH)
@click.argument("first", type=RecordsType(), metavar="A")
@click.argument("second", type=RecordsType(), metavar="B")
@click.option("--out", required=True, type=PATH, metavar="FILE", help="Links: id_a, id_b, probability.")
@click.option(
    "--at-most-one", type=click.Choice(["both", "a", "b", "none"]), default="both", show_default=True,
    help="Which table has each thing at most once.",
)  # fmt: skip
@click.option("--decisions", type=PATH, metavar="FILE", help="What people know of some records.")
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
    from scdp.io.targets import Given, check_files, check_table_target, list_given, stage_table
    from scdp.table.readers import file_of, read_records

    check_table_target(out)
    inputs = {"A": file_of(first), "B": file_of(second), "--decisions": decisions, "MODEL": model}
    check_files(list_given(inputs), [Given("--out", out)], force)
    fitted = open_model(model)
    with show_work("reading"):
        tables = read_records(first, reading), read_records(second, reading)
    say(f"linking {len(tables[0])} records with {len(tables[1])}")
    with say_notes(), show_work("preparing"):
        links = link_tables(fitted, *tables, at_most_one=at_most_one, decisions=decisions, random_state=seed)
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
