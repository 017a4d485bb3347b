"""Convergence: stored draws and traces enter; R-hat, effective sample sizes and a warning in words leave.

Only scalars that do not depend on how clusters are numbered are judged, by rank-normalised split R-hat and
effective sample sizes (Vehtari, Gelman, Simpson, Carpenter and Buerkner 2021).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from scdp._typing import Floats, SmallIntegers
from scdp.posterior.draws import CHUNK_LABELS, StoredDraws
from scdp.posterior.summaries import compute_terms, measure_sizes

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
