"""Weighted set cover: which rules keep which pairs, and their costs, go in; a cheap set that keeps enough comes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel

N_FOLDS = 5
REDUNDANCIES = (1, 2, 3)
MOST_REDUNDANT = 8
# Shares of the allowed loss that may be spent on the training pairs; the rest is left for unseen ones.
SPENDABLE = (1.0, 0.5, 0.35, 0.25, 0.15, 0.05, 0.0)
STRETCH = 1024


@dataclass(frozen=True, eq=False)
class Kept:
    """Which rules keep which pairs: `by_rule` is (rules, pairs).

    Rules of one family look at the same columns and fail together: for redundancy they count as one.
    """

    by_rule: NDArray[np.bool_]
    families: NDArray[np.int64]

    @property
    def n_pairs(self) -> int:
        return self.by_rule.shape[1]

    @cached_property
    def _families(self) -> NDArray[np.int16]:
        """By how many families each pair can be kept."""
        keeping = np.zeros(self.n_pairs, dtype=np.int16)
        for family in np.unique(self.families):
            keeping += self.by_rule[self.families == family].any(axis=0)
        return keeping

    def needs(self, redundancy: int) -> NDArray[np.int16]:
        """How many families each pair asks for: no more than keep it."""
        return np.minimum(self._families, np.int16(redundancy))


@dataclass(frozen=True)
class Demand:
    """Keep this share of the pairs that can be kept, each by so many families if there are as many."""

    redundancy: int
    share: float


@dataclass(frozen=True)
class DemandTrial:
    """A demand, the share of held-out pairs kept when rules were chosen by it, and a lower bound for it."""

    demand: Demand
    recall: float
    bound: float


def list_demands(recall: float, n_pairs: int) -> list[Demand]:
    """From the least demand to the greatest; too few pairs to show the recall get the most careful alone."""
    if are_too_few(n_pairs, recall):
        return [Demand(MOST_REDUNDANT, 1.0)]
    shares = [1 - (1 - recall) * spent for spent in SPENDABLE]
    return [Demand(redundancy, share) for redundancy in REDUNDANCIES for share in shares]


def are_too_few(n_pairs: int, recall: float) -> bool:
    """Whether so few pairs could not show the recall even if none of them were missed."""
    return 1 / (n_pairs + 1) > 1 - recall


def choose_rules(kept: Kept, costs: NDArray[np.float64], wanted: Sequence[Demand]) -> dict[Demand, list[int]]:
    """For every demand, the rules chosen greedily by pairs per cost and then thinned out."""
    chosen: dict[Demand, list[int]] = {}
    for redundancy in sorted({demand.redundancy for demand in wanted}):
        needs = kept.needs(redundancy)
        path, shares = _choose_greedily(kept, costs, needs)
        for demand in wanted:
            if demand.redundancy == redundancy:
                enough = demand.share * (shares[-1] if len(shares) else 0) - 1e-12
                length = int(np.argmax(shares >= enough)) + 1 if len(shares) else 0
                chosen[demand] = _thin_out(kept, costs, path[:length], needs, enough)
    return chosen


def _choose_greedily(
    kept: Kept, costs: NDArray[np.float64], needs: NDArray[np.int16]
) -> tuple[list[int], NDArray[np.float64]]:
    """Rules in the order chosen until no need is left, and the share of all pairs satisfied after each."""
    n_families = int(kept.families.max(initial=-1)) + 1
    path, n_met = find_greedy_path(kept.by_rule, kept.families, n_families, costs, needs)
    return path.tolist(), n_met / max(kept.n_pairs, 1)


@kernel
def find_greedy_path(
    by_rule: NDArray[np.bool_],
    families: NDArray[np.int64],
    n_families: int,
    costs: NDArray[np.float64],
    needs: NDArray[np.int16],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rule that helps the most pairs per cost, again and again, and how many pairs are satisfied after each.

    A rule helps a pair that it keeps, that is not satisfied, and that no other rule of its family has helped. It never
    helps more than it once did, so only the rule that promises the most is counted anew.
    """
    n_rules, n_pairs = by_rule.shape
    left = needs.copy()
    # Pairs that a family can no longer help.
    closed = np.zeros((n_families, n_pairs), dtype=np.bool_)
    promise = np.full(n_rules, np.inf)
    counted = np.full(n_rules, -1)
    path, n_met, met = np.empty(n_rules, dtype=np.int64), np.empty(n_rules, dtype=np.int64), 0
    step = 0
    while n_rules:
        best = int(np.argmax(promise))
        own, shut = by_rule[best], closed[families[best]]
        if counted[best] < step:
            gain = 0
            for pair in range(n_pairs):
                gain += own[pair] & (not shut[pair]) & (left[pair] > 0)
            promise[best] = gain / costs[best]
            counted[best] = step
            continue
        if promise[best] == 0.0:
            break
        for pair in range(n_pairs):
            if own[pair] and not shut[pair] and left[pair] > 0:
                left[pair] -= 1
                met += left[pair] == 0
                shut[pair] = True
        path[step], n_met[step] = best, met
        step += 1
    return path[:step], n_met[:step]


