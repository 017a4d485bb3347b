"""`scdp demo`: made-up records with some groups known enter; a dozen new ones, grouped, and a report leave."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scdp.cli.fit_command import say, told

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from rich.table import Table

    from scdp.estimators.result import ClusterResult, UncertainPair
    from scdp.table.records import Records

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
    "--out",
    "folder",
    type=click.Path(path_type=Path),
    default=Path("demo"),
    show_default=True,
    metavar="DIR",
    help="Folder for the tables, the clusters and the report.",
)
@click.option("--force", is_flag=True, help="Replace the files of an earlier demo.")
@click.option("--quiet", is_flag=True, help="Say nothing but the result.")
def demo(name: str, folder: Path, force: bool, quiet: bool) -> None:
    """Group a dozen made-up records of people or of citations, and write a report.

    The model is shown other records whose groups are known. It is not told how many groups the dozen has.
    Nothing is downloaded. DIR then holds the tables, so that the other commands can be tried on them.
    """
    from scdp.io.targets import Given, check_files, open_folder

    open_folder(folder)
    files = {
        part: folder / part for part in (f"{name}.csv", "new.csv", "gold.csv", "clusters.csv", "report.html")
    }
    check_files([], [Given("--out", path) for path in files.values()], force)
    shown, dozen, gold = load_demo(name)
    say(f"learning from {len(shown)} records in {len(set(shown['entity']))} known groups", quiet)
    say("the first run on a machine compiles for about a minute", quiet)
    results: list[ClusterResult] = []
    for message in told(lambda: results.append(group_dozen(shown, dozen, quiet))):
        say(f"note: {message}", quiet)
    write_files(files, name, shown, results[0], gold, force)
    show(results[0], gold, name)
    click.echo(f"\nWritten to {folder}: {', '.join(path.name for path in files.values())}")


def load_demo(name: str) -> tuple[Records, Records, NDArray[np.object_]]:
    """Made-up records with their entities, a dozen others, and the truth about these."""
    import numpy as np

    from scdp.datasets import make_tables
    from scdp.datasets.tutorial import make_dozen
    from scdp.table.records import Records

    made = Records(make_tables(name)[name], source=f"made-up {name}")
    known = np.array([entity is not None for entity in made["entity"]])
    dozen = make_dozen(name)
    assert isinstance(dozen.data, Records)
    return made.take(known), dozen.data, dozen.clusters


def group_dozen(shown: Records, dozen: Records, quiet: bool) -> ClusterResult:
    """What the resolver makes of the dozen after it has seen the others."""
    from scdp.estimators.clustering import cluster_records
    from scdp.resolver import EntityResolver
    from scdp.table.spec import propose

    spec = propose(shown, "entity", "id", None)
    model = EntityResolver(spec=spec, n_draws=N_DRAWS, n_jobs=-1, random_state=SEED, verbose=int(not quiet))
    model.fit(shown, shown["entity"])
    return cluster_records(model, dozen, title="A dozen made-up records")


def write_files(
    files: dict[str, Path],
    name: str,
    shown: Records,
    result: ClusterResult,
    gold: NDArray[np.object_],
    force: bool,
) -> None:
    """The tables that went in, the clusters and the report, all or none."""
    from scdp.io.atomic import Staged
    from scdp.io.tables import stage_table
    from scdp.report.outputs import cluster_columns
    from scdp.report.result_page import write_report

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
        counted = (
            "question that matters" if len(questions) == 1 else f"{len(questions)} questions that matter"
        )
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
            cells = [
                ", ".join(filter(None, (result.records[name][row] for name in names))) for names in columns
            ]
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
