"""One partition against many: labels of draws enter in chunks; distances, probabilities and metrics leave.

Both losses have the form  sum_k f(n_k) + sum_b f(n_b) - 2 sum_kb f(n_kb)  over clusters k of one partition, b
of the other and their overlaps; f(x) = x log x / n gives the variation of information in nats, and
f(x) = x (x - 1) / (n (n - 1)) the share of pairs on which they disagree (Binder's loss).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp._parallel import count_workers, map_in_threads, stage
from scdp._typing import Booleans, Floats, Integers, SmallIntegers
from scdp.errors import InputError
from scdp.partitions import canonical_labels, compare_in_components, group_items
from scdp.posterior.draws import ComponentDraws, StoredDraws

Loss = Literal["vi", "binder"]


def compute_terms(loss: str, n: int) -> Floats:
    """The function f of the loss for 0, ..., n items."""
    return compute_unscaled_terms(loss, n) / (max(n, 1) if loss == "vi" else max(n * (n - 1), 1) / 2.0)


def compute_unscaled_terms(loss: str, n: int) -> Floats:
    """The same without what n divides it by: moving one item is of order one for any n, and pairs are whole numbers."""
    sizes = np.arange(n + 1, dtype=np.float64)
    if loss == "vi":
        return sizes * np.log(np.maximum(sizes, 1.0))
    if loss == "binder":
        return sizes * (sizes - 1.0) / 2.0
    raise InputError(f"there is no loss {loss!r}: choose 'vi' or 'binder'")


@dataclass(frozen=True, eq=False)
class Partition:
    """A partition ready to be compared with many: items ordered by cluster, and where each cluster begins."""

    order: Integers
    bounds: Integers
    weights: Integers

    @classmethod
    def of(cls, labels: SmallIntegers, weights: Integers | None = None) -> Partition:
        """From canonical labels; an item of weight w stands for w items that are always together."""
        return cls(*group_items(labels), np.ones(len(labels), np.int64) if weights is None else weights)

    def distances(self, draws: SmallIntegers, terms: Floats) -> Floats:
        """The loss against each draw, whose labels are (draw, item)."""
        own, others, overlaps = self.measure(draws, terms)
        return np.maximum(0.0, own - 2.0 * overlaps + others)

    def measure(self, draws: SmallIntegers, terms: Floats) -> tuple[float, Floats, Floats]:
        """The sum of f over the clusters of this partition; of each draw; and over their overlaps."""
        others, overlaps = np.empty((2, len(draws)))
        scratch = np.zeros(int(draws.max(initial=-1)) + 1, np.int64)
        own = measure_overlaps(draws, self.order, self.bounds, self.weights, terms, scratch, others, overlaps)
        return own, others, overlaps

    def add_memberships(self, draws: SmallIntegers, out: Floats) -> None:
        """Add to `out`, for each item, the sum over draws of the share of its cluster it is with."""
        scratch = np.zeros(int(draws.max(initial=-1)) + 1, np.int64)
        add_alone(draws, self.order, self.bounds, scratch, out)
        # Item by item in memory, as members of a cluster are far apart within a draw.
        add_shares(np.ascontiguousarray(draws.T), self.order, self.bounds, scratch, out)


@kernel
def take_terms(row: SmallIntegers, items: Integers, weights: Integers, terms: Floats, counts: Integers) -> float:
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
    draws: SmallIntegers,
    order: Integers,
    bounds: Integers,
    weights: Integers,
    terms: Floats,
    counts: Integers,
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
def add_alone(draws: SmallIntegers, order: Integers, bounds: Integers, counts: Integers, out: Floats) -> None:
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
def add_shares(labels: SmallIntegers, order: Integers, bounds: Integers, counts: Integers, out: Floats) -> None:
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
def count_pairs(draws: SmallIntegers, heads: NDArray[Any], links: NDArray[Any], out: Integers) -> None:
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
def measure_sizes(draws: SmallIntegers, terms: Floats, counts: Integers, largest: Floats, entropy: Floats) -> None:
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


@dataclass(frozen=True, eq=False)
class CredibleBall:
    """The smallest ball around `centre` that holds at least `level` of the draws.

    Its bounds are draws in the ball: of those with the fewest clusters, of those with the most, and of all,
    the one farthest from the centre (upper vertical, lower vertical and horizontal bounds in that paper).

    Attributes
    ----------
    centre : array of int (item,)
        The partition in the middle.
    radius : float
        The loss between the centre and the farthest draw in the ball.
    level : float
        The share of draws in the ball, at least.
    loss : str
        By which partitions are compared.
    fewest_clusters, most_clusters, farthest : array of int (item,)
        The bounds.

    Example
    -------
    >>> from scdp.posterior import Posterior
    >>> Posterior([[[0, 0, 1], [0, 0, 1], [0, 1, 2]]]).credible_ball(0.6).radius
    0.0
    """

    centre: SmallIntegers
    radius: float
    level: float
    loss: Loss
    fewest_clusters: SmallIntegers
    most_clusters: SmallIntegers
    farthest: SmallIntegers


def measure_distances(stored: StoredDraws, labels: SmallIntegers, loss: Loss) -> Floats:
    """Distances (chain, draw), over hidden items unless clusters may be shared with known ones."""
    compared = labels if stored.shared else canonical_labels(labels[stored.hidden])
    partition, terms = Partition.of(compared), compute_terms(loss, len(compared))
    out = np.empty(stored.n_chains * stored.n_draws)
    for place, draws in stored.label_chunks() if stored.shared else stored.code_chunks():
        out[place] = partition.distances(draws, terms)
    return out.reshape(stored.n_chains, stored.n_draws)


def find_credible_ball(stored: StoredDraws, centre: SmallIntegers, level: float, loss: Loss) -> CredibleBall:
    """The ball around `centre`; among equally extreme draws the first is given."""
    distances = measure_distances(stored, centre, loss).ravel()
    counts = stored.n_clusters.ravel()
    radius = float(np.quantile(distances, level, method="inverted_cdf"))
    inside = np.flatnonzero(distances <= radius)
    few = inside[counts[inside] == counts[inside].min()]
    many = inside[counts[inside] == counts[inside].max()]
    extremes = np.array([_farthest(distances, group) for group in (few, many, inside)])
    return CredibleBall(centre, radius, level, loss, *stored.labels_at(extremes))


def _farthest(distances: Floats, group: Integers) -> int:
    return int(group[np.argmax(distances[group])])


ExpectedMetrics = dict[str, dict[str, float]]


class Counts(NamedTuple):
    """What is counted of a partition against each draw: links that are right, true pairs, B-cubed, drawn clusters.

    `links` are the pairs of the partition itself.
    """

    right: Floats
    true: Floats
    links: float
    b_cubed_precision: Floats
    b_cubed_recall: Floats
    n_clusters: Floats

    def metrics(self) -> dict[str, Floats]:
        """The metrics by name, in the chain-major order of the draws."""
        precision, recall = self.b_cubed_precision, self.b_cubed_recall
        return {
            "precision": divide(self.right, np.full_like(self.right, self.links)),
            "recall": divide(self.right, self.true),
            "f": divide(2.0 * self.right, self.true + self.links),
            "b_cubed_precision": precision,
            "b_cubed_recall": recall,
            "b_cubed": 2.0 * precision * recall / (precision + recall),
            "n_clusters": self.n_clusters,
        }


class Adjusts(Protocol):
    """Says how what is counted may truly be, by what held-out labelled clusters have shown."""

    def adjust(self, stored: StoredDraws, labels: Any, counts: Counts) -> Counts: ...

    def widen(self, low: int, high: int, n_items: int) -> tuple[int, int]: ...

    def to_words(self) -> dict[str, list[float]]: ...


def estimate_metrics(
    stored: StoredDraws, labels: SmallIntegers, level: float, reliability: Adjusts | None = None
) -> ExpectedMetrics:
    """Mean and central interval of each metric of canonical labels over all draws."""
    tails = [(1.0 - level) / 2.0, (1.0 + level) / 2.0]
    counts = count_against_draws(stored, labels)
    if reliability is not None:
        counts = reliability.adjust(stored, labels, counts)
    found = {}
    for name, each in counts.metrics().items():
        low, high = np.quantile(each, tails, method="inverted_cdf")
        found[name] = {"mean": float(each.mean()), "low": float(low), "high": float(high)}
    return found


def count_against_draws(stored: StoredDraws, labels: SmallIntegers) -> Counts:
    """What is counted of canonical labels against each draw."""
    if isinstance(stored, ComponentDraws):
        return compare_by_component(stored, labels)[2]
    order, bounds = group_items(labels)
    is_known = stored.known >= 0

    def measure(chunk: tuple[slice, SmallIntegers]) -> tuple[slice, Floats]:
        place, draws = chunk
        out = np.empty((len(draws), 4))
        compare_with_draws(draws, int(stored.n_clusters.max()), order, bounds, is_known, out)
        return place, out

    counts = np.empty((stored.n_chains * stored.n_draws, 4))
    for place, found in map_in_threads(measure, stored.label_chunks(), count_workers(-1)):
        counts[place] = found
    right, true, precision, recall = counts.T
    links = count_judged_pairs(bounds, np.add.reduceat(is_known[order], bounds[:-1]) if len(order) else bounds)
    return Counts(right, true, links, precision, recall, stored.n_clusters.ravel().astype(np.float64))


@stage("probabilities")
def measure_memberships(stored: StoredDraws, labels: SmallIntegers) -> Floats:
    """By item: the mean probability of being with each other member of its cluster, or of being alone if it is."""
    n_draws, total = stored.n_codes.size, np.zeros(stored.n_items)
    if isinstance(stored, ComponentDraws):
        sizes = np.bincount(labels)[labels]
        with_others, alone, _ = compare_by_component(stored, labels)
        total[sizes == 1] = n_draws
        own = sizes[stored.items]
        total[stored.items] = np.where(own == 1, alone, with_others / np.maximum(own - 1, 1))
    else:
        partition = Partition.of(labels)
        for _, draws in stored.label_chunks():
            partition.add_memberships(draws, total)
    return np.clip(total / n_draws, 0.0, 1.0)


def compare_by_component(stored: ComponentDraws, labels: SmallIntegers) -> tuple[Integers, Integers, Counts]:
    """Of each stored item, over all draws: members of its cluster that it is with, draws in which it is alone.

    And what is counted of canonical labels against each draw.
    """
    sizes, component = np.bincount(labels), np.repeat(np.arange(len(stored.bounds) - 1), stored.linked.sizes)
    answer = labels[stored.items]
    order = np.lexsort((answer, component))
    with_others, alone = np.zeros((2, len(answer)), np.int64)

    def compare(block: tuple[int, int]) -> Floats:
        bounds, within = stored.block(*block)
        part = slice(int(stored.bounds[block[0]]), int(stored.bounds[block[1]]))
        out = np.zeros((stored.n_codes.size, 4))
        # The order of a component's items stands at their own places, so that it can be cut as they are.
        own = order[part] - part.start
        compare_in_components(bounds, within, own, answer[part], sizes, with_others[part], alone[part], out)
        return out

    counts = np.zeros((stored.n_codes.size, 4))
    for found in map_in_threads(compare, stored.blocks(), count_workers(-1)):
        counts += found
    n = max(stored.n_items, 1)
    # Who is alone in every draw is right in all of its cluster that is there, itself.
    is_stored = np.zeros(stored.n_items, bool)
    is_stored[stored.items] = True
    counts[:, 2] += (1.0 / sizes[labels[~is_stored]]).sum()
    counts[:, 3] += stored.n_items - len(stored.items)
    right, true, precision, recall = counts.T
    if not stored.n_items:
        precision, recall = np.ones_like(right), np.ones_like(right)
    links = float((sizes * (sizes - 1) // 2).sum())
    n_clusters = stored.n_clusters.ravel().astype(np.float64)
    return with_others, alone, Counts(right, true, links, precision / n, recall / n, n_clusters)


def count_judged_pairs(bounds: Integers, n_known: Integers) -> float:
    """The pairs within clusters that begin at `bounds` and hold so many known items, but for pairs of known ones."""
    sizes, known = np.diff(bounds), n_known[: len(bounds) - 1].astype(np.int64)
    return float((sizes * (sizes - 1) // 2 - known * (known - 1) // 2).sum())


def divide(part: Floats, whole: Floats) -> Floats:
    """A share of nothing is 1: what was not linked was not linked wrongly."""
    return np.divide(part, whole, out=np.ones_like(part), where=whole > 0.0)


# What is counted of a draw's cluster: its items, the known among them; and those in a cluster of the partition.
SIZE, KNOWN, SHARED, SHARED_KNOWN = range(4)


@kernel
def compare_with_draws(
    draws: SmallIntegers, n_labels: int, order: Integers, bounds: Integers, is_known: Booleans, out: Floats
) -> None:
    """For each draw: right links, true pairs, B-cubed precision and recall of a partition (`order`, `bounds`)."""
    # Side by side in memory, as all that is counted of a cluster is asked for together.
    counts = np.zeros((n_labels, 4), np.int32)
    n_hidden = len(order) - is_known.sum()
    for draw in range(draws.shape[0]):
        row = draws[draw]
        true, right, precision, recall = 0, 0, 0.0, 0.0
        for item in range(len(row)):
            label = row[item]
            # Pairs with all before, but for those of a known item with known ones.
            true += counts[label, SIZE] - is_known[item] * counts[label, KNOWN]
            counts[label, SIZE] += 1
            counts[label, KNOWN] += is_known[item]
        for cluster in range(len(bounds) - 1):
            members = order[bounds[cluster] : bounds[cluster + 1]]
            for item in members:
                label = row[item]
                right += counts[label, SHARED] - is_known[item] * counts[label, SHARED_KNOWN]
                counts[label, SHARED] += 1
                counts[label, SHARED_KNOWN] += is_known[item]
            for item in members:
                label = row[item]
                judged = (counts[label, SHARED] - counts[label, SHARED_KNOWN]) * np.float64(counts[label, SHARED])
                precision += judged / len(members)
                recall += judged / counts[label, SIZE]
                counts[label, SHARED], counts[label, SHARED_KNOWN] = 0, 0
        counts[:] = 0
        out[draw, 0], out[draw, 1] = right, true
        out[draw, 2] = precision / n_hidden if n_hidden else 1.0
        out[draw, 3] = recall / n_hidden if n_hidden else 1.0
