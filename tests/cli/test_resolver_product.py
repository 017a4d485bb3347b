"""The command line with the model it takes by default: fit, cluster, evaluate, explain, given clusters, the report."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
from benchmarks.known_batches import in_batches, papers

from product_cases import citations, done, read_csv, rows_of, run, write_csv
from scdp import EntityResolver
from scdp.estimators.clustering import cluster_records
from scdp.table.readers import read_records


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Two files of citations of other papers, and a model that was fitted with nothing said about it."""
    place = tmp_path_factory.mktemp("resolver")
    train, test = citations(300)
    write_csv(place / "train.csv", rows_of(train))
    write_csv(place / "test.csv", rows_of(test))
    told = done("fit", place / "train.csv", "--out", place / "model")
    assert f"resolver, 7 comparisons, {len(train)} records" in told.stdout
    assert f"learning from {len(train)} records of {train.n_clusters} entities" in told.stderr
    arguments = ("--draws", place / "draws", "--report", place / "report.html")
    done("cluster", place / "model", place / "test.csv", "--out", place / "clusters.csv", *arguments)
    return place


def clusters_in(path: Path) -> dict[str, str]:
    return {row["id"]: row["cluster"] for row in read_csv(path)}


def test_the_folder_holds_no_record_of_the_training(folder: Path):
    about = json.loads((folder / "model" / "model.json").read_text(encoding="utf-8"))
    assert about["model"] == "resolver"
    title = read_csv(folder / "train.csv")[0]["title"]
    for file in (folder / "model").iterdir():
        assert title.encode() not in file.read_bytes()


def test_clusters_of_papers_never_seen_are_found(folder: Path):
    scores = json.loads(done("evaluate", folder / "clusters.csv", folder / "test.csv", "--json").stdout)
    assert scores["items"] == len(read_csv(folder / "test.csv"))
    assert scores["f"] > 0.9
    probabilities = [float(row["probability"]) for row in read_csv(folder / "clusters.csv")]
    assert 0.7 < np.mean(probabilities) <= 1


def test_the_command_says_no_word_of_chains(folder: Path, tmp_path: Path):
    told = done("cluster", folder / "model", folder / "test.csv", "--out", tmp_path / "c.csv")
    assert "converged" not in told.stderr + told.stdout
    assert re.search(r"records in \d+ clusters \(90 % interval \d+ to \d+\)", told.stdout)
    assert clusters_in(tmp_path / "c.csv") == clusters_in(folder / "clusters.csv")


def test_the_order_of_rows_changes_no_name(folder: Path, tmp_path: Path):
    rows = read_csv(folder / "test.csv")
    shuffled = [rows[k] for k in np.random.default_rng(0).permutation(len(rows))]
    write_csv(tmp_path / "test.csv", shuffled)
    done("cluster", folder / "model", tmp_path / "test.csv", "--out", tmp_path / "c.csv")
    assert clusters_in(tmp_path / "c.csv") == clusters_in(folder / "clusters.csv")


def test_an_uncertain_pair_is_explained(folder: Path):
    pair = read_csv(folder / "clusters.uncertain.csv")[0]
    arguments = ("explain", folder / "model", folder / "test.csv", pair["id1"], pair["id2"])
    words = done(*arguments, "--draws", folder / "draws").stdout
    assert f"The probability that they are together is {float(pair['probability']):.3f}." in words
    assert " (title: " in words
    assert "Reference types" not in words
    found = json.loads(done(*arguments, "--quiet", "--json").stdout)
    assert found["probability"] == pytest.approx(float(pair["probability"]), abs=1e-3)
    spec = tomllib.loads((folder / "model" / "spec.toml").read_text(encoding="utf-8"))
    assert len(found["features"]) == len(spec["field"])


def test_the_report_shows_what_was_learned_and_how_honest_it_is(folder: Path):
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert "resolver" in text
    assert "alibration" in text or "held-out" in text
    assert "R-hat" not in text


def test_given_clusters_keep_their_names_and_records(folder: Path, tmp_path: Path):
    gold = {row["id"]: row["entity"] for row in read_csv(folder / "test.csv")}
    given = [{"id": name, "cluster": f"paper {gold[name]}"} for name in list(gold)[::3]]
    write_csv(tmp_path / "known.csv", given)
    arguments = ("cluster", folder / "model", folder / "test.csv", "--known", tmp_path / "known.csv")
    done(*arguments, "--out", tmp_path / "c.csv")
    rows = {row["id"]: row for row in read_csv(tmp_path / "c.csv")}
    for row in given:
        assert rows[row["id"]]["cluster"] == row["cluster"]
        assert float(rows[row["id"]]["probability"]) == 1
    others = [name for name in gold if name not in {row["id"] for row in given}]
    names = {row["cluster"] for row in given}
    joined = [rows[name]["cluster"] == f"paper {gold[name]}" for name in others if f"paper {gold[name]}" in names]
    assert np.mean(joined) > 0.8
    done(*arguments, "--out", tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "c.csv").read_bytes()


