"""`scdp demo` on a small size: its files, its words, and that it leaves nothing half-written; and the charts."""

from __future__ import annotations

import csv
import os
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from click.testing import CliRunner

from scdp import datasets, metrics
from scdp.cli import demo_commands, main
from scdp.datasets import make_tables
from scdp.errors import InputError
from scdp.io.atomic import Staged, write_text
from scdp.io.targets import open_folder, stage_table
from scdp.report.charts import histogram

FILES = ["clusters.csv", "gold.csv", "new.csv", "people.csv", "report.html"]


@pytest.fixture(scope="module")
def small_demo(tmp_path_factory):
    """The command with few records and draws, somewhere not yet there; SCDP_DATA must not matter."""
    folder = tmp_path_factory.mktemp("demo") / "new" / "folder"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets, "N_RECORDS", 120)
        patch.setattr(demo_commands, "N_DRAWS", 60)
        patch.setenv("SCDP_DATA", "/nowhere")
        result = CliRunner().invoke(main, ["demo", "--out", str(folder)])
    assert result.exit_code == 0, result.output
    return folder, result


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


# ---- the command ----


def test_it_writes_its_files_and_nothing_else(small_demo):
    folder, _ = small_demo
    assert sorted(path.name for path in folder.iterdir()) == FILES


def test_a_second_demo_replaces_the_first_only_by_force(small_demo):
    folder, _ = small_demo
    result = CliRunner().invoke(main, ["demo", "--out", str(folder)])
    assert result.exit_code == 2
    assert "is there already" in result.stderr


def test_a_dozen_records_are_grouped_and_shown(small_demo):
    folder, result = small_demo
    rows, gold = (rows_of(folder / name) for name in ("clusters.csv", "gold.csv"))
    assert list(rows[0]) == ["id", "cluster", "probability"]
    assert [row["id"] for row in rows] == [row["id"] for row in gold] == [f"p{n:02}" for n in range(1, 13)]
    assert all(0 <= float(row["probability"]) <= 1 for row in rows)
    assert all(f"{row['id']} " in result.stdout for row in rows)
    assert "Rebecca" in result.stdout
    assert "entity" not in rows_of(folder / "new.csv")[0]
    known = {row["entity"] for row in rows_of(folder / "people.csv")}
    assert "" not in known
    assert not known & {row["entity"] for row in gold}


@pytest.mark.parametrize("width", [60, 80, 140])
def test_no_cell_is_cut_off_in_a_narrow_terminal(small_demo, width, monkeypatch, tmp_path):
    monkeypatch.setattr(datasets, "N_RECORDS", 60)
    monkeypatch.setattr(demo_commands, "N_DRAWS", 8)
    monkeypatch.setattr(demo_commands, "WIDTH", width)
    shown = CliRunner().invoke(main, ["demo", "--out", str(tmp_path / "demo")]).stdout
    table = shown[: shown.index(" people (90 %")]
    assert max(map(len, table.splitlines())) <= width
    assert "…" not in table
    drawn = "".join(character for character in table if character.isalnum())
    cells = [cell for row in rows_of(small_demo[0] / "new.csv") for cell in row.values()]
    assert all("".join(character for character in cell if character.isalnum()) in drawn for cell in cells)


def test_the_words_agree_with_the_files(small_demo):
    folder, result = small_demo
    found, gold = (
        [row[column] for row in rows_of(folder / name)]
        for name, column in (("clusters.csv", "cluster"), ("gold.csv", "entity"))
    )
    words = " ".join(result.stdout.split())
    count, low, high = map(int, re.search(r"(\d+) people \(90 %: (\d+) to (\d+)\); in truth 6\.", words).groups())
    assert count == len(set(found))
    assert low <= high
    true_f = re.search(r"Estimated F \d\.\d\d \(90 %: .*?\); in truth (\d\.\d\d)\.", words)[1]
    assert float(true_f) == pytest.approx(metrics.f_score(gold, found), abs=6e-3)
    assert re.search(r"(Green|Amber|Red): ", words)


