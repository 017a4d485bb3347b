"""XingK: a metric learned from similar and dissimilar pairs (Xing et al. 2003), then k-means that is TOLD k."""

from __future__ import annotations

import numpy as np

from scdp._typing import Floats, Integers
from scdp.compare.distances import Distances
from scdp.errors import InputError
from scdp.paper.simple import OracleBaseline, k_means_under
from scdp.paper.surface import (
    Compared,
    PairTable,
    Steps,
    Vectors,
    number_within_groups,
    pair_features,
    sample_pairs,
    take_raw,
)
from scdp.table.spec import Spec

TOLERANCE = 1e-8


def add_ridge(similar: Floats, ridge: float) -> Floats:
    """Mean squares (features) or second moments (features, features) plus `ridge` times their mean in each direction.

    It adds a multiple of the trace of A to J: a direction that hardly varies would weigh almost infinitely.
    """
    diagonal = similar if similar.ndim == 1 else np.diagonal(similar)
    mean = float(diagonal.mean())
    extra = ridge * mean if mean > 0 else 1.0
    return similar + (extra if similar.ndim == 1 else extra * np.eye(len(similar)))


def diagonal_objective(weights: Floats, similar: Floats, dissimilar: Floats, balance: float) -> float:
    """J for a diagonal A; `similar` are mean squares, `dissimilar` squares (pairs, features), balance C |d|/|s|."""
    length = np.sqrt(dissimilar @ weights).mean()
    return float(similar @ weights - np.log(weights).sum() - (balance * np.log(length) if balance else 0.0))


def learn_diagonal(similar: Floats, dissimilar: Floats, balance: float, n_steps: int = 100) -> Floats:
    """The minimum of J over a > 0 by Newton's method, in units where C = 0 gives ones."""
    scaled = dissimilar / similar
    ones = np.ones(len(similar))
    weights = ones.copy()
    for _ in range(n_steps):
        gradient, hessian = _diagonal_slopes(weights, scaled, balance)
        step = np.asarray(np.linalg.solve(hessian, gradient), dtype=np.float64)
        if gradient @ step < TOLERANCE:
            break
        weights = _diagonal_step(weights, step, gradient, ones, scaled, balance)
    return weights / similar


def _diagonal_slopes(weights: Floats, scaled: Floats, balance: float) -> tuple[Floats, Floats]:
    gradient, hessian = 1.0 - 1.0 / weights, np.diag(1.0 / weights**2)
    if not balance:
        return gradient, hessian
    lengths = np.sqrt(scaled @ weights)
    inverse = 1.0 / np.maximum(lengths, 1e-12)
    mean = lengths.mean()
    slope = (inverse @ scaled) / (2 * len(scaled)) / mean
    bend = (scaled * (inverse**3)[:, None]).T @ scaled / (4 * len(scaled)) / mean
    return gradient - balance * slope, hessian + balance * (bend + np.outer(slope, slope))


def _diagonal_step(
    weights: Floats, step: Floats, gradient: Floats, similar: Floats, scaled: Floats, balance: float
) -> Floats:
    """Halve the step until it stays positive and J falls by enough (Armijo)."""
    before, size = diagonal_objective(weights, similar, scaled, balance), 1.0
    while size > 1e-12:
        moved = weights - size * step
        if (moved > 0).all():
            gain = before - diagonal_objective(moved, similar, scaled, balance)
            if gain >= 1e-4 * size * float(gradient @ step):
                return moved
        size /= 2
    return weights


def full_objective(metric: Floats, similar: Floats, dissimilar: Floats, balance: float) -> float:
    """J for a full A; `similar` is the second moment of differences, `dissimilar` differences (pairs, features)."""
    sign, log_determinant = np.linalg.slogdet(metric)
    if sign <= 0:
        return float("inf")
    lengths = np.sqrt(np.maximum(np.einsum("pf,pf->p", dissimilar @ metric, dissimilar), 0.0))
    return float(np.sum(similar * metric) - log_determinant - (balance * np.log(lengths.mean()) if balance else 0.0))


