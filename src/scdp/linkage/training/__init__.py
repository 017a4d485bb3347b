"""Learning the law: records of known clusters enter; a posterior sample of its parameters leaves.

The score of a pair is the evidence in the table plus learned functions of its features. The prior says: take the
evidence as it is, and nothing else. A few labels hardly move it, many can replace it. Members of the ensemble are draws
of the parameters: each has its own draw from the prior and its own random weights of the clusters (weighted likelihood
bootstrap), and is fitted from the mode in a few steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from scdp._parallel import Progress, StepProgress
from scdp._typing import Integers
from scdp.compare.features import Layout, Pairs
from scdp.conditions import Conditions
from scdp.linkage import GROWTH, Ensemble
from scdp.linkage.evidence import Evidence, TableEvidence
from scdp.linkage.law import third_of_sizes
from scdp.linkage.training.folds import (
    N_ORDERS,
    LabelledPairs,
    LabelledSource,
    PreparedFold,
    TrainingFold,
    check_teachable,
    learn_evidence,
    make_fold,
    make_knots,
    mean_partners,
    prepare,
    sample_matches,
    split_in_halves,
)
from scdp.linkage.training.held_out import NOTHING_HELD_OUT, HeldOut, calibrate
from scdp.linkage.training.posterior import (
    MODE_STEPS,
    PRIOR_SPREAD,
    UNTUNED,
    Prior,
    PriorSpread,
    draw_members,
    maximise,
    spread_evenly,
    spread_of_bias,
)
from scdp.linkage.trees import Trees, fit_trees
from scdp.table.decisions import Constraints

N_MEMBERS = 8
N_RESCANS = 2
# Clusters of two or more that boosted trees need: they learn from one half and are judged on the other.
FEWEST_FOR_TREES = 40
MOST_TREE_FEATURES = 60
# Without labels: how unsure the slope of the evidence and the constant of the law are.
NO_LABEL_SLOPE, NO_LABEL_BIAS = 0.1, 1.5
NO_LABEL_MERGE = -4.0


@dataclass(frozen=True)
class Choices:
    """What may be chosen: boosted trees or not (None = where they can be trained), members, rescans."""

    boosted: bool | None = None
    n_members: int = N_MEMBERS
    n_rescans: int = N_RESCANS
    spread: PriorSpread = PRIOR_SPREAD


def fit_ensemble(
    source: LabelledSource,
    cluster: Integers,
    group: Integers,
    layout: Layout | None,
    sign: Integers,
    choices: Choices,
    seed: int,
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> tuple[Ensemble, HeldOut]:
    """Learn from records whose clusters are all known. `sign` tells distances (-1) from similarities (+1).

    Without a `layout` the features are no comparisons of records, and there is no evidence to start from.
    """
    check_teachable(cluster)
    rng = np.random.default_rng(seed)
    report = StepProgress(progress, 5 + choices.n_members)
    items = source.choose(cluster, rng)
    halves = split_in_halves(cluster[items], group[items], rng)
    boosted = can_train_trees(cluster[items], len(sign)) if choices.boosted is None else choices.boosted
    boosted = boosted and len(halves) == 2
    parts = [items[half] for half in halves] or [items]
    raw = [source.pairs(part, cluster[part]) for part in parts]
    trees: tuple[Trees, ...] = ()
    if boosted:
        trees = tuple(fit_trees_on(found, cluster[part], sign, rng) for found, part in zip(raw, parts, strict=True))
    report.step()
    folds = [
        make_fold(found, cluster[part], trees[1 - number].log_ratio(found.pairs.features) if boosted else None, rng)
        for number, (found, part) in enumerate(zip(raw, parts, strict=True))
    ]
    whole = folds
    if not boosted and len(folds) > 1:
        whole = [make_fold(source.pairs(items, cluster[items]), cluster[items], None, rng)]
    evidence = None if layout is None else learn_evidence(layout, whole)
    signs = _signs(sign, layout is not None, boosted)
    knots = make_knots(whole, signs, layout is not None, rng)
    prior = Prior.of(knots, signs, layout is not None, whole, choices.spread)
    prepared = [prepare(fold, evidence, knots, rng) for fold in whole]
    report.step()
    mode = maximise(prepared, prior, prior.mean, None, MODE_STEPS)
    report.step()
    table = None if evidence is None else _training_table(evidence, whole)
    ensemble = Ensemble(
        knots,
        (prior.unpack(mode),),
        trees,
        evidence,
        float(np.mean([fold.log_odds for fold in prepared])),
        mean_partners(cluster),
        choices.n_rescans,
        table,
        taught_third=third_of_sizes(np.bincount(cluster), GROWTH),
    )
    held_out = NOTHING_HELD_OUT
    if len(folds) == 2:
        held_out = calibrate(folds, layout, ensemble, prior, seed, rng)
    report.step()
    likely = [fold.without_unlikely(prior.unpack(mode)) for fold in prepared]
    members = draw_members(likely, prior, mode, held_out.tunings, choices.n_members, seed, n_jobs, report.step)
    spread, n_taught = spread_of_bias(likely, prior.based), min(len(part) for part in parts)
    matches = None if layout is None else sample_matches(folds, source.n_records, held_out.optimism, rng)
    fitted = replace(ensemble, members=members, spread=spread, sure_spread=spread, n_taught=n_taught, matches=matches)
    return fitted, held_out


def draw_from_prior(
    pairs: Pairs, cluster: Integers, layout: Layout, sign: Integers, choices: Choices, seed: int
) -> Ensemble:
    """The ensemble where labels teach nothing: members are draws from the prior.

    `pairs` are of some records of the table, which show where features lie; `cluster` is of each of these records, -1
    where it is unknown.
    """
    rng = np.random.default_rng(seed)
    signs = _signs(sign, True, False)
    fold = TrainingFold(pairs, np.zeros(0, dtype=np.int64), None, ())
    knots = make_knots([fold], signs, True, rng)
    prior = Prior.of(knots, signs, True, [fold], choices.spread)
    left, right = cluster[pairs.left], cluster[pairs.right]
    together = (left == right) & (left >= 0)
    sizes = np.bincount(cluster[cluster >= 0], minlength=1)
    weight = np.where(together, 2.0 / np.maximum(sizes[np.maximum(left, 0)], 1), 0.0)
    evidence = Evidence.learn(layout, pairs.features, weight)
    members = []
    slopes, biases = (spread_evenly(choices.n_members, [seed, place]) for place in (0, 1))
    for slope, bias in zip(slopes, biases, strict=True):
        # The score is the evidence, more or less: nothing speaks for other functions.
        flat = prior.mean.copy()
        flat[: prior.n_pieces] *= max(1.0 + NO_LABEL_SLOPE * slope, 0.0)
        members.append(prior.unpack(flat)._replace(bias=NO_LABEL_BIAS * float(bias), merge=NO_LABEL_MERGE))
    table = evidence.in_table(pairs.features, pairs.features, max(len(pairs), 1))
    odds = table.log_odds_of_match
    # How many partners records have is not known, and the table alone tells.
    return Ensemble(knots, tuple(members), (), evidence, odds, None, choices.n_rescans, table)


def can_train_trees(cluster: Integers, n_features: int) -> bool:
    """Whether there are enough clusters for trees to learn from some and be judged on others."""
    sizes = np.unique(cluster, return_counts=True)[1]
    return int((sizes > 1).sum()) >= FEWEST_FOR_TREES and n_features <= MOST_TREE_FEATURES


def fit_trees_on(labelled: LabelledPairs, cluster: Integers, sign: Integers, rng: np.random.Generator) -> Trees:
    """Trees that tell members from strangers among these pairs."""
    pairs, stands_for = labelled
    together = cluster[pairs.left] == cluster[pairs.right]
    return fit_trees(pairs.features, together, sign, rng, stands_for=stands_for)


def _training_table(evidence: Evidence, folds: Sequence[TrainingFold]) -> TableEvidence:
    features = np.concatenate([fold.pairs.features for fold in folds])
    whole = all(fold.stands_for is None for fold in folds)
    strangers = features if whole else np.concatenate([fold.random_pairs() for fold in folds])
    return evidence.in_table(strangers, features, sum(fold.n_pairs for fold in folds))


def _signs(sign: Integers, based: bool, boosted: bool) -> Integers:
    return np.concatenate([[1] * based, sign, [1] * boosted]).astype(np.int64)


# Learning from answers to questions. These are chosen by how records look, so answered pairs are no sample of the
# table: near misses are many among them. That does no harm as long as the law judges each answered pair as it stands
# in its table, by the evidence and the match rate there. Only compared pairs teach: two records that nobody compared
# may be duplicates, and are not taught as strangers.


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
