"""Records too many for all their pairs: candidates of a blocking leave as pairs to seat, where they are very many
through a sieve.

The last feature of pairs that passed it is the sieve's log-odds, shifted to fit the data set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scdp._parallel import map_in_threads
from scdp.blocking import Blocking, candidate_pairs, connected_components
from scdp.blocking.candidates import search_of, worker_count
from scdp.blocking.estimates import scaled_up_candidates
from scdp.blocking.keys import scattered
from scdp.compare.prepared import prepare_all
from scdp.linkage.pairs import Features, Pairs
from scdp.linkage.sieve import CUT, Column, Sieve, counted
from scdp.linkage.sifting import SLACK, Sifter
from scdp.table.records import Records
from scdp.table.spec import Spec

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Progress = Callable[[int, int], None]

# A blocking that would make more candidates a record than this is too thorough for so many records.
MOST_CANDIDATES_A_RECORD = 64
SAMPLE = 20_000
# The shift of the log-odds is settled by the candidates of about so many records.
SETTLED_BY = 50_000
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
    """About how many candidate pairs a record there would be, judged by a sample."""
    n = len(records)
    if n <= SAMPLE:
        return len(candidate_pairs(records, blocking)) / max(n, 1)
    order = np.argsort(scattered(np.arange(n, dtype=np.int32)), kind="stable")
    return scaled_up_candidates(records.take(np.sort(order[:SAMPLE])), blocking, n) / n


def affordable(records: Records, blockings: Sequence[Blocking]) -> Blocking:
    """The first blocking whose candidates are not too many, else the last."""
    *others, last = blockings
    cheap = (each for each in others if candidates_a_record(records, each) <= MOST_CANDIDATES_A_RECORD)
    return next(cheap, last)


@dataclass(frozen=True, eq=False)
class Sifted:
    """Pairs that passed the sieve, with their distances and log-odds."""

    left: Integers
    right: Integers
    features: Features
    log_odds: Floats

    @classmethod
    def joined(cls, parts: Sequence[Sifted]) -> Sifted:
        """Those of all parts, of which there is at least one, sorted by left, then right."""
        left, right = (np.concatenate([getattr(part, end) for part in parts]) for end in ("left", "right"))
        order = np.lexsort((right, left))
        features, log_odds = (
            np.concatenate([part.features for part in parts]),
            np.concatenate([part.log_odds for part in parts]),
        )
        return cls(left[order], right[order], features[order], log_odds[order])

    def take(self, mask: NDArray[np.bool_]) -> Sifted:
        return Sifted(self.left[mask], self.right[mask], self.features[mask], self.log_odds[mask])

    def pairs(self, n_records: int) -> Pairs:
        """With the log-odds as the last feature."""
        features = np.column_stack([self.features, self.log_odds.astype(np.float32)])
        return Pairs(n_records, self.left, self.right, features)


def sifted(sifter: Sifter, left: NDArray[np.int32], right: NDArray[np.int32], shift: float) -> Sifted:
    """The candidates that pass with their log-odds shifted."""
    # What rounding takes from one side of the bar it may not take from the other.
    places, features, log_odds = sifter.passed(left, right, CUT - shift - SLACK)
    ends = left[places].astype(np.int64), right[places].astype(np.int64)
    found = Sifted(*ends, features, log_odds + shift)
    return found.take(found.log_odds >= CUT)


def histogram(
    sifter: Sifter, left: NDArray[np.int32], right: NDArray[np.int32], n_records: int
) -> NDArray[np.int64]:
    """The candidates that may pass whatever the shift, counted by their log-odds."""
    return counted(sifter.passed(left, right, sifter.sieve.floor(n_records))[2])


def sampled_share(n_records: int) -> float:
    """The share of the records by which the shift is settled."""
    return min(SETTLED_BY / max(n_records, 1), 1.0)


def in_sample(rows: NDArray[np.int32], share: float) -> NDArray[np.bool_]:
    """Which records the shift is settled by, with their later candidates: the same on every machine."""
    return scattered(rows) <= min(int(share * 2.0**63), 2**63 - 1)


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
    threads = worker_count(None) if workers < 1 else workers
    search = search_of(records, blocking, memory_limit="400MB")
    sifter = Sifter.of(sieve, prepared_columns(records, spec))
    rows = np.argsort(search.homes, kind="stable").astype(np.int32)

    def counts(some: NDArray[np.int32]) -> NDArray[np.int64]:
        return histogram(sifter, *search.pairs(some), n)

    sample = search.parts(rows[in_sample(rows, sampled_share(n))])
    shift = sieve.settled(sum(map_in_threads(counts, sample, threads), counted(np.zeros(0))), n)

    def passed(some: NDArray[np.int32]) -> Sifted:
        return sifted(sifter, *search.pairs(some), shift)

    parts = search.parts(rows)
    found = []
    for part in map_in_threads(passed, parts, threads):
        found.append(part)
        if progress is not None:
            progress(len(found), len(parts))
    return broken_up(Sifted.joined(found), n).pairs(n)


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
