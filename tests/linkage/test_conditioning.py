"""Draws under conditions: their law against exact enumeration, and what holds for any division of the work."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from linkage.test_law_gold import LEVEL, N_DRAWS, WEIGHTS, goodness, some_pairs
from scdp.compare.features import Pairs
from scdp.conditions import Conditions
from scdp.errors import InputError
from scdp.linkage.law import NO_MERGE
from scdp.linkage.sampling import sample_partition, stream_of
from scdp.linkage.sampling.conditioned import condition_draws
from scdp.linkage.sampling.enumeration import enumerate_law, look_at_few
from twins.linkage import canonical, conditional_law, exact_law, exact_law_by_records, keeps_conditions


def conditions_on(n, same=(), different=(), source=None):
    group = np.full(n, -1)
    for number, members in enumerate(same):
        group[list(members)] = number
    left, right = (np.array([pair[side] for pair in different], dtype=np.int64) for side in (0, 1))
    return Conditions(group, left, right, np.full(n, -1) if source is None else np.array(source))


def draw(pairs, score, known, n_rescans, conditions, n_draws, names=None, weights=WEIGHTS):
    """Draws that keep the conditions, as an ensemble makes them."""
    tied, n_ties = conditions.tie(pairs)
    score = np.append(score, np.full(n_ties, weights.floor))
    if names is None:
        names = np.random.default_rng(0).integers(2**63, size=len(known)).astype(np.uint64)
    streams = np.array([stream_of(3, number) for number in range(n_draws)])
    neighbours = tied.neighbours
    draws = np.array(
        [sample_partition(neighbours, score, weights, known, n_rescans, one, names) for one in streams], dtype=np.int32
    )
    condition_draws(neighbours, score, weights, known, n_rescans, streams, names, conditions.limits, draws)
    return draws, tied, score


def count(draws):
    """How often each partition was drawn."""
    return Counter(canonical(dict(enumerate(row))) for row in draws.tolist())


def named_law(states, law):
    """An enumerated law without given clusters, by partition."""
    found = {canonical(dict(enumerate(state))): p for state, p in zip(states.tolist(), law.tolist(), strict=True)}
    return {name: p for name, p in found.items() if p > 0}


def check_against_exact(pairs, score, known, n_rescans, conditions, n_draws=N_DRAWS):
    draws, tied, score = draw(pairs, score, known, n_rescans, conditions, n_draws)
    law = conditional_law(exact_law_by_records(tied, score, WEIGHTS, known, n_rescans), conditions)
    counts = count(draws)
    assert set(counts) <= set(law)
    assert goodness(counts, law) > LEVEL


def test_the_two_twins_agree():
    rng = np.random.default_rng(1)
    pairs, known = some_pairs(rng, 5, 0.8), np.array([-1, 0, -1, -1, 0])
    score = rng.normal(0.5, 1.5, len(pairs))
    slow = exact_law(pairs, score, WEIGHTS, known, 2)
    assert exact_law_by_records(pairs, score, WEIGHTS, known, 2) == pytest.approx(slow, rel=1e-9)


@pytest.mark.parametrize(
    ("known", "n_rescans"), [([-1] * 5, 2), ([-1, 0, -1, 1, 0, -1], 1), ([-1] * 6, 0), ([2, 2, -1, -1, 0, 1], 2)]
)
def test_the_enumerated_law_is_that_of_the_process(known, n_rescans):
    rng = np.random.default_rng(2)
    known = np.array(known)
    pairs = some_pairs(rng, len(known), 0.7)
    score = rng.normal(0.5, 1.5, len(pairs))
    free = np.flatnonzero(known < 0)
    sizes = np.bincount(known[known >= 0], minlength=known.max() + 1)
    few, given = look_at_few(free, pairs.neighbours, score, WEIGHTS, known, sizes)
    states, law = enumerate_law(few, WEIGHTS, n_rescans)
    found = {}
    for state, probability in zip(states.tolist(), law.tolist(), strict=True):
        clusters = {i: int(k) for i, k in enumerate(known) if k >= 0}
        for i, k in zip(free.tolist(), state, strict=True):
            clusters[i] = int(given[k]) if k < len(given) else 100 + k
        found[canonical(clusters)] = probability
    exact = exact_law_by_records(pairs, score, WEIGHTS, known, n_rescans)
    assert {name: p for name, p in found.items() if p > 0} == pytest.approx(exact, rel=1e-9)


KINDS = {
    "two are the same": {"same": [(0, 1)]},
    "three are the same": {"same": [(0, 2, 3)]},
    "two groups": {"same": [(0, 1), (2, 3)]},
    "two differ": {"different": [(0, 1)]},
    "all differ from one": {"different": [(0, 1), (0, 2), (0, 3)]},
    "a group differs from one": {"same": [(0, 1)], "different": [(0, 2)]},
    "two sources, each thing once in both": {"source": [0, 0, 1, 1, 0, 1, 0]},
    "each thing once in one source": {"source": [5, 5, 5, -1, -1, 5, -1]},
    "all kinds": {"same": [(0, 2)], "different": [(0, 3)], "source": [0, 0, 1, 1, -1, 0, 1]},
}


def names_records_below(kind, n):
    said = KINDS[kind]
    return all(record < n for records in (*said.get("same", ()), *said.get("different", ())) for record in records)


@pytest.mark.parametrize(
    ("n", "kind"), [(n, kind) for n in (2, 3, 4, 5) for kind in KINDS if names_records_below(kind, n)]
)
def test_draws_follow_the_exact_law_given_conditions(n, kind):
    rng = np.random.default_rng(n)
    said = dict(KINDS[kind])
    if "source" in said:
        said["source"] = said["source"][:n]
    pairs = some_pairs(rng, n, 0.8)
    # Scores that make the conditions hold now often, now hardly ever.
    score = rng.normal(0.0, 2.0, len(pairs))
    check_against_exact(pairs, score, np.full(n, -1), 2, conditions_on(n, **said))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [6, 7])
def test_draws_of_six_and_seven_follow_the_exact_law(kind, n):
    rng = np.random.default_rng(n)
    pairs, nobody = some_pairs(rng, n, 0.5), np.full(n, -1)
    said = dict(KINDS[kind])
    if "source" in said:
        said["source"] = said["source"][:n]
    conditions = conditions_on(n, **said)
    draws, tied, score = draw(pairs, rng.normal(0, 2, len(pairs)), nobody, 2, conditions, 2000)
    # The twin would take a minute; up to six records, and here without rescans, the compiled law is compared with it.
    few, _ = look_at_few(np.arange(n), tied.neighbours, score, WEIGHTS, nobody, np.zeros(0, np.int64))
    if kind == "two differ":
        plain = named_law(*enumerate_law(few, WEIGHTS, 0))
        assert plain == pytest.approx(exact_law_by_records(tied, score, WEIGHTS, nobody, 0), rel=1e-9)
    law = conditional_law(named_law(*enumerate_law(few, WEIGHTS, 2)), conditions)
    counts = count(draws)
    assert set(counts) <= set(law)
    assert goodness(counts, law) > LEVEL


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ([0, -1, -1, 1, -1], {"different": [(0, 1)]}),
        ([0, 0, -1, -1, 1], {"same": [(2, 3)]}),
        ([0, 1, -1, -1, -1], {"source": [3, -1, 3, 3, -1]}),
        ([0, 0, -1, -1, -1, -1], {"same": [(2, 3)], "different": [(0, 2), (4, 5)]}),
    ],
)
def test_given_clusters_and_conditions_together(known, said):
    rng = np.random.default_rng(8)
    pairs = some_pairs(rng, len(known), 0.9)
    check_against_exact(pairs, rng.normal(0.5, 1.5, len(pairs)), np.array(known), 1, conditions_on(len(known), **said))


def test_what_hardly_ever_happens_is_drawn_exactly_all_the_same():
    # No try of the process would make these the same: the enumerated law does.
    pairs = some_pairs(np.random.default_rng(9), 4)
    score = np.full(len(pairs), 0.5)
    score[(pairs.left == 0) & (pairs.right == 1)] = -30.0
    check_against_exact(pairs, score, np.full(4, -1), 2, conditions_on(4, same=[(0, 1)]))


def test_records_that_were_never_compared_can_be_the_same():
    pairs = Pairs(4, np.array([0, 2]), np.array([1, 3]), np.zeros((2, 0), np.float32))
    check_against_exact(pairs, np.array([1.0, 2.0]), np.full(4, -1), 2, conditions_on(4, same=[(0, 3)]))


def test_a_planted_bug_is_seen():
    rng = np.random.default_rng(11)
    pairs, nobody = some_pairs(rng, 4), np.full(4, -1)
    weights = WEIGHTS._replace(merge=NO_MERGE)
    score = rng.normal(0.5, 1.0, len(pairs))
    right = conditional_law(exact_law_by_records(pairs, score, weights, nobody, 2), conditions_on(4, same=[(0, 1)]))
    wrong = conditional_law(
        exact_law_by_records(pairs, score, weights, nobody, 2), conditions_on(4, different=[(2, 3)])
    )
    counts = count(draw(pairs, score, nobody, 2, conditions_on(4, same=[(0, 1)]), 20_000, weights=weights)[0])
    assert goodness(counts, right) > LEVEL
    assert not set(counts) <= set(wrong)
    no_rescan = conditional_law(exact_law_by_records(pairs, score, weights, nobody, 0), conditions_on(4, same=[(0, 1)]))
    assert goodness(counts, no_rescan) < LEVEL


def large_problem(seed, n=60):
    rng = np.random.default_rng(seed)
    pairs = some_pairs(rng, n, 0.15)
    conditions = conditions_on(
        n,
        same=[(0, 1, 2), (10, 20), (30, 31)],
        different=[(0, 10), (5, 6), (40, 41), (30, 45)],
        source=np.where(np.arange(n) < 2 * n // 3, np.arange(n) + 100, 7),
    )
    known = np.full(n, -1)
    known[[50, 51]] = 0, 1
    return pairs, rng.normal(1.0, 2.0, len(pairs)), known, conditions


@pytest.mark.parametrize("seed", range(3))
def test_large_components_keep_every_condition(seed):
    pairs, score, known, conditions = large_problem(seed)
    draws, _, _ = draw(pairs, score, known, 2, conditions, 40)
    assert all(keeps_conditions(row, conditions) for row in draws.tolist())
    assert (draws[:, 50] == 0).all()
    assert (draws[:, 51] == 1).all()
    # Where nothing is known they are drawn as ever: some are together, some apart.
    assert len({len(set(row)) for row in draws.tolist()}) > 1


@pytest.mark.parametrize("seed", range(3))
def test_whole_clusters_join_within_the_conditions(seed):
    """Where clusters join whatever the scores of their pairs, few are left; those that must not are still apart."""
    pairs, score, known, conditions = large_problem(seed)
    n_clusters = []
    for merge in (NO_MERGE, 50.0):
        draws, _, _ = draw(pairs, score, known, 2, conditions, 40, weights=WEIGHTS._replace(merge=merge, growth=0.0))
        assert all(keeps_conditions(row, conditions) for row in draws.tolist())
        n_clusters.append(np.mean([len(set(row)) for row in draws.tolist()]))
    assert n_clusters[1] < n_clusters[0]


def test_components_without_conditions_are_drawn_as_ever():
    rng = np.random.default_rng(4)
    one, other = some_pairs(rng, 5), some_pairs(rng, 6)
    both = Pairs(
        11,
        np.concatenate([one.left, 5 + other.left]),
        np.concatenate([one.right, 5 + other.right]),
        np.zeros((len(one) + len(other), 0), np.float32),
    )
    score, nobody = rng.normal(0.5, 1.5, len(both)), np.full(11, -1)
    free, _, _ = draw(both, score, nobody, 2, Conditions.none(11), 50)
    bound, _, _ = draw(both, score, nobody, 2, conditions_on(11, same=[(0, 1)]), 50)
    assert (free[:, 5:] == bound[:, 5:]).all()
    kept = free[:, 0] == free[:, 1]
    assert 0 < kept.sum() < 50
    assert (free[kept] == bound[kept]).all()


def test_a_part_of_the_records_has_the_same_draws():
    # All chance follows from names: components can be sampled apart.
    pairs, score, known, conditions = large_problem(5)
    names = np.random.default_rng(0).integers(2**63, size=60).astype(np.uint64)
    rng = np.random.default_rng(6)
    more = some_pairs(rng, 20)
    joined = Pairs(
        80,
        np.concatenate([more.left, 20 + pairs.left]),
        np.concatenate([more.right, 20 + pairs.right]),
        np.zeros((len(more) + len(pairs), 0), np.float32),
    )
    wide = Conditions(
        np.concatenate([np.full(20, -1), conditions.group]),
        20 + conditions.left,
        20 + conditions.right,
        np.concatenate([np.full(20, -1), conditions.source]),
    )
    alone, _, _ = draw(pairs, score, known, 2, conditions, 12, names)
    among, _, _ = draw(
        joined,
        np.concatenate([rng.normal(size=len(more)), score]),
        np.concatenate([np.full(20, -1), known]),
        2,
        wide,
        12,
        np.concatenate([rng.integers(2**63, size=20).astype(np.uint64), names]),
    )
    for one, other in zip(alone.tolist(), among[:, 20:].tolist(), strict=True):
        assert canonical(dict(enumerate(one))) == canonical(dict(enumerate(other)))
    assert (wide.take(np.arange(20, 80)).group == conditions.group).all()


def name_row(row):
    return f"row {row}"


def test_conditions_and_given_clusters_are_settled_first():
    conditions = conditions_on(5, same=[(0, 1)], different=[(1, 2), (3, 4)])
    found, known = conditions.settle(np.array([7, -1, -1, 2, 3]), name_row)
    assert known.tolist() == [7, 7, -1, 2, 3]
    assert (found.group == -1).all()
    assert (found.left.tolist(), found.right.tolist()) == ([1], [2])


@pytest.mark.parametrize(
    ("known", "said", "message"),
    [
        ([0, 1, -1], {"same": [(0, 1)]}, "row 0 and row 1 the same, and they are given in two clusters"),
        ([0, 0, -1], {"different": [(0, 1)]}, "row 0 and row 1 different, and they are given in one cluster"),
        ([-1, -1, -1], {"same": [(0, 2)], "source": [1, -1, 1]}, "row 0 and row 2 are given as the same, and come"),
        ([4, -1, 4], {"source": [1, -1, 1]}, "at most once"),
    ],
)
def test_what_contradicts_given_clusters_is_refused(known, said, message):
    with pytest.raises(InputError, match=message):
        conditions_on(3, **said).settle(np.array(known), name_row)


def test_conditions_that_say_nothing():
    nothing = Conditions.none(3)
    assert not nothing.any()
    assert replace(nothing, source=np.array([0, -1, -1])).any()
