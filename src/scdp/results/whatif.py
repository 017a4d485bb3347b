"""What if: a result and a cluster enter; why it holds together, and what a merge or a split would do, leaves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from scdp._typing import Floats, Integers
from scdp.errors import InputError
from scdp.estimators.result import ClusterResult
from scdp.posterior.pairs import find_pairs_between
from scdp.posterior.tables import number_first

if TYPE_CHECKING:
    from scdp.estimators.base import Estimator

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

    def to_words(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

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

    def to_words(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

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
