"""Learning the law: derivatives, the prior, held-out evidence, members, and what few labels give."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from scdp import compare
from scdp.compare.distances import Distances
from scdp.compare.features import Columns, Comparer, Layout, Pairs
from scdp.datasets import make_records
from scdp.errors import InputError
from scdp.linkage import BASE, Ensemble, believable_rates, training
from scdp.linkage.evidence import Evidence, TableEvidence, member_weights
from scdp.linkage.law import MANY_MATCHES, NO_MERGE, RETURNS, Weights, measure_gaps
from scdp.linkage.levels import levels_of
from scdp.linkage.sources import PairSource, RecordSource, pairs_of
from scdp.linkage.training import FEWEST_FOR_TREES, Choices, can_train_trees, fit_ensemble
from scdp.linkage.training.folds import (
    LabelledPairs,
    PreparedFold,
    TrainingFold,
    canonical_labels,
    check_teachable,
    cross_fit,
    make_knots,
    mean_partners,
    prepare,
    split_in_halves,
    take_whole_clusters,
)
from scdp.linkage.training.held_out import MERGES, SHIFTS, HeldOut, HeldOutTrial, rate_offset, weigh_tunings
from scdp.linkage.training.posterior import (
    GROWTH,
    MODE_STEPS,
    MOST_GROWTH,
    PRIOR_SPREAD,
    UNTUNED,
    Prior,
    maximise,
    objective,
    spread_evenly,
)
from scdp.table.spec import Spec

FIELDS = (compare.edit("surname"), compare.jaro_winkler("first_name"), compare.exact("city"))
COLUMNS = Columns.of(FIELDS)
QUICK = Choices(boosted=False, n_members=3)


@cache
def people(n: int = 80) -> tuple[RecordSource, np.ndarray]:
    made = make_records(n, kind="people", seed=9)
    cluster = np.unique(made.clusters, return_inverse=True)[1]
    return RecordSource.of(made.data, Spec("entity", FIELDS), np.arange(len(cluster)), None), cluster


@cache
def points(n_clusters: int = 12) -> tuple[PairSource, np.ndarray]:
    """Distances without comparisons of records, so without evidence."""
    rng = np.random.default_rng(0)
    cluster = rng.permutation(np.repeat(np.arange(n_clusters), 4))
    at = (rng.normal(size=(n_clusters, 2)) * 3)[cluster] + rng.normal(size=(len(cluster), 2)) * 0.5
    return PairSource(pairs_of(Distances.from_square(np.abs(at[:, None] - at)))), cluster


def fit_people(source: RecordSource, cluster: np.ndarray, choices: Choices = QUICK, seed: int = 0, jobs: int = 1):
    group = np.zeros(len(cluster), np.int64)
    return fit_ensemble(source, cluster, group, COLUMNS.layout, COLUMNS.sign, choices, seed, jobs)


def fit_points(source: PairSource, cluster: np.ndarray, choices: Choices = QUICK, seed: int = 0, jobs: int = 1):
    group = np.zeros(len(cluster), np.int64)
    return fit_ensemble(source, cluster, group, None, np.full(2, -1), choices, seed, jobs)


def fold_of(source: RecordSource, cluster: np.ndarray, seed: int = 0) -> TrainingFold:
    pairs = source.pairs(np.arange(len(cluster)), cluster).pairs
    orders = tuple(np.random.default_rng(seed).permutation(len(cluster)) for _ in range(2))
    return TrainingFold(pairs, canonical_labels(cluster.tolist()), None, orders)


def evidence_of(fold: TrainingFold) -> Evidence:
    weight = member_weights(fold.cluster, fold.pairs.left, fold.pairs.right)[1]
    return Evidence.learn(COLUMNS.layout, fold.pairs.features, weight)


@cache
def prepared(based: bool) -> tuple[PreparedFold, Prior]:
    fold = fold_of(*people(40))
    sign = np.append([1] * based, COLUMNS.sign).astype(np.int64)
    rng = np.random.default_rng(0)
    knots = make_knots([fold], sign, based, rng)
    prior = Prior.of(knots, sign, based, [fold], PRIOR_SPREAD)
    return prepare(fold, evidence_of(fold) if based else None, knots, rng), prior


# ---- objective and prior ----


@pytest.mark.parametrize("based", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_derivatives_are_those_of_finite_differences(based: bool, weighted: bool):
    fold, prior = prepared(based)
    rng = np.random.default_rng(1)
    centre = prior.draw(rng)
    flat = prior.mean + 0.3 * prior.spread * rng.normal(size=len(prior.mean))
    weight = [rng.exponential(size=fold.cluster.max() + 1)] if weighted else None
    slope = objective(flat, [fold], [fold.placements()], prior, centre, weight)[1]
    assert len(slope) == len(prior.bounds) == len(flat)
    for place in range(len(flat)):
        high, low = flat.copy(), flat.copy()
        high[place] += 1e-5
        low[place] -= 1e-5
        above, below = (objective(each, [fold], [fold.placements()], prior, centre, weight)[0] for each in (high, low))
        assert slope[place] == pytest.approx((above - below) / 2e-5, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("based", [False, True])
def test_without_data_the_prior_mean_is_found(based: bool):
    _, prior = prepared(based)
    np.testing.assert_allclose(maximise([], prior, prior.mean, None, MODE_STEPS), prior.mean, atol=1e-9)
    # Also from elsewhere.
    away = prior.draw(np.random.default_rng(2))
    found = maximise([], prior, prior.mean, None, 500, away)
    end, start = (objective(flat, [], [], prior, prior.mean, None)[0] for flat in (found, away))
    assert end < 1e-3 * start


def test_before_any_label_the_score_is_the_evidence():
    _, prior = prepared(True)
    parameters = prior.unpack(prior.mean)
    values = np.linspace(BASE[0], BASE[-1], 50)
    np.testing.assert_allclose(np.interp(values, BASE, parameters.heights[0]), values, atol=1e-9)
    assert (parameters.heights[1:] == 0).all()
    assert (parameters.missing == 0).all()
    assert (parameters.bias, parameters.growth) == (0.0, GROWTH)


def test_a_large_labelled_cluster_teaches_no_more_growth_than_a_dirichlet_process_has():
    fold, prior = prepared(True)
    cluster = np.zeros_like(fold.cluster)
    cluster[-2:] = 1, 2
    found = maximise([fold._replace(cluster=cluster)], prior, prior.mean, None, MODE_STEPS)
    assert prior.unpack(found).growth <= MOST_GROWTH
    rng = np.random.default_rng(0)
    assert max(prior.unpack(prior.draw(rng)).growth for _ in range(50)) == MOST_GROWTH


def test_centres_of_members_keep_the_signs_of_rises():
    for based in (False, True):
        prior = prepared(based)[1]
        signs = np.repeat(prior.sign, prior.n_pieces)
        for seed in range(5):
            rises = prior.draw(np.random.default_rng(seed))[: prior.n_rises]
            assert (signs * rises >= 0).all()


def test_data_move_the_parameters_and_never_the_signs():
    fold, prior = prepared(True)
    found = maximise([fold], prior, prior.mean, None, MODE_STEPS)
    start, end = (
        objective(flat, [fold], [fold.placements()], prior, prior.mean, None)[0] for flat in (prior.mean, found)
    )
    assert end < start
    assert (np.repeat(prior.sign, prior.n_pieces) * found[: prior.n_rises] >= 0).all()


# ---- held-out evidence ----


def test_evidence_of_a_pair_does_not_come_from_its_own_clusters():
    fold = fold_of(*people())
    together, weight = member_weights(fold.cluster, fold.pairs.left, fold.pairs.right)
    strangers = fold.pairs.features[~together]
    before = cross_fit(evidence_of(fold), fold, together, weight, np.random.default_rng(3))
    # Members of one cluster look entirely different: only pairs of other clusters may be judged anew.
    chosen = int(np.argmax(np.bincount(fold.cluster)))
    own = together & (fold.cluster[fold.pairs.left] == chosen)
    changed = fold.pairs.features.copy()
    changed[own, : len(FIELDS)] = np.where(changed[own, : len(FIELDS)] > 0.5, 0.0, 1.0)
    other = fold._replace(pairs=Pairs(fold.pairs.n_items, fold.pairs.left, fold.pairs.right, changed))
    after = cross_fit(evidence_of(other), other, together, weight, np.random.default_rng(3))
    assert (strangers == other.pairs.features[~together])[~np.isnan(strangers)].all()
    touched = (fold.cluster[fold.pairs.left] == chosen) | (fold.cluster[fold.pairs.right] == chosen)
    np.testing.assert_array_equal(after[touched & ~own], before[touched & ~own])
    assert (after[~touched] != before[~touched]).any()


def test_evidence_held_out_is_near_that_of_all():
    fold = fold_of(*people())
    together, weight = member_weights(fold.cluster, fold.pairs.left, fold.pairs.right)
    found = cross_fit(evidence_of(fold), fold, together, weight, np.random.default_rng(3))
    table = evidence_of(fold).in_table(fold.pairs.features, fold.pairs.features, len(fold.pairs))
    assert np.corrcoef(found, table.log_ratio(fold.pairs.features))[0, 1] > 0.85
    assert np.median(found[together]) > 2 > -1 > np.median(found[~together])
    assert levels_of(fold.pairs.features[together], len(FIELDS)).sum() > 0


# ---- parts of the labelled records ----


@pytest.mark.parametrize("n_documents", [1, 10])
def test_halves_hold_whole_clusters_and_each_teaches(n_documents: int):
    rng = np.random.default_rng(0)
    cluster = rng.permutation(np.repeat(np.arange(20), rng.integers(1, 6, 20)))
    group = cluster % n_documents
    first, second = split_in_halves(cluster, group, rng)
    assert sorted([*first, *second]) == list(range(len(cluster)))
    unit = group if n_documents > 1 else cluster
    assert not set(unit[first]) & set(unit[second])
    for half in (first, second):
        assert 1 < len(set(cluster[half])) < len(half)


@pytest.mark.parametrize("sizes", [[2, 1], [2, 2, 2], [5, 1, 1, 1]])
def test_too_few_clusters_are_not_halved(sizes: list[int]):
    cluster = np.repeat(np.arange(len(sizes)), sizes)
    assert split_in_halves(cluster, np.zeros_like(cluster), np.random.default_rng(0)) == []


def test_of_many_records_whole_clusters_are_taken():
    rng = np.random.default_rng(0)
    cluster = rng.permutation(np.repeat(np.arange(40), 4))
    kept = take_whole_clusters(np.arange(160), cluster, 50, rng)
    assert len(kept) == 48
    assert (np.unique(cluster[kept], return_counts=True)[1] == 4).all()
    assert len(take_whole_clusters(np.arange(40), cluster, 50, rng)) == 40
    # At least two clusters, however large.
    assert len(take_whole_clusters(np.arange(160), np.repeat([0, 1], 80), 50, rng)) == 160


def test_a_record_has_as_many_partners_as_its_cluster_has_others():
    assert mean_partners(np.array([0, 0, 0, 1, 2, 2])) == pytest.approx((3 * 2 + 0 + 2 * 1) / 6)
    low, high = believable_rates(1.0, 4950, 100)
    assert low < 50 / 4950 < high


@pytest.mark.parametrize(
    ("cluster", "says"),
    [([], "no row has a known cluster"), ([1, 1], "all of one cluster"), ([0, 1, 2], "all of clusters of one row")],
)
def test_what_teaches_nothing_is_refused(cluster: list[int], says: str):
    with pytest.raises(InputError, match=f"{says}: give at least two clusters, one of them of two rows"):
        check_teachable(np.array(cluster, dtype=np.int64))
    check_teachable(np.array([0, 0, 1]))


# ---- the ensemble ----


@pytest.mark.parametrize("cluster", [[0, 0, 1], [0, 0, 1, 1], [0, 0, 0, 1, 2], [0, 0, 1, 2, 3, 4]])
def test_few_labels_give_an_ensemble(cluster: list[int]):
    source, _ = people()
    known = np.array(cluster)
    ensemble, held_out = fit_people(source, known, Choices(n_members=3))
    assert not ensemble.trees
    assert len(held_out.probability) == 0
    assert held_out.tunings == UNTUNED
    # Where nothing is held out nobody knows what is said too much.
    assert held_out.optimism is None
    assert not ensemble.matches.optimism.any()
    assert {member.merge for member in ensemble.members} == {NO_MERGE}
    drawn = ensemble.sample(source.pairs(np.arange(20), known[:20]).pairs, np.full(20, -1), 6, 0)
    assert drawn.shape == (6, 20)
    without, _ = fit_points(
        PairSource(points()[0].pairs(np.arange(len(known)), known).pairs), known, Choices(n_members=2)
    )
    assert without.evidence is None


def test_members_differ_and_have_the_signs_of_their_features():
    ensemble, _ = fit_people(*people())
    biases = [member.bias for member in ensemble.members]
    assert len(set(biases)) == len(ensemble.members) == 3
    for member in ensemble.members:
        assert (np.diff(member.heights, axis=1) * ensemble.knots.sign[:, None] >= 0).all()
    one, two = ensemble.members[:2]
    assert (one.heights != two.heights).any()


def test_held_out_clusters_tell_members_from_strangers():
    for _, held_out in (fit_people(*people()), fit_points(*points())):
        assert isinstance(held_out, HeldOut)
        assert len(held_out.probability) == len(held_out.together) > 100
        assert ((held_out.probability >= 0) & (held_out.probability <= 1)).all()
        together = held_out.probability[held_out.together].mean()
        assert together > 0.4 > 0.15 > held_out.probability[~held_out.together].mean()
        assert len(held_out.n_clusters) == 2
        assert all(0.5 * true < drawn < 2 * true for drawn, true in held_out.n_clusters)
        assert held_out.tunings.probability.sum() == pytest.approx(1)
        # All shifts are off by what the estimated rate is off by.
        shifts = [each.shift for each in held_out.tunings.each[: len(SHIFTS)]]
        np.testing.assert_allclose(np.diff(shifts), np.diff(SHIFTS))
        assert held_out.tunings.best.merge in MERGES


def test_members_say_more_for_matches_that_they_learned_from():
    source, cluster = people()
    ensemble, held_out = fit_people(source, cluster)
    sizes = np.bincount(cluster)
    assert len(held_out.optimism) == len(ensemble.matches.optimism) == (sizes * (sizes - 1) // 2).sum()
    np.testing.assert_array_equal(held_out.optimism, ensemble.matches.optimism)
    assert np.average(ensemble.matches.optimism, weights=ensemble.matches.weight) > 0.0


def trial_of(cluster: np.ndarray, within: float, between: float) -> HeldOutTrial:
    """Held-out clusters whose pairs score as told, more or less."""
    n = len(cluster)
    left, right = np.triu_indices(n, k=1)
    together = cluster[left] == cluster[right]
    noise = np.random.default_rng(1).normal(0, 0.5, len(left))
    pairs = Pairs(n, left, right, np.zeros((len(left), 0), np.float32))
    score = np.where(together, within, between) + noise
    return HeldOutTrial(pairs, cluster, score, Weights(-1.0, 0.3, 0.0, -9.0), 2, 0)


def test_whole_clusters_join_where_large_ones_fall_apart_and_not_where_they_would_be_mixed():
    sizes = np.array([20, 20, 1, 1, 1, 1])
    cluster = np.repeat(np.arange(6), sizes)
    apart = weigh_tunings([trial_of(cluster, 0.9, -6.0)], sizes)
    mixed = weigh_tunings([trial_of(cluster, 4.0, 1.0)], sizes)
    assert apart.best.merge > NO_MERGE
    assert apart.best.merge > mixed.best.merge
    # Clusters of three or fewer are never in two parts of two.
    small = np.array([2, 2, 1])
    only = weigh_tunings([trial_of(np.repeat(np.arange(3), small), 2.0, -3.0)], small)
    assert {tuning.merge for tuning in only.each} == {NO_MERGE}


@pytest.mark.parametrize(("said", "offset"), [(0.1, 0.0), (0.02, 1.69), (0.3, -1.35), (1e-9, 3.0)])
def test_how_far_an_estimated_rate_is_off(said: float, offset: float):
    cluster = np.repeat(np.arange(10), 10)
    left, right = np.triu_indices(100, k=1)
    # Nine pairs in ninety-nine are together.
    pairs = Pairs(100, left, right, np.zeros((len(left), 0), np.float32))
    held = TrainingFold(pairs, cluster, None, ())
    table = TableEvidence(Layout.of([], []), np.zeros((0, 7)), np.zeros(0), said)
    found = [rate_offset(table, held, np.full(n, 2)) for n in (10, 1000)]
    assert found[1] == pytest.approx(offset, abs=0.12)
    # With few labelled clusters, only half of it is believed.
    assert found[0] == pytest.approx(found[1] * 0.505, abs=1e-6)


def test_a_few_members_stand_for_a_normal_distribution():
    numbers = spread_evenly(8, [3])
    assert numbers.mean() == pytest.approx(0, abs=1e-12)
    assert 0.85 < numbers.std() < 1
    assert sorted(numbers) == pytest.approx(sorted(spread_evenly(8, [4])))
    assert (numbers != spread_evenly(8, [4])).any()


@pytest.mark.parametrize(
    "make",
    [
        lambda choices, jobs: fit_people(*people(), choices, 5, jobs),
        lambda choices, jobs: fit_points(*points(), choices, 5, jobs),
    ],
)
def test_learning_is_the_same_for_any_number_of_jobs(make):
    one, two = (make(QUICK, jobs)[0] for jobs in (1, 2))
    for left, right in zip(one.members, two.members, strict=True):
        np.testing.assert_array_equal(left.heights, right.heights)
        assert left.bias == right.bias


def test_draws_are_the_same_for_any_number_of_draws_and_jobs():
    source, cluster = points()
    ensemble, _ = fit_points(source, cluster)
    pairs, nobody = source.pairs(np.arange(48), cluster).pairs, np.full(48, -1)
    drawn = ensemble.sample(pairs, nobody, 7, 3)
    np.testing.assert_array_equal(ensemble.sample(pairs, nobody, 7, 3, n_jobs=2), drawn)
    np.testing.assert_array_equal(ensemble.sample(pairs, nobody, 4, 3), drawn[:4])
    assert (ensemble.sample(pairs, nobody, 7, 4) != drawn).any()


def test_progress_ends_with_the_last_step():
    told: list[tuple[int, int]] = []
    source, cluster = points()
    group = np.zeros(48, np.int64)
    fit_ensemble(source, cluster, group, None, np.full(2, -1), QUICK, 0, 1, lambda *step: told.append(step))
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert all(done <= total for done, total in told)


# ---- trees ----


def test_trees_need_enough_clusters_and_not_too_many_features():
    cluster = np.repeat(np.arange(FEWEST_FOR_TREES), 2)
    assert can_train_trees(cluster, 5)
    assert not can_train_trees(cluster[2:], 5)
    assert not can_train_trees(np.arange(200), 5)
    assert not can_train_trees(cluster, training.MOST_TREE_FEATURES + 1)


def test_trees_are_trained_where_they_can_be_or_are_asked_for(monkeypatch):
    source, cluster = points()
    made = {
        boosted: fit_points(source, cluster, Choices(boosted=boosted, n_members=2))[0]
        for boosted in (None, False, True)
    }
    assert not made[None].trees
    assert not made[False].trees
    assert len(made[True].trees) == 2
    assert made[True].n_features == made[False].n_features == 2
    monkeypatch.setattr(training, "FEWEST_FOR_TREES", 10)
    assert len(fit_points(source, cluster, Choices(n_members=2))[0].trees) == 2


def test_trees_never_saw_the_clusters_that_they_judge(monkeypatch):
    source, cluster = people()
    halves: list[LabelledPairs] = []
    judged: list[np.ndarray] = []
    learn = training.fit_trees_on

    def watch(pairs, own, sign, rng):
        halves.append(pairs)
        trees = learn(pairs, own, sign, rng)
        number = len(halves) - 1

        class Watched:
            def log_ratio(self, features):
                judged.append((number, features))
                return trees.log_ratio(features)

        return Watched()

    monkeypatch.setattr(training, "fit_trees_on", watch)
    fit_people(source, cluster, Choices(boosted=True, n_members=1))
    assert len(halves) == 2
    assert [number for number, _ in judged[:2]] == [1, 0]
    for number, features in judged[:2]:
        np.testing.assert_array_equal(features, halves[1 - number].pairs.features)


# ---- set to a table ----


def test_an_ensemble_is_set_to_a_table():
    source, cluster = people()
    ensemble, _ = fit_people(source, cluster)
    assert isinstance(ensemble, Ensemble)
    new = Comparer.of(make_records(60, kind="people", seed=11).data, FIELDS).compare_all()
    there = ensemble.set_to(new.features, new.features, len(new), new.n_items)
    assert there.table is not ensemble.table
    assert there.log_odds == there.table.log_odds_of_match
    assert len(there.floors) == len(ensemble.members)
    for number, floor in enumerate(there.floors):
        weights = there.weights(number)
        assert weights.floor == floor
        assert weights.bias == pytest.approx(there.members[number].bias + there.log_odds)
    # In a larger table the constant is less sure, about the same middle; and setting it twice changes nothing.
    larger = ensemble.doubt_more(10 * ensemble.n_taught)
    for one, other in zip(ensemble.members, larger.members, strict=True):
        assert other.bias - one.bias == pytest.approx(one.doubt * (larger.spread - ensemble.spread))
    assert larger.spread > ensemble.spread == ensemble.sure_spread > 0
    twice = larger.doubt_more(ensemble.n_taught)
    assert [each.bias for each in twice.members] == pytest.approx([each.bias for each in ensemble.members])
    assert larger.doubt_more(10**9).spread == pytest.approx(larger.doubt_more(10**8).spread)
    low, high = believable_rates(ensemble.partners, len(new), new.n_items)
    assert low <= there.table.match_rate <= high
    # Without evidence nothing is known of a table.
    plain, _ = fit_points(*points())
    assert plain.set_to(new.features, new.features, len(new), new.n_items) is plain


def test_no_member_lies_beyond_the_others_where_strangers_end():
    source, cluster = people()
    ensemble, _ = fit_people(source, cluster)
    new = Comparer.of(make_records(200, kind="people", seed=12).data, FIELDS).compare_all()
    there = ensemble.set_to(new.features, new.features, len(new), new.n_items)
    places, ratio = there.places(new.features), there.table.log_ratio(new.features)
    scores = np.array([member.scores(places) for member in there.members])
    gaps = measure_gaps(scores, ratio, there.log_odds)
    before = ensemble.doubt_more(new.n_items)
    moved = np.array([one.bias - other.bias for one, other in zip(there.members, before.members, strict=True)])
    # Gaps above the mean one are cut, and one of the shares of the mean one is taken back by each member.
    assert gaps.max() > gaps.mean() > 0.0
    returned = (np.minimum(gaps, gaps.mean()) - gaps - moved) / gaps.mean()
    shares = RETURNS * MANY_MATCHES / (MANY_MATCHES + ensemble.matches.weight.sum())
    assert np.abs(returned[:, None] - shares).min(axis=1).max() < 1e-6
    # Matches of which the members say too much since they learned from them need the line where it is.
    matches = ensemble.matches._replace(optimism=np.full(len(ensemble.matches.weight), 8.0))
    sober = replace(ensemble, matches=matches).set_to(new.features, new.features, len(new), new.n_items)
    assert np.mean([each.bias for each in sober.members]) > np.mean([each.bias for each in there.members])
    # Without labelled matches members stay as they are.
    untold = replace(ensemble, matches=None).set_to(new.features, new.features, len(new), new.n_items)
    assert [each.bias for each in untold.members] == [each.bias for each in before.members]
