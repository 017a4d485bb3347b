"""What a chain works on and never changes: points, distances or counts, the group of each, and whose cluster is hidden.

Items of one group are under one Chinese restaurant process: a group that was given, or, where hidden items may not
join known clusters, its known or its hidden part. Each group owns a range of cluster slots, its known clusters
first; a new cluster always takes the lowest empty slot of the range.

On distances each group of n items holds its n x n pairs in full, so that all distances of an item lie side by side: sum
of n^2, times features rounded up to four, times 4 bytes (float32).
"""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Floats, Integers
from scdp.compare.distances import NOT_STORED, Distances, squared_to_origin
from scdp.errors import InputError

# Steps of k-means or k-medoids: a start needs no more.
START_STEPS = 10


class Items(NamedTuple):
    """Arrays that kernels read. A missing value is 0 in `points` and 0 in `observed`."""

    points: Floats
    observed: Floats
    complete: NDArray[np.bool_]
    group: Integers
    hidden: Integers
    slot_start: Integers
    slot_end: Integers
    known_in_slot: Integers

    @property
    def n_features(self) -> int:
        return int(self.points.shape[1])


def group_sizes(items: SlotItems) -> Integers:
    """How many items each group has."""
    return np.bincount(items.group, minlength=len(items.slot_start)).astype(np.int64)


AnyItem = TypeVar("AnyItem")


class ItemLayout(NamedTuple, Generic[AnyItem]):
    """Items plus the slot of every known item (-1 where hidden)."""

    items: AnyItem
    known_slot: Integers


def number_groups(known: Integers, groups: Integers | None, share_clusters: bool) -> Integers:
    """Number the groups: one a group, split into known and hidden items unless clusters are shared."""
    group = np.zeros(len(known), np.int64) if groups is None else np.unique(groups, return_inverse=True)[1]
    key = group if share_clusters else 2 * group + (known < 0)
    return np.unique(key, return_inverse=True)[1].astype(np.int64)


# What all items have, named alike.
SHARED = ("group", "hidden", "slot_start", "slot_end", "known_in_slot")


class Slots(NamedTuple):
    """Groups and slots, whatever the items are made of: what points and distances have in common."""

    group: Integers
    hidden: Integers
    slot_start: Integers
    slot_end: Integers
    known_in_slot: Integers
    known_slot: Integers

    @property
    def shared(self) -> dict[str, Integers]:
        return {name: getattr(self, name) for name in SHARED}


def assign_slots(known: Integers, groups: Integers | None, *, share_clusters: bool) -> Slots:
    """Give every group its range of slots and every known item (label not -1) its slot."""
    known = np.asarray(known, dtype=np.int64)
    group = number_groups(known, groups, share_clusters)
    n_groups = int(group.max(initial=-1)) + 1
    starts, ends = np.zeros(n_groups, np.int64), np.zeros(n_groups, np.int64)
    known_slot = np.full(len(known), -1, dtype=np.int64)
    next_slot = 0
    for number in range(n_groups):
        inside = group == number
        given = inside & (known >= 0)
        labels, position = np.unique(known[given], return_inverse=True)
        known_slot[given] = next_slot + position
        starts[number] = next_slot
        next_slot += len(labels) + int((inside & (known < 0)).sum())
        ends[number] = next_slot
    return Slots(
        group=group,
        hidden=np.flatnonzero(known < 0),
        slot_start=starts,
        slot_end=ends,
        known_in_slot=np.bincount(known_slot[known >= 0], minlength=next_slot).astype(np.int64),
        known_slot=known_slot,
    )


def lay_out_vectors(
    points: Floats, known: Integers, groups: Integers | None = None, *, share_clusters: bool = False
) -> ItemLayout[Items]:
    """Lay out groups and slots for points (NaN = missing) with known cluster labels (-1 = hidden)."""
    slots = assign_slots(known, groups, share_clusters=share_clusters)
    observed = ~np.isnan(points)
    items = Items(
        points=np.ascontiguousarray(np.where(observed, points, 0.0), dtype=np.float64),
        observed=np.ascontiguousarray(observed, dtype=np.float64),
        complete=np.asarray(observed.all(axis=1)),
        **slots.shared,
    )
    return ItemLayout(items, slots.known_slot)


