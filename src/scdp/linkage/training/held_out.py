"""The check on held-out clusters: learn from one half, cluster the other, and see which tunings of the law fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from scdp._typing import Booleans, Features, Floats, Integers
from scdp.compare.features import Layout, Pairs
from scdp.linkage import Ensemble, Knots, Parameters, believable_rates
from scdp.linkage.evidence import Evidence, TableEvidence, log_odds
from scdp.linkage.law import FEWEST_TO_MERGE, NO_MERGE, Weights
from scdp.linkage.sampling import sample_partition, stream_of
from scdp.linkage.training.folds import (
    TrainingFold,
    join_columns,
    learn_evidence,
    mean_partners,
    prepare,
    prepare_columns,
)
from scdp.linkage.training.posterior import (
    MODE_STEPS,
    UNTUNED,
    Prior,
    Tuning,
    Tunings,
    maximise,
    spread_evenly,
    spread_of_bias,
)

TRIAL_DRAWS, HELD_OUT_DRAWS = 8, 16
# What is tried on held-out clusters: shifts of the log-odds, and weights of joining whole clusters.
SHIFTS = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
MERGES = (NO_MERGE, -4.0, -2.0, 0.0)
# An estimated rate is off by at most so many nats; so many clusters of two or more teach half of what there is to it.
MOST_OFF, FEW_REPEATED = 3.0, 10.0
# What one unit of shift has to gain.
SHIFT_COST = 0.15
# A squared log-ratio of the numbers of clusters costs as many times the true pairs: little, for members that get pairs
# right, and much, for as many members that get the number right. Where the two disagree, the posterior is wide.
COUNT_COST, LARGE_COUNT_COST = 2.0, 20.0
# The numbers of so few held-out clusters cost half as much, since they tell little.
FEW_COUNTED = 30
# How many nats a loss of 1 costs for each cluster of two records or more, up to so many: what fits held-out clusters
# fits another table only about.
SHARPNESS, MOST_REPEATED = 2.0, 50


class HeldOut(NamedTuple):
    """Pairs of clusters that were held out: the probability of being together, and whether they are.

    `n_clusters` are drawn and true numbers of held-out clusters, with the best tuning. `optimism` is, for each true
    pair of the folds, how many nats more it is given by what all clusters taught than by what the other half did.
    """

    probability: Floats
    together: Booleans
    tunings: Tunings
    n_clusters: tuple[tuple[float, int], ...]
    optimism: Floats | None = None


NOTHING_HELD_OUT = HeldOut(np.zeros(0), np.zeros(0, dtype=bool), UNTUNED, ())


def calibrate(
    folds: Sequence[TrainingFold],
    layout: Layout | None,
    ensemble: Ensemble,
    prior: Prior,
    seed: int,
    rng: np.random.Generator,
) -> HeldOut:
    """Learn from each half, cluster the other as a table of its own, and weigh tunings of the law by how it fits.

    Conditionals are learned given the truth, but draws build on their own mistakes: a tuning mends what that costs. The
    loss looks at pairs, which are mostly of large clusters, and at the number of clusters, which are mostly small.
    """
    sizes = np.concatenate([np.bincount(fold.cluster) for fold in folds])
    tables: list[TableEvidence | None] = []
    fitted: list[tuple[Parameters, float]] = []
    for number, held in enumerate(folds):
        taught = folds[1 - number]
        evidence = None if layout is None else learn_evidence(layout, [taught])
        prepared = prepare(taught, evidence, ensemble.knots, rng)
        flat = maximise([prepared], prior, prior.mean, None, MODE_STEPS)
        fitted.append((prior.unpack(flat), prepared.log_odds))
        tables.append(None if evidence is None else _held_out_table(evidence, held, mean_partners(taught.cluster)))
    # Without evidence a few held-out clusters would be tuned into one, to make up for the doubt.
    spread = spread_of_bias(folds, prior.based) if prior.based else 0.0
    offsets = [
        0.0 if table is None else rate_offset(table, fold, sizes) for table, fold in zip(tables, folds, strict=True)
    ]
    trials, optimism = [], []
    for number, (held, table) in enumerate(zip(folds, tables, strict=True)):
        parameters, odds = fitted[number]
        base = None
        if table is not None:
            base = table.log_ratio(held.pairs.features)
            # How far the estimated rate is off is learned from the other half.
            odds = table.log_odds_of_match + offsets[1 - number]
        columns = join_columns(base, held.pairs.features, held.trees)
        together = held.cluster[held.pairs.left] == held.cluster[held.pairs.right]
        by_others = parameters.scores(ensemble.knots.places(columns[together])) + parameters.bias
        by_all = ensemble.mean_score(held.pairs.features[together]) + ensemble.members[0].bias
        optimism.append(by_all - by_others)
        trials.append(
            HeldOutTrial.of(parameters, ensemble.knots, columns, held, odds, ensemble.n_rescans, seed, spread)
        )
    tunings = weigh_tunings(trials, sizes)
    outcomes = [trial.cluster(tunings.best, HELD_OUT_DRAWS) for trial in trials]
    # True pairs that were left out have probability 0.
    missed = sum(outcome.n_missed for outcome in outcomes)
    return HeldOut(
        np.concatenate([*(outcome.probability for outcome in outcomes), np.zeros(missed)]),
        np.concatenate([*(outcome.together for outcome in outcomes), np.ones(missed, dtype=bool)]),
        tunings.moved(float(np.mean(offsets))),
        tuple((outcome.n_drawn, outcome.n_true) for outcome in outcomes),
        np.concatenate(optimism),
    )


def weigh_tunings(trials: Sequence[HeldOutTrial], sizes: Integers) -> Tunings:
    """Tunings by how well held-out clusters of these sizes come out with them."""
    n_repeated = max(int((sizes > 1).sum()), 1)
    n_pairs = max(int((sizes * (sizes - 1) // 2).sum()), 1)
    merges = MERGES if sizes.max() >= FEWEST_TO_MERGE else MERGES[:1]
    each = tuple(Tuning(shift, merge) for merge in merges for shift in SHIFTS)
    n_true = len(sizes)
    costs = np.array([COUNT_COST, max(COUNT_COST, LARGE_COUNT_COST * n_true / (n_true + FEW_COUNTED))])
    losses = np.empty((len(costs), len(each)))
    for number, tuning in enumerate(each):
        outcomes = [trial.cluster(tuning, TRIAL_DRAWS) for trial in trials]
        n_drawn = sum(outcome.n_drawn for outcome in outcomes)
        losses[:, number] = (
            sum(outcome.loss for outcome in outcomes) / n_pairs
            + costs * np.log(n_drawn / n_true) ** 2
            + SHIFT_COST / np.sqrt(n_repeated) * tuning.shift**2
        )
    probability = np.exp(-SHARPNESS * min(n_repeated, MOST_REPEATED) * (losses - losses.min(axis=1, keepdims=True)))
    probability = (probability / probability.sum(axis=1, keepdims=True)).mean(axis=0)
    return Tunings(each, probability)


def rate_offset(table: TableEvidence, held: TrainingFold, sizes: Integers) -> float:
    """How far the log-odds of a match are above what the evidence says they are, in a table of known clusters.

    The rate is read off the evidence, and where true pairs look like strangers in all columns it comes out too low.
    """
    n_repeated = int((sizes > 1).sum())
    off = log_odds(held.match_share) - table.log_odds_of_match
    return float(np.clip(off, -MOST_OFF, MOST_OFF)) * n_repeated / (n_repeated + FEW_REPEATED)


def _held_out_table(evidence: Evidence, held: TrainingFold, partners: float) -> TableEvidence:
    rates = believable_rates(partners, held.n_pairs, held.pairs.n_items)
    return evidence.in_table(held.random_pairs(), held.pairs.features, held.n_pairs, rates)


class HeldOutOutcome(NamedTuple):
    """How held-out clusters came out: probabilities of pairs, whether they are together, and numbers of clusters."""

    probability: Floats
    together: Booleans
    n_missed: int
    n_drawn: float
    n_true: int

    @property
    def loss(self) -> float:
        """Squared errors of the probabilities; pairs that were left out have probability 0."""
        return float(((self.probability - self.together) ** 2).sum()) + self.n_missed


@dataclass(frozen=True, eq=False)
class HeldOutTrial:
    """Held-out clusters, the scores of their pairs, and the law to draw them by."""

    pairs: Pairs
    cluster_of: Integers
    score: Floats
    weights: Weights
    n_rescans: int
    seed: int
    spread: float = 0.0

    @classmethod
    def of(
        cls,
        parameters: Parameters,
        knots: Knots,
        columns: Features,
        held: TrainingFold,
        odds: float,
        n_rescans: int,
        seed: int,
        spread: float,
    ) -> HeldOutTrial:
        likely = prepare_columns(held, knots, columns, odds).without_unlikely(parameters)
        weights = Weights(parameters.bias + odds, parameters.growth, parameters.third, likely.floor)
        score = parameters.scores(likely.places)
        return cls(likely.pairs, held.cluster, score, weights, n_rescans, seed, spread)

    def cluster(self, tuning: Tuning, n_draws: int) -> HeldOutOutcome:
        """Draws with a tuning of the law."""
        n = self.pairs.n_items
        nobody, names = np.full(n, -1), np.arange(n, dtype=np.uint64)
        weights = self.weights._replace(bias=self.weights.bias + tuning.shift, merge=tuning.merge)
        met, n_drawn = np.zeros(len(self.pairs)), 0.0
        doubts = self.spread * spread_evenly(n_draws, [self.seed])
        for number in range(n_draws):
            drawn = sample_partition(
                self.pairs.neighbours,
                self.score,
                weights._replace(bias=weights.bias + doubts[number]),
                nobody,
                self.n_rescans,
                stream_of(self.seed, number),
                names,
            )
            met += drawn[self.pairs.left] == drawn[self.pairs.right]
            n_drawn += len(np.unique(drawn)) / n_draws
        together = self.cluster_of[self.pairs.left] == self.cluster_of[self.pairs.right]
        sizes = np.bincount(self.cluster_of)
        missed = int((sizes * (sizes - 1) // 2).sum() - together.sum())
        return HeldOutOutcome(met / n_draws, together, missed, n_drawn, len(sizes))
