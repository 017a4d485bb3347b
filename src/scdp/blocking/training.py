"""What a blocking is learned from: rules that might suit the columns, and a sample of records with its true pairs.

And the choice among rules, a weighted set cover: which rules keep which pairs, and their costs, go in; a cheap set that
keeps enough comes out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdp._compile import kernel
from scdp.blocking import Expression, digits, last_word, prefix, qgrams, soundex, text, tokens, year
from scdp.blocking.candidates import encode_known_clusters
from scdp.blocking.estimates import Sample
from scdp.blocking.keys import KeyMaker, TextColumns
from scdp.blocking.rules import Overlap, Rule, equal, neighbourhood, overlap
from scdp.compare.cells import year as year_of
from scdp.errors import InputError
from scdp.table import Records

SAMPLE = 2000
MOST = 0.8
OFTEN = 0.3
RARITIES = (0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5, 2.0)
WINDOWS = (3, 10)

_LETTER = re.compile(r"[^\W\d_]")
_DIGIT = re.compile(r"[0-9]")


@dataclass(frozen=True)
class Profile:
    """What a column's texts look like, as shares of them."""

    column: str
    with_letters: float
    with_digits: float
    with_years: float
    of_many_words: float
    length: float

    @property
    def is_number(self) -> bool:
        return self.with_digits > MOST and self.with_letters < OFTEN


def profile_column(columns: TextColumns, column: str) -> Profile | None:
    """The profile of a column, or None if it has fewer than two different texts."""
    _, texts = columns.encode((column,))
    if len(texts) < 2:
        return None
    seen = [texts[place] for place in np.linspace(0, len(texts) - 1, min(SAMPLE, len(texts))).astype(int)]

    def share(hits: Iterable[object]) -> float:
        return sum(map(bool, hits)) / len(seen)

    return Profile(
        column,
        share(map(_LETTER.search, seen)),
        share(map(_DIGIT.search, seen)),
        share(map(year_of, seen)),
        share(" " in value for value in seen),
        sum(map(len, seen)) / len(seen),
    )


def suggest_expressions(found: Profile) -> list[Expression]:
    """Expressions of one key a record that suit a column, the whole text first."""
    column = found.column
    parts = [text(column)]
    if found.is_number:
        parts += [digits(column, last=4), prefix(column, 3)] if found.length > 4 else [prefix(column, 2)]
        parts += [digits(column, last=7)] if found.length > 8 else []
        return parts + ([year(column)] if found.with_years > MOST else [])
    parts += [prefix(column, 1), prefix(column, 4), soundex(column)]
    parts += [last_word(column)] if found.of_many_words > OFTEN else []
    return parts + ([digits(column)] if found.with_digits > OFTEN else [])


def propose_rules(columns: TextColumns, names: Sequence[str]) -> list[Rule]:
    """Equality on one and on two expressions, sorted neighbourhoods and overlaps for the named columns."""
    profiles = [found for name in names if (found := profile_column(columns, name)) is not None]
    by_column = [suggest_expressions(found) for found in profiles]
    rules: list[Rule] = [equal(part) for parts in by_column for part in parts]
    rules += [equal(tokens(found.column)) for found in profiles if found.of_many_words > OFTEN]
    for first, second in combinations(by_column, 2):
        rules += [equal(a, b) for a in first for b in second]
    rules += _propose_neighbourhoods(by_column)
    return rules + _propose_overlaps(profiles)


def _propose_neighbourhoods(by_column: Sequence[Sequence[Expression]]) -> list[Rule]:
    sortable = [part for parts in by_column for part in parts if part.part in ("text", "last_word", "digits")]
    return [neighbourhood(part, window=window) for part in sortable for window in WINDOWS]


def _propose_overlaps(profiles: Sequence[Profile]) -> list[Overlap]:
    keys = [qgrams(found.column, 2 if found.is_number else 3) for found in profiles]
    keys += [tokens(found.column) for found in profiles if found.of_many_words > OFTEN]
    if len(profiles) > 1:
        names = tuple(found.column for found in profiles)
        keys += [tokens(*names), Expression("qgrams", names, 3)]
    return [overlap(key, rarity) for key in keys for rarity in RARITIES]


# Learning looks at no more records and labelled pairs than this; the counts are scaled up.
MOST_RECORDS = 30_000
MOST_PAIRS = 40_000


def draw_training_sample(
    records: Records, clusters: ArrayLike, n_records: int | None, max_block: int, window: int, rng: np.random.Generator
) -> Sample:
    """At most MOST_RECORDS records, labelled ones first, and at most MOST_PAIRS of their pairs."""
    codes = encode_known_clusters(clusters, len(records))
    rows = _sample_rows(codes, rng)
    codes = codes[rows]
    groups = _clusters_of_pairs(codes, rng)
    if not groups:
        raise InputError(f"{records.source}: no two records have the same known cluster; label some duplicates")
    entities = np.unique(np.where(codes < 0, -1 - np.arange(len(codes)), codes), return_inverse=True)[1]
    sizes = np.bincount(codes[codes >= 0])
    stands_for = max(len(records) if n_records is None else n_records, len(rows))
    true_pairs = float((sizes * (sizes - 1) // 2).sum())
    return Sample(
        KeyMaker(TextColumns(records.take(rows))),
        entities,
        *_list_pairs_within(groups),
        np.array([len(group) for group in groups]),
        stands_for,
        true_pairs * stands_for / float((codes >= 0).sum()),
        max_block,
        window,
    )


def _sample_rows(codes: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    if len(codes) <= MOST_RECORDS:
        return np.arange(len(codes))
    # Whole clusters, in a random order, up to half of the sample; then records without a label.
    labelled = np.flatnonzero(codes >= 0)
    order = rng.permutation(int(codes.max(initial=-1)) + 1)
    labelled = labelled[np.argsort(order[codes[labelled]], kind="stable")]
    ranks = order[codes[labelled]]
    taken = labelled
    if len(labelled) > MOST_RECORDS // 2:
        taken = labelled[ranks < ranks[MOST_RECORDS // 2]]
    rest = np.setdiff1d(np.arange(len(codes)), taken)
    others = rng.choice(rest, MOST_RECORDS - len(taken), replace=False)
    return np.sort(np.concatenate([taken, others]))


def _clusters_of_pairs(codes: NDArray[np.int64], rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """The records of each labelled cluster of two or more, in a random order while the pairs are few enough."""
    order = np.argsort(codes, kind="stable")
    order = order[codes[order] >= 0]
    groups = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
    chosen: list[NDArray[np.int64]] = []
    total = 0
    for place in rng.permutation(len(groups)):
        size = len(groups[place])
        total += size * (size - 1) // 2
        if total > MOST_PAIRS and chosen:
            break
        if size > 1:
            chosen.append(groups[place])
    return chosen


def _list_pairs_within(groups: list[NDArray[np.int64]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    places = [np.triu_indices(len(group), k=1) for group in groups]
    left = [group[first] for group, (first, _) in zip(groups, places, strict=True)]
    right = [group[second] for group, (_, second) in zip(groups, places, strict=True)]
    return np.concatenate(left), np.concatenate(right)


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
