"""What is believed before any data: the mean prior, the precision prior and the two concentration priors."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class GammaPrior:
    """Gamma distribution by shape and rate (mean shape / rate)."""

    shape: float = 1.0
    rate: float = 1.0

    def __post_init__(self) -> None:
        if not (self.shape > 0 and self.rate > 0):
            raise ValueError(f"a Gamma prior needs shape and rate above 0, not {self.shape} and {self.rate}")

    def draw(self, rng: np.random.Generator) -> float:
        return float(rng.standard_gamma(self.shape) / self.rate)


@dataclass(frozen=True)
class PrecisionGrid:
    """A discrete prior on precision vectors: row g of `values` has probability `weights[g]`.

    It makes the joint posterior over clusters, types and precisions enumerable, which is what tests stand on.
    """

    values: NDArray[np.float64]
    weights: NDArray[np.float64]


@dataclass(frozen=True)
class Priors:
    """All priors of the model; a concentration that is not learned keeps the value it starts with."""

    mean_variance: float = 1.0
    precision: GammaPrior | PrecisionGrid = field(default_factory=GammaPrior)
    cluster_concentration: GammaPrior = field(default_factory=GammaPrior)
    type_concentration: GammaPrior = field(default_factory=GammaPrior)
    mean_precision: GammaPrior = field(default_factory=GammaPrior)
    separation_rate: GammaPrior = field(default_factory=GammaPrior)
