import json
import os
import re
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest
from benchmarks.paper_page import chapters
from benchmarks.paper_page.document import Figure, Heading, Paragraph, TextTable, to_html, to_markdown

from scdp import compare
from scdp.compare.distances import compute_distances
from scdp.datasets import Labelled, Task, make_records
from scdp.errors import InputError
from scdp.paper import tasks as paper
from scdp.paper.results import Parts, rows_of, score, score_draws, score_part, write_atomically
from scdp.paper.run import plan_jobs, run
from scdp.paper.surface import take_raw
from scdp.paper.systems import FULL, QUICK, SYSTEMS, TEXT, Effort, Outcome, Settings, Watch, choose_systems
from scdp.paper.tasks import TASKS, Problem, choose_tasks, join_parts
from scdp.table import records_from
from scdp.table.spec import Spec

SCHEMA = json.loads(files("scdp.paper").joinpath("results_schema.json").read_text())


def part(task="digits", system="scdp1", repeat=0, f=0.5, **changes):
    values = dict.fromkeys(paper.METRICS, 0.25) | {"f": f}
    draws = {
        "mean": values,
        "last": values,
        "spread": None,
        "clusters": 8.5,
        "clusters_spread": None,
        "by_chain": [{"f": f, "vi": 0.25, "clusters": 8.5}],
        "scored": 10,
    }
    return {
        "task": task,
        "system": system,
        "features": "unit",
        "repeat": repeat,
        "seconds": 2.0,
        "metrics": values,
        "more_metrics": {"ari": 0.1, "b3": 0.2, "nmi": 0.3, "ced_merge_free": 0.4, "nes_merge_free": 0.5},
        "clusters": 7,
        "gold_clusters": 5,
        "items": 100,
        "draws": draws,
        "chains": 2,
        "sweeps": 40,
        "r_hat": 1.2,
        "sweep_seconds": 0.01,
        "types": None,
        "note": "",
        "data": "some data",
        **changes,
    }


def test_published_tables_have_the_papers_values():
    assert paper.PUBLISHED["digits"]["scdp3"]["vi"] == 0.791
    assert paper.PUBLISHED["identity"]["namematch"]["f"] == 0.706
    assert paper.PUBLISHED["coreference"]["samehead"]["nvi"] == 0.982
    assert paper.PUBLISHED["references"]["binary"]["ced"] == 0.107
    assert [paper.PUBLISHED[task]["scdp2"]["f"] for task in paper.PUBLISHED] == [0.675, 0.817, 0.651, 0.718]


# The paper's own rows that contradict its definition of F; a slip of ours in copying would add to them.
@pytest.mark.parametrize(
    ("task", "odd"), [(name, {"binary", "coarse"} if name == "references" else set()) for name in paper.PUBLISHED]
)
def test_published_f_follows_from_precision_and_recall(task, odd):
    def implied(row):
        return 2 * row["p"] * row["r"] / (row["p"] + row["r"])

    far = {name for name, row in paper.PUBLISHED[task].items() if abs(implied(row) - row["f"]) > 0.0021}
    assert far == odd


def test_published_rows_that_contradict_their_own_table():
    """Worked by hand for CDP on the digits: of pairs .229 are together, and .016 of those are found."""
    found = {row[:2]: row[2:] for row in chapters.contradicting_rows()}
    assert set(found) == {("digits", "cdp"), ("digits", "binary"), ("identity", "binary")}
    assert found["digits", "cdp"] == (0.886, pytest.approx(1 - 0.229 * 0.984 - 0.229 * 0.016 * 0.03 / 0.97))


def test_published_row_of_a_variant_is_that_of_its_task():
    assert paper.find_published("references-kearns", "scdp1") == paper.find_published("references", "scdp1")
    assert paper.find_published("digits", "namematch") is None


def test_every_published_system_has_a_known_name():
    published = {(task, name) for task, rows in paper.PUBLISHED.items() for name in rows}
    assert {name for _, name in published} <= set(SYSTEMS)
    assert all(SYSTEMS[name].applies_to(task) for task, name in published if not SYSTEMS[name].samples)


def test_systems_are_found_however_their_names_are_written():
    assert [system.name for system in choose_systems("SCDP-1, coarse")] == ["coarse", "scdp1"]
    assert [system.name for system in choose_systems(None)] == list(SYSTEMS)


