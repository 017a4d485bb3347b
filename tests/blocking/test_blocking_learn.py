from dataclasses import replace

import numpy as np
import pytest

from blocking_cases import pairs_of_rule, random_records
from scdp import compare
from scdp.blocking import (
    Blocking,
    by_size,
    candidate_pairs,
    equal,
    learn_blocking,
    learn_blockings,
    neighbourhood,
    overlap,
    prefix,
    qgrams,
    tokens,
)
from scdp.blocking.by_size import SIZES, RulePool
from scdp.blocking.estimates import count_partners
from scdp.blocking.learn import follow_links
from scdp.blocking.training import Demand, Kept, choose_rules, draw_training_sample, drop_superfluous, find_greedy_path
from scdp.datasets import make_records
from scdp.errors import InputError
from scdp.paper.datasets import load_febrl3, load_restaurant
from scdp.table import records_from
from scdp.table.spec import Spec


def some_known(labelled, share: float, seed: int = 0):
    """Cluster codes, and the same with only a share of the clusters known."""
    codes = np.unique(labelled.clusters, return_inverse=True)[1]
    known = np.random.default_rng(seed).random(codes.max() + 1) < share
    return codes, np.where(known[codes], codes, -1)


@pytest.mark.parametrize("max_block", [500, 12])
@pytest.mark.parametrize(
    "rule",
    [
        equal("born", prefix("name", 1)),
        equal(tokens("city")),
        overlap(qgrams("name", 2), rarity=0.8),
        overlap(tokens("name", "city"), rarity=0.6),
        neighbourhood("name", window=3),
    ],
    ids=str,
)
def test_an_estimate_of_all_records_is_a_count(rule, max_block):
    records = random_records(90, seed=2)
    clusters = np.arange(90) // 4
    sample = draw_training_sample(records, clusters, None, max_block, 2, np.random.default_rng(0))
    found = sample.estimate(rule)
    pairs = pairs_of_rule(rule, records, max_block)
    kept = [(min(p), max(p)) in pairs for p in zip(sample.left.tolist(), sample.right.tolist(), strict=True)]
    if max_block == 500 or not rule.keys[0].exploded:
        assert len(kept) == 22 * 6 + 1
    if max_block == 500:
        assert found.kept.tolist() == kept
    else:
        # A block above the bound keeps nothing for sure.
        assert set(np.flatnonzero(found.kept)) <= set(np.flatnonzero(kept))
    if max_block == 500 and isinstance(rule, type(overlap(tokens("a")))):
        assert found.candidates == len(pairs)
    assert found.candidates >= found.kept.sum()
    counted = sample.count(Blocking((rule,), max_block=max_block, window=2))
    assert counted == len(candidate_pairs(records, Blocking((rule,), max_block=max_block, window=2)))


def test_a_sample_stands_for_many_records():
    labelled = make_records(20_000, seed=1)
    codes, train = some_known(labelled, 0.1)
    rule = equal("surname", prefix("first_name", 1))
    few = np.flatnonzero((train >= 0) | (np.random.default_rng(0).random(len(codes)) < 0.2))
    sample = draw_training_sample(labelled.data.take(few), train[few], 20_000, 500, 10, np.random.default_rng(0))
    truth = len(candidate_pairs(labelled.data, Blocking((rule,))))
    assert 0.7 * truth < sample.estimate(rule).candidates < 1.4 * truth


