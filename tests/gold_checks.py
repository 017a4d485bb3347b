"""The gold checks: each runs a kernel or a sweep on exact draws of its target and returns named p-values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy import stats

from gold_tools import (
    GRID,
    JOINT_STARTS,
    LAYOUTS,
    STARTS,
    Problem,
    chi_square,
    clusters_problem,
    coarse_codes,
    joint_problem,
    kolmogorov,
    make_problem,
    partition_codes,
    stream,
    two_sample_chi_square,
)
from scdp.chains import GammaPrior, Priors, State, run, split_merge
from scdp.chains import vector_clusters as clusters
from scdp.chains import vector_types as types
from scdp.chains.items import Items, lay_out_vectors
from twins import exact, likelihood
from twins import vectors as plain

PValues = dict[str, float]
PRIORS = Priors()
COLLAPSED = run.Plan(learn_concentrations=False, split_merge_attempts=1)
PAPER = run.Plan(scheme="paper", learn_concentrations=False)


# Clusters given precisions: 52 partitions at most, fixed types.


def _means_only(rng: np.random.Generator, items: Items, state: State) -> tuple[np.ndarray, np.ndarray]:
    return state.cluster, types.draw_means(rng, items, state)[0]


def _clusters_then_means(rng: np.random.Generator, items: Items, state: State) -> tuple[np.ndarray, np.ndarray]:
    state = state._replace(cluster=clusters.resample_clusters(rng, items, state)[0])
    return _means_only(rng, items, state)


def _given_means(rng: np.random.Generator, items: Items, state: State) -> tuple[np.ndarray, np.ndarray]:
    drawn, _ = types.draw_means(rng, items, state)
    return clusters.resample_clusters_given_means(rng, items, state, drawn)[:2]


def _split_merge(attempts: int) -> Callable[..., tuple[np.ndarray, None]]:
    return lambda rng, items, state: (split_merge.split_merge(rng, items, state, attempts)[0], None)


CLUSTER_KERNELS = {
    "means": _means_only,
    "clusters": _clusters_then_means,
    "split-merge, 1 attempt": _split_merge(1),
    "split-merge, 3 attempts": _split_merge(3),
    "clusters given means": _given_means,
}


def check_clusters(layout: str, kernel: str, discount: float = 0.0, n_starts: int = STARTS) -> PValues:
    """Apply once to exact partitions: which partitions come out, and the mean of the last item's cluster."""
    problem, rows, probability, starts = clusters_problem(layout, discount, n_starts)
    rng = stream(f"{kernel} on {layout}")
    apply, items = CLUSTER_KERNELS[kernel], problem.laid_out.items
    after = np.empty((n_starts, len(problem.points)), np.int64)
    mean = np.empty(n_starts)
    has_means = True
    for s, state in enumerate(starts):
        after[s], drawn = apply(rng, items, state)
        has_means = drawn is not None
        mean[s] = drawn[after[s, -1], 0] if has_means else 0.0
    found = {"partition": chi_square(partition_codes(after), partition_codes(rows), probability)}
    if has_means:
        found["mean of the last item"] = kolmogorov(mean, last_mean_cdf(problem, rows, probability))
    return found


