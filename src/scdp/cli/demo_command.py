"""`scdp demo`: the digits bundled with scikit-learn enter; a table, report.html and two CSV files leave."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from scdp.datasets import Labelled
    from scdp.estimators import SCDP
    from scdp.posterior import Posterior
    from scdp.report import Gallery, ReportPage, SystemRow

# Sizes at which the chains agree within seconds.
IMAGES_PER_DIGIT = 20
IMAGE_SIZE = 4
N_CHAINS = 4
N_SWEEPS = 3000
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
def demo(folder: Path) -> None:
    """Cluster an embedded example and write a report.

    Five digits are shown with their clusters; images of five other digits are then clustered, without
    being told how many kinds there are. The images come with scikit-learn: nothing is downloaded.
    """
    from scdp.report import open_folder, write_rows, write_text

    open_folder(folder)
    _say("loading (the first run compiles the sampler, about half a minute)")
    train, test, pictures = load_digits()
    compile_kernels(train, test)
    _say(f"sampling {N_CHAINS} chains of {N_SWEEPS} sweeps, with and without learning")
    labels, posterior, seconds = run_model("scdp1", train, test)
    probabilities = posterior.membership_probability(labels)[len(train) :]
    clusters = by_size(labels[len(train) :])
    systems = [score("SCDP-1", "learns from shown ones", clusters, test, seconds)]
    systems += score_baselines(train, test)
    page = make_page(systems, posterior, clusters, probabilities, test, pictures)
    write_rows(folder / "gold.csv", ["id", "cluster"], zip(test.ids, test.clusters, strict=True))
    rounded = [f"{probability:.4f}" for probability in probabilities]
    write_rows(
        folder / "clusters.csv",
        ["id", "cluster", "probability"],
        zip(test.ids, clusters, rounded, strict=True),
    )
    write_text(folder / "report.html", page.html())
    show(page, folder)


def load_digits() -> tuple[Labelled, Labelled, NDArray[np.float64]]:
    """The shown part, the new part, and the new part's pictures in [0, 1]; the same on every machine."""
    import numpy as np
    from sklearn.datasets import load_digits as bundled

    from scdp.datasets import Labelled
    from scdp.datasets.digits import TEST_DIGITS, TRAIN_DIGITS, shrink, standardized

    pixels, digits = bundled(return_X_y=True)
    rng = np.random.default_rng(SEED)
    train, test = (
        np.sort(
            np.concatenate(
                [rng.choice(np.flatnonzero(digits == digit), IMAGES_PER_DIGIT, False) for digit in part]
            )
        )
        for part in (TRAIN_DIGITS, TEST_DIGITS)
    )
    data = standardized(shrink(pixels[np.concatenate([train, test])], IMAGE_SIZE))
    pictures = pixels[test].reshape(-1, 8, 8) / 16
    return (
        Labelled(data[: len(train)], digits[train], train),
        Labelled(data[len(train) :], digits[test], test),
        pictures,
    )


