"""`scdp demo`, `scdp datasets`, `scdp reproduce`: an example, tables that are made or fetched, the paper's tables."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scdp.cli import PATH, is_quiet, json_option, say, say_notes
from scdp.errors import DataNotFoundError, InputError, ScdpError
from scdp.paper import files
from scdp.paper.files import NAMES, File, Source, find_source

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from rich.table import Table

    from scdp.estimators.result import ClusterResult, UncertainPair
    from scdp.table import Records


N_DRAWS = 400
SEED = 0
N_QUESTIONS = 2
WORDS = {"people": ("person", "people"), "citations": ("paper", "papers")}
WIDTH = 140

EXAMPLES = """\b
Examples:
  scdp demo people
  scdp demo citations --out citations
  scdp fit demo/people.csv --out model
  scdp cluster model demo/new.csv --out clusters.csv
"""


@click.command(epilog=EXAMPLES)
@click.argument("name", type=click.Choice(list(WORDS)), default="people")
@click.option(
    "--out", "folder", type=PATH, default=Path("demo"), show_default=True, metavar="DIR",
    help="Folder for the tables, the clusters and the report.",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Replace the files of an earlier demo.")
@click.option("--quiet", is_flag=True, help="Say nothing but the result.")
def demo(name: str, folder: Path, force: bool, quiet: bool) -> None:
    """Group a dozen made-up records of people or of citations, and write a report.

    The model is shown other records whose groups are known. It is not told how many groups the dozen has.
    Nothing is downloaded. DIR then holds the tables, so that the other commands can be tried on them.
    """
    from scdp.io.targets import Given, check_files, open_folder

    open_folder(folder)
    files = {part: folder / part for part in (f"{name}.csv", "new.csv", "gold.csv", "clusters.csv", "report.html")}
    check_files([], [Given("--out", path) for path in files.values()], force)
    shown, dozen, gold = load_demo(name)
    say(f"learning from {len(shown)} records in {len(set(shown['entity']))} known groups")
    say("the first run on a machine compiles for about a minute")
    with say_notes():
        result = group_dozen(shown, dozen)
    write_files(files, name, shown, result, gold, force)
    show(result, gold, name)
    click.echo(f"\nWritten to {folder}: {', '.join(path.name for path in files.values())}")


def load_demo(name: str) -> tuple[Records, Records, NDArray[np.object_]]:
    """Made-up records with their entities, a dozen others, and the truth about these."""
    import numpy as np

    from scdp.datasets import make_dozen, make_tables
    from scdp.table import Records

    made = Records(make_tables(name)[name], source=f"made-up {name}")
    known = np.array([entity is not None for entity in made["entity"]])
    dozen = make_dozen(name)
    assert isinstance(dozen.data, Records)
    return made.take(known), dozen.data, dozen.clusters


def group_dozen(shown: Records, dozen: Records) -> ClusterResult:
    """What the resolver makes of the dozen after it has seen the others."""
    from scdp.estimators.clustering import cluster_records
    from scdp.resolver import EntityResolver
    from scdp.table.propose import propose

    spec = propose(shown, "entity", "id", None)
    model = EntityResolver(spec=spec, n_draws=N_DRAWS, n_jobs=-1, random_state=SEED, verbose=int(not is_quiet()))
    model.fit(shown, shown["entity"])
    return cluster_records(model, dozen, title="A dozen made-up records")


def write_files(
    files: dict[str, Path], name: str, shown: Records, result: ClusterResult, gold: NDArray[np.object_], force: bool
) -> None:
    """The tables that went in, the clusters and the report, all or none."""
    from scdp.io.atomic import Staged
    from scdp.io.targets import stage_table
    from scdp.report.outputs import cluster_columns, write_report

    with Staged(replace=force) as staged:
        stage_table(staged, files[f"{name}.csv"], shown.columns)
        stage_table(staged, files["new.csv"], result.records.columns)
        stage_table(staged, files["gold.csv"], {"id": result.ids, "entity": gold})
        stage_table(staged, files["clusters.csv"], cluster_columns(result))
        staged.write(files["report.html"], lambda part: write_report(part, result))


def show(result: ClusterResult, gold: NDArray[np.object_], name: str) -> None:
    """Records by group, how many groups and how good, what to ask, and the verdict, on stdout."""
    from rich.console import Console

    from scdp import metrics

    one, many = WORDS[name]
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    table = draw_groups(result, [[name] for name in result.records.names])
    if table.__rich_measure__(console, console.options.update(width=10 * WIDTH)).maximum > console.width:
        names = [name for name in result.records.names if name != result.id_column]
        table = draw_groups(result, [*([[result.id_column]] if result.id_column else []), names])
    console.print(table)
    low, high = result.posterior.n_clusters_interval(0.9)
    expected = result.expected["f"]
    words = [
        f"{result.n_clusters} {many} (90 %: {low} to {high}); in truth {len(set(gold.tolist()))}.",
        f"Estimated F {expected['mean']:.2f} (90 %: {expected['low']:.2f} to {expected['high']:.2f}); "
        f"in truth {metrics.f_score(gold, result.labels):.2f}.",
        str(result.verdict),
    ]
    console.print("\n".join(words), markup=False, soft_wrap=True)
    questions = choose_questions(result)
    if questions:
        counted = "question that matters" if len(questions) == 1 else f"{len(questions)} questions that matter"
        console.print(f"\nThe {counted} most:", markup=False)
    for pair in questions:
        console.print(_question(result, pair, one), markup=False, soft_wrap=True)


def draw_groups(result: ClusterResult, columns: list[list[str]]) -> Table:
    """Records by group. Cells that share a column stand one after the other, on as many lines as they need."""
    from rich.table import Table

    table = Table(title=f"{result.n_records} records, grouped", title_justify="left", title_style="bold")
    for names in (["group"], ["sure"], *columns):
        table.add_column(", ".join(names), no_wrap=len(names) == 1, overflow="fold")
    for number, rows in enumerate(groups_of(result), start=1):
        for row in rows:
            cells = [", ".join(filter(None, (result.records[name][row] for name in names))) for names in columns]
            sure = f"{result.probabilities[row]:.2f}"
            table.add_row(str(number), sure, *cells, end_section=bool(row == rows[-1]))
    return table


def groups_of(result: ClusterResult) -> list[list[int]]:
    """The rows of each cluster, the largest first."""
    import numpy as np

    names = list(dict.fromkeys(result.labels.tolist()))
    groups = [np.flatnonzero(result.labels == name).tolist() for name in names]
    return sorted(groups, key=lambda rows: -len(rows))


def choose_questions(result: ClusterResult) -> list[UncertainPair]:
    """The least certain pairs; no record is asked about twice."""
    chosen: list[UncertainPair] = []
    used: set[int] = set()
    for pair in result.uncertain:
        if not used & {pair.left, pair.right}:
            used |= {pair.left, pair.right}
            chosen.append(pair)
    return chosen[:N_QUESTIONS]


def _question(result: ClusterResult, pair: UncertainPair, one: str) -> str:
    def written(row: int) -> str:
        cells = [result.records[name][row] for name in result.records.names if name != result.id_column]
        return f"    {result.ids[row]}: {', '.join(cell for cell in cells if cell)}"

    ask = f"  Are {result.ids[pair.left]} and {result.ids[pair.right]} the same {one}? "
    return f"{ask}Probability {pair.probability:.2f}.\n{written(pair.left)}\n{written(pair.right)}"


_HEADER = ("name", "records", "clusters", "licence", "where")
_NUMERIC = ("records", "clusters")


@click.group()
def datasets() -> None:
    """List, find and fetch the data sets that scdp can load."""


@datasets.command("list")
@json_option
def list_sets(as_json: bool) -> None:
    """Show every data set, its size and licence, and the folder it was found in."""
    rows = [_row(find_source(name)) for name in NAMES]
    if as_json:
        click.echo(json.dumps([dict(zip(_HEADER, row, strict=True)) for row in rows], indent=1))
        return
    click.echo("\n".join(aligned([_HEADER, *rows])))


@datasets.command()
@click.argument("name")
@click.option("--check", is_flag=True, help="Compare each file with its published SHA-256.")
def path(name: str, check: bool) -> None:
    """Show where the files of the data set NAME lie."""
    source = find_source(name)
    wrong = [file.path for file in source.files if not _show(source, file, check)]
    if wrong:
        raise DataNotFoundError(
            f"{name}: {', '.join(wrong)} missing or damaged; get it with  scdp datasets fetch {name}"
        )


@datasets.command()
@click.argument("name", metavar="NAME|all")
def fetch(name: str) -> None:
    """Fetch the missing files of the data set NAME, or of all of them, into the cache."""
    sources = [find_source(each) for each in (NAMES if name == "all" else [name])]
    failures = [reason for source in sources for file in source.files if (reason := _fetch(source, file))]
    if len(failures) == 1:
        raise DataNotFoundError(failures[0])
    if failures:
        raise DataNotFoundError(f"{len(failures)} files could not be fetched; first: {failures[0]}")


@datasets.command()
@click.argument("name")
@click.option("--out", "folder", required=True, type=PATH, metavar="DIR")
@click.option("--from", "own", type=PATH, metavar="DIR", help="Folder of your own ACE 2004, for  ace.")
@click.option(
    "--records", "n_records", type=click.IntRange(20, 50_000_000), metavar="N",
    help="How many, of a table that is made up.  [default: 300]",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Replace files that are there.")
def export(name: str, folder: Path, own: Path | None, n_records: int | None, force: bool) -> None:
    """Write the records of NAME as CSV files.

    people, citations and crm are made up here, offline, for the tutorials: tables with known groups, new records,
    two tables to link, and the truth in gold.csv. Other sets have id and entity in train.csv and test.csv, or in
    records.csv. Cells are written as they are: what a spreadsheet takes for a formula is not escaped.
    """
    from scdp.io.atomic import Staged
    from scdp.io.targets import Given, check_files, open_folder, stage_table

    parts = _tables(name, own, n_records)
    open_folder(folder)
    check_files([], [Given("--out", folder / f"{part}.csv") for part in parts], force)
    with Staged(replace=force) as staged:
        for part, columns in parts.items():
            stage_table(staged, folder / f"{part}.csv", columns)
    for part, columns in parts.items():
        click.echo(f"{folder / part}.csv: {len(columns['id'])} records")


def _tables(name: str, own: Path | None, n_records: int | None) -> dict[str, Any]:
    from scdp.datasets import TUTORIAL_TABLES, make_tables

    if name in TUTORIAL_TABLES:
        if own is not None:
            raise InputError(f"{name!r} is made up here; leave --from out")
        return dict(make_tables(name, n_records))
    from scdp.paper.datasets import OWN, export_parts, list_sets

    if n_records is not None:
        raise InputError(f"{name!r} has the records it has; --records is for {', '.join(TUTORIAL_TABLES)}")
    offered = (*TUTORIAL_TABLES, *list_sets())
    if name not in (*offered, OWN):
        raise InputError(f"there is no set of records {name!r} to export; there are: {', '.join(offered)}")
    return dict(export_parts(name, own))


def _row(source: Source) -> tuple[str, ...]:
    return source.name, str(source.records), str(source.clusters), source.licence, _where(source)


def _where(source: Source) -> str:
    missing = [file.path for file in source.files if files.find(source, file) is None]
    if len(missing) == len(source.files):
        return "not here"
    if missing:
        return f"without {', '.join(missing)}"
    first = files.find(source, source.files[0])
    return str(first)[: -len(source.files[0].path) - 1]


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines of equal columns, numbers to the right, a rule below the header."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    marks = [">" if name in _NUMERIC else "<" for name in rows[0]]
    ruled = [rows[0], ["-" * width for width in widths[:-1]] + ["-" * len(rows[0][-1])], *rows[1:]]
    return [
        "  ".join(f"{cell:{mark}{width}}" for cell, mark, width in zip(row, marks, widths, strict=True)).rstrip()
        for row in ruled
    ]


def _show(source: Source, file: File, check: bool) -> bool:
    place = files.find(source, file)
    problem = files.check(source, file) if check or place is None else ""
    verdict = (problem or "digest is right") if check else problem
    click.echo(f"{place or file.path}{': ' if verdict else ''}{verdict}")
    return not problem


def _fetch(source: Source, file: File) -> str:
    """Fetch what is missing, say so, and return what went wrong."""
    label = f"{source.name}/{file.path}"
    place = files.find(source, file)
    try:
        if place and not files.check(source, file):
            click.echo(f"{label}: already here")
        elif place and not place.is_relative_to(files.cache_folder()):
            raise InputError(f"{place}: not the published file (its SHA-256 differs); remove it or put that file there")
        else:
            click.echo(f"{label}: fetched to {files.fetch(source, file)}")
    except InputError as error:
        click.echo(f"{label}: not fetched")
        return str(error)
    return ""


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
@click.option("--out", required=True, type=PATH, help="Folder for the results.")
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
    from scdp.paper.systems import BOTH, Settings, choose_systems
    from scdp.paper.tasks import choose_tasks

    settings = Settings(quick, chains, sweeps, repeats, seed, features or ("unit" if quick else BOTH))
    tasks = choose_tasks(task, quick)
    wanted = choose_systems(systems)
    try:
        parts, failures = run(tasks, wanted, settings, out, resume)
    except KeyboardInterrupt:
        click.echo(f"{out} keeps what is finished; go on with the same command and --resume", err=True)
        raise
    for path in write_results(parts, out, failures):
        click.echo(path)
    if failures:
        raise ScdpError(f"{len(failures)} parts are left out, which --resume tries again: {'; '.join(failures)}")
