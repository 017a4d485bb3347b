"""The law of a partition: likelihood, derivatives and draws agree with the plainest form of each."""

from __future__ import annotations

import numpy as np
import pytest

from scdp.blocking import connected_components
from scdp.compare.features import Pairs
from scdp.linkage.law import Placements, Weights, log_likelihood_grad
from scdp.linkage.sampling import connect, sample_partition, sample_partitions, shuffle, stream_of, uniform
from scdp.linkage.sampling.component import FEW, bound_chances
from scdp.linkage.training.folds import canonical_labels
from twins.linkage import choice_weights, log_likelihood
from twins.linkage import sample_partition as sample_plainly


def random_pairs(rng: np.random.Generator, n: int, share: float = 1.0) -> Pairs:
    left, right = np.triu_indices(n, k=1)
    kept = rng.random(len(left)) < share
    return Pairs(n, left[kept], right[kept], np.zeros((kept.sum(), 0), np.float32))


def random_weights(rng: np.random.Generator) -> Weights:
    return Weights(*rng.normal([0, 0.8, -0.5, -2, 0.5], [1, 0.3, 0.5, 0.5, 1.0]).tolist())


def find(pairs, score, weights, cluster, order, everyone, cluster_weight) -> tuple[float, np.ndarray, np.ndarray]:
    by_score, by_weights = np.zeros(len(score)), np.zeros(3)
    placements = Placements.of(pairs.neighbours, cluster, order, everyone)
    value = log_likelihood_grad(placements, score, weights, cluster_weight, by_score, by_weights)
    return value, by_score, by_weights


# ---- likelihood ----


