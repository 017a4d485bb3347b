"""Tables too large for all their pairs: candidates are found, compared and, where very many, dropped part by part.

The stages are called from here, in the order of the data, and none calls another: columns are cleaned, and random pairs
of records compared, which shows what strangers look like; a blocking indexes the records; the evidence is set to the
table by a sample of the candidates; then each part of the candidates is found, compared and prefiltered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp._parallel import Progress, collection_paused, count_workers, give_back_memory, map_in_threads, stage
from scdp._typing import Booleans, Features, Floats, Integers
from scdp.blocking import Blocking
from scdp.blocking.by_size import BlockingReport, ChosenBlocking
from scdp.blocking.estimates import estimate_recall
from scdp.blocking.keys import make_key_maker
from scdp.blocking.pairs import Search, make_search, number_pairs
from scdp.compare import Comparison
from scdp.compare.features import MOST_PAIRS, Comparer, Pairs
from scdp.conditions import Conditions
from scdp.hashing import draw_strangers, scatter_rows
from scdp.linkage import Ensemble
from scdp.linkage.law import LaterPartners
from scdp.linkage.prefilter import Prefilter, PrefilterRun, prefilter_all
from scdp.linkage.training import ComparedPairs, learn_from_answers
from scdp.partitions import connected_components
from scdp.table import Records

# The match rate is settled by the candidates of about so many records.
SETTLED_BY = 20_000
# More candidates than this go through the prefilter: to sample with all of them would take minutes.
MOST_CANDIDATES = 300_000
# Components of more records lose their least likely pairs, below one of these log-odds after another.
MOST_CONNECTED = 100_000
CUTS = (-4.0, -3.0, -2.0, -1.0, 0.0)
# Pairs of this probability tell what a blocking loses of such pairs.
LIKELY = 0.5
# Pairs that links expand are kept in memory up to so many bytes, beyond that in a file.
LINKED_BYTES = 400_000_000
# So many pairs of a sample are the work of one thread at a time.
PAIRS_AT_ONCE = 20_000
# So many parts of the candidates, of up to a million pairs each, are found while the match rate is being settled.
MOST_AHEAD = 16


@dataclass(frozen=True, eq=False)
class Blocked:
    """Records to compare by fitted comparisons and a blocking, and the ensemble that judges their pairs.

    The blocking is chosen when it is first asked for: values are parsed meanwhile.
    """

    records: Records
    fields: tuple[Comparison, ...]
    ensemble: Ensemble
    choose: Callable[[], ChosenBlocking]

    @cached_property
    def _chosen(self) -> ChosenBlocking:
        return self.choose()

    @property
    def blocking(self) -> Blocking:
        """The rules that propose candidates."""
        return self._chosen.blocking

    @property
    def recall(self) -> float:
        """The share of true pairs that the blocking is expected to keep: NaN where it is to be estimated."""
        return self._chosen.recall


class Indexed(NamedTuple):
    """Records ready to be compared, their strangers, and how candidates are found.

    `rows` are the records in the order in which they are looked at, `sample` the candidates of some of them.
    """

    comparer: Comparer
    strangers: Features
    search: Search
    rows: NDArray[np.int32]
    sample: tuple[Integers, Integers]


class Settled(NamedTuple):
    """The ensemble set to a table, the prefilter of its candidates (None where they are few), and what these keep."""

    ensemble: Ensemble
    prefilter: Prefilter | None
    recall: float


class Candidates(NamedTuple):
    """Compared candidate pairs, the ensemble set to their table, and what was not compared."""

    pairs: Pairs
    ensemble: Ensemble
    report: BlockingReport


class KeptPairs(NamedTuple):
    """Candidates that may be matches, with their features."""

    left: Integers
    right: Integers
    features: Features

    @classmethod
    def join(cls, parts: Sequence[KeptPairs]) -> KeptPairs:
        """Those of all parts, of which there is at least one, sorted by left, then right."""
        left, right = (np.concatenate([getattr(part, end) for part in parts]) for end in ("left", "right"))
        order = sort_pairs(left, right)
        features = np.concatenate([part.features for part in parts])
        return cls(left[order], right[order], features[order])

    def take(self, mask: Booleans) -> KeptPairs:
        return KeptPairs(self.left[mask], self.right[mask], self.features[mask])


def compare_candidates(
    blocked: Blocked, workers: int = -1, progress: Progress | None = None, conditions: Conditions | None = None
) -> Candidates:
    """The candidate pairs of records with their features, in this process; only those that conditions let meet."""
    indexed = index_records(blocked, conditions)
    comparer, search = indexed.comparer, indexed.search
    parts = search.parts(indexed.rows)
    with ThreadPoolExecutor(max_workers=1) as pool, stage("settling how much evidence says"):
        # To settle is for the most part the work of one core.
        ahead = [pool.submit(search.pairs, some) for some in parts[:MOST_AHEAD]]
        settled = settle(blocked, indexed, conditions)
    run = None if settled.prefilter is None else PrefilterRun.of(settled.prefilter, comparer)

    def compare(number: int) -> KeptPairs:
        pairs = ahead[number].result() if number < len(ahead) else search.pairs(parts[number])
        left, right = only_meeting(conditions, *pairs)
        return link_pairs(comparer, run, left, right)

    found: list[KeptPairs] = []
    with stage("comparing"):
        for part in map_in_threads(compare, range(len(parts)), count_workers(workers)):
            found.append(part)
            if progress is not None:
                progress(len(found), len(parts))
    empty = link_pairs(comparer, run, np.zeros(0, np.int32), np.zeros(0, np.int32))
    n = len(blocked.records)
    kept = break_up(KeptPairs.join([*found, empty]), n, settled.ensemble)
    report = BlockingReport(settled.recall, search.oversized)
    return Candidates(Pairs(n, kept.left, kept.right, kept.features), settled.ensemble, report)


def index_records(blocked: Blocked, conditions: Conditions | None = None) -> Indexed:
    """Make records ready to be compared, compare strangers, and index the records by the blocking."""
    n = len(blocked.records)
    with stage("cleaning values"), collection_paused():
        comparer = Comparer.of(blocked.records, blocked.fields)
        comparer.make_ready()
        strangers = compare_in_threads(comparer, *only_meeting(conditions, *draw_strangers(n)))
    with stage("blocking and index"), collection_paused():
        # The keys are let go of as soon as the index is there.
        rules = blocked.blocking
        search = make_search(make_key_maker(blocked.records, rules), rules, LINKED_BYTES, count_workers(-1))
        rows = np.argsort(search.block_number, kind="stable").astype(np.int32)
        sample = sample_candidates(search, rows, n)
    give_back_memory()
    return Indexed(comparer, strangers, search, rows, sample)


def settle(blocked: Blocked, indexed: Indexed, conditions: Conditions | None = None) -> Settled:
    """Set the ensemble to a table by random pairs of it, and by the candidates of a sample of its records."""
    comparer, n = indexed.comparer, len(blocked.records)
    share = sampled_share(n)
    left, right = only_meeting(conditions, *indexed.sample)
    features = compare_in_threads(comparer, left, right)
    # A pair is there for a record of the sample, whose later candidate the other one is.
    later = LaterPartners(np.where(in_sample(left.astype(np.int32), share), left, right), max(int(share * n), 2))
    n_pairs = n * (n - 1) / 2.0 if conditions is None else conditions.count_pairs()
    ensemble = blocked.ensemble.set_to(indexed.strangers, features, share * n_pairs, later.n_records, later)
    few = ensemble.table is None or len(features) / share <= MOST_CANDIDATES
    if few and not np.isnan(blocked.recall):
        return Settled(ensemble, None, blocked.recall)
    probability = 1.0 / (1.0 + np.exp(-weigh_in_threads(ensemble, features)))
    recall = blocked.recall
    if np.isnan(recall):
        likely = probability >= LIKELY
        pairs = left[likely], right[likely], probability[likely]
        recall = estimate_recall(blocked.records, blocked.blocking, *pairs)
    if few or ensemble.table is None:
        return Settled(ensemble, None, recall)
    seconds = comparer.time_pairs(*indexed.sample)
    return Settled(ensemble, Prefilter.of(ensemble.table, features, seconds, probability), recall)


def learn_in_table(blocked: Blocked, conditions: Conditions, seed: int) -> tuple[Ensemble, Integers]:
    """The ensemble of some records with members that learned from decided pairs, as these stand among the records.

    Beside it, the clusters of the records that teach. The ensemble is not set to the table when it leaves: that is done
    for each table that it clusters.
    """
    compared = ComparedPairs.of(conditions)
    if not len(compared.left):
        return blocked.ensemble, compared.cluster
    n = len(blocked.records)
    if n * (n - 1) // 2 <= MOST_PAIRS:
        comparer = Comparer.of(blocked.records, blocked.fields)
        there = prefilter_all(comparer.compare_all(), blocked.ensemble)[1]
    else:
        indexed = index_records(blocked, conditions)
        comparer, there = indexed.comparer, settle(blocked, indexed, conditions).ensemble
    left, right = compared.rows[compared.left], compared.rows[compared.right]
    pairs = Pairs(len(compared.rows), compared.left, compared.right, comparer.compare(left, right))
    learned = learn_from_answers(there, compared, pairs, n, seed)
    return replace(blocked.ensemble, members=learned.members, matches=learned.matches), compared.cluster


def only_meeting(
    conditions: Conditions | None, left: NDArray[Any], right: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The pairs that conditions let meet."""
    if conditions is None or conditions.uncompared is None:
        return left, right
    meets = conditions.may_meet(left, right)
    return left[meets], right[meets]


