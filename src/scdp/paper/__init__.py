"""What only the reproduction of the paper needs: opponents, loaders, experiments. Only the command line imports it.

All opponents have one surface: `fit(X, y, groups)`, `predict(X, groups)` and `fit_predict`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scdp.paper.binary import Binary, ModernBinary
    from scdp.paper.coreference import load_ace, load_coreference
    from scdp.paper.simple import RCA, Coarse, DPMixture, Fine, NameMatch, OracleKMeans, SameHead
    from scdp.paper.structured import ClusterSVM, GraphPartition
    from scdp.paper.surface import Baseline
    from scdp.paper.tables import (
        load_cora,
        load_digits_task,
        load_fake_1000,
        load_febrl3,
        load_historical,
        load_identity,
        load_identity_full,
        load_records,
        load_references,
        load_restaurant,
        load_rldata500,
        load_usps,
    )
    from scdp.paper.xing_k import XingK

__all__ = [
    "RCA",
    "Baseline",
    "Binary",
    "ClusterSVM",
    "Coarse",
    "DPMixture",
    "Fine",
    "GraphPartition",
    "ModernBinary",
    "NameMatch",
    "OracleKMeans",
    "SameHead",
    "XingK",
    "load_ace",
    "load_cora",
    "load_coreference",
    "load_digits_task",
    "load_fake_1000",
    "load_febrl3",
    "load_historical",
    "load_identity",
    "load_identity_full",
    "load_records",
    "load_references",
    "load_restaurant",
    "load_rldata500",
    "load_usps",
]

# Loaded on first use: loaders of records need no learners. Loaders are in `tables` unless it says otherwise.
_HOME = {
    "Baseline": "surface",
    "Binary": "binary",
    "ClusterSVM": "structured",
    "GraphPartition": "structured",
    "ModernBinary": "binary",
    "XingK": "xing_k",
    "load_ace": "coreference",
    "load_coreference": "coreference",
}


def __getattr__(name: str) -> Any:
    if name in __all__:
        home = _HOME.get(name, "tables" if name.startswith("load_") else "simple")
        return getattr(import_module(f"scdp.paper.{home}"), name)
    raise AttributeError(f"module 'scdp.paper' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
