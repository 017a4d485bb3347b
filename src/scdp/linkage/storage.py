"""The ensemble as words and arrays that can be stored, and back, with every array checked.

What is read may come from a damaged file: nothing here may lead a kernel outside its arrays, or round in circles.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Arrays
from scdp.compare.features import Columns
from scdp.errors import InputError
from scdp.io.atomic import PlainParts, array_part, part
from scdp.linkage import MOST_KNOTS, Ensemble, Knots, Parameters
from scdp.linkage.evidence import Evidence, TableEvidence
from scdp.linkage.law import MOST_MATCHES, Matches, TaughtThird
from scdp.linkage.levels import N_LEVELS
from scdp.linkage.sources import VectorView
from scdp.linkage.trees import Trees

MOST_RESCANS = 1000
LARGEST_NUMBER = 2**63 - 1
VIEW = ("mean", "scale", "whitening")


def number(words: Mapping[str, Any], name: str, low: int = 0, high: int = LARGEST_NUMBER) -> int:
    """A stored whole number within bounds."""
    value = part(words, name)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InputError(f"{name!r} is {value!r}, and it should be a whole number from {low} to {high}")
    return value


def ensemble_to_parts(ensemble: Ensemble) -> tuple[PlainParts, Arrays]:
    """The members, what they share, and what the labels told of evidence."""
    members = ensemble.members
    words = {
        "n_rescans": ensemble.n_rescans,
        "n_members": len(members),
        "n_trees": len(ensemble.trees),
        "log_odds": ensemble.log_odds,
        "taught_third": ensemble.taught_third._asdict(),
        "partners": ensemble.partners,
        "spread": ensemble.spread,
        "sure_spread": ensemble.sure_spread,
        "n_taught": ensemble.n_taught,
        "n_counted": 0 if ensemble.matches is None else ensemble.matches.n_records,
    }
    arrays: Arrays = {
        "knots": ensemble.knots.at,
        "sign": ensemble.knots.sign,
        "heights": np.stack([member.heights for member in members]),
        "missing": np.stack([member.missing for member in members]),
        "weights": np.array([[*member[2:]] for member in members]),
    }
    if ensemble.evidence is not None and ensemble.table is not None:
        arrays |= {
            "evidence": ensemble.evidence.counts,
            "strangers": _or_empty(ensemble.evidence.strangers),
            "table.ratio": ensemble.table.ratio,
            "table.exact": ensemble.table.exact,
        }
    if ensemble.matches is not None:
        features, weight, _, optimism = ensemble.matches
        arrays |= {"matches": features, "matches.weight": weight, "matches.optimism": optimism}
    for place, trees in enumerate(ensemble.trees):
        arrays |= {f"trees{place}.{name}": array for name, array in trees.arrays().items()}
    return words, arrays


def ensemble_from_parts(
    words: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], n_names: int, columns: Columns | None
) -> Ensemble:
    """What `ensemble_to_parts` gave, checked; `columns` are those of records, without which there is no evidence."""
    n_members, n_trees = number(words, "n_members", 1), number(words, "n_trees", 0, 2)
    n_features = n_names if columns is None else columns.n_features
    width = n_features + (columns is not None) + (n_trees > 0)
    knots = _knots(arrays, width)
    heights = array_part(arrays, "heights", (n_members, *knots.at.shape))
    missing = array_part(arrays, "missing", (n_members, width))
    weights = array_part(arrays, "weights", (n_members, 5))
    members = tuple(Parameters(heights[m], missing[m], *map(float, weights[m])) for m in range(n_members))
    evidence = table = None
    if columns is not None:
        shape = (n_names, N_LEVELS)
        counts = array_part(arrays, "evidence", shape)
        if (counts < 0).any():
            raise InputError("'evidence' holds a count below 0")
        strangers = array_part(arrays, "strangers", (None, N_LEVELS))
        if len(strangers) not in (0, n_names) or (strangers < 0).any():
            raise InputError("'strangers' are not shares by comparison")
        evidence = Evidence(columns.layout, counts, strangers if len(strangers) else None)
        ratio, exact = array_part(arrays, "table.ratio", shape), array_part(arrays, "table.exact", (n_names,))
        table = TableEvidence(columns.layout, ratio, exact)
    return Ensemble(
        knots,
        members,
        tuple(_trees(arrays, f"trees{place}.", n_features) for place in range(n_trees)),
        evidence,
        real(words, "log_odds"),
        None if part(words, "partners") is None else real(words, "partners"),
        number(words, "n_rescans", 0, MOST_RESCANS),
        table,
        spread=real(words, "spread"),
        sure_spread=real(words, "sure_spread"),
        n_taught=number(words, "n_taught"),
        matches=None if columns is None else _matches(words, arrays, n_features),
        taught_third=_taught_third(part(words, "taught_third")),
    )


def _taught_third(stored: object) -> TaughtThird:
    if not isinstance(stored, Mapping):
        raise InputError("'taught_third' is not what belongs there")
    return TaughtThird(real(stored, "weight"), number(stored, "n_repeated"))


def _matches(words: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], n_features: int) -> Matches | None:
    n_counted = number(words, "n_counted")
    if n_counted == 0:
        return None
    weight = array_part(arrays, "matches.weight", (None,))
    features = array_part(arrays, "matches", (len(weight), n_features), "fnan")
    if np.isinf(features).any():
        raise InputError("'matches' holds a number that is not finite")
    if not len(weight) or (weight <= 0.0).any() or len(weight) > MOST_MATCHES:
        raise InputError("'matches.weight' are not the weights of a few labelled matches")
    optimism = array_part(arrays, "matches.optimism", (len(weight),))
    return Matches(features.astype(np.float32), weight, n_counted, optimism)


def _or_empty(strangers: NDArray[Any] | None) -> NDArray[Any]:
    return np.zeros((0, N_LEVELS)) if strangers is None else strangers


def real(words: Mapping[str, Any], name: str) -> float:
    """A stored finite number."""
    value = part(words, name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
        raise InputError(f"{name!r} is {value!r}, and it should be a number")
    return float(value)


def _knots(arrays: Mapping[str, NDArray[Any]], width: int) -> Knots:
    at = array_part(arrays, "knots", (width, None))
    return _checked_knots(at, array_part(arrays, "sign", (width,), "i"), "knots")


def _checked_knots(at: NDArray[Any], sign: NDArray[Any], name: str) -> Knots:
    gaps = np.diff(at, axis=1)
    if not 1 <= gaps.shape[1] < MOST_KNOTS or not (gaps > 0).all():
        raise InputError(f"{name!r} do not increase, or are not 2 to {MOST_KNOTS} a feature")
    return Knots(at, sign)


def _trees(arrays: Mapping[str, NDArray[Any]], prefix: str, n_features: int) -> Trees:
    """Stored trees, checked so that following them always ends: children stand after their parents."""
    first = array_part(arrays, prefix + "first", (None,), "i")
    feature = array_part(arrays, prefix + "feature", (None,), "i")
    n = len(feature)
    left, right = (array_part(arrays, prefix + name, (n,), "i") for name in ("left", "right"))
    threshold, value = (array_part(arrays, prefix + name, (n,)) for name in ("threshold", "value"))
    missing_left = array_part(arrays, prefix + "missing_left", (n,), "b")
    baseline, prior = (array_part(arrays, prefix + name, (1,)) for name in ("baseline", "prior"))
    inner = left >= 0
    here = np.arange(n)
    sound = (
        ((left > here) & (left < n) & (right > here) & (right < n))[inner].all()
        and ((feature >= 0) & (feature < n_features))[inner].all()
        and ((first >= 0) & (first < n)).all()
    )
    if not sound:
        raise InputError(f"'{prefix}left' and its companions are not trees")
    return Trees(first, feature, threshold, left, right, missing_left, value, baseline, prior)


def view_to_parts(view: VectorView | None) -> Arrays:
    return {} if view is None else {f"view.{name}": getattr(view, name) for name in VIEW}


def view_from_parts(arrays: Mapping[str, NDArray[Any]]) -> VectorView | None:
    if "view.mean" not in arrays:
        return None
    mean = array_part(arrays, "view.mean", (None,))
    scale = array_part(arrays, "view.scale", mean.shape)
    if not (scale > 0).all():
        raise InputError("'view.scale' holds a number that is not above 0")
    return VectorView(mean, scale, array_part(arrays, "view.whitening", (len(mean), len(mean))))