def compile_kernels(train: Labelled, test: Labelled) -> None:
    """Make every kernel ready on a few rows, so that times below are those of the work itself."""
    import numpy as np

    every = max(1, IMAGES_PER_DIGIT // 4)
    few, new = np.arange(0, len(train), every), np.arange(0, len(test), every)
    fit_model("scdp1", train.take(few), test.take(new), n_sweeps=40, verbose=0)


def run_model(model: str, train: Labelled, test: Labelled) -> tuple[NDArray[np.int64], Posterior, float]:
    """Labels of shown and new images, their posterior, and the seconds it took."""
    import time

    start = time.perf_counter()
    fitted = fit_model(model, train, test, n_sweeps=N_SWEEPS, verbose=int(sys.stderr.isatty()))
    return fitted.labels_, fitted.posterior_, time.perf_counter() - start


def fit_model(model: str, train: Labelled, test: Labelled, n_sweeps: int, verbose: int) -> SCDP:
    """The shown part with its clusters and the new part without, fitted together."""
    import warnings

    import numpy as np

    from scdp.estimators import SCDP
    from scdp.posterior import ConvergenceWarning

    estimator = SCDP(
        model,
        n_chains=N_CHAINS,
        n_sweeps=n_sweeps,
        standardize=False,
        n_jobs=-1,
        random_state=SEED,
        verbose=verbose,
    )
    known = np.concatenate([train.clusters, np.full(len(test), -1)])
    with warnings.catch_warnings():
        # The verdict is asked of the posterior and told in words at the end.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(np.vstack([np.asarray(train.data), np.asarray(test.data)]), known)


def by_size(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same clusters numbered from 1, the largest first."""
    import numpy as np

    _, first, place, sizes = np.unique(labels, return_index=True, return_inverse=True, return_counts=True)
    rank = np.empty(len(sizes), dtype=np.int64)
    rank[np.lexsort((first, -sizes))] = np.arange(1, len(sizes) + 1)
    return rank[place]


def score_baselines(train: Labelled, test: Labelled) -> list[SystemRow]:
    """The opponents on the same new images."""
    import time

    from scdp.baselines import Coarse, Fine, OracleKMeans

    labels, _, seconds = run_model("cdp", train, test)
    rows = [score("CDP", "learns nothing", labels[len(train) :], test, seconds)]
    for name, note, baseline, told in [
        ("Oracle k-means", "is told there are five", OracleKMeans(random_state=SEED), True),
        ("Coarse", "all in one cluster", Coarse(), False),
        ("Fine", "each its own cluster", Fine(), False),
    ]:
        start = time.perf_counter()
        baseline.fit(train.data, train.clusters)
        hint = {"gold": test.clusters} if told else {}
        found = baseline.predict(test.data, **hint)
        rows.append(score(name, note, found, test, time.perf_counter() - start))
    return rows


def score(name: str, note: str, found: NDArray[np.int64], test: Labelled, seconds: float) -> SystemRow:
    """One row of the table."""
    from scdp import metrics
    from scdp.report import SystemRow

    return SystemRow(
        name,
        note,
        metrics.f_score(found, test.clusters),
        metrics.variation_of_information(found, test.clusters),
        len(set(found.tolist())),
        seconds,
    )


def verdict_of(posterior: Posterior) -> tuple[str, bool]:
    """The interval of the number of clusters and whether to believe it, in words."""
    low, high = posterior.n_clusters_interval(0.9, hidden_only=True)
    problem = posterior.convergence_warning()
    interval = f"90 % interval of the number of clusters among the new images: {low} to {high}."
    agreement = "The chains agree: no R-hat above 1.05." if problem is None else problem
    return f"{interval} {agreement}", problem is None


def make_page(
    systems: list[SystemRow],
    posterior: Posterior,
    clusters: NDArray[np.int64],
    probabilities: NDArray[np.float64],
    test: Labelled,
    pictures: NDArray[np.float64],
) -> ReportPage:
    """The report of this run."""
    import numpy as np

    from scdp.report import Figure, ReportPage
    from scdp.report.charts import heat_map, histogram, legend

    verdict, converged = verdict_of(posterior)
    order = np.lexsort((-probabilities, clusters))
    kinds = [f"digit {digit}" for digit in test.clusters[order]]
    matrix = posterior.co_clustering_matrix(posterior.hidden[order])
    interval = posterior.n_clusters_interval(0.9, hidden_only=True)
    return ReportPage(
        title="Which of these images show the same thing?",
        lead=(
            f"{len(test)} images of five digits the model has never seen (0, 2, 4, 6, 7), clustered after it was "
            "shown grouped images of five others (1, 3, 5, 8, 9). It is not told how many kinds there are. "
            f"scikit-learn's bundled digits, brought to {IMAGE_SIZE} x {IMAGE_SIZE} pixels."
        ),
        verdict=verdict,
        converged=converged,
        first=Figure(
            "How many clusters?",
            histogram(posterior.stored.n_hidden_clusters, interval, test.n_clusters),
            f"Share of {posterior.n_chains * posterior.n_draws} draws; dark bars are the 90 % interval.",
        ),
        second=Figure(
            "Which images belong together?",
            heat_map(matrix, clusters[order].tolist(), kinds) + legend(kinds),
            "Probability that two images are in one cluster (dark: 1), in the order of the clusters found. "
            "The strip shows the true digit, which the model did not see.",
        ),
        systems=systems,
        table_note=(
            "F: harmonic mean of precision and recall over pairs, higher is better. "
            "VI: variation of information in nats, lower is better. "
            "Seconds without the one-time compilation."
        ),
        galleries=galleries(clusters, probabilities, test, pictures),
        gallery_note=(
            "Under each image its true digit. The images a cluster is surest of come first; "
            "a yellow frame means: probability of belonging there below one half."
        ),
    )


def galleries(
    clusters: NDArray[np.int64],
    probabilities: NDArray[np.float64],
    test: Labelled,
    pictures: NDArray[np.float64],
) -> list[Gallery]:
    """Every cluster found with its images, the surest first."""
    import numpy as np

    from scdp.report import Gallery
    from scdp.report.charts import png

    out = []
    for cluster in range(1, int(clusters.max()) + 1):
        rows = np.flatnonzero(clusters == cluster)
        rows = rows[np.argsort(-probabilities[rows], kind="stable")]
        items = [(png(pictures[i]), str(test.clusters[i]), float(probabilities[i])) for i in rows]
        mean = probabilities[rows].mean()
        out.append(Gallery(f"Cluster {cluster}", f"{len(rows)} images, mean probability {mean:.2f}", items))
    return out


def show(page: ReportPage, folder: Path) -> None:
    """The table, the verdict and where the files are, on stdout."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Digits: five shown, five new", title_justify="left", title_style="bold")
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
