"""Items that stand for several: the search of few heavy items against that of all the items they stand for."""

from __future__ import annotations

import numpy as np
import pytest

from scdp.errors import InputError
from scdp.posterior import Posterior, canonical_labels
from scdp.posterior import search as search_module
from scdp.posterior.search import expected_loss, minimise_expected_loss, search_partition
from twins.partitions import PARTITIONS, plain_losses, priced_loss, random_posterior

LOSSES = ["vi", "binder"]
ANSWERS = ["f", "vi", "binder", "precision=0.8", "precision=1"]


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


def badness(answer, labels, draws):
    """What an answer makes least, from the probabilities of all pairs; a floor on precision that is missed is worst."""
    if answer in LOSSES:
        return plain_losses(labels[None], draws, answer)[0]
    pairs = np.triu_indices(len(labels), 1)
    shares = np.mean([draw[pairs[0]] == draw[pairs[1]] for draw in draws], axis=0)
    linked = labels[pairs[0]] == labels[pairs[1]]
    right, links = shares[linked].sum(), linked.sum()
    if answer == "f":
        return -2.0 * right / (links + shares.sum())
    return -right if right >= (float(answer.partition("=")[2]) - 1e-9) * links else np.inf


def tell_all_apart(monkeypatch):
    monkeypatch.setattr(search_module, "find_alike", lambda draws: np.arange(len(draws[0])))


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("answer", ANSWERS)
def test_no_answer_is_worse_for_uniting_items_that_no_draw_tells_apart(monkeypatch, answer, counted):
    if not counted:
        monkeypatch.setattr("scdp.posterior.pairs.MOST_PAIRS", 1)
        monkeypatch.setattr("scdp.posterior.pairs.ALWAYS_COUNTED", 4)
    rng = np.random.default_rng(23)
    for _ in range(20):
        n_kinds = int(rng.integers(2, 20))
        draws = noisy_draws(rng, n_kinds, 4)[:, rng.integers(0, n_kinds, 45)]
        united = Posterior(draws[None]).point_estimate(answer)
        with monkeypatch.context() as patch:
            tell_all_apart(patch)
            apart = Posterior(draws[None]).point_estimate(answer)
        assert badness(answer, united, draws) <= badness(answer, apart, draws) + 1e-9


@pytest.mark.parametrize("loss", LOSSES)
def test_fixed_items_are_obeyed_where_alike_ones_are_united(monkeypatch, loss):
    rng = np.random.default_rng(24)
    for _ in range(30):
        draws = noisy_draws(rng, 12, 4)[:, rng.integers(0, 12, 40)]
        fixed = np.where(rng.random(40) < 0.2, rng.integers(0, 3, 40), -1).astype(np.int32)
        weights = np.where(fixed >= 0, rng.integers(1, 5, 40), 1)
        united = minimise_expected_loss(draws, loss=loss, fixed=fixed, weights=weights)
        known = fixed >= 0
        assert np.array_equal(canonical_labels(united[known]), canonical_labels(fixed[known]))
        with monkeypatch.context() as patch:
            tell_all_apart(patch)
            apart = minimise_expected_loss(draws, loss=loss, fixed=fixed, weights=weights)
        assert expected_loss(united, draws, loss, weights) <= expected_loss(apart, draws, loss, weights) + 1e-10


@pytest.mark.parametrize("answer", ANSWERS)
def test_many_copies_are_searched_as_few_items(monkeypatch, answer):
    rng = np.random.default_rng(25)
    stands_for = rng.permutation(np.repeat(np.arange(30), 400))
    searched = []

    def search(draws, **options):
        searched.append(draws.shape[1])
        return search_partition(draws, **options)

    monkeypatch.setattr(search_module, "search_partition", search)
    monkeypatch.setattr("scdp.posterior.pairs.MOST_PAIRS", 1)
    found = Posterior(noisy_draws(rng, 30, 3)[None][:, :, stands_for]).point_estimate(answer)
    assert searched
    assert max(searched) <= 30
    assert all(len(set(found[stands_for == item].tolist())) == 1 for item in range(30))
