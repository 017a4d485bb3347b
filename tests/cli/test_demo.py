"""`scdp demo` on a small size: its files, its words, its pictures, and that it leaves nothing half-written."""

from __future__ import annotations

import csv
import os
import re
import struct
import xml.etree.ElementTree as ElementTree
import zlib
from base64 import b64decode
from html.parser import HTMLParser

import numpy as np
import pytest
from click.testing import CliRunner

from scdp import metrics
from scdp.cli import demo_command, main
from scdp.errors import InputError
from scdp.io.atomic import Staged, write_text
from scdp.io.tables import stage_table
from scdp.io.targets import open_folder
from scdp.posterior import Posterior
from scdp.report import Figure, RecordPair, ReportPage, SystemRow
from scdp.report.charts import heat_map, histogram, png

VOID = {"meta", "img", "br", "link", "hr", "input"}


@pytest.fixture(scope="module")
def small_demo(tmp_path_factory):
    """The command with few records and draws, somewhere not yet there; SCDP_DATA must not matter."""
    folder = tmp_path_factory.mktemp("demo") / "new" / "folder"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo_command, "N_RECORDS", 80)
        patch.setattr(demo_command, "N_DRAWS", 48)
        patch.setenv("SCDP_DATA", "/nowhere")
        result = CliRunner().invoke(main, ["demo", "--out", str(folder)])
    assert result.exit_code == 0, result.output
    return folder, result


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


# ---- the command ----


def test_it_writes_three_files_and_nothing_else(small_demo):
    folder, _ = small_demo
    assert sorted(path.name for path in folder.iterdir()) == ["clusters.csv", "gold.csv", "report.html"]


def test_a_second_demo_replaces_the_first_only_by_force(small_demo):
    folder, _ = small_demo
    result = CliRunner().invoke(main, ["demo", "--out", str(folder)])
    assert result.exit_code == 2
    assert "is there already" in result.stderr


def test_clusters_have_ids_and_probabilities(small_demo):
    rows, gold = (rows_of(small_demo[0] / name) for name in ("clusters.csv", "gold.csv"))
    assert list(rows[0]) == ["id", "cluster", "probability"]
    assert [row["id"] for row in rows] == [row["id"] for row in gold]
    assert 20 < len({row["id"] for row in rows}) == len(rows) < 80
    assert all(0 <= float(row["probability"]) <= 1 for row in rows)
    assert {int(row["cluster"]) for row in rows} == set(range(1, len({row["cluster"] for row in rows}) + 1))


def test_the_table_agrees_with_the_files(small_demo):
    folder, result = small_demo
    found, gold = (
        [row["cluster"] for row in rows_of(folder / name)] for name in ("clusters.csv", "gold.csv")
    )
    line = next(line for line in result.stdout.splitlines() if "resolver" in line)
    figures = [float(cell) for cell in line.split("│")[2:5]]
    assert figures == [
        pytest.approx(metrics.f_score(gold, found), abs=6e-4),
        pytest.approx(metrics.variation_of_information(gold, found), abs=6e-4),
        len(set(found)),
    ]


def test_it_says_the_interval_and_the_verdict(small_demo):
    words = " ".join(small_demo[1].stdout.split())
    assert re.search(r"90 % interval of the number of clusters among the new records: \d+ to \d+;", words)
    assert re.search(r"the true number, \d+, is (inside|outside)\.", words)
    assert all(system in words for system in ("resolver", "ModernBinary", "Coarse", "Fine"))


def test_progress_goes_to_stderr(small_demo):
    assert "compiles" in small_demo[1].stderr
    assert "compiles" not in small_demo[1].stdout


def test_the_same_again_for_the_same_seed(small_demo, monkeypatch, tmp_path):
    monkeypatch.setattr(demo_command, "N_RECORDS", 80)
    monkeypatch.setattr(demo_command, "N_DRAWS", 48)
    assert CliRunner().invoke(main, ["demo", "--out", str(tmp_path)]).exit_code == 0
    for name in ("clusters.csv", "gold.csv"):
        assert (tmp_path / name).read_bytes() == (small_demo[0] / name).read_bytes()


def test_a_file_in_the_way_is_one_sentence_before_any_work(tmp_path):
    place = tmp_path / "taken"
    place.write_text("mine")
    result = CliRunner().invoke(main, ["demo", "--out", str(place)])
    assert result.exit_code == 2
    assert result.stderr == (
        f"scdp: error: {place}: there is a file of this name; give another folder with --out\n"
    )
    assert place.read_text() == "mine"


def test_shown_and_new_papers_do_not_overlap():
    train, test = demo_command.load_citations()
    assert not set(train.clusters) & set(test.clusters)
    assert not set(train.ids) & set(test.ids)
    assert len(train) + len(test) == demo_command.N_RECORDS
    assert abs(train.n_clusters - test.n_clusters) <= 1


def test_the_verdict_is_good_where_the_interval_holds_the_truth():
    # One or two clusters, at random.
    draws = np.random.default_rng(0).integers(0, 2, (2, 200, 1)) * np.array([0, 1, 1, 0, 1, 0])
    for truth, good, where in [(2, True, "inside"), (9, False, "outside")]:
        words, found = demo_command.verdict_of(Posterior(draws), truth)
        assert found is good
        assert words.endswith(f": 1 to 2; the true number, {truth}, is {where}.")


