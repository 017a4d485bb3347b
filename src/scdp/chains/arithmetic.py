"""Small pieces that the kernels share: choosing by log weight, sums by cluster, used slots, slices, concentrations."""

from __future__ import annotations

from collections.abc import Callable
from math import lgamma
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from scdp._compile import kernel
from scdp._typing import Floats, Integers
from scdp.chains import GammaPrior, State
from scdp.chains.items import Items


class Sums(NamedTuple):
    """Per cluster slot: number of items, and per feature the sum of weights and of weighted values."""

    size: Integers
    weight: Floats
    pull: Floats


class Scatters(NamedTuple):
    """Per cluster slot: number of items, and per feature the sum of weights and the scatter Z."""

    size: Integers
    weight: Floats
    scatter: Floats


# Sides of a split: the one that a new cluster is opened for, the one that keeps the old cluster; and both together.
OPENED, KEPT, BOTH = 0, 1, 2
# exp of anything lower is lost in the rounding of a sum that holds a 1.
NEGLIGIBLE = -45.0


@kernel
def choose(rng: np.random.Generator, log_weight: Floats, n: int) -> int:
    """Draw an index below n with probability proportional to exp(log_weight); overwrites log_weight.

    Weights of which one is no number, or that are all zero, raise FloatingPointError: nothing is drawn from them.
    """
    largest = log_weight[0]
    for i in range(1, n):
        largest = max(largest, log_weight[i])
    total = 0.0
    for i in range(n):
        gap = log_weight[i] - largest
        if gap > NEGLIGIBLE:
            total += np.exp(gap)
        elif gap != gap:
            raise FloatingPointError("a weight is no number")
        log_weight[i] = total
    target = rng.random() * total
    for i in range(n - 1):
        if target < log_weight[i]:
            return i
    return n - 1


@kernel
def add_item(sums: Sums, slot: int, items: Items, i: int, row: Floats, sign: int) -> None:
    """Add (sign 1) or take away (sign -1) item i, written with precisions `row`, at a cluster's sums."""
    sums.size[slot] += sign
    for f in range(row.shape[0]):
        w = sign * items.observed[i, f] * row[f]
        sums.weight[slot, f] += w
        sums.pull[slot, f] += w * items.points[i, f]


@kernel
def empty_sums(n_slots: int, n_features: int) -> Sums:
    return Sums(np.zeros(n_slots, np.int64), np.zeros((n_slots, n_features)), np.zeros((n_slots, n_features)))


@kernel
def copy_sums(source: Sums | Scatters, slot: int, target: Sums | Scatters, at: int) -> None:
    size, weight, value = source
    new_size, new_weight, new_value = target
    new_size[at] = size[slot]
    new_weight[at, :] = weight[slot, :]
    new_value[at, :] = value[slot, :]


@kernel
def clear_sums(sums: Sums | Scatters, slot: int) -> None:
    """An emptied cluster is exactly zero again: no rounding is inherited by whoever opens the slot next."""
    size, weight, value = sums
    size[slot] = 0
    weight[slot, :] = 0.0
    value[slot, :] = 0.0


@kernel
def cluster_sums(items: Items, state: State) -> Sums:
    """The sums of every cluster slot, from scratch."""
    sums = empty_sums(items.known_in_slot.shape[0], items.points.shape[1])
    for i in range(items.points.shape[0]):
        add_item(sums, state.cluster[i], items, i, state.precision[state.type[i]], 1)
    return sums


@kernel
def slot_counts(slots: Integers, n_slots: int) -> Integers:
    """How many items sit in each slot."""
    counts = np.zeros(n_slots, np.int64)
    for slot in slots:
        counts[slot] += 1
    return counts


@kernel
def n_distinct(slots: Integers) -> int:
    """How many different slots are in use."""
    seen = np.zeros(slots.max() + 1, np.bool_)
    n = 0
    for slot in slots:
        n += not seen[slot]
        seen[slot] = True
    return n


@kernel
def highest_used(counts: Integers, start: Integers, end: Integers) -> Integers:
    """For each range of slots, one past the highest used slot."""
    high = start.copy()
    for r in range(start.shape[0]):
        for slot in range(start[r], end[r]):
            if counts[slot] > 0:
                high[r] = slot + 1
    return high


@kernel
def lowest_empty(counts: Integers, start: int) -> int:
    slot = start
    while counts[slot] > 0:
        slot += 1
    return slot


