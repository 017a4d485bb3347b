"""The questions of the tutorial, asked of whole data sets through the command line.

python -m benchmarks.questions crm|historical [--most N] [--folder DIR]

Learns from 60 labelled clusters (crm: its own column; historical 5k: 60 clusters at random), clusters nine
tenths of the records as the last month, and all of them, with most phones or dates lost, as this month. Prints what
golden records, pairs, estimate, query, explain, merge, split and compare say, and how far contributions are from the
stated log-odds.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.accuracy import read
from scdp.metrics import evaluate
from scdp.results import read_result

Row = dict[str, str]


def load(name: str, most: int) -> tuple[list[Row], dict[str, str], str]:
    """Rows with `id` and `entity` where labelled, the truth by id, and the column that is lost this month."""
    if name == "crm":
        records = read("crm", "records.csv")
        dropped = ("record_id", "cluster_id", *(n for n in records.names if n.startswith("labelled_")))
        ids, clusters = records["record_id"], records["cluster_id"]
        labelled = [cell is not None for cell in records["labelled_60_at_random"]]
        lost = "phone"
    else:
        records = read("historical-50k", "historical_5k.csv")
        dropped = ("unique_id", "cluster")
        ids, clusters = records["unique_id"], records["cluster"]
        chosen = set(np.random.default_rng(0).choice(np.unique(clusters.astype(str)), 60, replace=False).tolist())
        labelled = [str(cluster) in chosen for cluster in clusters]
        lost = "dob"
    names = [column for column in records.names if column not in dropped]
    rows = []
    for k in range(min(len(records), most)):
        cells = {column: records[column][k] or "" for column in names}
        rows.append({"id": str(ids[k]), "entity": str(clusters[k]) if labelled[k] else ""} | cells)
    return rows, {str(i): str(c) for i, c in zip(ids, clusters, strict=True)}, lost


def write(path: Path, rows: list[Row]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


class Shell:
    """Runs the command in a folder, and says what it did."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, *arguments: str, quiet: bool = False, lines: int = 14) -> str:
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "scdp.cli", *arguments], cwd=self.folder, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{arguments}\n{done.stdout}{done.stderr}"
        if not quiet:
            print(f"$ scdp {' '.join(arguments)}    ({time.perf_counter() - start:.0f} s)")
            print("\n".join(f"  {line[:160]}" for line in done.stdout.splitlines()[:lines]), flush=True)
        return done.stdout


def ask(name: str, most: int, folder: Path) -> None:
    rows, truth, lost = load(name, most)
    rng = np.random.default_rng(1)
    write(folder / "labelled.csv", [row for row in rows if row["entity"]])
    plain = [{column: cell for column, cell in row.items() if column != "entity"} for row in rows]
    write(folder / "old.csv", [row for row in plain if rng.random() < 0.9])
    write(folder / "new.csv", [row | {lost: ""} if rng.random() < 0.8 else row for row in plain])
    shell = Shell(folder)
    shell.run("fit", "labelled.csv", "--write-spec", "spec.toml", quiet=True)
    with (folder / "spec.toml").open("a", encoding="utf-8") as file:
        file.write(f'\n[golden]\n{lost} = "most complete"\n')
    shell.run("fit", "labelled.csv", "--spec", "spec.toml", "--out", "model")
    shell.run(
        "cluster", "model", "old.csv", "--out", "old_clusters.csv", "--draws", "old", "--report", "old.html",
        "--golden", "golden.csv", "--pairs", "pairs.parquet",
    )  # fmt: skip
    shell.run("cluster", "model", "new.csv", "--out", "new_clusters.csv", "--draws", "new")
    old = read_result(folder / "old")
    found = evaluate([truth[i] for i in old.ids.tolist()], old.labels.astype(str).tolist())
    print(
        f"  truth: precision {found['p']:.3f}, recall {found['r']:.3f}, F {found['f']:.3f}, B-cubed {found['b3']:.3f}"
    )
    shell.run("estimate", "old")
    shell.run("query", "old", "SELECT count(distinct entity) AS entities FROM records")
    names, counts = np.unique(old.labels.astype(str), return_counts=True)
    largest = str(names[np.argmax(counts)])
    members = old.ids[old.labels.astype(str) == largest].tolist()
    doubt = old.result.uncertain[0]
    shell.run("explain", "old", members[0], members[1], "--picture", "waterfall.svg", lines=30)
    shell.run("explain", "old", "--cluster", largest, lines=20)
    apart = next((pair for pair in old.result.uncertain if not pair.together), None)
    if apart is not None:
        shell.run("explain", "old", "--merge", str(old.ids[apart.left]), str(old.ids[apart.right]))
    shell.run("explain", "old", "--split", str(old.ids[doubt.left]) if doubt.together else largest)
    shell.run("compare", "old", "new", lines=60)
    golden = list(csv.DictReader((folder / "golden.csv").open(encoding="utf-8")))
    print(f"  golden.csv: {len(golden)} rows; pairs.parquet: {(folder / 'pairs.parquet').stat().st_size:,} bytes")
    check_sums(folder, old)


def check_sums(folder: Path, old: object) -> None:
    """Of 300 pairs, and of one through the command line."""
    rng = np.random.default_rng(2)
    n = old.n_records
    left = rng.integers(0, n, 300)
    weighed = old.model.weigh_pairs(old.records, left, (left + rng.integers(1, n, 300)) % n)
    log_odds = weighed.pop("log-odds")
    off = np.abs(np.nansum(np.stack(list(weighed.values())), axis=0) - log_odds).max()
    ids = [str(old.ids[0]), str(old.ids[1])]
    said = json.loads(Shell(folder).run("explain", "old", *ids, "--json", quiet=True))
    one = said["start"] + sum(feature["contribution"] for feature in said["features"]) - said["log_odds"]
    print(f"  contributions are off from the log-odds by {off:.1e} at most over 300 pairs, {abs(one):.1e} as JSON")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=["crm", "historical"])
    parser.add_argument("--most", type=int, default=10**9, help="records")
    parser.add_argument("--folder", type=Path, help="where to work; a new folder, unless given")
    options = parser.parse_args()
    with TemporaryDirectory() as between:
        folder = options.folder or Path(between)
        folder.mkdir(parents=True, exist_ok=True)
        ask(options.name, options.most, folder)


if __name__ == "__main__":
    main()
