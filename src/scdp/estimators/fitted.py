"""The surface every fitted model shows, whatever it has learned: it can be stored, described and explained.

A model that needs its training rows at prediction and one that needs only a few parameters look the same from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Arrays
from scdp.errors import InputError
from scdp.estimators.inputs import Compared, Pair, Rows
from scdp.estimators.result import Learned

Words = dict[str, Any]


class Fitted(Protocol):
    """What a model keeps of its training.

    The words of `to_parts` are plain JSON. Two keys are written as files of their own: "spec", the TOML text of
    the fitted spec, and "records", a list of rows (dicts of texts). `independent_draws` tells that draws of its
    predictions come from no Markov chain. `labels` are those of all rows of `fit`; `rows` and `documents` are of
    those that are kept, which are all or none.
    """

    @property
    def independent_draws(self) -> bool: ...

    @property
    def rows(self) -> Rows: ...

    @property
    def labels(self) -> NDArray[np.int64]: ...

    @property
    def documents(self) -> NDArray[Any] | None: ...

    @property
    def features(self) -> tuple[str, ...]: ...

    @property
    def seed(self) -> int: ...

    def with_labels(self, labels: NDArray[np.int64]) -> Self:
        """The same with the clusters that all rows of `fit` have got."""
        ...

    def to_parts(self) -> tuple[Words, Arrays]: ...

    @classmethod
    def from_parts(cls, words: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self: ...

    def learned(self) -> Learned: ...


class Contributions(NamedTuple):
    """What comparisons say of pairs: distances and contributions are (pair, comparison), NaN where a value is missing.

    `start` (any two records) and the contributions of a pair add up to its `log_odds`.
    """

    distances: NDArray[np.float64]
    contributions: NDArray[np.float64]
    start: NDArray[np.float64]
    log_odds: NDArray[np.float64]


@runtime_checkable
class ComparesItself(Protocol):
    """A fitted model that compares two records by itself, among the others of their table."""

    def compare_two(self, rows: Compared, i: int, j: int) -> Pair:
        """The two side by side, with what each comparison says."""
        ...

    def weigh_pairs(self, rows: Compared, left: NDArray[np.int64], right: NDArray[np.int64]) -> Contributions:
        """What each comparison says of pairs of records."""
        ...


@runtime_checkable
class Contributing(Protocol):
    """A fitted model whose evidence on a pair follows from its distances alone."""

    def contributions(self, distances: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log-odds for being together by feature, of distances in the units given (NaN = missing)."""
        ...


def part(parts: Mapping[str, Any], name: str) -> Any:
    """A stored part that must be there."""
    if name not in parts:
        raise InputError(f"{name!r} is missing")
    return parts[name]


def array_part(
    arrays: Mapping[str, NDArray[Any]], name: str, shape: tuple[int | None, ...], kinds: str = "f"
) -> NDArray[Any]:
    """A stored array of the given shape (None = any length) and kind of numbers."""
    array: NDArray[Any] = part(arrays, name)
    fits = len(shape) == array.ndim and all(
        wanted in (None, length) for wanted, length in zip(shape, array.shape, strict=True)
    )
    if not fits:
        wanted = ", ".join("any" if length is None else str(length) for length in shape)
        raise InputError(f"{name!r} has shape {array.shape}, and it should be ({wanted})")
    if array.dtype.kind not in kinds:
        raise InputError(f"{name!r} holds {array.dtype}, which is not what belongs there")
    if array.dtype.kind == "f" and not np.isfinite(array).all() and "nan" not in kinds:
        raise InputError(f"{name!r} holds a number that is not finite")
    return array
