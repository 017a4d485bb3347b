"""Learning from answers to questions: pairs that people have compared enter; new members of the ensemble leave.

Questions are chosen by how records look, so answered pairs are no sample of the table: near misses are many among them.
That does no harm as long as the law judges each answered pair as it stands in its table, by the evidence and the match
rate there. Only compared pairs teach: two records that nobody compared may be duplicates, and are not taught as
strangers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from scdp._parallel import StepProgress
from scdp._typing import Integers
from scdp.compare.features import Pairs
from scdp.conditions import Conditions
from scdp.linkage import Ensemble
from scdp.linkage.training.folds import N_ORDERS, PreparedFold, TrainingFold, sample_matches
from scdp.linkage.training.posterior import MODE_STEPS, PRIOR_SPREAD, UNTUNED, Prior, draw_members, maximise
from scdp.table.decisions import Constraints


class ComparedPairs(NamedTuple):
    """Rows that answers name, the cluster of each as far as it is known, and all pairs that were compared.

    `left` and `right` are places among `rows`. Pairs within a cluster are the same; all others are different.
    """

    rows: Integers
    cluster: Integers
    left: Integers
    right: Integers

    @classmethod
    def of(cls, constraints: Constraints | Conditions) -> ComparedPairs:
        """All that follows: with one record of a group, every record of the group was compared."""
        named = np.flatnonzero(constraints.group >= 0)
        rows = np.unique(np.concatenate([named, constraints.left, constraints.right]))
        group = constraints.group[rows]
        alone = np.flatnonzero(group < 0)
        cluster = group.copy()
        cluster[alone] = group.max(initial=-1) + 1 + np.arange(len(alone))
        cluster = np.unique(cluster, return_inverse=True)[1].astype(np.int64)
        members = [np.flatnonzero(cluster == number) for number in range(int(cluster.max(initial=-1)) + 1)]
        left, right = [], []
        for places in members:
            one, other = np.triu_indices(len(places), k=1)
            left.append(places[one])
            right.append(places[other])
        ends = (np.searchsorted(rows, end) for end in (constraints.left, constraints.right))
        apart = {(int(cluster[one]), int(cluster[other])) for one, other in zip(*ends, strict=True)}
        for one_cluster, other_cluster in sorted(apart):
            first, second = np.meshgrid(members[one_cluster], members[other_cluster], indexing="ij")
            left.append(first.ravel())
            right.append(second.ravel())
        none = np.zeros(0, dtype=np.int64)
        one, other = np.concatenate([none, *left]), np.concatenate([none, *right])
        return cls(rows, cluster, np.minimum(one, other), np.maximum(one, other))


def learn_from_answers(
    ensemble: Ensemble, compared: ComparedPairs, pairs: Pairs, n_records: int, seed: int, n_jobs: int = 1
) -> Ensemble:
    """The ensemble with members that have learned from compared pairs, by their features.

    Parameters
    ----------
    ensemble : Ensemble
        Of the prior, set to the table; its own members are not looked at.
    compared : ComparedPairs
        The clusters of the rows that were compared.
    pairs : Pairs
        The compared pairs, with their features in the table.
    n_records : int
        Of the table.
    seed, n_jobs : int
        Of the draws of members, and threads.
    """
    n_features = len(ensemble.knots.at)
    empty = TrainingFold(pairs, np.zeros(0, dtype=np.int64), None, ())
    prior = Prior.of(ensemble.knots, ensemble.knots.sign, ensemble.evidence is not None, [empty], PRIOR_SPREAD)
    assert prior.n_features == n_features
    rng = np.random.default_rng([seed, 11])
    orders = tuple(rng.permutation(len(compared.rows)) for _ in range(N_ORDERS))
    floor = 0.0 if ensemble.floors is None else float(ensemble.floors.mean())
    known = Pairs(pairs.n_items, pairs.left, pairs.right, pairs.features[:, :0])
    places, third = ensemble.places(pairs.features), ensemble.third
    fold = PreparedFold(places, known, compared.cluster, orders, ensemble.log_odds, floor, third=third)
    mode = maximise([fold], prior, prior.mean, None, MODE_STEPS)
    members = draw_members(
        [fold], prior, mode, UNTUNED, len(ensemble.members), seed, n_jobs, StepProgress(None, 0).step
    )
    matches = sample_matches([empty._replace(cluster=compared.cluster)], n_records, None, rng)
    return replace(ensemble, members=members, matches=matches if len(matches.weight) else None)
