"""The opponents, all with one surface: `fit(X, y, groups)`, `predict(X, groups)` and `fit_predict`."""

from __future__ import annotations

from scdp.paper.binary import Binary, ModernBinary
from scdp.paper.simple import RCA, Coarse, DPMixture, Fine, NameMatch, OracleKMeans, SameHead
from scdp.paper.structured import ClusterSVM, GraphPartition
from scdp.paper.surface import Baseline
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
]
