"""Which records are the same person, paper or thing, and how sure is that?"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["EntityResolver", "SCDP", "Spec", "compare", "datasets", "metrics", "__version__"]

if TYPE_CHECKING:
    from scdp import compare, datasets, metrics
    from scdp.chains_model import SCDP
    from scdp.resolver import EntityResolver
    from scdp.table.spec import Spec

# Loaded on first use: `import scdp` must stay cheap for the command line.
_CLASSES = {"EntityResolver": "scdp.resolver", "SCDP": "scdp.chains_model", "Spec": "scdp.table.spec"}
_MODULES = ("compare", "datasets", "metrics")


def __getattr__(name: str) -> Any:
    if name in _CLASSES:
        return getattr(import_module(_CLASSES[name]), name)
    if name in _MODULES:
        return import_module(f"scdp.{name}")
    raise AttributeError(f"module 'scdp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
