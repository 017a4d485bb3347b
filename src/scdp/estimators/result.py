"""What a clustering leaves for reports and files: records, their clusters, how sure each is, and what was learned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Floats, Integers
from scdp.blocking.by_size import BlockingReport
from scdp.blocking.index import Oversized
from scdp.errors import InputError
from scdp.posterior import Posterior
from scdp.posterior.io import make_pandas, make_polars, plot_reliability, plot_steps, rows_to_html
from scdp.table import Records
from scdp.table.spec import Spec
from scdp.table.spec_files import in_words
from scdp.texts import number_values

# Comparisons that a picture has room for.
MOST_WEIGHTS = 24


@dataclass(frozen=True)
class Calibration:
    """Pairs of held-out training records by predicted probability of being together, bin by bin.

    Bin b holds the pairs with `edges[b]` <= probability < `edges[b + 1]` (the last one includes 1): their number,
    the mean `predicted` probability and the `observed` share that is truly together (both NaN in an empty bin).
    """

    edges: Floats
    predicted: Floats
    observed: Floats
    count: NDArray[np.int64]

    @classmethod
    def of(cls, probabilities: Floats, together: NDArray[np.bool_], n_bins: int = 10) -> Self:
        """The table of pairs with their predicted probability, and whether they are truly together."""
        edges = np.linspace(0.0, 1.0, n_bins + 1)
        place = np.clip(np.searchsorted(edges, probabilities, side="right") - 1, 0, n_bins - 1)
        count = np.bincount(place, minlength=n_bins)
        with np.errstate(invalid="ignore"):
            predicted = np.bincount(place, probabilities, n_bins) / count
            observed = np.bincount(place, together.astype(np.float64), n_bins) / count
        return cls(edges, predicted, observed, count.astype(np.int64))


@dataclass(frozen=True)
class Learned:
    """What a fitted model has learned, for people. None where the model has no such thing.

    `weights` is (reference types, features): the precision of each type in each feature, in units in which half
    the mean squared distance of the training records is 1; `type_shares` is the share of records of each type,
    the most common first. `n_repeated` is how many labelled clusters have two records or more,
    `partners` how many others of its cluster a labelled record has in the mean.
    """

    model: str
    features: tuple[str, ...]
    n_records: int
    n_clusters: int
    weights: Floats | None = None
    type_shares: Floats | None = None
    calibration: Calibration | None = None
    n_repeated: int | None = None
    partners: float | None = None


@dataclass(frozen=True)
class UncertainPair:
    """Two records, by row, whose probability of being together is far from both 0 and 1."""

    left: int
    right: int
    probability: float
    together: bool


@dataclass(frozen=True)
class ClusterResult:
    """One clustering of `records`: row by row its id, the name of its cluster and the probability of membership.

    The items of `posterior` are the rows of `records`, in order; its `hidden` ones are those whose cluster was
    asked for, the others were given. `independent_draws` tells that draws come from no Markov chain, so that
    traces and R-hat mean nothing. `uncertain` has the least certain pair first. `numbers` are those of the clusters,
    where they are at hand: names of a million records take seconds to tell apart.
    """

    title: str
    records: Records
    ids: NDArray[Any]
    id_column: str | None
    labels: NDArray[Any]
    probabilities: Floats
    posterior: Posterior
    spec: Spec | None
    learned: Learned
    uncertain: tuple[UncertainPair, ...] = field(default=())
    independent_draws: bool = False
    numbers: Integers | None = None

    @property
    def n_records(self) -> int:
        return len(self.ids)

    @cached_property
    def codes(self) -> NDArray[np.int64]:
        """The number of each row's cluster, in the order in which they appear."""
        if self.numbers is not None:
            return number_values(self.numbers)[0].astype(np.int64)
        names = self.labels.tolist()
        distinct = dict.fromkeys(names)
        places = dict(zip(distinct, range(len(distinct)), strict=True))
        return np.fromiter(map(places.__getitem__, names), np.int64, len(names))

    @property
    def n_clusters(self) -> int:
        return int(self.codes.max(initial=-1)) + 1

    @cached_property
    def expected(self) -> dict[str, dict[str, float]]:
        """Precision, recall, F and more of the answer if each draw were the truth: mean and 90 % interval."""
        return self.posterior.expected_metrics(self.codes)

    @cached_property
    def verdict(self) -> Verdict:
        """How far the result can be trusted, and why."""
        return judge(self)

    def summary(self) -> dict[str, Any]:
        """What `summary.json` holds."""
        low, high = self.posterior.n_clusters_interval(LEVEL)
        return {
            "n_records": self.n_records,
            "n_known": self.n_known,
            "n_clusters": self.n_clusters,
            "n_clusters_interval": [low, high],
            "interval_level": LEVEL,
            "n_uncertain_pairs": len(self.uncertain),
            "verdict": self.verdict.colour,
            "verdict_reasons": list(self.verdict.reasons),
            "expected": {name: self.expected[name] for name in ("precision", "recall", "f")},
            **describe_blocking(self.posterior.blocking),
        }

    def to_pandas(self) -> Any:
        """The clusters with all cells of their records.

        Returns
        -------
        pandas.DataFrame
            One row for each record: the columns of the table, "cluster" and "probability". A column of the table of one
            of these names is called by it and "_given".
        """
        return make_pandas(self.columns)

    def to_polars(self) -> Any:
        """As `to_pandas`.

        Returns
        -------
        polars.DataFrame
        """
        return make_polars(self.columns)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The comparisons that the model has learned, in words where there is a spec."""
        spec, names = self.spec, self.learned.features
        if spec is None or len(spec.fields) != len(names):
            return names
        return tuple(in_words(field) for field in spec.fields)

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """What `to_pandas` shows."""
        return add_clusters(self.records, self.labels, self.probabilities)

    def plot_reliability(self, ax: Any = None) -> Any:
        """Draw how often held-out pairs of each probability are truly together (needs the extra "plots").

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; new ones, unless given.

        Returns
        -------
        matplotlib axes
        """
        held_out = self.learned.calibration
        if held_out is None:
            raise InputError("the model held no labelled clusters out; its reliability cannot be drawn")
        return plot_reliability(held_out.predicted, held_out.observed, held_out.count, ax)

    def plot_weights(self, ax: Any = None) -> Any:
        """Draw how much each comparison counts, the mean over types where there are several (needs "plots").

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; new ones, unless given.

        Returns
        -------
        matplotlib axes
        """
        learned = self.learned
        if learned.weights is None:
            raise InputError(f"the model {learned.model} has no weights for comparisons")
        weights = np.average(learned.weights, axis=0, weights=learned.type_shares)
        order = np.argsort(-weights, kind="stable")[:MOST_WEIGHTS]
        names = [self.feature_names[k] for k in order.tolist()]
        return plot_steps(names, np.zeros(len(order)), weights[order], "how much it counts", ax)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return summary_to_html(self.title, self.summary())

    @property
    def n_known(self) -> int:
        """Records whose cluster was given, not found."""
        return self.n_records - len(self.posterior.hidden)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many records each cluster has, the largest first."""
        return np.sort(np.bincount(self.codes))[::-1].astype(np.int64)


