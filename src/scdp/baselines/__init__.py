"""The opponents, all with one surface: `fit(X, y, groups)`, `predict(X, groups)` and `fit_predict`."""

from __future__ import annotations

from scdp.baselines.surface import Baseline
from scdp.baselines.trivial import Coarse, Fine, NameMatch, SameHead

__all__ = ["Baseline", "Coarse", "Fine", "NameMatch", "SameHead"]
