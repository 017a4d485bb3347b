"""The posterior of some items is what the draws say of them."""

from __future__ import annotations

import numpy as np
import pytest

from scdp.errors import InputError
from scdp.posterior import Posterior

FIXED = np.array([5, -1, 5, -1, 7, -1, -1, -1])


def made(shared: bool) -> Posterior:
    rng = np.random.default_rng(4)
    draws = rng.integers(0, 4, size=(2, 25, len(FIXED))) + (0 if shared else 100)
    draws[:, :, FIXED >= 0] = np.where(FIXED[FIXED >= 0] == 5, 0, 1)
    traces = {"n_clusters": np.zeros((2, 25)), "alpha": rng.random((2, 25))}
    return Posterior(draws, traces, fixed=FIXED, shared=shared, names=[f"r{i}" for i in range(len(FIXED))])


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("items", [[6, 1, 0, 3], [1, 3, 5], [4, 2], list(range(8))])
def test_it_is_the_posterior_of_those_columns_of_the_draws(shared, items):
    whole = made(shared)
    part = whole.restrict(items)
    twin = Posterior(whole.draws[:, :, items], fixed=FIXED[items], shared=shared)
    np.testing.assert_array_equal(part.draws, twin.draws)
    np.testing.assert_array_equal(part.hidden, np.flatnonzero(FIXED[items] < 0))
    np.testing.assert_array_equal(part.traces["n_clusters"], twin.n_clusters)
    np.testing.assert_array_equal(part.traces["alpha"], whole.traces["alpha"])
    assert part.names.tolist() == [f"r{i}" for i in items]
    for a in range(len(items)):
        for b in range(a):
            assert part.co_clustering(a, b) == whole.co_clustering(items[a], items[b])


def test_what_is_not_there_or_asked_for_twice_is_refused():
    with pytest.raises(InputError, match="asked for twice"):
        made(True).restrict([1, 1])
    with pytest.raises(InputError, match="there is no item 8"):
        made(True).restrict([8])
