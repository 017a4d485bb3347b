"""The density of an item given a cluster, the mean integrated out, tabulated for one reference type.

With A the cluster's summed weights plus the prior's, an item of precision t is Normal(pull / A, 1/t + 1/A).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scdp._compile import kernel
from scdp.chains.arithmetic import sum_of_logs
from scdp.chains.vectors.items import Floats


class Table(NamedTuple):
    """Per row: mean and inverse variance by feature, log inverse variance by feature, and half their sum."""

    mean: Floats
    inverse: Floats
    log_inverse: Floats
    half_log: Floats


@kernel
def make_table(n_rows: int, n_features: int) -> Table:
    return Table(
        np.empty((n_rows, n_features)),
        np.empty((n_rows, n_features)),
        np.empty((n_rows, n_features)),
        np.empty(n_rows),
    )


@kernel
def fill_row(
    table: Table,
    at: int,
    weight: Floats,
    pull: Floats,
    slot: int,
    row: Floats,
    prior_weight: float,
    logs: bool,
) -> None:
    """Write into row `at` the predictive of the cluster sums at `slot` for items of precisions `row`."""
    mean, inverse, log_inverse, half_log = table
    for f in range(row.shape[0]):
        a = prior_weight + weight[slot, f]
        mean[at, f] = pull[slot, f] / a
        inverse[at, f] = row[f] / (row[f] + a) * a
    half_log[at] = 0.5 * sum_of_logs(inverse, at)
    if logs:
        for f in range(row.shape[0]):
            log_inverse[at, f] = np.log(inverse[at, f])


@kernel
def copy_row(table: Table, source: int, target: int) -> None:
    table.mean[target, :] = table.mean[source, :]
    table.inverse[target, :] = table.inverse[source, :]
    table.log_inverse[target, :] = table.log_inverse[source, :]
    table.half_log[target] = table.half_log[source]
