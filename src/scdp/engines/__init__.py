"""Engines: where the components of many records are sampled, in processes of this machine or on a cluster.

Here are shards: records that no pair connects with others, by the batch; each is sampled wherever there is room. What
is random about a record follows from its number, so the draws are the same however the records were divided.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from scdp._compile import kernel
from scdp._parallel import Progress, give_back_memory, map_in_threads, stage
from scdp._typing import Features, Integers, SmallIntegers
from scdp.blocking.by_size import BlockingReport
from scdp.compare.features import Pairs
from scdp.conditions import Conditions
from scdp.engines.candidates import Blocked, compare_candidates
from scdp.linkage import Ensemble
from scdp.partitions import connected_components
from scdp.posterior.linked import LinkedDraws, join_linked

if TYPE_CHECKING:
    from scdp.engines.local import LocalEngine
    from scdp.engines.spark import SparkEngine

__all__ = ["LocalEngine", "SparkEngine"]

# Processes, kernels and Spark are loaded on first use.
_HOME = {"LocalEngine": "local", "SparkEngine": "spark"}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"scdp.engines.{_HOME[name]}"), name)
    raise AttributeError(f"module 'scdp.engines' has no attribute {name!r}")


# Components are handed out until they have so many items and pairs together.
ENTRIES_AT_ONCE = 20_000
# A large component may take as long as so many shards, of which only the draws wait.
SHARDS_AHEAD = 100
# So many labels (draws x items), or as many as there are pairs, are drawn in one piece, items alone included:
# 16 MB, or less than the pairs take.
MOST_IN_ONE_PIECE = 4_000_000


class BlockedDraws(NamedTuple):
    """Draws of records that were compared as a blocking says, and what was not compared."""

    draws: LinkedDraws
    report: BlockingReport


class Engine(ABC):
    """Where partitions are sampled. What leaves are the items that are with another in some draw; all others are alone.

    Every draw keeps the conditions.
    """

    @abstractmethod
    def sample(
        self,
        ensemble: Ensemble,
        pairs: Pairs,
        known: Integers,
        n_draws: int,
        seed: int,
        progress: Progress | None = None,
        conditions: Conditions | None = None,
    ) -> LinkedDraws:
        """Draws of items whose pairs are there already."""

    @abstractmethod
    def sample_blocked(
        self,
        blocked: Blocked,
        known: Integers,
        n_draws: int,
        seed: int,
        progress: Progress | None = None,
        conditions: Conditions | None = None,
    ) -> BlockedDraws:
        """Draws of records whose pairs are still to be made."""


@dataclass(frozen=True, eq=False)
class Shard:
    """Whole components: the numbers of their items, ascending, and pairs as places among these, sorted.

    `known` has the number of an item's given cluster, -1 where it has none.
    """

    items: Integers
    left: Integers
    right: Integers
    features: Features
    known: Integers
    conditions: Conditions | None = None

    def sample(self, ensemble: Ensemble, n_draws: int, seed: int) -> LinkedDraws:
        """Draws of those items that are with another in one of them."""
        pairs = Pairs(len(self.items), self.left, self.right, self.features)
        numbers = np.full(len(self.items), -1)
        given = self.known >= 0
        numbers[given] = np.unique(self.known[given], return_inverse=True)[1]
        names = self.items.astype(np.uint64)
        draws = ensemble.sample(pairs, numbers, n_draws, seed, names=names, conditions=self.conditions)
        label_by_first(draws, np.arange(len(self.items)))
        return LinkedDraws.of(draws, self.items)


MakeShard = Callable[[], Shard]


def split_shards(pairs: Pairs, known: Integers, conditions: Conditions | None = None) -> Iterator[Shard]:
    """All items that are in a pair, component by component, in shards; items in none are left out."""
    return (make() for make in plan_shards(pairs, known, conditions))


def plan_shards(pairs: Pairs, known: Integers, conditions: Conditions | None = None) -> Iterator[MakeShard]:
    """As `split_shards`, but each shard is made by whom it is given to: only those under way take memory."""
    ends = [(pairs.left, pairs.right), ties_of(known)]
    if conditions is not None:
        ends.append(conditions.ties())
    parts = connected_components(pairs.n_items, ends)
    codes = parts.codes
    alone = parts.sizes == 1
    of_pair = codes[pairs.left]
    weight = parts.sizes + np.bincount(of_pair, minlength=len(parts))
    weight[alone] = 0
    shard_of_part = np.cumsum(weight) // ENTRIES_AT_ONCE
    by_pair = np.argsort(shard_of_part[of_pair], kind="stable")
    pair_edges = np.searchsorted(shard_of_part[of_pair][by_pair], np.arange(shard_of_part[-1] + 2))
    shard_of_item = np.where(alone[codes], -1, shard_of_part[codes])
    by_item = np.argsort(shard_of_item, kind="stable")
    item_edges = np.searchsorted(shard_of_item[by_item], np.arange(shard_of_part[-1] + 2))
    # Threads share it: each shard has places of its own.
    place = np.empty(pairs.n_items, dtype=np.int64)

    def make(items: Integers, own: Integers) -> Shard:
        place[items] = np.arange(len(items))
        return Shard(
            items.astype(np.int64),
            place[pairs.left[own]],
            place[pairs.right[own]],
            pairs.features[own],
            known[items],
            None if conditions is None else conditions.take(items),
        )

    for number in range(int(shard_of_part[-1]) + 1):
        items = by_item[item_edges[number] : item_edges[number + 1]]
        if len(items):
            yield partial(make, items, by_pair[pair_edges[number] : pair_edges[number + 1]])


def ties_of(known: Integers) -> tuple[Integers, Integers]:
    """Edges that hold the items of each given cluster together."""
    items = np.flatnonzero(known >= 0)
    items = items[np.argsort(known[items], kind="stable")]
    same = known[items[1:]] == known[items[:-1]]
    return items[:-1][same], items[1:][same]


class ShardDraws(NamedTuple):
    """The draws of one shard, and of how many pairs it was."""

    draws: LinkedDraws
    n_pairs: int


def sample_in_threads(
    plan: Iterator[MakeShard], sample: Callable[[Shard], LinkedDraws], n_threads: int
) -> Iterator[ShardDraws]:
    """The draws of every shard, in order."""

    def make_and_sample(make: MakeShard) -> ShardDraws:
        shard = make()
        return ShardDraws(sample(shard), len(shard.left))

    return map_in_threads(make_and_sample, plan, n_threads, n_ahead=SHARDS_AHEAD)


def collect_draws(drawn: Iterator[ShardDraws], n_draws: int, n_pairs: int, progress: Progress | None) -> LinkedDraws:
    """Draws of all shards as one."""

    def each() -> Iterator[LinkedDraws]:
        done = 0
        for shard in drawn:
            yield shard.draws
            done += shard.n_pairs
            if progress is not None:
                progress(done, n_pairs)

    return join_linked(each(), n_draws)


@kernel
def label_by_first(draws: SmallIntegers, items: Integers) -> None:
    """Replace each label by the number of the first item that has it."""
    first = np.full(2 * draws.shape[1] + 2, -1, np.int64)
    for draw in range(draws.shape[0]):
        for place in range(draws.shape[1]):
            label = draws[draw, place]
            if first[label] < 0:
                first[label] = items[place]
        for place in range(draws.shape[1]):
            draws[draw, place] = first[draws[draw, place]]
        first[:] = -1


class OnThisMachine(Engine):
    """Engines that compare records in this process and sample where they say."""

    def sample_blocked(
        self,
        blocked: Blocked,
        known: Integers,
        n_draws: int,
        seed: int,
        progress: Progress | None = None,
        conditions: Conditions | None = None,
    ) -> BlockedDraws:
        found = compare_candidates(blocked, progress=progress, conditions=conditions)
        give_back_memory()
        with stage("sampling"):
            draws = self.sample(found.ensemble, found.pairs, known, n_draws, seed, progress, conditions)
        return BlockedDraws(draws, found.report)


class InThreads(OnThisMachine):
    """The whole in this process: members of the ensemble are spread over threads, or shards if items are many."""

    def __init__(self, n_jobs: int) -> None:
        self.n_jobs = n_jobs

    def sample(
        self,
        ensemble: Ensemble,
        pairs: Pairs,
        known: Integers,
        n_draws: int,
        seed: int,
        progress: Progress | None = None,
        conditions: Conditions | None = None,
    ) -> LinkedDraws:
        if pairs.n_items * n_draws > max(MOST_IN_ONE_PIECE, len(pairs)):
            plan = plan_shards(pairs, known, conditions)
            drawn = sample_in_threads(plan, lambda shard: shard.sample(ensemble, n_draws, seed), self.n_jobs)
            return collect_draws(drawn, n_draws, len(pairs), progress)
        draws = ensemble.sample(pairs, known, n_draws, seed, self.n_jobs, progress, conditions=conditions)
        label_by_first(draws, np.arange(pairs.n_items))
        return LinkedDraws.of(draws)
