from __future__ import annotations

import os

import pytest

from scdp.errors import InputError
from scdp.table.decisions import Answer, DecisionLog, decisions_of, read_decisions

IDS = ["a", "b", "c", "d", "é"]


def test_an_answer_is_lines_that_say_the_same(tmp_path):
    log = DecisionLog(tmp_path / "d.jsonl", IDS)
    log.append(Answer(decisions_of(["a", "b", "c", "d"], [0, 0, 2, 2], "maria")))
    assert log.constraints.group.tolist() == [0, 0, 1, 1, -1]
    assert list(zip(log.constraints.left.tolist(), log.constraints.right.tolist(), strict=True)) == [(0, 2)]
    again = DecisionLog(tmp_path / "d.jsonl", IDS)
    assert again.decisions == log.decisions


def test_an_answer_is_on_the_disk_before_it_is_taken(tmp_path, monkeypatch):
    synced = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (synced.append(handle), real(handle)))
    log = DecisionLog(tmp_path / "d.jsonl", IDS)
    log.append(Answer(decisions_of(["a", "b", "c"], [0, 0, 1], None)))
    assert len(synced) == 1


def test_a_contradiction_is_refused_and_nothing_is_written(tmp_path):
    log = DecisionLog(tmp_path / "d.jsonl", IDS)
    log.append(Answer(decisions_of(["a", "b"], [0, 0], None)))
    log.append(Answer(decisions_of(["b", "c"], [0, 0], None)))
    before = (tmp_path / "d.jsonl").read_bytes()
    with pytest.raises(InputError, match="contradicts"):
        log.append(Answer(decisions_of(["a", "c"], [0, 1], None)))
    assert (tmp_path / "d.jsonl").read_bytes() == before


def test_taking_back_leaves_all_other_lines_in_place(tmp_path):
    log = DecisionLog(tmp_path / "d.jsonl", IDS)
    first = Answer(decisions_of(["a", "é"], [0, 0], "maria"))
    second = Answer(decisions_of(["b", "c"], [0, 1], "jon"))
    log.append(first)
    log.append(second)
    size = (tmp_path / "d.jsonl").stat().st_size
    log.withdraw(first)
    assert (tmp_path / "d.jsonl").stat().st_size == size
    assert read_decisions(tmp_path / "d.jsonl") == list(second.decisions)
    assert log.constraints.group.max() == -1
    log.append(first)
    assert read_decisions(tmp_path / "d.jsonl") == [*second.decisions, *first.decisions]


def test_what_nobody_can_tell_is_remembered(tmp_path):
    log = DecisionLog(tmp_path / "d.jsonl", IDS)
    log.append(Answer(decisions_of(["c", "a", "d"], None, None)))
    assert log.refused() == {(0, 2), (0, 3), (2, 3)}
    assert not log.constraints.any()