def sample_candidates(search: Search, rows: NDArray[np.int32], n: int) -> tuple[Integers, Integers]:
    """The candidates of a sample of the records: the same on every machine."""
    chosen = rows[in_sample(rows, sampled_share(n))]
    found = list(map_in_threads(search.pairs, search.parts(chosen), count_workers(-1)))
    none = np.zeros(0, dtype=np.int64)
    left, right = (np.concatenate([none, *(pairs[k].astype(np.int64) for pairs in found)]) for k in (0, 1))
    order = sort_pairs(left, right)
    return left[order], right[order]


def link_pairs(
    comparer: Comparer, run: PrefilterRun | None, left: NDArray[np.int32], right: NDArray[np.int32]
) -> KeptPairs:
    """Candidates with all features; with a prefilter only those that may be matches."""
    if run is None:
        one, other = left.astype(np.int64), right.astype(np.int64)
        return KeptPairs(one, other, comparer.compare(one, other, 1))
    places, distances = run.keep(left, right)
    one, other = left[places].astype(np.int64), right[places].astype(np.int64)
    features = comparer.complete(distances, one, other)
    kept = run.prefilter.table.log_ratio(features) >= run.prefilter.need
    return KeptPairs(one[kept], other[kept], features[kept])


def break_up(pairs: KeptPairs, n_records: int, ensemble: Ensemble) -> KeptPairs:
    """Without the least likely pairs of components of too many records, until these fall apart.

    Such a component is a chain of unlikely pairs; left whole it would be the work of one process.
    """
    for cut in CUTS:
        parts = connected_components(n_records, [(pairs.left, pairs.right)])
        large = (parts.sizes > MOST_CONNECTED)[parts.codes[pairs.left]]
        if not large.any():
            break
        kept = ~large
        # In single precision, in which other machines hold the log-odds too.
        kept[large] = weigh_in_threads(ensemble, pairs.features[large]).astype(np.float32) >= np.float32(cut)
        pairs = pairs.take(kept)
    return pairs


