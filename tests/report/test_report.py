"""The report of a clustering: its sections, its words, and that text of others is shown and never obeyed."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
import zlib
from base64 import b64decode, b64encode
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest

from html_checker import Checker
from report_cases import made_calibration, made_learned, made_result, two_records
from scdp.errors import InputError
from scdp.estimators.result import ClusterResult, UncertainPair, Verdict
from scdp.posterior import Posterior
from scdp.report import escape, escape_hidden, isolate, mark_differences, sections
from scdp.report.charts import calibration_plot, format_short, histogram, size_bars, size_classes, trace_lines
from scdp.report.outputs import report_html, write_report
from scdp.report.sections import judge_calibration

# Each of them turns text around, hides it, or cannot be written to a file at all.
UNSEEN = ["\u202e", "\u2066", "\u200f", "\u061c", "\u200b", "\ufeff", "\x00", "\x1b", "\u2028", "\ud800", "\U000e0041"]


@pytest.fixture(scope="module")
def result():
    return made_result()


@pytest.fixture(scope="module")
def page(result):
    return report_html(result)


def words_of(page):
    """What a reader sees."""
    body = page.partition("</head>")[2]
    return " ".join(re.sub("<[^>]+>", " ", body).split())


# ---- the page ----


def test_the_page_is_well_formed_and_asks_for_nothing(page):
    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    assert checker.addresses == []
    assert not {"link", "iframe", "object", "img"} & set(checker.tags)
    assert "url(" not in page
    assert "default-src 'none'" in page


def test_only_the_pages_own_script_can_run(page):
    scripts = re.findall("<script(.*?)>(.*?)</script>", page, re.DOTALL)
    assert [attributes for attributes, _ in scripts] == [' id="clusters-data" type="text/plain"', ""]
    digest = b64encode(sha256(scripts[1][1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'\"" in page
    assert "innerHTML" not in scripts[1][1]


def unpacked(page):
    (packed,) = re.findall('type="text/plain">(.*?)</script>', page)
    return json.loads(zlib.decompress(b64decode(packed)))


def test_the_page_holds_every_cluster_and_record(result, page):
    data = unpacked(page)
    assert sorted(data["ids"]) == sorted(result.ids)
    assert sorted(data["names"]) == sorted(set(result.labels))
    assert data["columns"][:4] == ["author", "title", "venue", "year"]
    start = 0
    for name, size, least in zip(data["names"], data["sizes"], data["least"], strict=True):
        rows = [result.ids.tolist().index(identifier) for identifier in data["ids"][start : start + size]]
        assert set(result.labels[rows]) == {name}
        assert size == (result.labels == name).sum()
        assert least == pytest.approx(100 * result.probabilities[rows].min(), abs=0.51)
        cells = [column[start] for column in data["cells"]]
        assert cells == [result.records[column][rows[0]] for column in data["columns"]]
        start += size


def test_a_page_too_large_leaves_out_columns_and_then_sure_clusters_and_says_so(result, monkeypatch):
    whole = len(zlib.compress(json.dumps(unpacked(report_html(result))).encode()))
    monkeypatch.setattr(sections, "MOST_BYTES", whole * 9 // 10)
    fewer = unpacked(report_html(result))
    assert 3 <= len(fewer["columns"]) < len(result.records.names) - 1
    assert len(fewer["ids"]) == result.n_records
    monkeypatch.setattr(sections, "MOST_BYTES", whole // 4)
    page = report_html(result)
    kept = unpacked(page)
    assert 1 <= len(kept["names"]) < result.n_clusters
    assert f"The page holds {len(kept['names'])} of {result.n_clusters} clusters" in page
    assert max(kept["least"]) <= 100 * result.probabilities.max()


def test_the_estimate_is_on_top(result, page):
    top = words_of(page[: page.index("How many clusters?")])
    for name in ("f", "precision", "recall", "b_cubed"):
        found = result.expected[name]
        assert f"{found['mean']:.3f}" in top
        assert f"90% interval {found['low']:.3f} to {found['high']:.3f}" in top


def test_a_resolver_has_bars_in_words(result):
    learned = made_learned(weights=np.array([[4.0, 1.0, 0.2, 0.01]]), type_shares=np.ones(1))
    words = words_of(report_html(replace(result, learned=learned)))
    assert "edit distance of title counts much (4) edit distance of author counts (1)" in words
    assert "of year counts little (0.2) edit distance of venue counts hardly at all (0.01)" in words
    assert "type 1" not in words


def test_it_has_every_section(page):
    assert re.findall("<h2>(.*?)</h2>", page) == [
        "How good is it? Estimated without gold clusters, from the draws",
        "How many clusters?",
        "How large are they?",
        "What was learned",
        "Can the probabilities be believed?",
        "Can the draws be trusted?",
        "The clusters most in doubt, as pictures",
        "The most uncertain decisions",
        "All clusters",
    ]


def test_it_says_how_many_clusters_and_how_sure(result, page):
    low, high = result.posterior.n_clusters_interval(0.9)
    words = words_of(page)
    assert f"90% interval {low} to {high}" in words
    assert f"found: {result.n_clusters}" in words
    sure = np.mean(result.probabilities >= 0.9)
    assert f"{sure:.0%} of the records belong to their cluster" in words
    assert "learned from 120 records in 31 clusters" in words


def test_weights_by_type_and_feature_are_there_and_rare_types_are_counted(page):
    words = words_of(page)
    assert "type 1 70% type 2 30% edit distance of title 22 3 edit distance of author 9.1 14" in words
    assert "year 0.8 120 edit distance of venue 1.2 0.2" in words
    assert "Not shown: 1 rarer type." in words


def test_only_the_heaviest_of_many_features_are_shown(result):
    weights = np.ones((1, 256))
    weights[0, [7, 200]] = 50.0
    learned = made_learned(features=tuple(f"pixel {k}" for k in range(256)), weights=weights, type_shares=None)
    words = words_of(report_html(replace(result, learned=learned)))
    assert "pixel 7 counts much (50)" in words
    assert "pixel 200 counts much (50)" in words
    assert "Not shown: 232 lighter features." in words


def test_numbers_that_are_at_hand_tell_clusters_apart_as_names_do(result):
    numbers = np.unique(result.labels, return_inverse=True)[1]
    assert np.array_equal(replace(result, numbers=numbers * 7).codes, result.codes)


def test_a_model_without_weights_and_calibration_says_so(result):
    words = words_of(report_html(replace(result, learned=made_learned(weights=None, calibration=None))))
    assert "The model scdp1 has no weights for features." in words
    assert "Not measured: it is read from training clusters that are held out" in words


@pytest.mark.parametrize("colour", ["green", "amber", "red"])
def test_calibration_is_never_green_beside_a_verdict_that_is_not(result, colour, monkeypatch):
    monkeypatch.setattr(ClusterResult, "verdict", property(lambda self: Verdict(colour, ("So it is.",))))
    title = "Can the probabilities be believed?"
    part = report_html(result).split(title)[1].split("</section>")[0]
    assert judge_calibration(result.learned.calibration)[1]
    assert ('class="verdict"' in part) == (colour == "green")
    assert ('class="verdict warn"' in part) == (colour != "green")
    assert "the verdict at the top is on the records at hand" in part


@pytest.mark.parametrize(("shift", "agreed"), [(0, True), (30, False)])
def test_chains_that_disagree_are_told_before_anything_else(result, shift, agreed):
    rng = np.random.default_rng(1)
    traces = {"alpha_cluster": rng.normal([[0], [shift]], 1, (2, 200))}
    draws = rng.integers(0, 2, (2, 200, result.n_records))
    page = report_html(replace(result, posterior=Posterior(draws, traces)))
    told = "The chains have not converged on the concentration of clusters"
    assert page.count(told) == (0 if agreed else 2)
    assert (told in page[: page.index("How many clusters?")]) is not agreed
    assert ('class="bad"' in page) is not agreed
    assert ("Converged as far as can be told: the 2 chains agree" in page) is agreed
    # The number of clusters is 2 in every draw: a scalar that never moves has no picture.
    assert page.count("<polyline") == 2


def test_one_chain_is_told_that_more_would_tell_more(result):
    posterior = Posterior(np.random.default_rng(0).integers(0, 2, (1, 400, result.n_records)))
    words = words_of(report_html(replace(result, posterior=posterior)))
    assert "the two halves of the chain agree" in words
    assert "Several chains (n_chains) would tell more." in words


def test_independent_draws_have_no_traces(result):
    page = report_html(replace(result, independent_draws=True))
    words = words_of(page)
    assert "draws each of its 400 clusterings anew, from no Markov chain" in words
    assert "standard error of at most 0.025" in words
    assert "R-hat" not in words
    assert "<polyline" not in page


def test_the_most_uncertain_fifty_decisions_are_shown_ten_of_them_at_once(result):
    """Every record in a cluster of its own, so that every pair is a decision of its own."""
    alone = replace(result, labels=np.arange(result.n_records))
    page = report_html(alone)
    assert len(result.uncertain) == 60
    assert page.count('<div class="pair">') == 50
    assert page.partition("<summary>Show 40 more")[0].count('<div class="pair">') == 10
    assert "Not shown: 10 decisions that are less uncertain." in page
    first = result.uncertain[0]
    assert f"The same with probability {first.probability:.2f} <span>" in page
    assert page.index(f"<bdi>{result.ids[first.left]}</bdi></th>") > page.index("most uncertain decisions")


def test_pairs_of_the_same_clusters_are_one_decision():
    pair = UncertainPair(0, 1, 0.5, False)
    result = two_records("Ann", "Bea", labels=np.array([1, 2]))
    pairs = (pair, replace(pair, left=1, right=0, probability=0.6), UncertainPair(0, 0, 0.7, True))
    page = report_html(replace(result, uncertain=pairs))
    assert page.count('<div class="pair">') == 2
    assert "probability 0.50 <span>kept apart, in <bdi>1</bdi> and <bdi>2</bdi>; 1 more such pair</span>" in page
    assert "probability 0.70 <span>put together, in <bdi>1</bdi></span>" in page


def test_decisions_differences_and_missing_cells_are_told(result):
    page = report_html(two_records("Ann Lee, Paris", "Ann Li, Paris"))
    assert "put together, in <bdi>1</bdi>" in page
    assert "<bdi>Ann <mark>Lee</mark>, Paris</bdi>" in page
    assert "<bdi>Ann <mark>Li</mark>, Paris</bdi>" in page
    apart = two_records("Ann", None, labels=np.array([1, 2]))
    apart = replace(apart, uncertain=(replace(apart.uncertain[0], together=False),))
    page = report_html(apart)
    assert "kept apart, in <bdi>1</bdi> and <bdi>2</bdi>" in page
    assert '<tr class="differs"><th>name</th><td><bdi>Ann</bdi></td><td><small>missing</small></td></tr>' in page


def test_fields_that_are_not_compared_come_last_and_grey(page):
    assert '"aside"' in page or '"differs aside"' in page
    assert "Fields in grey are not compared by the model." in page
    first = page.partition('<div class="pair">')[2].partition("</div>")[0]
    names = re.findall("<tr[^>]*><th>(.+?)</th>", first)
    assert names[-1] == "pages"
    assert "id" not in names


def test_nothing_uncertain_is_said(result):
    assert "No pair of records is uncertain." in report_html(replace(result, uncertain=()))


def test_given_clusters_are_told_apart(result):
    codes = np.unique(result.labels, return_inverse=True)[1]
    fixed = np.where(np.arange(len(codes)) < 100, codes, -1)
    draws = np.tile(codes, (2, 20, 1))
    posterior = Posterior(draws, fixed=fixed)
    words = words_of(report_html(replace(result, posterior=posterior)))
    assert "20 records were put into clusters beside 100 records whose clusters were given" in words
    assert f"found: {len(set(codes[100:]))}" in words
    assert "Clusters that hold only given records are not counted." in words


def test_all_given(result):
    codes = np.unique(result.labels, return_inverse=True)[1]
    posterior = Posterior(np.tile(codes, (2, 20, 1)), fixed=codes)
    assert "The cluster of every record was given." in report_html(replace(result, posterior=posterior))


def test_one_record(tmp_path):
    one = two_records("Ann", "Bea")
    one = replace(
        one,
        records=one.records.take(np.array([0])),
        ids=one.ids[:1],
        labels=one.labels[:1],
        probabilities=one.probabilities[:1],
        posterior=Posterior(np.zeros((1, 8, 1), int)),
        uncertain=(),
    )
    write_report(tmp_path / "one.html", one)
    assert "1 records clustered" in words_of((tmp_path / "one.html").read_text())


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path, result):
    with pytest.raises(InputError, match=r"report\.html: cannot be written"):
        write_report(tmp_path / "nowhere" / "report.html", result)
    assert list(tmp_path.iterdir()) == []


# ---- text of others ----


ATTACK = "</td><script>alert(\"1\")</script><img src=x onerror=alert(2)> & 'quoted'"


def everywhere(text):
    """A result with the text in every place where a user's text may stand."""
    result = two_records(text, "other")
    records = replace(result.records, columns={text: result.records["name"]})
    learned = made_learned(model=text, features=(text,), weights=np.ones((1, 1)), type_shares=None)
    return replace(
        result,
        title=text,
        records=records,
        ids=np.array([text, "b"], object),
        labels=np.array([text, text], object),
        posterior=Posterior(np.array([[[0, 0], [0, 1]] * 10] * 2), {text: np.random.default_rng(0).random((2, 20))}),
        learned=learned,
    )


