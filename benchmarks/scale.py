"""People at scale: `scdp cluster` against Splink 5 on the same made-up records, each in a process of its own.

python -m benchmarks.scale [--sizes 100000,1000000] [--systems ours,splink] [--format parquet,csv]
    [--seed N] [--out FILE]
Prints time, memory, pairwise scores and entities against the truth, and whether each bar is met; the exit code is 1
if one is missed. Splink needs the extra `bench`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from benchmarks.process_tree import Run, watched
from benchmarks.scale_table import Row, bars, page
from scdp.datasets import Labelled, make_records
from scdp.errors import InputError, MissingExtraError, ScdpError
from scdp.metrics import Contingency
from scdp.partitions import connected_components
from scdp.table import Records

TRAIN_RECORDS, TRAIN_ENTITIES = 2600, 2000
FORMATS = ("parquet", "csv")
# To run more records twice would take too long; a smaller size has compiled the kernels.
MOST_RUN_TWICE = 1_000_000
SPEC = 'entity = "entity"\nid = "id"\n'
SPLINK_SCRIPT = Path(__file__).with_name("scale_splink.py").resolve()
# Splink's thresholds as match weights, the logarithms of odds to base 2: its own, 0.95, and others from one half on.
WEIGHTS = np.append(np.arange(0.0, 41.0), np.log2(0.95 / 0.05))


@dataclass(frozen=True)
class Files:
    """What the systems are given (`people`, `train`) and the truth, which only the scoring reads."""

    folder: Path
    people: Path
    truth: Path
    train: Path

    def as_csv(self) -> Files:
        """The same with people as CSV, which is written."""
        people = self.people.with_suffix(".csv")
        with duckdb.connect() as connection:
            connection.execute(f"COPY (FROM '{self.people}') TO '{people}' (HEADER)")
        return replace(self, people=people)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="100000,1000000", help="numbers of records")
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--format", default="parquet", help="of the records to cluster: parquet, csv, or parquet,csv")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="keep the table in this file")
    options = parser.parse_args()
    try:
        kinds = options.format.split(",")
        sizes, systems = checked(options.sizes.split(","), options.systems.split(","), kinds)
        began = state_of_machine()
        rows = measured(sizes, systems, options.seed, kinds)
    except ScdpError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    text = page(rows, versions(systems), began)
    print(text)
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    return int(any(bar.met is False for bar in bars(rows)))


def checked(sizes: list[str], systems: list[str], kinds: list[str]) -> tuple[list[int], list[str]]:
    if not all(size.isdigit() and int(size) for size in sizes):
        raise InputError(f"--sizes {','.join(sizes)}: give whole numbers of records, such as 100000,1000000")
    unknown = [system for system in systems if system not in SYSTEMS]
    if unknown:
        raise InputError(f"--systems: no system {unknown[0]!r}; there are {', '.join(SYSTEMS)}")
    other = [kind for kind in kinds if kind not in FORMATS]
    if other:
        raise InputError(f"--format: no format {other[0]!r}; there are {', '.join(FORMATS)}")
    if "splink" in systems and find_spec("splink") is None:
        raise MissingExtraError("splink", "bench", "the comparison with Splink")
    return sorted(int(size) for size in sizes), systems


def measured(sizes: Iterable[int], systems: Iterable[str], seed: int, kinds: Iterable[str]) -> list[Row]:
    """Each system on each size, told as they end."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="scdp-scale-") as place:
        for size in sizes:
            made = make_files(Path(place) / str(size), size, seed)
            for kind in kinds:
                files = made.as_csv() if kind == "csv" else made
                for system in systems:
                    row = replace(SYSTEMS[system](files, size), format=kind)
                    print(f"{row.system}, {size:,} records, {kind}: {row.told()}", file=sys.stderr, flush=True)
                    rows.append(row)
    return rows


def make_files(folder: Path, size: int, seed: int) -> Files:
    """People to cluster, and other people with their entities to learn from."""
    folder.mkdir(parents=True)
    files = Files(folder, *(folder / f"{name}.parquet" for name in ("people", "truth", "train")))
    people = make_records(size, "people", seed=seed)
    write_parquet(files.people, columns_of(people))
    write_parquet(files.truth, {"id": people.ids, "entity": people.clusters})
    train = training_part(seed + 1)
    write_parquet(files.train, {**columns_of(train), "entity": train.clusters})
    return files


def training_part(seed: int) -> Labelled:
    """Every record of 2,000 entities, of another seed than the people to cluster: none of them is among those."""
    made = make_records(TRAIN_RECORDS, "people", seed=seed)
    kept = np.unique(made.clusters)[:TRAIN_ENTITIES]
    return made.take(np.flatnonzero(np.isin(made.clusters, kept)))


def columns_of(part: Labelled) -> dict[str, NDArray[np.object_]]:
    records = part.data
    assert isinstance(records, Records)
    return {"id": part.ids, **{name: records[name] for name in records.names}}


def write_parquet(path: Path, columns: dict[str, NDArray[np.object_]]) -> None:
    import pyarrow
    import pyarrow.parquet

    cells = {name: pyarrow.array(column.tolist(), pyarrow.string()) for name, column in columns.items()}
    pyarrow.parquet.write_table(pyarrow.table(cells), path)


