"""Checks of a full array of distances (n, n, features); what comes out is which record has which feature."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp.compare.distances.layout import PairLayout
from scdp.errors import InputError

TOLERANCE = 1e-5


def check_square(square: NDArray[Any], layout: PairLayout, names: tuple[str, ...]) -> NDArray[np.bool_]:
    """Refuse what are no distances, naming the entry; return (records, features): the feature is observed.

    A record misses a feature when its diagonal is NaN, or all its distances to others of its group are.
    """
    if square.ndim != 3 or square.shape[0] != square.shape[1]:
        raise InputError(
            f"distances must be an array (n, n) or (n, n, features), not of shape {square.shape}"
        )
    if len(names) != square.shape[2] or len(set(names)) != len(names):
        raise InputError(f"{square.shape[2]} features need as many different names, not {list(names)}")
    observed = np.empty((layout.n_records, len(names)), dtype=bool)
    for group in range(len(layout.labels)):
        members = layout.members(group)
        for feature, name in enumerate(names):
            block = square[:, :, feature][np.ix_(members, members)]
            observed[members, feature] = _check_block(block, members, name)
    return observed


def _check_block(block: NDArray[Any], members: NDArray[np.int64], name: str) -> NDArray[np.bool_]:
    diagonal = np.diagonal(block)
    scale = np.nanmax(np.abs(block), initial=0.0, where=np.isfinite(block)) or 1.0
    _refuse(np.isinf(block), block, members, name, "infinite")
    _refuse(block < 0, block, members, name, "negative")
    off_diagonal = ~np.eye(len(block), dtype=bool)
    _refuse(~off_diagonal & (block > TOLERANCE * scale), block, members, name, "on the diagonal and not zero")
    alone = len(block) == 1
    observed = ~np.isnan(diagonal) & (alone | (off_diagonal & ~np.isnan(block)).any(axis=1))
    both = observed[:, None] & observed
    _refuse(both & np.isnan(block), block, members, name, "missing, though both records have the feature")
    _refuse(
        ~both & off_diagonal & ~np.isnan(block),
        block,
        members,
        name,
        "there, though a record misses the feature",
    )
    asymmetric = np.abs(block - block.T) > TOLERANCE * scale
    _refuse(
        asymmetric & both, block, members, name, "not what its mirror entry is: distances must be symmetric"
    )
    return observed


def _refuse(
    wrong: NDArray[np.bool_], block: NDArray[Any], members: NDArray[np.int64], name: str, problem: str
) -> None:
    if wrong.any():
        a, b = (int(k) for k in np.argwhere(wrong)[0])
        raise InputError(
            f"distances: entry ({members[a]}, {members[b]}) of {name!r} is {problem} ({float(block[a, b])})"
        )
