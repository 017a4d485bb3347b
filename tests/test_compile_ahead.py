"""Kernels compiled ahead: once for a machine, in processes of their own, and never in the way of the real work."""

from __future__ import annotations

import re
import sys

import pytest

from scdp import resolver as ahead


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(ahead, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(ahead, "count_workers", lambda n_jobs: 2)
    return tmp_path


@pytest.fixture
def started(monkeypatch):
    """The jobs that were started; each is another short command."""
    started = []
    real = ahead.subprocess.Popen

    def start(command, **settings):
        started.append(command[-1])
        return real([sys.executable, "-c", "import sys; sys.exit(1)"], **settings)

    monkeypatch.setattr(ahead.subprocess, "Popen", start)
    return started


def test_each_job_is_started_once_for_a_machine(folder, started):
    ahead.compile_ahead()
    # A job that failed is no reason to try again at each command.
    ahead.compile_ahead()
    assert [re.search(r"resolver\.(\w+)\(\)", code)[1] for code in started] == list(ahead.JOBS)
    assert all(callable(getattr(ahead, job)) for job in ahead.JOBS)


@pytest.mark.parametrize("change", [{"cache_folder": lambda: None}, {"count_workers": lambda n_jobs: 1}])
def test_nothing_is_started_where_it_would_be_lost_or_no_sooner(folder, started, monkeypatch, change):
    for name, value in change.items():
        monkeypatch.setattr(ahead, name, value)
    ahead.compile_ahead()
    assert not started


def test_who_interrupts_leaves_no_process_and_no_mark(folder, monkeypatch):
    processes = []
    real = ahead.subprocess.Popen

    def start(command, **settings):
        processes.append(real([sys.executable, "-c", "import time; time.sleep(600)"], **settings))
        return processes[-1]

    def interrupt(folder):
        raise KeyboardInterrupt

    monkeypatch.setattr(ahead.subprocess, "Popen", start)
    monkeypatch.setattr(ahead, "count_kernels", interrupt)
    with pytest.raises(KeyboardInterrupt):
        ahead.compile_ahead()
    assert len(processes) == 2
    assert all(process.returncode is not None for process in processes)
    assert not (folder / ahead.DONE).exists()


def test_the_jobs_do_what_commands_do():
    """Without an error, as one would not be seen."""
    for job in ahead.JOBS:
        getattr(ahead, job)()