GAUSSIAN, BETA_BINOMIAL, DIRICHLET_MULTINOMIAL = "gaussian", "beta-binomial", "dirichlet-multinomial"


LIKELIHOODS = (GAUSSIAN, BETA_BINOMIAL, DIRICHLET_MULTINOMIAL)


class CountItems(NamedTuple):
    """Counts of outcomes by item, the pool of each outcome, and trials by item and pool; the rest is as in Items."""

    outcomes: Floats
    pool: Integers
    trials: Floats
    points: Floats
    group: Integers
    hidden: Integers
    slot_start: Integers
    slot_end: Integers
    known_in_slot: Integers

    @property
    def n_features(self) -> int:
        return int(self.points.shape[1])


def lay_out_counts(layout: ItemLayout[Items], likelihood: str) -> ItemLayout[CountItems]:
    """Lay out vectors as counts; where values are no counts, the first of them is named.

    Of the beta-binomial likelihood the trials of a feature are its largest value.
    """
    items: Items = layout.items
    seen = items.observed > 0
    wrong = seen & ((items.points < 0) | (items.points != np.floor(items.points)))
    if likelihood == DIRICHLET_MULTINOMIAL:
        wrong |= ~seen
    if wrong.any():
        row, column = (int(k) for k in np.argwhere(wrong)[0])
        value = items.points[row, column] if seen[row, column] else "missing"
        raise InputError(
            f"X: row {row}, column {column} is {value}, and likelihood={likelihood!r} takes whole numbers from 0 on"
        )
    n_features = items.points.shape[1]
    if likelihood == DIRICHLET_MULTINOMIAL:
        outcomes, pool = items.points, np.zeros(n_features, np.int64)
        trials = items.points.sum(axis=1, keepdims=True)
    else:
        trials = items.observed * items.points.max(axis=0, initial=0.0)
        outcomes = np.concatenate([items.points, trials - items.points], axis=1)
        pool = np.tile(np.arange(n_features), 2)
    arrays = (np.ascontiguousarray(outcomes), pool, np.ascontiguousarray(trials), items.points)
    shared = {name: getattr(items, name) for name in SHARED}
    return ItemLayout(CountItems(*arrays, **shared), layout.known_slot)


# Features are handled four at a time; rows are padded with zeros to make it so.
LANES = 4


class DistanceItems(NamedTuple):
    """Arrays that kernels read, named as in Items where they mean the same.

    The squared distance of items i and j of one group is row `row_start[i] + place[j]` of `squared`, 0 where
    either misses the feature, as is `origin`. `member` lists the items by group, from `member_start` on, and
    `place` is an item's rank there. A squared norm below `floor` counts as `floor`: 0 clips, -inf does not.
    A `settled` group has no hidden item, so its clusters stay; `settled_gaps` are the sums over all of them of
    the squared gaps between centroids (row 0) and the numbers of pairs (row 1), by feature.
    """

    squared: NDArray[np.float32] | NDArray[np.float64]
    origin: Floats
    observed: Floats
    complete: NDArray[np.bool_]
    group: Integers
    hidden: Integers
    slot_start: Integers
    slot_end: Integers
    known_in_slot: Integers
    member: Integers
    member_start: Integers
    place: Integers
    row_start: Integers
    floor: float
    settled: NDArray[np.bool_]
    settled_gaps: Floats

    @property
    def n_features(self) -> int:
        return int(self.observed.shape[1])


AnyItems = Items | DistanceItems | CountItems
# What has groups, hidden items and slots.
SlotItems = AnyItems | Slots


