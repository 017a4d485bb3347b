"""Golden records, pairs, and what changed between two results."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from product_cases import done, read_csv, run
from result_cases import column, resolved_papers, small_result
from scdp import Spec
from scdp.errors import InputError
from scdp.results import read_result, write_result
from scdp.results.changes import compare_results
from scdp.results.estimate import list_pairs, make_golden, make_rule
from scdp.table import Records, records_from
from scdp.table.readers import read_records

TABLE = {
    "name": ["Ann", "Ann", "Anna", None, "Bo"],
    "seen": ["2020-01-03", "2021-05-01", "2019-01-01", None, None],
    "visits": ["9", "10", None, "2", None],
}


def named_result():
    records = Records(records_from(TABLE).columns | {"id": column(["a", "b", "c", "d", "e"])}, "t.csv")
    return replace(small_result(), records=records, ids=records["id"])


@pytest.mark.parametrize(
    ("rule", "rows", "value"),
    [
        ("most frequent", [0, 1, 2], "Ann"),
        ("most frequent", [1, 2], "Anna"),
        ("most complete", [0, 1, 2], "Anna"),
        ("most recent by seen", [0, 1, 2, 3], "Ann"),
        ("most recent by visits", [2, 4], "Anna"),
        ("most frequent", [3], None),
    ],
)
def test_values_follow_their_rules(rule, rows, value):
    records = records_from(TABLE)
    row = make_rule(rule, "name", records)(rows)
    assert (None if row is None else records["name"][row]) == value


def test_numbers_are_ordered_as_numbers():
    assert make_rule("most recent by visits", "name", records_from(TABLE))([0, 1]) == 1


def test_golden_values_have_the_probability_of_a_plain_loop():
    result = named_result()
    table = make_golden(result, {"name": "most complete"})
    assert table["cluster"] == ["c-0", "c-1", "c-2"]
    assert table["records"] == [2, 2, 1]
    assert table["name"] == ["Ann", "Anna", "Bo"]
    assert table["name_records"] == [2, 1, 1]
    draws, names = result.posterior.draws[0], TABLE["name"]
    for k, (anchor, value) in enumerate(((0, "Ann"), (3, "Anna"), (4, "Bo"))):
        said = []
        for draw in draws:
            cells = [names[i] for i in range(5) if draw[i] == draw[anchor] and names[i] is not None]
            said.append(max(cells, key=len) == value if cells else False)
        surest = max(np.flatnonzero(result.labels == f"c-{k}"), key=lambda i: (result.probabilities[i], -i))
        if surest == anchor:
            assert table["name_probability"][k] == pytest.approx(np.mean(said), abs=1e-4)
    with pytest.raises(InputError, match="there is no rule 'best'"):
        make_golden(result, {"name": "best"})
    with pytest.raises(InputError, match="there is no column 'town'"):
        make_golden(result, {"town": "most complete"})


def test_rules_are_kept_in_the_spec(tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text('entity = "e"\n[golden]\n"my city" = "most recent by seen"\n', encoding="utf-8")
    spec = Spec.from_toml(path)
    assert spec.golden == (("my city", "most recent by seen"),)
    path.write_text(spec.to_toml(), encoding="utf-8")
    assert Spec.from_toml(path) == spec
    path.write_text('entity = "e"\n[golden]\ncity = 3\n', encoding="utf-8")
    with pytest.raises(InputError, match="line 2: golden must be a table of rules"):
        Spec.from_toml(path)


def test_pairs_have_the_probabilities_of_the_draws():
    result = named_result()
    pairs = list_pairs(result, 0.01)
    together, place = result.posterior.co_clustering_matrix(), {name: k for k, name in enumerate("abcde")}
    assert len(pairs["id1"]) == (np.triu(together, k=1) >= 0.01).sum()
    for one, other, p, said in zip(*(pairs[name].tolist() for name in pairs), strict=True):
        assert p == pytest.approx(together[place[one], place[other]], abs=6e-5)
        assert (said == "yes") == (result.labels[place[one]] == result.labels[place[other]])


def test_the_command_writes_golden_records_and_pairs(tmp_path):
    papers = resolved_papers()
    done(
        "cluster", papers / "model", papers / "new.csv", "--out", tmp_path / "c.csv", "--quiet",
        "--golden", tmp_path / "g.csv", "--pairs", tmp_path / "p.parquet", "--at-least", "0.5",
    )  # fmt: skip
    golden, clusters = read_csv(tmp_path / "g.csv"), read_csv(tmp_path / "c.csv")
    assert {row["cluster"] for row in golden} == {row["cluster"] for row in clusters}
    assert sum(int(row["records"]) for row in golden) == len(clusters)
    assert all(0 <= float(row["title_probability"]) <= 1 for row in golden)
    pairs = read_records(tmp_path / "p.parquet")
    assert min(map(float, pairs["probability"])) >= 0.5
    refused = run("cluster", papers / "model", papers / "new.csv", "--out", tmp_path / "d.csv", "--at-least", "0")
    assert refused.exit_code == 2


def changed_result():
    """The first two are apart now, the third is with them, the fourth is gone, and a new one has come."""
    result = named_result()
    cells = {name: result.records[name].copy() for name in result.records.names}
    cells["id"][3] = "new"
    labels = column(["c-0", "c-b", "c-0", "c-new", "c-2"])
    return replace(result, records=Records(cells, "new.csv"), ids=cells["id"], labels=labels)


def test_what_became_of_the_entities(tmp_path):
    write_result(named_result(), tmp_path / "old")
    write_result(changed_result(), tmp_path / "new")
    drift = compare_results(read_result(tmp_path / "old"), read_result(tmp_path / "new"))
    assert (drift.n_common, drift.n_new, drift.n_gone) == (4, 1, 1)
    assert drift.merged == ((("c-0", "c-1"), ("c-0",)),)
    assert drift.split == ((("c-0",), ("c-0", "c-b")),)
    assert drift.appeared == ("c-new",)
    assert drift.vanished == ()
    assert drift.unchanged == 1
    said = json.loads(done("compare", tmp_path / "old", tmp_path / "new", "--json").stdout)
    assert said["appeared"] == ["c-new"]
    words = done("compare", tmp_path / "old", tmp_path / "new").stdout
    assert "1 merged, 1 split, 1 appeared, 0 vanished" in words
    same = done("compare", tmp_path / "old", tmp_path / "old").stdout
    assert "looks like the last one" in same
    assert "0 merged, 0 split" in same


def test_a_table_unlike_the_last_is_told(tmp_path):
    old = named_result()
    cells = {name: np.tile(old.records[name], 40) for name in old.records.names}
    cells["id"] = column([str(k) for k in range(200)])
    labels = column([f"c-{k}" for k in range(200)])
    draws = np.tile(np.arange(200), (1, 2, 1))
    posterior = type(old.posterior)(draws, names=cells["id"])
    whole = replace(
        old,
        records=Records(cells, "o"),
        ids=cells["id"],
        labels=labels,
        probabilities=np.ones(200),
        posterior=posterior,
    )
    empty = cells | {"name": column([None] * 200)}
    write_result(whole, tmp_path / "old")
    write_result(replace(whole, records=Records(empty, "n")), tmp_path / "new")
    words = done("compare", tmp_path / "old", tmp_path / "new").stdout
    assert "no name: 20.0% before, 100.0% now" in words


def test_evidence_unlike_the_last_is_told(tmp_path):
    kept = read_result(resolved_papers() / "kept")
    cells = dict(kept.records.columns)
    # Titles of linked records say nothing any more: each is that of another record.
    cells["title"] = np.roll(cells["title"], len(cells["title"]) // 2)
    write_result(replace(kept.result, records=Records(cells, "new.csv")), tmp_path / "new", kept.model)
    same = compare_results(kept, kept)
    assert same.shifts == ()
    drift = compare_results(kept, read_result(tmp_path / "new"))
    said = {shift.what: shift for shift in drift.shifts}
    title = next(name for name, shift in said.items() if "title" in name and shift.unit == "log-odds")
    assert said[title].new < said[title].old - 0.5
    assert said["what linked records say by all that is compared"].new < 0
    words = done("compare", resolved_papers() / "kept", tmp_path / "new").stdout
    assert f"{title}: {said[title].old:+.2f} before" in words
    # Without its columns, or without a model, nothing is said of evidence.
    cells.pop("title")
    write_result(replace(kept.result, records=Records(cells, "less.csv")), tmp_path / "less")
    assert all(shift.unit == "share" for shift in compare_results(kept, read_result(tmp_path / "less")).shifts)
    assert all(shift.unit == "share" for shift in compare_results(read_result(tmp_path / "less"), kept).shifts)