@pytest.mark.parametrize("names", ["nonsense", "coarse,nonsense", "", ","])
def test_an_unknown_system_is_refused_with_the_list(names):
    with pytest.raises(InputError, match=r"there are: coarse, fine"):
        choose_systems(names)


def test_tasks_are_chosen_and_variants_left_out_of_quick_runs():
    assert choose_tasks("all", quick=True) == ["digits", "identity", "coreference", "references"]
    assert choose_tasks("all", quick=False) == ["digits", "identity", "coreference", "references"]
    assert choose_tasks("references", quick=False) == ["references", "references-kearns", "references-schapire"]
    assert choose_tasks("references", quick=True) == ["references"]
    assert choose_tasks("references-kearns", quick=True) == ["references-kearns"]
    with pytest.raises(InputError, match=r"'nonsense'; there are: digits, .*all"):
        choose_tasks("nonsense", quick=True)


def test_systems_that_apply_to_no_task_are_refused():
    assert {job.system.name for job in plan_jobs(["digits"], list(SYSTEMS.values()), Settings())}.isdisjoint(
        {"samehead"}
    )
    with pytest.raises(InputError, match="samehead applies to digits"):
        plan_jobs(["digits"], [SYSTEMS["samehead"]], Settings())


def test_a_full_run_has_both_scales_and_several_repeats():
    systems = [SYSTEMS[name] for name in ("coarse", "scdp1", "modernbinary")]
    jobs = plan_jobs(["digits", "references", "references-kearns"], systems, Settings(features="both"))
    planned = [(job.task, job.system.name, job.features, job.repeat) for job in jobs]
    assert len(set(planned)) == len(planned)
    assert [job for job in planned if job[:2] == ("digits", "scdp1")] == [
        ("digits", "scdp1", features, repeat) for repeat in range(5) for features in ("unit", "raw")
    ]
    # What does not depend on the scale is run once for both, and what the paper has no row of on one draw.
    assert [job[2:] for job in planned if job[:2] == ("digits", "coarse")] == [("unit", repeat) for repeat in range(5)]
    assert [job[2:] for job in planned if job[:2] == ("digits", "modernbinary")] == [("unit", 0)]
    assert [job[2:] for job in planned if job[:2] == ("references", "scdp1")] == [
        (features, repeat) for repeat in range(3) for features in ("unit", "raw")
    ]
    assert {job[2:] for job in planned if job[0] == "references-kearns"} == {("unit", 0)}
    raw = plan_jobs(["digits"], systems, Settings(quick=True, features="raw"))
    assert [job.features for job in raw] == ["raw"] * 3


# Section 2 of the model: what must be there by the paper's names.
EVERYWHERE = {"coarse", "fine", "kmeans", "cdp", "binary", "xingk", "scdp1", "scdp2", "scdp3"}


@pytest.mark.parametrize("quick", [True, False])
def test_every_system_of_the_model_is_planned_for_every_task(quick):
    own = {"identity": {"namematch"}, "coreference": {"samehead"}}
    jobs = plan_jobs(choose_tasks("all", quick), choose_systems(None), Settings(quick=quick))
    for task in ("digits", "identity", "coreference", "references"):
        planned_systems = {job.system.name for job in jobs if job.task == task}
        assert planned_systems >= EVERYWHERE | own.get(task, set()) | {"resolver"}
        assert set(paper.PUBLISHED[task]) <= planned_systems


def tiny_problem():
    rng = np.random.default_rng(0)
    clusters = np.repeat(np.arange(8), 6)
    data = rng.normal(size=(8, 3))[clusters] * 4 + rng.normal(size=(48, 3))
    whole = Labelled(data, clusters, np.arange(48))
    known = clusters < 5
    return Problem("digits", Task("tiny", whole.take(known), whole.take(~known), "made up"), None)


@pytest.mark.parametrize(
    "name", [name for name, system in SYSTEMS.items() if system.applies_to("digits") and not system.samples]
)
def test_every_opponent_runs_with_its_quick_settings(name):
    """The settings are those of the classes, which change more often than this table is run."""
    labels = SYSTEMS[name].run(tiny_problem(), Effort(1, 2, 0, quick=True)).labels
    assert len(labels) == 18