def last_mean_cdf(problem: Problem, rows: np.ndarray, probability: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Exact distribution of the mean of the last item's cluster (feature 0): a mixture of Normals."""
    values, precision = problem.points[:, 0], problem.template.precision[problem.template.type, 0]
    weight = np.where(np.isnan(values), 0.0, precision)
    member = rows == rows[:, -1:]
    total = 1 / problem.template.mean_variance + member @ weight
    centre = member @ (weight * np.nan_to_num(values)) / total
    scale = 1 / np.sqrt(total)
    return lambda x: sum(p * stats.norm.cdf(x, c, s) for p, c, s in zip(probability, centre, scale, strict=True))


# Clusters, types and precisions together, on a grid of two precision rows.


def _types(rng: np.random.Generator, items: Items, state: State) -> State:
    drawn, _ = types.draw_means(rng, items, state)
    kinds, precision, _ = types.resample_types(rng, items, state, drawn)
    return state._replace(type=kinds, precision=precision)


def _precisions(rng: np.random.Generator, items: Items, state: State) -> State:
    drawn, _ = types.draw_means(rng, items, state)
    return state._replace(precision=types.resample_precisions(rng, items, state, drawn))


JOINT_KERNELS = {
    "types": _types,
    "precisions": _precisions,
    "collapsed sweep": lambda rng, items, state: run.collapsed_sweep(rng, state, items, COLLAPSED, PRIORS)[0],
    "paper sweep": lambda rng, items, state: run.paper_sweep(rng, state, items, PAPER, PRIORS)[0],
}


def check_joint(layout: str, kernel: str) -> PValues:
    """One application to exact joint states: cluster partition, type partition, and coarse joint bins."""
    problem, cells, starts = joint_problem(layout)
    rng = stream(f"{kernel} on joint {layout}")
    apply, items, n = JOINT_KERNELS[kernel], problem.laid_out.items, len(problem.points)
    after, kinds = np.empty((JOINT_STARTS, n), np.int64), np.empty((JOINT_STARTS, n), np.int64)
    row = np.empty(JOINT_STARTS, np.int64)
    for s, state in enumerate(starts):
        state = apply(rng, items, state)
        after[s], kinds[s] = state.cluster, state.type
        row[s] = state.precision[state.type[0], 0] == GRID.values[1, 0]
    return {
        "clusters": chi_square(partition_codes(after), cells.clusters, cells.probability),
        "types": chi_square(partition_codes(kinds), cells.types, cells.probability),
        "K, L and row": chi_square(coarse_codes(after, kinds, row), cells.coarse, cells.probability),
    }


# Types with the continuous Gamma prior, given means.


def check_gamma_types(layout: str, kernel: str, shapes: str) -> PValues:
    """Means fixed at zero, so points are residuals: types, and the precisions of the first and last item."""
    problem = make_problem(LAYOUTS[layout])
    if shapes == "equal":
        problem = replace(problem, template=problem.template._replace(shape=np.full(2, 1.2)))
    state, items, n = problem.template, problem.laid_out.items, len(problem.points)
    rows, probability = exact.type_posterior(problem.points, state.type_concentration, state.shape, state.rate)
    rng = stream(f"{kernel} with Gamma prior of {shapes} shapes on {layout}")
    zero = np.zeros((len(items.known_in_slot), 2))
    after, precision = np.empty((STARTS, n), np.int64), np.empty((STARTS, 2))
    for s, pick in enumerate(rng.choice(len(rows), STARTS, p=probability)):
        now = state._replace(type=rows[pick], precision=exact_precisions(rng, problem, rows[pick]))
        if kernel == "types":
            after[s], drawn, _ = types.resample_types(rng, items, now, zero)
        else:
            after[s], drawn = now.type, types.resample_precisions(rng, items, now, zero)
        precision[s] = drawn[after[s, 0], 0], drawn[after[s, -1], 1]
    return {
        "types": chi_square(partition_codes(after), partition_codes(rows), probability),
        "precision of the first": kolmogorov(precision[:, 0], precision_cdf(problem, rows, probability, 0, 0)),
        "precision of the last": kolmogorov(precision[:, 1], precision_cdf(problem, rows, probability, n - 1, 1)),
    }


def exact_precisions(rng: np.random.Generator, problem: Problem, kinds: np.ndarray) -> np.ndarray:
    member = kinds == np.arange(kinds.max() + 1)[:, None]
    items, state = problem.laid_out.items, problem.template
    shape = state.shape + 0.5 * member @ items.observed
    return rng.standard_gamma(shape) / (state.rate + 0.5 * member @ items.points**2)


def precision_cdf(
    problem: Problem, rows: np.ndarray, probability: np.ndarray, item: int, feature: int
) -> Callable[[np.ndarray], np.ndarray]:
    """Exact distribution of the precision of an item's type: a mixture of Gammas over type partitions."""
    items, state = problem.laid_out.items, problem.template
    member = rows == rows[:, [item]]
    shape = state.shape[feature] + 0.5 * member @ items.observed[:, feature]
    rate = state.rate[feature] + 0.5 * member @ items.points[:, feature] ** 2
    return lambda x: sum(
        p * stats.gamma.cdf(x, a, scale=1 / b) for p, a, b in zip(probability, shape, rate, strict=True)
    )


def grid_distribution(values: np.ndarray, log_density: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """The distribution function of a density known on a fine grid."""
    density = np.exp(log_density - log_density.max())
    cumulative = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(values))])
    return lambda x: np.interp(x, values, cumulative / cumulative[-1])


