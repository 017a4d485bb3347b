"""Labels and the sets of rows that may share them: point estimates, known clusters and groups enter.

Memory. Counted are the arrays that grow with the data, in the bytes an entry has there; the rest of a run is small
beside them.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from numbers import Integral
from operator import lt
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdp._parallel import Need, count_workers
from scdp._typing import Groups, Integers
from scdp.chains.items import working_bytes
from scdp.compare.distances import memory_bytes
from scdp.compare.features import MOST_PAIRS
from scdp.errors import InputError
from scdp.estimators.inputs import (
    UNKNOWN,
    Compared,
    Points,
    Precomputed,
    check_square_shape,
    codes,
    compared_columns,
    n_pairs,
)
from scdp.linkage.sources import MOST_COORDINATES, MOST_PAIRS_TAUGHT, N_NEIGHBOURS, WALK_STEPS
from scdp.partitions import canonical_labels
from scdp.posterior.draws import count_bits
from scdp.posterior.estimate import MAX_LABELS
from scdp.table import Records, complete_column, records_from
from scdp.table.propose import further_comparisons, join_comparisons, propose_columns
from scdp.table.spec import Spec

if TYPE_CHECKING:
    from scdp.estimators import Estimator


def split_groups(groups: Groups, apart: Integers | None) -> Integers | None:
    """Numbers of sets of rows that share clusters: groups, each in two parts where parts are kept apart."""
    if groups is None or apart is None:
        return apart if groups is None else codes(groups)
    return np.unique(2 * codes(groups) + apart, return_inverse=True)[1].astype(np.int64)


def labels_from(estimate: Integers, known: Integers, first: int = 0) -> Integers:
    """A point estimate as labels: clusters with known rows take their label, new ones are numbered on.

    New numbers start after the known ones and not below `first`.
    """
    codes = canonical_labels(estimate)
    name_of = np.full(codes.max(initial=-1) + 1, UNKNOWN)
    name_of[codes[known >= 0]] = known[known >= 0]
    hidden = codes[known < 0]
    # Numbered in the order in which they appear among rows that are not known.
    new = hidden[name_of[hidden] == UNKNOWN]
    following = max(first, int(known.max(initial=UNKNOWN)) + 1)
    name_of[new] = following + canonical_labels(new)
    return np.where(known >= 0, known, name_of[codes])


# New clusters are numbered on after the largest label.
LARGEST_LABEL = 2**62


def check_rows(model: Estimator, X: Any, *, reset: bool) -> Any:
    """Vectors as scikit-learn wants them; records and distances by their own rules. `reset` is for `fit`."""
    one_of("metric", model.metric, ("euclidean", "precomputed"))
    if model.spec is not None or is_table(X):
        return records_from(X)
    if model.metric == "euclidean":
        from sklearn.utils.validation import validate_data

        return validate_data(model, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=reset)
    array = check_square_shape(X)
    if not reset and array.shape[2] != model.n_features_in_:
        raise InputError(f"X has {array.shape[2]} features, but fit saw {model.n_features_in_}")
    return array


def is_table(X: Any) -> bool:
    """Whether rows are records: a table with a column that holds no numbers, a list of dicts, or `Records`."""
    if isinstance(X, Records | Mapping):
        return True
    if isinstance(X, list | tuple) and len(X) and isinstance(X[0], Mapping):
        return True
    if hasattr(X, "column_names"):
        return True
    if not hasattr(X, "columns") or not hasattr(X, "dtypes"):
        return False
    kinds = X.dtypes if isinstance(X.dtypes, list) else list(X.dtypes)
    return any(not is_numeric(kind) for kind in kinds)


def is_numeric(kind: Any) -> bool:
    """Whether a column's type, of pandas or polars, is one of numbers."""
    if hasattr(kind, "is_numeric"):
        return bool(kind.is_numeric())
    return getattr(kind, "kind", "O") in "iufb"


def propose_spec(records: Records, in_documents: bool = False) -> Spec:
    """How to compare records whose clusters are given apart from them."""
    found = propose_columns(records, records.names, in_documents=in_documents)
    fields = join_comparisons(found)
    if not fields:
        raise InputError(f"{records.source}: no column is left to compare; give a spec")
    return Spec("entity", fields, further=further_comparisons(found))


