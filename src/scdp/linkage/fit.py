"""Learning the law: records of known clusters enter; a posterior sample of its parameters leaves.

The score of a pair is the evidence in the table plus learned functions of its features. The prior says: take the
evidence as it is, and nothing else. A few labels hardly move it, many can replace it. Members of the ensemble are draws
of the parameters: each has its own draw from the prior and its own random weights of the clusters (weighted likelihood
bootstrap), and is fitted from the mode in a few steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from scdp._parallel import Progress, map_in_threads
from scdp._typing import Booleans, Features, Floats, Integers
from scdp.errors import InputError
from scdp.folds import canonical_labels, held_out_sets
from scdp.linkage.ensemble import (
    BASE,
    NEGLIGIBLE,
    Ensemble,
    Knots,
    Parameters,
    Places,
    add_back,
    add_up,
    believable_rates,
)
from scdp.linkage.evidence import (
    Evidence,
    Layout,
    TableEvidence,
    levels_of,
    log_odds,
    member_weights,
)
from scdp.linkage.law import Pairs, Weights, log_likelihood_grad, sample_partition, stream_of
from scdp.linkage.trees import Trees, fit_trees

N_MEMBERS = 8
N_RESCANS = 2
N_ORDERS = 2
# Learning looks at whole clusters of at most so many records.
MOST_RECORDS = 900
MODE_STEPS = 80
MEMBER_STEPS = 12
# Clusters of two or more that boosted trees need: they learn from one half and are judged on the other.
FEWEST_FOR_TREES = 40
MOST_TREE_FEATURES = 60
N_FOLDS = 5
KNOT_PAIRS = 200_000
HELD_OUT_DRAWS = 16
# Shifts of the log-odds that are tried on held-out clusters, and what one unit of shift has to gain.
SHIFTS = np.array([-1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0])
SHIFT_COST = 0.15
# How unsure the constant of the law is, with many labelled clusters and with one.
BIAS_SPREAD, BIAS_SPREAD_OF_ONE = 0.5, 1.2
# Without labels: how unsure the slope of the evidence and the constant of the law are.
NO_LABEL_SLOPE, NO_LABEL_BIAS = 0.1, 1.0
# An estimated match rate of labelled records is at most so many times too low or too high.
RATE_TRUST = 2.7
# A joint of two rises costs this much of what a rise of one standard deviation costs.
SMOOTHNESS = 1.0


class PriorSpread(NamedTuple):
    """Standard deviations: slope of the evidence, rises of other functions, missing values, and the law's weights."""

    slope: float = 0.25
    rise: float = 0.4
    missing: float = 0.4
    bias: float = 1.0
    growth: float = 0.7
    third: float = 1.0


PRIOR_SPREAD = PriorSpread()
# How much the size of a cluster draws records, before any label.
GROWTH = 0.6


class LabelledSource(Protocol):
    """Records of known clusters, of which any part can be asked for as pairs."""

    def pairs(self, items: Integers) -> Pairs: ...


@dataclass(frozen=True)
class Choices:
    """What may be chosen: boosted trees or not (None = where they can be trained), members, rescans."""

    boosted: bool | None = None
    n_members: int = N_MEMBERS
    n_rescans: int = N_RESCANS
    spread: PriorSpread = PRIOR_SPREAD


class TrainingFold(NamedTuple):
    """Records of known clusters: features of their pairs, what trees say of them, and orders to place them in."""

    pairs: Pairs
    cluster: Integers
    trees: Floats | None
    orders: tuple[Integers, ...]


class PreparedFold(NamedTuple):
    """A fold whose pairs have all columns of the score; `log_odds` is of a random pair of it for being a match.

    Pairs that were left out have the score `floor`.
    """

    places: Places
    pairs: Pairs
    cluster: Integers
    orders: tuple[Integers, ...]
    log_odds: float
    floor: float = 0.0

    def without_unlikely(self, parameters: Parameters) -> PreparedFold:
        """Without the pairs that are as good as certain not to be matches, which make most of the work."""
        score = parameters.scores(self.places)
        kept = score + parameters.bias + self.log_odds >= NEGLIGIBLE
        if kept.all():
            return self
        places = Places(self.places.piece[kept], self.places.along[kept])
        pairs = Pairs(
            self.pairs.n_items, self.pairs.left[kept], self.pairs.right[kept], self.pairs.features[kept]
        )
        return self._replace(places=places, pairs=pairs, floor=float(score[~kept].mean()))


