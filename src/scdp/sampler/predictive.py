"""The density of an item given a cluster whose mean is integrated out, tabulated per cluster for one reference type.

With A the cluster's summed weights plus the prior's, an item of precision t is Normal(pull / A, 1/t + 1/A).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scdp.compile import kernel
from scdp.sampler.items import Floats, Items


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
def sum_of_logs(values: Floats, at: int) -> float:
    """Sum of log values[at, :]: one logarithm per eight factors, or one each where their product would overflow."""
    n = values.shape[1]
    total = 0.0
    for start in range(0, n, 8):
        stop = min(start + 8, n)
        product = 1.0
        for f in range(start, stop):
            product *= values[at, f]
        if 1e-290 < product < 1e290:
            total += np.log(product)
        else:
            for f in range(start, stop):
                total += np.log(values[at, f])
    return total


@kernel
def fill_row(
    table: Table, at: int, weight: Floats, pull: Floats, slot: int, row: Floats, prior_weight: float, logs: bool
) -> None:
    """Write into row `at` the predictive of the cluster sums at `slot` for items of precisions `row`."""
    for f in range(row.shape[0]):
        a = prior_weight + weight[slot, f]
        table.mean[at, f] = pull[slot, f] / a
        table.inverse[at, f] = row[f] / (row[f] + a) * a
    table.half_log[at] = 0.5 * sum_of_logs(table.inverse, at)
    if logs:
        for f in range(row.shape[0]):
            table.log_inverse[at, f] = np.log(table.inverse[at, f])


@kernel
def copy_row(table: Table, source: int, target: int) -> None:
    table.mean[target, :] = table.mean[source, :]
    table.inverse[target, :] = table.inverse[source, :]
    table.log_inverse[target, :] = table.log_inverse[source, :]
    table.half_log[target] = table.half_log[source]


@kernel
def log_predictive(table: Table, at: int, items: Items, i: int) -> float:
    """Log density of item i under row `at`, up to a constant that is the same for every cluster."""
    n_features = items.points.shape[1]
    square = 0.0
    if items.complete[i]:
        for f in range(n_features):
            gap = items.points[i, f] - table.mean[at, f]
            square += table.inverse[at, f] * gap * gap
        return table.half_log[at] - 0.5 * square
    logs = 0.0
    for f in range(n_features):
        gap = items.points[i, f] - table.mean[at, f]
        square += items.observed[i, f] * table.inverse[at, f] * gap * gap
        logs += items.observed[i, f] * table.log_inverse[at, f]
    return 0.5 * (logs - square)