def working_bytes(sizes: Integers, n_features: int, bytes_each: int = 4) -> int:
    """Bytes of `squared` for groups of these sizes."""
    return int((np.asarray(sizes, np.int64) ** 2).sum()) * pad_features(n_features) * bytes_each


def pad_features(n_features: int) -> int:
    return -(-n_features // LANES) * LANES


def lay_out_distances(
    distances: Distances,
    known: Integers,
    groups: Integers | None = None,
    *,
    share_clusters: bool = False,
    origin: Floats | None = None,
    clip: bool = False,
) -> ItemLayout[DistanceItems]:
    """Lay out groups, slots and squared distances for known cluster labels (-1 = hidden).

    `groups` are by default the groups of the distances, and may only divide these further. `origin` holds squared
    distances (items, features) to the mean of the prior on means, by default the centroid of each group of the
    distances. `clip` sets negative squared norms to zero; they are counted either way.
    """
    given = distances.groups if groups is None else np.unique(groups, return_inverse=True)[1]
    slots = assign_slots(known, given, share_clusters=share_clusters)
    if len(slots.group) != len(distances):
        raise InputError(f"there are {len(slots.group)} labels for {len(distances)} records")
    to_origin = squared_to_origin(distances).squared if origin is None else origin
    check_origin(to_origin, distances.observed)
    member = np.argsort(slots.group, kind="stable").astype(np.int64)
    sizes = group_sizes(slots)
    member_start = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    place = np.empty(len(member), np.int64)
    place[member] = np.arange(len(member)) - member_start[slots.group[member]]
    block_start = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes**2)])
    row_start = block_start[slots.group] + place * sizes[slots.group]
    squared = list_squares(distances, slots, place, row_start, int(block_start[-1]))
    settled = np.ones(len(sizes), np.bool_)
    settled[slots.group[slots.hidden]] = False
    settled_gaps = np.zeros((2, distances.n_features))
    for r in np.flatnonzero(settled):
        inside = member[member_start[r] : member_start[r + 1]]
        within = squared[block_start[r] : block_start[r + 1], : distances.n_features]
        settled_gaps += gaps_between_centroids(within, slots.known_slot[inside], distances.observed[inside])
    items = DistanceItems(
        squared=squared,
        origin=np.ascontiguousarray(np.where(distances.observed, to_origin, 0.0), dtype=np.float64),
        observed=np.ascontiguousarray(distances.observed, dtype=np.float64),
        complete=np.asarray(distances.observed.all(axis=1)),
        **slots.shared,
        member=member,
        member_start=member_start,
        place=place,
        row_start=row_start,
        floor=0.0 if clip else -np.inf,
        settled=settled,
        settled_gaps=settled_gaps,
    )
    return ItemLayout(items, slots.known_slot)


def gaps_between_centroids(squared: NDArray[Any], cluster: Integers, observed: NDArray[np.bool_]) -> Floats:
    """Over the pairs of clusters of n items: the sum of squared gaps between centroids, and their number.

    `squared` has n x n rows. With shares w = 1 / (members that have the feature), the sum over pairs of items of
    w w' d2 counts every gap once and, for each of the K clusters, half the mean square within all of them.
    """
    n, n_features = observed.shape
    slot = np.unique(cluster, return_inverse=True)[1]
    same = slot[:, None] == slot[None, :]
    found = np.empty((2, n_features))
    for f in range(n_features):
        size = np.bincount(slot, weights=observed[:, f])
        share = np.where(observed[:, f], 1.0 / np.maximum(size, 1.0)[slot], 0.0)
        square = squared[:, f].reshape(n, n).astype(np.float64)
        within = 0.5 * share @ np.where(same, square, 0.0) @ share
        n_present = np.count_nonzero(size)
        found[:, f] = 0.5 * share @ square @ share - n_present * within, n_present * (n_present - 1) / 2
    return found


