"""OracleKMeans, XingK and DPMixture: right where they must be, wrong in the known way, and convex programs solved."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from baseline_cases import PLUS_SPREADS, PLUS_TEST, PLUS_TRAINING, as_distances, blobs, pluses
from scdp.compare.distances import PairLayout
from scdp.errors import InputError
from scdp.metrics import f_score
from scdp.paper.baselines import RCA, DPMixture, OracleKMeans, XingK
from scdp.paper.simple import covariance_within, variance_within
from scdp.paper.surface import PairTable
from scdp.paper.xing_k import (
    add_ridge,
    diagonal_objective,
    full_objective,
    learn_by_program,
    learn_diagonal,
    learn_full,
    project_positive,
)


@pytest.mark.parametrize("kind", [lambda X: X, as_distances], ids=["vectors", "distances"])
@pytest.mark.parametrize("system", [OracleKMeans, XingK, RCA], ids=["k-means", "xing", "rca"])
def test_told_the_number_it_finds_tight_clusters(system, kind):
    (X, y), (X_test, y_test) = blobs(0, 8), blobs(1, 6)
    model = system().fit(kind(X), y)
    assert f_score(y_test, model.predict(kind(X_test), gold=y_test)) == 1
    model = system(n_clusters=6, **({"setting": "0"} if system is XingK else {})).fit(kind(X), y)
    assert f_score(y_test, model.predict(kind(X_test))) == 1


@pytest.mark.parametrize("system", [OracleKMeans, XingK, RCA])
def test_an_oracle_that_is_told_nothing_says_so(system):
    X, y = blobs(0, 5)
    with pytest.raises(InputError, match="oracle"):
        system().fit(X, y).predict(X)


def test_each_document_gets_its_own_number():
    X, y = blobs(0, 5)
    groups = np.where(y < 2, "first", "second")
    labels = OracleKMeans().fit_predict(X, y, groups)
    assert f_score(y, labels) == 1
    gold = np.where(y < 2, 0, y)
    labels = OracleKMeans().fit(X).predict(X, groups, gold=gold)
    assert f_score(gold, labels) == 1


def test_missing_values_go_through_distances():
    X, y = blobs(3, 6, n_features=4)
    X[:, 2:] = X[:, :2]
    rng = np.random.default_rng(0)
    X[np.arange(len(X)), rng.integers(0, 4, len(X))] = np.nan
    for kind in (X, as_distances(X)):
        labels = OracleKMeans(n_starts=40).fit(kind).predict(kind, gold=y)
        assert f_score(y, labels) > 0.95


def test_k_means_cuts_long_stripes_across():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 100)
    X = np.column_stack([rng.uniform(-20, 20, 200), y + rng.normal(0, 0.05, 200)])
    assert f_score(y, OracleKMeans().fit(X).predict(X, gold=y)) < 0.6
    # The same stripes are easy for a metric that has learned to look at one axis only.
    learned = XingK(form="diagonal", ridge=0.001).fit(X, y)
    assert f_score(y, learned.predict(X, gold=y)) == 1


def test_xing_cannot_separate_axis_aligned_pluses():
    (X, y), (X_test, y_test) = pluses(0, PLUS_TRAINING), pluses(1, PLUS_TEST)
    for form in ("full", "diagonal"):
        model = XingK(form=form).fit(X, y)
        assert f_score(y_test, model.predict(X_test, gold=y_test)) < 0.8
    # They can be told apart: by the density of two types, one along each axis, round the true centres.
    away = (X_test[:, None, None] - np.array(PLUS_TEST)[:, None]) / PLUS_SPREADS
    nearest = (away**2).sum(axis=3).min(axis=2)
    assert f_score(y_test, nearest.argmin(axis=1)) > 0.9


def test_xing_reports_what_it_used_and_chose():
    X, y = blobs(0, 8)
    model = XingK(max_pairs=50).fit(X, y)
    n_similar = 8 * 8 * 7 // 2
    assert model.pairs_available_ == (n_similar, 64 * 63 // 2 - n_similar)
    assert model.pairs_used_ == (50, 50)
    model.predict(X, gold=y)
    assert model.best_setting_ in model.metrics_
    assert set(model.metrics_) == {"0", "1", "|s|/|d|", "(|s|/|d|)^2"}


def test_xing_refuses_what_it_cannot_do():
    X, y = blobs(0, 5)
    for wrong, match in [({"form": "round"}, "neither"), ({"setting": "2"}, "not one of")]:
        with pytest.raises(InputError, match=match):
            XingK(**wrong).fit(X, y)
    with pytest.raises(InputError, match="full form"):
        XingK(form="full").fit(as_distances(X), y)
    with pytest.raises(InputError, match="only pairs of one"):
        XingK().fit(X, np.zeros(len(X)))


def program(seed, n_features):
    rng = np.random.default_rng(seed)
    mix = rng.normal(size=(n_features, n_features))
    near, far = rng.normal(size=(40, n_features)) @ mix, rng.normal(size=(60, n_features)) * 2
    return near, far


@pytest.mark.parametrize("balance", [0.0, 0.3, 5.0, 100.0])
def test_the_diagonal_metric_is_what_a_general_solver_finds(balance):
    near, far = program(0, 4)
    similar, squares = add_ridge((near**2).mean(axis=0), 0.1), far**2
    ours = learn_diagonal(similar, squares, balance)
    solved = minimize(
        lambda a: diagonal_objective(a, similar, squares, balance),
        np.ones(4),
        method="SLSQP",
        bounds=[(1e-6, None)] * 4,
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert diagonal_objective(ours, similar, squares, balance) <= solved.fun + 1e-7
    np.testing.assert_allclose(ours, solved.x, rtol=1e-3)


@pytest.mark.parametrize("balance", [0.0, 0.3, 5.0, 100.0])
def test_the_full_metric_is_what_a_general_solver_finds(balance):
    near, far = program(1, 3)
    similar = add_ridge(near.T @ near / len(near), 0.1)
    ours = learn_full(similar, far, balance, n_steps=2000)
    lower = np.tril_indices(3)

    def of_factor(entries):
        factor = np.zeros((3, 3))
        factor[lower] = entries
        return full_objective(factor @ factor.T + 1e-9 * np.eye(3), similar, far, balance)

    solved = minimize(of_factor, np.eye(3)[lower], method="BFGS")
    assert full_objective(ours, similar, far, balance) == pytest.approx(solved.fun, abs=1e-4)


def test_with_a_large_c_it_is_the_program_of_2003():
    near, far = program(2, 3)
    similar, squares = (near**2).sum(axis=0), far**2
    # As published: least sum over similar pairs while the dissimilar ones keep a sum of distances of at least 1.
    solved = minimize(
        lambda a: similar @ a,
        np.ones(3),
        method="SLSQP",
        bounds=[(0, None)] * 3,
        constraints={"type": "ineq", "fun": lambda a: np.sqrt(squares @ np.maximum(a, 0)).sum() - 1},
        options={"ftol": 1e-16, "maxiter": 2000},
    )
    ours = learn_diagonal(similar, squares, balance=1e5)
    np.testing.assert_allclose(ours / ours.sum(), solved.x / solved.x.sum(), atol=5e-3)


def test_without_the_barrier_c_only_scales_the_metric():
    near, far = program(3, 3)
    similar, squares = (near**2).mean(axis=0), far**2

    def solve(c):
        def objective(a):
            return similar @ a - c * np.log(np.sqrt(squares @ a).sum())

        options = {"ftol": 1e-14, "maxiter": 1000}
        return minimize(objective, np.ones(3), method="SLSQP", bounds=[(1e-9, None)] * 3, options=options).x

    small, large = solve(0.5), solve(4.0)
    np.testing.assert_allclose(large, 8 * small, atol=1e-3)


def test_projection_leaves_positive_matrices_alone():
    good = np.array([[2.0, 0.5], [0.5, 1.0]])
    np.testing.assert_allclose(project_positive(good), good)
    assert np.linalg.eigvalsh(project_positive(-good)).min() > 0


def test_the_mixture_finds_gaussians_and_breaks_a_ring():
    X, y = blobs(0, 3, size=60)
    assert f_score(y, DPMixture(n_components=8).fit(X).predict(X)) > 0.95
    angle = np.linspace(0, 2 * np.pi, 300)
    ring = 10 * np.column_stack([np.cos(angle), np.sin(angle)])
    assert len(set(DPMixture().fit(ring).predict(ring))) > 3


def test_the_mixture_needs_whole_coordinates():
    X, _ = blobs(0, 3)
    with pytest.raises(InputError, match="coordinates"):
        DPMixture().fit(as_distances(X))
    X[3, 1] = np.nan
    with pytest.raises(InputError, match="row 3, column 1"):
        DPMixture().fit(X)
    assert DPMixture().fit(X[:1]).predict(X[:1]).tolist() == [0]


def test_digits_oracle_k_means_is_near_the_paper(data_or_skip):
    from scdp.paper.datasets import load_digits_task

    with data_or_skip():
        tasks = [load_digits_task(seed=seed) for seed in range(10)]
    scores = [
        f_score(t.test.clusters, OracleKMeans().fit(t.train.data).predict(t.test.data, gold=t.test.clusters))
        for t in tasks
    ]
    assert 0.5 < np.mean(scores) < 0.6


def test_variance_within_clusters_from_distances_is_that_of_coordinates():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.integers(0, 6, 40)
    layout = PairLayout.of(40, None)
    table = PairTable.of(layout, y)
    gaps = np.abs(X[table.left] - X[table.right])
    codes = np.unique(y, return_inverse=True)[1]
    np.testing.assert_allclose(variance_within(gaps, table, codes), np.diagonal(covariance_within(X, y)))


def test_rca_looks_away_from_what_varies_within_clusters():
    """Feature 1 varies ten times as much within clusters as between them: k-means follows it, RCA does not."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 30)
    X = np.column_stack([y + 0.1 * rng.normal(size=120), 10 * rng.normal(size=120)])
    assert f_score(y, OracleKMeans().fit(X).predict(X, gold=y)) < 0.5
    for kind in (X, as_distances(X)):
        assert f_score(y, RCA().fit(kind, y).predict(kind, gold=y)) > 0.95


