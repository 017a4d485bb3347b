"""Agglomerative clustering of groups: dissimilarities of pairs enter, a merge tree a group, and where to cut it.

The pairwise F of every cut of a tree is found in one pass over its merges, so thresholds are chosen exactly and
not on a grid.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Floats
from scdp.compare.distances import PairLayout
from scdp.paper.baselines.surface import Labels

LINKS = {"min": "single", "max": "complete", "average": "average"}


def merge_trees(layout: PairLayout, dissimilarity: NDArray[np.floating], link: str) -> list[Floats | None]:
    """SciPy's merge table of each group (None for a single item); `link` is min, max or average."""
    from scipy.cluster.hierarchy import linkage

    trees: list[Floats | None] = []
    for group, size in enumerate(layout.sizes.tolist()):
        # A group's entries are the condensed form of its distance matrix, which is what SciPy wants.
        block = dissimilarity[layout.starts[group] : layout.starts[group + 1]].astype(np.float64)
        trees.append(linkage(block, LINKS[link]) if size > 1 else None)
    return trees


def cut(layout: PairLayout, trees: list[Floats | None], threshold: float) -> Labels:
    """Undo every merge above the threshold; labels are unique within a group only."""
    from scipy.cluster.hierarchy import fcluster

    labels = np.zeros(layout.n_records, dtype=np.int64)
    for group, tree in enumerate(trees):
        if tree is not None:
            # Decision values have either sign, and SciPy cuts at heights of zero and more only.
            shift = tree[:, 2].min()
            raised = np.column_stack([tree[:, :2], tree[:, 2] - shift, tree[:, 3]])
            labels[layout.members(group)] = fcluster(raised, threshold - shift, criterion="distance")
    return labels


@dataclass(frozen=True)
class CutScores:
    """Pairwise F of cutting at each merge height, heights ascending; `scores[0]` is that of merging nothing."""

    heights: Floats
    scores: Floats

    def at(self, thresholds: Floats) -> Floats:
        return self.scores[np.searchsorted(self.heights, thresholds, side="right")]


def score_cuts(layout: PairLayout, trees: list[Floats | None], labels: Labels) -> CutScores:
    """The F of every cut, all groups cut at the same height."""
    merges = [
        _merges(tree, labels[layout.members(group)]) for group, tree in enumerate(trees) if tree is not None
    ]
    table = np.concatenate(merges) if merges else np.zeros((0, 3))
    table = table[np.argsort(table[:, 0], kind="stable")]
    joined = np.concatenate([np.zeros(1), np.cumsum(table[:, 1])])
    right = np.concatenate([np.zeros(1), np.cumsum(table[:, 2])])
    gold = _gold_pairs(layout, labels)
    precision = np.divide(right, joined, out=np.ones_like(right), where=joined > 0)
    recall = right / gold if gold else np.ones_like(right)
    total = precision + recall
    scores = np.divide(2 * precision * recall, total, out=np.zeros_like(total), where=total > 0)
    return CutScores(table[:, 0], scores)


def _merges(tree: Floats, labels: Labels) -> Floats:
    """For each merge its height, the pairs it joins, and those of them that belong together."""
    n_items = len(labels)
    members: list[Counter[int]] = [Counter([label]) for label in labels.tolist()]
    sizes = [1] * n_items
    out = np.empty((len(tree), 3))
    for step, (a, b, height, _) in enumerate(tree.tolist()):
        small, large = sorted((members[int(a)], members[int(b)]), key=len)
        right = sum(count * large[label] for label, count in small.items())
        out[step] = height, sizes[int(a)] * sizes[int(b)], right
        # The larger counter is reused: both were used up by this merge.
        large.update(small)
        members.append(large)
        sizes.append(sizes[int(a)] + sizes[int(b)])
    return out


def _gold_pairs(layout: PairLayout, labels: Labels) -> int:
    both = np.unique(np.column_stack([layout.group, labels]), axis=0, return_counts=True)[1]
    return int((both * (both - 1)).sum()) // 2


def best_threshold(folds: list[CutScores]) -> tuple[float, float]:
    """The middle of all cuts whose mean F over the folds is within a standard error of the best, and that best.

    The mean is flat over most of the range and jumps where one large cluster breaks in one fold; its highest point
    is an accident, and the middle of what cannot be told from it is not.
    """
    heights = np.unique(np.concatenate([fold.heights for fold in folds]))
    if not len(heights):
        return 0.0, float(np.mean([fold.scores[0] for fold in folds]))
    between = (heights[1:] + heights[:-1]) / 2
    candidates = np.concatenate([[heights[0] - 1e-9], between, [heights[-1] + 1e-9]])
    scores = np.array([fold.at(candidates) for fold in folds])
    mean = scores.mean(axis=0)
    best = int(np.argmax(mean))
    error = scores[:, best].std() / np.sqrt(len(folds))
    good = np.flatnonzero(mean >= mean[best] - error - 1e-12)
    return float((candidates[good[0]] + candidates[good[-1]]) / 2), float(mean[best])
