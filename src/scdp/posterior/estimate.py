"""Point estimates: stored draws enter, the labels that are best by what the user wants leave.

Only hidden items are searched; each known cluster stands among them as one heavy item that cannot move.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scdp.errors import InputError
from scdp.posterior.canonical import Labels, canonical_labels
from scdp.posterior.draws import Codes, StoredDraws
from scdp.posterior.links import maximise_expected_f, maximise_recall
from scdp.posterior.search import RandomState, check_starts, minimise_expected_loss

# Labels of all draws at once: 256 MB.
MAX_LABELS = 1 << 26


FLOOR = "precision="


def point_estimate(
    stored: StoredDraws, answer: str, n_starts: int | None, max_draws: int, random_state: RandomState
) -> Labels:
    """Canonical labels of all items; known items keep their grouping."""
    precision = check_answer(answer)
    check_starts(n_starts)
    if len(stored.hidden) == 0:
        return canonical_labels(stored.known)
    affordable = MAX_LABELS // len(stored.hidden)
    codes = stored.codes_at(stored.evenly_spaced(min(max_draws, affordable)))
    met = _met_clusters(stored, codes)
    sizes = np.bincount(stored.known[stored.known >= 0], minlength=stored.n_known_clusters)[met]
    draws = _with_heavy_items(codes, met)
    weights = np.concatenate([np.ones(codes.shape[1], np.int64), sizes.astype(np.int64)])
    is_known = np.arange(len(weights)) >= codes.shape[1]
    if precision is not None:
        found = maximise_recall(draws, weights, is_known, precision, n_starts, random_state)
    elif answer == "f":
        found = maximise_expected_f(draws, weights, is_known, n_starts, random_state)
    else:
        found = minimise_expected_loss(
            draws,
            loss="vi" if answer == "vi" else "binder",
            fixed=np.where(is_known, np.arange(len(weights)), -1).astype(np.int32),
            weights=weights,
            n_starts=n_starts,
            random_state=random_state,
        )
    return _spread(stored, found, met)


def check_answer(answer: str) -> float | None:
    """The floor on expected precision that an answer asks for, or None; what is no answer is refused.

    Parameters
    ----------
    answer : "f", "vi", "binder", or "precision=" and a number above 0 and at most 1.
    """
    if answer in ("f", "vi", "binder"):
        return None
    try:
        floor = float(answer.removeprefix(FLOOR)) if answer.startswith(FLOOR) else 0.0
    except (AttributeError, ValueError):
        floor = 0.0
    if not 0.0 < floor <= 1.0:
        raise InputError(
            f"there is no answer {answer!r}: choose 'f', 'vi', 'binder', or a floor on the expected precision "
            "such as 'precision=0.99'"
        )
    return floor


def _met_clusters(stored: StoredDraws, codes: Codes) -> NDArray[np.int64]:
    """Known clusters that a hidden item ever joins; no other can lower the loss, so the search omits them."""
    if not stored.shared:
        return np.empty(0, np.int64)
    joined = np.zeros(int(stored.n_codes.max()), bool)
    for row in codes:
        joined[row] = True
    return np.flatnonzero(joined[: stored.n_known_clusters])


def _with_heavy_items(codes: Codes, met: NDArray[np.int64]) -> Codes:
    """Codes of hidden items and, in further columns, of the clusters met: a known cluster's number is its code."""
    if len(met) == 0:
        return codes
    labels = np.empty((len(codes), codes.shape[1] + len(met)), np.int32)
    labels[:, : codes.shape[1]] = codes
    labels[:, codes.shape[1] :] = met
    return labels


def _spread(stored: StoredDraws, found: Labels, met: NDArray[np.int64]) -> Labels:
    """Labels of all items from those of hidden and heavy ones."""
    n_hidden = len(stored.hidden)
    homes = len(found) + np.arange(stored.n_known_clusters, dtype=np.int64)
    homes[met] = found[n_hidden:]
    full = np.empty(stored.n_items, np.int64)
    is_known = stored.known >= 0
    full[is_known] = homes[stored.known[is_known]]
    full[stored.hidden] = found[:n_hidden]
    return canonical_labels(full)
