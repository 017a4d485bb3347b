"""Draws that are stored by component say the same as draws that are packed."""

from __future__ import annotations

import numpy as np
import pytest

from scdp.partitions import canonical_labels
from scdp.posterior import Posterior
from scdp.posterior.draws import ComponentDraws
from scdp.posterior.linked import LinkedDraws
from scdp.posterior.recorder import pack_draws

SHAPE = (2, 15)


def draw_partitions(n_items: int, seed: int, alone: float = 0.5) -> np.ndarray:
    """Labels (draw, item) by first item: some items are alone in all draws, others in components of a few."""
    rng = np.random.default_rng(seed)
    component = np.where(rng.random(n_items) < alone, -1, rng.integers(0, max(n_items // 5, 1), n_items))
    draws = []
    for _ in range(SHAPE[0] * SHAPE[1]):
        within = rng.integers(0, 3, n_items)
        ids = np.where(component < 0, 10 * n_items + np.arange(n_items), 3 * component + within)
        _, first, place = np.unique(ids, return_index=True, return_inverse=True)
        draws.append(first[place])
    return np.array(draws, dtype=np.int32).reshape(len(draws), n_items)


def both(n_items: int, seed: int) -> tuple[Posterior, Posterior]:
    draws = draw_partitions(n_items, seed)
    by_chain = draws.reshape(SHAPE[1], SHAPE[0], -1).transpose(1, 0, 2)
    return Posterior(ComponentDraws.of(LinkedDraws.of(draws), n_items, SHAPE)), Posterior(by_chain)


@pytest.mark.parametrize(("n_items", "seed"), [(0, 0), (1, 0), (40, 1), (300, 2)])
def test_component_draws_hold_the_same_partitions(n_items, seed):
    found, expected = both(n_items, seed)
    assert np.array_equal(found.draws, expected.draws)
    assert np.array_equal(found.n_clusters, expected.n_clusters)
    assert np.array_equal(found.stored.n_hidden_clusters, expected.stored.n_hidden_clusters)
    assert np.array_equal(found.hidden, expected.hidden)
    packed = pack_draws(found.stored)
    assert all(np.array_equal(a, b) for a, b in zip(packed.words, expected.stored.words, strict=True))


def test_component_draws_answer_as_packed_ones_do():
    rng = np.random.default_rng(5)
    for seed in range(5):
        found, expected = both(120, seed)
        for answer in ("f", "precision=0.9", "vi"):
            assert np.array_equal(found.point_estimate(answer), expected.point_estimate(answer))
        assert np.array_equal(found.co_clustering_matrix(), expected.co_clustering_matrix())
        assert [found.co_clustering(0, j) for j in range(120)] == [expected.co_clustering(0, j) for j in range(120)]
        # An answer of its own, and one that joins records of different components.
        for labels in (found.point_estimate("f"), rng.integers(0, 40, 120), np.arange(120)):
            np.testing.assert_allclose(
                found.membership_probability(labels), expected.membership_probability(labels), atol=1e-12
            )
            one, other = found.expected_metrics(labels), expected.expected_metrics(labels)
            for name, each in one.items():
                for end, value in each.items():
                    assert value == pytest.approx(other[name][end], abs=1e-12), (name, end)


def test_some_items_are_taken_from_all_draws_or_one_draw_at_a_time(monkeypatch):
    found, _ = both(90, 4)
    some = np.random.default_rng(1).permutation(90)[:50]
    at_once = found.restrict(some).draws
    monkeypatch.setattr("scdp.posterior.recorder.FEW_LABELS", 0)
    assert np.array_equal(found.restrict(some).draws, at_once)


def test_component_draws_in_another_order_and_of_some_items():
    found, expected = both(90, 3)
    order = np.random.default_rng(0).permutation(90)
    turned = found.restrict(order)
    assert isinstance(turned.stored, ComponentDraws)
    assert np.array_equal(turned.draws, expected.restrict(order).draws)
    assert np.array_equal(turned.restrict(np.argsort(order)).draws, expected.draws)
    # As if they had been drawn in that order: components by their first items.
    rows = np.array([canonical_labels(row) for row in found.draws.reshape(-1, 90)[:, order]])
    first = np.array([np.unique(row, return_index=True)[1][row] for row in rows], dtype=np.int32)
    drawn = first.reshape(*SHAPE, -1).transpose(1, 0, 2).reshape(len(first), -1)
    again = ComponentDraws.of(LinkedDraws.of(drawn), 90, SHAPE)
    assert np.array_equal(turned.stored.items, again.items)
    assert np.array_equal(turned.stored.labels_within, again.labels_within)
    for some in ([5, 80, 7], order[:60], np.sort(order[:60])):
        assert np.array_equal(found.restrict(some).draws, expected.restrict(some).draws)
