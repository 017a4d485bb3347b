"""Weighted set cover: which rules keep which pairs, and their costs, go in; a cheap set that keeps enough comes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from scdp.compile import kernel

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
class Trial:
    """A demand, the share of held-out pairs kept when rules were chosen by it, and a lower bound for it."""

    demand: Demand
    recall: float
    bound: float


def demands(recall: float, n_pairs: int) -> list[Demand]:
    """From the least demand to the greatest; too few pairs to show the recall get the most careful alone."""
    if too_few(n_pairs, recall):
        return [Demand(MOST_REDUNDANT, 1.0)]
    shares = [1 - (1 - recall) * spent for spent in SPENDABLE]
    return [Demand(redundancy, share) for redundancy in REDUNDANCIES for share in shares]


def too_few(n_pairs: int, recall: float) -> bool:
    """Whether so few pairs could not show the recall even if none of them were missed."""
    return 1 / (n_pairs + 1) > 1 - recall


def choose(kept: Kept, costs: NDArray[np.float64], wanted: Sequence[Demand]) -> dict[Demand, list[int]]:
    """For every demand, the rules chosen greedily by pairs per cost and then thinned out."""
    chosen: dict[Demand, list[int]] = {}
    for redundancy in sorted({demand.redundancy for demand in wanted}):
        needs = kept.needs(redundancy)
        path, shares = _greedy_path(kept, costs, needs)
        for demand in wanted:
            if demand.redundancy == redundancy:
                enough = demand.share * (shares[-1] if len(shares) else 0) - 1e-12
                length = int(np.argmax(shares >= enough)) + 1 if len(shares) else 0
                chosen[demand] = _thinned(kept, costs, path[:length], needs, enough)
    return chosen


def _greedy_path(
    kept: Kept, costs: NDArray[np.float64], needs: NDArray[np.int16]
) -> tuple[list[int], NDArray[np.float64]]:
    """Rules in the order chosen until no need is left, and the share of all pairs satisfied after each."""
    left = needs.copy()
    # What a rule would still add, by pair: an entry is taken out once, when it no longer counts.
    adds = kept.by_rule.T.copy()
    gains = adds.sum(axis=0)
    path: list[int] = []
    shares: list[float] = []
    while gains.any():
        best = int(np.argmax(gains / costs))
        path.append(best)
        helped = adds[:, best].copy()
        left[helped] -= 1
        family = np.flatnonzero(kept.families == kept.families[best])
        satisfied, others = np.flatnonzero(helped & (left == 0)), np.flatnonzero(helped & (left > 0))
        gains = gains - adds[satisfied].sum(axis=0)
        adds[satisfied] = False
        gains[family] -= adds[np.ix_(others, family)].sum(axis=0)
        adds[np.ix_(others, family)] = False
        shares.append(float(((needs > 0) & (left == 0)).mean()))
    return path, np.array(shares)


def _thinned(
    kept: Kept, costs: NDArray[np.float64], rules: Sequence[int], needs: NDArray[np.int16], enough: float
) -> list[int]:
    """The rules without those that the others make superfluous, the dearest tried first."""
    dearest = np.array(sorted(rules, key=lambda rule: -costs[rule]), dtype=np.int64)
    families, of_rule = np.unique(kept.families[dearest], return_inverse=True)
    keep = without_superfluous(kept.by_rule, dearest, of_rule, len(families), needs, enough)
    left = set(dearest[keep].tolist())
    return [rule for rule in rules if rule in left]


@kernel
def without_superfluous(
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


def cross_validated(
    kept: Kept,
    costs: NDArray[np.float64],
    clusters: NDArray[np.int64],
    wanted: Sequence[Demand],
    rng: np.random.Generator,
) -> list[Trial]:
    """Each demand's recall on clusters that were held out while rules were chosen."""
    n_clusters = int(clusters.max()) + 1
    folds = rng.permutation(np.arange(n_clusters) % min(N_FOLDS, n_clusters))[clusters]
    missed = {demand: np.ones(kept.n_pairs, dtype=bool) for demand in wanted}
    for fold in range(min(N_FOLDS, n_clusters)):
        out = folds == fold
        # Selected by an index, the pairs of a rule would no longer lie side by side.
        seen = Kept(np.compress(~out, kept.by_rule, axis=1), kept.families)
        for demand, rules in choose(seen, costs, wanted).items():
            missed[demand][out] = ~kept.by_rule[np.ix_(rules, out)].any(axis=0)
    return [Trial(demand, 1 - missed[demand].mean(), _bound(missed[demand], clusters)) for demand in wanted]


def _bound(missed: NDArray[np.bool_], clusters: NDArray[np.int64]) -> float:
    """The recall less one standard error over clusters, one more pair taken as missed.

    The pairs of a cluster are kept or missed together, so that clusters and not pairs are independent.
    """
    share = (missed.sum() + 1) / (len(missed) + 1)
    excess = np.bincount(clusters, weights=missed - missed.mean())
    return float(1 - share - np.sqrt((excess**2).sum()) / len(missed))


def by_gain(kept: Kept, costs: NDArray[np.float64], chosen: Sequence[int]) -> list[int]:
    """The rules in the order of what each adds per cost."""
    left, ordered = list(chosen), list[int]()
    missing = np.ones(kept.n_pairs, dtype=bool)
    while left:
        best = max(left, key=lambda rule: ((kept.by_rule[rule] & missing).sum() / costs[rule], -rule))
        left.remove(best)
        ordered.append(best)
        missing &= ~kept.by_rule[best]
    return ordered
