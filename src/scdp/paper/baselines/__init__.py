"""The opponents, all with one surface: `fit(X, y, groups)`, `predict(X, groups)` and `fit_predict`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from scdp.paper.baselines.surface import Baseline
from scdp.paper.baselines.trivial import Coarse, Fine, NameMatch, SameHead

if TYPE_CHECKING:
    from scdp.paper.baselines.binary import Binary
    from scdp.paper.baselines.cluster_svm import ClusterSVM
    from scdp.paper.baselines.dp_mixture import DPMixture
    from scdp.paper.baselines.graph_partition import GraphPartition
    from scdp.paper.baselines.modern_binary import ModernBinary
    from scdp.paper.baselines.oracle_k_means import OracleKMeans
    from scdp.paper.baselines.xing_k import XingK

__all__ = [
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
]

# Loaded on first use: they bring in the comparisons and, some of them, compiled kernels.
_HOME = {
    "Binary": "binary",
    "ClusterSVM": "cluster_svm",
    "DPMixture": "dp_mixture",
    "GraphPartition": "graph_partition",
    "ModernBinary": "modern_binary",
    "OracleKMeans": "oracle_k_means",
    "XingK": "xing_k",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"scdp.paper.baselines.{_HOME[name]}"), name)
    raise AttributeError(f"module 'scdp.paper.baselines' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
