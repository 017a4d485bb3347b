"""Links: estimates of rules go in; those whose pairs are almost surely true come out, and what they add."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdp._compile import kernel
from scdp.blocking.estimates import Estimate, Sample
from scdp.blocking.rules import MAX_BLOCK, WINDOW, Blocking, Overlap, Rule, check_count, identical
from scdp.blocking.training import (
    Demand,
    DemandTrial,
    Kept,
    are_too_few,
    choose_rules,
    cross_validate,
    draw_training_sample,
    list_demands,
    propose_rules,
    sort_by_gain,
)
from scdp.errors import InputError
from scdp.table import Records
from scdp.table.spec import Spec

LEAST_PRECISION = 0.9
LEAST_GAIN = 0.01
MOST_RULES = 8


def choose_links(sample: Sample, estimates: Sequence[Estimate]) -> list[int]:
    """Rules of high precision that together keep as many pairs as they can, the fewest false ones first."""
    precise = [rule for rule, found in enumerate(estimates) if sample.precision(found) >= LEAST_PRECISION]
    missing = np.ones(len(sample.left), dtype=bool)
    chosen: list[int] = []
    while len(chosen) < MOST_RULES:
        gains = {rule: float((estimates[rule].kept & missing).mean()) for rule in precise}
        good = [rule for rule in precise if gains[rule] >= LEAST_GAIN]
        if not good:
            break
        # The sum keeps a small rule without false pairs from being chosen before a large one with a few.
        best = max(
            good, key=lambda rule: gains[rule] / (_count_false(sample, estimates[rule]) + 0.05 * sample.n_stands_for)
        )
        chosen.append(best)
        missing &= ~estimates[best].kept
    return chosen


def _count_false(sample: Sample, estimate: Estimate) -> float:
    return estimate.candidates * (1 - sample.precision(estimate))


@kernel
def follow_links(
    kept: NDArray[np.bool_], links: NDArray[np.bool_], cluster_sizes: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """The true pairs that a rule keeps, and those that are one link away from one of them.

    Pairs are those of whole clusters, by first and then second record. Links through records of another
    entity are not counted.
    """
    reached = kept.copy()
    start = 0
    for size in cluster_sizes:
        by_rule = np.zeros((size, size), dtype=np.bool_)
        by_link = np.zeros((size, size), dtype=np.bool_)
        pair = start
        for i in range(size):
            for j in range(i + 1, size):
                by_rule[i, j] = by_rule[j, i] = kept[pair]
                by_link[i, j] = by_link[j, i] = links[pair]
                pair += 1
        pair = start
        for i in range(size):
            for j in range(i + 1, size):
                for k in range(size):
                    if (by_rule[i, k] and by_link[k, j]) or (by_link[i, k] and by_rule[k, j]):
                        reached[pair] = True
                        break
                pair += 1
        start = pair
    return reached


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

    Attributes
    ----------
    rules : tuple of LearnedRule
        The rules, and what each keeps and costs.
    n_pairs : int
        Labelled pairs of one cluster.
    held_out_recall, lower_bound : float
        The share of held-out pairs kept, and a lower bound for it.
    certain : bool
        Whether the lower bound reaches the recall asked for.
    candidates : int
        About how many pairs the blocking makes.

    Example
    -------
    >>> from scdp.blocking.rules import equal
    >>> rule = LearnedRule(equal("phone"), False, 0.95, 0.95, 120)
    >>> print(LearnedRules((rule,), 40, 0.94, 0.9, True, 120))
    rule          recall  so far   candidates
    equal(phone)  0.9500  0.9500          120
    all, each pair once                          120
    40 labelled pairs; held-out recall 0.9400, lower bound 0.9000
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
            f"{row!s:<{width}}  {row.recall:6.4f}  {row.recall_so_far:6.4f}  {row.candidates:11,}" for row in self.rules
        ]
        lines.append(f"{'all, each pair once':<{width}}  {'':6}  {'':6}  {self.candidates:11,}")
        held_out = f"held-out recall {self.held_out_recall:.4f}, lower bound {self.lower_bound:.4f}"
        doubt = "" if self.certain else " (below what was asked for: the most careful choice was taken)"
        return "\n".join([*lines, f"{self.n_pairs:,} labelled pairs; {held_out}{doubt}"])


@dataclass(frozen=True, eq=False)
class _Tried:
    """Some links, what rules keep and cost with them, and by demand a trial and the rules that meet it."""

    links: Sequence[int]
    kept: Kept
    costs: NDArray[np.float64]
    trials: Sequence[DemandTrial]
    chosen: dict[Demand, list[int]]


@dataclass(frozen=True)
class _Choice:
    """A trial of one demand, and the links and rules chosen for it."""

    trial: DemandTrial
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

    Parameters
    ----------
    records : Records
        The table.
    clusters : array of labels (record,)
        The cluster of each record, -1 where it is unknown.
    spec : Spec, optional
        Its columns are used; without it all columns, which must then hold no ids and no clusters.
    recall : float
        The share of the pairs of one cluster that must be kept.
    n_records : int, optional
        How many records the blocking is meant for, if not these.
    max_block : int
        The largest block of which all pairs are made.
    window : int
        How many places apart the records of a larger block are still paired.
    random_state : int
        The seed.

    Returns
    -------
    Blocking, LearnedRules
        What was learned, and a table of what each rule does.

    Example
    -------
    >>> from scdp.table import records_from
    >>> names = [f"{first} {last}" for first in ("ann", "bob", "cem", "dora") for last in ("ito", "katz", "lund")]
    >>> records = records_from({"name": names * 3})
    >>> clusters = list(range(12)) * 3
    >>> blocking, table = learn_blocking(records, clusters)
    >>> table.n_pairs
    36
    """
    learner = _make_learner(records, clusters, spec, (recall,), n_records, max_block, window, random_state)
    best = learner.best(recall)
    trial, sample = best.trial, learner.sample
    table = LearnedRules(
        learner.table(best.blocking),
        len(sample.left),
        trial.recall,
        trial.bound,
        trial.bound >= recall,
        round(sample.count(best.blocking)),
    )
    return best.blocking, table