def inverse_draws(
    rng: np.random.Generator, values: np.ndarray, cdf: Callable[[np.ndarray], np.ndarray], n: int
) -> np.ndarray:
    return np.interp(rng.random(n), cdf(values), values)


def check_collapsed_precision() -> PValues:
    """One type, one feature: the precision's density by quadrature, then one step of means and precisions."""
    points = np.array([[0.4], [1.9], [-0.8], [-1.1], [np.nan], [0.3]])
    items = lay_out_vectors(points, np.full(6, -1)).items
    cluster, zeros = np.array([0, 0, 1, 1, 1, 2]), np.zeros(6, np.int64)
    shape, rate = np.array([1.3]), np.array([0.6])
    grid = np.exp(np.linspace(-14, 5, 4001))
    log_density = np.array(
        [
            exact.partition_log_likelihood(points, cluster, np.full((6, 1), t), 1.4)
            + likelihood.gamma_log_density(t, 1.3, 0.6)
            for t in grid
        ]
    )
    cdf = grid_distribution(grid, log_density)
    rng = stream("collapsed precision")
    after = np.empty(STARTS)
    nothing = np.empty((0, 1)), np.empty(0)
    for s, t in enumerate(inverse_draws(rng, grid, cdf, STARTS)):
        state = State(cluster, zeros, np.array([[t]]), 1.0, 1.0, 1.4, shape, rate, *nothing)
        after[s] = _precisions(rng, items, state).precision[0, 0]
    return {"precision": kolmogorov(after, cdf)}


def check_mean_variance() -> PValues:
    """From the joint prior of variance and means: the inverse stays Gamma, scaled means stay Normal."""
    rng = stream("mean variance")
    shape, rate, used = 2.5, 0.8, np.array([0, 2, 3])
    before = rate / rng.standard_gamma(shape, STARTS)
    drawn = rng.standard_normal((STARTS, 5, 2)) * np.sqrt(before)[:, None, None]
    after = np.array([types.draw_mean_variance(rng, rows, used, shape, rate) for rows in drawn])
    return {
        "inverse variance": kolmogorov(1 / after, stats.gamma(shape, scale=1 / rate).cdf),
        "scaled mean": kolmogorov(drawn[:, 2, 1] / np.sqrt(after), stats.norm.cdf),
    }


# Concentrations.

DOCUMENT_SIZES = np.array([1, 2, 3, 3, 5, 8, 8, 11, 14, 20, 25, 40])


