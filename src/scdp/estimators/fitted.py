"""The surface every fitted model shows, whatever it has learned: it can be stored, described and explained.

A model that needs its training rows at prediction and one that needs only a few parameters look the same from here.

Reliability. Held-out labelled clusters show how often pairs of a given probability are truly together. A line through
the log-odds (an offset and a slope) says what a probability should have been, and a share says which true pairs have
none. Both are unsure: the fewer labelled clusters, the more. Each draw is taken with a line and a share of its own
from what is possible.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Arrays, Floats, SmallIntegers
from scdp.estimators.inputs import Compared, Pair, Rows
from scdp.estimators.result import Calibration, Learned
from scdp.io.atomic import PlainParts, array_part
from scdp.partitions import canonical_labels
from scdp.posterior import restrict_draws
from scdp.posterior.draws import StoredDraws
from scdp.posterior.pairs import find_pairs_between
from scdp.posterior.summaries import Counts

# Before any label is seen: how far the offset and the slope of a learned law may be off.
OFFSET_SPREAD, SLOPE_SPREAD = 0.7, 0.25
# The bin of pairs that are as good as certain not to be together says which true pairs are missed.
LOWEST = 0.1
# Before any label is seen, true pairs that are missed are few: as if none had been among these clusters.
PRIOR_CLUSTERS = 5.0
# A smaller share of true pairs that blocking loses is none.
LEAST_LOST = 1e-3
# Draws share one model, and do not know where it is wrong: over the development sets the number of clusters is off by
# so much more than they say; and by that much more again before any label is seen, when nothing tells how well curves
# that are typical fit the table.
COUNT_SPREAD, UNTOLD_SPREAD = 1.25, 0.75
STEPS = 30
MOST_PAIRS, SOME_ITEMS = 5_000_000, 4000
MOST_DRAWS = 400
CALIBRATION = ("edges", "predicted", "observed", "count")


@dataclass(frozen=True, eq=False)
class Reliability:
    """The line through the log-odds, (offset, slope) with its covariance, and the missed share as a Beta(a, b).

    `unlikely` is about pairs that are most likely apart: how many of them were together, and how many were expected.
    `lost` is the share of true pairs that blocking never proposed, as a Beta(a, b); None where all were compared.
    """

    line: Floats
    covariance: Floats
    missed: tuple[float, float]
    unlikely: tuple[float, float] = (0.0, 0.0)
    lost: tuple[float, float] | None = None

    @classmethod
    def of(cls, calibration: Calibration | None, n_clusters: int | None, kept_by_blocking: float | None = None) -> Self:
        """From pairs of held-out labelled clusters, so many of which have two records or more.

        `kept_by_blocking` is the share of true pairs that blocking is expected to propose; NaN where nobody knows.
        """
        lost = _say_lost(kept_by_blocking, n_clusters)
        prior = np.diag([OFFSET_SPREAD**-2.0, SLOPE_SPREAD**-2.0])
        if calibration is None or not n_clusters or not calibration.count.sum():
            return cls(
                np.array([0.0, 1.0]), np.asarray(np.linalg.inv(prior), np.float64), (0.5, PRIOR_CLUSTERS), lost=lost
            )
        full = calibration.count > 0
        count, predicted, observed = (
            np.where(full, values, 0.0) for values in (calibration.count, calibration.predicted, calibration.observed)
        )
        together = float((count * observed).sum())
        # Pairs of one cluster are right or wrong together: clusters are counted, not pairs.
        weight = min(1.0, n_clusters / together) if together > 0 else 1.0
        used = full & (calibration.edges[:-1] >= LOWEST - 1e-9)
        line, curvature = _fit_line(predicted[used], observed[used], weight * count[used], prior)
        low = full & ~used
        were, expected = (weight * float((count[low] * each[low]).sum()) for each in (observed, predicted))
        excess = max(were - expected, 0.0)
        return cls(
            line,
            np.asarray(np.linalg.inv(curvature), np.float64),
            (excess + 0.5, max(n_clusters - excess, 0.0) + PRIOR_CLUSTERS),
            lost=lost,
        )

    def to_words(self) -> dict[str, list[float]]:
        """Numbers by name, for a file."""
        return {
            "line": self.line.tolist(),
            "covariance": self.covariance.ravel().tolist(),
            "missed": list(self.missed),
            "unlikely": list(self.unlikely),
            "lost": [] if self.lost is None else list(self.lost),
        }

    @classmethod
    def from_words(cls, words: dict[str, list[float]]) -> Self:
        """What `to_words` gave; ValueError for anything else."""
        line, covariance = np.array(words["line"], float), np.array(words["covariance"], float).reshape(2, 2)
        missed, unlikely = ((float(words[name][0]), float(words[name][1])) for name in ("missed", "unlikely"))
        lost = (float(words["lost"][0]), float(words["lost"][1])) if words["lost"] else None
        numbers = [*line, *covariance.ravel(), *missed, *unlikely, *(lost or ())]
        if line.shape != (2,) or not np.isfinite(numbers).all() or min(*missed, *(lost or missed)) <= 0:
            raise ValueError("no reliability")
        return cls(line, covariance, missed, unlikely, lost)

    def adjust(self, stored: StoredDraws, labels: SmallIntegers, counts: Counts) -> Counts:
        """What is counted of canonical labels against each draw, as it may truly be."""
        part, answer, scale = stored, labels, 1.0
        largest = np.bincount(labels).max(initial=0)
        if largest * stored.n_items / 2 > MOST_PAIRS:
            # Pairs of some items stand for those of all.
            items = np.random.default_rng(0).choice(stored.n_items, min(SOME_ITEMS, stored.n_items), replace=False)
            part, answer = restrict_draws(stored, items), canonical_labels(labels[items])
            scale = (stored.n_items / len(items)) ** 2
        levels = weigh_pairs(part, answer)
        return self._shift(counts, levels, scale, stored.n_items)

    def widen(self, low: int, high: int, n_items: int) -> tuple[int, int]:
        """An interval of the number of clusters, wider by what draws do not know.

        It is widened on the scale of log-odds of a record being one too many, so that it stays within 1 and all. Each
        link that blocking lost may have been the only one of a record.
        """
        ends = [np.log((n_items - each + 0.5) / (each + 0.5)) for each in (low, high)]
        # What is missed was seen in so many labelled clusters, beside those that stand for the prior.
        spread = COUNT_SPREAD + UNTOLD_SPREAD * (0.5 + PRIOR_CLUSTERS) / max(sum(self.missed), 0.5 + PRIOR_CLUSTERS)
        middle, half = sum(ends) / 2.0, spread * (ends[0] - ends[1]) / 2.0
        wide = [(n_items + 0.5 - 0.5 * odds) / (1.0 + odds) for odds in np.exp([middle + half, middle - half])]
        if self.lost is not None:
            wide[0] -= self.lost[0] / sum(self.lost) * max(n_items - wide[0], 0.0)
        lowest, highest = int(np.floor(wide[0] + 1e-6)), int(np.ceil(wide[1] - 1e-6))
        return min(max(lowest, 1), low), max(min(highest, n_items), high)

    def _shift(self, counts: Counts, levels: PairLevels, scale: float, n_items: int) -> Counts:
        rng = np.random.default_rng(0)
        n = len(counts.right)
        offset, slope = rng.multivariate_normal(self.line, self.covariance, n).T
        missed = rng.beta(*self.missed, n)
        if self.lost is not None:
            missed = 1.0 - (1.0 - missed) * (1.0 - rng.beta(*self.lost, n))
        # (draw, level): how much more likely pairs of a level are than the draws say.
        change = 1.0 / (1.0 + np.exp(-(offset[:, None] + np.maximum(slope, 0.05)[:, None] * levels.log_odds)))
        change -= levels.probability
        # Of pairs that are most likely apart, fewer may be together than the draws say; more are counted as missed.
        were, expected = self.unlikely
        share = np.minimum(rng.gamma(were + 1.0, 1.0, n) / (expected + 1.0), 1.0)
        low = levels.probability < LOWEST
        change[:, low] = (share - 1.0)[:, None] * levels.probability[low]
        # Pairs are counted whole: a small chance of being wrong leaves most small tables without a wrong pair.
        by_right, by_true = scale * change @ levels.linked, scale * change @ levels.all
        right = np.clip(np.floor(counts.right + by_right + rng.random(n)), 0.0, counts.links)
        true = np.maximum(np.floor(counts.true + by_true + rng.random(n)), right)
        unseen = rng.poisson(true * missed / (1.0 - missed))
        true += unseen
        part = np.divide(right - counts.right, by_right, out=np.zeros(n), where=np.abs(by_right) > 1e-9)
        precision = np.clip(counts.b_cubed_precision + np.clip(part, 0.0, 2.0) * (change @ levels.b_cubed), 1e-6, 1.0)
        moved = _log_odds(_ratio(right, true)) - _log_odds(_ratio(counts.right, counts.true))
        recall = np.where(
            moved == 0.0, counts.b_cubed_recall, 1.0 / (1.0 + np.exp(-(_log_odds(counts.b_cubed_recall) + moved)))
        )
        recall = np.where(right == true, 1.0, recall)
        n_clusters = counts.n_clusters * np.exp(-np.sqrt(scale) * (change @ levels.merging) / counts.n_clusters)
        # Two clusters of a draw that are one have as many unseen pairs as their sizes multiply to.
        n_clusters = np.rint(n_clusters - unseen * (n_clusters / max(n_items, 1)) ** 2)
        return Counts(right, true, counts.links, precision, recall, np.clip(n_clusters, 1.0, n_items))


def _say_lost(kept: float | None, n_clusters: int | None) -> tuple[float, float] | None:
    """As sure as so many labelled clusters can be of a share; where nobody knows it, as without labels."""
    if kept is None:
        return None
    seen = max(float(n_clusters or 0), PRIOR_CLUSTERS)
    if np.isnan(kept):
        return 0.5, PRIOR_CLUSTERS
    return None if kept > 1.0 - LEAST_LOST else ((1.0 - kept) * seen, kept * seen)


def _fit_line(predicted: Floats, observed: Floats, count: Floats, prior: Floats) -> tuple[Floats, Floats]:
    """Offset and slope of highest posterior density by Newton's method, and the curvature there."""
    line, x = np.array([0.0, 1.0]), np.column_stack([np.ones(len(predicted)), _log_odds(predicted)])
    centre, curvature = line.copy(), prior
    for _ in range(STEPS):
        found = 1.0 / (1.0 + np.exp(-x @ line))
        curvature = prior + (x * (count * found * (1.0 - found))[:, None]).T @ x
        slope = x.T @ (count * (observed - found)) - prior @ (line - centre)
        line = line + np.linalg.solve(curvature, slope)
    return line, curvature