def test_markup_in_records_is_shown_and_not_obeyed():
    page = report_html(everywhere(ATTACK))
    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    assert checker.addresses == []
    assert checker.tags.count("script") == 2
    assert "img" not in checker.tags
    assert "&lt;script&gt;" in page
    # What the script shows is text: markup stays as it was written.
    assert unpacked(page)["cells"][0][0] == ATTACK


@pytest.mark.parametrize("unseen", UNSEEN, ids=lambda unseen: f"U+{ord(unseen):04X}")
def test_characters_that_cannot_be_seen_are_spelled(unseen, tmp_path):
    write_report(tmp_path / "page.html", everywhere(f"in{unseen}voice"))
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert unseen not in page
    code = ord(unseen)
    spelling = f"in\\u{code:04x}voice" if code < 0x10000 else f"in\\U{code:08x}voice"
    assert page.count(spelling) >= 8


def test_letters_of_all_scripts_stay_as_they_are():
    for text in ("שלום", "مرحبا", "می\u200cخواهم", "👩\u200d🔬", "naïve, 北京", "e\u0301"):
        assert escape_hidden(text) == escape(text) == text
        assert isolate(text) == f"<bdi>{text}</bdi>"


def test_differences_are_marked_by_word():
    assert mark_differences("a <b> c", "a <b> d") == "<bdi>a &lt;b&gt; <mark>c</mark></bdi>"
    assert mark_differences("same", "same") == "<bdi>same</bdi>"
    assert mark_differences("x", "") == "<bdi><mark>x</mark></bdi>"
    assert "<mark>\\u202e</mark>" not in mark_differences("a", "a\u202e")
    assert mark_differences("a\u202e", "a") != mark_differences("a", "a")


