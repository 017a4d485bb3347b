"""Evidence of pairs: kernels against plain twins, what members look like, rarity, and the match rate of a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scdp import compare
from scdp.compare.features import NAMES, PHONES, PLACES, RELEASES, Layout, find_family
from scdp.linkage import evidence as module
from scdp.linkage.evidence import (
    AGREES,
    DESCRIBES_THE_THING,
    DIFFERS,
    LARGEST_RATE,
    MANY_LABELLED,
    MOST_SURE,
    SMALLEST_RATE,
    SURE,
    TYPICAL,
    Dependence,
    Evidence,
    TableEvidence,
    lift_of_places,
    log_odds,
    match_rate,
    member_weights,
    thin,
)
from scdp.linkage.levels import EDGES, N_LEVELS, levels_of
from twins.linkage import agreement_counts, level_counts, log_ratios, sure_level_counts

# Strangers are rarely close.
STRANGERS = np.array([0.02, 0.01, 0.02, 0.05, 0.2, 0.3, 0.4])


def some_features(rng: np.random.Generator, n: int = 400) -> np.ndarray:
    """Four distances, with values on the edges and missing ones, and the nats of the first two."""
    features = rng.random((n, 6)).astype(np.float32)
    features[rng.random(features.shape) < 0.2] = 0.0
    features[:, :4][rng.random((n, 4)) < 0.2] = np.float32(EDGES[2])
    features[:, 4:] *= 8
    features[rng.random(features.shape) < 0.15] = np.nan
    return features


def plain_layout(share: Any, rarity: Any) -> Layout:
    """Every comparison is a group of its own, and of no family."""
    n = len(share)
    return Layout(np.asarray(share, dtype=float), np.asarray(rarity), np.arange(n), np.full(n, -1))


LAYOUT = plain_layout([0.5, 0.5, 1.0, 0.0], [4, 4, 5, -1])


def features_at(levels: np.ndarray) -> np.ndarray:
    """Distances in the middle of levels."""
    edges = np.concatenate([[0.0, 0.0], EDGES[1:], [1.0]])
    return ((edges[levels] + edges[levels + 1]) / 2).astype(np.float32)


# ---- kernels ----


@pytest.mark.parametrize("weighted", [False, True])
def test_levels_are_counted_as_by_the_twin(weighted: bool):
    rng = np.random.default_rng(0)
    features = some_features(rng)
    weight = rng.random(len(features)) if weighted else None
    expected = level_counts(features, 4, np.ones(len(features)) if weight is None else weight)
    np.testing.assert_allclose(levels_of(features, 4, weight), expected)


DEPENDENT = Dependence(np.array([-1, 0, 1, -1]), np.array([0.0, 0.7, 1.5, 0.0]))


@pytest.mark.parametrize("dependence", [None, DEPENDENT])
def test_log_ratios_are_those_of_the_twin(dependence: Dependence | None):
    rng = np.random.default_rng(1)
    features = some_features(rng)
    ratio, exact = rng.normal(size=(4, N_LEVELS)), rng.normal(size=4)
    table = TableEvidence(LAYOUT, ratio, exact, dependence=dependence)
    expected = log_ratios(features, LAYOUT, ratio, exact, dependence)
    np.testing.assert_allclose(table.log_ratio(features), expected, atol=1e-6)


@pytest.mark.parametrize("dependence", [None, DEPENDENT])
def test_agreements_of_strangers_are_counted_as_by_the_twin(dependence: Dependence | None):
    rng = np.random.default_rng(3)
    features = some_features(rng)
    layout = plain_layout(np.ones(4), [4, 4, 5, -1])
    table = TableEvidence(layout, 4 * rng.normal(size=(4, N_LEVELS)), rng.normal(size=4), 0.01, dependence)
    expected = agreement_counts(features, table, AGREES, DIFFERS)
    assert expected[..., 3].sum() > 5
    np.testing.assert_allclose(table.count_agreements(features), expected, atol=1e-6)


@pytest.mark.parametrize("dependence", [None, DEPENDENT])
def test_pairs_of_which_other_columns_are_sure_are_counted_as_by_the_twin(dependence: Dependence | None):
    rng = np.random.default_rng(8)
    features = some_features(rng)
    layout = Layout(np.ones(4), np.array([4, 4, 5, -1]), np.array([0, 1, 2, 2]), np.full(3, -1))
    known = None if dependence is None else Dependence(np.array([-1, 0, 1]), np.array([0.0, 0.7, 1.5]))
    table = TableEvidence(layout, 3 * rng.normal(size=(4, N_LEVELS)), rng.normal(size=4), 0.1, known)
    expected = sure_level_counts(features, table, SURE)
    assert (expected.sum(axis=1) > 5).all()
    np.testing.assert_allclose(table.count_sure_levels(features), expected, atol=1e-6)


RARELY_EQUAL = np.array([0.004, 0.006, 0.02, 0.05, 0.2, 0.3, 0.42])


def households(rng: np.random.Generator, n: int, related: bool) -> np.ndarray:
    """Strangers by six comparisons; where they are related, the third agrees wherever the second does."""
    shares = np.tile(RARELY_EQUAL, (6, 1)).cumsum(axis=1)
    levels = (rng.random((n, 6, 1)) > shares).sum(axis=2).clip(0, N_LEVELS - 1)
    if related:
        levels[:, 2] = np.where(levels[:, 1] == 0, 0, levels[:, 2])
    return features_at(levels)


@pytest.mark.parametrize("other", [PLACES, NAMES, PHONES], ids=["places", "place and name", "place and phone"])
@pytest.mark.parametrize("related", [False, True])
def test_columns_that_agree_together_among_strangers_are_found(related: bool, other: int):
    rng = np.random.default_rng(4)
    features = households(rng, 100_000, related)
    family = np.array([-1, PLACES, other, -1, -1, -1])
    layout = Layout(np.ones(6), np.full(6, -1), np.arange(6), family)
    table = Evidence(layout, np.zeros((6, N_LEVELS))).in_table(features, features, len(features))
    assert table.dependence is not None
    found = table.dependence.lift.max()
    if not related:
        # One or two pairs of a hundred thousand agree in both by chance.
        assert found < 2.0
        return
    # One in 125 agrees in the third, among those that agree in the second all do: log 125 is 4.8. Some of these look
    # like matches and do not count, so less is found, never more.
    assert 2.5 < found < np.log(125) + 0.3
    both, alone = features_at(np.array([[6, 0, 0, 6, 6, 6], [6, 0, 6, 6, 6, 6]]))
    gained = np.diff(table.log_ratio(np.array([alone, both])))[0]
    single = TableEvidence(layout, table.ratio, table.exact)
    assert gained < np.diff(single.log_ratio(np.array([alone, both])))[0] - 2.0


@pytest.mark.parametrize(
    "families",
    [(-1, -1), (NAMES, PHONES), (PLACES, RELEASES), (RELEASES, NAMES)],
    ids=["no family", "name and phone", "place and release", "release and name"],
)
def test_columns_of_other_families_are_never_taken_to_depend(families: tuple[int, int]):
    features = households(np.random.default_rng(4), 50_000, True)
    layout = plain_layout(np.ones(6), np.full(6, -1))._replace(family=np.array([-1, *families, -1, -1, -1]))
    table = Evidence(layout, np.zeros((6, N_LEVELS))).in_table(features, features, len(features))
    assert table.dependence is not None
    assert (table.dependence.parent == -1).all()


def test_families_follow_from_kinds_and_from_names_of_columns():
    fields = [compare.phone("tel"), compare.person_name("who"), compare.edit("home_town"), compare.edit("colour")]
    assert [find_family(field) for field in fields] == [PHONES, NAMES, PLACES, -1]
    # An artist is a person by kind, and one of what songs of an album share.
    fields = [compare.person_name("artist"), compare.edit("Album"), compare.year("when"), compare.edit("title")]
    assert [find_family(field) for field in fields] == [RELEASES, RELEASES, RELEASES, -1]


def test_songs_of_one_album_agree_in_more_than_chance_would_make():
    """Albums share artist and year: who counts these three times takes all songs of an album for one."""
    rng = np.random.default_rng(5)
    n = 60_000
    levels = np.where(rng.random((n, 5)) < 0.005, 0, 6)
    of_one_album = rng.random(n) < 0.005
    levels[of_one_album, 2:] = 0
    features = features_at(levels)
    song = features_at(np.array([[6, 6, 0, 0, 0]]))
    said = {}
    for family in (-1, RELEASES):
        layout = Layout(np.ones(5), np.full(5, -1), np.arange(5), np.array([-1, -1, *[family] * 3]))
        table = Evidence(layout, np.zeros((5, N_LEVELS))).in_table(features, features, n)
        said[family] = float(table.log_ratio(song)[0] + table.log_odds_of_match)
    assert said[RELEASES] < said[-1] - 2.0
    assert said[RELEASES] < 0.0


def test_what_comparisons_add_sums_up_to_the_log_ratio():
    rng = np.random.default_rng(2)
    features = some_features(rng)
    table = TableEvidence(LAYOUT, rng.normal(size=(4, N_LEVELS)), rng.normal(size=4))
    parts = table.by_comparison(features)
    np.testing.assert_allclose(parts.sum(axis=1), table.log_ratio(features), atol=1e-9)
    assert (parts[np.isnan(features[:, :4])] == 0).all()
    assert (parts[:, 3] == 0).all()


def test_the_middle_of_a_level_is_in_it():
    levels = np.arange(N_LEVELS)
    assert levels_of(features_at(levels)[:, None], 1).tolist() == [[1.0] * N_LEVELS]


def test_many_rows_are_thinned_evenly(monkeypatch):
    assert len(thin(np.zeros((10, 1), np.float32))) == 10
    monkeypatch.setattr(module, "MOST_COUNTED", 100)
    kept = thin(np.arange(450, dtype=np.float32)[:, None])
    assert kept[:, 0].tolist() == list(range(0, 450, 5))


# ---- rarity, missing values, shares ----


def test_a_rare_value_that_is_shared_says_more():
    layout = plain_layout([1.0], [1])
    table = TableEvidence.of(layout, TYPICAL[None], STRANGERS[None])
    features = np.array([[0.0, 2.0], [0.0, 7.0], [0.0, np.nan], [0.0, 0.0], [0.6, 7.0]], np.float32)
    common, rare, unknown, none, different = table.log_ratio(features)
    # Members agree as often as on any value, strangers as often as the value occurs.
    assert common == pytest.approx(np.log(TYPICAL[0]) + 2.0)
    assert rare == pytest.approx(common + 5.0)
    assert unknown == none == pytest.approx(np.log(TYPICAL[0] / STRANGERS[0]))
    assert different == pytest.approx(np.log(TYPICAL[5] / STRANGERS[5]))


def test_missing_values_say_nothing():
    table = TableEvidence(LAYOUT, np.full((4, N_LEVELS), 3.0), np.full(4, 5.0))
    assert table.log_ratio(np.full((1, 6), np.nan, np.float32)).tolist() == [0.0]
    assert levels_of(np.full((3, 6), np.nan, np.float32), 4).sum() == 0


def test_comparisons_of_one_column_count_as_one():
    layout = Layout.of([["name"], ["city"], ["name"], None], [-1, -1, -1, -1])
    assert layout.share.tolist() == [0.5, 1.0, 0.5, 0.0]
    assert layout.n_comparisons == 4
    assert layout.group[0] == layout.group[2] != layout.group[1]
    table = TableEvidence(layout, np.full((4, N_LEVELS), 2.0), np.zeros(4))
    assert table.log_ratio(np.zeros((1, 4), np.float32)).tolist() == [4.0]


# ---- what members look like ----


def members_after(counts: np.ndarray) -> np.ndarray:
    found = Evidence(plain_layout([1.0], [-1]), counts[None]).members(STRANGERS[None])[0]
    assert found.sum() == pytest.approx(1)
    return found


def test_before_any_label_members_look_typical_but_for_a_doubt():
    expected = DESCRIBES_THE_THING * TYPICAL + (1 - DESCRIBES_THE_THING) * STRANGERS
    np.testing.assert_allclose(members_after(np.zeros(N_LEVELS)), expected)


def test_labels_decide_whether_a_column_describes_the_thing():
    # Twenty pairs that look like strangers: the column tells nothing. Twenty close ones: it does.
    n = 20.0
    occasion, thing = members_after(n * STRANGERS), members_after(n * TYPICAL)
    np.testing.assert_allclose(occasion, STRANGERS, atol=0.01)
    np.testing.assert_allclose(thing, TYPICAL, atol=0.01)


def test_many_labels_replace_what_is_typical():
    odd = np.array([0.0, 0.0, 0.9, 0.0, 0.0, 0.0, 0.1])
    np.testing.assert_allclose(members_after(1e6 * odd), odd, atol=1e-4)
    # Ten labelled pairs are between the two.
    few = members_after(10 * odd)
    assert TYPICAL[2] < few[2] < 0.9
    assert few.min() > 0


def test_a_cluster_of_n_counts_as_n_minus_one_pairs():
    cluster = np.repeat([0, 1, 2], [4, 2, 1])
    left, right = np.triu_indices(7, k=1)
    together, weight = member_weights(cluster, left, right)
    assert (together == (cluster[left] == cluster[right])).all()
    assert weight[together & (cluster[left] == 0)].sum() == pytest.approx(3)
    assert weight[together & (cluster[left] == 1)].sum() == pytest.approx(1)
    assert (weight[~together] == 0).all()


def test_counts_are_learned_from_members_alone_and_can_be_taken_away():
    rng = np.random.default_rng(3)
    features = some_features(rng)
    weight = np.where(rng.random(len(features)) < 0.3, rng.random(len(features)), 0.0)
    found = Evidence.learn(LAYOUT, features, weight)
    np.testing.assert_allclose(found.counts, level_counts(features, 4, weight))
    half = np.arange(len(features)) < 200
    rest = found.without(level_counts(features[half], 4, weight[half])).counts
    np.testing.assert_allclose(rest, level_counts(features[~half], 4, weight[~half]), atol=1e-9)
    assert (found.without(found.counts + 1).counts == 0).all()


def table_of_copies(rng: np.random.Generator, members: np.ndarray, rate: float = 0.01) -> tuple[Any, np.ndarray]:
    """Pairs by comparisons of which members have these shares of levels, and which of them are matches."""
    n = 60_000
    matches = rng.random(n) < rate
    shares = np.where(matches[:, None, None], members, RARELY_EQUAL).cumsum(axis=2)
    levels = (rng.random((n, len(members), 1)) > shares).sum(axis=2).clip(0, N_LEVELS - 1)
    return features_at(levels), matches


def test_without_labels_a_table_shows_how_reliable_its_columns_are():
    # The first column never differs among matches, the second looks as it does among strangers, the rest is typical.
    never = np.array([0.9, 0.07, 0.03, 0.0, 0.0, 0.0, 0.0])
    members = np.array([never, RARELY_EQUAL, *np.tile(TYPICAL, (4, 1))])
    features, matches = table_of_copies(np.random.default_rng(9), members)
    layout = plain_layout(np.ones(6), np.full(6, -1))
    nothing = Evidence(layout, np.zeros((6, N_LEVELS)))
    table = nothing.in_table(features, features, len(features))
    before = TableEvidence.of(layout, nothing.members(np.tile(RARELY_EQUAL, (6, 1))), RARELY_EQUAL[None])
    # To differ in the first speaks against a match by more nats than it did, and the second tells little.
    assert table.ratio[0, -1] < before.ratio[0, -1] - 1.5
    assert np.abs(table.ratio[1]).max() < 1.2 < before.ratio[1, 0]
    assert table.match_rate == pytest.approx(matches.mean(), rel=0.1)

    def loss(ratios: np.ndarray) -> float:
        odds = ratios + log_odds(matches.mean())
        return float(np.logaddexp(0.0, np.where(matches, -odds, odds)).sum())

    assert loss(table.log_ratio(features)) < 0.8 * loss(before.log_ratio(features))


def test_few_sure_pairs_count_little_and_many_no_more_than_so_many():
    layout = plain_layout(np.ones(6), np.full(6, -1))
    nothing = Evidence(layout, np.zeros((6, N_LEVELS)))
    members = np.tile(TYPICAL, (6, 1))
    for n, most in ((20_000, 3.0 * 400), (400, 8.0)):
        features = table_of_copies(np.random.default_rng(10), members)[0][:n]
        table = nothing.in_table(features, features, n)
        seen, counted = table.count_sure_levels(features), nothing.with_sure_pairs(table, features).counts
        assert 0 < seen.sum(axis=1).max() < most
        assert (counted.sum(axis=1) <= np.minimum(seen.sum(axis=1), MOST_SURE) + 1e-9).all()


def test_sure_pairs_count_less_the_more_pairs_are_labelled():
    layout = plain_layout(np.ones(6), np.full(6, -1))
    features = table_of_copies(np.random.default_rng(10), np.tile(TYPICAL, (6, 1)))[0]
    added = []
    for n in (0.0, MANY_LABELLED, 9.0 * MANY_LABELLED):
        known = Evidence(layout, np.full((6, N_LEVELS), n / N_LEVELS))
        table = Evidence(layout, np.zeros((6, N_LEVELS))).in_table(features, features, len(features))
        added.append((known.with_sure_pairs(table, features).counts - known.counts).sum(axis=1))
    np.testing.assert_allclose(added[1], added[0] / 2.0)
    np.testing.assert_allclose(added[2], added[0] / 10.0)


# ---- the match rate ----


@pytest.mark.parametrize("rate", [0.0005, 0.005, 0.1])
def test_the_match_rate_of_simulated_pairs_is_found(rate: float):
    # Normal log-ratios of which the density ratio is exp(value). The estimate has a standard error of at most
    # 2 sqrt(rate / n): the tolerance is more than five of them for the smallest rate (error rate below 1e-6).
    rng = np.random.default_rng(4)
    n, gap = 2_000_000, 4.0
    matches = rng.random(n) < rate
    values = np.where(matches, 0.5, -0.5) * gap**2 + gap * rng.standard_normal(n)
    assert match_rate(values, n) == pytest.approx(rate, rel=0.35)
    # Pairs that are hardly matches need not be given.
    assert match_rate(values[values > -6.0], n) == pytest.approx(rate, rel=0.35)


def test_the_match_rate_keeps_its_bounds():
    sure, never = np.full(1000, 50.0), np.full(1000, -50.0)
    assert match_rate(sure, 1000) == LARGEST_RATE
    assert match_rate(never, 1000) == pytest.approx(0.0, abs=1e-12)
    assert match_rate(never, 1000) >= SMALLEST_RATE
    assert match_rate(sure, 1000, (0.01, 0.05)) == 0.05
    assert match_rate(never, 1000, (0.01, 0.05)) == 0.01
    assert match_rate(np.zeros(0), 0) >= SMALLEST_RATE


def test_log_odds_are_finite_at_the_ends():
    assert log_odds(0.5) == 0
    assert np.isfinite([log_odds(0.0), log_odds(1.0)]).all()
    assert TableEvidence(LAYOUT, np.zeros((4, 7)), np.zeros(4), 0.2).log_odds_of_match == pytest.approx(np.log(0.25))


@pytest.mark.parametrize("rate", [0.0, 0.15])
def test_strangers_of_a_dense_table_are_seen_through_its_matches(rate: float):
    # Random pairs of a dense table are in part matches, which make strangers look closer than they are.
    rng = np.random.default_rng(5)
    n, n_comparisons = 60_000, 4
    matches = rng.random(n) < rate
    shares = np.where(matches[:, None, None], TYPICAL, STRANGERS).cumsum(axis=2)
    levels = (rng.random((n, n_comparisons, 1)) > shares).sum(axis=2).clip(0, N_LEVELS - 1)
    features = features_at(levels)
    layout = plain_layout(np.ones(n_comparisons), np.full(n_comparisons, -1))
    known = Evidence(layout, np.tile(2000 * TYPICAL, (n_comparisons, 1)))
    table = known.in_table(features, features, n)
    truth = np.log(TYPICAL) - np.log(STRANGERS)
    mixture = np.log(TYPICAL) - np.log(rate * TYPICAL + (1 - rate) * STRANGERS)
    # The log of a share of one in a hundred has a standard error of 0.05 here: the tolerance is seven of them.
    assert np.abs(table.ratio - truth).max() < 0.35
    assert table.match_rate == pytest.approx(rate, abs=0.01)
    if rate:
        assert np.abs(mixture - truth).max() > 1.0


def test_nothing_to_look_at_is_no_table_of_matches():
    layout = plain_layout(np.ones(2), np.full(2, -1))
    nothing = np.zeros((0, 2), np.float32)
    table = Evidence(layout, np.zeros((2, N_LEVELS))).in_table(nothing, nothing, 0)
    assert np.isfinite(table.ratio).all()
    assert 0 < table.match_rate <= LARGEST_RATE


def test_parts_of_an_address_go_together_until_a_table_tells_otherwise():
    def nats(seen: float, first: float, second: float, total: float) -> float:
        return float(lift_of_places(*(np.array(n) for n in (seen, first, second, total))))

    # Two strangers of 45,000 pairs share the street: who shares it shares the town, which one pair in 100 does.
    assert nats(2, 2, 450, 45_000) == pytest.approx(np.log(0.75 / 0.01), abs=0.01)
    assert nats(0, 0, 450, 45_000) == pytest.approx(np.log(0.5 / 0.01), abs=0.01)
    # A thousand strangers that share one part and hardly ever the other: they are independent.
    assert nats(10, 1_000, 10_000, 1_000_000) == pytest.approx(np.log(11 / 1002 / 0.01), abs=0.01)
    assert nats(0, 1_000, 10_000, 1_000_000) < 0
