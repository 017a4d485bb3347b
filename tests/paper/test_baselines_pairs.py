"""Pairs, folds, links, searches: what the opponents are made of, each against a slow and obvious twin."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from baseline_cases import as_distances, blobs
from scdp.errors import InputError
from scdp.linkage.training.folds import held_out_halves, held_out_sets
from scdp.metrics import f_score
from scdp.paper.binary import golden_section
from scdp.paper.simple import implicit_k_means, squared_length, to_means
from scdp.paper.structured import correlation_clustering, merge_greedily, move_items
from scdp.paper.surface import (
    PairTable,
    Steps,
    best_threshold,
    compare_items,
    cut,
    merge_trees,
    number_within_groups,
    pair_features,
    sample_pairs,
    score_cuts,
)
from scdp.table import records_from

GROUPS = np.array(["b", "a", "b", "c", "a", "b", "a"])


def test_vectors_and_distances_have_the_same_pairs_within_groups():
    X = np.random.default_rng(0).normal(size=(7, 3))
    X[2, 1] = np.nan
    square = as_distances(X)
    both = [compare_items(items, GROUPS, None, "test") for items in (X, square)]
    table = PairTable.of(both[0].layout, np.arange(7))
    left, right = table.left, table.right
    assert sorted(zip(left, right, strict=True)) == sorted(
        (i, j) for i, j in combinations(range(7), 2) if GROUPS[i] == GROUPS[j]
    )
    for items in both:
        np.testing.assert_allclose(pair_features(items), square[left, right], rtol=1e-6)


def test_pairs_of_some_items_keep_their_place_in_the_table():
    X = np.arange(7.0)[:, None] ** 2
    items = compare_items(X, GROUPS, None, "test")
    table, rows = PairTable.of(items.layout, np.zeros(7, dtype=int)), np.array([1, 2, 4, 5])
    layout, positions = table.select_within(rows)
    part = compare_items(X[rows], GROUPS[rows], None, "test")
    assert layout.n_pairs == part.layout.n_pairs == 2
    np.testing.assert_array_equal(pair_features(items)[positions], pair_features(part))
    kept = table.find_pairs_without(rows)
    assert {(int(table.left[p]), int(table.right[p])) for p in kept} == set()
    assert len(table.find_pairs_without(np.array([0]))) == table.layout.n_pairs - 2


def test_records_without_a_spec_are_refused():
    with pytest.raises(InputError, match="spec"):
        compare_items(records_from({"name": ["a", "b"]}), None, None, "Binary")


def test_sampling_keeps_everything_that_is_few_and_is_seeded():
    same = np.arange(100) < 10
    draws = [sample_pairs(np.arange(100), same, 20, 30, np.random.default_rng(3)) for _ in range(2)]
    np.testing.assert_array_equal(*draws)
    assert same[draws[0]].sum() == 10
    assert len(draws[0]) == 40


@pytest.mark.parametrize(("n_clusters", "n_folds"), [(5, 10), (7, 4), (12, 10), (40, 10), (41, 4)])
def test_no_cluster_is_on_both_sides_and_each_side_has_two(n_clusters, n_folds):
    rng = np.random.default_rng(1)
    labels = rng.permutation(np.repeat(np.arange(n_clusters), rng.integers(1, 30, n_clusters)))
    one_document = np.zeros(len(labels), dtype=int)
    folds = [held_out_sets(labels, one_document, n_folds, rng), held_out_halves(labels, one_document, rng)]
    for held in (rows for fold in folds for rows in fold):
        inside, outside = set(labels[held]), set(np.delete(labels, held))
        assert not inside & outside
        assert min(len(inside), len(outside)) >= 2
    if n_clusters >= 2 * n_folds:
        assert sorted(np.concatenate(folds[0])) == list(range(len(labels)))
    halves = [len(set(labels[rows])) / n_clusters for rows in folds[1]]
    assert min(halves) > 0.3
    assert max(halves) < 0.7


def test_documents_are_held_out_whole():
    groups = np.repeat(np.arange(12), 5)
    for held in held_out_sets(np.arange(60) // 2, groups, 10, np.random.default_rng(0)):
        assert not set(groups[held]) & set(np.delete(groups, held))


def test_too_few_clusters_are_refused():
    with pytest.raises(InputError, match="3 known clusters"):
        held_out_sets(np.array([0, 1, 2, 2]), np.zeros(4, dtype=int), 10, np.random.default_rng(0))


@pytest.mark.parametrize("link", ["min", "max", "average"])
def test_the_score_of_every_cut_is_that_of_the_clusters(link):
    rng = np.random.default_rng(5)
    groups, labels = rng.integers(0, 3, 40), rng.integers(0, 6, 40)
    items = compare_items(rng.normal(size=(40, 1)), groups, None, "test")
    trees = merge_trees(items.layout, pair_features(items)[:, 0], link)
    scores = score_cuts(items.layout, trees, labels)
    gold = number_within_groups(items.layout, labels)
    for threshold in [-1.0, 0.0, *np.quantile(scores.heights, [0.1, 0.5, 0.9]) + 1e-6, 99.0]:
        found = number_within_groups(items.layout, cut(items.layout, trees, threshold))
        assert scores.at(np.array([threshold]))[0] == pytest.approx(f_score(gold, found))


def test_the_threshold_is_in_the_middle_of_what_separates():
    X, y = blobs(0, 10)
    items = compare_items(X, None, None, "test")
    length = np.sqrt((pair_features(items) ** 2).sum(axis=1))
    scores = score_cuts(items.layout, merge_trees(items.layout, length, "average"), y)
    threshold, best = best_threshold([scores, scores])
    assert best == 1
    assert 0.5 < threshold < 2.5


def test_golden_section_finds_the_peak():
    assert golden_section(lambda x: -((x - 1.7) ** 2), -10, 3, 30) == pytest.approx(1.7, abs=1e-4)
    calls = []
    golden_section(lambda x: calls.append(x) or x, 0, 1, 7)
    assert len(calls) == 7


def test_distances_to_means_are_those_of_coordinates():
    rng = np.random.default_rng(2)
    X, labels = rng.normal(size=(30, 4)), np.arange(30) % 3
    squared = (as_distances(X) ** 2).sum(axis=2)
    means = np.array([X[labels == k].mean(axis=0) for k in range(3)])
    plain = ((X[:, None] - means) ** 2).sum(axis=2)
    np.testing.assert_allclose(to_means(squared, labels, 3), plain, rtol=1e-10)


def test_implicit_k_means_survives_equal_items_and_distances_of_no_space():
    rng = np.random.default_rng(0)
    assert len(set(implicit_k_means(np.zeros((6, 6)), 3, rng))) == 3
    noise = rng.random((20, 20)) ** 4
    labels = implicit_k_means(noise + noise.T, 4, rng)
    assert len(set(labels)) == 4
    assert len(set(implicit_k_means(noise, 25, rng))) == 20


def test_a_missing_feature_counts_as_the_mean_of_the_others():
    features = np.array([[1.0, 3.0], [2.0, np.nan], [np.nan, np.nan]])
    np.testing.assert_allclose(squared_length(features), [10.0, 8.0, 9.0])


def score_of(scores, labels):
    return sum(scores[i, j] for i, j in combinations(range(len(labels)), 2) if labels[i] == labels[j])


def plain_merges(scores):
    """Twin of `merge_greedily`: all pairs of clusters looked at anew before each merge."""
    clusters = [[i] for i in range(len(scores))]
    while True:
        gains = {
            (a, b): scores[np.ix_(clusters[a], clusters[b])].sum() for a, b in combinations(range(len(clusters)), 2)
        }
        best = max(gains, key=gains.__getitem__, default=None)
        if best is None or gains[best] <= 0:
            return clusters
        clusters[best[0]] += clusters.pop(best[1])


def symmetric(seed, n):
    noise = np.random.default_rng(seed).normal(-0.2, 1, (n, n))
    return (noise + noise.T) / 2


@pytest.mark.parametrize("seed", range(5))
def test_greedy_merges_equal_their_plain_twin(seed):
    scores = symmetric(seed, 14)
    labels = merge_greedily(scores.copy())
    found = {frozenset(np.flatnonzero(labels == label).tolist()) for label in set(labels)}
    assert found == {frozenset(cluster) for cluster in plain_merges(scores)}


@pytest.mark.parametrize("seed", range(5))
def test_moves_never_lower_the_score_and_end_where_no_move_helps(seed):
    scores = symmetric(seed, 12)
    before = merge_greedily(scores.copy())
    after = move_items(scores, before.copy(), 50)
    assert score_of(scores, after) >= score_of(scores, before) - 1e-9
    for item in range(12):
        for label in range(12):
            moved = after.copy()
            moved[item] = label
            assert score_of(scores, moved) <= score_of(scores, after) + 1e-6


def test_correlation_clustering_is_near_the_best_of_all_partitions():
    def partitions(n):
        if n == 0:
            yield []
            return
        for rest in partitions(n - 1):
            for label in range(max(rest, default=-1) + 2):
                yield [*rest, label]

    shares = []
    for seed in range(10):
        scores = symmetric(seed, 7)
        best = max(score_of(scores, labels) for labels in partitions(7))
        shares.append(score_of(scores, correlation_clustering(scores)) / best)
    assert max(shares) <= 1 + 1e-9
    assert np.mean(shares) > 0.9


def test_progress_tells_the_time_left_on_stderr(capsys):
    for verbose in (True, False):
        steps = Steps("Binary", 2, verbose)
        steps.finish_step("fold 1")
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert "Binary: fold 1 (1 of 2)" in shown.err
    assert "left" in shown.err
