"""Training: records and known clusters go in; a sample of them with its true pairs comes out, for estimates."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdp.blocking.candidates import known_clusters
from scdp.blocking.estimates import Sample
from scdp.blocking.keys import KeyMaker
from scdp.blocking.texts import TextColumns
from scdp.errors import InputError
from scdp.table.records import Records

# Learning looks at no more records and labelled pairs than this; the counts are scaled up.
MOST_RECORDS = 30_000
MOST_PAIRS = 40_000


def training_sample(
    records: Records,
    clusters: ArrayLike,
    n_records: int | None,
    max_block: int,
    window: int,
    rng: np.random.Generator,
) -> Sample:
    """At most MOST_RECORDS records, labelled ones first, and at most MOST_PAIRS of their pairs."""
    codes = known_clusters(clusters, len(records))
    rows = _sampled_rows(codes, rng)
    codes = codes[rows]
    groups = _clusters_of_pairs(codes, rng)
    if not groups:
        raise InputError(
            f"{records.source}: no two records have the same known cluster; label some duplicates"
        )
    entities = np.unique(np.where(codes < 0, -1 - np.arange(len(codes)), codes), return_inverse=True)[1]
    sizes = np.bincount(codes[codes >= 0])
    stands_for = max(len(records) if n_records is None else n_records, len(rows))
    true_pairs = float((sizes * (sizes - 1) // 2).sum())
    return Sample(
        KeyMaker(TextColumns(records.take(rows))),
        entities,
        *_pairs_within(groups),
        np.array([len(group) for group in groups]),
        stands_for,
        true_pairs * stands_for / float((codes >= 0).sum()),
        max_block,
        window,
    )


def _sampled_rows(codes: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    if len(codes) <= MOST_RECORDS:
        return np.arange(len(codes))
    # Whole clusters, in a random order, up to half of the sample; then records without a label.
    labelled = np.flatnonzero(codes >= 0)
    order = rng.permutation(int(codes.max(initial=-1)) + 1)
    labelled = labelled[np.argsort(order[codes[labelled]], kind="stable")]
    ranks = order[codes[labelled]]
    taken = labelled
    if len(labelled) > MOST_RECORDS // 2:
        taken = labelled[ranks < ranks[MOST_RECORDS // 2]]
    rest = np.setdiff1d(np.arange(len(codes)), taken)
    others = rng.choice(rest, MOST_RECORDS - len(taken), replace=False)
    return np.sort(np.concatenate([taken, others]))


def _clusters_of_pairs(codes: NDArray[np.int64], rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """The records of each labelled cluster of two or more, in a random order while the pairs are few enough."""
    order = np.argsort(codes, kind="stable")
    order = order[codes[order] >= 0]
    groups = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
    chosen: list[NDArray[np.int64]] = []
    total = 0
    for place in rng.permutation(len(groups)):
        size = len(groups[place])
        total += size * (size - 1) // 2
        if total > MOST_PAIRS and chosen:
            break
        if size > 1:
            chosen.append(groups[place])
    return chosen


def _pairs_within(groups: list[NDArray[np.int64]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    places = [np.triu_indices(len(group), k=1) for group in groups]
    left = [group[first] for group, (first, _) in zip(groups, places, strict=True)]
    right = [group[second] for group, (_, second) in zip(groups, places, strict=True)]
    return np.concatenate(left), np.concatenate(right)