def list_squares(
    distances: Distances, slots: Slots, place: Integers, row_start: Integers, n_entries: int
) -> NDArray[np.float32] | NDArray[np.float64]:
    """Every pair of one group twice, (i, j) and (j, i); zero where a feature is missing."""
    squared = np.zeros((n_entries, pad_features(distances.n_features)), distances.values.dtype)
    for number in range(len(slots.slot_start)):
        members = np.flatnonzero(slots.group == number)
        for rank, record in enumerate(members):
            others = members[rank + 1 :]
            entries = distances.layout.positions(np.full(len(others), record), others)
            if (entries == NOT_STORED).any():
                other = int(others[(entries == NOT_STORED).argmax()])
                raise InputError(
                    f"records {record} and {other} are in one group, but no distance between them was computed; "
                    "compute the distances with the same groups"
                )
            row = np.nan_to_num(distances.values[entries]) ** 2
            squared[row_start[record] + place[others], : row.shape[1]] = row
            squared[row_start[others] + place[record], : row.shape[1]] = row
    return squared


def check_origin(origin: Floats, observed: NDArray[np.bool_]) -> None:
    if origin.shape != observed.shape:
        raise InputError(f"origin has shape {origin.shape}; it needs {observed.shape}: one distance a feature")
    with np.errstate(invalid="ignore"):
        wrong = observed & ~((origin >= 0) & np.isfinite(origin))
    if wrong.any():
        i, f = (int(k) for k in np.argwhere(wrong)[0])
        raise InputError(f"origin: entry ({i}, {f}) is {float(origin[i, f])}, no squared distance")


def part_labels(rng: np.random.Generator, items: AnyItems, members: NDArray[np.int64], init: str) -> NDArray[np.int64]:
    """Starting labels for the hidden items of one group."""
    n = len(members)
    if init == "one":
        return np.zeros(n, dtype=np.int64)
    if init == "singletons":
        return np.arange(n)
    if init == "kmeans":
        k = max(1, round(np.sqrt(n / 2)))
        if isinstance(items, DistanceItems):
            return medoid_labels(rng, items, members, k)
        return kmeans_labels(rng, items.points[members], k)
    raise ValueError(f"init must be 'mixed', 'one', 'singletons', 'kmeans' or an array, not {init!r}")


def kmeans_labels(rng: np.random.Generator, points: Floats, k: int) -> NDArray[np.int64]:
    """A few steps of k-means from random points: a start needs no more."""
    centres = points[rng.permutation(len(points))[:k]].copy()
    labels = np.zeros(len(points), dtype=np.int64)
    for _ in range(START_STEPS):
        labels = ((centres**2).sum(axis=1) - 2 * points @ centres.T).argmin(axis=1)
        for j in np.unique(labels):
            centres[j] = points[labels == j].mean(axis=0)
    return labels


def medoid_labels(rng: np.random.Generator, items: DistanceItems, members: Integers, k: int) -> Integers:
    """A few steps of k-medoids from random members of one group: a start needs no more."""
    far = mean_squares(items, members)
    medoids = rng.permutation(len(members))[:k]
    labels = far[:, medoids].argmin(axis=1)
    for _ in range(START_STEPS):
        for j in np.unique(labels):
            inside = np.flatnonzero(labels == j)
            medoids[j] = inside[far[np.ix_(inside, inside)].sum(axis=0).argmin()]
        labels = far[:, medoids].argmin(axis=1)
    return labels


def mean_squares(items: DistanceItems, members: Integers) -> Floats:
    """Squared distances averaged over the features both items have; pairs without any are at the mean distance."""
    places = items.place[members]
    observed = items.observed[members]
    far = np.empty((len(members), len(members)))
    for a, i in enumerate(members):
        far[a] = items.squared[items.row_start[i] + places].sum(axis=1, dtype=np.float64)
    shared = observed @ observed.T
    with np.errstate(invalid="ignore", divide="ignore"):
        far /= shared
    return np.where(shared > 0, far, far[shared > 0].mean() if (shared > 0).any() else 0.0)
