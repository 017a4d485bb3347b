"""The recorder a sampler writes to, and whether its chains agree: a Posterior leaves, with R-hat and words of warning.

Only scalars that do not depend on how clusters are numbered are judged, by rank-normalised split R-hat and
effective sample sizes (Vehtari, Gelman, Simpson, Carpenter and Buerkner 2021).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdp._compile import kernel
from scdp._typing import Arrays, Booleans, Floats, Integers, SmallIntegers, Words
from scdp.errors import InputError
from scdp.partitions import canonical_labels, check_ids, compact_ids
from scdp.posterior.draws import CHUNK_LABELS, ComponentDraws, PackedDraws, StoredDraws, count_bits, count_words, pack
from scdp.posterior.summaries import compute_terms, measure_sizes

if TYPE_CHECKING:
    from scdp.posterior import Posterior


PAGE_WORDS = 1 << 15
# Labels of some items in all draws are taken at once where they are so few.
FEW_LABELS = 10_000_000
NO_WORDS = np.empty(0, np.uint64)
TABLES = ("starts", "n_codes", "n_hidden_clusters")


@kernel
def encode(
    ids: NDArray[Any],
    first: int,
    hidden: Integers,
    known: Integers,
    known_codes: SmallIntegers,
    slots: Integers,
    numbers: SmallIntegers,
    out: SmallIntegers,
) -> tuple[int, int]:
    """Number the clusters of hidden items: known ones keep their number, new ones follow by appearance.

    Returns how many new clusters and how many known clusters hold a hidden item; the first is negative when
    the known items are not grouped as `known_codes` says. `slots` is scratch, one cell a known cluster;
    `numbers` is scratch that holds -1 on entry and on return.
    """
    slots[:] = -1
    faithful = True
    for place in range(len(known)):
        slot = ids[known[place]] - first
        code = known_codes[place]
        if slots[code] < 0 and numbers[slot] < 0:
            slots[code] = slot
            numbers[slot] = code
        faithful &= slots[code] == slot and numbers[slot] == code
    new = 0
    joined = 0
    for place in range(len(hidden)):
        slot = ids[hidden[place]] - first
        if numbers[slot] < 0:
            numbers[slot] = len(slots) + new
            new += 1
        code = numbers[slot]
        out[place] = code
        if code < len(slots) and slots[code] >= 0:
            slots[code] = -1
            joined += 1
    for place in range(len(ids)):
        numbers[ids[place] - first] = -1
    return (new, joined) if faithful else (-1, joined)


class _Chain:
    """The storage and scratch of one chain; chains share nothing, so threads need no lock."""

    def __init__(self, n_draws: int, n_hidden: int, n_known_clusters: int) -> None:
        self.pages: list[Words] = []
        self.finished_words = 0
        self.used = 0
        self.starts = np.full(n_draws, -1, np.int64)
        self.n_codes = np.zeros(n_draws, np.int32)
        self.n_hidden_clusters = np.zeros(n_draws, np.int32)
        self.codes = np.empty(n_hidden, np.int32)
        self.slots = np.empty(n_known_clusters, np.int64)
        self.numbers = np.empty(0, np.int32)

    def reserve_numbers(self, span: int) -> SmallIntegers:
        if len(self.numbers) < span:
            self.numbers = np.full(span + span // 4, -1, np.int32)
        return self.numbers

    def allocate(self, n_words: int) -> tuple[int, Words]:
        """A place for `n_words` words: where it will be once pages are joined, and the words themselves."""
        if not self.pages or self.used + n_words > len(self.pages[-1]):
            self._close_page()
            self.pages.append(np.zeros(max(PAGE_WORDS, n_words), np.uint64))
            self.used = 0
        place = self.used
        self.used += n_words
        return self.finished_words + place, self.pages[-1][place : self.used]

    def join(self) -> Words:
        """All words as one array; pages are let go one by one, so memory never holds the chain twice."""
        self._close_page()
        words = np.empty(self.finished_words, np.uint64)
        end = len(words)
        while self.pages:
            page = self.pages.pop()
            words[end - len(page) : end] = page
            end -= len(page)
        self.put_back(words)
        return words

    def copy_words(self) -> Words:
        """All words so far as one new array; unlike `join`, the chain can go on."""
        return np.concatenate([*self.pages[:-1], self.pages[-1][: self.used]]) if self.pages else NO_WORDS

    def put_back(self, words: Words) -> None:
        self.pages, self.used, self.finished_words = [words], len(words), 0

    def _close_page(self) -> None:
        if self.pages:
            self.pages[-1] = self.pages[-1][: self.used]
            self.finished_words += self.used


class DrawRecorder:
    """Keeps draws as packed canonical codes.

    `labels_template` gives the cluster of every known item by any integers (its values at hidden items are
    ignored) and `hidden` the indices of the sampled items. With `shared=False` hidden items never join a
    known cluster, which is stored more compactly. Different chains may record from different threads.

    Parameters
    ----------
    n_chains, n_draws : int
        How many chains there are, and draws of each.
    labels_template : array of int (item,)
        The clusters of known items.
    hidden : array of int
        The items that are sampled.
    shared : bool
        Whether hidden items may join known clusters.

    Example
    -------
    >>> recorder = DrawRecorder(1, 2, [-1, -1, -1], [0, 1, 2])
    >>> recorder.record(0, 0, [7, 7, 3])
    >>> recorder.finish().draws.tolist()
    [[[0, 0, 1]]]
    """

    def __init__(
        self, n_chains: int, n_draws: int, labels_template: ArrayLike, hidden: ArrayLike, *, shared: bool = True
    ) -> None:
        template = check_ids(labels_template)
        if n_chains < 1 or n_draws < 1:
            raise InputError(f"at least one chain and one draw are needed, not {n_chains} and {n_draws}")
        self.known, self.shared = _number_known(template, np.asarray(hidden, np.int64)), shared
        self.hidden_items = np.flatnonzero(self.known < 0)
        self.known_items = np.flatnonzero(self.known >= 0)
        self.known_codes = self.known[self.known_items]
        self.n_known_clusters = int(self.known.max(initial=-1)) + 1
        self.n_draws = n_draws
        sizes = (n_draws, len(self.hidden_items), self.n_known_clusters)
        self.chains = [_Chain(*sizes) for _ in range(n_chains)]

    def record(self, chain: int, draw: int, slots: ArrayLike) -> None:
        """Store one draw: the cluster id of every item, by any integers.

        Parameters
        ----------
        chain : int
            The number of the chain.
        draw : int
            The number of the draw in its chain.
        slots : array of int (item,)
            The cluster of every item.

        Example
        -------
        >>> recorder = DrawRecorder(1, 2, [-1, -1, -1], [0, 1, 2])
        >>> recorder.record(0, 0, [7, 7, 3])
        >>> recorder.record(0, 1, [7, 3, 3])
        >>> recorder.finish().n_draws
        2
        """
        store = self.chains[chain]
        new, joined = self._encode(store, slots, f"chain {chain}, draw {draw}")
        n_codes = new + (self.n_known_clusters if self.shared else 0)
        width = count_bits(n_codes)
        start, words = store.allocate(count_words(len(store.codes), width))
        if width:
            pack(store.codes, width, words)
        store.n_codes[draw] = n_codes
        store.n_hidden_clusters[draw] = new + joined
        store.starts[draw] = start

    def export_chain(self, chain: int) -> Arrays:
        """What a chain has recorded so far as plain arrays, for a checkpoint.

        Parameters
        ----------
        chain : int
            The number of the chain.

        Returns
        -------
        dict of arrays

        Example
        -------
        >>> recorder = DrawRecorder(1, 2, [-1, -1, -1], [0, 1, 2])
        >>> recorder.record(0, 0, [7, 7, 3])
        >>> recorder.export_chain(0)["n_codes"].tolist()
        [2]
        """
        store = self.chains[chain]
        kept = _count_leading(store.starts >= 0)
        return {"words": store.copy_words(), **{name: getattr(store, name)[:kept] for name in TABLES}}

    def restore(self, chain: int, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Be as when `export_chain` gave these; ValueError if they cannot be draws of this recorder.

        Parameters
        ----------
        chain : int
            The number of the chain.
        arrays : dict of arrays
            What `export_chain` gave.

        Example
        -------
        >>> recorder = DrawRecorder(1, 2, [-1, -1, -1], [0, 1, 2])
        >>> recorder.record(0, 0, [7, 7, 3])
        >>> other = DrawRecorder(1, 2, [-1, -1, -1], [0, 1, 2])
        >>> other.restore(0, recorder.export_chain(0))
        >>> other.finish().n_draws
        1
        """
        words, (starts, n_codes, sizes) = arrays["words"], (arrays[name] for name in TABLES)
        lengths = [count_words(len(self.hidden_items), count_bits(int(n))) for n in n_codes]
        if words.dtype != np.uint64 or len({len(starts), len(n_codes), len(sizes)}) > 1:
            raise ValueError("draws of another shape")
        if len(starts) > self.n_draws or (starts + lengths > len(words)).any() or (starts < 0).any():
            raise ValueError("draws beyond the end of the words")
        store = self.chains[chain]
        store.put_back(words)
        for name in TABLES:
            getattr(store, name)[: len(starts)] = arrays[name]

    def finish(self, traces: Mapping[str, ArrayLike] | None = None, *, names: Any = None) -> Posterior:
        """The posterior of what was recorded; after an interruption, of the draws every chain reached.

        Parameters
        ----------
        traces : dict of arrays (chain, draw), optional
            Scalars of the sampler, by name.
        names : array, optional
            The ids of the items.

        Returns
        -------
        Posterior

        Example
        -------
        >>> recorder = DrawRecorder(1, 2, [-1, -1, -1], [0, 1, 2])
        >>> recorder.record(0, 0, [7, 7, 3])
        >>> recorder.finish().n_clusters.tolist()
        [[2]]
        """
        from scdp.posterior import Posterior

        draws = self.pack_recorded()
        cut = {name: np.asarray(values)[:, : draws.n_draws] for name, values in (traces or {}).items()}
        return Posterior(draws, cut, names=names)

    def pack_recorded(self) -> PackedDraws:
        """The draws that every chain has reached.

        Returns
        -------
        PackedDraws

        Example
        -------
        >>> recorder = DrawRecorder(1, 2, [-1, -1, -1], [0, 1, 2])
        >>> recorder.record(0, 0, [7, 7, 3])
        >>> recorder.pack_recorded().n_draws
        1
        """
        kept = min(_count_leading(chain.starts >= 0) for chain in self.chains)
        if kept == 0:
            raise InputError("a chain has no draw yet: run more sweeps before asking for its posterior")
        return PackedDraws(
            known=self.known,
            shared=self.shared,
            words=tuple(chain.join() for chain in self.chains),
            starts=np.stack([chain.starts[:kept] for chain in self.chains]),
            n_codes=np.stack([chain.n_codes[:kept] for chain in self.chains]),
            n_hidden_clusters=np.stack([chain.n_hidden_clusters[:kept] for chain in self.chains]),
        )

    def _encode(self, store: _Chain, slots: ArrayLike, place: str) -> tuple[int, int]:
        ids, first, span = compact_ids(check_ids(slots))
        if len(ids) != len(self.known):
            raise InputError(f"{place}: {len(ids)} cluster ids for {len(self.known)} items")
        new, joined = encode(
            ids,
            first,
            self.hidden_items,
            self.known_items,
            self.known_codes,
            store.slots,
            store.reserve_numbers(span),
            store.codes,
        )
        if new < 0:
            raise InputError(f"{place}: the known items are not grouped as their given labels say")
        if not self.shared:
            if joined:
                raise InputError(f"{place}: a hidden item joined a known cluster; record with shared=True")
            store.codes -= self.n_known_clusters
        return new, joined


