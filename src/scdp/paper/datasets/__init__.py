"""Loaders of the original data sets, and where their files come from."""

from __future__ import annotations

from scdp.paper.datasets.coreference import load_ace, load_coreference
from scdp.paper.datasets.tables import (
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