def check_index(X: Any, **given: Any) -> None:
    """Refuse a pandas column whose index is not that of the rows: it would be taken in the wrong order."""
    ours = getattr(X, "index", None)
    for name, column in given.items():
        theirs = getattr(column, "index", None)
        if hasattr(X, "columns") and hasattr(theirs, "equals") and hasattr(ours, "equals"):
            assert ours is not None
            if not ours.equals(theirs):
                raise InputError(f"{name} has another index than X; give both in one order, or {name}.to_numpy()")


def check_known(y: Any, n: int, name: str = "y") -> Integers:
    """Cluster labels as integers, -1 where unknown; names are numbered in their order."""
    if y is None:
        return np.full(n, UNKNOWN, dtype=np.int64)
    labels = np.asarray(y)
    if labels.shape != (n,):
        raise InputError(f"{name} has shape {labels.shape}, but X has {n} rows; give one cluster a row")
    if labels.dtype.kind in "OUS":
        return _number_names(labels.tolist(), name)
    if labels.dtype.kind == "f":
        labels = np.where(np.isnan(labels), float(UNKNOWN), labels)
    whole = labels.astype(np.int64) if labels.dtype.kind in "iubf" and np.isfinite(labels).all() else None
    if whole is None or (whole != labels).any() or (whole < UNKNOWN).any():
        raise _no_labels(name)
    _check_largest(int(whole.max(initial=UNKNOWN)), name)
    return whole


def _no_labels(name: str) -> InputError:
    return InputError(
        f"Unknown label type: {name} must hold names or whole numbers, one a cluster, with None or -1 for a row of "
        "unknown cluster"
    )


def _check_largest(label: int, name: str) -> None:
    """Refuse a label after which there is no room for new ones."""
    if label > LARGEST_LABEL:
        raise InputError(f"{name} has the label {label}, which is too large; give clusters smaller numbers or names")


def _number_names(labels: list[Any], name: str) -> Integers:
    """Names as numbers, in their order; None, NaN, NA, the empty name and -1 are unknown. Whole numbers stay."""
    if not all(isinstance(each, Hashable) for each in labels):
        raise _no_labels(name)
    unknown = [is_missing(each) or each == "" or each == UNKNOWN for each in labels]
    given = [each for each, hidden in zip(labels, unknown, strict=True) if not hidden]
    if all(isinstance(each, int | np.integer) and not isinstance(each, bool) and each >= 0 for each in given):
        number = {each: int(each) for each in given}
        _check_largest(max(number.values(), default=UNKNOWN), name)
    else:
        number = {each: place for place, each in enumerate(sorted(set(given), key=str))}
    pairs = zip(labels, unknown, strict=True)
    return np.array([UNKNOWN if hidden else number[each] for each, hidden in pairs], dtype=np.int64)


def is_missing(value: object) -> bool:
    """Whether a value is None, NaN, or what pandas has in their place, which is neither true nor false."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def check_groups(groups: ArrayLike | None, X: Any, spec: Spec | None = None) -> Groups:
    """The group of each row, from `groups` or else from the column that the spec names."""
    if groups is None and spec is not None and spec.group is not None and isinstance(X, Records):
        groups = complete_column(X, spec.group)
    if groups is None:
        return None
    given = np.asarray(groups)
    if given.shape != (len(X),):
        raise InputError(f"groups has shape {given.shape}, but X has {len(X)} rows; give one group a row")
    # An array of texts has made a text of what is missing in a list.
    listed = groups if isinstance(groups, list | tuple) else given.tolist() if given.dtype.kind in "Of" else ()
    missing = next((row for row, value in enumerate(listed) if is_missing(value)), None)
    if missing is not None:
        raise InputError(f"groups has no value in row {missing} (counted from 0); give every row its group")
    return given.astype(str) if given.dtype.kind == "O" else given


def join_groups(kept: Groups, new: Groups) -> Groups:
    """The groups of rows of `fit` followed by those of new ones."""
    if kept is None and new is None:
        return None
    if kept is None or new is None:
        raise InputError("groups were given to only one of fit and predict; give them to both or to neither")
    return np.concatenate([kept, new])


def check_within_groups(known: Integers, groups: Groups) -> None:
    """Refuse a known cluster that has rows in two groups."""
    if groups is None:
        return
    home: dict[int, Any] = {}
    for row in np.flatnonzero(known >= 0):
        group = groups[row]
        if home.setdefault(int(known[row]), group) != group:
            raise InputError(
                f"known cluster {known[row]} has rows in two groups, {home[int(known[row])]} and {group}; "
                "clusters stay within a group"
            )


def row_order(new: Any, groups: Groups, known: Integers | None = None, spec: Spec | None = None) -> NDArray[np.intp]:
    """An order of new rows that does not depend on the order they came in (as far as rows differ)."""
    if isinstance(new, Records) and spec is not None and spec.id in new.names:
        # Ids tell rows apart by themselves; the others only order those without one.
        if groups is None and _ascend(new[spec.id].tolist()):
            return np.arange(len(new))
        ids = _ranks(new, spec.id)
        if len(np.unique(ids)) == len(ids):
            return np.argsort(ids, kind="stable") if groups is None else np.lexsort((ids, groups))
    if isinstance(new, Records) and spec is not None:
        columns = compared_columns(new, spec)
        names = [*columns.names, *([spec.id] if spec.id in new.names else [])]
        keys = [_ranks(new, name) for name in reversed(names)]
    elif new.ndim == 2:
        keys = list(new.T)
    else:
        keys = [np.arange(len(new))]
    given = [] if known is None else [known]
    return np.lexsort((*given, *keys, *([] if groups is None else [groups])))


def _ascend(texts: list[Any]) -> bool:
    """Whether these are texts in ascending order, no two the same."""
    return set(map(type, texts)) == {str} and all(map(lt, texts, texts[1:]))


def _ranks(records: Records, name: str | None) -> Integers:
    assert name is not None
    column = records.encoded(name)
    if column is not None:
        return column.ranks
    texts = np.array([str(cell or "") for cell in records[name]], dtype=object)
    return np.unique(texts, return_inverse=True)[1]


def take_rows(new: Any, rows: NDArray[np.intp]) -> Any:
    """The given new rows, of whatever kind."""
    if np.array_equal(rows, np.arange(len(new))):
        return new
    if isinstance(new, Records):
        return new.take(rows)
    return new[rows] if new.ndim == 2 else new[np.ix_(rows, rows)]


def one_of(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Refuse a setting that is not among the allowed ones."""
    if value not in allowed:
        raise InputError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")