def store_array(draws: NDArray[Any], labels_template: NDArray[Any], hidden: Integers, shared: bool) -> PackedDraws:
    """Store an integer array (chain, draw, item) of any cluster ids."""
    recorder = DrawRecorder(draws.shape[0], draws.shape[1], labels_template, hidden, shared=shared)
    for chain, rows in enumerate(draws):
        for draw, row in enumerate(rows):
            recorder.record(chain, draw, row)
    return recorder.pack_recorded()


def pack_draws(stored: StoredDraws, items: Integers | None = None) -> PackedDraws:
    """The same draws, packed; with `items`, seen by these alone, in their order."""
    if items is None:
        if isinstance(stored, PackedDraws):
            return stored
        items = np.arange(stored.n_items)
    known = stored.known[items]
    recorder = DrawRecorder(stored.n_chains, stored.n_draws, known, np.flatnonzero(known < 0), shared=stored.shared)
    if isinstance(stored, ComponentDraws) and len(items) * stored.n_codes.size <= FEW_LABELS:
        for draw, row in enumerate(stored.take(items)):
            recorder.record(*divmod(draw, stored.n_draws), row)
        return recorder.pack_recorded()
    for place, labels in stored.label_chunks():
        for row, draw in enumerate(range(place.start, place.stop)):
            recorder.record(*divmod(draw, stored.n_draws), labels[row, items])
    return recorder.pack_recorded()


