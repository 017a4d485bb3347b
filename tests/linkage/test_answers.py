"""Learning from decisions: what teaches, and that fitting and labelling learn the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from estimators.test_decided import ids_of, people
from scdp.compare.features import Comparer, Pairs
from scdp.conditions import Conditions, conditions_of
from scdp.estimators.inputs import Compared
from scdp.linkage.training import Choices, ComparedPairs, learn_from_answers
from scdp.resolver_fit import ResolverFit
from scdp.review.sources import Learner
from scdp.table.decisions import Constraints, Decision


def test_only_compared_pairs_teach():
    """Rows 0, 1 are the same, 3 differs from 1; 5, 6 are the same and nobody compared them with others."""
    conditions = Conditions(
        np.array([0, 0, -1, -1, -1, 1, 1]), np.array([1]), np.array([3]), np.full(7, -1, dtype=np.int64)
    )
    found = ComparedPairs.of(conditions)
    rows = [(int(found.rows[a]), int(found.rows[b])) for a, b in zip(found.left, found.right, strict=True)]
    assert sorted(rows) == [(0, 1), (0, 3), (1, 3), (5, 6)]
    with_given = ComparedPairs.of(conditions.with_clusters(np.array([-1, -1, 7, -1, 7, -1, -1])))
    assert (2, 4) in {
        (int(with_given.rows[a]), int(with_given.rows[b]))
        for a, b in zip(with_given.left, with_given.right, strict=True)
    }


def test_fit_and_label_learn_the_same_from_decisions():
    records, spec, truth = people(90, 3)
    ids = ids_of(records, spec)
    rng = np.random.default_rng(0)
    pairs = [(a, b) for a in range(90) for b in range(a + 1, 90) if truth[a] == truth[b]][:8]
    pairs += [tuple(sorted(rng.choice(90, 2, replace=False).tolist())) for _ in range(8)]
    said = [Decision((ids[a], ids[b]), "same" if truth[a] == truth[b] else "different") for a, b in pairs]
    constraints = Constraints.of(said, ids)
    learner = Learner(records, spec, seed=5)
    learner.learn(constraints)
    rows = Compared.of(records, spec, None, False, blocked=True)
    conditions = conditions_of(constraints, records, spec, len(records))
    nobody = np.full(len(records), -1, dtype=np.int64)
    fitted = ResolverFit.train(rows, nobody, None, rows.spec.names, Choices(), 5, conditions=conditions)
    assert fitted.training.n_repeated == len(np.unique(constraints.group[constraints.group >= 0]))
    every = Comparer.of(records, rows.spec.fields).compare_all()
    there = fitted.ensemble.set_to_all(every)
    assert there.third == learner.learned.third != 0.0
    for one, other in zip(there.members, learner.learned.members, strict=True):
        assert one.bias == pytest.approx(other.bias, abs=1e-6)
        assert np.array_equal(one.heights, other.heights)
    start = ResolverFit.train(rows, nobody, None, rows.spec.names, Choices(), 5)
    assert not np.array_equal(start.ensemble.members[0].heights, fitted.ensemble.members[0].heights)


def test_answers_are_weighed_by_the_sizes_of_the_table():
    """Three records of one cluster say little where triples are common, and much where they are not."""
    records, spec, truth = people(90, 3)
    rows = Compared.of(records, spec, None, False, blocked=True)
    fitted = ResolverFit.train(rows, np.full(90, -1, dtype=np.int64), None, rows.spec.names, Choices(), 5)
    comparer = Comparer.of(records, rows.spec.fields)
    there = fitted.ensemble.set_to_all(comparer.compare_all())
    clusters, sizes = np.unique(truth, return_counts=True)
    chosen = np.flatnonzero(truth == clusters[sizes >= 3][0])
    group = np.full(90, -1, dtype=np.int64)
    group[chosen] = 0
    none = np.zeros(0, dtype=np.int64)
    compared = ComparedPairs.of(Conditions(group, none, none, np.full(90, -1, dtype=np.int64)))
    features = comparer.compare(compared.rows[compared.left], compared.rows[compared.right])
    pairs = Pairs(len(compared.rows), compared.left, compared.right, features)
    common, rare = (
        learn_from_answers(replace(there, third=third), compared, pairs, 90, 5).members for third in (3.0, -6.0)
    )
    assert np.mean([member.third for member in rare]) > np.mean([member.third for member in common])