def learn_blockings(
    records: Records,
    clusters: ArrayLike,
    recalls: Sequence[float],
    *,
    spec: Spec | None = None,
    n_records: int | None = None,
    links: bool = True,
    random_state: int = 0,
) -> tuple[Blocking, ...]:
    """For each recall what `learn_blocking` finds, with links or without, in little more than the time of one.

    Parameters
    ----------
    records : Records
        The table.
    clusters : array of labels (record,)
        The cluster of each record, -1 where it is unknown.
    recalls : sequence of float
        The shares of pairs to be kept.
    spec : Spec, optional
        Its columns are used; without it all columns, which must then hold no ids and no clusters.
    n_records : int, optional
        How many records the blocking is meant for, if not these.
    links : bool
        Whether pairs one link away may be candidates too.
    random_state : int
        The seed.

    Returns
    -------
    tuple of Blocking

    Example
    -------
    >>> from scdp.table import records_from
    >>> names = [f"{first} {last}" for first in ("ann", "bob", "cem", "dora") for last in ("ito", "katz", "lund")]
    >>> records = records_from({"name": names * 3})
    >>> clusters = list(range(12)) * 3
    >>> len(learn_blockings(records, clusters, [0.9, 0.99]))
    2
    """
    learner = _make_learner(records, clusters, spec, recalls, n_records, MAX_BLOCK, WINDOW, random_state, links)
    return tuple(learner.best(recall).blocking for recall in recalls)


def _make_learner(
    records: Records,
    clusters: ArrayLike,
    spec: Spec | None,
    recalls: Sequence[float],
    n_records: int | None,
    max_block: int,
    window: int,
    random_state: int,
    links: bool = True,
) -> _Learner:
    for recall in recalls:
        if not 0 < recall <= 1:
            raise InputError(f"blocking: recall is {recall}; use a share above 0, at most 1")
    if n_records is not None:
        check_count("n_records", n_records)
    columns = _list_columns(records, spec)
    rng = np.random.default_rng(random_state)
    sample = draw_training_sample(records, clusters, n_records, max_block, window, rng)
    rules, estimates = _keep_useful(sample, propose_rules(sample.maker.columns, columns))
    return _Learner(sample, rules, estimates, identical(*columns), recalls, rng, links)


def _list_columns(records: Records, spec: Spec | None) -> tuple[str, ...]:
    if spec is None:
        return records.names
    named = dict.fromkeys(column for field in spec.fields for column in field.columns)
    known = {spec.entity, spec.id, spec.group, spec.source}
    columns = tuple(named) or tuple(name for name in records.names if name not in known)
    records.require(*columns)
    return columns


def _keep_useful(sample: Sample, rules: Sequence[Rule]) -> tuple[list[Rule], list[Estimate]]:
    """The rules that keep something and do not cost too much; of equal ones the first."""
    limit = DEAREST * sample.n_stands_for
    useful: dict[tuple[bytes, float], tuple[Rule, Estimate]] = {}
    for rule, estimate in zip(rules, sample.estimate_all(rules), strict=True):
        if estimate.kept.any() and estimate.candidates <= limit:
            useful.setdefault((estimate.kept.tobytes(), estimate.candidates), (rule, estimate))
    return [rule for rule, _ in useful.values()], [estimate for _, estimate in useful.values()]


def _least_cost(rule: Rule) -> float:
    return CHEAP * (OVERLAP_WORK if isinstance(rule, Overlap) else 1.0)


