import pytest
from benchmarks.paper_page import discussion
from benchmarks.paper_page.discussion import (
    CLAIMS,
    HIGHER,
    LOWER,
    SAME,
    Remark,
    answer,
    claims_chapter,
    comparison_chapter,
    written_remarks,
)
from benchmarks.paper_page.document import Paragraph, TextTable

from paper.test_experiments import part
from scdp.paper.results import rows_of
from scdp.paper.tasks import PUBLISHED


def table_of(blocks):
    return next(block for block in blocks if isinstance(block, TextTable))


def rows_as_published(task):
    rows = rows_of([part(task, name) for name in PUBLISHED[task]])
    return [{**row, "metrics": row["paper"]} for row in rows]


def test_a_verdict_is_given_row_by_row_at_each_scale():
    parts = [part(f=0.65), part(f=0.3, features="raw"), part(system="fine", f=0.2)]
    table = table_of(comparison_chapter(rows_of(parts)))
    at = {row[0]: dict(zip(table.header, row, strict=True)) for row in table.rows}
    assert at["Fine"]["unit verdict on F"] == at["Fine"]["raw verdict on F"] == HIGHER
    assert at["SCDP-1"]["unit verdict on F"] == SAME
    assert at["SCDP-1"]["raw verdict on F"] == LOWER
    assert at["SCDP-1"]["paper's VI"] == "1.176"
    assert at["Binary"]["unit verdict on F"] == "not run"
    assert len(table.rows) == len(PUBLISHED["digits"])


def test_verdicts_are_counted():
    told = next(
        block.text
        for block in comparison_chapter(rows_of([part(f=0.65), part(system="fine", f=0.2)]))
        if isinstance(block, Paragraph)
    )
    assert "Of 2 rows with unit features, F is in 1 the same, in 1 higher, in 0 lower." in told
    assert "with raw features" not in told


def test_a_reason_is_shown_for_the_verdicts_it_was_written_for_alone():
    remarks = {
        ("digits", "scdp1"): Remark(SAME, LOWER, "Because.", "make it"),
        ("digits", "fine"): Remark(LOWER, None, "Since.", "show it"),
    }
    rows = rows_of([part(f=0.65), part(system="fine", f=0.2)])
    reasons = {row[0]: row[-1] for row in table_of(comparison_chapter(rows, remarks)).rows}
    assert reasons["SCDP-1"] == "Because. `make it`"
    assert reasons["Fine"] == "Not explained: an earlier run gave another verdict."
    assert reasons["Coarse"] == ""
    rows = rows_of([part(f=0.65), part(f=0.65, features="raw")])
    reasons = {row[0]: row[-1] for row in table_of(comparison_chapter(rows, remarks)).rows}
    assert reasons["SCDP-1"].startswith("Not explained")


def test_the_order_of_table_5_is_told_where_all_its_systems_ran():
    rows = rows_as_published("coreference")
    (told,) = (
        block.text for block in comparison_chapter(rows)[1:] if isinstance(block, Paragraph) and "Order" in block.text
    )
    assert "The paper: Binary .896, SCDP-3 .841, SCDP-2 .651, Xing-K .608, SCDP-1 .449." in told
    assert not any("Order" in getattr(block, "text", "") for block in comparison_chapter(rows[:-1]))


def test_every_reason_has_an_experiment():
    remarks = written_remarks()
    assert remarks.keys() <= {(task, system) for task, table in PUBLISHED.items() for system in table}
    for remark in remarks.values():
        assert {remark.unit, remark.raw} <= {SAME, HIGHER, LOWER, None}
        assert remark.why.endswith((".", ":"))
        assert remark.command.startswith(("scdp ", "python -m "))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("training pays", ["yes", "yes", "yes", "yes"]),
        ("K-Means above CDP", ["yes", "yes", "yes", "yes"]),
        ("a metric helps", ["yes", "no", "yes", "no"]),
        ("1 < 2 < 3", ["yes", "yes", "yes", "yes"]),
        ("SCDP-3 above Binary", ["yes", "yes", "no", "yes"]),
        ("a rule is hard to beat", ["", "yes", "yes", ""]),
        ("a rule is best", ["", "no", "yes", ""]),
    ],
)
def test_the_papers_conclusions_hold_for_its_own_numbers(name, expected):
    """As its Section 7 says in words."""
    claim = next(claim for claim in CLAIMS if claim.name == name)
    told = [answer(claim, task, PUBLISHED[task]) for task in PUBLISHED]
    assert told == [f"{each} ({each})" if each else "" for each in expected]


def test_conclusions_are_told_where_their_systems_ran():
    assert claims_chapter(rows_of([part()])) == []
    table = table_of(claims_chapter(rows_of([part(system="kmeans", f=0.1), part(system="cdp", f=0.2)])))
    assert [row[:2] for row in table.rows] == [("K-Means above CDP", "no (yes)")]
    assert table.header[1] == "Digits, unit"


def test_scores_at_the_edge_are_the_same():
    assert discussion.verdict_on(0.549, 0.5) == SAME
    assert discussion.verdict_on(0.56, 0.5) == HIGHER
    assert discussion.verdict_on(0.44, 0.5) == LOWER