def _number_known(template: NDArray[Any], hidden: Integers) -> SmallIntegers:
    is_known = np.ones(len(template), bool)
    if len(hidden) and (hidden.min() < 0 or hidden.max() >= len(template)):
        raise InputError(f"hidden items must be indices from 0 to {len(template) - 1}")
    is_known[hidden] = False
    known = np.full(len(template), -1, np.int32)
    known[is_known] = canonical_labels(template[is_known])
    return known


def _count_leading(recorded: Booleans) -> int:
    return len(recorded) if recorded.all() else int(np.argmin(recorded))


N_PAIRS = 20
PAIR_SEED = 20
MIN_DRAWS = 4
TAIL = 0.05
WORDS = {
    "n_clusters": "the number of clusters",
    "n_types": "the number of types",
    "alpha_cluster": "the concentration of clusters",
    "alpha_type": "the concentration of types",
    "log_joint": "the log joint probability",
    "largest_cluster": "the size of the largest cluster",
    "partition_entropy": "the entropy of the partition",
}


class ConvergenceWarning(UserWarning):
    """The chains disagree, so probabilities and intervals read from them are not to be trusted yet.

    Example
    -------
    >>> import warnings
    >>> warnings.simplefilter("ignore", ConvergenceWarning)
    """


@dataclass(frozen=True)
class Diagnostic:
    """One scalar: posterior mean and sd, R-hat (1 is best), effective sample sizes, error of the mean.

    Attributes
    ----------
    name : str
        Which scalar it is.
    mean, sd : float
        The posterior mean and standard deviation.
    rhat : float
        R-hat: 1 is best.
    ess_bulk, ess_tail : float
        Effective sample sizes, for the mean and for the tails.
    mcse : float
        The Monte Carlo error of the mean.

    Example
    -------
    >>> from scdp.posterior import Posterior
    >>> Posterior([[[0, 0, 1], [0, 1, 2]] * 20] * 2).diagnostics()[0].mean
    2.5
    """

    name: str
    mean: float
    sd: float
    rhat: float
    ess_bulk: float
    ess_tail: float
    mcse: float