@kernel
def sum_of_logs(values: Floats, at: int) -> float:
    """Sum of log values[at, :]: one logarithm per eight factors, or one each where they leave the range."""
    n = values.shape[1]
    total = 0.0
    for f in range(0, n - 7, 8):
        low = values[at, f] * values[at, f + 1] * values[at, f + 2] * values[at, f + 3]
        high = values[at, f + 4] * values[at, f + 5] * values[at, f + 6] * values[at, f + 7]
        product = low * high
        if 1e-290 < product < 1e290:
            total += np.log(product)
        else:
            for g in range(f, f + 8):
                total += np.log(values[at, g])
    for f in range(n - n % 8, n):
        total += np.log(values[at, f])
    return total


@kernel
def log_sum(values: Floats) -> float:
    """Log of the sum of exponentials."""
    largest = values.max()
    total = 0.0
    for value in values:
        total += np.exp(value - largest)
    return largest + np.log(total)


@kernel
def log_table(n: int, discount: float = 0.0) -> Floats:
    """log 0, log 1, …, log n: counts are whole numbers, so their logarithms are looked up.

    With a discount each count from 1 on is less by it, as in the process of Pitman and Yor.
    """
    table = np.empty(n + 1)
    table[0] = -np.inf
    for i in range(1, n + 1):
        table[i] = np.log(i - discount)
    return table


@kernel
def log_new_cluster(state: State, n_clusters: int) -> float:
    """Log prior weight of a new cluster beside those that the other items of its group are in."""
    return np.log(state.cluster_concentration + state.discount * n_clusters)


@kernel
def n_used(counts: Integers, start: int, end: int) -> int:
    """How many slots of a range are in use."""
    n = 0
    for slot in range(start, end):
        n += counts[slot] > 0
    return n


def slice_on_line(rng: np.random.Generator, x: float, log_density: Callable[[float], float]) -> float:
    """One slice-sampling step: stepping out by 1, then shrinking."""
    height = log_density(x) - rng.standard_exponential()
    left = x - rng.random()
    right = left + 1.0
    while log_density(left) > height:
        left -= 1.0
    while log_density(right) > height:
        right += 1.0
    while True:
        y = left + (right - left) * rng.random()
        if log_density(y) > height:
            return float(y)
        left, right = (y, right) if y < x else (left, y)


@kernel
def log_symmetric_polynomials(sizes: Integers) -> Floats:
    """Log of e_0, …, e_M of the sizes, one size after another: e_j becomes e_j + n_m e_(j-1)."""
    n = sizes.shape[0]
    result = np.full(n + 1, -np.inf)
    result[0] = 0.0
    for m in range(n):
        log_size = np.log(sizes[m])
        for j in range(m + 1, 0, -1):
            result[j] = np.logaddexp(result[j], result[j - 1] + log_size)
    return result


@kernel
def resample_concentration(
    rng: np.random.Generator,
    concentration: float,
    sizes: Integers,
    n_clusters: int,
    log_symmetric: Floats,
    shape: float,
    rate: float,
) -> float:
    """Draw alpha under a Gamma(shape, rate) prior; `n_clusters` counts the clusters of all groups (West; Appendix B).

    Given x_m ~ Beta(alpha + 1, n_m), the density of alpha is a Gamma density times prod (alpha + n_m). Multiplied out,
    that is a mixture of M + 1 Gammas weighed by the elementary symmetric polynomials of the n_m: drawn exactly.
    """
    n = sizes.shape[0]
    after_rate = rate
    for m in range(n):
        after_rate -= np.log(rng.beta(concentration + 1.0, sizes[m]))
    log_weight = np.empty(n + 1)
    for j in range(n + 1):
        after_shape = shape - n + n_clusters + j
        log_weight[j] = log_symmetric[n - j] + lgamma(after_shape) - after_shape * np.log(after_rate)
    after_shape = shape - n + n_clusters + choose(rng, log_weight, n + 1)
    return rng.standard_gamma(after_shape) / after_rate


def resample_discounted_concentration(
    rng: np.random.Generator, state: State, sizes: Integers, n_clusters: Integers, prior: GammaPrior
) -> float:
    """A slice step for alpha under a discount, which West's update does not know: each group of n items in K clusters
    has the factor (alpha + d) … (alpha + (K - 1) d) Gamma(alpha + 1) / Gamma(alpha + n)."""
    # Groups that have more than k clusters, for k from 1 on: each brings a factor alpha + k d.
    steps = np.arange(1, n_clusters.max(initial=1))
    groups = (n_clusters[:, None] > steps).sum(axis=0)

    def log_density(log_value: float) -> float:
        value = float(np.exp(log_value))
        opened = groups @ np.log(value + state.discount * steps)
        seated = (gammaln(value + 1.0) - gammaln(value + sizes)).sum()
        return float(prior.shape * log_value - prior.rate * value + opened + seated)

    return float(np.exp(slice_on_line(rng, float(np.log(state.cluster_concentration)), log_density)))
