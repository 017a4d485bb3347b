"""A plugin of pytest: the processor seconds of each folder and of the slowest tests, whatever else the machine does.

    PYTHONPATH=tests python -m pytest -p no:xdist -p processor_time tests/chains

Processes that a test starts count with it, on Linux while they run and everywhere once they have been waited for.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest

N_SHOWN = 30
_seconds: Counter[str] = Counter()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    before = seconds_of_all()
    try:
        return (yield)
    finally:
        _seconds[item.nodeid] += seconds_of_all() - before


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    folders: Counter[str] = Counter()
    for test, seconds in _seconds.items():
        folders[test.partition("::")[0].rpartition("/")[0]] += seconds
    for title, counted in (("folder", folders), ("slowest test", _seconds)):
        terminalreporter.section(f"processor seconds by {title}")
        for name, seconds in counted.most_common(N_SHOWN):
            terminalreporter.write_line(f"{seconds:8.1f}  {name}")


def seconds_of_all() -> float:
    """Of this process, of its children that have ended, and of those that have not."""
    return sum(os.times()[:4]) + seconds_of_running()


def seconds_of_running() -> float:
    """What the descendants of this process have taken, each with its own ended children."""
    parents, seconds = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            parents[int(folder.name)] = int(fields[1])
            seconds[int(folder.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    found: set[int] = set()
    new = {os.getpid()}
    while new:
        new = {process for process, parent in parents.items() if parent in new} - found
        found |= new
    return sum(seconds[process] for process in found)
