"""The posterior: draws of partitions and traces of scalars enter; what a person asks of them leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdp.errors import InputError
from scdp.posterior.canonical import Labels, as_integers, canonical_labels
from scdp.posterior.contingency import Floats, Loss, Partition, count_pairs
from scdp.posterior.draws import StoredDraws
from scdp.posterior.recorder import store_array

if TYPE_CHECKING:
    from scdp.posterior.ball import CredibleBall
    from scdp.posterior.diagnostics import Diagnostic
    from scdp.posterior.expectations import ExpectedMetrics

# The matrix of more items than this, with its counts, would take more than 2 GB.
MATRIX_ITEMS = 10_000


class Posterior:
    """Draws of the partition of n items, by chain.

    `draws` is an integer array (chain, draw, item) of any cluster ids, or what a `DrawRecorder` stored;
    `traces` maps a name to an array (chain, draw). `hidden` are the indices of the items whose cluster was
    sampled (all, unless given), `fixed` the given clusters of the others (-1 = hidden); give either. With
    `shared=False` hidden items never join the cluster of a known one. `names` are the items' ids.
    """

    def __init__(
        self,
        draws: StoredDraws | ArrayLike,
        traces: Mapping[str, ArrayLike] | None = None,
        *,
        hidden: ArrayLike | None = None,
        fixed: ArrayLike | None = None,
        shared: bool = True,
        names: Sequence[Any] | NDArray[Any] | None = None,
    ) -> None:
        if isinstance(draws, StoredDraws):
            self.stored = draws
        else:
            self.stored = _stored_from_array(np.asarray(draws), hidden, fixed, shared)
        self.traces: Mapping[str, Floats] = _checked_traces(traces or {}, self.stored)
        self.names = None if names is None else _checked_names(names, self.stored.n_items)

    def __repr__(self) -> str:
        stored, counts = self.stored, self.n_clusters
        return (
            f"Posterior({stored.n_chains} chains x {stored.n_draws} draws, {stored.n_items} items of which "
            f"{len(stored.hidden)} hidden, {counts.min()} to {counts.max()} clusters)"
        )

    @property
    def n_chains(self) -> int:
        return self.stored.n_chains

    @property
    def n_draws(self) -> int:
        """Draws in each chain."""
        return self.stored.n_draws

    @property
    def n_items(self) -> int:
        return self.stored.n_items

    @property
    def hidden(self) -> NDArray[np.int64]:
        """Indices of the items whose cluster was sampled."""
        return self.stored.hidden

    @property
    def draws(self) -> NDArray[Any]:
        """Canonical labels (chain, draw, item), unpacked anew on each call."""
        small = self.n_clusters.max() <= np.iinfo(np.int16).max
        out = np.empty((self.n_chains * self.n_draws, self.n_items), np.int16 if small else np.int32)
        for place, labels in self.stored.label_chunks():
            out[place] = labels
        return out.reshape(self.n_chains, self.n_draws, self.n_items)

    @property
    def n_clusters(self) -> NDArray[np.int64]:
        """The number of clusters among all items, known ones included (chain, draw)."""
        return self.stored.n_clusters

    def n_clusters_interval(self, level: float = 0.9, hidden_only: bool = False) -> tuple[int, int]:
        """The central interval of the number of clusters: all, or those that hold a hidden item."""
        _check_level(level)
        counts = self.stored.n_hidden_clusters if hidden_only else self.n_clusters
        tails = [(1 - level) / 2, (1 + level) / 2]
        low, high = np.quantile(counts, tails, method="inverted_cdf")
        return int(low), int(high)

    def co_clustering(self, i: int, j: int) -> float:
        """The probability that two items are in one cluster."""
        first, second = self.stored.item_codes(self._item(i)), self.stored.item_codes(self._item(j))
        return float((first == second).mean())

    def co_clustering_matrix(self, items: ArrayLike | None = None) -> Floats:
        """The probability of being in one cluster for each pair of `items` (all, unless given)."""
        chosen = np.arange(self.n_items) if items is None else self._items(items)
        if len(chosen) > MATRIX_ITEMS:
            raise InputError(
                f"a matrix of {len(chosen)} items is too large: ask for at most {MATRIX_ITEMS} by items=[...]"
            )
        together = np.zeros((len(chosen), len(chosen)), np.int64)
        heads, links = np.full(int(self.n_clusters.max()), -1), np.empty(len(chosen), np.int64)
        for _, labels in self.stored.label_chunks():
            count_pairs(labels[:, chosen], heads, links, together)
        probability = (together + together.T) / (self.n_chains * self.n_draws)
        np.fill_diagonal(probability, 1.0)
        return probability

    def membership_probability(self, labels: ArrayLike) -> Floats:
        """How sure it is that each item belongs to its cluster in `labels`.

        The mean probability that the item is together with each other member; for an item alone in `labels`,
        the probability that it is alone.
        """
        total = np.zeros(self.n_items)
        partition = Partition.of(self._labels(labels))
        for _, draws in self.stored.label_chunks():
            partition.add_memberships(draws, total)
        return np.clip(total / (self.n_chains * self.n_draws), 0.0, 1.0)

    def point_estimate(
        self,
        answer: str = "f",
        *,
        n_starts: int | None = None,
        max_draws: int = 1000,
        random_state: int | np.random.Generator | None = 0,
    ) -> Labels:
        """The partition that is best by what is wanted.

        Parameters
        ----------
        answer : "f" gives the highest expected pairwise F; "vi" and "binder" the least expected variation of
            information and the fewest wrong pairs; "precision=0.99" the most expected recall at an expected
            pairwise precision of at least 0.99.
        n_starts : searches of each large component from different starts; None = as many as take about a second.
        max_draws : at most so many draws are used, evenly thinned over all chains, and fewer where draws x items
            would pass 64 million.
        random_state : seed of the search.

        Returns
        -------
        Canonical labels of all items; known items keep their given grouping.

        Examples
        --------
        >>> import numpy as np
        >>> post = Posterior(np.array([[[0, 0, 1], [0, 0, 1], [0, 1, 1], [0, 1, 2], [0, 1, 2]]]))
        >>> post.point_estimate("f"), post.point_estimate("vi")
        (array([0, 0, 1], dtype=int32), array([0, 1, 2], dtype=int32))
        """
        from scdp.posterior.estimate import point_estimate

        return point_estimate(self.stored, answer, n_starts, max_draws, random_state)

    def expected_metrics(self, labels: ArrayLike | None = None, level: float = 0.9) -> ExpectedMetrics:
        """How good an answer is if the draws are right: each draw is taken as the truth in turn.

        Parameters
        ----------
        labels : the cluster of each item; None = the point estimate of highest expected F.
        level : the probability that each interval holds.

        Returns
        -------
        The mean and the central interval, as "mean", "low" and "high", of pairwise "precision", "recall" and "f", of
        "b_cubed_precision", "b_cubed_recall" and "b_cubed", and of "n_clusters", the number of clusters in the draws.
        Known items are given: pairs of two of them are not judged.

        Examples
        --------
        >>> import numpy as np
        >>> post = Posterior(np.array([[[0, 0, 1, 1], [0, 0, 1, 2]]]))
        >>> post.expected_metrics([0, 0, 1, 1])["precision"]
        {'mean': 0.75, 'low': 0.5, 'high': 1.0}
        """
        from scdp.posterior.expectations import estimate_metrics

        _check_level(level)
        answer = self.point_estimate() if labels is None else self._labels(labels)
        return estimate_metrics(self.stored, answer, level)

    def expected_loss(self, labels: ArrayLike, loss: Loss = "vi") -> float:
        """The mean distance of a partition to the draws; see `distances`."""
        return float(self.distances(labels, loss).mean())

    def distances(self, labels: ArrayLike, loss: Loss = "vi") -> Floats:
        """The distance of a partition to each draw (chain, draw): VI in nats, or the share of wrong pairs.

        Taken over the hidden items or, where these may share clusters with known items, over all items.
        """
        from scdp.posterior.ball import distances_to_draws

        return distances_to_draws(self.stored, self._labels(labels), loss)

    def credible_ball(
        self, level: float = 0.95, loss: Loss = "vi", centre: ArrayLike | None = None
    ) -> CredibleBall:
        """The ball around the point estimate (or `centre`) that holds `level` of the draws."""
        from scdp.posterior.ball import credible_ball

        _check_level(level)
        middle = self.point_estimate(loss) if centre is None else self._labels(centre)
        return credible_ball(self.stored, middle, level, loss)

    def restricted(self, items: ArrayLike) -> Posterior:
        """The posterior of some items alone, in the order given; of traces, that of the clusters counts these."""
        from scdp.posterior.restriction import restrict

        return restrict(self, self._items(items))

    def diagnostics(self) -> list[Diagnostic]:
        """Mean, sd, R-hat, effective sizes and Monte Carlo error of scalars that no relabelling changes."""
        from scdp.posterior.diagnostics import diagnose

        return diagnose(self.stored, self.traces)

    def convergence_warning(self, threshold: float = 1.05) -> str | None:
        """A sentence that names what did not converge and what to do, or None."""
        from scdp.posterior.diagnostics import describe_convergence

        return describe_convergence(self.diagnostics(), self.n_chains, self.n_draws, threshold)

    def to_dict(self) -> dict[str, Any]:
        """Plain arrays by group, with `coords` and `dims`, as arviz takes them."""
        from scdp.posterior.export import to_dict

        return to_dict(self)

    def to_arviz(self) -> Any:
        """The draws as an arviz object (needs the extra "arviz")."""
        from scdp.posterior.export import to_arviz

        return to_arviz(self)

    def save(self, path: str | PathLike[str]) -> None:
        """Write one .npz file, whole or not at all."""
        from scdp.posterior.archive import save

        save(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Posterior:
        """Read what `save` wrote."""
        from scdp.posterior.archive import load

        return load(path)

    def _item(self, item: Any) -> int:
        if not 0 <= item < self.n_items:
            raise InputError(f"there is no item {item}: items are numbered from 0 to {self.n_items - 1}")
        return int(item)

    def _items(self, items: ArrayLike) -> NDArray[np.int64]:
        chosen = np.asarray(items).ravel()
        wrong = ~((chosen >= 0) & (chosen < self.n_items))
        if wrong.any():
            self._item(chosen[wrong][0].item())  # refuses it by name
        return chosen.astype(np.int64)

    def _labels(self, labels: ArrayLike) -> Labels:
        canonical = canonical_labels(labels)
        if len(canonical) != self.n_items:
            raise InputError(f"{len(canonical)} labels for {self.n_items} items: give one label an item")
        return canonical


def _stored_from_array(
    draws: NDArray[Any], hidden: ArrayLike | None, fixed: ArrayLike | None, shared: bool
) -> StoredDraws:
    if draws.ndim != 3 or 0 in draws.shape[:2]:
        raise InputError(f"draws must be an array (chain, draw, item) with a draw in it, not {draws.shape}")
    if fixed is not None:
        template = as_integers(fixed)
        if len(template) != draws.shape[2]:
            raise InputError(f"{len(template)} fixed labels for {draws.shape[2]} items: give one an item")
        free = np.flatnonzero(template < 0)
        if hidden is not None and not np.array_equal(np.sort(np.asarray(hidden)), free):
            raise InputError("hidden and fixed disagree: an item is hidden where its fixed label is -1")
        return store_array(draws, template, free, shared)
    free = np.arange(draws.shape[2]) if hidden is None else np.asarray(hidden, np.int64)
    return store_array(draws, draws[0, 0], free, shared)


def _checked_traces(traces: Mapping[str, ArrayLike], stored: StoredDraws) -> dict[str, Floats]:
    shape = (stored.n_chains, stored.n_draws)
    checked = {name: np.array(values, np.float64) for name, values in traces.items()}
    for name, values in checked.items():
        if values.shape != shape:
            raise InputError(
                f"trace {name!r} has shape {values.shape}, but the draws are (chain, draw) {shape}"
            )
        values.flags.writeable = False
    return checked


def _checked_names(names: Sequence[Any] | NDArray[Any], n_items: int) -> NDArray[Any]:
    array = np.asarray(names)
    if array.shape != (n_items,):
        raise InputError(f"{len(array)} names for {n_items} items: give one name an item")
    if array.dtype.kind == "O":
        # Still objects: in an array of texts, every text takes the room of the longest.
        array = array.copy()
        array[:] = list(map(str, array.tolist()))
    return array


def _check_level(level: float) -> None:
    if not 0.0 < level <= 1.0:
        raise InputError(f"level is {level}: it must be above 0 and at most 1")
