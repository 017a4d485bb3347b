"""How far work is: a line every ten seconds in a pipe, one bar at a time in a terminal, also from many threads."""

from __future__ import annotations

import io
import queue
from concurrent.futures import ThreadPoolExecutor

import pytest

from scdp import _parallel
from scdp._parallel import ChainBars, WorkBar, stage


class Clock:
    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(_parallel, "time", clock)
    return clock


def test_in_a_pipe_a_line_is_said_every_ten_seconds(clock, capsys):
    with WorkBar("learning") as advance:
        for second in range(1, 41):
            clock.now += 1
            advance(second, 40)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "scdp: learning: 25% done, about 30 s left",
        "scdp: learning: 50% done, about 20 s left",
        "scdp: learning: 75% done, about 10 s left",
        "scdp: learning: 100% done, about 0 s left",
    ]


def test_short_work_says_nothing_and_stages_of_nothing_neither(clock, capsys):
    with WorkBar("short") as advance:
        clock.now += 1
        advance(1, 1)
    with stage("nobody asked"):
        clock.now += 20
    assert capsys.readouterr().err == ""


def test_work_inside_other_work_is_its_stage(clock, capsys):
    with WorkBar("outer") as outer:
        clock.now += 10
        outer(1, 2)
        with WorkBar("inner") as inner:
            clock.now += 30
            inner(1, 2)
            with stage("innermost"):
                clock.now += 15
                # What counts is the stage that is under way, whoever was told how to count.
                outer(3, 4)
        clock.now += 10
        outer(2, 2)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "scdp: outer: 50% done, about 10 s left",
        "scdp: inner: 50% done, about 30 s left",
        "scdp: innermost: 75% done, about 5 s left",
        "scdp: outer: 100% done, about 0 s left",
    ]


def test_who_works_without_a_word_is_spoken_of(clock, monkeypatch):
    """A long stage that counts nothing says every ten seconds how long it has been going on."""
    said = queue.Queue()
    monkeypatch.setattr(_parallel, "TICK_SECONDS", 0.001)
    monkeypatch.setattr(_parallel, "say_progress", lambda *told: said.put(told))
    monkeypatch.setattr("sys.stderr", io.StringIO())
    with WorkBar("all"), stage("writing"):
        for number in range(1, 4):
            clock.now += 10
            assert said.get(timeout=60) == ("writing", 0, 0, 10.0 * number)
    assert said.empty()


def test_of_work_that_is_not_counted_the_time_so_far_is_said(capsys):
    _parallel.say_progress("writing", 0, 0, 30.2)
    assert capsys.readouterr().err == "scdp: writing: 30 s so far\n"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_threads_that_begin_together_make_one_bar(clock, monkeypatch):
    made = []
    real = _parallel._start_bars
    monkeypatch.setattr(_parallel, "_start_bars", lambda *middle: made.append(1) or real(*middle))
    monkeypatch.setattr("sys.stderr", Terminal())
    with WorkBar("learning") as advance, ThreadPoolExecutor(8) as pool:
        clock.now += 5
        list(pool.map(lambda done: advance(done, 200), range(200)))
    assert made == [1]


def test_chains_say_one_line_together_in_a_pipe(clock, capsys):
    with ChainBars(2, 100) as bars:
        clock.now += 10
        bars.advance(0, 50)
        bars.advance(1, 50)
    assert capsys.readouterr().err == "scdp: sampling: 25% done, about 30 s left\n"
