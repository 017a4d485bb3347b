"""`scdp demo`: made-up citations enter, half of their clusters hidden; a table, report.html and two CSV files leave."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from scdp.datasets import Labelled
    from scdp.posterior import Posterior
    from scdp.report import RecordPair, ReportPage, SystemRow
    from scdp.resolver import EntityResolver
    from scdp.table.records import Records
    from scdp.table.spec import Spec

    Integers = NDArray[np.int64]
    Floats = NDArray[np.float64]

N_RECORDS = 240
N_DRAWS = 240
N_PAIRS = 6
SEED = 0

EXAMPLES = """\b
Examples:
  scdp demo
  scdp demo --out results
  scdp evaluate demo/clusters.csv demo/gold.csv
"""


@click.command(epilog=EXAMPLES)
@click.option(
    "--out",
    "folder",
    type=click.Path(path_type=Path),
    default=Path("demo"),
    show_default=True,
    metavar="DIR",
    help="Folder to write report.html, clusters.csv and gold.csv into.",
)
@click.option("--force", is_flag=True, help="Replace the files of an earlier demo.")
def demo(folder: Path, force: bool) -> None:
    """Cluster made-up citations and write a report.

    Half of the papers are shown with their citations grouped; the citations of the other half are then
    grouped without being told how many papers there are. Nothing is downloaded.
    """
    from scdp.io.atomic import Staged
    from scdp.io.tables import stage_table
    from scdp.io.targets import Given, check_files, open_folder

    open_folder(folder)
    gold_file, clusters_file, report = (folder / name for name in ("gold.csv", "clusters.csv", "report.html"))
    check_files([], [Given("--out", path) for path in (gold_file, clusters_file, report)], force)
    _say("getting ready (the first run compiles the model, about half a minute)")
    train, test = load_citations()
    compile_kernels(train, test)
    _say(f"learning from {len(train)} citations, then grouping {len(test)} others")
    clusters, probabilities, posterior, seconds = run_model(train, test)
    systems = [score("resolver", "learns from shown papers", clusters, test, seconds)]
    _say("running the opponents")
    systems += score_opponents(train, test)
    page = make_page(systems, posterior, clusters, probabilities, test)
    rounded = [f"{probability:.4f}" for probability in probabilities]
    with Staged(replace=force) as staged:
        stage_table(staged, gold_file, {"id": test.ids, "cluster": test.clusters})
        stage_table(staged, clusters_file, {"id": test.ids, "cluster": clusters, "probability": rounded})
        staged.text(report, page.html())
    show(page, folder)


def load_citations() -> tuple[Labelled, Labelled]:
    """The shown part and the new part: whole clusters, dealt at random; the same on every machine."""
    import numpy as np

    from scdp.datasets import Labelled, make_records

    made = make_records(N_RECORDS, kind="citations", seed=SEED)
    papers = np.unique(made.clusters, return_inverse=True)[1]
    known = Labelled(made.data, papers, made.ids)
    order = np.random.default_rng(SEED).permutation(known.n_clusters)
    new = np.isin(papers, order[: known.n_clusters // 2])
    return known.take(~new), known.take(new)


def records_of(part: Labelled) -> Records:
    """The items of a part, known here to be records."""
    return cast("Records", part.data)


def plain_spec() -> Spec:
    """Each field by its plainest comparison, not chosen by the scores it leads to."""
    from scdp import compare
    from scdp.table.spec import Spec

    return Spec(
        entity="citation",
        fields=[
            compare.edit("title"),
            compare.edit("author"),
            compare.absolute("year"),
            compare.edit("venue"),
        ],
    )


def compile_kernels(train: Labelled, test: Labelled) -> None:
    """Make every kernel ready on a few rows, so that times below are those of the work itself."""
    import numpy as np

    some = [part.take(np.arange(len(part)) < 30) for part in (train, test)]
    fit_model(some[0], some[1], verbose=0)


def run_model(train: Labelled, test: Labelled) -> tuple[Integers, Floats, Posterior, float]:
    """Clusters of the new records, their probabilities, the posterior of all, and the seconds it took."""
    import time

    start = time.perf_counter()
    fitted = fit_model(train, test, verbose=int(sys.stderr.isatty()))
    seconds = time.perf_counter() - start
    probabilities = fitted.posterior_.membership_probability(fitted.labels_)
    new = slice(len(train), None)
    return by_size(fitted.labels_[new]), probabilities[new], fitted.posterior_, seconds


def fit_model(train: Labelled, test: Labelled, verbose: int) -> EntityResolver:
    """The shown part with its clusters and the new part without, fitted together."""
    import numpy as np

    from scdp.resolver import EntityResolver

    estimator = EntityResolver(
        spec=plain_spec(), n_draws=N_DRAWS, n_jobs=-1, random_state=SEED, verbose=verbose
    )
    known = np.concatenate([train.clusters, np.full(len(test), -1)])
    shown, new = records_of(train), records_of(test)
    columns = {name: [*shown[name], *new[name]] for name in new.names}
    return estimator.fit(columns, known)


def by_size(labels: Integers) -> Integers:
    """The same clusters numbered from 1, the largest first."""
    import numpy as np

    _, first, place, sizes = np.unique(labels, return_index=True, return_inverse=True, return_counts=True)
    rank = np.empty(len(sizes), dtype=np.int64)
    rank[np.lexsort((first, -sizes))] = np.arange(1, len(sizes) + 1)
    return rank[place]


def score_opponents(train: Labelled, test: Labelled) -> list[SystemRow]:
    """The opponents on the same new records."""
    import time

    from threadpoolctl import threadpool_limits

    from scdp.paper.baselines import Coarse, Fine, ModernBinary

    rows = []
    for name, note, opponent in [
        (
            "ModernBinary",
            "boosted trees on pairs",
            ModernBinary(plain_spec(), random_state=SEED),
        ),
        ("Coarse", "all in one cluster", Coarse()),
        ("Fine", "each its own cluster", Fine()),
    ]:
        start = time.perf_counter()
        # Threads that wait for one another on a busy machine take far longer than one thread alone.
        with threadpool_limits(1):
            found = opponent.fit(train.data, train.clusters).predict(test.data)
        rows.append(score(name, note, found, test, time.perf_counter() - start))
    return rows


def score(name: str, note: str, found: Integers, test: Labelled, seconds: float) -> SystemRow:
    """One row of the table."""
    from scdp import metrics
    from scdp.report import SystemRow

    return SystemRow(
        name,
        note,
        metrics.f_score(test.clusters, found),
        metrics.variation_of_information(test.clusters, found),
        len(set(found.tolist())),
        seconds,
    )


def verdict_of(posterior: Posterior, truth: int) -> tuple[str, bool]:
    """The interval of the number of clusters in words, and whether it holds the truth."""
    low, high = posterior.n_clusters_interval(0.9, hidden_only=True)
    inside = low <= truth <= high
    return (
        f"90 % interval of the number of clusters among the new records: {low} to {high}; "
        f"the true number, {truth}, is {'inside' if inside else 'outside'}."
    ), inside


def make_page(
    systems: list[SystemRow], posterior: Posterior, clusters: Integers, probabilities: Floats, test: Labelled
) -> ReportPage:
    """The report of this run."""
    import numpy as np

    from scdp.report import Figure, ReportPage
    from scdp.report.charts import heat_map, histogram

    verdict, good = verdict_of(posterior, test.n_clusters)
    together = posterior.co_clustering_matrix(posterior.hidden)
    order = np.lexsort((-probabilities, clusters))
    interval = posterior.n_clusters_interval(0.9, hidden_only=True)
    return ReportPage(
        title="Which of these citations are of the same paper?",
        lead=(
            f"{len(test)} made-up citations of {test.n_clusters} papers the model has never seen, clustered after "
            f"it was shown {N_RECORDS - len(test)} grouped citations of others. It is not told how many papers "
            "there are. Compared: title, author and venue by edit distance, year by difference."
        ),
        verdict=verdict,
        good=good,
        first=Figure(
            "How many clusters?",
            histogram(posterior.stored.n_hidden_clusters, interval, test.n_clusters),
            f"Share of {posterior.n_chains * posterior.n_draws} draws; dark bars are the 90 % interval.",
        ),
        second=Figure(
            "Which citations belong together?",
            heat_map(together[np.ix_(order, order)], clusters[order].tolist(), test.clusters[order].tolist()),
            "Probability that two citations are in one cluster (dark: 1), in the order of the clusters found, white "
            "lines between them. Along the strip, the colour changes with the true paper, which the model did "
            "not see; colours repeat.",
        ),
        systems=systems,
        table_note=(
            "F: harmonic mean of precision and recall over pairs, higher is better. "
            "VI: variation of information in nats, lower is better. "
            "Seconds without the one-time compilation."
        ),
        pairs=uncertain_pairs(together, test),
    )


def uncertain_pairs(together: Floats, test: Labelled) -> list[RecordPair]:
    """The pairs whose probability is nearest to one half; each record at most once, so that they differ."""
    import numpy as np

    from scdp.report import RecordPair

    left, right = np.triu_indices(len(test), k=1)
    cells = list(records_of(test).rows())
    used: set[int] = set()
    pairs = []
    for place in np.argsort(np.abs(together[left, right] - 0.5), kind="stable"):
        i, j = int(left[place]), int(right[place])
        if used & {i, j}:
            continue
        used |= {i, j}
        same = bool(test.clusters[i] == test.clusters[j])
        ids = (str(test.ids[i]), str(test.ids[j]))
        pairs.append(RecordPair(ids, (cells[i], cells[j]), float(together[i, j]), same))
        if len(pairs) == N_PAIRS:
            break
    return pairs


def show(page: ReportPage, folder: Path) -> None:
    """The table, the verdict and where the files are, on stdout."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Citations of papers never seen", title_justify="left", title_style="bold")
    table.add_column("system")
    for name in ("F", "VI", "clusters", "seconds"):
        table.add_column(name, justify="right")
    table.add_column("", style="dim")
    for row in page.systems:
        figures = (f"{row.f:.3f}", f"{row.vi:.3f}", str(row.clusters), f"{row.seconds:.1f}")
        table.add_row(row.name, *figures, row.note)
    console = Console(highlight=False)
    console.print(table)
    console.print(page.verdict, markup=False)
    console.print(f"Written: {folder}/report.html, clusters.csv, gold.csv", markup=False, soft_wrap=True)


def _say(message: str) -> None:
    click.echo(f"scdp demo: {message}", err=True)
