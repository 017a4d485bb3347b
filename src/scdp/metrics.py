"""How good a clustering is: true and predicted labels of the same items enter, one number leaves.

Everything comes from the non-empty cells n_hg = |h ∩ g| of the contingency table, never from a loop over
pairs. Labels may be any hashable values, compared as Python compares them (1 == 1.0 == True). None is a label
like any other; so is NaN, and all NaN are the same one. Items are matched by position: the index of a pandas
Series is not looked at. Logarithms are natural. Empty input has no value and is refused.
"""

from __future__ import annotations

# Docstrings below repeat their sections: each is what `help` shows of one public function.
import math
from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from scdp._typing import Integers
from scdp.errors import InputError

Labels = Iterable[Any]

# Kinds of array that sort as their labels compare; text is left to hashing, which is faster than sorting it.
_SORTABLE_KINDS = "biufmM"


@dataclass(frozen=True)
class Contingency:
    """The non-empty cells of the table of predicted clusters (rows) against true clusters (columns)."""

    cells: Integers
    rows: Integers
    columns: Integers
    row_sizes: Integers
    column_sizes: Integers

    @classmethod
    def of(cls, labels_true: Labels, labels_pred: Labels) -> Contingency:
        """Count how often each predicted cluster meets each true cluster."""
        columns, rows = _encode(labels_true, "labels_true"), _encode(labels_pred, "labels_pred")
        if len(rows) != len(columns):
            raise InputError(
                f"labels_true has {len(columns)} labels and labels_pred has {len(rows)}: "
                "give each one label for each item"
            )
        column_sizes = np.bincount(columns)
        keys, cells = np.unique(rows * len(column_sizes) + columns, return_counts=True)
        cell_rows, cell_columns = np.divmod(keys, len(column_sizes))
        return cls(cells, cell_rows, cell_columns, np.bincount(rows), column_sizes)

    @property
    def items(self) -> int:
        return int(self.row_sizes.sum())

    @cached_property
    def transposed(self) -> Contingency:
        return Contingency(self.cells, self.columns, self.rows, self.column_sizes, self.row_sizes)

    @cached_property
    def pairs(self) -> tuple[int, int, int, int]:
        """Pairs of items together in both labellings, in the predicted one, in the true one, and all pairs."""
        together = (_pairs(self.cells), _pairs(self.row_sizes), _pairs(self.column_sizes))
        return *together, self.items * (self.items - 1) // 2

    @cached_property
    def best(self) -> Integers:
        """max_g n_hg: how many items of each predicted cluster are of its best class."""
        best = np.zeros(len(self.row_sizes), dtype=np.int64)
        np.maximum.at(best, self.rows, self.cells)
        return best

    @property
    def moves(self) -> int:
        """N - sum_h max_g n_hg: the items that are not of the best class of their cluster."""
        return self.items - int(self.best.sum())

    @cached_property
    def edit_steps(self) -> int:
        """N - sum_h max_g n_hg + K_H - M: all items leave their cluster but those of its best class.

        M is the most clusters that can each be the home of a different class, out of their tied best ones;
        every other cluster is merged into the home of its best class.
        """
        best = self.best
        tied = self.cells == best[self.rows]
        homes = _largest_matching(self.rows[tied], self.columns[tied], (len(best), len(self.column_sizes)))
        return self.moves + len(best) - homes

    @property
    def rand_index(self) -> float:
        both, predicted, true, possible = self.pairs
        return (possible - predicted - true + 2 * both) / possible if possible else 1.0

    @property
    def adjusted_rand_index(self) -> float:
        both, predicted, true, possible = self.pairs
        # As Python integers: products of pair counts pass 2^63 from about a million items on.
        chance = 2 * (both * possible - predicted * true)
        most = (predicted + true) * possible - 2 * predicted * true
        return chance / most if most else 1.0

    @property
    def precision(self) -> float:
        both, predicted, _, _ = self.pairs
        return both / predicted if predicted else 1.0

    @property
    def f_score(self) -> float:
        return _harmonic_mean(self.precision, self.transposed.precision)

    @property
    def b_cubed_precision(self) -> float:
        return float(self.cells @ (self.cells / self.row_sizes[self.rows])) / self.items

    @property
    def b_cubed(self) -> float:
        return _harmonic_mean(self.b_cubed_precision, self.transposed.b_cubed_precision)

    @property
    def normalized_edit_score(self) -> float:
        return 1 - (self.edit_steps + self.transposed.edit_steps) / (2 * self.items)

    @property
    def merge_free_edit_score(self) -> float:
        return 1 - (self.moves + self.transposed.moves) / self.items

    @property
    def variation_of_information(self) -> float:
        # By cell and not as a difference of entropies, so that equal clusterings give exactly 0.
        spread = np.log(self.row_sizes[self.rows] / self.cells)
        spread += np.log(self.column_sizes[self.columns] / self.cells)
        return float(self.cells @ spread) / self.items

    @property
    def normalized_variation_of_information(self) -> float:
        if self.items == 1:
            return 1.0
        return max(1 - self.variation_of_information / math.log(self.items), 0.0)

    @property
    def normalized_mutual_information(self) -> float:
        total = _entropy(self.row_sizes) + _entropy(self.column_sizes)
        if not total:
            return 1.0
        independent = self.row_sizes[self.rows] / self.items * self.column_sizes[self.columns]
        shared = float(self.cells @ np.log(self.cells / independent)) / self.items
        return min(max(2 * shared / total, 0.0), 1.0)


