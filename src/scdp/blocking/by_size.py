"""Blockings for tables of any size: learned from labelled records where these are enough, else made for the columns.

Of few labelled records nobody can tell how many candidates a rule makes of a million; of a sample of these it can be
counted. So which labelled pairs a rule keeps is learned once, and rules are chosen when the table is there: those that
keep the most labelled pairs for their candidates, until a budget of candidates is used up. A block that is small among
few records is too large among many, so blockings are learned for two sizes.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np

from scdp._typing import Booleans, Floats, Integers
from scdp.blocking import qgrams, text, tokens
from scdp.blocking.candidates import candidate_pairs
from scdp.blocking.estimates import Sample, estimate_candidates
from scdp.blocking.index import Oversized
from scdp.blocking.keys import KeyMaker, TextColumns
from scdp.blocking.learn import choose_links, follow_links, learn_blockings
from scdp.blocking.rules import MAX_BLOCK, WINDOW, Blocking, Overlap, Rule, equal, identical, overlap, token_bound
from scdp.blocking.training import (
    Kept,
    draw_training_sample,
    find_greedy_path,
    profile_column,
    propose_rules,
    sort_by_gain,
)
from scdp.errors import InputError
from scdp.hashing import scatter_rows
from scdp.table import Records
from scdp.table.spec import Spec

# Words of a rule and blocks of its key are judged for tables of these numbers of records.
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
# What a rule makes of a table is counted on so many of its records, and at least on the first share of them: in fewer,
# two with one key would stand for a block above the bound. What an overlap makes is counted on at least the second
# share: the rare tokens that it goes by must be in a sample twice to be seen.
COUNTED_ON, COUNTED_SHARE, COUNTED_SHARE_OF_TOKENS = 10_000, 0.01, 0.05
# So near a size is as good as that size: of a million records some are copies, and are left out before.
NEARLY = 0.9
# A rule that keeps fewer of the labelled pairs, or makes more candidates a record, is not considered.
LEAST_KEPT, DEAREST = 0.02, 50.0
# A rule costs as much as so many candidates a record, whatever it finds; an overlap so much for each token.
RULE_WORK, TOKEN_WORK = 1.0, 0.3
# So many labelled pairs tell which rules to take.
MOST_PAIRS = 2_000
# Links matter where a labelled cluster of two or more has so many pairs in the mean.
FEWEST_LINKED = 2.0
# Each pair is to be kept by so many rules of different columns; where the budget allows, by more.
REDUNDANCIES = (2, 4, 8)
MOST_RULES = 20
# After the first rules, none may take more than this share of the budget alone.
FIRST_RULES, LARGEST_SHARE = 4, 0.5
# Candidates a record, of 10,000 records and fewer; more records have fewer each.
MOST_CANDIDATES, LEAST_CANDIDATES, FEWER = 64.0, 3.0, 0.45
N_FOLDS = 5
# Rules that keep so much of the labelled pairs need no dearer ones beside them.
ENOUGH_KEPT = 0.95


class ChosenBlocking(NamedTuple):
    """A blocking, and the share of unseen true pairs that it is expected to keep (NaN: nobody knows)."""

    blocking: Blocking
    recall: float


class BlockingReport(NamedTuple):
    """What was not compared: the share of true pairs that a blocking is expected to keep (NaN: nobody knows), and
    the rules with blocks above the bound."""

    recall: float
    oversized: tuple[Oversized, ...] = ()


class RulePool(NamedTuple):
    """Rules, and which of the labelled pairs each keeps, as bits by size of table, rule and pair.

    `links` are the numbers of the rules, by size of table, whose pairs are almost surely the same; `linked_bits` say
    what each rule keeps through these. Both are empty where clusters are too small for links to matter.
    """

    rules: tuple[Rule, ...]
    n_pairs: int
    bits: bytes
    links: tuple[tuple[int, ...], ...] = ()
    linked_bits: bytes = b""

    @property
    def kept(self) -> Booleans:
        """(sizes, rules, pairs)."""
        return self._unpack(self.bits)

    @property
    def kept_through_links(self) -> Booleans:
        """(sizes, rules, pairs)."""
        return self._unpack(self.linked_bits)

    def _unpack(self, bits: bytes) -> Booleans:
        shape = len(SIZES), len(self.rules), self.n_pairs
        each = np.unpackbits(np.frombuffer(bits, np.uint8), count=int(np.prod(shape)))
        return each.astype(bool).reshape(shape)

    @classmethod
    def learn(cls, records: Records, names: tuple[str, ...], cluster: Integers, seed: int) -> Self:
        """From labelled records, by their columns `names`."""
        kept, precise = [], []
        rng = np.random.default_rng([seed, 7])
        known = draw_training_sample(records, cluster, len(records), MAX_BLOCK, WINDOW, rng)
        rules = propose_rules(known.maker.columns, names)
        for size in SIZES:
            sample = known.stand_for(size)
            estimates = sample.estimate_all(rules)
            kept.append([estimate.kept for estimate in estimates])
            precise.append(choose_links(sample, estimates))
        found = np.array(kept, dtype=bool)
        useful = np.flatnonzero(found[0].mean(axis=1) >= LEAST_KEPT)
        some = tuple(rules[number] for number in useful.tolist())
        sizes = take_whole_clusters(sample.cluster_sizes)
        if (sizes * (sizes - 1) // 2).sum() < FEWEST_LINKED * max(len(sizes), 1):
            taken = np.linspace(0, found.shape[2] - 1, min(found.shape[2], MOST_PAIRS)).astype(np.int64)
            found = found[:, useful][:, :, taken]
            return cls(some, found.shape[2], np.packbits(found).tobytes())
        found = found[:, useful, : int((sizes * (sizes - 1) // 2).sum())]
        links = tuple(tuple(np.flatnonzero(np.isin(useful, each)).tolist()) for each in precise)
        linked = np.array(
            [
                [follow_links(each, by_rule[list(own)].any(axis=0), sizes) for each in by_rule]
                for by_rule, own in zip(found, links, strict=True)
            ],
            dtype=bool,
        )
        bits, linked_bits = (np.packbits(each).tobytes() for each in (found, linked))
        return cls(some, found.shape[2], bits, links, linked_bits)

    def choose(self, records: Records, names: tuple[str, ...]) -> ChosenBlocking:
        """The rules that suit a table, by what they cost there.

        Which tokens are rare in a very large table cannot be seen in few labelled records, so that overlaps keep less
        of it than they seem to. There they are taken only where other rules keep too little.
        """
        place = min(int(np.searchsorted(SIZES, len(records) / 2)), len(SIZES) - 1)
        kept, everyone = self.kept[place], np.arange(len(self.rules))
        overlaps = np.array([isinstance(rule, Overlap) for rule in self.rules], dtype=bool)
        large = NEARLY * COUNTED_ON * token_bound(MAX_BLOCK, len(records))
        if len(records) >= large and not overlaps.all():
            chosen = self._choose_among(np.flatnonzero(~overlaps), kept, records, names)
            if chosen.recall >= ENOUGH_KEPT:
                return chosen
        chosen = self._choose_among(everyone, kept, records, names)
        if chosen.recall >= ENOUGH_KEPT or not self.links or not self.links[place]:
            return chosen
        linked = self._choose_among(everyone, self.kept_through_links[place], records, names)
        links = tuple(self.rules[number] for number in self.links[place])
        return linked._replace(blocking=replace(linked.blocking, links=links))

    def _choose_among(self, some: Integers, kept: Booleans, records: Records, names: tuple[str, ...]) -> ChosenBlocking:
        """The same, of some of the rules, by the pairs that each keeps."""
        n = len(records)
        rules, kept = tuple(self.rules[number] for number in some), kept[some]
        candidates, tokens = count_candidates(records, rules)
        budget = compute_candidate_budget(n)
        # To index the tokens of all records takes time and memory that more candidates would take.
        charged = candidates + TOKEN_WORK * tokens
        costs = np.maximum(charged, candidates + RULE_WORK)
        numbers = np.flatnonzero(charged <= min(DEAREST, budget))
        if not len(numbers):
            numbers = np.array([int(np.argmin(charged))])
        columns = [rules[number].columns for number in numbers]
        each = sorted({tuple(sorted(set(found))) for found in columns})
        families = np.array([each.index(tuple(sorted(set(found)))) for found in columns], dtype=np.int64)
        affordable = Kept(np.ascontiguousarray(kept[numbers]), families)
        chosen = spend(affordable, costs[numbers], charged[numbers], budget)
        ordered = numbers[sort_by_gain(affordable, costs[numbers], chosen)]
        recall = hold_out(affordable, costs[numbers], charged[numbers], budget)
        return ChosenBlocking(Blocking((*(rules[number] for number in ordered), identical(*names))), recall)

    def to_words(self) -> dict[str, Any]:
        """Plain values for JSON."""
        rules = Blocking(self.rules).to_dict()["rule"] if self.rules else []
        words = {"rules": rules, "n_pairs": self.n_pairs, "kept": base64.b64encode(self.bits).decode()}
        if not self.links:
            return words
        linked = base64.b64encode(self.linked_bits).decode()
        return words | {"links": list(map(list, self.links)), "linked": linked}

    @classmethod
    def from_words(cls, words: Mapping[str, Any]) -> Self:
        """What `to_words` gave; ValueError if it is not."""
        rules = Blocking.from_dict({"rule": words["rules"]}).rules if words["rules"] else ()
        bits = base64.b64decode(words["kept"], validate=True)
        n_pairs = words["n_pairs"]
        if isinstance(n_pairs, bool) or not isinstance(n_pairs, int) or not 0 <= n_pairs <= MOST_PAIRS:
            raise ValueError
        n_bytes = -(-len(SIZES) * len(rules) * n_pairs // 8)
        if len(bits) != n_bytes:
            raise ValueError
        if "links" not in words:
            return cls(rules, n_pairs, bits)
        links, linked = words["links"], base64.b64decode(words["linked"], validate=True)
        numbers = [number for each in links for number in each]
        sound = len(links) == len(SIZES) and len(linked) == n_bytes
        if not sound or not all(type(number) is int and 0 <= number < len(rules) for number in numbers):
            raise ValueError
        return cls(rules, n_pairs, bits, tuple(map(tuple, links)), linked)


def take_whole_clusters(sizes: Integers) -> Integers:
    """The sizes of the first clusters that have so many pairs together, as many as teach anything."""
    upto = np.cumsum(sizes * (sizes - 1) // 2)
    return sizes[: int((upto <= MOST_PAIRS).sum())]


def compute_candidate_budget(n_records: int) -> float:
    """Candidates a record that a table of so many records may have."""
    return max(MOST_CANDIDATES * min(1.0, SIZES[0] / max(n_records, 1)) ** FEWER, LEAST_CANDIDATES)


def count_candidates(records: Records, rules: tuple[Rule, ...]) -> tuple[Floats, Floats]:
    """About how many candidates a record each rule makes, and of how many tokens a record (0 but for overlaps).

    Both are judged by samples of the records.
    """
    n = len(records)
    candidates, tokens = np.zeros(len(rules)), np.zeros(len(rules))
    overlaps = np.array([isinstance(rule, Overlap) for rule in rules], dtype=bool)
    few = draw_sample(records, max(COUNTED_ON, int(COUNTED_SHARE * n)))
    others = [rule for rule in rules if not isinstance(rule, Overlap)]
    candidates[~overlaps] = [estimate.candidates / max(n, 1) for estimate in few.estimate_all(others)]
    some = [rule for rule in rules if isinstance(rule, Overlap)]
    size = int(COUNTED_SHARE_OF_TOKENS * n)
    more = draw_sample(records, size) if some and size > few.n_records else few
    candidates[overlaps] = [estimate.candidates / max(n, 1) for estimate in more.estimate_all(some)]
    n_tokens = {
        key: len(few.maker.expression_keys(key).to_lists()[1]) / max(few.n_records, 1)
        for key in {rule.key for rule in some}
    }
    tokens[overlaps] = [n_tokens[rule.key] for rule in some]
    return candidates, tokens


def draw_sample(records: Records, size: int) -> Sample:
    """Some of the records, drawn alike on every machine, that stand for all of them."""
    n = len(records)
    if n > size:
        order = np.argpartition(scatter_rows(np.arange(n, dtype=np.int32)), size)
        records = records.take(np.sort(order[:size]))
    nobody = np.zeros(0, dtype=np.int64)
    m = len(records)
    maker = KeyMaker(TextColumns(records))
    return Sample(maker, np.arange(m), nobody, nobody, nobody, max(n, m), 0.0, MAX_BLOCK, WINDOW)


def spend(kept: Kept, costs: Floats, candidates: Floats, budget: float) -> list[int]:
    """Rules by the pairs that each adds for its cost, as long as the budget lasts."""
    chosen: list[int] = []
    left = budget
    n_families = int(kept.families.max(initial=-1)) + 1
    for redundancy in REDUNDANCIES:
        path, _ = find_greedy_path(kept.by_rule, kept.families, n_families, costs, kept.needs(redundancy))
        for rule in path.tolist():
            share = 1.0 if len(chosen) < FIRST_RULES else LARGEST_SHARE
            if rule in chosen or candidates[rule] > min(left, share * budget) or len(chosen) == MOST_RULES:
                continue
            chosen.append(rule)
            left -= candidates[rule]
    return chosen or [int(np.argmin(candidates))]


def hold_out(kept: Kept, costs: Floats, candidates: Floats, budget: float) -> float:
    """The share of labelled pairs that is kept by rules chosen without them."""
    fold = np.arange(kept.n_pairs) % N_FOLDS
    n_kept = 0
    for out in range(N_FOLDS):
        seen = Kept(np.ascontiguousarray(kept.by_rule[:, fold != out]), kept.families)
        rules = spend(seen, costs, candidates, budget)
        n_kept += int(kept.by_rule[np.ix_(rules, fold == out)].any(axis=0).sum())
    return n_kept / max(kept.n_pairs, 1)


# True pairs that are never compared are lost, so the first blocking keeps nearly all; the others are for more records.
RECALLS = (0.998, 0.99, 0.95)
MANY = 10_000
RECALLS_OF_MANY = (0.99, 0.98, 0.97, 0.95)
# Fewer labelled pairs than this teach no blocking.
FEWEST_PAIRS = 100
# A blocking that would make more candidates a record than this is too thorough for so many records.
MOST_CANDIDATES_A_RECORD = 64
SAMPLE = 20_000
# Blockings are learned from whole clusters of at most so many records.
MOST_TAUGHT = 6_000


class Step(NamedTuple):
    """Blockings for up to so many records, the most thorough first."""

    n_records: int
    blockings: tuple[Blocking, ...]


class Ladder(NamedTuple):
    """Blockings by size of the table, and rules for larger ones; without any, one is made for the columns at hand."""

    steps: tuple[Step, ...]
    pool: RulePool | None = None

    def choose(self, records: Records, spec: Spec) -> ChosenBlocking:
        """The most thorough blocking whose candidates are not too many.

        A few thousand records can afford what is made for any table as well. It keeps pairs that no labelled one is
        like, which learned rules lose.
        """
        if not self.steps:
            return ChosenBlocking(make_default_blocking(records, spec), float("nan"))
        chosen = self._choose_learned(records, spec)
        if len(records) > MANY:
            return chosen
        rules = dict.fromkeys((*chosen.blocking.rules, *make_default_blocking(records, spec).rules))
        return ChosenBlocking(replace(chosen.blocking, rules=tuple(rules)), float("nan"))

    def _choose_learned(self, records: Records, spec: Spec) -> ChosenBlocking:
        fitting = [step for step in self.steps if step.n_records >= len(records)]
        if not fitting and self.pool is not None and self.pool.rules:
            return self.pool.choose(records, list_columns(spec))
        *others, last = (fitting or self.steps[-1:])[0].blockings
        cheap = (each for each in others if estimate_candidates_a_record(records, each) <= MOST_CANDIDATES_A_RECORD)
        return ChosenBlocking(next(cheap, last), float("nan"))

    def to_words(self) -> dict[str, Any]:
        steps = [
            {"n_records": step.n_records, "blockings": [each.to_dict() for each in step.blockings]}
            for step in self.steps
        ]
        return {"steps": steps} if self.pool is None else {"steps": steps, "pool": self.pool.to_words()}

    @classmethod
    def from_words(cls, stored: object) -> Ladder:
        """What `to_words` gave, checked."""
        try:
            assert isinstance(stored, Mapping)
            steps = tuple(map(_read_step, stored["steps"]))
            return cls(steps, RulePool.from_words(stored["pool"]) if "pool" in stored else None)
        except (AssertionError, KeyError, TypeError, ValueError) as error:
            raise InputError("'blockings' is not what belongs there") from error


def list_columns(spec: Spec) -> tuple[str, ...]:
    """The columns that a spec compares."""
    return tuple(dict.fromkeys(name for field in spec.fields for name in field.columns))


def _read_step(stored: object) -> Step:
    if not isinstance(stored, Mapping) or not isinstance(stored.get("blockings"), list):
        raise InputError("'blockings' is not what belongs there")
    size, blockings = stored.get("n_records"), stored["blockings"]
    sound = isinstance(size, int) and not isinstance(size, bool) and size > 0 and blockings
    if not sound or not all(isinstance(each, Mapping) for each in blockings):
        raise InputError("'blockings' is not what belongs there")
    return Step(int(size or 0), tuple(map(Blocking.from_dict, blockings)))


def learn_ladder(records: Records, spec: Spec, cluster: Integers, seed: int) -> Ladder:
    """From labelled records; an empty one where they are too few to learn from."""
    sizes = np.bincount(cluster)
    if int((sizes * (sizes - 1) // 2).sum()) < FEWEST_PAIRS:
        return Ladder(())
    some, known = _take_some(records, cluster, seed)
    steps = []
    wanted = [(len(records), RECALLS), *([(MANY, RECALLS_OF_MANY)] if len(records) < MANY else [])]
    for size, recalls in wanted:
        try:
            found = learn_blockings(
                some,
                known,
                recalls,
                spec=spec,
                n_records=max(size, len(some)),
                links=size == len(records),
                random_state=seed % 2**31,
            )
        except InputError:
            # What cannot be blocked by rules that were learned still can by rules for any table.
            continue
        steps.append(Step(size, tuple(dict.fromkeys(found))))
    return Ladder(tuple(steps), RulePool.learn(some, list_columns(spec), known, seed) if steps else None)


def _take_some(records: Records, cluster: Integers, seed: int) -> tuple[Records, Integers]:
    """The records of whole clusters drawn by chance, where there are more than teach anything new."""
    if len(cluster) <= MOST_TAUGHT:
        return records, cluster
    order = np.random.default_rng([seed, 5]).permutation(cluster.max() + 1)
    # At least two, however large: one cluster alone tells nothing apart.
    n_drawn = max(2, int((np.cumsum(np.bincount(cluster)[order]) <= MOST_TAUGHT).sum()))
    items = np.flatnonzero(np.isin(cluster, order[:n_drawn]))
    return records.take(items), np.unique(cluster[items], return_inverse=True)[1]


def estimate_candidates_a_record(records: Records, blocking: Blocking) -> float:
    """About how many candidate pairs a record there would be, judged by a sample."""
    n = len(records)
    if n <= SAMPLE:
        return len(candidate_pairs(records, blocking)) / max(n, 1)
    order = np.argsort(scatter_rows(np.arange(n, dtype=np.int32)), kind="stable")
    return estimate_candidates(records.take(np.sort(order[:SAMPLE])), blocking, n) / n


def make_default_blocking(records: Records, spec: Spec) -> Blocking:
    """Pairs that share a rare value, rare words or rare q-grams, in one column or over all of them."""
    names = list_columns(spec)
    columns = TextColumns(records)
    profiles = [found for name in names if (found := profile_column(columns, name)) is not None]
    if not profiles:
        return Blocking((equal(text(names[0])),))
    rules: list[Rule] = [equal(text(found.column)) for found in profiles]
    rules += [overlap(qgrams(found.column, 2 if found.is_number else 3), 1.25) for found in profiles]
    if len(profiles) > 1:
        every: Sequence[str] = [found.column for found in profiles]
        rules.append(overlap(tokens(*every), 1.0))
    return Blocking(tuple(rules))
