"""The loaders give the published counts, agree with derived tables, and repeat by seed."""

from __future__ import annotations

import csv
import gzip
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from scdp.datasets import Labelled
from scdp.errors import DataNotFoundError, InputError
from scdp.paper import datasets
from scdp.paper.datasets import is_written_by
from scdp.table import records_from


@pytest.fixture(autouse=True)
def _offline(monkeypatch):
    monkeypatch.setenv("SCDP_OFFLINE", "1")


@pytest.fixture
def nothing_here(monkeypatch, tmp_path):
    monkeypatch.setenv("SCDP_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("SCDP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "data"


def derived_table(*parts: str) -> list[dict[str, str]]:
    """The table somebody else derived from the raw file, where it lies beside it."""
    place = Path(os.environ.get("SCDP_DATA", "."), *parts)
    if not place.is_file():
        pytest.skip(f"no derived table {'/'.join(parts)} to compare with")
    with place.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def size(part) -> tuple[int, int]:
    return len(part), part.n_clusters


def test_the_page_of_data_sets_shows_what_is_so(data_or_skip):
    with data_or_skip():
        datasets.load_references("Freund")
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, root / ".ci" / "documents.py", root / "docs" / "datasets.md"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("load", "records", "clusters"),
    [
        (lambda: datasets.load_usps(), 9298, 10),
        (lambda: datasets.load_cora(), 1916, 116),
        (lambda: datasets.load_cora(merge_typo=True), 1916, 115),
        (lambda: datasets.load_identity_full(), 18011, 4553),
        (lambda: datasets.load_restaurant(), 864, 752),
        (lambda: datasets.load_febrl3(), 5000, 2000),
        (lambda: datasets.load_rldata500(), 500, 450),
        (lambda: datasets.load_historical(), 5005, 479),
        (lambda: datasets.load_historical("50k"), 50578, 5156),
        (lambda: datasets.load_fake_1000(), 1000, 251),
    ],
)
def test_whole_sets_have_the_published_counts(load, records, clusters, data_or_skip):
    with data_or_skip():
        found = load()
    assert size(found) == (records, clusters)
    assert len(found.data) == len(found.ids) == records
    assert len(set(found.ids.tolist())) == records


@pytest.mark.parametrize(
    ("author", "test", "train"),
    [("Freund", (529, 29), (1387, 86)), ("Kearns", (978, 52), (938, 63)), ("Schapire", (1046, 65), (870, 50))],
)
def test_references_are_split_by_author(author, test, train, data_or_skip):
    with data_or_skip():
        task = datasets.load_references(author)
    assert (size(task.test), size(task.train)) == (test, train)
    assert not set(task.test.clusters) & set(task.train.clusters)
    assert task.test.data.names == ("author", "title", "date", "venue")


def test_half_of_a_clusters_records_make_its_author():
    data = records_from({"author": ["Y. Freund", "anon.", "A", "B", "C"], "title": ["t", "t", "by FREUND", "t", None]})
    records = Labelled(data, np.array(["x", "x", "y", "y", "y"]), np.arange(5))
    assert is_written_by(records, "Freund").tolist() == [True, True, False, False, False]


def test_references_can_keep_the_label_with_the_typo(data_or_skip):
    with data_or_skip():
        task = datasets.load_references("Freund", merge_typo=False)
    assert task.train.n_clusters + task.test.n_clusters == 116


def test_reference_fields_come_back_from_the_joined_text(data_or_skip):
    with data_or_skip():
        cora = datasets.load_cora()
    assert sum(cell is not None for cell in cora.data["date"]) == 1697
    assert sum(cell is not None for cell in cora.data["venue"]) == 1736
    for mine, theirs in zip(cora.data.rows(), derived_table("cora-ksf-1916", "records.csv"), strict=True):
        assert {name: cell or "" for name, cell in mine.items()} == {name: theirs[name] for name in mine}


@pytest.mark.parametrize(
    ("load", "folder"),
    [
        (lambda: datasets.load_restaurant(), "restaurant"),
        (lambda: datasets.load_febrl3(), "febrl3"),
        (lambda: datasets.load_rldata500(), "rldata500"),
    ],
)
def test_raw_files_hold_what_the_derived_tables_hold(load, folder, data_or_skip):
    with data_or_skip():
        found = load()
    theirs = derived_table(folder, "records.csv")
    assert [str(cluster) for cluster in found.clusters] == [row["cluster_id"] for row in theirs]
    assert [str(id) for id in found.ids] == [row["record_id"] for row in theirs]
    for mine, row in zip(found.data.rows(), theirs, strict=True):
        assert {name: cell or "" for name, cell in mine.items()} == {name: row[name] for name in mine}


def test_identity_has_the_sizes_of_the_paper(data_or_skip):
    with data_or_skip():
        task = datasets.load_identity()
    assert (size(task.train), size(task.test)) == ((1004, 232), (381, 96))
    assert not set(task.train.clusters) & set(task.test.clusters)
    assert "part" not in task.train.data.names


def test_coreference_counts_and_groups(data_or_skip):
    with data_or_skip():
        task = datasets.load_coreference()
    assert (size(task.train), size(task.test)) == ((3847, 2032), (960, 509))
    assert task.test.data.names == ("name", "span", "head", "etype", "genre", "doc")
    for part in (task.train, task.test):
        of_cluster = dict(zip(part.clusters, part.groups, strict=True))
        assert all(of_cluster[cluster] == doc for cluster, doc in zip(part.clusters, part.groups, strict=True))
    assert not set(task.train.groups) & set(task.test.groups)