class HeldOut(NamedTuple):
    """Pairs of clusters that were held out: the probability of being together, and whether they are.

    `shift` is what was added to the log-odds; `n_clusters` are drawn and true numbers of held-out clusters.
    """

    probability: Floats
    together: Booleans
    shift: float
    n_clusters: tuple[tuple[float, int], ...]


NOTHING_HELD_OUT = HeldOut(np.zeros(0), np.zeros(0, dtype=bool), 0.0, ())


def check_teachable(cluster: Integers) -> None:
    """Refuse known clusters that teach nothing: without two of a kind, or without two kinds."""
    if teaches(cluster):
        return
    n_clusters = len(np.unique(cluster))
    if not len(cluster):
        what = "no row has a known cluster"
    else:
        what = f"the known rows are all of {'one cluster' if n_clusters < 2 else 'clusters of one row'}"
    raise InputError(f"{what}: give at least two clusters, one of them of two rows")


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
    report = _Steps(progress, 5 + choices.n_members)
    items = take_whole_clusters(np.arange(len(cluster)), cluster, MOST_RECORDS, rng)
    halves = split_in_halves(cluster[items], group[items], rng)
    boosted = can_train_trees(cluster[items], len(sign)) if choices.boosted is None else choices.boosted
    boosted = boosted and len(halves) == 2
    parts = [items[half] for half in halves] or [items]
    raw = [source.pairs(part) for part in parts]
    trees: tuple[Trees, ...] = ()
    if boosted:
        trees = tuple(fit_trees_on(pairs, cluster[part], rng) for pairs, part in zip(raw, parts, strict=True))
    report.step()
    folds = [
        _fold(pairs, cluster[part], trees[1 - number].log_ratio(pairs.features) if boosted else None, rng)
        for number, (pairs, part) in enumerate(zip(raw, parts, strict=True))
    ]
    whole = folds if boosted or len(folds) == 1 else [_fold(source.pairs(items), cluster[items], None, rng)]
    evidence = None if layout is None else _learn_evidence(layout, whole)
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
    )
    held_out = NOTHING_HELD_OUT
    if len(folds) == 2:
        held_out = calibrate(folds, layout, ensemble, prior, choices, seed, rng)
    report.step()
    likely = [fold.without_unlikely(prior.unpack(mode)) for fold in prepared]
    members = draw_members(likely, prior, mode, held_out.shift, choices.n_members, seed, n_jobs, report)
    return ensemble.with_members(members), held_out


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
    for number in range(choices.n_members):
        # The score is the evidence, more or less: nothing speaks for other functions.
        off = np.random.default_rng([seed, 7, number]).standard_normal(2)
        flat = prior.mean.copy()
        flat[: prior.n_pieces] *= max(1.0 + NO_LABEL_SLOPE * off[0], 0.0)
        parameters = prior.unpack(flat)
        members.append(parameters._replace(bias=NO_LABEL_BIAS * float(off[1])))
    table = evidence.in_table(pairs.features, pairs.features, max(len(pairs), 1))
    odds = table.log_odds_of_match
    # How many partners records have is not known, and the table alone tells.
    return Ensemble(knots, tuple(members), (), evidence, odds, None, choices.n_rescans, table)


