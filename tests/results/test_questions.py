"""The questions of the tutorial, through the command line, of customers and of historical people as they are."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import numpy as np
import pytest

from product_cases import done, read_csv, write_csv
from scdp.table.readers import read_records

# The file, ids, the truth, columns that are not compared, and the one that is lost in the second month.
SETS = {
    "crm": ("crm/records.csv", "record_id", "cluster_id", "labelled_", "phone"),
    "historical": ("historical-50k/historical_5k.csv", "unique_id", "cluster", "nothing", "dob"),
}
N_CLUSTERS = 90


def load(name):
    """Rows of some clusters, those with duplicates first, of which every second has its entity filled in."""
    file, identifier, truth, dropped, _ = SETS[name]
    path = Path(os.environ.get("SCDP_DATA", "nowhere")) / file
    if not path.exists():
        assert not os.environ.get("SCDP_REQUIRE_DATA"), f"{path} is not there"
        pytest.skip(f"data set not on this machine: {path}")
    records = read_records(path)
    clusters = records[truth].astype(str)
    names, counts = np.unique(clusters, return_counts=True)
    chosen = names[np.argsort(counts == 1, kind="stable")][: N_CLUSTERS // 2].tolist()
    chosen += names[np.argsort(counts != 1, kind="stable")][: N_CLUSTERS - len(chosen)].tolist()
    taught = set(chosen[::2])
    rows = []
    for k in np.flatnonzero(np.isin(clusters, chosen)).tolist():
        cells = {
            column: records[column][k] or ""
            for column in records.names
            if column not in (identifier, truth) and not column.startswith(dropped)
        }
        entity = clusters[k] if clusters[k] in taught else ""
        rows.append({"id": f"r{records[identifier][k]}", "entity": entity} | cells)
    # At most four records of a cluster, so that the table stays small.
    seen = {}
    small = []
    for row, cluster in zip(rows, clusters[np.isin(clusters, chosen)].tolist(), strict=True):
        seen[cluster] = seen.get(cluster, 0) + 1
        small += [row] if seen[cluster] <= 4 else []
    return small


@pytest.fixture(scope="module", params=SETS)
def asked(request, tmp_path_factory):
    """A folder with two months' results, golden records and pairs."""
    folder = tmp_path_factory.mktemp(request.param)
    rows, lost = load(request.param), SETS[request.param][-1]
    write_csv(folder / "labelled.csv", [row for row in rows if row["entity"]])
    plain = [{name: cell for name, cell in row.items() if name != "entity"} for row in rows]
    write_csv(folder / "old.csv", plain[: len(plain) * 9 // 10])
    write_csv(folder / "new.csv", [row | {lost: ""} for row in plain])
    done("fit", folder / "labelled.csv", "--write-spec", folder / "spec.toml", "--quiet")
    with (folder / "spec.toml").open("a", encoding="utf-8") as spec:
        spec.write(f'\n[golden]\n{lost} = "most complete"\n')
    done("fit", folder / "labelled.csv", "--spec", folder / "spec.toml", "--out", folder / "model", "--quiet")
    for month in ("old", "new"):
        done(
            "cluster", folder / "model", folder / f"{month}.csv", "--out", folder / f"{month}_clusters.csv",
            "--draws", folder / month, "--golden", folder / f"{month}_golden.csv",
            "--pairs", folder / f"{month}_pairs.csv", "--at-least", "0.05", "--quiet",
        )  # fmt: skip
    return folder, lost


def clusters_of(folder):
    found = {}
    for row in read_csv(folder / "old_clusters.csv"):
        found.setdefault(row["cluster"], []).append(row["id"])
    return found


def test_golden_records_follow_their_rules(asked):
    folder, lost = asked
    given = {row["id"]: row for row in read_csv(folder / "old.csv")}
    golden, clusters = ({row["cluster"]: row for row in read_csv(folder / "old_golden.csv")}, clusters_of(folder))
    assert golden.keys() == clusters.keys()
    for name, members in clusters.items():
        cells = [given[member][lost] for member in members]
        assert len(golden[name][lost]) == max(map(len, cells))
        assert 0.0 <= float(golden[name][f"{lost}_probability"]) <= 1.0
        assert int(golden[name][f"{lost}_records"]) == sum(cell == golden[name][lost] for cell in cells if cell)


def test_pairs_are_those_of_the_draws(asked):
    folder, _ = asked
    pairs = read_csv(folder / "old_pairs.csv")
    cluster = {member: name for name, members in clusters_of(folder).items() for member in members}
    assert min(float(row["probability"]) for row in pairs) >= 0.05
    for row in pairs:
        assert (row["together"] == "yes") == (cluster[row["id1"]] == cluster[row["id2"]])
    # All pairs of a draw, counted in SQL, are in the mean what the probabilities of all pairs add up to.
    counted = "SELECT count(*) AS n FROM records GROUP BY entity"
    sql = f"SELECT sum(n * (n - 1) / 2) AS pairs FROM ({counted})"
    (row,) = json.loads(done("query", folder / "old", sql, "--json").stdout)
    likely = sum(float(pair["probability"]) for pair in pairs)
    assert 0.9 * row["pairs"] - 5 <= likely <= row["pairs"] + 1e-3 * len(pairs)


def test_contributions_add_up_and_what_if_is_answered(asked):
    folder, _ = asked
    largest = max(clusters_of(folder).values(), key=len)
    said = json.loads(done("explain", folder / "old", *largest[:2], "--json").stdout)
    total = said["start"] + sum(feature["contribution"] for feature in said["features"])
    assert total == pytest.approx(said["log_odds"], abs=1e-6)
    story = json.loads(done("explain", folder / "old", "--cluster", largest[0], "--json").stdout)
    for part in ("holds", "weakest_says"):
        total = story[part]["start"] + sum(value for _, value in story[part]["contributions"])
        assert total == pytest.approx(story[part]["log_odds"], abs=1e-6)
    other = next(members[0] for members in clusters_of(folder).values() if members != largest)
    merged = json.loads(done("explain", folder / "old", "--merge", largest[0], other, "--json").stdout)
    assert merged["probability"] < 0.5
    assert merged["expected_f_after"] < merged["expected_f"]
    split = json.loads(done("explain", folder / "old", "--split", largest[0], "--json").stdout)
    assert split["n_records"] == len(largest)


def test_what_changed_is_told(asked):
    folder, lost = asked
    said = json.loads(done("compare", folder / "old", folder / "new", "--json").stdout)
    with (folder / "new.csv").open(encoding="utf-8") as file:
        n_new = sum(1 for _ in csv.DictReader(file))
    assert said["n_common"] + said["n_new"] == n_new
    assert said["n_gone"] == 0
    shift = next(each for each in said["shifts"] if each["what"] == f"no {lost}")
    assert shift["new"] == 1.0
