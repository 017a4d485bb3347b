"""Small random problems and states that the sampler's tests share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scdp.chains import State
from scdp.chains.items import ItemLayout, Items, lay_out_vectors


@dataclass(frozen=True)
class Case:
    """A layout: which labels are known, which documents there are, whether clusters are shared."""

    name: str
    known: list[int]
    groups: list[int] | None = None
    share: bool = False
    missing: float = 0.0
    grid: bool = False


CASES = [
    Case("all hidden", [-1] * 9),
    Case("training apart", [0, 0, 1, 1, -1, -1, -1, -1, -1]),
    Case("training shared", [0, 0, 1, 1, -1, -1, -1, -1, -1], share=True),
    Case("documents", [0, -1, -1, 1, -1, -1, -1, 0, -1], groups=[0, 0, 0, 0, 1, 1, 1, 2, 2], share=True),
    Case("documents apart", [0, -1, -1, 1, -1, -1, -1, 0, -1], groups=[0, 0, 0, 0, 1, 1, 1, 2, 2]),
    Case("missing values", [0, 0, 1, -1, -1, -1, -1, -1, -1], share=True, missing=0.3),
    Case("grid of precisions", [0, 0, 1, -1, -1, -1, -1, -1, -1], share=True, missing=0.2, grid=True),
]


def make_points(rng: np.random.Generator, n: int, n_features: int, missing: float) -> np.ndarray:
    points = rng.normal(size=(n, n_features)) * 1.5
    points[rng.random(points.shape) < missing] = np.nan
    return points


def make_grid(n_features: int) -> tuple[np.ndarray, np.ndarray]:
    values = np.array([np.full(n_features, 0.5), np.linspace(4.0, 1.0, n_features), np.full(n_features, 9.0)])
    return values, np.log(np.array([0.5, 0.3, 0.2]))


def random_state(rng: np.random.Generator, laid_out: ItemLayout[Items], grid: bool = False) -> State:
    """A valid state with hidden items thrown into random slots of their groups."""
    items = laid_out.items
    n, n_features = items.points.shape
    cluster = laid_out.known_slot.copy()
    for i in items.hidden:
        start, end = items.slot_start[items.group[i]], items.slot_end[items.group[i]]
        cluster[i] = rng.integers(start, min(end, start + 4))
    types = rng.integers(0, 3, n)
    grid_values, grid_log = make_grid(n_features) if grid else (np.empty((0, n_features)), np.empty(0))
    rows = grid_values[rng.integers(0, 3, 4)] if grid else rng.gamma(2.0, 1.0, (4, n_features))
    return State(
        cluster=cluster,
        type=types,
        precision=rows,
        cluster_concentration=float(rng.gamma(2.0)),
        type_concentration=float(rng.gamma(2.0)),
        mean_variance=1.3,
        shape=np.full(n_features, 1.2),
        rate=np.linspace(0.7, 1.4, n_features),
        grid=grid_values,
        grid_log_weight=grid_log,
    )


def build(case: Case, seed: int, n_features: int = 3) -> tuple[ItemLayout[Items], State]:
    rng = np.random.default_rng(seed)
    groups = None if case.groups is None else np.array(case.groups)
    points = make_points(rng, len(case.known), n_features, case.missing)
    laid_out = lay_out_vectors(points, np.array(case.known), groups, share_clusters=case.share)
    return laid_out, random_state(rng, laid_out, case.grid)