def test_long_cells_are_cut():
    assert len(mark_differences("word " * 5000, "other")) < 3000


# ---- verdicts and charts ----


def test_calibration_is_judged_by_its_worst_full_bin():
    assert judge_calibration(made_calibration()) == (
        "Held-out pairs came out as predicted: no bin with 20 of them or more is off by more than 0.10 (at most 0.00). "
        "Of 10,785 pairs 885 were in doubt (0.1 to 0.9).",
        True,
    )
    words, good = judge_calibration(made_calibration(shift=0.3))
    assert not good
    assert "those near 0.45 are too high, 0.15 of such held-out pairs" in words
    assert "too low" in judge_calibration(made_calibration(shift=-0.3))[0]


def test_easy_held_out_pairs_tell_nothing_of_the_others():
    easy = replace(made_calibration(), count=np.array([9000, 3, 2, 1, 1, 2, 2, 0, 8, 900]))
    assert judge_calibration(easy) == (
        "Too few to judge the probabilities: of 9,919 held-out pairs 19 were in doubt (0.1 to 0.9), the others were "
        "easy.",
        False,
    )
    thin = replace(made_calibration(), count=np.array([0, 3, 3, 3, 3, 3, 3, 0, 3, 0]))
    assert not judge_calibration(thin)[1]


