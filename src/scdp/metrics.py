"""How good a clustering is: true and predicted labels of the same items enter, one number leaves.

Everything comes from the non-empty cells n_hg = |h ∩ g| of the contingency table, never from a loop over
pairs. Labels may be any hashable values, compared as Python compares them (1 == 1.0 == True). None is a label
like any other; so is NaN, and all NaN are the same one. Items are matched by position: the index of a pandas
Series is not looked at. Logarithms are natural. Empty input has no value and is refused.
"""

from __future__ import annotations

from scdp.contingency import Contingency, Labels

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
