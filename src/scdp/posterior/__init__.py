"""What leaves a sampler: stored draws of partitions, their summaries, point estimates and diagnostics."""

from scdp.posterior.diagnostics import ConvergenceWarning, Diagnostic
from scdp.posterior.draws import StoredDraws
from scdp.posterior.partitions import canonical_labels
from scdp.posterior.posterior import Posterior
from scdp.posterior.recorder import DrawRecorder
from scdp.posterior.summaries import CredibleBall

__all__ = [
    "ConvergenceWarning",
    "CredibleBall",
    "Diagnostic",
    "DrawRecorder",
    "Posterior",
    "StoredDraws",
    "canonical_labels",
]