def _pairs(sizes: Integers) -> int:
    return int((sizes * (sizes - 1)).sum()) // 2


def _harmonic_mean(first: float, second: float) -> float:
    return 2 * first * second / (first + second) if first + second else 0.0


def _entropy(sizes: Integers) -> float:
    items = int(sizes.sum())
    return float(sizes @ np.log(items / sizes)) / items


def _largest_matching(rows: Integers, columns: Integers, shape: tuple[int, int]) -> int:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_bipartite_matching

    graph = csr_array((np.ones(len(rows), dtype=np.int8), (rows, columns)), shape=shape)
    return int(np.count_nonzero(maximum_bipartite_matching(graph, perm_type="column") >= 0))


def _encode(labels: Labels, name: str) -> Integers:
    """Number the labels 0..K-1, each number used."""
    array = labels.to_numpy() if hasattr(labels, "to_numpy") else labels
    if isinstance(array, str | bytes | Mapping | Set) or not isinstance(array, Iterable):
        raise InputError(f"{name} is a {type(labels).__name__}: give a sequence with one label for each item")
    if isinstance(array, np.ndarray) and array.ndim != 1:
        raise InputError(f"{name} has {array.ndim} dimensions: give a sequence with one label for each item")
    if isinstance(array, np.ndarray) and array.dtype.kind in _SORTABLE_KINDS:
        codes = np.unique(array, return_inverse=True)[1].astype(np.int64, copy=False)
    else:
        codes = _encode_hashable(array.tolist() if isinstance(array, np.ndarray) else list(array), name)
    if not len(codes):
        raise InputError(f"{name} is empty: give one label for each item, and at least one item")
    return codes


def _encode_hashable(labels: Collection[Any], name: str) -> Integers:
    try:
        distinct = dict.fromkeys(labels)
    except TypeError as error:
        raise InputError(f"{name} has a label that cannot be hashed: use text, numbers or tuples") from error
    # NaN differs from itself, so each NaN object is a key of its own here: they all get the same number.
    number = {label: code for code, label in enumerate(label for label in distinct if not _is_nan(label))}
    number |= dict.fromkeys(filter(_is_nan, distinct), len(number))
    return np.fromiter(map(number.__getitem__, labels), dtype=np.int64, count=len(labels))


def _is_nan(label: Any) -> bool:
    return isinstance(label, float | np.floating) and label != label


__all__ = [
    "adjusted_rand_index",
    "b_cubed",
    "b_cubed_precision",
    "b_cubed_recall",
    "cluster_edit_distance",
    "evaluate",
    "f_score",
    "merge_free_edit_distance",
    "merge_free_edit_score",
    "normalized_edit_score",
    "normalized_mutual_information",
    "normalized_variation_of_information",
    "precision",
    "rand_index",
    "recall",
    "variation_of_information",
]


# The functions below are alike in form: each has the sections and the example that its readers look for.
def rand_index(labels_true: Labels, labels_pred: Labels) -> float:
    """RI: the share of pairs of items on which both labellings agree; 1 for a single item.

    Parameters
    ----------
    labels_true, labels_pred : sequences of labels
        One label for each item, in the same order.

    Returns
    -------
    float

    Example
    -------
    >>> from scdp import metrics
    >>> round(metrics.rand_index(["a", "a", "a", "b", "b", "c"], [0, 0, 1, 1, 1, 2]), 3)
    0.733
    """
    return Contingency.of(labels_true, labels_pred).rand_index


def precision(labels_true: Labels, labels_pred: Labels) -> float:
    """P: the share of predicted pairs that are true pairs; 1 if the prediction has no pair.

    Parameters
    ----------
    labels_true, labels_pred : sequences of labels
        One label for each item, in the same order.

    Returns
    -------
    float

    Example
    -------
    >>> from scdp import metrics
    >>> round(metrics.precision(["a", "a", "a", "b", "b", "c"], [0, 0, 1, 1, 1, 2]), 3)
    0.5
    """
    return Contingency.of(labels_true, labels_pred).precision


