"""Binary, ModernBinary, GraphPartition, ClusterSVM: right where pairs tell, wrong where they cannot."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from baseline_cases import as_distances, blobs, exclusive_or, touching_bars
from scdp import compare
from scdp.errors import InputError
from scdp.metrics import f_score
from scdp.paper.baselines import Binary, ClusterSVM, GraphPartition, ModernBinary
from scdp.paper.binary import class_weights
from scdp.paper.structured import TRIED_C, Intervals, Sheet, most_violating, score_pairs, sheets, sum_features
from scdp.paper.surface import PairTable, compare_items
from scdp.table import records_from
from scdp.table.spec import Spec

SYSTEMS = {
    "Binary": Binary(n_pairs=300, n_folds=4),
    "ModernBinary": ModernBinary(rounds=(10, 25)),
    "GraphPartition": GraphPartition(updates=(100, 400)),
    "ClusterSVM": ClusterSVM(C=1e4, n_updates=400),
}


@pytest.fixture(params=SYSTEMS)
def system(request):
    return clone(SYSTEMS[request.param])


@pytest.mark.parametrize("kind", [lambda X: X, as_distances], ids=["vectors", "distances"])
def test_new_tight_clusters_are_found(system, kind):
    (X, y), (X_test, y_test) = blobs(0, 24), blobs(1, 15)
    labels = system.fit(kind(X), y).predict(kind(X_test))
    assert f_score(y_test, labels) > 0.95


def test_documents_share_what_is_learned_and_no_clusters(system):
    X, y = blobs(0, 60)
    groups = y % 12
    X_test, y_test = blobs(1, 12)
    labels = system.fit(X, y, groups).predict(X_test, y_test % 3)
    assert f_score(y_test, labels) > 0.95
    halved = np.arange(len(y_test)) % 2
    labels = system.predict(X_test, halved)
    assert all(len(set(halved[labels == label])) == 1 for label in set(labels))


def test_missing_values_and_unknown_clusters_are_no_obstacle(system):
    X, y = blobs(0, 24, n_features=4)
    X[:, 2:] = X[:, :2] + 0.01
    rng = np.random.default_rng(0)
    some = np.flatnonzero(rng.random(len(X)) < 0.3)
    X[some, rng.integers(0, 4, len(some))] = np.nan
    X_test, y_test, y_train = X[y < 8], y[y < 8], np.where(y < 8, -1, y)
    assert f_score(y_test, system.fit(X, y_train).predict(X_test)) > 0.85


def test_touching_bars_cannot_be_told_from_pairs(system):
    (X, y), (X_test, y_test) = touching_bars(0, 20), touching_bars(1, 12)
    assert f_score(y_test, system.fit(X, y).predict(X_test)) < 0.9


def test_same_seed_same_clusters(system):
    (X, y), (X_test, _) = blobs(0, 12, spread=1.0), blobs(1, 10, spread=1.0)
    first, second = (clone(system).fit(X, y).predict(X_test) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_records_are_compared_by_the_spec():
    rng = np.random.default_rng(0)
    names = ["".join(rng.choice(list("abcdefghij"), 8)) for _ in range(40)]
    cells = [name[:k] + "x" + name[k + 1 :] for name in names for k in (0, 3, 7)]
    y = np.repeat(np.arange(40), 3)
    spec = Spec("id", [compare.edit("name")])
    records = records_from({"name": cells})
    train, test = np.flatnonzero(y < 25), np.flatnonzero(y >= 25)
    model = ModernBinary(spec=spec, rounds=(25,)).fit(records.take(train), y[train])
    assert f_score(y[test], model.predict(records.take(test))) > 0.95
    with pytest.raises(InputError, match="records"):
        model.predict(np.zeros((3, 1)))


def mangled_names():
    rng = np.random.default_rng(0)
    names = ["".join(rng.choice(list("abcdefghij"), 8)) for _ in range(40)]
    cells = [name[:k] + "x" + name[k + 1 :] for name in names for k in (0, 3, 7)]
    return records_from({"name": cells, "empty": [""] * len(cells)}), np.repeat(np.arange(40), 3)


def test_trees_do_without_a_feature_that_every_pair_misses():
    records, y = mangled_names()
    spec = Spec("id", [compare.edit("name"), compare.edit("empty")])
    train, test = np.flatnonzero(y < 25), np.flatnonzero(y >= 25)
    model = ModernBinary(spec=spec, rounds=(25,)).fit(records.take(train), y[train])
    assert f_score(y[test], model.predict(records.take(test))) > 0.95


def test_of_many_pairs_trees_look_at_the_candidates_of_the_resolver_alone():
    records, y = mangled_names()
    train, test = np.flatnonzero(y < 25), np.flatnonzero(y >= 25)
    spec = Spec("id", [compare.edit("name")])
    every = ModernBinary(spec=spec, rounds=(25,)).fit(records.take(train), y[train])
    some = ModernBinary(spec=spec, rounds=(25,), most_pairs=100).fit(records.take(train), y[train])
    assert every.pairs_available_ == 75 * 74 // 2
    assert some.pairs_available_ < 0.9 * every.pairs_available_
    assert f_score(y[test], some.predict(records.take(test))) > 0.9


def test_folds_are_of_items_where_clusters_are_fewer_than_folds():
    X, y = blobs(0, 5)
    model, rng = Binary(n_folds=10), np.random.default_rng(0)
    X, y = np.repeat(X, 6, axis=0), np.repeat(y, 6)
    folds = model._folds(y, np.zeros(len(y), dtype=np.int64), rng)
    assert sorted(np.concatenate(folds).tolist()) == list(range(len(y)))
    assert all(len(np.unique(y[fold])) == 5 for fold in folds)
    many = np.repeat(np.arange(40), 6)
    folds = model._folds(many, np.zeros(len(many), dtype=np.int64), rng)
    assert all(np.isin(many, many[fold]).sum() == len(fold) for fold in folds)


def test_trees_learn_what_only_both_distances_say_and_additive_scores_do_not():
    (X, y), (X_test, y_test) = exclusive_or(0, 20), exclusive_or(1, 12)
    assert f_score(y_test, ModernBinary(rounds=(25,)).fit(X, y).predict(X_test)) == 1
    assert f_score(y_test, Binary(n_pairs=300).fit(X, y).predict(X_test)) > 0.98
    for additive in (GraphPartition(updates=(200,)), ClusterSVM(C=1e4, n_updates=200)):
        assert f_score(y_test, additive.fit(X, y).predict(X_test)) < 0.5


def test_learners_say_what_they_used_and_chose():
    X, y = blobs(0, 24)
    n_pairs = len(X) * (len(X) - 1) // 2
    modern = ModernBinary(rounds=(10, 25), max_pairs=3000).fit(X, y)
    assert (modern.pairs_used_, modern.pairs_available_) == (3000, n_pairs)
    assert 0 < modern.threshold_ < 1
    assert modern.held_out_score_ > 0.95
    binary = Binary(n_pairs=200).fit(X, y)
    assert (binary.pairs_used_, binary.pairs_available_) == (200, n_pairs)
    assert binary.link_ in ("min", "max", "average")
    assert binary.pair_accuracy_ > 0.95


def test_progress_is_shown_on_request(capsys):
    X, y = blobs(0, 12)
    GraphPartition(updates=(10, 30), verbose=True).fit(X, y)
    assert capsys.readouterr().err.count("GraphPartition: ") == 5


def test_c_is_chosen_on_held_out_clusters():
    X, y = blobs(0, 16, size=4)
    assert ClusterSVM(n_updates=40).fit(X, y).C_ in TRIED_C
    assert ClusterSVM(C=7.0, n_updates=40).fit(X, y).C_ == 7


def test_learners_need_clusters(system):
    X, _ = blobs(0, 6)
    with pytest.raises(InputError, match="give y"):
        system.fit(X)
    with pytest.raises(InputError, match="only pairs of two"):
        system.fit(X, np.arange(len(X)))


def test_sampled_classes_keep_their_shares():
    same = np.arange(1000) < 100
    chosen = np.r_[0:50, 100:200]
    weights = class_weights(same, np.arange(1000), chosen)
    assert weights[same[chosen]].sum() == pytest.approx(100)
    assert weights[~same[chosen]].sum() == pytest.approx(900)


def test_scores_and_sums_of_intervals_are_those_of_long_vectors():
    rng = np.random.default_rng(0)
    features = rng.random((50, 3)).astype(np.float32)
    features[rng.random((50, 3)) < 0.2] = np.nan
    intervals = Intervals.of(features, rng.random(50) < 0.5, rng)
    codes = intervals.codes(features)
    assert ((codes == intervals.shape[1] - 1) == np.isnan(features)).all()
    weights = rng.normal(size=intervals.shape)
    long = np.zeros((50, *intervals.shape))
    for pair in range(50):
        for feature in range(3):
            long[pair, feature, codes[pair, feature]] = 1
    np.testing.assert_allclose(score_pairs(weights, codes), (long * weights).sum(axis=(1, 2)))
    amounts = rng.normal(size=50)
    np.testing.assert_allclose(sum_features(codes, amounts, intervals.shape), np.tensordot(amounts, long, 1))


def test_chunks_are_whole_clusters_and_cover_all_items():
    labels = np.repeat(np.arange(30), 10)
    items = compare_items(np.arange(300.0)[:, None], None, None, "test")
    table = PairTable.of(items.layout, labels)
    found = sheets(table, labels, 100, np.random.default_rng(0))
    assert sum(sheet.size for sheet in found) == 300
    for sheet in found:
        assert sheet.same.sum() == sheet.size * 9 // 2
        assert sheet.size >= 90


def test_the_hinge_is_the_worst_of_all_clusterings():
    """Three items, five clusterings: the value is found by hand and its slope by a small step."""
    codes = np.array([[0], [1], [2]], dtype=np.uint8)
    document = Sheet(np.arange(3), np.array([True, False, False]), 3)
    weights = np.array([[0.3, -0.2, 0.9, 0.0]])
    gold = np.array([1, 0, 0])
    together = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]])

    def hinge(w):
        scores = w[0, :3] / 3
        return max(np.count_nonzero(c != gold) / 3 + scores @ (c - gold) for c in together)

    slope, slack = most_violating(weights, document, codes)
    assert slack == pytest.approx(hinge(weights))
    for k in range(4):
        step = np.zeros((1, 4))
        step[0, k] = 1e-6
        assert (hinge(weights + step) - hinge(weights)) / 1e-6 == pytest.approx(slope[0, k], abs=1e-4)
