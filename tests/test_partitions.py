"""Components of draws, exact solutions of small ones, and pairs within them, each against an obvious twin."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from scdp.errors import InputError
from scdp.partitions import find_components, group_items
from scdp.posterior import Posterior, canonical_labels
from scdp.posterior import search as search_module
from scdp.posterior.optimise import MOST_ITEMS, solve_components
from scdp.posterior.pairs import find_pairs_between, split_into_blocks
from scdp.posterior.search import expected_loss, minimise_expected_loss, search_partition

LOSSES = ["vi", "binder"]


def draws_of_components(rng, sizes, n_draws, noise=0.4):
    """Draws (draw, item) in which only items of one component are ever together; items are shuffled."""
    component = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    apart = np.where(rng.random((n_draws, len(component))) < noise, rng.integers(1, 4, (n_draws, len(component))), 0)
    return np.array([canonical_labels(row) for row in component * 4 + apart])


def all_partitions(n):
    rows = [[0]]
    for _ in range(n - 1):
        rows = [[*row, label] for row in rows for label in range(max(row) + 2)]
    return np.array(rows, np.int32)


def test_components_are_those_of_the_graph_of_items_together():
    rng = np.random.default_rng(1)
    for _ in range(40):
        n = int(rng.integers(1, 40))
        draws = rng.integers(-1, rng.integers(1, 3 * n), (int(rng.integers(1, 5)), n)).astype(np.int32)
        linked = ((draws[:, :, None] == draws[:, None, :]) & (draws >= 0)[:, :, None]).any(axis=0)
        wanted = canonical_labels(connected_components(csr_array(linked))[1])
        found = find_components([draws[:1], draws[1:]], n)
        labels = np.empty(n, np.int64)
        labels[found.items] = np.repeat(np.arange(len(found.sizes)), found.sizes)
        assert np.array_equal(labels, wanted)
        some = found.select(found.sizes > 1)
        assert some.items.tolist() == [i for i in found.items if (wanted == wanted[i]).sum() > 1]
        assert some.sizes.tolist() == [size for size in found.sizes if size > 1]


def test_items_are_grouped_as_by_a_stable_sort():
    labels = canonical_labels(np.random.default_rng(2).integers(0, 9, 50))
    items, bounds = group_items(labels)
    assert np.array_equal(items, np.argsort(labels, kind="stable"))
    assert np.array_equal(np.diff(bounds), np.bincount(labels))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
def test_no_partition_beats_the_solution_of_a_small_component(loss, n):
    rng = np.random.default_rng(n)
    for _ in range(20):
        draws = draws_of_components(rng, [n], int(rng.integers(1, 30)), noise=rng.random())
        found = minimise_expected_loss(draws, loss=loss)
        least = min(expected_loss(labels, draws, loss) for labels in all_partitions(n))
        assert expected_loss(found, draws, loss) == pytest.approx(least, abs=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_no_estimate_is_worse_than_that_of_the_search_of_all_items_at_once(loss):
    rng = np.random.default_rng(4)
    better = 0
    for _ in range(12):
        sizes = rng.choice([1, 1, 2, 3, 4, 6, 9, MOST_ITEMS, 14], 40)
        draws = draws_of_components(rng, sizes, int(rng.integers(3, 40)))
        new = expected_loss(minimise_expected_loss(draws, loss=loss), draws, loss)
        old = expected_loss(search_partition(draws, loss=loss), draws, loss)
        assert new <= old + 1e-10
        better += new < old - 1e-10
    assert better


@pytest.mark.parametrize("loss", LOSSES)
def test_fixed_and_heavy_items_in_small_components_are_obeyed(loss):
    rng = np.random.default_rng(5)
    for _ in range(40):
        draws = draws_of_components(rng, rng.choice([1, 2, 4], 3), int(rng.integers(1, 12)))
        n = draws.shape[1]
        fixed = np.where(rng.random(n) < 0.5, rng.integers(0, 3, n), -1).astype(np.int32)
        weights = np.where(fixed >= 0, rng.integers(1, 5, n), 1)
        found = minimise_expected_loss(draws, loss=loss, fixed=fixed, weights=weights)
        held = fixed >= 0
        same = fixed[held][:, None] == fixed[held][None, :]

        def obeys(labels, held=held, same=same):
            return np.array_equal(labels[held][:, None] == labels[held][None, :], same)

        assert obeys(found)
        if n <= 8:
            allowed = [labels for labels in all_partitions(n) if obeys(labels)]
            least = min(expected_loss(labels, draws, loss, weights) for labels in allowed)
            assert expected_loss(found, draws, loss, weights) == pytest.approx(least, abs=1e-9)


def test_the_kernel_names_clusters_by_their_first_items():
    draws = np.array([[0, 0, 1, 2], [0, 0, 1, 1], [0, 0, 1, 1]], np.int32)
    labels = np.full(4, -1)
    items, bounds = np.arange(4), np.array([0, 2, 4])
    pairs_wrong = np.arange(5) * (np.arange(5) - 1) / 2
    free = np.full(4, -1, np.int32)
    solve_components(draws, items, bounds, np.ones(4, np.int64), free, pairs_wrong, labels)
    assert labels.tolist() == [0, 0, 2, 2]


def test_equals_are_decided_for_the_finer_partition_whatever_the_order_of_draws():
    draws = np.array([[0, 0], [0, 1]], np.int32)
    for each in (draws, draws[::-1]):
        assert minimise_expected_loss(each, loss="binder").tolist() == [0, 1]


def test_labels_of_draws_need_not_be_canonical():
    rng = np.random.default_rng(6)
    draws = draws_of_components(rng, [2, 5, 14], 20)
    names = np.array([rng.permutation(50) for _ in draws], np.int32)
    renamed = np.take_along_axis(names, draws, axis=1)
    assert np.array_equal(minimise_expected_loss(renamed), minimise_expected_loss(draws))


def test_large_components_are_searched_in_as_many_draws_as_there_is_memory_for(monkeypatch):
    draws = np.array([[0] * 20, [0] * 10 + [1] * 10, [0] * 10 + [1] * 10], np.int32)
    assert minimise_expected_loss(draws).max() == 1
    # No draw tells ten of them apart, so two are searched: there is memory for all three draws, then for one.
    monkeypatch.setattr(search_module, "MOST_SEARCHED", 6)
    assert minimise_expected_loss(draws).max() == 1
    monkeypatch.setattr(search_module, "MOST_SEARCHED", 2)
    assert minimise_expected_loss(draws).max() == 0


def test_estimates_with_known_clusters_do_not_depend_on_how_they_are_stored():
    rng = np.random.default_rng(7)
    fixed = np.where(np.arange(60) < 20, np.arange(60) % 7, -1)
    raw = np.where(fixed >= 0, fixed, rng.integers(0, 40, (1, 15, 60)))
    post = Posterior(raw, fixed=fixed)
    labels = canonical_labels(fixed[:20])
    found = post.point_estimate("vi")
    assert np.array_equal(canonical_labels(found[:20]), labels)
    plain = minimise_expected_loss(np.array([canonical_labels(row) for row in raw[0]]), fixed=fixed.astype(np.int32))
    assert post.expected_loss(found) == pytest.approx(post.expected_loss(plain), abs=1e-9)


@pytest.mark.parametrize("at_once", [2, 20, 10_000])
def test_pairs_sometimes_together_are_those_of_the_matrix(monkeypatch, at_once):
    monkeypatch.setattr("scdp.posterior.pairs.ITEMS_AT_ONCE", at_once)
    rng = np.random.default_rng(8)
    draws = draws_of_components(rng, rng.choice([1, 2, 3, 5, 9], 25), 30)
    post = Posterior(draws[None])
    matrix = post.co_clustering_matrix()
    left, right = np.nonzero(np.triu((matrix >= 0.2) & (matrix <= 0.9), k=1))
    found = find_pairs_between(post.stored, np.arange(30), 0.2, 0.9)
    order = np.lexsort(found[1::-1])
    assert np.array_equal(found[0][order], left)
    assert np.array_equal(found[1][order], right)
    assert np.allclose(found[2][order], matrix[left, right])
    assert len(left) > 20


def test_pairs_of_more_labels_than_fit_are_counted_in_some_of_the_draws(monkeypatch):
    raw = np.zeros((1, 10, 4), int)
    raw[0, 1::2] = [0, 1, 2, 3]
    stored = Posterior(raw).stored
    assert find_pairs_between(stored, np.arange(10), 0.1, 1.0)[2].tolist() == [0.5] * 6
    monkeypatch.setattr("scdp.posterior.pairs.MOST_LABELS", 20)
    assert find_pairs_between(stored, np.arange(10), 0.1, 1.0)[2].tolist() == [1.0] * 6


@pytest.mark.parametrize(("low", "high"), [(0.01, 1.0), (0.05, 0.95)])
def test_items_that_no_draw_tells_apart_are_counted_as_one(monkeypatch, low, high):
    rng = np.random.default_rng(9)
    few = rng.integers(0, 4, (6, 30))
    stored = Posterior(few[:, rng.integers(0, 30, 80)][None]).stored
    expected = find_pairs_between(stored, np.arange(6), low, high)
    monkeypatch.setattr("scdp.posterior.pairs.MOST_SINGLE", 0)
    found = find_pairs_between(stored, np.arange(6), low, high)
    assert sorted(zip(*found, strict=True)) == sorted(zip(*expected, strict=True))
    assert len(found[0]) > 500


def least_certain(pairs, n):
    return sorted(zip(*pairs, strict=True), key=lambda pair: (round(abs(pair[2] - 0.5), 9), *pair[:2]))[:n]


@pytest.mark.parametrize("at_most", [1, 20, 10_000])
def test_the_least_certain_pairs_are_the_same_without_listing_all(monkeypatch, at_most):
    rng = np.random.default_rng(10)
    stored = Posterior(rng.integers(0, 4, (6, 30))[:, rng.integers(0, 30, 80)][None]).stored
    expected = find_pairs_between(stored, np.arange(6), 0.05, 0.95)
    monkeypatch.setattr("scdp.posterior.pairs.MOST_SINGLE", 0)
    found = find_pairs_between(stored, np.arange(6), 0.05, 0.95, at_most)
    assert least_certain(found, at_most) == least_certain(expected, at_most)


def test_pairs_of_very_many_copies_are_not_listed_one_by_one():
    """Of 60,000 items in two sets there are 1.8 billion pairs, half of them uncertain."""
    draws = np.zeros((4, 60_000), np.int32)
    draws[:2, 30_000:] = 1
    stored = Posterior(draws[None]).stored
    left, right, share = find_pairs_between(stored, np.arange(4), 0.05, 0.95, 100)
    assert 100 <= len(left) < 1 << 22
    assert len(np.unique(left * 60_000 + right)) == len(left)
    assert (share == 0.5).all()
    assert find_pairs_between(stored, np.arange(4), 0.9, 0.95)[0].size == 0
    with pytest.raises(InputError, match=r"1,799,970,000 pairs of records .* leave copies out"):
        find_pairs_between(stored, np.arange(4), 0.1, 1.0)


def test_blocks_hold_whole_components_and_only_those_chosen(monkeypatch):
    bounds = np.array([0, 4, 6, 9, 12, 15, 20])
    monkeypatch.setattr("scdp.posterior.pairs.ITEMS_AT_ONCE", 8)
    assert split_into_blocks(bounds) == [(0, 9), (9, 20)]
    chosen = np.array([False, True, True, False, False, True])
    assert split_into_blocks(bounds, chosen) == [(4, 9), (15, 20)]
    assert split_into_blocks(np.array([0])) == []


def test_a_restriction_in_another_order_keeps_every_draw():
    rng = np.random.default_rng(9)
    post = Posterior(rng.integers(0, 8, (2, 5, 12)).astype(np.int32), names=[f"r{i}" for i in range(12)])
    order = rng.permutation(12)
    seen = post.restrict(order)
    for before, after in zip(post.draws.reshape(10, 12), seen.draws.reshape(10, 12), strict=True):
        assert np.array_equal(canonical_labels(before[order]), after)
    assert seen.names.tolist() == [f"r{i}" for i in order]


def test_large_components_are_searched_in_batches_that_do_not_depend_on_each_other(monkeypatch):
    rng = np.random.default_rng(12)
    # Components of 15 items, in which draws differ.
    draws = np.concatenate([20 * part + rng.integers(0, 4, (30, 15)) for part in range(8)], axis=1)
    draws = np.stack([canonical_labels(draw) for draw in draws]).astype(np.int32)
    whole = minimise_expected_loss(draws, random_state=1)
    monkeypatch.setattr("scdp.posterior.search.ITEMS_AT_ONCE", 40)
    batches = minimise_expected_loss(draws, random_state=1)
    assert expected_loss(batches, draws) <= expected_loss(whole, draws) + 1e-9
    assert np.array_equal(batches, minimise_expected_loss(draws, random_state=1))
    together = batches[:, None] == batches
    part = np.arange(120) // 15
    assert not together[part[:, None] != part].any()
