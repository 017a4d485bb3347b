"""Point estimates against full enumeration of partitions, and local optimality where that is too many."""

from __future__ import annotations

import numpy as np
import pytest

from scdp.errors import InputError
from scdp.posterior import Posterior, canonical_labels
from scdp.posterior.search import expected_loss, minimise_expected_loss, search_partition
from twins.partitions import PARTITIONS, plain_losses, random_posterior

LOSSES = ["vi", "binder"]


def respects(candidates, fixed):
    """Which candidates group the fixed items as they are fixed."""
    items = np.flatnonzero(fixed >= 0)
    chosen = candidates[:, items]
    same = fixed[items][:, None] == fixed[items][None, :]
    return ((chosen[:, :, None] == chosen[:, None, :]) == same).all(axis=(1, 2))


@pytest.mark.parametrize("minimise", [minimise_expected_loss, search_partition])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n", range(1, 10))
def test_free_search_attains_the_minimum_over_all_partitions(loss, n, minimise):
    assert len(PARTITIONS[9]) == 21147
    rng = np.random.default_rng(100 + n)
    for _ in range(30):
        draws = random_posterior(rng, n)
        losses = plain_losses(PARTITIONS[n], draws, loss)
        found = minimise(draws, loss=loss)
        attained = plain_losses(found[None], draws, loss)[0]
        assert attained == pytest.approx(losses.min(), abs=1e-10)
        assert expected_loss(found, draws, loss) == pytest.approx(attained, abs=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("shared", [True, False])
def test_known_items_keep_their_grouping_at_the_minimum(loss, shared):
    rng = np.random.default_rng(7)
    for _ in range(60):
        n = int(rng.integers(2, 10))
        fixed = np.where(rng.random(n) < 0.5, rng.integers(0, 3, n), -1)
        n_draws = int(rng.choice([1, 4, 30]))
        free = rng.integers(0 if shared else 3, 6, (n_draws, n))
        raw = np.where(fixed >= 0, fixed, free)[None]
        post = Posterior(raw, fixed=fixed, shared=shared)
        allowed = PARTITIONS[n][respects(PARTITIONS[n], fixed)]
        found = post.point_estimate(loss)
        assert respects(found[None], fixed)[0]
        attained = plain_losses(found[None], raw[0], loss)[0]
        assert attained == pytest.approx(plain_losses(allowed, raw[0], loss).min(), abs=1e-10)


@pytest.mark.parametrize(("minimise", "allowed"), [(minimise_expected_loss, 0), (search_partition, 1)])
@pytest.mark.parametrize("loss", LOSSES)
def test_fixed_items_that_no_draw_agrees_with_are_still_obeyed(loss, minimise, allowed):
    # Such constraints make the surface rugged: the search may miss the minimum once in a hundred.
    rng = np.random.default_rng(8)
    misses = 0
    for _ in range(100):
        n = int(rng.integers(2, 10))
        draws = random_posterior(rng, n)
        fixed = np.where(rng.random(n) < 0.4, rng.integers(0, 3, n), -1).astype(np.int32)
        found = minimise(draws, loss=loss, fixed=fixed)
        assert respects(found[None], fixed)[0]
        least = plain_losses(PARTITIONS[n][respects(PARTITIONS[n], fixed)], draws, loss).min()
        misses += plain_losses(found[None], draws, loss)[0] > least + 1e-10
    assert misses <= allowed


@pytest.mark.parametrize("loss", LOSSES)
def test_a_heavy_item_stands_for_that_many(loss):
    rng = np.random.default_rng(9)
    draws = np.array([canonical_labels(row) for row in rng.integers(0, 4, (12, 9))])
    heavy = np.concatenate([draws, draws[:, -1:], draws[:, -1:]], axis=1)
    fixed = np.array([-1] * 8 + [0], np.int32)
    light = minimise_expected_loss(draws, loss=loss, fixed=fixed, weights=np.array([1] * 8 + [3]))
    full = minimise_expected_loss(heavy, loss=loss, fixed=np.array([-1] * 8 + [0] * 3, np.int32))
    weighted = expected_loss(light, draws, loss, np.array([1] * 8 + [3]))
    assert weighted == pytest.approx(expected_loss(full, heavy, loss), abs=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_no_single_move_improves_a_larger_estimate(loss):
    rng = np.random.default_rng(10)
    truth = rng.integers(0, 8, 60)
    noise = rng.random((40, 60)) < 0.35
    draws = np.array([canonical_labels(np.where(row, rng.integers(0, 8, 60), truth)) for row in noise])
    found = minimise_expected_loss(draws, loss=loss, n_starts=1)
    neighbours = np.repeat(found[None], 60 * (found.max() + 2), axis=0)
    rows = neighbours.reshape(60, found.max() + 2, 60)
    for item in range(60):
        rows[item, :, item] = np.arange(found.max() + 2)
    least = plain_losses(neighbours, draws, loss).min()
    assert plain_losses(found[None], draws, loss)[0] <= least + 1e-10


def test_the_estimate_beats_every_draw_and_finds_a_noisy_truth():
    rng = np.random.default_rng(11)
    truth = canonical_labels(rng.integers(0, 20, 400))
    noise = rng.random((2, 100, 400)) < 0.2
    post = Posterior(np.where(noise, rng.integers(0, 25, noise.shape), truth))
    found = post.point_estimate("vi")
    assert np.array_equal(found, truth)
    flat = post.draws.reshape(200, 400).astype(np.int32)
    assert expected_loss(found, flat) < min(expected_loss(draw, flat) for draw in flat[::10])


def test_the_same_seed_gives_the_same_estimate():
    rng = np.random.default_rng(12)
    post = Posterior(rng.integers(0, 6, (2, 30, 50)))
    first = post.point_estimate("vi", n_starts=3, random_state=4)
    assert np.array_equal(first, post.point_estimate("vi", n_starts=3, random_state=4))
    assert np.array_equal(first, canonical_labels(first))


def test_only_so_many_draws_are_used(monkeypatch):
    draws = np.zeros((1, 100, 4), int)
    draws[:, 1::2] = [0, 1, 2, 3]
    post = Posterior(draws)
    assert post.point_estimate(max_draws=1).tolist() == [0, 0, 0, 0]
    monkeypatch.setattr("scdp.posterior.estimate.MAX_LABELS", 4)
    assert post.point_estimate().tolist() == [0, 0, 0, 0]


def test_many_singletons_do_not_slow_the_search():
    n = 3000
    post = Posterior(np.tile(np.arange(n), (1, 20, 1)))
    assert np.array_equal(post.point_estimate(n_starts=2), np.arange(n))


def test_all_items_known_or_one_draw():
    known = Posterior(np.array([[[4, 4, 2]]]), fixed=[9, 9, 8])
    assert known.point_estimate().tolist() == [0, 0, 1]
    one = Posterior(np.array([[[4, 4, 2]]]))
    assert one.point_estimate("binder").tolist() == [0, 0, 1]


def test_wrong_options_are_refused():
    post = Posterior(np.zeros((1, 2, 3), int))
    for wrong in ["rand", "precision", "precision=0", "precision=1.1", "precision=nan", "precision=x", None]:
        with pytest.raises(InputError, match="there is no answer"):
            post.point_estimate(wrong)
    with pytest.raises(InputError, match="no loss 'rand'"):
        post.distances([0, 0, 0], "rand")
    with pytest.raises(InputError, match="n_starts is 0"):
        post.point_estimate(n_starts=0)