def test_digits_task_is_the_one_of_the_paper(data_or_skip):
    with data_or_skip():
        task = datasets.load_digits_task()
    assert (len(task.train), len(task.test)) == (635, 650)
    assert set(task.train.clusters) == {1, 3, 5, 8, 9}
    assert set(task.test.clusters) == {0, 2, 4, 6, 7}
    for part in (task.train, task.test):
        assert all(30 <= count <= 300 for count in np.unique(part.clusters, return_counts=True)[1])
    pooled = np.vstack([task.train.data, task.test.data])
    assert pooled.shape[1] == 64
    np.testing.assert_allclose(pooled.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(pooled.var(axis=0), 1)


def test_digits_task_repeats_by_seed_and_varies_between_seeds(data_or_skip):
    with data_or_skip():
        first, again, other = (datasets.load_digits_task(seed) for seed in (3, 3, 4))
    assert np.array_equal(first.test.data, again.test.data)
    assert np.array_equal(first.train.ids, again.train.ids)
    assert not np.array_equal(first.test.ids, other.test.ids)
    assert 600 <= len(other.test) <= 730


def test_part_sizes_stay_near_the_papers_for_every_seed():
    plenty = np.full(5, 10_000)
    totals = [datasets.draw_sizes(np.random.default_rng([seed, 1]), plenty).sum() for seed in range(200)]
    assert min(totals) >= 600
    assert max(totals) <= 730
    assert len(set(totals)) > 50


def test_shrinking_takes_the_means_of_blocks():
    image = np.array([[1.0, 3, 0, 0], [5, 7, 0, 8], [0, 0, 1, 1], [0, 4, 1, 1]])
    np.testing.assert_array_equal(datasets.shrink(image.reshape(1, 16), 2), [[4.0, 2.0, 1.0, 1.0]])
    with pytest.raises(InputError, match="image_size 3 does not divide 4"):
        datasets.shrink(image.reshape(1, 16), 3)


def test_a_constant_pixel_stays_zero():
    scaled = datasets.standardize_pixels(np.array([[0.1, 1.0], [0.1, 3.0], [0.1, 5.0]]))
    np.testing.assert_array_equal(scaled[:, 0], 0)
    assert scaled[:, 1].var() == pytest.approx(1)


def test_bundled_digits_stand_in_without_fetching(nothing_here, monkeypatch):
    monkeypatch.delenv("SCDP_OFFLINE")
    task = datasets.load_digits_task(seed=1, fallback=True)
    assert "in place of USPS" in task.note
    assert set(task.test.clusters) == {0, 2, 4, 6, 7}
    assert 600 <= len(task.test) <= 730


def test_missing_set_says_which_file_where_and_how(nothing_here):
    with pytest.raises(DataNotFoundError) as caught:
        datasets.load_digits_task()
    message = str(caught.value)
    assert "usps/zip.train.gz" in message
    assert str(nothing_here) in message
    assert "scdp datasets fetch usps" in message
    with pytest.raises(DataNotFoundError, match=r"no public copy.*amir-zeldes/gum"):
        datasets.load_coreference()


@pytest.mark.parametrize(
    ("path", "content", "load"),
    [
        ("cora-ksf-1916/raw/coraATDV.txt", b"cora\tlabel only\n", lambda: datasets.load_cora()),
        ("cora-ksf-1916/raw/coraATDV.txt", b"", lambda: datasets.load_cora()),
        ("cora-ksf-1916/raw/coraATDV.txt", b"\xff\xfe", lambda: datasets.load_cora()),
        ("febrl3/raw/dataset3.csv", b"rec_id, surname\nperson, a\n", lambda: datasets.load_febrl3()),
        ("restaurant/raw/restaurant.csv", b"id,name\n1,a\n", lambda: datasets.load_restaurant()),
        ("rldata500/raw/RLdata500.rda", b"no R file", lambda: datasets.load_rldata500()),
        ("usps/zip.train.gz", gzip.compress(b"3 0.5\n", mtime=0), lambda: datasets.load_usps()),
        ("usps/zip.train.gz", gzip.compress(b"3 0.5\n" * 99, mtime=0)[:-9], lambda: datasets.load_usps()),
    ],
)
def test_damaged_files_are_named(path, content, load, nothing_here):
    place = nothing_here / path
    place.parent.mkdir(parents=True)
    place.write_bytes(content)
    with pytest.raises(InputError, match=place.name):
        load()


@pytest.mark.parametrize(
    "call",
    [
        lambda: datasets.load_references("Knuth"),
        lambda: datasets.load_historical("7k"),
        lambda: datasets.load_digits_task(seed=-1),
    ],
)
def test_wrong_arguments_are_refused(call):
    with pytest.raises(InputError):
        call()


def test_own_records_with_entity_id_and_group(tmp_path):
    place = tmp_path / "people.csv"
    place.write_text("key,who,name,page\na,1,Ann,p\nb,1,Anne,p\nc,2,Bo,q\n", encoding="utf-8")
    found = datasets.load_records(place, entity="who", id="key", group="page")
    assert found.clusters.tolist() == ["1", "1", "2"]
    assert found.ids.tolist() == ["a", "b", "c"]
    assert found.groups.tolist() == ["p", "p", "q"]
    assert found.data.names == ("name", "page")
    assert datasets.load_records(place, entity="who").ids.tolist() == [0, 1, 2]


def test_own_records_need_every_entity(tmp_path):
    place = tmp_path / "people.csv"
    place.write_text("who,name\n1,Ann\n,Bo\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"row 3.*'who'"):
        datasets.load_records(place, entity="who")
    with pytest.raises(InputError, match="no column 'entity'"):
        datasets.load_records(place, entity="entity")


def test_importing_the_loaders_stays_light():
    code = (
        "import sys, scdp.paper.datasets as d; d.load_usps, d.load_records, d.load_ace;"
        "print({'sklearn', 'duckdb', 'numba', 'scipy', 'pandas'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
