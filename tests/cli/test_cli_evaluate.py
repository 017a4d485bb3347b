"""`scdp evaluate`: the right numbers from two files, and one sentence with exit code 2 for each mistake."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from click.testing import CliRunner

from scdp import metrics
from scdp.cli import main

PREDICTED = "id,cluster\na,1\nb,1\nc,2\nd,2\ne,3\n"
GOLD = "id,cluster\ne,z\nd,x\nc,y\nb,x\na,x\n"
EXPECTED = metrics.evaluate(["x", "x", "y", "x", "z"], [1, 1, 2, 2, 3])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name, content):
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())


def evaluate(*options, predicted=PREDICTED, gold=GOLD):
    write("predicted.csv", predicted)
    write("gold.csv", gold)
    return CliRunner().invoke(main, ["evaluate", "predicted.csv", "gold.csv", *options])


def refused(result, message):
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("scdp: error: ")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr
    return True


# ---- numbers ----


def test_json_has_every_metric_and_the_number_of_items(folder):
    result = evaluate("--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == pytest.approx({"items": 5, **EXPECTED})


def test_the_table_is_aligned_and_says_what_the_numbers_are(folder):
    lines = evaluate().stdout.splitlines()
    assert lines[0] == "5 items, 3 predicted clusters, 3 gold clusters"
    rows = [line.split(maxsplit=2) for line in lines[2:]]
    assert {key: value for key, value, _ in rows} == {key: f"{value:.4f}" for key, value in EXPECTED.items()}
    assert len({line.index(".") for line in lines[2:]}) == 1
    assert all(("lower is better" in text) == (key in ("ced", "vi", "ced_merge_free")) for key, _, text in rows)


def test_precision_and_recall_are_not_swapped(folder):
    coarse = "id,cluster\na,1\nb,1\nc,1\nd,1\ne,1\n"
    values = json.loads(evaluate("--json", predicted=coarse).stdout)
    assert (values["p"], values["r"]) == (0.3, 1.0)


def test_formats_mix(folder):
    parquet.write_table(pa.table({"id": [2, 1], "cluster_id": [7, 7], "extra": ["p", "q"]}), "gold.parquet")
    write("predicted.jsonl", '{"id": 1, "cluster": 0}\n{"id": 2, "cluster": 0}\n')
    result = CliRunner().invoke(main, ["evaluate", "predicted.jsonl", "gold.parquet", "--json"])
    assert json.loads(result.stdout)["f"] == 1


@pytest.mark.parametrize(
    ("predicted", "gold", "options"),
    [
        ("record_id,cluster", "record_id,entity", []),
        ("rec_id,cluster_id", "rec_id,cluster", []),
        ("unique_id,entity", "unique_id,entity", []),
        ("key,cluster", "key,cluster", ["--id", "key"]),
        ("id,label", "id,label", ["--cluster", "label"]),
        ("id,label", "id,truth", ["--cluster", "label", "--gold-cluster", "truth"]),
        ("id,cluster", "id,truth", ["--gold-cluster", "truth"]),
    ],
)
def test_columns_are_found_or_named(folder, predicted, gold, options):
    result = evaluate(
        "--json", *options, predicted=PREDICTED.replace("id,cluster", predicted), gold=GOLD.replace("id,cluster", gold)
    )
    assert json.loads(result.stdout) == pytest.approx({"items": 5, **EXPECTED})


def test_the_first_id_column_that_both_files_have_is_taken(folder):
    predicted = "id,rec_id,cluster\nx,a,1\ny,b,1\n"
    result = evaluate("--json", predicted=predicted, gold="rec_id,cluster\nb,1\na,1\n")
    assert json.loads(result.stdout)["items"] == 2


# ---- mistakes ----


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"predicted": "key,cluster\na,1\n"},
            "predicted.csv and gold.csv: no two columns hold the same ids; name the columns",
        ),
        ({"predicted": "id,label\na,1\n"}, "predicted.csv: there is no column cluster, cluster_id, entity"),
        ({"gold": "id,label\na,1\n"}, "gold.csv: there is no column cluster, cluster_id, entity"),
        ({"predicted": "id,cluster\na,1\nb,1\na,2\n"}, "predicted.csv: rows 2 and 4 have the same 'id', 'a'"),
        ({"gold": "id,cluster\na,1\nb,1\nb,2\n"}, "gold.csv: rows 3 and 4 have the same 'id', 'b'"),
        (
            {"predicted": PREDICTED + "f,9\ng,9\n"},
            "predicted.csv: 2 of its 7 ids are not in gold.csv, the first is 'f'",
        ),
        ({"gold": GOLD + "h,9\n"}, "gold.csv: 1 of its 6 ids are not in predicted.csv, the first is 'h'"),
        ({"predicted": ""}, "predicted.csv: the file is empty"),
        ({"gold": "id,cluster\n"}, "gold.csv: the file holds no records"),
        ({"gold": "id,cluster\na,Привет\n".encode("cp1251")}, "gold.csv: row 2 (byte 13) is not UTF-8 text; save"),
        ({"predicted": PREDICTED.replace("c,2", "c, ")}, "predicted.csv: row 4 has no 'cluster'; fill that cell"),
        ({"gold": GOLD.replace("d,x", ",x")}, "gold.csv: row 3 has no 'id'; fill that cell"),
    ],
)
def test_bad_files_are_refused_in_one_sentence(folder, change, message):
    assert refused(evaluate(**change), message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--id", "key"], "predicted.csv: there is no column 'key'; it has: id, cluster"),
        (["--cluster", "label"], "predicted.csv: there is no column 'label'; it has: id, cluster"),
        (["--gold-cluster", "truth"], "gold.csv: there is no column 'truth'; it has: id, cluster"),
    ],
)
def test_named_columns_that_are_not_there_are_refused(folder, options, message):
    assert refused(evaluate(*options), message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.csv", "gold.csv"], "none.csv: there is no such file"),
        (["gold.csv", "."], ".: this is a directory"),
        (["gold.csv", "gold.xls"], "gold.xls: the kind of file cannot be told from its name"),
    ],
)
def test_bad_paths_are_refused(folder, arguments, message):
    write("gold.csv", GOLD)
    write("gold.xls", "x")
    assert refused(CliRunner().invoke(main, ["evaluate", *arguments]), message)


# ---- as people run it ----


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "scdp.cli", "evaluate", *arguments], capture_output=True, text=True, timeout=900
    )


def test_a_process_prints_json_and_exits_with_0(folder):
    write("predicted.csv", PREDICTED)
    write("gold.csv", GOLD)
    done = run("predicted.csv", "gold.csv", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == pytest.approx({"items": 5, **EXPECTED})


def test_a_process_prints_one_line_and_exits_with_2(folder):
    write("gold.csv", GOLD)
    done = run("none.csv", "gold.csv")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "scdp: error: none.csv: there is no such file; check the path\n"


def test_the_installed_script_runs():
    script = Path(sys.executable).with_name("scdp")
    if not script.exists():
        pytest.skip("scdp is not installed beside this Python")
    done = subprocess.run([script, "evaluate", "--help"], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0
    assert "scdp evaluate clusters.csv gold.csv" in done.stdout


def test_ids_are_found_under_different_names_and_said(folder):
    result = evaluate(
        predicted="rec;Kunden-Nr\n1;a\n1;b\n2;c\n".replace("rec", "cluster"), gold="entity,key\nx,a\nx,b\ny,c\n"
    )
    assert result.exit_code == 0, result.output
    assert "ids are in 'Kunden-Nr' of" in result.stderr
    assert "separated by semicolons" in result.stderr
    assert re.search(r"^f +1\.0000", result.stdout, re.MULTILINE)
    named = evaluate(
        "--id", "Kunden-Nr", "--gold-id", "key", predicted="cluster;Kunden-Nr\n1;a\n", gold="entity,key\nx,a\n"
    )
    assert named.exit_code == 0, named.output
