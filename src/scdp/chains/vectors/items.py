"""What a chain works on and never changes: points, the group of each, and whose cluster is hidden.

Items of one group are under one Chinese restaurant process: a group that was given, or, where hidden items may not
join known clusters, its known or its hidden part. Each group owns a range of cluster slots, its known clusters
first; a new cluster always takes the lowest empty slot of the range.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Floats, Integers


class SlotItems(Protocol):
    """What items by points and by distances have in common: groups, hidden items and slots."""

    @property
    def group(self) -> Integers: ...
    @property
    def hidden(self) -> Integers: ...
    @property
    def slot_start(self) -> Integers: ...
    @property
    def slot_end(self) -> Integers: ...


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

    @property
    def sizes(self) -> Integers:
        return np.bincount(self.group, minlength=len(self.slot_start)).astype(np.int64)


class VectorLayout(NamedTuple):
    """Items plus the slot of every known item (-1 where hidden) and the label behind each known slot."""

    items: Items
    known_slot: Integers
    label_of_slot: dict[int, int]


def number_groups(known: Integers, groups: Integers | None, share_clusters: bool) -> Integers:
    """Number the groups: one a group, split into known and hidden items unless clusters are shared."""
    group = np.zeros(len(known), np.int64) if groups is None else np.unique(groups, return_inverse=True)[1]
    key = group if share_clusters else 2 * group + (known < 0)
    return np.unique(key, return_inverse=True)[1].astype(np.int64)


class Slots(NamedTuple):
    """Groups and slots, whatever the items are made of: what points and distances have in common."""

    group: Integers
    hidden: Integers
    slot_start: Integers
    slot_end: Integers
    known_in_slot: Integers
    known_slot: Integers
    label_of_slot: dict[int, int]


def assign_slots(known: Integers, groups: Integers | None, *, share_clusters: bool) -> Slots:
    """Give every group its range of slots and every known item (label not -1) its slot."""
    known = np.asarray(known, dtype=np.int64)
    group = number_groups(known, groups, share_clusters)
    n_groups = int(group.max(initial=-1)) + 1
    starts, ends = np.zeros(n_groups, np.int64), np.zeros(n_groups, np.int64)
    known_slot = np.full(len(known), -1, dtype=np.int64)
    label_of_slot: dict[int, int] = {}
    next_slot = 0
    for number in range(n_groups):
        inside = group == number
        given = inside & (known >= 0)
        labels, position = np.unique(known[given], return_inverse=True)
        known_slot[given] = next_slot + position
        label_of_slot.update((next_slot + i, int(label)) for i, label in enumerate(labels))
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
        label_of_slot=label_of_slot,
    )


def lay_out_vectors(
    points: Floats, known: Integers, groups: Integers | None = None, *, share_clusters: bool = False
) -> VectorLayout:
    """Lay out groups and slots for points (NaN = missing) with known cluster labels (-1 = hidden)."""
    slots = assign_slots(known, groups, share_clusters=share_clusters)
    observed = ~np.isnan(points)
    items = Items(
        points=np.ascontiguousarray(np.where(observed, points, 0.0), dtype=np.float64),
        observed=np.ascontiguousarray(observed, dtype=np.float64),
        complete=np.asarray(observed.all(axis=1)),
        group=slots.group,
        hidden=slots.hidden,
        slot_start=slots.slot_start,
        slot_end=slots.slot_end,
        known_in_slot=slots.known_in_slot,
    )
    return VectorLayout(items, slots.known_slot, slots.label_of_slot)
