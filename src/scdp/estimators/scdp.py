"""The estimator: vectors, distances or records and partly known clusters enter, labels and a posterior leave."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from scdp._parallel import ChainBars, ChainProgress, Progress, WorkBar
from scdp._typing import Integers
from scdp.errors import InputError
from scdp.estimators.chain_path import ChainPath
from scdp.estimators.checks import (
    check_documents,
    check_known,
    check_rows,
    check_within_documents,
    joined_documents,
    row_order,
    take_rows,
)
from scdp.estimators.explanation import Explanation, check_pair, explained, pair_among, titles
from scdp.estimators.fitted import Fitted
from scdp.estimators.inputs import UNKNOWN, feature_names, rows_of, spec_of
from scdp.estimators.labels import labels_from
from scdp.estimators.needs import check_fit, check_new
from scdp.estimators.path import Path, one_of
from scdp.linkage.learned_path import LearnedPath
from scdp.linkage.shards import Engine
from scdp.posterior import ConvergenceWarning, Posterior
from scdp.table.spec import Spec

PATHS: dict[str, type[ChainPath] | type[LearnedPath]] = {
    **dict.fromkeys(("cdp", "scdp1", "scdp2", "scdp3"), ChainPath),
    "flagship": LearnedPath,
}
# What the command line fits unless told otherwise.
DEFAULT_MODEL = "flagship"


class SCDP(ClusterMixin, BaseEstimator):
    """Supervised clustering with the Dirichlet process.

    Parameters
    ----------
    model : "flagship" (the learned restaurant, docs/flagship.md), or the paper's "cdp" (no learning: one identity
        type, concentration 1), "scdp1", "scdp2" or "scdp3".
    n_chains, n_sweeps : chains, and sweeps of each, the warm-up included.
    n_warmup : sweeps that are not kept; half of them by default.
    thin : keep every thin-th draw.
    standardize : centre each feature and scale it to unit variance.
    mean_variance : variance of the prior on cluster means, or "learn".
    share_clusters : whether rows of unknown cluster may join the known clusters.
    scheme : "collapsed" integrates the means out; "paper" samples them, as the paper's Figure 2 does. For scdp3,
        whose means are always sampled, "paper" takes the paper's own moves instead of the exact ones. On distances,
        which have no means to sample, it is always "collapsed".
    split_merge : split-merge moves tried per sweep (collapsed scheme).
    conditioning : scdp3's reading of the paper: "published" (not on distances), "normalized" or "mean" (docs/scdp3.md).
    rate : scdp3's separation rate (the paper's lambda), or "learn".
    n_auxiliary : auxiliary values that stand for a new cluster (or type) in scdp3.
    metric : "euclidean" for vectors (items, features), "precomputed" for distances (items, items, features).
    spec : how to compare records; X is then Records, or a table of columns.
    init : "mixed" (chains start from different places), "one", "singletons", "kmeans", or an array of labels.
    loss : what the point estimate `labels_` minimises in expectation, "vi" or "binder".
    n_draws : the flagship's draws, over all chains; they are independent, so chains only share them out.
    n_types : the flagship's reference types.
    boosted : whether the flagship's pairs are also judged by boosted trees; None = where there is enough to learn from.
    n_jobs : chains that run at once (threads; None = 1, -1 = one a core). Draws do not depend on it.
    random_state : seed. Chain i draws the same however many chains there are.
    checkpoint : a folder from which a killed `fit` or `predict` goes on when it is called again, draw for draw
        (docs/checkpoints.md); None = none. The flagship, which takes minutes, starts again instead.
    checkpoint_seconds : time between checkpoints of a chain; longer where writing one takes over 2 % of it.
    engine : where the flagship seats items, such as `scdp.engines.LocalEngine()`; None = threads of this process.
        Draws do not depend on it.
    verbose : show a bar per chain.

    Attributes
    ----------
    labels_ : the cluster of each row of `fit`: known ones keep their label, new clusters get fresh numbers.
    posterior_ : the draws, co-clustering probabilities, intervals and diagnostics.
    """

    def __init__(
        self,
        model: str = "scdp1",
        *,
        n_chains: int = 4,
        n_sweeps: int = 2000,
        n_warmup: int | None = None,
        thin: int = 1,
        standardize: bool = True,
        mean_variance: float | str = 1.0,
        share_clusters: bool = False,
        scheme: str = "collapsed",
        split_merge: int = 5,
        conditioning: str = "normalized",
        rate: float | str = 1.0,
        n_auxiliary: int = 8,
        metric: str = "euclidean",
        spec: Spec | None = None,
        init: str | ArrayLike = "mixed",
        loss: str = "vi",
        n_draws: int = 240,
        n_types: int = 1,
        boosted: bool | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        checkpoint: str | PathLike[str] | None = None,
        checkpoint_seconds: float = 30.0,
        engine: Engine | None = None,
        verbose: int = 0,
    ) -> None:
        self.model = model
        self.n_chains = n_chains
        self.n_sweeps = n_sweeps
        self.n_warmup = n_warmup
        self.thin = thin
        self.standardize = standardize
        self.mean_variance = mean_variance
        self.share_clusters = share_clusters
        self.scheme = scheme
        self.split_merge = split_merge
        self.conditioning = conditioning
        self.rate = rate
        self.n_auxiliary = n_auxiliary
        self.metric = metric
        self.spec = spec
        self.init = init
        self.loss = loss
        self.n_draws = n_draws
        self.n_types = n_types
        self.boosted = boosted
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.checkpoint_seconds = checkpoint_seconds
        self.engine = engine
        self.verbose = verbose

    def fit(self, X: Any, y: ArrayLike | None = None, groups: ArrayLike | None = None) -> Self:
        """Sample the clusters of rows whose label is -1 (all rows without y); types are learned from every row."""
        X = check_rows(self, X, reset=True)
        known = check_known(y, len(X))
        documents = check_documents(groups, X, self.spec)
        self._check_parameters()
        path = self._path()
        check_fit(path, X, known, documents, self.spec, self.metric)
        settings = self.spec, self.metric, self.standardize
        with self._bar("comparing") as progress:
            rows = rows_of(X, documents, *settings, progress, path.takes_candidates)
        self.n_features_in_ = rows.n_features
        names = feature_names(rows, getattr(self, "feature_names_in_", None))
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        self.posterior_, fitted = path.fit(rows, known, documents, names, seed)
        self.labels_ = labels_from(self._estimate(self.posterior_), known)
        self.fitted_: Fitted = fitted.with_labels(self.labels_)
        for doubt in path.doubts(self.posterior_, self.n_features_in_):
            warnings.warn(doubt, ConvergenceWarning, stacklevel=2)
        return self

    def predict(self, X: Any, groups: ArrayLike | None = None, known: ArrayLike | None = None) -> Integers:
        """Partition new rows jointly, with what was learned in `fit`; row order does not matter.

        Rows with a number in `known` (-1 = unknown) keep it, and others may join them or open new clusters.
        """
        return self.predict_with_posterior(X, groups, known)[0]

    def predict_posterior(
        self,
        X: Any,
        groups: ArrayLike | None = None,
        known: ArrayLike | None = None,
        *,
        random_state: int | None = None,
    ) -> Posterior:
        """The posterior over exactly the rows of X; see `predict`. A `random_state` stands in for that of `fit`."""
        return self.predict_with_posterior(X, groups, known, random_state=random_state)[1]

    def predict_with_posterior(
        self,
        X: Any,
        groups: ArrayLike | None = None,
        known: ArrayLike | None = None,
        *,
        random_state: int | None = None,
    ) -> tuple[Integers, Posterior]:
        """Both at the cost of one: what `predict` and what `predict_posterior` give."""
        check_is_fitted(self)
        X = check_rows(self, X, reset=False)
        documents = check_documents(groups, X, self.spec)
        given = check_known(known, len(X), "known")
        check_within_documents(given, documents)
        order = row_order(X, documents, given, self.fitted_spec_)
        ordered = None if documents is None else documents[order]
        labels, posterior = self._predicted(take_rows(X, order), ordered, given[order], random_state)
        back = np.argsort(order)
        return labels[back], posterior.restricted(back)

    def _predicted(
        self, X: Any, documents: NDArray[Any] | None, given: Integers, random_state: int | None
    ) -> tuple[Integers, Posterior]:
        """Labels and posterior of new rows, in an order that does not depend on the order they came in."""
        kept = self.labels_[: len(self.fitted_.rows)]
        posterior = self._sample_new(X, documents, given, random_state)
        new = posterior.restricted(len(kept) + np.arange(len(X)))
        if self.share_clusters:
            known = np.concatenate([kept, given])
            return labels_from(self._estimate(posterior), known)[len(kept) :], new
        first = int(self.labels_.max(initial=UNKNOWN)) + 1
        return labels_from(self._estimate(new), given, first), new

    def sample_new(self, X: Any, groups: ArrayLike | None = None) -> Posterior:
        """The posterior of the rows of `fit`, their clusters as known, followed by new rows.

        Of a flagship that shares no clusters, which keeps no rows of `fit`, it is that of the new rows.
        """
        check_is_fitted(self)
        X = check_rows(self, X, reset=False)
        return self._sample_new(X, check_documents(groups, X, self.spec), check_known(None, len(X)))

    def _sample_new(
        self, X: Any, documents: NDArray[Any] | None, given: Integers, random_state: int | None = None
    ) -> Posterior:
        fitted = self.fitted_
        known = np.concatenate([self.labels_[: len(fitted.rows)], given])
        together = joined_documents(fitted.documents, documents)
        seed = fitted.seed + 1 if random_state is None else random_state
        path = self._path()
        check_new(path, fitted, known, together, self.share_clusters)
        return path.sample_new(fitted, X, together, known, seed)

    def explain(
        self,
        X: Any,
        i: int,
        j: int,
        groups: ArrayLike | None = None,
        *,
        posterior: Posterior | None = None,
        names: tuple[str, str] | None = None,
    ) -> Explanation:
        """Why rows i and j of X are or are not together. `posterior` is that of `predict_posterior(X)`, if at hand."""
        check_is_fitted(self)
        X = check_rows(self, X, reset=False)
        documents = check_documents(groups, X, self.spec)
        named = names or (f"row {i}", f"row {j}")
        check_pair(i, j, len(X), documents, named)
        probability = (posterior or self.predict_posterior(X, groups)).co_clustering(i, j)
        pair = pair_among(self.fitted_, X, documents, i, j)
        return explained(self.fitted_, pair, titles(self.fitted_), named, probability)

    def save(self, folder: str | PathLike[str], *, force: bool = False, spec_text: str | None = None) -> None:
        """Write a folder of JSON and plain arrays, whole or not at all (docs/tutorial.md).

        `spec_text` is a commented TOML text of the fitted spec, to stand for the plain one.
        """
        from scdp.estimators.model_folder import save

        check_is_fitted(self)
        save(self, folder, force, spec_text)

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> SCDP:
        """Read what `save` wrote."""
        from scdp.estimators.model_folder import load

        return load(cls, folder)

    @property
    def fitted_spec_(self) -> Spec | None:
        """The spec with what `fit` has learned: proposed fields and scales."""
        check_is_fitted(self, "fitted_")
        return spec_of(self.fitted_.rows)

    def _restore(self, fitted: Fitted) -> None:
        """Be as after `fit`, with what was kept of it."""
        self.fitted_, self.labels_ = fitted, fitted.labels
        self.n_features_in_ = fitted.rows.n_features
        self.spec = self.fitted_spec_

    def _path(self, kind: type[ChainPath] | type[LearnedPath] | None = None) -> Path[Any]:
        """The way to fit that belongs to the model, or one of the given kind, with the settings it reads."""
        kind = kind or PATHS[self.model]
        offered = self.get_params(deep=False) | {"bar": self._bar, "bars": self._bars}
        return kind(**{field.name: offered[field.name] for field in fields(kind)})

    def _check_parameters(self) -> None:
        one_of("model", self.model, tuple(PATHS))
        one_of("loss", self.loss, ("vi", "binder"))
        if self.checkpoint is not None and self.random_state is None:
            raise InputError(
                "checkpoint needs a random_state: a run can only go on with the seed it began with"
            )
        for kind in (ChainPath, LearnedPath):  # also settings that this model does not read
            self._path(kind).check(self.metric == "precomputed" or self.spec is not None)

    def _estimate(self, posterior: Posterior) -> Integers:
        loss: Any = self.loss
        return np.asarray(posterior.point_estimate(loss=loss, random_state=0), dtype=np.int64)

    def _bars(self) -> AbstractContextManager[ChainProgress | None]:
        return ChainBars(self.n_chains, self.n_sweeps) if self.verbose else nullcontext()

    def _bar(self, what: str) -> AbstractContextManager[Progress | None]:
        return WorkBar(what) if self.verbose else nullcontext()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