def learn_full(similar: Floats, dissimilar: Floats, balance: float, n_steps: int = 200) -> Floats:
    """The minimum of J over A by projected gradient, in coordinates where C = 0 gives the identity."""
    values, vectors = np.linalg.eigh(similar)
    whiten = vectors / np.sqrt(values)
    if not balance:
        return np.asarray(whiten @ whiten.T)
    moved = dissimilar @ whiten
    identity = np.eye(len(similar))
    metric, size = identity.copy(), 1.0
    for _ in range(n_steps):
        before = full_objective(metric, identity, moved, balance)
        gradient = _full_gradient(metric, identity, moved, balance)
        metric, size, gain = _step_and_project(metric, gradient, before, size, identity, moved, balance)
        if gain < TOLERANCE * max(1.0, abs(before)):
            break
    return np.asarray(whiten @ metric @ whiten.T)


def _full_gradient(metric: Floats, identity: Floats, moved: Floats, balance: float) -> Floats:
    lengths = np.sqrt(np.maximum(np.einsum("pf,pf->p", moved @ metric, moved), 1e-24))
    pull = (moved / lengths[:, None]).T @ moved / (2 * lengths.sum())
    return np.asarray(identity - np.linalg.inv(metric) - balance * pull)


def _step_and_project(
    metric: Floats, gradient: Floats, before: float, size: float, similar: Floats, moved: Floats, balance: float
) -> tuple[Floats, float, float]:
    """Along the gradient, then back to positive matrices; the step grows after success and halves after failure."""
    size *= 2
    while size > 1e-12:
        there = project_positive(metric - size * gradient)
        gain = before - full_objective(there, similar, moved, balance)
        if gain >= 1e-4 * float(np.sum(gradient * (metric - there))):
            return there, size, gain
        size /= 2
    return metric, size, 0.0


