"""Work in threads: libraries have none of their own meanwhile."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from scdp import EntityResolver, resolver_fit
from scdp._parallel import map_in_threads, one_thread_a_library


def threads_of_libraries() -> set[int]:
    from threadpoolctl import threadpool_info

    return {library["num_threads"] for library in threadpool_info()}


def test_libraries_keep_to_one_thread_and_have_theirs_back():
    from threadpoolctl import threadpool_limits

    with one_thread_a_library("sklearn.ensemble"):
        assert threads_of_libraries() == {1}
    with threadpool_limits(2):
        with one_thread_a_library("sklearn.ensemble"):
            assert threads_of_libraries() == {1}
        assert threads_of_libraries() == {2}


def test_a_fit_keeps_libraries_to_one_thread(monkeypatch):
    from threadpoolctl import threadpool_limits

    learn, seen = resolver_fit.fit_ensemble, set()

    def watch(*arguments, **more):
        seen.update(threads_of_libraries())
        return learn(*arguments, **more)

    monkeypatch.setattr(resolver_fit, "fit_ensemble", watch)
    points = np.random.default_rng(0).normal(size=(30, 2)) + 9.0 * (np.arange(30) % 3)[:, None]
    with threadpool_limits(2):
        EntityResolver(random_state=0, n_draws=8).fit(points, np.arange(30) % 3)
    assert seen == {1}


def test_others_are_done_while_the_first_takes_long():
    last_is_done = threading.Event()

    def work(number: int) -> int:
        if number == 0:
            assert last_is_done.wait(60)
        if number == 5:
            last_is_done.set()
        return number

    assert list(map_in_threads(work, range(8), 2, n_ahead=5)) == list(range(8))


@pytest.mark.parametrize("n_ahead", [0, 50])
def test_what_is_queued_is_not_begun_after_an_error(n_ahead):
    begun, stopped = [], threading.Event()

    def work(number: int) -> None:
        begun.append(number)
        if number == 0:
            raise ValueError("the first one fails")
        assert stopped.wait(60)

    with pytest.raises(ValueError, match="the first one fails"):
        list(map_in_threads(work, range(100), 2, stopped, n_ahead=n_ahead))
    assert len(begun) <= 3
