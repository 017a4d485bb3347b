"""Why two records are or are not together: a pair and a fitted model enter; evidence by feature leaves, in words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Features, Floats, Groups, Integers
from scdp.compare.features import Comparer
from scdp.errors import InputError
from scdp.estimators.chains_fit import ChainsFit
from scdp.estimators.checks import join_groups
from scdp.estimators.fitted import ComparesItself, Contributing, Contributions, Fitted
from scdp.estimators.inputs import Compared, Pair, spec_of
from scdp.linkage import Ensemble
from scdp.posterior.io import plot_steps
from scdp.table.spec_files import in_words

# Evidence in log-odds below which a feature is said to say little, and above which to say a lot.
LITTLE, MUCH = 0.5, 3.0
# How far from one half a probability is still undecided, and how far it is sure.
UNDECIDED, SURE = 0.1, 0.45
LONGEST_VALUE = 60
NEGLIGIBLE_WEIGHT = 0.005


@dataclass(frozen=True)
class FeatureEvidence:
    """One feature: its name in words, the two values (None = missing or unknown), and what it says.

    `distance` is in the units of the comparison, None where a value is missing; `contribution` is in log-odds, above
    0 where the feature speaks for the two being together. `finding` is what the comparison finds, in words, such as
    "the same phone, which no other record has", and `columns` where; None of vectors and distances.
    """

    name: str
    first: str | None
    second: str | None
    distance: float | None
    contribution: float
    finding: str | None = None
    columns: str | None = None


@dataclass(frozen=True)
class TypeEvidence:
    """A reference type (numbered from 1, the commonest first) and how likely either record was written in it."""

    number: int
    first: float
    second: float


class WaterfallStep(NamedTuple):
    """A bar of a waterfall: from the log-odds before to those after."""

    name: str
    before: float
    after: float


@dataclass(frozen=True)
class Explanation:
    """Why two records are or are not together; `str()` tells it in words.

    `start` (any two records) and the contributions add up to `log_odds`, those of the two records alone, where the
    model says them.
    """

    first: str
    second: str
    probability: float
    features: tuple[FeatureEvidence, ...]
    types: tuple[TypeEvidence, ...] = ()
    start: float = 0.0
    log_odds: float | None = None

    @property
    def contribution(self) -> float:
        """What all features say together, each judged on its own."""
        return sum(feature.contribution for feature in self.features)

    def steps(self) -> list[WaterfallStep]:
        """What a waterfall shows: the start, each feature by its size, and the sum, as steps of the log-odds."""
        total = self.contribution + self.start if self.log_odds is None else self.log_odds
        found, at = [WaterfallStep("any two records", 0.0, self.start)], self.start
        for feature in sorted(self.features, key=lambda each: -abs(each.contribution)):
            found.append(WaterfallStep(feature.name, at, at + feature.contribution))
            at += feature.contribution
        return [*found, WaterfallStep("these two", 0.0, total)]

    def plot_waterfall(self, ax: Any = None) -> Any:
        """Draw what each comparison adds to the log-odds or takes away (needs the extra "plots").

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; new ones, unless given.

        Returns
        -------
        matplotlib axes
        """
        steps = self.steps()
        before, after = np.array([step[1:] for step in steps]).T
        names = [step.name for step in steps]
        axes = plot_steps(names, before, after, "log-odds (above 0: together)", ax)
        axes.axvline(0.0, color="0.6")
        axes.set(title=f"{self.first} and {self.second}")
        return axes

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return f"<pre>{escape(str(self))}</pre>"

    def __str__(self) -> str:
        return "\n".join([*self._verdict(), "", *self._fields(), "", *self._sum(), *self._types()])

    def _verdict(self) -> Iterator[str]:
        yield f"{self.first} and {self.second}: {_likely(self.probability)}."
        yield f"The probability that they are together is {self.probability:.3f}."

    def _fields(self) -> Iterator[str]:
        yield "What each comparison says (log-odds: above 0 for together, below 0 for apart):"
        ordered = sorted(self.features, key=lambda each: -abs(each.contribution))
        for feature in ordered:
            if feature.finding is None:
                yield f"  {feature.contribution:+7.2f}  {feature.name}: {_finding(feature)}"
            else:
                where = f"{feature.columns or feature.name}{_values(feature, ': ')}"
                yield f"  {_tell(feature)}: {_signed(feature.contribution)} ({where})"

    def _sum(self) -> Iterator[str]:
        total = self.contribution if self.log_odds is None else self.log_odds
        if self.log_odds is not None:
            yield f"  any two records of this table: {_signed(self.start)}"
        side = "for together" if total >= 0 else "for apart"
        odds = f"{math.exp(min(abs(total), 50)):,.1f} to 1" if abs(total) < 12 else "overwhelming odds"
        yield f"The two records alone: {total:+.2f}, {odds} {side}."
        yield "The probability above also weighs all other records, and how many clusters there should be."

    def _types(self) -> Iterator[str]:
        if not self.types:
            return
        yield "Reference types (ways of writing), with the weight each has for this pair:"
        for kind in self.types:
            if max(kind.first, kind.second) >= NEGLIGIBLE_WEIGHT:
                yield (f"  type {kind.number}: {kind.first:.0%} for {self.first}, {kind.second:.0%} for {self.second}")


def _likely(probability: float) -> str:
    if abs(probability - 0.5) < UNDECIDED:
        return "could be the same or not"
    side = "the same" if probability > 0.5 else "different"
    return f"{side}, {'almost surely' if abs(probability - 0.5) > SURE else 'most likely'}"


def _signed(log_odds: float) -> str:
    return f"{log_odds:+.1f}" if abs(log_odds) >= 0.05 else "0.0"


def _tell(feature: FeatureEvidence) -> str:
    """What a comparison finds; of missing values, where they are missing."""
    if feature.distance is not None or feature.finding is None:
        return feature.finding or ""
    n_missing = (feature.first is None) + (feature.second is None)
    return ("nothing that can be compared", "missing in one", "missing in both")[n_missing]


def _finding(feature: FeatureEvidence) -> str:
    if feature.distance is not None:
        return f"distance {feature.distance:.3g}{_values(feature, ', ')}; {_says(feature.contribution)}"
    if feature.first is None and feature.second is None:
        return f"missing in both; {_says(feature.contribution)}"
    return f"{_values(feature)}; {_says(feature.contribution)}"


def _says(contribution: float) -> str:
    strength = abs(contribution)
    if strength == 0:
        return "says nothing"
    how = "little" if strength < LITTLE else "a lot" if strength > MUCH else "something"
    return f"says {how} for {'together' if contribution > 0 else 'apart'}"


def _values(feature: FeatureEvidence, before: str = "") -> str:
    if feature.first is None and feature.second is None:
        return ""
    if feature.first == feature.second:
        return f"{before}both {_short(feature.first)}"
    return f"{before}{_short(feature.first)} and {_short(feature.second)}"


def _short(value: str | None) -> str:
    if value is None:
        return "nothing"
    # Control characters, among them those that turn the writing round, are shown as escapes.
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in value)
    return '"' + (shown if len(shown) <= LONGEST_VALUE else shown[: LONGEST_VALUE - 1] + "…") + '"'


def check_pair(i: int, j: int, n: int, groups: Groups, names: tuple[str, str]) -> None:
    """Refuse two of n rows that cannot be explained."""
    for row in (i, j):
        if not 0 <= row < n:
            raise InputError(f"there is no row {row}: rows are numbered from 0 to {n - 1}")
    if i == j:
        raise InputError(f"row {i} is compared with itself; give two different rows")
    if groups is not None and groups[i] != groups[j]:
        raise InputError(
            f"{names[0]} and {names[1]} are in different groups, {groups[i]} and {groups[j]}, and never "
            "together; give two records of one group"
        )


def pair_among(fitted: Fitted, new: Any, groups: Groups, i: int, j: int) -> Pair:
    """Rows i and j of new rows as the model sees them, among the rows that were kept and the other new ones."""
    n_kept = len(fitted.rows)
    rows = fitted.rows.append(new, join_groups(fitted.groups, groups), False)
    if isinstance(fitted, ComparesItself) and isinstance(rows, Compared):
        return fitted.compare_two(rows, n_kept + i, n_kept + j)
    return rows.pair(n_kept + i, n_kept + j)


def weigh_among(
    fitted: Fitted, new: Any, groups: Groups, left: NDArray[Any], right: NDArray[Any]
) -> Contributions | None:
    """What comparisons say of pairs of new rows; None where the model does not compare records by itself."""
    if not isinstance(fitted, ComparesItself):
        return None
    rows = fitted.rows.append(new, join_groups(fitted.groups, groups), False)
    if not isinstance(rows, Compared):
        return None
    n_kept = len(fitted.rows)
    return fitted.weigh_pairs(rows, n_kept + left, n_kept + right)


def weigh_records(ensemble: Ensemble, rows: Compared, left: Integers, right: Integers) -> Contributions:
    """What each comparison says of pairs of records, in log-odds; of one pair also what it finds, in words.

    `ensemble` is for tables of this size. No other pair is compared: how often strangers agree is known from the
    fit, and how rare a value is follows from the records.
    """
    width = len(rows.spec.fields)
    comparer = Comparer.of(rows.records, rows.spec.fields)
    features = comparer.compare(left, right)
    distances = features[:, :width].astype(np.float64)
    said = lose_each(ensemble, features, width)
    start = ensemble.mean_log_odds(np.full_like(features, np.nan))
    log_odds = ensemble.mean_log_odds(features)
    # What comparisons say only together is shared out by how much each says alone.
    weight = np.where(np.isnan(distances), 0.0, np.abs(said) + 1e-9)
    whole = np.maximum(weight.sum(axis=1), 1e-300)
    said = said + ((log_odds - start - said.sum(axis=1)) / whole)[:, None] * weight
    findings = tuple(map(comparer.in_words, left.tolist(), right.tolist(), distances)) if len(left) == 1 else ()
    return Contributions(distances, said, log_odds - said.sum(axis=1), log_odds, findings)


def lose_each(ensemble: Ensemble, features: Features, n_comparisons: int) -> Floats:
    """(pairs, comparisons): how much higher each score is than with that comparison missing."""
    whole = ensemble.mean_score(features)
    lost = np.zeros((len(features), n_comparisons))
    for c in range(n_comparisons):
        without = features.copy()
        without[:, c] = np.nan
        if ensemble.evidence is not None and ensemble.evidence.layout.rarity[c] >= 0:
            without[:, ensemble.evidence.layout.rarity[c]] = np.nan
        lost[:, c] = np.where(np.isnan(features[:, c]), 0.0, whole - ensemble.mean_score(without))
    return lost


def titles(fitted: Fitted) -> tuple[str, ...]:
    """The features in words."""
    spec = spec_of(fitted.rows)
    return fitted.features if spec is None else tuple(in_words(field) for field in spec.fields)


def explain_pair(
    fitted: Fitted, pair: Pair, titles: Sequence[str], names: tuple[str, str], probability: float
) -> Explanation:
    """The explanation of a pair by what a model has learned."""
    types: tuple[TypeEvidence, ...] = ()
    if pair.contributions is not None:
        contributions = pair.contributions
    elif isinstance(fitted, Contributing):
        contributions = fitted.contributions(pair.distances)
    elif isinstance(fitted, ChainsFit):
        contributions, weights = fitted.evidence(pair)
        types = tuple(TypeEvidence(k + 1, float(one), float(two)) for k, (one, two) in enumerate(weights.T))
    else:
        raise InputError(f"a {type(fitted).__name__} does not explain its decisions")
    features = tuple(
        FeatureEvidence(title, one, two, None if np.isnan(distance) else float(distance), float(weight), *told)
        for title, one, two, distance, weight, told in zip(
            titles,
            pair.first,
            pair.second,
            pair.distances,
            contributions,
            pair.findings or ((None, None),) * len(titles),
            strict=True,
        )
    )
    return Explanation(*names, probability, features, types, pair.start, pair.log_odds)
