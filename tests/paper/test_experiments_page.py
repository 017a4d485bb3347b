import json
import shutil
import sys

import pytest
from benchmarks.paper_page import curves, figures, output
from benchmarks.paper_page.chapters import starts_table
from benchmarks.paper_page.output import write_pages

from paper.test_experiments import part
from scdp.errors import InputError, MissingExtraError
from scdp.paper import run as experiment_run
from scdp.paper.results import Parts, rows_of, write_results
from scdp.paper.systems import SYSTEMS, Settings
from scdp.paper.tasks import TASKS

PNG = b"\x89PNG"
SETTINGS = Settings(quick=True)
TYPES = {
    "features": ["title", "year"],
    "share": [0.9, 0.096, 0.004],
    "precision": [[10.0, 0.1], [1.0, 5.0], [1.0, 1.0]],
    "examples": [["A <b>title</b> | 1999", "x" * 400], ["only one"], []],
}
IMAGES = {**TYPES, "features": [f"pixel {place}" for place in range(4)], "precision": [[1.0, 2.0, 3.0, 4.0]] * 3}


@pytest.fixture
def fits():
    import numpy as np

    rng = np.random.default_rng(0)
    return [curves.fit_priors(TASKS[name].title, np.array([9, 4, 1, 1, 1]), rng) for name in ("digits", "identity")]


@pytest.fixture
def parts():
    return [
        part(types=IMAGES),
        part(system="fine", draws=None, chains=None, sweeps=None, sweep_seconds=None),
        part(task="references", types=TYPES, note="a note & more"),
        part(task="references", system="scdp2", f=0.2, types=TYPES),
    ]


def test_a_run_leaves_a_page_with_its_pictures_inside(parts, fits, tmp_path):
    written = write_pages(parts, SETTINGS, tmp_path, fits)
    assert [path.name for path in written] == ["page.md", "page.html"]
    text, html = (path.read_text() for path in written)
    pictured = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert pictured == ["figure1.png", "types-digits.png", "types-references.png"]
    assert all((tmp_path / "figures" / name).read_bytes().startswith(PNG) for name in pictured)
    assert html.count("data:image/png;base64,") == 3
    assert "(figures/figure1.png)" in text
    assert "a note &amp; more" in html
    assert len(json.loads((tmp_path / "figure1.json").read_text())) == 2


def test_a_run_leaves_its_rows_for_people_too(parts, tmp_path):
    written = write_results(parts, tmp_path, ["digits Binary failed (ValueError: no)"])
    assert [path.name for path in written] == ["results.json", "results.md"]
    assert json.loads(written[0].read_text()) == rows_of(parts)
    text = written[1].read_text()
    assert "| SCDP-1 | .250 (.848) |" in text
    assert "## Reference matching, unit features" in text
    assert "digits Binary failed (ValueError: no)." in text


def test_each_start_has_a_mean_and_a_standard_error():
    def chains(*scores):
        return [{"f": f, "vi": 1.0, "clusters": 7.0} for f in scores]

    both = [
        part(repeat=repeat, draws=part()["draws"] | {"by_chain": chains(*scores)})
        for repeat, scores in enumerate([(0.2, 0.6), (0.4, 0.6)])
    ]
    table = starts_table(rows_of([*both, part(system="fine", draws=None, sweeps=None)]))
    assert table.header[1:] == tuple(
        f"{start}: {what}" for start in ("kmeans", "singletons") for what in ("F", "VI", "clusters")
    )
    assert len(table.rows) == 1
    assert table.rows[0][1] == ".300 ± .100 (.666)"
    assert table.rows[0][4:] == (".600 ± .000 (.666)", "1.000 ± .000 (1.176)", "7.0")


def test_the_types_are_those_of_the_best_model_and_rare_ones_are_counted(parts, tmp_path):
    blocks = figures.types_chapter(parts, tmp_path)
    text = [block.caption for block in blocks if hasattr(block, "caption")]
    assert "types of SCDP-1" in text[1]
    assert "not shown: 1." in text[1]
    table = blocks[-1]
    assert [row[:2] for row in table.rows] == [("1", "90.0%"), ("2", "9.6%")]
    assert len(table.rows[0][3]) == figures.LONGEST_EXAMPLE
    assert table.rows[1][3] == ""


def test_pictures_are_the_same_for_the_same_numbers(fits):
    assert figures.clusters_by_items(fits) == figures.clusters_by_items(fits)


def test_without_matplotlib_numbers_are_still_written(parts, fits, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    write_pages(parts, SETTINGS, tmp_path, fits)
    assert "A picture is left out: a picture needs matplotlib" in (tmp_path / "page.md").read_text()
    assert (tmp_path / "figure1.json").exists()
    with pytest.raises(MissingExtraError, match=r"scdp\[plots\]"):
        figures.clusters_by_items(fits)


def test_figure1_alone(data_or_skip, tmp_path, monkeypatch):
    monkeypatch.setenv("SCDP_OFFLINE", "1")
    Parts(tmp_path, SETTINGS, resume=False)
    with data_or_skip():
        assert output.main([str(tmp_path)]) == 0
    found = {each["data"]: each for each in json.loads((tmp_path / "figure1.json").read_text())}
    assert found["Digits"]["clusters"] == 10
    assert found["Identity uncertainty"]["winner"] == "Pitman-Yor"
    assert "data:image/png" in (tmp_path / "page.html").read_text()


def test_the_page_of_the_docs_says_where_its_numbers_come_from(parts, fits, tmp_path, monkeypatch):
    monkeypatch.setattr(output, "fit_tasks", lambda settings: fits)
    run = Parts(tmp_path / "run", SETTINGS, resume=False)
    run.write({**parts[0], "origin": "commit abc"}, "digits", "scdp1", 0)
    run.write({**parts[1], "origin": "commit def-dirty"}, "digits", "fine", 0)
    text = output.write_page(tmp_path / "run", tmp_path / "docs").read_text()
    assert "commit abc, commit def-dirty. Not run yet: Identity uncertainty; Proper noun" in text
    assert sorted(path.name for path in (tmp_path / "docs").iterdir()) == ["figures", "tables.md", "tables_draws.md"]
    assert (tmp_path / "docs" / "figures" / "figure1.png").exists()


def test_the_page_needs_a_run(tmp_path, capsys):
    with pytest.raises(InputError, match="holds no run; make one with"):
        output.write_page(tmp_path, tmp_path / "docs")
    assert output.main([str(tmp_path), str(tmp_path / "docs")]) == 2
    assert output.main([]) == 2
    assert "usage" in capsys.readouterr().err


def test_the_origin_is_a_commit_or_a_version(monkeypatch):
    assert experiment_run.code_origin().startswith(("commit ", "version "))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert experiment_run.code_origin.__wrapped__().startswith("version ")


def test_a_whole_run_leaves_nothing_out():
    whole = [
        part(task=task, system=name) for task in TASKS for name, system in SYSTEMS.items() if system.applies_to(task)
    ]
    assert output.left_out(whole) == ""
    assert output.left_out(whole[1:]) == " Not run yet: Coarse on digits."