@pytest.mark.parametrize("full", [True, False])
def test_program_of_2003_finds_the_maximum(full):
    """No random positive metric does better, and the one found is positive."""
    rng = np.random.default_rng(0)
    near, far = rng.normal(size=(200, 3)) * [1.0, 2.0, 0.5], rng.normal(size=(200, 3)) * [3.0, 1.0, 1.0]
    similar = near.T @ near / 200 if full else (near**2).mean(axis=0)
    dissimilar = far if full else far**2

    def value(metric):
        squares = np.einsum("pf,pf->p", dissimilar @ metric, dissimilar) if full else dissimilar @ metric
        return np.sqrt(np.maximum(squares, 0)).mean() / np.sqrt((similar * metric).sum())

    found = learn_by_program(similar, dissimilar)
    smallest = np.linalg.eigvalsh(found).min() if full else found.min()
    assert smallest > -1e-9
    for _ in range(500):
        half = rng.normal(size=(3, 3)) * rng.choice([0.05, 1.0], 3)
        other = half @ half.T if full else rng.gamma(0.3, size=3) + 1e-12
        assert value(other) <= value(found) * (1 + 1e-3)


def test_program_of_2003_takes_the_better_of_two():
    (X, y), (X_test, y_test) = blobs(0, 8), blobs(1, 6)
    model = XingK(program="2003").fit(X, y)
    assert f_score(y_test, model.predict(X_test, gold=y_test)) == 1
    assert set(model.metrics_) == {"0", "any"}
    with pytest.raises(InputError, match="neither 'barrier' nor '2003'"):
        XingK(program="1999").fit(X, y)