class _Learner:
    """Chooses rules of the pool, without links and with them, and keeps what needs fewer candidates."""

    def __init__(
        self,
        sample: Sample,
        rules: Sequence[Rule],
        estimates: Sequence[Estimate],
        duplicates: Rule,
        recalls: Sequence[float],
        rng: np.random.Generator,
        with_links: bool,
    ) -> None:
        self.sample, self.rules, self.estimates, self.duplicates = sample, rules, estimates, duplicates
        self.floors = np.array([_least_cost(rule) for rule in rules]) * sample.n_stands_for
        self.costs = np.array([found.candidates for found in estimates]) + self.floors
        columns = [tuple(sorted(set(rule.columns))) for rule in rules]
        self.families = np.array([sorted(set(columns)).index(names) for names in columns], dtype=np.int64)
        # The demands of all recalls are tried at once: they share the folds, and the order in which rules are taken.
        wanted = dict.fromkeys(each for recall in recalls for each in list_demands(recall, len(sample.left)))
        self.plain = self._try_demands([], list(wanted), rng)
        links = choose_links(sample, estimates) if with_links else []
        self.linked = self._try_demands(links, list(wanted), rng) if links else None

    def best(self, recall: float) -> _Choice:
        tried = [self.plain]
        # Of too few pairs nobody can say how sure links are.
        if self.linked is not None and not are_too_few(len(self.sample.left), recall):
            tried.append(self.linked)
        choices = [self._choose_rules(each, recall) for each in tried]
        certain = [choice for choice in choices if choice.trial.bound >= recall]
        if len(certain) > 1:
            plain, linked = (self.sample.count(choice.blocking) for choice in certain)
            return certain[1] if linked <= WORTH_LINKING * plain else certain[0]
        return certain[0] if certain else max(choices, key=lambda choice: choice.trial.bound)

    def _try_demands(self, links: Sequence[int], wanted: Sequence[Demand], rng: np.random.Generator) -> _Tried:
        linked = self._find_linked(links)
        by_rule = np.array([self._find_kept(found, linked) for found in self.estimates], dtype=bool)
        kept = Kept(by_rule.reshape(len(self.estimates), len(linked)), self.families)
        costs = self.costs.copy()
        # The pairs of links are candidates anyway.
        costs[list(links)] = self.floors[list(links)]
        trials = cross_validate(kept, costs, self.sample.pair_clusters, wanted, rng)
        return _Tried(links, kept, costs, trials, choose_rules(kept, costs, wanted))

    def _choose_rules(self, tried: _Tried, recall: float) -> _Choice:
        trial = self._choose_cheapest(tried, recall)
        ordered = sort_by_gain(tried.kept, tried.costs, tried.chosen[trial.demand])
        blocking = Blocking(
            (*(self.rules[rule] for rule in ordered), self.duplicates),
            tuple(self.rules[link] for link in tried.links),
            self.sample.max_block,
            self.sample.window,
        )
        return _Choice(trial, blocking)

    def _find_linked(self, links: Sequence[int]) -> NDArray[np.bool_]:
        linked = np.zeros(len(self.sample.left), dtype=bool)
        for link in links:
            linked |= self.estimates[link].kept
        return linked

    def _find_kept(self, estimate: Estimate, linked: NDArray[np.bool_]) -> NDArray[np.bool_]:
        if not linked.any():
            return estimate.kept
        return follow_links(estimate.kept, linked, self.sample.cluster_sizes)

    def _choose_cheapest(self, tried: _Tried, recall: float) -> DemandTrial:
        """The cheapest trial whose lower bound reaches the recall, or else the most careful of the best."""
        own = set(list_demands(recall, len(self.sample.left)))
        trials = [trial for trial in tried.trials if trial.demand in own]
        good = [trial for trial in trials if trial.bound >= recall]
        if good:
            return min(good, key=lambda trial: self.costs[tried.chosen[trial.demand]].sum())
        return max(reversed(trials), key=lambda trial: round(trial.bound, 3))

    def table(self, blocking: Blocking) -> tuple[LearnedRule, ...]:
        """The links, then the rules, with what they keep."""
        found = dict(zip(self.rules, self.estimates, strict=True))
        found[self.duplicates] = self.sample.estimate(self.duplicates)
        linked = self._find_linked([self.rules.index(link) for link in blocking.links])
        so_far = np.zeros(len(linked), dtype=bool)
        rows: list[LearnedRule] = []
        for rule in (*blocking.links, *blocking.rules):
            is_link = rule in blocking.links and len(rows) < len(blocking.links)
            kept = found[rule].kept if is_link else self._find_kept(found[rule], linked)
            so_far = so_far | kept
            alone, share = float(found[rule].kept.mean()), float(so_far.mean())
            rows.append(LearnedRule(rule, is_link, alone, share, round(found[rule].candidates)))
        return tuple(rows)
