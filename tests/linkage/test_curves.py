"""Piecewise-linear functions of features: knots, scores and derivatives."""

from __future__ import annotations

import numpy as np
import pytest

from scdp.linkage import FAR_ABOVE, N_KNOTS, Knots, add_back, add_up


def test_scores_are_those_of_interpolation():
    rng = np.random.default_rng(0)
    seen = (rng.random((500, 3)) * [1, 5, 0.01]).astype(np.float32)
    knots = Knots.of(seen, np.array([-1, -1, 1]))
    heights, missing = rng.normal(size=(3, N_KNOTS)), rng.normal(size=3)
    # Also beyond both ends, where functions go on flat.
    new = (rng.normal(size=(300, 3)) * [1, 5, 0.01]).astype(np.float32)
    new[rng.random(new.shape) < 0.2] = np.nan
    found = np.empty(len(new))
    add_up(*knots.places(new), heights, missing, found)
    total = np.zeros(len(new))
    for f in range(3):
        drawn = np.interp(new[:, f], knots.at[f], heights[f])
        total += np.where(np.isnan(new[:, f]), missing[f], drawn)
    np.testing.assert_allclose(found, total, atol=1e-4)


def test_derivatives_by_heights_are_those_of_the_score():
    rng = np.random.default_rng(1)
    new = rng.random((40, 2)).astype(np.float32)
    new[rng.random(new.shape) < 0.2] = np.nan
    knots = Knots.of(new, np.array([-1, 1]))
    places, by_score = knots.places(new), rng.normal(size=40)
    by_height, by_missing = np.zeros((2, N_KNOTS)), np.zeros(2)
    add_back(*places, by_score, by_height, by_missing)
    # The score is linear in heights and missing weights, so one of each at a time gives the derivative.
    for f in range(2):
        score = np.empty(40)
        for q in range(N_KNOTS):
            heights = np.zeros((2, N_KNOTS))
            heights[f, q] = 1.0
            add_up(*places, heights, np.zeros(2), score)
            assert by_height[f, q] == pytest.approx(by_score @ score, abs=1e-6)
        add_up(*places, np.zeros((2, N_KNOTS)), np.eye(2)[f], score)
        assert by_missing[f] == pytest.approx(by_score @ score)


def test_knots_span_what_was_seen_but_a_long_tail():
    column = np.linspace(0, 1, 1000)
    tail = np.append(column, [20.0])
    nothing, constant = np.full(1001, np.nan), np.full(1001, 3.0)
    at = Knots.of(
        np.column_stack([np.append(column, 1.0), tail, nothing, constant]).astype(np.float32), np.full(4, -1)
    ).at
    assert at.shape == (4, N_KNOTS)
    assert (at[0, 0], at[0, -1]) == (0, 1)
    assert at[1, -1] * FAR_ABOVE < 20
    assert (at[2, 0], at[2, -1]) == (0, 1)
    assert (at[3, 0], at[3, -1]) == (3, 4)
    np.testing.assert_allclose(np.diff(at, axis=1), np.diff(at, axis=1)[:, :1].repeat(N_KNOTS - 1, 1))
