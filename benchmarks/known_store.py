"""Stores of entities: speed, ten weekly batches, decisions that are honoured for ever, and kills.

python -m benchmarks.known_store speed [--records 100000] [--new 1000]
python -m benchmarks.known_store batches
python -m benchmarks.known_store decisions [--decisions 200]
python -m benchmarks.known_store kills [--kills 100]

`speed` makes a store of made-up people whose entities are the true ones, opens it, and puts in new records.
`batches` puts historical people into a store in ten parts and compares F with one run over all; after each part the log
is replayed and compared with the clusters. `decisions` does the same with true decisions about random pairs given
before the last batches: none may be violated. `kills` ends `scdp update` by SIGKILL after times drawn at random, and
looks at the store each time.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from scdp import EntityResolver, Spec
from scdp.datasets import make_records
from scdp.folds import canonical_labels
from scdp.metrics import f_score
from scdp.store.events import replay
from scdp.store.files import DELETED, ENTITY, Manifest, write_generation
from scdp.store.store import Store
from scdp.table.decisions import Decision
from scdp.table.readers import read_records
from scdp.table.records import Records

DATA = Path(os.environ.get("SCDP_DATA", "data"))
N_BATCHES = 10


def fit(records: Records, clusters: Any, id_column: str) -> EntityResolver:
    """A resolver of labelled records."""
    left_out = {"entity", id_column}
    named = {name: cells for name, cells in records.columns.items() if name not in left_out}
    labels = canonical_labels(list(clusters))
    table = {id_column: records[id_column], "entity": labels.astype(str).astype(object), **named}
    return EntityResolver(spec=Spec("entity", id=id_column), random_state=0).fit(Records(table), labels)


def measure_speed(n: int, n_new: int) -> None:
    """Seconds to open a store of n records, to put in new ones, and to look one up."""
    begin = time.perf_counter()
    made = make_records(n + n_new + 1500, kind="people", seed=0)
    records = Records({"id": made.ids.astype(str).astype(object), **made.data.columns})
    taught = np.flatnonzero(np.isin(made.clusters, np.unique(made.clusters)[:300]))
    model = fit(records.take(taught), made.clusters[taught], "id")
    rest = np.setdiff1d(np.arange(len(records)), taught)
    rest = np.random.default_rng(0).permutation(rest)
    old, new = rest[:n], rest[n : n + n_new]
    truth = np.unique(made.clusters[rest], return_inverse=True)[1]
    with tempfile.TemporaryDirectory() as folder:
        store = Store.create(Path(folder) / "store", model)
        rows = dict(records.take(old).columns)
        rows[ENTITY] = np.array([f"e-{code + 1}" for code in truth[: len(old)]], dtype=object)
        rows[DELETED] = np.full(len(old), "no", dtype=object)
        write_generation(store.folder, Manifest(), rows, [], [], int(truth.max()) + 2)
        told(f"{n:,} records made and written", begin)
        begin = time.perf_counter()
        store = Store(store.folder)
        told("opened", begin)
        begin = time.perf_counter()
        store.load()
        told("loaded", begin)
        store.lookup(cells_of(records, int(old[0])))
        seconds, right = [], 0
        for row in old[1:101].tolist():
            begin = time.perf_counter()
            found = store.lookup(cells_of(records, row))
            seconds.append(time.perf_counter() - begin)
            right += found[0].entity == store.entities[str(records["id"][row])]
        print(
            f"lookup of 100 records that are there: median {1000 * np.median(seconds):.0f} ms, longest "
            f"{1000 * max(seconds):.0f} ms, {right} with their entity first",
            flush=True,
        )
        begin = time.perf_counter()
        store.update(records.take(new))
        told(f"{n_new:,} new records", begin)
        named = dict(zip(records["id"][rest].tolist(), truth.tolist(), strict=True))
        ids = list(store.entities)
        f = f_score(np.array([named[i] for i in ids]), np.array([store.entities[i] for i in ids]))
        homes = dict(zip(truth[:n].tolist(), rows[ENTITY].tolist(), strict=True))
        placed = [store.entities[str(records["id"][row])] for row in new.tolist()]
        codes = truth[len(old) : len(old) + len(new)].tolist()
        there = [homes.get(code) for code in codes]
        joined = sum(a == b for a, b in zip(placed, there, strict=True) if b is not None)
        known = sum(b is not None for b in there)
        print(f"F of all {f:.4f}; {joined} of {known} new records of known entities found theirs", flush=True)


def cells_of(records: Records, row: int) -> dict[str, Any]:
    """The cells of a row, without its id."""
    return {name: cells[row] for name, cells in records.columns.items() if name != "id" and cells[row]}


def told(what: str, begin: float) -> None:
    """Print how long something took."""
    print(f"{what}: {time.perf_counter() - begin:.1f} s", flush=True)


def historical() -> tuple[Records, Any, EntityResolver]:
    """Records of 70 % of the historical people in random order, their truth, and a model of the others."""
    table = read_records(DATA / "historical-50k" / "historical_5k.csv")
    truth = np.unique(table["cluster"].astype(str), return_inverse=True)[1]
    rng = np.random.default_rng(0)
    seen = np.isin(truth, rng.permutation(truth.max() + 1)[: round(0.3 * truth.max())])
    kept = Records({name: cells for name, cells in table.columns.items() if name != "cluster"}, table.source)
    model = fit(kept.take(np.flatnonzero(seen)), truth[seen], "unique_id")
    rest = rng.permutation(np.flatnonzero(~seen))
    return kept.take(rest), truth[rest], model


def run_batches(n_decisions: int) -> None:
    """Ten batches, with decisions after the first half of them and without, beside one run over all."""
    records, truth, model = historical()
    ids = records["unique_id"].tolist()
    true = dict(zip(ids, truth.tolist(), strict=True))
    parts = np.array_split(np.arange(len(records)), N_BATCHES)
    if not n_decisions:
        print(f"one run: F {f_score(truth, model.predict(records)):.4f} ({len(records)} records)", flush=True)
    said = draw_decisions(ids, truth, n_decisions)
    with tempfile.TemporaryDirectory() as folder:
        plain = Store.create(Path(folder) / "plain", model)
        decided = Store.create(Path(folder) / "decided", model) if said else None
        for number, part in enumerate(parts, start=1):
            line = f"batch {number}: "
            for store in (plain, *((decided,) if decided is not None else ())):
                before = dict(store.entities)
                begin = time.perf_counter()
                more = said if store is decided and number == 1 else []
                events = store.update(records.take(part), decisions=more)
                seconds = time.perf_counter() - begin
                unexplained = check_log(store, before, events)
                found = [store.entities[one] for one in store.entities]
                f = f_score(np.array([true[one] for one in store.entities]), np.array(found))
                line += f"F {f:.4f}, {unexplained} unexplained, {seconds:.1f} s; "
                if store is decided:
                    line += f"{count_violated(store, said)} of {len(said)} decisions violated"
            print(line, flush=True)


def draw_decisions(ids: list[str], truth: Any, n: int) -> list[Decision]:
    """True decisions about random pairs: half of them within a cluster."""
    rng, found = np.random.default_rng(1), []
    while len(found) < n:
        one = int(rng.integers(len(ids)))
        mates = np.flatnonzero(truth == truth[one]) if len(found) % 2 else np.arange(len(ids))
        other = int(rng.choice(mates))
        if one != other:
            kind = "same" if truth[one] == truth[other] else "different"
            found.append(Decision((ids[one], ids[other]), kind, who="simulated"))
    return found


def check_log(store: Store, before: dict[str, str], events: list[dict[str, Any]]) -> int:
    """Changes of the entity of a record that no event tells of; the log as a whole must give the entities."""
    if replay(store.events()) != store.entities:
        raise SystemExit("the log and the entities differ")
    named = {record for event in events for record in event["records"]}
    changed = {record for record, home in before.items() if store.entities.get(record) != home}
    return len(changed - named)


def count_violated(store: Store, said: list[Decision]) -> int:
    """Decisions about records that are there which the entities break."""
    violated = 0
    for one in said:
        homes = [store.entities[record] for record in one.ids if record in store.entities]
        if len(homes) == 2:
            violated += (homes[0] == homes[1]) != (one.decision == "same")
    return violated


def run_kills(n_kills: int) -> None:
    """SIGKILL during `scdp update`, again and again; the store is as before or as after each time."""
    made = make_records(1000, kind="people", seed=0)
    records = Records({"id": made.ids.astype(str).astype(object), **made.data.columns})
    model = fit(records.take(np.arange(300)), made.clusters[:300], "id")
    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = Store.create(folder / "store", model)
        store.update(records.take(np.arange(300, 600)))
        longest, done, whole = 3.0, 0, 0
        for number in range(n_kills):
            rows = list(records.take(np.arange(600 + 4 * number % 400, 604 + 4 * number % 400)).rows())
            text = "\n".join(",".join(map(str, cells)) for cells in as_csv(rows))
            (folder / "new.csv").write_text(text + "\n", encoding="utf-8")
            before = Store(folder / "store").entities
            command = [
                sys.executable,
                "-m",
                "scdp.cli",
                "update",
                str(folder / "store"),
                str(folder / "new.csv"),
                "--quiet",
            ]
            begin = time.perf_counter()
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                process.wait(timeout=rng.uniform(0.3, longest))
                longest, done = max(longest, 1.1 * (time.perf_counter() - begin)), done + 1
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
                longest *= 1.02
            after = Store(folder / "store")
            fresh = {str(row["id"]) for row in rows}
            as_before = after.entities == before
            as_after = fresh <= after.entities.keys() and replay(after.events()) == after.entities
            whole += as_before or as_after
        print(f"{n_kills} updates, {n_kills - done} killed: the store was whole {whole} times", flush=True)


def as_csv(rows: list[dict[str, Any]]) -> list[list[str]]:
    """A header and quoted cells."""
    lines = [list(rows[0])]
    return lines + [
        ['"' + str(cell if cell is not None else "").replace('"', '""') + '"' for cell in row.values()]
        for row in rows
    ]


def main() -> None:
    """Run one of the studies."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", choices=["speed", "batches", "decisions", "kills"])
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--new", type=int, default=1_000)
    parser.add_argument("--decisions", type=int, default=200)
    parser.add_argument("--kills", type=int, default=100)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.study == "speed":
        measure_speed(given.records, given.new)
    elif given.study == "kills":
        run_kills(given.kills)
    else:
        run_batches(given.decisions if given.study == "decisions" else 0)


if __name__ == "__main__":
    main()
