"""DPMixture: scikit-learn's variational Dirichlet-process mixture of Gaussians, the unsupervised standard."""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp.errors import InputError
from scdp.paper.baselines.surface import Baseline, Items, Labels
from scdp.table.records import Records


class DPMixture(Baseline):
    """Clusters what `predict` is given (each document apart) and learns nothing from `fit`; vectors only.

    `n_components` is where the process is cut off: a limit on the number of clusters, not the number.
    """

    def __init__(
        self,
        n_components: int = 30,
        covariance_type: str = "diag",
        concentration: float | None = None,
        max_iter: int = 500,
        random_state: int = 0,
    ) -> None:
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.concentration = concentration
        self.max_iter = max_iter
        self.random_state = random_state

    def _learn(self, items: Items, labels: Labels | None, groups: NDArray[Any] | None) -> None:
        _need_vectors(items)

    def _cluster(self, items: Items) -> list[Hashable]:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.mixture import BayesianGaussianMixture

        vectors = _need_vectors(items)
        if len(vectors) == 1:
            return [0]
        mixture = BayesianGaussianMixture(
            n_components=min(self.n_components, len(vectors)),
            covariance_type=self.covariance_type,
            weight_concentration_prior_type="dirichlet_process",
            weight_concentration_prior=self.concentration,
            max_iter=self.max_iter,
            random_state=self.random_state,
        )
        with warnings.catch_warnings():
            # Weights of empty components keep creeping long after the clusters stand still.
            warnings.simplefilter("ignore", ConvergenceWarning)
            return list(mixture.fit_predict(vectors).tolist())


def _need_vectors(items: Items) -> NDArray[np.float64]:
    if isinstance(items, Records) or items.ndim != 2:
        given = "records" if isinstance(items, Records) else "distances"
        raise InputError(f"DPMixture needs coordinates, not {given}: give a float array (items, features)")
    if np.isnan(items).any():
        row, column = np.argwhere(np.isnan(items))[0].tolist()
        raise InputError(f"DPMixture: X has a missing value in row {row}, column {column}; fill it first")
    return items
