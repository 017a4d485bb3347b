"""Reference types by Neal's Algorithm 8: a new type is stood for by M precision rows drawn from the prior.

The paper's own move for SCDP-3. `scdp.chains.vectors.types` integrates the new type out instead and is the default.
"""

from __future__ import annotations

import numpy as np

from scdp._compile import kernel
from scdp._typing import Floats, Integers
from scdp.chains.arithmetic import choose, log_table, lowest_empty, slot_counts
from scdp.chains.state import State
from scdp.chains.vectors.items import Items
from scdp.chains.vectors.types import NEW, add_log_densities, draw_row, grown, squared_residuals


@kernel
def resample_types_by_auxiliary(
    rng: np.random.Generator,
    items: Items,
    state: State,
    means: Floats,
    log_new_factor: float,
    n_auxiliary: int,
) -> tuple[Integers, Floats, int]:
    """One pass over every item's type; returns type slots, precision rows and how many items moved."""
    n, n_features = items.points.shape
    types = state.type.copy()
    high = types.max() + 1
    precision = grown(state.precision.copy(), high + 1)
    counts = slot_counts(types, n + 2)
    logs = log_table(n)
    log_share = np.log(state.type_concentration / n_auxiliary) + log_new_factor
    square = np.empty(n_features)
    nothing = np.zeros(n_features)
    grid_log = np.empty(state.grid.shape[0])
    log_weight = np.empty(n + 2 + n_auxiliary)
    candidate = np.empty(n + 2 + n_auxiliary, np.int64)
    auxiliary = np.empty((n_auxiliary, n_features))
    every = np.arange(n_auxiliary)
    moved = 0
    for i in range(n):
        own, observed, complete = types[i], items.observed[i], items.complete[i]
        squared_residuals(items, i, means[state.cluster[i]], square)
        counts[own] -= 1
        m = 0
        for kind in range(high):
            if counts[kind] > 0:
                candidate[m] = kind
                log_weight[m] = logs[counts[kind]]
                m += 1
        log_rows, half = logs_of(precision)
        add_log_densities(log_weight, candidate, m, precision, log_rows, half, observed, complete, square)
        # A type that only this item used is not lost: it is the first of the auxiliary ones.
        kept = counts[own] == 0
        if kept:
            auxiliary[0] = precision[own]
        for a in range(int(kept), n_auxiliary):
            draw_row(rng, state, nothing, nothing, grid_log, auxiliary[a])
        log_rows, half = logs_of(auxiliary)
        opened = log_weight[m : m + n_auxiliary]
        opened[:] = log_share
        add_log_densities(opened, every, n_auxiliary, auxiliary, log_rows, half, observed, complete, square)
        candidate[m : m + n_auxiliary] = NEW
        pick = choose(rng, log_weight, m + n_auxiliary)
        chosen = candidate[pick]
        if chosen == NEW:
            chosen = lowest_empty(counts, 0)
            precision = grown(precision, chosen + 1)
            precision[chosen] = auxiliary[pick - m]
        counts[chosen] += 1
        high = max(high, chosen + 1)
        while counts[high - 1] == 0:
            high -= 1
        types[i] = chosen
        moved += chosen != own
    return types, precision, moved


@kernel
def logs_of(rows: Floats) -> tuple[Floats, Floats]:
    """Logarithms of precision rows, and half their sum by row."""
    log_rows = np.log(rows)
    return log_rows, 0.5 * log_rows.sum(axis=1)
