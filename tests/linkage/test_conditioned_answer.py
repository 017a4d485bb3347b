"""The answer keeps conditions: clusters that break one are put together anew, the others stay."""

from __future__ import annotations

import numpy as np
import pytest

from linkage.test_conditioning import conditions_on
from scdp.conditions import Conditions, keep_conditions, number_sources
from scdp.posterior import Posterior
from twins.linkage import canonical, keeps_conditions


def partition(labels):
    return canonical(dict(enumerate(np.asarray(labels).tolist())))


def test_what_keeps_the_conditions_stays():
    posterior = Posterior([[[0, 0, 1, 1], [0, 1, 1, 1]]])
    found = keep_conditions(
        np.array([5, 5, 2, 2]), conditions_on(4, same=[(0, 1)], different=[(0, 2)]), np.full(4, -1), posterior
    )
    assert partition(found) == (0, 0, 1, 1)


def test_a_third_record_goes_where_it_is_more_often():
    # 0 and 2 differ, 1 is with 0 in two draws of three.
    posterior = Posterior([[[0, 0, 1, 2], [0, 0, 1, 2], [0, 1, 1, 2]]])
    found = keep_conditions(np.array([0, 0, 0, 1]), conditions_on(4, different=[(0, 2)]), np.full(4, -1), posterior)
    assert partition(found) == (0, 0, 1, 2)


def test_groups_are_put_together_and_given_clusters_stay_apart():
    posterior = Posterior([[[0, 0, 0, 1, 1], [0, 0, 0, 1, 1]]])
    known = np.array([-1, -1, -1, 3, 4])
    found = keep_conditions(np.array([0, 0, 1, 2, 3]), conditions_on(5, same=[(1, 2)]), known, posterior)
    assert partition(found) == (0, 0, 0, 1, 2)


def test_sources_with_each_thing_once_give_the_likelier_link():
    # 0 is of one source, 1 and 2 of another.
    posterior = Posterior([[[0, 0, 1], [0, 1, 0], [0, 1, 0]]])
    found = keep_conditions(np.zeros(3, np.int64), conditions_on(3, source=[0, 1, 1]), np.full(3, -1), posterior)
    assert partition(found) == (0, 1, 0)


@pytest.mark.parametrize("seed", range(20))
def test_any_answer_keeps_any_conditions(seed):
    rng = np.random.default_rng(seed)
    n = 12
    conditions = conditions_on(
        n,
        same=[(0, 1), (4, 5, 6)],
        different=[(0, 4), (2, 3), (7, 8)],
        source=np.where(np.arange(n) < 8, np.arange(n) + 50, 1),
    )
    posterior = Posterior(rng.integers(0, 4, (1, 6, n)))
    known = np.full(n, -1)
    known[[2, 9]] = 0, 1
    found = keep_conditions(rng.integers(0, 3, n), conditions, known, posterior, 0.2)
    assert keeps_conditions(found.tolist(), conditions)


def test_sources_are_numbered_and_unknown_ones_are_free():
    once, code = number_sources(["A", None, "B", "A"], ["B", "Z"])
    assert (once.tolist(), code.tolist()) == ([-1, -1, 1, -1], [0, -1, 1, 0])


def test_pairs_that_cannot_be_are_not_counted():
    free = Conditions.none(4)
    assert free.count_pairs() == 6
    limited = Conditions(free.group, free.left, free.right, free.source, np.array([0, 0, 1, -1]))
    assert limited.count_pairs() == 5
    assert limited.may_meet(np.array([0, 0, 2]), np.array([1, 2, 3])).tolist() == [False, True, True]
