"""What both estimators share: rows and partly known clusters enter `fit`, labels and a posterior leave.

Beside it: what they accept, check, keep, explain and store.
"""

from __future__ import annotations

import inspect
import warnings
from abc import abstractmethod
from contextlib import AbstractContextManager, nullcontext
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from scdp._parallel import Progress, WorkBar
from scdp._typing import Groups, Integers
from scdp.conditions import Conditions, keep_conditions
from scdp.errors import InputError
from scdp.estimators.checks import (
    Extent,
    check_groups,
    check_index,
    check_known,
    check_rows,
    check_within_groups,
    extent,
    join_groups,
    labels_from,
    propose_spec,
    row_order,
    take_rows,
)
from scdp.estimators.explanation import Explanation, check_pair, explain_pair, pair_among, titles, weigh_among
from scdp.estimators.fitted import Fitted
from scdp.estimators.inputs import UNKNOWN, Decisions, Rows, feature_names, rows_of, settle_conditions, spec_of
from scdp.posterior import ConvergenceWarning, Posterior
from scdp.table import Records
from scdp.table.spec import Spec


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

        raise NotFittedError(f"this {type(model).__name__} is not fitted yet: call fit first, or load a model")


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


class Estimator(SklearnEstimator):
    """The surface of `EntityResolver` and `SCDP`: a model says how it samples rows, and what it keeps of them."""

    # Whether candidate pairs will do in place of all pairs of records.
    takes_candidates: ClassVar[bool] = False
    # Whether draws can be conditioned on decisions and sources.
    takes_decisions: ClassVar[bool] = False
    # What is kept of training.
    fitted_class: ClassVar[type[Fitted]]

    model: str
    spec: Spec | None
    metric: str
    standardize: bool
    share_clusters: bool
    answer: str
    n_jobs: int | None
    random_state: Any
    verbose: int

    labels_: Integers
    posterior_: Posterior
    fitted_: Fitted

    @abstractmethod
    def check_parameters(self) -> None:
        """Refuse settings that make no sense."""

    @abstractmethod
    def _check_memory(self, rows: Extent, n_fit: int | None) -> None:
        """Refuse what does not fit into the memory; of `n_fit` rows of `fit` and new ones, or of `fit` (None)."""

    @abstractmethod
    def _sample_fit(
        self,
        rows: Rows,
        known: Integers,
        groups: Groups,
        features: tuple[str, ...],
        seed: int,
        conditions: Conditions | None = None,
    ) -> tuple[Posterior, Fitted]:
        """Draws of the clusters of all rows (-1 = unknown) that keep conditions, and what is kept for new ones."""

    @abstractmethod
    def _sample_more(
        self, new: Any, groups: Groups, known: Integers, seed: int, conditions: Conditions | None = None
    ) -> Posterior:
        """Draws of the rows that were kept followed by new ones; the other arguments are of both."""

    def _list_doubts(self) -> list[str]:
        """Why the draws of `fit` should not be trusted, in words."""
        return []

    def fit(
        self, X: Any, y: ArrayLike | None = None, groups: ArrayLike | None = None, *, decisions: Decisions = None
    ) -> Self:
        """Sample the clusters of rows whose label is -1 (all rows without y); every row is learned from.

        Parameters
        ----------
        X : array, table or Records
            Vectors (items, features) with NaN where missing, distances (items, items, features) where `metric` is
            "precomputed", or records where there is a `spec`.
        y : array of names or integers, optional
            The known clusters, names or whole numbers; None, NaN or -1 where unknown. Names are numbered in order.
        groups : array, optional
            Rows of two groups are never together.
        decisions : path or list of Decision, optional
            What people know of some rows: the resolver learns from it, and every draw keeps it.

        Returns
        -------
        self

        Example
        -------
        With `people` as in the example of `EntityResolver`:

        >>> known = EntityResolver(n_draws=24, random_state=0).fit(people, ["a", "a", "b", "b", "c", None])
        >>> known.labels_[:5].tolist()
        [0, 0, 1, 1, 2]
        """
        check_index(X, y=y, groups=groups)
        X = check_rows(self, X, reset=True)
        known = check_known(y, len(X))
        spec = self.spec
        if spec is None and isinstance(X, Records):
            spec = propose_spec(X, groups is not None)
        grouped = check_groups(groups, X, spec)
        conditions, known = self._settle(X, spec, decisions, known, grouped)
        self.check_parameters()
        self._check_memory(extent(X, known, grouped, spec, self.metric), None)
        settings = spec, self.metric, self.standardize
        with self._bar("comparing") as progress:
            rows = rows_of(X, grouped, *settings, progress, self.takes_candidates)
        names = feature_names(rows, getattr(self, "feature_names_in_", None))
        seed = draw_seed(self.random_state)
        self.posterior_, fitted = self._sample_fit(rows, known, grouped, names, seed, conditions)
        self.labels_ = labels_from(self._estimate(self.posterior_, known, conditions), known)
        self.fitted_ = fitted.with_labels(self.labels_)
        self.n_features_in_ = fitted.rows.n_features
        for doubt in self._list_doubts():
            warnings.warn(doubt, ConvergenceWarning, stacklevel=2)
        return self

    def predict(
        self, X: Any, groups: ArrayLike | None = None, known: ArrayLike | None = None, *, decisions: Decisions = None
    ) -> Integers:
        """Partition new rows jointly, with what was learned in `fit`; row order does not matter.

        Parameters
        ----------
        X, groups
            As in `fit`.
        known : array of names or integers, optional
            Rows with a cluster keep it, and others may join them or open new clusters; None or -1 where unknown.
        decisions : path or list of Decision, optional
            What people know of some rows, by the ids of their spec (or their places, counted from 0): every draw and
            the answer keep it.

        Returns
        -------
        array of integers
            The cluster of each row.

        Example
        -------
        With `model` and `people` as in the example of `EntityResolver`:

        >>> labels = model.predict(people)
        >>> bool(labels[0] == labels[1]), bool(labels[0] == labels[2])
        (True, False)
        """
        return self.predict_with_posterior(X, groups, known, decisions=decisions)[0]

    def predict_posterior(
        self,
        X: Any,
        groups: ArrayLike | None = None,
        known: ArrayLike | None = None,
        *,
        decisions: Decisions = None,
        random_state: int | None = None,
    ) -> Posterior:
        """The posterior over exactly the rows of X.

        Parameters
        ----------
        X, groups, known, decisions
            As in `predict`.
        random_state : int, optional
            Stands in for that of `fit`.

        Returns
        -------
        Posterior

        Example
        -------
        With `model` and `people` as in the example of `EntityResolver`:

        >>> model.predict_posterior(people).co_clustering(0, 1) > 0.5
        True
        """
        found = self.predict_with_posterior(X, groups, known, decisions=decisions, random_state=random_state)
        return found[1]

    def predict_with_posterior(
        self,
        X: Any,
        groups: ArrayLike | None = None,
        known: ArrayLike | None = None,
        *,
        decisions: Decisions = None,
        random_state: int | None = None,
    ) -> tuple[Integers, Posterior]:
        """Both at the cost of one: what `predict` and what `predict_posterior` give.

        Parameters
        ----------
        X, groups, known, decisions, random_state
            As in `predict_posterior`.

        Returns
        -------
        (array of integers, Posterior)

        Example
        -------
        With `model` and `people` as in the example of `EntityResolver`:

        >>> labels, posterior = model.predict_with_posterior(people)
        >>> len(labels) == posterior.n_items
        True
        """
        check_is_fitted(self)
        check_index(X, groups=groups, known=known)
        X = check_rows(self, X, reset=False)
        grouped = check_groups(groups, X, self.fitted_spec_)
        given = check_known(known, len(X), "known")
        conditions, given = self._settle(X, self.fitted_spec_, decisions, given, grouped)
        check_within_groups(given, grouped)
        order = row_order(X, grouped, given, self.fitted_spec_)
        ordered = None if grouped is None else grouped[order]
        conditions = None if conditions is None else conditions.take(order)
        labels, posterior = self._predict_ordered(take_rows(X, order), ordered, given[order], random_state, conditions)
        back = np.argsort(order)
        return labels[back], posterior.restrict(back)

    def _settle(
        self, X: Any, spec: Spec | None, decisions: Decisions, known: Integers, groups: Groups
    ) -> tuple[Conditions | None, Integers]:
        """What every draw must keep, and known clusters with all that decisions put into them."""
        if self.takes_decisions:
            return settle_conditions(X, spec, decisions, known, groups)
        if decisions is not None or (spec is not None and (spec.at_most_one or spec.link_only)):
            raise InputError(f"{type(self).__name__} takes neither decisions nor sources; use EntityResolver")
        return None, known

    def _predict_ordered(
        self, X: Any, groups: Groups, given: Integers, random_state: int | None, conditions: Conditions | None
    ) -> tuple[Integers, Posterior]:
        """Labels and posterior of new rows, in an order that does not depend on the order they came in."""
        kept = self.labels_[: len(self.fitted_.rows)]
        conditions = None if conditions is None else conditions.after(len(kept))
        posterior = self._sample_new(X, groups, given, random_state, conditions)
        everyone = len(kept) + np.arange(len(X))
        new = posterior.restrict(everyone)
        if self.share_clusters:
            known = np.concatenate([kept, given])
            return labels_from(self._estimate(posterior, known, conditions), known)[len(kept) :], new
        first = int(self.labels_.max(initial=UNKNOWN)) + 1
        own = None if conditions is None else conditions.take(everyone)
        return labels_from(self._estimate(new, given, own), given, first), new

    def sample_new(self, X: Any, groups: ArrayLike | None = None) -> Posterior:
        """The posterior of the rows of `fit`, their clusters as known, followed by new rows.

        Of a resolver that shares no clusters, which keeps no rows of `fit`, it is that of the new rows.
        """
        check_is_fitted(self)
        check_index(X, groups=groups)
        X = check_rows(self, X, reset=False)
        return self._sample_new(X, check_groups(groups, X, self.fitted_spec_), check_known(None, len(X)))

    def _sample_new(
        self,
        X: Any,
        groups: Groups,
        given: Integers,
        random_state: int | None = None,
        conditions: Conditions | None = None,
    ) -> Posterior:
        fitted = self.fitted_
        known = np.concatenate([self.labels_[: len(fitted.rows)], given])
        together = join_groups(fitted.groups, groups)
        kind: Any = type(fitted.rows)
        self._check_memory(Extent(kind, fitted.rows.n_features, known, together), len(fitted.rows))
        seed = fitted.seed + 1 if random_state is None else random_state
        return self._sample_more(X, together, known, seed, conditions)

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
        """Why two rows are or are not together.

        Parameters
        ----------
        X, groups
            As in `predict`.
        i, j : int
            The rows, counted from 0.
        posterior : Posterior, optional
            What `predict_posterior(X)` has given, if it is at hand.
        names : (str, str), optional
            What to call the rows; "row 0" and so on, unless given.

        Returns
        -------
        Explanation
            Its text is for people; its fields are numbers.

        Example
        -------
        With `model` and `people` as in the example of `EntityResolver`:

        >>> print(str(model.explain(people, 0, 2)).split(".")[0])
        row 0 and row 2: different, almost surely
        """
        check_is_fitted(self)
        check_index(X, groups=groups)
        X = check_rows(self, X, reset=False)
        grouped = check_groups(groups, X, self.fitted_spec_)
        named = names or (f"row {i}", f"row {j}")
        check_pair(i, j, len(X), grouped, named)
        probability = (posterior or self.predict_posterior(X, groups)).co_clustering(i, j)
        pair = pair_among(self.fitted_, X, grouped, i, j)
        return explain_pair(self.fitted_, pair, titles(self.fitted_), named, probability)

    def weigh_pairs(self, X: Any, left: ArrayLike, right: ArrayLike) -> dict[str, Any]:
        """What each comparison says of pairs of rows, in log-odds.

        Parameters
        ----------
        X
            As in `predict`.
        left, right : arrays of int
            The rows of each pair, counted from 0.

        Returns
        -------
        dict of arrays
            By comparison in words its contribution to each pair (NaN where a value is missing); "any two records",
            where all start; and "log-odds", to which these add up. Empty where the model does not compare records.

        Example
        -------
        With `model` and `people` as in the example of `EntityResolver`:

        >>> found = model.weigh_pairs(people, [0, 0], [1, 2])
        >>> bool(found["log-odds"][0] > found["log-odds"][1])
        True
        """
        check_is_fitted(self)
        X = check_rows(self, X, reset=False)
        grouped = check_groups(None, X, self.fitted_spec_)
        one, other = np.asarray(left, np.int64), np.asarray(right, np.int64)
        found = weigh_among(self.fitted_, X, grouped, one, other)
        if found is None:
            return {}
        said = np.where(np.isnan(found.distances), np.nan, found.contributions)
        named = dict(zip(titles(self.fitted_), said.T, strict=True))
        return named | {"any two records": found.start, "log-odds": found.log_odds}

    def save(self, folder: str | PathLike[str], *, force: bool = False, spec_text: str | None = None) -> None:
        """Write a folder of JSON and plain arrays, whole or not at all (docs/tutorials/deduplicate.md).

        Parameters
        ----------
        folder : path
            Where to; it must not be there, unless `force` says that it may be replaced.
        force : bool
            Replace a model that is there.
        spec_text : str, optional
            A commented TOML text of the fitted spec, to stand for the plain one.

        Example
        -------
        With `model` as in the example of `EntityResolver`:

        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/model")
        ...     EntityResolver.load(f"{folder}/model").n_draws
        24
        """
        from scdp.estimators.model_folder import save

        check_is_fitted(self)
        save(self, folder, force, spec_text)

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> Self:
        """Read what `save` wrote, as its example shows.

        Parameters
        ----------
        folder : path
            The folder of the model.

        Returns
        -------
        An estimator as after `fit`.
        """
        from scdp.estimators.model_folder import load_as

        return load_as(cls, folder)

    @property
    def fitted_spec_(self) -> Spec | None:
        """The spec with what `fit` has learned: proposed fields and scales."""
        check_is_fitted(self)
        return spec_of(self.fitted_.rows)

    def restore(self, fitted: Fitted) -> None:
        """Be as after `fit`, with what was kept of it."""
        self.fitted_, self.labels_ = fitted, fitted.labels
        self.n_features_in_ = fitted.rows.n_features
        self.spec = self.fitted_spec_

    def _bar(self, what: str) -> AbstractContextManager[Progress | None]:
        return WorkBar(what) if self.verbose else nullcontext()

    def _estimate(self, posterior: Posterior, known: Integers, conditions: Conditions | None = None) -> Integers:
        """The partition that serves best by what is wanted of the answer, and keeps the conditions."""
        labels = np.asarray(posterior.point_estimate(self.answer, random_state=0), dtype=np.int64)
        return labels if conditions is None else keep_conditions(labels, conditions, known, posterior)

    def score(self, X: Any, y: ArrayLike, groups: ArrayLike | None = None) -> float:
        """Pairwise F of the predicted clusters of X against the true ones, so that models can be chosen by it.

        Parameters
        ----------
        X, groups
            As in `predict`.
        y : array of names or integers
            The true clusters; rows of unknown cluster (None, NaN or -1) are not counted.

        Returns
        -------
        float

        Example
        -------
        With `model` and `people` as in the example of `EntityResolver`:

        >>> model.score(people, ["a", "a", "b", "b", "c", "d"])
        1.0
        """
        from scdp.metrics import f_score

        check_index(X, y=y)
        found = self.predict(X, groups)
        truth = check_known(y, len(found))
        return float(f_score(truth[truth >= 0], found[truth >= 0]))
