"""Expected quality of a partition: draws and labels enter; precision, recall, F and more leave, with intervals."""

from __future__ import annotations

import numpy as np

from scdp._typing import Integers
from scdp.metrics import Contingency, contingency
from scdp.posterior.draws import StoredDraws

MOST_DRAWS = 60


def expected_metrics(stored: StoredDraws, labels: Integers, level: float) -> dict[str, dict[str, float]]:
    """By metric, its mean and interval over at most so many draws, each taken as the truth."""
    chosen = stored.evenly_spaced(MOST_DRAWS)
    found = [
        _measure(contingency(stored.labels_at(chosen[i : i + 1])[0], labels)) for i in range(len(chosen))
    ]
    tail = (1.0 - level) / 2.0
    out = {}
    for name in found[0]:
        values = np.array([each[name] for each in found])
        low, high = np.quantile(values, [tail, 1.0 - tail])
        out[name] = {"mean": float(values.mean()), "low": float(low), "high": float(high)}
    return out


def _measure(table: Contingency) -> dict[str, float]:
    """A pair that is not there cannot be wrong: without pairs precision and recall are 1."""
    both, found, true, _ = table.pairs
    overlap = table.cells.astype(np.float64)
    b_precision = float((overlap**2 / table.row_sizes[table.rows]).sum() / max(table.items, 1))
    b_recall = float((overlap**2 / table.column_sizes[table.columns]).sum() / max(table.items, 1))
    return {
        "precision": both / found if found else 1.0,
        "recall": both / true if true else 1.0,
        "f": 2.0 * both / (true + found) if true + found else 1.0,
        "b_cubed": 2.0 * b_precision * b_recall / max(b_precision + b_recall, 1e-300),
        "n_clusters": float(len(table.column_sizes)),
    }
