"""Scikit-learn's conventions for estimators, kept without importing it: that takes longer than a small table does."""

from __future__ import annotations

import inspect
from typing import Any, Self

import numpy as np


class SklearnEstimator:
    """Parameters by name, as `clone` and grid searches want them: the arguments of `__init__`, kept as given."""

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        parameters = inspect.signature(cls.__init__).parameters.values()
        return {each.name: each.default for each in parameters if each.name != "self"}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name; `deep` is taken as scikit-learn passes it, and no parameter has parameters."""
        return {name: getattr(self, name) for name in sorted(self._defaults())}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name."""
        known = self._defaults()
        for name, value in params.items():
            if name not in known:
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {self!r}. Valid parameters are: {sorted(known)}."
                )
            setattr(self, name, value)
        return self

    def fit_predict(self, X: Any, y: Any = None, **kwargs: Any) -> Any:
        """Fit, and give the labels of the rows that were fitted."""
        self.fit(X, y, **kwargs)  # type: ignore[attr-defined]
        return self.labels_  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        defaults = self._defaults()
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if value is not defaults[name] and repr(value) != repr(defaults[name])
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.base import BaseEstimator, ClusterMixin

        tags = type("Clusterer", (ClusterMixin, BaseEstimator), {})().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def check_is_fitted(model: Any) -> None:
    """Refuse a model that was not fitted, in scikit-learn's way."""
    if not hasattr(model, "fitted_"):
        from sklearn.exceptions import NotFittedError

        raise NotFittedError(
            f"this {type(model).__name__} is not fitted yet: call fit first, or load a model"
        )


def draw_seed(random_state: Any) -> int:
    """A seed from a seed, a `RandomState`, or (None) numpy's own generator, in scikit-learn's way."""
    largest = np.iinfo(np.int32).max
    if random_state is None:
        return int(np.random.randint(largest))  # noqa: NPY002
    if isinstance(random_state, int | np.integer):
        return int(np.random.RandomState(random_state).randint(largest))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(largest))
    raise ValueError(f"{random_state!r} is no seed: give a whole number, a numpy RandomState, or None")
