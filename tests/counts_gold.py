"""Exact checks of the discrete likelihoods: all partitions of five items, weighed by a plain twin of the marginal."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy import stats
from scipy.special import betaln, gammaln

from gold_tools import LAYOUTS, chi_square, kolmogorov, partition_codes, places_of, random_slots, stream
from scdp.chains import Plan, Priors, State
from scdp.chains.counts import count_sweep, resample_clusters_of_counts, resample_pseudo_counts
from scdp.chains.items import CountItems, ItemLayout, lay_out_counts, lay_out_vectors
from twins import exact, likelihood

N_STARTS = 10_000
DISCOUNT, CONCENTRATION = 0.2, 0.9
PSEUDO = {"beta-binomial": np.array([[0.7, 1.9], [1.4, 0.6]]), "dirichlet-multinomial": np.array([[0.7, 1.9, 0.4]])}


def log_marginal(counts: np.ndarray, trials: np.ndarray, pseudo: np.ndarray) -> float:
    """One cluster's counts (items, features), NaN where missing, of either likelihood."""
    total = np.nansum(counts, axis=0)
    if len(pseudo) == 2:
        tried = (~np.isnan(counts) * trials).sum(axis=0)
        return float((betaln(pseudo[0] + total, pseudo[1] + tried - total) - betaln(*pseudo)).sum())
    a = pseudo[0]
    inside = (gammaln(a + total) - gammaln(a)).sum()
    return float(inside + gammaln(a.sum()) - gammaln(a.sum() + total.sum()))


def make_counts(layout: str, kind: str) -> np.ndarray:
    case = LAYOUTS[layout]
    rng = stream(f"counts of {layout}, {kind}")
    if kind == "beta-binomial":
        counts = rng.binomial([3, 1], [0.4, 0.6], (len(case.known), 2)).astype(float)
        # The largest value of a feature is its number of trials, so each occurs.
        counts[0] = 3, 1
        counts[rng.random(counts.shape) < case.missing] = np.nan
        return counts
    return rng.multinomial(4, [0.5, 0.3, 0.2], len(case.known)).astype(float)


def state_of(laid_out: ItemLayout[CountItems], cluster: np.ndarray, pseudo: np.ndarray) -> State:
    n, width = len(cluster), laid_out.items.n_features
    none = np.empty((0, width)), np.empty(0)
    ones = np.ones(width)
    state = State(cluster, np.zeros(n, np.int64), ones[None], CONCENTRATION, 1.0, 1.0, ones, ones, *none)
    return state._replace(discount=DISCOUNT, pseudo_counts=pseudo)


@cache
def problem(layout: str, kind: str) -> tuple[ItemLayout[CountItems], np.ndarray, np.ndarray]:
    """A small problem, its partitions and their probabilities."""
    case = LAYOUTS[layout]
    counts, known, places = make_counts(layout, kind), np.array(case.known), places_of(case)
    groups = None if case.groups is None else np.array(case.groups)
    laid_out = lay_out_counts(lay_out_vectors(counts, known, groups, share_clusters=case.share), kind)
    rows = exact.allowed_partitions(known, places)
    trials = np.nanmax(counts, axis=0)
    weights = [
        likelihood.partition_log_prior(row, places, CONCENTRATION, DISCOUNT)
        + sum(log_marginal(counts[row == k], trials, PSEUDO[kind]) for k in np.unique(row))
        for row in rows
    ]
    return laid_out, rows, exact.normalize(np.array(weights))


def check_clusters(layout: str, kind: str) -> dict[str, float]:
    """One pass over exact draws of the partition, and one sweep that learns nothing, leave them exact draws."""
    laid_out, rows, probability = problem(layout, kind)
    rng = stream(f"clusters of counts, {layout}, {kind}")
    plan = Plan(learn_types=False)
    found: dict[str, list[np.ndarray]] = {"partition": [], "sweep": []}
    for pick in rng.choice(len(rows), N_STARTS, p=probability):
        state = state_of(laid_out, random_slots(rng, laid_out, rows[pick]), PSEUDO[kind])
        found["partition"].append(resample_clusters_of_counts(rng, laid_out.items, state)[0])
        found["sweep"].append(count_sweep(rng, state, laid_out.items, plan, Priors())[0].cluster)
    cells = partition_codes(rows)
    return {name: chi_square(partition_codes(np.array(each)), cells, probability) for name, each in found.items()}


def check_pseudo_counts(kind: str) -> dict[str, float]:
    """Pseudo-counts from their prior, counts given these, one update: the prior comes back, and counts keep their
    dependence on the pseudo-counts (the first of them, given whether the first cluster is rich in its outcome)."""
    rng = stream(f"pseudo-counts, {kind}")
    n, cluster = 4_000, np.array([0, 0, 1, 2, 2])
    two = kind == "beta-binomial"
    shape = (2, 2) if two else (1, 3)
    after, rich = np.empty((n, shape[0] * shape[1])), np.empty((2, n), bool)
    prior = rng.standard_gamma(1.0, (2, n, *shape))
    for s in range(n):
        counts, other = (draw_counts(rng, cluster, prior[side, s], two) for side in range(2))
        rich[:, s] = counts[cluster == 0, 0].mean() > 2, other[cluster == 0, 0].mean() > 2
        laid_out = lay_out_counts(lay_out_vectors(counts, np.full(5, -1)), kind)
        if two:  # four trials, whether or not a feature has all of them somewhere
            outcomes = np.hstack([counts, 4 - counts])
            items = laid_out.items._replace(outcomes=outcomes, trials=np.full((5, 2), 4.0))
            laid_out = laid_out._replace(items=items)
        state = state_of(laid_out, cluster, prior[0, s])
        after[s] = resample_pseudo_counts(rng, laid_out.items, state).ravel()
    found = {f"pseudo-count {c}": kolmogorov(after[:, c], stats.gamma(1.0).cdf) for c in range(after.shape[1])}
    for value, name in ((True, "of rich clusters"), (False, "of poor clusters")):
        pair = after[rich[0] == value, 0], prior[1, rich[1] == value, 0, 0]
        found[f"the first, {name}"] = float(stats.ks_2samp(*pair, method="asymp").pvalue)
    return found


def draw_counts(rng: np.random.Generator, cluster: np.ndarray, pseudo: np.ndarray, two: bool) -> np.ndarray:
    """Counts of five items in three clusters, of four trials each."""
    if two:
        return rng.binomial(4, rng.beta(pseudo[0], pseudo[1], (3, 2))[cluster]).astype(float)
    chances = rng.dirichlet(pseudo[0], 3)
    return np.array([rng.multinomial(4, chances[k]) for k in cluster], dtype=float)
