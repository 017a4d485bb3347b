"""Changes: what became of the entities between two results, why a cluster holds, and what merges or splits would do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from scdp._typing import Floats, Integers
from scdp.errors import InputError
from scdp.estimators.result import ClusterResult
from scdp.partitions import number_first
from scdp.posterior.pairs import find_pairs_between
from scdp.results import StoredResult

if TYPE_CHECKING:
    from scdp.estimators import Estimator


# A share that differs by this much, and by this many standard errors, is unlike what it was.
LEAST_CHANGE, LEAST_ERRORS = 0.03, 4.0
# What linked records say is unlike what it was from this change of the mean on; so many links are looked at.
LEAST_LOG_ODDS, FEWEST_LINKS, MOST_LINKS = 0.5, 20, 1000
MOST_NAMED = 20
DOUBT = 0.9


@dataclass(frozen=True)
class Shift:
    """A share of the records that is unlike what it was, or the mean of what a comparison says in log-odds."""

    what: str
    old: float
    new: float
    unit: str = "share"

    def __str__(self) -> str:
        if self.unit == "share":
            return f"{self.what}: {self.old:.1%} before, {self.new:.1%} now"
        return f"{self.what}: {self.old:+.2f} before, {self.new:+.2f} now ({self.unit})"


@dataclass(frozen=True)
class Drift:
    """What changed between two results.

    `merged` and `split` are lists of (clusters before, clusters after), by the records that both results have;
    `appeared` are clusters of new records alone, `vanished` those none of whose records is left. `shifts` tell how the
    new records look unlike the old ones: shares of records, and what the old model's comparisons say of linked ones.
    """

    n_common: int
    n_new: int
    n_gone: int
    unchanged: int
    merged: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    split: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    appeared: tuple[str, ...]
    vanished: tuple[str, ...]
    shifts: tuple[Shift, ...]

    def __str__(self) -> str:
        lines = [
            f"{self.n_common:,} records are in both, {self.n_new:,} are new, {self.n_gone:,} are gone.",
            f"{self.unchanged:,} entities are as they were, {len(self.merged):,} merged, {len(self.split):,} split, "
            f"{len(self.appeared):,} appeared, {len(self.vanished):,} vanished.",
        ]
        for title, changes in (("Merged", self.merged), ("Split", self.split)):
            if changes:
                lines.append(f"{title}:")
                lines += [f"  {', '.join(old)} -> {', '.join(new)}" for old, new in changes[:MOST_NAMED]]
                lines += [f"  and {len(changes) - MOST_NAMED:,} more"] if len(changes) > MOST_NAMED else []
        if self.shifts:
            lines.append("This table looks unlike the last one:")
            lines += [f"  {shift}" for shift in self.shifts]
        else:
            lines.append("This table looks like the last one.")
        return "\n".join(lines)


def compare_results(old: StoredResult, new: StoredResult) -> Drift:
    """Say what changed.

    Parameters
    ----------
    old, new : StoredResult
        Two kept results, whose records are told apart by their ids.

    Returns
    -------
    Drift
    """
    before = dict(zip(old.ids.tolist(), old.labels.tolist(), strict=True))
    after = dict(zip(new.ids.tolist(), new.labels.tolist(), strict=True))
    common = [name for name in before if name in after]
    to_new: dict[str, set[str]] = {}
    to_old: dict[str, set[str]] = {}
    for name in common:
        to_new.setdefault(before[name], set()).add(after[name])
        to_old.setdefault(after[name], set()).add(before[name])
    merged = [(tuple(sorted(olds)), (name,)) for name, olds in to_old.items() if len(olds) > 1]
    split = [((name,), tuple(sorted(news))) for name, news in to_new.items() if len(news) > 1]
    unchanged = sum(len(news) == 1 and len(to_old[next(iter(news))]) == 1 for news in to_new.values())
    return Drift(
        len(common),
        len(after) - len(common),
        len(before) - len(common),
        unchanged,
        tuple(sorted(merged)),
        tuple(sorted(split)),
        tuple(sorted(set(after.values()) - to_old.keys())),
        tuple(sorted(set(before.values()) - to_new.keys())),
        (*_find_shifts(old, new), *_find_evidence_shifts(old, new)),
    )


def _find_shifts(old: StoredResult, new: StoredResult) -> list[Shift]:
    shares = {
        "records whose cluster is in doubt": [kept.probabilities < DOUBT for kept in (old, new)],
        "records that share their cluster": [_is_shared(kept) for kept in (old, new)],
    }
    for name in old.records.names:
        if name in new.records.names and name != old.id_column:
            first, second = old.records[name], new.records[name]
            seen = set(filter(None, first.tolist()))
            shares[f"no {name}"] = [_is_missing(cells) for cells in (first, second)]
            if len(seen) <= len(first) // 5:
                known = [np.array([cell is not None and cell not in seen for cell in second])]
                shares[f"a {name} that was not there before"] = [np.zeros(len(first), dtype=bool), *known]
    found = []
    for what, (one, two) in shares.items():
        before, now = float(np.mean(one)), float(np.mean(two))
        pooled = (np.sum(one) + np.sum(two)) / (len(one) + len(two))
        error = np.sqrt(pooled * (1.0 - pooled) * (1.0 / len(one) + 1.0 / len(two)))
        if abs(now - before) >= LEAST_CHANGE and abs(now - before) >= LEAST_ERRORS * error:
            found.append(Shift(what, before, now))
    return found


def _find_evidence_shifts(old: StoredResult, new: StoredResult) -> list[Shift]:
    """What comparisons of the old model say of linked records, where that is unlike what it was."""
    model = old.model
    if model is None or model.fitted_spec_ is None:
        return []
    wanted = {name for field in model.fitted_spec_.fields for name in field.columns_read}
    if not wanted <= set(new.records.names):
        return []
    weighed = []
    for kept in (old, new):
        left, right = _choose_links(kept)
        if len(left) < FEWEST_LINKS:
            return []
        weighed.append(model.weigh_pairs(kept.records, left, right))
    before, now = weighed
    found = []
    for name in before:
        if name == "any two records":
            continue
        one, two = (values[np.isfinite(values)] for values in (before[name], now[name]))
        if min(len(one), len(two)) < FEWEST_LINKS:
            continue
        error = np.sqrt(one.var() / len(one) + two.var() / len(two))
        change = abs(float(two.mean() - one.mean()))
        if change >= LEAST_LOG_ODDS and change >= LEAST_ERRORS * error:
            what = "all that is compared" if name == "log-odds" else name
            found.append(Shift(f"what linked records say by {what}", float(one.mean()), float(two.mean()), "log-odds"))
    return found


def _choose_links(kept: StoredResult) -> tuple[Integers, Integers]:
    """Some pairs of records that follow each other in their cluster, by chance but always the same."""
    labels = number_first(kept.labels)
    order = np.argsort(labels, kind="stable")
    linked = np.flatnonzero(np.diff(labels[order]) == 0)
    if len(linked) > MOST_LINKS:
        linked = np.sort(np.random.default_rng(0).choice(linked, MOST_LINKS, replace=False))
    return order[linked], order[linked + 1]


def _is_shared(kept: StoredResult) -> Any:
    _, place, counts = np.unique(kept.labels.astype(str), return_inverse=True, return_counts=True)
    return counts[place] > 1


def _is_missing(cells: Any) -> Any:
    return np.array([cell is None for cell in cells])


# By comparison what it says of each link, as `Estimator.weigh_pairs` gives it.
Weighed = dict[str, Any]
MOST_MEMBERS = 2000
SURE = 0.95


@dataclass(frozen=True)
class Change:
    """A merge or a split that was not made: how likely it is right, whom it affects, what it would do to F."""

    kind: str
    parts: tuple[tuple[str, ...], tuple[str, ...]]
    probability: float
    odds: float
    n_records: int
    expected_f: float
    expected_f_after: float

    def __str__(self) -> str:
        return "\n".join(
            [
                f"{self.kind}: {', '.join(self.parts[0])} | {', '.join(self.parts[1])}",
                f"Probability that it is right: {self.probability:.3f} (odds {self.odds:.3g} to 1).",
                f"Records affected: {self.n_records:,}.",
                f"Expected F: {self.expected_f:.4f} now, {self.expected_f_after:.4f} after "
                f"({self.expected_f_after - self.expected_f:+.4f}).",
            ]
        )


@dataclass(frozen=True)
class LinkEvidence:
    """What comparisons say of links in the mean, the most first: they and `start` add up to `log_odds`."""

    n_links: int
    contributions: tuple[tuple[str, float], ...]
    start: float
    log_odds: float

    @classmethod
    def of(cls, weighed: Weighed, chosen: slice = slice(None)) -> Self:
        """Of some of the links that were weighed."""
        parts = {name: np.nan_to_num(values[chosen]) for name, values in weighed.items()}
        start, log_odds = parts.pop("any two records"), parts.pop("log-odds")
        means = sorted(((name, float(values.mean())) for name, values in parts.items()), key=lambda each: -abs(each[1]))
        return cls(len(start), tuple(means), float(start.mean()), float(log_odds.mean()))

    def lines(self) -> Iterator[str]:
        """In words, a line for each."""
        for name, value in self.contributions:
            yield f"  {value:+7.2f}  {name}"
        yield f"  {self.start:+7.2f}  any two records of this table"
        yield f"  {self.log_odds:+7.2f}  together"


@dataclass(frozen=True)
class ClusterStory:
    """Why a cluster holds together: its weakest link, who might leave, and the nearest other cluster.

    `holds` is what comparisons say of the links that hold it, `weakest_says` of the weakest; None without a model.
    """

    cluster: str
    members: tuple[str, ...]
    probability_all: float
    weakest: tuple[str, str, float] | None
    may_leave: tuple[tuple[str, float], ...]
    nearest: tuple[str, float] | None
    holds: LinkEvidence | None = None
    weakest_says: LinkEvidence | None = None

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.cluster}: {len(self.members)} records, {', '.join(self.members)}."
        yield f"All of them are together, and nobody is missing among them, in {self.probability_all:.1%} of the draws."
        if self.holds is not None:
            links = f"{self.holds.n_links} links" if self.holds.n_links > 1 else "link"
            yield f"What holds it, over its {links} in the mean (log-odds: above 0 for together, below 0 for apart):"
            yield from self.holds.lines()
        if self.weakest is not None:
            one, other, p = self.weakest
            yield f"Weakest link: {one} and {other}, together with probability {p:.3f}."
        if self.weakest_says is not None and self.holds is not None and self.holds.n_links > 1:
            yield from self.weakest_says.lines()
        for name, p in self.may_leave:
            yield f"May leave: {name}, which belongs here with probability {p:.3f}."
        if self.nearest is None:
            yield "No other cluster is near."
        else:
            yield f"Nearest other cluster: {self.nearest[0]}, the same with probability {self.nearest[1]:.3f}."


def find_members(result: ClusterResult, name: str) -> Integers:
    """The records of a cluster, by its name or by the id of one of them."""
    labels = result.labels.astype(str)
    found = np.flatnonzero(labels == name)
    if not len(found):
        of = np.flatnonzero(result.ids.astype(str) == name)
        if not len(of):
            raise InputError(
                f"there is no cluster or record {name!r}; give the name of a cluster or the id of a record"
            )
        found = np.flatnonzero(labels == labels[of[0]])
    if len(found) > MOST_MEMBERS:
        raise InputError(f"{name!r} has {len(found):,} records, more than {MOST_MEMBERS:,} that can be looked at")
    return found


def tell_cluster(result: ClusterResult, name: str, model: Estimator | None = None) -> ClusterStory:
    """Why a cluster holds together.

    Parameters
    ----------
    result : ClusterResult
        A result.
    name : str
        The name of a cluster, or the id of one of its records.
    model : Estimator, optional
        The model that made the result: it says what each comparison has to do with it.

    Returns
    -------
    ClusterStory
    """
    members = find_members(result, name)
    ids, sure = result.ids.astype(str), result.probabilities
    weakest, holds, weakest_says = None, None, None
    if len(members) > 1:
        # The weakest link comes first.
        links = sorted(_find_links(result.posterior.co_clustering_matrix(members)))
        p, i, j = links[0]
        weakest = (str(ids[members[i]]), str(ids[members[j]]), p)
        pairs = members[np.array([(i, j) for _, i, j in links])]
        weighed = {} if model is None else model.weigh_pairs(result.records, pairs[:, 0], pairs[:, 1])
        if weighed:
            holds, weakest_says = LinkEvidence.of(weighed), LinkEvidence.of(weighed, slice(1))
    leaving = sorted((float(sure[k]), str(ids[k])) for k in members if sure[k] < SURE) if len(members) > 1 else []
    drawn = result.posterior.stored.labels_at(result.posterior.stored.choose_draws(1000))[:, members]
    return ClusterStory(
        str(result.labels[members[0]]),
        tuple(map(str, ids[members].tolist())),
        float((drawn == drawn[:, :1]).all(axis=1).mean()),
        weakest,
        tuple((one, p) for p, one in leaving),
        _find_nearest(result, members),
        holds,
        weakest_says,
    )


def _find_links(together: Floats) -> list[tuple[float, int, int]]:
    """The strongest tree of links, each as its probability, an item of the tree so far and the one that it adds."""
    n = len(together)
    inside, link, best = np.zeros(n, dtype=bool), np.zeros(n, np.int64), together[0].copy()
    inside[0] = True
    links = []
    for _ in range(n - 1):
        new = int(np.argmax(np.where(inside, -1.0, best)))
        links.append((float(best[new]), int(link[new]), new))
        inside[new] = True
        closer = together[new] > best
        best, link = np.where(closer, together[new], best), np.where(closer, new, link)
    return links


def _cut(together: Floats) -> Integers:
    """The items on one side of the weakest link."""
    links = _find_links(together)
    weakest = min(range(len(links)), key=lambda k: links[k][0])
    side = {links[weakest][2]}
    for _, old, new in links[weakest + 1 :]:
        if old in side:
            side.add(new)
    return np.array(sorted(side))


def _find_nearest(result: ClusterResult, members: Integers) -> tuple[str, float] | None:
    """The other cluster that the draws most often have with this one, by the mean over pairs."""
    stored = result.posterior.stored
    left, right, share = find_pairs_between(stored, stored.choose_draws(1000), 1e-9, 1.0)
    mine = np.zeros(result.n_records, dtype=bool)
    mine[members] = True
    across = mine[left] != mine[right]
    if not across.any():
        return None
    others = np.where(mine[left], right, left)[across]
    answer = number_first(result.labels)
    total = np.bincount(answer[others], share[across], answer.max() + 1)
    mean = total / (np.bincount(answer, minlength=len(total)) * len(members))
    nearest = int(np.argmax(mean))
    return str(result.labels[np.flatnonzero(answer == nearest)[0]]), float(mean[nearest])


def try_merge(result: ClusterResult, one: str, other: str) -> Change:
    """What merging two clusters would do.

    Parameters
    ----------
    result : ClusterResult
        A result.
    one, other : str
        Names of clusters, or ids of records of theirs.

    Returns
    -------
    Change
    """
    first, second = find_members(result, one), find_members(result, other)
    if first[0] == second[0]:
        raise InputError(f"{one!r} and {other!r} are in one cluster already; give two clusters, or try --split")
    labels = number_first(result.labels)
    after = labels.copy()
    after[second] = labels[first[0]]
    p = float(result.posterior.co_clustering_matrix(np.concatenate([first, second]))[: len(first), len(first) :].mean())
    return _weigh(result, "Merge", first, second, p, after)


def try_split(result: ClusterResult, name: str) -> Change:
    """What splitting a cluster at its weakest link would do.

    Parameters
    ----------
    result : ClusterResult
        A result.
    name : str
        The name of a cluster, or the id of one of its records.

    Returns
    -------
    Change
    """
    members = find_members(result, name)
    if len(members) < 2:
        raise InputError(f"{name!r} is a single record, and cannot be split")
    together = result.posterior.co_clustering_matrix(members)
    side = _cut(together)
    rest = np.setdiff1d(np.arange(len(members)), side)
    labels = number_first(result.labels)
    after = labels.copy()
    after[members[side]] = labels.max() + 1
    p = 1.0 - float(together[np.ix_(rest, side)].mean())
    return _weigh(result, "Split", members[rest], members[side], p, after)


def _weigh(result: ClusterResult, kind: str, first: Integers, second: Integers, p: float, after: Integers) -> Change:
    ids = result.ids.astype(str)
    before = result.posterior.expected_metrics(number_first(result.labels))["f"]["mean"]
    return Change(
        kind,
        (tuple(map(str, ids[first].tolist())), tuple(map(str, ids[second].tolist()))),
        p,
        # By the number of draws, odds have an end.
        p / max(1.0 - p, 0.5 / (result.posterior.n_chains * result.posterior.n_draws)),
        len(first) + len(second),
        before,
        result.posterior.expected_metrics(after)["f"]["mean"],
    )