def _thin_out(
    kept: Kept, costs: NDArray[np.float64], rules: Sequence[int], needs: NDArray[np.int16], enough: float
) -> list[int]:
    """The rules without those that the others make superfluous, the dearest tried first."""
    dearest = np.array(sorted(rules, key=lambda rule: -costs[rule]), dtype=np.int64)
    families, of_rule = np.unique(kept.families[dearest], return_inverse=True)
    keep = drop_superfluous(kept.by_rule, dearest, of_rule, len(families), needs, enough)
    left = set(dearest[keep].tolist())
    return [rule for rule in rules if rule in left]


@kernel
def drop_superfluous(
    by_rule: NDArray[np.bool_],
    rules: NDArray[np.int64],
    families: NDArray[np.int64],
    n_families: int,
    needs: NDArray[np.int16],
    enough: float,
) -> NDArray[np.bool_]:
    """Which of the rules stay when each in turn goes, if a share `enough` of the pairs has its needs met without it."""
    n_pairs = by_rule.shape[1]
    relatives = np.zeros((n_families, n_pairs), dtype=np.int16)
    # How many families more than needed keep a pair; one that needs none never runs short.
    spare = np.where(needs > 0, -needs, len(rules) + 1).astype(np.int16)
    for place in range(len(rules)):
        own, family = by_rule[rules[place]], relatives[families[place]]
        for pair in range(n_pairs):
            spare[pair] += own[pair] & (family[pair] == 0)
            family[pair] += own[pair]
    n_met = int(((needs > 0) & (spare >= 0)).sum())
    stays = np.ones(len(rules), dtype=np.bool_)
    for place in range(len(rules)):
        own, family = by_rule[rules[place]], relatives[families[place]]
        n_lost = 0
        # In stretches: most rules are seen to be needed long before the last pair.
        for start in range(0, n_pairs, STRETCH):
            for pair in range(start, min(start + STRETCH, n_pairs)):
                n_lost += own[pair] & (family[pair] == 1) & (spare[pair] == 0)
            if (n_met - n_lost) / n_pairs < enough:
                break
        else:
            stays[place] = False
            n_met -= n_lost
            for pair in range(n_pairs):
                if own[pair]:
                    spare[pair] -= family[pair] == 1
                    family[pair] -= 1
    return stays


def cross_validate(
    kept: Kept,
    costs: NDArray[np.float64],
    clusters: NDArray[np.int64],
    wanted: Sequence[Demand],
    rng: np.random.Generator,
) -> list[DemandTrial]:
    """Each demand's recall on clusters that were held out while rules were chosen."""
    n_clusters = int(clusters.max()) + 1
    folds = rng.permutation(np.arange(n_clusters) % min(N_FOLDS, n_clusters))[clusters]
    missed = {demand: np.ones(kept.n_pairs, dtype=bool) for demand in wanted}
    for fold in range(min(N_FOLDS, n_clusters)):
        out = folds == fold
        # Selected by an index, the pairs of a rule would no longer lie side by side.
        seen = Kept(np.compress(~out, kept.by_rule, axis=1), kept.families)
        for demand, rules in choose_rules(seen, costs, wanted).items():
            missed[demand][out] = ~kept.by_rule[np.ix_(rules, out)].any(axis=0)
    return [
        DemandTrial(demand, 1 - missed[demand].mean(), _bound_recall(missed[demand], clusters)) for demand in wanted
    ]


def _bound_recall(missed: NDArray[np.bool_], clusters: NDArray[np.int64]) -> float:
    """The recall less one standard error over clusters, one more pair taken as missed.

    The pairs of a cluster are kept or missed together, so that clusters and not pairs are independent.
    """
    share = (missed.sum() + 1) / (len(missed) + 1)
    excess = np.bincount(clusters, weights=missed - missed.mean())
    return float(1 - share - np.sqrt((excess**2).sum()) / len(missed))


def sort_by_gain(kept: Kept, costs: NDArray[np.float64], chosen: Sequence[int]) -> list[int]:
    """The rules in the order of what each adds per cost."""
    left, ordered = list(chosen), list[int]()
    missing = np.ones(kept.n_pairs, dtype=bool)
    while left:
        best = max(left, key=lambda rule: ((kept.by_rule[rule] & missing).sum() / costs[rule], -rule))
        left.remove(best)
        ordered.append(best)
        missing &= ~kept.by_rule[best]
    return ordered
