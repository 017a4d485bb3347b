from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from review_site import make_site
from scdp.errors import InputError
from scdp.review import KEPT_FOR, Session, random_answers
from scdp.review.questions import Question
from scdp.review.view import Weight, ask_in_terminal, waterfall
from scdp.table.decisions import DecisionLog, read_decisions


@pytest.fixture
def session(tmp_path) -> Session:
    return make_site(tmp_path).session


def test_people_are_asked_about_different_records(session):
    posed = [session.pose(key) for key in "abcdef"]
    rows = [row for each in posed for row in each.question.rows]
    assert len(rows) == len(set(rows))
    assert session.pose("a") is posed[0]


def test_a_question_that_was_answered_is_not_asked_again(session):
    """The background may have chosen it before the answer came: whatever it chose is checked once more."""
    rows = (1, 2)
    question = Question(rows, 0.1, False, (0.3,))
    session.decide("b", rows, [0, 1])
    labels = session.beliefs.columns(np.array(rows))
    assert len(np.unique(labels, axis=0)) > 1
    session._ready = [question]
    assert set(session.pose("a").question.rows) != set(rows)
    for number in range(80):
        posed = session.pose(f"other {number}")
        assert posed is None or set(posed.question.rows) != set(rows)


def test_a_question_is_kept_for_one_person_until_it_expires(tmp_path):
    now = [0.0]
    made = make_site(tmp_path, n_blocks=1).session
    session = Session(made.log, made._source, seed=1, clock=lambda: now[0])
    rows = session.pose("a").question.rows
    assert set(rows) == {0, 1, 2}
    assert session.pose("b") is None
    now[0] += KEPT_FOR - 1
    assert session.pose("b") is None
    now[0] += 2
    posed = session.pose("b")
    assert set(posed.question.rows) == {0, 1, 2}
    # Nobody else has it while b is asked, also not the one who had it before.
    assert session.pose("a") is None
    session.answer("b", posed.number, [0, 0, 0])
    assert session.pose("a") is None
    assert len(read_decisions(session.log.path)) == 1


def test_an_answer_that_comes_late_is_kept(tmp_path):
    now = [0.0]
    made = make_site(tmp_path, n_blocks=1).session
    session = Session(made.log, made._source, seed=1, clock=lambda: now[0])
    first = session.pose("a")
    now[0] += KEPT_FOR + 1
    second = session.pose("b")
    session.answer("a", first.number, [0, 0, 0])
    session.answer("b", second.number, [0, 0, 0])
    assert len(read_decisions(session.log.path)) == 2


def test_what_is_taken_back_does_not_take_a_question_from_others(tmp_path):
    session = make_site(tmp_path, n_blocks=1).session
    posed = session.pose("a")
    session.answer("a", posed.number, None)
    session.log.withdraw(session.people["a"].given[0].answer)
    other = session.pose("b")
    assert other is not None
    session.log.append(session.people["a"].given[0].answer)
    session.undo("a")
    assert session.people["a"].open is None
    assert session.pose("b") == other


def test_random_answers_are_taken_back_by_those_who_gave_them(session):
    for key in "bbbaaaab":
        posed = session.pose(key)
        session.answer(key, posed.number, [0] * len(posed.question.rows))
    assert len(session._random) == 2
    assert any(given.told for given in session.people["a"].given)
    own = [given.told for given in session.people["b"].given if given.told is not None]
    while session.undo("a"):
        pass
    assert [id(one) for one in session._random] == [id(one) for one in own]


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
    assert set(left.ids) == {session.log.ids[row] for row in session.people["b"].given[0].posed.question.rows}


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
    decided = {again.log.row_of[one] for given in first.people["a"].given for one in given.answer.ids}
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


def test_the_terminal_says_why(tmp_path):
    site = make_site(tmp_path)
    said, lines = iter(["w", "w", "q"]), []

    def read(prompt: str) -> str:
        if "    what each comparison says is not known yet" in lines:
            lines.clear()
            site.view.evidence = SimpleNamespace(weights=lambda row, other: weights)
        return next(said)

    weights = [
        Weight("any two records", -4.0),
        Weight("phone in tel", 7.9, "the same phone, which no other record has"),
    ]
    site.view.evidence = None
    ask_in_terminal(site.session, site.view, "jon", False, lines.append, read)
    assert any("the same with probability" in line for line in lines)
    assert "    any two records: -4.0" in lines
    assert "    the same phone, which no other record has: +7.9 (phone in tel)" in lines
    assert "<span>the same phone, which no other record has (phone in tel)</span>" in waterfall(weights)


def test_the_terminal_ends_with_its_input(tmp_path):
    site = make_site(tmp_path)

    def no_more(prompt: str) -> str:
        raise EOFError

    assert ask_in_terminal(site.session, site.view, None, True, lambda line: None, no_more) == 0
