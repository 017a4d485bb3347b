"""What a rule and a blocking are worth: which pairs they keep, which they lose, and how many candidates they make.

On a sample of m records that stands for n, pairs of the same entity count n / m times and others (n / m)^2
times, and blocks and tokens are taken as large as they would be.

Where no labels tell, likely pairs do. A pair that several columns propose would be found if one of them failed; one
that a single column proposes was nearly lost. So from how many likely pairs have one column that proposes them, and how
many have two, follows how many have none: the estimate of Chao (1987) for animals that were never caught.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp._parallel import count_workers, map_in_threads
from scdp._typing import Booleans, Floats, Integers
from scdp.blocking import Expression
from scdp.blocking.index import (
    ROUNDING,
    Groups,
    RecordTokens,
    build_index,
    compute_rarities,
    find_blocks,
    invert_members,
    order_tokens,
    sort_records,
    sum_shared_weight,
)
from scdp.blocking.keys import KeyMaker, TextColumns, make_key_maker
from scdp.blocking.pairs import count_index_pairs, find_chunks, make_index_search, number_pairs
from scdp.blocking.rules import Blocking, Equal, Identical, Neighbourhood, Overlap, Rule, token_bound
from scdp.table import Records

SAMPLED_ROWS = 2000


@dataclass(frozen=True)
class Estimate:
    """Which labelled pairs a rule keeps, and about how many candidates it makes of all records."""

    kept: NDArray[np.bool_]
    candidates: float


class Keyed(NamedTuple):
    """Records that share a key, and by such group the number of entities and the pairs of the same entity."""

    groups: Groups
    n_entities: NDArray[np.int64]
    same: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Sample:
    """Records with the entity of each (unlabelled ones have their own) and their true pairs.

    The pairs are those of whole clusters, of `cluster_sizes` records, one cluster after the other. The sample
    stands for `n_stands_for` records, of which about `n_true_pairs` pairs are true.
    """

    maker: KeyMaker
    entities: NDArray[np.int64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    cluster_sizes: NDArray[np.int64]
    n_stands_for: int
    n_true_pairs: float
    max_block: int
    window: int
    # By the keys of a rule: what does not hang on how many records the sample stands for, nor on a window.
    _found: dict[Hashable, Keyed] = field(default_factory=dict)
    _sorted: dict[tuple[Expression, ...], NDArray[np.int32]] = field(default_factory=dict)

    def stand_for(self, n_records: int) -> Sample:
        """The same sample of a table of so many records, or of as many as it stands for if these are more."""
        n_records = max(n_records, self.n_stands_for)
        return replace(self, n_stands_for=n_records, n_true_pairs=self.n_true_pairs * n_records / self.n_stands_for)

    @property
    def n_records(self) -> int:
        return len(self.entities)

    @property
    def scale(self) -> float:
        return self.n_stands_for / self.n_records

    @property
    def pair_clusters(self) -> NDArray[np.int64]:
        """The cluster of each true pair, counted from 0."""
        sizes = self.cluster_sizes
        return np.repeat(np.arange(len(sizes)), sizes * (sizes - 1) // 2)

    def scale_up(self, same: float, other: float) -> float:
        """How many pairs of all records stand behind pairs of the same and of different entities here."""
        return float(same * self.scale + other * self.scale**2)

    def precision(self, estimate: Estimate) -> float:
        """About which share of a rule's candidates are true."""
        return min(1.0, float(estimate.kept.mean()) * self.n_true_pairs / max(estimate.candidates, 1.0))

    def count(self, blocking: Blocking) -> float:
        """About how many candidates a blocking makes of all records: counted here and scaled up."""
        same = total = 0
        for left, right in find_chunks(self.maker, self._scale_down(blocking))[0]:
            total += len(left)
            same += int((self.entities[left] == self.entities[right]).sum())
        return self.scale_up(same, total - same)

    def _scale_down(self, blocking: Blocking) -> Blocking:
        """The blocking with bounds that mean here what its own mean among all records."""
        rules = tuple(
            replace(rule, window=self._scale_count(rule.window)) if isinstance(rule, Neighbourhood) else rule
            for rule in blocking.rules
        )
        return Blocking(
            rules, blocking.links, max(2, self._scale_count(blocking.max_block)), self._scale_count(blocking.window)
        )

    def _scale_count(self, count: int) -> int:
        return max(1, round(count / self.scale))

    def estimate_all(self, rules: Sequence[Rule]) -> list[Estimate]:
        """Of each rule; overlaps of the same keys are looked at together."""
        same_keys: dict[tuple[Expression, ...], list[Overlap]] = {}
        for rule in rules:
            if isinstance(rule, Overlap):
                same_keys.setdefault(rule.keys, []).append(rule)
        found: dict[Rule, Estimate] = {}
        for alike in same_keys.values():
            found |= zip(alike, self._overlaps(alike), strict=True)
        return [found[rule] if rule in found else self.estimate(rule) for rule in rules]

    def estimate(self, rule: Rule) -> Estimate:
        if isinstance(rule, Neighbourhood):
            return self._estimate_neighbourhood(rule)
        if isinstance(rule, Overlap):
            return self._overlaps([rule])[0]
        return self._estimate_blocks(self._find_keyed(rule))

    def _find_keyed(self, rule: Equal | Identical | Overlap) -> Keyed:
        """The records that share a key of a rule, found once for all sizes."""
        key = isinstance(rule, Identical), rule.keys
        if key not in self._found:
            groups = find_blocks(self.maker.rule_keys(rule))
            found = Keyed(groups, *count_entities(groups.offsets, groups.members, self.entities))
            self._found[key] = found
        return self._found[key]

    def _estimate_blocks(self, keyed: Keyed) -> Estimate:
        blocks, same, scaled = keyed.groups, keyed.same, self._scale_sizes(keyed)
        sizes = blocks.sizes
        fits = scaled <= self.max_block
        pairs = sizes * (sizes - 1) // 2
        whole = self.scale_up(same[fits].sum(), (pairs - same)[fits].sum())
        small = blocks.select(fits)
        rows, places = invert_members(self.n_records, small.members)
        block_of = np.repeat(np.arange(len(small), dtype=np.int64), small.sizes)[places]
        kept = share_block(rows, block_of, self.left, self.right)
        return Estimate(kept, float(whole + scaled[~fits].sum() * self.window))

    def _scale_sizes(self, keyed: Keyed) -> NDArray[np.float64]:
        """How many of all the records have each key."""
        return keyed.groups.sizes + (keyed.n_entities - 1) * (self.scale - 1)

    def _estimate_neighbourhood(self, rule: Neighbourhood) -> Estimate:
        if rule.keys not in self._sorted:
            self._sorted[rule.keys] = sort_records(self.maker, rule).members
        members = self._sorted[rule.keys]
        places = np.full(self.n_records, -1, dtype=np.int64)
        places[members] = np.arange(len(members))
        left, right = places[self.left], places[self.right]
        kept = (left >= 0) & (right >= 0) & (np.abs(left - right) * self.scale <= rule.window)
        return Estimate(kept, float(len(members) * self.scale * rule.window))

    def _overlaps(self, rules: Sequence[Overlap]) -> list[Estimate]:
        """Of rules that differ in rarity alone."""
        enough = np.array([rule.rarity for rule in rules]) - ROUNDING
        groups, weights = self._weigh_tokens(rules[0])
        # Where nothing at all is enough, every token is posted.
        tokens = order_tokens(groups, weights, self.n_records, 0.0)
        shared = _sum_shared(tokens, self.left, self.right)
        # Not evenly spaced: records may come in an order that repeats.
        rows = np.sort(np.random.default_rng(0).permutation(self.n_records)[:SAMPLED_ROWS])
        same, other = count_partners(
            tokens.offsets,
            tokens.tokens,
            tokens.weights,
            tokens.postings.offsets,
            tokens.postings.members,
            self.entities,
            rows,
            enough,
        )
        stands_for = self.n_records / len(rows)
        return [
            Estimate(shared >= least, self.scale_up(same[number], other[number]) * stands_for)
            for number, least in enumerate(enough)
        ]

    def _weigh_tokens(self, rule: Overlap) -> tuple[Groups, NDArray[np.float64]]:
        keyed = self._find_keyed(rule)
        scaled = self._scale_sizes(keyed)
        fits = scaled <= token_bound(self.max_block, self.n_stands_for)
        return keyed.groups.select(fits), compute_rarities(scaled[fits], self.n_stands_for)


