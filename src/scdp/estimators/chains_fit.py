"""What the paper's models keep of their training: its rows, their clusters and the last state of every chain."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Arrays, Floats, Groups, Integers
from scdp.chains import State
from scdp.compare.distances import Distances
from scdp.errors import InputError
from scdp.estimators.inputs import Compared, Pair, Points, Precomputed, Rows
from scdp.estimators.result import Learned
from scdp.io.atomic import PlainParts, array_part, part
from scdp.posterior import Posterior
from scdp.table import records_from
from scdp.table.spec_files import read_spec_text

LOG_2PI = float(np.log(2 * np.pi))


@dataclass(frozen=True)
class ChainsFit:
    """`best` is the chain whose last state had the greatest log joint: the one that is shown to people."""

    model: str
    rows: Rows
    groups: Groups
    labels: Integers
    ends: list[State]
    seed: int
    best: int
    features: tuple[str, ...]
    independent_draws = False

    def with_labels(self, labels: Integers) -> Self:
        return replace(self, labels=labels)

    @property
    def end(self) -> State:
        """The last state of the best chain."""
        return self.ends[self.best]

    def to_parts(self) -> tuple[PlainParts, Arrays]:
        words, arrays = rows_to_parts(self.rows)
        words |= {"model": self.model, "seed": self.seed, "best": self.best, "features": list(self.features)}
        arrays["labels"] = self.labels
        if self.groups is not None:
            arrays["groups"] = self.groups
        chains = []
        for chain, end in enumerate(self.ends):
            scalars, fields = end.to_parts()
            chains.append(scalars)
            arrays |= {f"chain{chain}.{name}": value for name, value in fields.items()}
        return words | {"chains": chains}, arrays

    @classmethod
    def from_parts(cls, words: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        labels = array_part(arrays, "labels", (None,), "i").astype(np.int64)
        groups = array_part(arrays, "groups", (len(labels),), "iufU") if "groups" in arrays else None
        features = tuple(map(str, part(words, "features")))
        rows = rows_from_parts(words, arrays, groups, len(features))
        if len(rows) != len(labels):
            raise InputError(f"there are {len(rows)} rows, and clusters for {len(labels)}")
        chains = part(words, "chains")
        best = int(part(words, "best"))
        if not chains or not 0 <= best < len(chains):
            raise InputError(f"'best' is {best}, and there are {len(chains)} chains")
        ends = [_state(chains, arrays, chain, len(labels), len(features)) for chain in range(len(chains))]
        model, seed = str(part(words, "model")), int(part(words, "seed"))
        return cls(model, rows, groups, labels, ends, seed, best, features)

    def learned(self) -> Learned:
        precision, shares = self.types()
        has_types = self.model != "cdp" and not self.end.pseudo_counts.size
        return Learned(
            self.model,
            self.features,
            len(self.labels),
            len(np.unique(self.labels)),
            precision if has_types else None,
            shares if has_types else None,
        )

    def types(self) -> tuple[Floats, Floats]:
        """Precisions (types, features) and shares of the reference types of the best chain, the commonest first."""
        slots, counts = np.unique(self.end.type, return_counts=True)
        order = np.argsort(-counts, kind="stable")
        return self.end.precision[slots[order]], counts[order] / counts.sum()

    def evidence(self, pair: Pair) -> tuple[Floats, Floats]:
        """Log Bayes factors by feature for being together, and the weight of each type for either row (2, types)."""
        if self.end.pseudo_counts.size:
            raise InputError("a model with a discrete likelihood is not explained by pairs; use likelihood='gaussian'")
        precision, shares = self.types()
        return pair_evidence(pair.squared, precision, shares, self.end.mean_variance)


def pair_evidence(squared: Floats, precision: Floats, shares: Floats, mean_variance: float) -> tuple[Floats, Floats]:
    """Both rows from one mean, against each from its own, means integrated out, by feature over types and shares.

    `squared` is (3, features): between the rows, and of either to the mean of the prior on means; NaN where missing,
    which is no evidence. The weights are those of the types of either row if the two are together.
    """
    log_shares = np.log(shares)
    log_both = log_shares[:, None] + log_shares
    gap, first, second = np.isnan(squared)
    filled = np.nan_to_num(squared)
    one, two = (log_density_alone(row, precision, mean_variance) for row in filled[1:])
    both = log_density_together(filled, precision, mean_variance)
    together = _log_sum(both + log_both[:, :, None])
    apart = _log_sum(one + log_shares[:, None]) + _log_sum(two + log_shares[:, None])
    # Where one row misses the feature, the other's density is the same either way.
    single = np.where(first, 0.0, one)[:, None] + np.where(second, 0.0, two)
    joint = np.where(gap, single, both).sum(axis=2) + log_both
    weights = np.exp(joint - joint.max())
    weights /= weights.sum()
    return np.where(gap, 0.0, together - apart), np.stack([weights.sum(axis=1), weights.sum(axis=0)])


def log_density_alone(to_origin: Floats, precision: Floats, mean_variance: float) -> Floats:
    """(types, features): log density of one row of each type."""
    a = 1 / mean_variance + precision
    form = precision * to_origin / mean_variance / a
    return np.asarray(0.5 * (np.log(precision) - LOG_2PI - np.log(a * mean_variance) - form))


def log_density_together(squared: Floats, precision: Floats, mean_variance: float) -> Floats:
    """(types, types, features): log density of two rows of one cluster, by the type of either."""
    one, two = precision[:, None, :], precision[None, :, :]
    a = 1 / mean_variance + one + two
    scatter = (one * squared[1] + two * squared[2]) / mean_variance + one * two * squared[0]
    return np.asarray(0.5 * (np.log(one) + np.log(two) - 2 * LOG_2PI - np.log(a * mean_variance) - scatter / a))


def _log_sum(logs: Floats) -> Floats:
    """By feature, the log of the sum of exponentials over all types."""
    return np.asarray(np.logaddexp.reduce(logs.reshape(-1, logs.shape[-1]), axis=0))


def rows_to_parts(rows: Rows) -> tuple[PlainParts, Arrays]:
    if isinstance(rows, Points):
        return {"rows": "points"}, {"values": rows.values, "mean": rows.mean, "scale": rows.scale}
    if isinstance(rows, Precomputed):
        return {"rows": "distances"}, {"square": rows.square, "scales": rows.distances.scales}
    assert isinstance(rows, Compared)
    words = {"rows": "records", "spec": rows.spec.to_toml(), "records": list(rows.records.rows())}
    return words, {"scales": rows.scales}


def rows_from_parts(words: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], groups: Groups, width: int) -> Rows:
    kind = part(words, "rows")
    if kind == "points":
        mean, scale = (array_part(arrays, name, (width,)) for name in ("mean", "scale"))
        return Points(array_part(arrays, "values", (None, width), "fnan"), mean, scale)
    scales = array_part(arrays, "scales", (width,))
    if kind == "distances":
        square = array_part(arrays, "square", (None, None, width), "fnan")
        return Precomputed(square, Distances.from_square(square, groups=groups).rescaled(scales))
    if kind != "records":
        raise InputError(f"'rows' is {json.dumps(kind)}, and it should be points, distances or records")
    return _read_compared(words, scales, groups, width)


def _read_compared(words: Mapping[str, Any], scales: Floats, groups: Groups, width: int) -> Compared:
    spec = read_spec_text(part(words, "spec"), "spec.toml")
    if len(spec.fields) != width or spec.needs_fit:
        raise InputError(f"the spec has {len(spec.fields)} fields, and the model was fitted with {width}")
    rows = part(words, "records")
    names = dict.fromkeys(name for field in spec.fields for name in field.columns_read)
    records = records_from({name: [row.get(name) for row in rows] for name in names}, "records.jsonl")
    return Compared(records, spec, scales, groups)


N_AXES = {
    "grid": 2, "grid_log_weight": 1, "means": 2, "mean_grid": 2, "mean_grid_log_weight": 1, "pseudo_counts": 2,
}  # fmt: skip


def _state(
    chains: list[Mapping[str, Any]], arrays: Mapping[str, NDArray[Any]], chain: int, n: int, width: int
) -> State:
    """The last state of a chain; what a later version added and this file lacks has its default."""
    prefix = f"chain{chain}."
    stored = {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
    fields: dict[str, Any] = dict(chains[chain]) | stored
    for name in State._fields:
        if name not in State._field_defaults:
            part({f"{prefix}{key}": value for key, value in fields.items()}, f"{prefix}{name}")
    for name, shape in (("type", (n,)), ("cluster", (n,))):
        array_part(arrays, prefix + name, shape, "i")
    for name, sizes in (("precision", (None, width)), ("shape", (width,)), ("rate", (width,))):
        array_part(arrays, prefix + name, sizes)
    if n and not 0 <= stored["type"].min() <= stored["type"].max() < len(stored["precision"]):
        raise InputError(f"{prefix + 'type'!r} names a type that has no precisions")
    for name in stored.keys() & set(State._fields):
        # Kernels would be compiled anew for other kinds of numbers, which takes minutes.
        kind = np.int64 if name in ("type", "cluster") else np.float64
        n_axes = N_AXES.get(name, stored[name].ndim)
        if stored[name].dtype != kind or stored[name].ndim != n_axes:
            raise InputError(f"{prefix + name!r} is an array of another kind than this version writes")
    for name in ("cluster_concentration", "type_concentration", "mean_variance"):
        if not (isinstance(fields[name], int | float) and fields[name] > 0):
            raise InputError(f"{prefix + name!r} is {fields[name]!r}, and it should be a number above 0")
    return State(**{name: value for name, value in fields.items() if name in State._fields})


def describe_degeneracy(posterior: Posterior, n_features: int) -> str | None:
    """What went wrong in a run of scdp3 whose target is no proper density, in words; None where nothing did."""
    traces = posterior.traces
    if "improper_means" not in traces:
        return None
    coordinates = float((traces["n_clusters"] * n_features).mean())
    share = float(traces["improper_means"].mean()) / max(coordinates, 1.0)
    if share > 0:
        return (
            f"The target of this model is not a proper distribution here: {share:.1%} of the coordinates of cluster "
            "means had no spread to be drawn from (negative precision) and stayed as they were; do not trust the "
            "posterior, and use conditioning='mean' or 'normalized'."
        )
    if len(posterior.hidden) and traces["opened_clusters"].sum() == 0:
        return (
            "Not one new cluster was opened in any kept sweep: the clusters are those of the starts. "
            "Use conditioning='mean', or a smaller rate."
        )
    return None


# Units that differ by less than a quarter are taken for equal.
ALIKE = 1.25
# Spreads of features beyond this, or below one over it, beside that of the prior on means.
FAR_FROM_THE_PRIOR = 3.0


def units_of(rows: Rows) -> tuple[Floats, Floats]:
    """By feature, the spread of all rows in the units of `fit`, and how many of these their mean is away.

    The spread of distances, which have no mean, is the root of half their mean square.
    """
    if isinstance(rows, Points):
        # One after another, so that nothing of the size of all rows is made.
        own = [Points.of(column[:, None], standardize=True) for column in rows.values.T]
        mean, scale = (np.concatenate([getattr(one, name) for one in own]) for name in ("mean", "scale"))
        return scale / rows.scale, np.abs(mean - rows.mean) / rows.scale
    assert isinstance(rows, Compared | Precomputed)
    columns = rows.distances.values.T
    squares = [np.nansum(column.astype(np.float64) ** 2) / max((~np.isnan(column)).sum(), 1) for column in columns]
    spread = np.where(np.array(squares) > 0, np.sqrt(0.5 * np.array(squares)), 1.0)
    return spread, np.zeros(len(spread))


def describe_scale(rows: Rows, features: tuple[str, ...], mean_variance: float) -> str | None:
    """Which feature is far from the scale that the prior on means takes for granted, in words; None where none is."""
    ratio = units_of(rows)[0] / np.sqrt(mean_variance)
    worst = int(np.argmax(np.abs(np.log(ratio))))
    if not abs(np.log(ratio[worst])) > np.log(FAR_FROM_THE_PRIOR):
        return None
    return (
        f"{features[worst]!r} has a spread of {ratio[worst] * np.sqrt(mean_variance):.2g} where "
        f"mean_variance={mean_variance:g} expects cluster means within {np.sqrt(mean_variance):.2g}: what these models "
        "find hangs on that ratio (docs/results.md); use standardize=True, or try several values."
    )


def describe_units(rows: Rows, features: tuple[str, ...]) -> str | None:
    """Which feature has other units in all rows together than those of `fit`, in words; None where none has."""
    if isinstance(rows, Precomputed):  # distances between rows of fit and new ones are not known
        return None
    ratio, shift = units_of(rows)
    away = np.maximum(np.abs(np.log(ratio)) / np.log(ALIKE), shift / (ALIKE - 1))
    worst = int(np.argmax(away))
    if not away[worst] > 1:
        return None
    return (
        f"{features[worst]!r} has {ratio[worst]:.2g} times the spread in all rows that it has in those of fit "
        f"(and its mean is {shift[worst]:.2g} spreads away): predict measures in the units of fit, so its "
        "probabilities are not those of one fit with all rows, -1 for those of unknown cluster."
    )


def continue_from(end: State, start: State) -> State:
    """A start for old and new rows together that goes on with the types an earlier chain had learned."""
    n_new = len(start.type) - len(end.type)
    most_common = int(np.bincount(end.type).argmax())
    # Copies: a model that is mapped to memory cannot be written, and kernels would be compiled anew for such arrays.
    return start._replace(
        type=np.concatenate([end.type, np.full(n_new, most_common, dtype=np.int64)]),
        precision=end.precision.copy(),
        cluster_concentration=end.cluster_concentration,
        type_concentration=end.type_concentration,
        mean_variance=end.mean_variance,
        shape=end.shape.copy(),
        rate=end.rate.copy(),
        separation_rate=end.separation_rate,
        pseudo_counts=end.pseudo_counts.copy(),
    )
