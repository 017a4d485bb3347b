"""What a run is: the options that change its numbers, and from them the effort and seed of each part."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

from scdp.errors import InputError
from scdp.paper.experiments.paper import parent

# Chains and sweeps by task. Quick runs fit a coffee break on two cores, full ones an hour or two.
QUICK = MappingProxyType(
    {"digits": (2, 300), "identity": (2, 200), "coreference": (2, 200), "references": (2, 100)}
)
FULL = MappingProxyType(
    {"digits": (4, 3000), "identity": (4, 1000), "coreference": (4, 1000), "references": (4, 1000)}
)


@dataclass(frozen=True)
class Settings:
    """The options of a run that change numbers. Which tasks and systems it has may grow from run to run."""

    quick: bool = False
    chains: int | None = None
    sweeps: int | None = None
    repeats: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("chains", 1), ("sweeps", 2), ("repeats", 1), ("seed", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f"--{name} must be at least {least}, not {value}")

    def effort(self, task: str) -> tuple[int, int]:
        """Chains and sweeps of a sampler on this task."""
        chains, sweeps = (QUICK if self.quick else FULL)[parent(task)]
        return self.chains or chains, self.sweeps or sweeps

    def seed_of(self, *names: object) -> int:
        """A seed from names and not from order: the same part has it in every run, resumed or not."""
        text = "/".join(map(str, (self.seed, *names)))
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