def test_python_and_the_command_line_say_the_same(folder: Path):
    model = EntityResolver.load(folder / "model")
    result = cluster_records(model, read_records(folder / "test.csv"))
    assert dict(zip(result.ids, result.labels, strict=True)) == clusters_in(folder / "clusters.csv")
    assert result.independent_draws
    assert result.learned.calibration is not None


def test_rows_without_an_entity_are_clustered_too(folder: Path, tmp_path: Path):
    rows = read_csv(folder / "train.csv")
    for row in rows[::4]:
        row["entity"] = ""
    write_csv(tmp_path / "train.csv", rows)
    told = done("fit", tmp_path / "train.csv", "--out", tmp_path / "model")
    assert f"learning from {len(rows) - len(rows[::4])} records" in told.stderr
    assert len(EntityResolver.load(tmp_path / "model").labels_) == len(rows)


def test_documents_are_kept_apart(folder: Path, tmp_path: Path):
    for name in ("train.csv", "test.csv"):
        rows = [row | {"list": str(k % 2)} for k, row in enumerate(read_csv(folder / name))]
        for row in rows:
            row["entity"] += row["list"]
        write_csv(tmp_path / name, rows)
    done("fit", tmp_path / "train.csv", "--groups", "list", "--out", tmp_path / "model")
    done("cluster", tmp_path / "model", tmp_path / "test.csv", "--out", tmp_path / "c.csv")
    lists = {row["id"]: row["list"] for row in read_csv(tmp_path / "test.csv")}
    found = clusters_in(tmp_path / "c.csv")
    homes = {cluster: {lists[name] for name in found if found[name] == cluster} for cluster in found.values()}
    assert all(len(home) == 1 for home in homes.values())


@pytest.mark.parametrize("rows", [1, 2])
def test_one_record_and_two_that_are_the_same(folder: Path, tmp_path: Path, rows: int):
    first = read_csv(folder / "test.csv")[0]
    write_csv(tmp_path / "new.csv", [first | {"id": f"n{k}"} for k in range(rows)])
    done("cluster", folder / "model", tmp_path / "new.csv", "--out", tmp_path / "c.csv")
    assert clusters_in(tmp_path / "c.csv") == {f"n{k}": "c-n0" for k in range(rows)}


def test_a_damaged_model_is_one_sentence(folder: Path, tmp_path: Path):
    import shutil

    shutil.copytree(folder / "model", tmp_path / "model")
    with np.load(tmp_path / "model" / "arrays.npz") as file:
        arrays = {name: file[name] for name in file.files}
    arrays["heights"] = arrays["heights"][:, 1:]
    np.savez(tmp_path / "model" / "arrays.npz", **arrays)
    result = run("cluster", tmp_path / "model", folder / "test.csv", "--out", tmp_path / "c.csv")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"scdp: error: {tmp_path / 'model'}: 'heights' has shape")
    assert len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "c.csv").exists()


def test_batches_rename_nothing_and_lose_little():
    """In the mean of three tables: what an early batch gets wrong stays wrong, so that one table says little."""
    found = [in_batches(*papers(200, seed=seed), n_batches=10) for seed in range(3)]
    assert all(each.renamed == 0 for each in found)
    lost = [each.f_at_once - each.f_in_batches for each in found]
    assert np.mean(lost) < 0.05
    assert min(each.f_at_once for each in found) > 0.85


def test_clusters_that_are_filled_in_are_kept_with_a_model(folder: Path, tmp_path: Path):
    rows = read_csv(folder / "test.csv")
    for number, row in enumerate(rows):
        row["group"] = f"paper {row['entity']}" if number % 3 == 0 else ""
    write_csv(tmp_path / "test.csv", rows)
    arguments = ("cluster", folder / "model", tmp_path / "test.csv", "--entity", "group")
    done(*arguments, "--out", tmp_path / "c.csv")
    found = {row["id"]: row for row in read_csv(tmp_path / "c.csv")}
    for row in rows[::3]:
        assert found[row["id"]]["cluster"] == row["group"]
        assert float(found[row["id"]]["probability"]) == 1
    refused = run("cluster", folder / "model", tmp_path / "test.csv", "--entity", "wrong", "--out", tmp_path / "d.csv")
    assert refused.exit_code == 2
    assert "wrong" in refused.stderr
