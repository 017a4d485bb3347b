"""Stores of entities: speed, weekly batches, decisions that are honoured for ever, and kills.

python -m benchmarks.known_store speed [--records 100000] [--new 1000]
python -m benchmarks.known_store batches [--batches 10]
python -m benchmarks.known_store decisions [--decisions 200] [--batches 10]
python -m benchmarks.known_store kills [--kills 100]

`speed` makes a store of made-up people whose entities are the true ones, opens it, looks records up and puts in new
ones; all seconds are processor time. `batches` puts historical people into a store in parts and compares F with one run
over all; after each part the log is replayed and compared with the clusters. `decisions` begins with a store of half of
them: a simulated person who knows the truth decides about pairs that are there, half of the pairs drawn at random and
half, as far as there are any, such as the store has wrong; the other half comes in parts, into this store and into one
without decisions. `kills` ends `scdp update` by SIGKILL, at a random time after it holds the store or while it writes,
and looks at the store each time.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from scdp import EntityResolver, Spec
from scdp.datasets import make_records
from scdp.linkage.training.folds import canonical_labels
from scdp.metrics import f_score
from scdp.store import Store
from scdp.store.files import DELETED, ENTITY, Manifest, replay, write_generation
from scdp.table import Records
from scdp.table.decisions import Decision
from scdp.table.readers import read_records

# Half of the kills come within so many seconds after a file is new in the folder.
WRITING = 0.05
DATA = Path(os.environ.get("SCDP_DATA", "data"))


def fit(records: Records, clusters: Any, id_column: str) -> EntityResolver:
    """A resolver of labelled records."""
    left_out = {"entity", id_column}
    named = {name: cells for name, cells in records.columns.items() if name not in left_out}
    labels = canonical_labels(list(clusters))
    table = {id_column: records[id_column], "entity": labels.astype(str).astype(object), **named}
    return EntityResolver(spec=Spec("entity", id=id_column), random_state=0).fit(Records(table), labels)


def measure_speed(n: int, n_new: int) -> None:
    """Processor seconds to open a store of n records, to put in new ones, and to look one up."""
    begin = time.process_time()
    made = make_records(n + n_new + 1500, kind="people", seed=0)
    records = Records({"id": made.ids.astype(str).astype(object), **made.data.columns})
    taught = np.flatnonzero(np.isin(made.clusters, np.unique(made.clusters)[:1000]))
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
        begin = time.process_time()
        store = Store(store.folder)
        told("opened", begin)
        begin = time.process_time()
        store.load()
        told("loaded", begin)
        store.lookup(cells_of(records, int(old[0])))
        seconds, right = [], 0
        for row in old[1:101].tolist():
            begin = time.process_time()
            found = store.lookup(cells_of(records, row))
            seconds.append(time.process_time() - begin)
            right += found[0].entity == store.entities[str(records["id"][row])]
        print(
            f"lookup of 100 records that are there: median {1000 * np.median(seconds):.0f} ms, longest "
            f"{1000 * max(seconds):.0f} ms, {right} with their entity first",
            flush=True,
        )
        begin = time.process_time()
        events = store.update(records.take(new))
        told(f"{n_new:,} new records", begin)
        named = dict(zip(records["id"][rest].tolist(), truth.tolist(), strict=True))
        ids = list(store.entities)
        f = f_score(np.array([named[i] for i in ids]), np.array([store.entities[i] for i in ids]))
        homes: dict[int, set[str]] = {}
        for row, code in zip(old.tolist(), truth[:n].tolist(), strict=True):
            homes.setdefault(code, set()).add(store.entities[str(records["id"][row])])
        codes = truth[n : n + n_new].tolist()
        placed = [store.entities[str(records["id"][row])] for row in new.tolist()]
        joined = sum(one in homes.get(code, ()) for one, code in zip(placed, codes, strict=True))
        known = sum(code in homes for code in codes)
        print(f"F of all {f:.4f}; {joined} of {known} new records of known entities found theirs", flush=True)
        kinds = Counter(event["event"] for event in events)
        print(", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())))


def cells_of(records: Records, row: int) -> dict[str, Any]:
    """The cells of a row, without its id."""
    return {name: cells[row] for name, cells in records.columns.items() if name != "id" and cells[row]}


def told(what: str, begin: float) -> None:
    """Print how much processor time something took."""
    print(f"{what}: {time.process_time() - begin:.1f} s", flush=True)


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


def run_batches(n_batches: int) -> None:
    """Batches beside one run over all."""
    records, truth, model = historical()
    true = dict(zip(records["unique_id"].tolist(), truth.tolist(), strict=True))
    print(f"one run: F {f_score(truth, model.predict(records)):.4f} ({len(records)} records)", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        store = Store.create(Path(folder) / "store", model)
        for number, part in enumerate(np.array_split(np.arange(len(records)), n_batches), start=1):
            print(f"batch {number}: {put_in(store, records.take(part), true)[1]}", flush=True)


def put_in(
    store: Store, records: Records | None, true: dict[str, int], said: Sequence[Decision] = ()
) -> tuple[float, str]:
    """Update a store; F of all that is in it, and a line about it."""
    before = dict(store.entities)
    begin = time.process_time()
    events = store.update(records, decisions=said)
    seconds = time.process_time() - begin
    unexplained = check_log(store, before, events)
    ids = list(store.entities)
    f = f_score(np.array([true[one] for one in ids]), np.array([store.entities[one] for one in ids]))
    kinds = Counter(event["event"] for event in events)
    told_of = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    return f, f"F {f:.4f}, {unexplained} changes unexplained, {told_of or 'no event'}, {seconds:.1f} s"


def run_decisions(n_decisions: int, n_batches: int) -> None:
    """Decisions about half of the records, then the other half in batches; and the same without decisions."""
    records, truth, model = historical()
    true = dict(zip(records["unique_id"].tolist(), truth.tolist(), strict=True))
    half = len(records) // 2
    with tempfile.TemporaryDirectory() as folder:
        plain = Store.create(Path(folder) / "plain", model)
        print(f"half: {put_in(plain, records.take(np.arange(half)), true)[1]}", flush=True)
        shutil.copytree(plain.folder, Path(folder) / "decided")
        decided = Store(Path(folder) / "decided")
        said, n_wrong = draw_decisions(decided, true, n_decisions)
        line = put_in(decided, None, true, said)[1]
        print(f"{len(said)} decisions, {n_wrong} against the store: {line}, {tell_violated(decided, said)}")
        for number, part in enumerate(np.array_split(np.arange(half, len(records)), n_batches), start=1):
            f, _ = put_in(plain, records.take(part), true)
            better, line = put_in(decided, records.take(part), true)
            fell = "" if better >= f else ", FELL"
            told_of = f"{line}, {tell_violated(decided, said)}; without decisions F {f:.4f}{fell}"
            print(f"update {number}: {told_of}", flush=True)


def draw_decisions(store: Store, true: dict[str, int], n: int) -> tuple[list[Decision], int]:
    """True decisions about records of a store: half of them about pairs that it has wrong, as far as there are any.

    The others are about random pairs, every second one of a true cluster.
    """
    rng = np.random.default_rng(1)
    ids = list(store.entities)
    wrong = [
        (one, other)
        for one, other in combinations(ids, 2)
        if (true[one] == true[other]) != (store.entities[one] == store.entities[other])
    ]
    chosen = dict.fromkeys(wrong[k] for k in rng.permutation(len(wrong))[: n // 2])
    n_wrong = len(chosen)
    while len(chosen) < n:
        one = ids[int(rng.integers(len(ids)))]
        mates = [other for other in ids if true[other] == true[one]] if len(chosen) % 2 else ids
        other = mates[int(rng.integers(len(mates)))]
        if one != other and (other, one) not in chosen:
            chosen[one, other] = None
    return [
        Decision(pair, "same" if true[pair[0]] == true[pair[1]] else "different", who="simulated") for pair in chosen
    ], n_wrong


def check_log(store: Store, before: dict[str, str], events: list[dict[str, Any]]) -> int:
    """Changes of the entity of a record that no event tells of; the log as a whole must give the entities."""
    if replay(store.events()) != store.entities:
        raise SystemExit("the log and the entities differ")
    named = {record for event in events for record in event["records"]}
    changed = {record for record, home in before.items() if store.entities.get(record) != home}
    return len(changed - named)


def tell_violated(store: Store, said: list[Decision]) -> str:
    """How many decisions the entities break."""
    violated = sum(
        (len({store.entities[record] for record in one.ids}) == 1) != (one.decision == "same") for one in said
    )
    return f"{violated} of {len(said)} decisions violated"


def run_kills(n_kills: int) -> None:
    """SIGKILL during `scdp update`, again and again; the store is as before or as after each time."""
    records, _, model = historical()
    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = Store.create(folder / "store", model)
        there = 1000
        store.update(records.take(np.arange(there)))
        command = [sys.executable, "-m", "scdp.cli", "update", str(folder / "store"), str(folder / "new.csv")]
        # How long an update holds the store, by the first one, which is not killed, and by others that come to their
        # end; a little more, so that some do.
        longest, n_killed, n_before, n_after, n_left, number = None, 0, 0, 0, 0, -1
        while n_killed < n_kills:
            number += 1
            rows = list(records.take(np.arange(there + 4 * number, there + 4 * number + 4)).rows())
            text = "\n".join(",".join(map(str, cells)) for cells in as_csv(rows))
            (folder / "new.csv").write_text(text + "\n", encoding="utf-8")
            before = Store(folder / "store")
            process = subprocess.Popen([*command, "--quiet"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while process.poll() is None and not holds(process.pid, store.folder):
                time.sleep(0.001)
            begin = time.perf_counter()
            try:
                wait = None if longest is None else rng.uniform(0.0, longest)
                if number % 2:
                    files = set(os.listdir(store.folder))
                    while process.poll() is None and files == set(os.listdir(store.folder)):
                        time.sleep(0.0002)
                    wait = rng.uniform(0.0, WRITING)
                process.wait(timeout=wait)
                longest = max(longest or 0.0, 1.2 * (time.perf_counter() - begin))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
                n_killed += 1
            after = Store(folder / "store")
            counted = {*after.manifest.files, "store.json", "model", "lock"}
            n_left += any(path.name not in counted for path in after.folder.iterdir())
            if replay(after.events()) != after.entities:
                raise SystemExit(f"kill {number}: the log and the entities differ")
            fresh = {str(row["unique_id"]) for row in rows}
            is_before = after.entities == before.entities and after.manifest == before.manifest
            is_after = after.entities.keys() == before.entities.keys() | fresh
            if not is_before and not is_after:
                raise SystemExit(f"kill {number}: the store is neither as before nor as after")
            n_before, n_after = n_before + is_before, n_after + (is_after and not is_before)
            if number % 25 == 24:
                print(f"{n_killed} of {number + 1} updates killed, all whole", flush=True)
        store = Store(folder / "store")
        end = there + 4 * number + 4
        store.update(records.take(np.arange(there, end)))
        whole = store.entities.keys() == set(map(str, records["unique_id"][:end].tolist()))
        print(
            f"{number + 1} updates, {n_killed} killed while they held the store: {n_before} times it is as before, "
            f"{n_after} times as after; {n_left} times there are files that do not count; then all records "
            f"{'are' if whole else 'are NOT'} put in"
        )


def holds(process: int, store: Path) -> bool:
    """Whether a process holds a store."""
    with contextlib.suppress(OSError):
        return (store / "lock").read_text() == f"{process}\n"
    return False


def as_csv(rows: list[dict[str, Any]]) -> list[list[str]]:
    """A header and quoted cells."""
    lines = [list(rows[0])]
    return lines + [
        ['"' + str(cell if cell is not None else "").replace('"', '""') + '"' for cell in row.values()] for row in rows
    ]


def main() -> None:
    """Run one of the studies."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=["speed", "batches", "decisions", "kills"])
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--new", type=int, default=1_000)
    parser.add_argument("--decisions", type=int, default=200)
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--kills", type=int, default=100)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.study == "speed":
        measure_speed(given.records, given.new)
    elif given.study == "kills":
        run_kills(given.kills)
    elif given.study == "decisions":
        run_decisions(given.decisions, given.batches)
    else:
        run_batches(given.batches)


if __name__ == "__main__":
    main()
