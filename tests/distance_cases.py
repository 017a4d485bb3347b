"""Small problems on distances that the tests share: Euclidean ones, made from points, and ones that fit no space."""

from __future__ import annotations

import numpy as np

from sampler_cases import Case, make_points, random_state
from scdp.chains import State
from scdp.chains.items import DistanceItems, ItemLayout, Items, lay_out_distances, lay_out_vectors
from scdp.compare.distances import Distances


def groups_of(case: Case) -> np.ndarray | None:
    return None if case.groups is None else np.array(case.groups)


def distances_of(points: np.ndarray, groups: np.ndarray | None = None) -> Distances:
    """Each column of points (NaN = missing) as one feature: distances are absolute differences."""
    square = np.abs(points[:, None, :] - points[None, :, :])
    every = np.arange(len(points))
    square[every, every] = np.where(np.isnan(points), np.nan, 0.0)
    return Distances.from_square(square, groups)


def lay_out_points(
    points: np.ndarray, known: np.ndarray, groups: np.ndarray | None, share: bool
) -> ItemLayout[DistanceItems]:
    """The distances of points, with the zero of their coordinates as origin: the coordinate model's prior mean."""
    distances = distances_of(points, groups)
    # A record alone in its group has no pair that tells whether it has a feature; the points do.
    assert (distances.observed == ~np.isnan(points)).all()
    return lay_out_distances(distances, known, groups, share_clusters=share, origin=points**2)


def build_both(
    case: Case, seed: int, n_features: int = 3
) -> tuple[ItemLayout[Items], ItemLayout[DistanceItems], State]:
    """One problem by coordinates and by distances, and a random state of it."""
    rng = np.random.default_rng(seed)
    known, groups = np.array(case.known), groups_of(case)
    points = make_points(rng, len(known), n_features, case.missing)
    laid_out = lay_out_vectors(points, known, groups, share_clusters=case.share)
    return laid_out, lay_out_points(points, known, groups, case.share), random_state(rng, laid_out, case.grid)


def build_strange(
    case: Case, seed: int, n_features: int = 3, clip: bool = False
) -> tuple[ItemLayout[DistanceItems], State]:
    """Random dissimilarities that fit no Euclidean space."""
    rng = np.random.default_rng(seed)
    n, groups = len(case.known), groups_of(case)
    points = make_points(rng, n, n_features, case.missing)
    upper = np.triu(rng.gamma(0.7, 2.0, (n_features, n, n)), 1)
    square = np.moveaxis(upper + upper.transpose(0, 2, 1), 0, 2)
    missing = np.isnan(points)
    square[missing[:, None, :] | missing[None, :, :]] = np.nan
    distances = Distances.from_square(square, groups)
    known = np.array(case.known)
    laid_out = lay_out_distances(distances, known, groups, share_clusters=case.share, clip=clip)
    state = random_state(rng, lay_out_vectors(points, known, groups, share_clusters=case.share), case.grid)
    return laid_out, state
