"""The estimator: vectors, distances or records and partly known clusters enter, labels and a posterior leave."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager, nullcontext
from os import cpu_count
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from scdp.errors import InputError
from scdp.estimators.inputs import (
    UNKNOWN,
    Compared,
    Points,
    Precomputed,
    Rows,
    check_documents,
    check_known,
    check_square_shape,
    row_order,
    take_rows,
)
from scdp.model.priors import Priors
from scdp.posterior import ConvergenceWarning, DrawRecorder, Posterior
from scdp.records import Records, records_from
from scdp.sampler.chains import Schedule, run_chains, streams
from scdp.sampler.conditioned_sweep import with_means
from scdp.sampler.distance_items import AnySeating
from scdp.sampler.items import Seating
from scdp.sampler.plan import Plan
from scdp.sampler.progress import ChainBars
from scdp.sampler.separation import READINGS
from scdp.sampler.start import initial_state, start_of_chain
from scdp.sampler.state import State
from scdp.sampler.sweep import settle_types
from scdp.specs import Spec

Integers = NDArray[np.int64]

MODELS = ("cdp", "scdp1", "scdp2", "scdp3")
STARTS = ("mixed", "one", "singletons", "kmeans")


class SCDP(ClusterMixin, BaseEstimator):
    """Supervised clustering with the Dirichlet process.

    Parameters
    ----------
    model : "cdp" (no learning: one identity type, concentration 1), "scdp1", "scdp2" or "scdp3".
    n_chains, n_sweeps : chains, and sweeps of each, the warm-up included.
    n_warmup : sweeps that are not kept; half of them by default.
    thin : keep every thin-th draw.
    standardize : centre each feature and scale it to unit variance.
    mean_variance : variance of the prior on cluster means, or "learn".
    share_clusters : whether rows of unknown cluster may join the known clusters.
    scheme : "collapsed" integrates the means out; "paper" samples them, as the paper's Figure 2 does. For scdp3,
        whose means are always sampled, "paper" takes the paper's own moves instead of the exact ones.
    split_merge : split-merge moves tried per sweep (collapsed scheme).
    conditioning : scdp3's reading of the paper: "published", "normalized" or "mean" (docs/scdp3.md).
    rate : scdp3's separation rate (the paper's lambda), or "learn".
    n_auxiliary : auxiliary values that stand for a new cluster (or type) in scdp3.
    metric : "euclidean" for vectors (items, features), "precomputed" for distances (items, items, features).
    spec : how to compare records; X is then Records, or a table of columns.
    init : "mixed" (chains start from different places), "one", "singletons", "kmeans", or an array of labels.
    loss : what the point estimate `labels_` minimises in expectation, "vi" or "binder".
    n_jobs : chains that run at once (threads; None = 1, -1 = one a core). Draws do not depend on it.
    random_state : seed. Chain i draws the same however many chains there are.
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
        n_jobs: int | None = None,
        random_state: Any = None,
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
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: ArrayLike | None = None, groups: ArrayLike | None = None) -> Self:
        """Sample the clusters of rows whose label is -1 (all rows without y); types are learned from every row."""
        X = self._checked(X, reset=True)
        known = check_known(y, len(X))
        documents = check_documents(groups, len(X))
        self._check_parameters()
        rows = self._read(X, documents)
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        seating = rows.seat(known, documents, self.share_clusters)
        rngs = streams(seed, self.n_chains)
        starts = [self._start(rng, seating, chain) for chain, rng in enumerate(rngs)]
        self.posterior_, self._ends = self._sample(seating, starts, rngs)
        self._seed, self._rows, self._documents = seed, rows, documents
        self.labels_ = labels_from(self._estimate(self.posterior_), known)
        self._warn_if_not_converged()
        return self

    def predict(self, X: Any, groups: ArrayLike | None = None) -> Integers:
        """Partition new rows jointly, the rows and clusters of `fit` as known; row order does not matter."""
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        documents = check_documents(groups, len(X))
        order = row_order(X, documents)
        posterior, known = self._sample_new(
            take_rows(X, order), None if documents is None else documents[order]
        )
        labels = labels_from(self._estimate(posterior), known)[len(self._rows) :]
        return labels[np.argsort(order)]

    def sample_new(self, X: Any, groups: ArrayLike | None = None) -> Posterior:
        """The posterior of the rows of `fit` followed by new rows, with the clusters of `fit` as known."""
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        return self._sample_new(X, check_documents(groups, len(X)))[0]

    def _checked(self, X: Any, *, reset: bool) -> Any:
        """Vectors as scikit-learn wants them; records and distances by their own rules."""
        one_of("metric", self.metric, ("euclidean", "precomputed"))
        if isinstance(X, Records) or self.spec is not None:
            return self._checked_records(X, reset)
        if self.metric == "euclidean":
            return validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=reset)
        array = check_square_shape(X)
        if reset:
            self.n_features_in_ = array.shape[2]
        elif array.shape[2] != self.n_features_in_:
            raise InputError(f"X has {array.shape[2]} features, but fit saw {self.n_features_in_}")
        return array

    def _checked_records(self, X: Any, reset: bool) -> Records:
        if self.spec is None:
            raise InputError("records need a spec that says how to compare them: SCDP(spec=Spec(...))")
        return X if isinstance(X, Records) else records_from(X)

    def _read(self, X: Any, documents: NDArray[Any] | None) -> Rows:
        if isinstance(X, Records) and self.spec is not None:
            compared = Compared.of(X, self.spec, documents, self.standardize)
            self.n_features_in_ = compared.distances.n_features
            return compared
        if self.metric == "precomputed":
            return Precomputed.of(X, documents, self.standardize)
        return Points.of(X, self.standardize)

    def _sample_new(self, X: Any, documents: NDArray[Any] | None) -> tuple[Posterior, Integers]:
        known = np.concatenate([self.labels_, np.full(len(X), UNKNOWN)])
        if (documents is None) != (self._documents is None):
            raise InputError(
                "groups were given to only one of fit and predict; give them to both or to neither"
            )
        together = None if documents is None else np.concatenate([self._documents, documents])
        rows = self._rows.joined(X, together, self.share_clusters)
        seating = rows.seat(known, together, self.share_clusters)
        rngs = streams(self._seed + 1, self.n_chains)
        starts = [
            continued(self._start(rng, seating, chain), self._ends[chain]) for chain, rng in enumerate(rngs)
        ]
        return self._sample(seating, starts, rngs)[0], known

    def _sample(
        self, seating: AnySeating, starts: list[State], rngs: list[np.random.Generator]
    ) -> tuple[Posterior, list[State]]:
        schedule = self._schedule()
        recorder = DrawRecorder(
            schedule.n_chains,
            schedule.n_draws,
            seating.known_slot,
            seating.items.hidden,
            shared=self.share_clusters,
        )
        with self._bars() as bars:
            ends, traces = run_chains(
                seating.items, starts, rngs, self._plan(), self._priors(), schedule, recorder, bars
            )
        return recorder.finish(traces), ends

    def _start(self, rng: np.random.Generator, seating: AnySeating, chain: int) -> State:
        init = self.init
        if not isinstance(init, str):
            given = np.asarray(init)
            # A given start belongs to the rows of fit; new rows of predict start as k-means puts them.
            init = given if len(given) == len(seating.known_slot) else "kmeans"
        start = start_of_chain(init, chain) if isinstance(init, str) else init
        state = initial_state(rng, seating, start, self._priors())
        if self.model == "scdp3" and isinstance(seating, Seating):
            rate = 1.0 if isinstance(self.rate, str) else float(self.rate)
            state = with_means(rng, state, seating.items)._replace(separation_rate=rate)
        return settle_types(rng, state, seating.items, self._plan(), self._priors())

    def _estimate(self, posterior: Posterior) -> Integers:
        return np.asarray(
            posterior.point_estimate(loss="vi" if self.loss == "vi" else "binder", random_state=0),
            dtype=np.int64,
        )

    def _plan(self) -> Plan:
        return Plan(
            scheme="paper" if self.scheme == "paper" else "collapsed",
            learn_types=self.model != "cdp",
            learn_concentrations=self.model != "cdp",
            learn_mean_variance=self.mean_variance == "learn",
            separation=self.model == "scdp2",
            split_merge_attempts=self.split_merge,
            conditioning=self._reading() if self.model == "scdp3" else None,
            n_auxiliary=self.n_auxiliary,
            informed=self.scheme != "paper",
            paper_moves=self.scheme == "paper",
            n_candidates=self.n_auxiliary,
            learn_separation_rate=self.rate == "learn",
        )

    def _reading(self) -> Literal["published", "normalized", "mean"]:
        match self.conditioning:
            case "published":
                return "published"
            case "normalized":
                return "normalized"
            case _:
                return "mean"

    def _priors(self) -> Priors:
        variance = 1.0 if isinstance(self.mean_variance, str) else float(self.mean_variance)
        return Priors(mean_variance=variance)

    def _schedule(self) -> Schedule:
        warmup = self.n_sweeps // 2 if self.n_warmup is None else self.n_warmup
        jobs = 1 if self.n_jobs is None else self.n_jobs if self.n_jobs > 0 else (cpu_count() or 1)
        return Schedule(self.n_chains, self.n_sweeps, warmup, self.thin, jobs)

    def _bars(self) -> AbstractContextManager[ChainBars | None]:
        return ChainBars(self.n_chains, self.n_sweeps) if self.verbose else nullcontext()

    def _check_parameters(self) -> None:
        one_of("model", self.model, MODELS)
        one_of("scheme", self.scheme, ("collapsed", "paper"))
        on_distances = self.metric == "precomputed" or self.spec is not None
        if on_distances and (self.model == "scdp3" or self.scheme == "paper"):
            raise InputError(
                "on distances the means are always integrated out: use scheme='collapsed' and cdp, scdp1 or scdp2"
            )
        one_of("loss", self.loss, ("vi", "binder"))
        one_of("conditioning", self.conditioning, tuple(READINGS))
        if isinstance(self.init, str):
            one_of("init", self.init, STARTS)
        elif len(np.asarray(self.init)) == 0:
            raise InputError("init holds no labels; give one a row, or one of " + ", ".join(STARTS))
        for name in ("n_chains", "n_sweeps", "thin", "n_auxiliary"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self._schedule().n_draws < 1:
            raise InputError(f"no sweep is left to keep: {self.n_sweeps} sweeps with warm-up {self.n_warmup}")
        if isinstance(self.mean_variance, str):
            one_of("mean_variance", self.mean_variance, ("learn",))
        elif not self.mean_variance > 0:
            raise InputError(f"mean_variance must be above 0 or 'learn', not {self.mean_variance}")
        if isinstance(self.rate, str):
            one_of("rate", self.rate, ("learn",))
        elif not self.rate > 0:
            raise InputError(f"rate must be above 0 or 'learn', not {self.rate}")

    def _warn_if_not_converged(self) -> None:
        messages = [self.posterior_.convergence_warning(), degeneracy(self.posterior_, self.n_features_in_)]
        for message in filter(None, messages):
            warnings.warn(message, ConvergenceWarning, stacklevel=3)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def one_of(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InputError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")


def labels_from(estimate: Integers, known: Integers) -> Integers:
    """A point estimate as labels: clusters with known rows take their label, new ones are numbered on."""
    name_of = {
        int(cluster): int(label)
        for cluster, label in zip(estimate[known >= 0], known[known >= 0], strict=True)
    }
    following = int(known.max(initial=UNKNOWN)) + 1
    labels = known.copy()
    for i in np.flatnonzero(known < 0):
        cluster = int(estimate[i])
        if cluster not in name_of:
            name_of[cluster] = following
            following += 1
        labels[i] = name_of[cluster]
    return labels


def degeneracy(posterior: Posterior, n_features: int) -> str | None:
    """What went wrong in a run of scdp3 whose target is no proper density, in words; None where nothing did."""
    traces = posterior.traces
    if "improper_means" not in traces:
        return None
    coordinates = float((traces["n_clusters"] * n_features).mean())
    share = float(traces["improper_means"].mean()) / max(coordinates, 1.0)
    if share > 0:
        return (
            f"The target of this model is not a proper distribution here: {share:.1%} of the coordinates of cluster "
            "means had no spread to be drawn from (negative precision) and stayed as they were; do not trust the "
            "posterior, and use conditioning='mean' or 'normalized'."
        )
    if len(posterior.hidden) and traces["opened_clusters"].sum() == 0:
        return (
            "Not one new cluster was opened in any kept sweep: the clusters are those of the starts. "
            "Use conditioning='mean', or a smaller rate."
        )
    return None


def continued(start: State, end: State) -> State:
    """A start for old and new rows together that goes on with the types an earlier chain had learned."""
    n_new = len(start.type) - len(end.type)
    most_common = int(np.bincount(end.type).argmax())
    return start._replace(
        type=np.concatenate([end.type, np.full(n_new, most_common, dtype=np.int64)]),
        precision=end.precision,
        cluster_concentration=end.cluster_concentration,
        type_concentration=end.type_concentration,
        mean_variance=end.mean_variance,
        shape=end.shape,
        rate=end.rate,
        separation_rate=end.separation_rate,
    )