def test_true_pairs_one_link_away():
    rng = np.random.default_rng(4)
    sizes = np.array([2, 5, 3, 7])
    n_pairs = int((sizes * (sizes - 1) // 2).sum())
    kept, links = rng.random((2, n_pairs)) < [[0.2], [0.4]]
    reached, start = [], 0
    for size in sizes:
        pairs = [(i, j) for i in range(size) for j in range(i + 1, size)]
        own = {pair: start + place for place, pair in enumerate(pairs)}

        def has(which, i, j, own=own):
            return i != j and bool(which[own[min(i, j), max(i, j)]])

        reached += [
            has(kept, i, j)
            or any(has(kept, i, k) and has(links, k, j) for k in range(size))
            or any(has(links, i, k) and has(kept, k, j) for k in range(size))
            for i, j in pairs
        ]
        start += len(pairs)
    found = follow_links(kept, links, sizes)
    assert found.tolist() == reached
    assert kept.sum() < found.sum() < n_pairs


def test_the_cheapest_rules_that_keep_enough_are_chosen():
    by_rule = np.zeros((4, 100), dtype=bool)
    by_rule[0, :60] = by_rule[1, 50:99] = by_rule[2, :99] = by_rule[3, 99:] = True
    kept = Kept(by_rule, families=np.array([0, 1, 2, 2]))
    costs = np.array([10.0, 10.0, 100.0, 1000.0])
    most, every = Demand(1, 0.99), Demand(1, 1.0)
    assert choose_rules(kept, costs, [most, every]) == {most: [0, 1], every: [0, 1, 3]}
    # Asked for twice, a pair needs rules of two families; what only one family keeps needs one.
    twice = Demand(2, 1.0)
    assert sorted(choose_rules(kept, costs, [twice])[twice]) == [0, 1, 2, 3]
    assert kept.by_rule.sum() == 60 + 49 + 99 + 1


def plain_greedy_path(by_rule, families, costs, needs):
    left, adds = needs.copy(), by_rule & (needs > 0)
    path, n_met = [], []
    while adds.any():
        best = int(np.argmax(adds.sum(axis=1) / costs))
        helped = adds[best].copy()
        left[helped] -= 1
        adds[:, left == 0] = False
        adds[np.ix_(families == families[best], helped)] = False
        path.append(best)
        n_met.append(((needs > 0) & (left == 0)).sum())
    return path, n_met


def test_rules_are_taken_as_they_plainly_would_be():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        by_rule = rng.random((12, 50)) < 0.2
        families = rng.integers(0, 5, 12)
        costs = rng.integers(1, 4, 12).astype(float)
        keeping = sum(by_rule[families == family].any(axis=0).astype(int) for family in range(5))
        needs = np.minimum(keeping, rng.integers(0, 3)).astype(np.int16)
        path, n_met = find_greedy_path(by_rule, families, 5, costs, needs)
        assert (path.tolist(), n_met.tolist()) == plain_greedy_path(by_rule, families, costs, needs)


def plainly_without_superfluous(by_rule, rules, families, needs, enough):
    left = list(range(len(rules)))
    for place in range(len(rules)):
        others = [other for other in left if other != place]
        counts = np.zeros(by_rule.shape[1], dtype=int)
        for family in set(families[others].tolist()):
            counts += by_rule[[rules[other] for other in others if families[other] == family]].any(axis=0)
        if ((needs > 0) & (counts >= needs)).mean() >= enough:
            left = others
    return [place in left for place in range(len(rules))]


@pytest.mark.parametrize("enough", [0.0, 0.5, 0.8, 0.9])
def test_superfluous_rules_go_as_they_plainly_would(enough):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        by_rule = rng.random((9, 40)) < 0.3
        rules = rng.permutation(9)[:7]
        families = rng.integers(0, 4, 7)
        needs = rng.integers(0, 3, 40).astype(np.int16)
        found = drop_superfluous(by_rule, rules, families, 4, needs, enough)
        assert found.tolist() == plainly_without_superfluous(by_rule, rules, families, needs, enough)


def test_partners_are_counted_as_they_plainly_are():
    rng = np.random.default_rng(3)
    has = rng.random((30, 12)) < 0.25
    weights = np.sort(rng.random(12))[::-1]
    weights[-1] = 0.0
    entities, rows = rng.integers(0, 9, 30), np.arange(0, 30, 2)
    enough = np.array([0.3, 0.9, 1.5])
    ends = [np.append(0, np.cumsum(has.sum(axis=axis))) for axis in (1, 0)]
    tokens, postings = np.nonzero(has)[1].astype(np.int32), np.nonzero(has.T)[1].astype(np.int32)
    same, other = count_partners(ends[0], tokens, weights, ends[1], postings, entities, rows, enough)
    shared = (has * weights) @ has.T
    later = np.arange(30) > rows[:, None]
    alike = entities == entities[rows][:, None]
    for bound, least in enumerate(enough):
        kept = (shared[rows] >= least) & later
        assert (same[bound], other[bound]) == ((kept & alike).sum(), (kept & ~alike).sum())
        assert other[bound] > 0


def test_blockings_for_several_recalls_are_those_for_each():
    labelled = make_records(1500, seed=3)
    _, train = some_known(labelled, 0.5)
    recalls = (0.995, 0.97, 0.9)
    found = learn_blockings(labelled.data, train, recalls, random_state=2)
    assert len(set(found)) > 1
    for recall, blocking in zip(recalls, found, strict=True):
        assert blocking == learn_blocking(labelled.data, train, recall=recall, random_state=2)[0]


def test_choosing_leaves_its_input_alone():
    by_rule = np.asfortranarray(np.random.default_rng(0).random((20, 50)) < 0.3)
    before = by_rule.copy()
    choose_rules(Kept(by_rule, np.arange(20) % 6), np.ones(20), [Demand(1, 1.0), Demand(3, 1.0)])
    assert np.array_equal(by_rule, before)


def test_learned_recall_holds_on_unseen_people():
    labelled = make_records(6000, mean_cluster_size=2.0, missing=0.04, seed=5)
    codes, train = some_known(labelled, 0.4)
    blocking, table = learn_blocking(labelled.data, train, recall=0.95)
    found = candidate_pairs(labelled.data, blocking)
    assert table.certain
    assert found.recall(np.where(train < 0, codes, -1)) >= 0.95
    assert len(found) < 30 * len(labelled)
    assert len(found) == pytest.approx(table.candidates, rel=1e-6)
    printed = str(table)
    assert all(str(rule) in printed for rule in blocking.all_rules)
    assert table.rules[-1].recall_so_far == max(row.recall_so_far for row in table.rules)
    again, table_again = learn_blocking(labelled.data, train, recall=0.95)
    assert (again, str(table_again)) == (blocking, printed)
    assert Blocking.from_dict(blocking.to_dict()) == blocking


def test_exact_duplicates_are_always_candidates():
    labelled = make_records(600, mean_cluster_size=2.0, seed=1)
    columns = {name: [*labelled.data[name], None, None] for name in labelled.data.names}
    columns["city"][-2:] = ["Nowhere else", "nowhere  else"]
    codes, _ = some_known(labelled, 1)
    blocking, _ = learn_blocking(records_from(columns), [*codes, -1, -1], recall=0.8)
    found = candidate_pairs(records_from(columns), blocking)
    assert (600, 601) in set(zip(found.left.tolist(), found.right.tolist(), strict=True))


@pytest.mark.parametrize(("load", "most"), [(load_febrl3, 20_000), (load_restaurant, 10_000)])
def test_99_percent_of_the_pairs_of_unseen_entities(load, most, data_or_skip):
    with data_or_skip():
        labelled = load()
    codes, train = some_known(labelled, 0.3)
    blocking, _ = learn_blocking(labelled.data, train)
    found = candidate_pairs(labelled.data, blocking)
    assert found.recall(np.where(train < 0, codes, -1)) >= 0.99
    assert len(found) < most


def test_columns_come_from_the_spec():
    labelled = make_records(400, mean_cluster_size=2.0, seed=2)
    columns = dict(labelled.data.columns) | {"entity": labelled.clusters, "id": labelled.ids}
    records, (codes, _) = records_from(columns), some_known(labelled, 1)
    spec = Spec("entity", [compare.edit("surname"), compare.edit(["street", "city"])], id="id")
    blocking, _ = learn_blocking(records, codes, spec=spec, recall=0.5)
    assert set(blocking.columns) == {"surname", "street", "city"}
    blocking, _ = learn_blocking(records, codes, spec=Spec("entity", id="id"), recall=0.5)
    assert "surname" in blocking.columns
    assert not {"entity", "id"} & set(blocking.columns)


def test_what_cannot_be_learned_from_is_named():
    records = random_records(6, seed=0)
    with pytest.raises(InputError, match="no two records have the same known cluster"):
        learn_blocking(records, [-1, -1, 0, 1, 2, 3])
    with pytest.raises(InputError, match="6 records; give one a record"):
        learn_blocking(records, [0, 0])
    with pytest.raises(InputError, match=r"recall is 1\.5"):
        learn_blocking(records, [0, 0, 1, 1, 2, 2], recall=1.5)
    empty = records_from({"a": [None, None], "b": ["same", "same"]})
    blocking, _ = learn_blocking(empty, [0, 0])
    assert len(candidate_pairs(empty, blocking)) == 1


# ---- rules for tables of any size ----


def test_links_are_learned_where_clusters_are_large_and_taken_where_rules_keep_too_little(monkeypatch):
    made = make_records(900, "citations", seed=3, typos=0.3, missing=0.3)
    cluster = np.unique(made.clusters, return_inverse=True)[1]
    names = tuple(made.data.names)
    pool = RulePool.learn(made.data, names, cluster, 0)
    assert len(pool.links) == len(SIZES)
    assert RulePool.from_words(pool.to_words()) == pool
    kept, linked = pool.kept, pool.kept_through_links
    assert (linked >= kept).all()
    assert linked.sum() > kept.sum()
    # Rules alone keep enough of anything: nothing is linked.
    monkeypatch.setattr(by_size, "ENOUGH_KEPT", 0.0)
    assert not pool.choose(made.data, names).blocking.links
    monkeypatch.setattr(by_size, "ENOUGH_KEPT", 1.1)
    chosen = pool.choose(made.data, names)
    assert chosen.blocking.links == tuple(pool.rules[number] for number in pool.links[0])
    pairs = candidate_pairs(made.data, chosen.blocking)
    n_true = (np.bincount(cluster) * (np.bincount(cluster) - 1) // 2).sum()
    together = (cluster[pairs.left] == cluster[pairs.right]).sum()
    without = candidate_pairs(made.data, replace(chosen.blocking, links=()))
    assert together > (cluster[without.left] == cluster[without.right]).sum()
    assert together / n_true == pytest.approx(chosen.recall, abs=0.03)


def test_pairs_alone_have_no_links():
    made = make_records(600, "people", seed=3)
    cluster = np.unique(made.clusters, return_inverse=True)[1]
    pool = RulePool.learn(made.data, tuple(made.data.names), cluster, 0)
    assert pool.links == ()
    assert "links" not in pool.to_words()


@pytest.mark.parametrize("links", [[[0]], [[0], [0], [0], [10_000]], [[0], [0], [0], [True]]])
def test_links_of_a_stored_pool_are_checked(links):
    made = make_records(300, "citations", seed=3)
    cluster = np.unique(made.clusters, return_inverse=True)[1]
    words = RulePool.learn(made.data, tuple(made.data.names), cluster, 0).to_words()
    with pytest.raises(ValueError):
        RulePool.from_words(words | {"links": links})
