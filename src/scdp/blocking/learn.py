"""Learned blocking: records, some with known clusters, go in; the cheapest rules that keep their pairs come out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdp.blocking.cover import Demand, Kept, Trial, by_gain, choose, cross_validated, demands, too_few
from scdp.blocking.estimates import Estimate, Sample
from scdp.blocking.links import chosen_links, kept_through_links
from scdp.blocking.pool import proposed_rules
from scdp.blocking.rules import MAX_BLOCK, WINDOW, Blocking, Overlap, Rule, check_count, identical
from scdp.blocking.training import training_sample
from scdp.errors import InputError
from scdp.records import Records
from scdp.specs import Spec

# A single rule that makes more candidates a record than this is not considered.
DEAREST = 50
# So many candidates a record cost next to nothing: below, what a rule keeps counts for more than its price.
CHEAP = 1.0
# An overlap takes several times the work of an equality, whatever it finds.
OVERLAP_WORK = 4.0
# Links make pairs that are hard to count beforehand, so they must promise this share or less.
WORTH_LINKING = 0.5


@dataclass(frozen=True)
class LearnedRule:
    """A rule, the share of labelled pairs it keeps alone and with those before it, and its candidates.

    A link's own pairs come first; what other rules keep through links counts as theirs.
    """

    rule: Rule
    is_link: bool
    recall: float
    recall_so_far: float
    candidates: int

    def __str__(self) -> str:
        return f"link {self.rule}" if self.is_link else str(self.rule)


@dataclass(frozen=True)
class LearnedRules:
    """The table of a learned blocking; print it. `candidates` is about how many the whole blocking makes.

    `held_out_recall` was measured on clusters kept from the choice. `certain` says whether its lower bound
    reaches the recall asked for; if not, the most careful choice was taken.
    """

    rules: tuple[LearnedRule, ...]
    n_pairs: int
    held_out_recall: float
    lower_bound: float
    certain: bool
    candidates: int

    def __str__(self) -> str:
        width = max(len(str(row)) for row in self.rules)
        lines = [f"{'rule':<{width}}  recall  so far   candidates"]
        lines += [
            f"{row!s:<{width}}  {row.recall:6.4f}  {row.recall_so_far:6.4f}  {row.candidates:11,}"
            for row in self.rules
        ]
        lines.append(f"{'all, each pair once':<{width}}  {'':6}  {'':6}  {self.candidates:11,}")
        held_out = f"held-out recall {self.held_out_recall:.4f}, lower bound {self.lower_bound:.4f}"
        doubt = "" if self.certain else " (below what was asked for: the most careful choice was taken)"
        return "\n".join([*lines, f"{self.n_pairs:,} labelled pairs; {held_out}{doubt}"])


@dataclass(frozen=True)
class _Choice:
    """A trial of one demand, and the links and rules chosen for it."""

    trial: Trial
    blocking: Blocking


def learn_blocking(
    records: Records,
    clusters: ArrayLike,
    *,
    spec: Spec | None = None,
    recall: float = 0.99,
    n_records: int | None = None,
    max_block: int = MAX_BLOCK,
    window: int = WINDOW,
    random_state: int = 0,
) -> tuple[Blocking, LearnedRules]:
    """The rules that keep at least `recall` of the labelled pairs, unseen ones too, at the fewest candidates.

    - `clusters`: the cluster of each record, -1 where it is unknown. Give all the records that are to be
      blocked and not only the labelled ones: candidates are counted on all of them.
    - `spec`: its columns are used; without it all columns, which must then hold no ids and no clusters.
    - `n_records`: how many records the blocking is meant for, if not these.

    Exact duplicates are always candidates.
    """
    if not 0 < recall <= 1:
        raise InputError(f"blocking: recall is {recall}; use a share above 0, at most 1")
    if n_records is not None:
        check_count("n_records", n_records)
    columns = _columns(records, spec)
    rng = np.random.default_rng(random_state)
    sample = training_sample(records, clusters, n_records, max_block, window, rng)
    rules, estimates = _useful(sample, proposed_rules(sample.maker.columns, columns))
    learner = _Learner(sample, rules, estimates, identical(*columns), recall, rng)
    best = learner.best()
    trial = best.trial
    table = LearnedRules(
        learner.table(best.blocking),
        len(sample.left),
        trial.recall,
        trial.bound,
        trial.bound >= recall,
        round(sample.count(best.blocking)),
    )
    return best.blocking, table


def _columns(records: Records, spec: Spec | None) -> tuple[str, ...]:
    if spec is None:
        return records.names
    named = dict.fromkeys(column for field in spec.fields for column in field.columns)
    known = {spec.entity, spec.id, spec.group}
    columns = tuple(named) or tuple(name for name in records.names if name not in known)
    records.require(*columns)
    return columns


def _useful(sample: Sample, rules: Sequence[Rule]) -> tuple[list[Rule], list[Estimate]]:
    """The rules that keep something and do not cost too much; of equal ones the first."""
    limit = DEAREST * sample.n_stands_for
    useful: dict[tuple[bytes, float], tuple[Rule, Estimate]] = {}
    for rule in rules:
        estimate = sample.estimate(rule)
        if estimate.kept.any() and estimate.candidates <= limit:
            useful.setdefault((estimate.kept.tobytes(), estimate.candidates), (rule, estimate))
    return [rule for rule, _ in useful.values()], [estimate for _, estimate in useful.values()]


def _floor(rule: Rule) -> float:
    return CHEAP * (OVERLAP_WORK if isinstance(rule, Overlap) else 1.0)


class _Learner:
    """Chooses rules of the pool, without links and with them, and keeps what needs fewer candidates."""

    def __init__(
        self,
        sample: Sample,
        rules: Sequence[Rule],
        estimates: Sequence[Estimate],
        duplicates: Rule,
        recall: float,
        rng: np.random.Generator,
    ) -> None:
        self.sample, self.rules, self.estimates = sample, rules, estimates
        self.duplicates, self.recall, self.rng = duplicates, recall, rng
        self.floors = np.array([_floor(rule) for rule in rules]) * sample.n_stands_for
        self.costs = np.array([found.candidates for found in estimates]) + self.floors
        columns = [tuple(sorted(set(rule.columns))) for rule in rules]
        self.families = np.array([sorted(set(columns)).index(names) for names in columns], dtype=np.int64)

    def best(self) -> _Choice:
        links = chosen_links(self.sample, self.estimates)
        if too_few(len(self.sample.left), self.recall):
            links = []  # nobody can say how sure they are
        choices = [self._choice([]), *([self._choice(links)] if links else [])]
        certain = [choice for choice in choices if choice.trial.bound >= self.recall]
        if len(certain) > 1:
            plain, linked = (self.sample.count(choice.blocking) for choice in certain)
            return certain[1] if linked <= WORTH_LINKING * plain else certain[0]
        return certain[0] if certain else max(choices, key=lambda choice: choice.trial.bound)

    def _choice(self, links: Sequence[int]) -> _Choice:
        linked = self._linked(links)
        by_rule = np.empty((len(self.estimates), len(linked)), dtype=bool)
        for rule, found in enumerate(self.estimates):
            by_rule[rule] = self._kept(found, linked)
        kept = Kept(by_rule, self.families)
        costs = self.costs.copy()
        # The pairs of links are candidates anyway.
        costs[list(links)] = self.floors[list(links)]
        wanted = demands(self.recall, len(self.sample.left))
        trials = cross_validated(kept, costs, self.sample.pair_clusters, wanted, self.rng)
        chosen = choose(kept, costs, wanted)
        trial = self._cheapest(trials, chosen)
        ordered = by_gain(kept, costs, chosen[trial.demand])
        blocking = Blocking(
            (*(self.rules[rule] for rule in ordered), self.duplicates),
            tuple(self.rules[link] for link in links),
            self.sample.max_block,
            self.sample.window,
        )
        return _Choice(trial, blocking)

    def _linked(self, links: Sequence[int]) -> NDArray[np.bool_]:
        linked = np.zeros(len(self.sample.left), dtype=bool)
        for link in links:
            linked |= self.estimates[link].kept
        return linked

    def _kept(self, estimate: Estimate, linked: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return kept_through_links(estimate.kept, linked, self.sample.cluster_sizes)

    def _cheapest(self, trials: Sequence[Trial], chosen: dict[Demand, list[int]]) -> Trial:
        """The cheapest trial whose lower bound reaches the recall, or else the most careful of the best."""
        good = [trial for trial in trials if trial.bound >= self.recall]
        if good:
            return min(good, key=lambda trial: self.costs[chosen[trial.demand]].sum())
        return max(reversed(trials), key=lambda trial: round(trial.bound, 3))

    def table(self, blocking: Blocking) -> tuple[LearnedRule, ...]:
        """The links, then the rules, with what they keep."""
        found = dict(zip(self.rules, self.estimates, strict=True))
        found[self.duplicates] = self.sample.estimate(self.duplicates)
        linked = self._linked([self.rules.index(link) for link in blocking.links])
        so_far = np.zeros(len(linked), dtype=bool)
        rows: list[LearnedRule] = []
        for rule in (*blocking.links, *blocking.rules):
            is_link = rule in blocking.links and len(rows) < len(blocking.links)
            kept = found[rule].kept if is_link else self._kept(found[rule], linked)
            so_far = so_far | kept
            alone, share = float(found[rule].kept.mean()), float(so_far.mean())
            rows.append(LearnedRule(rule, is_link, alone, share, round(found[rule].candidates)))
        return tuple(rows)
