"""Work in threads: libraries have none of their own meanwhile."""

from __future__ import annotations

import numpy as np

from scdp import EntityResolver
from scdp._parallel import one_thread_a_library
from scdp.linkage import resolver_fit


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
