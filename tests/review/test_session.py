from __future__ import annotations

import pytest

from review_site import make_site
from scdp.errors import InputError
from scdp.review.log import DecisionLog
from scdp.review.session import Session, random_answers
from scdp.review.terminal import ask_in_terminal
from scdp.table.decisions import read_decisions


@pytest.fixture
def session(tmp_path) -> Session:
    return make_site(tmp_path).session


def test_people_are_asked_about_different_records(session):
    posed = [session.pose(key) for key in "abcdef"]
    rows = [row for each in posed for row in each.question.rows]
    assert len(rows) == len(set(rows))
    assert session.pose("a") is posed[0]


def test_an_answer_sent_twice_counts_once(session):
    posed = session.pose("a")
    for _ in range(3):
        session.answer("a", posed.number, [0] * len(posed.question.rows))
    assert session.n_answers == 1
    assert len(read_decisions(session.log.path)) == 1


def test_the_answer_takes_effect_at_once(session):
    rows = session.pose("a").question.rows
    session.answer("a", session.pose("a").number, [0] * len(rows))
    assert {session.beliefs.probability(rows[0], row) for row in rows} == {1.0}
    session.undo("a")
    assert session.beliefs.probability(rows[0], rows[1]) < 1.0
    assert session.pose("a").question.rows == rows
    assert read_decisions(session.log.path) == []


def test_people_take_back_their_own_answers_only(session):
    for key in "ab":
        posed = session.pose(key)
        session.answer(key, posed.number, list(range(len(posed.question.rows))))
    session.undo("a")
    assert not session.undo("a")
    assert session.n_answers == 1
    (left,) = read_decisions(session.log.path)
    assert set(left.ids) == {session.log.ids[row] for row in session.people["b"].given[0][0].question.rows}


def test_a_contradiction_leaves_the_question_open(session):
    posed = session.pose("a")
    rows = posed.question.rows
    session.decide("b", rows[:2], [0, 0])
    with pytest.raises(InputError, match="contradicts"):
        session.answer("a", posed.number, list(range(len(rows))))
    assert session.pose("a") == posed


def test_who_comes_back_goes_on(tmp_path):
    first = make_site(tmp_path).session
    for _ in range(8):
        posed = first.pose("a")
        first.answer("a", posed.number, [0] * len(posed.question.rows))
    again = make_site(tmp_path).session
    assert again.n_answers == 8 or len(again.log.decisions) == 8
    assert len(random_answers(again.log.decisions)) == 2
    decided = {again.log.row_of[one] for _, answer in first.people["a"].given for one in answer.ids}
    assert not set(again.pose("a").question.rows) <= decided


def test_learning_goes_on_in_the_background(session):
    session.start()
    for _ in range(5):
        posed = session.pose("a")
        session.answer("a", posed.number, [0] * len(posed.question.rows))
    for _ in range(600):
        if not session.is_learning:
            break
        session._thread.join(0.05)
    assert session.quality is not None
    assert not session.problem
    session.stop()


def test_a_failure_to_learn_loses_nothing(session, monkeypatch):
    monkeypatch.setattr(session._source, "others", lambda beliefs: 1 / 0)
    session.start()
    for _ in range(600):
        if session.problem:
            break
        session._thread.join(0.05)
    assert "division" in session.problem
    posed = session.pose("a")
    session.answer("a", posed.number, [0] * len(posed.question.rows))
    assert len(DecisionLog(session.log.path, session.log.ids).decisions) == 1
    session.stop()


def test_the_terminal_asks_the_same(tmp_path):
    site = make_site(tmp_path)
    said, lines = iter(["d", "?", "s", "u", "aab", "c", "q"]), []
    given = ask_in_terminal(site.session, site.view, "jon", False, lines.append, lambda prompt: next(said))
    assert given == 3
    decisions = read_decisions(site.session.log.path)
    assert {one.who for one in decisions} == {"jon"}
    assert [one.decision for one in decisions] == ["different", "same", "different", "cannot tell"]


def test_the_terminal_ends_with_its_input(tmp_path):
    site = make_site(tmp_path)

    def no_more(prompt: str) -> str:
        raise EOFError

    assert ask_in_terminal(site.session, site.view, None, True, lambda line: None, no_more) == 0
