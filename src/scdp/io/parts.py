"""Stored parts of a model: words and arrays enter by name; those that belong there leave, and others are refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp.errors import InputError

PlainParts = dict[str, Any]


def part(parts: Mapping[str, Any], name: str) -> Any:
    """A stored part that must be there."""
    if name not in parts:
        raise InputError(f"{name!r} is missing")
    return parts[name]


def array_part(
    arrays: Mapping[str, NDArray[Any]], name: str, shape: tuple[int | None, ...], kinds: str = "f"
) -> NDArray[Any]:
    """A stored array of the given shape (None = any length) and kind of numbers."""
    array: NDArray[Any] = part(arrays, name)
    fits = len(shape) == array.ndim and all(
        wanted in (None, length) for wanted, length in zip(shape, array.shape, strict=True)
    )
    if not fits:
        wanted = ", ".join("any" if length is None else str(length) for length in shape)
        raise InputError(f"{name!r} has shape {array.shape}, and it should be ({wanted})")
    if array.dtype.kind not in kinds:
        raise InputError(f"{name!r} holds {array.dtype}, which is not what belongs there")
    if array.dtype.kind == "f" and not np.isfinite(array).all() and "nan" not in kinds:
        raise InputError(f"{name!r} holds a number that is not finite")
    return array
