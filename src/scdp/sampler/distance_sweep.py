"""One sweep on distances, means integrated out throughout: clusters, split-merge moves, priors, types, precisions."""

from __future__ import annotations

import numpy as np

from scdp.errors import InputError
from scdp.model.priors import Priors
from scdp.sampler.distance_clusters import resample_clusters_by_distance
from scdp.sampler.distance_gaps import separation_prior_by_distance
from scdp.sampler.distance_items import DistanceItems
from scdp.sampler.distance_precisions import (
    resample_mean_variance_by_distance,
    resample_precisions_by_distance,
)
from scdp.sampler.distance_split_merge import split_merge_by_distance
from scdp.sampler.distance_types import resample_types_by_distance
from scdp.sampler.plan import Info, Plan
from scdp.sampler.state import State


def distance_sweep(
    rng: np.random.Generator, state: State, items: DistanceItems, plan: Plan, priors: Priors
) -> tuple[State, Info]:
    """One full update of the state except its concentrations."""
    check_plan(plan)
    moved = accepted = moved_types = 0
    in_clusters = in_moves = in_gaps = in_types = 0
    if len(items.hidden):
        cluster, moved, in_clusters = resample_clusters_by_distance(rng, items, state)
        state = state._replace(cluster=cluster)
        cluster, accepted, in_moves = split_merge_by_distance(rng, items, state, plan.split_merge_attempts)
        state = state._replace(cluster=cluster)
    if plan.learn_mean_variance:
        prior = priors.mean_precision
        variance = resample_mean_variance_by_distance(rng, items, state, prior.shape, prior.rate)
        state = state._replace(mean_variance=variance)
    if plan.separation:
        shape, rate, in_gaps = separation_prior_by_distance(items, state)
        state = state._replace(shape=shape, rate=rate)
    if plan.learn_types:
        types, precision, moved_types, in_types = resample_types_by_distance(
            rng, items, state, plan.n_auxiliary
        )
        state = state._replace(type=types, precision=precision)
        state = state._replace(precision=resample_precisions_by_distance(rng, items, state))
    negative = in_clusters + in_moves + in_gaps + in_types
    return state, Info(moved, accepted, moved_types, negative_norms=negative)


def check_plan(plan: Plan) -> None:
    if plan.scheme != "collapsed" or plan.conditioning is not None:
        raise InputError(
            "the paper's scheme and SCDP-3 sample cluster means, which distances do not have: on distances use "
            "scheme='collapsed' with model 'cdp', 'scdp1' or 'scdp2'"
        )
