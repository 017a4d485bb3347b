"""Which proposed comparisons are taken: what labelled clusters that are held out say of each."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy.optimize import minimize

from scdp import EntityResolver, Spec, compare
from scdp.compare.features import Columns, Comparer
from scdp.linkage.training.selection import (
    FEWEST_TO_CHOOSE,
    SPREAD,
    SPREAD_OF_CONSTANT,
    Half,
    Selection,
    _evidence_weights,
    _fit_weights,
    _levels,
    learn_table,
    select_comparisons,
)
from scdp.table import Records, records_from

N_CLUSTERS = 120
LETTERS = np.array(list("abcdefghijklmnopqrstuvwxyz"))


@cache
def misspelt(seed: int = 7) -> tuple[Records, np.ndarray]:
    """Two records of each cluster: one letter of a code differs, and a mark and a note say nothing."""
    rng = np.random.default_rng(seed)
    codes = ["".join(rng.choice(LETTERS, 12)) for _ in range(N_CLUSTERS)]
    rows, clusters = [], []
    for cluster, code in enumerate(codes):
        for _ in range(2):
            place = int(rng.integers(len(code)))
            rows.append(
                {
                    "code": code[:place] + str(rng.choice(LETTERS)) + code[place + 1 :],
                    "mark": str(rng.choice(LETTERS[:3])),
                    "note": "".join(rng.choice(LETTERS, 8)),
                }
            )
            clusters.append(cluster)
    return records_from(rows), np.array(clusters)


USUAL = (compare.exact("code"), compare.exact("mark"), compare.exact("note"))


def taken(*further: compare.Comparison, usual: tuple[compare.Comparison, ...] = USUAL, seed: int = 0) -> list[str]:
    records, cluster = misspelt(seed)
    every = (*usual, *further)
    kept = select_comparisons(records, every, len(usual), cluster, None, 0)
    return [every[number].name for number in kept]


def test_a_comparison_that_clearly_helps_is_taken():
    assert taken(compare.edit("code")) == ["exact(code)", "exact(mark)", "exact(note)", "edit(code)"]


def test_a_comparison_of_noise_is_hardly_ever_taken():
    # One of two is taken by chance in about one of twenty: four of twelve or more have a probability of .002.
    found = [taken(compare.edit("note"), compare.jaro_winkler("note"), seed=seed) for seed in range(12)]
    assert sum(len(names) > len(USUAL) for names in found) < 4


def test_of_two_that_say_the_same_one_stays():
    twice = (compare.edit("code"), compare.edit("code", name="again"), *USUAL[1:])
    names = taken(usual=twice)
    assert ("edit(code)" in names) != ("again" in names)
    assert names[-2:] == [field.name for field in USUAL[1:]]


def test_few_labelled_clusters_change_nothing():
    records, cluster = misspelt()
    few = cluster < FEWEST_TO_CHOOSE - 1
    every = (*USUAL, compare.edit("code"))
    assert select_comparisons(records.take(np.flatnonzero(few)), every, 3, cluster[few], None, 0) == (0, 1, 2)


def test_groups_are_compared_within_themselves():
    records, cluster = misspelt()
    every = (*USUAL, compare.edit("code"))
    assert select_comparisons(records, every, 3, cluster, cluster % 5, 0) == (0, 1, 2, 3)


@cache
def halves() -> tuple[Columns, Half, Half]:
    records, cluster = misspelt()
    columns = Columns.of((*USUAL, compare.edit("code")))
    comparer = Comparer.of(records, columns.fields)
    rng = np.random.default_rng(0)
    one, other = (
        Half.of(columns, comparer.compare_some(rows, None), cluster[rows], rng)
        for rows in (np.flatnonzero(cluster % 2 == k) for k in (0, 1))
    )
    return columns, one, other


def test_pairs_that_are_looked_at_stand_for_all():
    _, one, _ = halves()
    n = N_CLUSTERS
    assert one.weight[one.together].sum() == pytest.approx(n / 2)
    assert one.weight[~one.together].sum() == pytest.approx(n * (n - 1) / 2 - n / 2)


def test_levels_and_weights_make_the_evidence():
    columns, one, other = halves()
    table = learn_table(columns, other.features, other.member_weight, other.weight)
    made = _levels(table, one.features)[:, :-1] @ _evidence_weights(table)
    np.testing.assert_allclose(made, table.log_ratio(one.features), atol=1e-5)


def test_weights_are_at_the_mode():
    columns, one, _ = halves()
    table = learn_table(columns, one.features, one.member_weight, one.weight)
    prior, levels = _evidence_weights(table), _levels(table, one.features)
    centre = np.append(prior, np.log(one.match_share) - np.log1p(-one.match_share))
    spread = np.append(np.full(len(prior), SPREAD), SPREAD_OF_CONSTANT)

    def cost(weights: np.ndarray) -> float:
        odds = levels @ weights
        losses = one.weight * np.logaddexp(0.0, np.where(one.together, -odds, odds))
        return float(losses.sum() + 0.5 * (((weights - centre) / spread) ** 2).sum())

    found = _fit_weights(levels, one, prior)
    assert cost(found) <= minimize(cost, centre, method="BFGS").fun + 0.05


def test_the_loss_is_that_of_the_other_half():
    columns, one, other = halves()
    every = Selection(columns, (one, other))
    judged, plain = every.judge((0, 1, 2, 3)), every.judge((0, 1, 2))
    assert judged.by_cluster.shape == (N_CLUSTERS,)
    assert judged.clearly_better(plain)
    assert not plain.clearly_better(judged)


def test_comparisons_chosen_by_hand_all_stay():
    records, cluster = misspelt()
    model = EntityResolver(spec=Spec(fields=[*USUAL, compare.exact("code", name="again")]), n_draws=8, random_state=0)
    model.fit(records, cluster)
    assert model.n_features_in_ == 4


def test_a_proposal_takes_what_helps_and_is_kept(tmp_path):
    records, cluster = misspelt()
    spec = Spec(fields=USUAL, further=[compare.edit("code"), compare.edit("note")])
    model = EntityResolver(spec=spec, n_draws=8, random_state=0).fit(records, cluster)
    names = ("exact(code)", "exact(mark)", "exact(note)", "edit(code)")
    assert model.fitted_spec_.names == names
    assert model.fitted_spec_.further is None
    assert model.n_features_in_ == len(names)
    model.save(tmp_path / "model")
    loaded = EntityResolver.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(records), model.predict(records))