def add_clusters(records: Records, labels: NDArray[Any], probabilities: Floats) -> dict[str, NDArray[Any]]:
    """The columns of records, and beside them their clusters and how sure these are."""
    own: dict[str, NDArray[Any]] = {"cluster": labels, "probability": probabilities}
    given = {f"{name}_given" if name in own else name: cells for name, cells in records.columns.items()}
    return given | own


def summary_to_html(title: str, summary: Mapping[str, Any]) -> str:
    """A small table of what `summary.json` holds, the verdict on top."""
    low, high = summary["n_clusters_interval"]
    rows = {
        title: WORDS[summary["verdict"]],
        "Why": " ".join(summary["verdict_reasons"]),
        "Records": f"{summary['n_records']:,}",
        "Clusters": f"{summary['n_clusters']:,} (90 % interval {low:,} to {high:,})",
    }
    for name, words in (("f", "Expected F"), ("precision", "Precision"), ("recall", "Recall")):
        found = summary["expected"][name]
        rows[words] = f"{found['mean']:.3f} (90 % interval {found['low']:.3f} to {found['high']:.3f})"
    return rows_to_html(rows)


Colour = Literal["green", "amber", "red"]

LEVEL = 0.9
# Labelled clusters of two records or more: fewer than the first number teach hardly anything, than the second little.
VERY_FEW, FEW = 5, 20
# Expected F of the answer below which it is not to be trusted, or with care; and below which it is not to be trusted
# without labels, if the number of clusters is well known: nobody has told there which true pairs may be missed.
POOR, FAIR, FAIR_UNTOLD = 0.7, 0.9, 0.8
# The width of the interval of the number of clusters as a share of it.
VERY_WIDE, WIDE = 0.3, 0.08
# Without labels it is wider by itself.
WIDE_UNTOLD = 0.15
# Of a handful of clusters, one or two more or fewer are a large share, and no reason to throw the answer away.
HANDFUL = 5
# A cluster with this share of all records, and so many, holds records together by a chain of doubtful links.
HAIRBALL_SHARE, HAIRBALL_RECORDS = 0.25, 100
# Labelled records are unlike others if they have so many times more partners; with so few partners nothing is said.
UNLIKE, LEAST_PARTNERS, FEWEST_RECORDS = 3.0, 0.02, 50
# The share of true pairs that blocking keeps, below which the answer is to be taken with care, or not to be relied on.
FEW_KEPT, VERY_FEW_KEPT = 0.95, 0.8
# A bin of fewer held-out pairs says little; one this far from what was predicted is off.
FEWEST_PAIRS, LARGEST_GAP = 20, 0.15