def draw_cluster_counts(rng: np.random.Generator, alpha: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The number of clusters of all groups for every alpha, seat by seat."""
    total = np.zeros(len(alpha), np.int64)
    for size in sizes:
        for seated in range(size):
            total += rng.random(len(alpha)) < alpha / (alpha + seated)
    return total


def check_concentration_prior(sizes: np.ndarray) -> PValues:
    """alpha from its prior, K given alpha: after the update alpha is still Gamma, with K as before."""
    rng = stream(f"concentration prior, {len(sizes)} groups")
    shape, rate = 1.7, 0.8
    symmetric = run.log_symmetric_polynomials(sizes)
    alpha = rng.standard_gamma(shape, STARTS) / rate
    k = draw_cluster_counts(rng, alpha, sizes)
    after = np.array(
        [run.resample_concentration(rng, a, sizes, n, symmetric, shape, rate) for a, n in zip(alpha, k, strict=True)]
    )
    other = rng.standard_gamma(shape, STARTS) / rate
    other_k = draw_cluster_counts(rng, other, sizes)
    edges = stats.gamma(shape, scale=1 / rate).ppf([0.1, 0.3, 0.5, 0.7, 0.9])
    return {
        "alpha": kolmogorov(after, stats.gamma(shape, scale=1 / rate).cdf),
        "alpha and K": two_sample_chi_square(
            6 * k + np.searchsorted(edges, after), 6 * other_k + np.searchsorted(edges, other)
        ),
    }


def concentration_cdf(
    sizes: np.ndarray, k: int, shape: float, rate: float
) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
    """The exact posterior of alpha given K clusters, by quadrature."""
    grid = np.exp(np.linspace(-12, 5, 6001))
    log_density = likelihood.gamma_log_density(grid, shape, rate) + k * np.log(grid)
    for size in sizes:
        log_density -= np.log(grid[:, None] + np.arange(size)).sum(axis=1)
    return grid, grid_distribution(grid, log_density)


def check_concentration_posterior(sizes: np.ndarray, k: int) -> PValues:
    """K fixed: exact draws of alpha given K stay exact draws."""
    rng = stream(f"concentration posterior, {len(sizes)} groups")
    grid, cdf = concentration_cdf(sizes, k, 1.7, 0.8)
    symmetric = run.log_symmetric_polynomials(sizes)
    after = np.array(
        [
            run.resample_concentration(rng, alpha, sizes, k, symmetric, 1.7, 0.8)
            for alpha in inverse_draws(rng, grid, cdf, STARTS)
        ]
    )
    return {"alpha given K": kolmogorov(after, cdf)}


def check_inner_gibbs(sizes: np.ndarray, k: int, alpha: float, n: int = 2500) -> PValues:
    """From one alpha, the exact kernel and the paper's inner Gibbs give one distribution."""
    rng = stream(f"inner Gibbs, {len(sizes)} groups")
    symmetric = run.log_symmetric_polynomials(sizes)
    exactly = [run.resample_concentration(rng, alpha, sizes, k, symmetric, 1.7, 0.8) for _ in range(5 * n)]
    inner = [plain.resample_concentration_inner_gibbs(rng, alpha, sizes, k, 1.7, 0.8, n_inner=30) for _ in range(n)]
    return {"two samples": float(stats.ks_2samp(exactly, inner, method="asymp").pvalue)}


def check_both_concentrations() -> PValues:
    """The sweep's update of both: each keeps its own prior, clusters by document, types over all items."""
    rng = stream("both concentrations")
    priors = Priors(cluster_concentration=GammaPrior(3.0, 1.0), type_concentration=GammaPrior(1.0, 0.5))
    sizes = np.array([7, 4, 9])
    problem = lay_out_vectors(rng.normal(size=(20, 1)), np.full(20, -1), np.repeat([0, 1, 2], sizes))
    fixed = run.constants_of(problem.items)
    alpha = np.column_stack([rng.standard_gamma(3.0, STARTS), rng.standard_gamma(1.0, STARTS) / 0.5])
    k = draw_cluster_counts(rng, alpha[:, 0], sizes)
    kinds = draw_cluster_counts(rng, alpha[:, 1], np.array([20]))
    state = make_problem(LAYOUTS["all hidden"]).template
    after = np.empty((STARTS, 2))
    for s in range(STARTS):
        # Only the numbers of clusters and types enter the update.
        state = state._replace(
            cluster=np.arange(k[s]), type=np.arange(kinds[s]),
            cluster_concentration=alpha[s, 0], type_concentration=alpha[s, 1],
        )  # fmt: skip
        state = run.update_concentrations(rng, state, priors, fixed)
        after[s] = state.cluster_concentration, state.type_concentration
    return {
        "cluster concentration": kolmogorov(after[:, 0], stats.gamma(3.0).cdf),
        "type concentration": kolmogorov(after[:, 1], stats.gamma(1.0, scale=2.0).cdf),
    }


def check_separation_prior() -> PValues:
    """SCDP-2's prior against its plain twin: equal or not, so the p-value is 1 or 0."""
    rng = stream("separation prior")
    drawn = rng.normal(size=(7, 3))
    used = np.array([0, 1, 3, 4, 6])
    fast, slow = types.separation_prior(drawn, used), plain.separation_prior(drawn, used)
    return {"equal to the twin": float(np.allclose(fast[0], slow[0]) and np.allclose(fast[1], slow[1]))}


def check_discount(layout: str, kernel: str) -> PValues:
    """Clusters under Pitman and Yor's prior: fewer starts, since a bug in a discount of .45 is large."""
    return check_clusters(layout, kernel, 0.45, 10_000)


def check_discounted_concentration(n: int = 8_000) -> PValues:
    """alpha from its prior, clusters of three groups given alpha: after the update alpha is Gamma, with K as before."""
    rng = stream("discounted concentration")
    sizes, discount, prior = np.array([1, 9, 25]), 0.45, GammaPrior(1.7, 0.8)
    state = make_problem(LAYOUTS["all hidden"]).template._replace(discount=discount)
    alpha, other = (rng.standard_gamma(prior.shape, n) / prior.rate for _ in range(2))
    k, other_k = (draw_discounted_counts(rng, each, sizes, discount) for each in (alpha, other))
    after = np.array(
        [
            run.resample_discounted_concentration(rng, state._replace(cluster_concentration=a), sizes, counts, prior)
            for a, counts in zip(alpha, k, strict=True)
        ]
    )
    gamma = stats.gamma(prior.shape, scale=1 / prior.rate)
    edges = gamma.ppf([0.1, 0.3, 0.5, 0.7, 0.9])
    codes = [6 * each.sum(axis=1) + np.searchsorted(edges, values) for each, values in ((k, after), (other_k, other))]
    return {"alpha": kolmogorov(after, gamma.cdf), "alpha and K": two_sample_chi_square(*codes)}


def draw_discounted_counts(
    rng: np.random.Generator, alpha: np.ndarray, sizes: np.ndarray, discount: float
) -> np.ndarray:
    """The number of clusters of each group for every alpha, seat by seat."""
    found = np.zeros((len(alpha), len(sizes)), np.int64)
    for m, size in enumerate(sizes):
        for seated in range(size):
            chance = (alpha + discount * found[:, m]) / (alpha + seated)
            found[:, m] += rng.random(len(alpha)) < chance
    return found


def check_scale(n: int = 10_000) -> PValues:
    """The rate of the prior on precisions from its own prior, precisions given it: after the update it is Gamma, and
    scaled precisions are as they were."""
    rng = stream("learned scale")
    template = make_problem(LAYOUTS["all hidden"]).template._replace(shape=np.array([1.2, 0.8]))
    before = rng.standard_gamma(1.0, n)
    drawn = rng.standard_gamma(template.shape, (n, 3, 2)) / before[:, None, None]
    # The second of three types is used by nobody, and must not count.
    state = template._replace(type=np.array([0, 2, 2, 0, 0]))
    after = np.empty(n)
    for s, rows in enumerate(drawn):
        after[s] = run.update_scale(rng, state._replace(precision=rows), PRIORS).rate[0]
    return {
        "rate": kolmogorov(after, stats.gamma(1.0).cdf),
        "scaled precision": kolmogorov(after * drawn[:, 2, 1], stats.gamma(0.8).cdf),
    }


def check_counts(layout: str, likelihood: str) -> PValues:
    """Clusters of counts (counts_gold.py)."""
    import counts_gold

    return counts_gold.check_clusters(layout, likelihood)


def check_pseudo_counts(likelihood: str) -> PValues:
    """Pseudo-counts of a discrete likelihood (counts_gold.py)."""
    import counts_gold

    return counts_gold.check_pseudo_counts(likelihood)


def check_conditioned(kernel: str, variant: str, n_auxiliary: str, n_starts: str = "40000") -> PValues:
    """SCDP-3's kernels, means and precisions on grids (conditioned_gold.py)."""
    import conditioned_gold

    p = conditioned_gold.check(kernel, variant, n_auxiliary=int(n_auxiliary), n_starts=int(n_starts))
    return {f"{kernel}, {variant}, M = {n_auxiliary}": p}


def check_centroids(layout: str, kernel: str, variant: str) -> PValues:
    """SCDP-3's moves of clusters on distances (centroid_gold.py)."""
    import centroid_gold

    return {f"{kernel}, {variant}, {layout}": centroid_gold.check_clusters(layout, kernel, variant)}
