"""The posterior: draws of partitions and traces of scalars enter; what a person asks of them leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdp._typing import Floats, Integers, SmallIntegers
from scdp.errors import InputError
from scdp.partitions import canonical_labels, check_ids
from scdp.posterior import io as views
from scdp.posterior.draws import ComponentDraws, PackedDraws, StoredDraws
from scdp.posterior.linked import LinkedDraws
from scdp.posterior.recorder import (
    ConvergenceWarning,
    Diagnostic,
    DrawRecorder,
    describe_convergence,
    diagnose,
    pack_draws,
    store_array,
)
from scdp.posterior.summaries import (
    Adjusts,
    CredibleBall,
    ExpectedMetrics,
    Loss,
    count_pairs,
    estimate_metrics,
    find_credible_ball,
    measure_distances,
    measure_memberships,
)

if TYPE_CHECKING:
    from scdp.blocking.by_size import BlockingReport

__all__ = [
    "ConvergenceWarning",
    "CredibleBall",
    "Diagnostic",
    "DrawRecorder",
    "Posterior",
    "StoredDraws",
    "canonical_labels",
]

# The matrix of more items than this, with its counts, would take more than 2 GB.
MATRIX_ITEMS = 10_000
# What a picture can hold: a map, and a graph.
MOST_MAPPED, MOST_JOINED = 2000, 60


class Posterior:
    """Draws of the partition of n items, by chain.

    Parameters
    ----------
    draws : array of integers (chain, draw, item), or StoredDraws
        The cluster of each item in each draw, by any ids; or what a `DrawRecorder` stored.
    traces : dict of arrays (chain, draw), optional
        Scalars of the sampler, by name.
    hidden : array of int, optional
        The items whose cluster was sampled; all, unless given.
    fixed : array of int, optional
        The given cluster of each known item, and -1 for a hidden one. Give this or `hidden`.
    shared : bool
        Whether hidden items may join the cluster of a known one.
    names : sequence, optional
        The items' ids.
    reliability : optional
        What held-out labelled clusters have shown of such draws (`scdp.estimators.fitted.Reliability`);
        `expected_metrics` goes by it.
    blocking : BlockingReport, optional
        What was not compared, where not all pairs were.

    Example
    -------
    >>> from scdp.posterior import Posterior
    >>> post = Posterior([[[0, 0, 1], [0, 0, 1], [0, 1, 1], [0, 1, 2], [0, 1, 2]]])
    >>> post
    Posterior(1 chains x 5 draws, 3 items of which 3 hidden, 2 to 3 clusters)
    >>> post.co_clustering(0, 1)
    0.4
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
        reliability: Adjusts | None = None,
        blocking: BlockingReport | None = None,
    ) -> None:
        self.reliability = reliability
        self.blocking = blocking
        if isinstance(draws, StoredDraws):
            self.stored = draws
        else:
            self.stored = _store_array(np.asarray(draws), hidden, fixed, shared)
        self.traces: Mapping[str, Floats] = _check_traces(traces or {}, self.stored)
        self.names = None if names is None else _check_names(names, self.stored.n_items)

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
    def hidden(self) -> Integers:
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
    def n_clusters(self) -> Integers:
        """The number of clusters among all items, known ones included (chain, draw)."""
        return self.stored.n_clusters

    def n_clusters_interval(self, level: float = 0.9, hidden_only: bool = False) -> tuple[int, int]:
        """The central interval of the number of clusters, wider than that of the draws where these were calibrated.

        Parameters
        ----------
        level : float
            The probability that the interval holds.
        hidden_only : bool
            Count only clusters that hold a hidden item.

        Returns
        -------
        (int, int)

        Example
        -------
        >>> Posterior([[[0, 0, 1], [0, 1, 2]]]).n_clusters_interval()
        (2, 3)
        """
        _check_level(level)
        counts = self.stored.n_hidden_clusters if hidden_only else self.n_clusters
        tails = [(1 - level) / 2, (1 + level) / 2]
        low, high = map(int, np.quantile(counts, tails, method="inverted_cdf"))
        if self.reliability is None:
            return low, high
        n_items = int((self.stored.known < 0).sum()) if hidden_only else self.n_items
        return self.reliability.widen(low, high, n_items)

    def co_clustering(self, i: int, j: int) -> float:
        """The probability that two items are in one cluster.

        Parameters
        ----------
        i, j : int
            The items, counted from 0.

        Returns
        -------
        float

        Example
        -------
        >>> Posterior([[[0, 0, 1], [0, 1, 2]]]).co_clustering(0, 1)
        0.5
        """
        first, second = self.stored.item_codes(self._item(i)), self.stored.item_codes(self._item(j))
        return float((first == second).mean())

    def co_clustering_matrix(self, items: ArrayLike | None = None) -> Floats:
        """The probability of being in one cluster for each pair of items.

        Parameters
        ----------
        items : array of int, optional
            The items; all, unless given. At most 10,000.

        Returns
        -------
        array of float (item, item)

        Example
        -------
        >>> Posterior([[[0, 0, 1], [0, 1, 2]]]).co_clustering_matrix([0, 1])
        array([[1. , 0.5],
               [0.5, 1. ]])
        """
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
        """How sure it is that each item belongs to its cluster.

        Parameters
        ----------
        labels : array of int
            The cluster of each item.

        Returns
        -------
        array of float
            The mean probability that the item is together with each other member of its cluster; for an item alone
            in its cluster, the probability that it is alone.

        Example
        -------
        >>> Posterior([[[0, 0, 1], [0, 1, 2]]]).membership_probability([0, 0, 1])
        array([0.5, 0.5, 1. ])
        """
        return measure_memberships(self.stored, self._labels(labels))

    def point_estimate(
        self,
        answer: str = "f",
        *,
        n_starts: int | None = None,
        max_draws: int = 1000,
        random_state: int | np.random.Generator | None = 0,
    ) -> SmallIntegers:
        """The partition that is best by what is wanted.

        Parameters
        ----------
        answer : {"f", "vi", "binder", "precision=0.99"}
            "f" gives the highest expected pairwise F; "vi" and "binder" the least expected variation of information
            and the fewest wrong pairs; "precision=0.99" the most expected recall at an expected pairwise precision of
            at least 0.99.
        n_starts : int, optional
            Searches of each large component from different starts; as many as take about a second, unless given.
        max_draws : int
            At most so many draws are used, evenly thinned over all chains, and fewer where draws x items would pass
            64 million.
        random_state : int, Generator or None
            The seed of the search.

        Returns
        -------
        array of int
            Canonical labels of all items; known items keep their given grouping.

        Example
        -------
        >>> post = Posterior([[[0, 0, 1], [0, 0, 1], [0, 1, 1], [0, 1, 2], [0, 1, 2]]])
        >>> post.point_estimate("f"), post.point_estimate("vi")
        (array([0, 0, 1], dtype=int32), array([0, 1, 2], dtype=int32))
        """
        from scdp.posterior.estimate import point_estimate

        return point_estimate(self.stored, answer, n_starts, max_draws, random_state)

    def expected_metrics(self, labels: ArrayLike | None = None, level: float = 0.9) -> ExpectedMetrics:
        """How good an answer is: each draw is taken as the truth in turn.

        Where `reliability` is known, draws are believed as far as held-out labelled clusters bear them out, and
        intervals are as much wider as these leave open.

        Parameters
        ----------
        labels : array of int, optional
            The cluster of each item; the point estimate of highest expected F, unless given.
        level : float
            The probability that each interval holds.

        Returns
        -------
        dict
            "mean", "low" and "high" of pairwise "precision", "recall" and "f", of "b_cubed_precision",
            "b_cubed_recall" and "b_cubed", and of "n_clusters", the number of clusters in the draws. Known items are
            given: pairs of two of them are not judged.

        Example
        -------
        >>> post = Posterior([[[0, 0, 1, 1], [0, 0, 1, 2]]])
        >>> post.expected_metrics([0, 0, 1, 1])["precision"]
        {'mean': 0.75, 'low': 0.5, 'high': 1.0}
        """
        _check_level(level)
        return estimate_metrics(self.stored, self._labels_or_answer(labels), level, self.reliability)

    def query(self, sql: str, table: Any = None, level: float = 0.9) -> views.IntervalTable:
        """Ask a question in SQL of every draw.

        Parameters
        ----------
        sql : str
            One SELECT over the table `records`, which has a row for each item: the columns of `table`, `record` (its
            number), `id` where items have names, and `entity`, which tells entities apart within a draw.
        table : Records or table, optional
            A row for each item, in their order.
        level : float
            The probability that each interval holds.

        Returns
        -------
        IntervalTable
            Every number with its mean over the draws and its interval.

        Example
        -------
        >>> post = Posterior([[[0, 0, 1], [0, 0, 1], [0, 1, 2]]])
        >>> post.query("SELECT city, count(distinct entity) AS n FROM records GROUP BY city ORDER BY city",
        ...            {"city": ["Bonn", "Bonn", "Ulm"]}).rows()[0]
        {'city': 'Bonn', 'n': 1.3333333333333333, 'n_low': 1.0, 'n_high': 2.0}
        """
        _check_level(level)
        return views.query(self, sql, table, level)

    def expected_loss(self, labels: ArrayLike, loss: Loss = "vi") -> float:
        """The mean distance of a partition to the draws.

        Parameters
        ----------
        labels, loss
            As for `distances`.

        Returns
        -------
        float

        Example
        -------
        >>> Posterior([[[0, 0, 0], [0, 1, 2]]]).expected_loss([0, 0, 0], "binder")
        0.5
        """
        return float(self.distances(labels, loss).mean())

    def distances(self, labels: ArrayLike, loss: Loss = "vi") -> Floats:
        """The distance of a partition to each draw.

        Parameters
        ----------
        labels : array of int
            The cluster of each item.
        loss : {"vi", "binder"}
            The variation of information in nats, or the share of wrong pairs.

        Returns
        -------
        array of float (chain, draw)
            Taken over the hidden items or, where these may share clusters with known items, over all items.

        Example
        -------
        >>> Posterior([[[0, 0, 0], [0, 1, 2]]]).distances([0, 0, 0], "binder")
        array([[0., 1.]])
        """
        return measure_distances(self.stored, self._labels(labels), loss)

    def credible_ball(self, level: float = 0.95, loss: Loss = "vi", centre: ArrayLike | None = None) -> CredibleBall:
        """The smallest ball around a partition that holds most of the draws.

        Parameters
        ----------
        level : float
            The share of the draws that it holds at least.
        loss : {"vi", "binder"}
            The distance.
        centre : array of int, optional
            The cluster of each item in the centre; the partition of least expected loss, unless given.

        Returns
        -------
        CredibleBall

        Example
        -------
        >>> Posterior([[[0, 0, 0], [0, 1, 2]]]).credible_ball(1.0, "binder", centre=[0, 0, 0]).radius
        1.0
        """
        _check_level(level)
        middle = self.point_estimate(loss) if centre is None else self._labels(centre)
        return find_credible_ball(self.stored, middle, level, loss)

    def restrict(self, items: ArrayLike) -> Posterior:
        """The posterior of some items alone.

        Parameters
        ----------
        items : array of int
            The items, each once.

        Returns
        -------
        Posterior
            The items in the order given. Traces stay, but that of the number of clusters counts those of these items.

        Example
        -------
        >>> Posterior([[[0, 0, 1], [0, 1, 2]]]).restrict([2, 0]).draws
        array([[[0, 1],
                [0, 1]]], dtype=int16)
        """
        chosen = self._items(items)
        if np.bincount(chosen, minlength=1).max() > 1:
            raise InputError("restrict: an item is asked for twice")
        everyone = np.array_equal(chosen, np.arange(self.n_items))
        stored = self.stored if everyone else restrict_draws(self.stored, chosen)
        traces: dict[str, Any] = dict(self.traces)
        if "n_clusters" in traces:
            traces["n_clusters"] = stored.n_clusters
        names = None if self.names is None else self.names[chosen]
        return type(self)(stored, traces, names=names, reliability=self.reliability, blocking=self.blocking)

    def diagnostics(self) -> list[Diagnostic]:
        """Whether the chains agree on scalars that no numbering of clusters changes.

        Returns
        -------
        list of Diagnostic
            Mean, sd, R-hat, effective sample sizes and Monte Carlo error of each.

        Example
        -------
        >>> post = Posterior([[[0, 0, 1], [0, 1, 2]] * 20] * 2)
        >>> [row.name for row in post.diagnostics()][:3]
        ['n_clusters', 'largest_cluster', 'partition_entropy']
        """
        return diagnose(self.stored, self.traces)

    def convergence_warning(self, threshold: float = 1.05) -> str | None:
        """What did not converge, in words.

        Parameters
        ----------
        threshold : float
            An R-hat above this is named.

        Returns
        -------
        str or None
            A sentence that names it and what to do, or None.

        Example
        -------
        >>> Posterior([[[0, 0, 1], [0, 1, 2]]]).convergence_warning()
        '2 draws a chain are too few to judge convergence: run more sweeps (n_sweeps).'
        """
        return describe_convergence(self.diagnostics(), self.n_chains, self.n_draws, threshold)

    def to_dict(self) -> dict[str, Any]:
        """Plain arrays by group, as arviz takes them.

        Returns
        -------
        dict
            The groups "posterior" and "sample_stats" of arrays (chain, draw, ...), "coords" and "dims".

        Example
        -------
        >>> list(Posterior([[[0, 0, 1], [0, 1, 2]]]).to_dict()["posterior"])
        ['n_clusters', 'labels']
        """
        return views.to_dict(self)

    def to_arviz(self) -> Any:
        """The draws as arviz holds them (needs the extra "arviz").

        Returns
        -------
        What `arviz.from_dict` makes of `to_dict`.

        Example
        -------
        >>> post = Posterior([[[0, 0, 1], [0, 1, 2]]])
        >>> post.to_arviz().posterior["n_clusters"].values  # doctest: +SKIP
        array([[2, 3]])
        """
        return views.to_arviz(self)

    def to_pandas(self, labels: ArrayLike | None = None) -> Any:
        """A table of the clusters.

        Parameters
        ----------
        labels : array of int, optional
            The cluster of each item; the point estimate of highest expected F, unless given.

        Returns
        -------
        pandas.DataFrame
            One row for each item, named by its id: "label", its cluster; "probability", how sure it is that it
            belongs there (see `membership_probability`).

        Example
        -------
        >>> Posterior([[[0, 0, 1], [0, 0, 1], [0, 1, 2]]], names=["a", "b", "c"]).to_pandas().round(2)
           label  probability
        a      0         0.67
        b      0         0.67
        c      1         1.00
        """
        return views.to_pandas(self, self._labels_or_answer(labels))

    def to_polars(self, labels: ArrayLike | None = None) -> Any:
        """A table of the clusters.

        Parameters
        ----------
        labels : array of int, optional
            As for `to_pandas`.

        Returns
        -------
        polars.DataFrame
            One row for each item: "id" where items have names, "label" and "probability".

        Example
        -------
        >>> Posterior([[[0, 0, 1], [0, 0, 1], [0, 1, 2]]]).to_polars()["label"].to_list()  # doctest: +SKIP
        [0, 0, 1]
        """
        return views.to_polars(self, self._labels_or_answer(labels))

    def plot_n_clusters(self, labels: ArrayLike | None = None, level: float = 0.9, ax: Any = None) -> Any:
        """Draw a histogram of the number of clusters (needs the extra "plots").

        Parameters
        ----------
        labels : array of int, optional
            An answer whose number of clusters is shown too.
        level : float
            Of the interval that is shaded.
        ax : matplotlib axes, optional
            Where to draw; new ones, unless given.

        Returns
        -------
        matplotlib axes

        Example
        -------
        >>> post = Posterior([[[0, 0, 1], [0, 1, 2]]])
        >>> axes = post.plot_n_clusters()  # doctest: +SKIP
        """
        _check_level(level)
        return views.plot_n_clusters(self, None if labels is None else self._labels(labels), level, ax)

    def plot_cluster_sizes(self, labels: ArrayLike | None = None, level: float = 0.9, ax: Any = None) -> Any:
        """Draw how many clusters there are of each size (needs the extra "plots").

        Parameters
        ----------
        labels : array of int, optional
            An answer whose sizes are shown too.
        level : float
            Of the intervals over draws.
        ax : matplotlib axes, optional
            Where to draw; new ones, unless given.

        Returns
        -------
        matplotlib axes

        Example
        -------
        >>> post = Posterior([[[0, 0, 1], [0, 1, 2]]])
        >>> axes = post.plot_cluster_sizes()  # doctest: +SKIP
        """
        _check_level(level)
        return views.plot_cluster_sizes(self, None if labels is None else self._labels(labels), level, ax)

    def plot_co_clustering(
        self, items: ArrayLike | None = None, labels: ArrayLike | None = None, ax: Any = None
    ) -> Any:
        """Draw how often items are together, as a map (needs the extra "plots").

        Parameters
        ----------
        items : array of int, optional
            Which items; all, unless given.
        labels : array of int, optional
            An answer by whose clusters items are ordered; the point estimate, unless given.
        ax : matplotlib axes, optional
            Where to draw; new ones, unless given.

        Returns
        -------
        matplotlib axes

        Example
        -------
        >>> post = Posterior([[[0, 0, 1], [0, 1, 2]]])
        >>> axes = post.plot_co_clustering()  # doctest: +SKIP
        """
        return views.plot_co_clustering(
            self, self._choose_items(items, MOST_MAPPED), self._labels_or_answer(labels), ax
        )

    def plot_cluster(self, items: ArrayLike, labels: ArrayLike | None = None, ax: Any = None) -> Any:
        """Draw some items as a graph, joined the more strongly the more often they are together.

        It needs the extra "plots".

        Parameters
        ----------
        items : array of int
            Which items, such as those of a cluster and of its neighbour.
        labels : array of int, optional
            An answer whose clusters are told apart by colour; the point estimate, unless given.
        ax : matplotlib axes, optional
            Where to draw; new ones, unless given.

        Returns
        -------
        matplotlib axes

        Example
        -------
        >>> post = Posterior([[[0, 0, 1], [0, 1, 2]]])
        >>> axes = post.plot_cluster([0, 1, 2])  # doctest: +SKIP
        """
        return views.plot_cluster(self, self._choose_items(items, MOST_JOINED), self._labels_or_answer(labels), ax)

    def _choose_items(self, items: ArrayLike | None, most: int) -> Integers:
        chosen = np.arange(self.n_items) if items is None else self._items(items)
        if len(chosen) > most:
            raise InputError(f"{len(chosen):,} items are too many for a picture; give at most {most:,}")
        return chosen

    def save(self, path: str | PathLike[str]) -> None:
        """Write one .npz file, whole or not at all.

        Parameters
        ----------
        path : path
            The file, which is replaced if it is there.

        Example
        -------
        >>> from tempfile import TemporaryDirectory
        >>> post = Posterior([[[0, 0, 1], [0, 1, 2]]])
        >>> with TemporaryDirectory() as folder:
        ...     post.save(f"{folder}/draws.npz")
        ...     Posterior.load(f"{folder}/draws.npz").n_draws
        2
        """
        views.save(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Posterior:
        """Read what `save` wrote.

        Parameters
        ----------
        path : path
            The file.

        Returns
        -------
        Posterior

        Example
        -------
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     Posterior([[[0, 0, 1], [0, 1, 2]]]).save(f"{folder}/draws.npz")
        ...     Posterior.load(f"{folder}/draws.npz")
        Posterior(1 chains x 2 draws, 3 items of which 3 hidden, 2 to 3 clusters)
        """
        return views.load(path)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return views.to_html(self, self._answer)

    @cached_property
    def _answer(self) -> SmallIntegers:
        """The point estimate, found once."""
        return self.point_estimate()

    def _labels_or_answer(self, labels: ArrayLike | None) -> SmallIntegers:
        return self._answer if labels is None else self._labels(labels)

    def _item(self, item: Any) -> int:
        if not 0 <= item < self.n_items:
            raise InputError(f"there is no item {item}: items are numbered from 0 to {self.n_items - 1}")
        return int(item)

    def _items(self, items: ArrayLike) -> Integers:
        chosen = np.asarray(items).ravel()
        wrong = ~((chosen >= 0) & (chosen < self.n_items))
        if wrong.any():
            self._item(chosen[wrong][0].item())  # refuses it by name
        return chosen.astype(np.int64)

    def _labels(self, labels: ArrayLike) -> SmallIntegers:
        canonical = canonical_labels(labels)
        if len(canonical) != self.n_items:
            raise InputError(f"{len(canonical)} labels for {self.n_items} items: give one label an item")
        return canonical


def _store_array(draws: NDArray[Any], hidden: ArrayLike | None, fixed: ArrayLike | None, shared: bool) -> StoredDraws:
    if draws.ndim != 3 or 0 in draws.shape[:2]:
        raise InputError(f"draws must be an array (chain, draw, item) with a draw in it, not {draws.shape}")
    if fixed is not None:
        template = check_ids(fixed)
        if len(template) != draws.shape[2]:
            raise InputError(f"{len(template)} fixed labels for {draws.shape[2]} items: give one an item")
        free = np.flatnonzero(template < 0)
        if hidden is not None and not np.array_equal(np.sort(np.asarray(hidden)), free):
            raise InputError("hidden and fixed disagree: an item is hidden where its fixed label is -1")
        return store_array(draws, template, free, shared)
    free = np.arange(draws.shape[2]) if hidden is None else np.asarray(hidden, np.int64)
    return store_array(draws, draws[0, 0], free, shared)


def _check_traces(traces: Mapping[str, ArrayLike], stored: StoredDraws) -> dict[str, Floats]:
    shape = (stored.n_chains, stored.n_draws)
    checked = {name: np.array(values, np.float64) for name, values in traces.items()}
    for name, values in checked.items():
        if values.shape != shape:
            raise InputError(f"trace {name!r} has shape {values.shape}, but the draws are (chain, draw) {shape}")
        values.flags.writeable = False
    return checked


def _check_names(names: Sequence[Any] | NDArray[Any], n_items: int) -> NDArray[Any]:
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


def restrict_draws(stored: StoredDraws, items: Integers) -> StoredDraws:
    """The same draws, seen by the chosen items alone, in their order."""
    if isinstance(stored, ComponentDraws) and len(items) == stored.n_items:
        return stored.reorder(items)
    return pack_draws(stored, items)


def pack_linked(
    linked: LinkedDraws, items: Integers, known: Integers, shape: tuple[int, int], shared: bool
) -> PackedDraws:
    """Draws of all items from those of some, one after another: the others are in their known clusters (-1 is none).

    Draw d of chain c, `shape` being (chains, draws), is column d * chains + c.
    """
    given = np.flatnonzero(known >= 0)
    _, start, code = np.unique(known[given], return_index=True, return_inverse=True)
    labels = np.arange(len(known), dtype=np.int32)
    labels[given] = given[start][code]
    recorder = DrawRecorder(*shape, known, np.flatnonzero(known < 0), shared=shared)
    for place, row in enumerate(linked.rows(len(items))):
        labels[items] = items[row]
        draw, chain = divmod(place, shape[0])
        recorder.record(chain, draw, labels)
    return recorder.pack_recorded()