def ours(files: Files, size: int) -> Row:
    """`scdp fit` on the training part, which takes the same time at any size, then `scdp cluster`."""
    folder = files.folder
    (folder / "spec.toml").write_text(SPEC, encoding="utf-8")
    row = Row("scdp", size, entities=count(files.truth, "entity"))
    learn = ("fit", str(files.train), "--spec", "spec.toml", "--force", "--out")
    # Kernels are compiled once for a machine, those that only large tables need too: everything is run once before.
    scdp(folder, *learn, "warm")
    fit = scdp(folder, *learn, "model")
    if fit.exit_code:
        return replace(row, failure=last_line(folder / "fit.log"))
    if size <= MOST_RUN_TWICE:
        scdp(folder, "cluster", "model", str(files.people), "--out", "warm.csv", "--engine", "local", "--force")
    written = ("--out", "clusters.csv", "--summary", "clusters.summary.json", "--force")
    run = scdp(folder, "cluster", "model", str(files.people), *written, "--engine", "local")
    row = replace(ran(row, run, folder / "cluster.log"), fit_seconds=fit.seconds, fit_cpu_seconds=fit.cpu_seconds)
    return row if row.failure else summed_up(scored(row, folder / "clusters.csv", files.truth), folder)


def scdp(folder: Path, command: str, *arguments: str) -> Run:
    return watched([sys.executable, "-m", "scdp.cli", command, *arguments], folder / f"{command}.log", folder)


def summed_up(row: Row, folder: Path) -> Row:
    """With what `scdp cluster` says of the number of entities and of its stages."""
    summary = read_json(folder / "clusters.summary.json")
    interval = summary.get("n_clusters_interval")
    return replace(row, interval=interval and tuple(interval), stages=summary.get("seconds", {}))


def splink(files: Files, size: int) -> Row:
    folder = files.folder
    outputs = [str(folder / name) for name in ("splink.parquet", "pairs.parquet", "splink.json")]
    run = watched([sys.executable, str(SPLINK_SCRIPT), str(files.people), *outputs], folder / "splink.log", folder)
    row = ran(Row("Splink", size, entities=count(files.truth, "entity")), run, folder / "splink.log")
    if row.failure:
        return row
    stages = read_json(folder / "splink.json")["seconds"]
    # The pairs are written for the oracle below, not for the user.
    seconds = run.seconds - stages.pop("pairs")
    row = scored(row, folder / "splink.parquet", files.truth)
    weight, best = best_threshold(folder / "pairs.parquet", files.truth)
    return replace(row, seconds=seconds, stages=stages, oracle_f=best, oracle_weight=weight)


SYSTEMS: dict[str, Callable[[Files, int], Row]] = {"ours": ours, "splink": splink}


def ran(row: Row, run: Run, log: Path) -> Row:
    failure = last_line(log) if run.exit_code else None
    return replace(
        row,
        seconds=run.seconds,
        cpu_seconds=run.cpu_seconds,
        peak_bytes=run.peak_bytes,
        measure=run.measure,
        failure=failure,
    )


def scored(row: Row, predicted: Path, truth: Path) -> Row:
    """Pairwise scores of the clusters in a file, by id; every id of the truth must be there, and once."""
    query = f"select p.cluster, t.entity from '{truth}' t left join '{predicted}' p on p.id = t.id"
    with duckdb.connect() as connection:
        joined = connection.sql(query).to_arrow_table()
    if len(joined) != row.size or joined["cluster"].null_count:
        return replace(row, failure=f"{predicted.name} does not hold each id once")
    labels, gold = (codes(joined[name]) for name in ("cluster", "entity"))
    together, said, true, _ = Contingency.of(gold, labels).pairs
    return replace(
        row,
        precision=together / said if said else 1.0,
        recall=together / true if true else 1.0,
        f_score=2 * together / (said + true) if said + true else 1.0,
        clusters=int(labels.max()) + 1,
    )


def best_threshold(pairs: Path, truth: Path) -> tuple[float, float]:
    """The threshold with the best F by the labels, which a user does not have, and that F."""
    with duckdb.connect() as connection:
        gold = connection.sql(f"select entity from '{truth}'").to_arrow_table()
        order = f"(select id, row_number() over () - 1 as row from (select id from '{truth}'))"
        scores = connection.execute(
            f"select l.row as l, r.row as r, match_weight as weight from '{pairs}' "
            f"join {order} l on l.id = id_l join {order} r on r.id = id_r"
        ).fetchnumpy()
    entities = codes(gold["entity"])

    def f_score(weight: float) -> float:
        kept = scores["weight"] >= weight
        groups = connected_components(len(entities), [(scores["l"][kept], scores["r"][kept])])
        together, said, true, _ = Contingency.of(entities, groups.codes).pairs
        return 2 * together / (said + true)

    return max(((float(weight), f_score(weight)) for weight in WEIGHTS), key=lambda found: found[1])


def codes(column: Any) -> NDArray[np.int64]:
    """An Arrow column of labels as numbers from 0: quick where hashing a million texts in Python is not."""
    return np.asarray(column.combine_chunks().dictionary_encode().indices, dtype=np.int64)


def count(path: Path, column: str) -> int:
    with duckdb.connect() as connection:
        return int(connection.execute(f"select count(distinct {column}) from '{path}'").fetchall()[0][0])


def read_json(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return content


def last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "ended without a word"


def state_of_machine() -> str:
    """The commit, and how many processes wanted to run in the minute before."""
    here = Path(__file__).parent

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=here, capture_output=True, text=True).stdout.strip()

    changed = " with changes" if git("status", "--porcelain", "--untracked-files=no", "--", ":/src") else ""
    load = f"; load of the machine at the start {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return f"Commit {git('rev-parse', '--short', 'HEAD') or 'unknown'}{changed}{load}."


def versions(systems: Iterable[str]) -> dict[str, str]:
    names = ["scdp", "duckdb", *(["splink"] if "splink" in systems else [])]
    return {name: metadata.version(name) for name in names}


if __name__ == "__main__":
    sys.exit(main())
