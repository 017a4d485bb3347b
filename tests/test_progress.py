"""How far work is: a line every ten seconds in a pipe, one bar at a time in a terminal, also from many threads."""

from __future__ import annotations

import io
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from scdp import _parallel
from scdp._parallel import ChainBars, WorkBar


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


def test_short_work_and_work_inside_other_work_say_nothing(clock, capsys):
    with WorkBar("outer") as outer:
        clock.now += 11
        outer(1, 2)
        with WorkBar("inner") as inner:
            clock.now += 30
            inner(1, 2)
    with WorkBar("short") as advance:
        clock.now += 1
        advance(1, 1)
    assert re.findall(r"scdp: (\w+):", capsys.readouterr().err) == ["outer"]


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