def diagnose(stored: StoredDraws, traces: Mapping[str, Floats]) -> list[Diagnostic]:
    """A row for every trace, for the partition's size and shape, and for some pairs of hidden items."""
    scalars = dict(traces)
    scalars.setdefault("n_clusters", stored.n_clusters.astype(np.float64))
    if len(stored.hidden):
        scalars["largest_cluster"], scalars["partition_entropy"] = trace_shapes(stored)
    for first, second in choose_pairs(stored):
        i, j = stored.hidden[first], stored.hidden[second]
        scalars[f"together[{i},{j}]"] = (stored.item_codes(i) == stored.item_codes(j)).astype(np.float64)
    return [diagnose_scalar(name, values) for name, values in scalars.items()]


def trace_shapes(stored: StoredDraws) -> tuple[Floats, Floats]:
    """The size of the largest cluster of hidden items and the entropy of their partition (chain, draw)."""
    largest, entropy = np.empty((2, stored.n_chains * stored.n_draws))
    terms = compute_terms("vi", len(stored.hidden))
    counts = np.zeros(int(stored.n_codes.max()), np.int64)
    for place, codes in stored.code_chunks():
        measure_sizes(codes, terms, counts, largest[place], entropy[place])
    shape = (stored.n_chains, stored.n_draws)
    return largest.reshape(shape), entropy.reshape(shape)


