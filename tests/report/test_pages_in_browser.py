"""Every page people are given, opened in a real browser as wide as a laptop and as narrow as a phone."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from benchmarks.paper_page.curves import fit_priors
from benchmarks.paper_page.output import write_pages

from browser import LAPTOP, MISSING, PHONE, open_browser
from paper.test_experiments import part
from paper.test_experiments_page import IMAGES, TYPES
from report_cases import made_result
from scdp.paper.systems import SYSTEMS, Settings
from scdp.paper.tasks import TASKS
from scdp.report.outputs import write_report

# The smallest letters of a picture that can be read on a phone, in CSS pixels.
LEGIBLE = 8.5


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """SCDP_PICTURES names a folder to keep the pictures in, for people to look at."""
    kept = os.environ.get("SCDP_PICTURES")
    with open_browser(Path(kept) if kept else tmp_path_factory.mktemp("pictures")) as opened:
        yield opened


@pytest.fixture(scope="module")
def results_page(tmp_path_factory):
    """The page of `scdp reproduce`: all tasks and systems, with made-up numbers and all its pictures."""
    types = {"digits": IMAGES, "references": TYPES}
    parts = [
        part(task, name, types=types.get(task), note="A note that is long enough to fill more than a line. " * 3)
        for task in TASKS
        for name, system in SYSTEMS.items()
        if system.applies_to(task)
    ]
    sizes = np.array([90, 40, 10, 4, 1, 1, 1])
    fits = [fit_priors(entry.title, sizes, np.random.default_rng(0)) for entry in TASKS.values() if not entry.extra]
    out = tmp_path_factory.mktemp("results")
    return write_pages(parts, Settings(quick=True), out, fits)[1]


@pytest.fixture(scope="module")
def cluster_page(tmp_path_factory):
    path = tmp_path_factory.mktemp("cluster") / "cluster.html"
    write_report(path, made_result())
    return path


PAGES = {
    "results_page": [
        "The paper's tables, run again",
        "Summary: F on all tasks (Table 5)",
        *(entry.title for entry in TASKS.values()),
        "Where we agree and disagree with the paper",
        "Speed: ten thousand sweeps of one chain",
        "What the reference types weigh",
        "Is a Dirichlet process the right prior? (Figure 1)",
    ],
    "cluster_page": [
        "Which of these citations are of the same paper?",
        "How many clusters?",
        "How large are they?",
        "What was learned",
        "Can the probabilities be believed?",
        "Can the draws be trusted?",
        "The most uncertain decisions",
        "All clusters",
    ],
}


@pytest.mark.parametrize("width", [LAPTOP, PHONE])
@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_whole_and_fits_the_screen(browser, request, name, width):
    visit = browser.visit(request.getfixturevalue(name), width)
    assert visit.requests == []
    assert visit.console == []
    assert set(PAGES[name]) <= set(visit.headings)
    assert visit.width <= width
    assert visit.smallest_text >= LEGIBLE
    assert visit.picture.stat().st_size > 20_000


# ---- the clusters of a report ----


def test_clusters_are_browsed_searched_and_filtered(browser, cluster_page):
    from playwright.sync_api import expect

    made = made_result()
    sizes = np.unique(made.labels, return_counts=True)[1]

    def act(page):
        # Pages change after the click that asked for it: every look waits until what it wants is there.
        status, listed = page.locator("#clusters-status"), page.locator("#clusters-list details")
        expect(status).to_have_text(f"1 to 25 of {made.n_clusters} clusters")
        expect(listed).to_have_count(25)
        page.click("#clusters-after")
        expect(status).to_have_text(f"26 to {made.n_clusters} of {made.n_clusters} clusters")
        page.select_option("#clusters-size", label="one record")
        expect(status).to_have_text(re.compile(f"of {(sizes == 1).sum()} clusters$"))
        page.select_option("#clusters-size", label="any size")
        page.select_option("#clusters-order", label="largest first")
        first = listed.first
        expect(first).to_contain_text(f"{sizes.max()} records")
        first.locator("summary").click()
        expect(first.locator("tr")).to_have_count(int(1 + sizes.max()))
        # The id of one record is enough to find its cluster.
        page.fill("#clusters-search", made.ids[7].upper())
        expect(listed).not_to_have_count(25)
        names = page.locator("#clusters-list summary b").all_inner_texts()
        assert made.labels[7] in names
        page.fill("#clusters-search", "no such thing")
        expect(status).to_have_text("0 clusters")

    visit = browser.visit(cluster_page, act=act)
    assert visit.console == []
    assert visit.requests == []


@pytest.mark.parametrize("width", [LAPTOP, PHONE])
def test_the_page_follows_the_readers_light(browser, cluster_page, width):
    seen = {}
    for scheme in ("light", "dark"):
        visit = browser.visit(
            cluster_page,
            width,
            scheme,
            lambda page, scheme=scheme: seen.update(
                {scheme: page.evaluate("getComputedStyle(document.body).backgroundColor")}
            ),
        )
        assert visit.console == []
        assert visit.width <= width
    light, dark = (sum(map(int, re.findall(r"\d+", seen[scheme]))) for scheme in ("light", "dark"))
    assert light > 600
    assert dark < 150


def test_a_script_of_others_does_not_run(browser, tmp_path):
    path = tmp_path / "page.html"
    write_report(path, made_result())
    hostile = path.read_text(encoding="utf-8").replace("</main>", "<script>document.title='run'</script></main>")
    path.write_text(hostile, encoding="utf-8")
    titles = []
    visit = browser.visit(path, act=lambda page: titles.append(page.title()))
    assert titles == [made_result().title]
    assert "Content Security Policy" in visit.console[0]


# ---- the browser itself: it would tell ----


def page_with(tmp_path, body):
    path = tmp_path / "page.html"
    path.write_text(f'<!doctype html><meta name="viewport" content="width=device-width">{body}')
    return path


@pytest.mark.parametrize(
    "body",
    [
        '<img src="http://127.0.0.1:9/a.png">',
        '<img src="other.png">',
        '<script>fetch("http://127.0.0.1:9/")</script>',
        '<style>@import "http://127.0.0.1:9/a.css";</style>',
    ],
)
def test_a_request_is_told(browser, tmp_path, body):
    (asked,) = browser.visit(page_with(tmp_path, body)).requests
    assert asked.startswith(("http://127.0.0.1:9/", tmp_path.as_uri()))


def test_what_a_policy_stops_is_told(browser, tmp_path):
    policy = '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'">'
    visit = browser.visit(page_with(tmp_path, f'{policy}<img src="http://127.0.0.1:9/a.png">'))
    assert "Content Security Policy" in visit.console[0]


def test_a_script_that_fails_is_told(browser, tmp_path):
    assert "nothing" in browser.visit(page_with(tmp_path, "<script>nothing.here</script>")).console[0]


def test_a_wide_page_is_told(browser, tmp_path):
    wide = page_with(tmp_path, '<div style="width:700px">wide</div>')
    assert browser.visit(wide, PHONE).width >= 700


def test_small_letters_are_told(browser, tmp_path):
    svg = '<svg viewBox="0 0 1000 100" style="width:100%"><text y="50" font-size="12">small</text></svg>'
    assert browser.visit(page_with(tmp_path, svg), PHONE).smallest_text < LEGIBLE


@pytest.mark.parametrize("required", ["", "1"])
def test_without_a_browser_the_test_says_so(monkeypatch, tmp_path, required):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setenv("SCDP_REQUIRE_BROWSER", required)
    told = pytest.fail.Exception if required else pytest.skip.Exception
    with pytest.raises(told, match=MISSING), open_browser(tmp_path):
        pass
