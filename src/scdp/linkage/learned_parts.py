"""The learned restaurant as words and arrays that can be stored, and back, with every array checked.

What is read may come from a damaged file: nothing here may lead a kernel outside its arrays, or round in circles.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Arrays
from scdp.errors import InputError
from scdp.estimators.fitted import Words, array_part, part
from scdp.estimators.result import Calibration
from scdp.linkage.learned import LearnedRestaurant, Member
from scdp.linkage.likelihood import Weights
from scdp.linkage.neighbourhood import VectorView
from scdp.linkage.pieces import MOST_KNOTS, Knots
from scdp.linkage.sieve import Sieve
from scdp.linkage.training import Parameters
from scdp.linkage.trees import Trees

MOST_AGAIN = 1000
LARGEST_NUMBER = 2**63 - 1
VIEW = ("mean", "scale", "whitening")
CALIBRATION = ("edges", "predicted", "observed", "count")


def number(words: Mapping[str, Any], name: str, low: int = 0, high: int = LARGEST_NUMBER) -> int:
    """A stored whole number within bounds."""
    value = part(words, name)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InputError(f"{name!r} is {value!r}, and it should be a whole number from {low} to {high}")
    return value


def restaurant_to_parts(restaurant: LearnedRestaurant) -> tuple[Words, Arrays]:
    members = restaurant.members
    words = {
        "n_again": restaurant.n_again,
        "n_members": len(members),
        "boosted": members[0].trees is not None,
    }
    arrays: Arrays = {
        "knots": restaurant.knots.at,
        "sign": restaurant.knots.sign,
        "rise": np.stack([member.parameters.rise for member in members]),
        "missing": np.stack([member.parameters.missing for member in members]),
        "weights": np.stack([np.stack(member.parameters.weights) for member in members]),
    }
    for place, member in enumerate(members):
        if member.trees is not None:
            arrays |= {f"trees{place}.{name}": array for name, array in member.trees.arrays().items()}
    return words, arrays


def restaurant_from_parts(
    words: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], n_features: int
) -> LearnedRestaurant:
    boosted, n_members = bool(part(words, "boosted")), number(words, "n_members", 1)
    width = n_features + boosted
    knots = _knots(arrays, width)
    rise = array_part(arrays, "rise", (n_members, None, width, knots.at.shape[1] - 1))
    n_types = rise.shape[1]
    if n_types < 1:
        raise InputError("'rise' is of no reference type")
    missing = array_part(arrays, "missing", (n_members, n_types, width))
    weights = array_part(arrays, "weights", (n_members, 5, n_types))
    members = tuple(
        Member(
            Parameters(rise[m], missing[m], Weights(*weights[m])),
            _trees(arrays, f"trees{m}.", n_features) if boosted else None,
        )
        for m in range(n_members)
    )
    return LearnedRestaurant(knots, members, number(words, "n_again", 0, MOST_AGAIN))


def sieve_to_parts(sieve: Sieve) -> tuple[Words, Arrays]:
    words = {"sieve_bias": sieve.bias, "sieve_n_records": sieve.n_records}
    arrays: Arrays = {
        "sieve.order": np.array(sieve.order, dtype=np.int64),
        "sieve.knots": sieve.knots.at,
        "sieve.heights": sieve.heights,
        "sieve.missing": sieve.missing,
        "sieve.together": sieve.together,
    }
    return words, arrays


def sieve_from_parts(words: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], n_features: int) -> Sieve:
    order = array_part(arrays, "sieve.order", (n_features,), "i")
    if sorted(order.tolist()) != list(range(n_features)):
        raise InputError("'sieve.order' is not an order of the comparisons")
    at = array_part(arrays, "sieve.knots", (n_features, None))
    bias = part(words, "sieve_bias")
    if isinstance(bias, bool) or not isinstance(bias, int | float) or not np.isfinite(bias):
        raise InputError(f"'sieve_bias' is {bias!r}, and it should be a number")
    return Sieve(
        tuple(order.tolist()),
        _checked_knots(at, np.full(n_features, -1), "sieve.knots"),
        array_part(arrays, "sieve.heights", at.shape),
        array_part(arrays, "sieve.missing", (n_features,)),
        float(bias),
        number(words, "sieve_n_records", 1),
        np.sort(array_part(arrays, "sieve.together", (None,))),
    )


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
    baseline = array_part(arrays, prefix + "baseline", (1,))
    inner = left >= 0
    here = np.arange(n)
    sound = (
        ((left > here) & (left < n) & (right > here) & (right < n))[inner].all()
        and ((feature >= 0) & (feature < n_features))[inner].all()
        and ((first >= 0) & (first < n)).all()
    )
    if not sound:
        raise InputError(f"'{prefix}left' and its companions are not trees")
    return Trees(first, feature, threshold, left, right, missing_left, value, baseline)


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


def calibration_to_parts(calibration: Calibration | None) -> Arrays:
    if calibration is None:
        return {}
    # Bins without pairs have no mean, which a stored model may not hold.
    return {f"calibration.{name}": np.nan_to_num(getattr(calibration, name)) for name in CALIBRATION}


def calibration_from_parts(arrays: Mapping[str, NDArray[Any]]) -> Calibration | None:
    if "calibration.edges" not in arrays:
        return None
    edges = array_part(arrays, "calibration.edges", (None,))
    n = len(edges) - 1
    count = array_part(arrays, "calibration.count", (n,), "i")
    predicted, observed = (
        np.where(count == 0, np.nan, array_part(arrays, f"calibration.{name}", (n,)))
        for name in ("predicted", "observed")
    )
    return Calibration(edges, predicted, observed, count)
