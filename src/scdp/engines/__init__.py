"""Engines: where the components of many records are sampled, in processes of this machine or on a cluster."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scdp.engines.local import LocalEngine
    from scdp.engines.spark import SparkEngine

__all__ = ["LocalEngine", "SparkEngine"]

# Processes, kernels and Spark are loaded on first use.
_HOME = {"LocalEngine": "local", "SparkEngine": "spark"}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"scdp.engines.{_HOME[name]}"), name)
    raise AttributeError(f"module 'scdp.engines' has no attribute {name!r}")