def estimate_candidates(records: Records, blocking: Blocking, n_records: int) -> float:
    """About how many pairs the blocking makes of `n_records` records, of which these are a random sample.

    Pairs within blocks grow with the square of the records, as long as a block stays within its bound; records of
    larger blocks, and neighbours in a sorted order, have as many partners among any number. What overlaps find is added
    to that, though some of it is the same: a token's rarity is taken as it would be among all.
    """
    maker = KeyMaker(TextColumns(records))
    n, nobody = len(records), np.zeros(0, dtype=np.int64)
    bounds = blocking.max_block, blocking.window
    sample = Sample(maker, np.arange(n), nobody, nobody, nobody, max(n_records, n), 0.0, *bounds)
    overlaps = [rule for rule in blocking.rules if isinstance(rule, Overlap)]
    found = sum(estimate.candidates for estimate in sample.estimate_all(overlaps))
    others = [rule for rule in blocking.all_rules if not isinstance(rule, Overlap)]
    found += _count_in_blocks(sample, blocking, others)
    # A link has two ends, and so has a pair, each of which meets those that are linked with the other.
    links_a_record = 2 * _count_in_blocks(sample, blocking, blocking.links) / max(n_records, 1)
    return found * (1.0 + links_a_record)


def _count_in_blocks(sample: Sample, blocking: Blocking, rules: Sequence[Rule]) -> float:
    if not rules:
        return 0.0
    # A block reaches this bound here where it reaches its own among all records.
    bounded = replace(blocking, max_block=max(2, round(blocking.max_block / sample.scale)))
    blocks, near = count_index_pairs(build_index(sample.maker, bounded, rules)[0])
    return blocks * sample.scale**2 + near * sample.scale


