"""Discrete likelihoods: clusters and pseudo-counts against exact enumeration and prior simulation, and the estimator.

p-values are asserted above 1e-3; see test_discount_gold for what that means.
"""

from __future__ import annotations

import numpy as np
import pytest

import counts_gold
from gold_tools import FALSE_ALARM, chi_square, partition_codes
from scdp import SCDP
from scdp.chains.counts import log_joint_of_counts
from scdp.errors import InputError
from twins import exact, likelihood

KINDS = ("beta-binomial", "dirichlet-multinomial")
each_kind = pytest.mark.parametrize("kind", KINDS)


@each_kind
@pytest.mark.parametrize("layout", ["missing values", "two documents"])
def test_clusters(layout: str, kind: str):
    found = counts_gold.check_clusters(layout, kind)
    assert min(found.values()) > FALSE_ALARM, found


@each_kind
def test_pseudo_counts(kind: str):
    found = counts_gold.check_pseudo_counts(kind)
    assert min(found.values()) > FALSE_ALARM, found


@each_kind
def test_the_log_joint_tells_partitions_apart_as_the_twin_does(kind: str):
    laid_out, rows, probability = counts_gold.problem("missing values", kind)
    rng = np.random.default_rng(0)
    priors = np.ones(4)
    found = [
        log_joint_of_counts(
            laid_out.items,
            counts_gold.state_of(laid_out, counts_gold.random_slots(rng, laid_out, row), counts_gold.PSEUDO[kind]),
            priors,
        )
        for row in rows
    ]
    np.testing.assert_allclose(exact.normalize(np.array(found)), probability, atol=1e-12)


@pytest.mark.filterwarnings("ignore::UserWarning")
@each_kind
def test_the_estimator_samples_the_exact_posterior(kind: str):
    """cdp: pseudo-counts of 1, a concentration of 1; every eighth of 24,000 sweeps."""
    counts = np.array([[2.0, 0], [1, 1], [0, 2], [2, 1]])
    model = SCDP("cdp", likelihood=kind, n_chains=1, n_sweeps=24_000, random_state=0)
    draws = model.fit(counts).posterior_.draws[0][::8]
    rows, groups = exact.partitions(4), np.zeros(4, int)
    pseudo = np.ones((2 if kind == "beta-binomial" else 1, 2))
    weights = [
        likelihood.partition_log_prior(row, groups, 1.0)
        + sum(counts_gold.log_marginal(counts[row == k], np.array([2.0, 2.0]), pseudo) for k in np.unique(row))
        for row in rows
    ]
    p = chi_square(partition_codes(draws), partition_codes(rows), exact.normalize(np.array(weights)))
    assert p > FALSE_ALARM


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_known_clusters_teach_which_features_tell(tmp_path):
    """Feature 0 is a cluster's own and feature 1 is not: pseudo-counts of the first are small, of the second large."""
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(12), 6)
    own = np.arange(12)[truth] % 2
    X = np.column_stack([8.0 * own, rng.binomial(8, 0.5, 72)])
    X[0], X[6] = (0, 8), (8, 0)
    y = np.where(truth < 10, truth, -1)
    model = SCDP("scdp1", likelihood="beta-binomial", n_chains=2, n_sweeps=80, random_state=0).fit(X, y)
    pseudo = model.fitted_.end.pseudo_counts
    assert pseudo[:, 0].max() < 1 < pseudo[:, 1].min()
    assert len(set(model.labels_[truth == 10])) == 1
    assert model.labels_[-1] != model.labels_[truth == 10][0]
    model.save(tmp_path / "model")
    again = SCDP.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(X[60:]), model.predict(X[60:]))


def test_what_is_no_count_is_refused():
    with pytest.raises(InputError, match=r"row 1, column 0 is 0\.5"):
        SCDP("cdp", likelihood="beta-binomial").fit(np.array([[1.0], [0.5]]))
    with pytest.raises(InputError, match="row 0, column 1 is missing"):
        SCDP("cdp", likelihood="dirichlet-multinomial").fit(np.array([[1.0, np.nan], [0, 1]]))
    with pytest.raises(InputError, match="use model='cdp' or 'scdp1'"):
        SCDP("scdp2", likelihood="beta-binomial").fit(np.zeros((3, 1)))
    with pytest.raises(InputError, match="takes vectors of counts"):
        SCDP(likelihood="beta-binomial", metric="precomputed").fit(np.zeros((3, 3, 1)))