def test_uncertain_pairs_are_near_one_half_and_share_no_record():
    _, test = demo_command.load_citations()
    together = np.eye(len(test))
    for i, j, probability in [(0, 1, 0.45), (1, 2, 0.5), (3, 4, 0.7), (0, 5, 0.4)]:
        together[i, j] = together[j, i] = probability
    pairs = demo_command.uncertain_pairs(together, test)
    assert [pair.probability for pair in pairs[:3]] == [0.5, 0.4, 0.7]
    assert pairs[0].ids == (test.ids[1], test.ids[2])
    assert pairs[0].cells[0]["title"] == test.data["title"][1]
    assert pairs[0].same == (test.clusters[1] == test.clusters[2])
    used = [name for pair in pairs for name in pair.ids]
    assert len(used) == len(set(used)) == 2 * demo_command.N_PAIRS


def test_clusters_are_numbered_by_size():
    assert demo_command.by_size(np.array([7, 4, 4, 9, 9, 4])).tolist() == [3, 1, 1, 2, 2, 1]


# ---- the page ----


class Checker(HTMLParser):
    """Notes tags left open and addresses asked for."""

    def __init__(self):
        super().__init__()
        self.open, self.addresses, self.tags = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href", "srcset", "action")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_whole_and_asks_for_nothing(small_demo):
    text = (small_demo[0] / "report.html").read_text(encoding="utf-8")
    checker = Checker()
    checker.feed(text)
    assert checker.open == []
    assert all(address.startswith("data:image/png;base64,") for address in checker.addresses)
    assert not {"script", "link", "iframe"} & set(checker.tags)
    assert "url(" not in text
    assert "@import" not in text
    assert text.count('<div class="pair">') == demo_command.N_PAIRS
    assert checker.tags.count("svg") == 2


def page_with(text):
    row = SystemRow(text, text, 0.5, 1.0, 2, 3.0)
    figure = Figure(text, "<svg></svg>", text)
    pair = RecordPair((text, text), ({text: text, "b": None}, {text: "other", "b": None}), 0.4, False)
    return ReportPage(text, text, text, False, figure, figure, [row], text, [pair]).html()


def test_all_text_is_escaped():
    text = page_with('<script>alert("1")</script>\' onload=x & more')
    assert "<script" not in text
    assert '"1"' not in text
    assert "&lt;script&gt;" in text


def test_differences_missing_cells_and_a_bad_verdict_are_marked():
    text = page_with("words")
    assert text.count('<tr class="differs">') == 1
    assert text.count("<small>missing</small>") == 2
    assert "probability 0.40 <span>in truth not the same" in text
    assert '<p class="verdict warn">' in text


# ---- charts ----


def decoded(address):
    """The pixels of one of our PNG files, by the letter of the format."""
    content = b64decode(address.removeprefix("data:image/png;base64,"))
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, place = {}, 8
    while place < len(content):
        (size,) = struct.unpack(">I", content[place : place + 4])
        kind, body = content[place + 4 : place + 8], content[place + 8 : place + 8 + size]
        assert struct.unpack(">I", content[place + 8 + size : place + 12 + size])[0] == zlib.crc32(
            kind + body
        )
        chunks[kind] = body
        place += 12 + size
    width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, 1 + 3 * width)
    assert not lines[:, 0].any()
    return lines[:, 1:].reshape(height, width, 3)


def test_a_picture_goes_from_paper_to_ink():
    pixels = decoded(png(np.array([[0.0, 0.5, 1.0], [2.0, -1.0, 0.0]])))
    assert pixels.shape == (2, 3, 3)
    assert pixels[0, 0].tolist() == pixels[1, 1].tolist() == [246, 248, 250]
    assert pixels[0, 2].tolist() == pixels[1, 0].tolist() == [16, 58, 110]
    assert pixels[0, 1].tolist() == [131, 153, 180]


def test_a_histogram_has_a_bar_for_each_number_seen():
    root = ElementTree.fromstring(histogram(np.array([[3, 3, 5], [3, 4, 3]]), (3, 4), truth=7))
    bars = [element for element in root.iter() if element.tag.endswith("rect")]
    titles = [bar[0].text for bar in bars]
    assert titles == ["3: 66.7%", "4: 16.7%", "5: 16.7%"]
    heights = [float(bar.get("height")) for bar in bars]
    assert heights[0] == pytest.approx(4 * heights[1], rel=0.01)
    assert bars[0].get("fill") == bars[1].get("fill") != bars[2].get("fill")
    assert "true: 7" in "".join(root.itertext())


def test_a_heat_map_has_lines_between_clusters_and_a_strip_of_kinds():
    root = ElementTree.fromstring(heat_map(np.eye(4), [1, 1, 2, 3], [7, 9, 7, 8]))
    tags = [element.tag.rpartition("}")[2] for element in root.iter()]
    assert (tags.count("image"), tags.count("path"), tags.count("rect")) == (1, 2, 4)
    colours = [element.get("fill") for element in root.iter() if element.tag.endswith("rect")]
    assert colours[0] == colours[2]
    assert len(set(colours)) == 3


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
