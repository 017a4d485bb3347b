"""The learned restaurant is exact: likelihood, derivatives and draws agree with the plainest form of each."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2

from scdp.blocking import connected_components
from scdp.linkage.likelihood import Weights, seat_known
from scdp.linkage.pairs import Pairs
from scdp.linkage.pieces import Knots
from scdp.linkage.restaurant import FEW, line_up, parties, seat_all, stream_of
from scdp.linkage.training import Lesson, Shape, first_guess, objective
from scdp.posterior.canonical import canonical_labels
from twins.linkage import canonical, exact_law, log_likelihood

# Every statistical test below fails by chance with this probability.
LEVEL = 1e-6


def random_pairs(rng: np.random.Generator, n: int, share: float = 1.0, n_features: int = 3) -> Pairs:
    left, right = np.triu_indices(n, k=1)
    kept = rng.random(len(left)) < share
    features = rng.random((kept.sum(), n_features)).astype(np.float32)
    features[rng.random(features.shape) < 0.2] = np.nan
    return Pairs(n, left[kept], right[kept], features)


def random_weights(rng: np.random.Generator, n_types: int) -> Weights:
    return Weights(
        rng.normal(0, 0.5, n_types),
        rng.normal(0, 1, n_types),
        rng.normal(1, 0.3, n_types),
        rng.normal(0, 0.5, n_types),
        rng.normal(-2, 0.5, n_types),
    )


@pytest.mark.parametrize("share", [1.0, 0.5])
@pytest.mark.parametrize("n_types", [1, 2])
@pytest.mark.parametrize("everyone", [False, True])
def test_likelihood_equals_its_twin(share, n_types, everyone):
    rng = np.random.default_rng(1)
    for _ in range(20):
        pairs = random_pairs(rng, 12, share)
        score, weights = rng.normal(0, 2, (len(pairs), n_types)), random_weights(rng, n_types)
        cluster = rng.integers(0, 4, 12)
        order = rng.permutation(12)
        by_score, by_weights = np.zeros(score.shape), np.zeros((5, n_types))
        found = seat_known(pairs.neighbours, score, weights, cluster, order, everyone, by_score, by_weights)
        expected = log_likelihood(cluster.tolist(), order.tolist(), pairs, score, weights, everyone)
        assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("n_types", [1, 2])
@pytest.mark.parametrize("share", [1.0, 0.6])
def test_derivatives_are_those_of_finite_differences(n_types, share):
    rng = np.random.default_rng(2)
    pairs = random_pairs(rng, 15, share)
    knots = Knots.of(pairs.features, np.array([-1, -1, 1]))
    cluster = rng.integers(0, 4, 15)
    lesson = Lesson(
        knots.places(pairs.features), pairs.neighbours, cluster, (rng.permutation(15), rng.permutation(15))
    )
    start = first_guess(knots, n_types, rng)
    shape = Shape(*start.rise.shape)
    flat = shape.pack(start) + rng.normal(0, 0.3, sum(shape.sizes))
    slope = objective(flat, [lesson], shape)[1]
    step = 1e-6
    for place in range(len(flat)):
        moved = [flat.copy(), flat.copy()]
        moved[0][place] += step
        moved[1][place] -= step
        high, low = (objective(each, [lesson], shape)[0] for each in moved)
        assert slope[place] == pytest.approx((high - low) / (2 * step), abs=1e-6)


@pytest.mark.parametrize("n_again", [0, 1, 2])
@pytest.mark.parametrize("with_known", [False, True])
@pytest.mark.parametrize("share", [1.0, 0.7])
def test_draws_follow_the_exact_law(n_again, with_known, share):
    rng = np.random.default_rng(3)
    n = 2 if with_known else 4
    known = np.full(n + 2 * with_known, -1)
    if with_known:
        known[[0, 3]] = [1, 0]
    pairs = random_pairs(rng, len(known), share)
    score, weights = rng.normal(0, 1.5, (len(pairs), 2)), random_weights(rng, 2)
    law = exact_law(pairs, score, weights, known, n_again)
    assert sum(law.values()) == pytest.approx(1)
    n_draws = 4_000
    counts: dict[tuple[int, ...], int] = {}
    names = rng.integers(2**63, size=len(known)).astype(np.uint64)
    for number in range(n_draws):
        drawn = seat_all(pairs.neighbours, score, weights, known, n_again, stream_of(3, number), names)
        assert (drawn[known >= 0] == known[known >= 0]).all()
        name = canonical(dict(enumerate(drawn.tolist())))
        counts[name] = counts.get(name, 0) + 1
    assert set(counts) <= set(law)
    expected = np.array([law[name] * n_draws for name in law])
    observed = np.array([counts.get(name, 0) for name in law])
    assert goodness(observed, expected) > LEVEL


def goodness(observed: np.ndarray, expected: np.ndarray) -> float:
    """The p-value of a chi-squared test, rare outcomes pooled."""
    rare = expected < 10
    if rare.any():
        observed = np.append(observed[~rare], observed[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    statistic = float(((observed - expected) ** 2 / np.maximum(expected, 1e-9)).sum())
    return float(chi2.sf(statistic, max(len(expected) - 1, 1)))


def test_without_scores_it_is_the_chinese_restaurant():
    # Bias 0, growth 1, fresh 0, all pairs there: joining weighs the cluster's size, a new one weighs 1.
    n = 4
    left, right = np.triu_indices(n, k=1)
    pairs = Pairs(n, left, right, np.zeros((len(left), 1), np.float32))
    zero, one = np.zeros(1), np.ones(1)
    weights = Weights(zero, zero, one, zero, zero)
    law = exact_law(pairs, np.zeros((len(left), 1)), weights, np.full(n, -1), 0)
    for partition, probability in law.items():
        sizes = np.bincount(partition)
        gammas = np.prod([np.prod(np.arange(1, size)) for size in sizes])
        assert probability == pytest.approx(gammas / 24)


def test_items_that_no_pair_connects_are_never_together():
    rng = np.random.default_rng(4)
    pairs = Pairs(4, np.array([0, 2]), np.array([1, 3]), np.zeros((2, 1), np.float32))
    weights = random_weights(rng, 1)
    names = np.arange(4, dtype=np.uint64)
    for number in range(200):
        score, stream = np.full((2, 1), 5.0), stream_of(4, number)
        drawn = seat_all(pairs.neighbours, score, weights, np.full(4, -1), 2, stream, names)
        assert not set(drawn[:2]) & set(drawn[2:])


def test_components_do_not_disturb_each_other():
    # The law of one component is the same whether the other is there or not.
    rng = np.random.default_rng(5)
    one = random_pairs(rng, 3)
    both = Pairs(
        5, np.append(one.left, 3), np.append(one.right, 4), np.vstack([one.features, one.features[:1]])
    )
    score, weights = rng.normal(0, 1, (4, 1)), random_weights(rng, 1)
    alone = exact_law(one, score[:3], weights, np.full(3, -1), 1)
    together = exact_law(both, score, weights, np.full(5, -1), 1)
    marginal: dict[tuple[int, ...], float] = {}
    for partition, probability in together.items():
        marginal[partition[:3]] = marginal.get(partition[:3], 0.0) + probability
    assert marginal == pytest.approx(alone)


def test_parties_are_components_of_pairs_and_given_clusters():
    rng = np.random.default_rng(8)
    for n in (1, 30, 200):
        left, right = np.sort(rng.integers(0, n, (2, n // 2)), axis=0)
        pairs = Pairs(
            n, left[left < right], right[left < right], np.zeros(((left < right).sum(), 1), np.float32)
        )
        known = np.where(rng.random(n) < 0.3, rng.integers(0, max(n // 6, 1), n), -1)
        known[known >= 0] = np.unique(known[known >= 0], return_inverse=True)[1]
        given = [np.flatnonzero(known == k) for k in range(known.max() + 1)]
        ends = [(pairs.left, pairs.right), *((np.repeat(each[:1], len(each)), each) for each in given)]
        wanted = connected_components(n, ends).codes
        items, bounds = parties(pairs.neighbours, known)
        assert sorted(items) == np.flatnonzero(known < 0).tolist()
        party = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
        assert (canonical_labels(party) == canonical_labels(wanted[items])).all()


def test_a_line_is_in_the_same_order_however_long_it_is():
    names = np.random.default_rng(9).integers(2**63, size=3 * FEW).astype(np.uint64)
    whole, part = np.arange(3 * FEW), np.arange(3 * FEW)
    keys = np.empty(3 * FEW, np.uint64)
    line_up(whole, 0, 3 * FEW, names, stream_of(1, 0), 1, keys)
    line_up(part, 5, 5 + FEW, names, stream_of(1, 0), 1, keys)
    chosen = (whole >= 5) & (whole < 5 + FEW)
    assert part[5 : 5 + FEW].tolist() == whole[chosen].tolist()
    assert sorted(whole) == list(range(3 * FEW))
    assert part[:5].tolist() == list(range(5))


def test_a_component_is_seated_the_same_alone_and_among_others():
    rng = np.random.default_rng(6)
    one, other = random_pairs(rng, 6, 0.7), random_pairs(rng, 5, 0.7)
    both = Pairs(
        11,
        np.append(one.left, other.left + 6),
        np.append(one.right, other.right + 6),
        np.vstack([one.features, other.features]),
    )
    score, weights = rng.normal(0, 1, (len(both), 2)), random_weights(rng, 2)
    names = rng.integers(2**63, size=11).astype(np.uint64)
    for number in range(100):
        stream = stream_of(7, number)
        all_of_them = seat_all(both.neighbours, score, weights, np.full(11, -1), 2, stream, names)
        alone = seat_all(other.neighbours, score[len(one) :], weights, np.full(5, -1), 2, stream, names[6:])
        assert (canonical_labels(all_of_them[6:]) == canonical_labels(alone)).all()
