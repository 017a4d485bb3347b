"""The state of a chain: what the next step needs and nothing else."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class State(NamedTuple):
    """Slots, not labels: `cluster[i]` and `type[i]` index cluster and type slots, of which some may be empty.

    `precision` has a row per type slot; `shape` and `rate` are the Gamma prior of its columns. `grid` holds
    the rows of a discrete precision prior with log weights `grid_log_weight`, none when the prior is Gamma.

    The rest is for SCDP-3, whose means are part of the state: a row per cluster slot, the separation rate, and
    a discrete mean prior (no row when it is Normal).
    """

    cluster: Integers
    type: Integers
    precision: Floats
    cluster_concentration: float
    type_concentration: float
    mean_variance: float
    shape: Floats
    rate: Floats
    grid: Floats
    grid_log_weight: Floats
    means: Floats = np.empty((0, 0))
    separation_rate: float = 1.0
    mean_grid: Floats = np.empty((0, 0))
    mean_grid_log_weight: Floats = np.empty(0)
