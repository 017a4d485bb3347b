"""Records too many for all their pairs: candidates of a blocking leave as pairs to seat, where they are very many
through a sieve.

The last feature of pairs that passed it is the sieve's log-odds, shifted to fit the data set.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from scdp.blocking import Blocking, candidate_pairs, connected_components
from scdp.blocking.candidates import worker_count
from scdp.blocking.keys import scattered
from scdp.compare.prepared import prepare_all
from scdp.records import Records
from scdp.seating.pairs import Features, Pairs
from scdp.seating.sieve import CUT, Column, Sieve, counted
from scdp.specs import Spec

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Progress = Callable[[int, int], None]

# A blocking that would make more candidates a record than this is too thorough for so many records.
MOST_CANDIDATES_A_RECORD = 64
SAMPLE = 20_000
PAIRS_AT_ONCE = 1 << 19
# Components of more records lose their least likely pairs, below one of these log-odds after another.
MOST_CONNECTED = 10_000
CUTS = (-4.0, -3.0, -2.0, -1.0, 0.0)


def prepared_columns(records: Records, spec: Spec) -> list[Column]:
    """By comparison of a fitted spec, what gives the distances of pairs of these records."""
    return list(prepare_all(spec.fields, records))


def compared(columns: Sequence[Column], left: Integers, right: Integers, workers: int = -1) -> Features:
    """All distances of pairs."""
    features = np.empty((len(left), len(columns)), dtype=np.float32)
    for number, column in enumerate(columns):
        features[:, number] = column.pairs(left, right, workers)
    return features


def blocked_pairs(
    records: Records, spec: Spec, blocking: Blocking, workers: int = -1, progress: Progress | None = None
) -> Pairs:
    """The candidate pairs of records with their distances by a fitted spec, in the units of its comparisons."""
    found = candidate_pairs(records, blocking)
    left, right = found.left.astype(np.int64), found.right.astype(np.int64)
    return Pairs(len(records), left, right, compared(prepared_columns(records, spec), left, right, workers))


def candidates_a_record(records: Records, blocking: Blocking) -> float:
    """About how many candidate pairs a record there would be, judged by a sample.

    Among more records, everyone has as many more candidates, or fewer where blocks reach their bound.
    """
    n = len(records)
    order = np.argsort(scattered(np.arange(n, dtype=np.int32)), kind="stable")
    sample = records.take(np.sort(order[:SAMPLE])) if n > SAMPLE else records
    return len(candidate_pairs(sample, blocking)) / max(len(sample), 1) * n / max(len(sample), 1)


def affordable(records: Records, blockings: Sequence[Blocking]) -> Blocking:
    """The first blocking whose candidates are not too many, else the last."""
    *others, last = blockings
    cheap = (each for each in others if candidates_a_record(records, each) <= MOST_CANDIDATES_A_RECORD)
    return next(cheap, last)


@dataclass(frozen=True, eq=False)
class Sifted:
    """Pairs that passed the sieve, with their log-odds among as many records as it learned from."""

    left: Integers
    right: Integers
    log_odds: Floats

    @classmethod
    def joined(cls, parts: Sequence[Sifted]) -> Sifted:
        none = np.zeros(0, dtype=np.int64)
        return cls(
            np.concatenate([none, *(part.left for part in parts)]),
            np.concatenate([none, *(part.right for part in parts)]),
            np.concatenate([np.zeros(0), *(part.log_odds for part in parts)]),
        )

    def shifted(self, shift: float) -> Sifted:
        """The log-odds shifted, and only the pairs that are still likely enough."""
        shifted = replace(self, log_odds=self.log_odds + shift)
        return shifted.take(shifted.log_odds >= CUT)

    def take(self, mask: NDArray[np.bool_]) -> Sifted:
        return Sifted(self.left[mask], self.right[mask], self.log_odds[mask])


def sifted(
    sieve: Sieve, columns: Sequence[Column], left: NDArray[np.int32], right: NDArray[np.int32], n_records: int
) -> Sifted:
    """The candidates that pass, whatever the shift may be."""
    ends = left.astype(np.int64), right.astype(np.int64)
    places, log_odds = sieve.kept(columns, *ends, n_records)
    return Sifted(ends[0][places], ends[1][places], log_odds)


def featured(columns: Sequence[Column], passed: Sifted, n_records: int, workers: int = 1) -> Pairs:
    """Pairs with all their comparisons, and the log-odds last."""
    distances = compared(columns, passed.left, passed.right, workers)
    features = np.column_stack([distances, passed.log_odds.astype(np.float32)])
    return Pairs(n_records, passed.left, passed.right, features)


def sifted_pairs(
    records: Records,
    spec: Spec,
    blocking: Blocking,
    sieve: Sieve,
    workers: int = -1,
    progress: Progress | None = None,
) -> Pairs:
    """The candidate pairs of records that may be together, with their distances by a fitted spec and log-odds."""
    n = len(records)
    found = candidate_pairs(records, blocking, memory_limit="400MB")
    columns = prepared_columns(records, spec)
    work = partial(sifted, sieve, columns, n_records=n)
    parts: list[Sifted] = []
    for part in _in_threads(work, found.chunks(PAIRS_AT_ONCE), workers):
        parts.append(part)
        if progress is not None:
            progress(min(len(parts) * PAIRS_AT_ONCE, len(found)), len(found))
    passed = Sifted.joined(parts)
    passed = passed.shifted(sieve.settled(counted(passed.log_odds), n))
    return featured(columns, broken_up(passed, n), n, workers)


def broken_up(passed: Sifted, n_records: int) -> Sifted:
    """Without the least likely pairs of components of too many records, until these fall apart.

    Such a component is a chain of unlikely pairs; left whole it would be the work of one process.
    """
    for cut in CUTS:
        parts = connected_components(n_records, [(passed.left, passed.right)])
        large = (parts.sizes > MOST_CONNECTED)[parts.codes[passed.left]]
        if not large.any():
            break
        # In single precision, in which other machines hold the log-odds too.
        likely = passed.log_odds.astype(np.float32) >= np.float32(cut)
        passed = passed.take(likely | ~large)
    return passed


def _in_threads(
    work: Callable[[NDArray[np.int32], NDArray[np.int32]], Sifted],
    chunks: Iterable[tuple[NDArray[np.int32], NDArray[np.int32]]],
    workers: int,
) -> Iterator[Sifted]:
    """The results in order; only a few chunks are under way at a time."""
    threads = worker_count(None) if workers < 1 else workers
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[Sifted]] = deque()
        for left, right in chunks:
            waiting.append(pool.submit(work, left, right))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
