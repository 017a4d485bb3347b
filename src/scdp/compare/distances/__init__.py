"""Distances between records, feature by feature: what every model on distances consumes (MODEL section 7)."""

from __future__ import annotations

from scdp.compare.distances.compute import SquaredToOrigin, compute_distances, squared_to_origin
from scdp.compare.distances.layout import PairLayout, memory_bytes
from scdp.compare.distances.storage import Distances

__all__ = [
    "Distances",
    "PairLayout",
    "SquaredToOrigin",
    "compute_distances",
    "memory_bytes",
    "squared_to_origin",
]
