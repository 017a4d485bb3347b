"""Results of clusterings for the tests of reports: made-up citations, draws of two chains, and what was learned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scdp import compare
from scdp.datasets import make_records
from scdp.estimators.result import Calibration, ClusterResult, Learned, UncertainPair
from scdp.posterior import Posterior
from scdp.table import Records, records_from
from scdp.table.spec import Spec

SPEC = Spec(
    "paper", [compare.edit("title"), compare.edit("author"), compare.absolute("year"), compare.edit("venue")], id="id"
)


def made_draws(clusters, rng, n_chains=2, n_draws=200):
    """The true clusters, where in each draw some items are alone instead."""
    codes = np.unique(clusters, return_inverse=True)[1]
    draws = np.tile(codes, (n_chains, n_draws, 1))
    alone = rng.random(draws.shape) < np.linspace(0.0, 0.3, len(codes))
    return np.where(alone, len(codes) + np.arange(len(codes)), draws)


def made_calibration(shift=0.0):
    edges = np.linspace(0, 1, 11)
    predicted = (edges[1:] + edges[:-1]) / 2
    observed = np.clip(predicted - shift * np.sin(np.pi * predicted), 0, 1)
    count = np.array([9000, 400, 120, 60, 40, 35, 30, 0, 200, 900])
    predicted[7] = observed[7] = np.nan
    return Calibration(edges, predicted, observed, count)


def made_learned(**changes):
    learned = Learned(
        model="scdp1",
        features=("title", "author", "year", "venue"),
        n_records=120,
        n_clusters=31,
        weights=np.array([[22.0, 9.1, 0.8, 1.2], [3.0, 14.0, 120.0, 0.2], [0.01, 2.0, 5.5, 0.9]]),
        type_shares=np.array([0.7, 0.296, 0.004]),
        calibration=made_calibration(),
    )
    return replace(learned, **changes)


def made_result(n_records=120, **changes):
    """A clustering of made-up citations, with the pairs about which the draws disagree most."""
    rng = np.random.default_rng(0)
    made = make_records(n_records, kind="citations", seed=3)
    records = Records({"id": np.array(made.ids, object), **made.data.columns}, "new.csv")
    draws = made_draws(made.clusters, rng)
    traces = {
        "log_joint": np.cumsum(rng.normal(size=draws.shape[:2]), axis=1) - 4000,
        "alpha_cluster": rng.gamma(9, 1, draws.shape[:2]),
        "n_types": rng.integers(2, 6, draws.shape[:2]),
    }
    posterior = Posterior(draws, traces)
    labels = np.array([f"c{number}" for number in np.unique(made.clusters, return_inverse=True)[1]])
    result = ClusterResult(
        title="Which of these citations are of the same paper?",
        records=records,
        ids=np.array(made.ids),
        id_column="id",
        labels=labels,
        probabilities=posterior.membership_probability(np.unique(labels, return_inverse=True)[1]),
        posterior=posterior,
        spec=SPEC,
        learned=made_learned(),
        uncertain=uncertain_pairs(posterior, labels),
    )
    return replace(result, **changes)


def uncertain_pairs(posterior, labels, most=60):
    together = posterior.co_clustering_matrix()
    left, right = np.triu_indices(len(together), k=1)
    order = np.argsort(np.abs(together[left, right] - 0.5), kind="stable")[:most]
    return tuple(
        UncertainPair(int(i), int(j), float(together[i, j]), bool(labels[i] == labels[j]))
        for i, j in zip(left[order], right[order], strict=True)
    )


def two_records(left, right, **changes):
    """A clustering of two records of one field, apart in half of the draws."""
    posterior = Posterior(np.array([[[0, 0], [0, 1]] * 10] * 2))
    result = ClusterResult(
        title="Two",
        records=records_from({"name": [left, right]}),
        ids=np.array(["a", "b"]),
        id_column=None,
        labels=np.array([1, 1]),
        probabilities=np.array([0.5, 0.5]),
        posterior=posterior,
        spec=None,
        learned=made_learned(features=("name",), weights=None, type_shares=None, calibration=None),
        uncertain=(UncertainPair(0, 1, 0.5, True),),
    )
    return replace(result, **changes)
