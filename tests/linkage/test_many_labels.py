"""Learning from many labelled records: candidates and a sample stand for all pairs, and whole groups are taken."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scdp import compare
from scdp.blocking import CandidatePairs
from scdp.blocking.by_size import Ladder
from scdp.compare.features import Columns
from scdp.datasets import make_records
from scdp.linkage import sources
from scdp.linkage.fit import Choices, fit_ensemble
from scdp.linkage.sources import RecordSource, choose_neighbourhoods
from scdp.linkage.training import folds as training_folds
from scdp.linkage.training.folds import MOST_RECORDS, LabelledPairs, learn_evidence, make_fold
from scdp.table.spec import Spec

FIELDS = (compare.edit("surname"), compare.jaro_winkler("first_name"), compare.exact("city"))
COLUMNS = Columns.of(FIELDS)


def many_people(n: int = 1200) -> tuple[RecordSource, RecordSource, np.ndarray]:
    """A source that compares candidates, and one that compares all pairs of the same records."""
    made = make_records(n, kind="people", seed=4)
    cluster = np.unique(made.clusters, return_inverse=True)[1]
    spec, rows = Spec("entity", FIELDS), np.arange(n)
    near = RecordSource.of(made.data, spec, rows, None, None, Ladder(()))
    return near, RecordSource.of(made.data, spec, rows, None), cluster


def test_of_many_records_candidates_and_a_sample_stand_for_all_pairs():
    near, whole, cluster = many_people()
    rows = np.arange(len(cluster))
    pairs, stands_for = near.pairs(rows, cluster)
    every = whole.pairs(rows, cluster)
    assert every.stands_for is None
    assert len(pairs) < len(every.pairs) / 5
    assert stands_for.sum() == pytest.approx(len(every.pairs))
    assert len(np.unique(pairs.left * len(rows) + pairs.right)) == len(pairs)
    # Every pair of one cluster is there, for itself.
    sizes = np.bincount(cluster)
    together = cluster[pairs.left] == cluster[pairs.right]
    assert together.sum() == (sizes * (sizes - 1) // 2).sum()
    assert (stands_for[together] == 1).all()
    # Evidence is the same but for the error of the sample: a level of share p is seen within six standard errors.
    folds = [
        make_fold(found, cluster, None, np.random.default_rng(0)) for found in (LabelledPairs(pairs, stands_for), every)
    ]
    one, other = (learn_evidence(COLUMNS.layout, [fold]) for fold in folds)
    np.testing.assert_allclose(one.counts, other.counts)
    error = np.sqrt(other.strangers * (1 - other.strangers) / (stands_for > 1).sum())
    assert (np.abs(one.strangers - other.strangers) <= 6 * error + 1e-4).all()
    assert folds[0].match_share == pytest.approx(folds[1].match_share)
    assert len(folds[0].random_pairs()) == len(pairs)


def test_of_very_many_labels_clusters_are_taken_with_those_that_look_like_them(monkeypatch):
    near, _, cluster = many_people()
    assert near.find_candidates is not None
    found = near.find_candidates(near.labelled)
    monkeypatch.setattr(sources, "MOST_BLOCKED", 200)
    items = near.choose(cluster, np.random.default_rng(0))
    assert 100 < len(items) <= 200
    assert not set(cluster[items]) & set(np.delete(cluster, items))
    np.testing.assert_array_equal(items, near.choose(cluster, np.random.default_rng(0)))
    # A sample of as many records would keep one candidate in 36, since both ends have to be there.
    here = np.isin(np.arange(len(cluster)), items)
    kept = (here[found.left] & here[found.right]).sum() / len(found)
    assert kept > 2.0 * (len(items) / len(cluster)) ** 2


def test_neighbourhoods_are_those_of_the_candidates():
    cluster = np.array([0, 0, 1, 2, 2, 3, 4])
    found = CandidatePairs(np.array([0, 1, 3], np.int32), np.array([1, 3, 5], np.int32), n_records=7)
    alike = {0: {0, 2}, 1: {1}, 2: {0, 2, 3}, 3: {2, 3}, 4: {4}}
    for seed in range(20):
        items = choose_neighbourhoods(cluster, found, 5, np.random.default_rng(seed))
        first = int(np.random.default_rng(seed).permutation(5)[0])
        assert len(items) <= 5
        assert alike[first] <= set(cluster[items].tolist())
    everyone = choose_neighbourhoods(cluster, found, 1, np.random.default_rng(0))
    np.testing.assert_array_equal(everyone, np.arange(7))


def test_learning_looks_at_whole_clusters_and_whole_groups(monkeypatch):
    near, whole, cluster = many_people()
    rng = np.random.default_rng(0)
    assert len(near.choose(cluster, rng)) == len(cluster)
    chosen = whole.choose(cluster, rng)
    assert len(chosen) <= MOST_RECORDS < len(cluster)
    assert not set(cluster[chosen]) & set(np.delete(cluster, chosen))
    # Within small groups there are few pairs, and all of them teach.
    group = np.arange(len(cluster)) // 10
    grouped = replace(whole, groups=group)
    assert len(grouped.choose(cluster, rng)) == len(cluster)
    monkeypatch.setattr(training_folds, "MOST_RECORDS", 30)
    some = grouped.choose(cluster, rng)
    assert 0 < len(some) < len(cluster)
    assert (np.bincount(group[some])[np.unique(group[some])] == 10).all()


def test_a_law_learned_from_candidates_is_that_of_all_pairs():
    near, whole, cluster = many_people(1700)
    group = np.zeros(len(cluster), np.int64)
    first, second = (
        fit_ensemble(source, cluster, group, COLUMNS.layout, COLUMNS.sign, Choices(n_members=2), 0)[0]
        for source in (near, whole)
    )
    pairs = whole.pairs(np.arange(500), cluster[:500]).pairs
    scores = [
        each.set_to(pairs.features, pairs.features, len(pairs), 500).mean_log_odds(pairs.features)
        for each in (first, second)
    ]
    likely = scores[1] > -6
    assert likely.sum() > 100
    assert np.corrcoef(scores[0][likely], scores[1][likely])[0, 1] > 0.9