def recall(labels_true: Labels, labels_pred: Labels) -> float:
    """R: the share of true pairs that are predicted; 1 if the truth has no pair.

    Parameters
    ----------
    labels_true, labels_pred : sequences of labels
        One label for each item, in the same order.

    Returns
    -------
    float

    Example
    -------
    >>> from scdp import metrics
    >>> round(metrics.recall(["a", "a", "a", "b", "b", "c"], [0, 0, 1, 1, 1, 2]), 3)
    0.5
    """
    return Contingency.of(labels_true, labels_pred).transposed.precision


def f_score(labels_true: Labels, labels_pred: Labels) -> float:
    """F = 2PR / (P + R) on pairs; 0 if P and R are both 0.

    Parameters
    ----------
    labels_true, labels_pred : sequences of labels
        One label for each item, in the same order.

    Returns
    -------
    float

    Example
    -------
    >>> from scdp import metrics
    >>> round(metrics.f_score(["a", "a", "a", "b", "b", "c"], [0, 0, 1, 1, 1, 2]), 3)
    0.5
    """
    return Contingency.of(labels_true, labels_pred).f_score


def cluster_edit_distance(labels_true: Labels, labels_pred: Labels, normalized: bool = True) -> float:
    """CED: the fewest create, move and merge steps from the predicted clusters to the true ones.

    A create takes one item into a new cluster, a move takes one item to another cluster, a merge joins two
    clusters.

    Parameters
    ----------
    labels_true, labels_pred : sequences of labels
        One label for each item, in the same order.
    normalized : bool
        Divide by the number of items; otherwise the number of steps, an integer.

    Returns
    -------
    float

    Example
    -------
    >>> from scdp import metrics
    >>> round(metrics.cluster_edit_distance(["a", "a", "a", "b", "b", "c"], [0, 0, 1, 1, 1, 2], normalized=False), 3)
    1
    """
    table = Contingency.of(labels_true, labels_pred)
    return table.edit_steps / table.items if normalized else table.edit_steps


def normalized_edit_score(labels_true: Labels, labels_pred: Labels) -> float:
    """NES = 1 - [CED(true to predicted) + CED(predicted to true)] / 2N; 1 if the clusters are the same.

    Parameters
    ----------
    labels_true, labels_pred : sequences of labels
        One label for each item, in the same order.

    Returns
    -------
    float

    Example
    -------
    >>> from scdp import metrics
    >>> round(metrics.normalized_edit_score(["a", "a", "a", "b", "b", "c"], [0, 0, 1, 1, 1, 2]), 3)
    0.833
    """
    return Contingency.of(labels_true, labels_pred).normalized_edit_score


def merge_free_edit_distance(labels_true: Labels, labels_pred: Labels) -> float:
    """CED per item where a merge costs nothing: the share of items not of the best class of their cluster.

    This is 1 - purity. It gives the paper's printed values where the definition with merges does not
    (docs/results.md).

    Parameters
    ----------
    labels_true, labels_pred : sequences of labels
        One label for each item, in the same order.

    Returns
    -------
    float

    Example
    -------
    >>> from scdp import metrics
    >>> round(metrics.merge_free_edit_distance(["a", "a", "a", "b", "b", "c"], [0, 0, 1, 1, 1, 2]), 3)
    0.167
    """
    table = Contingency.of(labels_true, labels_pred)
    return table.moves / table.items


def merge_free_edit_score(labels_true: Labels, labels_pred: Labels) -> float:
    """NES where merges cost nothing, over N: purity + inverse purity - 1; 1 if the clusters are the same.

    It is below 0 where purity and inverse purity are both low.

    Parameters
    ----------
    labels_true, labels_pred : sequences of labels
        One label for each item, in the same order.

    Returns
    -------
    float

    Example
    -------
    >>> from scdp import metrics
    >>> round(metrics.merge_free_edit_score(["a", "a", "a", "b", "b", "c"], [0, 0, 1, 1, 1, 2]), 3)
    0.667
    """
    return Contingency.of(labels_true, labels_pred).merge_free_edit_score


def variation_of_information(labels_true: Labels, labels_pred: Labels) -> float:
    """VI = H(predicted | true) + H(true | predicted), in nats; 0 if the clusters are the same.

    Parameters
    ----------
    labels_true, labels_pred : sequences of labels
        One label for each item, in the same order.

    Returns
    -------
    float

    Example
    -------
    >>> from scdp import metrics
    >>> round(metrics.variation_of_information(["a", "a", "a", "b", "b", "c"], [0, 0, 1, 1, 1, 2]), 3)
    0.637
    """
    return Contingency.of(labels_true, labels_pred).variation_of_information