def test_questions_are_about_uncertain_pairs_and_share_no_record(small_demo):
    asked = re.findall(r"Are (p\d\d) and (p\d\d) the same person\? Probability 0\.\d\d\.", small_demo[1].stdout)
    assert len(asked) <= demo_commands.N_QUESTIONS
    assert len({name for pair in asked for name in pair}) == 2 * len(asked)


def test_progress_goes_to_stderr(small_demo):
    assert "compiles" in small_demo[1].stderr
    assert "compiles" not in small_demo[1].stdout


def test_a_file_in_the_way_is_one_sentence_before_any_work(tmp_path):
    place = tmp_path / "taken"
    place.write_text("mine")
    result = CliRunner().invoke(main, ["demo", "--out", str(place)])
    assert result.exit_code == 2
    assert result.stderr == (f"scdp: error: {place}: there is a file of this name; give another folder with --out\n")
    assert place.read_text() == "mine"


@pytest.mark.parametrize("name", ["people", "citations"])
def test_known_and_new_entities_do_not_overlap(name):
    shown, dozen, gold = demo_commands.load_demo(name)
    assert len(shown) > 100
    assert [column for column in shown.names if column != "entity"] == list(dozen.names)
    assert None not in shown["entity"].tolist()
    assert (len(dozen), len(set(gold.tolist()))) == (12, 6)
    assert not set(shown["id"]) & set(dozen["id"])


# ---- tables for tutorials ----


def test_tables_are_the_same_again_and_agree_with_one_another():
    for name in ("people", "citations"):
        tables = make_tables(name)
        again = make_tables(name)
        assert all((tables[part][k] == again[part][k]).all() for part in tables for k in tables[part])
        truth = dict(zip(tables["gold_all"]["id"], tables["gold_all"]["entity"], strict=True))
        known = [(i, e) for i, e in zip(tables[name]["id"], tables[name]["entity"], strict=True) if e is not None]
        assert 0.3 * datasets.N_RECORDS < len(known) < 0.7 * datasets.N_RECORDS
        assert all(truth[identifier] == entity for identifier, entity in known)
        assert "entity" not in tables["new"]
        assert set(tables["gold"]["id"]) == set(tables[name]["id"])


def test_the_two_systems_of_the_customer_list_overlap_in_part():
    tables = make_tables("crm")
    truth = dict(zip(tables["gold"]["id"], tables["gold"]["entity"], strict=True))
    shop, support = ({truth[i] for i in tables[part]["id"]} for part in ("shop", "support"))
    assert 20 < len(shop & support) < len(shop)
    assert not set(tables["shop"]["id"]) & set(tables["support"]["id"])


def test_a_table_that_is_not_there_is_refused():
    with pytest.raises(InputError, match="there are: people, citations, crm"):
        make_tables("dogs")


# ---- charts ----


def test_a_histogram_has_a_bar_for_each_number_seen():
    root = ElementTree.fromstring(histogram(np.array([[3, 3, 5], [3, 4, 3]]), (3, 4), truth=7))
    bars = [element for element in root.iter() if element.tag.endswith("rect")]
    titles = [bar[0].text for bar in bars]
    assert titles == ["3: 66.7%", "4: 16.7%", "5: 16.7%"]
    heights = [float(bar.get("height")) for bar in bars]
    assert heights[0] == pytest.approx(4 * heights[1], rel=0.01)
    assert bars[0].get("style") == bars[1].get("style") != bars[2].get("style")
    assert "true: 7" in "".join(root.itertext())


# ---- files ----


def test_a_failed_write_leaves_the_old_file_and_no_part(tmp_path, monkeypatch):
    target = tmp_path / "a.txt"
    write_text(target, "old")

    def broken(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(InputError, match=r"a\.txt: cannot be written \(No space left on device\)"):
        write_text(target, "new")
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_rows_are_quoted_where_they_must_be(tmp_path):
    with Staged() as staged:
        stage_table(staged, tmp_path / "a.csv", {"id": ["x,y", 'say "hi"'], "cluster": [1, 2]})
    assert (tmp_path / "a.csv").read_bytes() == b'id,cluster\n"x,y",1\n"say ""hi""",2\n'


def test_a_folder_below_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="there is a file of this name"):
        open_folder(tmp_path / "file" / "below")
