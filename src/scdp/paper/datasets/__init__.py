"""Loaders of the original data sets, and where their files come from."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scdp.paper.datasets.ace import load_ace
    from scdp.paper.datasets.coreference import load_coreference
    from scdp.paper.datasets.digits import load_digits_task, load_usps
    from scdp.paper.datasets.identity import load_identity, load_identity_full
    from scdp.paper.datasets.linkage import (
        load_fake_1000,
        load_febrl3,
        load_historical,
        load_records,
        load_restaurant,
        load_rldata500,
    )
    from scdp.paper.datasets.references import load_cora, load_references

__all__ = [
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
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"scdp.paper.datasets.{_HOME[name]}"), name)
    raise AttributeError(f"module 'scdp.paper.datasets' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
