"""Shared test rules: a data set that is not there is a skip, or a failure where SCDP_REQUIRE_DATA is set."""

from __future__ import annotations

import os

# Test processes run side by side, one a core: threads of libraries on top of that would wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from scdp.errors import DataNotFoundError


@contextmanager
def _data_or_skip() -> Iterator[None]:
    try:
        yield
    except DataNotFoundError as error:
        if os.environ.get("SCDP_REQUIRE_DATA"):
            raise
        pytest.skip(f"data set not on this machine: {error}")


@pytest.fixture
def data_or_skip():
    """Use as `with data_or_skip(): load_...()`; never fetches from the network."""
    return _data_or_skip
