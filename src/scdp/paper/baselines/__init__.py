"""The baselines, all with one surface: `fit(X, y, groups)`, `predict(X, groups)` and `fit_predict`."""

from __future__ import annotations

from scdp.paper.baselines.binary import Binary, ModernBinary
from scdp.paper.baselines.simple import RCA, Coarse, DPMixture, Fine, NameMatch, OracleKMeans, SameHead
from scdp.paper.baselines.structured import ClusterSVM, GraphPartition
from scdp.paper.baselines.surface import Baseline
from scdp.paper.baselines.xing_k import XingK

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