def at_least_one(model: Any, *names: str) -> None:
    """Refuse counts below 1, and fractions."""
    for name in names:
        if getattr(model, name) < 1 or not isinstance(getattr(model, name), Integral):
            raise InputError(f"{name} must be at least 1, not {getattr(model, name)}")


def above_zero_or_learn(name: str, value: float | str) -> None:
    """Refuse what is neither a number above 0 nor "learn"."""
    if isinstance(value, str):
        one_of(name, value, ("learn",))
    elif not value > 0:
        raise InputError(f"{name} must be above 0 or 'learn', not {value}")


N_TRACES = 10
MOST_SEARCHED = 1000
# Candidates of a record that a blocking proposes and the prefilter keeps, with their features.
KEPT_OF_ONE = 8
FEWER_DRAWS = "take fewer chains or sweeps (--chains, --sweeps)"
FEWER_RESOLVER_DRAWS = "take fewer draws (n_draws), or cluster the rows in parts"
FEWER_PAIRS = (
    "give fewer records, compare fewer columns, name groups that are never together (--groups), or take the "
    "resolver, which compares only records that may be the same"
)
FEWER_RESOLVER_PAIRS = "give fewer rows, or name groups that are never together (--groups)"
FEWER_VALUES = "give fewer rows or features, or take fewer chains"


@dataclass(frozen=True, eq=False)
class Extent:
    """Rows as memory sees them: their kind, features, known clusters (-1 = unknown) and groups."""

    kind: type[Points] | type[Compared] | type[Precomputed]
    n_features: int
    known: Integers
    groups: Groups

    def __len__(self) -> int:
        return len(self.known)

    @property
    def n_hidden(self) -> int:
        return int((self.known < 0).sum())


def extent(X: Any, known: Integers, groups: Groups, spec: Spec | None, metric: str) -> Extent:
    """Rows as they are handed to `fit`."""
    if isinstance(X, Records) and spec is not None:
        return Extent(Compared, len(spec.fields) or len(X.names), known, groups)
    array = np.asarray(X)
    kind = Precomputed if metric == "precomputed" else Points
    return Extent(kind, array.shape[-1] if array.ndim == (3 if kind is Precomputed else 2) else 1, known, groups)