def choose_pairs(stored: StoredDraws) -> list[tuple[int, int]]:
    """Pairs of places among hidden items, always the same; those that draws disagree about come first."""
    n_hidden = len(stored.hidden)
    if n_hidden < 2:
        return []
    rng = np.random.default_rng(PAIR_SEED)
    codes = stored.codes_at(stored.choose_draws(max(2, min(200, CHUNK_LABELS // n_hidden))))
    candidates = _draw_pairs(rng, n_hidden, 200) + _draw_pairs_together(rng, codes)
    pairs = list(dict.fromkeys((min(pair), max(pair)) for pair in candidates))
    shares = [float((codes[:, i] == codes[:, j]).mean()) for i, j in pairs]
    ranked = sorted(range(len(pairs)), key=lambda index: _rank_certainty(shares[index]))
    return [pairs[index] for index in ranked[:N_PAIRS]]


def _rank_certainty(share: float) -> int:
    if TAIL <= share <= 1 - TAIL:
        return 0
    return 1 if 0.0 < share < 1.0 else 2


def _draw_pairs(rng: np.random.Generator, n: int, count: int) -> list[tuple[int, int]]:
    first = rng.integers(0, n, count)
    second = (first + rng.integers(1, n, count)) % n
    return list(zip(first.tolist(), second.tolist(), strict=True))


def _draw_pairs_together(rng: np.random.Generator, codes: SmallIntegers) -> list[tuple[int, int]]:
    """Random neighbours within clusters of random draws: random pairs alone would rarely ever be together."""
    pairs: list[tuple[int, int]] = []
    for row in codes[rng.integers(0, len(codes), 20)]:
        shuffled = rng.permutation(len(row))
        order = shuffled[np.argsort(row[shuffled], kind="stable")]
        places = np.flatnonzero(row[order[1:]] == row[order[:-1]])
        chosen = rng.permutation(places)[:10]
        pairs += zip(order[chosen].tolist(), order[chosen + 1].tolist(), strict=True)
    return pairs


def diagnose_scalar(name: str, values: Floats) -> Diagnostic:
    """One row from values (chain, draw); what cannot be told from so few draws is NaN."""
    if not np.isfinite(values).all():
        return Diagnostic(name, *[float("nan")] * 6)
    mean, sd = float(values.mean()), float(values.std(ddof=1)) if values.size > 1 else float("nan")
    if values.shape[1] < MIN_DRAWS:
        return Diagnostic(name, mean, sd, *[float("nan")] * 4)
    if values.min() == values.max():
        return Diagnostic(name, mean, 0.0, 1.0, float(values.size), float(values.size), 0.0)
    if (values == values[:, :1]).all():
        # Each chain sits at its own value: there is one independent draw a chain, whatever their length.
        worth = float(len(values))
        return Diagnostic(name, mean, sd, float("inf"), worth, worth, sd / float(np.sqrt(worth)))
    return Diagnostic(name, mean, sd, _compute_rhat(values), *_compute_effective_sizes(values))


def _compute_rhat(values: Floats) -> float:
    from arviz_stats.base import array_stats

    if len(values) == 1:
        half = values.shape[1] // 2
        values = np.stack([values[0, :half], values[0, -half:]])
    if values.shape[1] < MIN_DRAWS:
        return float("nan")
    with np.errstate(all="ignore"):
        both = [array_stats.rhat(values, method=method) for method in ("z_scale", "folded")]
    # Folding can leave a two-valued scalar constant; the other half of the statistic then decides alone.
    known = [float(value) for value in both if not np.isnan(value)]
    return max(known, default=float("nan"))


def _compute_effective_sizes(values: Floats) -> tuple[float, float, float]:
    from arviz_stats.base import array_stats

    with np.errstate(all="ignore"):
        bulk = float(array_stats.ess(values, method="bulk"))
        tail = float(array_stats.ess(values, method="tail", prob=(TAIL, 1 - TAIL)))
        error = float(array_stats.mcse(values, method="mean"))
    return bulk, tail, error


def describe_convergence(rows: list[Diagnostic], n_chains: int, n_draws: int, threshold: float) -> str | None:
    """A sentence on the rows whose R-hat passes the threshold, or None if there is none."""
    if n_draws < MIN_DRAWS * (2 if n_chains == 1 else 1):
        return f"{n_draws} draws a chain are too few to judge convergence: run more sweeps (n_sweeps)."
    bad = [row for row in rows if row.rhat > threshold]
    if not bad:
        return None
    named = [
        f"{WORDS.get(row.name, row.name)} (R-hat {row.rhat:.2f})"
        for row in sorted(bad, key=lambda row: -row.rhat)
        if not _is_pair(row)
    ]
    pairs = [row.rhat for row in bad if _is_pair(row)]
    if pairs:
        total = sum(map(_is_pair, rows))
        named.append(f"whether items are together in {len(pairs)} of {total} pairs (worst R-hat {max(pairs):.2f})")
    advice = "more sweeps (n_sweeps)" + (" and more than one chain (n_chains)" if n_chains == 1 else "")
    return f"The chains have not converged on {_join_words(named)}: run {advice}."


def _is_pair(row: Diagnostic) -> bool:
    return row.name.startswith("together[")


def _join_words(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