def _ratio(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.ones_like(part), where=whole > 0.0)


def _log_odds(probability: Floats) -> Floats:
    kept = np.clip(probability, 1e-4, 1.0 - 1e-4)
    return np.log(kept / (1.0 - kept))


class PairLevels(NamedTuple):
    """By level of probability: the pairs linked by an answer and all pairs, and their weights.

    A change c of the probabilities of a level changes the right links by c * `linked`, the true pairs by c * `all`,
    B-cubed precision by c * `b_cubed`, and the number of clusters by about -c * `merging`.
    """

    probability: Floats
    log_odds: Floats
    linked: Floats
    all: Floats
    b_cubed: Floats
    merging: Floats


def weigh_pairs(stored: StoredDraws, labels: SmallIntegers) -> PairLevels:
    """The levels of pairs of which at least one item is hidden."""
    chosen = stored.choose_draws(MOST_DRAWS)
    left, right, share = find_pairs_between(stored, chosen, 1e-9, 1.0)
    judged = (stored.known[left] < 0) | (stored.known[right] < 0)
    left, right, share = left[judged], right[judged], share[judged]
    n_draws = len(chosen)
    level, size = np.rint(share * n_draws).astype(np.int64), n_draws + 1
    together = labels[left] == labels[right]
    sizes = np.bincount(labels)
    partners = 1.0 + np.bincount(left, share, stored.n_items) + np.bincount(right, share, stored.n_items)
    merging = partners[left] ** -2.0 + partners[right] ** -2.0
    b_cubed = 2.0 * together / np.maximum(sizes[labels[left]], 1) / max(len(stored.hidden), 1)
    probability: Floats = (np.arange(size, dtype=np.float64) + 0.5) / (n_draws + 1.0)
    sums = [
        np.bincount(level, weight, size).astype(np.float64)
        for weight in (together.astype(np.float64), np.ones(len(level)), b_cubed, merging)
    ]
    return PairLevels(probability, np.log(probability / (1.0 - probability)), *sums)


