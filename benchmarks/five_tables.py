"""Five tables that nobody prepared, from file to clusters: how many commands, how long, how good.

    SCDP_DATA=... python -m benchmarks.five_tables [--only NAME] [--out five_tables.json]

Files are as people have them: the contacts of a customer database with some groups known, restaurants, FEBRL 3 with a
space after each comma, a German file of semicolons in Latin-1, and an Excel workbook. What gives the answer away is
left out. Commands are run as a person types them, one process each, and no spec is written by hand.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

Rows = list[dict[str, str]]


def read(name: str) -> Rows:
    """A table of the data folder."""
    with Path(os.environ["SCDP_DATA"], name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, skipinitialspace=True))


def write(path: Path, rows: Rows, delimiter: str = ",", encoding: str = "utf-8") -> Path:
    """The rows as a text file."""
    with path.open("w", encoding=encoding, newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


def crm(folder: Path) -> tuple[str, dict[str, str]]:
    """Contacts; a person has grouped some sixty."""
    rows = read("crm/records.csv")
    truth = {row["record_id"]: row["cluster_id"] for row in rows}
    for row in rows:
        row["person"] = row.pop("cluster_id") if row["labelled_60_duplicates_first"] else ""
    kept = [name for name in rows[0] if name != "cluster_id" and not name.startswith("labelled_")]
    write(folder / "crm.csv", [{name: row[name] for name in kept} for row in rows])
    return "crm.csv --entity person", truth


def restaurant(folder: Path) -> tuple[str, dict[str, str]]:
    """Restaurants of two guides, no labels."""
    rows = read("restaurant/raw/restaurant.csv")
    truth = {row["id"]: row["class"] for row in rows}
    write(folder / "restaurant.csv", [{k: v for k, v in row.items() if k != "class"} for row in rows])
    return "restaurant.csv", truth


def febrl3(folder: Path) -> tuple[str, dict[str, str]]:
    """The original file, byte by byte."""
    content = Path(os.environ["SCDP_DATA"], "febrl3/raw/dataset3.csv").read_bytes()
    (folder / "dataset3.csv").write_bytes(content)
    ids = [row["rec_id"] for row in read("febrl3/raw/dataset3.csv")]
    return "dataset3.csv", {name: name.split("-")[1] for name in ids}


def german(folder: Path) -> tuple[str, dict[str, str]]:
    """People of RLdata500 as a German office keeps them."""
    names = {"record_id": "Nr", "fname_c1": "Vorname", "lname_c1": "Nachname", "lname_c2": "Geburtsname"}
    names |= {"fname_c2": "Zweiter Vorname", "by": "Geburtsjahr", "bm": "Monat", "bd": "Tag der Geburt"}
    rows = read("rldata500/records.csv")
    truth = {row["record_id"]: row["cluster_id"] for row in rows}
    umlauts = {"UE": "Ü", "OE": "Ö", "AE": "Ä"}
    kept = [
        {names[k]: re.sub("UE|OE|AE", lambda found: umlauts[found[0]], v) for k, v in row.items() if k in names}
        for row in rows
    ]
    write(folder / "personen.csv", kept, ";", "latin-1")
    return "personen.csv", truth


def excel(folder: Path) -> tuple[str, dict[str, str]]:
    """People of Splink's first example in a workbook."""
    import openpyxl

    rows = read("splink-fake-1000/fake_1000.csv")
    truth = {row["unique_id"]: row.pop("cluster") for row in rows}
    book = openpyxl.Workbook()
    book.active.append(list(rows[0]))
    for row in rows:
        book.active.append([int(row["unique_id"]), *list(row.values())[1:]])
    book.save(folder / "people.xlsx")
    return "people.xlsx", truth


TABLES: dict[str, Callable[[Path], tuple[str, dict[str, str]]]] = {
    "crm": crm,
    "restaurant": restaurant,
    "FEBRL 3": febrl3,
    "semicolons, Latin-1": german,
    "Excel": excel,
}


def measure(name: str, folder: Path) -> dict[str, Any]:
    """One table: the command, what it says, and how right it is."""
    from scdp import metrics

    given, truth = TABLES[name](folder)
    command = f"scdp cluster {given} --out clusters.csv --summary summary.json"
    start, used = time.monotonic(), os.times()
    done = subprocess.run(
        [sys.executable, "-m", "scdp.cli", *command.split()[1:]], cwd=folder, capture_output=True, text=True
    )
    seconds, now = time.monotonic() - start, os.times()
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr}")
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    with (folder / "clusters.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1:]
    ids = [row[0] for row in rows]
    low, high = summary["n_clusters_interval"]
    return {
        "table": name,
        "command": command,
        "records": len(ids),
        "seconds": round(seconds, 1),
        "cpu": round(now.children_user - used.children_user, 1),
        "f": round(float(metrics.f_score([truth[each] for each in ids], [row[1] for row in rows])), 3),
        "expected_f": [round(summary["expected"]["f"][key], 2) for key in ("low", "high")],
        "clusters": summary["n_clusters"],
        "interval": [low, high],
        "truth": len(set(truth.values())),
        "verdict": summary["verdict"],
        "said": done.stderr.splitlines(),
    }


def main() -> None:
    """Print a row for each table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(TABLES))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = []
    print("| table | records | commands | processor s | F | expected F | groups (90 %) | in truth | verdict |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in [options.only] if options.only else TABLES:
        with TemporaryDirectory() as folder:
            row = measure(name, Path(folder))
        found.append(row)
        (a, b), (low, high) = row["expected_f"], row["interval"]
        print(
            f"| {name} | {row['records']:,} | 1 | {row['cpu']:.0f} | {row['f']:.3f} | {a:.2f} to {b:.2f} | "
            f"{row['clusters']:,} ({low:,} to {high:,}) | {row['truth']:,} | {row['verdict']} |",
            flush=True,
        )
    if options.out:
        options.out.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