@pytest.mark.parametrize("share", [1.0, 0.5])
@pytest.mark.parametrize("everyone", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_likelihood_equals_its_twin(share: float, everyone: bool, weighted: bool):
    rng = np.random.default_rng(1)
    for _ in range(20):
        pairs = random_pairs(rng, 12, share)
        score, weights = rng.normal(0, 2, len(pairs)), random_weights(rng)
        cluster, order = canonical_labels(rng.integers(0, 4, 12).tolist()), rng.permutation(12)
        counts = rng.exponential(size=4) if weighted else np.ones(4)
        found = find(pairs, score, weights, cluster, order, everyone, counts)[0]
        expected = log_likelihood(cluster.tolist(), order.tolist(), pairs, score, weights, everyone, counts.tolist())
        assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("share", [1.0, 0.6])
@pytest.mark.parametrize("everyone", [False, True])
def test_derivatives_are_those_of_finite_differences(share: float, everyone: bool):
    rng = np.random.default_rng(2)
    pairs = random_pairs(rng, 15, share)
    # The first numbers are scores, the last three bias, growth and third.
    flat, floor = np.append(rng.normal(0, 1.5, len(pairs)), [0.3, 0.7, -0.4]), -1.2
    cluster, order = rng.integers(0, 4, 15), rng.permutation(15)
    counts = rng.exponential(size=4)

    def at(numbers: np.ndarray) -> tuple[float, np.ndarray]:
        weights = Weights(*numbers[-3:].tolist(), floor)
        value, by_score, by_weights = find(pairs, numbers[:-3].copy(), weights, cluster, order, everyone, counts)
        return value, np.append(by_score, by_weights)

    slope, step = at(flat)[1], 1e-6
    for place in range(len(flat)):
        high, low = flat.copy(), flat.copy()
        high[place] += step
        low[place] -= step
        assert slope[place] == pytest.approx((at(high)[0] - at(low)[0]) / (2 * step), abs=1e-6)


def test_derivatives_are_added_to_what_is_there():
    rng = np.random.default_rng(3)
    pairs = random_pairs(rng, 8)
    score, weights, cluster = rng.normal(size=len(pairs)), random_weights(rng), rng.integers(0, 3, 8)
    _, by_score, by_weights = find(pairs, score, weights, cluster, np.arange(8), False, np.ones(3))
    more = np.ones(len(score)), np.ones(3)
    placements = Placements.of(pairs.neighbours, cluster, np.arange(8), False)
    log_likelihood_grad(placements, score, weights, np.ones(3), *more)
    np.testing.assert_allclose(more[0], by_score + 1)
    np.testing.assert_allclose(more[1], by_weights + 1)


def test_a_cluster_of_no_weight_counts_nothing():
    rng = np.random.default_rng(4)
    pairs = random_pairs(rng, 9)
    score, weights, cluster = rng.normal(size=len(pairs)), random_weights(rng), np.repeat([0, 1, 2], 3)
    found = [find(pairs, score, weights, cluster, np.arange(9), True, np.eye(3)[k])[0] for k in range(3)]
    assert sum(found) == pytest.approx(find(pairs, score, weights, cluster, np.arange(9), True, np.ones(3))[0])


def test_scores_of_any_size_have_a_likelihood():
    pairs = random_pairs(np.random.default_rng(0), 4)
    for size in (-1e6, 1e6):
        found = find(
            pairs,
            np.full(6, size),
            Weights(0.0, 1.0, 0.0, 0.0),
            np.array([0, 0, 1, 1]),
            np.arange(4),
            False,
            np.ones(2),
        )
        assert all(np.isfinite(part).all() for part in found)


# ---- draws ----


@pytest.mark.parametrize("n", [6, 30])
@pytest.mark.parametrize("with_known", [False, True])
def test_draws_are_those_of_the_twin(n: int, with_known: bool):
    # 30 records are more than are sorted one by one.
    assert 6 < FEW < 30
    rng = np.random.default_rng(5)
    for number in range(30):
        pairs = random_pairs(rng, n, 1.0 if number % 2 else 3 / n)
        score, weights = rng.normal((0, -3, -6)[number % 5 % 3], 2, len(pairs)), random_weights(rng)
        known = np.full(n, -1)
        if with_known:
            known[:3] = [1, 0, 1]
        names, stream = rng.integers(2**63, size=n).astype(np.uint64), stream_of(5, number)
        drawn = sample_partition(pairs.neighbours, score, weights, known, 2, stream, names)
        expected = sample_plainly(pairs, score, weights, known, 2, stream, names)
        assert canonical_labels(drawn.tolist()).tolist() == list(expected)


def test_records_that_no_pair_connects_are_never_together():
    pairs = Pairs(4, np.array([0, 2]), np.array([1, 3]), np.zeros((2, 0), np.float32))
    names = np.arange(4, dtype=np.uint64)
    for number in range(200):
        stream = stream_of(4, number)
        weights = Weights(3.0, 1.0, 0.0, 5.0)
        drawn = sample_partition(pairs.neighbours, np.full(2, 5.0), weights, np.full(4, -1), 2, stream, names)
        assert not set(drawn[:2]) & set(drawn[2:])


@pytest.mark.parametrize("with_known", [False, True])
def test_a_component_is_sampled_the_same_alone_and_among_others(with_known: bool):
    rng = np.random.default_rng(6)
    one, other = random_pairs(rng, 6, 0.7), random_pairs(rng, 5, 0.7)
    left, right = np.append(one.left, other.left + 6), np.append(one.right, other.right + 6)
    both = Pairs(11, left, right, np.zeros((len(left), 0), np.float32))
    score, weights = rng.normal(0, 1, len(both)), random_weights(rng)
    names = rng.integers(2**63, size=11).astype(np.uint64)
    known = np.full(11, -1)
    if with_known:
        known[[0, 6, 8]] = [0, 1, 1]
    own = np.where(known[6:] >= 0, 0, -1)
    for number in range(100):
        stream = stream_of(7, number)
        everyone = sample_partition(both.neighbours, score, weights, known, 2, stream, names)
        alone = sample_partition(other.neighbours, score[len(one) :], weights, own, 2, stream, names[6:])
        assert (canonical_labels(everyone[6:].tolist()) == canonical_labels(alone.tolist())).all()


# ---- parts ----


def test_components_are_those_of_pairs_and_given_clusters():
    rng = np.random.default_rng(8)
    for n in (1, 30, 200):
        left, right = np.sort(rng.integers(0, n, (2, n // 2)), axis=0)
        apart = left < right
        pairs = Pairs(n, left[apart], right[apart], np.zeros((apart.sum(), 0), np.float32))
        known = np.where(rng.random(n) < 0.3, rng.integers(0, max(n // 6, 1), n), -1)
        known[known >= 0] = np.unique(known[known >= 0], return_inverse=True)[1]
        given = [np.flatnonzero(known == k) for k in range(known.max() + 1)]
        ends = [(pairs.left, pairs.right), *((np.repeat(each[:1], len(each)), each) for each in given)]
        wanted = connected_components(n, ends).codes
        items, bounds = connect(pairs.neighbours, known)
        assert sorted(items) == np.flatnonzero(known < 0).tolist()
        component = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
        assert (canonical_labels(component.tolist()) == canonical_labels(wanted[items].tolist())).all()


def test_a_part_is_in_the_order_of_the_whole_however_it_is_sorted():
    names = np.random.default_rng(9).integers(2**63, size=3 * FEW).astype(np.uint64)
    whole, part = np.arange(3 * FEW), np.arange(3 * FEW)
    keys = np.empty(3 * FEW, np.uint64)
    shuffle(whole, 0, 3 * FEW, names, stream_of(1, 0), 1, keys)
    shuffle(part, 5, 5 + FEW, names, stream_of(1, 0), 1, keys)
    chosen = (whole >= 5) & (whole < 5 + FEW)
    assert part[5 : 5 + FEW].tolist() == whole[chosen].tolist()
    assert sorted(whole) == list(range(3 * FEW))
    assert part[:5].tolist() == list(range(5))


def test_numbers_of_chance_are_uniform_and_differ_by_record_draw_and_round():
    numbers = np.array(
        [
            uniform(np.uint64(name), stream_of(2, draw), scan)
            for name in range(40)
            for draw in range(40)
            for scan in range(3)
        ]
    )
    assert len(np.unique(numbers)) == len(numbers)
    assert numbers.min() >= 0
    assert numbers.max() < 1
    # Kolmogorov-Smirnov: 2.7 / sqrt(n) is passed by chance with a probability of 1e-6.
    gaps = np.abs(np.sort(numbers) - np.arange(len(numbers)) / len(numbers))
    assert gaps.max() < 2.7 / np.sqrt(len(numbers))


@pytest.mark.parametrize("with_known", [False, True])
def test_draws_of_components_are_those_of_the_whole(with_known: bool):
    """Components of two go by a closed form, and others in room of their own; the draws are the very same.

    Where scores are low, most records are not looked at, since chance is against all that they could meet.
    """
    rng = np.random.default_rng(9)
    n_pairs_alone, sizes = 0, np.zeros(0, np.int64)
    for number in range(60):
        n = 40
        pairs = random_pairs(rng, n, (1.2, 2.0)[number % 2] / n)
        score, weights = rng.normal((0, -3, -6)[number % 5 % 3], 2, len(pairs)), random_weights(rng)
        known = np.full(n, -1)
        if with_known:
            known[:3] = [1, 0, 1]
        names = rng.integers(2**63, size=n).astype(np.uint64)
        streams = np.array([stream_of(number, draw) for draw in range(20)])
        drawn = np.empty((len(streams), n), dtype=np.int32)
        n_rescans = number % 3
        sample_partitions(pairs.neighbours, score, weights, known, n_rescans, streams, names, drawn)
        for own, stream in zip(drawn, streams, strict=True):
            one = sample_partition(pairs.neighbours, score, weights, known, n_rescans, stream, names)
            assert canonical_labels(own.tolist()).tolist() == canonical_labels(one.tolist()).tolist()
        degree = np.diff(pairs.neighbours.start)
        n_pairs_alone += int(((degree[pairs.left] == 1) & (degree[pairs.right] == 1)).sum())
        sizes = np.append(sizes, connected_components(n, [(pairs.left, pairs.right)]).sizes)
    assert n_pairs_alone > 20
    assert ((sizes > 2) & (sizes < 4)).sum() > 20
    assert ((sizes >= 4) & (sizes <= FEW)).sum() > 20
    assert (sizes > FEW).sum() > 5


def test_no_record_joins_others_above_its_bound():
    """The chance to join, wherever the others are, is that of the plainest form at most."""
    rng = np.random.default_rng(10)
    nearest = 1.0
    for _ in range(400):
        n = int(rng.integers(2, 9))
        pairs = random_pairs(rng, n, 0.7)
        score, weights = rng.normal(-2, 3, len(pairs)), random_weights(rng)
        weights = weights._replace(growth=weights.growth - float(rng.integers(2)), third=float(rng.normal(0, 2)))
        neighbours = pairs.neighbours
        by_size = np.array([0.0, 0.0, *(weights.growth * np.log(k) + weights.third for k in range(2, n + 1))])
        bound = np.empty(n)
        above = score[neighbours.pair] - weights.floor
        bound_chances(weights, n, neighbours.start.astype(np.int32), above, by_size, bound)
        for record in range(n):
            others = {i: int(k) for i, k in enumerate(rng.integers(0, n, n)) if i != record and rng.random() < 0.8}
            found = choice_weights([record], others, pairs, score, weights)
            joins = 1.0 - found[None] / sum(found.values())
            assert joins <= bound[record]
            nearest = min(nearest, bound[record] - joins if joins > 0.01 else 1.0)
    # The bound is reached, so that the test would see one that is too low.
    assert nearest < 1e-6
