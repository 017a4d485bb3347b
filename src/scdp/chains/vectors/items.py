"""The log joint density of data and state, means integrated out: the scalar a chain reports each sweep."""

from __future__ import annotations

from math import lgamma
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp._typing import Floats, Integers
from scdp.chains.arithmetic import cluster_sums, slot_counts
from scdp.chains.state import State

LOG_2PI = float(np.log(2 * np.pi))


@kernel
def log_gamma_density(value: float, shape: float, rate: float) -> float:
    return shape * np.log(rate) - lgamma(shape) + (shape - 1.0) * np.log(value) - rate * value


@kernel
def log_partition_prior(counts: Integers, start: Integers, end: Integers, concentration: float) -> float:
    """Log probability of the layout of every group, each a range of slots."""
    total = 0.0
    log_alpha = np.log(concentration)
    for r in range(start.shape[0]):
        n = 0
        for slot in range(start[r], end[r]):
            if counts[slot] > 0:
                n += counts[slot]
                total += log_alpha + lgamma(counts[slot])
        if n > 0:
            total += lgamma(concentration) - lgamma(concentration + n)
    return total


@kernel
def log_precision_prior(state: State, counts: Integers) -> float:
    total = 0.0
    for kind in range(counts.shape[0]):
        if counts[kind] == 0:
            continue
        if state.grid.shape[0] > 0:
            for g in range(state.grid.shape[0]):
                if (state.grid[g] == state.precision[kind]).all():
                    total += state.grid_log_weight[g]
        else:
            for f in range(state.shape.shape[0]):
                total += log_gamma_density(state.precision[kind, f], state.shape[f], state.rate[f])
    return total


@kernel
def log_data(items: Items, state: State) -> float:
    """Log density of the points given clusters, types and precisions."""
    sums = cluster_sums(items, state)
    prior_weight = 1.0 / state.mean_variance
    log_precision = np.log(state.precision)
    total = 0.0
    for i in range(items.points.shape[0]):
        kind = state.type[i]
        for f in range(items.points.shape[1]):
            square = state.precision[kind, f] * items.points[i, f] ** 2
            total += items.observed[i, f] * (log_precision[kind, f] - LOG_2PI - square)
    for slot in range(sums.size.shape[0]):
        if sums.size[slot] > 0:
            for f in range(items.points.shape[1]):
                a = prior_weight + sums.weight[slot, f]
                total += sums.pull[slot, f] ** 2 / a - np.log(a / prior_weight)
    return 0.5 * total


@kernel
def log_prior_of_labels(
    items: Items, state: State, counts: Integers, type_counts: Integers, concentration_priors: Floats
) -> float:
    """Log prior of clusters, types, precisions and concentrations.

    `concentration_priors` holds shape and rate of the cluster concentration, then of the type concentration.
    """
    whole = np.array([0]), np.array([type_counts.shape[0]])
    return (
        log_partition_prior(counts, items.slot_start, items.slot_end, state.cluster_concentration)
        + log_partition_prior(type_counts, whole[0], whole[1], state.type_concentration)
        + log_precision_prior(state, type_counts)
        + log_gamma_density(state.cluster_concentration, concentration_priors[0], concentration_priors[1])
        + log_gamma_density(state.type_concentration, concentration_priors[2], concentration_priors[3])
    )


@kernel
def log_joint(items: Items, state: State, concentration_priors: Floats) -> float:
    """Everything: data, clusters, types, precisions and concentrations."""
    counts = slot_counts(state.cluster, items.known_in_slot.shape[0])
    type_counts = slot_counts(state.type, state.precision.shape[0])
    return log_data(items, state) + log_prior_of_labels(
        items, state, counts, type_counts, concentration_priors
    )


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


@kernel
def draw_means(rng: np.random.Generator, items: Items, state: State) -> tuple[Floats, Integers]:
    """A mean for every used cluster slot (rows of empty slots stay 0), and the used slots."""
    sums = cluster_sums(items, state)
    used = np.flatnonzero(sums.size)
    means = np.zeros_like(sums.weight)
    for slot in used:
        for f in range(means.shape[1]):
            a = 1.0 / state.mean_variance + sums.weight[slot, f]
            means[slot, f] = sums.pull[slot, f] / a + rng.standard_normal() / np.sqrt(a)
    return means, used


@kernel
def draw_mean_variance(
    rng: np.random.Generator, means: Floats, used: Integers, shape: float, rate: float
) -> float:
    """The variance of the mean prior; its inverse has a Gamma(shape, rate) prior."""
    square = 0.0
    for slot in used:
        for f in range(means.shape[1]):
            square += means[slot, f] * means[slot, f]
    after_shape = shape + 0.5 * used.shape[0] * means.shape[1]
    return (rate + 0.5 * square) / rng.standard_gamma(after_shape)


@kernel
def separation_prior(means: Floats, used: Integers) -> tuple[Floats, Floats]:
    """SCDP-2: Gamma shape and rate per feature from squared gaps v between all pairs of used means.

    Prior mean = mean(v) / 2 and prior variance = var(v). Both come from power sums of the centred means, so the
    cost is linear in the number of clusters. Gamma(1, 1) stands in where means are too few or have no spread.
    """
    n_features = means.shape[1]
    shape = np.ones(n_features)
    rate = np.ones(n_features)
    k = used.shape[0]
    if k < 3:
        return shape, rate
    pairs = 0.5 * k * (k - 1)
    for f in range(n_features):
        centre = 0.0
        for slot in used:
            centre += means[slot, f] / k
        second = third = fourth = 0.0
        for slot in used:
            x = means[slot, f] - centre
            second += x * x
            third += x * x * x
            fourth += x * x * x * x
        gap = k * second / pairs
        spread = (k * fourth + 3.0 * second * second) / pairs - gap * gap
        if gap > 0.0 and spread > 1e-12 * gap * gap:
            shape[f] = 0.25 * gap * gap / spread
            rate[f] = 0.5 * gap / spread
    return shape, rate
