"""`scdp fit` and `scdp cluster`: from files of records to files of clusters, known entities, stable names."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import scdp.results as folder_of_result
from product_cases import QUICK, SPEC, citations, done, fitted_folder, read_csv, rows_of, run, write_csv
from scdp import SCDP, EntityResolver, Spec, metrics
from scdp.datasets import make_records
from scdp.errors import InputError
from scdp.estimators import clustering
from scdp.estimators.clustering import cluster_names, cluster_records, uncertain_pairs
from scdp.estimators.result import Calibration
from scdp.io.atomic import Staged
from scdp.io.targets import stage_table
from scdp.posterior import Posterior
from scdp.report import outputs
from scdp.results import read_result
from scdp.table.readers import read_records

pytestmark = pytest.mark.filterwarnings("ignore::scdp.posterior.recorder.ConvergenceWarning")


@pytest.fixture
def folder():
    return fitted_folder()


def clusters_of(path: Path) -> dict[str, str]:
    return {row["id"]: row["cluster"] for row in read_csv(path)}


# ---- fit ----


def test_a_proposed_spec_is_commented_and_can_be_edited_and_used(folder, tmp_path):
    result = done("fit", folder / "train.csv", "--write-spec", tmp_path / "spec.toml")
    assert "wrote" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["spec.toml"]
    text = (tmp_path / "spec.toml").read_text(encoding="utf-8")
    content = tomllib.loads(text)
    assert (content["entity"], content["id"]) == ("entity", "id")
    assert {"title", "author", "year", "venue"} == {field["column"] for field in content["field"]}
    assert text.count("% missing, ") >= len(content["field"])
    shorter = text[: text.rindex("# ")]
    (tmp_path / "spec.toml").write_text(shorter, encoding="utf-8")
    spec = Spec.from_toml(tmp_path / "spec.toml")
    done("fit", folder / "train.csv", "--spec", tmp_path / "spec.toml", "--out", tmp_path / "model", *QUICK, "--quiet")
    assert SCDP.load(tmp_path / "model").spec.names == spec.names


def test_options_count_for_more_than_the_spec_and_columns_are_found_by_name(tmp_path):
    rows = [{"rec_id": row["id"], "paper": row["entity"], "title": row["title"]} for row in rows_of(citations()[0])]
    write_csv(tmp_path / "a.csv", rows)
    (tmp_path / "spec.toml").write_text(
        'entity = "nothing"\n[[field]]\nkind = "edit"\ncolumn = "title"\n', encoding="utf-8"
    )
    out = tmp_path / "model"
    done(
        "fit",
        tmp_path / "a.csv",
        "--spec",
        tmp_path / "spec.toml",
        "--entity",
        "paper",
        "--out",
        out,
        *QUICK,
        "--seed",
        "4",
    )
    model = SCDP.load(out)
    assert (model.spec.entity, model.spec.id, model.random_state) == ("paper", "rec_id", 4)


def test_rows_without_an_entity_are_unknown_and_sampling_takes_whole_clusters(folder, tmp_path):
    rows = rows_of(citations()[0])
    kept = sorted({row["entity"] for row in rows})[:-2]
    some = [row | {"entity": row["entity"] if row["entity"] in kept else ""} for row in rows]
    write_csv(tmp_path / "a.csv", some)
    done("fit", tmp_path / "a.csv", "--spec", folder / "spec.toml", "--out", tmp_path / "all", *QUICK)
    model = SCDP.load(tmp_path / "all")
    unknown = [row["entity"] == "" for row in some]
    assert len(model.posterior_.hidden) == sum(unknown) > 0
    result = done(
        "fit", tmp_path / "a.csv", "--spec", folder / "spec.toml", "--out", tmp_path / "few", *QUICK, "--sample", "3"
    )
    few = SCDP.load(tmp_path / "few")
    assert len(np.unique(few.labels_)) == 3
    assert "of 3 entities" in result.stderr
    sizes = {name: sum(row["entity"] == name for row in some) for name in kept}
    assert all(size in sizes.values() for size in np.bincount(few.labels_))


def test_quiet_says_nothing_and_otherwise_it_says_what_it_did(folder, tmp_path):
    arguments = ("fit", folder / "train.csv", "--spec", folder / "spec.toml", *QUICK, "--out", tmp_path / "m")
    said = done(*arguments)
    assert "learning from" in said.stderr
    assert "3 comparisons" in said.stdout
    quiet = done(*arguments, "--quiet", "--force")
    assert quiet.output == ""
    out = ("--out", tmp_path / "c.csv")
    assert done("cluster", folder / "model", folder / "test.csv", *out, "--quiet").output == ""
    said = done("cluster", folder / "model", folder / "test.csv", *out, "--force")
    assert "90 % interval" in said.stdout


# ---- cluster ----


def test_the_files_say_what_the_python_interface_says(folder, tmp_path):
    out = tmp_path / "clusters.csv"
    done("cluster", folder / "model", folder / "test.csv", "--out", out, "--draws", tmp_path / "draws")
    rows = read_csv(out)
    train, test = read_records(folder / "train.csv"), read_records(folder / "test.csv")
    assert list(rows[0]) == ["id", "cluster", "probability"]
    assert [row["id"] for row in rows] == test["id"].tolist()
    codes = np.unique(train["entity"].astype(str), return_inverse=True)[1]
    model = SCDP("scdp1", spec=Spec.from_toml(folder / "spec.toml"), n_chains=2, n_sweeps=20, random_state=0)
    labels, posterior = model.fit(train, codes).predict_with_posterior(test)
    found = [row["cluster"] for row in rows]
    assert metrics.f_score(labels, found) == 1.0
    gold = test["entity"].tolist()
    assert metrics.f_score(gold, found) == metrics.f_score(gold, labels)
    np.testing.assert_allclose(
        [float(row["probability"]) for row in rows], posterior.membership_probability(labels), atol=6e-5
    )
    kept = read_result(tmp_path / "draws").posterior
    assert kept.names.tolist() == test["id"].tolist()
    assert kept.co_clustering(0, 5) == posterior.co_clustering(0, 5)
    evaluated = json.loads(done("evaluate", out, folder / "test.csv", "--json").stdout)
    assert evaluated["f"] == metrics.f_score(gold, labels)


def test_uncertain_pairs_are_listed_the_least_certain_first(folder, tmp_path):
    out = tmp_path / "clusters.csv"
    done("cluster", folder / "model", folder / "test.csv", "--out", out, "--draws", tmp_path)
    pairs = read_csv(tmp_path / "clusters.uncertain.csv")
    assert list(pairs[0]) == ["id1", "id2", "probability", "together"]
    distances = [round(abs(float(pair["probability"]) - 0.5), 6) for pair in pairs]
    assert distances == sorted(distances)
    assert max(distances) <= 0.45
    posterior = read_result(tmp_path).posterior
    together = posterior.co_clustering_matrix()
    inside = np.triu((together >= 0.05) & (together <= 0.95), k=1)
    assert len(pairs) == inside.sum() > 0
    cluster = clusters_of(out)
    place = {name: item for item, name in enumerate(posterior.names)}
    for pair in pairs:
        assert (pair["together"] == "yes") == (cluster[pair["id1"]] == cluster[pair["id2"]])
        expected = together[place[pair["id1"]], place[pair["id2"]]]
        assert float(pair["probability"]) == pytest.approx(expected, abs=6e-5)


def test_many_records_are_counted_sparsely_with_the_same_result(monkeypatch):
    rng = np.random.default_rng(0)
    posterior = Posterior(rng.integers(0, 6, size=(2, 30, 40)))
    labels = posterior.point_estimate()
    dense = uncertain_pairs(posterior, labels)
    monkeypatch.setattr(clustering, "DENSE_ITEMS", 5)
    assert uncertain_pairs(posterior, labels) == dense
    assert len(uncertain_pairs(posterior, labels, at_most=7)) == 7


def test_names_and_probabilities_do_not_depend_on_the_order_of_rows(folder, tmp_path):
    done("cluster", folder / "model", folder / "test.csv", "--out", tmp_path / "a.csv")
    rows = rows_of(citations()[1])
    random.Random(1).shuffle(rows)
    write_csv(tmp_path / "shuffled.csv", rows)
    done("cluster", folder / "model", tmp_path / "shuffled.csv", "--out", tmp_path / "b.csv")
    first, second = (sorted(read_csv(tmp_path / name), key=lambda row: row["id"]) for name in ("a.csv", "b.csv"))
    assert first == second
    for name in {row["cluster"] for row in first}:
        assert name == "c-" + min(row["id"] for row in first if row["cluster"] == name)


def test_a_new_name_never_takes_a_given_one():
    labels, ids = np.array([0, 0, 7, 8]), np.array(["b", "a", "z", "y"], dtype=object)
    assert cluster_names(labels, ids, ["c-y"]).tolist() == ["c-y", "c-y", "c-z", "c-y-2"]


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet"])
def test_every_kind_of_file_goes_in_and_out(kind, folder, tmp_path):
    table = read_records(folder / "test.csv")
    few = table.take(np.arange(12))
    with Staged() as staged:
        stage_table(staged, tmp_path / f"new.{kind}", few.columns)
    again = read_records(tmp_path / f"new.{kind}")
    assert list(again.rows()) == list(few.rows())
    out = tmp_path / f"clusters.{kind}"
    done("cluster", folder / "model", tmp_path / f"new.{kind}", "--out", out, "--quiet")
    found = read_records(out)
    assert found.names == ("id", "cluster", "probability")
    assert found["id"].tolist() == few["id"].tolist()
    assert all(0 <= float(p) <= 1 for p in found["probability"])
    assert (tmp_path / f"clusters.uncertain.{kind}").exists()
    if kind == "parquet":
        import duckdb

        query = "SELECT typeof(probability) FROM read_parquet(?) LIMIT 1"
        with duckdb.connect() as connection:
            assert connection.execute(query, [str(out)]).fetchall() == [("DOUBLE",)]


def test_columns_with_quotes_in_their_names_survive_parquet(tmp_path):
    columns = {'a "b"; DROP TABLE x --': ["1'", '"'], "n": [0.5, 0.25], "t": [True, False], "none": [None, "x"]}
    with Staged() as staged:
        stage_table(staged, tmp_path / "it's.parquet", columns)
    again = read_records(tmp_path / "it's.parquet")
    assert again.names == tuple(columns)
    assert again['a "b"; DROP TABLE x --'].tolist() == ["1'", '"']
    assert again["none"].tolist() == [None, "x"]


def test_without_ids_rows_are_named_by_their_number(folder, tmp_path):
    rows = [{k: v for k, v in row.items() if k != "id"} for row in rows_of(citations()[0])]
    write_csv(tmp_path / "train.csv", rows)
    text = SPEC.replace('id = "id"\n', "")
    (tmp_path / "spec.toml").write_text(text, encoding="utf-8")
    spec = ("--spec", tmp_path / "spec.toml")
    done("fit", tmp_path / "train.csv", *spec, "--out", tmp_path / "model", *QUICK, "--quiet")
    done("cluster", tmp_path / "model", tmp_path / "train.csv", "--out", tmp_path / "c.csv", "--quiet")
    assert [row["id"] for row in read_csv(tmp_path / "c.csv")][:3] == ["2", "3", "4"]


def test_documents_are_kept_apart(tmp_path):
    parts = [rows_of(part) for part in citations()]
    for name, rows in zip(("train", "test"), parts, strict=True):
        write_csv(tmp_path / f"{name}.csv", [row | {"page": f"p{k % 3}"} for k, row in enumerate(rows)])
    train = read_csv(tmp_path / "train.csv")
    for row in train:
        row["entity"] = row["entity"] + row["page"]
    write_csv(tmp_path / "train.csv", train)
    (tmp_path / "spec.toml").write_text(SPEC, encoding="utf-8")
    options = ("--spec", tmp_path / "spec.toml", "--groups", "page", "--out", tmp_path / "model")
    done("fit", tmp_path / "train.csv", *options, *QUICK, "--quiet")
    assert SCDP.load(tmp_path / "model").spec.group == "page"
    done("cluster", tmp_path / "model", tmp_path / "test.csv", "--out", tmp_path / "c.csv", "--quiet")
    page = {row["id"]: row["page"] for row in read_csv(tmp_path / "test.csv")}
    homes: dict[str, set[str]] = {}
    for identifier, cluster in clusters_of(tmp_path / "c.csv").items():
        homes.setdefault(cluster, set()).add(page[identifier])
    assert all(len(pages) == 1 for pages in homes.values())


def test_another_seed_draws_otherwise(folder, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        done(
            "cluster",
            folder / "model",
            folder / "test.csv",
            "--out",
            tmp_path / f"{name}.csv",
            "--seed",
            seed,
            "--quiet",
        )
    a, b, c = ((tmp_path / f"{name}.csv").read_text() for name in "abc")
    assert a == b != c


def test_a_report_is_written_with_the_rest(folder, tmp_path):
    pytest.importorskip("scdp.report.outputs")
    page = tmp_path / "report.html"
    done("cluster", folder / "model", folder / "test.csv", "--out", tmp_path / "c.csv", "--report", page)
    assert "<html" in page.read_text(encoding="utf-8")


# ---- known entities ----


def test_given_clusters_keep_names_and_records_and_gain_new_ones(folder, tmp_path):
    rows = rows_of(citations()[1])
    half = [row for k, row in enumerate(rows) if k % 2 == 0]
    known = [{"id": row["id"], "cluster": f"paper {row['entity']}"} for row in half]
    write_csv(tmp_path / "known.csv", known)
    done(
        "cluster", folder / "model", folder / "test.csv", "--known", tmp_path / "known.csv", "--out", tmp_path / "c.csv"
    )
    found = read_csv(tmp_path / "c.csv")
    cluster = clusters_of(tmp_path / "c.csv")
    assert all(cluster[row["id"]] == row["cluster"] for row in known)
    given = {row["id"] for row in known}
    assert all(float(row["probability"]) == 1 for row in found if row["id"] in given)
    joined = [row for row in found if row["id"] not in given and row["cluster"].startswith("paper")]
    assert len(joined) > 10
    truth = {row["id"]: f"paper {row['entity']}" for row in rows}
    assert np.mean([row["cluster"] == truth[row["id"]] for row in joined]) > 0.9
    new = [row for row in rows if row["id"] not in given]
    write_csv(tmp_path / "new.csv", new)
    write_csv(tmp_path / "old.csv", half)
    done(
        "cluster",
        folder / "model",
        tmp_path / "new.csv",
        "--known",
        tmp_path / "known.csv",
        "--known-records",
        tmp_path / "old.csv",
        "--out",
        tmp_path / "d.csv",
    )
    assert clusters_of(tmp_path / "d.csv") == cluster


def peak_memory(*arguments: object) -> float:
    """Megabytes that a command takes at most, in a process of its own (which getrusage would not tell apart)."""
    code = (
        "import sys; from pathlib import Path; from scdp.cli import main; "
        "main(sys.argv[1:], standalone_mode=False); print(Path('/proc/self/status').read_text())"
    )
    command = [sys.executable, "-c", code, *map(str, arguments)]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return int(re.search(r"VmHWM:\s+(\d+) kB", shown)[1]) / 1024


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is told there")
def test_a_thousand_records_in_ten_batches_rename_nothing_and_at_once_take_little_memory(tmp_path):
    made = make_records(1400, kind="people", mean_cluster_size=3, seed=5)
    names = ("first_name", "surname", "birth_date", "postcode", "phone")
    rows = [
        {"id": str(made.ids[k]), "entity": str(made.clusters[k])} | {name: made.data[name][k] or "" for name in names}
        for k in range(len(made))
    ]
    shown = {entity for entity in made.clusters if int(entity[1:]) % 5 == 0}
    write_csv(tmp_path / "train.csv", [row for row in rows if row["entity"] in shown])
    rows = [row for row in rows if row["entity"] not in shown][:1000]
    fields = [f'[[field]]\nkind = "edit"\ncolumn = "{name}"\n' for name in names]
    (tmp_path / "spec.toml").write_text('entity = "entity"\nid = "id"\n' + "".join(fields), encoding="utf-8")
    spec = ("--spec", tmp_path / "spec.toml")
    done("fit", tmp_path / "train.csv", *spec, "--out", tmp_path / "model", "--chains", 2, "--sweeps", 40)
    out = tmp_path / "clusters.csv"
    before: dict[str, str] = {}
    for end in range(100, 1001, 100):
        write_csv(tmp_path / "so far.csv", rows[:end])
        known = ("--known", out) if before else ()
        done("cluster", tmp_path / "model", tmp_path / "so far.csv", *known, "--out", out, "--quiet", "--force")
        after = clusters_of(out)
        assert {identifier: after[identifier] for identifier in before} == before
        assert len(after) == end
        before = after
    gold = {row["id"]: row["entity"] for row in rows}
    score = metrics.f_score([gold[identifier] for identifier in before], list(before.values()))
    at_once = ("cluster", tmp_path / "model", tmp_path / "so far.csv", "--out", tmp_path / "once.csv", "--force")
    # Compiling takes memory of its own: once is allowed to find the kernels not compiled yet.
    assert peak_memory(*at_once) < 500 or peak_memory(*at_once) < 500
    found = clusters_of(tmp_path / "once.csv")
    whole = metrics.f_score([gold[identifier] for identifier in found], list(found.values()))
    assert whole > 0.7
    assert score > whole - 0.05


def test_known_rows_in_python():
    X = np.array([[0.0], [0.1], [5.0], [5.1], [9.0]])
    model = SCDP(n_chains=2, n_sweeps=60, random_state=0, standardize=False, mean_variance=20.0)
    rng = np.random.default_rng(0)
    centres = np.repeat(rng.normal(size=12) * 5, 4)[:, None]
    model.fit(centres + rng.normal(size=(48, 1)) * 0.05, np.repeat(np.arange(12), 4))
    labels, posterior = model.predict_with_posterior(X, known=[3, -1, 1, -1, -1])
    assert labels[:4].tolist() == [3, 3, 1, 1]
    assert labels[4] > 11
    assert posterior.hidden.tolist() == [1, 3, 4]
    # Contradicting what the distances say, to see that what is given stays.
    forced = model.predict_posterior(X, known=[0, 1, 0, 1, -1])
    assert (forced.co_clustering(0, 2), forced.co_clustering(0, 1)) == (1.0, 0.0)
    assert model.predict_posterior(X).n_items == 5
    with pytest.raises(InputError, match="known has shape"):
        model.predict(X, known=[0])


def test_known_clusters_stay_within_a_group():
    X, groups = np.array([[0.0], [0.1], [5.0], [5.1]]), np.array([0, 0, 1, 1])
    model = SCDP(n_chains=1, n_sweeps=6, random_state=0).fit(X, [0, 0, 1, 2], groups)
    assert model.predict(X, groups, known=[4, -1, 7, -1])[[0, 2]].tolist() == [4, 7]
    with pytest.raises(InputError, match="known cluster 4 has rows in two groups, 0 and 1"):
        model.predict(X, groups, known=[4, -1, 4, -1])


def test_tables_of_other_libraries_are_clustered_in_python(folder):
    pandas = pytest.importorskip("pandas")
    model = SCDP.load(folder / "model")
    frame = pandas.read_csv(folder / "test.csv", dtype=str)
    found = cluster_records(model, frame)
    assert found.labels.tolist() == cluster_records(model, read_records(folder / "test.csv")).labels.tolist()
    assert found.n_records == len(frame) == found.sizes.sum()
    assert found.n_clusters == len(found.sizes)
    assert found.n_known == 0
    known = {found.ids[0]: "x"}
    assert cluster_records(model, frame, known).n_known == 1


def test_calibration_is_counted_by_bins():
    table = Calibration.of(np.array([0.0, 0.05, 0.95, 1.0]), np.array([False, True, True, True]))
    assert table.count.tolist() == [2, *[0] * 8, 2]
    assert table.observed[[0, 9]].tolist() == [0.5, 1.0]
    assert table.predicted[[0, 9]].tolist() == pytest.approx([0.025, 0.975])
    assert np.isnan(table.predicted[4])


# ---- nothing half-written ----


@pytest.mark.parametrize("problem", [KeyboardInterrupt(), RuntimeError("broken")])
def test_an_interruption_leaves_nothing(problem, folder, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise problem

    code = 130 if isinstance(problem, KeyboardInterrupt) else 1
    arguments = (
        "cluster", folder / "model", folder / "test.csv", "--out", tmp_path / "c.csv", "--draws", tmp_path / "d",
    )  # fmt: skip
    for place, name in (
        (clustering, "cluster_records"),
        (folder_of_result, "write_parquet"),
        (outputs, "cluster_columns"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(place, name, interrupted)
            result = run(*arguments)
        assert result.exit_code == code
        assert len(result.stderr.strip().splitlines()[-1:]) == 1
        # A checkpoint stays, so that --resume can go on; nothing else does.
        shutil.rmtree(tmp_path / "c.csv.checkpoint", ignore_errors=True)
        assert not list(tmp_path.iterdir())
    with monkeypatch.context() as patch:
        patch.setattr(EntityResolver, "fit", interrupted)
        fit = ("fit", folder / "train.csv", "--spec", folder / "spec.toml", "--out", tmp_path / "model")
        assert run(*fit).exit_code == code
    assert not list(tmp_path.iterdir())


def test_an_old_file_survives_an_interruption(folder, tmp_path, monkeypatch):
    out = tmp_path / "c.csv"
    out.write_text("old", encoding="utf-8")

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(outputs, "cluster_columns", interrupted)
    assert run("cluster", folder / "model", folder / "test.csv", "--out", out, "--force").exit_code == 130
    assert out.read_text(encoding="utf-8") == "old"
    assert {path.name for path in tmp_path.iterdir()} <= {"c.csv", "c.csv.checkpoint"}
