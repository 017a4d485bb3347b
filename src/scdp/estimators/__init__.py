"""The scikit-learn estimator."""

from __future__ import annotations

from scdp.estimators.scdp import DEFAULT_MODEL, SCDP

__all__ = ["DEFAULT_MODEL", "SCDP"]
