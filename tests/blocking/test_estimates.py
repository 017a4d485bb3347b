"""What a blocking loses, without labels: the estimate beside what was truly lost."""

from __future__ import annotations

import numpy as np
import pytest

from blocking_cases import pair_set, random_records
from scdp.blocking import Blocking, candidate_pairs, equal, estimates, neighbourhood, overlap, qgrams, tokens
from scdp.blocking.by_size import make_default_blocking
from scdp.blocking.estimates import estimate_recall, estimate_unseen_share
from scdp.datasets import make_records
from scdp.estimators.checks import propose_spec


@pytest.mark.parametrize("caught", [0.3, 0.5, 0.8])
def test_of_things_caught_by_chance_those_never_seen_are_counted(caught):
    rng = np.random.default_rng(0)
    times = rng.random((5, 20_000)) < caught
    never = ~times.any(axis=0)
    found = estimate_unseen_share(times[:, ~never], np.ones(int((~never).sum())))
    assert found == pytest.approx(never.mean(), abs=0.02)
    assert estimate_unseen_share(times, np.ones(20_000)) == found


def test_where_some_are_harder_to_catch_it_is_a_lower_bound():
    rng = np.random.default_rng(1)
    times = rng.random((5, 20_000)) < rng.choice([0.1, 0.8], 20_000)
    never = ~times.any(axis=0)
    assert 0.2 * never.mean() < estimate_unseen_share(times, np.ones(20_000)) < never.mean()


def test_what_is_unlikely_counts_less():
    caught = np.ones((3, 100), dtype=bool)
    assert estimate_unseen_share(caught, np.ones(100)) == 0.0
    caught[2] = False
    caught[1, :40] = False
    sure = estimate_unseen_share(caught, np.ones(100))
    assert 0.0 < estimate_unseen_share(caught, np.where(np.arange(100) < 40, 0.5, 1.0)) < sure
    assert estimate_unseen_share(np.zeros((3, 0), dtype=bool), np.zeros(0)) == 0.0


def test_pairs_are_counted_by_the_sets_of_columns_that_propose_them(monkeypatch):
    """Beside the plain way: each rule alone, and which pairs it has."""
    records = random_records(300, seed=2)
    rules = (
        equal("name"),
        overlap(qgrams("name", 2), rarity=0.7),
        equal("city", "born"),
        overlap(tokens("name", "city"), rarity=0.5),
        neighbourhood("born", window=2),
    )
    blocking = Blocking(rules, max_block=60, window=2)
    alone = [pair_set(candidate_pairs(records, Blocking((rule,), max_block=60, window=2))) for rule in rules]
    families = [alone[0] | alone[1], alone[2], alone[3], alone[4]]
    every = sorted(set.union(*families))
    left, right = (np.array(ends) for ends in zip(*every, strict=True))
    seen = []
    monkeypatch.setattr(estimates, "estimate_unseen_share", lambda caught, weight: seen.append(caught) or 0.25)
    assert estimate_recall(records, blocking, left, right, np.ones(len(left))) == 0.75
    assert all(alone)
    plain = np.array([[pair in family for pair in every] for family in families])
    # What is paired within a block above the bound depends on the columns of all rules.
    assert (seen[0] == plain).mean() > 0.95
    assert len(seen) == 1


def test_the_estimate_is_near_what_people_lose():
    made = make_records(3_000, kind="people", seed=6)
    spec = propose_spec(made.data, {})
    blocking = make_default_blocking(made.data, spec)
    for rules in (blocking.rules, blocking.rules[:4]):
        some = Blocking(rules)
        found = candidate_pairs(made.data, some)
        cluster = np.unique(made.clusters, return_inverse=True)[1]
        same = cluster[found.left] == cluster[found.right]
        left, right = (np.asarray(end)[same].astype(np.int64) for end in (found.left, found.right))
        sizes = np.bincount(cluster)
        true = len(left) / (sizes * (sizes - 1) // 2).sum()
        assert estimate_recall(made.data, some, left, right, np.ones(len(left))) == pytest.approx(true, abs=0.03)


def test_too_few_columns_or_pairs_tell_nothing():
    records = random_records(100, seed=3)
    left, right = np.arange(40), np.arange(40) + 50
    one = Blocking((equal("name"), overlap(tokens("name"), rarity=0.5), equal("city")))
    assert np.isnan(estimate_recall(records, one, left, right, np.ones(40)))
    three = Blocking((*one.rules, equal("born")))
    assert np.isnan(estimate_recall(records, three, left[:10], right[:10], np.ones(10)))
    assert not np.isnan(estimate_recall(records, three, left, right, np.ones(40)))
