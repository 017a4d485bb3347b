"""Which comparisons are taken of those that are proposed: labelled clusters that are held out decide.

Each set of comparisons is judged by a score of their levels that learns from one half of the clusters: a logistic
regression whose prior mean is the evidence. What counts is its loss on the other half. A further comparison is taken
where it clearly helps, and one is left out where another of the same columns says the same of nearly all pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from scdp._typing import Booleans, Features, Floats, Integers
from scdp.compare import Comparison
from scdp.compare.features import Columns, Comparer, Pairs
from scdp.linkage.evidence import Evidence, TableEvidence, log_odds, member_weights
from scdp.linkage.levels import EDGES, N_LEVELS
from scdp.linkage.training.folds import split_in_halves, take_whole_clusters
from scdp.table import Records

# Fewer labelled clusters of two records or more do not tell what helps.
FEWEST_TO_CHOOSE = 100
# Labelled records that are looked at, in whole clusters.
MOST_RECORDS = 900
# What helps does so by more than so many standard errors, and by this share of the loss and so many nats: each
# comparison costs time.
CLEARLY, WORTHWHILE, LEAST_NATS = 2.0, 0.05, 1.0
# Two comparisons say the same where their levels are equal in so many of the pairs that are not plainly strangers.
SAME_LEVEL = 0.97
# So many pairs of one cluster, of strangers that look alike, and of other strangers are looked at.
MOST_TOGETHER, MOST_ALIKE, MOST_FAR = 4_000, 6_000, 3_000
# How far a weight may be from what the evidence says, as a standard deviation; and the constant.
SPREAD, SPREAD_OF_CONSTANT = 0.6, 4.5
NEWTON_STEPS, LARGEST_STEP, LARGEST_ODDS = 4, 3.0, 30.0


class Half(NamedTuple):
    """Some pairs of one half of the labelled clusters, each with how many it stands for."""

    features: Features
    together: Booleans
    weight: Floats
    left: Integers
    right: Integers
    match_share: float

    @classmethod
    def of(cls, columns: Columns, pairs: Pairs, cluster: Integers, rng: np.random.Generator) -> Self:
        """Of all pairs of some records: those of one cluster, strangers that look alike, and some other strangers."""
        codes = np.unique(cluster, return_inverse=True)[1]
        left, right = codes[pairs.left], codes[pairs.right]
        together, weight = member_weights(codes, pairs.left, pairs.right)
        everyone = np.ones(len(pairs))
        ratio = learn_table(columns, pairs.features, weight, everyone).log_ratio(pairs.features)
        each = np.where(together, weight, everyone)
        strangers = np.flatnonzero(~together)
        strangers = strangers[np.argsort(-ratio[strangers], kind="stable")]
        alike, others = strangers[:MOST_ALIKE], strangers[MOST_ALIKE:]
        parts = (np.flatnonzero(together), MOST_TOGETHER), (alike, MOST_ALIKE), (others, MOST_FAR)
        chosen = [rng.choice(part, min(len(part), most), replace=False) for part, most in parts]
        stand_for = [
            each[some] * (each[part].sum() / each[some].sum()) if len(some) else np.zeros(0)
            for some, (part, _) in zip(chosen, parts, strict=True)
        ]
        kept = np.concatenate(chosen)
        return cls(
            pairs.features[kept],
            together[kept],
            np.concatenate(stand_for),
            left[kept],
            right[kept],
            float(together.mean()),
        )

    def take(self, places: Sequence[int]) -> Half:
        """The same pairs with some of the features."""
        return self._replace(features=np.ascontiguousarray(self.features[:, places]))

    @property
    def member_weight(self) -> Floats:
        return np.where(self.together, self.weight, 0.0)


def learn_table(columns: Columns, features: Features, weight: Floats, stands_for: Floats) -> TableEvidence:
    """The evidence that labelled pairs teach of themselves."""
    evidence = Evidence.learn(columns.layout, features, weight, stands_for)
    assert evidence.strangers is not None
    return TableEvidence.of(columns.layout, evidence.members(evidence.strangers), evidence.strangers)


class Judgement(NamedTuple):
    """A set of comparisons, and its loss by labelled cluster: lower is better."""

    kept: tuple[int, ...]
    by_cluster: Floats

    @property
    def loss(self) -> float:
        return float(self.by_cluster.sum())

    def clearly_better(self, other: Self) -> bool:
        gains = other.by_cluster - self.by_cluster
        clear = CLEARLY * float(np.sqrt(len(gains) * gains.var()))
        return float(gains.sum()) > max(clear, WORTHWHILE * other.loss, LEAST_NATS)


class Selection(NamedTuple):
    """All comparisons that may be taken, and two halves of the labelled clusters to judge them by."""

    columns: Columns
    halves: tuple[Half, Half]

    def judge(self, kept: Sequence[int]) -> Judgement:
        """The loss of some comparisons on each half, learned from the other."""
        chosen, places = self._places(kept)
        one, other = (half.take(places) for half in self.halves)
        losses = [_held_out_loss(chosen, taught, held) for taught, held in ((one, other), (other, one))]
        return Judgement(tuple(kept), np.concatenate(losses))

    def choose(self, usual: Sequence[int]) -> tuple[int, ...]:
        """The usual comparisons with further ones that clearly help, without those that repeat another one."""
        best = self.judge(usual)
        others = [number for number in range(len(self.columns.fields)) if number not in usual]
        while others:
            tried = [self.judge(sorted([*best.kept, number])) for number in others]
            found = min(tried, key=lambda judged: judged.loss)
            if not found.clearly_better(best):
                break
            best = found
            others = [number for number in others if number not in best.kept]
        for number in reversed(best.kept):
            if any(self._repeats(number, other) for other in best.kept if other != number):
                without = self.judge([other for other in best.kept if other != number])
                best = best if best.clearly_better(without) else without
        return best.kept

    def _repeats(self, number: int, other: int) -> bool:
        """Whether two comparisons of the same columns have one level in nearly all pairs."""
        fields = self.columns.fields
        if set(fields[number].columns) != set(fields[other].columns):
            return False
        # Strangers that are not alike agree in their last level, whatever compares them.
        near = [half.features[: MOST_TOGETHER + MOST_ALIKE, [number, other]] for half in self.halves]
        both = np.concatenate(near)
        levels = np.where(np.isnan(both), -1, np.searchsorted(EDGES, both))
        plain = (levels == N_LEVELS - 1).all(axis=1) | (levels == -1).all(axis=1)
        levels = levels[~plain]
        return len(levels) > 0 and bool(np.mean(levels[:, 0] == levels[:, 1]) >= SAME_LEVEL)

    def _places(self, kept: Sequence[int]) -> tuple[Columns, list[int]]:
        """Some comparisons by themselves, and where the features of their evidence are."""
        chosen = Columns.of([self.columns.fields[number] for number in kept])
        return chosen, [*kept, *(int(self.columns.layout.rarity[kept[place]]) for place in chosen.values)]


def _held_out_loss(columns: Columns, taught: Half, held: Half) -> Floats:
    """By cluster of one half, the loss of a score that the other half taught."""
    table = learn_table(columns, taught.features, taught.member_weight, taught.weight)
    prior = _evidence_weights(table)
    learned = _fit_weights(_levels(table, taught.features), taught, prior)
    odds = _levels(table, held.features) @ learned
    losses = held.weight * np.logaddexp(0.0, np.where(held.together, -odds, odds))
    n_clusters = int(max(held.left.max(), held.right.max())) + 1
    return np.asarray(sum(np.bincount(end, losses, n_clusters) for end in (held.left, held.right))) / 2.0


def _levels(table: TableEvidence, features: Features) -> Floats:
    """(pairs, weights): the level of each pair in every comparison, the nats of what it shares, and ones at the end."""
    layout = table.layout
    found = np.zeros((len(features), layout.n_comparisons, N_LEVELS + 1))
    rows = np.arange(len(features))
    for c in range(layout.n_comparisons):
        level = np.searchsorted(EDGES, features[:, c])
        there = ~np.isnan(features[:, c])
        found[rows[there], c, level[there]] = 1.0
        if layout.rarity[c] >= 0:
            found[:, c, -1] = np.where(there & (level == 0), np.nan_to_num(features[:, layout.rarity[c]]), 0.0)
    return np.column_stack([found.reshape(len(features), -1), np.ones(len(features))])


def _evidence_weights(table: TableEvidence) -> Floats:
    """The weights by which the levels make the evidence, without a constant."""
    layout = table.layout
    weights = np.zeros((layout.n_comparisons, N_LEVELS + 1))
    weights[:, :-1] = table.ratio
    rare = layout.rarity >= 0
    weights[rare, 0], weights[rare, -1] = table.exact[rare], 1.0
    return np.asarray((weights * layout.share[:, None]).ravel())


def _fit_weights(levels: Floats, half: Half, prior: Floats) -> Floats:
    """The mode of the weights and the constant, by a few steps of Newton's method from the prior mean."""
    centre = np.append(prior, log_odds(half.match_share))
    precision = np.append(np.full(len(prior), SPREAD**-2), SPREAD_OF_CONSTANT**-2)
    weights = centre.copy()
    for _ in range(NEWTON_STEPS):
        probability = 1.0 / (1.0 + np.exp(-np.clip(levels @ weights, -LARGEST_ODDS, LARGEST_ODDS)))
        slope = levels.T @ (half.weight * (probability - half.together)) + precision * (weights - centre)
        curve = half.weight * probability * (1.0 - probability)
        step = np.linalg.solve(levels.T @ (levels * curve[:, None]) + np.diag(precision), slope)
        weights = weights - step * min(1.0, LARGEST_STEP / max(float(np.abs(step).max()), 1e-12))
    return weights


def select_comparisons(
    records: Records, fields: Sequence[Comparison], n_usual: int, cluster: Integers, group: Integers | None, seed: int
) -> tuple[int, ...]:
    """Which of the comparisons are taken of labelled records; the first ones, where labels are too few to tell."""
    usual = tuple(range(n_usual))
    if int((np.bincount(cluster) > 1).sum()) < FEWEST_TO_CHOOSE:
        return usual
    rng = np.random.default_rng([seed, 5])
    items = take_whole_clusters(np.arange(len(cluster)), cluster, MOST_RECORDS, rng)
    groups = np.zeros(len(items), dtype=np.int64) if group is None else group[items]
    parts = split_in_halves(cluster[items], groups, rng)
    if len(parts) < 2:
        return usual
    columns = Columns.of(fields)
    comparer = Comparer.of(records.take(items), columns.fields)
    one, other = (
        Half.of(
            columns, comparer.compare_some(part, None if group is None else groups[part]), cluster[items[part]], rng
        )
        for part in parts
    )
    return Selection(columns, (one, other)).choose(usual)