def project_positive(matrix: Floats, smallest: float = 1e-6) -> Floats:
    """The nearest symmetric matrix whose eigenvalues are at least `smallest`."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((vectors * np.maximum(values, smallest)) @ vectors.T)


def learn_by_program(similar: Floats, dissimilar: Floats, n_steps: int = 200) -> Floats:
    """The program of 2003: the greatest sum of distances of dissimilar pairs where squares of similar ones sum to 1.

    Projected gradient on positive matrices (`similar` of two dimensions) or weights from 0 on (of one), without a
    barrier or a ridge. A weight C on either sum would only change the scale of A, which k-means does not see.
    """
    full = similar.ndim == 2
    metric = np.eye(len(similar)) if full else np.ones(len(similar))
    metric = metric / max(float(np.sum(similar * metric)), 1e-300)
    size, before = 1.0, _program_value(metric, similar, dissimilar)
    for _ in range(n_steps):
        gradient = _program_gradient(metric, similar, dissimilar)
        size *= 2
        while size > 1e-12:
            there = metric + size * gradient * (np.abs(metric).max() / max(np.abs(gradient).max(), 1e-300))
            there = project_positive(there, 0.0) if full else np.maximum(there, 0.0)
            there = there / max(float(np.sum(similar * there)), 1e-300)
            value = _program_value(there, similar, dissimilar)
            if value > before:
                break
            size /= 2
        if size <= 1e-12 or value - before < TOLERANCE * max(1.0, abs(before)):
            break
        metric, before = there, value
    return metric


def _program_value(metric: Floats, similar: Floats, dissimilar: Floats) -> float:
    """Log of the mean distance of dissimilar pairs, less half the log of the mean square of similar ones."""
    near = max(float(np.sum(similar * metric)), 1e-300)
    return float(np.log(max(_lengths(metric, dissimilar).mean(), 1e-300)) - 0.5 * np.log(near))


def _program_gradient(metric: Floats, similar: Floats, dissimilar: Floats) -> Floats:
    lengths = np.maximum(_lengths(metric, dissimilar), 1e-12)
    scaled = dissimilar / lengths[:, None]
    pull = scaled.T @ dissimilar if metric.ndim == 2 else scaled.sum(axis=0)
    near = max(float(np.sum(similar * metric)), 1e-300)
    return np.asarray(pull / (2 * lengths.sum()) - 0.5 * similar / near)


def _lengths(metric: Floats, dissimilar: Floats) -> Floats:
    squares = np.einsum("pf,pf->p", dissimilar @ metric, dissimilar) if metric.ndim == 2 else dissimilar @ metric
    return np.asarray(np.sqrt(np.maximum(squares, 0.0)))


# The settings of the program of 2003: the metric as it was, and the one that was learned.
BEFORE, LEARNED = "0", "any"
# The paper's four settings of C, as powers of |s|/|d|; zero is zero.
SETTINGS = {"0": None, "1": 0, "|s|/|d|": 1, "(|s|/|d|)^2": 2}


class XingK(OracleBaseline):
    """ORACLE, twice: k comes from the gold labels, and so does C, the one of the paper's four with the best F.

    A dissimilar pair weighs C times a similar one; `scdp.paper.xing_k` says what is minimised.
    `form` is "full" or "diagonal"; without it vectors get the full matrix and distances the diagonal one. With a single
    `setting` ("0", "1", "|s|/|d|" or "(|s|/|d|)^2") and `n_clusters`, `predict` needs no gold labels.

    With `program="2003"` the metric is that of the program of 2003, without barrier and ridge. There C has no say but
    where it is 0, which leaves the metric as it was; the better of the two is taken.

    `ridge` (`add_ridge`) keeps directions without variance from taking over; 3 was the best on held-out
    training digits. At most `max_pairs` pairs of each kind are used; distances are brought to one unit first, but not
    if `raw`, which takes a missing one as 1.

    After `fit`: `metrics_` by setting, `pairs_used_` and `pairs_available_` (each similar, dissimilar); after
    `predict`: `best_setting_`.
    """

    def __init__(
        self,
        form: str | None = None,
        setting: str | None = None,
        n_clusters: int | None = None,
        spec: Spec | None = None,
        ridge: float = 3.0,
        max_pairs: int = 30_000,
        n_starts: int = 10,
        random_state: int = 0,
        verbose: bool = False,
        raw: bool = False,
        program: str = "barrier",
    ) -> None:
        self.form = form
        self.program = program
        self.raw = raw
        self.setting = setting
        self.n_clusters = n_clusters
        self.spec = spec
        self.ridge = ridge
        self.max_pairs = max_pairs
        self.n_starts = n_starts
        self.random_state = random_state
        self.verbose = verbose

    def _learn_pairs(self, items: Compared, labels: Integers) -> None:
        if isinstance(items, Distances):
            items = take_raw(items) if self.raw else items.scaled()
        self.scales_ = items.scales if isinstance(items, Distances) else None
        settings = self._settings()
        full = self._is_full(items)
        table = PairTable.of(items.layout, labels)
        similar, dissimilar = self._sample_pairs(table)
        n_similar, n_dissimilar = self.pairs_available_
        steps = Steps("XingK", len(settings), self.verbose)
        moments, far = _moments(items, table, similar, full), _differences(items, table, dissimilar, full)
        self.metrics_: dict[str, Floats] = {}
        if self.program == "2003":
            identity = np.eye(len(moments)) if full else np.ones(len(moments))
            self.metrics_ = {BEFORE: identity, LEARNED: learn_by_program(moments, far)}
            return
        near = add_ridge(moments, self.ridge)
        for setting in settings:
            power = SETTINGS[setting]
            weight = 0.0 if power is None else (n_similar / n_dissimilar) ** power
            learn = learn_full if full else learn_diagonal
            self.metrics_[setting] = learn(near, far, weight * n_dissimilar / n_similar)
            steps.finish_step(f"C = {setting}")

    def _settings(self) -> list[str]:
        if self.program not in ("barrier", "2003"):
            raise InputError(f"XingK: program {self.program!r} is neither 'barrier' nor '2003'")
        if self.setting is not None and self.setting not in SETTINGS:
            raise InputError(f"XingK: setting {self.setting!r} is not one of {', '.join(SETTINGS)}")
        return list(SETTINGS) if self.setting is None else [self.setting]

    def _is_full(self, items: Compared) -> bool:
        if self.form not in (None, "full", "diagonal"):
            raise InputError(f"XingK: form {self.form!r} is neither 'full' nor 'diagonal'")
        whole = isinstance(items, Vectors) and not np.isnan(items.values).any()
        if self.form == "full" and not whole:
            raise InputError("XingK: the full form needs vectors without missing values; use form='diagonal'")
        return whole and self.form != "diagonal"

    def _sample_pairs(self, table: PairTable) -> tuple[Integers, Integers]:
        n_similar = int(table.same.sum())
        n_dissimilar = len(table.same) - n_similar
        table.need_both_kinds("XingK")
        rng = np.random.default_rng(self.random_state)
        chosen = sample_pairs(np.arange(len(table.same)), table.same, self.max_pairs, self.max_pairs, rng)
        similar, dissimilar = chosen[table.same[chosen]], chosen[~table.same[chosen]]
        self.pairs_available_ = (n_similar, n_dissimilar)
        self.pairs_used_ = (len(similar), len(dissimilar))
        return similar, dissimilar

    def _cluster_with_gold(self, items: Compared, gold: Integers | None) -> Integers:
        from scdp.metrics import f_score

        if gold is None and len(self.metrics_) > 1:
            raise InputError("XingK is an oracle: give predict(X, gold=...), or XingK(setting=..., n_clusters=...)")
        if isinstance(items, Distances) and self.scales_ is not None:
            items = take_raw(items) if self.raw else items.rescaled(self.scales_)
        told = self._count_clusters(items.layout, gold)
        found = {name: self._cluster_by(items, metric, told) for name, metric in self.metrics_.items()}
        self.best_setting_ = next(iter(found))
        if gold is not None:
            truth = number_within_groups(items.layout, gold)
            self.best_setting_ = max(
                found, key=lambda name: f_score(truth, number_within_groups(items.layout, found[name]))
            )
        return found[self.best_setting_]

    def _cluster_by(self, items: Compared, metric: Floats, told: list[int]) -> Integers:
        if metric.ndim == 2 and isinstance(items, Vectors) and np.isnan(items.values).any():
            raise InputError("XingK learned a full matrix: X may not have missing values; use form='diagonal'")
        return k_means_under(items, metric, told, self.n_starts, self.random_state)


def _moments(items: Compared, table: PairTable, pairs: Integers, full: bool) -> Floats:
    """The mean square of each feature over similar pairs, or their mean outer product."""
    differences = _differences(items, table, pairs, full)
    if full:
        return np.asarray(differences.T @ differences / len(pairs))
    return np.asarray(differences.mean(axis=0))


def _differences(items: Compared, table: PairTable, pairs: Integers, full: bool) -> Floats:
    """Differences of vectors (full), or squared features (diagonal) where a missing one is the mean of its kind."""
    if full:
        assert isinstance(items, Vectors)
        return items.values[table.left[pairs]] - items.values[table.right[pairs]]
    squares = pair_features(items)[pairs].astype(np.float64) ** 2
    missing = np.isnan(squares)
    counts = np.maximum((~missing).sum(axis=0), 1)
    return np.where(missing, np.where(missing, 0.0, squares).sum(axis=0) / counts, squares)
