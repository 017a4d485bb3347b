"""`--json`: every command that ends with words can end with JSON that says the same."""

from __future__ import annotations

import json

from product_cases import QUICK, done, fitted_folder


def test_commands_say_in_json_what_they_say_in_words(tmp_path):
    folder = fitted_folder()
    fit = ("fit", folder / "train.csv", "--spec", folder / "spec.toml", *QUICK, "--out", tmp_path / "model")
    found = json.loads(done(*fit, "--json").stdout)
    assert found == {
        "out": str(tmp_path / "model"),
        "model": "scdp1",
        "n_comparisons": 3,
        "n_records": found["n_records"],
    }

    out, summary = tmp_path / "c.csv", tmp_path / "s.json"
    cluster = ("cluster", folder / "model", folder / "test.csv", "--out", out, "--summary", summary)
    found = json.loads(done(*cluster, "--json", "--quiet").stdout)
    assert found == {"out": str(out), "uncertain": str(tmp_path / "c.uncertain.csv")} | json.loads(
        summary.read_text(encoding="utf-8")
    )


def test_data_sets_are_listed_in_json():
    rows = json.loads(done("datasets", "list", "--json").stdout)
    words = done("datasets", "list").stdout.splitlines()[2:]
    assert [row["name"] for row in rows] == [line.split()[0] for line in words]
