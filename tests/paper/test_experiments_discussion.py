import pytest

from paper.test_experiments import part
from scdp.paper.experiments import discussion
from scdp.paper.experiments.discussion import (
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
from scdp.paper.experiments.document import Paragraph, Table
from scdp.paper.experiments.paper import PUBLISHED
from scdp.paper.experiments.results import rows_of


def table_of(blocks):
    return next(block for block in blocks if isinstance(block, Table))


def rows_as_published(task):
    rows = rows_of([part(task, name) for name in PUBLISHED[task]])
    return [{**row, "metrics": row["paper"]} for row in rows]


def test_a_verdict_is_given_row_by_row():
    table = table_of(comparison_chapter(rows_of([part(f=0.65), part(system="fine", f=0.2)])))
    verdicts = {row[0]: row[-1] for row in table.rows}
    assert verdicts["Fine"] == HIGHER
    assert verdicts["SCDP-1"] == SAME
    assert verdicts["Coarse"] == verdicts["Binary"] == "not run"
    assert len(table.rows) == len(PUBLISHED["digits"])
    assert dict(zip(table.header, table.rows[-3], strict=True))["difference"] == "-0.016"


def test_verdicts_are_counted():
    (told,) = (
        block.text
        for block in comparison_chapter(rows_of([part(f=0.65), part(system="fine", f=0.2)]))
        if isinstance(block, Paragraph)
    )
    assert told.endswith("Of 2 rows that can be compared, F is in 1 the same, in 1 higher, in 0 lower.")


def test_a_reason_is_shown_for_the_verdict_it_was_written_for_alone():
    remarks = {("digits", "scdp1"): Remark(SAME, "Because."), ("digits", "fine"): Remark(LOWER, "Since.")}
    rows = rows_of([part(f=0.65), part(system="fine", f=0.2)])
    reasons = {row[0]: row[-1] for row in table_of(comparison_chapter(rows, remarks)).rows}
    assert reasons["SCDP-1"] == "Because."
    assert reasons["Fine"] == "Not explained: an earlier run gave another verdict."
    assert reasons["Coarse"] == ""


def test_the_order_of_table_5_is_told_where_all_its_systems_ran():
    rows = rows_as_published("coreference")
    (told,) = (
        block.text
        for block in comparison_chapter(rows)[1:]
        if isinstance(block, Paragraph) and "Order" in block.text
    )
    assert "The paper: Binary .896, SCDP-3 .841, SCDP-2 .651, Xing-K .608, SCDP-1 .449." in told
    assert not any("Order" in getattr(block, "text", "") for block in comparison_chapter(rows[:-1]))


def test_every_row_of_the_paper_has_a_reason():
    remarks = written_remarks()
    assert set(remarks) == {(task, system) for task, table in PUBLISHED.items() for system in table}
    assert {remark.verdict for remark in remarks.values()} <= {SAME, HIGHER, LOWER}
    assert all(remark.why.endswith(".") for remark in remarks.values())


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


def test_scores_at_the_edge_are_the_same():
    assert discussion.verdict_on(0.549, 0.5) == SAME
    assert discussion.verdict_on(0.56, 0.5) == HIGHER
    assert discussion.verdict_on(0.44, 0.5) == LOWER