class _Steps:
    """Tells how many of a known number of steps are done."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def step(self) -> None:
        self.done += 1
        if self.progress is not None:
            self.progress(min(self.done, self.total), self.total)


def take_whole_clusters(items: Integers, cluster: Integers, most: int, rng: np.random.Generator) -> Integers:
    """Whole clusters of these records, as many as there is room for; at least two."""
    if len(items) <= most:
        return items
    names, codes = np.unique(cluster[items], return_inverse=True)
    order = rng.permutation(len(names))
    sizes = np.bincount(codes)
    # A cluster that is too large for the room left is passed over, so that smaller ones still find a place.
    kept: list[int] = []
    room = most
    for name in order:
        if sizes[name] <= room or len(kept) < 2:
            kept.append(name)
            room -= int(sizes[name])
    chosen: Integers = items[np.isin(codes, kept)]
    return chosen


def split_in_halves(cluster: Integers, group: Integers, rng: np.random.Generator) -> list[Integers]:
    """Two halves of the clusters (or groups), each of which teaches something; none where there are too few."""
    units = group if len(np.unique(group)) >= 4 else cluster
    if len(np.unique(units)) < 4:
        return []
    for _ in range(20):
        halves = held_out_sets(cluster, group if units is group else np.zeros_like(cluster), 2, rng)
        if len(halves) == 2 and all(teaches(cluster[half]) for half in halves):
            first = np.sort(halves[0])
            return [first, np.setdiff1d(np.arange(len(cluster)), first)]
    return []


def teaches(cluster: Integers) -> bool:
    """Whether there are two of a kind and two kinds."""
    return 1 < len(np.unique(cluster)) < len(cluster)


def can_train_trees(cluster: Integers, n_features: int) -> bool:
    """Whether there are enough clusters for trees to learn from some and be judged on others."""
    sizes = np.unique(cluster, return_counts=True)[1]
    return int((sizes > 1).sum()) >= FEWEST_FOR_TREES and n_features <= MOST_TREE_FEATURES


def fit_trees_on(pairs: Pairs, cluster: Integers, rng: np.random.Generator) -> Trees:
    """Trees that tell members from strangers among these pairs."""
    together = cluster[pairs.left] == cluster[pairs.right]
    return fit_trees(pairs.features, together, rng)


def _fold(pairs: Pairs, cluster: Integers, trees: Floats | None, rng: np.random.Generator) -> TrainingFold:
    orders = tuple(rng.permutation(pairs.n_items) for _ in range(N_ORDERS))
    return TrainingFold(pairs, canonical_labels(cluster.tolist()), trees, orders)


def _learn_evidence(layout: Layout, folds: Sequence[TrainingFold]) -> Evidence:
    features = np.concatenate([fold.pairs.features for fold in folds])
    weights = [member_weights(fold.cluster, fold.pairs.left, fold.pairs.right)[1] for fold in folds]
    return Evidence.learn(layout, features, np.concatenate(weights))


def _training_table(evidence: Evidence, folds: Sequence[TrainingFold]) -> TableEvidence:
    features = np.concatenate([fold.pairs.features for fold in folds])
    return evidence.in_table(features, features, len(features))


def _held_out_table(evidence: Evidence, held: TrainingFold, partners: float) -> TableEvidence:
    features, n_pairs = held.pairs.features, len(held.pairs)
    return evidence.in_table(
        features, features, n_pairs, believable_rates(partners, n_pairs, held.pairs.n_items)
    )


def mean_partners(cluster: Integers) -> float:
    """How many others of its cluster a record has, in the mean."""
    sizes = np.unique(cluster, return_counts=True)[1]
    return float((sizes * (sizes - 1)).sum() / max(sizes.sum(), 1))


def _signs(sign: Integers, based: bool, boosted: bool) -> Integers:
    return np.concatenate([[1] * based, sign, [1] * boosted]).astype(np.int64)


def make_knots(folds: Sequence[TrainingFold], sign: Integers, based: bool, rng: np.random.Generator) -> Knots:
    """Knots of all columns of the score; those of the evidence are always the same."""
    rows = []
    each = max(KNOT_PAIRS // len(folds), 1)
    for fold in folds:
        n = len(fold.pairs)
        chosen = rng.choice(n, min(each, n), replace=False) if n else np.zeros(0, dtype=np.int64)
        columns = [fold.pairs.features[chosen]]
        if based:
            columns.insert(0, np.zeros((len(chosen), 1), dtype=np.float32))
        if fold.trees is not None:
            columns.append(fold.trees[chosen, None].astype(np.float32))
        rows.append(np.column_stack(columns))
    knots = Knots.of(np.concatenate(rows), sign)
    if based:
        knots.at[0] = BASE
    return knots


def prepare(
    fold: TrainingFold, evidence: Evidence | None, knots: Knots, rng: np.random.Generator
) -> PreparedFold:
    """The fold with all columns of the score; evidence of a pair comes from other clusters than its own."""
    left, right = fold.pairs.left, fold.pairs.right
    together, weight = member_weights(fold.cluster, left, right)
    base = None if evidence is None else cross_fit(evidence, fold, together, weight, rng)
    columns = join_columns(base, fold.pairs.features, fold.trees)
    # Where there is evidence the match rate is estimated from it, with and without labels in the same way.
    rate = float(together.mean())
    if evidence is not None:
        rates = rate / RATE_TRUST, rate * RATE_TRUST
        rate = evidence.in_table(fold.pairs.features, fold.pairs.features, len(fold.pairs), rates).match_rate
    pairs = Pairs(fold.pairs.n_items, left, right, columns[:, :0])
    return PreparedFold(knots.places(columns), pairs, fold.cluster, fold.orders, log_odds(rate))


def join_columns(base: Floats | None, features: Features, trees: Floats | None) -> Features:
    """The columns of the score: evidence, features, trees."""
    parts = [features]
    if base is not None:
        parts.insert(0, base[:, None].astype(np.float32))
    if trees is not None:
        parts.append(trees[:, None].astype(np.float32))
    return np.ascontiguousarray(np.column_stack(parts)) if len(parts) > 1 else features


def cross_fit(
    evidence: Evidence, fold: TrainingFold, together: Booleans, weight: Floats, rng: np.random.Generator
) -> Floats:
    """The log-ratio of each labelled pair by what other clusters teach: no pair is judged by itself."""
    features, layout = fold.pairs.features, evidence.layout
    strangers = levels_of(features[~together], layout.n_comparisons) + 0.5
    strangers /= strangers.sum(axis=1, keepdims=True)
    part = rng.permutation(fold.cluster.max() + 1) % N_FOLDS
    first, second = part[fold.cluster[fold.pairs.left]], part[fold.cluster[fold.pairs.right]]
    own = [
        levels_of(features[together & (first == p)], layout.n_comparisons, weight[together & (first == p)])
        for p in range(N_FOLDS)
    ]
    out = np.zeros(len(features))
    for p in range(N_FOLDS):
        for q in range(p, N_FOLDS):
            rows = np.flatnonzero(((first == p) & (second == q)) | ((first == q) & (second == p)))
            if not len(rows):
                continue
            others = evidence.without(own[p] if p == q else own[p] + own[q])
            table = TableEvidence.of(layout, others.members(strangers), strangers)
            out[rows] = table.log_ratio(features[rows])
    return out


@dataclass(frozen=True, eq=False)
class Prior:
    """A normal prior on the flat vector of parameters, and the signs that rises may have."""

    mean: Floats
    spread: Floats
    sign: Integers
    start: Floats
    n_pieces: int

    @classmethod
    def of(
        cls, knots: Knots, sign: Integers, based: bool, folds: Sequence[TrainingFold], spread: PriorSpread
    ) -> Prior:
        n_features, n_pieces = knots.at.shape[0], knots.at.shape[1] - 1
        rise, rise_spread = np.zeros((n_features, n_pieces)), np.full((n_features, n_pieces), spread.rise)
        start = np.zeros(n_features)
        if based:
            rise[0] = np.diff(knots.at[0])
            rise_spread[0] = spread.slope * rise[0]
            start[0] = knots.at[0, 0]
        else:
            # Without evidence the features themselves have to carry the score.
            rise += (0.5 / n_features * sign)[:, None]
            rise_spread[:] = 2.0 * spread.rise
        sizes = np.concatenate([np.bincount(fold.cluster) for fold in folds])
        third = np.log(((sizes > 2).sum() + 1.0) / ((sizes > 1).sum() + 2.0))
        bias_spread = spread.bias if based else 4.0 * spread.bias
        mean = np.concatenate([rise.ravel(), np.zeros(n_features), [0.0, GROWTH, third]])
        spreads = np.concatenate(
            [
                rise_spread.ravel(),
                np.full(n_features, spread.missing),
                [bias_spread, spread.growth, spread.third],
            ]
        )
        return cls(mean, spreads, sign, start, n_pieces)

    @property
    def n_features(self) -> int:
        return len(self.start)

    @property
    def n_rises(self) -> int:
        return self.n_features * self.n_pieces

    @property
    def bounds(self) -> list[tuple[float | None, float | None]]:
        each: list[tuple[float | None, float | None]] = [
            (0.0, None) if sign > 0 else (None, 0.0) for sign in np.repeat(self.sign, self.n_pieces)
        ]
        return each + [(None, None)] * (self.n_features + 3)

    def unpack(self, flat: Floats) -> Parameters:
        rise = flat[: self.n_rises].reshape(self.n_features, self.n_pieces)
        heights = self.start[:, None] + np.concatenate(
            [np.zeros((self.n_features, 1)), np.cumsum(rise, axis=1)], axis=1
        )
        missing = flat[self.n_rises : self.n_rises + self.n_features]
        return Parameters(heights, missing.copy(), *map(float, flat[-3:]))

    def cost(self, flat: Floats, centre: Floats) -> tuple[float, Floats]:
        """The negative log-density and its derivatives."""
        off = (flat - centre) / self.spread
        value, slope = 0.5 * float(off @ off), off / self.spread
        rises = off[: self.n_rises].reshape(self.n_features, self.n_pieces)
        joint = np.diff(rises, axis=1)
        value += 0.5 * SMOOTHNESS * float((joint**2).sum())
        by_rise = np.zeros_like(rises)
        by_rise[:, 1:] += SMOOTHNESS * joint
        by_rise[:, :-1] -= SMOOTHNESS * joint
        slope[: self.n_rises] += by_rise.ravel() / self.spread[: self.n_rises]
        return value, slope

    def draw(self, rng: np.random.Generator) -> Floats:
        """A centre for one member: every function is tilted as a whole, the rest moves freely."""
        off = rng.standard_normal(len(self.mean))
        off[: self.n_rises] = np.repeat(rng.standard_normal(self.n_features), self.n_pieces)
        centre = self.mean + self.spread * off
        rises = centre[: self.n_rises]
        signs = np.repeat(self.sign, self.n_pieces)
        centre[: self.n_rises] = np.where(signs > 0, np.maximum(rises, 0.0), np.minimum(rises, 0.0))
        return centre


def objective(
    flat: Floats, folds: Sequence[PreparedFold], prior: Prior, centre: Floats, weight: Sequence[Floats] | None
) -> tuple[float, Floats]:
    """The negative log-posterior of the parameters, and its derivatives."""
    parameters = prior.unpack(flat)
    value, slope = prior.cost(flat, centre)
    n_features, n_pieces = prior.n_features, prior.n_pieces
    for number, fold in enumerate(folds):
        score, by_score = np.empty(len(fold.pairs)), np.zeros(len(fold.pairs))
        add_up(*fold.places, parameters.heights, parameters.missing, score)
        by_weights = np.zeros(3)
        weights = Weights(parameters.bias + fold.log_odds, parameters.growth, parameters.third, fold.floor)
        each = np.ones(fold.cluster.max() + 1) if weight is None else weight[number]
        likelihood = 0.0
        orders = (*fold.orders, np.arange(len(fold.cluster)))
        for place, order in enumerate(orders):
            everyone = place == len(fold.orders)
            likelihood += log_likelihood_grad(
                fold.pairs.neighbours,
                score,
                weights,
                fold.cluster,
                order,
                everyone,
                each,
                by_score,
                by_weights,
            )
        by_height, by_missing = np.zeros((n_features, n_pieces + 1)), np.zeros(n_features)
        add_back(*fold.places, by_score, by_height, by_missing)
        # Each rise lifts all heights after it.
        by_rise = np.cumsum(by_height[:, ::-1], axis=1)[:, ::-1][:, 1:]
        value -= likelihood / len(orders)
        slope -= np.concatenate([by_rise.ravel(), by_missing, by_weights]) / len(orders)
    return value, slope


def maximise(
    folds: Sequence[PreparedFold],
    prior: Prior,
    centre: Floats,
    weight: Sequence[Floats] | None,
    steps: int,
    start: Floats | None = None,
) -> Floats:
    """The parameters of highest posterior density, the prior being centred at `centre`."""
    from scipy.optimize import minimize

    found = minimize(
        lambda flat: objective(flat, folds, prior, centre, weight),
        prior.mean if start is None else start,
        jac=True,
        method="L-BFGS-B",
        bounds=prior.bounds,
        options={"maxiter": steps, "ftol": 1e-5},
    )
    return np.asarray(found.x)


def draw_members(
    folds: Sequence[PreparedFold],
    prior: Prior,
    mode: Floats,
    shift: float,
    n_members: int,
    seed: int,
    n_jobs: int,
    report: _Steps,
) -> tuple[Parameters, ...]:
    """Draws of the parameters near the mode, and of the constant of the law about its calibrated place."""
    n_repeated = max(sum(int((np.bincount(fold.cluster) > 1).sum()) for fold in folds), 1)
    spread = np.hypot(BIAS_SPREAD, BIAS_SPREAD_OF_ONE / np.sqrt(n_repeated))

    def draw(number: int) -> Parameters:
        rng = np.random.default_rng([seed, 7, number])
        weight = [rng.exponential(size=fold.cluster.max() + 1) for fold in folds]
        flat = maximise(folds, prior, prior.draw(rng), weight, MEMBER_STEPS, mode)
        report.step()
        parameters = prior.unpack(flat)
        return parameters._replace(bias=parameters.bias + shift + spread * rng.standard_normal())

    return tuple(map_in_threads(draw, range(n_members), n_jobs))


def calibrate(
    folds: Sequence[TrainingFold],
    layout: Layout | None,
    ensemble: Ensemble,
    prior: Prior,
    choices: Choices,
    seed: int,
    rng: np.random.Generator,
) -> HeldOut:
    """Learn from each half, cluster the other as a table of its own, and choose the shift that fits best.

    Conditionals are learned given the truth, but draws build on their own mistakes: the shift mends what that costs.
    """
    trials = []
    for number, held in enumerate(folds):
        taught = folds[1 - number]
        evidence = None if layout is None else _learn_evidence(layout, [taught])
        prepared = prepare(taught, evidence, ensemble.knots, rng)
        flat = maximise([prepared], prior, prior.mean, None, MODE_STEPS)
        table = None if evidence is None else _held_out_table(evidence, held, mean_partners(taught.cluster))
        base = None if table is None else table.log_ratio(held.pairs.features)
        odds = prepared.log_odds if table is None else table.log_odds_of_match
        columns = join_columns(base, held.pairs.features, held.trees)
        trials.append(HeldOutTrial.of(prior.unpack(flat), ensemble.knots, columns, held, odds, choices, seed))
    n_repeated = max(sum(int((np.bincount(fold.cluster) > 1).sum()) for fold in folds), 1)
    losses = []
    for shift in SHIFTS:
        outcomes = [trial.cluster(shift) for trial in trials]
        loss = sum(outcome.loss for outcome in outcomes) / n_repeated
        losses.append(loss + SHIFT_COST / np.sqrt(n_repeated) * shift**2)
    shift = float(SHIFTS[int(np.argmin(losses))])
    outcomes = [trial.cluster(shift) for trial in trials]
    # True pairs that were left out have probability 0.
    missed = sum(outcome.n_missed for outcome in outcomes)
    return HeldOut(
        np.concatenate([*(outcome.probability for outcome in outcomes), np.zeros(missed)]),
        np.concatenate([*(outcome.together for outcome in outcomes), np.ones(missed, dtype=bool)]),
        shift,
        tuple((outcome.n_drawn, outcome.n_true) for outcome in outcomes),
    )


class HeldOutOutcome(NamedTuple):
    """How held-out clusters came out: probabilities of pairs, whether they are together, and numbers of clusters."""

    probability: Floats
    together: Booleans
    n_records: int
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

    @classmethod
    def of(
        cls,
        parameters: Parameters,
        knots: Knots,
        columns: Features,
        held: TrainingFold,
        odds: float,
        choices: Choices,
        seed: int,
    ) -> HeldOutTrial:
        pairs = Pairs(held.pairs.n_items, held.pairs.left, held.pairs.right, columns[:, :0])
        whole = PreparedFold(knots.places(columns), pairs, held.cluster, held.orders, odds)
        likely = whole.without_unlikely(parameters)
        weights = Weights(parameters.bias + odds, parameters.growth, parameters.third, likely.floor)
        score = parameters.scores(likely.places)
        return cls(likely.pairs, held.cluster, score, weights, choices.n_rescans, seed)

    def cluster(self, shift: float) -> HeldOutOutcome:
        """Draws with a shift of the log-odds."""
        n = self.pairs.n_items
        nobody, names = np.full(n, -1), np.arange(n, dtype=np.uint64)
        weights = self.weights._replace(bias=self.weights.bias + shift)
        met, n_drawn = np.zeros(len(self.pairs)), 0.0
        for number in range(HELD_OUT_DRAWS):
            drawn = sample_partition(
                self.pairs.neighbours,
                self.score,
                weights,
                nobody,
                self.n_rescans,
                stream_of(self.seed, number),
                names,
            )
            met += drawn[self.pairs.left] == drawn[self.pairs.right]
            n_drawn += len(np.unique(drawn)) / HELD_OUT_DRAWS
        together = self.cluster_of[self.pairs.left] == self.cluster_of[self.pairs.right]
        sizes = np.bincount(self.cluster_of)
        missed = int((sizes * (sizes - 1) // 2).sum() - together.sum())
        return HeldOutOutcome(met / HELD_OUT_DRAWS, together, n, missed, n_drawn, len(sizes))