def chain_needs(rows: Extent, room: Integers, n_chains: int, n_draws: int) -> list[Need]:
    """Of the paper's models; `room` is the group of each row."""
    # What each chain keeps of every cluster, of which there may be as many as hidden rows, besides the known ones.
    most_clusters = rows.n_hidden + len(np.unique(rows.known[rows.known >= 0]))
    states = 32 * n_chains * most_clusters * rows.n_features
    needs = [draws_need(rows.n_hidden, n_chains, n_draws), Need(f"{n_chains:,} chains", states, FEWER_DRAWS)]
    if rows.kind is Points:
        # Rows as given, scaled, and laid out with what is observed.
        what = f"{len(rows):,} rows of {rows.n_features:,} features"
        return [*needs, Need(what, 24 * len(rows) * rows.n_features, FEWER_VALUES)]
    each = 4 if rows.kind is Compared else 8
    stored = memory_bytes(group_sizes(rows.groups, len(rows)), rows.n_features, each)
    sizes = np.bincount(room, minlength=1)
    settled = np.bincount(room, weights=rows.known < 0, minlength=1) == 0
    # Squares in double precision: where clusters stay, for the gaps between their centroids; elsewhere for k-medoids.
    once = max(17 * int(sizes[settled].max(initial=0)) ** 2, 33 * int(sizes[~settled].max(initial=0)) ** 2)
    working = working_bytes(sizes, rows.n_features, each) + once
    what = f"the distances of {n_pairs(len(rows), rows.groups):,} pairs by {rows.n_features} comparisons"
    # When they are scaled there are two of them for a while.
    return [*needs, Need(what, max(2 * stored, stored + working), FEWER_PAIRS)]


def draws_need(n_hidden: int, n_chains: int, n_draws: int) -> Need:
    """Draws as they are kept, with their traces, and the search for the best of all clusterings."""
    each = n_hidden * count_bits(n_hidden) // 8 + 8 * N_TRACES + 16
    searched = 24 * min(n_hidden * min(MOST_SEARCHED, n_chains * n_draws), MAX_LABELS)
    what = f"{n_chains * n_draws:,} draws of {n_hidden:,} rows"
    return Need(what, n_chains * n_draws * each + searched, FEWER_DRAWS)


def training_needs(rows: Extent) -> list[Need]:
    """Of learning the resolver's law, from at most so many rows."""
    n = len(rows) - rows.n_hidden
    pairs, width = min(n * (n - 1) // 2, MOST_PAIRS_TAUGHT), n_columns(rows)
    kept = 2 * pairs * (9 * width + 60)
    made = pairs * bytes_of_view(width) if rows.kind is Points else 0
    return [Need(f"learning from {n:,} rows", kept + made, "give fewer known rows")]


def sampling_needs(rows: Extent, sampled: Integers, n_draws: int, n_jobs: int | None) -> list[Need]:
    """Of the resolver's draws: all pairs of the rows to be clustered, or candidates of too many."""
    draws = Need(f"{n_draws:,} draws of {len(rows):,} rows", n_draws * len(rows) * 12, FEWER_RESOLVER_DRAWS)
    groups = None if rows.groups is None else rows.groups[sampled]
    pairs, width = n_pairs(len(sampled), groups), n_columns(rows)
    if rows.kind is Compared and groups is None and pairs > MOST_PAIRS:
        candidates = len(sampled) * KEPT_OF_ONE * (4 * width + 40)
        return [draws, Need(f"candidate pairs of {len(sampled):,} records", candidates, FEWER_RESOLVER_PAIRS)]
    # Two numbers and the features of each pair, its neighbours' lists, and its scores in every thread.
    n_bytes = pairs * (4 * width + 56 + 9 * width + count_workers(n_jobs) * 16)
    if rows.kind is Points:
        largest = int(group_sizes(groups, len(sampled)).max(initial=0))
        n_bytes += largest * (largest - 1) // 2 * bytes_of_view(width)
    elif rows.kind is Precomputed:
        # Of records only those pairs are compared that are sampled.
        n_bytes += n_pairs(len(rows), rows.groups) * rows.n_features * 4 * 2
    return [draws, Need(f"{pairs:,} pairs of rows by {width} features", n_bytes, FEWER_RESOLVER_PAIRS)]


def n_columns(rows: Extent) -> int:
    """The features of a pair, with the opinion of the trees."""
    if rows.kind is not Points:
        return 3 * rows.n_features + 2
    single = rows.n_features if rows.n_features <= MOST_COORDINATES else 0
    return 2 + len(N_NEIGHBOURS) * len(WALK_STEPS) + single + 1


def bytes_of_view(width: int) -> int:
    """Of a pair of vectors while its features are made: three times in double precision, and six square tables."""
    return 24 * width + 96


def group_sizes(groups: Groups, n: int) -> Integers:
    return np.array([n]) if groups is None else np.bincount(codes(groups), minlength=1)
