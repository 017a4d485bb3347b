"""What a run would take of the memory: rows, known clusters and settings enter; bytes leave, by what they are for.

Counted are the arrays that grow with the data, in the bytes an entry has there; the rest of a run is small beside them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp._parallel import count_workers
from scdp._typing import Integers
from scdp.chains.items import working_bytes
from scdp.compare.distances import memory_bytes
from scdp.estimators.inputs import Compared, Points, Precomputed, codes, n_pairs
from scdp.io.memory import Need
from scdp.linkage.features import MOST_PAIRS
from scdp.linkage.sources import MOST_COORDINATES, MOST_PAIRS_TAUGHT, N_NEIGHBOURS, WALK_STEPS
from scdp.posterior.draws import count_bits
from scdp.posterior.estimate import MAX_LABELS
from scdp.table.records import Records
from scdp.table.spec import Spec

Documents = NDArray[Any] | None

N_TRACES = 10
MOST_SEARCHED = 1000
# Candidates of a record that a blocking proposes and the prefilter keeps, with their features.
KEPT_OF_ONE = 8
FEWER_DRAWS = "take fewer chains or sweeps (--chains, --sweeps)"
FEWER_RESOLVER_DRAWS = "take fewer draws (n_draws), or cluster the rows in parts"
FEWER_PAIRS = (
    "give fewer records, compare fewer columns, name documents that are never together (--groups), or take the "
    "resolver, which compares only records that may be the same"
)
FEWER_RESOLVER_PAIRS = "give fewer rows, or name documents that are never together (--groups)"
FEWER_VALUES = "give fewer rows or features, or take fewer chains"


@dataclass(frozen=True, eq=False)
class Extent:
    """Rows as memory sees them: their kind, features, known clusters (-1 = unknown) and documents."""

    kind: type[Points] | type[Compared] | type[Precomputed]
    n_features: int
    known: Integers
    documents: Documents

    def __len__(self) -> int:
        return len(self.known)

    @property
    def n_hidden(self) -> int:
        return int((self.known < 0).sum())


def extent(X: Any, known: Integers, documents: Documents, spec: Spec | None, metric: str) -> Extent:
    """Rows as they are handed to `fit`."""
    if isinstance(X, Records) and spec is not None:
        return Extent(Compared, len(spec.fields) or len(X.names), known, documents)
    array = np.asarray(X)
    kind = Precomputed if metric == "precomputed" else Points
    return Extent(
        kind, array.shape[-1] if array.ndim == (3 if kind is Precomputed else 2) else 1, known, documents
    )


def chain_needs(rows: Extent, room: Integers, n_chains: int, n_draws: int) -> list[Need]:
    """Of the paper's models; `room` is the group of each row."""
    # What each chain keeps of every cluster, of which there may be as many as hidden rows, besides the known ones.
    most_clusters = rows.n_hidden + len(np.unique(rows.known[rows.known >= 0]))
    states = 32 * n_chains * most_clusters * rows.n_features
    needs = [draws_need(rows.n_hidden, n_chains, n_draws), Need(f"{n_chains:,} chains", states, FEWER_DRAWS)]
    if rows.kind is Points:
        # Rows as given, scaled, and laid out with what is observed.
        what = f"{len(rows):,} rows of {rows.n_features:,} features"
        return [*needs, Need(what, 24 * len(rows) * rows.n_features, FEWER_VALUES)]
    each = 4 if rows.kind is Compared else 8
    stored = memory_bytes(group_sizes(rows.documents, len(rows)), rows.n_features, each)
    sizes = np.bincount(room, minlength=1)
    settled = np.bincount(room, weights=rows.known < 0, minlength=1) == 0
    # Squares in double precision: where clusters stay, for the gaps between their centroids; elsewhere for k-medoids.
    once = max(17 * int(sizes[settled].max(initial=0)) ** 2, 33 * int(sizes[~settled].max(initial=0)) ** 2)
    working = working_bytes(sizes, rows.n_features, each) + once
    what = f"the distances of {n_pairs(len(rows), rows.documents):,} pairs by {rows.n_features} comparisons"
    # When they are scaled there are two of them for a while.
    return [*needs, Need(what, max(2 * stored, stored + working), FEWER_PAIRS)]


def draws_need(n_hidden: int, n_chains: int, n_draws: int) -> Need:
    """Draws as they are kept, with their traces, and the search for the best of all clusterings."""
    each = n_hidden * count_bits(n_hidden) // 8 + 8 * N_TRACES + 16
    searched = 24 * min(n_hidden * min(MOST_SEARCHED, n_chains * n_draws), MAX_LABELS)
    what = f"{n_chains * n_draws:,} draws of {n_hidden:,} rows"
    return Need(what, n_chains * n_draws * each + searched, FEWER_DRAWS)


def training_needs(rows: Extent) -> list[Need]:
    """Of learning the resolver's law, from at most so many rows."""
    n = len(rows) - rows.n_hidden
    pairs, width = min(n * (n - 1) // 2, MOST_PAIRS_TAUGHT), n_columns(rows)
    kept = 2 * pairs * (9 * width + 60)
    made = pairs * bytes_of_view(width) if rows.kind is Points else 0
    return [Need(f"learning from {n:,} rows", kept + made, "give fewer known rows")]


def sampling_needs(rows: Extent, sampled: Integers, n_draws: int, n_jobs: int | None) -> list[Need]:
    """Of the resolver's draws: all pairs of the rows to be clustered, or candidates of too many."""
    draws = Need(f"{n_draws:,} draws of {len(rows):,} rows", n_draws * len(rows) * 12, FEWER_RESOLVER_DRAWS)
    documents = None if rows.documents is None else rows.documents[sampled]
    pairs, width = n_pairs(len(sampled), documents), n_columns(rows)
    if rows.kind is Compared and documents is None and pairs > MOST_PAIRS:
        candidates = len(sampled) * KEPT_OF_ONE * (4 * width + 40)
        return [draws, Need(f"candidate pairs of {len(sampled):,} records", candidates, FEWER_RESOLVER_PAIRS)]
    # Two numbers and the features of each pair, its neighbours' lists, and its scores in every thread.
    n_bytes = pairs * (4 * width + 56 + 9 * width + count_workers(n_jobs) * 16)
    if rows.kind is Points:
        largest = int(group_sizes(documents, len(sampled)).max(initial=0))
        n_bytes += largest * (largest - 1) // 2 * bytes_of_view(width)
    else:
        every = n_pairs(len(rows), rows.documents)
        n_bytes += every * rows.n_features * 4 * 2
    return [draws, Need(f"{pairs:,} pairs of rows by {width} features", n_bytes, FEWER_RESOLVER_PAIRS)]


def n_columns(rows: Extent) -> int:
    """The features of a pair, with the opinion of the trees."""
    if rows.kind is not Points:
        return 3 * rows.n_features + 2
    single = rows.n_features if rows.n_features <= MOST_COORDINATES else 0
    return 2 + len(N_NEIGHBOURS) * len(WALK_STEPS) + single + 1


def bytes_of_view(width: int) -> int:
    """Of a pair of vectors while its features are made: three times in double precision, and six square tables."""
    return 24 * width + 96


def group_sizes(documents: Documents, n: int) -> Integers:
    return np.array([n]) if documents is None else np.bincount(codes(documents), minlength=1)
