"""Data sets: loaders of the original files, the embedded generator, and the two shapes all of them return."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from scdp.datasets.task import Labelled, Task

if TYPE_CHECKING:
    from scdp.datasets.ace import load_ace
    from scdp.datasets.coreference import load_coreference
    from scdp.datasets.digits import load_digits_task, load_usps
    from scdp.datasets.generate import make_records
    from scdp.datasets.identity import load_identity, load_identity_full
    from scdp.datasets.linkage import (
        load_fake_1000,
        load_febrl3,
        load_historical,
        load_records,
        load_restaurant,
        load_rldata500,
    )
    from scdp.datasets.references import load_cora, load_references

__all__ = [
    "Labelled",
    "Task",
    "load_ace",
    "load_coreference",
    "load_cora",
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
    "make_records",
]

# Loaded on first use: the command line lists data sets without reading the loaders.
_HOME = {
    "load_ace": "ace",
    "load_coreference": "coreference",
    "load_cora": "references",
    "load_digits_task": "digits",
    "load_fake_1000": "linkage",
    "load_febrl3": "linkage",
    "load_historical": "linkage",
    "load_identity": "identity",
    "load_identity_full": "identity",
    "load_records": "linkage",
    "load_references": "references",
    "load_restaurant": "linkage",
    "load_rldata500": "linkage",
    "load_usps": "digits",
    "make_records": "generate",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"scdp.datasets.{_HOME[name]}"), name)
    raise AttributeError(f"module 'scdp.datasets' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
