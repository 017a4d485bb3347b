"""Items that stand for several: the search of few heavy items against that of all the items they stand for."""

from __future__ import annotations

import numpy as np
import pytest

from scdp.errors import InputError
from scdp.posterior import canonical_labels
from scdp.posterior.search import expected_loss, minimise_expected_loss, search_partition
from twins.partitions import PARTITIONS, plain_losses, priced_loss, random_posterior

LOSSES = ["vi", "binder"]


def noisy_draws(rng, n_items, n_clusters, n_draws=20, noise=0.35):
    truth = rng.integers(0, n_clusters, n_items)
    wrong = rng.random((n_draws, n_items)) < noise
    raw = np.where(wrong, rng.integers(0, n_clusters, wrong.shape), truth)
    return np.array([canonical_labels(row) for row in raw])


@pytest.mark.parametrize("minimise", [minimise_expected_loss, search_partition])
@pytest.mark.parametrize("loss", LOSSES)
def test_no_partition_of_all_they_stand_for_beats_that_of_heavy_items(loss, minimise):
    rng = np.random.default_rng(20)
    for _ in range(100):
        n_items, n_all = 4, int(rng.integers(4, 10))
        draws = random_posterior(rng, n_items)
        stands_for = rng.permutation(np.append(np.arange(n_items), rng.integers(0, n_items, n_all - n_items)))
        weights = np.bincount(stands_for)
        found = minimise(draws, loss=loss, weights=weights)
        attained = plain_losses(found[stands_for][None], draws[:, stands_for], loss)[0]
        assert attained == pytest.approx(plain_losses(PARTITIONS[n_all], draws[:, stands_for], loss).min(), abs=1e-10)
        assert expected_loss(found, draws, loss, weights) == pytest.approx(attained, abs=1e-12)


@pytest.mark.parametrize("price", [0.6, 1.0])
@pytest.mark.parametrize("loss", LOSSES)
def test_no_move_of_one_of_the_items_they_stand_for_improves_a_larger_search(loss, price):
    rng = np.random.default_rng(21)
    for _ in range(10):
        draws = noisy_draws(rng, 25, 5)
        weights = rng.integers(1, 6, 25)
        stands_for = np.repeat(np.arange(25), weights)
        wide = draws[:, stands_for]
        heavy = search_partition(draws, loss=loss, weights=weights, price=price)[stands_for]
        moved = np.repeat(heavy[None], 25 * (heavy.max() + 2), axis=0).reshape(25, -1, len(heavy))
        for item in range(25):
            moved[item, :, np.flatnonzero(stands_for == item)[0]] = np.arange(heavy.max() + 2)
        least = min(priced_loss(row, wide, loss, price) for row in moved.reshape(-1, len(heavy)))
        assert priced_loss(heavy, wide, loss, price) <= least + 1e-10


@pytest.mark.parametrize("loss", LOSSES)
def test_a_search_of_very_heavy_items_stays_within_its_room(loss):
    # Counts far beyond the number of items, free and fixed: with room by count this would write beyond the arrays.
    rng = np.random.default_rng(22)
    draws = noisy_draws(rng, 30, 6)
    weights = rng.integers(1, 100_000, 30)
    fixed = np.where(np.arange(30) < 3, np.arange(30), -1).astype(np.int32)
    found = search_partition(draws, loss=loss, weights=weights, fixed=fixed)
    assert len(set(found[:3].tolist())) == 3
    moved = np.repeat(found[None], 27 * (found.max() + 2), axis=0).reshape(27, -1, 30)
    for item in range(27):
        moved[item, :, item + 3] = np.arange(found.max() + 2)
    least = min(expected_loss(row, draws, loss, weights) for row in moved.reshape(-1, 30))
    assert expected_loss(found, draws, loss, weights) <= least + 1e-10


def test_what_has_no_room_is_refused():
    draws = np.zeros((2, 3), np.int32)
    for weights in ([1, 0, 1], [1, -1, 1], [1.0, 1.0, 1.0]):
        with pytest.raises(InputError, match="whole numbers from 1 on"):
            search_partition(draws, weights=np.array(weights))
    with pytest.raises(InputError, match="2 weights and 3 fixed labels for 3 items"):
        search_partition(draws, weights=np.ones(2, np.int64))
    with pytest.raises(InputError, match="3,000,000,000 in all"):
        search_partition(draws, weights=np.full(3, 1_000_000_000))
    for wrong in (-1, 3):
        with pytest.raises(InputError, match="make them canonical"):
            search_partition(draws + np.int32(wrong))
    with pytest.raises(InputError, match="a start of 3 items"):
        search_partition(draws, given=[np.array([0, 1, 9], np.int32)])
