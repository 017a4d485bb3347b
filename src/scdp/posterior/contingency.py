"""One partition against many: labels of draws enter in chunks; distances, memberships and summaries leave.

Both losses have the form  sum_k f(n_k) + sum_b f(n_b) - 2 sum_kb f(n_kb)  over clusters k of one partition, b
of the other and their overlaps; f(x) = x log x / n gives the variation of information in nats, and
f(x) = x (x - 1) / (n (n - 1)) the share of pairs on which they disagree (Binder's loss).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp.errors import InputError
from scdp.posterior.canonical import Labels
from scdp.posterior.components import grouped

Loss = Literal["vi", "binder"]
Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


def loss_terms(loss: str, n: int) -> Floats:
    """The function f of the loss for 0, ..., n items."""
    sizes = np.arange(n + 1, dtype=np.float64)
    if loss == "vi":
        return sizes * np.log(np.maximum(sizes, 1.0)) / max(n, 1)
    if loss == "binder":
        return sizes * (sizes - 1.0) / max(n * (n - 1), 1)
    raise InputError(f"there is no loss {loss!r}: choose 'vi' or 'binder'")


@dataclass(frozen=True, eq=False)
class Partition:
    """A partition ready to be compared with many: items ordered by cluster, and where each cluster begins."""

    order: Counts
    bounds: Counts
    weights: Counts

    @classmethod
    def of(cls, labels: Labels, weights: Counts | None = None) -> Partition:
        """From canonical labels; an item of weight w stands for w items that are always together."""
        return cls(*grouped(labels), np.ones(len(labels), np.int64) if weights is None else weights)

    def distances(self, draws: NDArray[np.int32], terms: Floats) -> Floats:
        """The loss against each draw, whose labels are (draw, item)."""
        own, others, overlaps = self.measure(draws, terms)
        return np.maximum(0.0, own - 2.0 * overlaps + others)

    def measure(self, draws: NDArray[np.int32], terms: Floats) -> tuple[float, Floats, Floats]:
        """The sum of f over the clusters of this partition; of each draw; and over their overlaps."""
        others, overlaps = np.empty((2, len(draws)))
        scratch = np.zeros(int(draws.max(initial=-1)) + 1, np.int64)
        own = measure_overlaps(draws, self.order, self.bounds, self.weights, terms, scratch, others, overlaps)
        return own, others, overlaps

    def add_memberships(self, draws: NDArray[np.int32], out: Floats) -> None:
        """Add to `out`, for each item, the sum over draws of the share of its cluster it is with."""
        scratch = np.zeros(int(draws.max(initial=-1)) + 1, np.int64)
        add_alone(draws, self.order, self.bounds, scratch, out)
        # Item by item in memory, as members of a cluster are far apart within a draw.
        add_shares(np.ascontiguousarray(draws.T), self.order, self.bounds, scratch, out)


@kernel
def take_terms(
    row: NDArray[np.int32], items: Counts, weights: Counts, terms: Floats, counts: Counts
) -> float:
    """The sum of f over the clusters that `row` makes of these items; `counts` is zero before and after."""
    for place in range(len(items)):
        counts[row[items[place]]] += weights[items[place]]
    total = 0.0
    for place in range(len(items)):
        cluster = row[items[place]]
        total += terms[counts[cluster]]
        counts[cluster] = 0
    return total


@kernel
def measure_overlaps(
    draws: NDArray[np.int32],
    order: Counts,
    bounds: Counts,
    weights: Counts,
    terms: Floats,
    counts: Counts,
    others: Floats,
    overlaps: Floats,
) -> float:
    """Sums of f over the clusters of each draw and over their overlaps with one partition (`order`, `bounds`).

    Returns the sum over the clusters of the partition itself.
    """
    own = 0.0
    for cluster in range(len(bounds) - 1):
        own += terms[weights[order[bounds[cluster] : bounds[cluster + 1]]].sum()]
    for draw in range(draws.shape[0]):
        row = draws[draw]
        overlap = 0.0
        for cluster in range(len(bounds) - 1):
            members = order[bounds[cluster] : bounds[cluster + 1]]
            overlap += take_terms(row, members, weights, terms, counts)
        overlaps[draw] = overlap
        others[draw] = take_terms(row, order, weights, terms, counts)
    return own


@kernel
def add_alone(draws: NDArray[np.int32], order: Counts, bounds: Counts, counts: Counts, out: Floats) -> None:
    """Add, for each item that has a cluster of its own, the draws in which it is alone; `counts` is scratch."""
    for draw in range(draws.shape[0]):
        row = draws[draw]
        for label in row:
            counts[label] += 1
        for cluster in range(len(bounds) - 1):
            if bounds[cluster + 1] - bounds[cluster] == 1:
                item = order[bounds[cluster]]
                out[item] += counts[row[item]] == 1
        counts[:] = 0


@kernel
def add_shares(labels: NDArray[np.int32], order: Counts, bounds: Counts, counts: Counts, out: Floats) -> None:
    """Add, for each item of a larger cluster, the share of its others that it is with, over labels (item, draw)."""
    for cluster in range(len(bounds) - 1):
        members = order[bounds[cluster] : bounds[cluster + 1]]
        if len(members) == 1:
            continue
        for draw in range(labels.shape[1]):
            for item in members:
                counts[labels[item, draw]] += 1
            for item in members:
                out[item] += (counts[labels[item, draw]] - 1) / (len(members) - 1)
            for item in members:
                counts[labels[item, draw]] = 0


@kernel
def count_pairs(draws: NDArray[np.int32], heads: NDArray[Any], links: NDArray[Any], out: Counts) -> None:
    """Add to out[i, j], j < i, the number of draws that put i and j together.

    `heads` (a cluster's latest item, -1 before and after) and `links` (an item's predecessor) are scratch.
    """
    for draw in range(draws.shape[0]):
        for item in range(draws.shape[1]):
            cluster = draws[draw, item]
            links[item] = heads[cluster]
            heads[cluster] = item
            other = links[item]
            while other >= 0:
                out[item, other] += 1
                other = links[other]
        for item in range(draws.shape[1]):
            heads[draws[draw, item]] = -1


@kernel
def measure_sizes(
    draws: NDArray[np.int32], terms: Floats, counts: Counts, largest: Floats, entropy: Floats
) -> None:
    """The largest cluster and the entropy in nats of each draw; `terms` are those of the VI loss."""
    n_items = draws.shape[1]
    for draw in range(draws.shape[0]):
        biggest = 0
        for item in range(n_items):
            counts[draws[draw, item]] += 1
        spread = 0.0
        for item in range(n_items):
            size = counts[draws[draw, item]]
            biggest = max(biggest, size)
            spread += terms[size]
            counts[draws[draw, item]] = 0
        largest[draw] = biggest
        entropy[draw] = terms[n_items] - spread
