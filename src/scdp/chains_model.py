"""The paper's models as one estimator: chains sample the unknown clusters and the reference types together.

New rows are sampled together with those of `fit`, by chains that go on with the types these had learned.
"""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager, nullcontext
from os import PathLike
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from scdp import __version__
from scdp._parallel import ChainBars, ChainProgress, count_workers, require
from scdp._typing import Groups, Integers
from scdp.chains import ChainCheckpoints, Plan, Priors, State, initial_state, start_of_chain
from scdp.chains.counts import first_pseudo_counts
from scdp.chains.distances.clusters import check_plan
from scdp.chains.items import GAUSSIAN, LIKELIHOODS, CountItems, ItemLayout, Items, lay_out_counts, number_groups
from scdp.chains.run import Schedule, run_chains, settle_types, streams
from scdp.chains.vector_conditioned import with_means
from scdp.chains.vector_coupling import VARIANTS
from scdp.conditions import Conditions
from scdp.errors import InputError, NumericalError, UnitsWarning
from scdp.estimators import Estimator
from scdp.estimators.chains_fit import ChainsFit, continue_from, describe_degeneracy, describe_scale, describe_units
from scdp.estimators.checks import Extent, above_zero_or_learn, at_least_one, chain_needs, one_of, split_groups
from scdp.estimators.inputs import Points, Rows
from scdp.io.atomic import sum_arrays
from scdp.posterior import DrawRecorder, Posterior
from scdp.table.spec import Spec

# Variants of scdp3 that change the update of types alone.
OF_TYPES = ("types", "density")
MODELS = ("cdp", "scdp1", "scdp2", "scdp3")
STARTS = ("mixed", "one", "singletons", "kmeans")
# What draws depend on besides the rows and the seed, by the names that people know.
SETTINGS = (
    "model", "n_chains", "n_sweeps", "mean_variance", "share_clusters", "scheme", "split_merge", "conditioning",
    "rate", "n_auxiliary", "discount", "likelihood",
)  # fmt: skip


