"""Half of the records are copies of one: `scdp cluster` of them against as many distinct ones.

python -m benchmarks.copies [--size 1000000] [--seed N]
Prints processor time and memory of both, and whether all copies are one cluster of their own. The exit code is 1 if
they are not, or if they take more than 1.2 times the time of distinct records.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np

from benchmarks.scale import SPEC, Files, make_files, scdp, write_parquet

MOST_TIMES = 1.2


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="scdp-copies-") as place:
        files = make_files(Path(place) / "files", options.size, options.seed)
        (files.folder / "spec.toml").write_text(SPEC, encoding="utf-8")
        scdp(files.folder, "fit", str(files.train), "--spec", "spec.toml", "--out", "model")
        copies = write_copies(files)
        # Kernels are compiled before anything is measured.
        scdp(files.folder, "cluster", "model", str(files.train), "--out", "train.csv")
        seconds = [measure(files), measure(replace(files, people=copies))]
        wrong = check_copies(files.folder / f"{copies.stem}.csv", options.size // 2)
    ratio = seconds[1] / seconds[0]
    print(f"processor time with copies / distinct: {ratio:.2f}, at most {MOST_TIMES}: {ratio <= MOST_TIMES}")
    print(wrong or f"all {options.size // 2:,} copies are one cluster, and nothing else is in it")
    return int(ratio > MOST_TIMES or wrong is not None)


def write_copies(files: Files) -> Path:
    """The same people, of whom every second one is a copy of the first of these."""
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(files.people)
    columns = {name: np.array(table[name].to_pylist(), dtype=object) for name in table.column_names}
    for name, cells in columns.items():
        if name != "id":
            cells[1::2] = cells[1]
    path = files.folder / "copies.parquet"
    write_parquet(path, columns)
    return path


def measure(files: Files) -> float:
    out = f"{files.people.stem}.csv"
    run = scdp(files.folder, "cluster", "model", str(files.people), "--out", out)
    if run.exit_code:
        sys.exit((files.folder / "cluster.log").read_text(encoding="utf-8"))
    peak = f", {run.peak_bytes / 1e9:.2f} GB" if run.peak_bytes else ""
    print(f"{files.people.stem}: {run.cpu_seconds:.1f} s of processor time{peak}", flush=True)
    return run.cpu_seconds


def check_copies(clusters: Path, n_copies: int) -> str | None:
    """What is wrong with the clusters of the copies, which are every second row; None if nothing is."""
    with duckdb.connect() as connection:
        rows = connection.sql(f"select cluster from read_csv('{clusters}', all_varchar = true)").fetchall()
    found = [cluster for (cluster,) in rows]
    names = set(found[1::2])
    if len(names) > 1:
        return f"{n_copies:,} copies are {len(names):,} clusters"
    others = sum(cluster in names for cluster in found[::2])
    return f"{others} other records are in the cluster of the copies" if others else None


if __name__ == "__main__":
    sys.exit(main())
