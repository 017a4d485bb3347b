"""Draws follow the law: frequencies against the probabilities of all partitions, found by exact enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2

from scdp._typing import Floats, Integers
from scdp.compare.features import Pairs
from scdp.linkage.law import NO_MERGE, Weights
from scdp.linkage.sampling import sample_partition, stream_of
from twins.linkage import Partition, canonical, exact_law

# A test of draws from the right law fails by chance with this probability.
LEVEL = 1e-6
N_DRAWS = 4_000
# Planted bugs move probabilities so far that a test of so many draws misses each with a probability below 1e-6.
N_DRAWS_FOR_BUGS = 20_000
WEIGHTS = Weights(bias=-0.3, growth=0.8, third=-0.9, floor=-1.5, merge=3.0)


def some_pairs(rng: np.random.Generator, n: int, share: float = 1.0) -> Pairs:
    left, right = np.triu_indices(n, k=1)
    kept = rng.permutation(len(left))[: round(share * len(left))]
    return Pairs(n, left[kept], right[kept], np.zeros((len(kept), 0), np.float32))


def count_draws(
    pairs: Pairs, score: Floats, weights: Weights, known: Integers, n_rescans: int, n_draws: int
) -> dict[Partition, int]:
    """How often each partition was drawn."""
    counts: dict[Partition, int] = {}
    names = np.random.default_rng(0).integers(2**63, size=len(known)).astype(np.uint64)
    for number in range(n_draws):
        stream = stream_of(3, number)
        drawn = sample_partition(pairs.neighbours, score, weights, known, n_rescans, stream, names)
        assert (drawn[known >= 0] == known[known >= 0]).all()
        name = canonical(dict(enumerate(drawn.tolist())))
        counts[name] = counts.get(name, 0) + 1
    return counts


def goodness(counts: dict[Partition, int], law: dict[Partition, float]) -> float:
    """The p-value of a chi-squared test, rare outcomes pooled."""
    n_draws = sum(counts.values())
    expected = np.array([law[name] * n_draws for name in law])
    observed = np.array([counts.get(name, 0) for name in law])
    rare = expected < 10
    if rare.any():
        observed = np.append(observed[~rare], observed[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    statistic = float(((observed - expected) ** 2 / np.maximum(expected, 1e-9)).sum())
    return float(chi2.sf(statistic, max(len(expected) - 1, 1)))


@pytest.mark.parametrize("n_rescans", [0, 1, 2])
@pytest.mark.parametrize("share", [1.0, 0.7])
def test_draws_follow_the_exact_law(n_rescans: int, share: float):
    rng = np.random.default_rng(3)
    pairs = some_pairs(rng, 4, share)
    score, nobody = rng.normal(0.5, 1.5, len(pairs)), np.full(4, -1)
    law = exact_law(pairs, score, WEIGHTS, nobody, n_rescans)
    assert sum(law.values()) == pytest.approx(1)
    counts = count_draws(pairs, score, WEIGHTS, nobody, n_rescans, N_DRAWS)
    assert set(counts) <= set(law)
    assert goodness(counts, law) > LEVEL


@pytest.mark.parametrize("known", [[1, -1, -1, 0], [0, 0, -1, -1, -1], [0, 1, 0, 1, -1], [0, 0, -1, -1, -1, -1]])
@pytest.mark.parametrize("n_rescans", [0, 2])
def test_draws_given_known_clusters_follow_the_exact_law(known: list[int], n_rescans: int):
    rng = np.random.default_rng(4)
    given = np.array(known)
    pairs = some_pairs(rng, len(given), 0.8)
    score = rng.normal(0.5, 1.5, len(pairs))
    law = exact_law(pairs, score, WEIGHTS, given, n_rescans)
    assert sum(law.values()) == pytest.approx(1)
    assert goodness(count_draws(pairs, score, WEIGHTS, given, n_rescans, N_DRAWS), law) > LEVEL


BUGS = {
    "no weight of a third record": WEIGHTS._replace(third=0.0),
    "no growth": WEIGHTS._replace(growth=0.0),
    "too much growth": WEIGHTS._replace(growth=1.4),
    "no floor": WEIGHTS._replace(floor=0.0),
    "no bias": WEIGHTS._replace(bias=0.0),
}


@pytest.mark.parametrize("bug", BUGS)
def test_every_weight_matters(bug: str):
    # A chain of four: the ends are no candidates of each other, so the floor has something to say.
    pairs = Pairs(4, np.array([0, 1, 2, 0]), np.array([1, 2, 3, 2]), np.zeros((4, 0), np.float32))
    score, nobody = np.array([1.0, 1.2, 1.1, 0.9]), np.full(4, -1)
    law = exact_law(pairs, score, WEIGHTS, nobody, 1)
    wrong = count_draws(pairs, score, BUGS[bug], nobody, 1, N_DRAWS_FOR_BUGS)
    assert goodness(wrong, law) < LEVEL


@pytest.mark.parametrize("merge", [0.0, NO_MERGE])
def test_the_weight_of_merging_matters(merge: float):
    # Two pairs that hold together, and that only a step with both records can join.
    pairs = some_pairs(np.random.default_rng(5), 4)
    within = (pairs.left // 2) == (pairs.right // 2)
    score, nobody = np.where(within, 4.0, -0.5), np.full(4, -1)
    law = exact_law(pairs, score, WEIGHTS, nobody, 1)
    assert goodness(count_draws(pairs, score, WEIGHTS, nobody, 1, N_DRAWS), law) > LEVEL
    wrong = count_draws(pairs, score, WEIGHTS._replace(merge=merge), nobody, 1, N_DRAWS_FOR_BUGS)
    assert goodness(wrong, law) < LEVEL


def test_a_missing_rescan_is_seen():
    pairs = some_pairs(np.random.default_rng(5), 4)
    score, nobody = np.full(len(pairs), 1.0), np.full(4, -1)
    weights = WEIGHTS._replace(third=1.5)
    law = exact_law(pairs, score, weights, nobody, 1)
    assert goodness(count_draws(pairs, score, weights, nobody, 0, N_DRAWS_FOR_BUGS), law) < LEVEL


def test_without_scores_it_is_the_chinese_restaurant():
    # Joining weighs the cluster's size, a new cluster weighs 1.
    pairs = some_pairs(np.random.default_rng(6), 4)
    law = exact_law(pairs, np.zeros(len(pairs)), Weights(0.0, 1.0, 0.0, 0.0), np.full(4, -1), 0)
    assert len(law) == 15
    for partition, probability in law.items():
        gammas = np.prod([np.prod(np.arange(1, size)) for size in np.bincount(partition)])
        assert probability == pytest.approx(gammas / 24)


def test_components_do_not_disturb_each_other():
    # The law of one component is the same whether the other is there or not.
    rng = np.random.default_rng(7)
    one = some_pairs(rng, 3)
    both = Pairs(5, np.append(one.left, 3), np.append(one.right, 4), np.zeros((4, 0), np.float32))
    score = rng.normal(0, 1, 4)
    alone = exact_law(one, score[:3], WEIGHTS, np.full(3, -1), 1)
    together = exact_law(both, score, WEIGHTS, np.full(5, -1), 1)
    marginal: dict[Partition, float] = {}
    for partition, probability in together.items():
        marginal[partition[:3]] = marginal.get(partition[:3], 0.0) + probability
    assert marginal == pytest.approx(alone)