def _sum_shared(tokens: RecordTokens, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.float64]:
    return sum_shared_weights(tokens.offsets, tokens.tokens, tokens.weights, left, right)


@kernel
def count_entities(
    offsets: NDArray[np.int64], members: NDArray[np.int32], entities: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many different entities each group holds, and how many pairs of the same one."""
    counts = np.zeros(len(offsets) - 1, dtype=np.int64)
    same = np.zeros(len(offsets) - 1, dtype=np.int64)
    last_group = np.full(len(entities), -1, dtype=np.int64)
    met = np.zeros(len(entities), dtype=np.int64)
    for group in range(len(counts)):
        for place in range(offsets[group], offsets[group + 1]):
            entity = entities[members[place]]
            if last_group[entity] != group:
                last_group[entity] = group
                met[entity] = 0
                counts[group] += 1
            same[group] += met[entity]
            met[entity] += 1
    return counts, same


@kernel
def share_block(
    rows: NDArray[np.int64], blocks: NDArray[np.int64], left: NDArray[np.int64], right: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Whether both records of each pair are in one block; a record's blocks ascend."""
    kept = np.zeros(len(left), dtype=np.bool_)
    for pair in range(len(left)):
        a, b = rows[left[pair]], rows[right[pair]]
        while a < rows[left[pair] + 1] and b < rows[right[pair] + 1]:
            if blocks[a] == blocks[b]:
                kept[pair] = True
                break
            if blocks[a] < blocks[b]:
                a += 1
            else:
                b += 1
    return kept


@kernel
def sum_shared_weights(
    offsets: NDArray[np.int64],
    tokens: NDArray[np.int32],
    weights: NDArray[np.float64],
    left: NDArray[np.int64],
    right: NDArray[np.int64],
) -> NDArray[np.float64]:
    """The weight of the tokens that the two records of each pair share."""
    shared = np.empty(len(left))
    for pair in range(len(left)):
        a, b = left[pair], right[pair]
        shared[pair] = sum_shared_weight(
            tokens, weights, offsets[a], offsets[a + 1], offsets[b], offsets[b + 1], np.inf
        )
    return shared


@kernel
def count_partners(
    offsets: NDArray[np.int64],
    tokens: NDArray[np.int32],
    weights: NDArray[np.float64],
    posting_offsets: NDArray[np.int64],
    postings: NDArray[np.int32],
    entities: NDArray[np.int64],
    rows: NDArray[np.int64],
    enough: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many later partners the rows have that share enough, by each bound: of the same entity, and of others.

    All tokens are posted. What a partner shares is added up token by token, each list read from its end.
    """
    shared = np.zeros(len(entities))
    met = np.empty(len(entities), dtype=np.int64)
    same = np.zeros(len(enough), dtype=np.int64)
    other = np.zeros(len(enough), dtype=np.int64)
    for row in rows:
        n_met = 0
        for entry in range(offsets[row], offsets[row + 1]):
            token = tokens[entry]
            if weights[token] <= 0.0:
                continue
            place = posting_offsets[token + 1] - 1
            while postings[place] > row:
                partner = postings[place]
                place -= 1
                if shared[partner] == 0.0:
                    met[n_met] = partner
                    n_met += 1
                shared[partner] += weights[token]
        for partner in met[:n_met]:
            for bound in range(len(enough)):
                if shared[partner] >= enough[bound]:
                    if entities[partner] == entities[row]:
                        same[bound] += 1
                    else:
                        other[bound] += 1
            shared[partner] = 0.0
    return same, other


# Fewer sets of columns, or fewer likely pairs, tell nothing.
FEWEST_FAMILIES, FEWEST_PAIRS = 3, 20.0
# The pairs of so many records are looked at.
MOST_ROWS = 2_000


def estimate_recall(
    records: Records, blocking: Blocking, left: Integers, right: Integers, probability: Floats
) -> float:
    """The share of true pairs that a blocking proposes, by some that it does (left < right); NaN where they are few.

    `probability` is that of each being a match. Unlikely ones must not be among them.
    """
    families = _group_by_columns(blocking)
    rows = np.unique(left)
    if len(rows) > MOST_ROWS:
        rows = np.sort(np.random.default_rng(len(rows)).choice(rows, MOST_ROWS, replace=False))
        some = np.isin(left, rows)
        left, right, probability = left[some], right[some], probability[some]
    if len(families) < FEWEST_FAMILIES or probability.sum() < FEWEST_PAIRS:
        return float("nan")
    by_family = np.zeros((len(families), len(left)), dtype=bool)
    maker, threads, keys = make_key_maker(records, blocking), count_workers(-1), number_pairs(left, right)
    for found, rules in zip(by_family, families.values(), strict=True):
        search = make_index_search(build_index(maker, blocking, rules, threads)[0])
        for pairs in map_in_threads(search.pairs, search.parts(rows.astype(np.int32)), threads):
            found |= np.isin(keys, number_pairs(*pairs))
    shares = [estimate_unseen_share(by_family, probability)]
    # Columns together find what each of them finds and more. Without such rules no fewer pairs are lost.
    alone = [not any(other < columns for other in families) for columns in families]
    if FEWEST_FAMILIES <= sum(alone) < len(families):
        shares.append(estimate_unseen_share(by_family[alone], probability))
    return 1.0 - min(shares)


def estimate_unseen_share(caught: Booleans, weight: Floats) -> float:
    """The share of things that were never caught, by which were caught each time: (times, things), of some weight."""
    n_times, often = len(caught), caught.sum(axis=0)
    once, twice = (float(weight[often == number].sum()) for number in (1, 2))
    unseen = (n_times - 1.0) / n_times * once * max(once - 1.0, 0.0) / (2.0 * (twice + 1.0))
    return unseen / max(unseen + float(weight[often > 0].sum()), 1.0)


def _group_by_columns(blocking: Blocking) -> dict[frozenset[str], list[Rule]]:
    """Rules by what they read: those of the same columns find or lose a pair together."""
    families: dict[frozenset[str], list[Rule]] = {}
    for rule in blocking.rules:
        families.setdefault(frozenset(rule.columns), []).append(rule)
    return families
