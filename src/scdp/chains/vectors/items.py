"""What a chain works on and never changes: points, who sits in which restaurant, whose cluster is hidden.

A restaurant is a set of items under one Chinese restaurant process: a document, or, when hidden items may not
join known clusters, the known or the hidden part of a document. Each restaurant owns a range of cluster
slots, its known clusters first; a new cluster always takes the lowest empty slot of the range.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Seated(Protocol):
    """What items by points and by distances have in common."""

    @property
    def restaurant(self) -> Integers: ...
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
    restaurant: Integers
    hidden: Integers
    slot_start: Integers
    slot_end: Integers
    known_in_slot: Integers

    @property
    def n_features(self) -> int:
        return int(self.points.shape[1])

    @property
    def sizes(self) -> Integers:
        return np.bincount(self.restaurant, minlength=len(self.slot_start)).astype(np.int64)


class Seating(NamedTuple):
    """Items plus the slot of every known item (-1 where hidden) and the label behind each known slot."""

    items: Items
    known_slot: Integers
    label_of_slot: dict[int, int]


def restaurants_of(known: Integers, groups: Integers | None, share_clusters: bool) -> Integers:
    """Number the restaurants: one a group, split into known and hidden items unless clusters are shared."""
    group = np.zeros(len(known), np.int64) if groups is None else np.unique(groups, return_inverse=True)[1]
    key = group if share_clusters else 2 * group + (known < 0)
    return np.unique(key, return_inverse=True)[1].astype(np.int64)


class Places(NamedTuple):
    """Restaurants and slots, whatever the items are made of: what points and distances have in common."""

    restaurant: Integers
    hidden: Integers
    slot_start: Integers
    slot_end: Integers
    known_in_slot: Integers
    known_slot: Integers
    label_of_slot: dict[int, int]


def lay_out(known: Integers, groups: Integers | None, *, share_clusters: bool) -> Places:
    """Give every restaurant its range of slots and every known item (label not -1) its slot."""
    known = np.asarray(known, dtype=np.int64)
    restaurant = restaurants_of(known, groups, share_clusters)
    n_restaurants = int(restaurant.max(initial=-1)) + 1
    starts, ends = np.zeros(n_restaurants, np.int64), np.zeros(n_restaurants, np.int64)
    known_slot = np.full(len(known), -1, dtype=np.int64)
    label_of_slot: dict[int, int] = {}
    next_slot = 0
    for place in range(n_restaurants):
        inside = restaurant == place
        given = inside & (known >= 0)
        labels, position = np.unique(known[given], return_inverse=True)
        known_slot[given] = next_slot + position
        label_of_slot.update((next_slot + i, int(label)) for i, label in enumerate(labels))
        starts[place] = next_slot
        next_slot += len(labels) + int((inside & (known < 0)).sum())
        ends[place] = next_slot
    return Places(
        restaurant=restaurant,
        hidden=np.flatnonzero(known < 0),
        slot_start=starts,
        slot_end=ends,
        known_in_slot=np.bincount(known_slot[known >= 0], minlength=next_slot).astype(np.int64),
        known_slot=known_slot,
        label_of_slot=label_of_slot,
    )


def seat(
    points: Floats, known: Integers, groups: Integers | None = None, *, share_clusters: bool = False
) -> Seating:
    """Lay out restaurants and slots for points (NaN = missing) with known cluster labels (-1 = hidden)."""
    places = lay_out(known, groups, share_clusters=share_clusters)
    observed = ~np.isnan(points)
    items = Items(
        points=np.ascontiguousarray(np.where(observed, points, 0.0), dtype=np.float64),
        observed=np.ascontiguousarray(observed, dtype=np.float64),
        complete=np.asarray(observed.all(axis=1)),
        restaurant=places.restaurant,
        hidden=places.hidden,
        slot_start=places.slot_start,
        slot_end=places.slot_end,
        known_in_slot=places.known_in_slot,
    )
    return Seating(items, places.known_slot, places.label_of_slot)
