"""Diagnostics: what they say of chains that agree, that differ, that never move, and of very short ones."""

from __future__ import annotations

import math

import numpy as np
import pytest

from scdp.posterior import ConvergenceWarning, Posterior
from scdp.posterior.recorder import choose_pairs, diagnose_scalar, trace_shapes


def mixed(n_chains=4, n_draws=400, seed=0):
    """Chains that draw independently from one law."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 6, 30)
    noise = rng.random((n_chains, n_draws, 30)) < 0.2
    return np.where(noise, rng.integers(0, 8, noise.shape), truth)


def test_chains_that_agree_are_not_warned_about():
    rng = np.random.default_rng(1)
    post = Posterior(mixed(), {"alpha_cluster": rng.gamma(2.0, size=(4, 400))})
    rows = {row.name: row for row in post.diagnostics()}
    assert list(rows)[:4] == ["alpha_cluster", "n_clusters", "largest_cluster", "partition_entropy"]
    assert len(rows) == 24
    assert all(0.98 < row.rhat < 1.05 for row in rows.values())
    assert rows["alpha_cluster"].mean == post.traces["alpha_cluster"].mean()
    # Independent draws: about as many effective draws as there are.
    assert 800 < rows["alpha_cluster"].ess_bulk < 3200
    error = rows["alpha_cluster"].sd / math.sqrt(1600)
    assert rows["alpha_cluster"].mcse == pytest.approx(error, rel=0.4)
    assert post.convergence_warning() is None


def test_chains_that_differ_are_named_in_words():
    draws = mixed()
    draws[0, :, :15] = 0
    post = Posterior(draws, {"log_joint": np.random.default_rng(2).normal(size=(4, 400))})
    message = post.convergence_warning()
    assert "the number of clusters (R-hat " in message
    assert "the size of the largest cluster" in message
    assert "of 20 pairs" in message
    assert "log joint" not in message
    assert message.endswith("run more sweeps (n_sweeps).")
    assert issubclass(ConvergenceWarning, UserWarning)


def test_one_chain_is_split():
    drifting = np.concatenate([mixed(1, 200), np.zeros((1, 200, 30), int)], axis=1)
    message = Posterior(drifting).convergence_warning()
    assert "the number of clusters" in message
    assert "more than one chain (n_chains)" in message
    assert Posterior(mixed(1, 800)).convergence_warning() is None


def test_constants_are_converged_when_equal_and_stuck_when_not():
    same = diagnose_scalar("x", np.full((2, 50), 3.0))
    assert (same.mean, same.sd, same.rhat, same.mcse, same.ess_bulk) == (3.0, 0.0, 1.0, 0.0, 100.0)
    stuck = diagnose_scalar("x", np.repeat([[1.0], [2.0]], 50, axis=1))
    assert stuck.rhat == math.inf
    assert stuck.ess_bulk == 2.0
    draws = np.zeros((2, 50, 3), int)
    draws[1, :, 2] = 1
    assert "(R-hat inf)" in Posterior(draws).convergence_warning()


def test_a_two_valued_scalar_has_an_r_hat():
    values = np.tile([0.0, 1.0], (2, 50))
    assert diagnose_scalar("x", values).rhat == pytest.approx(1.0, abs=0.05)
    values[0, :] = 0.0
    assert diagnose_scalar("x", values).rhat > 1.05


def test_what_is_not_finite_is_not_judged():
    values = np.random.default_rng(0).normal(size=(2, 20))
    values[0, 3] = -np.inf
    assert math.isnan(diagnose_scalar("x", values).rhat)


@pytest.mark.parametrize(("n_chains", "n_draws"), [(1, 1), (1, 2), (1, 5), (2, 1), (2, 3), (3, 4), (1, 8)])
def test_short_chains_do_not_crash(n_chains, n_draws):
    post = Posterior(mixed(n_chains, n_draws), {"alpha_cluster": np.ones((n_chains, n_draws))})
    assert len(post.diagnostics()) > 4
    message = post.convergence_warning()
    if n_chains * n_draws < 8:
        assert "too few to judge" in message


def test_pairs_prefer_what_draws_disagree_about_and_stay_the_same():
    # 400 items, all singletons but one pair that is together in half the draws.
    draws = np.tile(np.arange(400), (2, 60, 1))
    draws[:, ::2, 17] = draws[:, ::2, 203]
    stored = Posterior(draws).stored
    pairs = choose_pairs(stored)
    assert pairs[0] == (17, 203)
    assert len(set(pairs)) == 20
    assert pairs == choose_pairs(stored)


def test_shape_of_the_hidden_partition():
    draws = np.array([[[0, 0, 0, 1, 2], [0, 0, 0, 1, 1]]])
    largest, entropy = trace_shapes(Posterior(draws, fixed=[0, 0, 0, -1, -1]).stored)
    assert largest.tolist() == [[1.0, 2.0]]
    assert entropy[0] == pytest.approx([math.log(2), 0.0])


def test_no_or_one_hidden_item():
    for fixed in ([1, 1, 2], [1, 1, -1]):
        rows = Posterior(np.tile([0, 0, 1], (2, 9, 1)), fixed=fixed).diagnostics()
        assert all(row.rhat == 1.0 for row in rows)
