"""Small results of clustering, made in memory or by the command line, for tests of what is done with them."""

from __future__ import annotations

import atexit
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

from product_cases import citations, done, rows_of, write_csv
from scdp.estimators.result import ClusterResult, Learned
from scdp.posterior import Posterior
from scdp.table import Records


def column(cells: list[str | None]) -> np.ndarray:
    out = np.empty(len(cells), dtype=object)
    out[:] = cells
    return out


def small_result(draws: np.ndarray | None = None, known: list[int] | None = None) -> ClusterResult:
    """Five records with cells that Parquet, SQL and CSV could trip over."""
    records = Records(
        {
            "id": column(["a", "b'", 'c"', "1", "é\u202e"]),
            "all missing": column([None] * 5),
            'ci"ty': column(["x", None, "1.0", "=1+1", "nan"]),
        },
        "mine.csv",
        np.array([2, 3, 4, 6, 7]),
    )
    fixed = [-1] * 5 if known is None else known
    labels = np.array([[[0, 0, 1, 2, 3], [0, 0, 1, 1, 2], [0, 1, 2, 2, 2]]]) if draws is None else draws
    posterior = Posterior(labels, {"height": np.full(labels.shape[:2], np.nan)}, fixed=fixed, names=records["id"])
    answer = np.array([0, 0, 1, 1, 2])
    return ClusterResult(
        title="Mine",
        records=records,
        ids=records["id"],
        id_column="id",
        labels=column([f"c-{k}" for k in answer]),
        probabilities=posterior.membership_probability(answer),
        posterior=posterior,
        spec=None,
        learned=Learned("none", (), 0, 0),
        independent_draws=True,
    )


@cache
def resolved_papers() -> Path:
    """A resolver of citations in `model`, and the result of clustering others in `kept`; only to be read."""
    folder = Path(mkdtemp(prefix="scdp-papers-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    taught, new = citations(80)
    write_csv(folder / "taught.csv", rows_of(taught))
    write_csv(folder / "new.csv", rows_of(new))
    done("fit", folder / "taught.csv", "--entity", "entity", "--id", "id", "--out", folder / "model", "--quiet")
    done(
        "cluster", folder / "model", folder / "new.csv", "--out", folder / "c.csv", "--draws", folder / "kept",
        "--summary", folder / "s.json", "--quiet",
    )  # fmt: skip
    return folder