class SCDP(Estimator):
    """Supervised clustering with the Dirichlet process: the paper's four models.

    Parameters
    ----------
    model : {"cdp", "scdp1", "scdp2", "scdp3"}
        "cdp" learns nothing: one identity type, concentration 1.
    n_chains, n_sweeps : int
        Chains, and sweeps of each. The first half of the sweeps is the warm-up and is not kept.
    standardize : bool
        Centre each feature and scale it to unit variance, by the rows of `fit` (distances: their mean square). New
        rows of `predict` are measured in these units: where those of all rows together are others,
        `fit(train).predict_posterior(new)` and `fit([train, new], [y, -1])` give other probabilities, and `predict`
        says so (UnitsWarning). Without it both have one posterior.
    mean_variance : float, "learn" or "learn scale"
        Variance of the prior on cluster means. What the models find hangs on it and on the scale of the features
        (docs/results.md). "learn" samples it; "learn scale" (scdp1) also samples the rate of the prior on precisions,
        so that no scale is taken for granted.
    share_clusters : bool
        Whether rows of unknown cluster may join the known clusters.
    scheme : {"collapsed", "paper"}
        "collapsed" integrates the means out; "paper" samples them, as the paper's Figure 2 does. For scdp3, whose
        means are always sampled, "paper" takes the paper's own moves instead of the exact ones. Distances, which
        have no means to sample, take "collapsed" only.
    split_merge : int
        Split-merge moves tried per sweep (collapsed scheme, Gaussian likelihood).
    conditioning : {"normalized", "mean", "published", "types", "density"}
        The variant of scdp3 (docs/scdp3.md); "published" is not for distances. "types" and "density" change the
        update of types alone.
    rate : float or "learn"
        scdp3's separation rate (the paper's lambda).
    n_auxiliary : int
        Auxiliary values that stand for a new cluster (or type) in scdp3.
    discount : float
        Discount of Pitman and Yor's prior on clusters, from 0 (the Dirichlet process) to below 1: an item joins a
        cluster of n items with weight n - discount and opens one beside K with weight alpha + discount K, so that
        more clusters are expected, most of them small. The prior on types stays a Dirichlet process.
    likelihood : {"gaussian", "beta-binomial", "dirichlet-multinomial"}
        What a feature is, given its cluster. The discrete ones take vectors of counts as they are (`standardize` and
        `mean_variance` do not matter) for the models cdp and scdp1. "beta-binomial": successes among as many trials
        as the largest value of the feature; NaN is missing. "dirichlet-multinomial": a row holds the counts of one
        multinomial. Chances have a Beta or Dirichlet prior whose pseudo-counts are 1 in cdp; in scdp1 they are the
        one reference type, which all clusters share, and are learned under a Gamma(1, 1) prior each.
    init : {"mixed", "one", "singletons", "kmeans"} or array of labels
        Where chains start; "mixed" starts them in different places.
    metric : {"euclidean", "precomputed"}
        Vectors (items, features), or distances (items, items, features).
    spec : Spec, optional
        How to compare records; X is then Records, or a table of columns.
    n_jobs : int, optional
        Chains that run at once (threads; None = 1, -1 = one a core). Draws do not depend on it.
    random_state : int, optional
        Seed. Chain i draws the same however many chains there are.
    verbose : int
        Show a bar per chain.

    Attributes
    ----------
    labels_ : array of integers
        The cluster of each row of `fit`: known ones keep their label, new clusters get fresh numbers.
    posterior_ : Posterior
        The draws, co-clustering probabilities, intervals and diagnostics.

    Example
    -------
    >>> import numpy as np
    >>> X = np.array([[0.0], [0.1], [9.0], [9.1], [18.0], [18.1]])
    >>> model = SCDP("cdp", n_chains=1, n_sweeps=60, random_state=0, standardize=False, mean_variance=100.0)
    >>> [int(label) for label in model.fit(X, [0, 0, 1, 1, -1, -1]).labels_]
    [0, 0, 1, 1, 2, 2]
    """

    fitted_class = ChainsFit
    # The paper's models answer by least expected variation of information.
    answer = "vi"

    def __init__(
        self,
        model: str = "scdp1",
        *,
        n_chains: int = 4,
        n_sweeps: int = 2000,
        standardize: bool = True,
        mean_variance: float | str = 1.0,
        share_clusters: bool = False,
        scheme: str = "collapsed",
        split_merge: int = 5,
        conditioning: str = "normalized",
        rate: float | str = 1.0,
        n_auxiliary: int = 8,
        discount: float = 0.0,
        likelihood: str = "gaussian",
        init: str | ArrayLike = "mixed",
        metric: str = "euclidean",
        spec: Spec | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        # As scikit-learn asks: every argument by its name, stored as it came.
        self.model = model
        self.n_chains = n_chains
        self.n_sweeps = n_sweeps
        self.standardize = standardize
        self.mean_variance = mean_variance
        self.share_clusters = share_clusters
        self.scheme = scheme
        self.split_merge = split_merge
        self.conditioning = conditioning
        self.rate = rate
        self.n_auxiliary = n_auxiliary
        self.discount = discount
        self.likelihood = likelihood
        self.init = init
        self.metric = metric
        self.spec = spec
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def keep_checkpoints(self, folder: str | PathLike[str], seconds: float = 30.0) -> Self:
        """Keep in a folder what a killed `fit` or `predict` needs to go on, draw for draw (docs/checkpoints.md).

        Parameters
        ----------
        folder : path
            The same call with the same folder goes on with what is there.
        seconds : float
            Time between checkpoints of a chain; longer where writing one takes over 2 % of it.

        Returns
        -------
        self

        Example
        -------
        >>> model = SCDP("scdp1", random_state=0).keep_checkpoints("kept")
        """
        if not seconds >= 0:
            raise InputError(f"the seconds between checkpoints must be at least 0, not {seconds}")
        self._kept_in: tuple[Path, float] | None = (Path(folder), seconds)
        return self

    def check_parameters(self) -> None:
        one_of("model", self.model, MODELS)
        one_of("scheme", self.scheme, ("collapsed", "paper"))
        one_of("conditioning", self.conditioning, (*VARIANTS, *OF_TYPES))
        if self.metric == "precomputed" or self.spec is not None:
            check_plan(self._plan)
        if isinstance(self.init, str):
            one_of("init", self.init, STARTS)
        elif len(np.asarray(self.init)) == 0:
            raise InputError("init holds no labels; give one a row, or one of " + ", ".join(STARTS))
        at_least_one(self, "n_chains", "n_sweeps", "n_auxiliary")
        if self.mean_variance == "learn scale":
            if self.model != "scdp1":
                raise InputError("mean_variance='learn scale' is for model='scdp1': use mean_variance='learn'")
        else:
            above_zero_or_learn("mean_variance", self.mean_variance)
        above_zero_or_learn("rate", self.rate)
        if self.model == "scdp3" and self.rate == "learn" and self.conditioning in OF_TYPES:
            raise InputError(f"conditioning={self.conditioning!r} has no density to learn a rate by: give a number")
        if not 0 <= self.discount < 1:
            raise InputError(f"discount must be from 0 to below 1, not {self.discount}")
        self._check_likelihood()
        if getattr(self, "_kept_in", None) is not None and self.random_state is None:
            raise InputError("checkpoints need a random_state: a run can only go on with the seed it began with")

    def _check_likelihood(self) -> None:
        one_of("likelihood", self.likelihood, LIKELIHOODS)
        if self.likelihood == GAUSSIAN:
            return
        if self.metric == "precomputed" or self.spec is not None:
            raise InputError(f"likelihood={self.likelihood!r} takes vectors of counts, not distances or records")
        if self.model not in ("cdp", "scdp1") or self.scheme != "collapsed":
            raise InputError(
                f"likelihood={self.likelihood!r} has neither means nor precisions to sample: "
                "use model='cdp' or 'scdp1' with scheme='collapsed'"
            )

    def _lay_out(self, rows: Rows, known: Integers, groups: Groups, share: bool) -> ItemLayout[Any]:
        layout = rows.lay_out(known, groups, share)
        if self.likelihood != GAUSSIAN and isinstance(layout.items, Items):
            return lay_out_counts(layout, self.likelihood)
        return layout

    def _check_memory(self, rows: Extent, n_fit: int | None) -> None:
        apart = None if n_fit is None or self.share_clusters else np.repeat([0, 1], [n_fit, len(rows) - n_fit])
        group = number_groups(rows.known, split_groups(rows.groups, apart), self.share_clusters or n_fit is not None)
        require(chain_needs(rows, group, self.n_chains, self._schedule.n_draws))

    def _sample_fit(
        self,
        rows: Rows,
        known: Integers,
        groups: Groups,
        features: tuple[str, ...],
        seed: int,
        conditions: Conditions | None = None,
    ) -> tuple[Posterior, ChainsFit]:
        if self.likelihood != GAUSSIAN and isinstance(rows, Points):
            rows = Points.of(rows.values, standardize=False)
        layout = self._lay_out(rows, known, groups, self.share_clusters)
        rngs = streams(seed, self.n_chains)
        starts = [self._start(rng, layout, chain) for chain, rng in enumerate(rngs)]
        posterior, ends = self._sample(layout, starts, rngs, self.share_clusters, "fit", seed)
        best = int(np.argmax(posterior.traces["log_joint"][:, -1]))
        if self.likelihood == GAUSSIAN and not isinstance(self.mean_variance, str):
            told = describe_scale(rows, features, float(self.mean_variance))
            if told:
                warnings.warn(told, UnitsWarning, stacklevel=3)
        return posterior, ChainsFit(self.model, rows, groups, known, ends, seed, best, features)

    def _sample_more(
        self, new: Any, groups: Groups, known: Integers, seed: int, conditions: Conditions | None = None
    ) -> Posterior:
        fitted = cast(ChainsFit, self.fitted_)
        n_fit = len(fitted.rows)
        apart = None if self.share_clusters else np.repeat([0, 1], [n_fit, len(known) - n_fit])
        with self._bar("comparing") as progress:
            together = fitted.rows.append(new, groups, self.share_clusters, progress)
            layout = self._lay_out(together, known, split_groups(groups, apart), True)
        told = describe_units(together, fitted.features) if self.standardize and self.likelihood == GAUSSIAN else None
        if told:
            warnings.warn(told, UnitsWarning, stacklevel=5)
        rngs = streams(seed, self.n_chains)
        starts = [continue_from(fitted.ends[chain], self._start(rng, layout, chain)) for chain, rng in enumerate(rngs)]
        shared = self.share_clusters or bool((known[n_fit:] >= 0).any())
        return self._sample(layout, starts, rngs, shared, "predict", seed)[0]

    def _list_doubts(self) -> list[str]:
        posterior = self.posterior_
        doubts = posterior.convergence_warning(), describe_degeneracy(posterior, self.n_features_in_)
        return [doubt for doubt in doubts if doubt]

    @property
    def _plan(self) -> Plan:
        of_types = self.conditioning in OF_TYPES
        return Plan(
            scheme="paper" if self.scheme == "paper" else "collapsed",
            learn_types=self.model != "cdp",
            learn_concentrations=self.model != "cdp",
            learn_mean_variance=isinstance(self.mean_variance, str),
            learn_scale=self.mean_variance == "learn scale",
            separation=self.model == "scdp2",
            type_coupling=cast(Any, self.conditioning) if self.model == "scdp3" and of_types else None,
            split_merge_attempts=self.split_merge,
            conditioning=cast(Any, self.conditioning) if self.model == "scdp3" and not of_types else None,
            n_auxiliary=self.n_auxiliary,
            learn_separation_rate=self.rate == "learn",
        )

    @property
    def _priors(self) -> Priors:
        return Priors(mean_variance=1.0 if isinstance(self.mean_variance, str) else float(self.mean_variance))

    @property
    def _schedule(self) -> Schedule:
        return Schedule(self.n_chains, self.n_sweeps, self.n_sweeps // 2, n_jobs=count_workers(self.n_jobs))

    def _sample(
        self,
        layout: ItemLayout[Any],
        starts: list[State],
        rngs: list[np.random.Generator],
        shared: bool,
        purpose: str,
        seed: int,
    ) -> tuple[Posterior, list[State]]:
        schedule = self._schedule
        recorder = DrawRecorder(
            schedule.n_chains, schedule.n_draws, layout.known_slot, layout.items.hidden, shared=shared
        )
        kept = self._checkpoints(layout, starts, recorder, purpose, seed)
        with kept as checkpoints, self._bars() as bars:
            ends, traces = run_chains(
                layout.items, starts, rngs, self._plan, self._priors, schedule, recorder, bars, checkpoints
            )
        return recorder.finish(traces), ends

    def _checkpoints(
        self, layout: ItemLayout[Any], starts: list[State], recorder: DrawRecorder, purpose: str, seed: int
    ) -> AbstractContextManager[ChainCheckpoints | None]:
        if getattr(self, "_kept_in", None) is None:
            return nullcontext()
        folder, seconds = cast(tuple[Path, float], self._kept_in)
        run: dict[str, Any] = {"scdp": __version__, "NumPy": np.__version__}
        # Plain numbers: NumPy's cannot be written as JSON.
        run |= {name: np.asarray(getattr(self, name)).item() for name in SETTINGS}
        run |= {"seed": seed, "data": sum_arrays(_arrays(layout.items._asdict(), known_slot=layout.known_slot))}
        # Starts tell apart what no setting does: given labels, and what an earlier fit had learned.
        for chain, start in enumerate(starts):
            run[f"start of chain {chain + 1}"] = sum_arrays(_arrays(start._asdict()))
        return ChainCheckpoints(
            folder / purpose,
            run,
            seconds=seconds,
            n_chains=self.n_chains,
            n_sweeps=self.n_sweeps,
            n_slots=int(layout.items.slot_end.max(initial=0)),
            recorder=recorder,
        )

    def _start(self, rng: np.random.Generator, layout: ItemLayout[Any], chain: int) -> State:
        init = self.init
        if not isinstance(init, str):
            given = np.asarray(init)
            # A given start belongs to the rows of fit; new rows of predict start as k-means puts them.
            init = given if len(given) == len(layout.known_slot) else "kmeans"
        start = start_of_chain(init, chain) if isinstance(init, str) else init
        state = initial_state(rng, layout, start, self._priors)._replace(discount=float(self.discount))
        if isinstance(layout.items, CountItems):
            state = state._replace(pseudo_counts=first_pseudo_counts(layout.items))
        if self.model == "scdp3":
            rate = 1.0 if isinstance(self.rate, str) else float(self.rate)
            state = state._replace(separation_rate=rate)
            # On distances clusters are known by their centroids, which need no start.
            if isinstance(layout.items, Items) and self.conditioning in VARIANTS:
                state = with_means(rng, state, layout.items)
        try:
            return settle_types(rng, state, layout.items, self._plan, self._priors)
        except FloatingPointError as error:
            raise NumericalError(
                f"chain {chain + 1}, before its first sweep: {error}, so nothing was drawn from it; "
                "please report it, with the largest and smallest number of each feature"
            ) from error

    def _bars(self) -> AbstractContextManager[ChainProgress | None]:
        return ChainBars(self.n_chains, self.n_sweeps) if self.verbose else nullcontext()


def _arrays(fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {name: np.asarray(value) for name, value in (fields | more).items()}
