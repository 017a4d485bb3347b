"""The ways an estimator can be fitted, behind one surface: chains of a sampler, or the learned restaurant.

A path holds the settings it reads, by the names they have in `SCDP`; rows and known clusters enter, draws leave.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from numbers import Integral
from typing import Any, Protocol, TypeVar

from numpy.typing import NDArray

from scdp._parallel import ChainProgress, Progress
from scdp._typing import Integers
from scdp.errors import InputError
from scdp.estimators.fitted import Fitted
from scdp.estimators.inputs import Rows
from scdp.posterior import Posterior

Documents = NDArray[Any] | None
# A bar for one piece of work, named in words; and the bars of all chains.
Bar = Callable[[str], AbstractContextManager[Progress | None]]
Bars = Callable[[], AbstractContextManager[ChainProgress | None]]
Kept = TypeVar("Kept", bound=Fitted)


class Path(Protocol[Kept]):
    """One way to fit and to predict; `Kept` is what it keeps of its training.

    `takes_candidates` tells that it can do with pairs worth comparing in place of all pairs of records.
    """

    @property
    def takes_candidates(self) -> bool: ...

    def check(self, on_distances: bool) -> None:
        """Refuse settings that make no sense."""
        ...

    def fit(
        self, rows: Rows, known: Integers, documents: Documents, features: tuple[str, ...], seed: int
    ) -> tuple[Posterior, Kept]:
        """Draws of the clusters of all rows (-1 = unknown), and what is kept for new ones."""
        ...

    def sample_new(
        self, fitted: Kept, new: Any, documents: Documents, known: Integers, seed: int
    ) -> Posterior:
        """Draws of the rows that were kept followed by new ones; `known` and `documents` are of both."""
        ...

    def doubts(self, posterior: Posterior, n_features: int) -> list[str]:
        """Why the draws of `fit` should not be trusted, in words."""
        ...


def one_of(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Refuse a setting that is not among the allowed ones."""
    if value not in allowed:
        raise InputError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")


def at_least_one(path: Any, *names: str) -> None:
    """Refuse counts below 1, and fractions."""
    for name in names:
        if getattr(path, name) < 1 or not isinstance(getattr(path, name), Integral):
            raise InputError(f"{name} must be at least 1, not {getattr(path, name)}")


def above_zero_or_learn(name: str, value: float | str) -> None:
    """Refuse what is neither a number above 0 nor "learn"."""
    if isinstance(value, str):
        one_of(name, value, ("learn",))
    elif not value > 0:
        raise InputError(f"{name} must be above 0 or 'learn', not {value}")
