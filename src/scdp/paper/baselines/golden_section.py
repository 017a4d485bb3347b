"""Golden-section search: a function of one number and an interval enter, where it is highest leaves."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

RATIO = (sqrt(5) - 1) / 2


def golden_section(function: Callable[[float], float], low: float, high: float, n_calls: int) -> float:
    """The best point of `n_calls` evaluations (at least two); exact in the limit for a function with one peak."""
    left, right = high - RATIO * (high - low), low + RATIO * (high - low)
    at_left, at_right = function(left), function(right)
    best = max((at_left, left), (at_right, right))
    for _ in range(n_calls - 2):
        if at_left >= at_right:
            high, right, at_right = right, left, at_left
            left = high - RATIO * (high - low)
            at_left = function(left)
            best = max(best, (at_left, left))
        else:
            low, left, at_left = left, right, at_right
            right = low + RATIO * (high - low)
            at_right = function(right)
            best = max(best, (at_right, right))
    return best[1]
