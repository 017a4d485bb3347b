"""How long questions in SQL take: a kept result of many records and draws is made up, and asked.

python -m benchmarks.query_speed [--records 1000000] [--draws 60] [--segments 200] [--folder DIR]

Records fall into entities of one to four; in each draw some records are alone. Times are those of `StoredResult.query`,
from a folder that has not been opened yet: processor time of all threads, and time on the clock.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from scdp.estimators.result import ClusterResult, Learned
from scdp.posterior import Posterior
from scdp.results import read_result, write_result
from scdp.table import Records

QUESTIONS = {
    "entities by segment": "SELECT city, count(distinct entity) AS n FROM records GROUP BY city",
    "entities": "SELECT count(distinct entity) AS n FROM records",
    "entities of some": "SELECT count(distinct entity) AS n FROM records WHERE city = 'city 7'",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--draws", type=int, default=60)
    parser.add_argument("--segments", type=int, default=200)
    parser.add_argument("--folder", type=Path, help="keep the result there, or ask the one that is there")
    options = parser.parse_args()
    with TemporaryDirectory() as between:
        folder = options.folder or Path(between) / "result"
        if not (folder / "result.json").exists():
            write_result(make_result(options.records, options.draws, options.segments), folder)
        for name, sql in QUESTIONS.items():
            wall, spent = time.perf_counter(), time.process_time()
            table = read_result(folder).query(sql)
            print(
                f"{name:<22} {len(table):>5} rows  {time.process_time() - spent:6.2f} s of processor time  "
                f"{time.perf_counter() - wall:6.2f} s on the clock",
                flush=True,
            )


def make_result(n: int, n_draws: int, n_segments: int) -> ClusterResult:
    """Nothing is learned; labels and draws are made up."""
    rng = np.random.default_rng(0)
    sizes = rng.choice([1, 2, 3, 4], n, p=[0.6, 0.25, 0.1, 0.05])
    entity = np.repeat(np.arange(n, dtype=np.int32), sizes)[:n]
    rng.shuffle(entity)
    draws = np.empty((1, n_draws, n), np.int32)
    for draw in draws[0]:
        draw[:] = np.where(rng.random(n) < 0.03, n + np.arange(n), entity)
    ids = np.arange(n).astype(str).astype(object)
    cities = np.array([f"city {k}" for k in range(n_segments)], object)[rng.integers(0, n_segments, n)]
    return ClusterResult(
        title="Made up",
        records=Records({"id": ids, "city": cities}, "made up"),
        ids=ids,
        id_column="id",
        labels=entity.astype(str).astype(object),
        probabilities=np.ones(n),
        posterior=Posterior(draws),
        spec=None,
        learned=Learned("none", (), 0, 0),
        independent_draws=True,
    )


if __name__ == "__main__":
    main()