def sort_pairs(left: Integers, right: Integers) -> Integers:
    """The order by left, then right, of pairs of which none is there twice."""
    # To sort one number that stands for both takes a sixth of the time.
    return np.argsort(number_pairs(left, right))


def parts_of(n_pairs: int) -> list[slice]:
    """Pairs in parts, each the work of one thread."""
    return [slice(k, k + PAIRS_AT_ONCE) for k in range(0, max(n_pairs, 1), PAIRS_AT_ONCE)]


def compare_in_threads(comparer: Comparer, left: Integers, right: Integers) -> Features:
    """The features of pairs, made on all cores."""

    def compare(part: slice) -> Features:
        return comparer.compare(left[part], right[part], 1)

    return np.concatenate(list(map_in_threads(compare, parts_of(len(left)), count_workers(-1))))


def weigh_in_threads(ensemble: Ensemble, features: Features) -> Floats:
    """The log-odds of pairs by the learned score, made on all cores."""
    parts = (features[part] for part in parts_of(len(features)))
    return np.concatenate(list(map_in_threads(ensemble.mean_log_odds, parts, count_workers(-1))))


def sampled_share(n_records: int) -> float:
    """The share of the records by which the match rate is settled."""
    return min(SETTLED_BY / max(n_records, 1), 1.0)


def in_sample(rows: NDArray[np.int32], share: float) -> Booleans:
    """Which records the match rate is settled by, with their later candidates: the same on every machine."""
    chosen: Booleans = scatter_rows(rows) <= min(int(share * 2.0**63), 2**63 - 1)
    return chosen
