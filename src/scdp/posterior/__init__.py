"""What leaves a sampler: stored draws of partitions, their summaries, point estimates and diagnostics."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = [
    "ConvergenceWarning",
    "CredibleBall",
    "Diagnostic",
    "DrawRecorder",
    "Posterior",
    "StoredDraws",
    "canonical_labels",
]

if TYPE_CHECKING:
    from scdp.posterior.ball import CredibleBall
    from scdp.posterior.canonical import canonical_labels
    from scdp.posterior.diagnostics import ConvergenceWarning, Diagnostic
    from scdp.posterior.draws import StoredDraws
    from scdp.posterior.posterior import Posterior
    from scdp.posterior.recorder import DrawRecorder

# The modules behind these names load the compiler, so they are imported on first use.
_HOMES = {
    "ConvergenceWarning": "diagnostics",
    "CredibleBall": "ball",
    "Diagnostic": "diagnostics",
    "DrawRecorder": "recorder",
    "Posterior": "posterior",
    "StoredDraws": "draws",
    "canonical_labels": "canonical",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"scdp.posterior.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'scdp.posterior' has no attribute {name!r}")