@dataclass(frozen=True)
class Verdict:
    """How far a result can be trusted, and why."""

    colour: Colour
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return f"{WORDS[self.colour]} {' '.join(self.reasons)}"


WORDS = {
    "green": "Green: the answer and its interval can be trusted.",
    "amber": "Amber: take the answer with care.",
    "red": "Red: do not rely on this answer.",
}


def describe_blocking(report: BlockingReport | None) -> dict[str, Any]:
    """What `summary.json` holds of pairs that were not compared; nothing where all were."""
    if report is None:
        return {}
    blocks = [
        {
            "rule": one.rule,
            "blocks": one.n_blocks,
            "records": one.n_records,
            "largest": one.largest,
            "largest_value": one.value,
        }
        for one in report.oversized
    ]
    recall = None if np.isnan(report.recall) else round(report.recall, 4)
    return {"blocking": {"expected_recall": recall, "blocks_above_bound": blocks}}


def read_blocking_report(summary: Mapping[str, Any]) -> BlockingReport | None:
    """What `describe_blocking` put into a summary."""
    if "blocking" not in summary:
        return None
    recall, blocks = (summary["blocking"][name] for name in ("expected_recall", "blocks_above_bound"))
    oversized = tuple(
        Oversized(one["rule"], one["blocks"], one["records"], one["largest"], one["largest_value"]) for one in blocks
    )
    return BlockingReport(np.nan if recall is None else float(recall), oversized)


def judge(result: ClusterResult) -> Verdict:
    """The verdict on a clustering of records."""
    found = [
        *_judge_labels(result),
        *_judge_choice_of_labels(result),
        *_judge_interval(result),
        *_judge_expected(result),
        *_judge_sizes(result),
        *_judge_held_out(result.learned.calibration),
        *_judge_chains(result),
        *_judge_blocking(result.posterior.blocking),
    ]
    if not found:
        low, high = result.posterior.n_clusters_interval(LEVEL)
        return Verdict("green", (f"The number of clusters lies between {low:,} and {high:,} (90 %).",))
    colour: Colour = "red" if any(grave for grave, _ in found) else "amber"
    ordered = [reason for grave, reason in found if grave] + [reason for grave, reason in found if not grave]
    return Verdict(colour, tuple(ordered))


Reason = tuple[bool, str]


