"""Blockings by size of the table: learned where labels are enough, chosen by cost, made for the columns otherwise."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from scdp import EntityResolver, resolver_fit
from scdp.blocking import Blocking, by_size, candidate_pairs, equal, overlap, prefix, tokens
from scdp.blocking.by_size import MANY, Ladder, Step, estimate_candidates_a_record, learn_ladder, make_default_blocking
from scdp.blocking.rules import Overlap
from scdp.datasets import Labelled, make_records
from scdp.errors import InputError
from scdp.metrics import evaluate
from scdp.table import records_from
from scdp.table.propose import proposed_comparisons
from scdp.table.spec import Spec


@cache
def people(n: int, seed: int) -> tuple[Labelled, np.ndarray]:
    made = make_records(n, kind="people", seed=seed)
    return made, np.unique(made.clusters, return_inverse=True)[1]


def spec_of(made: Labelled) -> Spec:
    return Spec("entity", proposed_comparisons(made.data, made.data.names))


@cache
def learned() -> Ladder:
    made, cluster = people(900, 1)
    return learn_ladder(made.data, spec_of(made), cluster, 0)


def test_there_are_blockings_for_every_size():
    n = len(people(900, 1)[0])
    assert [step.n_records for step in learned().steps] == [n, MANY]
    assert all(step.blockings for step in learned().steps)
    assert not any(blocking.links for step in learned().steps[1:] for blocking in step.blockings)
    assert learned().pool is not None


def test_too_few_labelled_pairs_teach_no_blocking():
    made, cluster = people(60, 1)
    assert learn_ladder(made.data, spec_of(made), cluster, 0) == Ladder(())


def test_the_most_thorough_blocking_that_is_cheap_enough_is_chosen(monkeypatch):
    monkeypatch.setattr(by_size, "MANY", 0)
    made, _ = people(400, 2)
    spec = spec_of(made)
    one, two, three = (Blocking((equal(prefix("surname", k)),)) for k in (1, 2, 3))
    steps = Ladder((Step(100, (three,)), Step(1000, (one, two)), Step(10_000, (three,))))
    assert steps.choose(made.data, spec).blocking == one
    monkeypatch.setattr(by_size, "MOST_CANDIDATES_A_RECORD", 0)
    # The last is taken whatever it costs.
    assert steps.choose(made.data, spec).blocking == two
    assert Ladder((Step(5, (one,)), Step(10, (three,)))).choose(made.data, spec).blocking == three
    assert Ladder(()).choose(made.data, spec).blocking == make_default_blocking(made.data, spec)


def test_a_few_thousand_records_are_blocked_by_rules_for_any_table_too(monkeypatch):
    made, _ = people(60, 3)
    spec = spec_of(made)
    learned_rules, default = (equal("surname"),), make_default_blocking(made.data, spec).rules
    steps = Ladder((Step(10**6, (Blocking(learned_rules),)),))
    chosen = steps.choose(made.data, spec)
    assert set(chosen.blocking.rules) == {*learned_rules, *default}
    assert len(chosen.blocking.rules) == len(set(chosen.blocking.rules))
    monkeypatch.setattr(by_size, "MANY", len(made.data) - 1)
    assert steps.choose(made.data, spec).blocking.rules == learned_rules


def test_the_default_blocking_keeps_most_true_pairs():
    made, cluster = people(400, 2)
    found = candidate_pairs(made.data, make_default_blocking(made.data, spec_of(made)))
    sizes = np.bincount(cluster)
    n_true = int((sizes * (sizes - 1) // 2).sum())
    assert (cluster[found.left] == cluster[found.right]).sum() > 0.95 * n_true
    assert len(found) < 0.5 * len(made) * (len(made) - 1) / 2


def test_rules_for_many_records_stay_within_their_budget(monkeypatch):
    made, cluster = people(2000, 3)
    rules = learned().pool
    names = by_size.list_columns(spec_of(made))
    found = {}
    for budget in (1.0, 8.0):
        monkeypatch.setattr(by_size, "compute_candidate_budget", lambda n, budget=budget: budget)
        chosen = rules.choose(made.data, names)
        pairs = candidate_pairs(made.data, chosen.blocking)
        # The rules were counted one by one on these records, and share some of their pairs.
        assert len(pairs) <= 1.05 * budget * len(made)
        found[budget] = pairs.recall(cluster)
        assert chosen.recall == pytest.approx(found[budget], abs=0.04)
    assert 0.85 < found[1.0] < found[8.0]
    assert found[8.0] > 0.97


def test_what_a_rule_costs_is_counted_on_a_sample(monkeypatch):
    made, _ = people(2000, 3)
    rules = (equal(prefix("surname", 2)), equal("birth_date"))
    exact = [len(candidate_pairs(made.data, Blocking((rule,)))) / len(made) for rule in rules]
    np.testing.assert_allclose(by_size.count_candidates(made.data, rules)[0], exact)
    monkeypatch.setattr(by_size, "COUNTED_ON", 1000)
    np.testing.assert_allclose(by_size.count_candidates(made.data, rules)[0][0], exact[0], rtol=0.3)


def test_what_a_rule_costs_is_counted_where_its_blocks_are_seen_as_large_as_they_are(monkeypatch):
    """In a small sample of a large table, two records of one key would stand for a block above the bound."""
    made, _ = people(20_000, 3)
    rules = (equal(prefix("surname", 2)), equal("first_name"))
    exact = [len(candidate_pairs(made.data, Blocking((rule,), max_block=500))) / len(made) for rule in rules]
    monkeypatch.setattr(by_size, "COUNTED_ON", 25)
    monkeypatch.setattr(by_size, "COUNTED_SHARE", 0.02)
    few = by_size.count_candidates(made.data, rules)[0]
    np.testing.assert_allclose(few, exact, rtol=0.5)
    monkeypatch.setattr(by_size, "COUNTED_SHARE", 0.0)
    assert (by_size.count_candidates(made.data, rules)[0] < 0.5 * np.array(exact)).all()


def test_what_an_overlap_costs_is_counted_where_its_rare_tokens_are_seen(monkeypatch):
    made, _ = people(4000, 4)
    rules = (overlap(tokens("surname"), 0.3), overlap(tokens("surname"), 0.4))
    exact = [len(candidate_pairs(made.data, Blocking((rule,)))) / len(made) for rule in rules]
    monkeypatch.setattr(by_size, "COUNTED_ON", 8)
    monkeypatch.setattr(by_size, "COUNTED_SHARE_OF_TOKENS", 0.5)
    np.testing.assert_allclose(by_size.count_candidates(made.data, rules)[0], exact, rtol=0.5)
    monkeypatch.setattr(by_size, "COUNTED_SHARE_OF_TOKENS", 0.0)
    monkeypatch.setattr(by_size, "COUNTED_SHARE", 0.0)
    assert by_size.count_candidates(made.data, rules)[0].max() < 0.5 * min(exact)


def test_very_large_tables_are_blocked_by_overlaps_only_where_other_rules_keep_too_little(monkeypatch):
    made, _ = people(2000, 3)
    names = by_size.list_columns(spec_of(made))
    monkeypatch.setattr(by_size, "COUNTED_ON", 1)
    monkeypatch.setattr(by_size, "COUNTED_SHARE_OF_TOKENS", 1.0)
    monkeypatch.setattr(by_size, "compute_candidate_budget", lambda n: 64.0)
    monkeypatch.setattr(by_size, "token_bound", lambda most, n: 1000)
    monkeypatch.setattr(by_size, "ENOUGH_KEPT", 0.5)
    plain = learned().pool.choose(made.data, names)
    assert not any(isinstance(rule, Overlap) for rule in plain.blocking.rules)
    assert plain.recall >= 0.5
    monkeypatch.setattr(by_size, "ENOUGH_KEPT", 1.1)
    dearer = learned().pool.choose(made.data, names)
    assert any(isinstance(rule, Overlap) for rule in dearer.blocking.rules)


def test_larger_tables_have_fewer_candidates_a_record():
    budgets = [by_size.compute_candidate_budget(n) for n in (1, 10_000, 100_000, 1_000_000, 10**9)]
    assert budgets[0] == budgets[1] == 64
    assert 64 > budgets[2] > 16 > budgets[3] > 6
    assert budgets[4] == by_size.LEAST_CANDIDATES


def test_columns_without_values_have_a_blocking():
    spec = Spec("entity", proposed_comparisons(people(60, 1)[0].data, ["surname"]))
    records = records_from({"surname": [None, None, None]})
    assert len(candidate_pairs(records, make_default_blocking(records, spec))) == 0


def test_candidates_of_many_records_are_judged_by_a_sample(monkeypatch):
    made, _ = people(2000, 3)
    blocking = Blocking((equal(prefix("surname", 2)),))
    exact = estimate_candidates_a_record(made.data, blocking)
    assert exact == len(candidate_pairs(made.data, blocking)) / len(made)
    monkeypatch.setattr(by_size, "SAMPLE", 1000)
    assert estimate_candidates_a_record(made.data, blocking) == pytest.approx(exact, rel=0.3)


def test_of_many_records_whole_clusters_are_taught(monkeypatch):
    made, cluster = people(400, 1)
    assert by_size._take_some(made.data, cluster, 0)[0] is made.data
    monkeypatch.setattr(by_size, "MOST_TAUGHT", 150)
    some, known = by_size._take_some(made.data, cluster, 0)
    assert 130 < len(some) == len(known) <= 150
    assert known.max() + 1 == len(np.unique(known))
    again, other = (by_size._take_some(made.data, cluster, seed)[0] for seed in (0, 1))
    assert list(again.rows()) == list(some.rows()) != list(other.rows())
    # At least two clusters, however large.
    assert len(by_size._take_some(made.data, np.arange(len(made)) % 2, 0)[0]) == len(made)


def test_blockings_survive_their_words():
    assert Ladder.from_words(learned().to_words()) == learned()


@pytest.mark.parametrize(
    "damage",
    [
        {},
        [1],
        {"steps": [1]},
        {"steps": [{"n_records": 0, "blockings": [{}]}]},
        {"steps": [{"n_records": True, "blockings": [{}]}]},
        {"steps": [{"n_records": 5, "blockings": []}]},
        {"steps": [{"n_records": 5, "blockings": [1]}]},
        {"steps": [{"blockings": [{}]}]},
        {"steps": [], "pool": 1},
        {"steps": [], "pool": {"rules": [], "n_pairs": -1, "kept": ""}},
        {"steps": [], "pool": {"rules": [], "n_pairs": 1, "kept": "AAAA"}},
        {"steps": [], "pool": {"rules": [], "n_pairs": 0, "kept": "?"}},
    ],
)
def test_damaged_blockings_are_refused(damage):
    with pytest.raises(InputError, match="'blockings' is not what belongs there"):
        Ladder.from_words(damage)


@pytest.mark.parametrize("n_known", [30, 900])
def test_a_large_table_is_blocked_and_resolved(monkeypatch, tmp_path, n_known: int):
    made, cluster = people(900, 1)
    data, truth = people(400, 2)
    some = np.flatnonzero(cluster < n_known)
    monkeypatch.setattr(resolver_fit, "MOST_PAIRS", 10_000)
    model = EntityResolver(spec=spec_of(made), boosted=False, n_draws=24, random_state=0)
    model.fit(made.data.take(some), cluster[some])
    assert bool(model.fitted_.ladder.steps) == (n_known == 900)
    labels = model.predict(data.data)
    assert evaluate(truth, labels)["f"] > 0.75
    model.save(tmp_path / "model")
    loaded = EntityResolver.load(tmp_path / "model")
    assert loaded.fitted_.ladder == model.fitted_.ladder
    np.testing.assert_array_equal(loaded.predict(data.data), labels)