class Fitted(Protocol):
    """What a model keeps of its training.

    The words of `to_parts` are plain JSON. Two keys are written as files of their own: "spec", the TOML text of
    the fitted spec, and "records", a list of rows (dicts of texts). `independent_draws` tells that draws of its
    predictions come from no Markov chain. `labels` are those of all rows of `fit`; `rows` and `groups` are of
    those that are kept, which are all or none.
    """

    @property
    def independent_draws(self) -> bool: ...

    @property
    def rows(self) -> Rows: ...

    @property
    def labels(self) -> NDArray[np.int64]: ...

    @property
    def groups(self) -> NDArray[Any] | None: ...

    @property
    def features(self) -> tuple[str, ...]: ...

    @property
    def seed(self) -> int: ...

    def with_labels(self, labels: NDArray[np.int64]) -> Self:
        """The same with the clusters that all rows of `fit` have got."""
        ...

    def to_parts(self) -> tuple[PlainParts, Arrays]: ...

    @classmethod
    def from_parts(cls, words: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self: ...

    def learned(self) -> Learned: ...


class Contributions(NamedTuple):
    """What comparisons say of pairs: distances and contributions are (pair, comparison), NaN where a value is missing.

    `start` (any two records) and the contributions of a pair add up to its `log_odds`. `findings` are what the
    comparisons of a single pair find, in words.
    """

    distances: NDArray[np.float64]
    contributions: NDArray[np.float64]
    start: NDArray[np.float64]
    log_odds: NDArray[np.float64]
    findings: tuple[tuple[str, ...], ...] = ()


@runtime_checkable
class ComparesItself(Protocol):
    """A fitted model that compares two records by itself, among the others of their table."""

    def compare_two(self, rows: Compared, i: int, j: int) -> Pair:
        """The two side by side, with what each comparison says."""
        ...

    def weigh_pairs(self, rows: Compared, left: NDArray[np.int64], right: NDArray[np.int64]) -> Contributions:
        """What each comparison says of pairs of records."""
        ...


@runtime_checkable
class Contributing(Protocol):
    """A fitted model whose evidence on a pair follows from its distances alone."""

    def contributions(self, distances: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log-odds for being together by feature, of distances in the units given (NaN = missing)."""
        ...


def calibration_to_parts(calibration: Calibration | None) -> Arrays:
    """The table of held-out pairs, as arrays."""
    if calibration is None:
        return {}
    # Bins without pairs have no mean, which a stored model may not hold.
    return {f"calibration.{name}": np.nan_to_num(getattr(calibration, name)) for name in CALIBRATION}


def calibration_from_parts(arrays: Mapping[str, NDArray[Any]]) -> Calibration | None:
    """The table that was stored, or none."""
    if "calibration.edges" not in arrays:
        return None
    edges = array_part(arrays, "calibration.edges", (None,))
    n = len(edges) - 1
    count = array_part(arrays, "calibration.count", (n,), "i")
    predicted, observed = (
        np.where(count == 0, np.nan, array_part(arrays, f"calibration.{name}", (n,)))
        for name in ("predicted", "observed")
    )
    return Calibration(edges, predicted, observed, count)