def parsed(chart):
    root = ElementTree.fromstring(chart)
    return root, [element.tag.rpartition("}")[2] for element in root.iter()]


def test_a_dot_for_each_bin_that_holds_pairs():
    given = made_calibration()
    root, _ = parsed(calibration_plot(given.predicted, given.observed, given.count))
    dots = [element for element in root.iter() if element.tag.endswith("circle")]
    assert len(dots) == 9
    assert float(dots[0].get("r")) == max(float(dot.get("r")) for dot in dots)
    assert dots[0][0].text == "9000 pairs: predicted 0.05, observed 0.05"


def test_sizes_share_bars_when_they_are_large():
    assert size_classes(np.array([1, 1, 3, 7, 12])) == [
        ("1", 2), ("2", 0), ("3", 1), ("4", 0), ("5–9", 1), ("10–19", 1),
    ]  # fmt: skip
    assert size_classes(np.array([5000]))[-1] == ("1000+", 1)
    assert sum(number for _, number in size_classes(np.arange(1, 3000))) == 2999
    _, tags = parsed(size_bars(np.array([1, 1, 3, 7, 12])))
    assert tags.count("rect") == 4


def test_many_numbers_share_bars_in_a_histogram():
    counts = np.arange(1000, 1500)
    root, tags = parsed(histogram(counts, (1100, 1200), truth=1150, word="found"))
    assert tags.count("rect") <= 50
    shares = [float(re.search(r": ([\d.]+)%", bar[0].text)[1]) for bar in root.iter() if bar.tag.endswith("rect")]
    assert sum(shares) == pytest.approx(100, abs=2)
    assert "found: 1150" in "".join(root.itertext())


def test_a_trace_has_a_line_a_chain_and_leaves_gaps_out():
    values = np.array([[0.0, 1.0, np.nan, 2.0], [2.0, 2.0, 2.0, 2.0]])
    root, _ = parsed(trace_lines(values, "x & y"))
    lines = [element.get("points").split() for element in root.iter() if element.tag.endswith("polyline")]
    assert [len(points) for points in lines] == [3, 4]
    assert root.get("aria-label") == "Trace of x & y along the draws, a line for each chain"
    parsed(trace_lines(np.full((2, 5), 3.0), "constant"))
    parsed(trace_lines(np.full((2, 5), np.nan), "nothing"))
    assert len(trace_lines(np.zeros((1, 100_000)), "long")) < 10_000


@pytest.mark.parametrize(
    ("value", "words"),
    [(0.0, "0"), (1.2345, "1.23"), (123.4, "123"), (-4016.2, "-4016"), (1e9, "1e+09"), (2e-7, "2e-07"), (np.nan, "–")],
)
def test_numbers_in_short(value, words):
    assert format_short(value) == words
