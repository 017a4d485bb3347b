"""The scikit-learn estimator."""

from __future__ import annotations

from scdp.estimators.scdp import SCDP

__all__ = ["SCDP"]