def _judge_labels(result: ClusterResult) -> Iterator[Reason]:
    n = result.learned.n_repeated
    if n is None or n >= FEW:
        return
    wanted = max(FEW - n, 1)
    if n == 0:
        said = f"No labelled cluster has two records or more; label about {wanted} such clusters."
    else:
        said = f"Only {n} labelled clusters have two records or more; label about {wanted} more such clusters."
    # Where the evidence is plain, typical curves do without labels.
    low, high = result.posterior.n_clusters_interval(LEVEL)
    needed = FAIR_UNTOLD if high - low <= WIDE_UNTOLD * result.n_clusters else FAIR
    yield n < VERY_FEW and not result.expected["f"]["mean"] >= needed, said


def _judge_choice_of_labels(result: ClusterResult) -> Iterator[Reason]:
    """People label duplicates: where labelled records have far more partners than others, say what that means."""
    labelled, n = result.learned.partners, result.n_records
    if labelled is None or n < FEWEST_RECORDS:
        return
    found = float((result.sizes * (result.sizes - 1.0)).sum()) / n
    if max(labelled, LEAST_PARTNERS) > UNLIKE * max(found, LEAST_PARTNERS):
        yield (
            False,
            f"Labelled records have {labelled:.1f} others of their cluster in the mean, the clustered ones "
            f"{found:.1f}: how many duplicates there are rests on the table alone. Label some records at random.",
        )


def _judge_interval(result: ClusterResult) -> Iterator[Reason]:
    low, high = result.posterior.n_clusters_interval(LEVEL)
    n = result.n_clusters
    if not low <= n <= high:
        off = max(low - n, n - high) / max(n, 1)
        yield off > WIDE, f"The answer has {n:,} clusters, outside its own 90 % interval of {low:,} to {high:,}."
    width = (high - low) / max(n, 1)
    if width > WIDE and high - low > 2:
        grave = width > VERY_WIDE and high - low > HANDFUL and not result.expected["f"]["mean"] >= FAIR
        said = f"The number of clusters is not well known: {low:,} to {high:,} (90 %). More labels make it narrower."
        yield grave, said


def _judge_expected(result: ClusterResult) -> Iterator[Reason]:
    expected = result.expected["f"]["mean"]
    if expected < FAIR:
        yield expected < POOR, f"The expected F of the answer is {expected:.2f}: many pairs could be the same or not."


def _judge_sizes(result: ClusterResult) -> Iterator[Reason]:
    largest = int(result.sizes[0]) if len(result.sizes) else 0
    if largest < HAIRBALL_RECORDS or largest < HAIRBALL_SHARE * result.n_records:
        return
    members = np.flatnonzero(result.codes == int(np.argmax(np.bincount(result.codes))))
    if float(result.probabilities[members].mean()) <= LEVEL:
        yield True, f"One cluster holds {largest:,} of {result.n_records:,} records by doubtful links."


def _judge_blocking(report: BlockingReport | None) -> Iterator[Reason]:
    """Pairs that were never compared are lost, whatever the draws say."""
    if report is not None and report.recall < FEW_KEPT:
        yield (
            report.recall < VERY_FEW_KEPT,
            f"Of the true pairs about {1.0 - report.recall:.0%} were never compared: there are too many "
            "records for what tells them apart. Columns that identify, such as a phone or a code, would help.",
        )


def _judge_held_out(calibration: Calibration | None) -> Iterator[Reason]:
    if calibration is None:
        return
    # Pairs that are as good as certain are easy: only those in doubt tell whether probabilities hold.
    inner = np.flatnonzero(calibration.count >= FEWEST_PAIRS)
    inner = inner[(calibration.edges[inner] >= 0.1) & (calibration.edges[inner + 1] <= 0.9)]
    if not len(inner):
        return
    weight = calibration.count[inner]
    gap = float((weight * (calibration.predicted[inner] - calibration.observed[inner])).sum() / weight.sum())
    if abs(gap) > LARGEST_GAP:
        side = "too high" if gap > 0 else "too low"
        yield False, f"On held-out labelled clusters, probabilities in doubt were {side} by {abs(gap):.2f}."


def _judge_chains(result: ClusterResult) -> Iterator[Reason]:
    problem = None if result.independent_draws else result.posterior.convergence_warning()
    if problem is not None:
        yield False, problem