def normalized_variation_of_information(labels_true: Labels, labels_pred: Labels) -> float:
    """NVI = 1 - VI / log N; 1 if the clusters are the same, and for a single item.

    Parameters
    ----------
    labels_true, labels_pred : sequences of labels
        One label for each item, in the same order.

    Returns
    -------
    float

    Example
    -------
    >>> from scdp import metrics
    >>> round(metrics.normalized_variation_of_information(["a", "a", "a", "b", "b", "c"], [0, 0, 1, 1, 1, 2]), 3)
    0.645
    """
    return Contingency.of(labels_true, labels_pred).normalized_variation_of_information


def adjusted_rand_index(labels_true: Labels, labels_pred: Labels) -> float:
    """ARI: the Rand index corrected for chance; 1 if both labellings are all-in-one or all-apart.

    Parameters
    ----------
    labels_true, labels_pred : sequences of labels
        One label for each item, in the same order.

    Returns
    -------
    float

    Example
    -------
    >>> from scdp import metrics
    >>> round(metrics.adjusted_rand_index(["a", "a", "a", "b", "b", "c"], [0, 0, 1, 1, 1, 2]), 3)
    0.318
    """
    return Contingency.of(labels_true, labels_pred).adjusted_rand_index


def b_cubed(labels_true: Labels, labels_pred: Labels) -> float:
    """B-cubed F: the harmonic mean of B-cubed precision and recall (which are never 0).

    Parameters
    ----------
    labels_true, labels_pred : sequences of labels
        One label for each item, in the same order.

    Returns
    -------
    float

    Example
    -------
    >>> from scdp import metrics
    >>> round(metrics.b_cubed(["a", "a", "a", "b", "b", "c"], [0, 0, 1, 1, 1, 2]), 3)
    0.778
    """
    return Contingency.of(labels_true, labels_pred).b_cubed


def b_cubed_precision(labels_true: Labels, labels_pred: Labels) -> float:
    """The mean over items of the share of its predicted cluster that is in its true cluster.

    Parameters
    ----------
    labels_true, labels_pred : sequences of labels
        One label for each item, in the same order.

    Returns
    -------
    float

    Example
    -------
    >>> from scdp import metrics
    >>> round(metrics.b_cubed_precision(["a", "a", "a", "b", "b", "c"], [0, 0, 1, 1, 1, 2]), 3)
    0.778
    """
    return Contingency.of(labels_true, labels_pred).b_cubed_precision


def b_cubed_recall(labels_true: Labels, labels_pred: Labels) -> float:
    """The mean over items of the share of its true cluster that is in its predicted cluster.

    Parameters
    ----------
    labels_true, labels_pred : sequences of labels
        One label for each item, in the same order.

    Returns
    -------
    float

    Example
    -------
    >>> from scdp import metrics
    >>> round(metrics.b_cubed_recall(["a", "a", "a", "b", "b", "c"], [0, 0, 1, 1, 1, 2]), 3)
    0.778
    """
    return Contingency.of(labels_true, labels_pred).transposed.b_cubed_precision


def normalized_mutual_information(labels_true: Labels, labels_pred: Labels) -> float:
    """NMI = 2 I / (H + H'), the arithmetic mean as the norm; 1 if both labellings are one cluster.

    Parameters
    ----------
    labels_true, labels_pred : sequences of labels
        One label for each item, in the same order.

    Returns
    -------
    float

    Example
    -------
    >>> from scdp import metrics
    >>> round(metrics.normalized_mutual_information(["a", "a", "a", "b", "b", "c"], [0, 0, 1, 1, 1, 2]), 3)
    0.685
    """
    return Contingency.of(labels_true, labels_pred).normalized_mutual_information


def evaluate(labels_true: Labels, labels_pred: Labels) -> dict[str, float]:
    """All metrics by their short names; `ced` is per item. `ced`, `vi` and `ced_merge_free` are better when lower.

    Parameters
    ----------
    labels_true, labels_pred : sequences of labels
        One label for each item, in the same order.

    Returns
    -------
    dict
        ri, p, r, f, ced, nes, vi, nvi, ari, b3, nmi, ced_merge_free and nes_merge_free.

    Example
    -------
    >>> from scdp import metrics
    >>> metrics.evaluate([0, 0, 1], ["x", "x", "y"])["f"]
    1.0
    """
    table = Contingency.of(labels_true, labels_pred)
    return {
        "ri": table.rand_index,
        "p": table.precision,
        "r": table.transposed.precision,
        "f": table.f_score,
        "ced": table.edit_steps / table.items,
        "nes": table.normalized_edit_score,
        "vi": table.variation_of_information,
        "nvi": table.normalized_variation_of_information,
        "ari": table.adjusted_rand_index,
        "b3": table.b_cubed,
        "nmi": table.normalized_mutual_information,
        "ced_merge_free": table.moves / table.items,
        "nes_merge_free": table.merge_free_edit_score,
    }
