"""Summaries of draws: probabilities, intervals, distances, credible balls, each against plain counting."""

from __future__ import annotations

import numpy as np
import pytest

from posterior.test_posterior_estimate import plain_losses
from scdp.errors import InputError
from scdp.posterior import Posterior, canonical_labels


@pytest.fixture
def raw():
    return np.random.default_rng(0).integers(0, 4, (3, 25, 12))


def plain_matrix(raw):
    return (raw[..., :, None] == raw[..., None, :]).mean(axis=(0, 1))


def test_co_clustering_is_the_share_of_draws(raw):
    post, expected = Posterior(raw), plain_matrix(raw)
    for i in range(12):
        for j in range(12):
            assert post.co_clustering(i, j) == expected[i, j]


def test_co_clustering_matrix(raw):
    post, expected = Posterior(raw), plain_matrix(raw)
    assert np.array_equal(post.co_clustering_matrix(), expected)
    items = [7, 2, 9]
    assert np.array_equal(post.co_clustering_matrix(items), expected[np.ix_(items, items)])


def test_a_matrix_of_too_many_items_or_an_unknown_item_is_refused(raw, monkeypatch):
    monkeypatch.setattr("scdp.posterior.MATRIX_ITEMS", 10)
    post = Posterior(raw)
    with pytest.raises(InputError, match="matrix of 12 items is too large"):
        post.co_clustering_matrix()
    with pytest.raises(InputError, match="no item 12"):
        post.co_clustering(0, 12)
    with pytest.raises(InputError, match="no item -1"):
        post.co_clustering_matrix([-1])


def test_number_of_clusters_interval():
    draws = np.stack([np.minimum(np.arange(100), k - 1) for k in range(1, 101)])[None]
    post = Posterior(draws)
    assert np.array_equal(post.n_clusters, np.arange(1, 101)[None])
    assert post.n_clusters_interval(0.9) == (5, 95)
    assert post.n_clusters_interval(1.0) == (1, 100)
    with pytest.raises(InputError, match="level is 90"):
        post.n_clusters_interval(90)


def test_interval_of_clusters_with_a_hidden_item():
    post = Posterior(np.array([[[0, 1, 2, 0], [0, 1, 2, 3]]]), fixed=[1, 2, 3, -1])
    assert post.n_clusters_interval() == (3, 4)
    assert post.n_clusters_interval(hidden_only=True) == (1, 1)


def test_membership_probability(raw):
    labels = canonical_labels([0, 0, 0, 1, 1, 2, 3, 3, 3, 3, 4, 0])
    together = plain_matrix(raw)
    expected = np.empty(12)
    for item, label in enumerate(labels):
        others = np.flatnonzero((labels == label) & (np.arange(12) != item))
        alone = ((raw == raw[..., [item]]).sum(axis=2) == 1).mean()
        expected[item] = together[item, others].mean() if len(others) else alone
    assert Posterior(raw).membership_probability(labels) == pytest.approx(expected, abs=1e-12)


def test_membership_needs_one_label_an_item(raw):
    with pytest.raises(InputError, match="2 labels for 12 items"):
        Posterior(raw).membership_probability([0, 1])


@pytest.mark.parametrize("loss", ["vi", "binder"])
def test_distances_to_draws(raw, loss):
    labels = np.random.default_rng(1).integers(0, 5, 12)
    flat = raw.reshape(75, 12)
    expected = np.array([plain_losses(labels[None], draw[None], loss)[0] for draw in flat])
    got = Posterior(raw).distances(labels, loss)
    assert got.shape == (3, 25)
    assert got.ravel() == pytest.approx(expected, abs=1e-12)
    assert Posterior(raw).expected_loss(labels, loss) == pytest.approx(expected.mean(), abs=1e-12)


def test_distances_leave_out_known_items_unless_clusters_are_shared():
    draws = np.array([[[0, 0, 1, 2, 2], [0, 0, 1, 2, 3]]])
    labels = [0, 0, 1, 2, 2]
    apart = Posterior(draws, fixed=[5, 5, 6, -1, -1], shared=False).distances(labels, "binder")
    mixed = Posterior(draws, fixed=[5, 5, 6, -1, -1]).distances(labels, "binder")
    assert apart[0] == pytest.approx([0.0, 1.0])
    assert mixed[0] == pytest.approx([0.0, 0.1])


@pytest.mark.parametrize("level", [0.5, 0.95, 1.0])
def test_credible_ball(raw, level):
    post = Posterior(raw)
    ball = post.credible_ball(level)
    distances, counts = post.distances(ball.centre).ravel(), post.n_clusters.ravel()
    inside = distances <= ball.radius
    assert inside.mean() >= level
    assert (distances < ball.radius).mean() < level
    for bound, wanted in [(ball.fewest_clusters, counts[inside].min()), (ball.most_clusters, counts[inside].max())]:
        assert bound.max() + 1 == wanted
        assert post.distances(ball.centre).ravel()[inside & (counts == wanted)].max() == pytest.approx(
            Posterior(bound[None, None]).distances(ball.centre)[0, 0]
        )
    farthest = Posterior(ball.farthest[None, None]).distances(ball.centre)[0, 0]
    assert farthest == pytest.approx(distances[inside].max())


def test_credible_ball_around_a_given_centre():
    post = Posterior(np.array([[[0, 0, 0], [0, 1, 2], [0, 0, 1]]]))
    ball = post.credible_ball(1.0, "binder", centre=[3, 3, 3])
    assert ball.centre.tolist() == [0, 0, 0]
    assert ball.radius == pytest.approx(1.0)
    assert ball.fewest_clusters.tolist() == [0, 0, 0]
    assert ball.most_clusters.tolist() == ball.farthest.tolist() == [0, 1, 2]


def test_one_chain_one_draw_one_item():
    post = Posterior(np.array([[[3]]]))
    assert post.draws.tolist() == [[[0]]]
    assert post.co_clustering(0, 0) == 1.0
    assert post.co_clustering_matrix().tolist() == [[1.0]]
    assert post.n_clusters_interval() == (1, 1)
    assert post.point_estimate("vi").tolist() == post.point_estimate("binder").tolist() == [0]
    assert post.credible_ball().radius == 0.0
    assert post.membership_probability([0]).tolist() == [1.0]
    assert "too few" in post.convergence_warning()


def test_a_million_items():
    n = 1_000_000
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 300_000, n)
    draws = np.tile(truth, (1, 2, 1))
    draws[0, 1, :1000] = 300_000
    post = Posterior(draws)
    assert post.stored.nbytes < 12e6
    assert post.co_clustering(0, 999) == 0.5
    probability = post.membership_probability(truth)
    assert probability.min() >= 0.4
    assert post.distances(truth)[0, 0] == 0.0