@pytest.mark.parametrize("name", [name for name, system in SYSTEMS.items() if system.samples])
def test_every_sampler_runs_and_gives_draws_of_the_test_items(name):
    outcome = SYSTEMS[name].run(tiny_problem(), Effort(2, 6, 0, quick=True))
    assert len(outcome.labels) == 18
    assert outcome.draws.shape[2] == 18
    assert outcome.draws.shape[0] == outcome.chains


def tiny_text_problem(task):
    """Made-up citations under the columns of the task, the last clusters hidden; a document holds five clusters."""
    made = make_records(100, kind="citations", seed=0)
    codes = np.unique(made.clusters, return_inverse=True)[1]
    title, author, year, venue = (made.data[name] for name in ("title", "author", "year", "venue"))
    columns = {
        "identity": {"first": title, "last": author, "coauthors": author, "venue": venue, "year": year},
        "coreference": {"name": title, "head": title, "doc": (codes // 5).astype(str).astype(object)},
        "references": {"author": author, "title": title, "date": year, "venue": venue},
    }[task]
    groups = codes // 5 if task == "coreference" else None
    whole = Labelled(records_from(columns, "made up"), codes, np.arange(len(codes)), groups)
    known = codes < 15
    return Problem(task, Task("tiny", whole.take(known), whole.take(~known), "made up"), TASKS[task].spec())


def test_raw_distances_are_plain_differences_without_missing_ones():
    years = ["1990", "1993", "", "1990"]
    records = records_from({"date": years, "title": ["a", "b", "c", "d"]}, "made up")
    spec = Spec("cluster_id", [compare.absolute("date"), compare.count_difference("date"), compare.edit("title")])
    found = compute_distances(records, spec.fit(records), None)
    for distances in (found, found.scaled()):
        plain = take_raw(distances)
        assert plain.pair(0, 1).tolist() == pytest.approx([3, 1, 1])
        assert plain.pair(0, 2).tolist() == pytest.approx([1, 1, 1])
        assert plain.pair(0, 3).tolist() == pytest.approx([0, 0, 1])
        assert plain.observed.all()


@pytest.mark.parametrize("name", ["kmeans", "xingk", "scdp1", "scdp3"])
def test_systems_run_on_raw_features(name):
    for problem in (tiny_problem(), tiny_text_problem("references")):
        raw = replace(problem, features="raw")
        outcome = SYSTEMS[name].run(raw, Effort(2, 6, 0, quick=True))
        assert len(outcome.labels) == len(problem.task.test)
        assert ("as the paper's numbers imply" in outcome.note) == SYSTEMS[name].samples


@pytest.mark.parametrize(
    ("task", "name"), [(task, name) for task in TEXT for name, system in SYSTEMS.items() if system.applies_to(task)]
)
def test_every_system_runs_on_the_columns_of_every_text_task(task, name):
    problem = tiny_text_problem(task)
    found = score_part(SYSTEMS[name].run(problem, Effort(2, 6, 0, quick=True)), problem)
    assert found["items"] == len(problem.task.test)
    assert (found["draws"] is not None) == SYSTEMS[name].samples


def test_seeds_follow_names_and_settings():
    settings = Settings()
    assert settings.seed_of("digits", "scdp1", 0) == Settings(sweeps=9).seed_of("digits", "scdp1", 0)
    others = {settings.seed_of(task, name, repeat) for task in TASKS for name in SYSTEMS for repeat in range(5)}
    assert len(others) == len(TASKS) * len(SYSTEMS) * 5
    assert Settings(seed=1).seed_of("digits", "scdp1", 0) not in others


def test_effort_is_the_tasks_unless_given():
    assert Settings(quick=True).effort("references-kearns") == QUICK["references"]
    assert Settings().effort("digits") == FULL["digits"]
    assert Settings(quick=True, chains=7).effort("digits") == (7, QUICK["digits"][1])


@pytest.mark.parametrize("option", ["chains", "sweeps", "repeats", "seed"])
def test_settings_refuse_nonsense(option):
    with pytest.raises(InputError, match=f"--{option} must be at least"):
        Settings(**{option: -1})


def test_parts_are_found_again(tmp_path):
    parts = Parts(tmp_path / "out", Settings(), resume=False)
    assert parts.find("digits", "fine", 0) is None
    parts.write(part(), "digits", "fine", 0)
    again = Parts(tmp_path / "out", Settings(), resume=True)
    assert again.find("digits", "fine", 0) == part()
    assert again.all() == [part()]


def test_a_folder_of_another_run_is_refused_by_name(tmp_path):
    Parts(tmp_path, Settings(sweeps=40), resume=False).write(part(), "digits", "fine", 0)
    with pytest.raises(InputError, match=r"holds a run with sweeps 40, and this one has 50; .*--out"):
        Parts(tmp_path, Settings(sweeps=50), resume=True)
    with pytest.raises(InputError, match=r"holds 1 finished parts .*--resume"):
        Parts(tmp_path, Settings(sweeps=40), resume=False)


@pytest.mark.parametrize("damage", ["cut", "altered", "of another name", "a pipe", "a list"])
def test_a_damaged_part_is_made_again_with_a_note(tmp_path, damage, caplog):
    parts = Parts(tmp_path, Settings(), resume=False)
    parts.write(part(), "digits", "fine", 0)
    parts.write(part(system="coarse"), "digits", "coarse", 0)
    path, other = (tmp_path / "parts" / f"digits.{name}.0.part.json" for name in ("fine", "coarse"))
    content = path.read_text()
    path.unlink()
    if damage == "a pipe":
        os.mkfifo(path)
    else:
        altered = re.sub(r'"items": (\d+)', r'"items": 1\1', content)
        assert altered != content
        texts = {"cut": content[:-9], "altered": altered, "a list": "[]", "of another name": other.read_text()}
        path.write_text(texts[damage])
    assert parts.find("digits", "fine", 0) is None
    assert f"a kept part does not count, and is made again where it is asked for: {path}" in caplog.text
    assert [found["system"] for found in parts.all()] == ["coarse"]


def test_settings_that_cannot_be_read_are_refused_by_name(tmp_path):
    Parts(tmp_path, Settings(), resume=False)
    (tmp_path / "parts" / "settings.json").write_text("{")
    with pytest.raises(InputError, match=r"settings\.json: cannot be read"):
        Parts(tmp_path, Settings(), resume=True)


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("name", ["results.json", "results.md"])
def test_results_that_are_of_no_run_are_not_replaced(tmp_path, name, resume):
    (tmp_path / name).write_text("mine")
    with pytest.raises(InputError, match=rf"{name}: is there already, and of no run; give another --out"):
        run([], [], Settings(), tmp_path, resume)
    assert (tmp_path / name).read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 1


def test_out_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file; give --out a folder"):
        Parts(tmp_path / "file", Settings(), resume=False)


def test_a_failed_write_leaves_what_was_there(tmp_path, monkeypatch):
    target = tmp_path / "file.json"
    write_atomically(target, "old")

    def dies(descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", dies)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(target, "new and longer")
    assert target.read_text() == "old"


def test_halves_of_a_killed_run_are_removed_and_nothing_else(tmp_path):
    Parts(tmp_path, Settings(), resume=False)
    half, own = (
        tmp_path / "parts" / name
        for name in (f".digits.fine.0.part.json.{os.getpid()}-{'0' * 16}.part", ".settings.json.backup")
    )
    half.write_text("{")
    own.write_text("mine")
    assert Parts(tmp_path, Settings(), resume=True).all() == []
    assert not half.exists()
    assert own.read_text() == "mine"


def test_rows_average_repeats_and_follow_the_schema():
    jsonschema = pytest.importorskip("jsonschema")
    rows = rows_of(
        [part(repeat=1, f=0.7), part(repeat=0, f=0.5), part(system="coarse", draws=None, chains=None, sweeps=None)]
    )
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(rows, SCHEMA)
    assert [row["system"] for row in rows] == ["coarse", "scdp1"]
    assert rows[1]["metrics"]["f"] == pytest.approx(0.6)
    assert rows[1]["standard_error"]["f"] == pytest.approx(0.1)
    assert rows[1]["repeats"] == 2
    assert rows[1]["paper"]["f"] == 0.666
    assert rows[0]["standard_error"] is None
    assert {row["features"] for row in rows} == {"unit"}
    del rows[0]["paper"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(rows, SCHEMA)


def test_what_does_not_depend_on_the_scale_has_a_row_at_each():
    rows = rows_of([part(), part(features="raw", f=0.7), part(system="coarse", draws=None)])
    assert [(row["system"], row["features"], row["metrics"]["f"]) for row in rows] == [
        ("coarse", "unit", 0.5),
        ("scdp1", "unit", 0.5),
        ("coarse", "raw", 0.5),
        ("scdp1", "raw", 0.7),
    ]


def test_draws_are_averaged_within_chains_and_spread_between_them():
    gold = np.array([0, 0, 1, 1])
    right, fine = [0, 0, 1, 1], [0, 1, 2, 3]
    scores = score_draws(np.array([[right, right], [right, fine]]), gold)
    assert scores["mean"]["r"] == pytest.approx(0.75)
    assert scores["spread"]["r"] == pytest.approx(np.std([1.0, 0.5], ddof=1))
    assert scores["clusters"] == pytest.approx(2.5)
    assert scores["scored"] == 4
    assert scores["last"]["r"] == pytest.approx(0.5)
    assert [chain["clusters"] for chain in scores["by_chain"]] == [2.0, 3.0]
    assert score_draws(np.array([[right]]), gold)["spread"] is None


def test_only_test_items_are_scored():
    rows = np.zeros((3, 1))
    task = Task(
        "tiny",
        Labelled(rows, np.array([1, 1, 2]), np.arange(3)),
        Labelled(rows, np.array([7, 7, 8]), np.arange(3)),
        "made up",
    )
    found = score_part(Outcome(np.array([0, 0, 1])), Problem("digits", task, None))
    assert found["metrics"]["f"] == 1.0
    assert found["items"] == 3
    assert found["gold_clusters"] == 2


def test_joining_puts_training_items_first():
    def items(names, groups):
        return Labelled(records_from({"name": names}, "made up"), np.array(names), np.array(names), np.array(groups))

    both = join_parts(items(["a", "b"], [0, 1]), items(["c"], [2]))
    assert list(both.data["name"]) == ["a", "b", "c"]
    assert list(both.groups) == [0, 1, 2]


def test_the_watch_leaves_the_first_sweep_out(monkeypatch):
    clock = iter([10.0, 12.0, 14.0, 100.0, 103.0])
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    told = []
    watch = Watch(Effort(2, 3, 0, tell=told.append))
    assert watch.seconds_per_sweep() is None
    for chain, sweep in ((0, 1), (0, 2), (0, 3), (1, 1), (1, 2)):
        watch.advance(chain, sweep)
    assert watch.seconds_per_sweep() == pytest.approx((4 + 3) / 3)
    assert told == pytest.approx([1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6])


@pytest.mark.parametrize(("value", "text"), [(0.5, ".500"), (1.0, "1.000"), (-0.02, "-.020"), (10.05, "10.050")])
def test_scores_are_written_as_the_paper_does(value, text):
    assert score(value) == text


def test_every_row_of_a_table_has_the_papers_number_beside_ours():
    rows = rows_of([part(), part(task="identity", system="namematch"), part(task="digits", system="fine")])
    cells = chapters.score_table(rows[:1]).rows[0]
    assert cells[:5] == ("Fine", ".250 (.771)", ".250 (1.000)", ".250 (.000)", ".500 (.000)")
    summary = chapters.summary_chapter(rows)[1]
    assert summary.header == ("system", "Digits, unit", "Identity uncertainty, unit")
    assert ("SCDP-1", ".500 (.666)", "–") in summary.rows


def test_the_speed_table_compares_ten_thousand_sweeps():
    table = chapters.speed_chapter(rows_of([part()]))[-1]
    assert table.rows == (("Digits", "SCDP-1", "100", "0.667", "24 x"),)


def test_the_mean_over_authors_needs_all_three():
    authors = [part(task=task, f=f) for task, f in zip(list(TASKS)[3:], (0.3, 0.6, 0.9), strict=True)]
    assert chapters.authors_chapter(rows_of(authors[:2])) == []
    assert chapters.authors_chapter(rows_of(authors))[1].rows[0][:2] == ("SCDP-1", ".600 (.518)")


def test_documents_escape_what_records_hold(tmp_path):
    picture = tmp_path / "figures" / "a.png"
    write_atomically(picture, "not a picture")
    blocks = [
        Heading("A <b>", 1),
        Paragraph("x & y"),
        TextTable(("a", "b"), (("1|2", "<script>"),)),
        Figure(picture, "c"),
    ]
    page = to_html(blocks, "T")
    assert "<script" not in page
    assert "x &amp; y" in page
    assert "data:image/png;base64," in page
    assert "http://" not in page
    assert "https://" not in page
    text = to_markdown(blocks, tmp_path)
    assert "| 1\\|2 | <script> |" in text
    assert "![c](figures/a.png)" in text
